"""The model itself is right: it gives what the golden cases expect, wherever it knows the operators."""

from __future__ import annotations

from typing import Any

import pytest
from goldens import cases, run

from . import model

Case = dict[str, Any]


def modelled(case: Case) -> bool:
    """Whether the model can say what this case expects."""
    expect = case["expect"]
    if case.keys() & {"unordered", "tf_rng", "global_seed"} or expect.keys() & {
        "error",
        "reference",
        "calls",
    }:
        return False
    try:
        model.expect(case)
    except KeyError:
        return False
    return True


MODELLED = [case for case in cases.collect(cases.DATA) if modelled(case)]


@pytest.mark.parametrize("golden", MODELLED, ids=[case["id"] for case in MODELLED])
def test_model_agrees_with_golden(golden: Case) -> None:
    """What the model gives is what the case expects, with all errors taken as one."""
    modelled_case = {**golden, "expect": model.expect(golden)}
    assert one_error(run.expected(modelled_case)) in [one_error(form) for form in run.forms(golden)]


def test_fuzz_groups_are_modelled() -> None:
    """The compositions are what the model is for: all but those with ragged results can be expressed."""
    fuzz = [case["id"] for case in cases.collect(cases.DATA) if case["id"].startswith("fuzz")]
    missing = set(fuzz) - {case["id"] for case in MODELLED}
    assert len(missing) <= 1, sorted(missing)


def one_error(value: Any) -> Any:
    """The same data with every recorded error made equal."""
    if isinstance(value, dict):
        return {key: "an error" if key == "error" else one_error(item) for key, item in value.items()}
    return [one_error(item) for item in value] if isinstance(value, list) else value
