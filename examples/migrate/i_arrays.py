"""Arrays, shuffled and batched, into `model.fit`.

What was wrong: nothing. `shuffle()` without a number mixes all rows as well, and holds none of them: rows of
arrays can be had by number.
"""

from __future__ import annotations

import feedline.tf as tf
import keras
import numpy as np


def main() -> None:
    """Learns which of two clouds of points a point belongs to."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 640)
    X = random.normal(size=(640, 8)).astype(np.float32) + y[:, None].astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((X, y)).shuffle(10_000).batch(32).prefetch(tf.data.AUTOTUNE)

    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    metric = keras.metrics.BinaryAccuracy(threshold=0.0)
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss, metrics=[metric])
    history = model.fit(dataset, epochs=10, verbose=2).history
    assert history["binary_accuracy"][-1] > 0.85


if __name__ == "__main__":
    main()
