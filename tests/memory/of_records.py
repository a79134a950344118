"""Pipelines over records and what is made of them: buffers, windows, groups, caches, and what never fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
from registry import pipeline
from written import FILES, RECORD


def sizes() -> np.ndarray:
    """Lengths of elements with a heavy tail: half are below 20,000 numbers, the largest have two million."""
    drawn = np.random.default_rng(1).pareto(1.1, 3000) * 12_000 + 4_000
    return np.minimum(drawn, 2 << 20).astype(np.int64)


def heavy() -> fl.Dataset:
    """Elements of these sizes, each filled with its number."""
    each = sizes()
    return fl.Dataset.range(len(each)).map(
        lambda x: fl.fill([fl.gather(each, x)], fl.cast(x, fl.int32) % 251), num_parallel_calls=fl.AUTOTUNE
    )


def records(folder: Path, cycle: int) -> fl.Dataset:
    """The records of all files, `cycle` of these at a time."""
    files = sorted(str(path) for path in folder.glob("*.tfrecord"))
    return fl.Dataset.from_tensor_slices(files).interleave(
        fl.TFRecordDataset, cycle_length=cycle, num_parallel_calls=fl.AUTOTUNE
    )


def decoded(ds: fl.Dataset) -> fl.Dataset:
    """Records as numbers, batched."""
    return (
        ds.map(lambda r: fl.io.decode_raw(r, fl.int32)).map(lambda x: fl.reshape(x, [RECORD // 4])).batch(16)
    )


@pipeline
def heavy_tailed(folder: Path) -> fl.Dataset:
    """Elements of very different sizes, one by one."""
    return heavy()


@pipeline
def heavy_tailed_ahead(folder: Path) -> fl.Dataset:
    """The same with more read ahead than there is memory for."""
    return heavy().prefetch(1000).map(lambda x: x + 1).prefetch(1000)


@pipeline
def heavy_tailed_batches(folder: Path) -> fl.Dataset:
    """Batches of rows of unequal length."""
    return heavy().ragged_batch(4)


@pipeline
def shuffled(folder: Path) -> fl.Dataset:
    """A buffer that takes half of the limit."""
    return decoded(records(folder, 8).shuffle(512, seed=1))


@pipeline
def shuffled_by_bytes(folder: Path) -> fl.Dataset:
    """As many elements as fit into so many bytes, of very different sizes."""
    return heavy().shuffle(buffer_bytes="24MB", seed=1)


@pipeline
def shuffled_lines(folder: Path) -> fl.Dataset:
    """Short rows that point into large blocks."""
    lines = fl.TextLineDataset(str(folder / "lines.txt"))
    return lines.shuffle(20_000, seed=1).map(lambda x: fl.strings.to_number(x, fl.int64)).batch(1000)


@pipeline
def interleaved(folder: Path) -> fl.Dataset:
    """64 files at once."""
    return decoded(records(folder, 64))


@pipeline
def interleaved_long(folder: Path) -> fl.Dataset:
    """64 files at once, a record of each of which would be more than the limit together."""
    files = sorted(str(path) for path in folder.glob("*.long"))
    ds = fl.Dataset.from_tensor_slices(files)
    ds = ds.interleave(fl.TFRecordDataset, cycle_length=FILES, num_parallel_calls=fl.AUTOTUNE)
    return ds.map(fl.strings.length)


@pipeline
def windows(folder: Path) -> fl.Dataset:
    """Windows that overlap."""
    return decoded(records(folder, 4)).unbatch().window(64, shift=16).flat_map(lambda w: w.batch(64))


def uneven(folder: Path) -> fl.Dataset:
    """Examples with lists of very unequal length, of all files in turns."""
    files = sorted(str(path) for path in folder.glob("*.uneven"))
    rows = fl.Dataset.from_tensor_slices(files).interleave(
        fl.TFRecordDataset, cycle_length=len(files), num_parallel_calls=fl.AUTOTUNE
    )
    features = {
        "list": fl.io.RaggedFeature(fl.int64),
        "number": fl.io.FixedLenFeature([], fl.int64),
    }
    return rows.map(lambda row: fl.io.parse_single_example(row, features))


@pipeline
def uneven_in_buckets(folder: Path) -> fl.Dataset:
    """The longest have a bucket that is seldom full."""
    lists = uneven(folder).map(lambda row: row["list"])
    return lists.bucket_by_sequence_length(fl.size, [100, 1000, 10_000], [128, 64, 32, 8]).repeat(20)


@pipeline
def uneven_in_groups(folder: Path) -> fl.Dataset:
    """One batch of each group."""
    return (
        uneven(folder)
        .group_by_window(
            lambda row: row["number"] % 10,
            lambda _, window: window.map(lambda row: row["list"]).padded_batch(16),
            window_size=16,
        )
        .repeat(20)
    )


@pipeline
def uneven_in_large_groups(folder: Path) -> fl.Dataset:
    """Of most rows little is kept, and where they came from takes more."""
    return (
        uneven(folder)
        .map(lambda row: row["number"])
        .group_by_window(lambda n: n % 10, lambda _, window: window.batch(1000), window_size=1000)
        .repeat(4)
    )


def in_turns() -> fl.Dataset:
    """800,000 numbers, few of which differ, of 50 datasets in turns."""
    return fl.Dataset.range(100).interleave(
        lambda i: fl.Dataset.range(8000).map(lambda x: x % 7 + i % 3), cycle_length=50
    )


@pipeline
def unique_of_shuffled(_: Path) -> fl.Dataset:
    """What a state reads again from the start needs nothing of what came since."""
    return in_turns().shuffle(100, seed=1).unique()


@pipeline
def unique_of_groups(_: Path) -> fl.Dataset:
    """The same behind windows."""
    windows = in_turns().group_by_window(lambda x: x % 10, lambda _, w: w.batch(10), window_size=10)
    return windows.map(lambda x: x[0]).unique()


@pipeline
def padded_by_one(_: Path) -> fl.Dataset:
    """One element of 800 KB among 256 of 80 bytes: a batch of 205 MB."""
    rows = fl.Dataset.range(256).map(lambda x: fl.fill([fl.where(x == 100, 100_000, 10)], x))
    return rows.padded_batch(256).map(lambda batch: fl.shape(batch))


@pipeline
def rows_of_ragged(_: Path) -> fl.Dataset:
    """The same by a function: one row of 80 KB makes 2000 of them as long."""
    rows = fl.Dataset.range(2000).map(lambda x: fl.fill([fl.where(x == 100, 10_000, 10)], x))
    return rows.ragged_batch(2000).map(lambda batch: batch.to_tensor()[0, 0])


@pipeline
def letters(_: Path) -> fl.Dataset:
    """A string of 4 MB becomes four million of them, each with its place: 96 MB and more."""
    text = fl.constant("abcdefghi " * 400_000)
    rows = fl.Dataset.range(4).map(lambda x: fl.strings.join([text, fl.strings.as_string(x)]))
    return rows.map(lambda row: fl.size(fl.strings.bytes_split(row)))


@pipeline
def growing_state(_: Path) -> fl.Dataset:
    """4 MB more with each element."""

    def grow(state: Any, x: Any) -> Any:
        return fl.concat([state, fl.zeros([500_000], fl.float64)], 0), fl.size(state)

    return fl.Dataset.range(100).scan(np.zeros(1), grow)


@pipeline
def too_many_keys(folder: Path) -> fl.Dataset:
    """A state for each of many keys."""
    total = fl.data.experimental.Reducer(lambda key: key, lambda state, x: state + x, lambda state: state)
    return fl.Dataset.range(300_000).apply(fl.data.experimental.group_by_reducer(lambda x: x, total))


@pipeline
def too_many_windows(folder: Path) -> fl.Dataset:
    """A window for each of many keys."""
    return fl.Dataset.range(300_000).group_by_window(
        lambda x: x % 100_000, lambda _, window: window.batch(3), window_size=3
    )


@pipeline
def short_rows_kept(folder: Path) -> fl.Dataset:
    """Rows of a few numbers and of different shapes: what stands around them takes more than they do."""
    rows = fl.Dataset.range(400_000).map(lambda x: fl.fill([x % 9], x))
    return rows.cache(on_full="keep").repeat(2).map(fl.size)


@pipeline
def cache_keep(folder: Path) -> fl.Dataset:
    """More than fits is kept: a part of it is."""
    return decoded(records(folder, 8)).cache(on_full="keep").repeat(2)


@pipeline
def cache_spill(folder: Path) -> fl.Dataset:
    """More than fits is kept: it moves to disk."""
    return decoded(records(folder, 8)).cache(on_full="spill").repeat(2)


@pipeline
def cache_error(folder: Path) -> fl.Dataset:
    """More than fits is to be kept."""
    return decoded(records(folder, 8)).cache()
