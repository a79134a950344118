"""The examples of frameworks that are here run, and so do the blocks of the documentation for them."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "keras_fit.py": "keras",
    "plain_jax.py": "jax",
    "pytorch.py": "torch",
    "with_tensorflow.py": "tensorflow",
}
BLOCK = re.compile(r"^```py (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = ("accelerate", "jax", "keras", "lightning", "tensorflow", "torch")
HERE = [name for name in NAMES if importlib.util.find_spec(name)]
PAGES = [
    (page, framework)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for framework in sorted({name for name, _ in BLOCK.findall(page.read_text())})
]


@pytest.mark.parametrize("name", [name for name, needed in EXAMPLES.items() if needed in HERE])
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


@pytest.mark.parametrize(
    ("page", "framework"),
    [(page, framework) for page, framework in PAGES if framework in HERE],
    ids=lambda part: part if isinstance(part, str) else part.stem,
)
def test_page(page: Path, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a framework share one namespace, as if they were typed one after another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", {**os.environ})
    namespace: dict[str, Any] = {"__name__": "page"}
    for name, block in BLOCK.findall(page.read_text()):
        if name == framework:
            exec(compile(block, page.name, "exec"), namespace)


def test_every_block_is_for_somebody() -> None:
    assert {framework for _, framework in PAGES} <= set(NAMES)


def test_every_example_is_in_the_list() -> None:
    found = {file.name for file in (ROOT / "examples").glob("*.py")} - {"demo.py"}
    assert found == set(EXAMPLES)
