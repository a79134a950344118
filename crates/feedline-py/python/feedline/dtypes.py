"""The types that a tensor's items can have.

A `DType` equals its name and the NumPy type it stands for, so each of these can be given wherever a dtype is
asked for: `fl.float32`, `"float32"`, `np.float32`, `np.dtype("float32")`.
"""

from __future__ import annotations

import builtins
from typing import Any

from .lazy_numpy import np

__all__ = [
    "DType",
    "as_dtype",
    "bfloat16",
    "bool_",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


class DType:
    """The type of a tensor's items, such as `fl.int64`.

    Attributes:
        name: The name, such as `"int64"`.
        size: Bytes an item takes in memory; 0 for strings, whose bytes lie elsewhere.
        is_floating: Whether it is one of the floating-point types.
        is_integer: Whether it is one of the whole-number types (bool is not).
    """

    __slots__ = ("is_floating", "is_integer", "name", "size")

    name: str
    size: int
    is_floating: builtins.bool
    is_integer: builtins.bool

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.is_floating = "float" in name
        self.is_integer = "int" in name

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar type, such as `np.int64`; `object` for strings."""
        return self.dtype.type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype. NumPy reads this attribute, so `np.zeros(3, fl.int64)` works."""
        if self.name == "bfloat16":
            return _bfloat16_of_numpy()
        return np.dtype(object if self.name == "string" else self.name)

    @property
    def is_bool(self) -> builtins.bool:
        """Whether it is the truth-value type."""
        return self.name == "bool"

    @property
    def is_unsigned(self) -> builtins.bool:
        """Whether it is a whole-number type without negative values."""
        return self.name.startswith("uint")

    @property
    def is_numeric(self) -> builtins.bool:
        """Whether it is a number type: neither bool nor string."""
        return self.is_integer or self.is_floating

    @property
    def min(self) -> Any:
        """The smallest value of a number type."""
        return self._limits().min

    @property
    def max(self) -> Any:
        """The largest value of a number type."""
        return self._limits().max

    def _limits(self) -> Any:
        if self.is_integer:
            return np.iinfo(self.dtype)
        if self.name == "bfloat16":
            return _ml_dtypes().finfo(self.dtype)
        if self.is_floating:
            return np.finfo(self.dtype)
        raise TypeError(f"{self.name} has no smallest and largest value")

    def holds(self, value: int) -> builtins.bool:
        """Whether a whole number can be stored without changing it (for floats: roughly)."""
        return not self.is_integer or int(self.min) <= value <= int(self.max)

    def __eq__(self, other: object) -> builtins.bool:
        if isinstance(other, DType):
            return self.name == other.name
        try:
            return self.name == as_dtype(other).name
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"fl.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


def _ml_dtypes() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            "NumPy has no bfloat16 of its own: install ml_dtypes, or cast to fl.float32"
        ) from None
    return ml_dtypes


def _bfloat16_of_numpy() -> np.dtype[Any]:
    return np.dtype(_ml_dtypes().bfloat16)


int8 = DType("int8", 1)
int16 = DType("int16", 2)
int32 = DType("int32", 4)
int64 = DType("int64", 8)
uint8 = DType("uint8", 1)
uint16 = DType("uint16", 2)
uint32 = DType("uint32", 4)
uint64 = DType("uint64", 8)
float16 = DType("float16", 2)
bfloat16 = DType("bfloat16", 2)
float32 = DType("float32", 4)
float64 = DType("float64", 8)
bool_ = DType("bool", 1)
string = DType("string", 0)

_ALL = (
    int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, bool_, string,
)  # fmt: skip

_BY_NAME: dict[str, DType] = {
    **{dtype.name: dtype for dtype in _ALL},
    "bool_": bool_,
    "bytes": string,
    "double": float64,
    "float": float32,
    "half": float16,
    "int": int32,
    "object": string,
    "str": string,
}

_BY_PYTHON_TYPE: dict[Any, DType] = {
    bool: bool_,
    int: int32,
    float: float32,
    str: string,
    bytes: string,
    object: string,
}


def as_dtype(value: Any) -> DType:
    """The `DType` that a name, a NumPy dtype or a Python type stands for.

    >>> as_dtype("float32"), as_dtype(np.uint8), as_dtype(str)
    (fl.float32, fl.uint8, fl.string)

    Raises:
        TypeError: There is no such dtype.
    """
    if isinstance(value, DType):
        return value
    found: DType | None = None
    if isinstance(value, str):
        found = _BY_NAME.get(value)
    elif isinstance(value, type) and value in _BY_PYTHON_TYPE:
        found = _BY_PYTHON_TYPE[value]
    elif isinstance(value, (np.dtype, type)):
        found = _of_numpy(value)
    if found is None:
        known = ", ".join(dtype.name for dtype in _ALL)
        raise TypeError(f"{value!r} is not a dtype; the dtypes are {known}")
    return found


def _of_numpy(value: Any) -> DType | None:
    try:
        dtype = np.dtype(value)
    except TypeError:
        return None
    if dtype.kind in "SUOT":
        return string
    return _BY_NAME.get(dtype.name)
