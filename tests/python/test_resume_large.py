"""States in the midst of much data, which another process goes on from, and how small they are."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import feedline as fl
import numpy as np
import pytest

RECORDS = 20_000
FILES = 8
BATCH = 10
#: Batches whose numbers are compared, of each position.
NEXT = 20
MILLIONS = 10_000_000


def trained(folder: str) -> fl.Dataset:
    """As one would train: files in turns, a shuffle buffer, a random function, batches."""
    files = [f"{folder}/{number}.tfrecord" for number in range(FILES)]
    ds = fl.Dataset.from_tensor_slices(files).shuffle(FILES, seed=1)
    ds = ds.interleave(fl.TFRecordDataset, cycle_length=4, block_length=3, num_parallel_calls=4)
    ds = ds.map(lambda text: fl.strings.to_number(text, fl.int64)).shuffle(1000, seed=2)
    ds = ds.map(lambda v: v + fl.random.uniform((), 0, 1000, dtype=fl.int64, seed=3) * RECORDS)
    return ds.batch(BATCH)


def digest(batches: Iterator[Any]) -> str:
    found = hashlib.sha256()
    for batch in batches:
        found.update(np.asarray(batch).tobytes())
    return found.hexdigest()


def gone_on(folder: str, budget: int, asked: list[Any]) -> list[Any]:
    """For each state the next batches, and where that is asked for a digest of those behind and of a pass."""
    fl.configure(cpu_budget=budget)
    found = []
    for state, whole in asked:
        ds = trained(folder)
        with ds.iter(state) as it:
            following = [batch.tolist() for batch in itertools.islice(it, NEXT)]
            found.append((following, digest(it) if whole else "", digest(iter(ds)) if whole else ""))
    return found


#: Plans whose elements have numbers. (Each row of a file in another order is a read: not all are made here.)
INDEXED: dict[str, Any] = {
    "range": lambda _: fl.Dataset.range(MILLIONS).shuffle(seed=5),
    "array": lambda _: fl.Dataset.from_tensor_slices(np.arange(MILLIONS, dtype=np.int32)).shuffle(seed=5),
    "file": lambda folder: fl.NumpyDataset(f"{folder}/numbers.npy").shuffle(seed=5).take(1_000_000),
    "file in order": lambda folder: fl.NumpyDataset(f"{folder}/numbers.npy"),
    "map": lambda _: fl.Dataset.range(MILLIONS).map(lambda v: v * 3).shuffle(seed=5),
}


def indexed(name: str, folder: str) -> fl.Dataset:
    """Batches of which every second one begins in the middle of another."""
    return INDEXED[name](folder).batch(4000).rebatch(6000)


def run(function: str, *arguments: Any) -> Any:
    """What one of the functions here gives in another process."""
    done = subprocess.run(
        [sys.executable, __file__, function],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def first(folder: str, asked: list[Any]) -> list[Any]:
    """The element behind each state."""
    found = []
    for name, state in asked:
        with indexed(name, folder).iter(state) as it:
            found.append([batch.tolist() for batch in itertools.islice(it, 1)])
    return found


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("records")
    for number in range(FILES):
        with fl.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as writer:
            # Of different lengths.
            for value in range(number, RECORDS, FILES):
                writer.write(b"%d" % value if value // FILES % (number + 2) else b"%09d" % value)
    return str(folder)


@pytest.fixture(scope="module")
def states(records: str) -> tuple[list[Any], str, list[tuple[int, Any]]]:
    """All batches, a digest of those of the next pass, and 50 positions with their states."""
    ds = trained(records)
    drawn = Random(7).sample(range(RECORDS // BATCH + 1), 48)
    positions = {0, *drawn, RECORDS // BATCH}
    it = iter(ds)
    batches: list[Any] = []
    found = [(0, it.state_dict())]
    for batch in it:
        batches.append(batch)
        if len(batches) in positions:
            found.append((len(batches), it.state_dict()))
    return batches, digest(iter(ds)), found


@pytest.mark.parametrize("budget", [1, 2, 4])
def test_fifty_positions_of_a_large_pipeline(
    budget: int, records: str, states: tuple[list[Any], str, list[tuple[int, Any]]]
) -> None:
    """The batches behind each of them are the same, and behind some of them all up to the next pass."""
    batches, after, taken = states
    assert sorted(int(v) % RECORDS for batch in batches for v in batch) == list(range(RECORDS))
    whole = [at % 10 == budget for at in range(len(taken))]
    found = run("gone_on", records, budget, list(zip([state for _, state in taken], whole, strict=True)))
    for (position, _), behind, got in zip(taken, whole, found, strict=True):
        following = [batch.tolist() for batch in batches[position : position + NEXT]]
        rest = (digest(iter(batches[position + NEXT :])), after) if behind else ("", "")
        assert got == [following, *rest], position


@pytest.mark.parametrize("name", INDEXED)
def test_states_of_ten_million_rows_are_small(name: str, tmp_path: Path) -> None:
    """Also where they are in the middle of a batch: they have numbers of rows, and no rows."""
    if "file" in name:
        np.save(tmp_path / "numbers.npy", np.arange(MILLIONS, dtype=np.int32))
    ds = indexed(name, str(tmp_path))
    last = -(-len(INDEXED[name](str(tmp_path))) // 6000)
    positions = {0, 1, 2, last // 2, last // 2 + 1, last - 1, last}
    asked, expected = [], []
    it = iter(ds)
    for position in range(last + 1):
        state = it.state_dict() if position in positions else None
        batch = next(it, None)
        if state is not None:
            assert len(json.dumps(state)) < 4096, position
            asked.append((name, state))
            expected.append([] if batch is None else [batch.tolist()])
    assert batch is None
    assert run("first", str(tmp_path), asked) == expected


if __name__ == "__main__":
    print(json.dumps({"gone_on": gone_on, "first": first}[sys.argv[1]](*json.load(sys.stdin))))
