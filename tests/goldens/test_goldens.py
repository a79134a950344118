"""Replays the recorded cases: one test a case. `--goldens DIR` names another directory of case files."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import pytest

from . import groups, run, sampling

Case = dict[str, Any]


@pytest.fixture(autouse=True)
def working_directory(case: Case, request: pytest.FixtureRequest) -> None:
    """Cases about files run in an empty directory that has theirs; the others need no directory."""
    if groups.needs_directory(case):
        directory = request.getfixturevalue("tmp_path")
        request.getfixturevalue("monkeypatch").chdir(directory)
        for name, content in case.get("files", {}).items():
            write_file(directory / name, content)


@pytest.fixture(autouse=True)
def global_seed(case: Case) -> Iterator[None]:
    """The seed of a case that sets one; afterwards there is none again."""
    if "global_seed" not in case:
        yield
        return
    fl.random.set_seed(case["global_seed"])
    yield
    fl.random.set_seed(None)


def write_file(path: Path, content: dict[str, Any]) -> None:
    """One entry of a case's `files`."""
    if content.get("dir"):
        path.mkdir(parents=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content["text"].encode() if "text" in content else base64.b64decode(content["b64"]))


def test_case(case: Case) -> None:
    """feedline does what the case expects."""
    observed = run.observe(case)
    if "reference" in case["expect"]:
        # The reference crashes or hangs here: any error is better, silence is not.
        assert run.failures(observed), case["expect"]["reference"]
        return
    if case.get("tf_rng"):
        assert sampling.shortcomings(case, observed) == []
        drawn = "result" if "op" in case else "elements"
        observed[drawn] = run.expected(case)[drawn]
    got, expected = run.comparable(case, observed)
    assert got == expected
