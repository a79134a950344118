"""The programs of examples/migrate run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "migrate"
PROGRAMS = sorted(FOLDER.glob("?_*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_program(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(program), run_name="__main__")


def test_all_ten_are_there_and_listed() -> None:
    assert [program.name[0] for program in PROGRAMS] == list("abcdefghij")
    page = (FOLDER / "README.md").read_text()
    assert all(f"({program.name})" in page for program in PROGRAMS)
