"""All elements into files, a method a format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .. import _native
from .core import Core


@dataclass(frozen=True)
class Saved:
    """What was written."""

    files: list[str]
    """The files, in the order of their numbers."""
    elements: int
    """Elements in all of them."""
    bytes: int
    """Their size in all."""


class Saving(Core):
    """Methods of `Dataset` that write files.

    A pass is dealt out to the shards: element i goes to file i modulo their number. Files get their names
    when all of them are whole; a pass that fails leaves nothing.
    """

    __slots__ = ()

    def _save(
        self, format: str, path: str | os.PathLike[str], shards: int | None, overwrite: bool, **options: Any
    ) -> Saved:
        given = {key: value for key, value in options.items() if value is not None}
        saved = _native.save_dataset(self._plan, format, os.fsdecode(path), shards, bool(overwrite), given)
        return Saved(**saved)

    def save_tfrecord(
        self,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        compression_type: str | None = None,
        compression_level: int | None = None,
        overwrite: bool = False,
    ) -> Saved:
        """Writes byte strings as TFRecord files.

        >>> import feedline as fl
        >>> saved = fl.Dataset.from_tensor_slices([b"a", b"b", b"c"]).save_tfrecord("abc.tfrecord", shards=2)
        >>> saved.files
        ['abc-00000-of-00002.tfrecord', 'abc-00001-of-00002.tfrecord']

        Args:
            path: The file; with shards, numbers are put in front of its ending.
            shards: How many files; by default one, under that very name.
            compression_type: "", "GZIP", "ZLIB" or "ZSTD".
            compression_level: 0 to 9, for ZSTD 1 to 22.
            overwrite: Replace files that exist already.
        """
        return self._save(
            "tf_record",
            path,
            shards,
            overwrite,
            compression_type=compression_type,
            compression_level=compression_level,
        )
