"""Reads the case files and lays the deliberate differences over what the reference did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import groups

Case = dict[str, Any]

DATA = Path(__file__).parent / "data"
DIFFERENT = Path(__file__).parent / "different.json"


def load(directory: Path) -> list[Case]:
    """All cases below a directory, in the order of group and number."""
    cases: list[Case] = []
    for path in sorted(directory.glob("*.json")):
        cases += json.loads(path.read_text(encoding="utf-8"))["cases"]
    return cases


def collect(directory: Path) -> list[Case]:
    """All cases but those that train, each with the expectation that feedline has to meet."""
    return _expected([case for case in load(directory) if _group(case) not in groups.TRAINING])


def training(directory: Path) -> list[Case]:
    """The cases that train a model, in the same form."""
    return _expected([case for case in load(directory) if _group(case) in groups.TRAINING])


def _group(case: Case) -> str:
    return case["id"].partition("/")[0]


def _expected(cases: list[Case]) -> list[Case]:
    different = json.loads(DIFFERENT.read_text(encoding="utf-8"))
    return [{**case, "expect": _expectation(case, different.get(case["id"]))} for case in cases]


def _expectation(case: Case, difference: dict[str, Any] | None) -> dict[str, Any]:
    """`expect` of a difference replaces keys of the case (null removes one); `error` replaces them all."""
    if difference is None:
        return case["expect"]
    if "error" in difference:
        return {"error": difference["error"]}
    merged = {**case["expect"], **difference["expect"]}
    return {key: value for key, value in merged.items() if value is not None}
