"""Indexing of symbolic values: `x[1:, ..., None, -1]`, and symbolic numbers, slices, lists and masks in it.

Constant parts go to the table's `getitem` in one step. What is symbolic or a whole array is put through as a
full slice first and then applied to its axis: a number or an array by `gather`, a mask by `boolean_mask`, a
slice with symbolic ends by `slice`. Where NumPy would pair several arrays, or bring the axes of one to the
front, the value is needed.
"""

from __future__ import annotations

from typing import Any

from . import calls, ops
from .dtypes import as_dtype, bool_
from .lazy_numpy import np
from .trace import NeedsValue

__all__ = ["get"]

_ALL = {"s": [None, None, None]}


def get(x: Any, key: Any) -> Any:
    """The part of a symbolic value that an index asks for."""
    keys = [_read(item) for item in (key if isinstance(key, tuple) else (key,))]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    _check_arrays(keys)
    static: list[Any] = []
    later: list[tuple[int, Any]] = []
    for place, item in enumerate(keys):
        if _is_static(item):
            static.append(_static(item))
        else:
            static.extend([_ALL] * _width(item))
            later.append((_axis(keys, place), item))
    # An index of nothing but full slices of leading axes changes nothing.
    if any(item != _ALL for item in static):
        x = calls.call("getitem", [x], spec=static)
    # Outermost last, whichever end an axis is counted from: so none is moved by what was applied before it.
    for axis, item in sorted(later, key=lambda pair: -abs(pair[0])):
        x = _applied(x, item, axis)
    return x


def _read(item: Any) -> Any:
    """One part of an index: lists become arrays, as NumPy makes them, or symbolic values."""
    if isinstance(item, (list, tuple, range)):
        if calls.symbolic(item):
            item = calls.constant(item)
        else:
            array = np.asarray(item)
            item = array if array.size else array.astype(np.int64)
    dtype = as_dtype(item.dtype) if hasattr(item, "dtype") else None
    if isinstance(item, bool) or (dtype == bool_ and item.ndim == 0):
        raise NeedsValue("an index that is a single truth value", "use fl.where or fl.cond")
    if dtype is not None and not (dtype.is_bool or dtype.is_integer):
        raise IndexError(f"an index must be whole numbers or truth values, not {dtype}")
    return item


def _check_arrays(keys: list[Any]) -> None:
    """Refuses arrays that NumPy does not apply axis by axis."""
    arrays = [place for place, k in enumerate(keys) if _is_array(k)]
    if len(arrays) > 1:
        raise NeedsValue("an index of several arrays", "index one axis after the other")
    # Beside an array, numbers are arrays too; with something between them the axes of both come first.
    fancy = [place for place, k in enumerate(keys) if _is_array(k) or _is_number(k)]
    if arrays and fancy[-1] - fancy[0] >= len(fancy):
        raise NeedsValue("an index of an array and a number apart from it", "index one axis after the other")


def _is_array(item: Any) -> bool:
    """Whether it is an array or a mask; a symbolic value of unknown rank may be one."""
    return hasattr(item, "dtype") and item.shape != ()


def _is_number(item: Any) -> bool:
    return isinstance(item, int) or (hasattr(item, "dtype") and item.shape == ())


def _is_static(item: Any) -> bool:
    if isinstance(item, slice):
        return not calls.symbolic(item.start, item.stop, item.step)
    return item is None or item is Ellipsis or _takes_away(item)


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
        return -sum(map(_width, keys[place:]))
    return sum(map(_width, before))


def _width(key: Any) -> int:
    """The number of axes that a part of an index has for its own, after the constant parts."""
    if _takes_away(key):
        return 0
    return key.ndim if _is_mask(key) else 1


def _takes_away(key: Any) -> bool:
    return isinstance(key, (int, np.integer))


def _is_mask(key: Any) -> bool:
    return calls.dtype_of(key) == bool_


def _applied(x: Any, item: Any, axis: int) -> Any:
    if isinstance(item, slice):
        return _sliced(x, item, axis)
    if _is_mask(item):
        return ops.boolean_mask(x, item, axis=axis)
    return ops.gather(x, item, axis=axis)


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
