"""Reading an iterator into events, and matching observed failures with expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import same_cause
from .values import Json, encode

# A finite case has far fewer elements; reading stops here rather than never.
MOST_ELEMENTS = 1000
# The recorder stopped at the fourth error, because some pipelines repeat theirs for ever.
MOST_ERRORS = 4


@dataclass(frozen=True)
class Failure:
    """An exception that feedline raised, and when."""

    error: BaseException
    when: str
    step: int | None = None

    def matches(self, expected: Json) -> bool:
        """Whether this is the recorded error: the same time, the same step, the same kind of cause."""
        return (
            self.when == expected["when"]
            and self.step == expected.get("step")
            and same_cause(expected, self.error)
        )

    def describe(self) -> Json:
        """The failure as data, for the difference that a failing test prints."""
        return {"when": self.when, "step": self.step, "raised": f"{type(self.error).__name__}: {self.error}"}


def read(dataset: Iterable[Any], most: int | None = None) -> list[Any]:
    """One pass: elements and failures in order, then `end`, `more` or `stopped_observing`."""
    try:
        iterator = iter(dataset)
    except Exception as error:
        return [Failure(error, "iter")]
    return read_on(iterator, most)


def read_on(iterator: Iterator[Any], most: int | None = None) -> list[Any]:
    """What is left of an iterator, as `read` gives it."""
    events: list[Any] = []
    errors = 0
    while len(events) - errors < (MOST_ELEMENTS if most is None else most):
        event = next_event(iterator)
        events.append(event)
        if event == "end":
            return events
        if isinstance(event, Failure):
            errors += 1
            if errors == MOST_ERRORS:
                return [*events, "stopped_observing"]
    return [*events, "more"]


def next_event(iterator: Iterator[Any]) -> Any:
    """The next element in the plain form, a `Failure`, or `end`."""
    try:
        element = next(iterator)
    except StopIteration:
        return "end"
    except Exception as error:
        return Failure(error, "next")
    return encode(element)


def settle(observed: Any, expected: Json) -> Any:
    """`observed` with every failure replaced: by the expected error if they match, else by its description.

    Afterwards the two are equal exactly if the case is met.
    """
    if isinstance(observed, Failure):
        recorded = expected.get("error", expected) if isinstance(expected, dict) else {}
        return expected if "class" in recorded and observed.matches(recorded) else observed.describe()
    if isinstance(observed, list):
        others = expected if isinstance(expected, list) else []
        padded = [*others, *[None] * len(observed)]
        return [settle(item, other) for item, other in zip(observed, padded, strict=False)]
    if isinstance(observed, dict):
        others = expected if isinstance(expected, dict) else {}
        return {key: settle(item, others.get(key)) for key, item in observed.items()}
    return observed
