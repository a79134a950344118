"""One pipeline in a process of its own: what it takes of memory, and what comes out. Prints JSON.

    python child.py NAME LIMIT FOLDER

The folder has the files of `written.write`. bench/memory.py runs the same, beside tf.data.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import of_arrays
import of_functions
import of_pictures
import of_records
import of_tables
import of_workers
from registry import PIPELINES

THEMES = (of_records, of_tables, of_pictures, of_arrays, of_functions, of_workers)
"""Their pipelines have entered themselves."""

SMALL_LIMITS = {
    "numbers_shuffled": 32 << 20,
    "short_strings_kept": 16 << 20,
    "arrays_in_turns_shuffled": 16 << 20,
    **{name: 16 << 20 for name in PIPELINES if name.startswith(("short_ragged", "short_rows_shuffled"))},
    "straggler_in_front": 16 << 20,
    "shuffled_parts": 16 << 20,
    "uneven_in_large_groups": 48 << 20,
    "shuffled_parts_in_turns": 32 << 20,
    "shuffled_parts_of_batches": 16 << 20,
    **{name: 16 << 20 for name in PIPELINES if name.startswith("few_rows")},
    **{name: 32 << 20 for name in PIPELINES if name.startswith("few_large_in_batches")},
}
"""Limits of their own, lower than that of the others."""

WIDE = {
    *(name for name in PIPELINES if name.startswith(("pictures_beside", "pictures_of"))),
    "large_pictures",
    "large_pictures_made_small",
    "unpacked",
    "rows_that_grow",
    "rare_large_rows",
    "progressive_pictures",
    "bitmaps",
    "pictures_in_python",
    "made_in_python",
    "generated",
    "lists_by_number",
    *(
        name
        for name in PIPELINES
        if name.startswith(("interleaved_large", "interleaved_arrays", "too_many_arrays"))
    ),
    *SMALL_LIMITS,
    "straggler_in_front_natively",
    "dense_rows_that_grow",
    "dense_rows_that_grow_for_a_while",
}
"""Run with more workers than small machines have: what each of them takes adds up."""
WIDE_WORKERS = 4


def status(key: str) -> int:
    """A number of bytes from /proc/self/status."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def shared() -> int:
    """Bytes of the memory that this process and its workers share, whether or not it is mapped here."""
    pieces = {}
    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    for pid in ["self", *(pid for some in children for pid in some)]:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if os.readlink(fd).startswith("/memfd:feedline"):
                    found = os.stat(fd)
                    pieces[found.st_ino] = 512 * found.st_blocks
    return sum(pieces.values())


class Watch(threading.Thread):
    """Looks again and again at what is taken: what workers have written counts, mapped here or not."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.003):
            self.peak = max(self.peak, status("VmRSS:") - status("RssShmem:") + shared())


def consumed(ds: fl.Dataset, stops: bool) -> Iterator[Any]:
    """The elements. A consumer that stops reads some, sleeps, and goes on."""
    for i, element in enumerate(ds):
        yield element
        if stops and i == 3:
            time.sleep(1.5)


def main(name: str, limit: str, folder: str) -> None:
    """Runs it, and says what it took."""
    stops = name.endswith("_stopped")
    ds = PIPELINES[name.removesuffix("_stopped")](Path(folder)).with_options(memory_limit=limit)
    if name in WIDE:
        fl.configure(cpu_budget=WIDE_WORKERS)
    # Threads, modules and the C library's arenas are there before it is measured.
    sum(1 for _ in fl.Dataset.range(1000).map(lambda x: fl.fill([1000], x)).batch(10))
    Path("/proc/self/clear_refs").write_text("5")
    idle = status("VmRSS:")
    # Whoever takes far more than the limit gets no memory, and dies of it. Address space counts that nobody
    # uses: each thread's arena in the C library (64 MB, now and then), and the ends of blocks.
    arenas = WIDE_WORKERS * (64 << 20) if name in WIDE else 0
    most = status("VmData:") + 3 * int(limit) + arenas
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    watch = Watch()
    if name.startswith("workers_"):
        watch.start()
    elements = total = largest = 0
    error = ""
    try:
        for element in consumed(ds, stops):
            values = element.flat_values if isinstance(element, fl.RaggedTensor) else element
            elements += len(values) if values.ndim else 1
            total += int(values.reshape(-1)[:: max(1, values.size // 16)].sum())
            largest = max(largest, values.nbytes)
    except MemoryError as raised:
        error = str(raised)
    watch.ended.set()
    peak = max(status("VmHWM:"), watch.peak) - idle
    found = {"peak": peak, "largest": largest, "elements": elements, "total": total, "error": error}
    print(json.dumps({**found, "explain": ds.explain()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
