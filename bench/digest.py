"""What a loader delivered, boiled down to a few exact numbers that all loaders must agree on."""
from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

Columns = list[np.ndarray]


class Digest(Protocol):
    """Folds the first `rows` rows of a stream, batch by batch: kept batches would show as peak memory."""

    rows: int

    def add(self, columns: Columns) -> None: ...

    def value(self) -> dict[str, Any]: ...


class Ordered:
    """For pipelines that keep order: a plain sum, and one by position, which a swap of two rows changes."""

    def __init__(self, rows: int) -> None:
        self.rows, self.seen, self.total, self.weighted = rows, 0, 0, 0

    def add(self, columns: Columns) -> None:
        x = columns[0].astype(np.int64)
        self.total += int(x.sum())
        self.weighted += int((x * np.arange(self.seen, self.seen + len(x))).sum())
        self.seen += len(x)

    def value(self) -> dict[str, Any]:
        return {"rows": self.seen, "sum": self.total, "sum_by_position": self.weighted}


class Epoch:
    """For shuffled (image, label) pipelines: every row once, labels, pixels and pairs kept, fully mixed.

    Scaled pixels times 255 round back to the very bytes they came from, so the sums are exact. A full shuffle
    puts the mean source position of the first hundred rows near the middle; one within a window does not.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self.pixels, self.pairs = rows, 0, 0
        self.labels = np.zeros(10, np.int64)
        self.positions: list[np.ndarray] = []

    def add(self, columns: Columns) -> None:
        images, labels = columns
        pixels = np.rint(images * 255).astype(np.int64)
        position = pixels[:, 0, :4] @ (256 ** np.arange(4))
        self.pixels += int(pixels.sum())
        self.pairs += int((position * labels).sum())
        self.labels += np.bincount(labels, minlength=10)
        self.positions.append(position)

    def value(self) -> dict[str, Any]:
        positions = np.concatenate(self.positions)
        middle = float(positions[:100].mean()) / self.rows
        return {"rows": len(positions), "distinct_rows": len(np.unique(positions)),
                "labels": self.labels.tolist(), "pixels": self.pixels, "pairs": self.pairs,
                "full_shuffle": .25 < middle < .75}


class Rows:
    """For rows of numbers in any order: the bits of every column added up, and of every column times the
    last, which two rows that swapped a value change."""

    def __init__(self, rows: int) -> None:
        self.rows, self.seen = rows, 0
        self.totals: list[int] = []
        self.pairs: list[int] = []

    def add(self, columns: Columns) -> None:
        bits = [c.reshape(-1).view(f"i{c.itemsize}").astype(np.int64) for c in columns]
        self.totals = self.totals or [0] * len(bits)
        self.pairs = self.pairs or [0] * len(bits)
        for k, column in enumerate(bits):
            self.totals[k] += int(column.sum())
            # Products overflow: they are summed modulo 2**64, whatever the batches.
            self.pairs[k] = (self.pairs[k] + int((column * bits[-1]).sum())) % 2**64
        self.seen += len(bits[0])

    def value(self) -> dict[str, Any]:
        return {"rows": self.seen, "sums": self.totals, "pairs": self.pairs}


class Table:
    """For shuffled tables: every row once and whole, and the first batch from far apart.

    Bits of floats are summed as integers, so that the sums are exact and do not depend on the order. A row that
    got a value of another row changes the sum of products of neighbouring columns.
    """

    def __init__(self, rows: int) -> None:
        self.rows, self.seen, self.sums, self.pairs = rows, 0, 0, 0

    def add(self, columns: Columns) -> None:
        bits = [x.view(np.uint32).astype(np.uint64) if x.dtype == np.float32 else x.astype(np.uint64) for x in columns]
        self.sums += sum(int(x.sum()) for x in bits)
        self.pairs += sum(int((a * b).sum()) for a, b in pairwise(bits)) % (1 << 64)
        if not self.seen:
            self.first = columns[1].copy()
        self.seen += len(columns[0])

    def value(self) -> dict[str, Any]:
        return {"rows": self.seen, "sums": self.sums, "pairs": self.pairs % (1 << 64), "mixed": self.mixes() >= 4}

    def mixes(self) -> int:
        """How many row groups (of 25,000 rows) have a good part of the first batch: 4 of them are in a buffer of 100,000."""
        from data import criteo_like

        import pyarrow.dataset as pads

        there = pads.dataset(criteo_like()).to_table(columns=["I0"]).column(0).to_numpy()
        order = np.argsort(there)
        found = np.searchsorted(there, self.first, sorter=order).clip(max=len(order) - 1)
        groups = np.bincount(order[found] // 25_000)
        return int((groups > len(self.first) / 20).sum())


def columns(batch: Any) -> Columns:
    """A batch (an array, a tuple or a dict of arrays or of host tensors) as a list of NumPy arrays."""
    if isinstance(batch, dict):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        batch = (batch,)
    return [np.asarray(x) for x in batch]


def shape(batch: Any) -> str:
    return ", ".join(f"{x.dtype}{list(x.shape)}" for x in columns(batch))


def fold(digest: Digest, batches: Iterable[Any]) -> dict[str, Any]:
    """The digest of the first `digest.rows` rows; takes no more batches than it needs."""
    left, stream = digest.rows, iter(batches)
    while left > 0:
        got = [x[:left] for x in columns(next(stream))]
        digest.add(got)
        left -= len(got[0])
    return digest.value()
