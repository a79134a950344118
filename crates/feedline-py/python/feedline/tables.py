"""Files that hold tables: Parquet, Arrow, NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .dataset import Dataset
from .params import check_name
from .paths import expanded

__all__ = ["ParquetDataset"]


def ParquetDataset(
    files: Any,
    columns: Sequence[str] | None = None,
    fill: Mapping[str, Any] | float | None = None,
    name: str | None = None,
) -> Dataset:
    """The rows of Parquet files: dicts of the columns, row after row.

    Rows are decoded by all workers, some thousand at a time and in order. Their number is known, and each can
    be had by its number: `ds[i]`, and `shuffle()` without a buffer (which decodes what it meets, and keeps up to
    256 MB of it: for more data than that, `shuffle(buffer_size)` is faster). A `map` behind it that reads only
    some columns has the others left out: `explain()` shows it.

    Types: numbers and bool stay what they are, text and binary are strings (bytes), lists are ragged, lists of
    fixed size an axis, structs dicts. Dates and times become integers in their own unit (timestamps since 1970,
    in UTC), decimals float64. A row with a null raises an error in its place, unless `fill` says what stands
    for it; `ignore_errors()` drops such rows.

    Args:
        files: A path, a pattern, a folder (all its .parquet files, sorted), or a list of them. The columns
            must have the same types in all of them.
        columns: The columns to read, in this order. None: all.
        fill: What stands in the place of nulls, by column (`{"age": -1}`, `{"struct.field": 0}`); a number alone,
            such as `float("nan")`, is for all columns of floats. A null list becomes an empty one.
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
