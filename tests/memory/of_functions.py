"""Arrays that code of the user's makes while the pipeline runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import feedline as fl
import numpy as np
from registry import pipeline

LARGE = 10 << 20


def large(i: object, rows: int = 1) -> np.ndarray:
    """10 MB of one number, which is asked for."""
    return np.full((rows, LARGE // 8 // rows), int(i), dtype=np.int64)  # type: ignore[call-overload]


def of_rows(i: object) -> fl.Dataset:
    """A dataset of an array that nobody else has."""
    return fl.Dataset.from_tensor_slices(large(i, 64))


def generated() -> fl.Dataset:
    """Arrays of 7 MB that a generator still has when it gives them."""

    def give() -> Iterator[np.ndarray]:
        for i in range(48):
            array = np.full((1, 7 << 17), i)
            yield array

    return fl.Dataset.from_generator(give, output_signature=fl.TensorSpec([1, None], fl.int64))


def mostly_small(small: int) -> Callable[[object], np.ndarray]:
    """Few numbers of most elements, and 10 MB of the last ones, which come together."""
    return lambda i: np.full(16 if int(i) < small else LARGE // 8, int(i))  # type: ignore[call-overload]


@pipeline
def datasets_of_functions(_: Path) -> fl.Dataset:
    """Arrays of 10 MB that a function takes apart, four at once."""
    return fl.Dataset.range(24).interleave(of_rows, cycle_length=4)


@pipeline
def datasets_of_functions_ahead(_: Path) -> fl.Dataset:
    """The same, and no room to open others before their turn."""
    return fl.Dataset.range(24).interleave(of_rows, cycle_length=4, num_parallel_calls=fl.AUTOTUNE)


@pipeline
def too_many_datasets_of_functions(_: Path) -> fl.Dataset:
    """Sixteen at once."""
    return fl.Dataset.range(48).interleave(of_rows, cycle_length=16, num_parallel_calls=fl.AUTOTUNE)


@pipeline
def functions_heavy_tailed(_: Path) -> fl.Dataset:
    """So many rows at once as were small, of which each is large now."""
    return fl.Dataset.range(3040).map(mostly_small(3000), python=True)


@pipeline
def functions_heavy_tailed_at_once(_: Path) -> fl.Dataset:
    """The same by several workers."""
    return fl.Dataset.range(3040).map(mostly_small(3000), python=True, num_parallel_calls=2)


@pipeline
def functions_shuffled(_: Path) -> fl.Dataset:
    """As many of them at the first step as the buffer has places."""
    return fl.Dataset.range(48).map(large, python=True).shuffle(4, seed=1)


@pipeline
def too_many_of_functions_in_a_batch(_: Path) -> fl.Dataset:
    """What a function makes of the elements of a batch is seen before all of it is there."""
    return fl.Dataset.range(48).map(large, python=True).batch(48)


@pipeline
def too_many_generated_to_shuffle(_: Path) -> fl.Dataset:
    """Arrays that Python made count in a buffer."""
    return generated().shuffle(48, seed=1)


@pipeline
def too_many_generated_to_keep(_: Path) -> fl.Dataset:
    """And in a cache."""
    return generated().cache()


@pipeline
def functions_shuffled_and_made_longer(_: Path) -> fl.Dataset:
    """A buffer of arrays of 160 kB, which would lie among others in the C library's arenas."""
    rows = fl.Dataset.range(1200).map(lambda i: np.full(20_000, int(i)), python=True)
    return rows.shuffle(300, seed=1).map(lambda x: fl.tile(x, [2]), num_parallel_calls=fl.AUTOTUNE)


@pipeline
def too_large_for_a_function(_: Path) -> fl.Dataset:
    """A dataset of 80 MB by a traced function, read one after the other."""
    return fl.Dataset.range(4).flat_map(lambda i: fl.Dataset.from_tensor_slices(fl.fill([8, 10 << 17], i)))
