"""feedline: the input pipeline for training.

>>> import feedline as fl
>>> ds = fl.Dataset.range(6).map(lambda x: x * 2).batch(3)
>>> for batch in ds:
...     print(batch)
[0 2 4]
[ 6  8 10]
"""

from __future__ import annotations

import atexit as _atexit
import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from . import (
    _native,
    bitwise,
    config,
    data,
    debug,
    debugging,
    dtypes,
    errors,
    image,
    io,
    lookup,
    math,
    nest,
    ops,
    ragged,
    random,
    sparse,
    strings,
    train,
    warnings,
)
from ._native import __version__
from .class_folders import ClassFolderDataset
from .config import configuration, configure
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from .dtypes import *  # noqa: F403
from .iterator import Iterator, Optional, merge_states
from .ops import *  # noqa: F403
from .options import Options
from .profiles import Profile, profile
from .ragged import RaggedTensor
from .readers import (
    CsvDataset,
    FixedLengthRecordDataset,
    JsonLinesDataset,
    TextLineDataset,
    TFRecordDataset,
    WebDataset,
)
from .sparse import SparseTensor
from .spec import DatasetSpec, NoneSpec, RaggedTensorSpec, SparseTensorSpec, TensorSpec
from .symbol import Symbol
from .tables import ArrowDataset, NumpyDataset, ParquetDataset

bool = dtypes.bool_

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "ArrowDataset",
    "ClassFolderDataset",
    "Dataset",
    "DatasetSpec",
    "Iterator",
    "NoneSpec",
    "NumpyDataset",
    "Optional",
    "Options",
    "ParquetDataset",
    "Profile",
    "Quarantined",
    "RaggedTensor",
    "RaggedTensorSpec",
    "Retried",
    "SparseTensor",
    "SparseTensorSpec",
    "Symbol",
    "TFRecordDataset",
    "TensorSpec",
    "__version__",
    "bitwise",
    "bool",
    "chrome_trace",
    "configuration",
    "configure",
    "dashboard",
    "data",
    "debug",
    "debugging",
    "dtypes",
    "errors",
    "from_tf",
    "image",
    "io",
    "live",
    "lookup",
    "math",
    "merge_states",
    "nest",
    "preprocessing",
    "profile",
    "quarantined",
    "ragged",
    "random",
    "report",
    "retry",
    "serve",
    "sparse",
    "strings",
    "tensorboard",
    "train",
    "utils",
    "warnings",
    "worker_info",
    *dtypes.__all__,
    *ops.__all__,
    "CsvDataset",
    "FixedLengthRecordDataset",
    "JsonLinesDataset",
    "TextLineDataset",
    "WebDataset",
]


def from_tf(dataset: _Any) -> Dataset:
    """The elements of a `tf.data.Dataset`, in a dataset of feedline. TensorFlow computes them."""
    from .frameworks.tensorflow import from_tf as made

    return made(dataset)


if _TYPE_CHECKING:
    from . import live, preprocessing, utils
    from .live import chrome_trace, dashboard, report, serve, tensorboard
    from .quarantine import Quarantined, Retried, quarantined, retry
    from .workers import worker_info

# Where what few programs need comes from.
_LATER = {
    **dict.fromkeys(("chrome_trace", "dashboard", "report", "serve", "tensorboard"), ".live"),
    **dict.fromkeys(("Quarantined", "Retried", "quarantined", "retry"), ".quarantine"),
    "worker_info": ".workers",
}


def __getattr__(name: str) -> _Any:
    """Helpers that few programs need are loaded when they are first asked for."""
    if name in ("live", "preprocessing", "utils"):
        return _importlib.import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(_importlib.import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


config.read_environment()
_atexit.register(_native.shutdown)
