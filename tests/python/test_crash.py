"""Programs that are killed while they write leave what is whole or nothing, and a second run ends well.

Each program says when it begins to write; a random time behind that it gets SIGKILL, some times. What it left
is read; then it is run once more, and what it wrote is compared.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import feedline as fl
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")

ROWS, WIDTH = 3000, 512
KILLS = 3
"""How often each program is killed."""


def rows() -> fl.Dataset:
    """What is written: 6 MB, which differ from row to row."""
    return fl.Dataset.range(ROWS).map(lambda x: {"n": x, "row": fl.fill([WIDTH], fl.cast(x, fl.int32) * 7)})


def texts(first: int) -> fl.Dataset:
    """Some numbers as text."""
    return fl.Dataset.range(first, first + ROWS).map(fl.strings.as_string)


def is_whole(ds: fl.Dataset) -> bool:
    """Whether these are the rows, in order."""
    numbers = [int(e["n"]) for e in ds if (np.asarray(e["row"]) == 7 * int(e["n"])).all()]
    return numbers == list(range(ROWS))


# For each: the program, and whether what it wrote is whole; None if there is nothing.


def cache_found(folder: Path) -> bool | None:
    """A cache is used or filled anew: either way all rows come."""
    return is_whole(rows().cache(folder / "cache"))


def set_found(folder: Path) -> bool | None:
    """A saved set that is there can be read."""
    return is_whole(fl.Dataset.load(folder / "set")) if (folder / "set" / "dataset.json").exists() else None


def parquet_found(folder: Path) -> bool | None:
    """The same of a file."""
    path = folder / "rows.parquet"
    return is_whole(fl.ParquetDataset(str(path))) if path.exists() else None


SHARDS = 200


def shards_found(folder: Path) -> bool | None:
    """The same of many files, which get their names one after another: part of them is refused."""
    files = [str(path) for path in sorted(folder.glob("s-*.tfrecord"))]
    if not files:
        return None
    try:
        found = [int(x) for x in fl.TFRecordDataset(files)]
    except fl.errors.OpError as error:
        assert "not whole" in str(error) and list(folder.glob(".s-of-*.part")), error
        # By patterns of all and of one of them as well, whichever has its name.
        for name in (str(folder / "s-*"), files[0].replace(".tfrecord", ".*"), files[-1]):
            with pytest.raises(fl.errors.OpError, match="not whole"):
                list(fl.TFRecordDataset(name))
        return None
    return sorted(found) in (list(range(ROWS)), list(range(ROWS, 2 * ROWS)))


def index_found(folder: Path) -> bool | None:
    """An index is read or made anew: records are found by number."""
    ds = fl.TFRecordDataset(str(folder / "in.tfrecord"), index=True)
    return len(ds) == ROWS and all(len(ds[i]) == 100 + i % 50 for i in (0, 1, ROWS - 1))


def tar_index_found(folder: Path) -> bool | None:
    """The same of samples."""
    ds = fl.WebDataset(str(folder / "in.tar"), index=True)
    return len(ds) == ROWS and all(len(ds[i]["bin"]) == 100 + i % 50 for i in (0, 1, ROWS - 1))


def converted_found(folder: Path) -> bool | None:
    """A converted file has all lines."""
    path = folder / "out.jsonl"
    return len(path.read_text().splitlines()) == ROWS if path.exists() else None


def snapshot_found(folder: Path) -> bool | None:
    """The same of a snapshot."""
    return is_whole(rows().snapshot(folder / "snapshot"))


def sharded(folder: Path) -> fl.Dataset:
    """A snapshot in shards, of rows of which each shard has every fourth."""
    return rows().snapshot(folder / "sharded", shard_func=lambda row: row["n"] % 4)


def sharded_found(folder: Path) -> bool | None:
    """The rows in order if there was none, shard after shard if there is one."""
    found = [int(e["n"]) for e in sharded(folder) if (np.asarray(e["row"]) == 7 * int(e["n"])).all()]
    return found in (list(range(ROWS)), [n for k in range(4) for n in range(k, ROWS, 4)])


PROGRAMS: dict[str, tuple[str, Callable[[Path], bool | None]]] = {
    "cache": ("sum(1 for _ in rows().cache('cache'))", cache_found),
    "snapshot": ("sum(1 for _ in rows().snapshot('snapshot'))", snapshot_found),
    "sharded": ("sum(1 for _ in sharded(Path()))", sharded_found),
    "save": ("rows().save('set')", set_found),
    "save_parquet": ("rows().save_parquet('rows.parquet', overwrite=True)", parquet_found),
    "save_shards": (f"texts(0).save_tfrecord('s.tfrecord', shards={SHARDS}, overwrite=True)", shards_found),
    "index": ("len(fl.TFRecordDataset('in.tfrecord', index=True))", index_found),
    "tar_index": ("len(fl.WebDataset('in.tar', index=True))", tar_index_found),
    "convert": ("main(['convert', '--overwrite', 'examples.tfrecord', 'out.jsonl'])", converted_found),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that programs read."""
    folder = tmp_path_factory.mktemp("inputs")
    with fl.io.TFRecordWriter(str(folder / "in.tfrecord")) as out:
        for i in range(ROWS):
            out.write(bytes(100 + i % 50))
    samples = {"__key__": [str(i) for i in range(ROWS)], "bin": [bytes(100 + i % 50) for i in range(ROWS)]}
    fl.Dataset.from_tensor_slices(samples).save_tar(folder / "in.tar")
    with fl.io.TFRecordWriter(str(folder / "examples.tfrecord")) as out:
        for i in range(ROWS):
            values = fl.train.Feature(int64_list=fl.train.Int64List(value=[i] * 40))
            example = fl.train.Example(features=fl.train.Features(feature={"n": values}))
            out.write(example.SerializeToString())
    return folder


def start(folder: Path, statement: str) -> subprocess.Popen[str]:
    """A program that has come to the statement. Its `rows` is the one above: a cache is known by it."""
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import feedline as fl
        from feedline.cli import main
        from pathlib import Path
        from test_crash import rows, sharded, texts
        print("now", flush=True)
        {statement}
        print("done", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "now\n"
    return process


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_at_any_moment(name: str, inputs: Path, tmp_path: Path) -> None:
    """Killed some times, each time earlier than it would have ended, then left alone."""
    statement, found = PROGRAMS[name]
    for path in inputs.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    draw = random.Random(name)
    # How long it takes when nobody kills it, in another folder.
    whole = tmp_path / "whole"
    whole.mkdir()
    for path in inputs.iterdir():
        (whole / path.name).write_bytes(path.read_bytes())
    process, begun = start(whole, statement), time.monotonic()
    assert process.wait(60) == 0
    takes = time.monotonic() - begun
    assert found(whole)
    for _ in range(KILLS):
        process = start(tmp_path, statement)
        time.sleep(takes * draw.random())
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert found(tmp_path) is not False, "something was left that is not whole"
    process = start(tmp_path, statement)
    process.wait(60)
    assert found(tmp_path)


def test_killed_while_files_get_their_names(tmp_path: Path) -> None:
    """As soon as the marker is there, again and again: old, new or nothing, and at the end no trace of it."""
    was_refused = False
    for turn in range(30):
        number = turn % 2 * ROWS
        process = start(
            tmp_path, f"texts({number}).save_tfrecord('s.tfrecord', shards={SHARDS}, overwrite=True)"
        )
        while process.poll() is None and not (tmp_path / f".s-of-{SHARDS:05}.tfrecord.part").exists():
            pass
        time.sleep(turn % 4 * 0.001)
        process.kill()
        process.wait(60)
        found = shards_found(tmp_path)
        assert found is not False, "something was left that is not whole"
        was_refused = found is None and bool(list(tmp_path.glob("s-*")))
        if was_refused and turn > 3:
            break
    assert was_refused
    # Whoever saves it next needs no leave to do so, and may choose another number of files.
    texts(0).save_tfrecord(tmp_path / "s.tfrecord", shards=3)
    assert shards_found(tmp_path)
    assert len(os.listdir(tmp_path)) == 3


LONG = 400
CALLS: list[int] = []


def slowly(n: int) -> int:
    """Some seconds for all of them, so that blocks are committed on the way."""
    CALLS.append(n)
    time.sleep(0.01)
    return n * 3


def long(folder: Path) -> fl.Dataset:
    """A pass that takes seconds, in an order of its own."""
    numbers = fl.Dataset.range(LONG).shuffle(50, seed=3)
    return numbers.map(slowly, python=True, output_signature=fl.TensorSpec((), fl.int64)).cache(folder / "c")


def test_a_killed_pass_is_gone_on_with(tmp_path: Path) -> None:
    """Killed as soon as something is committed, twice: the last pass makes what is missing, and no more."""
    code = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from test_crash import long
        sum(1 for _ in long(Path(sys.argv[1])))
    """
    expected = [int(n) for n in long(tmp_path / "whole")]
    assert sorted(expected) == list(range(0, 3 * LONG, 3))
    before = b""
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)])
        deadline = time.monotonic() + 60
        while (found := b"".join(path.read_bytes() for path in tmp_path.glob("c/*/partial.json"))) == before:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        before = found
    CALLS.clear()
    assert [int(n) for n in long(tmp_path)] == expected
    # Some are made again: what was not committed, and what the shuffle held.
    assert 0 < len(CALLS) < LONG - 50
    CALLS.clear()
    assert [int(n) for n in long(tmp_path)] == expected and not CALLS
    # What the killed ones were writing is gone.
    (manifest,) = tmp_path.glob("c/*/dataset.json")
    files = {path.relative_to(manifest.parent).as_posix() for path in manifest.parent.glob("*/*.arrow*")}
    assert files == {file["name"] for shard in json.loads(manifest.read_text())["shards"] for file in shard}
    assert not list(manifest.parent.glob(".*.tmp"))


def test_a_full_disk_is_an_error_that_names_the_stage(tmp_path: Path) -> None:
    """A cache, a snapshot and a saved set on a disk without room: here a limit on the size of files."""
    code = """if True:
        import resource, signal
        import feedline as fl
        from pathlib import Path
        from test_crash import rows, sharded, texts
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        writers = {
            "cache": lambda: list(rows().cache("c")),
            "snapshot": lambda: list(rows().snapshot("n", compression=None)),
            "save": lambda: rows().save("s"),
        }
        for op, write in writers.items():
            try:
                write()
                print("written")
            except OSError as error:
                others = [name for name in writers if name != op and f"({name})" in str(error)]
                print(op, op in str(error), "too large" in str(error), others, flush=True)
    """
    command = [sys.executable, "-c", code]
    folder = str(Path(__file__).parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (
        0,
        "".join(f"{op} True True []\n" for op in ("cache", "snapshot", "save")),
    ), done.stderr
