"""Processes that say what they are at, a line at a time, and wait for one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def begin(folder: Path, program: str, *words: str, **env: str) -> subprocess.Popen[str]:
    """A process with its program in that folder."""
    file = folder / "program.py"
    # Once: another process may be about to read it.
    if not file.exists():
        file.write_text(textwrap.dedent(program))
    return subprocess.Popen(
        [sys.executable, str(file), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )


def said(process: subprocess.Popen[str]) -> str:
    """The next line of what it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
