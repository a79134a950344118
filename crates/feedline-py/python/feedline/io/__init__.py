"""`fl.io`: reading, writing and parsing, under the names of `tf.io`."""

from __future__ import annotations

from ..writers import TFRecordOptions, TFRecordWriter
from .files import matching_files, read_file

__all__ = ["TFRecordOptions", "TFRecordWriter", "matching_files", "read_file"]
