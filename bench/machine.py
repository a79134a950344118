"""What the figures were measured on: enough to judge them by, nothing that names the machine."""
from __future__ import annotations

import os
import platform


def machine() -> dict[str, str | int | float]:
    return {"cpu": field("/proc/cpuinfo", "model name"), "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(int(field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
            "linux": platform.release().split("-")[0], "python": platform.python_version()}


def field(path: str, name: str) -> str:
    with open(path) as f:
        return next((line.partition(":")[2].strip() for line in f if line.startswith(name)), "0")
