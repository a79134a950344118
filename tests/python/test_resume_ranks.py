"""States of ranks: what one number of processes began, another goes on with, each in a process of its own."""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline.frameworks.passes import Pass, Resumable

COUNT = 205
BATCH = 4
#: Numbers of ranks that take over from each other, with the steps that each makes; the last ones to the end.
HOPS: list[list[tuple[int, int | None]]] = [
    [(1, 5), (3, 4), (4, 3), (1, None)],
    [(1, 1), (4, 2), (3, 5), (1, 2), (3, None)],
    [(3, 3), (1, 7), (4, 2), (3, 1), (4, None)],
]


def files(folder: str) -> list[str]:
    return [f"{folder}/{number}.tfrecord" for number in range(5)]


def number(text: Any) -> Any:
    return fl.strings.to_number(text, fl.int64)


def interleaved(folder: str) -> fl.Dataset:
    names = fl.Dataset.from_tensor_slices(files(folder)).shuffle(5, seed=2)
    return names.interleave(fl.TFRecordDataset, cycle_length=3, num_parallel_calls=2).map(number)


#: What is dealt out. Each has the numbers up to COUNT once.
DEALT: dict[str, Any] = {
    "buffer": lambda _: fl.Dataset.range(COUNT).shuffle(30, seed=1),
    "permutation": lambda _: fl.Dataset.range(COUNT).shuffle(seed=1),
    "groups": lambda _: fl.Dataset.range(COUNT).group_by_window(
        lambda v: v % 4, lambda _, group: group.shuffle(5, seed=4), window_size=6
    ),
    "cache": lambda _: fl.Dataset.range(COUNT).shuffle(40, seed=1).cache().shuffle(20, seed=2),
    "files": lambda folder: interleaved(folder).shuffle(20, seed=3),
}


def files_of(folder: str, world: int, rank: int, equal: Any) -> fl.Dataset:
    mine = fl.Dataset.from_tensor_slices(files(folder)).shuffle(5, seed=2).shard(world, rank, equal=equal)
    read = mine.interleave(fl.TFRecordDataset, cycle_length=2, num_parallel_calls=2).map(number)
    return read.shuffle(20)


#: What holds elements of one part, behind `shard`. Each rank has numbers that no other has, all of them
#: together the numbers up to COUNT once, or without a few that `equal` leaves out.
HELD: dict[str, Any] = {
    "a buffer without a seed": lambda _, *part: numbers(*part).shuffle(30),
    "a permutation": lambda _, world, rank, equal: (
        fl.Dataset.range(COUNT).shard(world, rank, equal=equal).shuffle(seed=1)
    ),
    "files apart": files_of,
    "chosen": lambda _, *part: numbers(*part).filter(lambda v: v % 7 != 3),
    "taken apart": lambda _, *part: numbers(*part).batch(3).unbatch().filter(lambda v: v >= 0),
    "flat": lambda _, *part: numbers(*part).flat_map(lambda v: fl.Dataset.from_tensors(v).repeat(1 + v % 3)),
    "groups apart": lambda _, *part: numbers(*part).group_by_window(
        lambda v: v % 4, lambda _, group: group.shuffle(5, seed=4), window_size=6
    ),
    "a cache": lambda _, *part: numbers(*part).cache().shuffle(20, seed=2),
    "Python": lambda _, *part: numbers(*part).shuffle(9).map(plain, num_parallel_calls=2),
    "side by side": lambda _, *part: fl.Dataset.zip((numbers(*part), numbers(*part).shuffle(5))).map(
        lambda a, b: a + 0 * b
    ),
    "windows": lambda _, *part: numbers(*part).window(4).flat_map(lambda window: window.batch(4)).unbatch(),
    "again": lambda _, *part: numbers(*part).shuffle(10).repeat(2),
}


assert not HELD.keys() & DEALT.keys()


def numbers(world: int, rank: int, equal: Any) -> fl.Dataset:
    return fl.Dataset.range(COUNT).shuffle(50, seed=8).shard(world, rank, equal=equal)


def plain(value: Any) -> Any:
    return np.int64(value)


def part(name: str, folder: str, world: int, rank: int, equal: Any) -> fl.Dataset:
    if name in HELD:
        dealt = HELD[name](folder, world, rank, equal)
    else:
        dealt = DEALT[name](folder).shard(world, rank, equal=equal)
    return dealt.map(lambda v: v * 2).batch(BATCH).prefetch(1)


def hop(name: str, folder: str, world: int, steps: int | None, equal: Any, state: Any) -> Any:
    """What each rank sees, batch by batch, its state behind that, and at the end its next pass."""
    seen, states, after = [], [], []
    for rank in range(world):
        ds = part(name, folder, world, rank, equal)
        it = ds.iter(state)
        seen.append([(np.asarray(batch) // 2).tolist() for batch in itertools.islice(it, steps)])
        states.append(it.state_dict())
        if steps is None:
            after.append([(np.asarray(batch) // 2).tolist() for batch in ds])
    return seen, states, after


def in_another_process(argument: Any) -> list[Any]:
    """The results of `hop` for each of several cases."""
    run = [sys.executable, __file__]
    done = subprocess.run(
        run, input=json.dumps(argument), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def flat(batches: list[list[list[int]]]) -> list[int]:
    return [number for rank in batches for batch in rank for number in batch]


@pytest.mark.parametrize("hops", HOPS, ids=lambda hops: "-".join(str(world) for world, _ in hops))
def test_ranks_take_over_from_each_other(hops: list[tuple[int, int | None]], tmp_path: Path) -> None:
    """Each time in a fresh process, from a state of the one before, be it of the first rank or of the last.

    All elements are seen once. With equal parts, the last few are left out, or the first come again.
    """
    written(tmp_path)
    cases = list(itertools.product(DEALT, [None, "drop", "wrap"], [0, -1]))
    seen: list[list[int]] = [[] for _ in cases]
    states: list[Any] = [None] * len(cases)
    for world, steps in hops:
        asked = [
            (name, str(tmp_path), world, steps, equal, state)
            for (name, equal, _), state in zip(cases, states, strict=True)
        ]
        found = in_another_process(asked)
        for at, (batches, told, _) in enumerate(found):
            if steps is not None:
                assert {len(rank) for rank in batches} == {steps}, (cases[at], world)
            seen[at] += flat(batches)
            states[at] = told[cases[at][2]]

    left = COUNT - sum(world * steps * BATCH for world, steps in hops if steps is not None)
    for (name, equal, rank), numbers, (batches, _, after) in zip(cases, seen, found, strict=True):
        case = name, equal, rank
        order = [int(value) for value in DEALT[name](str(tmp_path)).iter(epoch=0)]
        sizes = [len(flat([one])) for one in batches]
        times = Counter(numbers)
        if equal is None:
            assert sorted(numbers) == list(range(COUNT)), case
            assert sorted(flat(after)) == list(range(COUNT)), case
            assert max(sizes) - min(sizes) <= 1, case
            continue
        assert len({tuple(map(len, one)) for one in batches}) == 1, case
        assert len({tuple(map(len, one)) for one in after}) == 1, case
        if equal == "drop":
            lost = left % world
            assert sizes == [left // world] * world, case
            assert sorted(numbers) == sorted(order[: COUNT - lost]), case
            assert len(set(flat(after))) == len(flat(after)) == COUNT // world * world, case
        else:
            again = -left % world
            assert sizes == [-(-left // world)] * world, case
            assert times == Counter(order) + Counter(order[:again]), case
            assert set(flat(after)) == set(range(COUNT)), case
    # The state of any rank serves all.
    assert seen[::2] == seen[1::2]
    assert [after for _, _, after in found[::2]] == [after for _, _, after in found[1::2]]


def written(folder: Path) -> None:
    for number, path in enumerate(files(str(folder))):
        with fl.io.TFRecordWriter(path) as writer:
            for value in range(number, COUNT, 5):
                writer.write(str(value).encode())


def hop_merged(name: str, folder: str, world: int, steps: list[int] | None, equal: Any, state: Any) -> Any:
    """The same with as many steps for each rank as are given, and one state for all."""
    seen, ranks, after = [], [], []
    for rank in range(world):
        ds = part(name, folder, world, rank, equal)
        it = ds.iter(state)
        taken = itertools.islice(it, None if steps is None else steps[rank])
        seen.append([(np.asarray(batch) // 2).tolist() for batch in taken])
        ranks.append(it.state_dict())
        if steps is None:
            after.append([(np.asarray(batch) // 2).tolist() for batch in ds])
    return seen, fl.merge_states(reversed(ranks)), after


#: The steps that each rank makes.
UNEVEN: list[list[list[int] | int]] = [
    [[4], [1, 5, 2], [3, 0, 2, 6], 1],
    [[2, 0, 5], [3], [1, 1, 4, 2], 3],
    [[1, 2, 0, 4], [2, 5, 3], 4],
    [[3, 3, 3], [2, 2, 2, 2], [4], 3],
]


@pytest.mark.parametrize("hops", UNEVEN, ids=lambda hops: "-".join(str(_world(hop)) for hop in hops))
def test_ranks_take_over_whatever_stands_behind_shard(hops: list[Any], tmp_path: Path) -> None:
    """Wherever each of them is, each time in a fresh process, with one state of all ranks."""
    written(tmp_path)
    cases = list(itertools.product([*HELD, *DEALT], [None, "drop", "wrap"]))
    seen: list[list[int]] = [[] for _ in cases]
    states: list[Any] = [None] * len(cases)
    found: list[Any] = []
    for hop in hops:
        steps = None if isinstance(hop, int) else hop
        asked = [
            (name, str(tmp_path), _world(hop), steps, equal, state)
            for (name, equal), state in zip(cases, states, strict=True)
        ]
        found = in_another_process(["merged", asked])
        for at, (batches, told, _) in enumerate(found):
            seen[at] += flat(batches)
            states[at] = told
    for (name, equal), got, (batches, _, after) in zip(cases, seen, found, strict=True):
        case = name, equal
        times = 2 if name == "again" else 1
        if equal is None:
            expected = Counter(expected_of(name) * times)
            assert Counter(got) == expected, case
            assert Counter(flat(after)) == expected, case
            continue
        sizes = [len(flat([one])) for one in batches]
        assert max(sizes) == min(sizes), case
        expected = Counter(expected_of(name) * times)
        # Parts are made equal where elements are divided, and where rests are: files, or some elements.
        few = 30
        if equal == "drop":
            assert not Counter(got) - expected, case
            assert name == "files apart" or (expected - Counter(got)).total() <= few, case
        else:
            assert not expected - Counter(got), case
            assert name == "files apart" or (Counter(got) - expected).total() <= few, case


def ranks_of(count: int, elements: int = 20, steps: int = 2) -> list[dict[str, Any]]:
    iterators = [iter(fl.Dataset.range(elements).shard(count, rank).shuffle(4)) for rank in range(count)]
    for it in iterators:
        assert len(list(itertools.islice(it, steps))) == steps
    return [it.state_dict() for it in iterators]


def test_states_that_do_not_belong_together_are_refused() -> None:
    """And so is one that does not do, with what to do instead."""
    three, two = ranks_of(3), ranks_of(2)
    plain = fl.Dataset.range(20)
    later = fl.Dataset.range(20).shard(2, 1).shuffle(4)
    assert len(list(later)) == 10
    refused = {
        "there are no states": [],
        r"shards \[0, 2\], and one of each of the 3": [three[0], three[2]],
        r"shards \[0, 1, 1\], and one": [three[0], three[1], three[1]],
        "of shard 1 of 3, another of shard 0 of 2": [two[0], three[1]],
        "another dataset: operator 1 is range": [two[0], ranks_of(2, 30)[1]],
        "is in pass 1, others are in pass 0": [two[0], iter(later).state_dict()],
        "without shard": [iter(plain).state_dict()],
        "of all ranks already": [fl.merge_states(two), two[1]],
    }
    for text, states in refused.items():
        with pytest.raises(ValueError, match=text):
            fl.merge_states(states)
    with pytest.raises(TypeError, match="not int"):
        fl.merge_states([1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a list of states, one of each rank, not a dict"):
        fl.merge_states(two[0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"fl\.merge_states"):
        fl.Dataset.range(20).shard(3, 0).shuffle(4).iter(two[0])
    mine = fl.Dataset.range(20).shard(3, 1).shuffle(4).iter(fl.merge_states(three[::-1]))
    assert mine.state_dict()["delivered"] == 2
    # What was taken apart by others is put together again before anything is begun.
    damaged = fl.merge_states(two)
    damaged["others"] = damaged["others"] * 2
    with pytest.raises(ValueError, match="one of each of the 2"):
        fl.Dataset.range(20).shard(3, 0).shuffle(4).iter(damaged)
    gone_on = [
        fl.Dataset.range(20).shard(2, rank).shuffle(4).iter(fl.merge_states(three)) for rank in range(2)
    ]
    with pytest.raises(ValueError, match="gone on from states of other numbers of ranks"):
        fl.merge_states([gone_on[0].state_dict(), two[1]])
    many = {**two[0], "parts": [{"of": [2**40]}]}
    with pytest.raises(ValueError, match="4096 are possible"):
        fl.Dataset.range(20).shard(2, 0).shuffle(4).iter(many)


Make = Callable[[int, int], fl.Dataset]


def resharded(make: Make, steps: list[int], count: int) -> tuple[Counter[int], Counter[int]]:
    """What ranks gave in so many steps with those who took over, and what they would have given."""
    world = len(steps)
    whole = Counter(int(v) for rank in range(world) for v in make(world, rank).iter(epoch=0))
    its = [make(world, rank).iter(epoch=0) for rank in range(world)]
    seen = Counter(int(v) for it, some in zip(its, steps, strict=True) for v in itertools.islice(it, some))
    state = json.loads(json.dumps(fl.merge_states(it.state_dict() for it in its)))
    for rank in range(count):
        seen.update(int(v) for v in make(count, rank).iter(state))
    return seen, whole


def reading_own_part(count: int, rank: int) -> fl.Dataset:
    mine = fl.Dataset.range(12).shard(count, rank)
    return mine.flat_map(lambda v: mine.take(2).map(lambda w: w + 100 * v))


def reading_a_part(count: int, rank: int) -> fl.Dataset:
    """The same where the pipeline and its function have a dataset each."""
    inner = fl.Dataset.range(12).shard(count, rank)
    return (
        fl.Dataset.range(12).shard(count, rank).flat_map(lambda v: inner.take(2).map(lambda w: w + 100 * v))
    )


def reading_one_part(count: int, rank: int) -> fl.Dataset:
    """All ranks read the same part in the function."""
    inner = fl.Dataset.range(6).shard(3, 0)
    return fl.Dataset.range(12).shard(count, rank).flat_map(lambda v: inner.map(lambda w: w + 100 * v))


def sharing_a_shuffle(count: int, rank: int) -> fl.Dataset:
    few = fl.Dataset.range(6).shuffle(3, seed=1).take(1)
    mine = fl.Dataset.range(20).shard(count, rank)
    first = mine.flat_map(lambda v: few.map(lambda w: w + 10 * v))
    return first.flat_map(lambda v: few.map(lambda w: w + 10 * v)).shuffle(3)


def sharing_what_is_divided(count: int, rank: int) -> fl.Dataset:
    whole = (
        fl.Dataset.range(24)
        .shuffle(8, seed=3)
        .map(lambda v: v + fl.cast(fl.random.uniform([]) * 0, fl.int64))
    )
    mine = whole.shard(count, rank)
    return mine.flat_map(lambda v: whole.take(0).concatenate(fl.Dataset.from_tensors(v))).shuffle(4)


@pytest.mark.parametrize("steps, count", [([3, 1], 3), ([1, 0, 4], 2), ([2, 2], 1)], ids=str)
@pytest.mark.parametrize(
    "make",
    [reading_own_part, reading_a_part, reading_one_part, sharing_a_shuffle, sharing_what_is_divided],
    ids=lambda make: make.__name__,
)
def test_what_functions_read_is_that_of_their_part(make: Make, steps: list[int], count: int) -> None:
    seen, whole = resharded(make, steps, count)
    assert seen == whole


def test_another_number_is_refused_where_functions_read_other_parts() -> None:
    """By all ranks alike: one that goes on while others do not would wait for them."""

    def inside(count: int, rank: int) -> fl.Dataset:
        return fl.Dataset.range(3).flat_map(
            lambda v: fl.Dataset.range(10).shard(count, rank).map(lambda w: w + 10 * v)
        )

    def another(count: int, rank: int) -> fl.Dataset:
        part = fl.Dataset.range(12).shard(2 * count, 2 * rank)
        return fl.Dataset.range(24).shard(count, rank).flat_map(lambda v: part.map(lambda w: w + 100 * v))

    for make in inside, another:
        its = [iter(make(2, rank)) for rank in range(2)]
        for it in its:
            next(it)
        states = [it.state_dict() for it in its]
        for state in fl.merge_states(states), states[0]:
            for rank in range(3):
                with pytest.raises(ValueError, match=r"only as many ranks as before|fl\.merge_states"):
                    make(3, rank).iter(state)
        # As many as before go on, each where its own was.
        for rank, it in enumerate(its):
            rest = [int(v) for v in it]
            assert [int(v) for v in make(2, rank).iter(fl.merge_states(states))] == rest


Grid = Callable[[int, int, int, int], fl.Dataset]


def on_a_grid(nodes: int, node: int, processes: int, process: int) -> fl.Dataset:
    mine = (
        fl.Dataset.range(90)
        .shuffle(7, seed=2)
        .shard(nodes, node)
        .shuffle(5, seed=3)
        .shard(processes, process)
    )
    return mine.filter(lambda v: v % 7 != 3).shuffle(4, seed=1).map(lambda v: v * 2)


def by_drawn_seeds(nodes: int, node: int, processes: int, process: int) -> fl.Dataset:
    mine = fl.Dataset.range(90).shard(nodes, node).shard(processes, process)
    return mine.shuffle(9).map(lambda v: v + fl.cast(fl.random.uniform([]) * 0, fl.int64))


def held_by_nodes(nodes: int, node: int, processes: int, process: int) -> fl.Dataset:
    """Those of one node may speak for each other, and not for those of others."""
    mine = fl.Dataset.range(90).shard(nodes, node).shuffle(5, seed=3).shard(processes, process)
    return mine.map(lambda v: v * 2)


def dealt_twice(nodes: int, node: int, processes: int, process: int) -> fl.Dataset:
    return fl.Dataset.range(90).shard(nodes, node).shard(processes, process).map(lambda v: v * 2)


def side_by_side_on_a_grid(nodes: int, node: int, processes: int, process: int) -> fl.Dataset:
    first, second = (
        fl.Dataset.range(some, some + 40).shard(nodes, node).shard(processes, process) for some in (0, 40)
    )
    return first.concatenate(second).shuffle(5, seed=1)


def ranks_on(nodes: int, processes: int) -> list[tuple[int, int, int, int]]:
    return [(nodes, node, processes, process) for node in range(nodes) for process in range(processes)]


@pytest.mark.parametrize(
    "make",
    [on_a_grid, by_drawn_seeds, held_by_nodes, dealt_twice, side_by_side_on_a_grid],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("equally", [False, True], ids=["apart", "equally far"])
def test_ranks_of_shards_above_each_other(make: Grid, equally: bool) -> None:
    """Each is told from others by all of its indexes, and other numbers of either go on, time and again."""
    ranks, seen = ranks_on(2, 2), Counter[int]()
    its = [make(*rank).iter(epoch=0) for rank in ranks]
    whole = Counter(int(v) for rank in ranks for v in make(*rank).iter(epoch=0))
    for hop, then in enumerate(
        [ranks_on(2, 3), ranks_on(3, 1), ranks_on(1, 1), ranks_on(1, 4), ranks_on(2, 2)]
    ):
        for number, it in enumerate(its):
            seen.update(int(v) for v in itertools.islice(it, 2 if equally else (number + hop) % 4))
        state = json.loads(json.dumps(fl.merge_states(it.state_dict() for it in its[::-1])))
        rests = [[int(v) for v in it] for it in its]
        for rank, rest in zip(ranks, rests, strict=True):
            assert [int(v) for v in make(*rank).iter(state)] == rest
        ranks = then
        its = [make(*rank).iter(state) for rank in ranks]
    seen.update(int(v) for it in its for v in it)
    assert seen == whole


@pytest.mark.parametrize("equal", [None, "drop"])
@pytest.mark.parametrize("before, after", [(2, 3), (3, 2), (2, 1), (1, 2)])
def test_a_shard_of_one_above_another(equal: Any, before: int, after: int) -> None:
    def part(count: int, rank: int) -> fl.Dataset:
        return fl.Dataset.range(60).shard(count, rank, equal=equal).shard(1, 0).shuffle(4)

    its = [iter(part(before, rank)) for rank in range(before)]
    seen = [int(v) for it in its for v in itertools.islice(it, 6)]
    state = fl.merge_states(it.state_dict() for it in its)
    rests = [[int(v) for v in it] for it in its]
    assert [[int(v) for v in part(before, rank).iter(state)] for rank in range(before)] == rests
    others = [[int(v) for v in part(after, rank).iter(state)] for rank in range(after)]
    assert sorted(seen + [v for rest in others for v in rest]) == list(range(60))
    # Those go on as well, on as many as they are and on others.
    its = [part(after, rank).iter(state) for rank in range(after)]
    seen += [int(v) for it in its for v in itertools.islice(it, 3)]
    state = fl.merge_states(it.state_dict() for it in its)
    last = [[int(v) for v in part(before, rank).iter(state)] for rank in range(before)]
    seen += [v for rest in last for v in rest]
    # Each change may leave out some for equal parts, fewer than there are ranks.
    few = 0 if equal is None else before - 1
    assert len(seen) == len(set(seen)) >= 60 - few and set(seen) <= set(range(60))
    assert equal is None or len({len(rest) for rest in last}) == 1


def test_states_of_other_nodes_are_refused() -> None:
    """Also where the last index is the same."""

    def held(node: int, process: int) -> fl.Dataset:
        return fl.Dataset.range(32).shard(2, node).shard(2, process).filter(lambda v: (v < 16) | (v % 4 > 0))

    its = {at: iter(held(*at)) for at in itertools.product(range(2), range(2))}
    for it in its.values():
        next(it)
    states = {at: it.state_dict() for at, it in its.items()}
    text = "shard 0 of 2 within 0 of 2 and this dataset is shard 0 of 2 within 1 of 2; filter behind shard"
    with pytest.raises(ValueError, match=text):
        held(1, 0).iter(states[0, 0])
    for some in ([(0, 0), (1, 1)], [(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0)], [*states, (1, 1)]):
        with pytest.raises(ValueError, match="one of each of the 4 is needed"):
            fl.merge_states(states[at] for at in some)

    def dealt(node: int, process: int, processes: int) -> fl.Dataset:
        return fl.Dataset.range(48).shard(2, node).shard(processes, process).map(lambda v: v).batch(2)

    # Where nothing holds elements any of them does for all that are equally far.
    it = iter(dealt(0, 0, 2))
    seen = [v for at in its for v in next(iter(dealt(*at, 2))).tolist()]
    next(it)
    for processes in 2, 3:
        at = [(node, process) for node in range(2) for process in range(processes)]
        rest = [int(v) for one in at for batch in dealt(*one, processes).iter(it.state_dict()) for v in batch]
        assert sorted(seen + rest) == list(range(48))

    def apart(node: int) -> fl.Dataset:
        mine = fl.Dataset.range(48).shard(2, node).map(lambda v: v).shuffle(2, seed=1)
        return mine.shard(2, 0).map(lambda v: v)

    it = iter(apart(0))
    next(it)
    assert len(list(apart(0).iter(it.state_dict()))) == 11
    with pytest.raises(ValueError, match="shuffle behind shard holds"):
        apart(1).iter(it.state_dict())


def test_states_of_other_shards_side_by_side_are_refused() -> None:
    def other_parts(count: int, rank: int) -> fl.Dataset:
        whole = fl.Dataset.range(24)
        return whole.shard(2 * count, 2 * rank).concatenate(whole.shard(2 * count, 2 * rank + 1))

    def other_numbers(count: int, rank: int) -> fl.Dataset:
        return fl.Dataset.range(12).shard(3, 2).concatenate(fl.Dataset.range(12).shard(count, rank))

    for make in other_parts, other_numbers:
        its = [iter(make(2, rank)) for rank in range(2)]
        for it in its:
            next(it)
        states = [it.state_dict() for it in its]
        assert [int(v) for v in make(2, 1).iter(states[1])] == [int(v) for v in its[1]]
        for rank, state in enumerate(states):
            with pytest.raises(ValueError, match="side by side must be of one number and index"):
                make(2, 1 - rank).iter(state)
        with pytest.raises(ValueError, match="nobody can tell which part"):
            fl.merge_states(states)


def test_the_state_of_another_rank_is_refused_where_ranks_differ() -> None:
    def held(rank: int) -> fl.Dataset:
        return fl.Dataset.range(30).shard(3, rank).shuffle(8)

    def dealt(rank: int) -> fl.Dataset:
        return fl.Dataset.range(30).shard(3, rank).map(lambda v: v).batch(2)

    for make, is_refused in (held, True), (dealt, False):
        it = iter(make(0))
        next(it)
        state = it.state_dict()
        assert len(list(make(0).iter(state))) == len(list(it))
        if is_refused:
            with pytest.raises(
                ValueError, match=r"shard 0 of 3 and this dataset is shard 1 of 3; shuffle behind shard"
            ):
                make(1).iter(state)
        else:
            assert next(make(1).iter(state)).tolist() == [7, 10]


def test_a_state_of_all_that_was_loaded_can_be_saved_again() -> None:
    state = fl.merge_states(ranks_of(3))
    assert fl.merge_states([state, json.loads(json.dumps(state)), state]) == state
    assert fl.merge_states([{"pass": state}, {"pass": state}]) == {"pass": state}


def test_damaged_states_are_refused() -> None:
    ds = fl.Dataset.range(20).shard(2, 0).shuffle(4, seed=1)
    state = fl.merge_states(
        iter(fl.Dataset.range(20).shard(2, rank).shuffle(4, seed=1)).state_dict() for rank in range(2)
    )
    within: Any = state
    for _ in range(5000):
        within = {**state, "others": [within]}
    itself: list[Any] = []
    itself.append(itself)
    first: Any = copy.deepcopy(state)
    first["seeds"][0]["first"] = 2**64 - 1
    taken: Any = copy.deepcopy(state)
    taken["others"][0]["seeds"][0]["taken"] = 2**64 - 1
    for damaged in within, {**state, "at": itself}, first:
        with pytest.raises(ValueError, match=r"inside of each other|damaged|of all ranks there is one"):
            ds.iter(damaged)
    for damaged in first, taken:
        with pytest.raises(ValueError, match="damaged"):
            list(fl.Dataset.range(20).shard(3, 0).shuffle(4, seed=1).iter(damaged))


def with_seeded_noise(count: int, rank: int) -> fl.Dataset:
    chosen = fl.Dataset.range(60).shard(count, rank).filter(lambda v: v % 3 != 1)
    return chosen.map(lambda v: (v, fl.random.uniform([], seed=5)))


def test_random_functions_go_on_with_the_numbers_of_their_elements() -> None:
    """Also those that run for a rank's own share alone: no number comes twice in a pass."""
    whole = {int(v): float(x) for rank in range(4) for v, x in with_seeded_noise(4, rank)}
    assert len(set(whole.values())) == 40
    its = [iter(with_seeded_noise(4, rank)) for rank in range(4)]
    seen = {int(v): float(x) for rank, it in enumerate(its) for v, x in itertools.islice(it, 1 + rank % 2)}
    state = fl.merge_states(it.state_dict() for it in its)
    for count in 3, 2:
        its = [with_seeded_noise(count, rank).iter(state) for rank in range(count)]
        seen |= {int(v): float(x) for it in its for v, x in itertools.islice(it, 3)}
        state = fl.merge_states(it.state_dict() for it in its)
    seen |= {int(v): float(x) for v, x in with_seeded_noise(1, 0).iter(state)}
    assert seen == whole


def test_a_pass_that_reads_the_rests_of_all_parts_explains_itself() -> None:
    ds = fl.Dataset.range(20).shard(3, 1).shuffle(4).map(lambda v: v + 1)
    it = ds.iter(fl.merge_states(ranks_of_map(2)))
    seen = [int(value) for value in it]
    assert len(seen) == 5
    for text in it.explain(), ds.explain():
        assert "parts" in text and text.count("shuffle") >= 2, text
    # The next pass is divided as it is written.
    assert len(list(ds)) == 7 and "parts" not in ds.explain()


def ranks_of_map(count: int) -> list[dict[str, Any]]:
    its = [
        iter(fl.Dataset.range(20).shard(count, rank).shuffle(4).map(lambda v: v + 1)) for rank in range(count)
    ]
    for it in its:
        next(it), next(it), next(it)
    return [it.state_dict() for it in its]


def test_frameworks_wrap_states() -> None:
    class Stream(Resumable):
        def __init__(self, count: int, rank: int) -> None:
            self.dataset = fl.Dataset.range(21).shard(count, rank).shuffle(5)

        def __iter__(self) -> Pass:
            self._last = Pass(self._open(self.dataset), lambda element: element)
            return self._last

    streams = [Stream(2, rank) for rank in range(2)]
    assert fl.merge_states(stream.state_dict() for stream in streams) == {"pass": None}
    first = iter(streams[0])
    with pytest.raises(ValueError, match="some ranks have begun"):
        fl.merge_states(stream.state_dict() for stream in streams)
    # One of them is at its end, and the pass is not.
    seen = [int(value) for value in first] + [int(next(it)) for it in [iter(streams[1])] for _ in range(3)]
    state = fl.merge_states(json.loads(json.dumps(stream.state_dict())) for stream in streams)
    for rank in range(3):
        stream = Stream(3, rank)
        stream.load_state_dict(state)
        seen += [int(value) for value in stream]
    assert sorted(seen) == list(range(21))
    # What was damaged is said in words, not found missing later.
    ended = {**state["pass"], "ended": True}
    for damaged in (
        {"ended": True},
        {**ended, "others": [{}]},
        {**ended, "others": None},
        {**ended, "others": {}},
        {key: value for key, value in ended.items() if key != "ended"},
    ):
        stream.load_state_dict({"pass": damaged})
        with pytest.raises(ValueError, match=r"not a state|damaged|is needed"):
            iter(stream)
    for other in state["pass"], {}, []:
        with pytest.raises(ValueError, match="not a state"):
            stream.load_state_dict(other)  # type: ignore[arg-type]


def failing(count: int, rank: int, on_error: str) -> fl.Dataset:
    """Every fifth number cannot be read. Where they are left out, batches are of others."""
    mine = fl.Dataset.range(60).shuffle(60, seed=3).shard(count, rank)
    read = mine.map(lambda v: v * fl.strings.to_number(fl.where(v % 5 == 2, "x", "1"), fl.int64))
    return read if on_error == "raise" else read.batch(3).with_options(on_error=on_error)


def read_on(it: Any, steps: int | None) -> list[int]:
    """The numbers that come in so many steps, a failed one among them."""
    seen: list[int] = []
    for _ in itertools.count() if steps is None else range(steps):
        try:
            seen += np.atleast_1d(next(it)).tolist()
        except StopIteration:
            break
        except fl.errors.DataError:
            pass
    return seen


@pytest.mark.parametrize("steps", [[4, 4], [3, 5], [1, 7]], ids=str)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_elements_that_fail_behind_shard(on_error: str, steps: list[int]) -> None:
    """Results do not tell how many elements they were made of where some failed."""
    its = [iter(failing(2, rank, on_error)) for rank in range(2)]
    seen = [read_on(it, count) for it, count in zip(its, steps, strict=True)]
    states = [it.state_dict() for it in its]
    met_errors = max(states, key=lambda state: state.get("failed", 0))
    with pytest.raises(ValueError, match="elements that fail behind shard"):
        failing(3, 0, on_error).iter(met_errors)
    for count in 3, 1:
        state = fl.merge_states(states)
        its = [failing(count, rank, on_error).iter(state) for rank in range(count)]
        seen += [read_on(it, 2) for it in its]
        states = [it.state_dict() for it in its]
    seen.append(read_on(failing(4, 0, on_error).iter(fl.merge_states(states)), None))
    seen += [read_on(failing(4, rank, on_error).iter(fl.merge_states(states)), None) for rank in (1, 2, 3)]
    assert sorted(v for one in seen for v in one) == [v for v in range(60) if v % 5 != 2]


def skipping(count: int, rank: int) -> fl.Dataset:
    return fl.Dataset.range(24).shard(count, rank).map(lambda v: v + 0).batch(2).with_options(on_error="skip")


def skipping_behind_a_buffer(count: int, rank: int) -> fl.Dataset:
    mine = fl.Dataset.range(24).shard(count, rank).shuffle(4, seed=1)
    return mine.map(lambda v: v + 0).batch(2).with_options(on_error="skip")


@pytest.mark.parametrize("make", [skipping, skipping_behind_a_buffer], ids=lambda make: make.__name__)
@pytest.mark.parametrize("worlds", [(2, 3, 2), (1, 3, 1), (3, 1, 4)], ids=str)
def test_elements_could_fail_and_none_did(make: Make, worlds: tuple[int, ...]) -> None:
    """Then the state of one tells of all that are equally far, also if they have taken over from others."""
    its, seen = [iter(make(worlds[0], rank)) for rank in range(worlds[0])], []
    for hop, world in enumerate([*worlds[1:], 2]):
        seen += [
            int(v) for rank, it in enumerate(its) for _ in range(1 + (hop == rank == 1)) for v in next(it, [])
        ]
        state = fl.merge_states(it.state_dict() for it in its)
        its = [make(world, rank).iter(state) for rank in range(world)]
    seen += [int(v) for it in its for batch in it for v in batch]
    assert sorted(seen) == list(range(24))


NOTHING: dict[str, Callable[[fl.Dataset], fl.Dataset]] = {
    "repeat": lambda ds: ds.repeat(1),
    "skip": lambda ds: ds.skip(0),
    "take": lambda ds: ds.take(-1),
}


@pytest.mark.parametrize("rewrite", [None, False], ids=["rewritten", "as written"])
@pytest.mark.parametrize("name", NOTHING)
def test_operators_that_do_nothing_between_functions_that_become_one(name: str, rewrite: bool | None) -> None:
    def part(count: int, rank: int) -> fl.Dataset:
        first = fl.Dataset.range(40).shard(count, rank).map(lambda v: v + 1)
        return NOTHING[name](first).map(lambda v: v * 2).with_options(on_error="skip", rewrite=rewrite)

    seen, whole = resharded(part, [1, 0, 3], 2)
    assert seen == whole


def with_noise(count: int, rank: int) -> fl.Dataset:
    """Two random functions that nobody gave a seed, below and behind what divides."""
    drawn = fl.Dataset.range(40).map(lambda v: (v, fl.random.uniform([])))
    mine = drawn.shard(count, rank)
    return mine.map(lambda v, before: (v, before, fl.random.uniform([]))).shuffle(6)


def test_each_part_has_the_seeds_that_its_rank_drew() -> None:
    first = [with_noise(2, rank) for rank in range(2)]
    whole = {int(v): (float(a), float(b)) for ds in first for v, a, b in ds.iter(epoch=0)}
    its = [ds.iter(epoch=0) for ds in first]
    seen = {int(v): (float(a), float(b)) for it in its for v, a, b in itertools.islice(it, 3)}
    state = json.loads(json.dumps(fl.merge_states(it.state_dict() for it in its)))
    for rank in range(3):
        others = with_noise(3, rank)
        rest = {int(v): (float(a), float(b)) for v, a, b in others.iter(state)}
        assert not rest.keys() & seen.keys()
        seen |= rest
    assert seen == whole


def expected_of(name: str) -> list[int]:
    if name == "chosen":
        return [value for value in range(COUNT) if value % 7 != 3]
    if name == "flat":
        return [value for value in range(COUNT) for _ in range(1 + value % 3)]
    return list(range(COUNT))


def _world(hop: Any) -> int:
    return hop if isinstance(hop, int) else len(hop)


if __name__ == "__main__":
    fl.configure(cpu_budget=2)
    asked = json.load(sys.stdin)
    run, asked = (hop_merged, asked[1]) if asked[0] == "merged" else (hop, asked)
    print(json.dumps([run(*case) for case in asked]))
