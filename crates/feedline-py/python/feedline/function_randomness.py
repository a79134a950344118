"""Whether a Python function may draw random numbers, as far as its code tells. Nothing is called for that."""

from __future__ import annotations

import dis
import functools
import importlib
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

from .function_identity import _filled, _is_own, _is_own_class

__all__ = ["may_draw"]

_MOST_FUNCTIONS = 1000
# Whoever calls one of them wants the same numbers each time.
_SEEDING = ("seed", "setstate", "set_state")
# Without a seed they take one from the system.
_MAKERS = {"random": ("Random", "SystemRandom"), "numpy.random": ("default_rng", "RandomState")}
# What stands between a function and its call.
_BETWEEN = ("CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP", "PRECALL", "PUSH_NULL")
# A function, and what is known of its arguments before it is called.
_Known = tuple[types.FunctionType, dict[str, Any]]


def may_draw(function: Any) -> bool:
    """Whether it, or a function of the user's own that it refers to, uses random numbers of `random`,
    `numpy.random` or `secrets`.

    A generator that is made of a seed (`np.random.default_rng(i)`), and a function that sets a seed, give the
    same numbers in each epoch: that is meant, and does not count.
    """
    waiting, draws = list(_functions(function)), False
    seen: set[types.FunctionType] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        each, known = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        for value, is_new in _used(each, known):
            if _is_seeding(value):
                return False
            draws = draws or is_new or _is_drawing(value)
            if _is_followed(value):
                waiting.extend(_functions(value))
    return draws


def _functions(value: Any) -> Iterator[_Known]:
    """The functions that run when it is called."""
    if isinstance(value, types.FunctionType):
        yield value, {}
        yield from _functions(vars(value).get("__wrapped__"))
    elif isinstance(value, types.MethodType):
        for function, known in _functions(value.__func__):
            yield function, known | _placed(function, [value.__self__])
    elif isinstance(value, functools.partial):
        for function, known in _functions(value.func):
            yield function, known | _placed(function, value.args) | value.keywords
    elif not isinstance(value, type):
        called = _of_class(type(value), "__call__")
        if isinstance(called, types.FunctionType):
            yield called, _placed(called, [value])


def _placed(function: types.FunctionType, args: Any) -> dict[str, Any]:
    return dict(zip(function.__code__.co_varnames[: function.__code__.co_argcount], args, strict=False))


def _is_followed(value: Any) -> bool:
    """The user's own; what installed packages do, nobody wants to read."""
    if isinstance(value, types.FunctionType):
        return _is_own(value.__globals__)
    if isinstance(value, (types.MethodType, functools.partial)):
        return _is_followed(value.__func__ if isinstance(value, types.MethodType) else value.func)
    return not isinstance(value, (type, types.ModuleType)) and _is_own_class(type(value))


def _used(function: types.FunctionType, given: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """The values that its code names, and whether there a generator is made without a seed."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    known = dict(zip(code.co_varnames[code.co_argcount - len(defaults) :], defaults, strict=False))
    known |= function.__kwdefaults__ or {}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    known |= {name: cell.cell_contents for name, cell in cells if _filled(cell)}
    yield from _named(code, function.__globals__, known | given)


def _named(code: types.CodeType, names: dict[str, Any], known: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Follows `a.b.c` as far as it leads through modules and attributes, line by line."""
    at: Any = None
    module: Any = None
    wanted: Any = None
    for each in dis.get_instructions(code):
        op, arg = each.opname, each.argval
        if op in _BETWEEN:
            continue
        # Some instructions are two in one.
        first, last = (arg[0], arg[-1]) if isinstance(arg, tuple) and arg else (arg, arg)
        if op.startswith("STORE_") and op.partition("_")[2].startswith(("FAST", "DEREF")):
            known[first] = at
            at = known.get(last) if "LOAD" in op else None
        elif op == "IMPORT_NAME":
            at = module = _imported(arg, bool(wanted))
        elif op == "IMPORT_FROM":
            at = _part(module, arg)
        elif op in ("LOAD_GLOBAL", "LOAD_NAME"):
            at = names.get(arg)
        elif op.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")):
            at = known.get(last)
        elif op in ("LOAD_ATTR", "LOAD_METHOD"):
            at = _part(at, arg)
        else:
            if op.startswith("CALL") and each.arg == 0 and _is_maker(at):
                yield at, True
            wanted = arg if op == "LOAD_CONST" else None
            at = None
        if at is not None:
            yield at, False
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _named(const, names, dict(known))


def _imported(name: str, several: bool) -> Any:
    """A module that is there already; one of chance may come with this import."""
    if name in (*_MAKERS, "secrets"):
        importlib.import_module(name)
    return sys.modules.get(name if several else name.partition(".")[0])


def _part(value: Any, name: str) -> Any:
    """An attribute, where no code of the user's runs to get it."""
    if isinstance(value, types.ModuleType):
        # Some packages import their parts when these are asked for.
        return vars(value).get(name) or sys.modules.get(f"{value.__name__}.{name}")
    if isinstance(value, _generators()):
        return getattr(value, name, None)
    if value is None or isinstance(value, type):
        return None
    own = getattr(value, "__dict__", {}) if _is_own_class(type(value)) else {}
    found = own.get(name, _of_class(type(value), name))
    if isinstance(found, staticmethod):
        return found.__func__
    is_method = isinstance(found, types.FunctionType) and name not in own
    return types.MethodType(found, value) if is_method else found


def _of_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _generators() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy.random")
    return (random.Random, numpy.Generator, numpy.RandomState) if numpy else (random.Random,)


def _bound_to(value: Any) -> Any:
    """The generator whose method it is: `random.random` and `np.random.rand` are methods, too."""
    is_method = isinstance(value, (types.BuiltinFunctionType, types.MethodType))
    return value.__self__ if is_method and isinstance(value.__self__, _generators()) else None


def _is_seeding(value: Any) -> bool:
    module = str(getattr(value, "__module__", None))
    is_there = module.startswith("numpy.random") or _bound_to(value) is not None
    return is_there and getattr(value, "__name__", None) in _SEEDING


def _is_drawing(value: Any) -> bool:
    if isinstance(value, _generators()) or _bound_to(value) is not None:
        return True
    return isinstance(value, types.FunctionType) and value.__module__ == "secrets"


def _is_maker(value: Any) -> bool:
    there = [(sys.modules[module], names) for module, names in _MAKERS.items() if module in sys.modules]
    return any(value is getattr(module, name) for module, names in there for name in names)
