"""TensorFlow's names for what feedline has: `import feedline.tf as tf`, and the input side of a program moves
over.

Elements that are iterated here answer `.numpy()`, as TensorFlow's tensors do; they are NumPy arrays all the
same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator as _PyIterator
from types import SimpleNamespace
from typing import Any

from . import (
    bitwise,
    debugging,
    dtypes as _dtypes,
    errors,
    experimental as _experimental,
    image,
    io as _io,
    lookup,
    math,
    nest,
    ops as _ops,
    preprocessing as _preprocessing,
    ragged,
    random,
    readers as _readers,
    sparse,
    strings,
    train,
    utils as _utils,
)
from .class_folders import LabelledDataset as _LabelledDataset
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset as _Dataset
from .dtypes import *  # noqa: F403
from .iterator import Iterator as _Iterator, Optional
from .ops import *  # noqa: F403
from .options import Options as _Options, ThreadingOptions as _ThreadingOptions
from .ragged import RaggedTensor
from .sparse import SparseTensor
from .spec import (
    DatasetSpec as _DatasetSpec,
    RaggedTensorSpec,
    SparseTensorSpec,
    TensorSpec,
    as_shape as TensorShape,
)
from .tensor import Tensor, as_tensors

bool = _dtypes.bool_
newaxis = None

__all__ = [
    "RaggedTensor",
    "RaggedTensorSpec",
    "SparseTensor",
    "SparseTensorSpec",
    "Tensor",
    "TensorShape",
    "TensorSpec",
    "bitwise",
    "bool",
    "convert_to_tensor",
    "data",
    "debugging",
    "errors",
    "image",
    "io",
    "is_tensor",
    "keras",
    "lookup",
    "math",
    "nest",
    "newaxis",
    "nn",
    "ragged",
    "random",
    "sparse",
    "strings",
    "train",
    *_dtypes.__all__,
    *_ops.__all__,
]


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor from Python data: `constant`, or the value itself if it is symbolic."""
    return _ops.constant(value, dtype)


def is_tensor(x: Any) -> Any:
    """Whether a value is a tensor: an array, a symbolic value, a ragged or a sparse tensor."""
    return hasattr(x, "dtype") and hasattr(x, "shape")


class Iterator:
    """Goes over a dataset and gives elements that answer `.numpy()`."""

    __slots__ = ("_iterator",)

    def __init__(self, iterator: _Iterator) -> None:
        self._iterator = iterator

    def __iter__(self) -> _PyIterator[Any]:
        return self

    def __next__(self) -> Any:
        return _element(next(self._iterator))

    def get_next(self) -> Any:
        """The next element; OutOfRangeError after the last."""
        return _element(self._iterator.get_next())

    def get_next_as_optional(self) -> Optional:
        """The next element as an `Optional`."""
        found = self._iterator.get_next_as_optional()
        return Optional.from_value(_element(found.get_value())) if found.has_value() else found

    def state_dict(self) -> dict[str, Any]:
        """Where this iterator is: what `Dataset.iter(state)` goes on from."""
        return self._iterator.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Goes to where another iterator of the same dataset was."""
        self._iterator.load_state_dict(state)

    def __enter__(self) -> Iterator:
        return self

    def __exit__(self, *_: object) -> None:
        self._iterator.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _element(value: Any) -> Any:
    if isinstance(value, _Dataset):
        return Dataset(value._plan)
    if nest.is_nested(value, lists=False):
        return nest.map_structure(_element, value, lists=False)
    return [_element(item) for item in value] if isinstance(value, list) else as_tensors(value)


class _AnyDataset(type(_Dataset)):  # type: ignore[misc]
    """Makes every dataset of feedline an instance of `tf.data.Dataset`."""

    def __instancecheck__(cls, instance: Any) -> Any:
        return isinstance(instance, _Dataset) if cls is Dataset else super().__instancecheck__(instance)


class Dataset(_Dataset, metaclass=_AnyDataset):
    """`feedline.Dataset`, with elements that answer `.numpy()`."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return Iterator(super().__iter__())

    def iter(self, state: Any = None, *, epoch: int | None = None, **options: Any) -> Any:
        """A new iterator: with options for this pass only, for a certain epoch, or from where another was."""
        if state is None and epoch is None and not options:
            return iter(self)
        return Iterator(super().iter(state, epoch=epoch, **options))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if type(found) is Dataset else _element(found)

    def peek(self) -> Any:
        """The first element."""
        return _element(super().peek())

    def reduce(self, initial_state: Any, reduce_func: Any, name: str | None = None) -> Any:
        """Carries a state through all elements and gives the last one."""
        return _element(super().reduce(initial_state, reduce_func, name))


class LabelledDataset(_LabelledDataset, Dataset):
    """A dataset of files that belong to classes."""


class ImageDataGenerator(_preprocessing.ImageDataGenerator):
    """`feedline.preprocessing.ImageDataGenerator`, with flows whose elements answer `.numpy()`."""

    def flow(self, *args: Any, **kwargs: Any) -> Dataset:
        """Batches of changed pictures from arrays."""
        return Dataset(super().flow(*args, **kwargs)._plan)

    def flow_from_directory(self, *args: Any, **kwargs: Any) -> LabelledDataset:
        """Batches of changed pictures from class folders."""
        return _labelled(super().flow_from_directory(*args, **kwargs))


def _labelled(dataset: _LabelledDataset) -> LabelledDataset:
    return LabelledDataset.of(dataset, dataset.class_names, dataset.file_paths)


def _keras_names() -> SimpleNamespace:
    """The helpers of `tf.keras`."""

    def of_folder(function: Any) -> Any:
        @functools.wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            found = function(*args, **kwargs)
            return [_labelled(part) for part in found] if isinstance(found, list) else _labelled(found)

        return made

    @functools.wraps(_utils.split_dataset)
    def split_dataset(*args: Any, **kwargs: Any) -> tuple[Dataset, Dataset]:
        left, right = _utils.split_dataset(*args, **kwargs)
        return Dataset(left._plan), Dataset(right._plan)

    names = {name: getattr(_utils, name) for name in _utils.__all__}
    for name in ("image_dataset_from_directory", "text_dataset_from_directory"):
        names[name] = of_folder(names[name])
    names["timeseries_dataset_from_array"] = _of_this_class(names["timeseries_dataset_from_array"])
    names["split_dataset"] = split_dataset
    names["to_categorical"] = _answering(names["to_categorical"])
    image = SimpleNamespace(
        ImageDataGenerator=ImageDataGenerator, smart_resize=_answering(_preprocessing.image.smart_resize)
    )
    folders = {name: names[name] for name in names if name.endswith(("_directory", "_array"))}
    return SimpleNamespace(
        utils=SimpleNamespace(**names),
        preprocessing=SimpleNamespace(image=image, **folders),
    )


def _experimental_names() -> SimpleNamespace:
    names = {name: getattr(_experimental, name) for name in _experimental.__all__}
    for name in (
        "Counter",
        "CsvDataset",
        "RandomDataset",
        "SqlDataset",
        "choose_from_datasets",
        "from_list",
        "make_batched_features_dataset",
        "make_csv_dataset",
        "sample_from_datasets",
    ):
        names[name] = _of_this_class(names[name])
    return SimpleNamespace(**names)


def _of_this_class(function: Any) -> Any:
    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Dataset:
        return Dataset(function(*args, **kwargs)._plan)

    return made


def _answering(function: Any) -> Any:
    """The function with results that answer `.numpy()` where they are computed at once."""
    if not callable(function) or isinstance(function, type):
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return _element(function(*args, **kwargs))

    return called


def _answering_names(module: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: _answering(getattr(module, name)) for name in module.__all__})


for _name in _ops.__all__:
    globals()[_name] = _answering(getattr(_ops, _name))
convert_to_tensor = _answering(convert_to_tensor)
bitwise, math, random, strings = (  # type: ignore[assignment]
    _answering_names(module) for module in (bitwise, math, random, strings)
)
nn = SimpleNamespace(
    relu=globals()["relu"], sigmoid=math.sigmoid, softmax=math.softmax, softplus=math.softplus, tanh=math.tanh
)

data = SimpleNamespace(
    AUTOTUNE=AUTOTUNE,
    INFINITE_CARDINALITY=INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY=UNKNOWN_CARDINALITY,
    Dataset=Dataset,
    DatasetSpec=_DatasetSpec,
    Iterator=Iterator,
    Options=_Options,
    ThreadingOptions=_ThreadingOptions,
    experimental=_experimental_names(),
    **{name: _of_this_class(getattr(_readers, name)) for name in _readers.__all__},
)
io = _answering_names(_io)
keras = _keras_names()
