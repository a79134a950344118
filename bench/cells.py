"""How a loader declares its cells, and how they are listed without importing the loader's library."""
from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Batches = Iterable[Any]
LOADERS = Path(__file__).parent / "loaders"


@dataclass(frozen=True)
class Cell:
    """`make(*inputs)` builds the pipeline and returns its batches, which can be iterated pass after pass."""

    make: Callable[..., Batches]
    threads: str


class Passes:
    """Batches that a function makes anew for each pass."""

    def __init__(self, make: Callable[[], Batches]) -> None:
        self.make = make

    def __iter__(self) -> Iterator[Any]:
        return iter(self.make())


CELLS: dict[tuple[str, str], Cell] = {}


def cell(workload: str, variant: str, threads: str) -> Callable[[Callable], Callable]:
    """Registers a function as one cell. Its arguments are literals: `listed` reads them from the source."""
    def register(make: Callable) -> Callable:
        CELLS[workload, variant] = Cell(make, threads)
        return make
    return register


def loaders() -> list[str]:
    return sorted(path.stem for path in LOADERS.glob("[a-z]*.py"))


def listed(loader: str) -> list[tuple[str, str]]:
    """The (workload, variant) of each cell of a loader, in source order."""
    tree = ast.parse((LOADERS / f"{loader}.py").read_text())
    calls = (d for f in tree.body if isinstance(f, ast.FunctionDef) for d in f.decorator_list)
    return [tuple(ast.literal_eval(arg) for arg in d.args[:2]) for d in calls
            if isinstance(d, ast.Call) and isinstance(d.func, ast.Name) and d.func.id == "cell"]
