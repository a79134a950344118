"""JSON lines: an object a line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..dataset import Dataset
from ..dtypes import as_dtype
from ..params import check_name, optional_integer
from ..spec import as_shape
from .files import Files, compression, read_files

__all__ = ["JsonLinesDataset"]


def JsonLinesDataset(
    filenames: Files,
    schema: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    num_lines_for_inference: int | None = 100,
    name: str | None = None,
) -> Dataset:
    r"""JSON objects, one a line, as dictionaries of tensors.

    Without a schema the fields are learned from the first lines: numbers are int64 or float64 (uint64 if one
    needs it; what neither holds is refused), lists are tensors, objects are dictionaries, and what is of
    several kinds is read as its JSON text. A field that
    one of these lines did not have, or had as null, gets 0, "", False or an empty list where it is missing;
    a field that all of them had must be in every line. Blank lines are passed over, and so are fields that
    are not in the schema.

    >>> import feedline as fl
    >>> _ = open("words.jsonl", "w").write('{"word": "one", "n": 1}\n{"word": "two", "n": 2}\n')
    >>> list(fl.JsonLinesDataset("words.jsonl"))
    [{'word': b'one', 'n': np.int64(1)}, {'word': b'two', 'n': np.int64(2)}]
    >>> list(fl.JsonLinesDataset("words.jsonl", {"n": fl.float32}))
    [{'n': np.float32(1.0)}, {'n': np.float32(2.0)}]

    Args:
        filenames: A path, a list of paths, or a dataset of paths.
        schema: The fields that are wanted: a dtype for a scalar, a `TensorSpec` for lists, "json" for the
            text as it stands in the file, a dictionary for the fields of an object.
        defaults: What stands in for a field that is missing or null, by name; "outer.inner" for fields of
            objects. Others are required.
        compression_type: "", "GZIP", "ZLIB" or "ZSTD".
        buffer_size: Bytes of one read; by default what suits where the file lies.
        num_parallel_reads: Read that many files at once, a line of each in turn; `fl.AUTOTUNE` lets the
            runtime choose. By default one file after the other.
        num_lines_for_inference: How many lines the schema is learned from; None: all.
        name: A name for the operator, an identifier.

    Raises:
        ValueError: A schema that cannot be, or nothing to learn one from.
    """
    op = "JsonLinesDataset"
    check_name(op, name)
    params: dict[str, Any] = {
        "infer_lines": num_lines_for_inference or 0,
        "compression_type": compression(op, compression_type),
        "buffer_size": optional_integer(op, "buffer_size", buffer_size),
    }
    if schema is not None:
        rest = dict(defaults or {})
        params["schema"] = _fields(op, schema, rest, "")
        if rest:
            raise ValueError(f"{op}: defaults for fields that are not in the schema: {', '.join(rest)}")
    elif defaults:
        raise ValueError(f"{op}: defaults go with a schema")

    def make(files: Any) -> Dataset:
        return Dataset._make("json_lines", {"files": files, **params})

    if schema is None and (num_parallel_reads is not None or isinstance(filenames, Dataset)):
        raise ValueError(f"{op}: give a schema to read files of a dataset or several at once")
    return read_files(op, filenames, num_parallel_reads, make)


def _fields(op: str, schema: Any, defaults: dict[str, Any], above: str) -> list[dict[str, Any]]:
    if not isinstance(schema, Mapping):
        raise TypeError(f"{op}: a schema is a dictionary from field to dtype, not {schema!r}")
    fields = []
    for name, wanted in schema.items():
        if not isinstance(name, str):
            raise TypeError(f"{op}: fields have names that are text, not {name!r}")
        path = f"{above}.{name}" if above else name
        if isinstance(wanted, Mapping):
            fields.append({"name": name, "fields": _fields(op, wanted, defaults, path)})
            continue
        field: dict[str, Any] = {"name": name}
        if isinstance(wanted, str) and wanted == "json":
            field.update(dtype="string", json=True)
        elif hasattr(wanted, "shape") and hasattr(wanted, "dtype"):
            shape = as_shape(wanted.shape)
            field.update(dtype=as_dtype(wanted.dtype).name, shape=None if shape is None else list(shape))
        else:
            field["dtype"] = as_dtype(wanted).name
        if path in defaults:
            field["default"] = _default(defaults.pop(path))
        fields.append(field)
    return fields


def _default(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
