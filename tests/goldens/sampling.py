"""Properties of randomly mixed datasets, for cases whose exact order belongs to the reference's generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import run, steps, values
from .calls import Calls
from .events import read

Json = Any


def shortcomings(case: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """What is wrong with the elements of a `tf_rng` case, in words; empty if nothing is."""
    if "op" in case:
        return _of_operation(case, observed)
    if "elements" not in observed:
        return [f"it did not end well: {observed}"]
    elements = observed["elements"]
    op, params = case["steps"][0]
    if op == "sample_from_datasets":
        return _of_sample(params, elements)
    same = sorted(map(repr, elements)) == sorted(map(repr, run.expected(case)["elements"]))
    return [] if same else [f"not the recorded elements: {elements}"]


def _of_operation(case: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """The result is one of those that the operation may give for the input."""
    picture = values.decode(case["input"])
    if case["op"] == "stateless_random_crop":
        size = case["params"]["size"]
        windows = np.lib.stride_tricks.sliding_window_view(picture, size)
        possible = windows.reshape(-1, *size)
    else:
        possible = np.stack([picture, picture[:, ::-1]])
    fits = observed.get("result") in [values.encode(one) for one in possible]
    return [] if fits else [f"not a possible result: {observed}"]


def _of_sample(params: dict[str, Any], elements: list[Json]) -> list[str]:
    """Each input keeps its order, an input without weight gives nothing, and the end follows the stop rule.

    The inputs of these cases have no element in common, so every element tells where it came from.
    """
    inputs = [read(steps.build(pipeline, Calls()))[:-1] for pipeline in params["datasets"]]
    weights = params.get("weights", [1.0] * len(inputs))
    drained = []
    found = []
    known = 0
    for number, (rows, weight) in enumerate(zip(inputs, weights, strict=True)):
        seen = [element for element in elements if element in rows]
        known += len(seen)
        if seen != rows[: len(seen)]:
            found.append(f"input {number} is out of order: {seen}")
        if weight <= 0 and seen:
            found.append(f"input {number} has no weight but gave {seen}")
        if weight > 0:
            drained.append(len(seen) == len(rows))
    if known != len(elements):
        found.append(f"{len(elements) - known} elements come from no input")
    if not (any(drained) if params.get("stop_on_empty_dataset") else all(drained)):
        found.append(f"it ended too early; inputs read to their end: {drained}")
    return found
