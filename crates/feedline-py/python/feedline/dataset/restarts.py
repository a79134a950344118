"""Notices `next(iter(ds))` in a loop, which gives the first element each time.

1. Every iterator that is opened notes the place in the program that opened it, and the dataset.
2. Where the same place opens the same dataset again, the plan tells how many elements the pass before gave.
3. Three passes in a row that were left after one element: a warning with the line. Any other number, and the
   place is no longer watched: a loop over epochs pays for one look.
"""

from __future__ import annotations

from collections import OrderedDict
from types import CodeType
from typing import TYPE_CHECKING
from weakref import ref

from .. import warnings

if TYPE_CHECKING:
    from .core import Core

__all__ = ["note"]

_MANY = 3
_PLACES = 256
"""Places that are remembered; a program has few that open iterators in a loop."""

_places: OrderedDict[tuple[CodeType, int], tuple[ref[Core], int]] = OrderedDict()
"""For each place (code, instruction): the dataset, and its passes of one element; -1 if not watched."""


def note(dataset: Core) -> None:
    """An iterator over a dataset is about to be opened."""
    frame = warnings.user_frame()
    key = (frame.f_code, frame.f_lasti)
    known, count = _places.get(key, (None, 0))
    if known is None or known() is not dataset:
        _places[key] = (ref(dataset), 0)
        if len(_places) > _PLACES:
            _places.popitem(last=False)
        return
    if count < 0:
        return
    once = dataset._plan.cardinality != 1 and _delivered(dataset) == 1
    if not once or count + 1 == _MANY:
        _places[key] = (known, -1)
    else:
        _places[key] = (known, count + 1)
    if once and count + 1 == _MANY:
        warnings.warn(
            warnings.FirstElementAgain,
            f"this line opens the dataset for the {_MANY + 1}th time and has taken one element each time: "
            "every iterator begins at the beginning. Write `it = iter(ds)` before the loop and `next(it)` in "
            "it, or `for element in ds:`; ds.peek() shows one element",
            frame,
        )


def _delivered(dataset: Core) -> int | None:
    """How many elements the last pass over it gave; None if there was none."""
    import json

    last = json.loads(dataset.explain("json")).get("pass")
    return last and last["delivered"]
