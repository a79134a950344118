"""Snapshots in shards: written in order by the first pass, read by later ones as their reader says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import feedline as fl
import numpy as np
import pyarrow as pa
import pytest
from talking import begin, said

CALLS: list[int] = []


def counted(n: Any) -> Any:
    """A function whose calls are counted."""
    CALLS.append(int(n))
    return n


def source(n: int) -> fl.Dataset:
    """Numbers, of which each is counted when it is made."""
    return fl.Dataset.range(n).map(counted, python=True, output_signature=fl.TensorSpec((), fl.int64))


def numbers(ds: Any) -> list[int]:
    """The elements of a dataset of scalars."""
    return [int(n) for n in ds.as_numpy_iterator()]


def mixed(shards: Any) -> Any:
    """Shards in another order in each pass, elements of three of them in turn."""
    shuffled = shards.shuffle(16, seed=5)
    return shuffled.interleave(lambda shard: shard, cycle_length=3, num_parallel_calls=fl.AUTOTUNE)


def places(folder: Path) -> list[Path]:
    """Where the snapshots in a folder are."""
    return sorted(path.parent for path in folder.glob("*/dataset.json"))


def test_the_first_pass_is_in_order_and_later_ones_in_that_of_the_shards(tmp_path: Path) -> None:
    """The input is read once, whoever reads the shards; each shard is a row of Arrow files."""
    CALLS.clear()
    ds = source(10).snapshot(tmp_path, shard_func=lambda n: n % 3)
    assert len(ds) == 10
    assert numbers(ds) == list(range(10))
    assert numbers(ds) == numbers(ds) == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    assert len(CALLS) == 10
    again = source(10).snapshot(tmp_path, shard_func=lambda n: n % 3)
    assert numbers(again) == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
    assert len(CALLS) == 10
    (place,) = places(tmp_path)
    manifest = json.loads((place / "dataset.json").read_text())
    assert [sum(file["elements"] for file in shard) for shard in manifest["shards"]] == [4, 3, 3]
    with pa.OSFile(str(place / manifest["shards"][1][0]["name"])) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.column(0).to_pylist() == [1, 4, 7]


def test_a_reader_mixes_shards(tmp_path: Path) -> None:
    """Every pass has all elements; their order is that of the reader, another one in each pass."""

    def made() -> Any:
        return fl.Dataset.range(100).snapshot(tmp_path, reader_func=mixed, shard_func=lambda n: n // 10)

    ds = made()
    first, second, third = numbers(ds), numbers(ds), numbers(ds)
    assert first == sorted(second) == sorted(third) == list(range(100))
    assert first != second != third != first
    # Elements of three shards in turn.
    assert len({n // 10 for n in second[:3]}) == 3
    for cores, rows in [(1, 1), (2, 3), (4, 100)]:
        again = made().with_options(cpu_budget=cores, chunk_rows=rows)
        assert (numbers(again), numbers(again)) == (second, third)


def test_a_reader_alone_has_one_shard(tmp_path: Path) -> None:
    """What is not divided is one dataset."""
    counts = []

    def reader(shards: Any) -> Any:
        counts.append(shards.element_spec)
        return shards.enumerate().flat_map(lambda i, shard: shard.map(lambda n: n + 1000 * i))

    ds = fl.Dataset.range(4).snapshot(tmp_path, reader_func=reader)
    assert (numbers(ds), numbers(ds)) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert counts == [fl.DatasetSpec(fl.TensorSpec((), fl.int64))]
    (place,) = places(tmp_path)
    assert len(json.loads((place / "dataset.json").read_text())["shards"]) == 1


class Pair(NamedTuple):
    """A structure with a class of its own."""

    n: Any
    text: Any


@pytest.mark.parametrize(
    ("element", "shard"),
    [
        (lambda n: (n, fl.range(n)), lambda n, _: n % 2),
        (lambda n: {"n": n, "list": fl.range(n)}, lambda e: e["n"] % 2),
        (lambda n: Pair(n, fl.strings.as_string(n)), lambda pair: fl.cast(pair.n % 2, fl.int32)),
    ],
)
def test_structures(element: Any, shard: Any, tmp_path: Path) -> None:
    """Tuples are unpacked for the function, other structures are one argument; all come back as they were."""
    ds = fl.Dataset.range(5).map(element)
    kept = ds.snapshot(tmp_path, shard_func=shard, reader_func=lambda shards: shards.flat_map(lambda s: s))
    assert kept.element_spec == ds.element_spec
    expected = list(ds.as_numpy_iterator())
    for order in ([0, 1, 2, 3, 4], [0, 2, 4, 1, 3]):
        for got, n in zip(kept.as_numpy_iterator(), order, strict=True):
            assert type(got) is type(expected[n])
            fl.nest.map_structure(np.testing.assert_array_equal, got, expected[n])


def test_a_python_function_may_choose_the_shard(tmp_path: Path) -> None:
    """What cannot be traced runs as Python; the elements keep their spec."""
    ds = fl.Dataset.range(6).map(lambda n: fl.fill([2], n))
    kept = ds.snapshot(tmp_path, shard_func=lambda row: 1 if row[0] > 2 else 0)
    assert kept.element_spec == ds.element_spec
    assert [int(row[0]) for row in kept] == [int(row[0]) for row in kept] == list(range(6))
    assert len(json.loads((places(tmp_path)[0] / "dataset.json").read_text())["shards"]) == 2


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    """When it is built, with what is wrong."""
    ds = fl.Dataset.range(4)
    for shard in (lambda n: n / 2, lambda n: fl.stack([n, n]), lambda n: n > 1, lambda n: (n, n)):
        with pytest.raises(ValueError, match="snapshot: shard_func must return one whole number"):
            ds.snapshot(tmp_path, shard_func=shard)
    with pytest.raises(ValueError, match="reader_func must return a dataset, but returns int64"):
        ds.snapshot(tmp_path, reader_func=lambda shards: 3 * fl.constant(1, fl.int64))
    with pytest.raises(ValueError, match=r"the elements that were written, int64.*returns one of"):
        ds.snapshot(tmp_path, reader_func=lambda shards: mixed(shards).batch(2))
    with pytest.raises(ValueError, match="returns one of"):
        ds.snapshot(tmp_path, reader_func=lambda shards: shards)
    with pytest.raises(TypeError, match="reader_func takes a function"):
        ds.snapshot(tmp_path, reader_func=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="shard_func takes a function"):
        ds.snapshot(tmp_path, shard_func=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="LZ77"):
        ds.snapshot(tmp_path, compression="LZ77", shard_func=lambda n: n)
    with pytest.raises(ValueError, match="flat_map"):
        ds.window(2).snapshot(tmp_path, shard_func=lambda window: 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("far", [-1, 512, 2**40])
def test_numbers_that_are_no_shard_fail_their_element(far: int, tmp_path: Path) -> None:
    """The error names the element, the pass goes on, and nothing is kept."""
    ds = fl.Dataset.range(5).snapshot(tmp_path, shard_func=lambda n: fl.where(n == 3, far, n))
    with pytest.raises(fl.errors.InvalidArgumentError, match=r"a number from 0 to 511.*element 3"):
        list(ds)
    assert numbers(ds.ignore_errors()) == [0, 1, 2, 4]
    assert not places(tmp_path)


def test_pipelines_are_kept_apart(tmp_path: Path) -> None:
    """By their functions, that of the shards too, and by the files that they read."""

    def lines(text: str, parts: int) -> list[int]:
        (tmp_path / "lines").write_text(text)
        read = fl.TextLineDataset(str(tmp_path / "lines"))
        ds = read.map(lambda line: fl.strings.to_number(line, fl.int64))
        ds = ds.snapshot(tmp_path / "s", shard_func=lambda n: n % parts)
        first = numbers(ds)
        assert sorted(numbers(ds)) == sorted(first)
        return numbers(ds)

    assert lines("1\n2\n3\n", 2) == [2, 1, 3]
    assert lines("1\n2\n3\n", 1) == [1, 2, 3]
    assert lines("1\n2\n3\n4\n", 2) == [2, 4, 1, 3]
    assert len(places(tmp_path / "s")) == 3


def test_other_writers_pass_through(tmp_path: Path) -> None:
    """While one iterator writes, another one gives the input and keeps nothing."""
    ds = fl.Dataset.range(6).snapshot(tmp_path, shard_func=lambda n: n % 2).with_options(prefetch=False)
    first = iter(ds)
    assert next(first) == 0
    assert numbers(ds) == list(range(6))
    assert not places(tmp_path)
    assert [int(n) for n in first] == [1, 2, 3, 4, 5]
    assert numbers(ds) == [0, 2, 4, 1, 3, 5]


def test_what_a_consumer_does_with_its_arrays_is_not_kept(tmp_path: Path) -> None:
    """Rows wait to be written while the consumer has them already: they are not its to write to."""
    rows = fl.Dataset.range(64).map(lambda n: fl.fill([1000], n)).batch(4)
    sharded = rows.snapshot(tmp_path / "s", shard_func=lambda batch: batch[0, 0] % 2)
    for ds in (sharded, rows.cache(tmp_path / "c")):
        for batch in ds.iter(prefetch=False):
            if batch.flags.writeable:
                batch[:] = -1
        assert sorted(int(batch[0, 0]) for batch in ds) == list(range(0, 64, 4))


def test_states(tmp_path: Path) -> None:
    """Of a pass that wrote and of one that read, where the snapshot is and where it is not."""

    def made(place: str) -> Any:
        shuffled = fl.Dataset.range(30).shuffle(10, seed=2)
        kept = shuffled.snapshot(tmp_path / place, reader_func=mixed, shard_func=lambda n: n % 5)
        return kept.batch(4)

    def rest(iterator: Any) -> list[list[int]]:
        return [batch.tolist() for batch in iterator]

    def taken(ds: Any) -> tuple[dict[str, Any], list[list[int]]]:
        """A state behind three batches, as text, and what followed."""
        iterator = iter(ds)
        for _ in range(3):
            next(iterator)
        state = json.loads(json.dumps(iterator.state_dict()))
        return state, rest(iterator)

    ds = made("here")
    (writing, behind), (reading, behind_reading) = taken(ds), taken(ds)
    third = rest(ds)
    for place in ("here", "there"):
        again = made(place)
        assert rest(again.iter(writing)) == behind
        assert rest(again.iter(reading)) == behind_reading
        assert rest(again) == third
    assert len(places(tmp_path / "there")) == 1
    with pytest.raises(fl.errors.FailedPreconditionError, match=r"snapshot: .*here is none"):
        made("nowhere").iter(reading)
    other = fl.Dataset.range(30).shuffle(10, seed=2).snapshot(tmp_path / "here", shard_func=lambda n: n % 5)
    with pytest.raises(ValueError, match="another dataset"):
        other.batch(4).iter(reading)


def test_an_iterator_that_goes_elsewhere_lets_go_of_what_it_writes(tmp_path: Path) -> None:
    """Only one pass writes a snapshot: the one that goes on from a state, and not the one before it."""

    def make(name: str) -> fl.Dataset:
        return fl.Dataset.range(12).snapshot(tmp_path / name, shard_func=lambda x: x % 3, reader_func=mixed)

    ds = make("whole")
    it = iter(ds)
    for _ in range(4):
        next(it)
    state = json.loads(json.dumps(it.state_dict()))
    expected = [int(n) for n in it], numbers(ds)
    for taken in (0, 1, 6):
        ds = make(f"other{taken}")
        it = iter(ds)
        for _ in range(taken):
            next(it)
        # One that is refused changes nothing.
        with pytest.raises(ValueError, match="state"):
            it.load_state_dict(iter(fl.Dataset.range(3).batch(2)).state_dict())
        assert int(next(it)) == taken
        it.load_state_dict(state)
        assert ([int(n) for n in it], numbers(ds)) == expected


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_damage_says_what_to_remove(harm: str, tmp_path: Path) -> None:
    """The error names the file and the folder; without the folder the snapshot is made anew."""
    ds = fl.Dataset.range(1000).snapshot(tmp_path, reader_func=mixed, shard_func=lambda n: n % 4)
    assert numbers(ds) == list(range(1000))
    (place,) = places(tmp_path)
    damaged = sorted(place.glob("run-*/*.arrow"))[2]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "remove":
        damaged.unlink()
    else:
        damaged.write_bytes(content[: len(content) // 2] if harm == "cut" else content)
    error = FileNotFoundError if harm == "remove" else fl.errors.DataError
    with pytest.raises(error, match=f"remove the folder {place} to have the snapshot made anew") as raised:
        list(ds)
    assert damaged.name in str(raised.value)
    # No part of a snapshot is passed over in silence.
    with pytest.raises(error, match="remove"):
        list(ds.ignore_errors())
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert numbers(ds) == list(range(1000))
    assert sorted(numbers(ds)) == list(range(1000))


WRITER = """
    import sys
    import feedline as fl

    def slow(n):
        if n == 3000:
            print("under way", flush=True)
            sys.stdin.readline()
        return n

    def mixed(shards):
        return shards.shuffle(8, seed=1).interleave(lambda s: s, num_parallel_calls=fl.AUTOTUNE)

    ds = fl.Dataset.range(5000).map(slow, python=True)
    ds = ds.snapshot(sys.argv[1], reader_func=mixed, shard_func=lambda n: n % 8)
    print([int(n) for n in ds.as_numpy_iterator()], flush=True)
"""


def writing(tmp_path: Path) -> subprocess.Popen[str]:
    """A process that writes, and waits for a line in the middle of it."""
    return begin(tmp_path, WRITER, str(tmp_path / "s"))


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_processes(tmp_path: Path) -> None:
    """A killed writer leaves nothing that is read; beside a writer others pass through; then all read."""
    killed = writing(tmp_path)
    assert said(killed) == "under way"
    time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert not places(tmp_path / "s")
    writer, beside = writing(tmp_path), writing(tmp_path)
    assert said(writer) == said(beside) == "under way"
    for process in (beside, writer):
        out, _ = process.communicate("go\n", timeout=60)
        assert process.returncode == 0 and json.loads(out) == list(range(5000))
    # The function is not called: nobody waits.
    readers = [writing(tmp_path) for _ in range(2)]
    outs = [json.loads(reader.communicate(timeout=60)[0]) for reader in readers]
    assert outs[0] == outs[1] != list(range(5000))
    assert sorted(outs[0]) == list(range(5000))
    (place,) = places(tmp_path / "s")
    manifest = json.loads((place / "dataset.json").read_text())
    listed = [*manifest["shards"], manifest["origin"]["order"]["files"]]
    named = {file["name"] for files in listed for file in files}
    assert {path.relative_to(place).as_posix() for path in place.glob("run-*/*.arrow")} == named
    assert set(os.listdir(place)) == {".lock", "dataset.json", *(name.split("/")[0] for name in named)}


def test_small_memory(tmp_path: Path) -> None:
    """Rows of many shards that wait to be written stay within a part of the limit."""
    rows = fl.Dataset.range(20_000).map(lambda n: fl.fill([200], n))
    ds = rows.snapshot(tmp_path, shard_func=lambda row: row[0] % 100).with_options(memory_limit="24MB")
    assert sum(1 for _ in ds) == 20_000
    memory = json.loads(ds.explain("json"))["pass"]["memory"]
    assert memory["held_bytes_peak"] < 30_000_000
    assert sorted(int(row[0]) for row in ds) == list(range(20_000))


@pytest.mark.parametrize("reader", [None, mixed])
def test_what_is_lost_is_never_left_out(reader: Any, tmp_path: Path) -> None:
    """A block that is damaged does not stand for one element, whatever is done with those that fail."""
    ds = fl.Dataset.range(1000).snapshot(tmp_path, reader_func=reader, shard_func=lambda n: n % 4)
    for kept in (ds.ignore_errors(), ds.with_options(on_error="skip")):
        assert numbers(kept) == list(range(1000))
        for place in places(tmp_path):
            file = sorted(place.glob("run-*/*.arrow"))[0]
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        with pytest.raises(fl.errors.DataError, match="remove"):
            list(kept)


READER = """
    import sys
    import feedline as fl

    kind, folder = sys.argv[1:]

    def pipeline():
        if kind == "load":
            return fl.Dataset.load(f"{folder}/kept")
        shift = lambda n, name: n + fl.strings.to_number(fl.io.read_file(name), fl.int64)
        ds = fl.Dataset.from_tensor_slices([f"{folder}/number"] * 40).enumerate().map(shift)
        if kind == "cache":
            return ds.cache(f"{folder}/kept")
        mixed = lambda shards: shards.interleave(lambda shard: shard, cycle_length=2)
        return ds.snapshot(f"{folder}/kept", shard_func=lambda n: n % 8, reader_func=mixed)

    ds = pipeline().with_options(prefetch=False, chunk_rows=1)
    first, rest = [], ds
    if kind != "load":
        print(len(list(ds)), flush=True)
        rest = iter(ds)
        first = [int(next(rest))]
    print("begun", flush=True)
    sys.stdin.readline()
    print(sorted(first + [int(n) for n in rest]), flush=True)
"""


@pytest.mark.parametrize("kind", ["snapshot", "cache", "load"])
def test_another_process_reads_the_old_files_to_the_end(kind: str, tmp_path: Path) -> None:
    def write(shift: int) -> None:
        (tmp_path / "number").write_text(str(shift))
        if kind == "load":
            fl.Dataset.range(shift, shift + 40).save(str(tmp_path / "kept"))

    def reader() -> subprocess.Popen[str]:
        return begin(tmp_path, READER, kind, str(tmp_path))

    write(0)
    first = reader()
    assert first.stdout is not None and first.stdin is not None
    while said(first) != "begun":
        pass
    write(1000)
    second = reader()
    assert second.stdout is not None and second.stdin is not None
    while said(second) != "begun":
        pass
    for process, shift in ((first, 0), (second, 1000)):
        out, _ = process.communicate("\n", timeout=60)
        assert out.strip() == str(list(range(shift, shift + 40)))
    # The last who read the old files removed them.
    place = tmp_path / "kept" if kind == "load" else places(tmp_path / "kept")[0]
    assert len([path for path in place.iterdir() if path.is_dir()]) == 1
