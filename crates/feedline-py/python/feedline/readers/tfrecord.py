"""TFRecord files."""

from __future__ import annotations

from typing import Any

from ..dataset import Dataset
from ..params import check_name, on_error as checked_on_error, optional_integer
from .files import Files, compression, read_files

__all__ = ["TFRecordDataset"]


def TFRecordDataset(
    filenames: Files,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
    *,
    index: bool = False,
    verify_checksums: bool = True,
    on_error: str | None = None,
) -> Dataset:
    """The records of TFRecord files, as byte strings.

    >>> import feedline as fl
    >>> with fl.io.TFRecordWriter("words.tfrecord") as writer:
    ...     for word in [b"one", b"two"]:
    ...         writer.write(word)
    >>> list(fl.TFRecordDataset("words.tfrecord").as_numpy_iterator())
    [b'one', b'two']

    Args:
        filenames: A path, a list of paths, or a dataset of paths.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        buffer_size: Bytes of one read; by default what suits where the file lies.
        num_parallel_reads: Read that many files at once, a record of each in turn; `fl.AUTOTUNE` lets the
            runtime choose. By default one file after the other.
        name: A name for the operator, an identifier.
        index: Find all records first (the index is kept beside the file), so that `len`, `ds[i]` and
            `shuffle()` over all records work. Not for compressed files. A file with a damaged length or a cut
            end is refused unless `on_error` here says to go on; then its whole records have numbers.
        verify_checksums: Compare the checksum of each record's data.
        on_error: "raise": a damaged record is a `DataLossError` in its place, and the rest of its file is
            given up, as in tf.data. "skip" and "quarantine" count it and go on behind it. None follows the
            options.

    Raises:
        ValueError: An unknown compression, or an index of compressed files.
    """
    check_name("TFRecordDataset", name)
    if index and num_parallel_reads is not None:
        raise ValueError(
            "TFRecordDataset: with index=True records are reached by number, in the order of the files; "
            "leave num_parallel_reads out (reading is parallel anyway)"
        )
    params = {
        "compression_type": compression("TFRecordDataset", compression_type),
        "buffer_size": optional_integer("TFRecordDataset", "buffer_size", buffer_size),
        "check": bool(verify_checksums),
        "on_error": checked_on_error("TFRecordDataset", on_error),
        "index": bool(index),
    }

    def make(files: Any) -> Dataset:
        return Dataset._make("tf_record", {"files": files, **params})

    return read_files("TFRecordDataset", filenames, num_parallel_reads, make)
