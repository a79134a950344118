"""Datasets to bytes and back: the plan in its written form, with arrays and Python functions beside it.

Functions go through cloudpickle if it is installed, which also takes lambdas and functions of `__main__`.
"""

from __future__ import annotations

from typing import Any

from .. import _native
from ..function import register_classes

__all__ = ["pickled", "unpickled"]


class _Function:
    """A Python function on its way through pickle."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __reduce__(self) -> Any:
        try:
            import cloudpickle
        except ImportError:
            return _Function, (self.function,)
        return _loaded, (cloudpickle.dumps(self.function),)


def _loaded(data: bytes) -> _Function:
    import pickle

    return _Function(pickle.loads(data))


def pickled(dataset: Any) -> Any:
    """What pickle stores of a dataset."""
    if dataset._home is not None:
        raise TypeError(
            "a dataset of symbolic values belongs to a function being traced and cannot be pickled"
        )
    written, attachments = dataset._plan.pickled()
    kept = [tuple(_Function(part) if callable(part) else part for part in item) for item in attachments]
    return unpickled, (type(dataset), written, kept, dataset.element_spec)


def unpickled(cls: Any, written: str, attachments: list[Any], spec: Any) -> Any:
    """The dataset that was pickled. The spec brings the classes of its elements with it."""
    register_classes(spec)
    items = [tuple(part.function if isinstance(part, _Function) else part for part in a) for a in attachments]
    return cls(_native.unpickled(written, items))
