"""Names of files: one, several, patterns and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from . import _native
from .params import naming

__all__ = ["expanded", "path_text"]


def path_text(op: str, path: str | bytes | os.PathLike[Any]) -> str:
    """A path as text.

    Raises:
        ValueError: It is not UTF-8: names travel as text, and a changed one could not be opened.
    """
    name = os.fsdecode(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{op}: the path {path!r} is not UTF-8; names of files must be: rename it") from None
    return name


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
    names = []
    for path in given:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise TypeError(f"{op}: {path!r} is no path")
        names.append(path_text(op, path))
    if not names:
        raise ValueError(f"{op}: no files were given")
    with naming(op):
        return _native.expand_files(names, suffixes)
