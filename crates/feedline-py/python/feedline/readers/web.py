"""Tar files of samples, as the `webdataset` package lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dataset import Dataset
from ..params import check_name, on_error as checked_on_error, optional_integer
from .files import Files, compression, read_files

__all__ = ["WebDataset"]


def WebDataset(
    filenames: Files,
    fields: Sequence[str] | None = None,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    url: bool = False,
    index: bool = False,
    on_error: str | None = None,
) -> Dataset:
    """Samples in tar files, as dictionaries of byte strings.

    Members that follow each other and share a key (the path up to the first dot of its last part) are one
    sample; what is behind the dot names the field, in lower case. Only regular files count: links are not
    followed.

    >>> import feedline as fl
    >>> ds = fl.Dataset.from_tensor_slices({"__key__": ["a", "b"], "txt": ["one", "two"], "cls": [1, 2]})
    >>> _ = ds.save_tar("samples.tar")
    >>> next(iter(fl.WebDataset("samples.tar")))
    {'__key__': b'a', 'txt': b'one', 'cls': b'1'}

    Args:
        filenames: A path, a list of paths, or a dataset of paths.
        fields: The extensions that are wanted; "jpg;jpeg;png" takes the first that is there, under the name
            of the first. By default those of the first sample.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        buffer_size: Bytes of one read; by default what suits where the file lies.
        num_parallel_reads: Read that many files at once, a sample of each in turn; `fl.AUTOTUNE` lets the
            runtime choose. By default one file after the other.
        name: A name for the operator, an identifier.
        url: Add the field `__url__`, the name of the file.
        index: Find all samples first, so that `len`, `ds[i]` and `shuffle()` over all of them work. Where
            they lie is kept beside each file (`NAME.flidx`), or in the cache folder where that cannot be
            written, and used as long as the file does not change. Not for compressed files.
        on_error: What becomes of damaged and incomplete samples: "raise", "skip" or "quarantine". None
            follows the options.

    Raises:
        ValueError: Fields that cannot be, no sample to learn them from, or an index of compressed files.
    """
    op = "WebDataset"
    check_name(op, name)
    if index and num_parallel_reads is not None:
        raise ValueError(f"{op}: with index=True samples are reached by number; leave num_parallel_reads out")
    if fields is None and (num_parallel_reads is not None or isinstance(filenames, Dataset)):
        raise ValueError(f"{op}: say which fields are wanted to read files of a dataset or several at once")
    params = {
        "fields": None if fields is None else [str(field) for field in fields],
        "url": bool(url),
        "compression_type": compression(op, compression_type),
        "buffer_size": optional_integer(op, "buffer_size", buffer_size),
        "on_error": checked_on_error(op, on_error),
        "index": bool(index),
    }

    def make(files: Any) -> Dataset:
        return Dataset._make("web_dataset", {"files": files, **params})

    return read_files(op, filenames, num_parallel_reads, make)
