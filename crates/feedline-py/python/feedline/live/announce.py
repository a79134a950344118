"""Lets `feedline top` and `feedline dash` find a process: a file that only its user can read.

It has the process's number as its name, and holds address and token as JSON. It lies in `feedline` of the
user's runtime folder, or else in a folder of the user's own among the temporary files.
"""

from __future__ import annotations

import atexit
import json
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

from .. import _native

__all__ = ["announce", "folder", "withdraw"]


def folder() -> Path:
    """Where such files lie."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "feedline"
    return Path(tempfile.gettempdir()) / f"feedline-{os.getuid()}"


def announce(host: str, port: int, token: str) -> Path:
    """Writes the file of this process, whole or not at all; it goes with the process."""
    home = folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = home.lstat()
    # Among temporary files somebody else may have made it, to read or to change what we write.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{home} is not a folder of this user alone (mode 0700); remove it, or set XDG_RUNTIME_DIR "
            "to one that is"
        )
    pid = os.getpid()
    content = {
        "pid": pid,
        "host": host,
        "port": port,
        "token": token,
        "program": " ".join(sys.argv) or "python",
        "started": time.time(),
        "version": _native.__version__,
    }
    path, draft = home / f"{pid}.json", home / f".{pid}.draft"
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)
    draft.replace(path)
    atexit.register(withdraw, path, pid)
    return path


def withdraw(path: Path, pid: int) -> None:
    """Removes the file; the child of a fork leaves it to its parent."""
    if os.getpid() == pid:
        path.unlink(missing_ok=True)
