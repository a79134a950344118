"""`fl.debugging`: checks that run with the pipeline. Each returns the tensor it checked: use that result.

>>> import feedline as fl
>>> ds = fl.Dataset.range(3).map(lambda x: fl.debugging.assert_less(x, 2))
>>> list(ds.ignore_errors().as_numpy_iterator())
[np.int64(0), np.int64(1)]
"""

from __future__ import annotations

from typing import Any

from . import ops
from .calls import aligned, as_tensor, call

__all__ = [
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_non_negative",
    "assert_none_equal",
    "assert_positive",
    "assert_rank",
    "assert_shape",
    "check_numerics",
    "ensure",
]


def ensure(x: Any, condition: Any, message: str = "the condition does not hold") -> Any:
    """The tensor itself; an element for which the condition does not hold (everywhere) is an error."""
    held = ops.reduce_all(ops.as_bool(as_tensor(condition)))
    return call("ensure", [as_tensor(x), held], message=message)


def check_numerics(tensor: Any, message: str = "", name: str | None = None) -> Any:
    """The tensor itself; NaN or infinity in it is an error."""
    return call("check_numerics", [as_tensor(tensor)], message=message or "NaN or infinity")


def assert_all_finite(x: Any, message: str = "", name: str | None = None) -> Any:
    """The tensor itself; NaN or infinity in it is an error."""
    return check_numerics(x, message)


def _compared(x: Any, y: Any, function: Any, message: str | None, what: str) -> Any:
    x, y = aligned(x, y)
    return ensure(x, function(x, y), message or f"the tensor is not {what}")


def assert_equal(x: Any, y: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor `x`; an error unless it equals `y` everywhere."""
    return _compared(x, y, ops.equal, message, f"equal to {y!r}")


def assert_none_equal(x: Any, y: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor `x`; an error if it equals `y` anywhere."""
    return _compared(x, y, ops.not_equal, message, f"different from {y!r}")


def assert_less(x: Any, y: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor `x`; an error unless it is below `y` everywhere."""
    return _compared(x, y, ops.less, message, f"below {y!r}")


def assert_less_equal(x: Any, y: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor `x`; an error unless it is at most `y` everywhere."""
    return _compared(x, y, ops.less_equal, message, f"at most {y!r}")


def assert_greater(x: Any, y: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor `x`; an error unless it is above `y` everywhere."""
    return _compared(x, y, ops.greater, message, f"above {y!r}")


def assert_greater_equal(x: Any, y: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor `x`; an error unless it is at least `y` everywhere."""
    return _compared(x, y, ops.greater_equal, message, f"at least {y!r}")


def assert_positive(x: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor itself; an error unless it is above zero everywhere."""
    return assert_greater(x, 0, message)


def assert_non_negative(x: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor itself; an error if it is below zero anywhere."""
    return assert_greater_equal(x, 0, message)


def assert_rank(x: Any, rank: int, message: str | None = None, name: str | None = None) -> Any:
    """The tensor itself, with its number of axes stated."""
    return ops.ensure_shape(x, [None] * rank)


def assert_shape(x: Any, shape: Any, message: str | None = None, name: str | None = None) -> Any:
    """The tensor itself, with its shape stated."""
    return ops.ensure_shape(x, shape)
