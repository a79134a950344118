"""Random numbers in functions: of seed, epoch and element, whatever chunks and workers there are."""

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


DRAWS = {
    "uniform": lambda: fl.random.uniform([2], seed=1),
    "uniform integers": lambda: fl.random.uniform([2], 0, 1 << 30, fl.int32, seed=1),
    "integers": lambda: fl.random.integers(0, 1 << 40, [2], seed=1),
    "normal": lambda: fl.random.normal([2], seed=1),
    "truncated_normal": lambda: fl.random.truncated_normal([2], seed=1),
    "permutation": lambda: fl.random.permutation(50, seed=1),
    "shuffle": lambda: fl.random.shuffle(np.arange(50), seed=1),
    "bernoulli": lambda: fl.random.bernoulli([64], seed=1),
}


def lists(dataset: Any) -> list[Any]:
    return [[np.asarray(leaf).tolist() for leaf in fl.nest.flatten(element)] for element in dataset]


@pytest.mark.parametrize("kind", DRAWS)
def test_random_numbers_do_not_depend_on_chunks_and_workers(kind: str) -> None:
    draw = DRAWS[kind]

    def dataset() -> fl.Dataset:
        return D.range(20).map(lambda x: (x, draw()))

    first = lists(dataset())
    for options in (
        {"chunk_rows": 1},
        {"chunk_rows": 7},
        {"cpu_budget": 1},
        {"rewrite": False},
        {"prefetch": False},
    ):
        assert lists(dataset().with_options(**options)) == first
    assert lists(dataset().shuffle(20, seed=3)) != first


@pytest.mark.parametrize("kind", DRAWS)
def test_random_numbers_differ_between_elements_epochs_and_uses(kind: str) -> None:
    draw = DRAWS[kind]
    dataset = D.range(10).map(lambda x: (draw(), draw()))
    epochs = [lists(dataset) for _ in range(3)] + [lists(dataset.repeat(2))]
    values = [str(value) for epoch in epochs[:3] for element in epoch for value in element]
    assert len(set(values)) == len(values)
    repeated = [str(value) for element in epochs[3] for value in element]
    assert len(set(repeated)) == len(repeated)


def test_every_epoch_is_reproducible() -> None:
    def dataset() -> fl.Dataset:
        return D.range(8).shuffle(8, seed=1).map(lambda x: (x, fl.random.uniform([], seed=2)))

    a, b = dataset(), dataset()
    for _ in range(3):
        assert lists(a) == lists(b)


def test_random_numbers_are_the_same_in_a_fresh_process(program: Any) -> None:
    source = """
        import feedline as fl
        fl.random.set_seed(11)
        ds = fl.Dataset.range(6).shuffle(4)
        ds = ds.map(lambda x: (x, fl.random.normal([]), fl.random.uniform([], seed=3)))
        for epoch in range(2):
            print([tuple(map(float, element)) for element in ds])
    """
    first, second = program(source).stdout, program(source, env={"FEEDLINE_CPU_BUDGET": "1"}).stdout
    assert first == second and len(first.splitlines()) == 2


def test_without_seeds_two_pipelines_differ() -> None:
    fl.random.set_seed(None)
    a, b = (lists(D.range(4).map(lambda x: fl.random.uniform([4]))) for _ in range(2))
    assert a != b


def test_random_numbers_in_inner_datasets() -> None:
    dataset = D.range(4).flat_map(lambda x: D.range(3).map(lambda y: fl.random.uniform([], seed=1)))
    found = list(dataset.with_options(chunk_rows=1))
    assert len(set(found)) == 12
    again = D.range(4).flat_map(lambda x: D.range(3).map(lambda y: fl.random.uniform([], seed=1)))
    assert list(again.with_options(chunk_rows=100, cpu_budget=1)) == found


def test_random_numbers_lie_where_they_should() -> None:
    dataset = D.range(500).map(
        lambda x: (fl.random.uniform([], 2, 3), fl.random.integers(-2, 3), fl.random.truncated_normal([]))
    )
    floats, integers, normals = map(np.array, zip(*dataset, strict=True))
    assert ((floats >= 2) & (floats < 3)).all()
    assert set(integers.tolist()) == {-2, -1, 0, 1, 2}
    assert (np.abs(normals) <= 2).all()
