"""Options and parameters of the golden tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import cases


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--goldens DIR`."""
    parser.addoption("--goldens", type=Path, default=cases.DATA, help="directory of golden case files")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says how many there are, and how many run elsewhere, so that no gap is silent."""
    directory = config.getoption("goldens")
    here, training = len(cases.collect(directory)), len(cases.training(directory))
    return [f"goldens: {here} cases; {training} more that train a model, where there is a framework"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `case` gets every golden case that trains no model, under its id."""
    if "case" in metafunc.fixturenames:
        collected = cases.collect(metafunc.config.getoption("goldens"))
        metafunc.parametrize("case", collected, ids=[case["id"] for case in collected])
