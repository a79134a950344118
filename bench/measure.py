"""The clock of a cell: first batch, one window thrown away as warm-up, then the windows that count. Only when these are
over is it looked at what the pipeline gives, in a pass of its own: the right answer takes memory too."""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Any

from cells import Batches, Cell
from digest import fold, shape
from proc import cpu_s, machine_cpu_s, own_cpu_s
from workloads import Workload

BLOCK_S = .01


@dataclass(frozen=True)
class Timing:
    """How many windows; each is one full pass and at least `min_s`, but never longer than about `max_s`."""

    windows: int
    min_s: float
    max_s: float


@dataclass(frozen=True)
class Window:
    batches: int
    items: int
    seconds: float
    cpu_s: float
    foreign_cores: float


def measure(workload: Workload, cell: Cell, timing: Timing, measured: Callable[[], None]) -> dict[str, Any]:
    """Calls `measured` when the memory of the process is not the pipeline's alone any more."""
    inputs = workload.inputs()
    start = time.perf_counter()
    stream = endless(cell.make(*inputs))
    first = next(stream)
    first_ms = (time.perf_counter() - start) * 1e3
    rows, batch = row_counter(first), shape(first)
    del first  # a batch of pictures that nobody needs would count as the loader's memory
    step_s = workload.step_s
    warm = window(stream, rows, workload.items, timing, 1, step_s)
    block = max(1, int(warm.batches / warm.seconds * BLOCK_S))
    windows = [window(stream, rows, workload.items, timing, block, step_s) for _ in range(timing.windows)]
    measured()
    del stream
    found = {"batch": batch, **fold(workload.digest(), endless(cell.make(*inputs)))}
    expected = {"batch": workload.batch, **fold(workload.digest(), workload.truth(*inputs))}
    return {"first_batch_ms": first_ms, "threads": cell.threads, "step_s": step_s,
            "windows": [asdict(w) for w in windows], "found": found,
            "differs": [key for key in expected if found[key] != expected[key]]}


def endless(stream: Batches) -> Iterator[Any]:
    """Pass after pass, chained in C: a generator's frame a batch would weigh on cheap batches."""
    return chain.from_iterable(passes(stream))


def passes(stream: Batches) -> Iterator[Batches]:
    while True:
        batches = iter(stream)
        yield chain(first_of(batches), batches)


def first_of(batches: Iterator[Any]) -> Iterator[Any]:
    """The first batch, which nobody holds when it was taken."""
    try:
        return iter([next(batches)])
    except StopIteration:
        raise RuntimeError("a pass gave no batch; can the cell's answer be iterated again?") from None


def window(stream: Iterator[Any], rows: Callable[[Any], int], full: int, timing: Timing,
           block: int, step_s: float) -> Window:
    """Takes batches, looking at the clock once a block, and at nothing of a batch but its shape. A consumer that takes
    its time does so after each."""
    batches = items = 0
    parent = os.getppid()
    own, watcher, machine, start = own_cpu_s(), cpu_s(parent), machine_cpu_s(), time.perf_counter()
    while True:
        for batch in islice(stream, block):
            items += rows(batch)
            if step_s:
                time.sleep(step_s)
        batches += block
        seconds = time.perf_counter() - start
        if (items >= full and seconds >= timing.min_s) or seconds >= timing.max_s:
            break
    own, watcher, machine = own_cpu_s() - own, cpu_s(parent) - watcher, machine_cpu_s() - machine
    return Window(batches, items, seconds, own, max(0.0, (machine - own - watcher) / seconds))


def row_counter(batch: Any) -> Callable[[Any], int]:
    """The cheapest way to a batch's number of rows, chosen once from the first batch."""
    if isinstance(batch, dict):
        name = next(iter(batch))
        return lambda b: b[name].shape[0]
    if isinstance(batch, (tuple, list)):
        return lambda b: b[0].shape[0]
    return lambda b: b.shape[0]
