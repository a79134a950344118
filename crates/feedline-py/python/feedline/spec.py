"""What is known of an element before any data flows: the dtype and the partly known shape of each leaf.

A shape is a tuple of sizes, with None for a size that is not known; None in its place means that not even the
number of axes is known. An `element_spec` is a structure (tuples, dicts, NamedTuples, dataclasses) of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .dtypes import DType, as_dtype, float32, int64

__all__ = [
    "DatasetSpec",
    "NoneSpec",
    "RaggedTensorSpec",
    "Shape",
    "SparseTensorSpec",
    "TensorSpec",
    "as_shape",
]

Shape = tuple[int | None, ...] | None


def as_shape(value: Any) -> Shape:
    """A shape from what people write: a tuple, a list, one size, None, or an object with `as_list()`.

    >>> as_shape([2, None]), as_shape(3), as_shape(None)
    ((2, None), (3,), None)
    """
    if value is None:
        return None
    if hasattr(value, "as_list"):
        return None if value.rank is None else as_shape(value.as_list())
    if hasattr(value, "tolist"):
        value = value.tolist()
    if hasattr(value, "__index__"):
        return (_size(value),)
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise TypeError(f"a shape is a tuple of sizes or None, not {value!r}")
    return tuple(_size(size) for size in value)


def _size(value: Any) -> int | None:
    if value is None:
        return None
    if not hasattr(value, "__index__"):
        raise TypeError(f"the size of an axis is a whole number or None, not {value!r}")
    size = value.__index__()
    if size < -1:
        raise ValueError(f"the size of an axis cannot be {size}; None stands for an unknown one")
    return None if size == -1 else size


def shape_text(shape: Shape) -> str:
    """A shape as messages show it: `[2, ?]`, or nothing for a scalar."""
    if shape is None:
        return "<unknown rank>"
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]" if shape else ""


class _Leaf:
    """What the specs of single leaves share: they compare, hash and pickle by their fields."""

    __slots__: tuple[str, ...] = ()

    def _fields(self) -> tuple[Any, ...]:
        """The fields in the order of the constructor's parameters."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._fields() == other._fields()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._fields()))

    def __reduce__(self) -> Any:
        return type(self), self._fields()


class TensorSpec(_Leaf):
    """A dense tensor: its shape as far as it is known, and its dtype.

    >>> TensorSpec([None, 3], "float32")
    TensorSpec(shape=(None, 3), dtype=fl.float32)
    """

    __slots__ = ("dtype", "name", "shape")

    shape: Shape
    dtype: DType
    name: str | None

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None) -> None:
        self.shape = as_shape(shape)
        self.dtype = as_dtype(dtype)
        self.name = name

    def _fields(self) -> tuple[Any, ...]:
        return self.shape, self.dtype

    def __reduce__(self) -> Any:
        return type(self), (self.shape, self.dtype, self.name)

    def is_compatible_with(self, value: Any) -> bool:
        """Whether an array, or everything that another spec allows, may fit this spec."""
        dtype, shape = as_dtype(value.dtype), as_shape(value.shape)
        return dtype == self.dtype and _may_fit(self.shape, shape)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r})"

    def __str__(self) -> str:
        return f"{self.dtype}{shape_text(self.shape)}"


class RaggedTensorSpec(_Leaf):
    """A ragged tensor: rows of different lengths.

    Args:
        shape: The shape; the ragged axes are None in it.
        dtype: The dtype of the items.
        ragged_rank: How many of the axes after the first are ragged, counted up to the last ragged one. All
            of them if it is not given.
        row_splits_dtype: The dtype of the numbers that say where rows begin, int32 or int64.
    """

    __slots__ = ("dtype", "ragged_rank", "row_splits_dtype", "shape")

    shape: Shape
    dtype: DType
    ragged_rank: int
    row_splits_dtype: DType

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = int64,
    ) -> None:
        self.shape = as_shape(shape)
        self.dtype = as_dtype(dtype)
        if ragged_rank is None:
            if self.shape is None:
                raise ValueError("RaggedTensorSpec needs ragged_rank where the shape is unknown")
            ragged_rank = max(len(self.shape) - 1, 0)
        self.ragged_rank = int(ragged_rank)
        self.row_splits_dtype = as_dtype(row_splits_dtype)

    def _fields(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.ragged_rank, self.row_splits_dtype

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec(shape={self.shape}, dtype={self.dtype!r}, ragged_rank={self.ragged_rank}, "
            f"row_splits_dtype={self.row_splits_dtype!r})"
        )

    def __str__(self) -> str:
        return f"ragged {self.dtype}{shape_text(self.shape)}"


class SparseTensorSpec(_Leaf):
    """A sparse tensor: the positions and values of the items that are not zero."""

    __slots__ = ("dtype", "shape")

    shape: Shape
    dtype: DType

    def __init__(self, shape: Any = None, dtype: Any = float32) -> None:
        self.shape = as_shape(shape)
        self.dtype = as_dtype(dtype)

    def _fields(self) -> tuple[Any, ...]:
        return self.shape, self.dtype

    def __repr__(self) -> str:
        return f"SparseTensorSpec(shape={self.shape}, dtype={self.dtype!r})"

    def __str__(self) -> str:
        return f"sparse {self.dtype}{shape_text(self.shape)}"


class NoneSpec(_Leaf):
    """A component that is absent: None in every element."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NoneSpec()"

    def __str__(self) -> str:
        return "none"


class DatasetSpec(_Leaf):
    """A component that is itself a dataset, as `window` makes them."""

    __slots__ = ("element_spec",)

    element_spec: Any

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    def _fields(self) -> tuple[Any, ...]:
        return (self.element_spec,)

    def __hash__(self) -> int:
        return hash(("DatasetSpec", repr(self.element_spec)))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"

    def __str__(self) -> str:
        return f"dataset of {spec_text(self.element_spec)}"


def _may_fit(a: Shape, b: Shape) -> bool:
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def spec_text(spec: Any) -> str:
    """An element spec in a few words, such as `(uint8[28, 28], int64)`."""
    if isinstance(spec, dict):
        return "{" + ", ".join(f"{key}: {spec_text(item)}" for key, item in spec.items()) + "}"
    if isinstance(spec, tuple):
        items = ", ".join(spec_text(item) for item in spec)
        return f"({items},)" if len(spec) == 1 else f"({items})"
    fields = getattr(spec, "__dataclass_fields__", None)
    if fields is not None:
        items = ", ".join(f"{name}: {spec_text(getattr(spec, name))}" for name in fields)
        return f"{type(spec).__name__}({items})"
    return str(spec)
