"""Whether feedline's exception and the reference's error have the same cause.

The files name the reference's exception class. feedline need not use the same classes; it must say who can
act. So each recorded class stands for the Python classes that carry the same meaning.
"""

from __future__ import annotations

from typing import Any

import feedline as fl

INVALID = (ValueError, TypeError, fl.errors.InvalidArgumentError, fl.errors.DataError)

BY_CLASS: dict[str, tuple[type[BaseException], ...]] = {
    "AttributeError": INVALID,
    "DataLossError": (fl.errors.DataLossError, fl.errors.DataError),
    "FailedPreconditionError": (fl.errors.FailedPreconditionError,),
    "InternalError": (*INVALID, fl.errors.DataLossError),
    "InvalidArgumentError": INVALID,
    "NotFoundError": (fl.errors.NotFoundError, FileNotFoundError),
    "OutOfRangeError": (fl.errors.OutOfRangeError, IndexError),
    "TypeError": INVALID,
    "UnimplementedError": (fl.errors.UnimplementedError, NotImplementedError),
    "UnknownError": (Exception,),
    "ValueError": INVALID,
}

# Causes for which Python has a word of its own.
BY_GIST: dict[str, tuple[type[BaseException], ...]] = {
    "integer_division_by_zero": (ZeroDivisionError,),
    "user_function_raised_stop_iteration": (RuntimeError,),
}


def same_cause(expected: dict[str, Any], error: BaseException) -> bool:
    """Whether `error` is an acceptable form of the recorded error."""
    return isinstance(error, BY_CLASS[expected["class"]] + BY_GIST.get(expected.get("gist", ""), ()))
