"""Names of files: one, several, patterns and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from . import _native
from .params import naming

__all__ = ["expanded"]


def expanded(op: str, files: Any, suffixes: Sequence[str]) -> list[str]:
    """The files that are meant, in order: a folder stands for those in it that end like this, sorted.

    Raises:
        TypeError: Something is no path.
        ValueError: There is no file at all.
        FileNotFoundError: A pattern or a folder has no such file.
    """
    given = [files] if isinstance(files, (str, bytes, os.PathLike)) else files
    if not isinstance(given, Iterable):
        raise TypeError(f"{op}: files must be a path or a list of paths, not {files!r}")
    names = [name for path in given for name in _of(op, path, suffixes)]
    if not names:
        raise ValueError(f"{op}: no files were given")
    return names


def _of(op: str, path: Any, suffixes: Sequence[str]) -> list[str]:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{op}: {path!r} is no path")
    name = os.fsdecode(path)
    folder = name.removeprefix("file://")
    if os.path.isdir(folder):
        found = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(tuple(suffixes)))
        if not found:
            raise FileNotFoundError(f"{op}: no file in {name} ends with {' or '.join(suffixes)}")
        return found
    with naming(op):
        return _native.expand_files([name])
