"""Iterators: independent of each other, cheap to make and to drop, and clear about their end."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest

D = fl.Dataset
TASKS = Path("/proc/self/task")
needs_proc = pytest.mark.skipif(not TASKS.exists(), reason="counts threads and files in /proc")


def many() -> dict[str, fl.Dataset]:
    """Pipelines of every kind, all of the numbers below 100 in some order or form."""
    numbers = D.range(100)
    return {
        "range": numbers,
        "map": numbers.map(lambda x: x + 0),
        "python": numbers.map(lambda x: x, python=True),
        "batch": numbers.batch(7).unbatch(),
        "shuffle": numbers.shuffle(10, seed=1, reshuffle_each_iteration=False),
        "cache": numbers.cache(),
        "prefetch": numbers.prefetch(5),
        "interleave": numbers.batch(10).interleave(lambda b: D.from_tensor_slices(b), cycle_length=3),
        "generator": D.from_generator(lambda: range(100), output_signature=fl.TensorSpec((), fl.int64)),
        "window": numbers.window(10).flat_map(lambda w: w),
        "zip": D.zip(numbers, numbers).map(lambda a, b: a),
    }


KINDS = list(many())


@pytest.mark.parametrize("kind", KINDS)
def test_iterators_are_independent(kind: str) -> None:
    dataset = many()[kind]
    whole = list(dataset)
    assert sorted(whole) == list(range(100))
    a, b = iter(dataset), iter(dataset)
    first = [next(a) for _ in range(30)]
    assert [next(b) for _ in range(10)] == whole[:10]
    assert first == whole[:30]
    c = iter(dataset)
    assert next(c) == whole[0]
    assert list(a) == whole[30:]
    assert list(b) == whole[10:]


@pytest.mark.parametrize("kind", KINDS)
def test_nested_iteration(kind: str) -> None:
    dataset = many()[kind].take(6)
    expected = list(dataset)
    pairs = [(x, y) for x in dataset for y in dataset]
    assert pairs == [(x, y) for x in expected for y in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_iterators_can_be_dropped_early(kind: str) -> None:
    dataset = many()[kind]
    first = next(iter(dataset))
    for _ in range(20):
        iterator = iter(dataset)
        assert next(iterator) == first
        del iterator
    with dataset.iter() as iterator:
        next(iterator)
    assert sorted(dataset) == list(range(100))


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_stays_the_end(kind: str) -> None:
    iterator = iter(many()[kind].take(2))
    next(iterator), next(iterator)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    assert list(iterator) == []
    with pytest.raises(fl.errors.OutOfRangeError):
        iterator.get_next()
    assert not iterator.get_next_as_optional().has_value()


def test_an_iterator_is_its_own_iterator() -> None:
    iterator = iter(D.range(3))
    assert iter(iterator) is iterator
    assert isinstance(iterator, fl.Iterator)
    assert iterator.element_spec == fl.TensorSpec((), fl.int64)
    assert list(zip(iterator, iterator, strict=False)) == [(0, 1)]


@pytest.mark.parametrize(("count", "text"), [(0, "0 elements"), (1, "1 element "), (3, "3 elements")])
def test_get_next_past_the_end_says_how_many_there_were(count: int, text: str) -> None:
    iterator = iter(D.range(count))
    assert [iterator.get_next() for _ in range(count)] == list(range(count))
    for _ in range(2):
        with pytest.raises(fl.errors.OutOfRangeError, match=f"{text}.*repeat") as caught:
            iterator.get_next()
        assert isinstance(caught.value, IndexError)


def test_get_next_as_optional() -> None:
    iterator = iter(D.range(1))
    some, none = iterator.get_next_as_optional(), iterator.get_next_as_optional()
    assert some.has_value() and some.get_value() == 0
    assert not none.has_value()
    with pytest.raises(fl.errors.InvalidArgumentError, match="has_value"):
        none.get_value()


def test_next_with_a_default() -> None:
    iterator = iter(D.range(1))
    assert next(iterator, None) == 0
    assert next(iterator, None) is None


def test_a_closed_iterator_ends_or_says_so() -> None:
    iterator = iter(D.range(10))
    next(iterator)
    iterator.close()
    iterator.close()
    with pytest.raises((StopIteration, fl.errors.OpError)):
        next(iterator)


def test_bool_and_containment() -> None:
    assert D.range(0) and D.range(3)
    assert 2 in D.range(3) and 5 not in D.range(3)


def test_peek_disturbs_nothing() -> None:
    dataset = D.range(5).shuffle(5, seed=1)
    first = list(D.range(5).shuffle(5, seed=1))
    dataset.peek()
    assert list(dataset) == first
    with pytest.raises(fl.errors.OutOfRangeError, match="empty"):
        D.range(0).peek()


# Several threads


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Runs work in threads; gives results in order, raises what they raised, and fails if one hangs."""
    results: list[Any] = [None] * count
    failures: list[BaseException] = []

    def run(place: int) -> None:
        try:
            results[place] = work(place)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
    return results


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_an_iterator_share_its_elements(kind: str) -> None:
    iterator = iter(many()[kind])
    parts = in_threads(4, lambda _: list(iterator))
    assert sorted(x for part in parts for x in part) == list(range(100))


def test_threads_with_iterators_of_their_own() -> None:
    dataset = D.range(200).map(lambda x: x * 2).cache().batch(10)
    expected = [batch.tolist() for batch in dataset]
    for found in in_threads(8, lambda _: [batch.tolist() for batch in dataset]):
        assert found == expected


def test_threads_that_build_pipelines() -> None:
    def build(place: int) -> list[int]:
        dataset = D.range(20).map(lambda x: x + place).filter(lambda x: x % 2 == 0)
        return [int(x) for x in dataset.map(lambda x: int(x), python=True)]

    for place, found in enumerate(in_threads(8, build)):
        assert found == [x + place for x in range(20) if (x + place) % 2 == 0]


BLOCKED = """
    import threading, time
    import feedline as fl

    go = threading.Event()

    def blocked():
        yield 1
        go.wait()
        yield 2

    def function(x):
        if x == 1:
            go.wait()
        return x

    signature = fl.TensorSpec((), fl.int64)
    if {generator}:
        ds = fl.Dataset.from_generator(blocked, output_signature=signature)
    else:
        ds = fl.Dataset.range(5).map(function, python=True, output_signature=signature)
    it = iter(ds.with_options(chunk_rows=1))
    next(it)
    if {waiting}:
        ended = []
        def wait():
            try:
                ended.append(list(it))
            except fl.errors.OpError as error:
                ended.append(error)
        thread = threading.Thread(target=wait)
        thread.start()
    time.sleep(0.2)
    it.close()
    it = None
    print("closed", flush=True)
    go.set()
    if {waiting}:
        thread.join()
        print(len(ended))
    print(len(list(fl.Dataset.range(3))))
"""


@pytest.mark.parametrize("generator", [True, False], ids=["generator", "function"])
@pytest.mark.parametrize("waiting", [True, False], ids=["waiting", "alone"])
def test_closing_does_not_wait_for_blocked_python_code(program: Any, generator: bool, waiting: bool) -> None:
    result = program(BLOCKED.format(generator=generator, waiting=waiting))
    assert result.stdout.split() == ["closed", *(["1"] if waiting else []), "3"]


# Many at once


def test_many_pipelines_at_once() -> None:
    datasets = [many()[KINDS[place % len(KINDS)]] for place in range(50)]
    expected = [list(dataset) for dataset in datasets]
    iterators = [iter(dataset) for dataset in datasets]
    found: list[list[Any]] = [[] for _ in datasets]
    for _ in range(100):
        for place, iterator in enumerate(iterators):
            found[place].append(next(iterator))
    assert found == expected
    assert all(next(iterator, None) is None for iterator in iterators)


def test_many_iterators_of_one_dataset() -> None:
    dataset = D.range(50).map(lambda x: x * x).batch(5)
    iterators = [iter(dataset) for _ in range(50)]
    for step in range(10):
        for iterator in iterators:
            assert next(iterator).tolist() == [x * x for x in range(step * 5, step * 5 + 5)]


def test_pipelines_inside_python_functions() -> None:
    inner = D.range(10).map(lambda x: x * 2)

    def total(x: Any) -> int:
        return sum(int(y) for y in inner.take(int(x)))

    dataset = D.range(8).map(total, python=True)
    assert list(dataset) == [sum(range(0, 2 * x, 2)) for x in range(8)]


NESTED = """
    import feedline as fl
    D = fl.Dataset
    signature = fl.TensorSpec((), fl.int64)
    inner = D.range(10).map(lambda x: int(x) + 1, python=True).batch(3).with_options({options})

    def total(x):
        return sum(int(batch.sum()) for batch in inner)

    def numbers():
        for x in inner.unbatch().map(lambda x: int(x), python=True):
            yield from D.range(int(x)).take(1)

    def deeper(x):
        return sum(int(y) for y in D.range(2).map(total, python=True))

    generated = D.from_generator(numbers, output_signature=signature)
    ds = {{
        "function": lambda: D.range(4).map(total, python=True),
        "three levels": lambda: D.range(2).map(deeper, python=True),
        "function behind generator": lambda: generated.map(lambda x: int(x), python=True),
        "filter": lambda: D.range(3).filter(lambda x: total(x) > 0),
        "interleave": lambda: D.range(2).interleave(lambda x: D.range(total(x)).take(1)),
        "batches": lambda: D.range(4).map(total, python=True).batch(2).map(lambda b: b.sum(), python=True),
    }}["{kind}"]()
    print(sum(int(x) for x in ds.with_options({options})))
"""
NESTED_KINDS = {
    "function": 220,
    "three levels": 220,
    "function behind generator": 0,
    "filter": 3,
    "interleave": 0,
    "batches": 220,
}


@pytest.mark.parametrize("kind", NESTED_KINDS)
@pytest.mark.parametrize("options", ["", "cpu_budget=1"])
def test_python_functions_that_read_pipelines_with_python_functions(
    program: Any, kind: str, options: str
) -> None:
    """The outer function waits for the inner one, which must not wait for the outer one's place."""
    result = program(NESTED.format(kind=kind, options=options), clean=False)
    assert result.stdout.split() == [str(NESTED_KINDS[kind])]


def test_an_iterator_used_in_its_own_function() -> None:
    """A second pass over a dataset from inside its own function is a pass of its own."""
    dataset = D.range(3)
    assert list(dataset.map(lambda x: len(list(dataset)) + int(x), python=True)) == [3, 4, 5]


# Nothing is left behind


def tasks() -> int:
    return len(os.listdir(TASKS))


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settled(measure: Callable[[], int], bound: int) -> bool:
    """Whether a number comes down to a bound: workers may still be busy with what was dropped."""
    for _ in range(500):
        if measure() <= bound:
            return True
        gc.collect()
        time.sleep(0.01)
    return False


@needs_proc
@pytest.mark.parametrize("kind", KINDS)
def test_dropped_iterators_leave_no_threads_and_files(kind: str) -> None:
    dataset = many()[kind]
    for warm in range(10):
        next(iter(dataset)), warm
    threads, handles = tasks(), files()
    for place in range(100):
        iterator = iter(dataset)
        for _ in range(place % 3):
            next(iterator)
    del iterator
    assert settled(tasks, threads + 2)
    assert settled(files, handles)


@needs_proc
def test_a_thousand_iterators_cost_no_memory() -> None:
    dataset = D.range(1000).map(lambda x: fl.fill([256], x)).batch(64).prefetch(4)
    for _ in range(100):
        next(iter(dataset))
    threads, before = tasks(), resident()
    for _ in range(1000):
        next(iter(dataset))
    gc.collect()
    assert settled(tasks, threads + 2)
    assert settled(resident, before + (64 << 20))


@needs_proc
def test_epochs_cost_no_memory() -> None:
    dataset = D.range(2000).shuffle(500).map(lambda x: fl.fill([128], x)).batch(50)
    for _ in range(5):
        list(dataset)
    before = resident()
    for _ in range(50):
        for batch in dataset:
            batch[...] = 0
    assert settled(resident, before + (64 << 20))


@needs_proc
def test_building_pipelines_costs_no_memory() -> None:
    def build() -> None:
        x = np.zeros(100_000)
        dataset = D.from_tensor_slices(x).map(lambda row: row + 1).batch(10).cache()
        next(iter(dataset))

    for _ in range(20):
        build()
    before = resident()
    for _ in range(200):
        build()
    assert settled(resident, before + (64 << 20))


def test_pipelines_dropped_in_mid_flight() -> None:
    iterators = []
    for _ in range(20):
        for dataset in many().values():
            iterator = iter(dataset.repeat())
            next(iterator)
            iterators.append(iterator)
    while iterators:
        iterators.pop(len(iterators) // 2)
    assert list(D.range(3)) == [0, 1, 2]


def test_an_exhausted_and_kept_iterator_holds_nothing_up() -> None:
    kept = []
    for _ in range(50):
        iterator = iter(D.range(5).map(lambda x: x, python=True))
        list(iterator)
        kept.append(iterator)
    assert list(D.range(3).map(lambda x: x, python=True)) == [0, 1, 2]


@needs_proc
def test_nothing_starts_before_the_first_pass(program: Any) -> None:
    result = program("""
        import os

        def threads():
            return len(os.listdir("/proc/self/task"))

        import numpy as np
        before = threads()
        import feedline as fl
        ds = fl.Dataset.from_tensor_slices(np.arange(10)).cache().shuffle(4).map(lambda x: x + 1).batch(2)
        ds = ds.map(lambda x: int(x.sum()), python=True, output_signature=fl.TensorSpec((), fl.int64))
        ds.explain(), repr(ds), len(ds), ds.element_spec
        print(threads() - before)
        list(ds)
        print(threads() - before > 0)
    """)
    assert result.stdout.split() == ["0", "True"]


def test_reading_a_dataset_that_never_ends() -> None:
    dataset = D.counter().map(lambda x: x * 2)
    iterator = iter(dataset)
    assert [next(iterator) for _ in range(1000)] == list(range(0, 2000, 2))
    assert list(dataset.take(3)) == [0, 2, 4]


def test_a_long_cycle_in_free_order_waits_for_its_input() -> None:
    """Slots that have no dataset yet cost nothing, however many there may be."""

    def late(x: Any) -> Any:
        time.sleep(0.02)
        return x

    numbers = fl.Dataset.range(6).map(late, python=True, output_signature=fl.TensorSpec((), fl.int64))
    ds = numbers.interleave(
        lambda x: fl.Dataset.range(x),
        cycle_length=50_000_000,
        num_parallel_calls=fl.AUTOTUNE,
        deterministic=False,
    )
    assert sorted(int(x) for x in ds) == sorted(y for x in range(6) for y in range(x))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_iterator_cannot_be_copied_and_says_what_to_do(copied: Any) -> None:
    with pytest.raises(TypeError, match=r"state_dict\(\).*dataset\.iter\(state\)"):
        copied(iter(fl.Dataset.range(3)))
