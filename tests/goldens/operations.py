"""Cases of a single operation: its input and parameters are in the case, its result or error in `expect`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import feedline as fl

from . import values
from .events import Failure

Case = dict[str, Any]


def observe(case: Case) -> dict[str, Any]:
    """What feedline's operation gives for the input of a case."""
    try:
        return {"result": values.encode(OPERATIONS[case["op"]](case))}
    except Exception as error:
        return {"error": Failure(error, "call", None)}


def csv_default(json: Any) -> Any:
    """A column of `record_defaults`: a dtype where the field is required, else its default."""
    return getattr(fl, json["required"]) if "required" in json else values.decode(json)


def _decode_csv(case: Case) -> Any:
    defaults = [csv_default(default) for default in case["record_defaults"]]
    return tuple(fl.io.decode_csv(values.decode(case["records"]), defaults, **case["params"]))


OPERATIONS: dict[str, Callable[[Case], Any]] = {"decode_csv": _decode_csv}
