"""Random pipelines that end early, hold elements and read again.

`test_resume.py` takes states at every position of them; this file, run by itself, goes on from all of these
in a process of its own.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import feedline as fl

Step = Callable[[fl.Dataset], fl.Dataset]


def inner(v: Any) -> fl.Dataset:
    return fl.Dataset.range(v % 4).map(lambda u: u * 10 + v)


def shuffled(v: Any) -> fl.Dataset:
    return fl.Dataset.range(3).shuffle(3, seed=4).map(lambda u: u * 10 + v)


def repeated(v: Any) -> fl.Dataset:
    return fl.Dataset.range(v % 3).shuffle(3, seed=5).repeat(2)


def nested(v: Any) -> fl.Dataset:
    return fl.Dataset.range(v % 3 + 1).flat_map(shuffled)


def turning(v: Any) -> fl.Dataset:
    return fl.Dataset.range(v % 4).interleave(shuffled, cycle_length=2)


def beside_windows(ds: fl.Dataset) -> fl.Dataset:
    return fl.Dataset.zip(ds, ds.window(3, 1)).flat_map(lambda a, w: w.map(lambda x: x + a))


def short() -> fl.Dataset:
    return fl.Dataset.range(9)


def reduced(ds: fl.Dataset) -> fl.Dataset:
    reducer = fl.data.experimental.Reducer(lambda k: k, lambda s, v: s * 2 + v, lambda s: s)
    return ds.apply(fl.data.experimental.group_by_reducer(lambda v: v % 7, reducer))


def chosen(ds: fl.Dataset) -> fl.Dataset:
    choice = fl.Dataset.range(30).map(lambda x: (x // 3) % 2)
    return fl.Dataset.choose_from_datasets([ds, short()], choice, stop_on_empty_dataset=False)


def grouped(ds: fl.Dataset) -> fl.Dataset:
    windows = ds.group_by_window(lambda v: v % 3, lambda _, w: w.batch(2), window_size=3)
    return windows.map(lambda v: fl.reduce_sum(v))


#: Any of them on anything.
STEPS: dict[str, Step] = {
    "ahead of nested": lambda ds: ds.interleave(nested, cycle_length=3, num_parallel_calls=2),
    "ahead of repeats": lambda ds: ds.interleave(repeated, cycle_length=2, num_parallel_calls=2),
    "ahead of turns": lambda ds: ds.interleave(turning, cycle_length=2, num_parallel_calls=2),
    "batch": lambda ds: ds.batch(3).map(lambda v: v + 1).unbatch(),
    "cache": lambda ds: ds.cache(),
    "choose": chosen,
    "concatenate": lambda ds: ds.concatenate(short()),
    "filter": lambda ds: ds.filter(lambda v: v % 3 != 1),
    "fail": lambda ds: ds.map(lambda v: v + 100 // (v % 7 - 3)),
    "flat_map": lambda ds: ds.flat_map(inner),
    "groups": grouped,
    "interleave": lambda ds: ds.interleave(inner, cycle_length=4),
    "interleave ahead": lambda ds: ds.interleave(inner, cycle_length=3, num_parallel_calls=2),
    "interleave nested": lambda ds: ds.interleave(nested, cycle_length=2),
    "map": lambda ds: ds.map(lambda v: v + fl.random.uniform((), 0, 9, dtype=fl.int64, seed=3)),
    "prefetch": lambda ds: ds.prefetch(3),
    "reduce": reduced,
    "repeat": lambda ds: ds.repeat(2),
    "sample": lambda ds: fl.Dataset.sample_from_datasets([ds, short()], seed=1),
    "shuffle": lambda ds: ds.shuffle(5, seed=2),
    "skip errors": lambda ds: ds.map(lambda v: v + 100 // (v % 5 - 3), on_error="skip"),
    "take": lambda ds: ds.take(8),
    "take_while": lambda ds: ds.take_while(lambda v: v % 31 != 19),
    "unique": lambda ds: ds.map(lambda v: v % 20).unique(),
    "windows": lambda ds: ds.window(4, 2).flat_map(lambda w: w.skip(1).shuffle(3, seed=3)),
    "windows beside": beside_windows,
    "zip": lambda ds: fl.Dataset.zip(ds, short()).map(lambda a, b: a * 10 + b),
}


def tower(seed: int) -> tuple[str, fl.Dataset]:
    """The pipeline with that number, and what it is made of."""
    drawn = random.Random(seed)
    names = drawn.choices(list(STEPS), k=drawn.randint(2, 6))
    ds = fl.Dataset.range(13)
    for name in names:
        ds = STEPS[name](ds)
    return " > ".join(names), ds.take(60)


def event(iterator: Iterator[Any]) -> Any:
    """The next element, the text of an error in the place of one, or None at the end."""
    try:
        return int(next(iterator))
    except StopIteration:
        return None
    except fl.errors.DataError as error:
        return str(error)


def events(iterator: Iterator[Any]) -> list[Any]:
    return list(iter(lambda: event(iterator), None))


def in_hops(seed: int, state: Any, hop: int) -> tuple[list[Any], fl.Dataset]:
    """What comes from a state on if new passes go on every few elements, and the last one's dataset."""
    got: list[Any] = []
    while True:
        _, ds = tower(seed)
        it = ds.iter(state, chunk_rows=[1, 4, 100][len(got) % 3])
        for _ in range(hop):
            found = event(it)
            if found is None:
                # Once more, from a state of its end.
                _, ds = tower(seed)
                return got + events(ds.iter(json.loads(json.dumps(it.state_dict())))), ds
            got.append(found)
        state = json.loads(json.dumps(it.state_dict()))


def main(path: str) -> None:
    with open(path) as file:
        cases = json.load(file)
    for seed, expected, after, states in cases:
        for position, state in enumerate(states):
            name, ds = tower(seed)
            if position == len(states) // 2 and seed % 3 == 0:
                found, last = in_hops(seed, state, 1 + seed % 3)
                if (found, events(iter(last))) != (expected[position:], after):
                    print(f"{name}, {seed=}, {position=}, in hops: {found}, not {expected[position:]}")
            options = {"chunk_rows": [1, 4, 100][position % 3], "cpu_budget": 1 + position % 2}
            try:
                got = events(ds.iter(state, **options)), events(iter(ds))
            except Exception as error:
                got = str(error), []
            if got != (expected[position:], after):
                print(f"{name}, {seed=}, {position=}, {options}: {got}, not {expected[position:]}, {after}")


if __name__ == "__main__":
    main(sys.argv[1])
