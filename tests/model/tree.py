"""Elements and specs of the model.

A leaf is a NumPy array (strings are object arrays of bytes); tuples and dicts are structure. A spec has the
same structure in the form of the case files: `{"d", "s"}` for a leaf, `{"t"}`, `{"m"}`, `{"ds"}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Value = Any
Spec = dict[str, Any]

INT64: Spec = {"d": "int64", "s": []}


def leaf(value: int) -> np.ndarray:
    """A scalar leaf."""
    return np.array(value, "int64")


def map_leaves(function: Callable[..., Any], *values: Value) -> Value:
    """Applies a function to the corresponding leaves of structures of one kind."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(map_leaves(function, *items) for items in zip(*values, strict=True))
    if isinstance(first, dict):
        return {key: map_leaves(function, *(value[key] for value in values)) for key in first}
    return function(*values)


def leaves(value: Value) -> Iterator[Any]:
    """The leaves of a structure, in order."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def map_spec(function: Callable[..., Spec], *specs: Spec) -> Spec:
    """Applies a function to the corresponding leaf specs of specs of one structure."""
    match specs[0]:
        case {"t": _}:
            columns = zip(*(spec["t"] for spec in specs), strict=True)
            return {"t": [map_spec(function, *parts) for parts in columns]}
        case {"m": items}:
            return {"m": {key: map_spec(function, *(spec["m"][key] for spec in specs)) for key in items}}
    return function(*specs)


def spec_leaves(spec: Spec) -> Iterator[Spec]:
    """The leaf specs of a spec, in order."""
    match spec:
        case {"t": items}:
            for item in items:
                yield from spec_leaves(item)
        case {"m": items}:
            for item in items.values():
                yield from spec_leaves(item)
        case _:
            yield spec


def stacked(spec: Spec, size: int | None) -> Spec:
    """The spec of `size` elements stacked on a new first axis."""
    return map_spec(lambda s: {"d": s["d"], "s": [size, *s["s"]]}, spec)


def row(spec: Spec) -> Spec:
    """The spec of one row of the first axis."""
    return map_spec(lambda s: {"d": s["d"], "s": s["s"][1:]}, spec)


def weakened(spec: Spec, other: Spec) -> Spec:
    """The most specific spec that covers both: a dimension in which they differ is unknown."""

    def join(a: Spec, b: Spec) -> Spec:
        if len(a["s"]) != len(b["s"]):
            return {"d": a["d"], "s": None}
        return {"d": a["d"], "s": [x if x == y else None for x, y in zip(a["s"], b["s"], strict=True)]}

    return map_spec(join, spec, other)


def spec_of(value: Value) -> Spec:
    """The spec of one constant value."""
    if isinstance(value, tuple):
        return {"t": [spec_of(item) for item in value]}
    if isinstance(value, dict):
        return {"m": {key: spec_of(item) for key, item in value.items()}}
    return {"d": dtype(value), "s": list(value.shape)}


def from_json(json: Any) -> Value:
    """A constant of the case files; `{"py"}` and exotic leaves are not for the model."""
    match json:
        case {"t": items}:
            return tuple(from_json(item) for item in items)
        case {"m": items}:
            return {key: from_json(item) for key, item in items.items()}
        case {"d": "int64" | "int32" as name, "s": shape, "v": values}:
            return np.array(values, name).reshape(shape)
    raise KeyError(f"not modelled: {json!r}")


def dtype(array: Any) -> str:
    """The name of an array's dtype in the case files."""
    return "string" if array.dtype == object else array.dtype.name
