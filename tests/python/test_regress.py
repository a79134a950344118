"""A test a bug, named after it."""

from __future__ import annotations

from typing import Any

import feedline as fl
import pytest

D = fl.Dataset


def draws() -> Any:
    """Two random numbers a pass."""
    return D.range(2).map(lambda x: fl.random.uniform([], seed=3))


def test_a_pass_under_options_is_an_epoch_of_its_own() -> None:
    dataset = draws()
    passes = [tuple(dataset.iter(chunk_rows=1)) for _ in range(3)]
    assert len(set(passes)) == 3


def test_nested_repeats_never_use_an_epoch_twice() -> None:
    numbers = list(draws().repeat(2).repeat(2))
    assert len(set(numbers)) == len(numbers) == 8


def test_fusing_maps_keeps_calls_that_fail() -> None:
    dataset = D.range(3).map(lambda x: (x, 10 // x)).map(lambda a, b: a)
    with pytest.raises(fl.errors.InvalidArgumentError, match="zero"):
        list(dataset)
    iterator = iter(dataset)
    with pytest.raises(fl.errors.InvalidArgumentError):
        next(iterator)
    assert [int(x) for x in iterator] == [1, 2]


def test_repeating_once_changes_no_random_numbers() -> None:
    def build(**options: Any) -> list[Any]:
        dataset = D.range(9).shuffle(3, seed=1).repeat(1).map(lambda x: fl.random.uniform([], seed=5))
        return list(dataset.with_options(**options))

    assert build() == build(rewrite=False)


def test_a_dataset_exported_by_a_function_can_be_used_in_an_inner_one() -> None:
    def outer(x: Any) -> Any:
        inner = D.range(x)
        return D.range(2).flat_map(lambda y: inner.map(lambda q: q + y))

    assert [int(x) for x in D.range(3).flat_map(outer)] == [0, 1, 0, 1, 1, 2]


def test_a_chain_of_many_operators_can_be_pickled() -> None:
    import pickle

    dataset = D.range(300)
    for _ in range(200):
        dataset = dataset.skip(1)
    assert [int(x) for x in pickle.loads(pickle.dumps(dataset))][:2] == [200, 201]
