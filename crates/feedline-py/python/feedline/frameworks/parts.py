"""A pipeline cut into parts, for workers of a loader and for processes that train together.

Where the cut is made decides what is done twice. From the end of the pipeline towards its source, operators
that give one element for each that they take (`map`, `prefetch`, ...) can be passed, and so can one `batch`:
what lies behind the cut runs in one part only. What lies in front of it (the source, a `shuffle`) runs in
every part, which then keeps its own elements:

- a worker keeps whole batches, in turn: batch 0, 2, 4, ... and 1, 3, 5, ... of two. A loader that takes from
  its workers in turn gives exactly what the dataset gives without workers.
- a rank keeps every n-th element: parts differ by one element at most.

All parts must see the same elements in the same order in front of the cut, so there `deterministic=False` has
no effect. Behind it, elements of a part may come in any order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from .. import _native, warnings
from ..dataset import INFINITE_CARDINALITY, Dataset
from ..dataset.core import call_text

__all__ = ["cut_input", "of_rank", "of_worker"]

_ONE_TO_ONE = {"map", "prefetch", "with_options"}
_BATCHES = {"batch", "padded_batch", "ragged_batch"}
_FUNCTIONS = {"map", "filter", "flat_map", "interleave", "scan", "from_generator"}


def of_worker(dataset: Dataset, count: int, number: int) -> Dataset:
    """Batches `number`, `number + count`, ... of a dataset."""
    whole, size = cut_input(dataset)
    if costly := _costly(whole._plan):
        warnings.warn(
            warnings.WorkTwice,
            f"each of the {count} workers runs all of {costly}, and keeps its own elements only after that. "
            "Put shuffle, filter and the like before the costly map, or use num_workers=0: feedline has "
            "threads of its own",
        )
    return _rebuilt(
        dataset,
        whole,
        count,
        # The elements keep their positions, and with them their random numbers.
        lambda ds: (
            ds.enumerate()
            .filter(lambda place, _: (place // size) % count == number)
            .map(lambda _, element: element)
        ),
    )


def of_rank(dataset: Dataset, count: int, number: int, equal: str | None = "drop") -> Dataset:
    """Elements `number`, `number + count`, ... of a dataset, in batches again if it had batches.

    Args:
        dataset: The dataset, the same for all ranks.
        count: How many ranks there are.
        number: Which one this is.
        equal: How all get equally many: "drop" leaves out the last few, "wrap" uses the first few twice.
            None: they may differ by one.
    """
    made = _made.setdefault(dataset, {})
    if (count, number, equal) not in made:
        made[count, number, equal] = _of_rank(dataset, count, number, equal)
    return made[count, number, equal]


_made: WeakKeyDictionary[Dataset, dict[tuple[int, int, str | None], Dataset]] = WeakKeyDictionary()
"""Parts that were made already. A part counts its passes, so the next epoch needs the same one."""


def _of_rank(dataset: Dataset, count: int, number: int, equal: Any) -> Dataset:
    whole, _ = cut_input(dataset)
    elements = int(whole.cardinality())
    if equal is None and elements != INFINITE_CARDINALITY and (elements < 0 or elements % count):
        many = "an unknown number of" if elements < 0 else elements
        warnings.warn(
            warnings.UnequalRanks,
            f"{many} elements for {count} ranks: some may get one more than others, and then wait for ever "
            "in "
            'a step that the others do not take. equal="drop" leaves out the last few, equal="wrap" uses the '
            "first few twice",
        )
    return _rebuilt(dataset, whole, count, lambda ds: ds.shard(count, number, equal=equal))


def cut_input(dataset: Dataset) -> tuple[Dataset, int]:
    """What lies in front of the cut, and how many of its elements make one of the dataset."""
    plan, size = dataset._plan, 1
    while len(plan.inputs) == 1:
        if plan.op in _BATCHES and size == 1:
            size = _batch_size(plan)
        elif plan.op not in _ONE_TO_ONE:
            break
        plan = plan.inputs[0]
    return Dataset(plan), size


def _batch_size(plan: _native.Plan) -> int:
    nodes = json.loads(plan.pickled()[0])
    return int(nodes["nodes"][nodes["root"]]["params"]["batch_size"])


def _costly(plan: _native.Plan) -> str | None:
    """The operator that calls a function, nearest to the end of a plan."""
    if plan.op in _FUNCTIONS:
        return call_text(plan)
    found = (_costly(below) for below in plan.inputs)
    return next((name for name in found if name), None)


def _rebuilt(dataset: Dataset, whole: Dataset, count: int, part: Callable[[Dataset], Dataset]) -> Dataset:
    """The dataset with a part, one of so many, of what lies in front of the cut in its place.

    Plans are written inputs first, so what lies in front of the cut comes first in both of these, alike; the
    operators that make the part are put in after it. They bring no attachments, so the numbers of those hold.
    """
    written, attached = dataset._plan.pickled()
    old = json.loads(written)["nodes"]
    cut = len(json.loads(whole._plan.pickled()[0])["nodes"])
    made = json.loads(part(whole)._plan.pickled()[0])["nodes"]
    if count > 1:
        _put_in_order(made, dataset.options().deterministic is False)
    shift = len(made) - cut
    for node in old[cut:]:
        made.append({**node, "inputs": [place + shift for place in node["inputs"]]})
    plan = {"nodes": made, "root": len(made) - 1}
    return type(dataset)(_native.unpickled(json.dumps(plan), attached))


def _put_in_order(written: Any, free: bool) -> None:
    """Makes the order of written operators strict, also in the datasets that their functions make.

    Args:
        written: Operators, or what is in them.
        free: Whether the options let those have any order that do not say it themselves.
    """
    if isinstance(written, list):
        for item in written:
            _put_in_order(item, free)
    elif isinstance(written, dict):
        params = written.get("params")
        loose = (False, None) if free else (False,)
        if isinstance(params, dict) and params.get("deterministic", True) in loose:
            params["deterministic"] = True
        for item in written.values():
            _put_in_order(item, free)
