"""`fl.io`: reading, writing and parsing, under the names of `tf.io`."""

from __future__ import annotations

from ..writers import TFRecordOptions, TFRecordWriter
from .csv import decode_csv

__all__ = ["TFRecordOptions", "TFRecordWriter", "decode_csv"]
