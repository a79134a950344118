"""Which golden cases train a model, and which touch files. All others need nothing but feedline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Cases that train a model: tests/frameworks/test_fit_goldens.py replays them, where there is a framework.
TRAINING = frozenset({"keras_fit"})

# Operators that touch files -> the parameter that, given and not empty, makes them do so; None: always.
FILE_OPS: dict[str, str | None] = {
    "cache": "filename",
    "csv": None,
    "fixed_length_record": None,
    "list_files": None,
    "load": None,
    "make_csv": None,
    "save": None,
    "snapshot": None,
    "text_line": None,
    "tfrecord": None,
}

# Single operations that write a file.
WRITERS = frozenset({"masked_crc32c", "tfrecord_write"})


def needs_directory(case: dict[str, Any]) -> bool:
    """Whether the case reads or writes files, which are relative to an empty working directory."""
    return "files" in case or case.get("op") in WRITERS or any(True for _ in _file_ops(case))


def _file_ops(case: dict[str, Any]) -> Iterator[str]:
    for op, params in _steps_in(case.get("steps", [])):
        if op in FILE_OPS and (FILE_OPS[op] is None or params.get(FILE_OPS[op])):
            yield op


def _steps_in(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step of a pipeline, those of sub-pipelines and of functions included."""
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
            yield value[0], value[1]
        for item in value:
            yield from _steps_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _steps_in(item)
