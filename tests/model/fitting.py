"""Which step may follow which dataset, so that random pipelines are ones a user could write and finish."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from . import model, tree
from .data import INFINITE, Data
from .streams import FAILED

Step = list[Any]
Steps = list[Step]


def well_formed(steps: Steps) -> bool:
    """Whether every step fits the dataset before it, in the inputs of `zip` too."""
    data = None
    for step in steps:
        if step[0] == "zip" and not all(well_formed(inputs) for inputs in step[1]["datasets"]["t"]):
            return False
        if data is not None and not fits(step, data):
            return False
        data = model.extend(data, [step])
    return True


def fits(step: Step, data: Data) -> bool:
    """Whether a step may follow a dataset."""
    op, params = step
    if data.cardinality == INFINITE:  # what filters an endless stream may never give anything
        return op == "take"
    if op == "repeat" and "count" not in params:
        return with_elements(data)
    if "ds" in data.spec or _takes_window(params):
        return "ds" in data.spec and _takes_window(params)
    if op == "map" and params["fn"] in PAIR_FUNCTIONS:
        return of_pairs(data)
    return REQUIRES.get(op, always)(data)


def _takes_window(params: dict[str, Any]) -> bool:
    fn = params.get("fn")
    return isinstance(fn, dict) and fn["fn"] == "win_pipeline"


def always(data: Data) -> bool:
    """Fits any dataset."""
    return True


def of_scalars(data: Data) -> bool:
    """Fits integer scalars."""
    return data.spec == tree.INT64


def of_pairs(data: Data) -> bool:
    """Fits pairs of integer scalars."""
    return data.spec == {"t": [tree.INT64, tree.INT64]}


def of_rows(data: Data) -> bool:
    """Fits elements with a first axis in every component."""
    return all(spec["s"] for spec in tree.spec_leaves(data.spec))


def of_single_components(data: Data) -> bool:
    """Fits elements without structure."""
    return "d" in data.spec


def with_elements(data: Data) -> bool:
    """Fits where a pass gives something: repeating only failures would never get anywhere."""
    return any(event is not FAILED for event in itertools.islice(data.open(), model.MOST_ELEMENTS))


PAIR_FUNCTIONS = ("swap", "sum_components", {"fn": "item", "index": 1})

# Operator -> what it asks of its input; the others take anything.
REQUIRES: dict[str, Callable[[Data], bool]] = {
    "concatenate": of_scalars,
    "filter": of_scalars,
    "flat_map": of_scalars,
    "group_by_window": of_scalars,
    "interleave": of_scalars,
    "map": of_scalars,
    "rebatch": of_rows,
    "scan": of_scalars,
    "take_while": of_scalars,
    "unbatch": of_rows,
    "unique": of_single_components,
    "window": of_single_components,
}
