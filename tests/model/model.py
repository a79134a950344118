"""The model: what a pipeline of the case format must give, worked out in the most obvious way.

`expect(case)` answers in the form of a case's `expect`. A pipeline that the model does not know is a
KeyError. Each operator says three things: the spec, the cardinality and the stream of events; the streams
are in `streams`, the functions in `functions`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import functions, philox, streams, tree
from .data import INFINITE, UNKNOWN, Data, single, to_json
from .streams import FAILED, Events
from .tree import Spec, Value

Params = dict[str, Any]

MOST_ELEMENTS = 1000
MOST_ERRORS = 4
ERROR = {"error": {"class": "InvalidArgumentError", "when": "next"}}


def extend(data: Data | None, steps: list[Any]) -> Data:
    """A dataset followed by steps."""
    for op, params in steps:
        data = OPS[op](data, params)
    assert data is not None
    return data


def expect(case: dict[str, Any]) -> dict[str, Any]:
    """What a case must show: spec, cardinality, and the events of its drive."""
    data = extend(None, case["steps"])
    drive = case.get("drive", {"kind": "iterate"})
    common = {"spec": data.spec, "cardinality": data.cardinality}
    return {**common, **DRIVES[drive["kind"]](data, drive)}


def _iterate(data: Data, drive: Params) -> dict[str, Any]:
    events = _read(data.open(), drive.get("max", MOST_ELEMENTS))
    clean = events[-1] == "end" and ERROR not in events
    return {"elements": events[:-1]} if clean else {"events": events}


def _epochs(data: Data, drive: Params) -> dict[str, Any]:
    return {"epochs": [_read(data.open(), MOST_ELEMENTS) for _ in range(drive["count"])]}


DRIVES: dict[str, Callable[[Data, Params], dict[str, Any]]] = {
    "build": lambda data, drive: {},
    "epochs": _epochs,
    "iterate": _iterate,
}


def _read(events: Events, most: int) -> list[Any]:
    """Events as the golden runner reads them: up to `most` elements, up to the fourth error."""
    seen: list[Any] = []
    errors = 0
    while len(seen) - errors < most:
        event = next(events, events)
        if event is events:
            return [*seen, "end"]
        seen.append(ERROR if event is FAILED else to_json(event))
        errors += event is FAILED
        if errors == MOST_ERRORS:
            return [*seen, "stopped_observing"]
    return [*seen, "more"]


def _range(data: Data | None, params: Params) -> Data:
    bounds = range(*(params[name] for name in ("start", "stop", "step") if name in params))
    dtype = params.get("output_type", "int64")
    return Data({"d": dtype, "s": []}, len(bounds), lambda: (tree.leaf(i).astype(dtype) for i in bounds))


def _from_tensors(data: Data | None, params: Params) -> Data:
    value = tree.from_json(params["value"])
    return single(value, tree.spec_of(value))


def _from_tensor_slices(data: Data | None, params: Params) -> Data:
    value = tree.from_json(params["value"])
    spec = tree.spec_of(value)
    count = next(tree.spec_leaves(spec))["s"][0]
    return Data(tree.row(spec), count, lambda: streams.unbatch(iter([value])))


def _zip(data: Data | None, params: Params) -> Data:
    match params["datasets"]:
        case {"t": pipelines} if all(isinstance(steps, list) for steps in pipelines):
            inputs = [extend(None, steps) for steps in pipelines]
        case _:
            raise KeyError("only flat tuples of inputs are modelled")
    counts = [one.cardinality for one in inputs]
    finite = [count for count in counts if count >= 0]
    cardinality = UNKNOWN if UNKNOWN in counts else min(finite, default=INFINITE)
    spec = {"t": [one.spec for one in inputs]}
    return Data(spec, cardinality, lambda: streams.zip_([one.open() for one in inputs], tuple))


def _map(data: Data, params: Params) -> Data:
    fn = functions.function(params["fn"])
    return Data(fn.spec(data.spec), data.cardinality, lambda: streams.map_(data.open(), fn.apply))


def _filter(data: Data, params: Params) -> Data:
    fn = functions.function(params["fn"])
    return Data(data.spec, UNKNOWN, lambda: streams.filter_(data.open(), fn.apply))


def _take_while(data: Data, params: Params) -> Data:
    fn = functions.function(params["fn"])
    return Data(data.spec, UNKNOWN, lambda: streams.take_while(data.open(), fn.apply))


def _flat_map(data: Data, params: Params) -> Data:
    fn = functions.function(params["fn"])
    return Data(fn.spec(data.spec)["ds"], UNKNOWN, lambda: streams.flat_map(data.open(), fn.apply))


def _interleave(data: Data, params: Params) -> Data:
    fn = functions.function(params["fn"])
    parallel = "num_parallel_calls" in params
    cardinality = INFINITE if parallel and data.cardinality == INFINITE else UNKNOWN
    cycle, block = params["cycle_length"], params.get("block_length", 1)
    return Data(
        fn.spec(data.spec)["ds"],
        cardinality,
        lambda: streams.interleave(data.open(), fn.apply, cycle, block, parallel),
    )


def _batch(data: Data, params: Params) -> Data:
    return _batched(data, params, tree.stacked(data.spec, _static_size(params)), streams.stack)


def _padded_batch(data: Data, params: Params) -> Data:
    """Shapes and values other than the defaults are modelled for single components only."""
    shapes = params.get("padded_shapes")
    if shapes is None:
        spec = data.spec
    else:
        spec = {"d": data.spec["d"], "s": [None if size == -1 else size for size in shapes]}
    padding = tree.from_json(params["padding_values"]) if "padding_values" in params else None

    def pad(*leaves: np.ndarray) -> np.ndarray:
        rank = leaves[0].ndim
        fixed = [None] * rank if shapes is None else spec["s"]
        longest = [max(leaf.shape[axis] for leaf in leaves) for axis in range(rank)]
        if any(size is not None and size < most for size, most in zip(fixed, longest, strict=True)):
            raise streams.ElementFailed
        shape = [most if size is None else size for size, most in zip(fixed, longest, strict=True)]
        filler = padding if padding is not None else b"" if leaves[0].dtype == object else 0
        result = np.full([len(leaves), *shape], filler, leaves[0].dtype)
        for number, leaf in enumerate(leaves):
            result[(number, *map(slice, leaf.shape))] = leaf
        return result

    stacked = tree.stacked(spec, _static_size(params))
    return _batched(data, params, stacked, lambda group: tree.map_leaves(pad, *group))


def _static_size(params: Params) -> int | None:
    return params["batch_size"] if params.get("drop_remainder") else None


def _batched(data: Data, params: Params, spec: Spec, stack: Callable[[list[Value]], Value]) -> Data:
    size, drop = params["batch_size"], params.get("drop_remainder", False)
    count = data.cardinality
    if count >= 0:
        count = count // size if drop else -(-count // size)
    return Data(spec, count, lambda: streams.batch(data.open(), itertools.repeat(size), drop, stack))


def _unbatch(data: Data, params: Params) -> Data:
    sizes = {spec["s"][0] for spec in tree.spec_leaves(data.spec)}
    cardinality = data.cardinality
    if cardinality >= 0:
        cardinality = UNKNOWN if None in sizes else cardinality * min(sizes)
    return Data(tree.row(data.spec), cardinality, lambda: streams.unbatch(data.open()))


def _rebatch(data: Data, params: Params) -> Data:
    size, drop = params["batch_size"], params.get("drop_remainder", False)
    sizes = size if isinstance(size, list) else [size]
    if 0 in sizes:
        raise KeyError("empty batches are not modelled")
    leading = next(tree.spec_leaves(data.spec))["s"][0]
    known = isinstance(size, int) and (drop or (leading is not None and leading % size == 0))
    spec = tree.stacked(tree.row(data.spec), size if known else None)

    def open_() -> Events:
        return streams.batch(streams.unbatch(data.open()), itertools.cycle(sizes), drop, streams.stack)

    return Data(spec, UNKNOWN, open_)


def _window(data: Data, params: Params) -> Data:
    size, stride = params["size"], params.get("stride", 1)
    shift, drop = params.get("shift", size), params.get("drop_remainder", False)
    count = data.cardinality
    if count >= 0:
        starts = count - (size - 1) * stride if drop else count
        count = -(-max(0, starts) // shift)

    def dataset(members: list[Value]) -> Value:
        """A structure of datasets for structured elements, as the reference has it."""
        count = len(members)
        columns = tree.map_leaves(lambda *leaves: list(leaves), *members)
        return tree.map_leaves(
            lambda column: Data(tree.spec_of(column[0]), count, lambda: iter(column)), columns
        )

    def open_() -> Events:
        return streams.map_(streams.window(data.open(), size, shift, stride, drop), dataset)

    return Data(tree.map_spec(lambda spec: {"ds": spec}, data.spec), count, open_)


def _shuffle(data: Data, params: Params) -> Data:
    pair = philox.seed_pair(params["seed"])
    size = params["buffer_size"]
    epochs = philox.numbers(pair)
    reshuffle = params.get("reshuffle_each_iteration", True)

    def open_() -> Events:
        seeds = (next(epochs), next(epochs)) if reshuffle else pair
        return streams.shuffle(data.open(), size, philox.numbers(seeds))

    return Data(data.spec, data.cardinality, open_)


def _repeat(data: Data, params: Params) -> Data:
    count = -1 if params.get("count") is None else params["count"]
    if count == 0 or data.cardinality == 0:
        cardinality = 0
    elif count < 0:
        cardinality = INFINITE
    else:
        cardinality = data.cardinality * count if data.cardinality >= 0 else data.cardinality
    return Data(data.spec, cardinality, lambda: streams.repeat(data.open, count))


def _take(data: Data, params: Params) -> Data:
    count, cardinality = params["count"], data.cardinality
    if count >= 0 and cardinality != UNKNOWN:
        cardinality = count if cardinality == INFINITE else min(count, cardinality)
    return Data(data.spec, cardinality, lambda: streams.take(data.open(), count))


def _skip(data: Data, params: Params) -> Data:
    count, cardinality = params["count"], data.cardinality
    if cardinality >= 0:
        cardinality = max(0, cardinality - count) if count >= 0 else 0
    return Data(data.spec, cardinality, lambda: streams.skip(data.open(), count))


def _shard(data: Data, params: Params) -> Data:
    shards, index = params["num_shards"], params["index"]
    cardinality = data.cardinality
    if cardinality >= 0:
        cardinality = max(0, -((index - cardinality) // shards))
    return Data(data.spec, cardinality, lambda: streams.shard(data.open(), shards, index))


def _scan(data: Data, params: Params) -> Data:
    fn = functions.SCAN[params["fn"]]
    initial = tree.from_json(params["initial_state"])
    spec = tree.spec_of(initial)
    return Data(spec, data.cardinality, lambda: streams.scan(data.open(), initial, fn))


def _enumerate(data: Data, params: Params) -> Data:
    spec = {"t": [tree.INT64, data.spec]}
    start = params.get("start", 0)
    return Data(spec, data.cardinality, lambda: streams.enumerate_(data.open(), start))


def _concatenate(data: Data, params: Params) -> Data:
    other = extend(None, params["dataset"])
    counts = (data.cardinality, other.cardinality)
    cardinality = INFINITE if INFINITE in counts else UNKNOWN if UNKNOWN in counts else sum(counts)
    spec = tree.weakened(data.spec, other.spec)
    return Data(spec, cardinality, lambda: streams.concatenate(data.open(), other.open))


def _cache(data: Data, params: Params) -> Data:
    """In memory. A pass that met a failure or stopped early leaves nothing behind."""
    if params.get("filename"):
        raise KeyError("file caches are not modelled")
    stored: list[list[Value]] = []

    def open_() -> Events:
        return iter(stored[0]) if stored else streams.record(data.open(), stored.append)

    return Data(data.spec, data.cardinality, open_)


def _same(data: Data, params: Params) -> Data:
    return data


def _unique(data: Data, params: Params) -> Data:
    return Data(data.spec, UNKNOWN, lambda: streams.unique(data.open()))


def _ignore_errors(data: Data, params: Params) -> Data:
    return Data(data.spec, UNKNOWN, lambda: streams.ignore_errors(data.open()))


def _group_by_window(data: Data, params: Params) -> Data:
    key = functions.function(params["key"])
    reduce = functions.function(params["reduce"])
    size = params["window_size"]
    if params.get("reduce_with_key"):
        raise KeyError("results with their key are not modelled")

    def reduce_window(members: list[Value]) -> Data:
        return reduce.apply(Data(data.spec, len(members), lambda: iter(members)))

    return Data(
        reduce.spec({"ds": data.spec})["ds"],
        INFINITE if data.cardinality == INFINITE else UNKNOWN,
        lambda: streams.group_by_window(data.open(), key.apply, reduce_window, size),
    )


OPS: dict[str, Callable[[Any, Params], Data]] = {
    "batch": _batch,
    "cache": _cache,
    "concatenate": _concatenate,
    "enumerate": _enumerate,
    "filter": _filter,
    "flat_map": _flat_map,
    "from_tensor_slices": _from_tensor_slices,
    "from_tensors": _from_tensors,
    "group_by_window": _group_by_window,
    "ignore_errors": _ignore_errors,
    "interleave": _interleave,
    "map": _map,
    "padded_batch": _padded_batch,
    "prefetch": _same,
    "range": _range,
    "rebatch": _rebatch,
    "repeat": _repeat,
    "scan": _scan,
    "shard": _shard,
    "shuffle": _shuffle,
    "skip": _skip,
    "take": _take,
    "take_while": _take_while,
    "unbatch": _unbatch,
    "unique": _unique,
    "window": _window,
    "zip": _zip,
}
