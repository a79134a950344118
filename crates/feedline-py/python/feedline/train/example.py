"""`Example`: the record that TensorFlow's programs store."""

from __future__ import annotations

from typing import Any

from .. import _native
from .feature import Features

__all__ = ["Example"]


class Example:
    """Features by name, to be written to a file or read back.

    >>> import feedline as fl
    >>> example = fl.train.Example(fl.train.Features({"x": fl.train.Feature(int64_list=[7])}))
    >>> fl.train.Example.FromString(example.SerializeToString()) == example
    True
    >>> example.features.feature["x"].int64_list.value
    [7]

    Args:
        features: The features; an empty message if it is not given.
    """

    __slots__ = ("_features",)

    def __init__(self, features: Features | None = None) -> None:
        self._features = features

    @property
    def features(self) -> Features:
        """The features."""
        if self._features is None:
            self._features = Features()
        return self._features

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:
        """The bytes of the message, with the features in the order of their names."""
        return _native.write_example(None if self._features is None else self._features._written())

    @classmethod
    def FromString(cls, s: bytes) -> Example:
        """The message of these bytes."""
        example = cls()
        example.ParseFromString(s)
        return example

    def ParseFromString(self, serialized: bytes) -> int:
        """Becomes the message of these bytes; gives their number."""
        read = _native.read_example(bytes(serialized))
        self._features = Features._read(read) if serialized else None
        return len(serialized)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Example):
            return NotImplemented
        return self.SerializeToString() == other.SerializeToString()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Example({'' if self._features is None else repr(self._features)})"
