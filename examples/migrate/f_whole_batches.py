"""TFRecords with raw pixels, parsed and resized a batch at a time.

What was wrong: as in e_records.py. Working on whole batches was to save calls; a traced function has none to
save, and runs over many rows at once by itself, so both ways cost the same here.
"""

from __future__ import annotations

import data
import feedline.tf as tf
from e_records import FEATURES


def parse(records):
    """The pictures and the labels of a batch of records."""
    parts = tf.io.parse_example(records, FEATURES)
    images = tf.reshape(tf.io.decode_raw(parts["image"], tf.uint8), [-1, 24, 32, 3])
    images = tf.image.resize(tf.image.convert_image_dtype(images, tf.float32), (48, 48))
    return images, parts["label"]


def main() -> None:
    """Reads them."""
    data.records("train.tfrecord", 150)
    dataset = tf.data.TFRecordDataset("train.tfrecord").batch(64)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
    print([tuple(images.shape) for images, _ in dataset])


if __name__ == "__main__":
    main()
