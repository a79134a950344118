"""Programs that are killed while they write (test_crash.py), and what may be there afterwards.

Run with a name, it does that in the working folder; the commands are run as commands.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import feedline as fl
import numpy as np

ROWS, WIDTH = 3000, 1024
SHARDS = 200
FILES, RECORDS = 30, 20_000
SAMPLES = 1200
EXAMPLES = 6000

State = Literal["nothing", "refused", "part", "whole"]


def rows(first: int = 0) -> fl.Dataset:
    """What is written: 12 MB of noise, which no compression makes small."""
    numbers = fl.Dataset.range(first, first + ROWS)
    return numbers.map(lambda x: {"n": x, "row": fl.random.stateless_uniform([WIDTH], [7, x])})


def texts(first: int) -> fl.Dataset:
    """Some numbers as text."""
    return fl.Dataset.range(first, first + ROWS).map(fl.strings.as_string)


def sharded(folder: Path) -> fl.Dataset:
    """A snapshot in shards, of rows of which each shard has every other."""
    return rows().snapshot(folder / "sharded", shard_func=lambda row: row["n"] % 2)


def of_shards(folder: Path) -> str:
    """Its elements by their numbers: the first pass gives them in order, later ones shard after shard."""
    batches = list(sharded(folder).batch(500))
    numbers, found = (np.concatenate([np.asarray(batch[key]) for batch in batches]) for key in ("n", "row"))
    by_number = np.argsort(numbers)
    return hashlib.sha256(numbers[by_number].tobytes() + found[by_number].tobytes()).hexdigest()


def slowly(n: int) -> int:
    """Two seconds for all of them, so that something is committed on the way."""
    time.sleep(0.001)
    return n * 3


def slow(folder: Path) -> fl.Dataset:
    """A pass that takes some time."""
    numbers = fl.Dataset.range(1300)
    made = numbers.map(slowly, python=True, output_signature=fl.TensorSpec((), fl.int64))
    return made.map(lambda n: {"n": n, "row": fl.fill([WIDTH], n)}).cache(folder / "slow")


def digest(ds: fl.Dataset) -> str:
    """One word for all elements in their order."""
    told = hashlib.sha256()
    for batch in ds.batch(500):
        told.update(np.asarray(batch["n"]).tobytes())
        told.update(np.asarray(batch["row"]).tobytes())
    return told.hexdigest()


def saved(ds: fl.Dataset, folder: Path) -> str:
    """Saves it, and tells what is there then."""
    ds.save(folder / "set")
    return digest(fl.Dataset.load(folder / "set"))


@functools.cache
def expected(first: int) -> str:
    """What a set of these rows has."""
    return digest(rows(first))


def set_left(folder: Path) -> State:
    """A saved set that is there is whole, the old one or the new one; otherwise nobody can load it."""
    if not (folder / "set" / "dataset.json").exists():
        try:
            fl.Dataset.load(folder / "set")
        except FileNotFoundError:
            return "nothing"
        raise AssertionError("a set without dataset.json was loaded")
    assert digest(fl.Dataset.load(folder / "set")) in (expected(0), expected(ROWS))
    return "whole"


def kept_left(folder: Path) -> State:
    """Of a cache or a snapshot, what has a manifest is whole. The run again reads it."""
    return "whole" if list(folder.glob("*/*/dataset.json")) else "nothing"


def one_file(name: str) -> Callable[[Path], State]:
    """A file is there or not. Its bytes are compared."""
    return lambda folder: "whole" if (folder / name).exists() else "nothing"


def shards_left(folder: Path) -> State:
    """Many files, which get their names one after another: a part of them is refused."""
    files = [str(path) for path in sorted(folder.glob("s-*.tfrecord"))]
    if not files:
        return "nothing"
    try:
        found = [int(x) for x in fl.TFRecordDataset(files)]
    except fl.errors.OpError as error:
        assert "not whole" in str(error) and list(folder.glob(".s-of-*.part")), error
        # By patterns of all and of one of them as well, whichever has its name.
        for name in (str(folder / "s-*"), files[0].replace(".tfrecord", ".*"), files[-1]):
            try:
                list(fl.TFRecordDataset(name))
            except fl.errors.OpError as refused:
                assert "not whole" in str(refused)
            else:
                raise AssertionError(f"{name} was read") from None
        return "refused"
    assert sorted(found) in (list(range(ROWS)), list(range(ROWS, 2 * ROWS)))
    return "whole"


def converted_left(folder: Path) -> State:
    """The same of a conversion."""
    files = list(folder.glob("e-*"))
    if not files:
        return "nothing"
    try:
        found = sum(1 for _ in fl.ParquetDataset(str(folder / "e-*")))
    except fl.errors.OpError as error:
        assert "not whole" in str(error) and list(folder.glob(".e-of-*.part")), error
        return "refused"
    assert (len(files), found) == (60, EXAMPLES)
    return "whole"


def indexes(ending: str) -> Callable[[Path], State]:
    """Each file has an index, or some of them."""

    def left(folder: Path) -> State:
        files, found = list(folder.glob(f"*.{ending}")), list(folder.glob(f"*.{ending}.flidx"))
        return "whole" if len(found) == len(files) else "part" if found else "nothing"

    return left


def offsets(index: bytes) -> bytes:
    """What an index says of its file, without the file's time of change: that differs from copy to copy."""
    assert index.startswith((b"FLIDX", b"FLTAR")), index[:8]
    _, _, _, length = struct.unpack_from("<IQQQ", index, 8)
    return index[36 + length :]


def read_by_number(folder: Path) -> list[Any]:
    """Records of the first and the last file, and how many there are."""
    ds = fl.TFRecordDataset(sorted(map(str, folder.glob("*.tfrecord"))), index=True)
    return [len(ds), *(len(ds[i]) for i in (0, 1, 37, FILES * RECORDS - 2, FILES * RECORDS - 1))]


def samples_by_number(folder: Path) -> list[Any]:
    """The same of samples."""
    ds = fl.WebDataset(sorted(map(str, folder.glob("*.tar"))), index=True)
    return [len(ds), *(len(ds[i]["bin"]) for i in (0, 1, 37, len(ds) - 1))]


def spilled(folder: Path) -> str:
    """Two passes, of which the second reads what did not fit."""
    del folder
    return digest(rows().cache(on_full="spill").repeat(2).with_options(memory_limit="8MB"))


class Kind(NamedTuple):
    """Something that writes."""

    run: Callable[[Path], Any] | list[str]
    """What it does in a folder, and gives, which is the same afterwards; or the words of a command."""
    left: Callable[[Path], State]
    """What is there. It fails if there is something that it must not be."""
    inputs: str = ""
    """The files that it reads."""
    same: str = ""
    """The files whose bytes are the same whoever writes them."""
    old: Callable[[Path], Any] | None = None
    """What was there before."""
    goes_on: bool = True
    """Whether it may be killed once more in the folder that a killed one left."""


KINDS = {
    "cache": Kind(lambda folder: digest(rows().cache(folder / "cache")), kept_left),
    "slow_cache": Kind(lambda folder: digest(slow(folder)), kept_left),
    "spill": Kind(spilled, lambda folder: "nothing"),
    "snapshot": Kind(lambda folder: digest(rows().snapshot(folder / "snapshot")), kept_left),
    "sharded": Kind(of_shards, kept_left),
    "save": Kind(lambda folder: saved(rows(), folder), set_left),
    "save_again": Kind(
        lambda folder: saved(rows(ROWS), folder),
        set_left,
        old=lambda folder: rows().save(folder / "set"),
    ),
    "save_parquet": Kind(
        lambda folder: rows().take(1500).save_parquet(folder / "rows.parquet", overwrite=True).elements,
        one_file("rows.parquet"),
        same="rows.parquet",
    ),
    "save_shards": Kind(
        lambda folder: texts(0).save_tfrecord(folder / "s.tfrecord", shards=SHARDS, overwrite=True).elements,
        shards_left,
        same="s-*.tfrecord",
    ),
    "index": Kind(read_by_number, indexes("tfrecord"), "*.tfrecord", same="*.tfrecord.flidx", goes_on=False),
    "index_command": Kind(
        ["index", "--quiet", "."], indexes("tfrecord"), "*.tfrecord", same="*.tfrecord.flidx", goes_on=False
    ),
    "tar_index": Kind(samples_by_number, indexes("tar"), "*.tar", same="*.tar.flidx", goes_on=False),
    "convert_command": Kind(
        ["convert", "--quiet", "--overwrite", "examples.bin", "out.jsonl"],
        one_file("out.jsonl"),
        "examples.bin",
        same="out.jsonl",
    ),
    "convert_to_shards": Kind(
        ["convert", "--quiet", "--overwrite", "--shards", "60", "examples.bin", "e.parquet"],
        converted_left,
        "examples.bin",
        same="e-*.parquet",
    ),
}


def write_inputs(folder: Path) -> None:
    """The files that are read."""
    with fl.io.TFRecordWriter(str(folder / "block")) as out:
        for i in range(50):
            out.write(bytes(i))
    records = (folder / "block").read_bytes() * (RECORDS // 50)
    (folder / "block").unlink()
    for k in range(FILES):
        (folder / f"{k:02}.tfrecord").write_bytes(records)
    samples = {"__key__": [f"{i:05}" for i in range(SAMPLES)], "bin": [bytes(i % 50) for i in range(SAMPLES)]}
    fl.Dataset.from_tensor_slices(samples).save_tar(folder / "00.tar")
    for k in range(1, FILES):
        (folder / f"{k:02}.tar").write_bytes((folder / "00.tar").read_bytes())
    with fl.io.TFRecordWriter(str(folder / "examples.bin")) as out:
        for i in range(EXAMPLES):
            values = fl.train.Feature(int64_list=fl.train.Int64List(value=range(i, i + 60)))
            example = fl.train.Example(features=fl.train.Features(feature={"n": values}))
            out.write(example.SerializeToString())


def command(name: str) -> list[str]:
    """How it is started in a process of its own."""
    run = KINDS[name].run
    if isinstance(run, list):
        return [sys.executable, "-m", "feedline", *run]
    return [sys.executable, __file__, name]


if __name__ == "__main__":
    what = KINDS[sys.argv[1]].run
    assert not isinstance(what, list)
    what(Path(os.curdir))
