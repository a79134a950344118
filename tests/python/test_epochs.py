"""`ds.iter(epoch=n)`: the pass with that number, whatever was read before."""

from __future__ import annotations

from typing import Any

import feedline as fl
import pytest


def shuffled() -> fl.Dataset:
    ds = fl.Dataset.range(50).shuffle(10, seed=1)
    return ds.map(lambda x: (x, fl.random.uniform([], seed=2)))


def nested() -> fl.Dataset:
    return fl.Dataset.range(3).flat_map(lambda n: fl.Dataset.range(9).shuffle(9, seed=4)).shuffle(5, seed=1)


PIPELINES = {
    "a buffer": shuffled,
    "all": lambda: fl.Dataset.range(50).shuffle(seed=1),
    "inside": nested,
    "repeated": lambda: fl.Dataset.range(9).shuffle(9, seed=1).repeat(2),
}


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
def test_a_new_process_has_the_epoch_that_it_asks_for(make: Any) -> None:
    """Passes before it count as left early, so only the first seed of each is taken."""
    ds = make()
    epochs = []
    for _ in range(4):
        epochs.append(list(ds.iter(epoch=len(epochs))))
    assert len({str(epoch) for epoch in epochs}) == 4
    assert list(make().iter(epoch=2)) == epochs[2]
    assert list(make().iter(epoch=2, cpu_budget=1, chunk_rows=1)) == epochs[2]
    # And back.
    assert list(ds.iter(epoch=1)) == epochs[1]


@pytest.mark.parametrize("make", [shuffled, PIPELINES["all"]])
def test_passes_are_counted_from_there(make: Any) -> None:
    ds = make()
    epochs = [list(ds) for _ in range(4)]
    again = make()
    assert list(again.iter(epoch=2)) == epochs[2]
    assert list(again) == epochs[3]
    iterator = make().iter(epoch=1)
    next(iterator)
    assert list(make().iter(iterator.state_dict())) == epochs[1][1:]


def test_what_is_no_epoch() -> None:
    ds = shuffled()
    state = iter(ds).state_dict()
    with pytest.raises(ValueError, match="a state or an epoch"):
        ds.iter(state, epoch=1)
    with pytest.raises(ValueError, match="from 0 on"):
        ds.iter(epoch=-1)
    with pytest.raises(TypeError, match="whole number"):
        ds.iter(epoch=1.5)
