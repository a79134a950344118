"""States that another process goes on from: every operator and source, random pipelines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import feedline as fl
import pytest
import towers

pytestmark = pytest.mark.filterwarnings("ignore:FL00[679]")

BUDGETS = (1, 2, 4)
#: Steps on numbers, and sources behind which elements are held.
ALONE = [["range", step] for step in (*towers.STEPS, *towers.KEPT, *towers.INSIDE, *towers.FIRST)]
READ = [[source, "shuffle"] for source in towers.SOURCES] + [["tfrecord", "origin"]]


def taken(case: Any, files: Path, home: Path, **options: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """What a pipeline gives, what its next pass does, and its states with a folder, which may be removed.

    Where something is kept on disk, each is of a pass with a folder of its own: it is whole by now, or as
    full as that pass left it, or will be removed (which those who have read shards cannot do with), in turn.
    """

    def tower(folder: str) -> fl.Dataset:
        return towers.tower(case, files, str(home / folder))

    ds = tower("first")
    it = ds.iter(**options)
    expected, states = [], [(0, it.state_dict(), "", False)]
    while (found := towers.event(it)) is not None:
        expected.append(found)
        states.append((len(expected), it.state_dict(), "", False))
    after = towers.events(iter(ds))
    if home.exists():
        for position in range(len(states)):
            how = position // 3 % 3
            with tower(str(position)).iter(**options) as it:
                assert [towers.event(it) for _ in range(position)] == expected[:position]
                removed = how == 1 and "snapshot in shards" not in towers.names(case)
                states[position] = position, it.state_dict(), str(home / str(position)), removed
                if how == 0:
                    assert towers.events(it) == expected[position:]
    return expected, after, states


def gone_on_with(cases: list[Any], tmp_path: Path) -> str:
    """What other processes, one for each number of workers, do not go on with as this one does."""
    files = tmp_path / "files"
    towers.write_files(files)
    shares: dict[int, list[Any]] = {budget: [] for budget in BUDGETS}
    for number, case in enumerate(cases):
        options = {"chunk_rows": [3, 1, 50][number % 3], "cpu_budget": BUDGETS[number // 3 % 3]}
        expected, after, states = taken(case, files, tmp_path / str(number), **options)
        # From the middle on, one pass after the other gives a few elements. (None of them writes shards.)
        hop = 0 if "snapshot in shards" in towers.names(case) else 1 + number % 3
        hops = [hop if position == len(expected) // 2 else 0 for position in range(len(states))]
        asked = [(*state, hop) for state, hop in zip(states, hops, strict=True)]
        for turn, budget in enumerate(BUDGETS):
            first = (number + turn) % len(BUDGETS)
            shares[budget].append((case, expected, after, asked[first :: len(BUDGETS)]))
    running = []
    for budget, share in shares.items():
        path = tmp_path / f"{budget}.json"
        path.write_text(json.dumps([budget, share]))
        run = [sys.executable, towers.__file__, str(files), str(path)]
        running.append(subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        told = [child.communicate(timeout=280) for child in running]
    finally:
        for child in running:
            child.kill()
    assert [child.returncode for child in running] == [0] * len(running), [err[-2000:] for _, err in told]
    return "".join(out for out, _ in told)


def test_every_operator_and_source(tmp_path: Path) -> None:
    """At every position, with 1, 2 and 4 workers in turn."""
    assert gone_on_with([*ALONE, *READ], tmp_path) == ""


@pytest.mark.parametrize("first", [0, 24])
def test_towers(first: int, tmp_path: Path) -> None:
    """Random pipelines of up to eight operators, at every position."""
    assert gone_on_with(list(range(first, first + 24)), tmp_path) == ""
