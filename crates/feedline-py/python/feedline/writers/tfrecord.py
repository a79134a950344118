"""TFRecord files, record by record."""

from __future__ import annotations

import os
import warnings
from types import TracebackType
from typing import Any

from .. import _native
from ..paths import path_text

__all__ = ["TFRecordOptions", "TFRecordWriter"]


class TFRecordOptions:
    """How a TFRecord file is written.

    Args:
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        compression_level: 0 to 9, for ZSTD 1 to 22; by default what the format has as its default.
        ignored: What else TensorFlow's class takes, which changes no byte that is read.
    """

    __slots__ = ("compression_level", "compression_type")

    def __init__(
        self, compression_type: str | None = None, compression_level: int | None = None, **ignored: Any
    ) -> None:
        unknown = set(ignored) - {
            "flush_mode",
            "input_buffer_size",
            "output_buffer_size",
            "window_bits",
            "compression_method",
            "mem_level",
            "compression_strategy",
        }
        if unknown:
            raise TypeError(f"TFRecordOptions has no {', '.join(sorted(unknown))}")
        self.compression_type = compression_type or ""
        self.compression_level = compression_level


class TFRecordWriter:
    r"""Writes a TFRecord file.

    The file has its name only when it is closed: a program that breaks off leaves no half file. Used as a
    context, an exception inside leaves nothing. One that is let go of without `close` leaves nothing either,
    with a `ResourceWarning`.

    >>> import feedline as fl
    >>> with fl.io.TFRecordWriter("numbers.tfrecord") as writer:
    ...     for i in range(3):
    ...         writer.write(bytes([i]))
    >>> list(fl.TFRecordDataset("numbers.tfrecord").as_numpy_iterator())
    [b'\x00', b'\x01', b'\x02']

    Args:
        path: The file.
        options: `TFRecordOptions`, or the name of a compression.
    """

    __slots__ = ("_native", "_path")

    def __init__(self, path: str | os.PathLike[str], options: TFRecordOptions | str | None = None) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._path = path_text("TFRecordWriter", path)
        self._native = _native.RecordWriter(self._path, options.compression_type, options.compression_level)

    def write(self, record: bytes | str) -> None:
        """One record; text is written as UTF-8."""
        if isinstance(record, str):
            record = record.encode()
        if not isinstance(record, (bytes, bytearray, memoryview)):
            raise TypeError(f"a record is a byte string, not {type(record).__name__}; serialise it first")
        self._native.write(bytes(record))

    def flush(self) -> None:
        """Hands what was written to the operating system."""
        self._native.flush()

    def close(self) -> None:
        """Ends the file and gives it its name."""
        self._native.close()

    # The name is bound here: while Python ends, modules may be gone.
    def __del__(self, _warn: Any = warnings.warn) -> None:
        writer = getattr(self, "_native", None)
        if writer is not None and not writer.closed:
            writer.discard()
            what = f"TFRecordWriter({self._path!r}) was not closed"
            advice = "what it wrote is gone; use it in a `with` statement, or call close"
            _warn(f"{what}: {advice}", ResourceWarning, stacklevel=2, source=self)

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._native.discard()
