"""Conditions, values of the functions around, and datasets as values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import feedline as fl
import numpy as np
import pytest

D = fl.Dataset


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_cond_runs_one_branch() -> None:
    dataset = D.range(4).map(lambda x: fl.cond(x == 0, lambda: x, lambda: 6 // x))
    assert list(dataset) == [0, 6, 3, 2]


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_cond_of_structures_and_shapes(chunk_rows: int) -> None:
    def choose(x: Any) -> Any:
        return fl.cond(
            x % 2 == 0, lambda: {"a": x, "b": fl.range(x)}, lambda: {"a": -x, "b": fl.zeros([1], fl.int64)}
        )

    found = list(D.range(5).map(choose, native=True).with_options(chunk_rows=chunk_rows))
    assert [element["a"] for element in found] == [0, -1, 2, -3, 4]
    assert [element["b"].tolist() for element in found] == [[], [0], [0, 1], [0], [0, 1, 2, 3]]


def test_cond_within_cond() -> None:
    def choose(x: Any) -> Any:
        return fl.cond(x > 1, lambda: fl.cond(x > 2, lambda: x * 10, lambda: x * 100), lambda: x)

    assert list(D.range(4).map(choose, native=True)) == [0, 1, 200, 30]


def test_cond_at_once() -> None:
    assert fl.cond(True, lambda: 1, lambda: 2) == 1
    assert fl.cond(np.bool_(False), lambda: 1, lambda: 2) == 2


def test_functions_use_values_of_the_functions_around_them() -> None:
    dataset = D.range(2).flat_map(
        lambda x: D.range(2).flat_map(lambda y: D.range(2).map(lambda z: x * 100 + y * 10 + z))
    )
    assert list(dataset) == [0, 1, 10, 11, 100, 101, 110, 111]


def test_captured_values_everywhere() -> None:
    table = np.array([10, 20, 30])
    dataset = D.range(3).flat_map(
        lambda x: (
            D.from_tensor_slices(table)
            .filter(lambda t: t > x * 10)
            .map(lambda t: t + x)
            .scan(x, lambda s, t: (s + 1, t + s))
            .take(x + 1)
        )
    )
    want = []
    for x in range(3):
        rows = [t + x for t in table if t > x * 10]
        want += [t + x + i for i, t in enumerate(rows)][: x + 1]
    assert list(dataset) == want


def test_arrays_and_numbers_from_outside() -> None:
    offset, table = 5, np.array([1.5, 2.5])
    dataset = D.range(2).map(lambda x: (x + offset, fl.gather(table, x)))
    offset = 6
    assert list(dataset) == [(5, 1.5), (6, 2.5)]


def test_datasets_as_values() -> None:
    assert [list(inner) for inner in D.range(3).map(lambda x: D.range(x))] == [[], [0], [0, 1]]
    outer = D.range(10, 12)
    assert list(D.range(2).flat_map(lambda x: outer.map(lambda y: y + x))) == [10, 11, 11, 12]
    windows = D.range(5).window(2, shift=2)
    assert [x.tolist() for x in windows.flat_map(lambda w: w.batch(2))] == [[0, 1], [2, 3], [4]]


def test_datasets_from_python_functions() -> None:
    assert list(D.range(3).flat_map(lambda x: D.range(int(x)))) == [0, 0, 1]
    assert list(D.range(2).interleave(lambda x: D.from_tensors(int(x)).repeat(2), cycle_length=2)) == [
        0,
        1,
        0,
        1,
    ]


def test_a_stored_symbolic_value_is_refused_later() -> None:
    stored = []
    D.range(3).map(lambda x: (stored.append(x), x)[1])
    with pytest.raises((ValueError, TypeError), match="symbolic"):
        stored[0] + 1
    with pytest.raises((ValueError, TypeError), match="symbolic"):
        D.range(3).map(lambda x: x + stored[0])


def test_numpy_function_in_the_middle_of_a_traced_one() -> None:
    def double(values: Any) -> Any:
        assert isinstance(values, np.ndarray)
        return values * 2

    dataset = D.range(3).batch(3).map(lambda x: fl.numpy_function(double, [x + 1], fl.int64) + 1)
    (batch,) = dataset
    assert batch.tolist() == [3, 5, 7]


def test_choices_in_maps_that_are_joined() -> None:
    """A condition is about the value of its own map."""
    chosen = fl.Dataset.range(6).map(lambda x: x * 1 + 0)
    chosen = chosen.map(lambda x: fl.cond(x > 2, lambda: 10, lambda: 20))
    assert [int(x) for x in chosen] == [20, 20, 20, 10, 10, 10]
    twice = fl.Dataset.range(3).map(lambda x: fl.logical_not(x > 100))
    twice = twice.map(lambda b: fl.cond(fl.logical_not(fl.logical_not(b)), lambda: 1, lambda: 0))
    assert [int(x) for x in twice] == [1, 1, 1]
