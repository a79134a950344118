"""Sparse tensors: the positions and values of the items that are not zero."""

from __future__ import annotations

from typing import Any

from . import calls
from .dtypes import DType, as_dtype
from .lazy_numpy import np
from .spec import SparseTensorSpec

__all__ = ["SparseTensor", "from_dense", "to_dense"]


class SparseTensor:
    """A tensor given by the positions and values of its items; all others are zero (or empty strings).

    >>> to_dense(SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])).tolist()
    [[0, 5], [6, 0]]

    Args:
        indices: A matrix: a row of coordinates for each item.
        values: The items.
        dense_shape: The size of each axis.
    """

    __slots__ = ("dense_shape", "indices", "values")

    indices: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    dense_shape: np.ndarray[Any, Any]

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.dense_shape = np.asarray(dense_shape, np.int64)
        self.values = values if isinstance(values, np.ndarray) else np.asarray(calls.constant(values))
        self.indices = np.asarray(indices, np.int64).reshape(len(self.values), len(self.dense_shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return tuple(int(size) for size in self.dense_shape)

    @property
    def dtype(self) -> DType:
        """The dtype of the items."""
        return as_dtype(self.values.dtype)

    @property
    def spec(self) -> SparseTensorSpec:
        """The exact spec of this value."""
        return SparseTensorSpec(self.shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTensor):
            return NotImplemented
        return (
            np.array_equal(self.dense_shape, other.dense_shape)
            and np.array_equal(self.indices, other.indices)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        items = ", ".join(
            f"{tuple(place)}: {value}"
            for place, value in zip(self.indices.tolist(), self.values.tolist(), strict=True)
        )
        return f"<SparseTensor {{{items}}} of shape {self.shape}>"

    def __reduce__(self) -> Any:
        return SparseTensor, (self.indices, self.values, self.dense_shape)


def to_dense(sp_input: Any, default_value: Any = None) -> Any:
    """A dense tensor with the items of a sparse one, and a default value everywhere else."""
    if calls.symbolic(sp_input):
        return sp_input.to_tensor(default_value)
    if default_value is None:
        default_value = b"" if sp_input.values.dtype == object else 0
    out = np.full(sp_input.shape, default_value, sp_input.values.dtype)
    out[tuple(sp_input.indices.T)] = sp_input.values
    return out


def from_dense(tensor: Any) -> Any:
    """A sparse tensor with the items of a dense one that are not zero (or not empty strings)."""
    if calls.symbolic(tensor):
        return calls.call("sparse.from_dense", [tensor])
    array = np.asarray(tensor)
    indices = np.argwhere(array != (b"" if array.dtype == object else 0))
    return SparseTensor(indices, array[tuple(indices.T)], array.shape)
