"""Disks that are full, permissions that are taken away and mounts that vanish are errors that name the stage
and the file. Nothing hangs, no element is lost in silence, nothing half is taken for whole; when the fault is
over, all is well. faults.py has the processes to which it happens.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import faults
import killed
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions and mounts of Unix")

ALL = list(range(faults.FILES * faults.RECORDS))
LIMIT = 120
"""Seconds after which a process counts as hanging."""


def befallen(folder: Path, *words: str) -> tuple[dict[str, Any], str]:
    """What a process tells to which it happened, and what it wrote before."""
    command = [sys.executable, faults.__file__, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    return json.loads(last), "\n".join([*said, done.stderr])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that programs read."""
    folder = tmp_path_factory.mktemp("inputs")
    killed.write_inputs(folder)
    return folder


STAGES = {
    "cache": "cache",
    "spill": "cache",
    "snapshot": "snapshot",
    "sharded": "snapshot",
    "save": "save",
    "save_parquet": "save",
}
NO_ROOM = ("No space left", "too large")
"""What the system says, by the way in which there is no room."""


@pytest.mark.parametrize("name", STAGES)
def test_a_full_disk_is_an_error_that_names_the_stage(name: str, tmp_path: Path) -> None:
    """And the file; nothing is left that counts as whole, and where there is room again it is written."""
    found, _ = befallen(tmp_path, "full", name)
    assert found["system"], found
    assert found["text"].startswith(f"{STAGES[name]}: ") and found["folder"] in found["text"]
    assert any(why in found["text"] for why in NO_ROOM)
    assert found["left"] == "nothing" and not [x for x in found["names"] if x.endswith((".tmp", ".part"))]
    kind = killed.KINDS[name]
    (tmp_path / "roomy").mkdir()
    assert not isinstance(kind.run, list)
    assert found["again"] == kind.run(tmp_path / "roomy")
    assert found["left_again"] == kind.left(tmp_path / "roomy")


@pytest.mark.parametrize("name", ["cache", "spill", "snapshot", "sharded"])
def test_a_full_disk_is_not_left_out_with_elements_that_fail(name: str, tmp_path: Path) -> None:
    """The pass cannot go on behind it: who leaves out what fails hears of it, or gets all elements."""
    found, _ = befallen(tmp_path, "full_and_ignored", name)
    for policy, outcome in found.items():
        if "numbers" in outcome:
            assert outcome["numbers"] == list(range(killed.ROWS)), policy
        else:
            assert outcome["system"] and outcome["text"].startswith(f"{STAGES[name]}: "), outcome


@pytest.mark.parametrize("name", ["convert_command", "convert_to_shards"])
def test_a_conversion_to_a_full_disk_names_the_file(name: str, inputs: Path, tmp_path: Path) -> None:
    """It ends with an error, and leaves no file that it was to write."""
    (tmp_path / "examples.bin").write_bytes((inputs / "examples.bin").read_bytes())
    found, said = befallen(tmp_path, "full", name)
    stem = "out.jsonl" if name == "convert_command" else "e-000"
    assert found["gave"] == 1 and found["left"] == "nothing"
    assert "feedline: save: " in said and stem in said and any(why in said for why in NO_ROOM), said
    assert set(found["names"]) <= {"examples.bin", "filler"}
    assert (found["again"], found["left_again"]) == (0, "whole")


@pytest.mark.parametrize("name", ["index", "tar_index", "index_command"])
def test_an_index_for_which_there_is_no_room_is_not_kept(name: str, inputs: Path, tmp_path: Path) -> None:
    """Records are found by number all the same; only the command, which is there to keep them, fails."""
    kind = killed.KINDS[name]
    for path in inputs.glob(kind.inputs):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found, said = befallen(tmp_path, "full", name)
    assert found["left"] == "nothing" and not [x for x in found["names"] if "flidx" in x], found["names"]
    if name == "index_command":
        assert found["gave"] == 1
        assert (
            "its index could not be kept anywhere" in said
            and "00.tfrecord" in said
            and any(why in said for why in NO_ROOM)
        ), said
    else:
        assert found["gave"] == found["again"]
    assert found["left_again"] == "whole"


def accounted(first: dict[str, Any], stage: str, words: str) -> None:
    """Each file was read whole, or there is one error that names it."""
    numbers, errors = first["numbers"], first["errors"]
    assert errors, "the fault came too late"
    missing = [k for k in range(faults.FILES) if k * faults.RECORDS not in set(numbers)]
    assert sorted(set(ALL) - set(numbers)) == [
        n for k in missing for n in range(k * faults.RECORDS, (k + 1) * faults.RECORDS)
    ]
    assert len(set(numbers)) == len(numbers) and len(errors) == len(missing)
    for k, error in zip(missing, errors, strict=True):
        assert error["system"], error
        assert error["text"].startswith(f"{stage}: ") and f"{k:02}.tfrecord" in error["text"], error
        assert words in error["text"], error


@pytest.mark.parametrize("name", ["files", "flat_map", "interleave", "interleave_ahead", "list_files"])
def test_files_that_may_not_be_opened_any_more(name: str, tmp_path: Path) -> None:
    """In the middle of a pass: an error for each of them, in its place. When they may, all come."""
    found, _ = befallen(tmp_path, "revoked_files", name)
    accounted(found["first"], "tf_record", "Permission denied")
    assert sorted(found["second"]["numbers"]) == ALL and not found["second"]["errors"]


@pytest.mark.parametrize("mode", ["0", "500"])
@pytest.mark.parametrize("name", ["cache", "snapshot", "sharded", "save"])
def test_a_folder_that_may_not_be_written_any_more(name: str, mode: str, tmp_path: Path) -> None:
    """The error names operator and folder; elements before it are right; what was begun is no set."""
    found, _ = befallen(tmp_path, "revoked_folder", name, mode)
    first, second = found["first"], found["second"]
    stage = "snapshot" if name == "sharded" else name
    (error,) = first["errors"]
    assert error["system"] and error["text"].startswith(f"{stage}: ") and found["folder"] in error["text"], (
        error
    )
    assert "Permission denied" in error["text"]
    assert first["numbers"] == list(range(len(first["numbers"])))
    assert not found["left"]
    assert (second["numbers"], second["errors"]) == (list(range(3000)), [])
    assert not found["unfinished"]


@pytest.mark.parametrize("name", ["files", "flat_map", "interleave", "interleave_ahead", "list_files"])
def test_a_mount_that_vanishes_between_files(name: str, tmp_path: Path) -> None:
    """An error for each file that was not open by then."""
    found, _ = befallen(tmp_path, "vanished", name)
    accounted(found["first"], "tf_record", "no such file")
    second = found["second"]
    assert not second["numbers"] and second["errors"]
    for error in second["errors"]:
        if name == "list_files":
            assert error["text"].startswith("list_files: no file matches"), error
        else:
            assert error["system"] and error["text"].startswith("tf_record: there is no such file"), error


@pytest.mark.parametrize("name", ["by_number", "parquet", "load"])
def test_a_mount_that_vanishes_under_open_files(name: str, tmp_path: Path) -> None:
    """All files are open from the start, so all elements come; another pipeline says what is not there."""
    found, _ = befallen(tmp_path, "vanished", name)
    first, second = found["first"], found["second"]
    assert first["errors"] or sorted(first["numbers"]) == ALL
    assert second["errors"] and not second["numbers"]
    stage = {"by_number": "tf_record", "parquet": "parquet", "load": "load"}[name]
    for error in [*first["errors"], *second["errors"]]:
        assert error["system"] and error["text"].startswith(f"{stage}: "), error
        assert str(tmp_path / "mount") in error["text"], error
