"""Files that hold tables: Parquet, Arrow, NumPy."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .dataset import Dataset
from .errors import DataError
from .params import check_name
from .paths import expanded, path_text

__all__ = ["ArrowDataset", "NumpyDataset", "ParquetDataset"]


def ParquetDataset(
    files: Any,
    columns: Sequence[str] | None = None,
    fill: Mapping[str, Any] | float | None = None,
    name: str | None = None,
) -> Dataset:
    """The rows of Parquet files: dicts of the columns, row after row.

    Rows are decoded by all workers, some thousand at a time and in order. Their number is known, and each can
    be had by its number: `ds[i]`, and `shuffle()` without a buffer (which decodes what it meets, and keeps up
    to 256 MB of it: for more data than that, `shuffle(buffer_size)` is faster). A `map` behind it that reads
    only some columns has the others left out: `explain()` shows it.

    Types: numbers and bool stay what they are, text and binary are strings (bytes), lists are ragged, lists
    of fixed size an axis, structs dicts. Dates and times become integers in their own unit (timestamps since
    1970, in UTC), decimals float64. A row with a null raises an error in its place, unless `fill` says what
    stands for it; `ignore_errors()` drops such rows. A null in a column that is not read is no error: where a
    `map` has columns left out, rows with nulls in these pass. (`ds[i]`, `rewrite=False` and functions that
    run as Python read all columns; `columns` says which ones are meant, in any case.)

    Args:
        files: A path, a pattern, a folder (all its .parquet files, sorted), or a list of them. The columns
            must have the same types in all of them, times in the same unit.
        columns: The columns to read, in this order. None: all.
        fill: What stands in the place of nulls, by column (`{"age": -1}`, `{"struct.field": 0}`); a number
            alone, such as `float("nan")`, is for all columns of floats. A null list becomes an empty one, one
            of fixed size has the fill in all places, and of a null struct each field has its own.
        name: A name for the operator, an identifier.

    Raises:
        FileNotFoundError: A pattern or a folder has no such file.
        DataError: A file is no Parquet file, is damaged, or has other columns than the first.
        ValueError: A column does not exist, or has a type that has no place in an element.
    """
    check_name("ParquetDataset", name)
    params = {
        "files": expanded("ParquetDataset", files, (".parquet",)),
        "columns": _columns("ParquetDataset", columns),
        "fill": _fill("ParquetDataset", fill),
    }
    return Dataset._make("parquet", params)


def ArrowDataset(
    files: Any,
    columns: Sequence[str] | None = None,
    fill: Mapping[str, Any] | float | None = None,
    name: str | None = None,
) -> Dataset:
    """The rows of Arrow files: dicts of the columns, row after row.

    The file format (.arrow, Feather version 2) and the stream format are read alike, and so is a folder that
    Hugging Face `datasets` made with `save_to_disk`. Rows of batches that are not compressed are cut out of
    the file: each row can be had by its number, and `shuffle()` needs no buffer. Types and nulls are those of
    `ParquetDataset`: a null in a column that is not read is no error.

    Args:
        files: A path, a pattern, a folder (saved by `datasets`, or all its .arrow and .feather files,
            sorted), or a list of them. The columns must have the same types in all of them.
        columns: The columns to read, in this order. None: all.
        fill: What stands in the place of nulls: see `ParquetDataset`.
        name: A name for the operator, an identifier.

    Raises:
        FileNotFoundError: A pattern or a folder has no such file.
        DataError: A file is no Arrow file, is damaged, or has other columns than the first; or what
            `datasets` wrote beside the data is.
        ValueError: A column does not exist, or has a type that has no place in an element.
    """
    check_name("ArrowDataset", name)
    given = [files] if isinstance(files, (str, bytes, os.PathLike)) else files
    saved = [part for path in given for part in _saved(path)] if isinstance(given, Iterable) else given
    params = {
        "files": expanded("ArrowDataset", saved, (".arrow", ".feather")),
        "columns": _columns("ArrowDataset", columns),
        "fill": _fill("ArrowDataset", fill),
    }
    return Dataset._make("arrow", params)


def _saved(path: Any) -> list[Any]:
    """The files of a folder that Hugging Face `datasets` saved, in its order; any other path as it is."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return [path]
    folder = path_text("ArrowDataset", path)
    splits_file = os.path.join(folder, "dataset_dict.json")
    if os.path.isfile(splits_file):
        splits = _described(splits_file).get("splits")
        if not isinstance(splits, list):
            raise _damaged(splits_file, 'has no list "splits"')
        raise ValueError(
            f"ArrowDataset: {folder} has several splits; name one of them: "
            + ", ".join(os.path.join(folder, str(split)) for split in splits)
        )
    state_file = os.path.join(folder, "state.json")
    if not os.path.isfile(state_file):
        return [path]
    state = _described(state_file)
    if "_data_files" not in state and not os.path.isfile(os.path.join(folder, "dataset_info.json")):
        return [path]  # somebody else's
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise ValueError(
            f"ArrowDataset: {folder} has rows that are chosen by a list of indices; "
            "save dataset.flatten_indices() instead"
        )
    entries = state.get("_data_files")
    if not isinstance(entries, list):
        raise _damaged(state_file, 'has no list "_data_files", which says what to read')
    names: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("filename"), str):
            raise _damaged(state_file, 'has an entry without "filename" in "_data_files"')
        names.append(entry["filename"])
    if any(os.path.basename(part) != part for part in names):
        raise ValueError(f"ArrowDataset: {state_file} names files outside of its folder")
    return [os.path.join(folder, part) for part in names] or [path]


def _described(file: str) -> dict[str, Any]:
    """What a file that `datasets` wrote beside the data says."""
    try:
        with open(file, encoding="utf-8") as text:
            said = json.load(text)
    except ValueError as error:  # no JSON, or no UTF-8
        raise _damaged(file, f"is no JSON ({error})") from None
    if not isinstance(said, dict):
        raise _damaged(file, f"holds a {type(said).__name__}, not an object with names")
    return said


def _damaged(file: str, why: str) -> DataError:
    error = DataError(
        f"ArrowDataset: {file} {why}; was the folder copied as a whole? "
        "Its .arrow files can also be named themselves"
    )
    error.file = file
    return error


def NumpyDataset(files: Any, columns: Sequence[str] | None = None, name: str | None = None) -> Dataset:
    """The rows of arrays in .npy and .npz files, along the first axis.

    Arrays are not loaded: rows are read where they lie, some megabytes at a time, and each can be had by its
    number. Compressed members of an .npz are the exception: those that are read are decompressed as a whole
    and kept, and must fit into `memory_limit`. An .npy file gives arrays (a structured dtype dicts of its
    fields), an .npz file dicts of its arrays. Arrays of Python objects are refused: reading them means
    running code out of the file.

    Args:
        files: A path, a pattern, a folder (all its .npy and .npz files, sorted), or a list of them, whose
            rows follow each other; or a dict or tuple of these, whose rows go side by side.
        columns: The arrays of an .npz, or the fields of a structured array, to read, in this order; others
            are not looked at. None: all.
        name: A name for the operator, an identifier.

    Raises:
        FileNotFoundError: A pattern or a folder has no such file.
        DataError: A file is no .npy or .npz file, is cut off, or has other arrays than the first.
        MemoryError: Compressed arrays do not fit into `memory_limit`; raised when they are to be read.
    """
    check_name("NumpyDataset", name)
    if isinstance(files, Mapping):
        return Dataset.zip({key: NumpyDataset(part, columns) for key, part in files.items()})
    if isinstance(files, tuple):
        return Dataset.zip(tuple(NumpyDataset(part, columns) for part in files))
    params = {
        "files": expanded("NumpyDataset", files, (".npy", ".npz")),
        "columns": _columns("NumpyDataset", columns),
    }
    return Dataset._make("numpy", params)


def _columns(op: str, columns: Any) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"{op}: columns must be a list of names, not {columns!r}")
    return list(columns)


def _fill(op: str, fill: Any) -> dict[str, Any]:
    if fill is None:
        return {}
    if isinstance(fill, Mapping):
        return {"columns": {str(column): _fill_value(op, value) for column, value in fill.items()}}
    return {"floats": _fill_value(op, fill)}


def _fill_value(op: str, value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        value = value.decode()
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"{op}: fill takes numbers, text and bools, not {value!r}")
    return value
