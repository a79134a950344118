"""What a pass over a dataset was like: how fast, how fast it could be, what holds it back, what to change.

>>> import feedline as fl
>>> ds = fl.Dataset.range(100_000).map(lambda x: x * 2).batch(100)
>>> profile = ds.profile(seconds=0.2)
>>> profile.ceiling > 0 and profile.bottleneck in ("range", "map", "batch")
True
>>> profile.what_if(cores=64).gain >= 1
True
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native

if TYPE_CHECKING:
    from pathlib import Path

    from .dataset.core import Core

__all__ = ["Finding", "Profile", "Profiling", "Report", "WhatIf", "measure", "note", "profile"]

LIMITS = {
    "serial": "one thread at a time runs it",
    "calls": "num_parallel_calls or workers let no more run at once",
    "io": "it waits for files or a store",
    "lock": "Python's lock lets one function run at a time",
    "cores": "all threads are at work, mostly on it",
    "not_ahead": "nothing works ahead of the consumer",
}
"""In which way an operator holds a pipeline, in words."""


TRIAL = 0.2
"""Seconds for which a change is tried."""
WAKING = 40e3
"""Nanoseconds that a consumer's own time for an element seems to take at most because it was woken for it."""
HELD = 32e6
"""Bytes of copies of an element that are held meanwhile."""


class Finding(NamedTuple):
    """Something that can be changed."""

    cause: str
    """A word for programs, such as "python_function"."""
    at: str
    """The operator."""
    text: str
    """What is wrong."""
    change: str
    """What to write."""
    gain: float
    """How many times as fast the whole would be; 1 where nothing in the pipeline would help."""
    id: int
    """The number of the operator, for `what_if`."""

    def __str__(self) -> str:
        gain = f" [{self.gain:.1f} x]" if self.gain > 1 else ""
        return f"{self.cause}{gain}: {self.at}\n    {self.text}\n    {self.change}"


class Report(tuple[Finding, ...]):
    """Findings, the one that helps most first."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self:
            return "nothing to change was found"
        return "\n".join(f"{number}. {finding}" for number, finding in enumerate(self, 1))


class WhatIf(NamedTuple):
    """What would be if something were different, by the model."""

    gain: float
    """How many times as fast."""
    rate: float
    """Elements a second, with the same consumer."""
    ceiling: float
    """Elements a second that the pipeline could make."""
    bottleneck: str | None
    """The operator that would hold it."""
    limit: str | None
    """In which way."""

    def __repr__(self) -> str:
        held = f", held by {self.bottleneck} ({LIMITS[self.limit]})" if self.limit else ""
        return f"{self.gain:.2f} x: {self.rate:.4g} elements a second{held}"


class Profile:
    """A pass that was measured. `doctor` says what to change, `what_if` what would be gained.

    Attributes:
        rate: Elements a second that the consumer got, once it ran.
        ceiling: Elements a second that the pipeline could make on this machine.
        expected: Elements a second that the model expects with this consumer.
        headroom: How many times as many the pipeline could make as the consumer got.
        bottleneck: The operator that holds it.
        limit: In which way: "serial", "calls", "io", "lock", "cores" or "not_ahead".
        consumer_bound: Whether elements are ready before they are asked for.
    """

    def __init__(self, plan: _native.Plan) -> None:
        told = plan.diagnosis()
        if told is None:
            raise ValueError(
                "the dataset was not read yet; use ds.profile(), or read it inside of fl.profile()"
            )
        self._plan = plan
        self._told = json.loads(told)
        self._explained = json.loads(plan.explain("json"))
        ceiling = self._told["ceiling"]
        self.rate: float = ceiling["measured"]
        self.ceiling: float = ceiling["rate"]
        self.expected: float = ceiling["expected"]
        self.headroom: float | None = ceiling["headroom"]
        self.consumer_bound: bool = ceiling["consumer_bound"]
        limit = ceiling["limit"] or {"name": None, "limit": None}
        self.bottleneck: str | None = limit["name"]
        self.limit: str | None = limit["limit"]

    @property
    def seconds(self) -> float:
        """How long the pass took."""
        return self._explained["pass"]["seconds"]

    @property
    def delivered(self) -> int:
        """How many elements the consumer got."""
        return self._explained["pass"]["delivered"]

    @property
    def operators(self) -> list[dict[str, Any]]:
        """What was measured of each operator, sources first: `op`, `params`, `id` and the meters."""
        found: list[dict[str, Any]] = []

        def visit(node: dict[str, Any]) -> None:
            for part in (*node["inputs"], *node.get("inside", ())):
                visit(part)
            if node.get("meter") and not node.get("as_above"):
                found.append({"op": node["op"], "params": node["params"], "id": node["id"], **node["meter"]})

        visit(self._explained["runs"])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything, in dicts and lists that `json.dumps` takes."""
        return {**self._explained, **self._told}

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes it as an HTML file that needs nothing else, to keep or to mail."""
        from .live import report

        return report([self.to_dict()], path)

    def doctor(self) -> Report:
        """What holds it back and what to change, the change that helps most first.

        Gains are those of the model. Where a change lets more elements travel together, their cost changes
        in a way that no measurement of the present tells: such changes are tried for a moment, if no function
        in Python would have to be called for it.
        """
        return Report(
            Finding(f["cause"], f["at"], f["text"], f["change"], self._tried(f), f["id"])
            for f in self._told["findings"]
        )

    def _tried(self, finding: dict[str, Any]) -> float:
        """The gain of a change: measured where it can be, else what the model says."""
        number, cause, model = finding["id"], finding["cause"], self._told["model"]
        part = next((part for part in model["parts"] if part["id"] == number), None)
        if cause not in ("no_cache", "small_files", "small_prefetch") or part is None or not self.rate:
            return finding["gain"]
        replays = cause != "small_prefetch"
        runs = [other for other in model["parts"] if not replays or other["id"] not in part["with_inputs"]]
        slow_start = not replays and self._explained["pass"]["first_seconds"] > TRIAL
        if slow_start or any(other["locks"] or other["away"] for other in runs):
            return finding["gain"]
        try:
            # What a cache gives ends with each epoch: to begin anew is part of the cost.
            ends = cause == "no_cache" and any(other["name"] == "repeat" for other in runs)
            other = self._replayed(number, ends) if replays else self._plan.without(number)
            _measured(other, TRIAL / 4, None)
            ns = 1e9 / _measured(other, TRIAL, None).rate
        except Exception:
            # Whatever is in the way of a trial (it stands inside of a function, data that fail, too little
            # memory, nothing that comes): what was measured before still holds.
            return finding["gain"]
        if cause == "small_files":
            # What is in the files has to be read in any case.
            source = next(node for node in self.operators if node["id"] == number)
            ns += part["cost_ns"] * source["cut_ns"] / max(source["busy_ns"], 1)
        # A consumer that waits for each element begins with cold caches: what is shorter than waking says
        # nothing about how long its step takes when elements are there; the trial has a loop of its own.
        own = max(min(model["step_ns"], 2 * (model["step_ns"] - WAKING)), 0.0)
        return max(1e9 / max(ns, own) / self.rate, 1.0)

    def what_if(
        self,
        *,
        cores: float | None = None,
        cached_at: int | str | None = None,
        free: int | str | Iterable[int | str] | None = None,
        latency: float | None = None,
        parallel: int | str | Iterable[int | str] | None = None,
    ) -> WhatIf:
        """What would be if something were different, by the model that the ceiling comes from.

        Operators are given by name ("map": the last of that name) or by the number that `operators` has.

        Args:
            cores: So many threads.
            cached_at: The results of this operator are kept, and nothing before it runs.
            free: These operators cost nothing.
            latency: Reads wait for this part of the time: 0.5 is half.
            parallel: These operators run on all threads, and hold no lock.
        """
        change = {
            "cores": cores,
            "cached_at": None if cached_at is None else self._id(cached_at),
            "free": self._ids(free),
            "latency": latency,
            "parallel": self._ids(parallel),
        }
        told = json.loads(_native.what_if(json.dumps(self._told["model"]), json.dumps(change)))
        limit = told["limit"] or {"name": None, "limit": None}
        return WhatIf(told["gain"], told["expected"], told["rate"], limit["name"], limit["limit"])

    def replay(
        self, at: int | str, seconds: float = 1.0, *, step: Callable[[Any], object] | None = None
    ) -> Profile:
        """Measures what would be if all up to an operator were free: its first element again and again.

        `what_if(cached_at=at)` says the same by the model, without running anything; this one runs what
        follows, on an element as real ones are.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(100_000).map(lambda x: fl.sin(fl.cast(x, fl.float32))).batch(100)
        >>> ds.profile(seconds=0.1).replay("map", seconds=0.1).delivered > 0
        True

        Args:
            at: The operator, by name (the last of that name) or by the number that `operators` has.
            seconds: How long to read.
            step: What the consumer does with an element.

        Raises:
            ValueError: There is no such operator, or it runs inside of a function.
        """
        return _measured(self._replayed(self._id(at)), seconds, step)

    def _replayed(self, number: int, ends: bool = False) -> _native.Plan:
        size = next((part["row_bytes"] for part in self._told["model"]["parts"] if part["id"] == number), 0.0)
        return self._plan.replayed(number, max(1, int(min(1024, HELD / max(size, 1.0)) ** 0.5)), ends)

    def _ids(self, given: int | str | Iterable[int | str] | None) -> list[int]:
        if given is None:
            return []
        return [self._id(one) for one in ([given] if isinstance(given, (int, str)) else given)]

    def _id(self, given: int | str) -> int:
        known = [(node["op"], node["id"]) for node in self.operators]
        found = [number for name, number in known if given in (name, number)]
        if not found:
            names = ", ".join(dict.fromkeys(name for name, _ in known))
            raise ValueError(f"there is no operator {given!r}; there are {names}")
        return found[-1]

    def __repr__(self) -> str:
        lines = [
            f"{self.delivered} elements in {self.seconds:.2f} s: {self.rate:.4g} a second, "
            f"at best {self.ceiling:.4g} here"
        ]
        if self.consumer_bound:
            lines.append(f"the consumer is the bottleneck; input has {self.headroom or 1.0:.1f} x headroom")
        elif self.limit:
            lines.append(f"held by {self.bottleneck}: {LIMITS[self.limit]}")
        costs = {part["id"]: part["cost_ns"] for part in self._told["model"]["parts"]}
        total = sum(costs.values()) or 1.0
        for node in self.operators:
            share = costs.get(node["id"], 0.0) / total
            lines.append(f"  {share:4.0%}  {node['op']}({node['params'][:60]})  {node['rows']} rows")
        return "\n".join(lines)


class Profiling:
    """What was read between two points of a program: what `fl.profile()` gives."""

    def __init__(self) -> None:
        self._plans: list[_native.Plan] = []
        self.profiles: list[Profile] = []
        """Of each dataset that was read, the one that gave most elements first."""

    def __enter__(self) -> Profiling:
        _open.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _open.remove(self)
        made = [Profile(plan) for plan in self._plans]
        self.profiles = sorted(made, key=lambda profile: -profile.seconds)

    @property
    def profile(self) -> Profile:
        """Of the dataset that was read for longest.

        Raises:
            ValueError: None was read.
        """
        if not self.profiles:
            raise ValueError("no dataset was read inside of `with fl.profile()`, or it has not ended yet")
        return self.profiles[0]

    def doctor(self) -> Report:
        """What holds that one back and what to change."""
        return self.profile.doctor()

    def to_dict(self) -> dict[str, Any]:
        """All profiles, in dicts and lists that `json.dumps` takes."""
        return {"profiles": [profile.to_dict() for profile in self.profiles]}

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.profiles)) or "nothing was read"


_open: list[Profiling] = []


def profile() -> Profiling:
    """Measures the datasets that are read inside of a `with` statement: around real training.

    >>> import feedline as fl
    >>> with fl.profile() as p:
    ...     for batch in fl.Dataset.range(1000).batch(10):
    ...         pass
    >>> p.profile.delivered
    100
    """
    return Profiling()


def note(plan: _native.Plan) -> None:
    """A pass over a plan begins."""
    for session in _open:
        if not any(known is plan for known in session._plans):
            session._plans.append(plan)


def measure(dataset: Core, seconds: float, step: Callable[[Any], object] | None = None) -> Profile:
    """Reads a dataset for some time, again and again if it ends: the profile of the longest pass."""
    return _measured(dataset._plan, seconds, step)


def _measured(plan: _native.Plan, seconds: float, step: Callable[[Any], object] | None) -> Profile:
    if not seconds > 0:
        raise ValueError(f"profile: seconds must be positive, not {seconds!r}")
    end = time.perf_counter() + seconds
    best: Profile | None = None
    while best is None or time.perf_counter() < end:
        _read(plan.iter(), end, step)
        made = Profile(plan)
        if best is None or made.delivered >= best.delivered:
            best = made
        if not made.delivered:
            break
    return best


def _read(iterator: Iterator[Any], end: float, step: Callable[[Any], object] | None) -> None:
    try:
        for element in iterator:
            if step is not None:
                step(element)
            if time.perf_counter() >= end:
                break
    finally:
        iterator.close()  # type: ignore[attr-defined]
