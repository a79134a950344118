"""`fl.math`: the functions on numbers, under the names of `tf.math`."""

from __future__ import annotations

from typing import Any

from . import ops
from .lazy_numpy import np
from .ops import (
    abs,
    acos,
    acosh,
    add,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    cos,
    cosh,
    cumprod,
    cumsum,
    divide,
    equal,
    erf,
    exp,
    expm1,
    floor,
    floordiv,
    greater,
    greater_equal,
    hypot,
    is_finite,
    is_inf,
    is_nan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    pow,
    reciprocal,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_variance,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    softplus,
    sqrt,
    square,
    squared_difference,
    subtract,
    tan,
    tanh,
    truediv,
    trunc,
    xlogy,
)

floormod = mod

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bincount",
    "ceil",
    "cos",
    "cosh",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "divide",
    "divide_no_nan",
    "equal",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floordiv",
    "floormod",
    "greater",
    "greater_equal",
    "hypot",
    "is_finite",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "pow",
    "reciprocal",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "truediv",
    "trunc",
    "xlogy",
]  # fmt: skip


def count_nonzero(
    input: Any, axis: Any = None, keepdims: bool = False, dtype: Any = "int64", name: str | None = None
) -> Any:
    """How many items are not zero."""
    return reduce_sum(ops.cast(ops.as_bool(input), dtype), axis, keepdims)


def divide_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotient, and 0 where the divisor is 0."""
    zero = equal(y, 0)
    return ops.where(zero, ops.zeros_like(truediv(x, y)), truediv(x, ops.where(zero, ops.ones_like(y), y)))


def softmax(logits: Any, axis: int = -1, name: str | None = None) -> Any:
    """Exponentials that sum up to one along an axis."""
    logits = ops.identity(logits)
    shifted = exp(logits - reduce_max(logits, axis, True))
    return shifted / reduce_sum(shifted, axis, True)


def bincount(arr: Any, minlength: int | None = None, dtype: Any = "int32", name: str | None = None) -> Any:
    """How often each number below `minlength` occurs, which must be given inside a function."""
    if minlength is None:
        if ops.symbolic(arr):
            raise ValueError("bincount inside a function needs minlength, the number of different values")
        minlength = int(np.max(arr, initial=-1)) + 1
    hot = ops.one_hot(ops.reshape(arr, [-1]), minlength, dtype=dtype)
    return reduce_sum(hot, 0)
