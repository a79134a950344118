"""Rows of a query, by the SQLite that comes with Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from ..dataset import Dataset
from ..dtypes import as_dtype
from ..lazy_numpy import np
from ..spec import TensorSpec

__all__ = ["SqlDataset"]


def SqlDataset(
    driver_name: str,
    data_source_name: str,
    query: str,
    output_types: Sequence[Any],
) -> Dataset:
    """The rows of a query: a tuple with a scalar for each column.

    >>> import feedline as fl, sqlite3
    >>> with sqlite3.connect("plants.db") as db:
    ...     _ = db.execute("create table plants (name text, leaves int)")
    ...     _ = db.execute("insert into plants values ('clover', 3)")
    >>> SqlDataset = fl.data.experimental.SqlDataset
    >>> list(SqlDataset("sqlite", "plants.db", "select * from plants", (fl.string, fl.int32)))
    [(b'clover', np.int32(3))]

    The query runs anew in each pass. A state goes on by running it again and passing over the rows that were
    given, so the query should say its order (`order by`).

    Args:
        driver_name: Only "sqlite".
        data_source_name: The path of the database. It is opened for reading only.
        query: What to ask.
        output_types: The dtype of each column.

    Raises:
        ValueError: Another driver, or no output_types.
        FileNotFoundError: There is no such database.
        TypeError: While it runs: a row does not fit the dtypes, or has another number of columns.
    """
    if driver_name != "sqlite":
        raise ValueError(f"SqlDataset: driver_name must be 'sqlite', not {driver_name!r}")
    types = tuple(as_dtype(dtype) for dtype in output_types)
    if not types:
        raise ValueError("SqlDataset: output_types must name the dtype of each column, but is empty")
    from pathlib import Path  # not with the package: it takes as long as all readers together

    path = Path(data_source_name)
    if not path.is_file():
        raise FileNotFoundError(f"SqlDataset: there is no database {data_source_name!r}")
    rows = _Rows(path.absolute().as_uri(), query, types)
    spec = tuple(TensorSpec((), dtype) for dtype in types)
    return Dataset.from_generator(rows, output_signature=spec, resume=rows.behind)


class _Rows:
    """The rows as a generator: a class, so that datasets of it can be pickled."""

    def __init__(self, uri: str, query: str, types: tuple[Any, ...]) -> None:
        self.uri, self.query, self.types = uri, query, types

    def __call__(self) -> Iterator[tuple[Any, ...]]:
        return self.behind(0)

    def behind(self, rows: int) -> Iterator[tuple[Any, ...]]:
        import sqlite3  # not with the package: few need it

        # Any worker may ask for the next row, one at a time: the check would forbid what is safe.
        database = sqlite3.connect(self.uri + "?mode=ro", uri=True, check_same_thread=False)
        with closing(database):
            for row in itertools.islice(database.execute(self.query), rows, None):
                if len(row) != len(self.types):
                    raise TypeError(
                        f"SqlDataset: a row has {len(row)} columns, output_types {len(self.types)}; "
                        f"the query is {self.query!r}"
                    )
                yield tuple(map(_converted, row, self.types))


def _converted(value: Any, dtype: Any) -> Any:
    if dtype.name == "string":
        return value if isinstance(value, bytes) else "" if value is None else str(value)
    if not isinstance(value, (int, float)) or (isinstance(value, float) and dtype.is_integer):
        raise TypeError(f"SqlDataset: {value!r} is not a value of dtype {dtype.name}")
    return np.asarray(value, dtype.as_numpy_dtype)
