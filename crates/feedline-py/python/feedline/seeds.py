"""Seeds: the global one, and the pair that each random operator gets from it and from its own.

The rule is tf.data's. Neither seed: a random order each time. Only the operator's: the pair is a fixed number
and that seed. Only the global one: it is paired with the next number of a stream that starts anew whenever
the global seed is set. Both: the pair of the two.
"""

from __future__ import annotations

from collections.abc import Callable

from . import _native

__all__ = ["get_seed", "global_seed", "op_seed", "set_seed"]

# What tf.data puts in the place of a global seed that was not set.
_NO_GLOBAL = 87654321
_MODULUS = 2**31 - 1

_global: int | None = None
_next: Callable[[int, int], int] | None = None


def set_seed(seed: int | None) -> None:
    """Sets the global seed: every unseeded shuffle and random function made afterwards is reproducible.

    >>> import feedline as fl
    >>> fl.random.set_seed(7)
    >>> first = list(fl.Dataset.range(5).shuffle(5).as_numpy_iterator())
    >>> fl.random.set_seed(7)
    >>> first == list(fl.Dataset.range(5).shuffle(5).as_numpy_iterator())
    True
    """
    global _global, _next
    if seed is None:
        _global = _next = None
        return
    from random import Random

    _global = _checked(seed)
    _next = Random(_global).randint
    _native.configure(seed=_global % _MODULUS)


def global_seed() -> int | None:
    """The global seed, or None."""
    return _global


def get_seed(seed: int | None) -> tuple[int | None, int | None]:
    """The pair of seeds for an operator, or two Nones where nothing was seeded."""
    if seed is not None:
        seed = _checked(seed)
    if _global is None and seed is None:
        return None, None
    first = _NO_GLOBAL if _global is None else _global
    if seed is None:
        assert _next is not None
        seed = _next(0, _MODULUS)
    pair = first % _MODULUS, seed % _MODULUS
    return (0, _MODULUS) if pair == (0, 0) else pair


def op_seed(seed: int | None) -> int:
    """One seed for a random function: its own, one that follows from the global seed, or a fresh one."""
    first, second = get_seed(seed)
    if first is None or second is None:
        import os

        return int.from_bytes(os.urandom(7), "little")
    return first << 31 | second


def _checked(seed: int) -> int:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"a seed is a whole number or None, not {seed!r}")
    return seed.__index__()
