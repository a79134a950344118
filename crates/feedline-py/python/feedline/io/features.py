"""What is asked of Examples: the kinds of features that `parse_example` and its kin take, as in `tf.io`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..dtypes import int32

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
]


class FixedLenFeature(NamedTuple):
    """A feature that always has as many values as its shape has room for: a dense tensor.

    A feature that is there with an empty list does not get the default: that is a wrong number of values.
    """

    shape: Any
    """The shape, all of it known; `[]` for one value as a scalar."""
    dtype: Any
    """`fl.int64`, `fl.float32` or `fl.string`: the type that is stored."""
    default_value: Any = None
    """What stands in for a feature that a record does not have; None makes that an error."""


class VarLenFeature(NamedTuple):
    """A feature of any number of values: a sparse tensor. `RaggedFeature` is easier to work with."""

    dtype: Any
    """`fl.int64`, `fl.float32` or `fl.string`."""


class FixedLenSequenceFeature(NamedTuple):
    """Any number of items of one shape: dense, and in batches filled up to the longest.

    In an Example the items follow each other in one list; in a feature list of a SequenceExample each step is
    one item.
    """

    shape: Any
    """The shape of one item."""
    dtype: Any
    """`fl.int64`, `fl.float32` or `fl.string`."""
    allow_missing: bool = False
    """Whether a feature list may be missing; must be True in an Example."""
    default_value: Any = None
    """What batches of Examples are filled up with: 0 or an empty string if it is not given."""


class SparseFeature(NamedTuple):
    """A sparse tensor whose places and values are different features of the record."""

    index_key: str | Sequence[str]
    """The feature that holds the places; several for several axes."""
    value_key: str
    """The feature that holds the values."""
    dtype: Any
    """The type of the values: `fl.int64`, `fl.float32` or `fl.string`."""
    size: int | Sequence[int]
    """The size of each axis. Places are not compared with it."""
    already_sorted: bool = False
    """Whether the places are in order; else they are sorted."""


class _RowSplits(NamedTuple):
    key: str


class _RowLengths(NamedTuple):
    key: str


class _RowStarts(NamedTuple):
    key: str


class _RowLimits(NamedTuple):
    key: str


class _ValueRowIds(NamedTuple):
    key: str


class _UniformRowLength(NamedTuple):
    length: int


class _RaggedFeature(NamedTuple):
    dtype: Any
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: Any = int32
    validate: bool = False


class RaggedFeature(_RaggedFeature):
    """A feature of any number of values, cut into rows by other features of the record.

    Without partitions it is a vector; in a batch a ragged tensor of one row a record. Each partition adds an
    axis: `RaggedFeature.RowLengths("words")` cuts rows of the lengths that the feature "words" holds. A
    partition that does not fit its values is an error, with or without `validate`.

    Args:
        dtype: `fl.int64`, `fl.float32` or `fl.string`.
        value_key: The feature that holds the values; the name in the dict if it is not given.
        partitions: `RaggedFeature.RowSplits(key)`, `RowLengths(key)`, `RowStarts(key)`, `RowLimits(key)`,
            `ValueRowIds(key)` or `UniformRowLength(length)`, the outermost first.
        row_splits_dtype: `fl.int32` or `fl.int64`.
        validate: Accepted for TensorFlow's sake.
    """

    __slots__ = ()

    RowSplits = _RowSplits
    RowLengths = _RowLengths
    RowStarts = _RowStarts
    RowLimits = _RowLimits
    ValueRowIds = _ValueRowIds
    UniformRowLength = _UniformRowLength
