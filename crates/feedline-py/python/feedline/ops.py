"""Functions on tensors, under TensorFlow's names. They work on symbolic values inside a traced function, and
on NumPy arrays and Python numbers at once.

>>> import feedline as fl
>>> fl.reduce_sum(fl.constant([1, 2, 3]))
np.int32(6)
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from . import calls, nest, trace
from .calls import aligned, as_tensor, binary, call, constant, dtype_of, symbolic
from .dtypes import as_dtype, bool_, float32, int32, int64
from .lazy_numpy import np
from .spec import as_shape

__all__ = [
    "abs", "acos", "add", "argmax", "argmin", "argsort", "asin", "atan", "atan2", "bitcast",
    "boolean_mask", "broadcast_to", "cast", "ceil", "clip", "clip_by_value", "concat", "cond", "constant",
    "cos", "cosh", "cumsum", "divide", "ensure_shape", "equal", "exp", "expand_dims", "eye", "fill",
    "floor", "gather", "greater", "greater_equal", "identity", "less", "less_equal", "linspace", "log",
    "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "maximum", "minimum", "multiply",
    "negative", "not_equal", "one_hot", "ones", "ones_like", "pad", "pow", "range", "rank", "reduce_all",
    "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
    "reduce_std", "reduce_sum", "reduce_variance", "relu", "repeat", "reshape", "reverse", "roll",
    "round", "saturate_cast", "searchsorted", "shape", "sigmoid", "sign", "sin", "sinh", "size", "slice",
    "sort", "split", "sqrt", "square", "squeeze", "stack", "subtract", "tan", "tanh", "tile", "transpose",
    "truediv", "unique_values", "unstack", "where", "zeros", "zeros_like",
]  # fmt: skip


def _sizes(shape: Any) -> list[int]:
    """A constant shape as a list of sizes, with -1 for an unknown one."""
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    sizes = as_shape(shape)
    if sizes is None:
        raise ValueError(
            "the shape is not known; give it as a list, or take it from another tensor: fl.shape(x)"
        )
    return [-1 if size is None else size for size in sizes]


def _sizes_tensor(sizes: Any) -> Any:
    """Sizes as a tensor: a symbolic one as it is, lists (also of symbolic numbers) as int64."""
    if not symbolic(sizes):
        return np.asarray(sizes, np.int64)
    return [_sizes_tensor(size) for size in sizes] if isinstance(sizes, (list, tuple)) else cast(sizes, int64)


def _shaped(name: str, args: list[Any], shape: Any, **attrs: Any) -> Any:
    """A function that takes a shape: as an attribute where it is constant, so that the result's is known."""
    if symbolic(shape):
        return call(name, [_sizes_tensor(shape), *args], **attrs)
    return call(name, args, shape=_sizes(shape), **attrs)


# Types and shapes.


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts the items to another dtype; floats that become integers lose their fraction."""
    dtype = as_dtype(dtype)
    if not symbolic(x) and dtype_of(x) is None:
        x = constant(x)
    elif isinstance(x, trace.Traced) and x.dtype == dtype:  # type: ignore[attr-defined]
        return x
    return call("cast", [x], dtype=dtype)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts the items to another dtype; what does not fit becomes its smallest or largest value."""
    return call("saturate_cast", [as_tensor(value)], dtype=as_dtype(dtype))


def bitcast(input: Any, type: Any, name: str | None = None) -> Any:
    """The same bytes read as another dtype."""
    return call("bitcast", [as_tensor(input)], dtype=as_dtype(type))


def as_bool(x: Any) -> Any:
    """Truth values: numbers that are not zero, or bools as they are."""
    return x if dtype_of(x) == bool_ else binary("not_equal", x, 0)


def shape(input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    """The shape as a vector: a constant where it is known, else symbolic."""
    known = getattr(input, "shape", None) if symbolic(input) else np.shape(input)
    if known is not None and None not in known and not hasattr(input, "ragged_rank"):
        return np.asarray(known, as_dtype(out_type).dtype)
    return call("shape", [input], out_type=as_dtype(out_type))


def size(input: Any, out_type: Any = int32, name: str | None = None) -> Any:
    """The number of items."""
    return call("size", [input], out_type=as_dtype(out_type))


def rank(input: Any, name: str | None = None) -> Any:
    """The number of axes."""
    return call("rank", [input])


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """The same items in another shape; one size may be -1 (or None) and follows from the others.

    >>> import feedline as fl
    >>> fl.reshape(fl.range(6), [2, -1]).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    if symbolic(shape):
        return call("reshape", [tensor, _sizes_tensor(shape)])
    return call("reshape", [tensor], shape=_sizes(shape))


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Any:
    """The tensor itself, with its shape stated; a value that does not fit is an error."""
    told = as_shape(shape)
    return call("ensure_shape", [x], shape=None if told is None else list(told))


def expand_dims(input: Any, axis: int = 0, name: str | None = None) -> Any:
    """With one more axis of size 1."""
    return call("expand_dims", [input], axis=axis)


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Any:
    """Without axes of size 1: the given ones, or all."""
    return call("squeeze", [input], axis=axis)


def transpose(a: Any, perm: Any = None, name: str | None = None) -> Any:
    """The axes in another order: reversed if `perm` is not given."""
    return call("transpose", [a], perm=None if perm is None else list(perm))


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """The tensor repeated along axes of size 1 to the given shape."""
    input = as_tensor(input)
    if symbolic(shape):
        return call("broadcast_to", [input, _sizes_tensor(shape)])
    return call("broadcast_to", [input], shape=_sizes(shape))


def identity(input: Any, name: str | None = None) -> Any:
    """The tensor itself."""
    return input if symbolic(input) else constant(input)


# Making tensors.


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of the given shape with one value everywhere.

    >>> import feedline as fl
    >>> fl.fill([2], 7).tolist()
    [7, 7]
    """
    value = as_tensor(value)
    return _shaped("fill", [value], dims)


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of zeros (empty strings, False)."""
    return _shaped("zeros", [], shape, dtype=as_dtype(dtype))


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of ones."""
    return _shaped("ones", [], shape, dtype=as_dtype(dtype))


def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros in the shape of another tensor."""
    return call("zeros_like", [as_tensor(input)], dtype=None if dtype is None else as_dtype(dtype))


def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Ones in the shape of another tensor."""
    return call("ones_like", [as_tensor(input)], dtype=None if dtype is None else as_dtype(dtype))


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None) -> Any:
    """Numbers from `start` (0 if only one is given) up to, but without, `limit`.

    >>> import feedline as fl
    >>> fl.range(3).tolist(), fl.range(2, 8, 3).tolist()
    ([0, 1, 2], [2, 5])
    """
    if limit is None:
        start, limit = 0, start
    return call("range", aligned(start, limit, delta), dtype=None if dtype is None else as_dtype(dtype))


def linspace(start: Any, stop: Any, num: int, name: str | None = None) -> Any:
    """Evenly spaced numbers from `start` to `stop`, both included."""
    return call("linspace", aligned(start, stop), num=num)


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = float32, name: str | None = None) -> Any:
    """A matrix with ones on the diagonal."""
    return call("eye", [], num_rows=num_rows, num_columns=num_columns, dtype=as_dtype(dtype))


def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """For each number a vector of `depth` with a one at that place; all zero for a number outside.

    >>> import feedline as fl
    >>> fl.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    given = [value for value in (on_value, off_value) if value is not None]
    if dtype is None:
        dtype = (dtype_of(given) or calls.common_dtype(given) or float32) if given else float32
    indices, dtype = as_tensor(indices), as_dtype(dtype)
    return call(
        "one_hot",
        [indices],
        depth=depth,
        on_value=calls.item("one_hot", on_value, dtype),
        off_value=calls.item("one_hot", off_value, dtype),
        axis=-1 if axis is None else axis,
        dtype=dtype,
    )


# Choosing.


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Items of `x` where the condition holds, else of `y`. With the condition alone: the places where it
    holds.

    >>> import feedline as fl
    >>> fl.where(fl.constant([True, False]), 1, 2).tolist()
    [1, 2]
    """
    if (x is None) != (y is None):
        raise ValueError("fl.where takes x and y together, or neither")
    condition = as_tensor(condition)
    if x is None:
        return call("nonzero", [condition])
    x, y = aligned(x, y)
    return call("where", [condition, x, y])


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None = None) -> Any:
    """What one of two functions returns, chosen by a bool scalar. Both must return the same structure and
    dtypes.

    >>> import feedline as fl
    >>> ds = fl.Dataset.range(3).map(lambda x: fl.cond(x > 1, lambda: x * 10, lambda: x))
    >>> list(ds.as_numpy_iterator())
    [np.int64(0), np.int64(1), np.int64(20)]
    """
    if not symbolic(pred):
        return true_fn() if builtins.bool(pred) else false_fn()
    from .function import branches

    return branches(pred, true_fn, false_fn)


def clip(t: Any, min: Any = None, max: Any = None, name: str | None = None) -> Any:
    """The items, none below `min` or above `max`; None is no bound."""
    if min is None and max is None:
        return t
    if max is None:
        return maximum(t, min)
    if min is None:
        return minimum(t, max)
    return call("clip", aligned(t, min, max))


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """The items, none below or above the given values."""
    return clip(t, clip_value_min, clip_value_max)


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """The slices of `params` along an axis at the given places.

    >>> import feedline as fl
    >>> fl.gather([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    params, indices = (as_tensor(x) for x in (params, indices))
    return call("gather", [params, indices], axis=batch_dims if axis is None else axis, batch_dims=batch_dims)


def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str | None = None) -> Any:
    """The items (or slices along `axis`) where the mask is true."""
    tensor, mask = (as_tensor(x) for x in (tensor, mask))
    return call("boolean_mask", [tensor, mask], axis=axis or None)


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """A block of a tensor: where it begins on each axis, and how long it is there (-1: to the end)."""
    return call("slice", [as_tensor(input_), _sizes_tensor(begin), _sizes_tensor(size)])


# Joining and cutting.


def concat(values: Any, axis: int, name: str | None = None) -> Any:
    """Tensors one after another along an axis that they have."""
    if not isinstance(values, (list, tuple)):
        return values
    return call("concat", [as_tensor(value) for value in aligned(*values)], axis=axis)


def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Tensors side by side along a new axis."""
    if not isinstance(values, (list, tuple)):
        values = unstack(values)
    return call("stack", [as_tensor(value) for value in aligned(*values)], axis=axis)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = None) -> list[Any]:
    """The slices along an axis, without that axis. Its size must be known, or given as `num`."""
    if num is None:
        num = _static_size(value, axis, "unstack")
    else:
        value = _of_size(value, num, axis, f"unstack: num is {num}")
    return [gather(value, np.int32(place), axis=axis) for place in builtins.range(num)]


def split(
    value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str | None = None
) -> list[Any]:
    """Pieces along an axis: a number of equal ones, or ones of the given sizes (one may be -1).

    Sizes that do not add up to the size of the axis are refused.
    """
    if isinstance(num_or_size_splits, (int, np.integer)):
        count = int(num_or_size_splits)
        if count < 1:
            raise ValueError(f"split: the number of pieces must be at least 1, not {count}")
        return [call("split_at", [value], axis=axis, num=count, index=i) for i in builtins.range(count)]
    sizes = [int(size) for size in num_or_size_splits]
    if -1 in sizes:
        rest = sizes.index(-1)
        sizes[rest] = 0
        sizes[rest] = _static_size(value, axis, "split") - sum(sizes)
    told = f"split: the sizes are {[int(size) for size in num_or_size_splits]}"
    if any(size < 0 for size in sizes):
        raise ValueError(f"{told}; they must not be negative, but for one -1 that stands for the rest")
    value = _of_size(value, sum(sizes), axis, told)
    ends = np.cumsum([0, *sizes]).tolist()
    before: list[Any] = [{"s": [None, None, None]}] * axis if axis >= 0 else ["ellipsis"]
    after: list[Any] = [] if axis >= 0 else [{"s": [None, None, None]}] * (-1 - axis)
    pieces = pairwise(ends)
    return [call("getitem", [value], spec=[*before, {"s": [a, b, None]}, *after]) for a, b in pieces]


def _known_size(value: Any, axis: int, who: str) -> int | None:
    known = value.shape if isinstance(value, trace.Traced) else np.shape(value)  # type: ignore[attr-defined]
    if known is None:
        return None
    if not -len(known) <= axis < len(known):
        raise ValueError(f"{who}: there is no axis {axis} in a tensor of {len(known)} axes")
    return known[axis]


def _static_size(value: Any, axis: int, who: str) -> int:
    known = _known_size(value, axis, who)
    if known is None:
        raise ValueError(
            f"{who}: the size of axis {axis} must be known; give `num`, or state it with fl.ensure_shape"
        )
    return known


def _of_size(value: Any, size: int, axis: int, told: str) -> Any:
    """The value; refused if its axis has another size, or an error later where that is not known yet."""
    known = _known_size(value, axis, told.partition(":")[0])
    if known == size:
        return value
    message = f"{told}, but the size of axis {axis} is not {size}"
    if known is not None:
        raise ValueError(f"{message}: it is {known}")
    return call("ensure", [value, equal(shape(value)[axis], size)], message=message)


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Any:
    """With items added before and after on each axis.

    Args:
        tensor: The tensor.
        paddings: For each axis how many items before and after.
        mode: CONSTANT, REFLECT (the edge is not repeated) or SYMMETRIC (it is).
        constant_values: The item to add in mode CONSTANT.
        name: Not used.
    """
    tensor = as_tensor(tensor)
    item = None if constant_values == 0 else calls.item("pad", constant_values, dtype_of(tensor))
    how = {"mode": mode.upper(), "constant_value": item}
    if symbolic(paddings):
        return call("pad", [tensor, _sizes_tensor(paddings)], **how)
    return call("pad", [tensor], paddings=np.asarray(paddings).tolist(), **how)


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:
    """The tensor repeated as a whole along each axis."""
    if symbolic(multiples):
        return call("tile", [input, _sizes_tensor(multiples)])
    return call("tile", [as_tensor(input)], multiples=np.asarray(multiples).tolist())


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Any:
    """Every item (or slice along `axis`) several times."""
    input = as_tensor(input)
    if axis is None:
        input, axis = reshape(input, [-1]), 0
    if symbolic(repeats):
        return call("repeat", [input, repeats], axis=axis)
    return call("repeat", [input], repeats=np.asarray(repeats).tolist(), axis=axis)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """The order along the given axes turned round."""
    return call("reverse", [as_tensor(tensor)], axis=axis)


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Any:
    """Items moved along axes; what falls off one end comes in at the other."""
    return call("roll", [as_tensor(input)], shift=shift, axis=axis)


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """The items along an axis in order."""
    return call("sort", [as_tensor(values)], axis=axis, direction=direction)


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Any:
    """The places that put the items along an axis in order. Always stable."""
    return call("argsort", [as_tensor(values)], axis=axis, direction=direction)


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = int32, name: str | None = None
) -> Any:
    """Where values would have to be put into a sorted sequence."""
    sequence, values = aligned(as_tensor(sorted_sequence), values)
    return call("searchsorted", [sequence, values], side=side, out_type=as_dtype(out_type))


def unique_values(x: Any, name: str | None = None) -> Any:
    """The different items of a vector, in the order of their first occurrence."""
    return call("unique_values", [as_tensor(x)])


# Numbers.


def _one(name: str, doc: str) -> Callable[..., Any]:
    def function(x: Any, name: str | None = None) -> Any:
        return call(table_name, [as_tensor(x)])

    table_name = name
    return _named(function, name, doc)


def _two(name: str, doc: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, name: str | None = None) -> Any:
        return binary(table_name, x, y)

    table_name = name
    return _named(function, name, doc)


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = doc
    return function


abs = _one("abs", "The size of each number, without its sign.")
negative = _one("negative", "Each number with the other sign.")
sign = _one("sign", "-1, 0 or 1 for each number.")
square = _one("square", "Each number times itself.")
round = _one("round", "The nearest whole numbers; halves go to the even neighbour.")
floor = _one("floor", "The largest whole numbers that are not above.")
ceil = _one("ceil", "The smallest whole numbers that are not below.")
logical_not = _one("logical_not", "True where the argument is false.")
sqrt = _one("sqrt", "The square root.")
rsqrt = _one("rsqrt", "One over the square root.")
exp = _one("exp", "The exponential function.")
expm1 = _one("expm1", "exp(x) - 1, exact for small x.")
log = _one("log", "The natural logarithm.")
log1p = _one("log1p", "log(1 + x), exact for small x.")
sin = _one("sin", "The sine.")
cos = _one("cos", "The cosine.")
tan = _one("tan", "The tangent.")
asin = _one("asin", "The inverse of the sine.")
acos = _one("acos", "The inverse of the cosine.")
atan = _one("atan", "The inverse of the tangent.")
sinh = _one("sinh", "The hyperbolic sine.")
cosh = _one("cosh", "The hyperbolic cosine.")
tanh = _one("tanh", "The hyperbolic tangent.")
sigmoid = _one("sigmoid", "1 / (1 + exp(-x)).")
reciprocal = _one("reciprocal", "One over each number.")
is_nan = _one("is_nan", "True where an item is not a number.")
is_inf = _one("is_inf", "True where an item is infinite.")
log2 = _one("log2", "The logarithm to base 2.")
log10 = _one("log10", "The logarithm to base 10.")
asinh = _one("asinh", "The inverse of the hyperbolic sine.")
acosh = _one("acosh", "The inverse of the hyperbolic cosine.")
atanh = _one("atanh", "The inverse of the hyperbolic tangent.")
softplus = _one("softplus", "log(1 + exp(x)).")
erf = _one("erf", "The error function.")
relu = _one("relu", "The number if it is positive, else 0.")
trunc = _one("trunc", "The whole part.")
is_finite = _one("is_finite", "True where an item is neither infinite nor NaN.")
add = _two("add", "The sum, item by item; text is joined.")
subtract = _two("subtract", "The difference, item by item.")
multiply = _two("multiply", "The product, item by item.")
truediv = _two("truediv", "The quotient as a float, item by item.")
divide = truediv
floordiv = _two("floordiv", "The quotient rounded down, item by item.")
mod = _two("mod", "The rest of the floor division, item by item.")
maximum = _two("maximum", "The larger of two, item by item.")
minimum = _two("minimum", "The smaller of two, item by item.")
equal = _two("equal", "Whether items are equal.")
not_equal = _two("not_equal", "Whether items differ.")
less = _two("less", "Whether items of the first are smaller.")
less_equal = _two("less_equal", "Whether items of the first are smaller or equal.")
greater = _two("greater", "Whether items of the first are larger.")
greater_equal = _two("greater_equal", "Whether items of the first are larger or equal.")
logical_and = _two("logical_and", "Whether both are true.")
logical_or = _two("logical_or", "Whether at least one is true.")
logical_xor = _two("logical_xor", "Whether exactly one is true.")
squared_difference = _two("squared_difference", "The square of the difference.")


hypot = _two("hypot", "The length of the vector (x, y).")
atan2 = _two("atan2", "The angle of the point (y, x): the second argument is x.")
xlogy = _two("xlogy", "x * log(y), and 0 where x is 0.")


def pow(x: Any, y: Any, name: str | None = None) -> Any:
    """Each number to a power."""
    return binary("pow", x, y)


def round_to(x: Any, decimals: int = 0) -> Any:
    """Rounded to a number of decimals, as NumPy does it."""
    dtype = dtype_of(x)
    if dtype is not None and not dtype.is_floating:
        if dtype.is_bool or decimals < 0:
            raise trace.NeedsValue(f"rounding {dtype} to {decimals} decimals", "cast it to floats first")
        return x
    if decimals == 0:
        return round(x)
    scale = 10.0 ** builtins.abs(int(decimals))
    return round(x * scale) / scale if decimals > 0 else round(x / scale) * scale


def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None
) -> Any:
    """The matrix product of the last two axes."""
    a, b = (as_tensor(x) for x in aligned(a, b))
    return call("matmul", [a, b], transpose_a=transpose_a or None, transpose_b=transpose_b or None)


def dot(a: Any, b: Any) -> Any:
    """NumPy's dot product: the sum of products of two vectors, the matrix product of matrices."""
    a, b = (as_tensor(x) for x in aligned(a, b))
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return binary("multiply", a, b)
    if np.ndim(a) == 1 and np.ndim(b) == 1:
        return reduce_sum(binary("multiply", a, b))
    if np.ndim(b) == 1:
        return squeeze(matmul(a, expand_dims(b, 1)), [-1])
    if np.ndim(a) == 1:
        return squeeze(matmul(expand_dims(a, 0), b), [-2])
    if np.ndim(b) > 2:
        raise trace.NeedsValue("np.dot with a second argument of more than two axes", "use fl.matmul")
    return matmul(a, b)


# Over axes.


def _reduction(name: str, doc: str) -> Callable[..., Any]:
    def function(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
        if isinstance(axis, (np.ndarray, np.generic, tuple)):
            axis = np.asarray(axis).tolist()
        return call(table_name, [as_tensor(input_tensor)], axis=axis, keepdims=keepdims or None)

    table_name = name
    return _named(function, name, f"{doc}\n\n    Over one axis, several, or all if none is given.")


reduce_sum = _reduction("reduce_sum", "The sum.")
reduce_prod = _reduction("reduce_prod", "The product.")
reduce_max = _reduction("reduce_max", "The largest item.")
reduce_min = _reduction("reduce_min", "The smallest item.")
reduce_mean = _reduction("reduce_mean", "The mean; of whole numbers it is a float.")
reduce_all = _reduction("reduce_all", "Whether all are true.")
reduce_any = _reduction("reduce_any", "Whether any is true.")
reduce_variance = _reduction("reduce_variance", "The variance.")
reduce_std = _reduction("reduce_std", "The standard deviation.")
reduce_logsumexp = _reduction("reduce_logsumexp", "The logarithm of the sum of exponentials.")


def argmax(input: Any, axis: int = 0, output_type: Any = int64, name: str | None = None) -> Any:
    """The place of the largest item along an axis; the first of equal ones."""
    return call("argmax", [as_tensor(input)], axis=axis, output_type=as_dtype(output_type))


def argmin(input: Any, axis: int = 0, output_type: Any = int64, name: str | None = None) -> Any:
    """The place of the smallest item along an axis; the first of equal ones."""
    return call("argmin", [as_tensor(input)], axis=axis, output_type=as_dtype(output_type))


def cumsum(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """The running sum along an axis."""
    return call("cumsum", [as_tensor(x)], axis=axis, exclusive=exclusive or None, reverse=reverse or None)


def cumprod(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """The running product along an axis."""
    return call("cumprod", [as_tensor(x)], axis=axis, exclusive=exclusive or None, reverse=reverse or None)


# Python inside a traced function.


def numpy_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """Calls a Python function on real NumPy values when the pipeline runs.

    >>> import feedline as fl
    >>> ds = fl.Dataset.range(3).map(lambda x: fl.numpy_function(lambda v: v * v, [x], fl.int64))
    >>> list(ds.as_numpy_iterator())
    [np.int64(0), np.int64(1), np.int64(4)]

    Args:
        func: Gets the inputs as NumPy values (text as bytes) and returns one value for each output.
        inp: The inputs.
        Tout: The dtype of the output, or a list of dtypes for several. Their shapes are not known afterwards:
            state them with `fl.ensure_shape` or `x.set_shape`.
        stateful: Accepted for tf.data's sake: Python functions always run once for each element, in order.
        name: Not used.
    """
    from .spec import TensorSpec

    several = isinstance(Tout, (list, tuple))
    specs = [TensorSpec(None, dtype) for dtype in (Tout if several else [Tout])]
    tracer = trace.current()
    if tracer is None:
        result = func(*[np.asarray(x) if isinstance(x, list) else x for x in inp])
        results = list(result) if several else [result]
        made = [constant(value, spec.dtype) for value, spec in zip(results, specs, strict=True)]
        return made if several else made[0]
    nodes = [calls.node(tracer, x) for x in inp]
    outputs = tracer.native.host(func, nodes, specs, tuple(specs) if several else None)
    symbols = [tracer.symbol(node) for node in outputs]
    return symbols if several else symbols[0]


def py_function(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None) -> Any:
    """Like `numpy_function`, but the function's arguments answer `.numpy()`, as TensorFlow's tensors do."""
    from .tensor import as_tensors

    def with_tensors(*args: Any) -> Any:
        result = func(*[as_tensors(arg) for arg in args])
        return nest.map_structure(lambda x: x.numpy() if hasattr(x, "numpy") else x, result)

    with_tensors.__name__ = getattr(func, "__name__", "py_function")
    return numpy_function(with_tensors, inp, Tout)


__all__ += ["numpy_function", "py_function"]
