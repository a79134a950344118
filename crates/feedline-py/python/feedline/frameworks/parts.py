"""A pipeline cut into parts, for workers of a loader and for processes that train together.

Where the cut is made decides what is done twice. From the end of the pipeline towards its source, operators
that give one element for each that they take (`map`, `prefetch`, ...) can be passed, and so can one `batch`:
what lies behind the cut runs in one part only. What lies in front of it (the source, a `shuffle`) runs in
every part, which then keeps its own elements:

- a worker keeps whole batches, in turn: batch 0, 2, 4, ... and 1, 3, 5, ... of two. A loader that takes from
  its workers in turn gives exactly what the dataset gives without workers.
- a rank keeps every n-th element: parts differ by one element at most.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from weakref import WeakKeyDictionary

from .. import _native, warnings
from ..dataset import Dataset
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
        # The elements keep their positions, and with them their random numbers.
        lambda ds: (
            ds.enumerate()
            .filter(lambda place, _: (place // size) % count == number)
            .map(lambda _, element: element)
        ),
    )


def of_rank(dataset: Dataset, count: int, number: int, uneven: str = "drop") -> Dataset:
    """Elements `number`, `number + count`, ... of a dataset, in batches again if it had batches.

    Args:
        dataset: The dataset, the same for all ranks.
        count: How many ranks there are.
        number: Which one this is.
        uneven: What to do where the elements cannot be shared out evenly: "drop" leaves out the last few,
            "pad" uses some twice, "keep" lets ranks differ.
    """
    if uneven not in ("drop", "pad", "keep"):
        raise ValueError(f'uneven must be "drop", "pad" or "keep", not {uneven!r}')
    made = _made.setdefault(dataset, {})
    if (count, number, uneven) not in made:
        made[count, number, uneven] = _of_rank(dataset, count, number, uneven)
    return made[count, number, uneven]


_made: WeakKeyDictionary[Dataset, dict[tuple[int, int, str], Dataset]] = WeakKeyDictionary()
"""Parts that were made already. A part counts its passes, so the next epoch needs the same one."""


def _of_rank(dataset: Dataset, count: int, number: int, uneven: str) -> Dataset:
    whole, _ = cut_input(dataset)
    elements = int(whole.cardinality())
    over = elements % count if elements >= 0 else 0
    if elements == -2:
        warnings.warn(
            warnings.UnequalRanks,
            f"the number of elements is not known, so the {count} ranks may get different numbers of them, "
            "and the others would wait for the first that ends. State it with .assert_cardinality(n), or "
            "stop all ranks after a fixed number of steps: .repeat().take(steps)",
        )
    elif over and uneven != "pad":
        done = "they are left out" if uneven == "drop" else "some ranks get one element more"
        warnings.warn(
            warnings.UnequalRanks,
            f'{elements} elements for {count} ranks leave {over} over: {done}. uneven="pad" uses some twice',
        )
    if over and uneven == "drop":
        each = elements // count
        return _rebuilt(dataset, whole, lambda ds: ds.take(each * count).shard(count, number))
    if over and uneven == "pad":
        missing = count - over
        return _rebuilt(
            dataset, whole, lambda ds: ds.concatenate(ds.repeat().take(missing)).shard(count, number)
        )
    return _rebuilt(dataset, whole, lambda ds: ds.shard(count, number))


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


def _rebuilt(dataset: Dataset, whole: Dataset, part: Callable[[Dataset], Dataset]) -> Dataset:
    """The dataset with a part of what lies in front of the cut in its place.

    Plans are written inputs first, so what lies in front of the cut comes first in both of these, alike; the
    operators that make the part are put in after it. They bring no attachments, so the numbers of those hold.
    """
    written, attached = dataset._plan.pickled()
    old = json.loads(written)["nodes"]
    cut = len(json.loads(whole._plan.pickled()[0])["nodes"])
    made = json.loads(part(whole)._plan.pickled()[0])["nodes"]
    shift = len(made) - cut
    for node in old[cut:]:
        made.append({**node, "inputs": [place + shift for place in node["inputs"]]})
    plan = {"nodes": made, "root": len(made) - 1}
    return type(dataset)(_native.unpickled(json.dumps(plan), attached))
