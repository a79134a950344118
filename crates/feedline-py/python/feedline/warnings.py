"""What feedline warns about: one class for each kind, with a code and its place in docs/warnings.md.

Warnings go through Python's own `warnings`, show the line of the user's program, and come once for each line.
`warnings.filterwarnings("ignore", category=fl.warnings.StepsBeyondEnd)` silences one kind.
"""

from __future__ import annotations

import sys
import warnings as _python
from types import FrameType

__all__ = [
    "FeedlineWarning",
    "FirstElementAgain",
    "PositionCarriedOver",
    "StepsBeyondEnd",
    "UnequalParts",
    "UnequalRanks",
    "WorkTwice",
    "warn",
]


class FeedlineWarning(UserWarning):
    """Something that runs, but hardly does what was meant."""

    code = "FL000"


class StepsBeyondEnd(FeedlineWarning):
    """More steps were asked for than the dataset has elements."""

    code = "FL001"


class FirstElementAgain(FeedlineWarning):
    """`next(iter(ds))` in a loop: every iterator begins with the first element."""

    code = "FL002"


class UnequalRanks(FeedlineWarning):
    """Processes that train together get different numbers of elements."""

    code = "FL003"


class PositionCarriedOver(FeedlineWarning):
    """An epoch of fewer steps than the dataset has: the next one goes on where it stopped."""

    code = "FL004"


class WorkTwice(FeedlineWarning):
    """Every worker process of a loader does the same work, and throws most of it away."""

    code = "FL005"


class UnequalParts(FeedlineWarning):
    """Datasets that are read side by side, such as features and labels, have different lengths."""

    code = "FL050"


_given: set[tuple[type[FeedlineWarning], str, int]] = set()


def warn(kind: type[FeedlineWarning], message: str, frame: FrameType | None = None) -> None:
    """Gives a warning for the line of the user's program that is being run, unless that line had it already.

    Args:
        kind: Which one.
        message: What is wrong, and what would help.
        frame: The frame of the user's line, if it is known.
    """
    frame = frame or user_frame()
    place = (kind, frame.f_code.co_filename, frame.f_lineno)
    if place in _given:
        return
    _given.add(place)
    _python.warn_explicit(
        f"{kind.code}: {message} (docs/warnings.md#{kind.code.lower()})",
        kind,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__"),
    )


def user_frame() -> FrameType:
    """The innermost frame that is neither feedline's nor one of the frameworks that call it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


_BETWEEN = frozenset(
    ["feedline", "keras", "torch", "torchdata", "lightning", "accelerate", "jax", "tensorflow", "contextlib"]
)
"""Modules between the user's line and the code that notices something."""


def _is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in _BETWEEN
