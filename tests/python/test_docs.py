"""The examples of the documentation run: pages from top to bottom, and the docstrings of every module."""

from __future__ import annotations

import doctest
import importlib
import linecache
import operator
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import pytest
from stores import S3

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Examples may set the global seed and write files."""
    monkeypatch.chdir(tmp_path)
    yield
    fl.random.set_seed(None)


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    """What pages about remote data read and write: s3://bucket."""
    with S3() as s3:
        yield s3


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_page(page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks share one namespace, as if they were typed one after another."""
    text = page.read_text()
    if "s3://bucket" in text:
        request.getfixturevalue("store").use(monkeypatch)
        monkeypatch.setenv("FEEDLINE_INDEX_DIR", "indexes")
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in BLOCK.finditer(text):
        name = f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}"
        source = block.group(1)
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), namespace)


def test_pages_have_examples() -> None:
    """All but the index and those that are generated. Blocks of frameworks run in tests/frameworks."""
    for page in PAGES:
        if page.name != "README.md" and page.parent.name != "reference":
            assert re.search(r"^```py", page.read_text(), re.MULTILINE), page


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert f"({name})" in index or name == "README.md", name


LINK = re.compile(r"\]\(([^)#:]*)(?:#([^):]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINKED = [*PAGES, *sorted((ROOT / "examples").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links, as GitHub makes it of their words."""
    return {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in HEADING.findall(page.read_text())
    }


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(ROOT)) for page in LINKED])
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in LINK.findall(page.read_text()):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


NAME = re.compile(r"\bfl((?:\.\w+)+)")


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(ROOT)) for page in LINKED])
def test_names_exist(page: Path) -> None:
    """Code runs, but tables and sentences have names too."""
    for name in set(NAME.findall(page.read_text())):
        operator.attrgetter(name[1:])(fl)


# They import what .venv does not have; tests/frameworks runs them.
FRAMEWORKS = [
    "feedline.keras",
    "feedline.torch",
    *(f"feedline.frameworks.{f}" for f in ("backup", "epochs", "jax", "keras", "tensorflow", "torch")),
]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(fl.__path__, "feedline.")
    if not module.name.endswith("_native") and module.name not in FRAMEWORKS
)


@pytest.mark.parametrize("name", ["feedline", *MODULES])
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), report=True)
    assert result.failed == 0


def test_no_module_hides_a_function() -> None:
    """Importing `feedline.x` makes `fl.x` that module."""
    names = {name.split(".")[1] for name in MODULES}
    assert names & {*fl.ops.__all__, *fl.dtypes.__all__} == set()


PUBLIC = [
    "fl",
    "fl.Dataset",
    "fl.math",
    "fl.strings",
    "fl.random",
    "fl.debugging",
    "fl.image",
    "fl.ragged",
    "fl.sparse",
    "fl.nest",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_has_a_docstring(name: str) -> None:
    thing = eval(name)
    names = getattr(thing, "__all__", None) or [n for n in dir(thing) if not n.startswith("_")]
    missing = [
        n for n in names if callable(getattr(thing, n)) and not (getattr(thing, n).__doc__ or "").strip()
    ]
    assert missing == []


def test_the_figures_in_the_readme_are_those_of_the_results() -> None:
    check = [sys.executable, str(ROOT / "bench" / "figures.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
