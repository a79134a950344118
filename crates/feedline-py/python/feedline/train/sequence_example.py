"""`SequenceExample`: a record with features that have steps."""

from __future__ import annotations

from typing import Any

from .. import _native
from .feature import FeatureLists, Features

__all__ = ["SequenceExample"]


class SequenceExample:
    """Features of the whole, and lists of features, to be written to a file or read back.

    >>> import feedline as fl
    >>> steps = fl.train.FeatureList([fl.train.Feature(int64_list=[n]) for n in (1, 2)])
    >>> record = fl.train.SequenceExample(feature_lists=fl.train.FeatureLists({"n": steps}))
    >>> fl.train.SequenceExample.FromString(record.SerializeToString()) == record
    True

    Args:
        context: The features of the whole; an empty message if it is not given.
        feature_lists: The lists; an empty message if it is not given.
    """

    __slots__ = ("_context", "_feature_lists")

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None) -> None:
        self._context, self._feature_lists = context, feature_lists

    @property
    def context(self) -> Features:
        """The features of the whole."""
        if self._context is None:
            self._context = Features()
        return self._context

    @property
    def feature_lists(self) -> FeatureLists:
        """The lists of features."""
        if self._feature_lists is None:
            self._feature_lists = FeatureLists()
        return self._feature_lists

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:
        """The bytes of the message, with everything in the order of its names."""
        return _native.write_sequence_example(
            None if self._context is None else self._context._written(),
            None if self._feature_lists is None else self._feature_lists._written(),
        )

    @classmethod
    def FromString(cls, s: bytes) -> SequenceExample:
        """The message of these bytes."""
        example = cls()
        example.ParseFromString(s)
        return example

    def ParseFromString(self, serialized: bytes) -> int:
        """Becomes the message of these bytes; gives their number."""
        context, lists = _native.read_sequence_example(bytes(serialized))
        self._context = Features._read(context) if context else None
        self._feature_lists = FeatureLists._read(lists) if lists else None
        return len(serialized)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, SequenceExample):
            return NotImplemented
        return (self.context, self.feature_lists) == (other.context, other.feature_lists)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SequenceExample({self.context!r}, {self.feature_lists!r})"
