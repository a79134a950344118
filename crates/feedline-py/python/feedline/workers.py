"""Python functions in processes of their own: what `map(…, workers=n)` sends there, and what comes back.

1. A worker is a fresh interpreter, started with the flags and the module path of this one. Nothing is forked,
   so it does not matter which threads run here, and `__main__` need not be guarded: it is not run again.
2. The function goes there by cloudpickle: lambdas, closures and what a script or notebook defines by value,
   what can be imported by name. It goes once; if what it refers to has changed by the next pass, there are
   new workers.
3. Elements and results never go through pickle, exceptions do.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "worker_info"]


@dataclass
class WorkerInfo:
    """Where a function runs, inside of a worker process.

    Attributes:
        id: The number of this worker, from 0 on.
        seed: A number for the element that is worked on now. It depends on the global seed, the pass and the
            element, not on the worker: seed a generator with it, and results are the same however many
            workers there are, and after a resume.
    """

    id: int
    seed: int = 0


_here: WorkerInfo | None = None


def worker_info() -> WorkerInfo | None:
    """Which worker process this is, and the seed of the element; None outside of workers.

    >>> import feedline as fl
    >>> fl.worker_info() is None
    True
    """
    return _here


# In the process that has the pipeline.


def start(function: Any, spec: Any, output_spec: Any, unpack: bool) -> tuple[list[str], bytes, int]:
    """The command that starts a worker, what it is sent first, and what seeds of elements depend on."""
    import multiprocessing.spawn
    import subprocess

    from .seeds import global_seed

    executable = os.fsdecode(multiprocessing.spawn.get_executable() or sys.executable)
    # The flags of this interpreter: -O, -W and the like.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = f"import sys; sys.path.insert(0, {here!r}); from feedline._worker import main; main()"
    setup = {
        "path": [os.path.abspath(part) for part in sys.path],
        "directory": os.getcwd(),
        "function": _dumped((function, spec, output_spec, unpack)),
    }
    return [executable, *flags, "-c", code], pickle.dumps(setup), (global_seed() or 0) % 2**64


def _dumped(value: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        try:
            return pickle.dumps(value)
        except Exception as error:
            raise TypeError(
                "map: the function cannot be sent to worker processes by pickle; cloudpickle can send "
                f"lambdas, closures and functions of scripts: pip install 'feedline[python]' ({error})"
            ) from error
    # What multiprocessing calls the script in a process that it has spawned; only there.
    script = sys.modules.get("__mp_main__")
    by_value = script is not None and "__mp_main__" not in cloudpickle.list_registry_pickle_by_value()
    if by_value:
        cloudpickle.register_pickle_by_value(script)
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"map: the function, or what it refers to, cannot be sent to worker processes: {error}. "
            "Make such objects (open files, locks, connections) inside of the function"
        ) from error
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(script)


def advise(name: str, calls: int, ns: int) -> None:
    """Says that a function which runs in this process would run faster in several."""
    import logging

    from .config import configuration

    cores = int(configuration()["cpu_budget"] or 1)
    if cores > 1 and calls:
        logging.getLogger("feedline").warning(
            "%s has taken %.1f s of CPU time under Python's lock, %.0f us for each element, on one core; "
            "map(…, workers=%d) runs it in %d processes",
            name,
            ns / 1e9,
            ns / calls / 1e3,
            cores,
            cores,
        )


class RemoteTraceback(Exception):
    """Where in a worker an exception was raised, in words: the cause of the exception."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self.trace = trace

    def __str__(self) -> str:
        return f"\n\n{self.trace.rstrip()}"


def raised(message: str, exception: bytes, trace: str) -> BaseException:
    """The exception that a function raised in a worker."""
    made: Any = None
    try:
        made = pickle.loads(exception) if exception else None
    except Exception:
        made = None
    if not isinstance(made, BaseException):
        # Its class is unknown here, or cannot be made again from its arguments.
        made = RuntimeError(message)
    made.__cause__ = RemoteTraceback(trace)
    return made


# In a worker.


def described(error: BaseException) -> tuple[str, bytes, str]:
    """An exception in words, as bytes, and with the place where it was raised."""
    import traceback

    lines = traceback.format_exception(type(error), error, error.__traceback__)
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    try:
        data = pickler.dumps(error)
        pickle.loads(data)
    except Exception:
        data = b""
    return message, data, "".join(lines)


def loaded(setup: bytes, number: int) -> tuple[Any, Any, Any, bool, Any]:
    """The function that was sent, the specs of its argument and result, and what seeds an element."""
    global _here
    _here = info = WorkerInfo(number)
    parts = pickle.loads(setup)
    sys.path[:] = parts["path"]
    with contextlib.suppress(OSError):  # It may have been deleted meanwhile.
        os.chdir(parts["directory"])
    # NumPy imports `numpy.random` when it is first used, and functions import what they like: it is
    # there before their first call, so that it is seeded for that one too.
    import random

    import numpy.random

    del random, numpy
    function, spec, output_spec, unpack = pickle.loads(parts["function"])
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)

    def begin(seed: int) -> None:
        info.seed = seed
        seed_modules(seed)

    return function, spec, output_spec, unpack, begin


def seed_modules(seed: int) -> None:
    """Seeds what is imported of `random`, `numpy.random` and `torch`."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed(seed)
    if "numpy.random" in modules:
        modules["numpy.random"].seed(seed % 2**32)
    if "torch" in modules:
        modules["torch"].random.default_generator.manual_seed(seed % 2**63)
