"""A shuffle of windows by NumPy, for readers that have none."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

Columns = dict[str, np.ndarray]


def shuffled(parts: Iterable[Columns], window: int, batch: int) -> Iterator[Columns]:
    """Batches of windows of `window` rows, each in an order of its own, whatever the sizes of the parts are."""
    rng = np.random.default_rng(0)
    waiting: list[Columns] = []
    for part in parts:
        waiting.append(part)
        while rows(waiting) >= window:
            last = waiting.pop()
            fits = window - rows(waiting)
            yield from batches([*waiting, cut(last, 0, fits)], batch, rng)
            waiting = [cut(last, fits, None)] if len_of(last) > fits else []
    if waiting:
        yield from batches(waiting, batch, rng)


def batches(parts: list[Columns], batch: int, rng: np.random.Generator) -> Iterator[Columns]:
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if len(parts) > 1 else parts[0]
    order = rng.permutation(len_of(joined))
    for start in range(0, len(order), batch):
        chosen = order[start:start + batch]
        yield {name: column[chosen] for name, column in joined.items()}


def cut(part: Columns, start: int, end: int | None) -> Columns:
    return {name: column[start:end] for name, column in part.items()}


def len_of(part: Columns) -> int:
    return len(next(iter(part.values())))


def rows(parts: list[Columns]) -> int:
    return sum(map(len_of, parts))
