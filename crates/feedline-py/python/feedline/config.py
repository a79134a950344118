"""Settings of the whole process: how many workers, how much memory, which seed.

Environment variables, read when feedline is imported: FEEDLINE_CPU_BUDGET and FEEDLINE_LEAVE_CORES (numbers),
FEEDLINE_MEMORY_LIMIT (bytes, or text such as 2GB), FEEDLINE_STALL_SECONDS (how long an element may take until
the log says what is waited for), FEEDLINE_LOG (a level of Python's logging, such as INFO) and FEEDLINE_SERVE
(1, or a port: `fl.serve`).
"""

from __future__ import annotations

import os
from typing import Any

from . import _native

__all__ = ["configuration", "configure", "parse_bytes"]

_UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(value: Any) -> int:
    """A number of bytes from a number, or from text such as "256MB" or "1.5 GiB" (powers of 1024).

    >>> parse_bytes("256MB"), parse_bytes(1000)
    (268435456, 1000)
    """
    if isinstance(value, str):
        text = value.strip().upper().removesuffix("IB").removesuffix("B").strip()
        number, unit = (text[:-1], text[-1]) if text and text[-1] in "KMGT" else (text, "")
        try:
            value = int(float(number) * _UNITS[unit])
        except (ValueError, OverflowError):
            raise ValueError(
                f"a number of bytes is written like 1000, '256MB' or '2GB', not {value!r}"
            ) from None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"a number of bytes is a whole number or text such as '256MB', not {value!r}")
    count = value.__index__()
    if count <= 0:
        raise ValueError(f"a memory limit must be positive, not {count}")
    if count >= 2**63:
        raise ValueError(f"a memory limit of {count} bytes is more than any machine has")
    return count


def configure(
    *,
    cpu_budget: int | None = None,
    leave_cores: int | None = None,
    memory_limit: int | str | None = None,
    seed: int | None = None,
) -> None:
    """Sets what all pipelines of this process share. What is not given stays as it is.

    Args:
        cpu_budget: How many workers may run at once, over all pipelines. By default as many as this process
            may use of the machine's cores; affinity and control groups count, also when they change.
        leave_cores: So many of these cores are left to others, such as the thread that trains.
        memory_limit: Bytes that all pipelines together may hold, caches included, and each of them unless it
            says otherwise itself: a number, or text such as "2GB". By default three quarters of the machine's
            memory, or of what its control group allows. Text is read in powers of 1024 and printed in powers
            of 1000: "64MB" means 64 MiB, 67108864 bytes, and messages show it as "67.1 MB". It holds for
            passes that begin afterwards.
        seed: The global seed, as `fl.random.set_seed` sets it.
    """
    for parameter, value, least in (("cpu_budget", cpu_budget, 1), ("leave_cores", leave_cores, 0)):
        if value is None:
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{parameter} is a whole number, not {value!r}")
        if not least <= value < 2**31:
            raise ValueError(f"{parameter} must be at least {least} and below 2^31, not {value}")
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    if cpu_budget is not None or limit is not None or leave_cores is not None:
        _native.configure(cpu_budget=cpu_budget, memory_limit=limit, leave_cores=leave_cores)
    if seed is not None:
        from .seeds import set_seed

        set_seed(seed)


def configuration() -> dict[str, Any]:
    """What is in force now: `cpu_budget`, `leave_cores`, `memory_limit`, and the `seed` if there is one."""
    return _native.configuration()


def read_environment() -> None:
    """Takes over the settings of the environment."""
    cpu_budget, leave_cores, memory_limit = (
        os.environ.get(f"FEEDLINE_{name}") for name in ("CPU_BUDGET", "LEAVE_CORES", "MEMORY_LIMIT")
    )
    if cpu_budget or leave_cores or memory_limit:
        try:
            configure(
                cpu_budget=int(cpu_budget) if cpu_budget else None,
                leave_cores=int(leave_cores) if leave_cores else None,
                memory_limit=_number(memory_limit),
            )
        except ValueError as error:
            raise ValueError(
                f"FEEDLINE_CPU_BUDGET, FEEDLINE_LEAVE_CORES or FEEDLINE_MEMORY_LIMIT: {error}"
            ) from None
    level = os.environ.get("FEEDLINE_LOG")
    if level:
        import logging

        logging.basicConfig()
        try:
            logging.getLogger("feedline").setLevel(int(level) if level.isdigit() else level.upper())
        except ValueError:
            raise ValueError(
                f"FEEDLINE_LOG is a level of Python's logging, such as DEBUG, INFO or WARNING, not {level!r}"
            ) from None
    port = os.environ.get("FEEDLINE_SERVE", "0")
    if port not in ("", "0"):
        _serve(port)


def _serve(port: str) -> None:
    """Lets others look at this process. A program that only wants to train does so without it, too."""
    from .live import serve

    if not (port.isascii() and port.isdigit()):
        raise ValueError(f"FEEDLINE_SERVE is 1 or the number of a port, not {port!r}")
    try:
        serve(0 if port == "1" else int(port))
    except OSError as error:
        import logging

        logging.getLogger("feedline.live").warning("FEEDLINE_SERVE: nobody can look in: %s", error)


def _number(text: str | None) -> int | str | None:
    return int(text) if text and text.isdigit() else text or None
