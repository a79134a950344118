"""Random pipelines as the Python code that a user would write, to run and to print when one fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Functions that take a tuple element; as arguments of `map` they get its parts.
OF_TUPLES = ("item", "swap", "sum_components")

# Name -> Python text of the result, given the text of the element and the options.
EXPRESSIONS: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "identity": lambda x, o: x,
    "square": lambda x, o: f"{x} * {x}",
    "add": lambda x, o: f"{x} + {o['value']}",
    "mod": lambda x, o: f"{x} % {o['value']}",
    "lt": lambda x, o: f"{x} < {o['value']}",
    "mod_eq": lambda x, o: f"{x} % {o['mod']} == {o['value']}",
    "fail_if_eq": lambda x, o: f"fl.debugging.ensure({x}, {x} != {o['value']}, 'failed on purpose')",
    "fill_x": lambda x, o: f"fl.fill([{x}], {x})",
    "item": lambda x, o: f"{x}[{o['index']}]",
    "swap": lambda x, o: f"{x}[1], {x}[0]",
    "sum_components": lambda x, o: f"{x}[0] + {x}[1]",
    "pack_tuple": lambda x, o: ", ".join(expression(fn, x) for fn in o["fns"]),
    "ds_range": lambda x, o: f"fl.Dataset.range({x})",
    "ds_repeat_x": lambda x, o: f"fl.Dataset.from_tensors({x}).repeat({x})",
    "ds_pipeline": lambda x, o: chain(f"fl.Dataset.from_tensors({x})", o["steps"]),
    "win_pipeline": lambda x, o: chain(x, o["steps"]),
}

SCANS = {
    "cumsum": "lambda s, x: (s + x, s + x)",
    "cumsum_prev": "lambda s, x: (s + x, s)",
}


def expression(function: Any, x: str) -> str:
    """The text of a function's result for the element `x`, in parentheses where it is more than a name."""
    options = {"fn": function} if isinstance(function, str) else function
    if options["fn"] == "compose":
        for part in options["fns"]:
            x = expression(part, x)
        return x
    text = EXPRESSIONS[options["fn"]](x, options)
    return text if text.isidentifier() else f"({text})"


def argument(function: Any) -> str:
    """A function as an argument of `map` and its kin."""
    first = function
    while isinstance(first, dict) and first["fn"] == "compose":
        first = first["fns"][0]
    name = first if isinstance(first, str) else first["fn"]
    return f"lambda {'*x' if name in OF_TUPLES else 'x'}: {expression(function, 'x')}"


def array(json: dict[str, Any]) -> str:
    """A constant leaf."""
    return f"np.array({json['v'] if json['s'] else json['v'][0]}, {json['d']!r})"


def pipeline(steps: list[Any]) -> str:
    """A whole pipeline as one expression over `fl` and `np`."""
    return chain("fl.Dataset", steps)


def chain(start: str, steps: list[Any]) -> str:
    """Method calls after a first expression."""
    return start + "".join(f".{call(op, params)}" for op, params in steps)


def call(op: str, params: dict[str, Any]) -> str:
    """One method call."""
    if op == "range":
        return (
            f"range({', '.join(str(params[name]) for name in ('start', 'stop', 'step') if name in params)})"
        )
    if op == "zip":
        return f"zip(({', '.join(pipeline(steps) for steps in params['datasets']['t'])}))"
    if op == "scan":
        return f"scan({array(params['initial_state'])}, {SCANS[params['fn']]})"
    if op == "group_by_window":
        key, reduce = argument(params["key"]), expression(params["reduce"], "x")
        return f"group_by_window({key}, lambda key, x: {reduce}, {params['window_size']})"
    return f"{op}({', '.join(_keyword(name, value) for name, value in params.items())})"


def _keyword(name: str, value: Any) -> str:
    if name == "fn":
        return argument(value)
    if name == "dataset":
        return pipeline(value)
    if name == "value":
        return array(value)
    return f"{name}={value!r}"
