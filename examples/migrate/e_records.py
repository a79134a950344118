"""TFRecords with raw pixels: parsed, resized, cached, batched.

What was wrong: a pattern was given to TFRecordDataset, which TensorFlow takes for the name of one file
(feedline looks for what matches); and the flat result of `decode_raw` was resized, which needs height and
width: `reshape` first.
"""

from __future__ import annotations

import data
import feedline.tf as tf

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def parse(record):
    """The picture and the label of a record."""
    parts = tf.io.parse_single_example(record, FEATURES)
    image = tf.reshape(tf.io.decode_raw(parts["image"], tf.uint8), [24, 32, 3])
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), (48, 48))
    return image, parts["label"]


def main() -> None:
    """Reads them twice: the second pass comes from the cache."""
    for shard in range(2):
        data.records(f"train-{shard}.tfrecord", 50)
    dataset = tf.data.TFRecordDataset("train-*.tfrecord")
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    dataset = dataset.batch(32).prefetch(tf.data.AUTOTUNE)
    for epoch in range(2):
        print(f"epoch {epoch}:", [tuple(images.shape) for images, _ in dataset])


if __name__ == "__main__":
    main()
