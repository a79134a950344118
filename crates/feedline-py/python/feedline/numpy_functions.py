"""NumPy's own functions on symbolic values: what `__array_ufunc__` and `__array_function__` do.

A function that is not listed here needs the value, so a function that calls it runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from . import calls, ops
from .dtypes import as_dtype
from .trace import NeedsValue

__all__ = ["function", "ufunc"]


def _as_float(x: Any) -> Any:
    """Whole numbers as the floats that NumPy computes in."""
    dtype = x.dtype
    return x if dtype.is_floating else ops.cast(x, np.result_type(dtype.dtype, np.float16))


def _reciprocal(x: Any) -> Any:
    if not x.dtype.is_floating:
        _refused("reciprocal of whole numbers")
    return ops.reciprocal(x)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "absolute": ops.abs,
    "add": ops.add,
    "arccos": ops.acos,
    "arccosh": ops.acosh,
    "arcsin": ops.asin,
    "arcsinh": ops.asinh,
    "arctan": ops.atan,
    "arctan2": ops.atan2,
    "arctanh": ops.atanh,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "ceil": ops.ceil,
    "conjugate": ops.identity,
    "cos": ops.cos,
    "cosh": ops.cosh,
    "deg2rad": lambda x: ops.multiply(x, np.pi / 180.0),
    "divide": ops.truediv,
    "equal": ops.equal,
    "exp": ops.exp,
    "expm1": ops.expm1,
    "fabs": lambda x: ops.abs(_as_float(x)),
    "floor": ops.floor,
    "floor_divide": ops.floordiv,
    "greater": ops.greater,
    "greater_equal": ops.greater_equal,
    "hypot": ops.hypot,
    "invert": lambda x: ~x,
    "isfinite": ops.is_finite,
    "isinf": ops.is_inf,
    "isnan": ops.is_nan,
    "left_shift": lambda a, b: calls.binary("left_shift", a, b),
    "less": ops.less,
    "less_equal": ops.less_equal,
    "log": ops.log,
    "log10": ops.log10,
    "log1p": ops.log1p,
    "log2": ops.log2,
    "logical_and": lambda a, b: ops.logical_and(ops.as_bool(a), ops.as_bool(b)),
    "logical_not": lambda x: ops.logical_not(ops.as_bool(x)),
    "logical_or": lambda a, b: ops.logical_or(ops.as_bool(a), ops.as_bool(b)),
    "logical_xor": lambda a, b: ops.logical_xor(ops.as_bool(a), ops.as_bool(b)),
    "matmul": ops.matmul,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "multiply": ops.multiply,
    "negative": ops.negative,
    "not_equal": ops.not_equal,
    "positive": ops.identity,
    "power": ops.pow,
    "rad2deg": lambda x: ops.multiply(x, 180.0 / np.pi),
    "reciprocal": _reciprocal,
    "remainder": ops.mod,
    "right_shift": lambda a, b: calls.binary("right_shift", a, b),
    "rint": lambda x: ops.round(_as_float(x)),
    "sign": ops.sign,
    "sin": ops.sin,
    "sinh": ops.sinh,
    "sqrt": ops.sqrt,
    "square": ops.square,
    "subtract": ops.subtract,
    "tan": ops.tan,
    "tanh": ops.tanh,
    "trunc": ops.trunc,
}

_UFUNC_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": ops.reduce_sum,
    "logical_and": ops.reduce_all,
    "logical_or": ops.reduce_any,
    "maximum": ops.reduce_max,
    "minimum": ops.reduce_min,
    "multiply": ops.reduce_prod,
}


# The functions whose results are truth values, whatever they compute in.
_TRUTHS = {
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal",
}  # fmt: skip


def _converted(value: Any, dtype: Any) -> Any:
    return value.astype(dtype) if calls.dtype_of(value) is not None else np.asarray(value, dtype)


def _refused(name: str) -> NoReturn:
    raise NeedsValue(f"np.{name}", "there is no recorded form of it; see fl. for functions that have one")


def ufunc(which: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of NumPy's item-by-item functions."""
    name = which.__name__
    dtype = kwargs.pop("dtype", None)
    if kwargs.pop("out", None) is not None:
        raise NeedsValue(f"np.{name} with out=", "symbolic values never change; use the result")
    if method == "__call__" and name in _UFUNCS and not kwargs:
        if dtype is not None and name not in _TRUTHS:
            inputs = tuple(_converted(value, dtype) for value in inputs)
        result = _UFUNCS[name](*inputs)
    elif method == "reduce" and name in _UFUNC_REDUCTIONS and set(kwargs) <= {"axis", "keepdims"}:
        over = inputs[0]
        if name in ("add", "multiply"):
            over, dtype = over._widened(dtype), None
        result = _UFUNC_REDUCTIONS[name](over, kwargs.get("axis", 0), kwargs.get("keepdims", False))
    else:
        _refused(name if method == "__call__" else f"{name}.{method}")
    return result if dtype is None else ops.cast(result, dtype)


def _method(name: str) -> Callable[..., Any]:
    """A function whose first argument has a method of the same name and parameters."""
    return lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs)


def _concatenate(arrays: Any, axis: int | None = 0) -> Any:
    if axis is None:
        return ops.concat([ops.reshape(array, [-1]) for array in arrays], 0)
    return ops.concat(list(arrays), axis)


def _stack(arrays: Any, axis: int = 0) -> Any:
    return ops.stack(list(arrays), axis)


def _joined(axis: int, rank: int) -> Callable[[Any], Any]:
    """hstack, vstack and dstack: arrays of too few axes get some first."""

    def join(tup: Any) -> Any:
        return ops.concat([_at_least(array, rank) for array in tup], axis)

    return join


def _at_least(x: Any, rank: int) -> Any:
    while np.ndim(x) < rank:
        x = ops.expand_dims(x, 0 if np.ndim(x) < 2 else -1)
    return x


def _hstack(tup: Any) -> Any:
    arrays = [_at_least(array, 1) for array in tup]
    return ops.concat(arrays, 0 if np.ndim(arrays[0]) == 1 else 1)


def _where(condition: Any, *xy: Any) -> Any:
    if not xy:
        _refused("where with one argument")
    return ops.where(ops.as_bool(condition), *xy)


def _expand_dims(a: Any, axis: Any) -> Any:
    if not isinstance(axis, (tuple, list)):
        return ops.expand_dims(a, axis)
    # The places are those in the result.
    rank = a.ndim + len(axis)
    places = {place + rank if place < 0 else place for place in axis}
    if len(places) < len(axis):
        raise ValueError(f"np.expand_dims: the axes {tuple(axis)} name one twice")
    for place in sorted(places):
        a = ops.expand_dims(a, place)
    return a


def _pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    modes = {"constant": "CONSTANT", "reflect": "REFLECT", "symmetric": "SYMMETRIC"}
    if mode not in modes or calls.symbolic(pad_width):
        _refused(f"pad with mode={mode!r}")
    if calls.symbolic(constant_values) or np.ndim(constant_values) != 0:
        _refused("pad with several constant_values")
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2))
    return ops.pad(array, widths.tolist(), modes[mode], constant_values)


def _full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    kind = as_dtype(dtype or a.dtype)
    onto = ops.logical_or if kind.is_bool else ops.add
    return onto(ops.zeros_like(a, dtype), calls.literal(fill_value, kind))


def _flip(m: Any, axis: Any = None) -> Any:
    return ops.reverse(m, list(range(m.ndim)) if axis is None else axis)


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return ops.reshape(_roll(ops.reshape(a, [-1]), shift, 0), ops.shape(a))
    if calls.symbolic(shift):
        _refused("roll by a symbolic number")
    shifts, axes = np.broadcast_arrays(shift, axis)
    return ops.roll(a, shifts.ravel().tolist(), axes.ravel().tolist())


def _tile(a: Any, reps: Any) -> Any:
    reps = list(reps) if isinstance(reps, (list, tuple)) or np.ndim(reps) else [reps]
    while len(reps) < a.ndim:
        reps.insert(0, 1)
    return ops.tile(_at_least_leading(a, len(reps)), reps)


def _at_least_leading(x: Any, rank: int) -> Any:
    while x.ndim < rank:
        x = ops.expand_dims(x, 0)
    return x


def _sort(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None) -> Any:
    return ops.sort(ops.reshape(a, [-1]), 0) if axis is None else ops.sort(a, axis)


def _argsort(a: Any, axis: int | None = -1, kind: Any = None, stable: Any = None) -> Any:
    places = ops.argsort(ops.reshape(a, [-1]), 0) if axis is None else ops.argsort(a, axis)
    return ops.cast(places, "int64")


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    if isinstance(indices_or_sections, (int, np.integer)):
        return ops.split(ary, indices_or_sections, axis)
    before = (slice(None),) * axis if axis >= 0 else (Ellipsis,)
    after = () if axis >= 0 else (slice(None),) * (-1 - axis)
    ends = [None, *indices_or_sections, None]
    return [ary[(*before, slice(a, b), *after)] for a, b in pairwise(ends)]


def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    def places(axis: Any) -> list[int]:
        return [p % a.ndim for p in (axis if isinstance(axis, (tuple, list)) else [axis])]

    order = [axis for axis in range(a.ndim) if axis not in places(source)]
    for target, origin in sorted(zip(places(destination), places(source), strict=True)):
        order.insert(target, origin)
    return ops.transpose(a, order)


def _shape(a: Any) -> Any:
    shape = a.shape
    if shape is None or None in shape:
        _refused("shape of a tensor of unknown shape")
    return shape


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "all": _method("all"),
    "amax": _method("max"),
    "amin": _method("min"),
    "any": _method("any"),
    "argmax": _method("argmax"),
    "argmin": _method("argmin"),
    "argsort": _argsort,
    "around": _method("round"),
    "broadcast_to": ops.broadcast_to,
    "clip": lambda a, a_min=None, a_max=None, *, min=None, max=None: ops.clip(
        a, min if a_min is None else a_min, max if a_max is None else a_max
    ),
    "concatenate": _concatenate,
    "copy": lambda a: a,
    "cumprod": _method("cumprod"),
    "cumsum": _method("cumsum"),
    "dot": ops.dot,
    "dstack": _joined(2, 3),
    "expand_dims": _expand_dims,
    "flip": _flip,
    "fliplr": lambda m: _flip(m, 1),
    "flipud": lambda m: _flip(m, 0),
    "full_like": _full_like,
    "hstack": _hstack,
    "max": _method("max"),
    "mean": _method("mean"),
    "min": _method("min"),
    "moveaxis": _moveaxis,
    "ndim": lambda a: a.ndim,
    "ones_like": lambda a, dtype=None: ops.ones_like(a, dtype),
    "pad": _pad,
    "prod": _method("prod"),
    "ravel": _method("ravel"),
    "repeat": ops.repeat,
    "reshape": lambda a, shape: ops.reshape(a, shape),
    "roll": _roll,
    "round": _method("round"),
    "round_": _method("round"),
    "shape": _shape,
    "size": lambda a: a.size,
    "sort": _sort,
    "split": _split,
    "squeeze": _method("squeeze"),
    "stack": _stack,
    "std": _method("std"),
    "sum": _method("sum"),
    "swapaxes": _method("swapaxes"),
    "take": _method("take"),
    "tile": _tile,
    "transpose": lambda a, axes=None: ops.transpose(a, axes),
    "var": _method("var"),
    "vstack": _joined(0, 2),
    "where": _where,
    "zeros_like": lambda a, dtype=None: ops.zeros_like(a, dtype),
}


def function(which: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of NumPy's other functions."""
    name = which.__name__
    mapped = _FUNCTIONS.get(name)
    if mapped is None or kwargs.get("out") is not None:
        _refused(name)
    given = {key: value for key, value in kwargs.items() if not _is_default(key, value)}
    try:
        return mapped(*args, **given)
    except NeedsValue:
        raise
    except TypeError as error:
        if "unexpected keyword argument" in str(error) or "positional argument" in str(error):
            _refused(f"{name} with these arguments")
        raise


def _is_default(key: str, value: Any) -> bool:
    """Whether a keyword only repeats NumPy's default."""
    return value is np._NoValue or (key in ("out", "dtype", "casting", "order", "mode") and value is None)  # type: ignore[attr-defined]
