"""What the tests of behaviour share: programs that run in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

# A shell starts programs in the background with Ctrl-C ignored, and their children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

LIMIT = 10.0
"""Seconds after which a program counts as hanging. None of them needs more than two."""

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Runs a program in a fresh process and gives its result; one that hangs is a failure."""

    def run(source: str, *, env: dict[str, str] | None = None, code: int = 0, clean: bool = True):
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(source))
        variables = {key: value for key, value in os.environ.items() if not key.startswith("FEEDLINE_")}
        try:
            done = subprocess.run(
                [sys.executable, str(file)],
                env={**variables, **(env or {})},
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"the program hangs; it wrote {late.stdout!r} and {late.stderr!r}") from None
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        if clean:
            assert done.stderr == ""
        return done

    return run
