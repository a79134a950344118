"""Scalars for TensorBoard: event files, which are TFRecord files of `Event` messages.

1. A thread asks the sampler every few seconds and appends one event a pipeline; nothing in a loop over data
   waits for it.
2. Records are framed by the library's own writer, into a file of their own that is then appended: TFRecord
   files can be joined, and TensorBoard reads what is there while it grows.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..writers import TFRecordWriter
from .passes import Json
from .sampler import SAMPLER

__all__ = ["TensorBoardLog", "tensorboard"]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value: bytes) -> bytes:
    """A field that has a length: text, or a message."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def event(wall_time: float, step: int, scalars: Mapping[str, float]) -> bytes:
    """An `Event` with a `Summary` of plain values, as event.proto and summary.proto number the fields."""
    values = b"".join(
        _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
        for tag, value in scalars.items()
    )
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step) + _field(5, values)


def _first(wall_time: float) -> bytes:
    """What every event file begins with: the version of the format."""
    return b"\x09" + struct.pack("<d", wall_time) + _field(3, b"brain.Event:2")


class _Steps:
    """Elements that a pipeline has delivered, in all of its passes: the x axis."""

    def __init__(self) -> None:
        self._before = 0
        self._pass: int | None = None
        self._delivered = 0

    def at(self, sample: Json) -> int:
        if sample["pass"] != self._pass:
            self._before += self._delivered
            self._pass = sample["pass"]
        self._delivered = sample["delivered"]
        return self._before + self._delivered


class TensorBoardLog:
    """What `fl.tensorboard` gives: ends with `close`, or as a context."""

    def __init__(self, logdir: str | os.PathLike[str], every: float) -> None:
        if not every > 0:
            raise ValueError(f"tensorboard: every must be positive, not {every!r}")
        folder = Path(logdir)
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        self.path = folder / f"events.out.tfevents.{now:.6f}.{socket.gethostname()}.{os.getpid()}.feedline"
        """The file that is written."""
        self._steps: dict[int, _Steps] = {}
        self._done = threading.Event()
        self._append([_first(now)])
        # What was seen before belongs to another run.
        self._number: int = SAMPLER.state(most=0)["number"]
        self._thread = threading.Thread(
            target=self._run, args=(every,), name="feedline-tensorboard", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Writes what has come since the last time, and ends. Only the first call does something."""
        if not self._done.is_set():
            self._done.set()
            self._thread.join()
            SAMPLER.look()
            self._write()

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, every: float) -> None:
        while not self._done.wait(every):
            self._write()

    def _write(self) -> None:
        state = SAMPLER.state(self._number, most=1)
        self._number = state["number"]
        events = []
        for pipeline in state["pipelines"]:
            # Numbered as they came: what a tag says must not change from run to run.
            steps = self._steps.setdefault(pipeline["id"], _Steps())
            number = list(self._steps).index(pipeline["id"]) + 1
            for sample in pipeline["samples"]:
                scalars = _scalars(f"feedline/{number}", pipeline["nodes"], sample)
                events.append(event(sample["time"], steps.at(sample), scalars))
        if events:
            self._append(events)

    def _append(self, records: Iterable[bytes]) -> None:
        with tempfile.TemporaryDirectory(prefix="feedline-") as folder:
            part = Path(folder) / "part"
            with TFRecordWriter(part) as writer:
                for record in records:
                    writer.write(record)
            with open(self.path, "ab") as file:
                file.write(part.read_bytes())


def _scalars(prefix: str, nodes: list[Json], sample: Json) -> dict[str, float]:
    """The numbers of a sample, those that are known."""
    known: dict[str, Any] = {
        "elements per second": sample["rate"],
        "ceiling": sample["ceiling"],
        "consumer waits": sample["waited"],
        "held bytes": sample["held"],
    }
    # As in explain: the source first.
    for number, (node, now) in enumerate(zip(reversed(nodes), reversed(sample["nodes"]), strict=True), 1):
        of = f"{number} {node['op']}"
        known[f"{of}/rows per second"] = now["rate"]
        known[f"{of}/busy threads"] = now["busy"]
        known[f"{of}/queue fill"] = now["fill"]
    return {f"{prefix}/{name}": float(value) for name, value in known.items() if value is not None}


def tensorboard(logdir: str | os.PathLike[str], every: float = 5.0) -> TensorBoardLog:
    """Writes rates, waits, memory and queues of all pipelines of this process for TensorBoard.

    >>> import feedline as fl
    >>> with fl.tensorboard("logs/input") as log:
    ...     for batch in fl.Dataset.range(1000).batch(10):
    ...         pass
    >>> log.path.name.startswith("events.out.tfevents")
    True

    Args:
        logdir: The folder of the run; beside that of the training, so that both are shown.
        every: Seconds between two points.
    """
    return TensorBoardLog(logdir, every)
