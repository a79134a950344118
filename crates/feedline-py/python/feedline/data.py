"""`fl.data`: the names of `tf.data`."""

from __future__ import annotations

from . import experimental
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from .iterator import Iterator
from .options import Options, ThreadingOptions
from .readers import (
    CsvDataset,
    FixedLengthRecordDataset,
    JsonLinesDataset,
    TextLineDataset,
    TFRecordDataset,
    WebDataset,
)
from .spec import DatasetSpec

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "CsvDataset",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "JsonLinesDataset",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "ThreadingOptions",
    "WebDataset",
    "experimental",
]
