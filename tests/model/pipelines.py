"""Random pipelines in the case format, small enough to read and always well-formed; a seed makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from . import model
from .data import INFINITE
from .fitting import PAIR_FUNCTIONS, Step, Steps, well_formed

Case = dict[str, Any]
Grow = Callable[[Random, Steps], Steps]

MOST_OPERATORS = 6
# Enough to see how an endless stream goes on.
READ_OF_ENDLESS = 25


def case(seed: int) -> Case:
    """The pipeline of a seed, and a way to read it."""
    rng = Random(seed)
    steps = [_source(rng)]
    if rng.random() < 0.5:  # otherwise failures, the hard part, would be rare
        steps = _map_that_fails(rng, steps)
    operators = rng.randint(1, MOST_OPERATORS)
    while operators and not _endless(steps):
        grown = rng.choice(OPERATORS)(rng, steps)
        if well_formed(grown):
            steps = grown
            operators -= 1
    return _read(steps, twice=rng.random() < 0.5)


def smaller(case: Case) -> Iterator[Case]:
    """The same case with one step less, for every step that can go."""
    twice = case["drive"]["kind"] == "epochs"
    for index in range(1, len(case["steps"])):
        steps = case["steps"][:index] + case["steps"][index + 1 :]
        if well_formed(steps):
            yield _read(steps, twice)


def _endless(steps: Steps) -> bool:
    return model.extend(None, steps).cardinality == INFINITE


def _read(steps: Steps, twice: bool) -> Case:
    if _endless(steps):
        return {"steps": steps, "drive": {"kind": "iterate", "max": READ_OF_ENDLESS}}
    return {"steps": steps, "drive": {"kind": "epochs", "count": 2} if twice else {"kind": "iterate"}}


def _source(rng: Random) -> Step:
    """Scalars, counted or given."""
    count = rng.choice([0, 1, *range(3, 13)])
    if rng.random() < 0.5:
        start, step = rng.randint(-4, 4), rng.randint(1, 2)
        return ["range", {"start": start, "stop": start + step * count, "step": step}]
    values = [rng.randint(-3, 8) for _ in range(count)]
    return ["from_tensor_slices", {"value": {"d": "int64", "s": [count], "v": values}}]


def _operator(op: str, **choices: Sequence[Any]) -> Grow:
    """An operator whose parameters are chosen one by one; a parameter chosen as None is left out."""

    def grow(rng: Random, steps: Steps) -> Steps:
        chosen = {name: rng.choice(choice) for name, choice in choices.items()}
        return [*steps, [op, {name: value for name, value in chosen.items() if value is not None}]]

    return grow


def _compose(*functions: Any) -> dict[str, Any]:
    return {"fn": "compose", "fns": list(functions)}


def _fail_if(value: int) -> dict[str, Any]:
    return {"fn": "fail_if_eq", "value": value}


SWITCH = [None, False, True]
PARALLEL = [None, 1, 2]
SIZES = range(1, 6)
SMALL = {"fn": "mod", "value": 4}
SQUARE = _compose({"fn": "mod", "value": 10}, "square")

SCALAR_FUNCTIONS = [
    *({"fn": "add", "value": value} for value in (-2, 1, 3)),
    SMALL,
    SQUARE,
    _compose(SMALL, "fill_x"),
    {"fn": "pack_tuple", "fns": ["identity", SQUARE]},
]
PREDICATES = [
    {"fn": "mod_eq", "mod": 2, "value": 0},
    {"fn": "mod_eq", "mod": 3, "value": 1},
    {"fn": "lt", "value": 6},
    _compose(_fail_if(1), {"fn": "lt", "value": 5}),
    _compose(_fail_if(4), {"fn": "mod_eq", "mod": 2, "value": 0}),
]
INNER = [
    _compose(SMALL, "ds_range"),
    _compose(SMALL, "ds_repeat_x"),
    {"fn": "ds_pipeline", "steps": [["repeat", {"count": 2}]]},
    {
        "fn": "ds_pipeline",
        "steps": [["repeat", {"count": 3}], ["enumerate", {}], ["map", {"fn": "sum_components"}]],
    },
    {"fn": "ds_pipeline", "steps": [["repeat", {"count": 3}], ["map", {"fn": _fail_if(2)}]]},
    _compose(_fail_if(3), SMALL, "ds_repeat_x"),
]


def _map_that_fails(rng: Random, steps: Steps) -> Steps:
    return [*steps, ["map", {"fn": _fail_if(rng.randint(0, 4))}]]


def _interleave(rng: Random, steps: Steps) -> Steps:
    cycle = rng.randint(1, 4)
    choose = _operator(
        "interleave",
        fn=INNER,
        cycle_length=[cycle],
        block_length=range(1, 4),
        num_parallel_calls=[None, rng.randint(1, cycle)],
    )
    return choose(rng, steps)


def _windows(rng: Random, steps: Steps) -> Steps:
    window = _operator("window", size=SIZES, shift=range(1, 5), stride=range(1, 3), drop_remainder=SWITCH)
    batches = {"fn": "win_pipeline", "steps": [["batch", {"batch_size": rng.choice(SIZES)}]]}
    return [*window(rng, steps), ["flat_map", {"fn": batches}]]


def _group_by_window(rng: Random, steps: Steps) -> Steps:
    key = {"fn": "mod", "value": rng.randint(1, 3)}
    batches = {"fn": "win_pipeline", "steps": [["batch", {"batch_size": rng.choice(SIZES)}]]}
    choose = _operator(
        "group_by_window", key=[key, _compose(_fail_if(2), key)], reduce=[batches], window_size=range(1, 5)
    )
    return choose(rng, steps)


def _shard(rng: Random, steps: Steps) -> Steps:
    shards = rng.randint(1, 3)
    return [*steps, ["shard", {"num_shards": shards, "index": rng.randrange(shards)}]]


def _scan(rng: Random, steps: Steps) -> Steps:
    state = {"d": "int64", "s": [], "v": [rng.randint(-2, 2)]}
    return _operator("scan", initial_state=[state], fn=["cumsum", "cumsum_prev"])(rng, steps)


def _concatenate(rng: Random, steps: Steps) -> Steps:
    return [*steps, ["concatenate", {"dataset": [_source(rng)]}]]


def _zip(rng: Random, steps: Steps) -> Steps:
    inputs = [steps, _map_that_fails(rng, [_source(rng)])]
    rng.shuffle(inputs)
    return [["zip", {"datasets": {"t": inputs}}]]


def _repeat_for_ever(rng: Random, steps: Steps) -> Steps:
    return [*steps, ["repeat", {}], *rng.choice([[], [["take", {"count": rng.randint(0, 20)}]]])]


OPERATORS: list[Grow] = [
    _operator("batch", batch_size=SIZES, drop_remainder=SWITCH, num_parallel_calls=PARALLEL),
    _operator("cache"),
    _operator("enumerate", start=range(4)),
    _operator("filter", fn=PREDICATES),
    _operator("flat_map", fn=INNER),
    _operator("ignore_errors"),
    _operator("map", fn=PAIR_FUNCTIONS, num_parallel_calls=PARALLEL),
    _operator("map", fn=SCALAR_FUNCTIONS, num_parallel_calls=PARALLEL),
    _operator("padded_batch", batch_size=SIZES, drop_remainder=SWITCH),
    _operator("prefetch", buffer_size=range(1, 4)),
    _operator("rebatch", batch_size=SIZES, drop_remainder=SWITCH),
    _operator("repeat", count=range(4)),
    _operator("shuffle", buffer_size=range(1, 9), seed=range(100), reshuffle_each_iteration=SWITCH),
    _operator("skip", count=range(-1, 6)),
    _operator("take", count=range(-1, 10)),
    _operator("take_while", fn=PREDICATES),
    _operator("unbatch"),
    _operator("unique"),
    _concatenate,
    _group_by_window,
    _interleave,
    _map_that_fails,
    _repeat_for_ever,
    _scan,
    _shard,
    _windows,
    _zip,
]
