"""Datasets: descriptions of pipelines, built by chaining operators and read by iterating."""

from __future__ import annotations

from .batching import Batching
from .core import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Cardinality
from .elementwise import Elementwise
from .exports import Exports
from .grouping import Grouping
from .mixing import Mixing
from .reports import Lint, Reports
from .saving import Saved, Saving
from .selection import Selection
from .sources import Sources
from .terminals import Terminals

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Cardinality",
    "Dataset",
    "Lint",
    "Saved",
]


class Dataset(
    Sources, Elementwise, Batching, Grouping, Selection, Mixing, Saving, Terminals, Reports, Exports
):
    """A pipeline: where elements come from, and what is done to them.

    A dataset is a description. It never changes: every method returns a new dataset. Iterating reads it from
    the beginning; elements are NumPy values in tuples, dicts, NamedTuples and dataclasses.

    >>> import feedline as fl
    >>> ds = fl.Dataset.range(10).map(lambda x: x * x).batch(4)
    >>> for batch in ds:
    ...     print(batch)
    [0 1 4 9]
    [16 25 36 49]
    [64 81]
    """

    __slots__ = ()
