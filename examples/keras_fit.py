"""Keras 3 on any backend: a dataset goes into `fit`, `evaluate` and `predict` as it is.

KERAS_BACKEND=jax python examples/keras_fit.py
"""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import feedline as fl
import keras
import numpy as np


def rings(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the plane; those in a ring around the middle are of class 1, about one in four."""
    points = np.random.default_rng(seed).uniform(-1, 1, (count, 2)).astype(np.float32)
    radius = np.hypot(*points.T)
    return points, ((radius > 0.4) & (radius < 0.7)).astype(np.int32)


def main() -> None:
    """Trains with a progress bar, weights for classes, and validation."""
    keras.utils.set_random_seed(1)
    train = fl.Dataset.from_tensor_slices(rings(4000, seed=1)).shuffle(seed=1).batch(64)
    test = fl.Dataset.from_tensor_slices(rings(1000, seed=2)).batch(250)

    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(64, activation="relu"), layers.Dense(64, activation="relu"), layers.Dense(2)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss, metrics=["accuracy"])
    model.fit(train, validation_data=test, epochs=8, class_weight={0: 1.0, 1: 2.0}, verbose=2)

    # An endless dataset, in epochs of any length.
    model.fit(train.repeat(), steps_per_epoch=40, epochs=2, verbose=2)
    print(model.predict(test.map(lambda points, labels: points), verbose=0).shape)
    assert model.evaluate(test, verbose=0)[1] > 0.93


if __name__ == "__main__":
    main()
