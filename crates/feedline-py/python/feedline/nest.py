"""Structures: nested tuples, dicts, NamedTuples and dataclasses around leaves.

The public functions follow `tf.nest`: a list is structure too. Inside feedline a list is data in most places
(one tensor), so the functions take `lists=False` there. Mappings keep their order and match by key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_dataclass(value: Any) -> bool:
    """Whether it is an instance of a dataclass."""
    return hasattr(type(value), "__dataclass_fields__")


def is_namedtuple(value: Any) -> bool:
    """Whether it is a tuple with named fields."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_nested(value: Any, *, lists: bool = True) -> bool:
    """Whether a value is structure rather than a leaf."""
    return isinstance(value, (tuple, Mapping)) or (lists and isinstance(value, list)) or is_dataclass(value)


def keys(value: Any) -> list[Any]:
    """The keys, field names or places of a structure's parts, in order."""
    if isinstance(value, Mapping):
        return list(value)
    if is_dataclass(value):
        return list(type(value).__dataclass_fields__)
    return list(range(len(value)))


def part(value: Any, key: Any) -> Any:
    """The part of a structure under one of its `keys`."""
    return getattr(value, key) if is_dataclass(value) else value[key]


def rebuilt(value: Any, parts: Sequence[Any]) -> Any:
    """A structure of the same kind with other parts."""
    if isinstance(value, Mapping):
        return dict(zip(value, parts, strict=True))
    if is_dataclass(value):
        return type(value)(**dict(zip(keys(value), parts, strict=True)))
    if is_namedtuple(value):
        return type(value)(*parts)
    return list(parts) if isinstance(value, list) else tuple(parts)


def flatten(structure: Any, *, lists: bool = True) -> list[Any]:
    """The leaves of a structure, from left to right.

    >>> flatten({"a": 1, "b": (2, [3, 4])})
    [1, 2, 3, 4]
    """
    if not is_nested(structure, lists=lists):
        return [structure]
    found: list[Any] = []
    for key in keys(structure):
        found.extend(flatten(part(structure, key), lists=lists))
    return found


def map_structure(function: Callable[..., Any], *structures: Any, lists: bool = True) -> Any:
    """Calls a function on the matching leaves of equal structures; gives a structure of the results.

    >>> map_structure(lambda a, b: a + b, (1, {"x": 2}), (10, {"x": 20}))
    (11, {'x': 22})
    """
    first = structures[0]
    for other in structures[1:]:
        assert_same_structure(first, other, lists=lists)
    return _map(function, structures, lists)


def _map(function: Callable[..., Any], structures: Sequence[Any], lists: bool) -> Any:
    first = structures[0]
    if not is_nested(first, lists=lists):
        return function(*structures)
    return rebuilt(first, [_map(function, [part(s, key) for s in structures], lists) for key in keys(first)])


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any], *, lists: bool = True) -> Any:
    """A structure like the given one, with leaves taken from a list.

    >>> pack_sequence_as((0, {"x": 0}), [1, 2])
    (1, {'x': 2})
    """
    count = len(flatten(structure, lists=lists))
    if count != len(flat_sequence):
        raise ValueError(f"the structure has {count} leaves, but {len(flat_sequence)} values were given")
    values = iter(flat_sequence)
    return _map(lambda _: next(values), [structure], lists)


def assert_same_structure(a: Any, b: Any, *, lists: bool = True) -> None:
    """Raises ValueError (or TypeError for different kinds) unless two structures match."""
    nested = is_nested(a, lists=lists)
    if nested != is_nested(b, lists=lists):
        raise ValueError(f"the structures do not match: {a!r} and {b!r}")
    if not nested:
        return
    if isinstance(a, Mapping) != isinstance(b, Mapping) or isinstance(a, list) != isinstance(b, list):
        raise TypeError(f"the structures do not match: {type(a).__name__} and {type(b).__name__}")
    if set(keys(a)) != set(keys(b)):
        raise ValueError(f"the structures do not match: parts {keys(a)} and {keys(b)}")
    for key in keys(a):
        assert_same_structure(part(a, key), part(b, key), lists=lists)
