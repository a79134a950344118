"""Functions in other processes, rows that grow, and a buffer beside a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
from of_records import records, sizes
from registry import pipeline
from written import RECORD


def sent_back(x: Any) -> Any:
    """What a worker got, in memory of its own."""
    return x.copy()


def of_workers(megabytes: int, count: int, workers: int = 4) -> fl.Dataset:
    """Numbers of which processes make so much each."""
    items = megabytes << 17
    return fl.Dataset.range(count).map(lambda x: np.full(items, int(x)), workers=workers)


@pipeline
def workers_make_1(_: Path) -> fl.Dataset:
    """Results of a megabyte."""
    return of_workers(1, 300)


@pipeline
def workers_make_4(_: Path) -> fl.Dataset:
    """Of four."""
    return of_workers(4, 100)


@pipeline
def workers_make_16(_: Path) -> fl.Dataset:
    """Of sixteen."""
    return of_workers(16, 40)


@pipeline
def workers_make_any(_: Path) -> fl.Dataset:
    """Of very different sizes."""
    each = sizes()[:1500] * 2
    return fl.Dataset.from_tensor_slices(each).map(
        lambda n: np.full(int(n), int(n) % 251, np.int32),
        workers=4,
        output_signature=fl.TensorSpec([None], fl.int32),
    )


@pipeline
def workers_get_and_make(_: Path) -> fl.Dataset:
    """Elements that are large on both ways."""
    large = fl.Dataset.range(60).map(lambda x: fl.fill([1 << 20], x), num_parallel_calls=fl.AUTOTUNE)
    return large.map(sent_back, workers=3)


@pipeline
def workers_fill_batches(_: Path) -> fl.Dataset:
    """Results that are written where a batch has its rows."""
    return of_workers(1, 200, 3).batch(8)


@pipeline
def dense_rows_that_grow(_: Path) -> fl.Dataset:
    """A megabyte of which a function makes sixteen, now and then."""
    rows = fl.Dataset.range(400).map(lambda x: fl.fill([1 << 17], x)).prefetch(8)
    return rows.map(lambda x: fl.tile(x, [fl.where(x[0] % 40 >= 34, 16, 1)]), num_parallel_calls=fl.AUTOTUNE)


@pipeline
def dense_rows_that_grow_for_a_while(_: Path) -> fl.Dataset:
    """The same, of which little is left."""
    rows = fl.Dataset.range(400).map(lambda x: fl.fill([1 << 16], x)).prefetch(8)
    return rows.map(
        lambda x: fl.reduce_sum(fl.tile(x, [fl.where(x[0] % 40 >= 34, 40, 1)])),
        num_parallel_calls=fl.AUTOTUNE,
    )


@pipeline
def shuffled_behind_a_cache(folder: Path) -> fl.Dataset:
    """A buffer of 50 MB of what a cache keeps a part of."""
    rows = (
        records(folder, 8)
        .map(lambda r: fl.io.decode_raw(r, fl.int32))
        .map(lambda x: fl.reshape(x, [RECORD // 4]))
    )
    return rows.batch(4).cache(on_full="keep").repeat(2).shuffle(180, seed=1)
