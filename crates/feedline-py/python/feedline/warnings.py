"""What feedline warns about: one class for each kind, with a code and its place in docs/warnings.md.

Warnings go through Python's own `warnings`, show the line of the user's program, and come once for each line.
`warnings.filterwarnings("ignore", category=fl.warnings.StepsBeyondEnd)` silences one kind.
"""

from __future__ import annotations

import sys
import warnings as _python
from types import FrameType

__all__ = [
    "CacheTooLarge",
    "EndlessCache",
    "EndlessFilter",
    "FeedlineWarning",
    "FirstElementAgain",
    "FrozenOrder",
    "FrozenRandomness",
    "LeakingSplit",
    "MixedEpochs",
    "NothingLeft",
    "OpenShapes",
    "OverlappingShards",
    "PositionCarriedOver",
    "ShuffleBufferTooLarge",
    "ShuffledApart",
    "ShuffledBatches",
    "SmallShuffleBuffer",
    "StepsBeyondEnd",
    "UnequalParts",
    "UnequalRanks",
    "WorkTwice",
    "warn",
    "warn_of",
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


class FrozenRandomness(FeedlineWarning):
    """Random numbers are drawn before a cache: every epoch gets the same."""

    code = "FL006"


class FrozenOrder(FeedlineWarning):
    """A shuffle before a cache: every epoch has the same order."""

    code = "FL007"


class ShuffledBatches(FeedlineWarning):
    """A shuffle behind a batch: whole batches change places."""

    code = "FL008"


class MixedEpochs(FeedlineWarning):
    """A repeat before a shuffle: epochs run into each other."""

    code = "FL009"


class SmallShuffleBuffer(FeedlineWarning):
    """A shuffle that chooses from a small part of the data."""

    code = "FL010"


class LeakingSplit(FeedlineWarning):
    """A split of data that are in another order each time: its parts overlap."""

    code = "FL011"


class OverlappingShards(FeedlineWarning):
    """A shard of data whose order each process draws for itself."""

    code = "FL012"


class EndlessFilter(FeedlineWarning):
    """A filter of endless data, which may never let anything pass."""

    code = "FL013"


class CacheTooLarge(FeedlineWarning):
    """A cache of more than memory holds."""

    code = "FL014"


class EndlessCache(FeedlineWarning):
    """A cache of endless data, which is never complete."""

    code = "FL015"


class ShuffleBufferTooLarge(FeedlineWarning):
    """A shuffle buffer of more than memory holds."""

    code = "FL016"


class ShuffledApart(FeedlineWarning):
    """Parts of an element are shuffled each by itself."""

    code = "FL017"


class OpenShapes(FeedlineWarning):
    """Shapes that are not known where they must be fixed; only `Dataset.lint` looks."""

    code = "FL018"


class NothingLeft(FeedlineWarning):
    """An operator that leaves no element of those there are."""

    code = "FL019"


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


def warn_of(code: str, at: str, text: str, fix: str) -> None:
    """Gives the warning with that code: what lint found in a pipeline."""
    kind = next(kind for kind in FeedlineWarning.__subclasses__() if kind.code == code)
    warn(kind, f"{at}: {text}. Better: {fix}")


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
