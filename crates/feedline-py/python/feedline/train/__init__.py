"""`fl.train`: Examples to write, under the names of `tf.train`, without protobuf."""

from __future__ import annotations

from .example import Example
from .feature import BytesList, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List
from .sequence_example import SequenceExample

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
]
