"""Fifteen steps on two batches, in a custom loop.

What was wrong: the loop called `next(iter(dataset))`, which starts again each time, so all fifteen steps
trained on the first ten rows and nobody noticed that the data had an end. With one iterator the third step is
an error that says so; `repeat` is what was meant.
"""

from __future__ import annotations

import feedline.tf as tf
import keras
import numpy as np

STEPS = 15


def main() -> None:
    """Runs into the end, then trains as it was meant."""
    random = np.random.default_rng(0)
    data = random.normal(size=(20, 4)).astype(np.float32)
    labels = (data.sum(1) > 0).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((data, labels)).batch(10)

    model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer=keras.optimizers.Adam(), loss="binary_crossentropy")

    iterator = iter(dataset)
    try:
        for _ in range(STEPS):
            x, y = iterator.get_next()
    except tf.errors.OutOfRangeError as end:
        print(end)

    for x, y in dataset.repeat().take(STEPS):
        loss = model.train_on_batch(x.numpy(), y.numpy())
    print(f"loss {float(loss):.3f} after {STEPS} steps")


if __name__ == "__main__":
    main()
