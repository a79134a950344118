"""tf.data as its performance guide says (AUTOTUNE, prefetch, vectorised maps), and by hand where faster.

Order stays deterministic, its default: W1 asks for it, and in a trial of W8 relaxing it gained about 5 %.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from numpy import ndarray

from cells import Batches, cell

PACKAGE = "tensorflow-cpu"
AUTO = tf.data.AUTOTUNE
Dataset = tf.data.Dataset


def numpy(ds: Dataset) -> Batches:
    return ds.prefetch(AUTO).as_numpy_iterator()


def affine(x: tf.Tensor) -> tf.Tensor:
    return x * 2 + 1


@cell("W1", "tf.data", "AUTOTUNE")
def w1(n: int, batch: int) -> Batches:
    return numpy(Dataset.range(n).repeat().map(affine, AUTO).batch(batch))


@cell("W1", "tf.data batch-then-map", "AUTOTUNE")
def w1_batched(n: int, batch: int) -> Batches:
    return numpy(Dataset.range(n).repeat().batch(batch).map(affine, AUTO))


@cell("W1", "tf.data big batches, map, rebatch", "AUTOTUNE")
def w1_rebatch(n: int, batch: int) -> Batches:
    return numpy(Dataset.range(n).repeat().batch(128 * batch).map(affine, AUTO).rebatch(batch))


FEATURES = {**{f"f{j}": tf.io.FixedLenFeature([], tf.float32) for j in range(10)},
            "label": tf.io.FixedLenFeature([], tf.int64)}


def records(files: list[str], compression: str = "") -> Dataset:
    return Dataset.from_tensor_slices(files).interleave(
        lambda name: tf.data.TFRecordDataset(name, compression), cycle_length=8, num_parallel_calls=AUTO).repeat()


@cell("W2", "tf.data parse-each", "AUTOTUNE")
def w2(files: list[str], batch: int) -> Batches:
    return numpy(records(files).map(lambda r: tf.io.parse_single_example(r, FEATURES), AUTO).batch(batch))


@cell("W2", "tf.data parse-batch", "AUTOTUNE")
def w2_batched(files: list[str], batch: int) -> Batches:
    return numpy(records(files).batch(batch).map(lambda r: tf.io.parse_example(r, FEATURES), AUTO))


@cell("W2gz", "tf.data parse-batch", "AUTOTUNE")
def w2_gz(files: list[str], batch: int) -> Batches:
    ds = records(files, "GZIP").batch(batch)
    return numpy(ds.map(lambda r: tf.io.parse_example(r, FEATURES), AUTO))


def scale(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.cast(image, tf.float32) / 255, label


@cell("W8", "tf.data", "AUTOTUNE")
def w8(images: ndarray, labels: ndarray, batch: int) -> Batches:
    ds = Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
    return numpy(ds.batch(batch).map(scale, AUTO))


@cell("W8", "tf.data permutation, gather", "AUTOTUNE")
def w8_gather(images: ndarray, labels: ndarray, batch: int) -> Batches:
    """By hand: shuffle row numbers instead of rows, and gather a batch at a time."""
    images, labels = tf.constant(images), tf.constant(labels)
    rows = tf.range(len(images))
    ds = Dataset.range(1).repeat().map(lambda _: tf.random.shuffle(rows)).rebatch(batch)
    return numpy(ds.map(lambda i: scale(tf.gather(images, i), tf.gather(labels, i)), AUTO))
