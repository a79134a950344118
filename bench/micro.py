"""What `import feedline` takes, beside `import numpy` and a bare interpreter start."""
from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any

STATEMENTS = {"bare": "pass", "numpy": "import numpy", "feedline": "import feedline"}


def _with_bytecode() -> dict[str, str]:
    """The environment of a user: compiled Python files are kept between imports."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def import_times(python: Path, runs: int) -> dict[str, dict[str, Any]]:
    """Milliseconds of `python -c STATEMENT`; of an import, less the bare start.

    They take turns, so that noise falls on all alike. A first round, not counted, fills the page cache."""
    taken: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(runs + 1):
        for name, statement in STATEMENTS.items():
            start = time.perf_counter()
            subprocess.run([python, "-c", statement], check=True, env=_with_bytecode())
            taken[name].append((time.perf_counter() - start) * 1e3)
    bare = median(taken["bare"][1:])
    return {name: {"ms": median(ms[1:]) - (0 if name == "bare" else bare),
                   "spread_ms": max(ms[1:]) - min(ms[1:])} for name, ms in taken.items()}
