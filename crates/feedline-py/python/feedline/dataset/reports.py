"""Methods that look at a pipeline: for mistakes before it runs, and for what holds it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..profiles import Profile, Report, measure
from .core import Core


class Lint(NamedTuple):
    """A mistake that can be seen in a pipeline."""

    code: str
    """Its code, such as "FL008": docs/warnings.md has a section for it."""
    at: str
    """The operator."""
    text: str
    """What is wrong."""
    fix: str
    """What to write."""

    def __str__(self) -> str:
        return f"{self.code} {self.at}: {self.text}\n    {self.fix}"


class Reports(Core):
    """Methods of `Dataset` that look at it."""

    __slots__ = ()

    def lint(self, *, fixed_shapes: bool = False) -> list[Lint]:
        """The mistakes that can be seen before anything runs; the first iterator warns of them, too.

        >>> import feedline as fl
        >>> [found.code for found in fl.Dataset.range(100).batch(10).shuffle(10).lint()]
        ['FL008']

        Args:
            fixed_shapes: Also what keeps elements from having one shape, which compiled training steps need.
        """
        return [Lint(*found) for found in self._plan.lint(fixed_shapes)]

    def profile(self, seconds: float = 3.0, *, step: Callable[[Any], object] | None = None) -> Profile:
        """Reads the dataset for some time and measures it. That counts as a pass, or several.

        Args:
            seconds: For how long.
            step: What to do with each element: stands for training. Without it, the pipeline runs as fast as
                it can.
        """
        self._need_plan("profile")
        return measure(self, seconds, step)

    def doctor(self, seconds: float = 3.0, *, step: Callable[[Any], object] | None = None) -> Report:
        """Reads the dataset for some time, and says what holds it back and what to change.

        >>> import feedline as fl
        >>> def slow(x):
        ...     import time
        ...     time.sleep(0.002)
        ...     return x
        >>> ds = fl.Dataset.range(10_000).map(slow, python=True, output_signature=fl.TensorSpec((), fl.int64))
        >>> ds.doctor(seconds=0.3)[0].cause
        'python_function'

        Args:
            seconds: For how long.
            step: What to do with each element: stands for training.
        """
        return self.profile(seconds, step=step).doctor()

    def _need_plan(self, op: str) -> None:
        from .. import trace

        if self._home is not None:
            raise trace.NeedsValue(f"{op} of a dataset inside a function")
