"""Whole files."""

from __future__ import annotations

from typing import Any

from ..calls import call

__all__ = ["matching_files", "read_file"]


def read_file(filename: Any, name: str | None = None) -> Any:
    """The contents of a file, as a byte string.

    >>> import feedline as fl
    >>> _ = open("a.txt", "w").write("hello")
    >>> list(fl.Dataset.list_files("a.txt").map(fl.io.read_file).as_numpy_iterator())
    [b'hello']

    Args:
        filename: Its path or address.
        name: Not used.
    """
    return call("io.read_file", [filename])


def matching_files(pattern: Any, name: str | None = None) -> Any:
    """The names that match a pattern, or one of several, sorted.

    Args:
        pattern: A pattern or a vector of them; `*` does not go across `/`.
        name: Not used.
    """
    return call("io.matching_files", [pattern])
