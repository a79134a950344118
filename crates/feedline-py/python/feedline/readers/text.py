"""Text files, line by line."""

from __future__ import annotations

from typing import Any

from ..dataset import Dataset
from ..params import check_name, optional_integer
from .files import Files, compression, read_files

__all__ = ["TextLineDataset"]


def TextLineDataset(
    filenames: Files,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    r"""The lines of text files, as byte strings without their line ends.

    Blank lines are elements, and so is a last line without a newline. Every carriage return is removed, also
    inside a line, as tf.data does it; other bytes pass unchanged.

    >>> import feedline as fl
    >>> _ = open("poem.txt", "w").write("roses\nviolets\n")
    >>> list(fl.TextLineDataset("poem.txt").as_numpy_iterator())
    [b'roses', b'violets']

    Args:
        filenames: A path, a list of paths, or a dataset of paths.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        buffer_size: Bytes of one read; by default what suits where the file lies.
        num_parallel_reads: Read that many files at once, a line of each in turn; `fl.AUTOTUNE` lets the
            runtime choose. By default one file after the other.
        name: A name for the operator, an identifier.
    """
    check_name("TextLineDataset", name)
    params = {
        "compression_type": compression("TextLineDataset", compression_type),
        "buffer_size": optional_integer("TextLineDataset", "buffer_size", buffer_size),
    }

    def make(files: Any) -> Dataset:
        return Dataset._make("text_line", {"files": files, **params})

    return read_files("TextLineDataset", filenames, num_parallel_reads, make)
