"""Parameters of operators: whole numbers (also symbolic), switches, names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import trace
from .calls import symbolic

__all__ = [
    "check_name",
    "integer",
    "naming",
    "on_error",
    "optional_integer",
    "parallel_calls",
    "worker_count",
]


def check_name(op: str, name: str | None) -> None:
    """Names of operators are identifiers."""
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise ValueError(f"{op}: name must be an identifier, not {name!r}")


@contextmanager
def naming(op: str) -> Iterator[None]:
    """Errors about wrong arguments in here name the operator."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if type(error) not in (TypeError, ValueError, OverflowError) or op in str(error):
            raise
        kind = ValueError if isinstance(error, OverflowError) else type(error)
        raise kind(f"{op}: {error}") from None


def integer(op: str, parameter: str, value: Any) -> Any:
    """A whole number, or a reference to a symbolic one."""
    if symbolic(value) and not isinstance(value, (list, tuple)):
        tracer = trace.required()
        if not value.dtype.is_integer or value.shape not in ((), None):
            raise TypeError(f"{op}: {parameter} must be a whole number, not {value!r}")
        return {"symbol": tracer.export(value)}
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{op}: {parameter} must be a whole number, not {value!r}")
    try:
        return value.__index__()
    except TypeError:
        raise TypeError(f"{op}: {parameter} must be a whole number, not {value!r}") from None


def optional_integer(op: str, parameter: str, value: Any) -> Any:
    """The same, or None."""
    return None if value is None else integer(op, parameter, value)


def on_error(op: str, value: Any) -> str | None:
    """What becomes of elements that fail: one of three words, or None."""
    if value not in (None, "raise", "skip", "quarantine"):
        raise ValueError(f'{op}: on_error must be "raise", "skip", "quarantine" or None, not {value!r}')
    return value  # type: ignore[no-any-return]


def parallel_calls(op: str, value: Any, parameter: str = "num_parallel_calls") -> int | None:
    """None, -1 for AUTOTUNE, or a positive number."""
    if value is None:
        return None
    count = integer(op, parameter, value)
    if not isinstance(count, int) or count == 0 or count < -1:
        raise ValueError(f"{op}: {parameter} must be positive, fl.AUTOTUNE or None, not {value!r}")
    return count


def worker_count(op: str, value: Any) -> int:
    """-1 for AUTOTUNE, or a positive number."""
    count = integer(op, "workers", value)
    if not isinstance(count, int) or count == 0 or count < -1:
        raise ValueError(f"{op}: workers must be positive, fl.AUTOTUNE or None, not {value!r}")
    return count
