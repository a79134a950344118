"""`fl.bitwise`: operations on the bits of whole numbers."""

from __future__ import annotations

from typing import Any

from .calls import binary, call

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"]


def bitwise_and(x: Any, y: Any, name: str | None = None) -> Any:
    """The bits that both have."""
    return binary("bitwise_and", x, y)


def bitwise_or(x: Any, y: Any, name: str | None = None) -> Any:
    """The bits that at least one has."""
    return binary("bitwise_or", x, y)


def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Any:
    """The bits that exactly one has."""
    return binary("bitwise_xor", x, y)


def invert(x: Any, name: str | None = None) -> Any:
    """Every bit turned over."""
    return call("invert", [x])


def left_shift(x: Any, y: Any, name: str | None = None) -> Any:
    """The bits moved up by `y` places."""
    return binary("left_shift", x, y)


def right_shift(x: Any, y: Any, name: str | None = None) -> Any:
    """The bits moved down by `y` places."""
    return binary("right_shift", x, y)
