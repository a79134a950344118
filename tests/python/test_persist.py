"""Saved sets and caches on disk: what was written comes back; what breaks off was never there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import feedline as fl
import numpy as np
import pyarrow as pa
import pytest
from talking import begin, said


class Pair(NamedTuple):
    """A structure with a class of its own."""

    n: Any
    text: Any


def numbers(ds: Any) -> list[int]:
    """The elements of a dataset of scalars."""
    return [int(n) for n in ds.as_numpy_iterator()]


def test_structures_come_back(tmp_path: Path) -> None:
    """Nested structures, unknown sizes, bytes and classes are what they were."""
    ds = fl.Dataset.range(5).map(
        lambda n: {
            "pair": Pair(n, fl.strings.as_string(n)),
            "list": fl.range(n),
            "matrix": fl.ones((n, 2)),
            "flag": n > 2,
        }
    )
    saved = ds.save(tmp_path / "set")
    assert saved.elements == 5
    loaded = fl.Dataset.load(tmp_path / "set")
    assert loaded.element_spec == ds.element_spec
    assert len(loaded) == 5
    for got, expected in zip(loaded.as_numpy_iterator(), ds.as_numpy_iterator(), strict=True):
        assert isinstance(got["pair"], Pair)
        assert got["pair"] == expected["pair"]
        np.testing.assert_array_equal(got["list"], expected["list"])
        np.testing.assert_array_equal(got["matrix"], expected["matrix"])
        assert got["flag"] == expected["flag"]


def test_other_tools_open_the_files(tmp_path: Path) -> None:
    """Each file is an Arrow file with a column for each component."""
    saved = fl.Dataset.from_tensor_slices({"x": [1, 2, 3], "v": np.zeros((3, 2))}).save(tmp_path / "set")
    with pa.OSFile(saved.files[0]) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.column("x").to_pylist() == [1, 2, 3]
    assert table.column("v").to_pylist() == [[0.0, 0.0]] * 3


def read_by_arrow(files: Iterable[str | Path]) -> pa.Table:
    """All rows of some Arrow files, read by another library."""
    tables = []
    for path in sorted(map(str, files)):
        with pa.OSFile(path) as file:
            tables.append(pa.ipc.open_file(file).read_all())
    return pa.concat_tables(tables)


def compressible() -> Any:
    """A megabyte that is small when it is compressed, with columns of each layout."""
    return fl.Dataset.range(2000).map(
        lambda n: {
            "n": n,
            "vector": fl.fill([64], n % 3),
            "list": fl.range(n % 5),
            "text": fl.strings.as_string(n),
        }
    )


@pytest.mark.parametrize("compression", ["LZ4", "ZSTD", "SNAPPY", "GZIP", "AUTO"])
def test_other_tools_open_compressed_files(compression: str, tmp_path: Path) -> None:
    """Whatever the compression is called, it is one that Arrow has: of a set, and of a snapshot."""
    plain, packed = (
        compressible().save(tmp_path / "plain"),
        compressible().save(tmp_path / "set", compression),
    )
    assert 10 * os.path.getsize(packed.files[0]) < os.path.getsize(plain.files[0])
    table = read_by_arrow(packed.files)
    assert table.equals(read_by_arrow(plain.files))
    assert table.column("n").to_pylist() == list(range(2000))
    assert table.column("vector").to_pylist() == [[n % 3] * 64 for n in range(2000)]
    assert table.column("list").to_pylist() == [list(range(n % 5)) for n in range(2000)]
    assert table.column("text").to_pylist() == [b"%d" % n for n in range(2000)]
    kept = compressible().snapshot(tmp_path / "snapshot", compression)
    assert [int(e["n"]) for e in kept] == list(range(2000))
    files = list((tmp_path / "snapshot").rglob("*.arrow"))
    assert 10 * sum(path.stat().st_size for path in files) < os.path.getsize(plain.files[0])
    # Beside each element stands its position, from which random numbers follow.
    elements = read_by_arrow(files).column("1")
    assert pa.Table.from_struct_array(elements).select(table.column_names).equals(table)


def test_shards_and_their_reader(tmp_path: Path) -> None:
    """`shard_func` says where elements go, `reader_func` in what order shards are read."""
    fl.Dataset.range(6).save(tmp_path / "set", shard_func=lambda n: n % 2)
    assert numbers(fl.Dataset.load(tmp_path / "set")) == [0, 2, 4, 1, 3, 5]
    read = fl.Dataset.load(
        tmp_path / "set", reader_func=lambda shards: shards.interleave(lambda s: s, cycle_length=2)
    )
    assert numbers(read) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(fl.errors.DataError, match="shard_func"):
        fl.Dataset.range(6).save(tmp_path / "set", shard_func=lambda n: n - 3)
    assert len(fl.Dataset.load(tmp_path / "set")) == 6


def test_refusals(tmp_path: Path) -> None:
    """What cannot be saved or loaded is refused with what would help."""
    with pytest.raises(ValueError, match="take"):
        fl.Dataset.range(3).repeat().save(tmp_path / "set")
    with pytest.raises(ValueError, match="flat_map"):
        fl.Dataset.range(3).window(2).save(tmp_path / "set")
    with pytest.raises(ValueError, match="flat_map"):
        fl.Dataset.range(3).window(2).cache(tmp_path / "cache")
    with pytest.raises(ValueError, match="LZ77"):
        fl.Dataset.range(3).save(tmp_path / "set", compression="LZ77")
    with pytest.raises(FileNotFoundError):
        fl.Dataset.load(tmp_path / "set")
    fl.Dataset.range(3).save(tmp_path / "set")
    with pytest.raises(ValueError, match="int64"):
        fl.Dataset.load(tmp_path / "set", element_spec=fl.TensorSpec((), fl.int32))


class Times:
    """A function with a number of its own."""

    def __init__(self, k: int):
        self.k = k

    def __call__(self, n: Any) -> Any:
        CALLS.append(self.k)
        return n * self.k


CALLS: list[int] = []


def closed_over(k: int) -> Any:
    """The same, whose number is in its closure."""

    def function(n: Any) -> Any:
        CALLS.append(k)
        return n * k

    return function


@pytest.mark.parametrize("function", [Times, closed_over])
def test_caches_are_kept_apart(function: Any, tmp_path: Path) -> None:
    """Two pipelines in one folder never read each other's elements, nor are they computed twice."""

    def pipeline(k: int) -> Any:
        return fl.Dataset.range(3).map(function(k), python=True).cache(tmp_path / "cache")

    for _ in range(2):
        assert numbers(pipeline(2)) == [0, 2, 4]
        assert numbers(pipeline(3)) == [0, 3, 6]
        before = len(CALLS)
        assert numbers(pipeline(2)) == [0, 2, 4]
        # Building it calls the function once, to learn what it gives.
        assert len(CALLS) <= before + 1


def test_a_state_goes_on_in_a_cache(tmp_path: Path) -> None:
    """A state that was taken while a cache was filled is good when it is whole, and the other way round."""
    ds = fl.Dataset.range(10).shuffle(10, seed=1).cache(tmp_path / "cache")
    first = iter(ds)
    head = [int(next(first)) for _ in range(4)]
    state = first.state_dict()
    tail = [int(n) for n in first]
    assert sorted(head + tail) == list(range(10))
    assert [int(n) for n in ds.iter(state=state)] == tail
    second = iter(ds)
    assert [int(next(second)) for _ in range(4)] == head
    assert [int(n) for n in ds.iter(state=second.state_dict())] == tail


WRITER = """
    import os, sys
    import feedline as fl

    def slow(n):
        if n == 3000:
            print("under way", flush=True)
            sys.stdin.readline()
        return n + int(os.environ["PLUS"])

    ds = fl.Dataset.range(5000).map(slow, python=True)
    if sys.argv[1] == "save":
        ds.save(sys.argv[2])
    else:
        print(sum(int(n) for n in ds.cache(sys.argv[2]).as_numpy_iterator()), flush=True)
"""


def writing(tmp_path: Path, how: str, plus: int) -> subprocess.Popen[str]:
    """A process that writes, and waits for a line in the middle of it."""
    return begin(tmp_path, WRITER, how, str(tmp_path / how), PLUS=str(plus))


def finish(process: subprocess.Popen[str], *, kill: bool) -> str:
    """Lets it go on to its end, or kills it; gives what it had to say."""
    assert said(process) == "under way"
    if kill:
        # Blocks are on their way to the disk.
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        return ""
    out, _ = process.communicate("go\n", timeout=60)
    assert process.returncode == 0
    return out.strip()


def test_a_killed_save_leaves_the_old_set(tmp_path: Path) -> None:
    """Killed, nothing is there; killed on top of a whole set, that one still is."""
    finish(writing(tmp_path, "save", 0), kill=True)
    with pytest.raises(FileNotFoundError):
        fl.Dataset.load(tmp_path / "save")
    finish(writing(tmp_path, "save", 1), kill=False)
    finish(writing(tmp_path, "save", 2), kill=True)
    assert numbers(fl.Dataset.load(tmp_path / "save")) == list(range(1, 5001))
    finish(writing(tmp_path, "save", 3), kill=False)
    assert numbers(fl.Dataset.load(tmp_path / "save")) == list(range(3, 5003))
    runs = [name for name in os.listdir(tmp_path / "save") if name.startswith("run-")]
    assert len(runs) == 1


def test_a_killed_pass_is_not_taken_for_whole(tmp_path: Path) -> None:
    """The next process reads the input again; the one behind it reads the cache."""
    finish(writing(tmp_path, "cache", 0), kill=True)
    total = str(sum(range(5000)))
    assert finish(writing(tmp_path, "cache", 0), kill=False) == total
    cached = writing(tmp_path, "cache", 0)
    # The function is not called: nobody waits.
    assert said(cached) == total
    assert cached.wait(timeout=60) == 0


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_what_is_damaged_of_a_part_is_made_again(harm: str, tmp_path: Path) -> None:
    """One warning names the file, the elements are what they were, and the cache is whole from then on."""
    code = textwrap.dedent("""
        import itertools, json, logging, sys
        import feedline as fl
        logging.basicConfig()
        ds = fl.Dataset.range(20_000).shuffle(100, seed=7).cache("c").with_options(chunk_rows=10)
        print(json.dumps([int(n) for n in itertools.islice(ds, int(sys.argv[1]))]))
        next(iter(ds))  # Waits for the pass that was stopped.
    """)

    def first(count: int) -> tuple[list[int], list[str]]:
        """The first elements in a new process, and its warnings."""
        command = [sys.executable, "-c", code, str(count)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING:")]
        return json.loads(done.stdout), warnings

    for count in (2000, 6000):
        assert first(count)[1] == []
    (partial,) = tmp_path.glob("c/*/partial.json")
    files = json.loads(partial.read_text())["shards"][0]
    assert len(files) > 1
    damaged = partial.parent / files[-1]["name"]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "remove":
        damaged.unlink()
    else:
        damaged.write_bytes(content[: len(content) // 2] if harm == "cut" else content)
    read, (warning,) = first(30_000)
    assert damaged.name in warning and damaged.parent.name in warning and "made again" in warning
    assert first(30_000) == (read, [])
    assert sorted(read) == list(range(20_000))


def test_what_ends_a_pass_is_never_left_out(tmp_path: Path) -> None:
    """An error after which nothing comes does not stand for one element, whatever is done with those."""
    rows = fl.Dataset.range(1000).map(lambda n: fl.fill([1000], n))
    for ds in (rows.cache(), rows.shuffle(900)):
        with pytest.raises(MemoryError):
            list(ds.ignore_errors().with_options(memory_limit="2MB"))
    ignoring = rows.cache(tmp_path / "a").ignore_errors()
    skipping = rows.cache(tmp_path / "b").with_options(on_error="skip")
    for ds in (ignoring, skipping):
        assert len(list(ds)) == 1000
    for file in tmp_path.glob("*/*/run-*/*.arrow"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    for ds in (ignoring, skipping):
        with pytest.raises(fl.errors.DataError, match="remove"):
            list(ds)


def test_a_pass_that_leaves_out_errors_keeps_for_its_kind(tmp_path: Path) -> None:
    rows = fl.Dataset.range(4).map(lambda n: 6 // (2 - n))
    for cached in (rows.cache(), rows.cache(tmp_path / "c")):
        skipping = cached.with_options(on_error="skip")
        assert [int(x) for x in skipping] == [int(x) for x in skipping] == [3, 6, -6]
        with pytest.raises(fl.errors.InvalidArgumentError):
            list(cached)


def test_a_cache_that_gives_up_keeps_nothing() -> None:
    """Its memory is there for others."""

    def held(it: Any) -> int:
        node = json.loads(it.explain("json"))["runs"]
        while node["op"] != "cache":
            node = node["inputs"][0]
        return node["meter"]["held_bytes"]

    rows = fl.Dataset.range(400).map(lambda n: fl.fill([1000], fl.cast(600 // (300 - n), fl.int64)))
    it = iter(rows.cache().ignore_errors().with_options(prefetch=False))
    for _ in range(200):
        next(it)
    assert held(it) > 200 * 1000
    for _ in range(150):
        next(it)
    assert held(it) == 0


def shuffled(place: str, path: Path) -> Any:
    """Twenty numbers in an order that each dataset draws for itself, kept somewhere."""
    dataset = fl.Dataset.range(20).map(lambda x: fl.cast(x, fl.float32) + fl.random.uniform([])).shuffle(20)
    if place == "memory":
        return dataset.cache()
    return dataset.cache(str(path)) if place == "disk" else dataset.snapshot(str(path))


@pytest.mark.parametrize("place", ["memory", "disk", "snapshot"])
def test_a_state_goes_on_where_other_seeds_filled_the_cache(place: str, tmp_path: Path) -> None:
    first = iter(shuffled(place, tmp_path / "a"))
    for _ in range(8):
        next(first)
    state, rest = first.state_dict(), list(first)
    other = shuffled(place, tmp_path / "b")
    assert len(list(other)) == 20
    assert list(other.iter(state)) == rest
    # In memory, what was kept with seeds that count no more is not given any more either.
    if place == "memory":
        assert list(other)[8:] == rest


@pytest.mark.parametrize("place", ["disk", "snapshot"])
def test_what_other_seeds_filled_is_not_made_again(place: str, tmp_path: Path) -> None:
    kept = list(shuffled(place, tmp_path / "a"))
    reading = iter(shuffled(place, tmp_path / "a"))
    assert next(reading) == kept[0]
    state = reading.state_dict()
    assert list(shuffled(place, tmp_path / "a").iter(state)) == kept[1:]
    with pytest.raises((ValueError, fl.errors.FailedPreconditionError), match=r"seeds|here is none"):
        list(shuffled(place, tmp_path / "b").iter(state))


def test_a_cache_is_filled_with_the_pass_that_a_state_tells_of() -> None:
    calls = []

    def make() -> Any:
        signature = fl.TensorSpec((), fl.int64)
        order = fl.Dataset.range(20).shuffle(20, seed=1)
        return order.map(lambda x: calls.append(x) or x, python=True, output_signature=signature).cache()

    dataset = make()
    first = list(dataset)
    reading = iter(dataset)
    next(reading)
    state = reading.state_dict()
    other = make()
    next(iter(other))  # left early, so that another pass is kept
    assert list(other) != first
    assert list(other.iter(state)) == first[1:]
    list(other)
    calls.clear()
    assert list(other) == first and not calls


def test_an_input_that_had_ended_is_let_go(tmp_path: Path) -> None:
    def make(name: str) -> Any:
        return fl.Dataset.range(20).shuffle(20, seed=5).snapshot(str(tmp_path / name)).shuffle(10, seed=3)

    first = iter(make("a"))
    for _ in range(15):
        next(first)
    state, rest = first.state_dict(), list(first)
    drained = make("b").iter(state)
    assert next(drained) == rest[0]
    # Nobody writes there: another pass can.
    assert sorted(make("b")) == list(range(20))
    assert list((tmp_path / "b").glob("*/*.json")) and list(drained) == rest[1:]


@pytest.mark.parametrize("rows", [1, 7, None])
def test_a_part_that_ends_with_an_error_is_gone_on_with_as_it_was(rows: int | None, tmp_path: Path) -> None:
    """What stands behind the error takes the seeds that it took in the first pass."""

    def events(it: Any) -> list[Any]:
        out: list[Any] = []
        while True:
            try:
                out.append(int(next(it)))
            except StopIteration:
                return out
            except fl.errors.DataError as error:
                out.append(str(error))

    windows = fl.Dataset.range(40).map(lambda x: x + 100 // (x - 20)).window(9, 7, 2)
    dataset = windows.flat_map(lambda window: window.shuffle(4, seed=1)).cache(str(tmp_path))
    first = events(dataset.iter(chunk_rows=rows))
    assert events(dataset.iter(chunk_rows=rows)) == first and len(first) == 37
