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
import os as _os

from . import (
    _native,
    bitwise,
    config,
    data,
    debugging,
    dtypes,
    errors,
    lookup,
    math,
    nest,
    ops,
    ragged,
    random,
    sparse,
    strings,
)
from ._native import __version__
from .config import configuration, configure
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from .dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .iterator import Iterator, Optional
from .ops import *  # noqa: F403
from .options import Options
from .ragged import RaggedTensor
from .sparse import SparseTensor
from .spec import DatasetSpec, NoneSpec, RaggedTensorSpec, SparseTensorSpec, TensorSpec
from .symbol import Symbol
from .tables import ArrowDataset, NumpyDataset, ParquetDataset

bool = bool_

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "ArrowDataset",
    "DType",
    "Dataset",
    "DatasetSpec",
    "Iterator",
    "NoneSpec",
    "NumpyDataset",
    "Optional",
    "Options",
    "ParquetDataset",
    "RaggedTensor",
    "RaggedTensorSpec",
    "SparseTensor",
    "SparseTensorSpec",
    "Symbol",
    "TensorSpec",
    "__version__",
    "as_dtype",
    "bfloat16",
    "bitwise",
    "bool",
    "bool_",
    "configuration",
    "configure",
    "data",
    "debugging",
    "dtypes",
    "errors",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "lookup",
    "math",
    "nest",
    "ragged",
    "random",
    "sparse",
    "string",
    "strings",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    *ops.__all__,
]

config.read_environment()
_atexit.register(_native.shutdown)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_native.after_fork_in_child)
