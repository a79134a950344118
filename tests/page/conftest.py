"""Tests in a real browser: `make test-page` fetches one. Where there is none, the header says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .browser import COMMAND, Browser, Page, browser

collect_ignore = [] if COMMAND.exists() else ["test_page.py"]


def pytest_report_header() -> list[str]:
    """Says what is not collected, so that no gap is silent."""
    return (
        []
        if COMMAND.exists()
        else ["page: not collected, because there is no Chromium; see `make test-page`"]
    )


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def page(chromium: Browser) -> Page:
    return chromium.page()


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where screenshots are left for people to look at."""
    folder = Path(os.environ.get("FEEDLINE_ARTEFACTS", Path(__file__).parents[2] / "target" / "page"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
