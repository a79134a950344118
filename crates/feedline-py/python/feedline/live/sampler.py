"""Looks at all passes now and then, and remembers.

1. The thread runs only while somebody looks: from the first question on, until none came for a while. It can
   be told to stay.
2. Passes over one dataset belong together: a *pipeline*, whose history goes on from epoch to epoch.
3. Samples carry a number. Whoever asks says up to which number it has them, and gets those behind it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque

from .. import _native
from .passes import Json, Track, left_out, name_of, process, shape, told

__all__ = ["SAMPLER", "Sampler"]

EVERY = 0.5
"""Seconds between two looks."""
IDLE = 60.0
"""Seconds without a question after which the thread ends."""
SAMPLES = 600
"""Samples that are remembered of a pipeline: five minutes."""
PIPELINES = 8
"""Pipelines that are remembered, the newest, of those that run and as many of those that have ended."""
MESSAGES = 50
"""Errors and warnings that are remembered."""


class _Pipeline:
    """A dataset that is being read: its passes one after the other."""

    def __init__(self, reading: Json) -> None:
        self.name = name_of(reading)
        self.rules = [f"{rule['rule']}: {rule['on']}" for rule in reading["rules"]]
        self.samples: deque[Json] = deque(maxlen=SAMPLES)
        self.passes = 0
        self.reading: Json | None = None
        self.shape: list[Json] = []
        self.epoch = 0
        """Counts the shapes: a pass with other options may run other operators."""
        self.alive = True
        self.track = Track()

    @property
    def begun(self) -> int:
        """The number of its newest pass: the higher, the later it began."""
        return self.reading["id"] if self.reading else -1

    def add(self, reading: Json, number: int) -> None:
        before = self.reading
        if before is None or before["id"] != reading["id"]:
            self.passes += 1
            self.track = Track()
            new = shape(reading)
            if new != self.shape:
                self.shape, self.epoch = new, number
        elif before["pass"]["ended"]:
            return
        self.reading = reading
        self.samples.append({"number": number, **self.track.sample(reading)})

    def told(self, since: int, most: int) -> Json:
        new = [s for s in self.samples if s["number"] > max(since, self.epoch - 1)]
        return {
            "name": self.name,
            "rules": self.rules,
            "passes": self.passes,
            "alive": self.alive,
            "nodes": self.shape,
            "left_out": left_out(self.reading) if self.reading else [],
            "samples": new[len(new) - most :] if most < len(new) else new,
        }


class _Messages(logging.Handler):
    """Keeps the newest warnings and errors of feedline's loggers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kept: deque[Json] = deque(maxlen=MESSAGES)

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append({"time": record.created, "from": record.name, "text": record.getMessage()})
        # Where a program has no handlers, logging shows warnings itself, unless it finds one: us.
        others = [*logging.getLogger("feedline").handlers, *logging.root.handlers]
        if others == [self] and logging.lastResort is not None:
            logging.lastResort.handle(record)


class Sampler:
    """Samples of all pipelines of this process."""

    def __init__(self) -> None:
        self._messages = _Messages()
        self.forget()
        if hasattr(os, "register_at_fork"):
            # The child has neither the thread nor the passes.
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begins anew, as if nobody had looked yet."""
        logging.getLogger("feedline").removeHandler(self._messages)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stay = False
        self._asked = 0.0
        self._number = 0
        self._pipelines: dict[int, _Pipeline] = {}
        self._errors: dict[tuple[int, float, str], Json] = {}
        self._messages = _Messages()

    def start(self, stay: bool = False) -> None:
        """Somebody looks; `stay`: also when nobody has asked for long."""
        with self._lock:
            self._asked = time.monotonic()
            self._stay = self._stay or stay
            if self._thread is None:
                logging.getLogger("feedline").addHandler(self._messages)
                self._look()
                self._thread = threading.Thread(target=self._run, name="feedline-sampler", daemon=True)
                self._thread.start()

    def state(self, since: int = -1, most: int = SAMPLES) -> Json:
        """All that is known, with samples behind that number, the newest `most` of each pipeline."""
        self.start()
        return self.told(since, most)

    def told(self, since: int = -1, most: int = SAMPLES) -> Json:
        """The same for somebody who looks himself."""
        with self._lock:
            errors = sorted([*self._errors.values(), *self._messages.kept.copy()], key=lambda e: e["time"])
            return {
                "number": self._number,
                "process": process(),
                "pipelines": [{"id": key, **p.told(since, most)} for key, p in self._pipelines.items()],
                "errors": errors[-MESSAGES:],
            }

    def look(self) -> None:
        """Looks now, in between."""
        with self._lock:
            self._look()

    def _run(self) -> None:
        while True:
            time.sleep(EVERY)
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                if not self._stay and time.monotonic() - self._asked > IDLE:
                    logging.getLogger("feedline").removeHandler(self._messages)
                    self._thread = None
                    return
                self._look()

    def _look(self) -> None:
        """Reads all passes. Of several over one dataset the newest that runs is shown."""
        self._number += 1
        newest: dict[int, Json] = {}
        for one in _native.passes():
            reading = told(one)
            for moment, text in reading["errors"]:
                error = {"time": moment, "from": name_of(reading), "text": text}
                self._errors.setdefault((one.id, moment, text), error)
            other = newest.get(one.pipeline)
            if other is None or other["pass"]["ended"] or not reading["pass"]["ended"]:
                newest[one.pipeline] = reading
        while len(self._errors) > MESSAGES:
            del self._errors[next(iter(self._errors))]
        for key, pipeline in self._pipelines.items():
            pipeline.alive = key in newest
        # Those whose passes are newest are remembered: of those that run, and of those that have ended.
        running = sorted(newest, key=lambda key: newest[key]["id"])[-PIPELINES:]
        ended = [key for key, pipeline in self._pipelines.items() if not pipeline.alive]
        latest = sorted(ended, key=lambda key: self._pipelines[key].begun)[-PIPELINES:] + running
        known = [key for key in self._pipelines if key in latest]
        new = [key for key in latest if key not in self._pipelines]
        self._pipelines = {key: self._pipelines.get(key) or _Pipeline(newest[key]) for key in known + new}
        for key in newest.keys() & self._pipelines.keys():
            self._pipelines[key].add(newest[key], self._number)


SAMPLER = Sampler()
"""The one of this process."""
