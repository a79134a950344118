"""CSV records that are strings already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..calls import as_tensor, call_parts
from ..dtypes import DType, as_dtype
from ..lazy_numpy import np

__all__ = ["decode_csv"]


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Any]:
    """The fields of CSV records: a tensor for each column, of the shape of the records.

    >>> import feedline as fl
    >>> fl.io.decode_csv(["1,a", "2,"], [fl.int32, ["none"]])
    [array([1, 2], dtype=int32), array([b'a', b'none'], dtype=object)]

    Args:
        records: Strings, each one record without its line end.
        record_defaults: For each column a dtype (int32, int64, float32, float64 or string), and an empty
            field is an error; or a value (a scalar, or a list of one) that stands in for an empty field.
        field_delim: What stands between fields, one character.
        use_quote_delim: Whether quotes have a meaning.
        na_value: A text that stands for an empty field.
        select_cols: The numbers of the columns to read, rising; as many as `record_defaults`.
        name: Not used.

    Raises:
        DataError: A record does not fit; the message names the field.
    """
    return call_parts(
        "io.decode_csv",
        [as_tensor(records)],
        columns=csv_columns("decode_csv", record_defaults),
        field_delim=field_delim,
        use_quote_delim=bool(use_quote_delim),
        na_value=na_value,
        select_cols=None if select_cols is None else [int(column) for column in select_cols],
    )


def csv_columns(
    op: str, record_defaults: Sequence[Any], names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """`record_defaults` as the runtime takes them: a dtype and, unless the column is required, a default."""
    if isinstance(record_defaults, (str, bytes)) or not hasattr(record_defaults, "__iter__"):
        raise TypeError(
            f"{op}: record_defaults must be a list with an item for each column, not {record_defaults!r}"
        )
    columns = []
    for i, given in enumerate(record_defaults):
        dtype, default = _column(op, i, given)
        column = {"dtype": dtype.name}
        if default is not None:
            column["default"] = default
        if names is not None:
            column["name"] = names[i]
        columns.append(column)
    return columns


def _column(op: str, i: int, given: Any) -> tuple[DType, Any]:
    if isinstance(given, (DType, type, np.dtype)):
        return as_dtype(given), None
    array = np.asarray(as_tensor(given))
    dtype = as_dtype(array.dtype)
    if array.size == 0:
        return dtype, None
    if array.size > 1 or array.ndim > 1:
        raise ValueError(f"{op}: the default of column {i} must be one value, not {given!r}")
    value = array.reshape(()).item()
    if isinstance(value, bytes):
        return dtype, value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return dtype, str(value)
    return dtype, value
