"""Datasets that read files, one file a format."""

from __future__ import annotations

from .tfrecord import TFRecordDataset

__all__ = ["TFRecordDataset"]
