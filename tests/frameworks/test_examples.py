"""The examples of frameworks that are here run, and so do the blocks of docs/frameworks.md."""

from __future__ import annotations

import importlib.util
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
PAGE = ROOT / "docs" / "frameworks.md"
BLOCK = re.compile(r"^```py (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE = [name for name in ("jax", "keras", "tensorflow", "torch") if importlib.util.find_spec(name)]


@pytest.mark.parametrize("name", [name for name, needed in EXAMPLES.items() if needed in HERE])
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


@pytest.mark.parametrize("framework", HERE)
def test_page(framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a framework share one namespace, as if they were typed one after another."""
    monkeypatch.chdir(tmp_path)
    blocks = [text for name, text in BLOCK.findall(PAGE.read_text()) if name == framework]
    assert blocks
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), namespace)


def test_every_example_is_in_the_list() -> None:
    found = {file.name for file in (ROOT / "examples").glob("*.py")} - {"demo.py"}
    assert found == set(EXAMPLES)
