"""Files of records of one length."""

from __future__ import annotations

from typing import Any

from ..dataset import Dataset
from ..params import check_name, integer, optional_integer
from .files import Files, compression, read_files

__all__ = ["FixedLengthRecordDataset"]


def FixedLengthRecordDataset(
    filenames: Files,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
    compression_type: str | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    index: bool = False,
) -> Dataset:
    """The records of files in which all have one length, as byte strings.

    >>> import feedline as fl
    >>> _ = open("digits.bin", "wb").write(b"#aabbcc")
    >>> list(fl.FixedLengthRecordDataset("digits.bin", 2, header_bytes=1).as_numpy_iterator())
    [b'aa', b'bb', b'cc']

    Args:
        filenames: A path, a list of paths, or a dataset of paths.
        record_bytes: The length of a record.
        header_bytes: Bytes to pass over at the beginning of each file.
        footer_bytes: Bytes to leave out at the end of each file.
        buffer_size: Bytes of one read; by default what suits where the file lies.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        num_parallel_reads: Read that many files at once, a record of each in turn; `fl.AUTOTUNE` lets the
            runtime choose. By default one file after the other.
        name: A name for the operator, an identifier.
        index: Ask for the sizes of all files first, so that `len`, `ds[i]` and `shuffle()` over all records
            work. Not for compressed files.

    Raises:
        ValueError: A length that cannot be, an unknown compression, or an index of compressed files.
    """
    op = "FixedLengthRecordDataset"
    check_name(op, name)
    if index and num_parallel_reads is not None:
        raise ValueError(f"{op}: with index=True records are reached by number; leave num_parallel_reads out")
    params = {
        "record_bytes": integer(op, "record_bytes", record_bytes),
        "header_bytes": 0 if header_bytes is None else integer(op, "header_bytes", header_bytes),
        "footer_bytes": 0 if footer_bytes is None else integer(op, "footer_bytes", footer_bytes),
        "compression_type": compression(op, compression_type),
        "buffer_size": optional_integer(op, "buffer_size", buffer_size),
        "index": bool(index),
    }

    def make(files: Any) -> Dataset:
        return Dataset._make("fixed_length_record", {"files": files, **params})

    return read_files(op, filenames, num_parallel_reads, make)
