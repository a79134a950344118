"""NumPy values that also answer `.numpy()`: what programs written for TensorFlow expect of an element."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import nest
from .dtypes import as_dtype

__all__ = ["Bytes", "Tensor", "as_tensors"]


class Tensor(np.ndarray[Any, Any]):
    """An array with TensorFlow's `numpy()` and `set_shape()`. It shares the memory of its array."""

    def numpy(self) -> Any:
        """The plain array; for a scalar, NumPy's scalar."""
        plain = self.view(np.ndarray)
        return plain if plain.ndim else plain[()]

    def set_shape(self, shape: Any) -> None:
        """Checks that the shape is as told."""
        from .spec import as_shape

        told = as_shape(shape)
        if told is not None and (
            len(told) != self.ndim or any(t not in (None, s) for t, s in zip(told, self.shape, strict=True))
        ):
            raise ValueError(f"the tensor has shape {self.shape}, not {told}")

    def __getitem__(self, key: Any) -> Any:
        return as_tensors(super().__getitem__(key))

    def __iter__(self) -> Any:
        return map(as_tensors, super().__iter__())

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array).view(Tensor)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __format__(self, format_spec: str) -> str:
        return format(self.numpy(), format_spec)


class Bytes(bytes):
    """A byte string with TensorFlow's `numpy()`."""

    shape = ()
    ndim = 0

    @property
    def dtype(self) -> Any:
        """`fl.string`."""
        return as_dtype("string")

    def numpy(self) -> bytes:
        """The plain byte string."""
        return bytes(self)


def as_tensors(value: Any) -> Any:
    """A structure of values as a structure of values that answer `.numpy()`, without copying."""
    if isinstance(value, np.ndarray):
        return value.view(Tensor)
    if isinstance(value, bytes):
        return Bytes(value)
    if isinstance(value, np.generic):
        return np.asarray(value).view(Tensor)
    if nest.is_nested(value, lists=False):
        return nest.map_structure(as_tensors, value, lists=False)
    return value
