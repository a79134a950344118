"""All elements into files, a method a format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _native, nest
from ..dtypes import int64
from ..params import integer, naming
from ..paths import path_text
from .core import Core

if TYPE_CHECKING:
    from typing_extensions import Self


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
        file = path_text(f"save_{format}", path)
        saved = _native.save_dataset(self._plan, format, file, shards, bool(overwrite), given)
        return Saved(**saved)

    def save(
        self,
        path: str | os.PathLike[str],
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> Saved:
        """Writes all elements into a folder, as they are, for `load`.

        The folder has Arrow files, which other tools open, and `dataset.json`, which says what the elements
        are, which files hold them, and the checksum of each block. It is written last: a process that is
        killed leaves what was there before. What is saved again replaces it.

        >>> import feedline as fl
        >>> fl.Dataset.range(3).map(lambda x: {"n": x, "list": fl.range(x)}).save("numbers").elements
        3
        >>> list(fl.Dataset.load("numbers").map(lambda e: e["list"]).as_numpy_iterator())
        [array([], dtype=int64), array([0]), array([0, 1])]

        Args:
            path: The folder, also of an object store.
            compression: None, "LZ4" or "ZSTD". "SNAPPY" and "AUTO" mean LZ4, "GZIP" means ZSTD: these two are
                what Arrow has. Without compression, elements are read in place.
            shard_func: Gives the number of each element's shard, from 0 to 511. By default there is one.
            checkpoint_args: Not offered: a run that was killed begins anew.

        Raises:
            ValueError: The dataset is endless, or an element cannot be saved (a dataset inside it).
            OSError: The folder cannot be written, or another process is saving there.
        """
        if checkpoint_args is not None:
            raise ValueError("save: checkpoint_args is not offered; a run that was killed begins anew")
        dataset: Any = self
        if shard_func is not None:
            from ..ops import cast

            number = shard_func
            if isinstance(self.element_spec, tuple):
                dataset = dataset.map(lambda *parts: (cast(number(*parts), int64), parts))
            else:
                dataset = dataset.map(lambda element: (cast(number(element), int64), element))
        saved = _native.save_set(
            dataset._plan, path_text("save", path), compression or "", shard_func is not None
        )
        return Saved(**saved)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
    ) -> Self:
        """The elements that `save` wrote, shard after shard.

        Each can be had by its number, and `shuffle()` needs no buffer.

        Args:
            path: The folder.
            element_spec: What the elements must be; known without it.
            compression: Known without it.
            reader_func: Gets a dataset of the shards, each a dataset, and gives one of elements: says in what
                order they are read.

        Raises:
            FileNotFoundError: Nothing was saved there.
            ValueError: The elements have another spec than `element_spec`.
            DataLossError: A file is cut off or damaged; raised when it is read.
        """
        folder = path_text("load", path)
        with naming("load"):
            whole = cls._make("load", {"path": folder})
        if element_spec is not None and element_spec != whole.element_spec:
            raise ValueError(f"load: the elements are {whole.element_spec}, not {element_spec}")
        if reader_func is None:
            return whole
        shards: Any = cls.range(_native.shards_of_set(folder))  # type: ignore[attr-defined]
        return reader_func(shards.map(lambda n: cls._make("load", {"path": folder, "shard": n})))  # type: ignore[no-any-return]

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

    def save_csv(
        self,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        header: bool | None = None,
        field_delim: str | None = None,
        compression_type: str | None = None,
        compression_level: int | None = None,
        overwrite: bool = False,
    ) -> Saved:
        """Writes rows of scalars as CSV files, quoted by RFC 4180 where they have to be.

        >>> import feedline as fl
        >>> saved = fl.Dataset.from_tensor_slices({"n": [1, 2], "t": ["a", "b,c"]}).save_csv("rows.csv")
        >>> print(open("rows.csv").read(), end="")
        n,t
        1,a
        2,"b,c"

        Args:
            path: The file; with shards, numbers are put in front of its ending.
            shards: How many files; by default one, under that very name.
            header: A line of names in front; by default if the elements are dictionaries.
            field_delim: What stands between fields, one character; by default a comma.
            compression_type: "", "GZIP", "ZLIB" or "ZSTD".
            compression_level: 0 to 9, for ZSTD 1 to 22.
            overwrite: Replace files that exist already.
        """
        return self._save(
            "csv",
            path,
            shards,
            overwrite,
            header=header,
            field_delim=field_delim,
            compression_type=compression_type,
            compression_level=compression_level,
        )

    def save_json_lines(
        self,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        compression_type: str | None = None,
        compression_level: int | None = None,
        overwrite: bool = False,
    ) -> Saved:
        """Writes dictionaries as JSON lines: an object a line, tensors as lists.

        >>> import feedline as fl
        >>> ds = fl.Dataset.from_tensor_slices({"n": [1, 2], "v": [[1.5], [2.5]]})
        >>> saved = ds.save_json_lines("rows.jsonl")
        >>> print(open("rows.jsonl").read(), end="")
        {"n":1,"v":[1.5]}
        {"n":2,"v":[2.5]}

        Args:
            path: The file; with shards, numbers are put in front of its ending.
            shards: How many files; by default one, under that very name.
            compression_type: "", "GZIP", "ZLIB" or "ZSTD".
            compression_level: 0 to 9, for ZSTD 1 to 22.
            overwrite: Replace files that exist already.

        Raises:
            DataError: Bytes that are not UTF-8, or numbers that JSON does not have (NaN, infinity).
        """
        return self._save(
            "json_lines",
            path,
            shards,
            overwrite,
            compression_type=compression_type,
            compression_level=compression_level,
        )

    def save_tar(
        self,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        mtime: int | None = None,
        compression_type: str | None = None,
        compression_level: int | None = None,
        overwrite: bool = False,
    ) -> Saved:
        """Writes dictionaries as samples in tar files, for `fl.WebDataset` and the `webdataset` package.

        The field `__key__` names a sample; each other field becomes a file `key.field`. Byte strings are
        written as they are, numbers as text.

        >>> import feedline as fl
        >>> ds = fl.Dataset.from_tensor_slices({"__key__": ["a", "b"], "txt": ["one", "two"]})
        >>> ds.save_tar("words.tar").elements
        2

        Args:
            path: The file; with shards, numbers are put in front of its ending.
            shards: How many files; by default one, under that very name.
            mtime: The time of the files in it, in seconds since 1970; by default 0, so that the same data
                gives the same file.
            compression_type: "", "GZIP", "ZLIB" or "ZSTD".
            compression_level: 0 to 9, for ZSTD 1 to 22.
            overwrite: Replace files that exist already.
        """
        return self._save(
            "tar",
            path,
            shards,
            overwrite,
            mtime=mtime,
            compression_type=compression_type,
            compression_level=compression_level,
        )

    def save_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        compression: str | None = "snappy",
        row_group_rows: int = 65_536,
        binary: bool | Sequence[str] = False,
        overwrite: bool = False,
    ) -> Saved:
        """Writes all elements as Parquet files.

        A component is a column: of a dict by its key, of a tuple by its number, a single one is `value`.
        Axes of known size become fixed-size lists, others lists.

        >>> import feedline as fl
        >>> saved = fl.Dataset.from_tensor_slices({"x": [1, 2, 3]}).save_parquet("x.parquet")
        >>> saved.elements, next(iter(fl.ParquetDataset("x.parquet")))
        (3, {'x': np.int32(1)})

        Args:
            path: The file; with shards, numbers are put in front of its ending.
            shards: How many files; by default one, under that very name.
            compression: "snappy", "zstd", "gzip", "lz4", "brotli" or None.
            row_group_rows: Rows of a row group, at most: what a reader decodes together. A group ends early
                when what is collected passes an eighth of `memory_limit`.
            binary: Strings are written as text (UTF-8). True writes all as bytes, a list these columns.
            overwrite: Replace files that exist already.

        Raises:
            ValueError: The dataset is endless, or a component has no place in a table.
            DataError: A string is not text, or an element has another shape than the spec says.
        """
        return self._save(
            "parquet",
            path,
            shards,
            overwrite,
            compression=compression or "none",
            row_group_rows=_positive("save_parquet", "row_group_rows", row_group_rows),
            binary=_binary("save_parquet", binary),
        )

    def save_arrow(
        self,
        path: str | os.PathLike[str],
        *,
        shards: int | None = None,
        compression: str | None = None,
        batch_rows: int = 4096,
        binary: bool | Sequence[str] = False,
        overwrite: bool = False,
    ) -> Saved:
        """Writes all elements as Arrow files (Feather version 2).

        Args:
            path: The file; with shards, numbers are put in front of its ending.
            shards: How many files; by default one, under that very name.
            compression: "lz4", "zstd" or None. Without it, rows can be read one by one.
            batch_rows: Rows of a record batch, at most, as with `save_parquet`.
            binary: See `save_parquet`.
            overwrite: Replace files that exist already.
        """
        return self._save(
            "arrow",
            path,
            shards,
            overwrite,
            compression=compression or "none",
            batch_rows=_positive("save_arrow", "batch_rows", batch_rows),
            binary=_binary("save_arrow", binary),
        )

    def save_npy(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Saved:
        """Writes all elements to an .npy file, or to an .npz file if they have several components.

        All elements must have one shape, which the spec must say.

        Args:
            path: The file, which ends with .npy or .npz.
            overwrite: Replace a file that exists already.
        """
        ending = ".npz" if nest.is_nested(self.element_spec) else ".npy"
        if not path_text("save_npy", path).endswith(ending):
            raise ValueError(
                f"save_npy: elements of {self.element_spec} go into a file that ends with {ending}"
            )
        return self._save("npy", path, None, overwrite)


def _positive(op: str, parameter: str, value: Any) -> int:
    number = integer(op, parameter, value)
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"{op}: {parameter} must be at least 1, not {value!r}")
    return number


def _binary(op: str, binary: Any) -> Any:
    if isinstance(binary, bool):
        return binary
    if isinstance(binary, str) or not all(isinstance(column, str) for column in binary):
        raise TypeError(f"{op}: binary must be a bool or a list of columns, not {binary!r}")
    return list(binary)
