"""The ways in which a case uses its dataset: each gives the keys that the case's `expect` has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import feedline as fl

from . import functions
from .events import Failure, next_event, read, read_on
from .values import decode, encode

Drive = dict[str, Any]
Observed = dict[str, Any]


def observe(dataset: Any, drive: Drive) -> Observed:
    """Uses a dataset in the way of a drive and says what happened."""
    return DRIVES[drive["kind"]](dataset, drive)


def _pass(events: list[Any]) -> Observed:
    """A pass is told by its elements if it ended without an error, else by its events."""
    clean = events[-1] == "end" and not any(isinstance(event, Failure) for event in events)
    return {"elements": events[:-1]} if clean else {"events": events}


def _iterate(dataset: Any, drive: Drive) -> Observed:
    return _pass(read(dataset, drive.get("max")))


def _epochs(dataset: Any, drive: Drive) -> Observed:
    return {"epochs": [read(dataset) for _ in range(drive["count"])]}


def _past_end(dataset: Any, drive: Drive) -> Observed:
    iterator = iter(dataset)
    events = read_on(iterator)
    return {"events": events + [next_event(iterator) for _ in range(drive.get("extra", 2))]}


def _get_next_past_end(dataset: Any, drive: Drive) -> Observed:
    iterator = iter(dataset)

    def get_next() -> Any:
        try:
            element = iterator.get_next()
        except Exception as error:
            return Failure(error, "next")
        return encode(element)

    return {"events": [get_next() for _ in range(drive["count"])]}


def _partial_then_full(dataset: Any, drive: Drive) -> Observed:
    iterator = iter(dataset)
    first = [next_event(iterator) for _ in range(drive["take"])]
    del iterator
    return {"first": first, **_pass(read(dataset))}


def _two_iterators(dataset: Any, drive: Drive) -> Observed:
    iterators = [iter(dataset), iter(dataset)]
    return {"reads": [[which, next_event(iterators[which])] for which in drive["pattern"]]}


def _optional(dataset: Any, drive: Drive) -> Observed:
    iterator = iter(dataset)

    def get_next() -> Any:
        optional = iterator.get_next_as_optional()
        return {"optional": encode(optional.get_value()) if optional.has_value() else None}

    return {"optionals": [get_next() for _ in range(drive["count"])]}


def _checkpoint(dataset: Any, drive: Drive) -> Observed:
    original = iter(dataset)
    head = [next_event(original) for _ in range(drive["after"])]
    try:
        state = original.state_dict()
    except Exception as error:
        return {"error": Failure(error, "checkpoint")}
    continued = read_on(original)
    target = iter(dataset)
    for _ in range(drive.get("advance_target", 0)):
        next_event(target)
    target.load_state_dict(state)
    return {"head": head, "continued": continued, "restored": read_on(target)}


def _terminal(use: Callable[[Any, Drive], Any]) -> Callable[[Any, Drive], Observed]:
    """A drive with one answer, or the error that it raised."""

    def run(dataset: Any, drive: Drive) -> Observed:
        try:
            return {"result": use(dataset, drive)}
        except Exception as error:
            return {"error": Failure(error, "terminal")}

    return run


def _reduce(dataset: Any, drive: Drive) -> Any:
    return encode(dataset.reduce(decode(drive["initial"]), functions.reduce_function(drive["fn"])))


def _at(dataset: Any, drive: Drive) -> Any:
    return encode(fl.data.experimental.at(dataset, drive["index"]))


DRIVES: dict[str, Callable[[Any, Drive], Observed]] = {
    "at": _terminal(_at),
    "bool": _terminal(lambda dataset, drive: bool(dataset)),
    "build": lambda dataset, drive: {},
    "checkpoint": _checkpoint,
    "epochs": _epochs,
    "get_next_past_end": _get_next_past_end,
    "get_single_element": _terminal(lambda dataset, drive: encode(dataset.get_single_element())),
    "iterate": _iterate,
    "len": _terminal(lambda dataset, drive: len(dataset)),
    "optional": _optional,
    "partial_then_full": _partial_then_full,
    "past_end": _past_end,
    "reduce": _terminal(_reduce),
    "two_iterators": _two_iterators,
}
