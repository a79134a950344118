"""Writers of files, one file a format."""

from __future__ import annotations

from .tfrecord import TFRecordOptions, TFRecordWriter

__all__ = ["TFRecordOptions", "TFRecordWriter"]
