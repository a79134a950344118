"""A dataset of the model: spec, cardinality, and a way to open its stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tree
from .streams import Events, Open
from .tree import Spec, Value

INFINITE = -1
UNKNOWN = -2


@dataclass(frozen=True)
class Data:
    """What an operator says of its result."""

    spec: Spec
    cardinality: int
    open: Open


def single(value: Value, spec: Spec) -> Data:
    """A dataset of one element."""
    return Data(spec, 1, lambda: iter([value]))


def outline(spec: Spec) -> Data:
    """A dataset that is never read: it stands in where only the spec of a result is wanted."""

    def unread() -> Events:
        raise AssertionError("an outline has no elements")

    return Data(spec, UNKNOWN, unread)


def to_json(value: Value) -> Any:
    """An element in the form of the case files (byte strings stay bytes)."""
    if isinstance(value, tuple):
        return {"t": [to_json(item) for item in value]}
    if isinstance(value, dict):
        return {"m": {key: to_json(item) for key, item in value.items()}}
    if isinstance(value, Data):
        return {"ds": [to_json(item) for item in value.open()]}
    array = np.asarray(value)
    return {"d": tree.dtype(array), "s": list(array.shape), "v": array.ravel().tolist()}
