"""Trains a small classifier on images that feedline shuffles, augments and batches: `make demo`.

The data set is made here: ten digits of a 3 x 5 font, somewhere on an 8 x 8 image, in all shades, with noise.
The model is two layers of NumPy. What matters is in between: `train` and `validation`.
"""

from __future__ import annotations

import os
import sys
import time

# The products of matrices here are small: threads of their own would only get in each other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import feedline as fl
import numpy as np

EPOCHS = 8
BATCH = 128
TRAINING, VALIDATION = 20_000, 2_000
DIGITS = """
    ### .#. ### ### #.# ### ### ### ### ###
    #.# ##. ..# ..# #.# #.. #.. ..# #.# #.#
    #.# .#. ### .## ### ### ### .#. ### ###
    #.# .#. #.. ..# ..# ..# #.# .#. #.# ..#
    ### ### ### ### ..# ### ### .#. ### ###
"""


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (uint8, 8 x 8) and their labels."""
    random = np.random.default_rng(seed)
    rows = [line.split() for line in DIGITS.split("\n") if line]
    font = np.array([[[dot == "#" for dot in row[digit]] for row in rows] for digit in range(10)])
    labels = random.integers(10, size=count)
    images = random.normal(50, 20, (count, 8, 8))
    for image, label in zip(images, labels, strict=True):
        top, left = random.integers(0, 4), random.integers(1, 5)
        image[top : top + 5, left : left + 3] += font[label] * random.uniform(100, 200)
    return images.clip(0, 255).astype(np.uint8), labels


# The pipelines. Both functions are called once, to record what they do; they run without Python.


def normalise(image, label):
    """From bytes to a vector of floats around zero."""
    return fl.reshape(image, [64]) / 255.0 - 0.5, label


def augment(image, label):
    """The same, a little brighter or darker each time, with noise that no epoch repeats."""
    pixels, label = normalise(image, label)
    return pixels * fl.random.uniform([], 0.8, 1.2) + fl.random.normal([64], stddev=0.05), label


fl.random.set_seed(1)
train = (
    fl.Dataset.from_tensor_slices(digits(TRAINING, seed=1))
    .shuffle()
    .map(augment)
    .batch(BATCH, drop_remainder=True)
    .prefetch(fl.AUTOTUNE)
)
validation = fl.Dataset.from_tensor_slices(digits(VALIDATION, seed=2)).map(normalise).batch(500)


class Model:
    """64 inputs, a hidden layer, 10 classes; Adam."""

    def __init__(self, hidden: int = 96, rate: float = 5e-3) -> None:
        random = np.random.default_rng(0)
        shapes = [(64, hidden), (hidden,), (hidden, 10), (10,)]
        self.weights = [random.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]
        self.means = [np.zeros_like(w) for w in self.weights]
        self.squares = [np.zeros_like(w) for w in self.weights]
        self.rate, self.steps = rate, 0

    def hidden(self, x: np.ndarray) -> np.ndarray:
        """The hidden layer."""
        return np.maximum(x @ self.weights[0] + self.weights[1], 0)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """A score for each class."""
        return self.hidden(x) @ self.weights[2] + self.weights[3]

    def step(self, x: np.ndarray, labels: np.ndarray) -> tuple[float, int]:
        """Learns from a batch. Gives the loss and the number of right answers."""
        rows = np.arange(len(x))
        hidden = self.hidden(x)
        scores = hidden @ self.weights[2] + self.weights[3]
        right = int((scores.argmax(1) == labels).sum())
        scores = np.exp(scores - scores.max(1, keepdims=True))
        chances = scores / scores.sum(1, keepdims=True)
        loss = float(-np.log(chances[rows, labels] + 1e-9).mean())

        chances[rows, labels] -= 1
        above = chances / len(x)
        below = (above @ self.weights[2].T) * (hidden > 0)
        self.update([x.T @ below, below.sum(0), hidden.T @ above, above.sum(0)])
        return loss, right

    def update(self, gradients: list[np.ndarray]) -> None:
        """A step of Adam."""
        self.steps += 1
        rate = self.rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for w, g, mean, square in zip(self.weights, gradients, self.means, self.squares, strict=True):
            mean += 0.1 * (g - mean)
            square += 0.001 * (g * g - square)
            w -= rate * mean / (np.sqrt(square) + 1e-8)


def main() -> None:
    """Trains, shows how well it went, and what the pipeline did."""
    model = Model()
    live = sys.stdout.isatty()
    for epoch in range(1, EPOCHS + 1):
        start, seen, right, loss = time.perf_counter(), 0, 0, 0.0
        for step, (images, labels) in enumerate(train, 1):
            batch_loss, batch_right = model.step(images, labels)
            seen, right, loss = seen + len(images), right + batch_right, loss + batch_loss
            if step == len(train) or (live and step % 10 == 0):
                rate = seen / (time.perf_counter() - start)
                line = f"epoch {epoch:2}/{EPOCHS}  step {step:3}/{len(train)}  {rate:9,.0f} samples/s"
                line += f"  loss {loss / step:.3f}  accuracy {right / seen:.1%}"
                print(line, end="\r" if live and step < len(train) else "\n", flush=True)

    right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in validation)
    print(f"\nvalidation accuracy {right / VALIDATION:.1%}\n")
    print(train.explain())


if __name__ == "__main__":
    main()
