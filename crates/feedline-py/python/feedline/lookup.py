"""`fl.lookup`: tables from keys to values, for vocabularies and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .calls import call, constant, dtype_of, literal
from .dtypes import DType, as_dtype

__all__ = ["KeyValueTensorInitializer", "StaticHashTable", "table"]


class KeyValueTensorInitializer:
    """Keys and their values, for `StaticHashTable`."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self.keys = constant(keys, key_dtype)
        self.values = constant(values, value_dtype)
        if len(self.keys) != len(self.values):
            raise ValueError(
                f"a table needs a value for each key, but has {len(self.keys)} keys and "
                f"{len(self.values)} values"
            )


class StaticHashTable:
    """A table that does not change.

    >>> import feedline as fl
    >>> colours = fl.lookup.StaticHashTable(fl.lookup.KeyValueTensorInitializer(["red", "blue"], [0, 1]), -1)
    >>> colours.lookup(["blue", "green"]).tolist()
    [1, -1]
    """

    def __init__(
        self, initializer: KeyValueTensorInitializer, default_value: Any, name: str | None = None
    ) -> None:
        self._keys = initializer.keys
        self._values = initializer.values
        if dtype_of(default_value) is None:
            default_value = literal(default_value, self.value_dtype)
        self._default = default_value

    @property
    def key_dtype(self) -> DType:
        """The dtype of the keys."""
        return as_dtype(self._keys.dtype)

    @property
    def value_dtype(self) -> DType:
        """The dtype of the values."""
        return as_dtype(self._values.dtype)

    def size(self) -> int:
        """The number of keys."""
        return len(self._keys)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The value for each key; the default value for keys that are not in the table."""
        if dtype_of(keys) is None:
            keys = constant(keys, self.key_dtype)
        return call("lookup.static", [keys, self._keys, self._values, self._default])

    __getitem__ = lookup
    __call__ = lookup

    def __len__(self) -> int:
        return self.size()


def table(keys: Any, values: Any = None, default: Any = -1) -> StaticHashTable:
    """A table from a mapping, from keys and values, or from a list of keys to their places.

    >>> import feedline as fl
    >>> fl.lookup.table(["cat", "dog"])(["dog", "cow"]).tolist()
    [1, -1]
    """
    if isinstance(keys, Mapping):
        keys, values = list(keys), list(keys.values())
    if values is None:
        values = constant(list(range(len(keys))), "int64")
    return StaticHashTable(KeyValueTensorInitializer(keys, values), default)
