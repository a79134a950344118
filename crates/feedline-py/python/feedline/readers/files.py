"""What the readers share: file names in all the ways users write them, and reading several files at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from .. import _native, calls
from ..dataset import AUTOTUNE, Dataset
from ..dataset.sources import values
from ..params import naming, parallel_calls
from ..paths import path_text

__all__ = ["Files", "compression", "expanded", "file_names", "read_files"]

Files = Any
"""A name, a path, a list of them, an array of strings, a symbolic string, or a dataset of names."""


def file_names(op: str, filenames: Files) -> str | list[str]:
    """The names as text; one name stays one."""
    if isinstance(filenames, (str, bytes, os.PathLike)):
        return path_text(op, filenames)
    if hasattr(filenames, "tolist"):  # NumPy, and whatever looks like it
        filenames = filenames.tolist()
        if isinstance(filenames, (str, bytes)):
            return path_text(op, filenames)
    if not isinstance(filenames, Iterable):
        raise TypeError(f"{op}: filenames must be a path or a list of paths, not {filenames!r}")
    names = []
    for name in filenames:
        if not isinstance(name, (str, bytes, os.PathLike)):
            raise TypeError(f"{op}: file names are text, not {name!r}")
        names.append(path_text(op, name))
    return names


def expanded(op: str, filenames: Files) -> str | list[str]:
    """The names with patterns and folders replaced by the files that they mean."""
    names = file_names(op, filenames)
    with naming(op):
        found = _native.expand_files([names] if isinstance(names, str) else names)
    return names if found == [names] else found


def compression(op: str, compression_type: Any) -> str:
    """The name of a compression; None is none."""
    if compression_type is None:
        return ""
    if isinstance(compression_type, bytes):
        return compression_type.decode()
    if not isinstance(compression_type, str):
        raise TypeError(f"{op}: compression_type must be a string, not {compression_type!r}")
    return compression_type


def read_files(op: str, filenames: Files, num_parallel_reads: Any, make: Callable[[Any], Dataset]) -> Dataset:
    """A reader over files: one after the other, or several at once, a record of each in turn.

    Args:
        op: The reader's name, for messages.
        filenames: What the user gave.
        num_parallel_reads: None, AUTOTUNE or a number.
        make: Makes the dataset of the parameter `files`.
    """
    if isinstance(filenames, Dataset):
        return _several(filenames, num_parallel_reads, op, make)
    names: Any = filenames if calls.symbolic(filenames) else expanded(op, filenames)
    if num_parallel_reads is None:
        return make(values(names if not isinstance(names, list) or names else _nothing()))
    names = [names] if isinstance(names, str) else names
    return _several(
        Dataset.from_tensor_slices(names if calls.symbolic(names) or names else _nothing()),
        num_parallel_reads,
        op,
        make,
    )


def _several(names: Dataset, num_parallel_reads: Any, op: str, make: Callable[[Any], Dataset]) -> Dataset:
    def open_file(name: Any) -> Dataset:
        return make(values(name))

    if num_parallel_reads is None:
        return names.flat_map(open_file)
    count = parallel_calls(op, num_parallel_reads, "num_parallel_reads")
    cycle = None if count in (None, AUTOTUNE) else count
    return names.interleave(open_file, cycle_length=cycle, num_parallel_calls=count)


def _nothing() -> Any:
    """No names, as an array that still is one of strings."""
    import numpy as np

    return np.zeros([0], dtype=object)
