"""Pipelines cut for workers and ranks: nothing twice, nothing lost, and the same batches."""

from __future__ import annotations

import copy
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline.frameworks import parts

TABLE = np.arange(1000.0)


def pairs(count: int) -> fl.Dataset:
    return fl.Dataset.from_tensor_slices((np.arange(count), np.arange(count) * 2))


def noisy(a: Any, b: Any) -> Any:
    return a, b, fl.random.uniform([], seed=2), fl.gather(TABLE, a)


PIPELINES: dict[str, Callable[[], fl.Dataset]] = {
    "source": lambda: pairs(23),
    "batch": lambda: pairs(23).batch(4),
    "whole batches": lambda: pairs(23).batch(4, drop_remainder=True),
    "shuffle, map, batch": lambda: pairs(103).shuffle(seed=1).map(noisy).batch(10).prefetch(2),
    "map behind batch": lambda: pairs(23).map(noisy).batch(4).map(lambda a, b, c, d: (a + 1, c)),
    "options": lambda: pairs(23).batch(4).with_options(chunk_rows=1),
    "two batches": lambda: pairs(24).batch(2).batch(3),
    "padded": lambda: fl.Dataset.range(1, 24).map(lambda x: fl.fill([x], x)).padded_batch(4),
    "dicts": lambda: (
        fl.Dataset.from_tensor_slices({"x": np.arange(23)}).map(lambda e: {"y": e["x"]}).batch(4)
    ),
    "zip": lambda: (
        fl.Dataset.zip(fl.Dataset.range(23), fl.Dataset.range(30)).map(lambda a, b: a + b).batch(4)
    ),
    "python": lambda: fl.Dataset.range(23).map(lambda x: int(x) + 1, python=True).batch(4),
    "filter": lambda: fl.Dataset.range(40).filter(lambda x: x % 3 > 0).map(lambda x: x + 1).batch(4),
}


def texts(ds: fl.Dataset) -> list[str]:
    return [repr(element) for element in ds]


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_in_turn_give_the_dataset(make: Callable[[], fl.Dataset], workers: int) -> None:
    ds = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.warnings.WorkTwice)
        given = [texts(parts.of_worker(copy.deepcopy(ds), workers, w)) for w in range(workers)]
    expected = texts(ds)
    assert sum(map(len, given)) == len(expected)
    assert [given[n % workers][n // workers] for n in range(len(expected))] == expected


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
def test_ranks_share_all_elements(make: Callable[[], fl.Dataset]) -> None:
    ds = make()
    whole = parts.cut_input(parts.cut_input(ds)[0])[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.warnings.UnequalRanks)
        shares = [parts.of_rank(whole, 2, rank, None) for rank in range(2)]
    found = sorted(texts(shares[0]) + texts(shares[1]))
    # A shuffle has another order in its second pass, but the same elements.
    assert found == sorted(texts(whole))


def hurried(x: Any) -> Any:
    """Slow for every fourth element, so that those behind it are ready first."""
    if int(x) % 4 == 0:
        time.sleep(0.02)
    return x


FREE = {"num_parallel_calls": 4, "python": True, "output_signature": fl.TensorSpec((), fl.int64)}


def inner(x: Any) -> fl.Dataset:
    ds = fl.Dataset.from_tensors(x).repeat(3)
    return ds.map(lambda y: y + 1, num_parallel_calls=2, deterministic=False)


UNORDERED: dict[str, Callable[[], fl.Dataset]] = {
    "parameter": lambda: fl.Dataset.range(24).map(hurried, deterministic=False, **FREE).shuffle(1),
    "option": lambda: fl.Dataset.range(24).map(hurried, **FREE).shuffle(1).with_options(deterministic=False),
    "interleave": lambda: fl.Dataset.range(8).interleave(
        inner, cycle_length=3, num_parallel_calls=3, deterministic=False
    ),
}


def written(ds: fl.Dataset) -> str:
    return ds._plan.pickled()[0].replace(" ", "")


@pytest.mark.parametrize("make", UNORDERED.values(), ids=UNORDERED)
def test_parts_are_cut_from_one_order(make: Callable[[], fl.Dataset]) -> None:
    expected = sorted(texts(make()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.warnings.WorkTwice)
        workers = [parts.of_worker(make(), 2, number) for number in range(2)]
    ranks = [parts.of_rank(make(), 2, number, "drop") for number in range(2)]
    for given in (workers, ranks):
        assert sorted(text for part in given for text in texts(part)) == expected
        # A state can be taken only where the order is strict.
        iterator = iter(given[0])
        next(iterator)
        assert iterator.state_dict()["delivered"] == 1
        assert "false" not in re.findall('"deterministic":([a-z]+),', written(given[0]))
    # What lies behind the cut keeps its freedom, and so does a dataset that is not cut.
    ds = fl.Dataset.range(8).map(lambda x: x, num_parallel_calls=2, deterministic=False)
    assert '"deterministic":false' in written(parts.of_rank(ds, 2, 0))
    assert written(parts.of_rank(make(), 1, 0)).count('"deterministic":false') == written(make()).count(
        '"deterministic":false'
    )


def test_a_part_counts_its_passes() -> None:
    ds = fl.Dataset.range(40).shuffle(seed=1).batch(4)
    first, second = (texts(parts.of_rank(ds, 2, 0)) for _ in range(2))
    assert first != second


def test_importing_feedline_imports_no_framework() -> None:
    import subprocess
    import sys

    program = "import sys, feedline; print({'torch', 'keras', 'jax', 'tensorflow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
