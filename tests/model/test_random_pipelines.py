"""feedline gives what the model gives, whatever the pipeline, the number of threads and the size of chunks.

`FEEDLINE_MODEL_CASES` sets the number of pipelines. A failing one loses every step that it can do without
and is printed as Python code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import feedline as fl
import numpy as np
import pytest
from goldens import run, steps

from . import code, model, pipelines

Case = dict[str, Any]

CASES = int(os.environ.get("FEEDLINE_MODEL_CASES", "300"))
CPU_BUDGETS = (1, 2, 4)


@pytest.fixture(scope="module", autouse=True)
def cpu_budget() -> Iterator[None]:
    """The budget is a setting of the process: afterwards it is the default again."""
    yield
    fl.configure(cpu_budget=None)


@pytest.mark.parametrize("seed", range(CASES))
def test_random_pipeline(seed: int) -> None:
    """Spec, cardinality and every event are those of the model, under each budget and chunking."""
    case = pipelines.case(seed)
    chunk_rows = Random(seed).randint(1, 7)
    for budget in CPU_BUDGETS:
        fl.configure(cpu_budget=budget)
        for chunking in ("", f".with_options(chunk_rows={chunk_rows})"):
            if differs(case, chunking):
                case = smallest(case, chunking)
                got, expected = compare(case, chunking)
                print(f"cpu_budget={budget}, read by {case['drive']}:\nds = {text(case, chunking)}")
                assert got == expected


def smallest(case: Case, chunking: str) -> Case:
    """A case that still differs, and no longer does with any one step less."""
    for candidate in pipelines.smaller(case):
        if differs(candidate, chunking):
            return smallest(candidate, chunking)
    return case


def differs(case: Case, chunking: str) -> bool:
    """Whether feedline and the model disagree on a case."""
    got, expected = compare(case, chunking)
    return got != expected


def compare(case: Case, chunking: str) -> tuple[Any, Any]:
    """What feedline and the model make of a case."""
    expected = {**case, "expect": model.expect(case)}
    return run.comparable(expected, run.observe(case, lambda *_: evaluate(text(case, chunking))))


def text(case: Case, chunking: str) -> str:
    """The pipeline as a user would write it."""
    return code.pipeline(case["steps"]) + chunking


def evaluate(expression: str) -> Any:
    """The dataset that a piece of our own code makes; a refusal is told as one of the pipeline as a whole."""
    try:
        return eval(expression, {"fl": fl, "np": np})
    except Exception as error:
        raise steps.BuildError(0) from error
