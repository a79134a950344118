"""Pipelines over parts of arrays, and over short rows: what keeps them alive, and what stands around them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
from registry import pipeline


def taken_apart(count: int, parts: int, size: int) -> Callable[[Any], fl.Dataset]:
    """A function from a number to the parts of an array of so many numbers."""
    return lambda i: fl.Dataset.from_tensor_slices(fl.fill([parts, size // parts], i)).take(count)


def made_one_by_one(count: int) -> Callable[[Any], fl.Dataset]:
    """A function from a number to elements of 8 MB that are made when they are read."""
    return lambda i: fl.Dataset.range(count).map(lambda x: fl.fill([1 << 20], x + i))


@pipeline
def interleaved_large(_: Path) -> fl.Dataset:
    """32 datasets at once whose elements are an eighth of the limit."""
    return fl.Dataset.range(64).interleave(
        made_one_by_one(3), cycle_length=32, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def interleaved_large_freely(_: Path) -> fl.Dataset:
    """The same in any order: all of them may have something next."""
    return fl.Dataset.range(64).interleave(
        made_one_by_one(3), cycle_length=32, num_parallel_calls=fl.AUTOTUNE, deterministic=False
    )


@pipeline
def interleaved_large_blocks(_: Path) -> fl.Dataset:
    """Blocks that are larger than the limit, each read by whoever wants it."""
    return fl.Dataset.range(16).interleave(made_one_by_one(16), cycle_length=4, block_length=16)


@pipeline
def interleaved_arrays(_: Path) -> fl.Dataset:
    """Arrays of 8 MB, four of which are taken apart at once: as many more would not fit."""
    return fl.Dataset.range(48).interleave(
        taken_apart(8, 8, 1 << 20), cycle_length=4, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def interleaved_arrays_serially(_: Path) -> fl.Dataset:
    """The same without anybody who works ahead."""
    return fl.Dataset.range(48).interleave(taken_apart(8, 8, 1 << 20), cycle_length=4)


@pipeline
def too_many_arrays(_: Path) -> fl.Dataset:
    """The order asks for 32 of them at once."""
    return fl.Dataset.range(64).interleave(
        taken_apart(8, 8, 1 << 20), cycle_length=32, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def too_many_arrays_serially(_: Path) -> fl.Dataset:
    """And each of them is one element."""
    return fl.Dataset.range(64).interleave(
        lambda i: fl.Dataset.from_tensors(fl.fill([1 << 20], i)), cycle_length=32
    )


def arrays() -> fl.Dataset:
    """Arrays of 2.5 MB, of 20,000 rows."""
    return fl.Dataset.range(120).map(lambda i: fl.fill([20_000, 16], i))


@pipeline
def shuffled_parts(_: Path) -> fl.Dataset:
    """Rows that keep alive what they were taken out of, until the last of them is drawn."""
    return arrays().flat_map(fl.Dataset.from_tensor_slices).shuffle(20_000, seed=1).batch(1000)


@pipeline
def shuffled_parts_in_turns(_: Path) -> fl.Dataset:
    """The same of several arrays at once."""
    rows = arrays().interleave(fl.Dataset.from_tensor_slices, cycle_length=2)
    return rows.shuffle(20_000, seed=1).batch(1000)


@pipeline
def shuffled_parts_of_batches(_: Path) -> fl.Dataset:
    """The same by another operator."""
    return arrays().unbatch().shuffle(20_000, seed=1).batch(1000)


def few_of_many() -> fl.Dataset:
    """Two rows of each of many arrays of 2 MB."""
    return fl.Dataset.range(300).flat_map(taken_apart(2, 1000, 256_000))


@pipeline
def few_rows_shuffled(_: Path) -> fl.Dataset:
    """Each keeps a large array alive."""
    return few_of_many().shuffle(100, seed=1)


@pipeline
def few_rows_cached(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().cache().repeat(2)


@pipeline
def few_rows_in_windows(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().window(100).flat_map(lambda window: window.batch(100))


@pipeline
def few_rows_in_groups(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().group_by_window(
        lambda x: x[0] % 3, lambda _, window: window.batch(50), window_size=50
    )


@pipeline
def few_rows_in_batches(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().batch(100)


@pipeline
def few_rows_filled_up(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().padded_batch(100)


def short_ragged() -> fl.Dataset:
    """Ragged rows of a few numbers: what stands around them takes most."""
    return fl.Dataset.range(66_000).map(lambda x: fl.fill([x % 9], x)).ragged_batch(3)


@pipeline
def short_ragged_kept(_: Path) -> fl.Dataset:
    """As many as fit."""
    return short_ragged().cache(on_full="keep").repeat(2).map(lambda x: fl.size(x.flat_values))


@pipeline
def short_ragged_in_groups(_: Path) -> fl.Dataset:
    """Seven windows of some hundreds."""
    groups = (
        short_ragged()
        .enumerate()
        .group_by_window(lambda i, _: i % 7, lambda _, window: window, window_size=700)
    )
    return groups.map(lambda _, x: fl.size(x.flat_values))


@pipeline
def short_ragged_shuffled(_: Path) -> fl.Dataset:
    """Drawn here and there."""
    return short_ragged().shuffle(10_000, seed=1).map(lambda x: fl.size(x.flat_values))


def short_rows() -> fl.Dataset:
    """Rows of a few numbers and of different shapes."""
    return fl.Dataset.range(150_000).map(lambda x: fl.fill([x % 9], x))


@pipeline
def short_rows_shuffled(_: Path) -> fl.Dataset:
    """A buffer that takes a third of the limit."""
    return short_rows().shuffle(30_000, seed=1).map(fl.size)


@pipeline
def short_rows_shuffled_by_many(_: Path) -> fl.Dataset:
    """One that takes most of it."""
    return short_rows().shuffle(50_000, seed=1).map(fl.size)


@pipeline
def short_strings_kept(_: Path) -> fl.Dataset:
    """As many as fit."""
    rows = fl.Dataset.range(400_000).map(fl.strings.as_string)
    return rows.cache(on_full="keep").repeat(2).map(fl.strings.length)


@pipeline
def numbers_shuffled(_: Path) -> fl.Dataset:
    """Numbers whose places and positions take more than they do."""
    return fl.Dataset.range(3_000_000).shuffle(1_000_000, seed=1).batch(1000)


@pipeline
def arrays_in_turns_shuffled(_: Path) -> fl.Dataset:
    """Arrays of 2.5 MB that are taken apart ahead of a buffer."""
    rows = arrays().interleave(fl.Dataset.from_tensor_slices, cycle_length=2, num_parallel_calls=fl.AUTOTUNE)
    return rows.shuffle(20_000, seed=1).batch(1000)


STRAGGLED = 300
"""Elements of a megabyte behind one that takes long: several times the limit."""


def after_a_while(x: Any) -> Any:
    """A megabyte; the first of all takes two seconds."""
    if x == 0:
        time.sleep(2)
    return np.full(1 << 17, x)


@pipeline
def straggler_in_front(_: Path) -> fl.Dataset:
    """What is made meanwhile waits for it, to keep the order: it counts as what has its turn does."""
    return fl.Dataset.range(STRAGGLED).map(after_a_while, python=True, num_parallel_calls=4)


@pipeline
def straggler_in_front_natively(_: Path) -> fl.Dataset:
    """The same where the others take next to no time: the first sorts 24 MB, which leaves them less."""

    def made(x: Any) -> Any:
        noise = fl.random.stateless_uniform([fl.where(x == 0, 6_000_000, 1)], [7, 7])
        return fl.fill([1 << 17], x) + fl.cast(fl.sort(noise)[0] * 0, fl.int64)

    return fl.Dataset.range(STRAGGLED).map(made, num_parallel_calls=4)


def long_rows(count: int) -> fl.Dataset:
    """Rows of 160 kB, some of which are made at once."""
    return fl.Dataset.range(count).map(lambda x: fl.fill([20_000], x))


@pipeline
def long_rows_shuffled_twice(_: Path) -> fl.Dataset:
    """Two buffers of half of the limit, of rows that were made with others."""
    return (
        long_rows(2000).shuffle(buffer_bytes=16 << 20, seed=1).shuffle(150, seed=1).repeat(2).padded_batch(6)
    )


@pipeline
def long_rows_shuffled_and_batched(_: Path) -> fl.Dataset:
    """One, and chunks that end where batches do."""
    return long_rows(2000).shuffle(180, seed=1).padded_batch(6)


@pipeline
def few_large_in_batches(_: Path) -> fl.Dataset:
    """Batches that take three quarters of the limit: there is no room for all of their rows beside them."""
    rows = fl.Dataset.range(32).map(lambda x: fl.fill([fl.where(x < 0, 3, 400_000)], x))
    return rows.batch(8).map(fl.reduce_sum)


@pipeline
def few_large_in_batches_again(_: Path) -> fl.Dataset:
    """Taken apart and put together again: the second batch stays where the first one lies."""
    rows = fl.Dataset.range(32).map(lambda x: fl.fill([400_000], x))
    return rows.batch(8).unbatch().filter(lambda x: x[0] >= 0).batch(8).map(fl.reduce_sum)


@pipeline
def large_batches_made_anew(_: Path) -> fl.Dataset:
    """Batches of three quarters of the limit, and as much that is made of each."""
    rows = fl.Dataset.range(32).map(lambda x: fl.fill([800_000], x))
    return rows.batch(8).map(lambda x: x + 1).batch(1).map(fl.reduce_sum)


@pipeline
def large_pairs(_: Path) -> fl.Dataset:
    """Two of a third of the limit, one made of the other, and what is made of both."""
    rows = fl.Dataset.range(12).map(lambda x: fl.fill([2_700_000], x))
    pairs = fl.Dataset.zip(rows, rows.map(lambda x: x + 1)).map(lambda a, b: fl.concat([a, b], 0))
    return pairs.filter(lambda x: x[0] >= 0).map(fl.reduce_sum)


@pipeline
def filled_up_of_few(_: Path) -> fl.Dataset:
    """Batches of rows that lie in arrays of a third of the limit: these do not go one by one."""
    rows = fl.Dataset.range(16).map(lambda x: fl.fill([10, 230_000], x))
    return rows.flat_map(fl.Dataset.from_tensor_slices).padded_batch(28).map(fl.reduce_sum)
