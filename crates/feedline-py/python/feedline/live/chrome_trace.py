"""Traces for Chrome's and Perfetto's viewers: which thread worked for which operator, from when to when."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import _native
from ..errors import FailedPreconditionError

__all__ = ["chrome_trace"]


@contextmanager
def chrome_trace(path: str | os.PathLike[str], most: int = 500_000) -> Iterator[None]:
    """Records what all pipelines do inside the block, for the viewers ui.perfetto.dev and chrome://tracing.

    Every pull of a chunk and every call of a function on a chunk is a span of its worker, inside of the span
    that asked for it; `wait` on the consumer's thread is the time that the loop waited for data. The file is
    made on this machine and the viewer is yours to open: nothing is sent anywhere.

    >>> import feedline as fl
    >>> with fl.chrome_trace("trace.json"):
    ...     _ = list(fl.Dataset.range(1000).map(lambda x: x * 2).batch(10))

    Args:
        path: The file.
        most: Spans that are kept, the newest; one takes 40 bytes of memory, and 150 in the file.

    Raises:
        FailedPreconditionError: A trace is being recorded already.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
    target = Path(path)
    target.touch()
    if not _native.start_spans(most):
        raise FailedPreconditionError("a trace is being recorded already; there is one at a time")
    try:
        yield
    finally:
        recorded = _native.stop_spans()
        if recorded is not None:
            _write(target, *recorded)


def _write(path: Path, spans: list[tuple[str, int, int, int, int]], threads: list[str], lost: int) -> None:
    pid = os.getpid()
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "feedline"}},
        *(
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": {"name": name}}
            for number, name in enumerate(threads)
        ),
        *(
            {
                "ph": "X",
                "name": op,
                "cat": "wait" if op == "wait" else "operator",
                "pid": pid,
                "tid": thread,
                # Microseconds.
                "ts": start / 1000,
                "dur": length / 1000,
                **({"args": {"rows": rows}} if rows else {}),
            }
            for op, thread, rows, start, length in spans
        ),
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"lost_spans": lost}}, file)
