"""The input of each workload, made from a fixed seed, and beside it the right answer by plain NumPy."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from digest import Columns


def digits(n: int = 60_000) -> tuple[np.ndarray, np.ndarray]:
    """Random 28 x 28 images and labels. Each image carries its row number in its first four pixels, so that
    a check can tell which rows arrived after a shuffle, and whether each kept its label."""
    rng = np.random.default_rng(8)
    images = rng.integers(0, 256, (n, 28, 28), np.uint8)
    images[:, 0, :4] = np.arange(n, dtype="<u4").view(np.uint8).reshape(n, 4)
    return images, rng.integers(0, 10, n)


def numbers(n: int, batch: int) -> Iterator[Columns]:
    for start in range(0, n, batch):
        yield [np.arange(start, min(start + batch, n))]


def odd_numbers(n: int, batch: int) -> Iterator[Columns]:
    return ([x * 2 + 1] for (x,) in numbers(n, batch))


def scaled_digits(images: np.ndarray, labels: np.ndarray, batch: int) -> Iterator[Columns]:
    order = np.random.default_rng(0).permutation(len(images))
    for start in range(0, len(order), batch):
        rows = order[start:start + batch]
        yield [images[rows].astype(np.float32) / 255, labels[rows]]
