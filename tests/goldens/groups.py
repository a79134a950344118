"""What the golden runner covers now. A case outside these tables is not collected at all.

When an operator arrives, its group joins `COVERED`; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

COVERED = frozenset(
    {
        "batch",
        "bucket_by_sequence_length",
        "cache",
        "cardinality",
        "checkpoint",
        "choose_from_datasets",
        "concatenate",
        "counter",
        "csv",
        "decode_csv",
        "decode_image",
        "decode_jpeg",
        "decode_raw",
        "enumerate",
        "filter",
        "fixed_length_record",
        "flat_map",
        "from_generator",
        "from_list",
        "from_tensor_slices",
        "from_tensors",
        "fuzz",
        "fuzz_struct",
        "group_by_window",
        "ignore_errors",
        "image_colour",
        "image_dtype",
        "image_geometry",
        "image_resize",
        "interleave",
        "keras_directory",
        "keras_image_generator",
        "keras_image_load",
        "keras_smart_resize",
        "keras_timeseries",
        "list_files",
        "make_csv",
        "map",
        "misc",
        "padded_batch",
        "parse_example",
        "parse_sequence_example",
        "parse_single_example",
        "persist",
        "prefetch",
        "ragged_batch",
        "random",
        "range",
        "rebatch",
        "reduce",
        "repeat",
        "scan",
        "shard",
        "shuffle",
        "sparse_batch",
        "take_skip",
        "take_while",
        "text_line",
        "tfrecord",
        "unbatch",
        "unique",
        "window",
        "zip",
    }
)

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


def covered(case: dict[str, Any]) -> bool:
    """Whether the runner can express this case today."""
    return case["id"].partition("/")[0] in COVERED


def needs_directory(case: dict[str, Any]) -> bool:
    """Whether the case reads or writes files, which are relative to an empty working directory."""
    return "files" in case or any(True for _ in _file_ops(case))


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
