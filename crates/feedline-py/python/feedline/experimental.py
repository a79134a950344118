"""`fl.data.experimental`: what tf.data keeps in `tf.data.experimental`. Most are other names for methods of
`Dataset`, to be used with `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import nest, ops
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Cardinality, Dataset
from .dtypes import int64
from .errors import OutOfRangeError
from .iterator import Iterator, Optional
from .lazy_numpy import np
from .lookup import KeyValueTensorInitializer, StaticHashTable
from .options import (
    AutoShardPolicy,
    AutotuneOptions,
    DistributeOptions,
    ExternalStatePolicy,
    OptimizationOptions,
    ThreadingOptions,
)
from .params import integer
from .readers.csv import CsvDataset, make_csv_dataset
from .readers.features import make_batched_features_dataset
from .readers.sql import SqlDataset
from .spec import DatasetSpec, TensorSpec

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "Optional",
    "RandomDataset",
    "Reducer",
    "SqlDataset",
    "ThreadingOptions",
    "assert_cardinality",
    "at",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_ragged_batch",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "from_list",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "index_table_from_dataset",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
    "pad_to_cardinality",
    "parallel_interleave",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "table_from_dataset",
    "take_while",
    "unbatch",
    "unique",
]

Transformation = Callable[[Dataset], Dataset]


def _method(name: str) -> Callable[..., Transformation]:
    """A function that takes the arguments of a method of `Dataset`, for use with `apply`."""
    method = getattr(Dataset, name)

    def function(*args: Any, **kwargs: Any) -> Transformation:
        return lambda dataset: getattr(dataset, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Dataset.{name}`, for use with `apply`: {method.__doc__.partition('.')[0]}."
    return function


assert_cardinality = _method("assert_cardinality")
bucket_by_sequence_length = _method("bucket_by_sequence_length")
dense_to_ragged_batch = _method("ragged_batch")
dense_to_sparse_batch = _method("sparse_batch")
enumerate_dataset = _method("enumerate")
group_by_window = _method("group_by_window")
ignore_errors = _method("ignore_errors")
rejection_resample = _method("rejection_resample")
scan = _method("scan")
take_while = _method("take_while")
unbatch = _method("unbatch")
unique = _method("unique")

from_list = Dataset.from_list
sample_from_datasets = Dataset.sample_from_datasets


def Counter(start: int = 0, step: int = 1, dtype: Any = int64) -> Dataset:
    """`Dataset.counter`."""
    return Dataset.counter(start, step, dtype)


def RandomDataset(seed: int | None = None, rerandomize_each_iteration: bool | None = None) -> Dataset:
    """`Dataset.random`."""
    return Dataset.random(seed, rerandomize_each_iteration)


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """`Dataset.choose_from_datasets`, which here passes over datasets that have ended unless told to stop."""
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def cardinality(dataset: Dataset) -> Cardinality:
    """`dataset.cardinality()`."""
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """`dataset.get_single_element()`."""
    return dataset.get_single_element()


def get_next_as_optional(iterator: Iterator) -> Optional:
    """`iterator.get_next_as_optional()`."""
    return iterator.get_next_as_optional()


def get_structure(dataset_or_iterator: Any) -> Any:
    """`dataset.element_spec`."""
    return dataset_or_iterator.element_spec


def at(dataset: Dataset, index: int) -> Any:
    """An element by its number, which must not be negative. `dataset[index]` is the same.

    Raises:
        OutOfRangeError: There is no such element.
        UnimplementedError: The dataset has to be read in order.
    """
    place = integer("at", "index", index)
    if place < 0:
        raise OutOfRangeError(f"at: the index must not be negative, but is {place}")
    return dataset[place]


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Transformation:
    """`map`, then `batch`."""
    return lambda dataset: dataset.map(map_func, num_parallel_calls).batch(batch_size, drop_remainder)


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: int,
    block_length: int = 1,
    sloppy: bool | None = False,
    buffer_output_elements: int | None = None,
    prefetch_input_elements: int | None = None,
) -> Transformation:
    """`interleave` that reads all its datasets at once; `sloppy` lets elements come in any order."""
    return lambda dataset: dataset.interleave(
        map_func, cycle_length, block_length, num_parallel_calls=cycle_length, deterministic=not sloppy
    )


def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: int | None = None) -> Transformation:
    """`shuffle`, then `repeat`: passes do not mix."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def prefetch_to_device(device: Any, buffer_size: int | None = None) -> Transformation:
    """`prefetch`: feedline delivers to the memory of the host."""
    return lambda dataset: dataset.prefetch(buffer_size)


def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Transformation:
    """The dataset itself: feedline delivers to the memory of the host."""
    return lambda dataset: dataset


class Reducer:
    """The functions of `group_by_reducer`.

    Args:
        init_func: The first state, from the key.
        reduce_func: The next state, from the state and an element.
        finalize_func: The result, from the last state.
    """

    def __init__(
        self,
        init_func: Callable[[Any], Any],
        reduce_func: Callable[[Any, Any], Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """One result for each key, in rising order of the keys, after all elements were read.

    >>> import feedline as fl
    >>> zero = fl.constant(0, fl.int64)
    >>> total = fl.data.experimental.Reducer(lambda key: zero, lambda s, x: s + x, lambda s: s)
    >>> by_parity = fl.data.experimental.group_by_reducer(lambda x: x % 2, total)
    >>> ds = fl.Dataset.range(5).apply(by_parity)
    >>> list(ds.as_numpy_iterator())
    [np.int64(6), np.int64(4)]
    """
    return lambda dataset: dataset._group_by_reducer(key_func, reducer)


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Transformation:
    """Adds elements of zeros up to a number of elements, and a component that says which are real.

    Args:
        cardinality: The number of elements afterwards.
        mask_key: The name of the new component: True for real elements.

    Raises:
        ValueError: Elements are no dicts, the number of elements is not known, or it is larger.
    """

    def transformation(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if not isinstance(spec, dict):
            raise ValueError("pad_to_cardinality: the elements must be dicts, so that the mask can be added")
        if mask_key in spec:
            raise ValueError(
                f"pad_to_cardinality: the elements have a component {mask_key!r} already; give mask_key"
            )
        count = dataset.cardinality()
        if count < 0:
            raise ValueError(
                "pad_to_cardinality: the number of elements must be known; use assert_cardinality before"
            )
        if count > cardinality:
            raise ValueError(f"pad_to_cardinality: the dataset has {count} elements, more than {cardinality}")
        real = dataset.map(lambda element: {**element, mask_key: ops.constant(True)})
        empty = nest.map_structure(_zero, spec, lists=False)
        padding = dataset.from_tensors({**empty, mask_key: False}).repeat(cardinality - count)
        return real.concatenate(padding)

    return transformation


def _zero(spec: Any) -> Any:
    if not isinstance(spec, TensorSpec) or spec.shape is None:
        what = "a dataset" if isinstance(spec, DatasetSpec) else spec
        raise ValueError(f"pad_to_cardinality: components must be dense tensors of known rank, not {what}")
    zeros = np.zeros([size or 0 for size in spec.shape], spec.dtype.dtype)
    if spec.dtype == "string":
        zeros.fill(b"")
    return zeros


def table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = None,
    hasher_spec: Any = None,
    key_dtype: Any = None,
    name: str | None = None,
) -> StaticHashTable:
    """A lookup table from a dataset of (key, value) pairs, which is read now."""
    if num_oov_buckets:
        raise NotImplementedError(
            "table_from_dataset: buckets for other keys are not offered; use default_value"
        )
    pairs = list(dataset if vocab_size is None else dataset.take(vocab_size))
    keys = [key for key, _ in pairs]
    values = [value for _, value in pairs]
    default = (b"" if isinstance(values[0], bytes) else -1) if default_value is None else default_value
    return StaticHashTable(KeyValueTensorInitializer(keys, np.asarray(values), key_dtype), default)


def index_table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = None,
    key_dtype: Any = None,
    name: str | None = None,
) -> StaticHashTable:
    """A lookup table from a dataset of keys to their places, which is read now."""
    numbered = dataset.enumerate().map(lambda place, key: (key, place))
    return table_from_dataset(numbered, num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype)
