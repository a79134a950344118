"""A notebook: cells share a pipeline, are run again, show datasets, and the kernel ends."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbconvert.preprocessors import ExecutePreprocessor

CELLS = [
    "import feedline as fl",
    "ds = fl.Dataset.range(1000).shuffle(100, seed=1).map(lambda x: x * 2).batch(10)\nit = iter(ds)",
    "ds",
    "first = next(it)\nfirst.tolist()",
    "first = next(it)\nfirst.tolist()",
    # A function that runs as Python, and one that a later cell defines anew.
    "def plus(x):\n    return int(x) + 1\nsum(fl.Dataset.range(10).map(plus, python=True)).item()",
    "def plus(x):\n    return int(x) + 2\nsum(fl.Dataset.range(10).map(plus, python=True)).item()",
    # Left open when the kernel ends.
    "endless = iter(fl.Dataset.counter().map(lambda x: x + 1).batch(100))\nint(next(endless)[0])",
]


@pytest.mark.filterwarnings("ignore")
def test_cells_run_one_after_another(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    runner = ExecutePreprocessor(timeout=60, kernel_name="python3")
    runner.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    shown = [cell["outputs"][0]["data"] if cell["outputs"] else {} for cell in notebook.cells]
    assert "<table>" in shown[2]["text/html"] and "shuffle" in shown[2]["text/html"]
    assert shown[3]["text/plain"] != shown[4]["text/plain"], "the iterator goes on from cell to cell"
    assert [shown[n]["text/plain"] for n in (5, 6, 7)] == ["55", "65", "1"]
