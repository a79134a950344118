"""Programs that are killed while they write leave what is whole or nothing, and a second run ends well.

A random time behind its first file each program (killed.py) gets SIGKILL, some times. What it left is read;
then it is run once more, and what it wrote is compared with what one wrote that nobody killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import feedline as fl
import killed
import pytest
from feedline.cli import main
from killed import ROWS, SHARDS, Kind, offsets, shards_left, texts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")

KILLS = 3
"""How often each program is killed, at least."""
MOST = 12
"""How often, if none of these kills came in time."""
UNFINISHED = (".tmp", ".part", "partial.json")
"""Endings of what is there while something is written: a file, the names of many files, a set."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that programs read."""
    folder = tmp_path_factory.mktemp("inputs")
    killed.write_inputs(folder)
    return folder


def before(kind: Kind, inputs: Path, folder: Path) -> Path:
    """A folder as it is before anything is written."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    for path in inputs.glob(kind.inputs) if kind.inputs else ():
        shutil.copyfile(path, folder / path.name)
    if kind.old:
        kind.old(folder)
    return folder


def listed(folder: Path) -> set[str]:
    """All files of a folder, but for locks, which are there before anything is written."""
    return {os.path.join(top, name) for top, _, names in os.walk(folder) for name in names if name != ".lock"}


def start(name: str, folder: Path) -> subprocess.Popen[bytes]:
    """The program, or the command; spilled elements go to `tmp`."""
    env = {**os.environ, "TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(killed.command(name), cwd=folder, env=env, stdout=subprocess.DEVNULL)


def first_file(process: subprocess.Popen[bytes], folder: Path, there: set[str]) -> None:
    """Waits until it has begun to write."""
    while process.poll() is None and listed(folder) <= there:
        time.sleep(0.0005)


def undisturbed(name: str, folder: Path) -> float:
    """Lets it write all, and tells how long that took from the first file to the last."""
    there = seen = listed(folder)
    process = start(name, folder)
    first_file(process, folder, there)
    began = last = time.monotonic()
    while process.poll() is None:
        if (now := listed(folder)) != seen:
            seen, last = now, time.monotonic()
        time.sleep(0.0005)
    assert process.returncode == 0
    return last - began


def is_unfinished(kind: Kind, folder: Path) -> bool:
    """Whether something is there that was to become something else, or a part of what belongs together."""
    return any(name.endswith(UNFINISHED) for name in listed(folder)) or kind.left(folder) == "part"


def strays(folder: Path) -> list[str]:
    """What was to go: unfinished files, and those of sets that no manifest names."""
    found = {name for name in listed(folder) if name.endswith(UNFINISHED)}
    for manifest in folder.glob("**/dataset.json"):
        told = manifest.read_text()
        files = manifest.parent.glob("*/*.arrow*")
        found |= {str(path) for path in files if f'"{path.parent.name}/{path.name}"' not in told}
    return sorted(found - listed(folder / "tmp"))


def contents(kind: Kind, folder: Path) -> dict[str, bytes]:
    """The files that are the same whoever writes them."""
    found = {path.name: path.read_bytes() for path in folder.glob(kind.same)} if kind.same else {}
    return {name: offsets(data) if name.endswith(".flidx") else data for name, data in found.items()}


def again(kind: Kind, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What it gives in the same folder, here: this is another process than the killed one."""
    with monkeypatch.context() as context:
        context.chdir(folder)
        context.setenv("TMPDIR", str(folder / "tmp"))
        return main(kind.run) if isinstance(kind.run, list) else kind.run(folder)


@pytest.mark.parametrize("name", killed.KINDS)
def test_killed_at_any_moment(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at random moments from its first file on: what is left is whole, refused or nothing, and a run
    after it ends as one that nobody killed. Every other kill meets one that goes on with what was left.
    """
    kind = killed.KINDS[name]
    draw = random.Random(name)
    whole = before(kind, inputs, tmp_path / "whole")
    span = undisturbed(name, whole)
    expected, files = contents(kind, whole), len(listed(whole))
    gives = again(kind, whole, monkeypatch)
    assert contents(kind, whole) == expected
    in_time = 0
    folder = tmp_path / "killed"
    for turn in range(MOST):
        if turn % 2 == 0 or not kind.goes_on or kind.left(folder) == "whole":
            before(kind, inputs, folder)
        there = listed(folder)
        process = start(name, folder)
        first_file(process, folder, there)
        # A machine may have become faster, so that all of them would come late.
        delay = span * draw.random() * 0.7 ** max(0, turn - KILLS + 1)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        unfinished = is_unfinished(kind, folder)
        in_time += unfinished
        print(f"{name}: killed {delay:.3f} s of {span:.3f} s after its first file; {unfinished=}")
        look = folder
        if kind.goes_on:
            look = tmp_path / "look"
            shutil.rmtree(look, ignore_errors=True)
            shutil.copytree(folder, look)
        left, found = kind.left(look), contents(kind, look)
        assert found.items() <= expected.items(), "something was left that is not whole"
        assert left != "whole" or found == expected
        spilled = listed(look / "tmp")
        assert again(kind, look, monkeypatch) == gives
        assert kind.left(look) == kind.left(whole) and contents(kind, look) == expected
        # The killed one has left nothing, but for what it spilled: that goes with the temporary folder.
        assert listed(look / "tmp") == spilled
        assert strays(look) == []
        if kind.same:
            assert len(listed(look)) == files
        if turn >= KILLS - 1 and in_time:
            break
    assert in_time, "no kill came while something was being written"


def test_killed_while_files_get_their_names(tmp_path: Path) -> None:
    """As soon as the marker is there, again and again: old, new or nothing, and at the end no trace of it."""
    left = "nothing"
    marker = tmp_path / f".s-of-{SHARDS:05}.tfrecord.part"

    def marked() -> int:
        """When the marker was made. One that was left is there until the next save comes to it."""
        try:
            return marker.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    for turn in range(30):
        code = f"""if True:
            import sys
            sys.path.insert(0, {str(Path(__file__).parent)!r})
            import killed
            numbers = killed.texts({turn % 2 * ROWS})
            numbers.save_tfrecord('s.tfrecord', shards={SHARDS}, overwrite=True)
        """
        old = marked()
        process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
        while process.poll() is None and marked() in (0, old):
            pass
        time.sleep(turn % 4 * 0.001)
        process.kill()
        process.wait(60)
        left = shards_left(tmp_path)
        if left == "refused" and turn > 3:
            break
    assert left == "refused"
    # Whoever saves it next needs no leave to do so, and may choose another number of files.
    texts(0).save_tfrecord(tmp_path / "s.tfrecord", shards=3)
    assert shards_left(tmp_path) == "whole"
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
