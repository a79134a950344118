"""JPEG files to batches of float32 pictures of one size.

What was wrong: `convert_image_dtype` came after `resize`, which gives floats already, so nothing was scaled
and the model got values up to 255. Converted first, they lie between 0 and 1. And `list_files` shuffles
unless told otherwise.
"""

from __future__ import annotations

import data
import feedline.tf as tf


def load(path):
    """The picture of a file: float32, 224 x 224 x 3, from 0 to 1."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    return tf.image.resize(image, (224, 224))


def main() -> None:
    """Reads all of them."""
    data.pictures("photos", 40)
    dataset = tf.data.Dataset.list_files("photos/*.jpg", shuffle=False)
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(tf.data.AUTOTUNE)
    for batch in dataset:
        print(batch.shape, f"from {batch.numpy().min():.2f} to {batch.numpy().max():.2f}")
        assert batch.numpy().max() <= 1


if __name__ == "__main__":
    main()
