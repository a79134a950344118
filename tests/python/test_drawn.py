"""Seeds that nobody gave: drawn once, and brought along by states."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import feedline as fl
import numpy as np
import pytest


def make() -> fl.Dataset:
    """Random functions and a shuffle without a seed."""
    return (
        fl.Dataset.range(12)
        .map(lambda x: x + fl.random.uniform((), 0, 1000, dtype=fl.int64))
        .map(lambda x: fl.cast(x, fl.float32) + fl.random.normal(()))
        .shuffle(4)
        .batch(2)
    )


def values(batches: object) -> list[list[float]]:
    """Batches as lists."""
    return [batch.tolist() for batch in batches]  # type: ignore[attr-defined]


RESUMED = """if True:
    import json, sys
    sys.path.insert(0, sys.argv[1])
    from test_drawn import make, values
    ds = make()
    for state in json.load(sys.stdin):
        print(json.dumps([values(ds.iter(state, chunk_rows=1)), values(ds)]))
"""


def test_states_go_on_in_another_process() -> None:
    """The rest of the epoch, and the next one."""
    ds = make()
    it = iter(ds)
    states, seen = [it.state_dict()], []
    for batch in it:
        seen.append(batch.tolist())
        states.append(it.state_dict())
    after = values(ds)
    command = [sys.executable, "-c", RESUMED, str(Path(__file__).parent)]
    done = subprocess.run(command, input=json.dumps(states), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for i, line in enumerate(done.stdout.splitlines()):
        assert json.loads(line) == [seen[i:], after], i
    assert values(make()) != seen


def test_a_seed_that_was_given_is_part_of_the_plan() -> None:
    """Another one is another dataset."""
    noisy = [fl.Dataset.range(4).map(lambda x, s=s: fl.random.uniform((), seed=s)) for s in (1, 2)]
    state = iter(noisy[0]).state_dict()
    with pytest.raises(ValueError, match="seed="):
        noisy[1].iter(state)


def test_what_is_written_has_the_seeds_of_now() -> None:
    """A copy of a dataset that went on with another's seeds draws the same."""
    one, other = make(), make()
    it = iter(one)
    next(it)
    rest = values(other.iter(it.state_dict()))
    assert rest == values(it)
    noise = fl.Dataset.range(3).map(lambda x: fl.random.uniform(()))
    again = fl.Dataset.range(3).map(lambda x: fl.random.uniform(()))
    list(again.iter(iter(noise).state_dict()))
    for twin in (pickle.loads(pickle.dumps(again)), copy.copy(again)):
        state = iter(twin).state_dict()
        assert state["drawn"] == iter(noise).state_dict()["drawn"]


def test_calls_differ() -> None:
    """Two functions without a seed do not draw the same."""
    ds = fl.Dataset.range(50).map(lambda x: fl.random.uniform(())).map(lambda a: (a, fl.random.uniform(())))
    a, b = next(iter(ds.batch(50)))
    assert not np.allclose(a, b)
    assert "seed" not in repr(ds) and "drawn" not in repr(ds)
