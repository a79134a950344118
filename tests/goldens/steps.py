"""Builds a feedline dataset from the steps of a case.

A parameter that a case does not name is not passed, so feedline's own defaults are under test. Most steps are
a method of the same name with converted parameters; `METHODS` has those, `STEPS` has the others.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import feedline as fl

from . import functions
from .calls import Calls
from .operations import csv_default
from .values import decode, decode_spec

Params = dict[str, Any]
Steps = list[Any]


class BuildError(Exception):
    """A step was refused: its index, with the refusal as the cause."""

    def __init__(self, step: int):
        super().__init__(f"step {step} was refused")
        self.step = step


def build(steps: Steps, calls: Calls) -> Any:
    """The dataset of a pipeline; raises `BuildError` from the exception of the step that was refused."""
    dataset = None
    for index, (op, params) in enumerate(steps):
        try:
            dataset = apply(dataset, op, params, calls)
        except Exception as error:
            raise BuildError(index) from error
    return dataset


def extend(dataset: Any, steps: Steps, calls: Calls) -> Any:
    """A dataset followed by further steps; for sub-pipelines, whose errors belong to the outer step."""
    for op, params in steps:
        dataset = apply(dataset, op, params, calls)
    return dataset


def apply(dataset: Any, op: str, params: Params, calls: Calls) -> Any:
    """One step: a source when there is no dataset yet, else a transformation."""
    if op in STEPS:
        return STEPS[op](dataset, params, calls)
    arguments = {}
    for name, value in params.items():
        keyword, convert = METHODS[op].get(name, (name, _plain))
        arguments[keyword] = convert(value, calls)
    return getattr(fl.Dataset if dataset is None else dataset, op)(**arguments)


Convert = Callable[[Any, Calls], Any]


def _plain(json: Any, calls: Calls) -> Any:
    return json


def _value(json: Any, calls: Calls) -> Any:
    return decode(json)


def _dtype(json: Any, calls: Calls) -> Any:
    return getattr(fl, json)


def _function(json: Any, calls: Calls) -> Any:
    return functions.as_argument(functions.element_function(json, calls))


def _int32_function(json: Any, calls: Calls) -> Any:
    """Classes of resampling and lengths of bucketing are int32, whatever the dtype of the element."""
    function = _function(json, calls)
    return lambda *parts: fl.cast(function(*parts), fl.int32)


def _scan(json: Any, calls: Calls) -> Any:
    return functions.scan_function(json)


def _pipeline(json: Any, calls: Calls) -> Any:
    return extend(None, json, calls)


def _pipelines(json: Any, calls: Calls) -> Any:
    return [_pipeline(steps, calls) for steps in json]


def _weights(json: Any, calls: Calls) -> Any:
    return _pipeline(json["steps"], calls) if isinstance(json, dict) else json


def _shapes(json: Any, calls: Calls) -> Any:
    """A structure of shapes: here a list is a shape, not a tuple."""
    match json:
        case {"t": items}:
            return tuple(_shapes(item, calls) for item in items)
        case {"m": items}:
            return {key: _shapes(item, calls) for key, item in items.items()}
    return json


def _paddings(json: Any, calls: Calls) -> Any:
    """A structure of padding values, where null stands for the default and a bare number for itself."""
    match json:
        case {"t": items}:
            return tuple(_paddings(item, calls) for item in items)
        case {"m": items}:
            return {key: _paddings(item, calls) for key, item in items.items()}
        case dict():
            return decode(json)
    return json


PADDING: dict[str, tuple[str, Convert]] = {
    "padded_shapes": ("padded_shapes", _shapes),
    "padding_values": ("padding_values", _paddings),
}

# Step -> parameter of the case -> parameter of the method, and how its value is made.
METHODS: dict[str, dict[str, tuple[str, Convert]]] = {
    "batch": {},
    "bucket_by_sequence_length": {"length": ("element_length_func", _int32_function), **PADDING},
    "cache": {},
    "choose_from_datasets": {
        "datasets": ("datasets", _pipelines),
        "choice": ("choice_dataset", _pipeline),
    },
    "concatenate": {"dataset": ("dataset", _pipeline)},
    "counter": {"dtype": ("dtype", _dtype)},
    "enumerate": {},
    "filter": {"fn": ("predicate", _function)},
    "flat_map": {"fn": ("map_func", _function)},
    "from_tensor_slices": {"value": ("tensors", _value)},
    "from_tensors": {"value": ("tensors", _value)},
    "ignore_errors": {},
    "interleave": {"fn": ("map_func", _function)},
    "list_files": {"pattern": ("file_pattern", _plain)},
    "map": {"fn": ("map_func", _function)},
    "padded_batch": PADDING,
    "prefetch": {},
    "ragged_batch": {"row_splits_dtype": ("row_splits_dtype", _dtype)},
    "random": {},
    "rebatch": {},
    "rejection_resample": {"class_fn": ("class_func", _int32_function)},
    "repeat": {},
    "sample_from_datasets": {"datasets": ("datasets", _pipelines), "weights": ("weights", _weights)},
    "scan": {"initial_state": ("initial_state", _value), "fn": ("scan_func", _scan)},
    "shard": {},
    "shuffle": {},
    "skip": {},
    "sparse_batch": {},
    "take": {},
    "take_while": {"fn": ("predicate", _function)},
    "unbatch": {},
    "unique": {},
    "window": {},
}


def _range(dataset: Any, params: Params, calls: Calls) -> Any:
    bounds = [params[name] for name in ("start", "stop", "step") if name in params]
    dtype = {"output_type": getattr(fl, params["output_type"])} if "output_type" in params else {}
    return fl.Dataset.range(*bounds, **dtype)


def _from_list(dataset: Any, params: Params, calls: Calls) -> Any:
    return fl.Dataset.from_list([decode(value) for value in params["values"]])


def _from_generator(dataset: Any, params: Params, calls: Calls) -> Any:
    def generate() -> Iterator[Any]:
        calls.add()
        for value in params["values"]:
            if isinstance(value, dict) and "raise" in value:
                raise getattr(builtins, value["raise"])("the case asks for a failure")
            yield decode(value)

    arguments = {}
    if "signature" in params:
        arguments["output_signature"] = decode_spec(params["signature"])
    if "output_types" in params:
        arguments["output_types"] = getattr(fl, params["output_types"])
    return fl.Dataset.from_generator(generate() if params.get("not_callable") else generate, **arguments)


def _zip(dataset: Any, params: Params, calls: Calls) -> Any:
    def structure(json: Any) -> Any:
        match json:
            case {"t": items}:
                return tuple(structure(item) for item in items)
            case {"m": items}:
                return {key: structure(item) for key, item in items.items()}
            case {"list": items}:
                return [structure(item) for item in items]
        return _pipeline(json, calls)

    return fl.Dataset.zip(structure(params["datasets"]))


def _group_by_window(dataset: Any, params: Params, calls: Calls) -> Any:
    window_function = functions.element_function(params["reduce"], calls)
    with_key = params.get("reduce_with_key", False)

    def reduce_window(key: Any, window: Any) -> Any:
        result = window_function(window)
        return result.map(lambda y: (key, y)) if with_key else result

    arguments: Params = {"key_func": _function(params["key"], calls), "reduce_func": reduce_window}
    if "window_size" in params:
        arguments["window_size"] = params["window_size"]
    if "window_size_fn" in params:
        arguments["window_size_func"] = functions.element_function(params["window_size_fn"], calls)
    return dataset.group_by_window(**arguments)


def _group_by_reducer(dataset: Any, params: Params, calls: Calls) -> Any:
    initial = decode(params["initial"])
    reducer = fl.data.experimental.Reducer(
        init_func=lambda key: functions.on_leaves(fl.constant, initial),
        reduce_func=functions.reduce_function(params["reduce"]),
        finalize_func=lambda state: state,
    )
    key = _function(params["key"], calls)
    return dataset.apply(fl.data.experimental.group_by_reducer(key, reducer))


def _save(dataset: Any, params: Params, calls: Calls) -> Any:
    """Runs at once; the steps behind it go on from the dataset that was saved."""
    arguments = {name: value for name, value in params.items() if name != "shard_fn"}
    if "shard_fn" in params:
        arguments["shard_func"] = _function(params["shard_fn"], calls)
    dataset.save(**arguments)
    return dataset


def _load(dataset: Any, params: Params, calls: Calls) -> Any:
    return fl.Dataset.load(**params)


def _snapshot(dataset: Any, params: Params, calls: Calls) -> Any:
    arguments = {name: value for name, value in params.items() if name != "shard_fn"}
    if "shard_fn" in params:
        arguments["shard_func"] = _function(params["shard_fn"], calls)
    return dataset.snapshot(**arguments)


def _with_options(dataset: Any, params: Params, calls: Calls) -> Any:
    options = fl.Options()
    for name, value in params.items():
        *path, last = name.split(".")
        target = options
        for part in path:
            target = getattr(target, part)
        setattr(target, last, value)
    return dataset.with_options(options)


def _experimental(name: str) -> Callable[[Any, Params, Calls], Any]:
    """A transformation of `fl.data.experimental` that takes its parameters under the names of the case."""

    def step(dataset: Any, params: Params, calls: Calls) -> Any:
        arguments = {key: value for key, value in params.items() if key != "fn"}
        if "fn" in params:
            arguments["map_func"] = _function(params["fn"], calls)
        return dataset.apply(getattr(fl.data.experimental, name)(**arguments))

    return step


def _assert_cardinality(dataset: Any, params: Params, calls: Calls) -> Any:
    return dataset.apply(fl.data.experimental.assert_cardinality(params["expected"]))


def _reader(name: str) -> Callable[[Any, Params, Calls], Any]:
    """A dataset that reads files, with the parameters of the case under their own names."""
    return lambda dataset, params, calls: getattr(fl, name)(**params)


def _csv(dataset: Any, params: Params, calls: Calls) -> Any:
    defaults = [csv_default(default) for default in params["record_defaults"]]
    return fl.CsvDataset(**{**params, "record_defaults": defaults})


def _make_csv(dataset: Any, params: Params, calls: Calls) -> Any:
    given = {"file_pattern" if name == "filenames" else name: value for name, value in params.items()}
    return fl.data.experimental.make_csv_dataset(**given)


STEPS: dict[str, Callable[[Any, Params, Calls], Any]] = {
    "assert_cardinality": _assert_cardinality,
    "csv": _csv,
    "fixed_length_record": _reader("FixedLengthRecordDataset"),
    "from_generator": _from_generator,
    "from_list": _from_list,
    "group_by_reducer": _group_by_reducer,
    "group_by_window": _group_by_window,
    "load": _load,
    "snapshot": _snapshot,
    "make_csv": _make_csv,
    "map_and_batch": _experimental("map_and_batch"),
    "pad_to_cardinality": _experimental("pad_to_cardinality"),
    "parallel_interleave": _experimental("parallel_interleave"),
    "range": _range,
    "save": _save,
    "text_line": _reader("TextLineDataset"),
    "tfrecord": _reader("TFRecordDataset"),
    "shuffle_and_repeat": _experimental("shuffle_and_repeat"),
    "with_options": _with_options,
    "zip": _zip,
}
