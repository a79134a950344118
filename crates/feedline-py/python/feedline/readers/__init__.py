"""Datasets that read files, one file a format."""

from __future__ import annotations

from .csv import CsvDataset
from .fixed import FixedLengthRecordDataset
from .json_lines import JsonLinesDataset
from .text import TextLineDataset
from .tfrecord import TFRecordDataset
from .web import WebDataset

__all__ = [
    "CsvDataset",
    "FixedLengthRecordDataset",
    "JsonLinesDataset",
    "TFRecordDataset",
    "TextLineDataset",
    "WebDataset",
]
