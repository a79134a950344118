"""Digests of pipelines that deliver pictures. Loaders decode and resize with different libraries, so that pixels are
not equal bit by bit: a picture is boiled down to the means of 28 x 28 cells, which must be near the right ones."""
from __future__ import annotations

from typing import Any

import numpy as np

from digest import Columns

SIDE, CELLS, CLASSES = 224, 28, 10
# ImageNet's, in levels of 0 to 255.
MEAN = np.array((.485, .456, .406), np.float32) * 255
STD = np.array((.229, .224, .225), np.float32) * 255


def cells(picture: np.ndarray) -> np.ndarray:
    """Cell means of a picture of height x width x 3. Rows are added first: those are contiguous."""
    side = len(picture) // CELLS
    rows = picture.reshape(CELLS, side, -1).sum(1, dtype=np.float32)
    return rows.reshape(CELLS, CELLS, side, 3).sum(2) / side**2


def levels(picture: np.ndarray) -> np.ndarray:
    """Cell means of a normalised picture, as levels of 0 to 255. A picture at a time: a batch would show as memory."""
    return cells(picture) * STD + MEAN


def near(found: float, right: float, by: float) -> float:
    """The right number if the one found is as near as that, else the one found."""
    return right if abs(found - right) <= by else found


class Resized:
    """For pictures in order, without chance: every label, and every picture's cells beside the right ones.

    How far a picture is off is the mean over its cells. Fast DCTs take about 1 level, and middles that are rounded
    to another pixel up to 4 in some pictures, so there is a bound for the mean of all pictures and one for the worst:
    another picture, or one that is flipped, is off by tens.
    """

    MEAN_OFF, WORST_OFF = 2, 6

    def __init__(self, rows: int, right: np.ndarray) -> None:
        self.rows, self.right = rows, right
        self.labels: list[int] = []
        self.off: list[float] = []

    def add(self, columns: Columns) -> None:
        pictures, labels = columns
        right = self.right[len(self.labels):]
        self.off += [float(np.abs(levels(p) - r).mean()) for p, r in zip(pictures, right, strict=False)]
        self.labels += labels.tolist()

    def value(self) -> dict[str, Any]:
        return {"rows": len(self.labels), "labels": self.labels == sorted(self.labels),
                "counts": np.bincount(self.labels, minlength=CLASSES).tolist(),
                "mean_off": near(round(float(np.mean(self.off)), 2), 0, self.MEAN_OFF),
                "worst_off": near(round(max(self.off), 2), 0, self.WORST_OFF)}


class Cropped:
    """For an epoch of random crops and flips: labels, no picture twice, and what all pictures together look like.

    The light in these pictures falls from the upper left. How much brighter the upper half of a crop is tells how
    high crops are; that the left half is no brighter than the right one tells that half of them are flipped. The
    bounds were chosen from how much half an epoch varies (up to 1.7 for `left_half`).
    """

    BOUNDS = {"mean": 2.0, "upper_half": 2.5, "left_half": 2.5, "between_pictures": 3.0, "within_pictures": 3.0}

    def __init__(self, rows: int, right: dict[str, float], shuffled: bool = False) -> None:
        self.rows, self.right, self.shuffled = rows, right, shuffled
        self.labels: list[int] = []
        self.seen: set[int] = set()
        self.figures: list[tuple[float, ...]] = []

    def add(self, columns: Columns) -> None:
        pictures, labels = columns
        self.labels += labels.tolist()
        for picture in pictures:
            found = levels(picture)
            self.seen.add(hash(found.tobytes()))
            self.figures.append(figures(found))

    def value(self) -> dict[str, Any]:
        found = {"rows": len(self.labels), "distinct": len(self.seen),
                 "counts": np.bincount(self.labels, minlength=CLASSES).tolist()}
        if self.shuffled:  # the files are sorted by class: a batch in their order has one, or two
            found["mixed"] = len(set(self.labels[:64])) > 3
        return found | {name: near(x, self.right[name], self.BOUNDS[name]) for name, x in summary(self.figures).items()}


def figures(cells: np.ndarray) -> tuple[float, ...]:
    """Of one picture's cells: mean, upper less lower half, left less right half, deviation."""
    half = CELLS // 2
    upper = cells[:half].mean() - cells[half:].mean()
    left = cells[:, :half].mean() - cells[:, half:].mean()
    return float(cells.mean()), float(upper), float(left), float(cells.std())


def summary(pictures: list[tuple[float, ...]]) -> dict[str, float]:
    mean, upper, left, within = np.array(pictures).T
    found = {"mean": mean.mean(), "upper_half": upper.mean(), "left_half": left.mean(),
             "between_pictures": mean.std(), "within_pictures": within.mean()}
    return {name: round(float(x), 2) for name, x in found.items()}
