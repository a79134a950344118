"""States where datasets start others, and marks stand inside of marks: the rest is always the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import pytest

D = fl.Dataset
Make = Callable[[], fl.Dataset]


def numbers(iterator: Any) -> list[int]:
    return [int(x) for x in iterator]


def wrong(make: Make, every: int = 1) -> list[int]:
    """The positions from which a pass does not go on as it did."""
    it, whole, states = iter(make()), [], []
    for x in it:
        whole.append(int(x))
        states.append(json.loads(json.dumps(it.state_dict())))
    assert len(whole) > 5
    at = range(0, len(whole), every)
    return [position for position in at if numbers(make().iter(states[position])) != whole[position + 1 :]]


def shuffled(times: int = 1) -> fl.Dataset:
    """Takes a seed of the pass each time that it starts."""
    return D.range(5).shuffle(3, seed=3).repeat(times)


STARTED: dict[str, Make] = {
    "repeat": lambda: D.range(4).interleave(lambda x: shuffled(8), cycle_length=1),
    "blocks": lambda: D.range(4).interleave(lambda x: shuffled(8), cycle_length=1, block_length=4),
    "flat_map": lambda: D.range(3).interleave(
        lambda x: D.range(6).flat_map(lambda y: shuffled()), cycle_length=1
    ),
    "nested": lambda: D.range(3).interleave(
        lambda x: D.range(4).interleave(lambda y: shuffled(2), cycle_length=1), cycle_length=1
    ),
    "two at once": lambda: D.range(4).interleave(lambda x: shuffled(8), cycle_length=2),
    "workers": lambda: D.range(4).interleave(lambda x: shuffled(8), cycle_length=1, num_parallel_calls=1),
}


@pytest.mark.parametrize("name", STARTED)
def test_what_starts_again_inside_of_a_cycle_takes_its_own_seeds(name: str) -> None:
    assert wrong(STARTED[name], every=3) == []


def twice() -> fl.Dataset:
    """Two functions open one dataset, each for itself."""
    few = D.range(6).shuffle(3, seed=1).take(1)
    first = D.range(20).flat_map(lambda x: few.map(lambda y: y + 10 * x))
    return first.flat_map(lambda x: few.map(lambda y: y + 10 * x))


def around() -> fl.Dataset:
    """A function opens what the pipeline reads as well, and begins anew."""
    few = D.range(5).shuffle(3, seed=1)
    return few.repeat(4).flat_map(lambda x: few.take(2).map(lambda y: y + 10 * x))


def nested_twice() -> fl.Dataset:
    few = D.range(6).shuffle(3, seed=1).take(2)

    def inner(x: Any) -> fl.Dataset:
        return few.flat_map(lambda y: few.map(lambda z: z + 10 * y)).map(lambda y: y + 100 * x)

    return few.repeat(4).flat_map(inner)


#: One dataset that several open.
SHARED: dict[str, Make] = {
    "twice": twice,
    "shuffled": lambda: twice().shuffle(4, seed=2),
    "in turns": lambda: D.zip((twice(), twice().skip(3))).map(lambda x, y: 10_000 * x + y),
    "around": around,
    "nested": nested_twice,
    "again": lambda: around().repeat(2),
    "ahead": lambda: twice().map(lambda x: x, num_parallel_calls=2).prefetch(3),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_dataset_that_several_open_gives_each_its_own_orders(name: str) -> None:
    """They do not depend on how far one reads ahead of another, which chunks and workers decide."""
    make = SHARED[name]
    expected = numbers(make())
    ways = [{"chunk_rows": 1}, {"chunk_rows": 3}, {"chunk_rows": 100}, {"cpu_budget": 1}, {"rewrite": False}]
    for way in ways:
        assert numbers(make().with_options(**way)) == expected, way
    assert wrong(make, every=3) == []
    # The passes that follow have others; behind one that was left, how far workers were does not matter.
    passes = [numbers(ds) for ds in [make()] * 3]
    assert passes[0] == expected != passes[1] != passes[2]
    behind = []
    for way in ways:
        ds = make().with_options(**way)
        next(iter(ds))
        behind.append(numbers(ds))
    assert all(one == behind[0] != expected for one in behind)


def counted(start: int = 0) -> Iterator[int]:
    yield from range(start, 30)


def generated() -> fl.Dataset:
    return D.from_generator(counted, output_signature=fl.TensorSpec((), fl.int64), resume=counted)


GENERATED: dict[str, Make] = {
    "shard": lambda: generated().shuffle(10, seed=1).shard(3, 2, equal="drop"),
    "two shuffles": lambda: generated().shuffle(10, seed=1).shuffle(10, seed=2),
    "take": lambda: generated().shuffle(10, seed=1).take(25).shard(2, 1, equal="drop"),
    "windows": lambda: (
        generated()
        .group_by_window(key_func=lambda x: x % 3, reduce_func=lambda k, ds: ds.batch(4), window_size=4)
        .unbatch()
        .shuffle(buffer_bytes=100, seed=3)
    ),
    "three shuffles": lambda: (
        generated().shuffle(4, seed=1).shuffle(4, seed=2).shuffle(4, seed=3).shard(2, 0, equal="wrap")
    ),
}


@pytest.mark.parametrize("name", GENERATED)
def test_a_generator_behind_what_has_much_to_tell(name: str) -> None:
    assert wrong(GENERATED[name]) == []


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("how", ["flat_map", "interleave"])
def test_a_snapshot_inside_of_a_function_is_read_as_in_the_pass_of_the_state(
    how: str, calls: int | None, tmp_path: Path
) -> None:
    """Also when it has become whole since: another pass reads it in the order of its shards."""
    kept = D.range(12).snapshot(
        str(tmp_path / "kept"),
        shard_func=lambda x: x % 3,
        reader_func=lambda shards: shards.interleave(lambda shard: shard, cycle_length=2),
    )

    def make(inner: fl.Dataset = kept) -> fl.Dataset:
        def numbered(x: Any) -> fl.Dataset:
            return inner.map(lambda y: y + 100 * x)

        if how == "flat_map":
            return D.range(3).flat_map(numbered)
        return D.range(3).interleave(numbered, cycle_length=2, num_parallel_calls=calls)

    assert wrong(make, every=5) == []
    assert numbers(make()) != numbers(make(D.range(12)))
    assert wrong(make, every=5) == []
