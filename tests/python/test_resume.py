"""States of iterators: taken anywhere, written as JSON, gone on from in this process and in others."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import feedline as fl
import numpy as np
import pytest
import towers


def told(state: Any) -> Any:
    """The state as it comes back from a file."""
    return json.loads(json.dumps(state))


def values(iterator: Any) -> list[Any]:
    return [np.asarray(x).tolist() for x in iterator]


def augmented() -> fl.Dataset:
    return (
        fl.Dataset.range(60)
        .shuffle(16, seed=3)
        .map(lambda x: x + fl.random.uniform((), 0, 1000, dtype=fl.int64, seed=5))
        .filter(lambda x: x % 3 != 0)
        .repeat(2)
        .batch(4)
    )


def test_the_rest_is_the_same_at_every_position() -> None:
    ds = augmented()
    whole = values(augmented())
    it = iter(ds)
    for position in range(len(whole) + 1):
        state = told(it.state_dict())
        again = augmented()
        assert values(again.iter(state)) == whole[position:], position
        if position < len(whole):
            next(it)
    assert values(it) == []


def test_the_next_pass_is_the_same() -> None:
    ds = augmented()
    it = iter(ds)
    next(it)
    state = told(it.state_dict())
    rest, after = values(it), values(ds)
    again = augmented()
    assert values(again.iter(state)) == rest
    assert values(again) == after


def test_moments_are_told_later(tmp_path: Any) -> None:
    """What a moment tells does not depend on when it is asked: also after the end, and after the iterator."""
    path = str(tmp_path / "a.tfrecord")
    with fl.io.TFRecordWriter(path) as writer:
        for i in range(60):
            writer.write(b"%d" % i * (20_000 if i % 7 == 0 else 1))

    def groups(ds: fl.Dataset) -> fl.Dataset:
        return ds.group_by_window(lambda x: x % 3, lambda key, window: window.batch(4), window_size=4)

    for ds in (
        augmented(),
        fl.TFRecordDataset(path).map(fl.strings.length).shuffle(20, seed=1).batch(3),
        groups(fl.TFRecordDataset(path).map(fl.strings.length).map(lambda n: fl.cast(n, fl.int64))),
    ):
        it = iter(ds)
        moments, whole = [it.moment()], []
        # Another moment of the same place may tell of more seeds: those that workers took ahead since then.
        states = [moments[0].state_dict()]
        for x in it:
            whole.append(np.asarray(x).tolist())
            moments.append(it.moment())
            states.append(moments[-1].state_dict())
        it.close()
        del it
        assert [m.state_dict() for m in reversed(moments)] == states[::-1]
        for at in (0, 5, len(whole) - 1):
            assert values(ds.iter(told(moments[at].state_dict()))) == whole[at:]


def test_load_state_dict_moves_an_iterator() -> None:
    ds = augmented()
    it = iter(ds)
    state = it.state_dict()
    whole = values(it)
    it.load_state_dict(told(state))
    assert values(it) == whole
    it.load_state_dict(state)
    next(it)
    assert values(it) == whole[1:]
    it.close()


def test_options_may_be_others() -> None:
    ds = augmented()
    it = ds.iter(cpu_budget=1, chunk_rows=1)
    next(it)
    state = it.state_dict()
    rest = values(it)
    for options in [{"chunk_rows": 7}, {"prefetch": False}, {"memory_limit": "1MB"}, {"cpu_budget": 4}]:
        assert values(ds.iter(state, **options)) == rest, options


@pytest.mark.parametrize("before", [True, False])
def test_a_state_is_gone_on_with_whether_plans_are_rewritten_or_not(before: bool) -> None:
    # Two maps become one, so there are other operators with marks.
    ds = fl.Dataset.range(20).shuffle(5, seed=1).map(lambda v: v + 1).take(-1).map(lambda v: v * 2).batch(3)
    other = ds.with_options(rewrite=not before)
    it = ds.iter(rewrite=before)
    next(it)
    state = it.state_dict()
    rest = values(it)
    for again in (ds, other):
        for options in ({}, {"rewrite": not before}, {"rewrite": before, "chunk_rows": 1}):
            assert values(again.iter(state, **options)) == rest, options


def test_options_may_be_others_where_errors_are_left_out() -> None:
    ds = fl.Dataset.range(8).map(lambda v: 100 // (v - 3), on_error="skip").shuffle(3, seed=1)
    it = iter(ds)
    next(it)
    state = it.state_dict()
    rest = values(it)
    for options in [{}, {"chunk_rows": 2}, {"memory_limit": "64MB"}, {"prefetch": False}]:
        assert values(ds.iter(state, **options)) == rest, options
    it = ds.iter(chunk_rows=1)
    assert values(ds.iter(it.state_dict())) == values(it)


@pytest.mark.filterwarnings("ignore:FL007")
def test_a_cache_behind_prefetch_begins_anew() -> None:
    """The pass behind one that ended: here nothing is kept yet of what the cache gave there."""

    def make() -> fl.Dataset:
        return fl.Dataset.range(12).shuffle(12, seed=1).prefetch(3).cache().batch(2)

    ds = make()
    values(ds)
    it = iter(ds)
    second = values(it)
    state = told(it.state_dict())
    again = make()
    assert (values(again.iter(state)), values(again)) == ([], second)


def test_a_shuffle_without_a_seed_goes_on_in_its_order() -> None:
    def unseeded() -> fl.Dataset:
        return fl.Dataset.range(50).shuffle(50).batch(5)

    it = iter(unseeded())
    next(it)
    state = told(it.state_dict())
    assert values(unseeded().iter(state)) == values(it)


def test_a_cache_on_disk_behind_prefetch_goes_on_with_a_pass_that_broke_off(tmp_path: Any) -> None:
    calls = []

    def same(x: Any) -> Any:
        calls.append(x)
        return x

    signature = fl.TensorSpec((), fl.int64)
    ds = fl.Dataset.range(60).map(same, python=True, output_signature=signature).prefetch(3)
    ds = ds.cache(str(tmp_path / "kept"))
    with ds.iter(prefetch=False) as it:
        assert [int(next(it)) for _ in range(30)] == list(range(30))
    calls.clear()
    assert values(ds) == list(range(60))
    assert len(calls) < 45


IN_ANOTHER_PROCESS = """
    import json, sys
    import numpy as np
    import feedline as fl

    files = json.loads(sys.argv[1])
    ds = (
        fl.Dataset.from_tensor_slices(files)
        .interleave(lambda f: fl.TextLineDataset(f).shuffle(4, seed=1), cycle_length=3, num_parallel_calls=2)
        .shuffle(20, seed=2)
        .cache()
        .map(lambda x: fl.strings.length(x))
        .batch(3)
        .prefetch(2)
    )
    it = ds.iter(json.loads(sys.argv[2]) or None)
    steps = int(sys.argv[3])
    got = [np.asarray(x).tolist() for _, x in zip(range(steps), it)]
    print(json.dumps([got, it.state_dict()]))
"""


def test_in_fresh_processes(tmp_path: Any) -> None:
    files = []
    for i in range(5):
        path = tmp_path / f"{i}.txt"
        path.write_text("".join("x" * (i * 20 + k) + "\n" for k in range(9)))
        files.append(str(path))

    def run(state: Any, steps: int) -> Any:
        source = textwrap.dedent(IN_ANOTHER_PROCESS)
        args = [json.dumps(files), json.dumps(state), str(steps)]
        done = subprocess.run(
            [sys.executable, "-c", source, *args], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    whole, _ = run(None, 1000)
    assert len(whole) == 15
    got, state = run(None, 4)
    # Its own elements are not in it.
    assert len(json.dumps(state)) < 4000
    more, state = run(state, 6)
    rest, state = run(state, 1000)
    assert got + more + rest == whole
    assert run(state, 1000)[0] == []


WAYS: list[dict[str, Any]] = [
    {"chunk_rows": 1},
    {"chunk_rows": 100, "cpu_budget": 1},
    {"prefetch": False},
    {"cpu_budget": 4},
]


def in_turns(name: str) -> fl.Dataset:
    """Datasets that are read in turns, and start others on their way."""

    def shuffled(v: Any) -> fl.Dataset:
        return fl.Dataset.range(4).shuffle(4, seed=1).map(lambda u: u + v * 10)

    def inner(v: Any) -> fl.Dataset:
        if name == "repeat":
            return shuffled(v).repeat(3)
        if name == "concatenate":
            one = shuffled(v)
            return one.concatenate(one)
        if name == "interleave":
            return fl.Dataset.range(3).interleave(shuffled, cycle_length=2)
        return fl.Dataset.range(3).flat_map(shuffled)

    return fl.Dataset.range(7).interleave(inner, cycle_length=3, num_parallel_calls=3)


@pytest.mark.parametrize("name", ["repeat", "concatenate", "flat_map", "interleave"])
def test_datasets_that_are_read_in_turns_have_seeds_of_their_own(name: str) -> None:
    """Which of them starts another shuffle first depends on workers: orders do not, nor those of states."""
    ds = in_turns(name)
    whole, second = values(ds), values(ds)
    assert whole != second
    orders = [tuple(x % 10 for x in whole if x // 10 == v) for v in range(7)]
    assert len(set(orders)) > 1
    for options in WAYS * 3:
        again = in_turns(name)
        assert (values(again.iter(**options)), values(again)) == (whole, second), options
    it = iter(in_turns(name))
    for position in range(len(whole)):
        again = in_turns(name)
        found = values(again.iter(told(it.state_dict()), **WAYS[position % 4])), values(again)
        assert found == (whole[position:], second), position
        next(it)


def test_a_pass_that_was_resumed_behind_an_error_has_states(tmp_path: Any) -> None:
    """Those that it takes before it has given anything, and behind the elements that it left out."""
    path = tmp_path / "a.csv"
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(20)))

    def make() -> fl.Dataset:
        lines = fl.CsvDataset(str(path), [fl.int64], header=True).map(lambda v: v + 100 // (v % 7 - 3))
        return lines.filter(lambda v: v % 3 != 1).take(50)

    whole = towers.events(iter(make()))
    assert sum(isinstance(x, str) for x in whole) == 3
    for hop in (1, 2, 3):
        for first in range(len(WAYS)):
            got: list[Any] = []
            it = make().iter(**WAYS[first])
            while (some := [x for x in (towers.event(it) for _ in range(hop)) if x is not None]) != []:
                got += some
                it = make().iter(told(it.state_dict()), **WAYS[(first + len(got)) % 4])
                it = make().iter(told(it.state_dict()), **WAYS[first])
            assert got == whole


@pytest.mark.filterwarnings("ignore:FL007")
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_states_of_states_know_what_a_cache_keeps(where: str, tmp_path: Any) -> None:
    """At the end of a pass nothing is read again: what was kept is told on, and made by the pass behind."""
    folders = itertools.count()

    def make() -> fl.Dataset:
        folder = str(tmp_path / f"{next(folders)}") if where == "disk" else ""
        return fl.Dataset.range(12).shuffle(12, seed=1).cache(folder)

    for passes in (1, 2):
        ds = make()
        for _ in range(passes):
            it = iter(ds)
            first = values(it)
        after = values(ds)
        assert after == first
        state = told(it.state_dict())
        for _ in range(3):
            again = make()
            it = again.iter(state)
            assert values(it) == []
            state = told(it.state_dict())
        assert (values(again), values(again)) == (after, after)


@pytest.mark.filterwarnings("ignore:FL007")
def test_a_cache_is_not_filled_by_workers_for_somebody_who_left() -> None:
    """How far they had read ahead depends on the machine; the orders of later passes do not."""

    def orders(**options: Any) -> list[list[Any]]:
        ds = fl.Dataset.range(12).shuffle(12, seed=1).cache()
        it = ds.iter(**options)
        first = [int(next(it)) for _ in range(3)]
        # Workers have time to read all of it.
        time.sleep(0.2)
        it.close()
        del it
        return [first, values(ds), values(ds)]

    alone, ahead = orders(prefetch=False), orders()
    assert ahead == alone
    assert alone[1] == alone[2]


@pytest.mark.filterwarnings("ignore:FL007")
@pytest.mark.parametrize("count", [5, 12, 13])
def test_a_cache_is_not_filled_by_workers_for_a_take(count: int) -> None:
    """Nor by those who read what nobody asks for: only if less is there than is asked for is all kept."""

    def orders(**options: Any) -> list[list[Any]]:
        cached = fl.Dataset.range(12).shuffle(12, seed=1).cache()
        ds = cached.map(lambda x: x + 1, num_parallel_calls=2).take(count)
        return [values(ds.iter(**options)) for _ in range(3)]

    first = orders()
    assert (first[0] == first[1] == first[2]) == (count > 12)
    for options in WAYS * 2:
        assert orders(**options) == first, options


def test_another_dataset_is_refused_in_words() -> None:
    it = iter(fl.Dataset.range(10).batch(2))
    state = it.state_dict()
    with pytest.raises(ValueError, match=r"batch\(batch_size=3\) here and was batch\(batch_size=2\) there"):
        fl.Dataset.range(10).batch(3).iter(state)
    with pytest.raises(ValueError, match="missing here"):
        fl.Dataset.range(10).iter(state)
    with pytest.raises(ValueError, match="another dataset"):
        iter(fl.Dataset.range(10).batch(2).skip(1)).load_state_dict(state)
    # What does not change results does not matter.
    fl.Dataset.range(10).with_options(cpu_budget=1).batch(2).iter(state).close()
    with pytest.raises(ValueError, match="state_dict"):
        fl.Dataset.range(10).iter({})
    with pytest.raises(TypeError, match="dict"):
        fl.Dataset.range(10).iter("state")  # type: ignore[arg-type]


SCALAR = fl.TensorSpec((), fl.int64)


def counted(start: int = 0) -> Any:
    yield from range(start, 12)


class Counter:
    """Values with a place that can be told."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.at == 12:
            raise StopIteration
        self.at += 1
        return self.at - 1

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fl.Dataset.from_generator(Counter, output_signature=SCALAR),
        lambda: fl.Dataset.from_generator(counted, output_signature=SCALAR, resume=counted),
    ],
)
def test_generators_that_can_tell_where_they_are(make: Any) -> None:
    shuffled = lambda ds: ds.shuffle(4, seed=1).batch(2)  # noqa: E731
    for around in (lambda ds: ds, shuffled, lambda ds: ds.repeat(2).batch(5)):
        whole = values(around(make()))
        it = iter(around(make()))
        for position in range(len(whole) + 1):
            state = told(it.state_dict())
            assert values(around(make()).iter(state)) == whole[position:]
            if position < len(whole):
                next(it)


def test_a_plain_generator_says_that_it_cannot_be_resumed() -> None:
    ds = fl.Dataset.from_generator(counted, output_signature=SCALAR).shuffle(3, seed=1)
    it = ds.iter(prefetch=False)
    next(it)
    with pytest.raises(fl.errors.FailedPreconditionError, match=r"from_generator.*plain Python generator"):
        it.state_dict()
    # It goes on all the same.
    assert len(values(it)) == 11
    # At the end there is nothing left to be told.
    it.state_dict()


def test_of_several_generators_the_plain_one_is_named() -> None:
    class Called:
        def __call__(self) -> Any:
            return iter(range(4))

    def up_to(n: Any) -> Any:
        yield from range(int(n))

    def source(generator: Any, **given: Any) -> fl.Dataset:
        return fl.Dataset.from_generator(generator, output_signature=SCALAR, **given)

    kinds = {"counted": source(counted), "up_to": source(up_to, args=[4]), "Called": source(Called())}
    for name, plain in kinds.items():
        # One that tells where it is stands on either side.
        it = iter(fl.Dataset.zip((source(Counter), plain, source(Counter))))
        next(it)
        with pytest.raises(
            fl.errors.FailedPreconditionError, match=rf"from_generator\((?!Counter).*{name}\): "
        ):
            it.state_dict()
        # The same where it would be called once more.
        it = plain.iter(chunk_rows=100)
        next(it)
        with pytest.raises(fl.errors.FailedPreconditionError, match=rf"from_generator\(.*{name}\): "):
            it.state_dict()


def test_a_generator_whose_state_is_no_json_says_so() -> None:
    class Strange(Counter):
        def state_dict(self) -> Any:
            return {"at": object()}

    it = iter(fl.Dataset.from_generator(Strange, output_signature=SCALAR))
    next(it)
    with pytest.raises(TypeError, match="not a possible"):
        it.state_dict()


def test_python_functions_are_called_again_only_for_what_is_read_again() -> None:
    called: list[int] = []

    def double(x: Any) -> Any:
        called.append(int(x))
        return x * 2

    ds = fl.Dataset.range(20).map(lambda x: fl.py_function(double, [x], fl.int64))
    it = ds.iter(chunk_rows=4)
    for _ in range(10):
        next(it)
    state = it.state_dict()
    it.close()
    called.clear()
    assert next(ds.iter(state, chunk_rows=4)) == 20
    assert min(called) >= 8


def test_deterministic_false_is_refused() -> None:
    ds = fl.Dataset.range(10).map(lambda x: x + 1, num_parallel_calls=2, deterministic=False)
    it = iter(ds)
    next(it)
    with pytest.raises(fl.errors.FailedPreconditionError, match="deterministic"):
        it.state_dict()


def test_a_closed_iterator_has_no_state() -> None:
    it = iter(fl.Dataset.range(3))
    it.close()
    with pytest.raises(fl.errors.FailedPreconditionError, match="closed"):
        it.state_dict()


def test_states_of_large_arrays_are_small() -> None:
    big = np.arange(2_000_000)
    ds = fl.Dataset.from_tensor_slices(big).shuffle(seed=1).batch(64)
    it = iter(ds)
    for _ in range(5000):
        next(it)
    state = it.state_dict()
    assert len(json.dumps(state)) < 4096
    again = ds.iter(state)
    np.testing.assert_array_equal(next(again), next(it))


def ranks(world: int, steps: int, state: Any = None, equal: Any = None) -> tuple[list[int], list[Any]]:
    """What all ranks of a training see in so many steps, and their states after them."""
    seen: list[int] = []
    states = []
    for rank in range(world):
        ds = fl.Dataset.range(100).shuffle(30, seed=1).shard(world, rank, equal=equal).batch(4).prefetch(1)
        it = ds.iter(state)
        for batch in itertools.islice(it, steps):
            seen.extend(batch.tolist())
        states.append(told(it.state_dict()))
    return seen, states


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 4), (4, 3), (4, 1)])
def test_another_number_of_ranks_loses_and_repeats_nothing(before: int, after: int) -> None:
    first, states = ranks(before, 5)
    rest, _ = ranks(after, 1000, states[0])
    assert sorted(first + rest) == list(range(100))
    assert ranks(after, 1000, states[-1])[0] == rest


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
@pytest.mark.parametrize("how", ["padded_batch", "ragged_batch"])
def test_ranks_change_behind_other_batches(how: str, before: int, after: int) -> None:
    """Rows of different lengths, in batches: each is filled up or ragged, and stands for its first number."""

    def rank_of(world: int, rank: int) -> fl.Dataset:
        rows = fl.Dataset.range(1, 101).map(lambda x: fl.fill([x % 5 + 1], x))
        return getattr(rows.shuffle(30, seed=1).shard(world, rank), how)(4).prefetch(1)

    def seen(world: int, steps: int, state: Any = None) -> tuple[list[int], list[Any]]:
        found, states = [], []
        for rank in range(world):
            it = rank_of(world, rank).iter(state)
            for batch in itertools.islice(it, steps):
                found.extend(int(row[0]) for row in batch)
            states.append(told(it.state_dict()))
        return found, states

    first, states = seen(before, 5)
    rest, _ = seen(after, 1000, states[0])
    assert sorted(first + rest) == list(range(1, 101))
    assert seen(after, 1000, states[-1])[0] == rest


def test_equal_steps() -> None:
    for equal, steps in [("drop", 9), ("wrap", 9), (None, 9)]:
        parts = [fl.Dataset.range(103).shard(3, i, equal=equal).batch(4) for i in range(3)]
        counts = {sum(len(batch) for batch in part) for part in parts}
        assert counts == {"drop": {34}, "wrap": {35}}.get(str(equal), {34, 35}), equal
        assert {len(list(part)) for part in parts} == {steps}
    with pytest.raises(ValueError, match=r"drop.*wrap"):
        fl.Dataset.range(3).shard(2, 0, equal="no")  # type: ignore[arg-type]


def test_an_error_behind_a_shuffle_comes_once_in_windows() -> None:
    """Also where the rows of open windows are read again together with the error that followed them."""

    def events(it: Any) -> list[Any]:
        found: list[Any] = []
        while True:
            try:
                found.append(next(it).tolist())
            except StopIteration:
                return found
            except fl.errors.FeedlineError:
                found.append("failed")

    ds = (
        fl.Dataset.range(20)
        .filter(lambda n: n >= 0)
        .map(lambda n: 10 // (n - 7))
        .shuffle(3, seed=1)
        .group_by_window(lambda n: n % 2, lambda _, window: window.batch(100), window_size=100)
    )
    expected = events(ds.iter(epoch=0))
    assert expected.count("failed") == 1
    it = ds.iter(epoch=0)
    with pytest.raises(fl.errors.FeedlineError):
        next(it)
    state = it.state_dict()
    assert ["failed", *events(ds.iter(state))] == expected


def test_what_changed_since_is_said(tmp_path: Any) -> None:
    """A record on the way to those that are read again is an error if it is broken by now.

    The rows behind it are not taken from elsewhere.
    """
    paths = []
    for name in "ab":
        paths.append(str(tmp_path / name))
        with fl.io.TFRecordWriter(paths[-1]) as writer:
            for i in range(20):
                writer.write(b"%s-%d" % (name.encode(), i))
    ds = fl.TFRecordDataset(paths).shuffle(12, seed=3, reshuffle_each_iteration=False)
    whole = list(ds)
    good = Path(paths[0]).read_bytes()
    at, ends = 0, []
    for i in range(20):
        ends.append(at)
        at += 16 + len(b"a-%d" % i)
    seen = set()
    for taken in range(1, 15):
        it = iter(ds)
        for _ in range(taken):
            next(it)
        state = told(it.state_dict())
        it.close()
        assert list(ds.iter(state)) == whole[taken:]
        for start in ends:
            bad = bytearray(good)
            bad[start] ^= 1
            Path(paths[0]).write_bytes(bad)
            got, failed = [], False
            try:
                got = list(ds.iter(state))
            except fl.errors.DataError:
                failed = True
            assert failed or got == whole[taken:], (taken, start)
            seen.add(failed)
        Path(paths[0]).write_bytes(good)
    assert seen == {True, False}


@pytest.mark.filterwarnings("ignore:FL007")
@pytest.mark.parametrize("left", [False, True], ids=["read to the end", "left in the next pass"])
def test_later_passes_of_a_cache_follow_its_state(left: bool) -> None:
    """What a cache kept is made again elsewhere, in the order that it was kept in, by later passes too."""

    def make() -> Any:
        return fl.Dataset.range(12).shuffle(12, seed=5).cache()

    ds = make()
    kept = list(ds)
    it = iter(ds)
    for _ in range(3):
        next(it)
    if not left:
        assert len(list(it)) == 9
    state = told(it.state_dict())
    other = make()
    again = other.iter(state)
    assert (next(again) == kept[3]) if left else (list(again) == [])
    again.close()
    assert [list(other) for _ in range(3)] == [list(ds) for _ in range(3)] == [kept] * 3


@pytest.mark.filterwarnings("ignore:FL007")
def test_a_cache_that_was_not_full_is_filled_by_the_next_pass() -> None:
    """Nothing was kept when the state was taken, so the next pass has an order of its own, here as there."""

    def make() -> Any:
        return fl.Dataset.range(12).shuffle(12, seed=5).cache().take(4)

    ds = make()
    it = iter(ds)
    first = list(it)
    state = told(it.state_dict())
    later = [list(ds) for _ in range(2)]
    other = make()
    assert list(other.iter(state)) == []
    assert [list(other) for _ in range(2)] == later
    assert first not in later


@pytest.mark.filterwarnings("ignore:FL007")
def test_what_did_not_fit_a_cache_keeps_its_seeds() -> None:
    """An operator that had not started when the cache was full takes the seeds of the first pass in each."""

    def numbers(first: int, last: int) -> Any:
        return (
            fl.Dataset.range(first, last)
            .map(lambda x: fl.zeros([1024], fl.int64) + x)
            .shuffle(20, seed=first)
        )

    ds = (
        numbers(0, 500)
        .concatenate(numbers(500, 600))
        .cache(on_full="keep")
        .with_options(memory_limit=4 << 20)
    )
    first, *others = ([int(x[0]) for x in ds] for _ in range(3))
    assert sorted(first) == list(range(600))
    assert all(other == first for other in others)


def test_a_plain_generator_is_not_called_once_more_for_a_state() -> None:
    """Also where all that it gave so far came in one piece, or an operator would read it again."""
    tickets = itertools.count()

    def plain() -> Any:
        for _ in range(20):
            yield next(tickets) + 1

    def make() -> Any:
        return fl.Dataset.from_generator(plain, output_signature=SCALAR)

    def windows(ds: Any) -> Any:
        return ds.group_by_window(lambda x: x % 2, lambda key, window: window, window_size=3)

    builds = (
        lambda ds: ds,
        windows,
        lambda ds: ds.shuffle(9, seed=1),
        lambda ds: ds.flat_map(fl.Dataset.range),
    )
    for build in builds:
        # Nothing was asked of it so far.
        iter(build(make())).state_dict()
        it = build(make()).iter(chunk_rows=100)
        next(it)
        with pytest.raises(fl.errors.FailedPreconditionError, match=r"from_generator.*plain Python"):
            it.state_dict()


def test_what_comes_in_any_order_has_no_state() -> None:
    ds = fl.Dataset.range(12).interleave(
        fl.Dataset.range, cycle_length=3, num_parallel_calls=3, deterministic=False
    )
    it = iter(ds)
    next(it)
    with pytest.raises(fl.errors.FailedPreconditionError, match="deterministic=False"):
        it.state_dict()


def test_windows_of_windows_go_on_from_states_of_resumed_passes() -> None:
    """Those know some rows by a state, and none of those between them."""

    def windows(ds: Any) -> Any:
        return ds.group_by_window(lambda x: x % 3, lambda key, window: window, window_size=3)

    def make() -> Any:
        return windows(windows(fl.Dataset.range(60)).map(lambda x: x * 36 % 1000))

    whole = [int(x) for x in make()]
    for start in range(33, 42):
        it, at = iter(make()), start
        for _ in range(start):
            next(it)
        for step in (6, 5, 7):
            state = json.loads(json.dumps(it.state_dict()))
            assert [int(x) for x in make().iter(state)] == whole[at:]
            it, at = make().iter(state), at + step
            for _ in range(step):
                next(it)


def test_windows_that_were_read_are_not_filled_again() -> None:
    """Each gives one batch: whoever has that knows nothing yet of the end of the window."""

    def make(seen: list[int]) -> fl.Dataset:
        def note(x: Any) -> Any:
            seen.append(int(x))
            return x

        rows = fl.Dataset.range(3000).map(note, python=True)
        windows = rows.group_by_window(lambda x: x % 3, lambda key, w: w.batch(50), window_size=50)
        return windows.with_options(chunk_rows=1)

    whole = values(make([]))
    it = iter(make([]))
    for at in range(1, 50):
        next(it)
        state = told(it.state_dict())
        if at % 7 == 0:
            again: list[int] = []
            assert values(make(again).iter(state)) == whole[at:]
            # The first call is a trial.
            assert min(again[1:]) >= min(whole[at]) - 200


def test_a_refusal_names_what_differs() -> None:
    it = iter(fl.Dataset.range(10).prefetch(2).batch(2))
    next(it)
    with pytest.raises(ValueError, match=r"operator 3 is batch\(batch_size=3\) here and was"):
        fl.Dataset.range(10).prefetch(5).batch(3).iter(it.state_dict())


CALLS = [None, 1, 2, 3, fl.AUTOTUNE]


def chained(steps: list[str], calls: Iterator[Any]) -> fl.Dataset:
    """Functions one after the other, with numbers of calls from an iterator."""
    ds = fl.Dataset.range(60)
    for step in steps:
        match step:
            case "map":
                ds = ds.map(lambda x: x + 1, num_parallel_calls=next(calls))
            case "fails":
                ds = ds.map(
                    lambda x: fl.ensure_shape(fl.fill([fl.where(x % 7 == 3, 2, 1)], x), [1])[0],
                    num_parallel_calls=next(calls),
                )
            case "python":
                ds = ds.map(
                    lambda x: np.int64(x * 2),
                    num_parallel_calls=next(calls),
                    python=True,
                    output_signature=fl.TensorSpec([], fl.int64),
                )
            case "filter":
                ds = ds.filter(lambda x: x % 3 != 0)
            case "shuffle":
                ds = ds.shuffle(7, seed=3)
            case "interleave":
                inner = next(calls)
                ds = ds.interleave(
                    lambda x: (
                        fl.Dataset.range(x % 4)
                        .map(lambda y: x + y, num_parallel_calls=inner)  # noqa: B023
                        .map(lambda y: y * 3, num_parallel_calls=2)
                    ),
                    cycle_length=3,
                    num_parallel_calls=next(calls) or 1,
                )
    return ds


def outcomes(iterator: Any) -> list[Any]:
    """What comes, errors included."""
    found: list[Any] = []
    while True:
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            return found
        except fl.errors.InvalidArgumentError:
            found.append("failed")


@pytest.mark.parametrize("seed", [*range(20), 151])
def test_num_parallel_calls_may_be_others(seed: int) -> None:
    """Which functions run together depends on it, and on whether maps became one; states do not mind."""
    random = Random(seed)
    kinds = ["map", "map", "map", "filter", "python", "fails", "shuffle", "interleave"]
    steps = [random.choice(kinds) for _ in range(random.randint(2, 6))]
    draw = iter(lambda: random.choice(CALLS), "never")
    options = {"chunk_rows": random.choice([1, 3, 8, None])}
    expected = outcomes(iter(chained(steps, draw).with_options(**options)))
    refused = 0
    for at in range(0, len(expected), 1 + len(expected) // 12):
        it = iter(chained(steps, draw).with_options(**options))
        for _ in range(at):
            with contextlib.suppress(fl.errors.InvalidArgumentError):
                next(it)
        state = json.loads(json.dumps(it.state_dict()))
        # And once more, from a state of a pass that was resumed.
        for more in (0, 2):
            try:
                again = chained(steps, draw).with_options(**options).iter(state=state)
            except ValueError as error:
                assert "with a filter before and one behind" in str(error)
                refused += 1
                break
            for _ in range(more):
                with contextlib.suppress(fl.errors.InvalidArgumentError, StopIteration):
                    next(again)
            state = again.state_dict()
            if more == 0:
                continue
            assert outcomes(again) == expected[at + more :], (steps, at)
            last = chained(steps, draw).with_options(**options)
            with contextlib.suppress(ValueError):
                assert outcomes(last.iter(state=state)) == expected[at + more :], (steps, at)
    assert not refused or steps.count("filter") > 1


def test_where_errors_are_left_out_num_parallel_calls_stay_the_same() -> None:
    """What stands between two maps then cannot be between those that became one."""

    def ds(calls: int) -> fl.Dataset:
        maps = chained(["fails", "map"], iter([2, calls]))
        return maps.with_options(on_error="skip")

    it = iter(ds(2))
    first = [int(next(it)) for _ in range(10)]
    state = it.state_dict()
    assert first + values(ds(2).iter(state=state)) == values(ds(3))
    with pytest.raises(ValueError, match="num_parallel_calls must be the same"):
        ds(3).iter(state=state)


def test_a_longer_cycle_is_another_order() -> None:
    """More calls than the usual cycle make a longer one."""

    def ds(calls: int) -> fl.Dataset:
        return fl.Dataset.range(40).interleave(lambda x: fl.Dataset.range(x), num_parallel_calls=calls)

    it = iter(ds(4))
    first = [int(next(it)) for _ in range(30)]
    state = it.state_dict()
    assert first + values(ds(16).iter(state=state)) == values(iter(ds(2)))
    with pytest.raises(ValueError, match="num_parallel_calls"):
        ds(20).iter(state=state)
