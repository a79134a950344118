"""The functions that are being traced: a stack, because a dataset made inside a function has functions of its
own.

1. `Tracer` records one function. Its nodes are numbers that the compiled part gives out.
2. While a function runs on symbolic values, its tracer is on top of this thread's stack.
3. A value of an outer function that an inner one uses is handed down level by level: the outer tracer exports
   its node, the inner one captures the export.
4. A dataset whose parameters are symbolic has a home, the tracer whose exports its plan refers to.
"""

from __future__ import annotations

import itertools
import os.path
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from .dataset import Dataset
    from .symbol import Symbol

_HERE = os.path.dirname(__file__) + os.sep


class _Stack(threading.local):
    def __init__(self) -> None:
        self.tracers: list[Tracer | None] = []


_stack = _Stack()


def current() -> Tracer | None:
    """The innermost function that this thread traces now, if any."""
    return _stack.tracers[-1] if _stack.tracers else None


class eagerly:
    """While this is entered, the thread traces nothing: functions compute at once."""

    def __enter__(self) -> None:
        _stack.tracers.append(None)

    def __exit__(self, *_: object) -> None:
        _stack.tracers.pop()


class NeedsValue(TypeError):
    """The function asked for something that only a real value has; it cannot be traced.

    Attributes:
        what: What was asked for, such as `bool()`.
        advice: What to write in its place.
        where: The user's file and line.
    """

    def __init__(self, what: str, advice: str = "") -> None:
        self.what = what
        self.advice = advice
        self.where = users_line()
        file, line = self.where
        text = f"{what} asks for the value of a tensor, at {file}:{line}"
        super().__init__(f"{text}; {advice}" if advice else text)
        tracer = current()
        # Looking for an attribute is often only a question; whoever minds lets the exception pass.
        if tracer is not None and not isinstance(self, AttributeError):
            tracer.asked = tracer.asked or self


class NoAttribute(NeedsValue, AttributeError):
    """The same, for an attribute that symbolic values do not have."""


def users_line() -> tuple[str, int]:
    """The file and line of the innermost frame that belongs neither to feedline nor to NumPy."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_HERE, "<__array_function__")) and f"{os.sep}numpy{os.sep}" not in file:
            return file, frame.f_lineno
        frame = frame.f_back
    return "<unknown>", 0


class Traced:
    """A node of a function being traced. `Symbol` gives it operators and methods."""

    __slots__ = ("_node", "_tracer")

    _tracer: Tracer
    _node: int

    def __init__(self, tracer: Tracer, node: int) -> None:
        self._tracer = tracer
        self._node = node


class Tracer:
    """Records one function."""

    def __init__(self, spec: Any) -> None:
        self.native = _native.Trace(spec)
        self.parent = current()
        self.asked: NeedsValue | None = None
        """The first request for a value."""
        self._captured: dict[tuple[int, int], int] = {}
        # Random functions are told apart by a number that is unique within the outermost function.
        self._uses: Any = self.parent._uses if self.parent else itertools.count()

    def __enter__(self) -> Tracer:
        _stack.tracers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack.tracers.pop()

    def use(self) -> int:
        """A number for one more random function."""
        return next(self._uses)

    def symbol(self, node: int) -> Symbol:
        """The symbolic value of a node."""
        from .symbol import Symbol

        return Symbol(self, node)

    def argument(self, node: int) -> Any:
        """A leaf of the argument as the function gets it: a symbolic value, a dataset, or None."""
        from .spec import DatasetSpec, NoneSpec

        leaf = self.native.leaf(node)
        if isinstance(leaf, NoneSpec):
            return None
        if isinstance(leaf, DatasetSpec):
            from .dataset import Dataset

            return Dataset._of_node(self, node, leaf.element_spec)
        return self.symbol(node)

    def imported(self, home: Tracer, node: int) -> int:
        """The node here for a node of this function or of one around it."""
        if home is self:
            return node
        key = (id(home), node)
        if key not in self._captured:
            if self.parent is None:
                raise ValueError(
                    "a symbolic value was used outside of the function that it belongs to; return it from "
                    "the function in place of storing it"
                )
            outer = self.parent.imported(home, node)
            value = self.parent.native.constant_value(outer)
            if value is not None:
                self._captured[key] = self.native.const(value)
            else:
                export = self.parent.native.export(outer)
                self._captured[key] = self.native.capture(export, self.parent.native.leaf(outer))
        return self._captured[key]

    def node_of(self, value: Traced) -> int:
        """The node here of a symbolic value."""
        return self.imported(value._tracer, value._node)

    def export(self, value: Traced) -> int:
        """The number by which parameters of datasets refer to a symbolic value."""
        return self.native.export(self.node_of(value))

    def dataset_node(self, dataset: Dataset) -> int:
        """The node here of a dataset that was made in this function, around it, or outside of any."""
        home = dataset._home
        if home is None:
            return self.native.dataset(dataset._plan)
        if dataset._node is None:
            dataset._node = home.native.dataset(dataset._plan)
        return self.imported(home, dataset._node)

    def plan_of(self, dataset: Dataset) -> _native.Plan:
        """The plan of a dataset as this function's own datasets can have it for an input."""
        if dataset._home is None or dataset._home is self:
            return dataset._plan
        symbol = self.native.export(self.dataset_node(dataset))
        return _native.make("nested", {"symbol": symbol, "spec": dataset.element_spec}, [])


def required() -> Tracer:
    """The function being traced; an error where there is none, though a symbolic value is used."""
    tracer = current()
    if tracer is None:
        raise NeedsValue("a symbolic value used outside of the traced function that it belongs to")
    return tracer
