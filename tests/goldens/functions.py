"""The named functions of the case format, written as a user of feedline would write them.

A function is a name or `{"fn": name, ...}`. `element_function` gives a Python function of the element as one
value; `as_argument` makes it fit for `map` and its kin, which unpack a tuple element. Functions may hold
pipelines and pipelines hold functions, so this module and `steps` know each other.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import reduce
from typing import Any

import feedline as fl

from . import steps, values
from .calls import Calls

Function = Callable[..., Any]
Options = dict[str, Any]


def element_function(json: Any, calls: Calls) -> Function:
    """The function of one element that a piece of case JSON stands for."""
    options = {"fn": json} if isinstance(json, str) else json
    name = options["fn"]
    if name in LEAF:
        return lambda x: on_leaves(lambda leaf: LEAF[name](leaf, options), x)
    if name in HOST:
        host = HOST[name](options, calls)
        return lambda x: on_leaves(host, x)
    return STRUCTURE[name](options, calls)


def as_argument(function: Function) -> Function:
    """The same function with a tuple element unpacked into positional arguments."""
    return lambda *parts: function(parts[0] if len(parts) == 1 else parts)


def on_leaves(function: Function, value: Any) -> Any:
    """Applies a function to each leaf of a structure."""
    if isinstance(value, tuple):
        return tuple(on_leaves(function, item) for item in value)
    if isinstance(value, dict):
        return {key: on_leaves(function, item) for key, item in value.items()}
    return function(value)


def _like(x: Any, value: Any) -> Any:
    """A constant of the dtype of x."""
    return fl.constant(value, x.dtype)


def _ensure(x: Any, condition: Any, options: Options) -> Any:
    return fl.debugging.ensure(x, condition, f"the case asks for a failure: {options}")


def _vector(x: Any) -> Any:
    return fl.reshape(x, [1])


LEAF: dict[str, Callable[[Any, Options], Any]] = {
    "identity": lambda x, o: x,
    "square": lambda x, o: x * x,
    "neg": lambda x, o: -x,
    "abs": lambda x, o: fl.abs(x),
    "add": lambda x, o: x + _like(x, o["value"]),
    "sub": lambda x, o: x - _like(x, o["value"]),
    "mul": lambda x, o: x * _like(x, o["value"]),
    "floordiv": lambda x, o: x // _like(x, o["value"]),
    "mod": lambda x, o: x % _like(x, o["value"]),
    "div_into": lambda x, o: _like(x, o["value"]) // x,
    "cast": lambda x, o: fl.cast(x, getattr(fl, o["dtype"])),
    "reshape": lambda x, o: fl.reshape(x, o["shape"]),
    "expand_dims": lambda x, o: fl.expand_dims(x, o["axis"]),
    "range_to_x": lambda x, o: fl.range(x),
    "fill_x": lambda x, o: fl.fill([x], x),
    "fill": lambda x, o: fl.fill(o["shape"], x),
    "reduce_sum": lambda x, o: fl.reduce_sum(x),
    "reduce_max": lambda x, o: fl.reduce_max(x),
    "length": lambda x, o: fl.cast(fl.shape(x)[0], fl.int64),
    "check_numerics": lambda x, o: fl.debugging.check_numerics(x, "not finite"),
    "fail_if_eq": lambda x, o: _ensure(x, x != _like(x, o["value"]), o),
    "fail_if_ge": lambda x, o: _ensure(x, x < _like(x, o["value"]), o),
    "fail_if_lt": lambda x, o: _ensure(x, x >= _like(x, o["value"]), o),
    "to_string": lambda x, o: fl.strings.as_string(x),
    "string_length": lambda x, o: fl.strings.length(x),
    "string_upper": lambda x, o: fl.strings.upper(x),
    "string_concat": lambda x, o: fl.strings.join([o.get("prefix", ""), x, o.get("suffix", "")]),
    "string_split": lambda x, o: fl.strings.split(x, o["sep"]),
    "string_to_number": lambda x, o: fl.strings.to_number(x, getattr(fl, o["dtype"])),
    "gt": lambda x, o: x > _like(x, o["value"]),
    "ge": lambda x, o: x >= _like(x, o["value"]),
    "lt": lambda x, o: x < _like(x, o["value"]),
    "le": lambda x, o: x <= _like(x, o["value"]),
    "eq": lambda x, o: x == _like(x, o["value"]),
    "ne": lambda x, o: x != _like(x, o["value"]),
    "mod_eq": lambda x, o: x % _like(x, o["mod"]) == _like(x, o["value"]),
    "ds_range": lambda x, o: fl.Dataset.range(x),
    "ds_slices": lambda x, o: fl.Dataset.from_tensor_slices(x),
    "ds_repeat_x": lambda x, o: fl.Dataset.from_tensors(x).repeat(x),
    "ds_repeat": lambda x, o: fl.Dataset.from_tensors(x).repeat(o["count"]),
    "ds_range_from": lambda x, o: fl.Dataset.range(x, x + _like(x, o["count"])),
}


def _py_raise(options: Options, calls: Calls) -> Function:
    def check(x: Any) -> Any:
        if x == options["value"]:
            raise getattr(builtins, options["exc"])("the case asks for a failure")
        return x

    return lambda x: fl.reshape(fl.numpy_function(check, [x], x.dtype), x.shape)


def _count_calls(options: Options, calls: Calls) -> Function:
    def count(x: Any) -> Any:
        calls.add()
        return x

    return lambda x: fl.reshape(fl.numpy_function(count, [x], x.dtype), x.shape)


def _unknown_shape(options: Options, calls: Calls) -> Function:
    return lambda x: fl.numpy_function(lambda value: value, [x], x.dtype)


HOST: dict[str, Callable[[Options, Calls], Function]] = {
    "py_raise": _py_raise,
    "count_calls": _count_calls,
    "unknown_shape": _unknown_shape,
}


def _functions(options: Options, calls: Calls) -> Any:
    fns = options["fns"]
    if isinstance(fns, dict):
        return {key: element_function(fn, calls) for key, fn in fns.items()}
    return [element_function(fn, calls) for fn in fns]


def _compose(options: Options, calls: Calls) -> Function:
    fns = _functions(options, calls)
    return lambda x: reduce(lambda value, fn: fn(value), fns, x)


def _pack_tuple(options: Options, calls: Calls) -> Function:
    fns = _functions(options, calls)
    return lambda x: tuple(fn(x) for fn in fns)


def _pack_list(options: Options, calls: Calls) -> Function:
    fns = _functions(options, calls)
    return lambda x: [fn(x) for fn in fns]


def _pack_dict(options: Options, calls: Calls) -> Function:
    fns = _functions(options, calls)
    return lambda x: {key: fn(x) for key, fn in fns.items()}


def _tuple_map(options: Options, calls: Calls) -> Function:
    fns = _functions(options, calls)
    return lambda x: tuple(fn(item) for fn, item in zip(fns, x, strict=True))


def _dict_map(options: Options, calls: Calls) -> Function:
    fns = _functions(options, calls)
    return lambda x: {key: fn(x[key]) for key, fn in fns.items()}


def _sum_components(options: Options, calls: Calls) -> Function:
    return lambda x: reduce(lambda a, b: a + b, x.values() if isinstance(x, dict) else x)


def _const(options: Options, calls: Calls) -> Function:
    value = values.decode(options["value"])
    return lambda x: on_leaves(fl.constant, value)


def _ds_pipeline(options: Options, calls: Calls) -> Function:
    return lambda x: steps.extend(fl.Dataset.from_tensors(x), options["steps"], calls)


def _win_pipeline(options: Options, calls: Calls) -> Function:
    return lambda window: steps.extend(window, options["steps"], calls)


def _win_zip_pipeline(options: Options, calls: Calls) -> Function:
    return lambda windows: steps.extend(fl.Dataset.zip(windows), options["steps"], calls)


STRUCTURE: dict[str, Callable[[Options, Calls], Function]] = {
    "compose": _compose,
    "pack_tuple": _pack_tuple,
    "pack_list": _pack_list,
    "pack_dict": _pack_dict,
    "tuple_map": _tuple_map,
    "dict_map": _dict_map,
    "item": lambda o, calls: lambda x: x[o["index"]],
    "get": lambda o, calls: lambda x: x[o["key"]],
    "swap": lambda o, calls: lambda x: (x[1], x[0]),
    "nest_pair": lambda o, calls: lambda x: (x, (x, x)),
    "sum_components": _sum_components,
    "const": _const,
    "const_true": lambda o, calls: lambda x: fl.constant(True),
    "const_false": lambda o, calls: lambda x: fl.constant(False),
    "is_true": lambda o, calls: lambda x: x,
    "return_none": lambda o, calls: lambda x: None,
    "ds_pipeline": _ds_pipeline,
    "win_pipeline": _win_pipeline,
    "win_zip_pipeline": _win_zip_pipeline,
}


def reduce_function(json: Any) -> Function:
    """The function (state, element) -> state that a piece of case JSON stands for."""
    options = {"fn": json} if isinstance(json, str) else json
    return lambda s, x: REDUCE[options["fn"]](s, x, options)


def scan_function(json: Any) -> Function:
    """The function (state, element) -> (state, output) that a piece of case JSON stands for."""
    return SCAN[json]


def _plus(s: Any, x: Any) -> Any:
    return s + fl.cast(x, s.dtype)


def _append(s: Any, x: Any) -> Any:
    return fl.concat([s, _vector(x)], axis=0)


REDUCE: dict[str, Callable[[Any, Any, Options], Any]] = {
    "sum": lambda s, x, o: _plus(s, x),
    "count": lambda s, x, o: s + _like(s, 1),
    "max": lambda s, x, o: fl.math.maximum(s, x),
    "sum_count": lambda s, x, o: (_plus(s[0], x), s[1] + _like(s[1], 1)),
    "concat_strings": lambda s, x, o: fl.strings.join([s, x]),
    "append": lambda s, x, o: _append(s, x),
    "bad_dtype": lambda s, x, o: fl.cast(s, fl.float64),
    "bad_structure": lambda s, x, o: (s, s),
    "fail_if_eq": lambda s, x, o: _plus(s, LEAF["fail_if_eq"](x, o)),
}

SCAN: dict[str, Function] = {
    "cumsum": lambda s, x: (_plus(s, x), _plus(s, x)),
    "cumsum_prev": lambda s, x: (_plus(s, x), s),
    "index_pair": lambda s, x: (s + _like(s, 1), (s, x)),
    "append": lambda s, x: (_append(s, x), _append(s, x)),
    "bad_dtype": lambda s, x: (fl.cast(s, fl.float64), x),
    "no_pair": lambda s, x: _plus(s, x),
}
