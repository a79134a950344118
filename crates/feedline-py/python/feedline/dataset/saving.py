"""Methods that write a dataset to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import _native
from .core import INFINITE_CARDINALITY
from .terminals import Terminals


class Saving(Terminals):
    """Methods of `Dataset` that write it."""

    __slots__ = ()

    def save_parquet(
        self,
        path: str | os.PathLike[str],
        shards: int | None = None,
        compression: str | None = "snappy",
        row_group_rows: int = 65_536,
        binary: bool | Sequence[str] = False,
    ) -> int:
        """Writes all elements to a Parquet file, or to several.

        A component is a column: of a dict by its key, of a tuple by its number, a single one is `value`. Axes of
        known size become fixed-size lists, others lists. Files appear under their names when all of them are
        complete: a run that breaks off leaves none.

        Args:
            path: The file; with `shards`, a folder.
            shards: So many files in the folder, `part-00000-of-00004.parquet` and so on. Each has a part of the
                order if the number of elements is known; if not, they take turns.
            compression: "snappy", "zstd", "gzip", "lz4", "brotli" or None.
            row_group_rows: Rows of a row group: what a reader decodes together.
            binary: Strings are written as text (UTF-8). True writes all as bytes, a list these columns.

        Returns:
            The number of elements.

        Raises:
            ValueError: The dataset is endless, or a component has no place in a table.
            DataError: A string is not text, or an element has another shape than the spec says.
        """
        options = {
            "compression": compression or "none",
            "row_group_rows": _positive("save_parquet", "row_group_rows", row_group_rows),
            "binary": _binary("save_parquet", binary),
        }
        return self._save("save_parquet", path, {"format": "parquet", **options}, shards)

    def save_arrow(
        self,
        path: str | os.PathLike[str],
        shards: int | None = None,
        compression: str | None = None,
        batch_rows: int = 4096,
        binary: bool | Sequence[str] = False,
    ) -> int:
        """Writes all elements to an Arrow file (Feather version 2), or to several.

        Args:
            path: The file; with `shards`, a folder.
            shards: See `save_parquet`.
            compression: "lz4", "zstd" or None. Without it, rows can be read one by one.
            batch_rows: Rows of a record batch.
            binary: See `save_parquet`.

        Returns:
            The number of elements.
        """
        options = {
            "compression": compression or "none",
            "batch_rows": _positive("save_arrow", "batch_rows", batch_rows),
            "binary": _binary("save_arrow", binary),
        }
        return self._save("save_arrow", path, {"format": "arrow", **options}, shards)

    def save_npy(self, path: str | os.PathLike[str]) -> int:
        """Writes all elements to an .npy file, or to an .npz file if they have several components.

        All elements must have one shape, which the spec must say.

        Returns:
            The number of elements.
        """
        return self._save("save_npy", path, {"format": "npy"}, None)

    def _save(self, op: str, path: Any, options: dict[str, Any], shards: Any) -> int:
        self._need_values(op)
        if self._plan.cardinality == INFINITE_CARDINALITY:
            raise ValueError(f"{op}: the dataset is endless; cut it with .take(n)")
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"{op}: path must be a path, not {path!r}")
        if shards is not None:
            shards = _positive(op, "shards", shards)
        return _native.save(self._plan, os.fspath(path), options, shards)


def _positive(op: str, parameter: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{op}: {parameter} must be a whole number, not {value!r}")
    number = int(value.__index__())
    if number < 1:
        raise ValueError(f"{op}: {parameter} must be at least 1, not {number}")
    return number


def _binary(op: str, binary: Any) -> Any:
    if isinstance(binary, bool):
        return binary
    if isinstance(binary, str) or not all(isinstance(column, str) for column in binary):
        raise TypeError(f"{op}: binary must be a bool or a list of columns, not {binary!r}")
    return list(binary)
