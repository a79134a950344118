"""The command `feedline`: the same as the Rust binary of that name. `python -m feedline` runs it, too."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

from feedline import _native

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line, by default the one of this process, and gives the exit code.

    >>> from feedline.cli import main
    >>> main(["count", "--quiet", "no/such/file"])
    1
    """
    arguments = sys.argv[1:] if argv is None else argv
    if threading.current_thread() is threading.main_thread() and argv is None:
        # Whoever ends the process wants no half files either.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout.flush()
    return _native.cli(["feedline", *arguments])
