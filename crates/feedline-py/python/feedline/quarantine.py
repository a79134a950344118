"""Elements that failed and were put aside: what they are, and what a dataset makes of them now.

>>> import feedline as fl
>>> ds = fl.Dataset.range(4).map(lambda x: fl.debugging.assert_less(x, 3))
>>> list(ds.with_options(on_error="quarantine", quarantine="bad").as_numpy_iterator())
[np.int64(0), np.int64(1), np.int64(2)]
>>> [one] = fl.quarantined("bad")
>>> one.operator, one.position, one.input
('map', 3, [np.int64(3)])
>>> fixed = fl.Dataset.range(4).map(lambda x: fl.debugging.assert_less(x, 9))
>>> [again] = fl.retry("bad", fixed)
>>> again.ok, again.value
(True, np.int64(3))
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["Quarantined", "Retried", "quarantined", "retry"]


@dataclass(frozen=True)
class Quarantined:
    """An element that failed, with its origin as far as it is known.

    Attributes:
        reason: The message of the error.
        kind: What kind of error it was: "data", "loss", "io", "function" or "range".
        operator: The operator that failed.
        number: Its place in the plan as it ran, sources first; None inside a function.
        epoch: The number of the pass.
        position: The place of the element in the stream that it came from.
        file: The file that it was read from.
        record: The number of the record in the file.
        byte: Where the record begins in the file.
        raw: What the operator could not treat, if that is one string, such as a record of a file.
        input: What the operator could not treat, component by component.
    """

    reason: str
    kind: str
    operator: str
    number: int | None
    epoch: int
    position: int | None
    file: str | None
    record: int | None
    byte: int | None
    raw: bytes | None
    input: list[Any] | None


@dataclass(frozen=True)
class Retried:
    """What became of a quarantined element.

    Attributes:
        entry: The element.
        ok: Whether it did not fail again. None if it could not be tried; `note` says why.
        value: What the operators made of it; None if it failed, or if a filter takes it out.
        error: What it failed with.
        note: What else there is to say.
    """

    entry: Quarantined
    ok: bool | None
    value: Any = None
    error: Exception | None = None
    note: str = ""


def quarantined(folder: str | os.PathLike[str]) -> list[Quarantined]:
    """All elements that were put aside in a folder, in the order in which they failed, each once.

    Args:
        folder: What the option `quarantine` was.
    """
    return [Quarantined(**entry) for entry in _native.quarantined(os.fspath(folder))]


def retry(folder: str | os.PathLike[str], dataset: Dataset) -> list[Retried]:
    """Treats all elements in a folder again, with a dataset that does the same, or does it better.

    Each goes through the operator that failed, in its place in the plan, and those behind it, as long as they
    are `map` and `filter`; random functions draw what they drew. Nothing is written: the files stay until you
    remove them.

    Args:
        folder: What the option `quarantine` was.
        dataset: The dataset that quarantined them, or the same one with other functions.
    """
    tried = []
    for entry, how, value in _native.retry(os.fspath(folder), dataset._plan):
        one = Quarantined(**entry)
        if how == "made":
            tried.append(Retried(one, True, value))
        elif how == "filtered":
            tried.append(Retried(one, True, note="a filter takes it out"))
        elif how == "failed":
            tried.append(Retried(one, False, error=value))
        else:
            tried.append(Retried(one, None, note=value))
    return tried
