"""Starts a cell in a fresh process, samples the memory of its tree from outside, and ends what it started."""
from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from debian import environment
from proc import pss_bytes

HERE = Path(__file__).parent
SAMPLE_S = .2


def run_cell(python: Path, loader: str, workload: str, variant: str, options: list[str],
             limit_s: float) -> dict[str, Any]:
    """The cell's result with `peak_bytes` added, or a result that has only `error`."""
    logs = HERE / "logs"
    logs.mkdir(exist_ok=True)
    log = logs / (re.sub(r"[^A-Za-z0-9]+", "-", f"{workload}-{loader}-{variant}") + ".txt")
    command = [str(python), str(HERE / "cell.py"), loader, workload, variant, *options]
    with open(log, "w+") as out, open(log.with_suffix(".err.txt"), "w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=HERE, start_new_session=True,
                                   env=environment(python))
        try:
            peak = watch(process, limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # whatever workers it left behind
            process.wait()
        out.seek(0), err.seek(0)
        answers = [line for line in out if line.startswith("{")]
        complaint = [line.strip() for line in err if line.strip()][-1:]
    if not answers:
        why = f"exit {process.returncode}" if peak is not None else f"no result in {limit_s:.0f} s"
        return {"error": ": ".join([why, *complaint])[:200]}
    return json.loads(answers[-1]) | {"peak_bytes": peak}


def watch(process: subprocess.Popen, limit_s: float) -> int | None:
    """The highest memory seen until the process ends, or None if it is still running at the limit."""
    peak, end = 0, time.monotonic() + limit_s
    while time.monotonic() < end:
        peak = max(peak, pss_bytes(process.pid))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SAMPLE_S)
            return peak
    return None
