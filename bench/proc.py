"""Readings from /proc: the members of a process tree, its CPU time and memory, and the machine's CPU time."""
from __future__ import annotations

import os
import time
from collections.abc import Iterator

# What a cell prints when its windows are over: whoever watches counts its memory until then.
MEASURED = "measured"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[int]:
    """The process and its descendants, children first."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as f:
                for child in f.read().split():
                    yield from tree(int(child))
    except OSError:
        return
    yield pid


def pss_bytes(pid: int) -> int:
    """Proportional set size of a tree: pages that forked workers share count once."""
    return sum(_pss_bytes(p) for p in set(tree(pid)))


def _pss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def status(key: str) -> int:
    """A number of bytes from /proc/self/status."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def own_cpu_s() -> float:
    """CPU seconds of this process, exact, and of its descendants, in ticks."""
    me, times = os.getpid(), os.times()
    below = sum(cpu_s(p) for p in set(tree(me)) - {me})
    return time.process_time() + times.children_user + times.children_system + below


def cpu_s(pid: int) -> float:
    """CPU seconds of one process and of those of its children that have ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return sum(map(int, f.read().rpartition(")")[2].split()[11:15])) * TICK_S
    except OSError:
        return 0.0


def machine_cpu_s() -> float:
    """CPU seconds of the whole machine, those that a hypervisor gave to others included."""
    with open("/proc/stat") as f:
        fields = list(map(int, f.readline().split()[1:9]))
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) * TICK_S
