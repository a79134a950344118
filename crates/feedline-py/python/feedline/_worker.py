"""The program of a worker process. It is started by the compiled part, with a socket for its standard input."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Calls the function that comes through the socket, until nobody sends elements any more."""
    socket = os.dup(0)
    os.set_inheritable(socket, False)
    # A function that reads its standard input finds nothing there.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    from . import _native, workers

    _native.serve(socket, int(os.environ.pop("FEEDLINE_WORKER_OF")), workers.loaded, workers.described)
    # Threads that a library has started must not keep the process.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os._exit(0)
