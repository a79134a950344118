"""The named functions of the case format that the model knows: what they give, and the spec of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from . import model, tree
from .data import UNKNOWN, Data, outline, single
from .streams import ElementFailed
from .tree import Spec, Value


@dataclass(frozen=True)
class Function:
    """A function of one element, and how it changes the spec."""

    apply: Callable[[Value], Any]
    spec: Callable[[Spec], Spec]


def function(json: Any) -> Function:
    """The function that a piece of case JSON stands for; KeyError if the model does not know it."""
    options = {"fn": json} if isinstance(json, str) else json
    name = options["fn"]
    if name in LEAF:
        apply, spec = LEAF[name]
        return Function(
            lambda value: tree.map_leaves(lambda x: np.asarray(apply(x, options)), value),
            lambda given: tree.map_spec(spec, given),
        )
    return STRUCTURE[name](options)


def _require(x: Any, holds: Any) -> Any:
    if not np.all(holds):
        raise ElementFailed
    return x


def _to_string(x: Any, options: Any) -> Any:
    texts = np.empty(x.size, object)
    for index, value in enumerate(x.ravel().tolist()):
        texts[index] = str(value).encode()
    return texts.reshape(x.shape)


def _same(spec: Spec) -> Spec:
    return spec


def _as(dtype: str) -> Callable[[Spec], Spec]:
    return lambda spec: {"d": dtype, "s": spec["s"]}


def _unknown_vector(spec: Spec) -> Spec:
    return {"d": spec["d"], "s": [None]}


LEAF: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Spec], Spec]]] = {
    "identity": (lambda x, o: x, _same),
    "square": (lambda x, o: x * x, _same),
    "neg": (lambda x, o: -x, _same),
    "abs": (lambda x, o: abs(x), _same),
    "add": (lambda x, o: x + o["value"], _same),
    "sub": (lambda x, o: x - o["value"], _same),
    "mul": (lambda x, o: x * o["value"], _same),
    "floordiv": (lambda x, o: x // o["value"], _same),
    "mod": (lambda x, o: x % o["value"], _same),
    "fail_if_eq": (lambda x, o: _require(x, x != o["value"]), _same),
    "fail_if_ge": (lambda x, o: _require(x, x < o["value"]), _same),
    "fail_if_lt": (lambda x, o: _require(x, x >= o["value"]), _same),
    "fill_x": (lambda x, o: np.full(int(x), x), _unknown_vector),
    "range_to_x": (lambda x, o: np.arange(int(x)), _unknown_vector),
    "to_string": (_to_string, _as("string")),
    "gt": (lambda x, o: x > o["value"], _as("bool")),
    "ge": (lambda x, o: x >= o["value"], _as("bool")),
    "lt": (lambda x, o: x < o["value"], _as("bool")),
    "le": (lambda x, o: x <= o["value"], _as("bool")),
    "eq": (lambda x, o: x == o["value"], _as("bool")),
    "ne": (lambda x, o: x != o["value"], _as("bool")),
    "mod_eq": (lambda x, o: x % o["mod"] == o["value"], _as("bool")),
}


def _compose(options: Any) -> Function:
    parts = [function(fn) for fn in options["fns"]]
    return Function(
        lambda value: reduce(lambda x, part: part.apply(x), parts, value),
        lambda spec: reduce(lambda s, part: part.spec(s), parts, spec),
    )


def _pack_tuple(options: Any) -> Function:
    parts = [function(fn) for fn in options["fns"]]
    return Function(
        lambda x: tuple(part.apply(x) for part in parts),
        lambda spec: {"t": [part.spec(spec) for part in parts]},
    )


def _pack_dict(options: Any) -> Function:
    parts = {key: function(fn) for key, fn in options["fns"].items()}
    return Function(
        lambda x: {key: part.apply(x) for key, part in parts.items()},
        lambda spec: {"m": {key: part.spec(spec) for key, part in parts.items()}},
    )


def _sum_components(options: Any) -> Function:
    return Function(lambda x: sum(tree.leaves(x)), lambda spec: next(tree.spec_leaves(spec)))


def _constant(value: bool) -> Function:
    return Function(lambda x: np.asarray(value), lambda spec: {"d": "bool", "s": []})


def _dataset(make: Callable[[Value, Spec], Data]) -> Function:
    """A function that gives a dataset: made from the element, or from its spec alone for the result's."""

    def spec(given: Spec) -> Spec:
        return {"ds": make(None, given).spec}

    return Function(lambda value: make(value, tree.spec_of(value)), spec)


def _ds_pipeline(options: Any) -> Function:
    return _dataset(lambda x, spec: model.extend(single(x, spec), options["steps"]))


def _win_pipeline(options: Any) -> Function:
    def spec(given: Spec) -> Spec:
        return {"ds": model.extend(outline(given["ds"]), options["steps"]).spec}

    return Function(lambda data: model.extend(data, options["steps"]), spec)


def _ds_range(x: Value, spec: Spec) -> Data:
    return Data(tree.INT64, UNKNOWN, lambda: iter([tree.leaf(i) for i in range(int(x))]))


def _ds_repeat_x(x: Value, spec: Spec) -> Data:
    return Data(spec, UNKNOWN, lambda: iter([x] * max(0, int(x))))


STRUCTURE: dict[str, Callable[[Any], Function]] = {
    "compose": _compose,
    "pack_tuple": _pack_tuple,
    "pack_dict": _pack_dict,
    "item": lambda o: Function(lambda x: x[o["index"]], lambda spec: spec["t"][o["index"]]),
    "get": lambda o: Function(lambda x: x[o["key"]], lambda spec: spec["m"][o["key"]]),
    "swap": lambda o: Function(lambda x: (x[1], x[0]), lambda spec: {"t": spec["t"][::-1]}),
    "sum_components": _sum_components,
    "const_true": lambda o: _constant(True),
    "const_false": lambda o: _constant(False),
    "ds_range": lambda o: _dataset(_ds_range),
    "ds_repeat_x": lambda o: _dataset(_ds_repeat_x),
    "ds_pipeline": _ds_pipeline,
    "win_pipeline": _win_pipeline,
}


SCAN: dict[str, Callable[[Value, Value], tuple[Value, Value]]] = {
    "cumsum": lambda s, x: (s + x.astype(s.dtype), s + x.astype(s.dtype)),
    "cumsum_prev": lambda s, x: (s + x.astype(s.dtype), s),
}
