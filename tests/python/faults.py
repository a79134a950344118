"""What can befall files while a pipeline uses them, done to a process of its own (test_faults.py): a disk is
full, permissions are taken away, a mount vanishes. Prints JSON.

    python faults.py FAULT NAME

The working folder has the files. Where mounts are not allowed, a limit on the size of files stands for a full
disk, and another name of the folder for a mount that is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NAMES, NEW_USERS = 0x0002_0000, 0x1000_0000
PRIVATE, DETACH = 0x4_4000, 2


def mounts_are_private() -> bool:
    """Whether this process may mount from now on, seen by nobody else. Before there is any other thread."""
    user, group = os.getuid(), os.getgid()
    try:
        if LIBC.unshare(NEW_NAMES) != 0:
            # Not root, but perhaps in a world of its own.
            if LIBC.unshare(NEW_NAMES | NEW_USERS) != 0:
                return False
            for name, text in {
                "setgroups": "deny",
                "uid_map": f"0 {user} 1",
                "gid_map": f"0 {group} 1",
            }.items():
                Path("/proc/self", name).write_text(text)
        return LIBC.mount(b"none", b"/", None, PRIVATE, None) == 0
    except (AttributeError, OSError):
        return False


def mounted(folder: Path, size: int) -> bool:
    """Whether there is a file system of so many bytes now."""
    folder.mkdir()
    return LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=%d" % size) == 0


def obey_permissions() -> None:
    """Root may open everything. This thread, and those that it starts, give up the right to."""
    head, rights = (ctypes.c_uint32 * 2)(0x2008_0522, 0), (ctypes.c_uint32 * 6)()
    with contextlib.suppress(AttributeError):
        assert LIBC.capget(head, rights) == 0
        # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of those that are in effect.
        rights[0] &= ~0b110
        assert LIBC.capset(head, rights) == 0
    with open("mine", "w"):
        os.chmod("mine", 0)
    with contextlib.suppress(PermissionError), open("mine"):
        raise AssertionError("permissions do not count for this process")


class SmallDisk:
    """A folder on a disk with little room."""

    def __init__(self, folder: Path, is_mounted: bool) -> None:
        self.folder = folder
        self.filler = folder / "filler"
        self.is_mounted = is_mounted and mounted(folder, 96 << 20)
        folder.mkdir(exist_ok=True)

    def leave(self, room: int) -> None:
        """So many bytes can be written from now on; of one file, where it is a limit."""
        if self.is_mounted:
            free = os.statvfs(self.folder)
            with open(self.filler, "wb") as out:
                os.posix_fallocate(out.fileno(), 0, free.f_bavail * free.f_bsize - room)
        else:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    def make_room(self) -> None:
        """As if somebody had removed something."""
        self.filler.unlink(missing_ok=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def told(error: Exception) -> dict[str, Any]:
    """What an error says, and whether it is one of the system."""
    return {"system": isinstance(error, OSError), "text": str(error)}


def full(name: str) -> dict[str, Any]:
    """One of the programs of killed.py on a disk that is full, and when there is room again."""
    disk = SmallDisk(Path("disk").absolute(), mounts_are_private())
    os.environ |= {"TMPDIR": str(disk.folder), "FEEDLINE_INDEX_DIR": str(disk.folder / "indexes")}
    import killed
    from feedline.cli import main

    kind = killed.KINDS[name]
    for path in Path().glob(kind.inputs) if kind.inputs else ():
        shutil.copyfile(path, disk.folder / path.name)

    def run() -> Any:
        os.chdir(disk.folder)
        return main(kind.run) if isinstance(kind.run, list) else kind.run(disk.folder)

    found: dict[str, Any] = {"is_mounted": disk.is_mounted, "folder": str(disk.folder)}
    disk.leave(ROOM.get(name, 1 << 20))
    try:
        found["gave"] = run()
    except Exception as error:
        found |= told(error)
    found["left"] = kind.left(disk.folder)
    found["names"] = [str(path.relative_to(disk.folder)) for path in disk.folder.rglob("*") if path.is_file()]
    disk.make_room()
    return {**found, "again": run(), "left_again": kind.left(disk.folder)}


ROOM = {"index": 100 << 10, "index_command": 100 << 10, "tar_index": 8 << 10, "convert_to_shards": 8 << 10}
"""For those that write small files."""


def full_and_ignored(name: str) -> dict[str, Any]:
    """A full disk is no element that could be left out: what comes of policies that leave errors out."""
    disk = SmallDisk(Path("disk").absolute(), mounts_are_private())
    os.environ["TMPDIR"] = str(disk.folder)
    import killed

    rows = killed.rows()
    ds = {
        "cache": lambda: rows.cache(disk.folder / "c"),
        "spill": lambda: rows.cache(on_full="spill").with_options(memory_limit="4MB"),
        "snapshot": lambda: rows.snapshot(disk.folder / "s"),
        "sharded": lambda: rows.snapshot(disk.folder / "n", shard_func=lambda row: row["n"] % 2),
    }[name]()
    disk.leave(1 << 20)
    found: dict[str, Any] = {}
    for policy, lenient in {
        "operator": ds.ignore_errors(),
        "option": ds.with_options(on_error="skip"),
    }.items():
        numbers: list[int] = []
        try:
            numbers.extend(int(row["n"]) for row in lenient)
            found[policy] = {"numbers": numbers}
        except Exception as error:
            found[policy] = told(error)
    return found


FILES, RECORDS = 40, 200


def write_files(folder: Path) -> None:
    """Records and rows with their numbers, and a set of as many shards."""
    import feedline as fl

    folder.mkdir(exist_ok=True)
    fl.Dataset.range(FILES * RECORDS).map(lambda n: {"n": n, "row": fl.fill([500], n)}).save(
        folder / "set", shard_func=lambda row: row["n"] // RECORDS
    )
    for k in range(FILES):
        with fl.io.TFRecordWriter(str(folder / f"{k:02}.tfrecord")) as out:
            for i in range(RECORDS):
                out.write(b"%06d" % (k * RECORDS + i) + bytes(2000))
        rows = fl.Dataset.range(k * RECORDS, (k + 1) * RECORDS).map(lambda n: {"n": n})
        rows.save_parquet(folder / f"{k:02}.parquet")


def readers(folder: Path) -> dict[str, Callable[[], Any]]:
    """Ways to read them, each to numbers."""
    import feedline as fl

    records, tables = (
        [str(folder / f"{k:02}.{end}") for k in range(FILES)] for end in ("tfrecord", "parquet")
    )

    def numbers(ds: Any) -> Any:
        return ds.map(lambda record: fl.strings.to_number(fl.strings.substr(record, 0, 6), fl.int64))

    def names() -> Any:
        return fl.Dataset.from_tensor_slices(records)

    def interleaved(calls: int | None) -> Any:
        return names().interleave(fl.TFRecordDataset, cycle_length=3, num_parallel_calls=calls)

    return {
        "files": lambda: numbers(fl.TFRecordDataset(records)),
        "flat_map": lambda: numbers(names().flat_map(fl.TFRecordDataset)),
        "interleave": lambda: numbers(interleaved(None)),
        "interleave_ahead": lambda: numbers(interleaved(fl.AUTOTUNE)),
        "list_files": lambda: numbers(
            fl.Dataset.list_files(str(folder / "*.tfrecord"), shuffle=False).flat_map(fl.TFRecordDataset)
        ),
        "by_number": lambda: numbers(fl.TFRecordDataset(records, index=True).shuffle(1000, seed=1)),
        "parquet": lambda: fl.ParquetDataset(tables).map(lambda row: row["n"]),
        "load": lambda: fl.Dataset.load(folder / "set").map(lambda row: row["n"]),
    }


def passed(ds: Any, then: Callable[[], None]) -> dict[str, Any]:
    """The numbers of a pass and its errors; something befalls it after some of them.

    Few lie ready: whoever is late would find that all had been read before.
    """
    numbers: list[int] = []
    errors: list[dict[str, Any]] = []
    iterator = iter(ds.prefetch(100))
    while len(errors) <= FILES:
        try:
            numbers.append(int(next(iterator)))
        except StopIteration:
            break
        except Exception as error:
            errors.append({**told(error), "after": len(numbers)})
        if len(numbers) == 60:
            then()
    return {"numbers": numbers, "errors": errors}


def vanished(name: str) -> dict[str, Any]:
    """The mount goes in the middle of a pass; then there is a pass of another pipeline like it."""
    folder = Path("mount").absolute()
    is_mounted = mounts_are_private() and mounted(folder, 96 << 20)
    write_files(folder)
    ds = readers(folder)[name]()

    def vanish() -> None:
        if is_mounted:
            assert LIBC.umount2(os.fsencode(folder), DETACH) == 0
        else:
            folder.rename("away")
            folder.mkdir()

    first = passed(ds, vanish)
    try:
        second = passed(readers(folder)[name](), lambda: None)
    except Exception as error:
        second = {"numbers": [], "errors": [told(error)]}
    return {"is_mounted": is_mounted, "first": first, "second": second}


def folders_of(top: Path) -> Iterator[Path]:
    """A folder and those in it, the innermost first."""
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)


def allow(top: Path) -> None:
    """What was forbidden, from the outermost folder on."""
    top.chmod(0o755)
    for folder, names, _ in os.walk(top):
        for name in names:
            Path(folder, name).chmod(0o755)


def revoked_files(name: str) -> dict[str, Any]:
    """No file can be opened any more, in the middle of a pass; then they can."""
    folder = Path("files").absolute()
    write_files(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    ds = readers(folder)[name]()
    first = passed(ds, lambda: [path.chmod(0) for path in files] and None)
    for path in files:
        path.chmod(0o644)
    return {"first": first, "second": passed(ds, lambda: None)}


def revoked_folder(name: str, mode: str) -> dict[str, Any]:
    """Nothing can be written any more in the folder of a cache, a snapshot or a saved set; then it can."""
    import feedline as fl
    import killed

    folder = Path("folder").absolute()

    def revoke() -> None:
        for some in list(folders_of(folder)):
            some.chmod(int(mode, 8))

    def save() -> fl.Dataset:
        """Reads what it saved; a function revokes in the middle."""

        def number(n: int) -> int:
            if n == 2500 and "mine" in os.listdir():
                revoke()
            return n

        numbers = fl.Dataset.range(3000).map(
            number, python=True, output_signature=fl.TensorSpec((), fl.int64)
        )
        numbers.map(lambda n: {"n": n, "row": fl.fill([1024], n)}).save(folder)
        return fl.Dataset.load(folder)

    def made() -> fl.Dataset:
        if name == "save":
            return save()
        if name == "cache":
            return killed.rows().cache(folder)
        by = {"shard_func": lambda row: row["n"] % 2} if name == "sharded" else {}
        return killed.rows().snapshot(folder, **by)

    try:
        first = passed(made().map(lambda row: row["n"]).with_options(memory_limit="16MB"), revoke)
    except Exception as error:
        first = {"numbers": [], "errors": [told(error)]}
    allow(folder)
    left = [path.name for path in folder.rglob("dataset.json")]
    os.unlink("mine")
    second = passed(made().map(lambda row: row["n"]), lambda: None)
    unfinished = [
        str(path) for path in folder.rglob("*") if path.name.endswith((".tmp", ".part", "partial.json"))
    ]
    return {"folder": str(folder), "first": first, "left": left, "second": second, "unfinished": unfinished}


FAULTS: dict[str, Callable[..., dict[str, Any]]] = {
    "full": full,
    "full_and_ignored": full_and_ignored,
    "vanished": vanished,
    "revoked_files": revoked_files,
    "revoked_folder": revoked_folder,
}

if __name__ == "__main__":
    fault, *arguments = sys.argv[1:]
    if fault.startswith("revoked"):
        obey_permissions()
    result = FAULTS[fault](*arguments)
    print("\n" + json.dumps(result))
