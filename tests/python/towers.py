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
    "batch": lambda ds: ds.batch(3).map(lambda v: v + 1).unbatch(),
    "cache": lambda ds: ds.cache(),
    "choose": chosen,
    "concatenate": lambda ds: ds.concatenate(short()),
    "filter": lambda ds: ds.filter(lambda v: v % 3 != 1),
    "flat_map": lambda ds: ds.flat_map(inner),
    "groups": grouped,
    "interleave": lambda ds: ds.interleave(inner, cycle_length=4),
    "interleave ahead": lambda ds: ds.interleave(inner, cycle_length=3, num_parallel_calls=2),
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


def events(iterator: Iterator[Any]) -> list[Any]:
    return [int(x) for x in iterator]


def main(path: str) -> None:
    with open(path) as file:
        cases = json.load(file)
    for seed, expected, after, states in cases:
        for position, state in enumerate(states):
            name, ds = tower(seed)
            options = {"chunk_rows": [1, 4, 100][position % 3], "cpu_budget": 1 + position % 2}
            try:
                got = events(ds.iter(state, **options)), events(iter(ds))
            except Exception as error:
                got = str(error), []
            if got != (expected[position:], after):
                print(f"{name}, {seed=}, {position=}, {options}: {got}, not {expected[position:]}, {after}")


if __name__ == "__main__":
    main(sys.argv[1])
