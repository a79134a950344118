"""Options and parameters of the golden tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import cases


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--goldens DIR`."""
    parser.addoption("--goldens", type=Path, default=cases.DATA, help="directory of golden case files")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says what is not collected, so that no gap is silent."""
    directory = config.getoption("goldens")
    collected = len(cases.collect(directory))
    missing = cases.uncollected(directory)
    counts = ", ".join(f"{group} {count}" for group, count in sorted(missing.items()))
    return [
        f"goldens: {collected} cases collected, {sum(missing.values())} of {len(missing)} groups not yet",
        f"goldens not yet: {counts}",
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `case` gets every covered golden case, under its id."""
    if "case" in metafunc.fixturenames:
        collected = cases.collect(metafunc.config.getoption("goldens"))
        metafunc.parametrize("case", collected, ids=[case["id"] for case in collected])
