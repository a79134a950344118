"""Runs a case on feedline and compares what happened with what is expected.

Both sides have the form of a case's `expect`, so the comparison is one `==` on plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import drives, keras_cases, operations, record_cases, steps, values
from .calls import Calls
from .events import Failure, settle

Case = dict[str, Any]
Observed = dict[str, Any]


def observe(case: Case, build: Callable[[Case, Calls], Any] | None = None) -> Observed:
    """What feedline does with a case. `build` makes the dataset where it is not that of the steps."""
    if "op" in case:
        rooms = (room for room in (keras_cases, record_cases) if case["op"] in room.OBSERVERS)
        return next(rooms, operations).observe(case)
    calls = Calls()
    try:
        dataset = (build or _build)(case, calls)
    except steps.BuildError as refused:
        return {"error": Failure(refused.__cause__, "build", refused.step)}
    return {
        "spec": values.encode_spec(dataset.element_spec),
        "cardinality": int(dataset.cardinality()),
        **drives.observe(dataset, case.get("drive", {"kind": "iterate"})),
        "calls": calls.total,
    }


def _build(case: Case, calls: Calls) -> Any:
    return steps.build(case["steps"], calls)


def expected(case: Case) -> dict[str, Any]:
    """The expectation of a case in the plain form."""
    return values.normalise(case["expect"])


def forms(case: Case) -> list[dict[str, Any]]:
    """The acceptable forms: the plain one and, where the reference's rewrites show, what they give."""
    expect = expected(case)
    suffix = "_unoptimised"
    rewritten = {key: value for key, value in expect.items() if not key.endswith(suffix)}
    unoptimised = {key.removesuffix(suffix): value for key, value in expect.items() if key.endswith(suffix)}
    return [{**rewritten, **unoptimised}, rewritten] if unoptimised else [rewritten]


def comparable(case: Case, observed: Observed) -> tuple[Any, Any]:
    """The observed and the expected side of a case, equal exactly if the case is met."""
    accepted = [_ordered(case, form) for form in forms(case)]
    counted = {key: value for key, value in observed.items() if key != "calls" or key in case["expect"]}
    sides = [(_within(case, settle(_ordered(case, counted), form), form), form) for form in accepted]
    return next((side for side in sides if side[0] == side[1]), sides[0])


def _within(case: Case, got: Any, expected: Any) -> Any:
    """What was observed; a number within the tolerance of the case is taken for the recorded one."""
    tolerance = case.get("tol", 0)
    match got, expected:
        case {**ours}, {**theirs} if ours.keys() == theirs.keys():
            return {key: _within(case, ours[key], theirs[key]) for key in ours}
        case [*ours], [*theirs] if len(ours) == len(theirs):
            return [_within(case, a, b) for a, b in zip(ours, theirs, strict=True)]
        case ((int() | float()), (int() | float())) if abs(got - expected) <= tolerance:
            return expected
    return got


def _ordered(case: Case, side: dict[str, Any]) -> dict[str, Any]:
    """Where any order is right, both sides are sorted alike."""
    if case.get("unordered") and "elements" in side:
        return {**side, "elements": sorted(side["elements"], key=repr)}
    return side


def failures(observed: Any) -> list[Failure]:
    """All failures anywhere in what was observed."""
    if isinstance(observed, Failure):
        return [observed]
    items = (
        observed.values() if isinstance(observed, dict) else observed if isinstance(observed, list) else ()
    )
    return [failure for item in items for failure in failures(item)]
