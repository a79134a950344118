"""Indexing of symbolic values: `x[1:, ..., None, -1]`, and symbolic numbers, slices, lists and masks in it.

Constant parts go to the table's `getitem` in one step. What is symbolic or a whole array is put through as a
full slice first and then applied to its axis: a number or an array by `gather`, a mask by `boolean_mask`, a
slice with symbolic ends by `slice`.
"""

from __future__ import annotations

from typing import Any

from . import calls, ops
from .lazy_numpy import np
from .trace import NeedsValue

__all__ = ["get"]

_ALL = {"s": [None, None, None]}


def get(x: Any, key: Any) -> Any:
    """The part of a symbolic value that an index asks for."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    static: list[Any] = []
    later: list[tuple[int, Any]] = []
    for place, item in enumerate(keys):
        if _is_static(item):
            static.append(_static(item))
        else:
            static.append(_ALL)
            later.append((_axis(keys, place), item))
    # An index of nothing but full slices of leading axes changes nothing.
    if any(item != _ALL for item in static):
        x = calls.call("getitem", [x], spec=static)
    # From the last axis to the first, so that axes that vanish do not move the others.
    for axis, item in sorted(later, key=lambda pair: (pair[0] < 0, pair[0]), reverse=True):
        x = _applied(x, item, axis)
    return x


def _is_static(item: Any) -> bool:
    if isinstance(item, slice):
        return not calls.symbolic(item.start, item.stop, item.step)
    if item is None or item is Ellipsis:
        return True
    if isinstance(item, (bool, np.bool_)):
        raise IndexError("an index cannot be a single truth value; use fl.where or fl.cond")
    return isinstance(item, (int, np.integer))


def _static(item: Any) -> Any:
    if item is None:
        return "new"
    if item is Ellipsis:
        return "ellipsis"
    if isinstance(item, slice):
        return {"s": [_number(item.start), _number(item.stop), _number(item.step)]}
    return {"i": int(item)}


def _number(value: Any) -> int | None:
    return None if value is None else value.__index__()


def _axis(keys: list[Any], place: int) -> int:
    """The axis that an index applies to, after the constant numbers have taken theirs away."""
    before = keys[:place]
    if any(k is Ellipsis for k in before):
        after = keys[place + 1 :]
        return -1 - sum(not _takes_away(k) for k in after)
    return sum(not _takes_away(k) for k in before)


def _takes_away(key: Any) -> bool:
    return isinstance(key, (int, np.integer))


def _applied(x: Any, item: Any, axis: int) -> Any:
    if isinstance(item, slice):
        return _sliced(x, item, axis)
    dtype = calls.dtype_of(item)
    if dtype is not None and dtype.is_bool:
        return ops.boolean_mask(x, item, axis=axis)
    if isinstance(item, (list, tuple)) and item and all(isinstance(i, bool) for i in item):
        return ops.boolean_mask(x, np.asarray(item), axis=axis)
    if dtype is not None and not dtype.is_integer:
        raise IndexError(f"an index must be whole numbers or truth values, not {dtype}")
    return ops.gather(x, _from_the_end(x, item, axis), axis=axis)


def _from_the_end(x: Any, item: Any, axis: int) -> Any:
    """Negative places count from the end, as in Python."""
    if not calls.symbolic(item):
        places = np.asarray(item)
        if (places >= 0).all():
            return item
        item = places
    size = calls.call("cast", [_size(x, axis)], dtype=calls.dtype_of(item))
    return ops.where(item < 0, item + size, item)


def _size(x: Any, axis: int) -> Any:
    return ops.shape(x)[axis]


def _sliced(x: Any, item: slice, axis: int) -> Any:
    if item.step not in (None, 1):
        raise NeedsValue("a slice with a step and a symbolic end", "cut it in two steps: x[:n][::2]")
    rank = x.ndim
    axis %= rank
    size = ops.cast(_size(x, axis), "int64")
    start = _end(item.start, 0, size)
    stop = ops.maximum(_end(item.stop, size, size), start)
    begin = [start if a == axis else 0 for a in range(rank)]
    length = [stop - start if a == axis else -1 for a in range(rank)]
    return ops.slice(x, begin, length)


def _end(value: Any, default: Any, size: Any) -> Any:
    """One end of a slice as Python reads it: negative from the end, never outside."""
    if value is None:
        return ops.cast(default, "int64")
    value = ops.cast(value, "int64")
    return ops.clip(ops.where(value < 0, value + size, value), ops.cast(0, "int64"), size)
