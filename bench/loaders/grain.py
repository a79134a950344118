"""Grain: MapDataset read inline, which for elements this cheap beats its default of 16 reading threads."""
import grain
import numpy as np
from numpy import ndarray

from cells import Batches, cell

PACKAGE = "grain"
INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def affine(x: ndarray) -> ndarray:
    return x * 2 + 1


@cell("W1", "grain", "1 (reads inline)")
def w1(n: int, batch: int) -> Batches:
    return grain.MapDataset.range(n).map(affine).repeat().batch(batch).to_iter_dataset(INLINE)


@cell("W1", "grain batch-then-map", "1 (reads inline)")
def w1_batched(n: int, batch: int) -> Batches:
    return grain.MapDataset.range(n).repeat().batch(batch).map(affine).to_iter_dataset(INLINE)


class Rows:
    """A random-access source of (image, label)."""

    def __init__(self, images: ndarray, labels: ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[ndarray, int]:
        return self.images[i], self.labels[i]


def scale(row: tuple[ndarray, ndarray]) -> tuple[ndarray, ndarray]:
    image = row[0].astype(np.float32)
    image /= 255
    return image, row[1]


@cell("W8", "grain", "1 (reads inline)")
def w8(images: ndarray, labels: ndarray, batch: int) -> Batches:
    ds = grain.MapDataset.source(Rows(images, labels)).shuffle(seed=0).repeat()
    return ds.batch(batch).map(scale).to_iter_dataset(INLINE)


@cell("W8", "grain permutation, gather", "1 (reads inline)")
def w8_gather(images: ndarray, labels: ndarray, batch: int) -> Batches:
    """By hand: shuffle row numbers instead of rows, and gather a batch at a time."""
    ds = grain.MapDataset.range(len(images)).shuffle(seed=0).repeat().batch(batch)
    return ds.map(lambda i: scale((images[i], labels[i]))).to_iter_dataset(INLINE)
