"""CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dataset import AUTOTUNE, Dataset
from ..dataset.sources import values
from ..io.csv import csv_columns
from ..params import optional_integer, parallel_calls
from .files import Files, compression, expanded, read_files

__all__ = ["CsvDataset", "make_csv_dataset"]


def CsvDataset(
    filenames: Files,
    record_defaults: Sequence[Any],
    compression_type: str | None = None,
    buffer_size: int | None = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    exclude_cols: Sequence[int] | None = None,
) -> Dataset:
    r"""The rows of CSV files: a tuple with a scalar for each column.

    A row that does not fit (another number of fields, a number that is none, a quote in an unquoted field)
    is an error in its place; the next row follows.

    >>> import feedline as fl
    >>> _ = open("people.csv", "w").write("name,age\nAda,36\nAlan,\n")
    >>> ds = fl.CsvDataset("people.csv", [fl.string, [0]], header=True)
    >>> list(ds.as_numpy_iterator())
    [(b'Ada', np.int32(36)), (b'Alan', np.int32(0))]

    Args:
        filenames: A path, a list of paths, or a dataset of paths.
        record_defaults: For each column a dtype (int32, int64, float32, float64 or string), and an empty
            field is an error; or a value (a scalar, or a list of one) that stands in for an empty field.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        buffer_size: Bytes of one read; by default what suits where the file lies.
        header: Each file begins with a line of names, which is passed over.
        field_delim: What stands between fields, one character.
        use_quote_delim: Whether quotes have a meaning.
        na_value: A text that stands for an empty field.
        select_cols: The numbers of the columns to read, rising; as many as `record_defaults`.
        exclude_cols: The numbers of the columns to leave out instead; there are no others but those of
            `record_defaults`.

    Raises:
        ValueError: Columns that cannot be, or both of `select_cols` and `exclude_cols`.
    """
    op = "CsvDataset"
    columns = csv_columns(op, record_defaults)
    if exclude_cols is not None and select_cols is not None:
        raise ValueError(f"{op}: give select_cols or exclude_cols, not both")
    params = {
        "columns": columns,
        "header": bool(header),
        "field_delim": field_delim,
        "use_quote_delim": bool(use_quote_delim),
        "na_value": na_value,
        "select_cols": None if select_cols is None else [int(column) for column in select_cols],
        "exclude_cols": None if exclude_cols is None else [int(column) for column in exclude_cols],
        "compression_type": compression(op, compression_type),
        "buffer_size": optional_integer(op, "buffer_size", buffer_size),
    }

    def make(files: Any) -> Dataset:
        return Dataset._make("csv", {"files": files, **params})

    return read_files(op, filenames, None, make)


def make_csv_dataset(
    file_pattern: str | Sequence[str],
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[str] | Sequence[int] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    r"""Batches of the rows of CSV files, as dictionaries by the names of the columns.

    >>> import feedline as fl
    >>> _ = open("plants.csv", "w").write("leaves,kind\n3,clover\n5,ivy\n")
    >>> make = fl.data.experimental.make_csv_dataset
    >>> next(iter(make("plants.csv", 2, label_name="kind", num_epochs=1, shuffle=False)))
    ({'leaves': array([3, 5], dtype=int32)}, array([b'clover', b'ivy'], dtype=object))

    Args:
        file_pattern: A path, also with `*`, `?` and `[]` in it, or a list of them.
        batch_size: Rows of a batch.
        column_names: The names; by default those in the header of the first file, which all others must have
            in the same order: a file with another header is an error when it is opened.
        column_defaults: As `record_defaults` of `CsvDataset`; by default learned from the first rows, as the
            first of int32, int64, float32, float64 and string that fits, and 0 or "" for empty fields.
        label_name: The column to split off: elements are then pairs of a dictionary and the label.
        select_columns: The columns to read, by name or number.
        field_delim: What stands between fields, one character.
        use_quote_delim: Whether quotes have a meaning.
        na_value: A text that stands for an empty field.
        header: Each file begins with a line of names.
        num_epochs: How often the data is repeated; None: for ever, with full batches only.
        shuffle: Shuffle the files and the rows. **On by default**, as in tf.data.
        shuffle_buffer_size: How many rows the shuffle holds.
        shuffle_seed: Makes the order the same in every run.
        prefetch_buffer_size: Batches made ahead.
        num_parallel_reads: Files read at once, a row of each in turn.
        sloppy: Rows of several files may come in any order.
        num_rows_for_inference: How many rows the dtypes are learned from; None: all.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        ignore_errors: Leave out rows that do not fit.
        encoding: Only "utf-8".

    Raises:
        FileError: No file matches.
        ValueError: A column is unknown or there twice, or the first rows do not fit.
        DataError: A file has another header than the first; raised when it is read.
    """
    op = "make_csv_dataset"
    if encoding.lower().replace("-", "") != "utf8":
        raise ValueError(f"{op}: encoding must be 'utf-8', not {encoding!r}; convert the files first")
    reads = parallel_calls(op, num_parallel_reads, "num_parallel_reads")
    files = _matching(op, file_pattern)
    reading = {
        "header": bool(header),
        "field_delim": field_delim,
        "use_quote_delim": bool(use_quote_delim),
        "na_value": na_value,
        "compression_type": compression(op, compression_type),
    }
    if column_names is None and not header:
        raise ValueError(f"{op}: the files have no header, so column_names must be given")
    columns = None
    from_header = column_names is None
    if column_names is None or column_defaults is None:
        rows = (
            1
            if column_defaults is not None
            else 0
            if num_rows_for_inference is None
            else num_rows_for_inference
        )
        learned = Dataset._make(
            "csv",
            {
                "files": values(files),
                "names": None if column_names is None else list(column_names),
                "infer_rows": rows,
                "as_dict": True,
                **reading,
            },
        ).element_spec
        column_names = list(learned)
        columns = [_learned(name, spec.dtype) for name, spec in learned.items()]
    names = list(column_names)
    if len(set(names)) < len(names):
        raise ValueError(f"{op}: two columns have the same name: {names}")
    select = None if select_columns is None else _numbers(op, select_columns, names)
    if column_defaults is not None:
        wanted = names if select is None else [names[i] for i in select]
        if len(column_defaults) != len(wanted):
            raise ValueError(
                f"{op}: there are {len(wanted)} columns and {len(column_defaults)} column_defaults"
            )
        columns = csv_columns(op, column_defaults, wanted)
    elif select is not None and columns is not None:
        columns = [columns[i] for i in select]
    chosen = names if select is None else [names[i] for i in select]
    if label_name is not None and label_name not in chosen:
        raise ValueError(f"{op}: label_name {label_name!r} is not a column; the columns are {chosen}")
    params = {
        "columns": columns,
        "select_cols": select,
        "as_dict": True,
        "header_names": names if from_header else None,
        **reading,
    }

    def rows_of(name: Any) -> Dataset:
        rows = Dataset._make("csv", {"files": values(name), **params})
        return rows.ignore_errors() if ignore_errors else rows

    dataset = Dataset.from_tensor_slices(files)
    if shuffle:
        dataset = dataset.shuffle(len(files), shuffle_seed)
    if reads == AUTOTUNE:
        dataset = dataset.interleave(rows_of, num_parallel_calls=AUTOTUNE, deterministic=not sloppy)
    else:
        cycle = reads or 1
        dataset = dataset.interleave(rows_of, cycle, num_parallel_calls=cycle, deterministic=not sloppy)
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None)
    if label_name is not None:

        def split(row: dict[str, Any]) -> Any:
            return {name: value for name, value in row.items() if name != label_name}, row[label_name]

        dataset = dataset.map(split)
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _learned(name: str, dtype: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype.name, "default": "" if dtype.name == "string" else 0}


def _numbers(op: str, select: Sequence[Any], names: list[str]) -> list[int]:
    """Columns by number, in the order of the file."""
    found = set()
    for column in select:
        if isinstance(column, str):
            if column not in names:
                raise ValueError(f"{op}: there is no column {column!r}; the columns are {names}")
            number = names.index(column)
        else:
            number = int(column)
            if not 0 <= number < len(names):
                raise ValueError(f"{op}: there is no column {number}; there are {len(names)}")
        if number in found:
            raise ValueError(f"{op}: the column {column!r} is selected twice")
        found.add(number)
    return sorted(found)


def _matching(op: str, file_pattern: Any) -> list[str]:
    found = expanded(op, file_pattern)
    return [found] if isinstance(found, str) else found
