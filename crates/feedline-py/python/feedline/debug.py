"""What the pipelines of this process are doing: for programs that seem to hang.

>>> import feedline as fl
>>> it = iter(fl.Dataset.range(3))
>>> "pool:" in it.debug() and "pool:" in fl.debug.dump()
True
"""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["dump", "on_signal"]


def dump() -> str:
    """What every pass of this process is doing at this moment.

    That is: what its consumer waits for and since when, what is in its queues, what workers are at, and which
    reads are under way.
    """
    shown = [f"pass {one.id}\n{one.debug()}" for one in _native.passes()]
    return "\n\n".join(shown) or "no pipeline runs in this process"


def on_signal(signum: int | None = None) -> None:
    """Writes `dump()` to the log (the logger "feedline", as a warning) whenever this process gets a signal.

    To be called in the main thread. Python runs handlers there, so that a program that waits for an element
    answers, but one that is inside of foreign code does so when it comes back.

    Args:
        signum: The signal; SIGUSR1 unless given.
    """
    import logging
    import signal

    def write(_number: int, _frame: Any) -> None:
        logging.getLogger("feedline").warning("%s", dump())

    signal.signal(signal.SIGUSR1 if signum is None else signum, write)
