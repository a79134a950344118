"""What tells a Python function from others, in later processes too: caches on disk are known by it."""

from __future__ import annotations

import functools
import hashlib
import marshal
import types
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["of"]


def of(function: Any) -> bytes:
    """A digest of its code and of the values that it refers to: closures, defaults, attributes of objects.

    What it reads through global names is not part of it, nor is what objects keep outside of attributes.
    """
    digest = hashlib.sha256()
    for part in _parts(function, {}):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parts(value: Any, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    """What describes a value. `seen` has those that were described already, and keeps them alive."""
    try:
        yield marshal.dumps(value, 2)
        return
    except ValueError:
        pass
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}".encode()
        return
    seen[id(value)] = (len(seen), value)
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    inside: Iterable[Any]
    if isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode()
        return
    if isinstance(value, types.FunctionType):
        yield from _code(value.__code__)
        cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        inside = [value.__defaults__, value.__kwdefaults__, *cells]
    elif isinstance(value, types.MethodType):
        inside = [value.__func__, value.__self__]
    elif isinstance(value, functools.partial):
        inside = [value.func, value.args, value.keywords]
    elif isinstance(value, (tuple, list)):
        inside = value
    elif isinstance(value, dict):
        inside = [part for pair in value.items() for part in pair]
    elif hasattr(value, "__array_interface__") and hasattr(value, "tobytes"):
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes()
        return
    else:
        inside = [vars(value)] if hasattr(value, "__dict__") else []
    for item in inside:
        yield from _parts(item, seen)


def _code(code: types.CodeType) -> list[bytes]:
    """The instructions and names, without the place where they stand in a file."""
    parts = [code.co_code, repr((code.co_names, code.co_varnames, code.co_freevars)).encode()]
    for const in code.co_consts:
        # The order of a set is another one in each process.
        plain = sorted(map(repr, const)) if isinstance(const, frozenset) else const
        parts += _code(const) if isinstance(const, types.CodeType) else [repr(plain).encode()]
    return parts


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
