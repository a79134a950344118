"""`fl.utils`: helpers under the names of `keras.utils`."""

from __future__ import annotations

from .directories import image_dataset_from_directory, text_dataset_from_directory
from .parts import split_dataset, to_categorical
from .timeseries import timeseries_dataset_from_array

__all__ = [
    "image_dataset_from_directory",
    "split_dataset",
    "text_dataset_from_directory",
    "timeseries_dataset_from_array",
    "to_categorical",
]
