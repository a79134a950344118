"""tf.data as its performance guide says (AUTOTUNE, prefetch, vectorised maps), and by hand where faster.

Order stays deterministic, its default: W1 asks for it, and in a trial of W8 relaxing it gained about 5 %.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from numpy import ndarray

from cells import Batches, cell
from data import Photos
from pictures import MEAN, SIDE, STD

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
        lambda name: tf.data.TFRecordDataset(name, compression), cycle_length=8, num_parallel_calls=AUTO)


@cell("W2", "tf.data parse-each", "AUTOTUNE")
def w2(files: list[str], batch: int) -> Batches:
    return numpy(records(files).repeat().map(lambda r: tf.io.parse_single_example(r, FEATURES), AUTO).batch(batch))


@cell("W2", "tf.data parse-batch", "AUTOTUNE")
def w2_batched(files: list[str], batch: int) -> Batches:
    return numpy(records(files).repeat().batch(batch).map(lambda r: tf.io.parse_example(r, FEATURES), AUTO))


@cell("W2gz", "tf.data parse-batch", "AUTOTUNE")
def w2_gz(files: list[str], batch: int) -> Batches:
    ds = records(files, "GZIP").repeat().batch(batch)
    return numpy(ds.map(lambda r: tf.io.parse_example(r, FEATURES), AUTO))


IMAGE = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
FAST = {"dct_method": "INTEGER_FAST", "fancy_upscaling": False}


def crop(jpeg: tf.Tensor, **how) -> tf.Tensor:
    """The random crop's pixels: no others are decoded."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(jpeg), tf.zeros([0, 0, 4]), area_range=(.08, 1), aspect_ratio_range=(3 / 4, 4 / 3),
        max_attempts=10, use_image_if_no_bounding_boxes=True)
    window = tf.concat([begin[:2], size[:2]], 0)
    return tf.image.resize(tf.image.decode_and_crop_jpeg(jpeg, window, channels=3, **how), (SIDE, SIDE))


def normalise(image: tf.Tensor) -> tf.Tensor:
    return (image - MEAN) / STD


def normalise_rows(image: tf.Tensor) -> tf.Tensor:
    """The same with constants repeated to a row of pixels: Eigen is slow at broadcasting over three."""
    rows = tf.reshape(image, (SIDE, SIDE * 3))
    return tf.reshape(rows * np.tile(1 / STD, SIDE) - np.tile(MEAN / STD, SIDE), (SIDE, SIDE, 3))


def train(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    parsed = tf.io.parse_single_example(record, IMAGE)
    image = tf.image.random_flip_left_right(crop(parsed["image/encoded"]))
    return normalise(image), parsed["image/class/label"]


def train_tuned(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    parsed = tf.io.parse_single_example(record, IMAGE)
    image = tf.image.random_flip_left_right(crop(parsed["image/encoded"], **FAST))
    return normalise_rows(image), parsed["image/class/label"]


@cell("W3", "tf.data", "AUTOTUNE")
def w3(photos: Photos, batch: int) -> Batches:
    return numpy(records(photos.records).repeat().map(train, AUTO).batch(batch))


@cell("W12", "tf.data tuned", "AUTOTUNE")
@cell("W3", "tf.data tuned", "AUTOTUNE")
def w3_tuned(photos: Photos, batch: int) -> Batches:
    return numpy(records(photos.records).repeat().map(train_tuned, AUTO).batch(batch))


@cell("W10", "tf.data tuned", "AUTOTUNE")
def w10_tuned(photos: Photos, batch: int, window: int) -> Batches:
    return numpy(records(photos.records).shuffle(window).repeat().map(train_tuned, AUTO).batch(batch))


def middle(name: tf.Tensor, antialias: bool = True, **how) -> tf.Tensor:
    """Shorter side 256, then the middle: antialiased, as torchvision and Pillow resize."""
    image = tf.io.decode_jpeg(tf.io.read_file(name), channels=3, **how)
    size = tf.shape(image)[:2]
    size = size * 256 // tf.reduce_min(size)
    image = tf.image.resize(image, size, antialias=antialias)
    return tf.image.resize_with_crop_or_pad(image, SIDE, SIDE)


def middles(photos: Photos, normalise, **how) -> Dataset:
    named = Dataset.from_tensor_slices((photos.files, np.array(photos.labels)))
    return named.map(lambda name, label: (normalise(middle(name, **how)), label), AUTO)


@cell("W4", "tf.data", "AUTOTUNE")
def w4(photos: Photos, batch: int) -> Batches:
    return numpy(middles(photos, normalise).repeat().batch(batch))


@cell("W4", "tf.data tuned", "AUTOTUNE")
def w4_tuned(photos: Photos, batch: int) -> Batches:
    return numpy(middles(photos, normalise_rows, **FAST).repeat().batch(batch))


@cell("W4", "tf.data tuned, no antialias", "AUTOTUNE")
def w4_rough(photos: Photos, batch: int) -> Batches:
    """Less than asked for: antialiasing takes TensorFlow longer than decoding does."""
    return numpy(middles(photos, normalise_rows, antialias=False, **FAST).repeat().batch(batch))


@cell("W7", "tf.data cache, batch", "AUTOTUNE")
def w7(photos: Photos, batch: int) -> Batches:
    return numpy(middles(photos, normalise_rows).cache().repeat().batch(batch))


@cell("W7", "tf.data batch, cache", "AUTOTUNE")
def w7_batches(photos: Photos, batch: int) -> Batches:
    return numpy(middles(photos, normalise_rows).batch(batch).cache().repeat())


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
