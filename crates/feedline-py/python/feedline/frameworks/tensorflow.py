"""Datasets as `tf.data.Dataset`s and back.

Elements cross the border as NumPy arrays. TensorFlow uses an array where it lies if it is aligned, as those
of feedline are, and keeps it until its tensor is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from .. import nest
from ..dataset import UNKNOWN_CARDINALITY, Dataset
from ..dtypes import as_dtype
from ..ragged import RaggedTensor
from ..sparse import SparseTensor
from ..spec import NoneSpec, RaggedTensorSpec, SparseTensorSpec, TensorSpec, spec_text
from .memory import writable
from .passes import plain

__all__ = ["from_tf", "to_tensor", "to_tf"]


def to_tf(dataset: Dataset, passes: Callable[[], Iterator[Any]] | None = None) -> tf.data.Dataset:
    """A `tf.data.Dataset` of the same elements.

    Args:
        dataset: The dataset.
        passes: Gives the elements of a pass, ready for TensorFlow (`to_tensor`), in place of the dataset.
            They may be fewer, so the length is not known then.
    """
    dataset = plain(dataset)
    spec = dataset.element_spec

    def elements() -> Iterator[Any]:
        if passes is not None:
            yield from passes()
            return
        with dataset.iter() as iterator:
            for element in iterator:
                yield nest.map_structure(to_tensor, element, lists=False)

    try:
        signature = nest.map_structure(_tf_spec, spec, lists=False)
    except TypeError:
        raise TypeError(
            f"to_tf: TensorFlow takes tensors, but the elements are {spec_text(spec)}; make tensors of "
            "datasets with .flat_map, and leave out components that are None"
        ) from None
    # Here, where the user's line is known: TensorFlow begins passes in threads of its own.
    dataset._warn()
    made = tf.data.Dataset.from_generator(elements, output_signature=signature)
    # The pipeline reads ahead already; what TensorFlow took on top of that would be lost between two passes.
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    made = made.with_options(options)
    count = UNKNOWN_CARDINALITY if passes is not None else int(dataset.cardinality())
    return (
        made if count == UNKNOWN_CARDINALITY else made.apply(tf.data.experimental.assert_cardinality(count))
    )


def from_tf(dataset: tf.data.Dataset) -> Dataset:
    """The elements of a `tf.data.Dataset`."""
    try:
        signature = tf.nest.map_structure(_our_spec, dataset.element_spec)
    except TypeError:
        raise TypeError(
            f"from_tf takes a tf.data.Dataset of tensors, not of {dataset.element_spec}"
        ) from None

    def elements() -> Iterator[Any]:
        for element in dataset:
            yield tf.nest.map_structure(_from_tf, element)

    made = Dataset.from_generator(elements, output_signature=signature)
    return made.assert_cardinality(int(dataset.cardinality()))


def _tf_spec(leaf: Any) -> Any:
    if isinstance(leaf, TensorSpec):
        return tf.TensorSpec(leaf.shape, _tf_dtype(leaf.dtype))
    if isinstance(leaf, RaggedTensorSpec):
        splits = _tf_dtype(leaf.row_splits_dtype)
        return tf.RaggedTensorSpec(leaf.shape, _tf_dtype(leaf.dtype), leaf.ragged_rank, splits)
    if isinstance(leaf, SparseTensorSpec):
        return tf.SparseTensorSpec(leaf.shape, _tf_dtype(leaf.dtype))
    raise TypeError(leaf)


def _our_spec(leaf: Any) -> Any:
    if isinstance(leaf, tf.TensorSpec):
        return TensorSpec(leaf.shape, as_dtype(leaf.dtype.name))
    if isinstance(leaf, tf.RaggedTensorSpec):
        splits = as_dtype(leaf.row_splits_dtype.name)
        return RaggedTensorSpec(leaf.shape, as_dtype(leaf.dtype.name), leaf.ragged_rank, splits)
    if isinstance(leaf, tf.SparseTensorSpec):
        return SparseTensorSpec(leaf.shape, as_dtype(leaf.dtype.name))
    if isinstance(leaf, tf.NoneTensorSpec):
        return NoneSpec()
    raise TypeError(leaf)


def _tf_dtype(dtype: Any) -> tf.DType:
    return tf.as_dtype(dtype.name)


def to_tensor(leaf: Any) -> Any:
    """A leaf of an element as TensorFlow takes it."""
    if isinstance(leaf, RaggedTensor):
        return tf.RaggedTensor.from_nested_row_splits(
            leaf.flat_values, leaf.nested_row_splits, validate=False
        )
    if isinstance(leaf, SparseTensor):
        return tf.SparseTensor(leaf.indices, leaf.values, leaf.dense_shape)
    return writable(leaf)


def _from_tf(leaf: Any) -> Any:
    if isinstance(leaf, tf.RaggedTensor):
        splits = [part.numpy() for part in leaf.nested_row_splits]
        return RaggedTensor(leaf.flat_values.numpy(), splits)
    if isinstance(leaf, tf.SparseTensor):
        return SparseTensor(leaf.indices.numpy(), leaf.values.numpy(), leaf.dense_shape.numpy())
    return None if leaf is None else np.asarray(leaf)
