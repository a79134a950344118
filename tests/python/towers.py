"""Pipelines of every operator and source, and random ones: they end early, hold elements and read again.

`test_resume_fresh.py` takes states at every position of them; this file, run by itself, goes on from all of
these in a process of its own, with so many workers.
"""

import json
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np

Step = Callable[[fl.Dataset], fl.Dataset]
Kept = Callable[[fl.Dataset, str], fl.Dataset]
Source = Callable[[Path], fl.Dataset]
SCALAR = fl.TensorSpec((), fl.int64)
#: Elements of a source.
COUNT = 13


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


def cached(v: Any, folder: str = "") -> fl.Dataset:
    return fl.Dataset.range(4).shuffle(4, seed=9).cache(folder).map(lambda u: u * 10 + v)


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


def rows(ds: fl.Dataset) -> fl.Dataset:
    """Vectors of different lengths."""
    return ds.map(lambda v: fl.fill([v % 4 + 1], v))


def bucketed(ds: fl.Dataset) -> fl.Dataset:
    buckets = rows(ds).bucket_by_sequence_length(lambda row: fl.shape(row)[0], [2, 4], [2, 2, 3])
    return buckets.unbatch().map(lambda v: fl.reduce_sum(v))


def sparse(ds: fl.Dataset) -> fl.Dataset:
    batches = rows(ds).sparse_batch(3, [None]).map(lambda v: fl.sparse.to_dense(v))
    return batches.unbatch().map(lambda v: fl.reduce_sum(v))


def padded(ds: fl.Dataset) -> fl.Dataset:
    return rows(ds).padded_batch(3, padding_values=np.int64(7)).unbatch().map(lambda v: fl.reduce_sum(v))


def ragged(ds: fl.Dataset) -> fl.Dataset:
    return rows(ds).ragged_batch(3).unbatch().map(lambda v: fl.reduce_sum(v))


def resampled(ds: fl.Dataset) -> fl.Dataset:
    return ds.rejection_resample(lambda v: v % 2, [0.2, 0.8], [0.5, 0.5], seed=1).map(lambda _, v: v)


def in_python(v: Any) -> Any:
    """Nothing that could be traced."""
    return np.int64(int(v) * 3 + 1)


#: Any of them on anything.
STEPS: dict[str, Step] = {
    "ahead of nested": lambda ds: ds.interleave(nested, cycle_length=3, num_parallel_calls=2),
    "ahead of repeats": lambda ds: ds.interleave(repeated, cycle_length=2, num_parallel_calls=2),
    "ahead of turns": lambda ds: ds.interleave(turning, cycle_length=2, num_parallel_calls=2),
    "assert_cardinality": lambda ds: ds.take(6).assert_cardinality(6),
    "batch": lambda ds: ds.batch(3).map(lambda v: v + 1).unbatch(),
    "buckets": bucketed,
    "cache": lambda ds: ds.cache(),
    "cache inside": lambda ds: ds.flat_map(cached),
    "choose": chosen,
    "concatenate": lambda ds: ds.concatenate(short()),
    "enumerate": lambda ds: ds.enumerate(5).map(lambda i, v: i * 10 + v),
    "fail": lambda ds: ds.map(lambda v: v + 100 // (v % 7 - 3)),
    "filter": lambda ds: ds.filter(lambda v: v % 3 != 1),
    "flat_map": lambda ds: ds.flat_map(inner),
    "groups": grouped,
    "ignore_errors": lambda ds: ds.map(lambda v: v + 100 // (v % 5 - 2)).ignore_errors(),
    "interleave ahead": lambda ds: ds.interleave(inner, cycle_length=3, num_parallel_calls=2),
    "interleave nested": lambda ds: ds.interleave(nested, cycle_length=2),
    "interleave": lambda ds: ds.interleave(inner, cycle_length=4),
    "map batches": lambda ds: ds.map_batches(lambda v: v * 2, 4),
    "map": lambda ds: ds.map(lambda v: v + fl.random.uniform((), 0, 9, dtype=fl.int64, seed=3)),
    "padded_batch": padded,
    "parallel map": lambda ds: ds.map(lambda v: v * 2 + 1, num_parallel_calls=2),
    "prefetch": lambda ds: ds.prefetch(3),
    "python": lambda ds: ds.map(in_python, python=True, output_signature=SCALAR),
    "ragged_batch": ragged,
    "rebatch": lambda ds: ds.batch(4).rebatch([3, 2]).map(lambda v: v + 1).unbatch(),
    "reduce": lambda ds: reduced(ds.take(500)),
    "repeat": lambda ds: ds.repeat(2),
    "resample": resampled,
    "sample": lambda ds: fl.Dataset.sample_from_datasets([ds, short()], seed=1),
    "scan": lambda ds: ds.scan(fl.constant(0, fl.int64), lambda s, v: ((s * 3 + v) % 997, s + v)),
    "shard": lambda ds: ds.shard(2, 1),
    "shard, drop": lambda ds: ds.shard(3, 1, equal="drop"),
    "shard, wrap": lambda ds: ds.shard(3, 2, equal="wrap"),
    "shuffle bytes": lambda ds: ds.shuffle(buffer_bytes=40, seed=7),
    "shuffle": lambda ds: ds.shuffle(5, seed=2),
    "skip errors": lambda ds: ds.map(lambda v: v + 100 // (v % 5 - 3), on_error="skip"),
    "skip": lambda ds: ds.skip(2),
    "sparse_batch": sparse,
    "take": lambda ds: ds.take(8),
    "take_while": lambda ds: ds.take_while(lambda v: v % 31 != 19),
    "unique": lambda ds: ds.map(lambda v: v % 20).unique(),
    "windows beside": beside_windows,
    "windows": lambda ds: ds.window(4, 2).flat_map(lambda w: w.skip(1).shuffle(3, seed=3)),
    "zip": lambda ds: fl.Dataset.zip(ds, short()).map(lambda a, b: a * 10 + b),
}

#: The same, with a folder for what they keep.
KEPT: dict[str, Kept] = {
    "cache on disk": lambda ds, folder: ds.cache(folder),
    "snapshot": lambda ds, folder: ds.snapshot(folder),
    "snapshot in shards": lambda ds, folder: ds.snapshot(
        folder,
        shard_func=lambda v: v % 3,
        reader_func=lambda shards: shards.interleave(lambda shard: shard, cycle_length=2),
    ),
}

#: The same, alone: it opens the folder for each element.
INSIDE: dict[str, Kept] = {
    "cache on disk inside": lambda ds, folder: ds.take(5).interleave(
        lambda v: cached(v, folder), cycle_length=2
    ),
}

#: Behind a source only: what needs rows as they were read, and what takes long to start.
FIRST: dict[str, Step] = {
    "origin": lambda ds: ds.with_origin().map(lambda v, origin: v + origin["position"]),
    "worker": lambda ds: ds.map(in_python, python=True, output_signature=SCALAR, workers=1),
}


def counted(start: int = 0) -> Iterator[int]:
    yield from range(start, COUNT)


class Counter:
    """Values with a place that can be told."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> "Counter":
        return self

    def __next__(self) -> int:
        if self.at == COUNT:
            raise StopIteration
        self.at += 1
        return self.at - 1

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def number(text: Any) -> Any:
    return fl.strings.to_number(text, fl.int64)


def read(files: Path, pattern: str) -> list[str]:
    return sorted(str(path) for path in files.glob(pattern))


def columns(ds: fl.Dataset) -> fl.Dataset:
    return ds.map(lambda row: row["n"])


SOURCES: dict[str, Source] = {
    "range": lambda _: fl.Dataset.range(COUNT),
    "range, permuted": lambda _: fl.Dataset.range(COUNT).shuffle(seed=6),
    "slices": lambda _: fl.Dataset.from_tensor_slices(np.arange(COUNT) * 3),
    "slices, permuted": lambda _: fl.Dataset.from_tensor_slices(np.arange(COUNT) * 3).shuffle(seed=8),
    "tensors": lambda _: fl.Dataset.from_tensors(np.arange(COUNT)).unbatch(),
    "list": lambda _: fl.Dataset.from_list([np.int64(7 * n) for n in range(COUNT)]),
    "counter": lambda _: fl.Dataset.counter(3, 2).take(COUNT),
    "random": lambda _: (
        fl.Dataset.random(seed=4, rerandomize_each_iteration=True).map(lambda v: v % 50).take(COUNT)
    ),
    "generator": lambda _: fl.Dataset.from_generator(counted, output_signature=SCALAR, resume=counted),
    "generator with a state": lambda _: fl.Dataset.from_generator(Counter, output_signature=SCALAR),
    "text": lambda files: fl.TextLineDataset(read(files, "*.txt")).map(number),
    "tfrecord": lambda files: fl.TFRecordDataset(read(files, "n*.tfrecord")).map(number),
    "tfrecord, gzip": lambda files: fl.TFRecordDataset(read(files, "*.gz"), "GZIP").map(number),
    "tfrecord, three at once": lambda files: fl.TFRecordDataset(
        read(files, "n*.tfrecord"), num_parallel_reads=3
    ).map(number),
    "tfrecord, permuted": lambda files: (
        fl.TFRecordDataset(read(files, "n*.tfrecord"), index=True).shuffle(seed=3).map(number)
    ),
    "files, listed": lambda files: (
        fl.Dataset.list_files(str(files / "n*.tfrecord"), seed=2).flat_map(fl.TFRecordDataset).map(number)
    ),
    "csv": lambda files: fl.CsvDataset(read(files, "*.csv"), [fl.int64], header=True).map(
        lambda *row: row[0]
    ),
    "json lines": lambda files: columns(fl.JsonLinesDataset(read(files, "*.jsonl"), {"n": fl.int64})),
    "fixed": lambda files: fl.FixedLengthRecordDataset(read(files, "*.bin"), 3, 1, 2).map(number),
    "fixed, permuted": lambda files: (
        fl.FixedLengthRecordDataset(read(files, "*.bin"), 3, 1, 2, index=True).shuffle(seed=3).map(number)
    ),
    "parquet": lambda files: columns(fl.ParquetDataset(read(files, "*.parquet"))),
    "parquet, permuted": lambda files: columns(fl.ParquetDataset(read(files, "*.parquet")).shuffle(seed=3)),
    "arrow": lambda files: columns(fl.ArrowDataset(read(files, "*.arrow"))),
    "arrow, permuted": lambda files: columns(fl.ArrowDataset(read(files, "*.arrow")).shuffle(seed=3)),
    "npy": lambda files: fl.NumpyDataset(read(files, "*.npy")),
    "npz, permuted": lambda files: columns(fl.NumpyDataset(read(files, "*.npz")).shuffle(seed=3)),
    "tar": lambda files: fl.WebDataset(read(files, "*.tar"), ["n"]).map(lambda row: number(row["n"])),
    "tar, permuted": lambda files: (
        fl.WebDataset(read(files, "*.tar"), ["n"], index=True)
        .shuffle(seed=3)
        .map(lambda row: number(row["n"]))
    ),
    "load": lambda files: fl.Dataset.load(str(files / "saved")),
    "load, mixed": lambda files: fl.Dataset.load(
        str(files / "saved"), reader_func=lambda shards: shards.interleave(lambda s: s, cycle_length=2)
    ),
    "sql": lambda files: fl.data.experimental.SqlDataset(
        "sqlite", str(files / "n.sqlite"), "SELECT n FROM numbers ORDER BY n", [fl.int64]
    ).map(lambda *row: row[0]),
}


def write_files(files: Path) -> None:
    """All that the sources read: the numbers, in three files of each kind."""
    files.mkdir()
    for part in range(3):
        ds = fl.Dataset.range(part * 5, min(part * 5 + 5, COUNT))
        texts = [str(n) for n in range(part * 5, min(part * 5 + 5, COUNT))]
        name = str(files / f"n{part}")
        Path(name + ".txt").write_text("".join(text + "\n" for text in texts))
        Path(name + ".csv").write_text("n\n" + "".join(text + "\n" for text in texts))
        Path(name + ".bin").write_text("#" + "".join(f"{text:>3}" for text in texts) + "--")
        ds.map(fl.strings.as_string).save_tfrecord(name + ".tfrecord")
        ds.map(fl.strings.as_string).save_tfrecord(name + ".gz", compression_type="GZIP")
        table = ds.map(lambda n: {"n": n})
        table.save_json_lines(name + ".jsonl")
        table.save_parquet(name + ".parquet", row_group_rows=2)
        table.save_arrow(name + ".arrow", batch_rows=2)
        ds.save_npy(name + ".npy")
        np.savez(name + ".npz", n=np.array([int(text) for text in texts]))
        samples = ds.map(lambda n: {"__key__": fl.strings.as_string(n), "n": fl.strings.as_string(n)})
        samples.save_tar(name + ".tar")
    fl.Dataset.range(COUNT).save(str(files / "saved"), shard_func=lambda n: n % 3)
    with sqlite3.connect(files / "n.sqlite") as base:
        base.execute("CREATE TABLE numbers (n INTEGER)")
        base.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(COUNT)])
    base.close()


def names(case: Any) -> list[str]:
    """What a pipeline is made of: its source and its steps. A number stands for a random one."""
    if not isinstance(case, int):
        return list(case)
    drawn = random.Random(case)
    # As often as not something that is in memory, which has elements by number.
    source = drawn.choice(["range", drawn.choice(list(SOURCES))])
    return [source, *drawn.choices([*STEPS, *KEPT], k=drawn.randint(1, 8))]


def tower(case: Any, files: Path, home: str) -> fl.Dataset:
    """The pipeline of that name, with the folder of its files and the one where it keeps something."""
    source, *steps = names(case)
    ds = SOURCES[source](files)
    for at, name in enumerate(steps):
        if name in KEPT | INSIDE:
            ds = (KEPT | INSIDE)[name](ds, f"{home}/{at}")
        else:
            ds = (STEPS | FIRST)[name](ds)
    return ds.take(60)


def event(iterator: Iterator[Any]) -> Any:
    """The next element, the text of an error in the place of one, or None at the end."""
    try:
        return int(next(iterator))
    except StopIteration:
        return None
    except (fl.errors.DataError, fl.errors.FailedPreconditionError) as error:
        return str(error)


def events(iterator: Iterator[Any]) -> list[Any]:
    return list(iter(lambda: event(iterator), None))


def in_hops(make: Callable[[], fl.Dataset], state: Any, hop: int) -> tuple[list[Any], fl.Dataset]:
    """What comes from a state on if new passes go on every few elements, and the last one's dataset."""
    got: list[Any] = []
    while True:
        it = make().iter(state, chunk_rows=[1, 4, 100][len(got) % 3])
        for _ in range(hop):
            found = event(it)
            if found is None:
                # Once more, from a state of its end.
                ds = make()
                return got + events(ds.iter(json.loads(json.dumps(it.state_dict())))), ds
            got.append(found)
        state = json.loads(json.dumps(it.state_dict()))


def main(files: Path, path: str) -> None:
    with open(path) as file:
        budget, cases = json.load(file)
    fl.configure(cpu_budget=budget)
    for case, expected, after, states in cases:
        for position, state, home, removed, hop in states:
            if removed:
                shutil.rmtree(home, ignore_errors=True)
            rows = [1, 4, 100][position // 3 % 3]
            try:
                if hop:
                    got, ds = in_hops(lambda: tower(case, files, home), state, hop)  # noqa: B023
                else:
                    ds = tower(case, files, home)
                    got = events(ds.iter(state, chunk_rows=rows))
                found = got, events(iter(ds))
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"], []
            if found != (expected[position:], after):
                print(f"{case}, {names(case)}, {position=}, {budget=}, {rows=}, {removed=}, {hop=}:")
                print(f"  {found[0]}, not {expected[position:]}; then {found[1]}, not {after}")


if __name__ == "__main__":
    # States know the classes of generators by their module, too.
    import towers

    towers.main(Path(sys.argv[1]), sys.argv[2])
