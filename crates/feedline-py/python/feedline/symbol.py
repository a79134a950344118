"""Symbolic values: what a traced function gets for its arguments. Using one records a step in the function.

Operators, indexing and the methods are NumPy's; NumPy's own functions work too. Whatever needs the value now
(`if x > 0`, `int(x)`, `x.numpy()`) raises `NeedsValue`, and the function then runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from . import calls, index, ops
from .dtypes import DType, as_dtype, float64, int64, uint64
from .spec import RaggedTensorSpec, SparseTensorSpec, spec_text
from .trace import NeedsValue, NoAttribute, Traced

__all__ = ["Symbol"]


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Symbol, other: Any) -> Any:
        return calls.binary(name, self, other) if _is_operand(other) else NotImplemented

    return operator


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def operator(self: Symbol, other: Any) -> Any:
        return calls.binary(name, other, self) if _is_operand(other) else NotImplemented

    return operator


def _unary(name: str) -> Callable[[Any], Any]:
    def operator(self: Symbol) -> Any:
        return calls.call(name, [self])

    return operator


def _is_operand(value: Any) -> bool:
    return isinstance(value, (int, float, str, bytes, list, tuple)) or calls.dtype_of(value) is not None


class Symbol(Traced):
    """A value that will be known when the pipeline runs; now only its dtype and (partly) shape are."""

    __slots__ = ()

    # What is known.

    @property
    def spec(self) -> Any:
        """The spec of the value."""
        return self._tracer.native.leaf(self._node)

    @property
    def dtype(self) -> DType:
        """The dtype of the items."""
        return self.spec.dtype

    @property
    def shape(self) -> Any:
        """The shape as far as it is known: None for an unknown size, None alone for an unknown rank."""
        return self.spec.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        shape = self.shape
        if shape is None:
            self._refuse(
                "ndim of a tensor of unknown rank", "fix the shape before: fl.ensure_shape(x, shape)"
            )
        return len(shape)

    @property
    def size(self) -> Any:
        """The number of items: a number if the shape is known, else a symbolic value."""
        shape = self.shape
        if shape is None or None in shape:
            return ops.size(self)
        count = 1
        for length in shape:
            count *= length
        return count

    def get_shape(self) -> Any:
        """The shape, under TensorFlow's name."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """States the shape where it is not known; a value that does not fit is an error later."""
        fixed = ops.ensure_shape(self, shape)
        self._tracer, self._node = fixed._tracer, fixed._node

    def __len__(self) -> int:
        return self._first_size("len()")

    def __iter__(self) -> Iterator[Any]:
        count = self._first_size("a loop over it")
        return iter([self[place] for place in range(count)])

    def _first_size(self, what: str) -> int:
        shape = self.shape
        if shape == ():
            raise TypeError(f"{what}: a scalar has no length")
        if shape is None or shape[0] is None:
            self._refuse(
                what,
                "only a first axis of known size can be taken apart; fl.shape(x)[0] is its symbolic size",
            )
        return shape[0]

    def __repr__(self) -> str:
        return f"<symbolic {spec_text(self.spec)}>"

    # Operators.

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _binary("mod"), _reflected("mod")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")  # type: ignore[assignment]
    __neg__, __abs__ = _unary("negative"), _unary("abs")

    def __pos__(self) -> Symbol:
        return self

    def __round__(self, digits: int | None = None) -> Any:
        return self.round(digits or 0)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __and__(self, other: Any) -> Any:
        return calls.binary("logical_and" if self.dtype.is_bool else "bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return calls.binary("logical_or" if self.dtype.is_bool else "bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return calls.binary("logical_xor" if self.dtype.is_bool else "bitwise_xor", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        return calls.call("logical_not" if self.dtype.is_bool else "invert", [self])

    def __getitem__(self, key: Any) -> Any:
        return index.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse("assigning to a part of it", "make a new tensor: fl.where, fl.concat")

    # NumPy's methods.

    @property
    def T(self) -> Any:
        """The axes in reverse order."""
        return ops.transpose(self)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The items converted to another dtype; `int` and `float` are int64 and float64, as in NumPy."""
        return ops.cast(self, {int: int64, float: float64}.get(dtype) or as_dtype(dtype))

    def copy(self) -> Any:
        """The value itself: symbolic values never change."""
        return self

    def reshape(self, *shape: Any) -> Any:
        """The items in another shape; one size may be -1."""
        return ops.reshape(self, shape[0] if len(shape) == 1 else list(shape))

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order: reversed if none is given."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = tuple(axes[0] or ())
        return ops.transpose(self, list(axes) or None)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return ops.transpose(self, order)

    def flatten(self) -> Any:
        """All items along one axis."""
        return ops.reshape(self, [-1])

    def ravel(self) -> Any:
        """All items along one axis."""
        return ops.reshape(self, [-1])

    def squeeze(self, axis: Any = None) -> Any:
        """Without the axes of size 1."""
        return ops.squeeze(self, axis)

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The sum over an axis, several, or all; small whole numbers become 64 bits wide, as in NumPy."""
        return ops.reduce_sum(self._widened(dtype), axis, keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The mean over an axis, several, or all."""
        if dtype is None and not self.dtype.is_floating:
            dtype = float64
        return ops.reduce_mean(self if dtype is None else self.astype(dtype), axis, keepdims)

    def std(self, axis: Any = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """The standard deviation."""
        return ops.sqrt(self.var(axis, dtype, ddof, keepdims))

    def var(self, axis: Any = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
        """The variance."""
        if ddof:
            self._refuse(f"var with ddof={ddof}", "only ddof=0 is recorded")
        if dtype is None and not self.dtype.is_floating:
            dtype = float64
        return ops.reduce_variance(self if dtype is None else self.astype(dtype), axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The largest item."""
        return ops.reduce_max(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """The smallest item."""
        return ops.reduce_min(self, axis, keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The product; small whole numbers become 64 bits wide, as in NumPy."""
        return ops.reduce_prod(self._widened(dtype), axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Whether any item is true."""
        return ops.reduce_any(ops.as_bool(self), axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Whether all items are true."""
        return ops.reduce_all(ops.as_bool(self), axis, keepdims)

    def argmax(self, axis: Any = None) -> Any:
        """The place of the largest item; in the flattened tensor if no axis is given."""
        return ops.argmax(self.flatten() if axis is None else self, axis or 0)

    def argmin(self, axis: Any = None) -> Any:
        """The place of the smallest item; in the flattened tensor if no axis is given."""
        return ops.argmin(self.flatten() if axis is None else self, axis or 0)

    def cumsum(self, axis: Any = None, dtype: Any = None) -> Any:
        """The running sum; of the flattened tensor if no axis is given."""
        wide = self._widened(dtype)
        return ops.cumsum(wide.flatten() if axis is None else wide, axis or 0)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Any:
        """The running product; of the flattened tensor if no axis is given."""
        wide = self._widened(dtype)
        return ops.cumprod(wide.flatten() if axis is None else wide, axis or 0)

    def _widened(self, dtype: Any) -> Any:
        """As NumPy adds up: in the given dtype, else bools and whole numbers in 64 bits."""
        if dtype is not None:
            return self.astype(dtype)
        if self.dtype.is_bool or (self.dtype.is_integer and self.dtype.size < 8):
            return ops.cast(self, uint64 if self.dtype.is_unsigned else int64)
        return self

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """The items, none below `min` or above `max`."""
        return ops.clip(self, min, max)

    def round(self, decimals: int = 0) -> Any:
        """Rounded to a number of decimals; halves to the even neighbour."""
        return ops.round_to(self, decimals)

    def dot(self, other: Any) -> Any:
        """The dot or matrix product."""
        return ops.dot(self, other)

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Every item several times; of the flattened tensor if no axis is given."""
        return ops.repeat(self, repeats, axis)

    def take(self, indices: Any, axis: Any = None) -> Any:
        """The items at the given places; of the flattened tensor if no axis is given."""
        return ops.gather(self.flatten() if axis is None else self, indices, axis=axis or 0)

    # Ragged and sparse values.

    def to_tensor(self, default_value: Any = None, shape: Any = None) -> Any:
        """A dense tensor from a ragged or a sparse one, filled up with a default value."""
        default_value = calls.item("to_tensor", default_value, self.dtype)
        if isinstance(self.spec, SparseTensorSpec):
            return calls.call("sparse.to_dense", [self], default=default_value)
        if not isinstance(self.spec, RaggedTensorSpec):
            return self
        if shape is not None:
            raise ValueError("to_tensor inside a function takes no shape; use fl.pad on the result")
        return calls.call("ragged.to_tensor", [self], default=default_value)

    def row_lengths(self) -> Any:
        """The lengths of the rows of a ragged tensor."""
        return calls.call("ragged.row_lengths", [self])

    @property
    def row_splits(self) -> Any:
        """Where the rows of a ragged tensor begin and the last one ends."""
        return calls.call("ragged.row_splits", [self])

    @property
    def flat_values(self) -> Any:
        """All items of a ragged tensor, row after row."""
        return calls.call("ragged.flat_values", [self])

    # NumPy's functions.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from . import numpy_functions

        return numpy_functions.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from . import numpy_functions

        return numpy_functions.function(function, args, kwargs)

    # What needs the value now.

    def _refuse(self, what: str, advice: str = "") -> NoReturn:
        raise NeedsValue(what, advice)

    def __bool__(self) -> bool:
        self._refuse(
            "`if`, `while`, `and`, `or` or bool()", "use fl.where or fl.cond (and & | ~ for and, or, not)"
        )

    def __int__(self) -> int:
        self._refuse("int()", "use fl.cast(x, fl.int32)")

    def __float__(self) -> float:
        self._refuse("float()", "use fl.cast(x, fl.float32)")

    def __complex__(self) -> complex:
        self._refuse("complex()")

    def __index__(self) -> int:
        self._refuse(
            "a place where Python needs a whole number", "use fl.range, fl.gather or a symbolic index x[i]"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse(
            "np.asarray() or a function that makes an array of it", "use the fl. function of the same name"
        )

    def __bytes__(self) -> bytes:
        self._refuse("bytes()")

    def __hash__(self) -> int:
        self._refuse("looking it up in a dict or a set", "use fl.lookup, fl.gather or fl.where")

    def __str__(self) -> str:
        self._refuse("str() or print()", "use fl.strings.as_string, or repr() for what is known of it")

    def __format__(self, format_spec: str) -> str:
        self._refuse("an f-string or format()", "use fl.strings.as_string and fl.strings.join")

    def numpy(self) -> Any:
        """Refused: there is no value yet."""
        self._refuse("numpy()", "use fl. and NumPy functions on the tensor itself, or fl.numpy_function")

    def item(self, *args: Any) -> Any:
        """Refused: there is no value yet."""
        self._refuse("item()", "use x[i] or fl.reshape(x, [])")

    def tolist(self) -> Any:
        """Refused: there is no value yet."""
        self._refuse("tolist()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoAttribute(f".{name}")

    def __reduce__(self) -> Any:
        raise TypeError("a symbolic value belongs to a function being traced and cannot be pickled")
