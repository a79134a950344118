"""What tells a Python function from others, in later processes too: caches and states are known by it."""

from __future__ import annotations

import collections
import copyreg
import functools
import hashlib
import importlib.util
import itertools
import logging
import marshal
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["code_of", "of"]

_MOST_OBJECTS = 100_000
# Of all lists, dicts and sets together: a second's worth.
_MOST_ITEMS = 10_000_000
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
# Modules whose values never change.
_FIXED = ("datetime", "decimal", "fractions", "pathlib", "re", "uuid")
# They guard something and hold nothing.
_EMPTY = ("lock", "RLock", "local", "_local")
# What changes a list, dict, set or the like in place.
_CHANGES = frozenset(
    (
        *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft"),
        *("insert", "intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse"),
        *("rotate", "setdefault", "sort", "subtract", "symmetric_difference_update", "update"),
    )
)
_reported: set[str] = set()


class Unknown(Exception):
    """A value that nothing tells from others of its kind."""


def of(function: Any) -> bytes | None:
    """A digest of its code and of the values that it refers to; None if some of them cannot be described.

    Values are those of closures, defaults, attributes and slots; and, of the user's own modules (not of the
    standard library or of installed packages), what the code reads by global names, also of modules that it
    imports itself: functions, classes with their methods, numbers, strings, lists, dicts, arrays, objects.
    What the code itself changes by a global name, a list that it appends to for instance, notes something and
    tells nothing: it is left out. What code reads from elsewhere, from files for instance, is not part of it.
    """
    try:
        return _Description(whole=True).digest([function])
    except (Unknown, RecursionError) as error:
        why = str(error) or "its values are nested too deeply"
        if why not in _reported:
            _reported.add(why)
            logging.getLogger("feedline").warning(
                "what is kept on disk of the results of %s is of use to no other process: %s; give the "
                "function what it needs as numbers, strings, arrays or objects that can be pickled",
                getattr(function, "__qualname__", type(function).__qualname__),
                why,
            )
        return None


def code_of(function: Any) -> str | None:
    """The same for states, without all that calls may change: only code and values that stay as they are.

    A state is taken after calls and compared before any, so lists, attributes and the like are left out. The
    code of installed packages is left out too. Versions of Python have codes of their own: the text begins
    with what it can be compared with.
    """
    try:
        digest = _Description(whole=False).digest([function])
    except (Unknown, RecursionError):
        return None
    return f"{sys.implementation.cache_tag}-{sys.flags.optimize} {digest.hex()[:16]}"


class _Description:
    """Values as bytes, the same in every process, whatever addresses and the order of sets are there."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        # Those that were described already, which it keeps alive.
        self.seen: dict[int, tuple[int, Any]] = {}
        self.counted = 0
        self.classes: set[type] = set()

    def digest(self, values: list[Any]) -> bytes:
        digest = hashlib.sha256()
        for part in itertools.chain.from_iterable(map(self.parts, values)):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()

    def parts(self, value: Any) -> Iterator[Any]:
        kind = type(value)
        if kind in _PLAIN:
            yield marshal.dumps(value, 2)
            return
        if id(value) in self.seen:
            yield f"again {self.seen[id(value)][0]}".encode()
            return
        self.seen[id(value)] = (len(self.seen), value)
        if len(self.seen) > _MOST_OBJECTS:
            raise Unknown(f"it refers to more than {_MOST_OBJECTS} objects")
        yield _name(kind)
        yield from self.inside(value, kind)

    def all(self, values: Any) -> Iterator[Any]:
        return itertools.chain.from_iterable(map(self.parts, values))

    def inside(self, value: Any, kind: type) -> Iterator[Any]:
        if isinstance(value, types.FunctionType):
            yield from self.function(value)
        elif isinstance(value, type):
            yield from self.class_(value)
        elif isinstance(value, types.MethodType):
            yield from self.all([value.__func__, value.__self__])
        elif isinstance(value, functools.partial):
            yield from self.all([value.func, value.args, _pairs(value.keywords)])
        elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
            # functools.cache and the like: what was found so far is none of it.
            yield from self.parts(value.__wrapped__)
        elif isinstance(value, types.CodeType):
            yield from self.code(value)
        elif isinstance(value, types.ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, types.BuiltinFunctionType):
            yield _name(value)
            if not isinstance(value.__self__, (types.ModuleType, type(None))):
                yield from self.parts(value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            yield from self.parts(value.__func__)
        elif isinstance(value, property):
            yield from self.all([value.fget, value.fset])
        elif isinstance(value, functools.cached_property):
            yield from self.parts(value.func)
        elif kind is tuple:
            yield from self.all(value)
        elif kind is frozenset:
            yield from self.unordered(value)
        elif self.whole:
            yield from self.changeable(value, kind)
        else:
            yield from self.class_(kind)
            yield from self.steady(value, kind)

    def changeable(self, value: Any, kind: type) -> Iterator[Any]:
        if kind in (list, dict):
            yield from self.items(value)
        elif kind in (set, bytearray):
            yield from self.unordered(value) if kind is set else [bytes(value)]
        elif hasattr(value, "__array_interface__") and hasattr(value, "tobytes") and hasattr(value, "dtype"):
            yield from self.array(value)
        elif kind.__name__ in _EMPTY and kind.__module__ in ("_thread", "threading"):
            return
        else:
            yield from self.class_(kind)
            yield from self.object_(value, kind)

    def items(self, value: Any) -> Iterator[Any]:
        """Lists and dicts; those of numbers and strings at once."""
        self.count(value)

        def each() -> Iterator[Any]:
            return itertools.chain.from_iterable(value.items()) if type(value) is dict else iter(value)

        if set(map(type, each())).issubset(_PLAIN):
            yield marshal.dumps(value, 2)
        else:
            yield from self.all(each())

    def count(self, values: Any) -> None:
        self.counted += len(values)
        if self.counted > _MOST_ITEMS:
            raise Unknown(f"it refers to lists, dicts or sets of more than {_MOST_ITEMS} values")

    def unordered(self, values: Any) -> Iterator[Any]:
        self.count(values)
        inner = []
        for value in values:
            if type(value) in _PLAIN:
                inner.append(marshal.dumps(value, 2))
                continue
            each = _Description(self.whole)
            each.seen, each.classes = dict(self.seen), set(self.classes)
            inner.append(each.digest([value]))
        yield from sorted(inner)

    def array(self, value: Any) -> Iterator[Any]:
        yield f"{value.dtype} {value.shape}".encode()
        if value.dtype.hasobject:
            yield from self.all(value.ravel().tolist())
            return
        try:
            # Without a copy where it lies in one piece.
            yield memoryview(value).cast("B")
        except (TypeError, ValueError, BufferError):
            yield value.tobytes()

    def object_(self, value: Any, kind: type) -> Iterator[Any]:
        """What pickle would store of it, or what it has in attributes and slots."""
        try:
            own = copyreg.dispatch_table.get(kind)
            reduced = own(value) if own is not None else value.__reduce_ex__(4)
        except Exception:
            reduced = None
        if isinstance(reduced, str):
            yield reduced.encode()
            return
        if isinstance(reduced, tuple) and 2 <= len(reduced) <= 6:
            function, args, state, items, pairs = (*reduced, None, None, None)[:5]
            yield from self.all([function, tuple(args or ()), _fixed(state)])
            for more in (items, pairs):
                yield from self.all(more if more is not None else ())
            return
        slots = [name for base in kind.__mro__ for name in _slots(base)]
        # What others keep to themselves nobody sees.
        if not all(base is object or _is_own_class(base) for base in kind.__mro__):
            raise Unknown(f"it refers to a {_name(kind).decode()}, which cannot be told from others")
        yield from self.parts(dict(getattr(value, "__dict__", {})))
        yield from self.all([(name, getattr(value, name, None)) for name in slots])

    def steady(self, value: Any, kind: type) -> Iterator[Any]:
        """What no call can change, as far as one can see."""
        known = kind is range or kind.__module__ in _FIXED
        frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
        if kind.__module__ == "numpy" and kind.__name__ != "ndarray" and hasattr(value, "tobytes"):
            yield from self.array(value)
        elif known or frozen or _is_enum(kind) or isinstance(value, tuple):
            yield from self.object_(value, kind)

    def function(self, value: types.FunctionType) -> Iterator[Any]:
        own = _is_own(value.__globals__)
        if self.whole or own:
            yield from self.code(value.__code__)
        else:
            yield _name(value)
        yield from self.all([value.__defaults__, _pairs(value.__kwdefaults__ or {})])
        set_here = set(_stored(value.__code__, "STORE_DEREF")) if not self.whole else ()
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            if name not in set_here and _filled(cell):
                yield from self.parts(cell.cell_contents)
        if own:
            yield from self.named(value)

    def named(self, function: types.FunctionType) -> Iterator[Any]:
        """What its code reads by global names, and from modules that it has in closures or imports itself."""
        names = sorted(set(_names(function.__code__)))
        set_here = set(_stored(function.__code__, "STORE_GLOBAL"))
        known = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
        known = [(name, value) for name, value in known if name not in set_here]
        if not self.whole:
            for name, value in known:
                is_module = isinstance(value, types.ModuleType) and _is_own(vars(value))
                read = [n for n in names if n in vars(value)] if is_module else []
                for label, each in [(n, vars(value)[n]) for n in read] if is_module else [(name, value)]:
                    if self.is_followed(each):
                        yield label.encode()
                        yield from self.parts(each)
            return
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        closed = [(name, cell.cell_contents) for name, cell in cells if _filled(cell)]
        known += [(name, value) for name, value in closed if isinstance(value, types.ModuleType)]
        known += [(module.__name__, module) for module in _imported(function)]
        changed = set(_changed(function.__code__))
        for label, each in _read(known, names, set()):
            if not self.is_followed(each) or _is_noted(label.rpartition(".")[2], each, changed):
                continue
            yield label.encode()
            try:
                yield from self.parts(each)
            except Unknown as error:
                text = str(error)
                raise Unknown(text if "by the name" in text else f"{text} (by the name {label})") from None

    def is_followed(self, value: Any) -> bool:
        if isinstance(value, types.FunctionType):
            return _is_own(value.__globals__)
        if isinstance(value, functools.partial):
            return self.is_followed(value.func)
        if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
            return self.is_followed(value.__wrapped__)
        if isinstance(value, type):
            return _is_own_class(value)
        if not self.whole:
            return False
        # What has a name in an installed module is known by it.
        return not isinstance(value, types.ModuleType) and not _is_installed(value)

    def class_(self, value: type) -> Iterator[Any]:
        """Its name; and of the user's own its methods, and what they share."""
        yield _name(value)
        for base in value.__mro__:
            if base in self.classes or not _is_own_class(base):
                continue
            self.classes.add(base)
            for name, each in sorted(vars(base).items()):
                is_code = isinstance(each, (types.FunctionType, staticmethod, classmethod, property))
                is_code = is_code or isinstance(each, functools.cached_property)
                if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"):
                    continue
                is_data = _is_constant(each) or isinstance(each, _CONTAINERS) or _is_array(each)
                if is_code or (self.whole and not name.startswith("__") and is_data):
                    yield name.encode()
                    yield from self.parts(each)

    def code(self, code: types.CodeType) -> Iterator[Any]:
        """The instructions and names, without the place where they stand in a file."""
        yield code.co_code
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        yield repr((names, code.co_flags)).encode()
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                yield from self.code(const)
            else:
                yield from _constant(const)


def _constant(value: Any) -> Iterator[bytes]:
    if isinstance(value, (tuple, frozenset)):
        inner = [b"".join(_constant(each)) for each in value]
        yield repr(sorted(inner) if isinstance(value, frozenset) else inner).encode()
    else:
        yield repr(value).encode()


def _name(value: Any) -> bytes:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f"{getattr(value, '__module__', '')}.{name}".encode()


def _pairs(values: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(values.items()))


def _fixed(state: Any) -> Any:
    """The state of an object in tuples: it counts where the object itself does not change."""
    if type(state) is dict:
        return _pairs(state)
    return tuple(map(_fixed, state)) if type(state) in (list, tuple) else state


def _slots(base: type) -> list[str]:
    slots = vars(base).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    mangled = f"_{base.__name__.lstrip('_')}"
    names = [name for name in names if name not in ("__weakref__", "__dict__")]
    return [mangled + name if name[:2] == "__" and name[-2:] != "__" else name for name in names]


def _is_enum(kind: type) -> bool:
    return "enum" in sys.modules and issubclass(kind, sys.modules["enum"].Enum)


def _is_constant(value: Any, depth: int = 0) -> bool:
    """Numbers, strings, and tuples of them. Lists and dicts that have a name are often filled by calls."""
    if type(value) in _PLAIN:
        return True
    if depth > 4 or type(value) not in (tuple, frozenset):
        return False
    return all(_is_constant(each, depth + 1) for each in itertools.islice(value, 100))


_CONTAINERS = (list, dict, set, tuple, frozenset, bytearray, collections.deque)


def _is_array(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "__array_interface__") and hasattr(value, "dtype")


def _is_installed(value: Any) -> bool:
    """Functions in C and the like, that others find by a name in an installed module."""
    if isinstance(value, types.BuiltinFunctionType):
        return isinstance(value.__self__, (types.ModuleType, type(None)))
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not (isinstance(module, str) and isinstance(name, str) and callable(value)):
        return False
    home = sys.modules.get(module)
    return home is not None and getattr(home, name, None) is value and not _is_own(vars(home))


def _read(known: list[tuple[str, Any]], names: list[str], modules: set[int]) -> Iterator[tuple[str, Any]]:
    """The values by their names; of modules of the user's own, what may be read of them."""
    for label, value in known:
        if not (isinstance(value, types.ModuleType) and _is_own(vars(value))):
            yield label, value
        elif id(value) not in modules:
            modules.add(id(value))
            inner = [(f"{value.__name__}.{n}", vars(value)[n]) for n in names if n in vars(value)]
            yield from _read(inner, names, modules)


def _is_noted(name: str, value: Any, changed: set[tuple[str, bool]]) -> bool:
    """Whether the function changes it. Of others than containers, nobody knows what `add` does."""
    return (name, True) in changed or ((name, False) in changed and isinstance(value, _CONTAINERS))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _stored(code: types.CodeType, operation: str) -> Iterator[str]:
    """The variables of others that a function sets: they count something, and tell nothing."""
    import dis

    yield from (str(each.argval) for each in dis.get_instructions(code) if each.opname == operation)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _stored(const, operation)


def _changed(code: types.CodeType) -> Iterator[tuple[str, bool]]:
    """The names of what a function changes in place: by `name[...] = x` and `name.attribute = x` (True), or
    by a method that does so for containers (False). The stack is followed as far as that is simple.
    """
    import dis

    stack: list[str | None] = []

    def at(depth: int) -> str | None:
        return stack[-depth] if depth <= len(stack) else None

    stores = {"STORE_SUBSCR": 2, "DELETE_SUBSCR": 2, "STORE_SLICE": 3, "STORE_ATTR": 1, "DELETE_ATTR": 1}
    for each in dis.get_instructions(code):
        name, arg = each.opname, each.arg or 0
        effect = dis.stack_effect(each.opcode, each.arg, jump=False)
        if name in stores and (found := at(stores[name])):
            yield found, True
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            # With an empty place for calls below or above it, which are not followed.
            stack += [str(each.argval)] * effect
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            found = at(1)
            if found and each.argval in _CHANGES:
                yield found, False
            stack[-1:] = [str(each.argval) if found else None] * (1 + effect)
        elif name == "COPY" and arg <= len(stack):
            stack.append(stack[-arg])
        elif name == "SWAP" and arg <= len(stack):
            stack[-1], stack[-arg] = stack[-arg], stack[-1]
        elif name in ("DUP_TOP", "DUP_TOP_TWO") and effect <= len(stack):
            stack += stack[-effect:]
        elif name in ("ROT_TWO", "ROT_THREE", "ROT_FOUR"):
            depth = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}[name]
            if depth <= len(stack):
                stack.insert(len(stack) - depth, stack.pop())
        elif effect > 0:
            stack += [None] * effect
        else:
            del stack[len(stack) + effect if -effect <= len(stack) else 0 :]
            if stack and not name.startswith(
                ("STORE", "DELETE", "POP", "NOP", "CACHE", "RESUME", "JUMP", "PUSH_NULL")
            ):
                stack[-1] = None
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _changed(const)


def _imported(function: types.FunctionType) -> list[types.ModuleType]:
    """The user's own modules that its code imports. It would do so when it is called, and what is known of
    it must be the same before.
    """
    found = []
    for name in sorted(set(_imports(function.__code__, function.__globals__.get("__package__") or ""))):
        # Looking for a module of a package imports the package: not that of others.
        if not all(_is_own_module(part) for part in itertools.accumulate(name.split("."), "{}.{}".format)):
            continue
        try:
            found.append(importlib.import_module(name))
        except Exception as error:
            raise Unknown(f"it imports {name}, which fails here: {error}") from None
    return found


def _is_own_module(name: str) -> bool:
    """Of one that is not imported as yet, its file says it. What is no module may be a value of one."""
    if name in sys.modules:
        return _is_own(vars(sys.modules[name]))
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and _is_own({"__name__": name, "__file__": spec.origin})


def _imports(code: types.CodeType, package: str) -> Iterator[str]:
    import dis

    level, consts = 0, [None, None]
    name = ""
    for each in dis.get_instructions(code):
        if each.opname.startswith("LOAD_") and each.opname.endswith(("CONST", "SMALL_INT")):
            consts = [consts[-1], each.argval]
        elif each.opname == "IMPORT_NAME":
            # In front of it stand how far it goes up, and which names are wanted.
            level, name = consts[0] if isinstance(consts[0], int) else 0, str(each.argval)
            if level:
                name = ".".join([part for part in [package.rsplit(".", level - 1)[0], name] if part])
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
        elif each.opname == "IMPORT_FROM":
            # A module of a package, or a value of a module.
            yield f"{name}.{each.argval}"
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _imports(const, package)


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib") if name in paths]
    places.append(os.path.dirname(__file__))
    return tuple(os.path.join(os.path.realpath(place), "") for place in places)


@functools.cache
def _is_own_file(file: str) -> bool:
    path = os.path.realpath(file)
    parts = path.split(os.sep)
    return not (path.startswith(_installed()) or "site-packages" in parts or "dist-packages" in parts)


def _is_own(names: dict[str, Any]) -> bool:
    """Whether a module is the user's own: neither of the standard library nor of an installed package."""
    module = str(names.get("__name__", ""))
    if module == "__main__":
        return True
    if module.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = names.get("__file__")
    return not isinstance(file, str) or _is_own_file(file)


def _is_own_class(value: type) -> bool:
    home = value.__module__
    if home == "builtins":
        # One that was made by exec, in a namespace without a name.
        return any(isinstance(each, types.FunctionType) for each in vars(value).values())
    module = sys.modules.get(home) if isinstance(home, str) else None
    return _is_own({"__name__": home} if module is None else vars(module))


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
