"""One way to call a function of the table: on real values at once, on symbolic ones as a recorded step.

Python literals take their dtype from what stands next to them: `image * 2` keeps uint8, `image / 255.0` makes
both float32, and `x + 300` is refused for uint8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _native, trace
from .dtypes import DType, as_dtype, bool_, float32, int32, string
from .lazy_numpy import np
from .ragged import RaggedTensor
from .spec import TensorSpec
from .trace import Traced, Tracer

__all__ = ["aligned", "as_tensor", "binary", "call", "call_parts", "constant", "dtype_of", "symbolic"]


def symbolic(*values: Any) -> bool:
    """Whether any of the values, or an item of a list among them, is symbolic."""
    return any(isinstance(v, Traced) or (isinstance(v, (list, tuple)) and symbolic(*v)) for v in values)


def call(name: str, args: Sequence[Any], **attrs: Any) -> Any:
    """Calls a function of the table; attributes that are None are left out."""
    given = _attributes(name, attrs)
    if not symbolic(*args):
        return _native.call(name, list(args), given)
    tracer = trace.required()
    nodes = [node(tracer, arg) for arg in args]
    return tracer.symbol(tracer.native.call(name, nodes, given))


def call_parts(name: str, args: Sequence[Any], **attrs: Any) -> list[Any]:
    """Calls a function of several results."""
    given = _attributes(name, attrs)
    if not symbolic(*args):
        return _native.call_parts(name, list(args), given)
    tracer = trace.required()
    nodes = tracer.native.call_parts(name, [node(tracer, arg) for arg in args], given)
    return [tracer.symbol(n) for n in nodes]


def call_here(name: str, args: Sequence[Any], **attrs: Any) -> Any:
    """The same, but recorded inside any traced function, also where nothing is symbolic (random numbers)."""
    tracer = trace.current()
    if tracer is None:
        return call(name, args, **attrs)
    given = _attributes(name, attrs)
    return tracer.symbol(tracer.native.call(name, [node(tracer, arg) for arg in args], given))


def call_parts_here(name: str, args: Sequence[Any], **attrs: Any) -> list[Any]:
    """A function of several results, recorded inside any traced function as `call_here` does it."""
    tracer = trace.current()
    if tracer is None:
        return call_parts(name, args, **attrs)
    given = _attributes(name, attrs)
    nodes = tracer.native.call_parts(name, [node(tracer, arg) for arg in args], given)
    return [tracer.symbol(n) for n in nodes]


def _attributes(name: str, attrs: dict[str, Any]) -> dict[str, Any]:
    return {key: _attribute(f"{name}: {key}", value) for key, value in attrs.items() if value is not None}


def _attribute(what: str, value: Any) -> Any:
    """A constant argument as the compiled part reads it: as JSON, which has no NaN, infinities and bytes."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (list, tuple)):
        return [_attribute(what, item) for item in value]
    if isinstance(value, dict):
        return {key: _attribute(what, item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _attribute(what, value.tolist())
    if isinstance(value, Traced):
        raise trace.NeedsValue("an argument that must be a constant", "give a Python number in its place")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # "nan", "inf" or "-inf", which are read as such where an item is expected
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{what} must be text in UTF-8, not {value!r}") from None
    return value


def item(what: str, value: Any, dtype: DType | None) -> Any:
    """A constant that becomes an item of a tensor; among text a float is refused, not spelled out."""
    if dtype == string and isinstance(value, (float, np.floating)):
        raise ValueError(f"{what}: {value} is not a value of dtype string")
    return value


def node(tracer: Tracer, value: Any, dtype: DType | None = None) -> int:
    """The node of a value in a function being traced; lists of symbolic values are stacked."""
    if isinstance(value, Traced):
        return tracer.node_of(value)
    if isinstance(value, (list, tuple)) and symbolic(*value):
        return tracer.native.call("stack", [node(tracer, item) for item in aligned(*value)], {"axis": 0})
    return tracer.native.const(value, None if dtype is None else dtype.name)


def dtype_of(value: Any) -> DType | None:
    """The dtype of a value that has one; None for Python literals, which adapt."""
    if isinstance(value, (np.ndarray, np.generic, RaggedTensor, Traced)) or hasattr(value, "dense_shape"):
        return as_dtype(value.dtype)  # type: ignore[union-attr]
    if isinstance(value, (list, tuple)):
        return next((d for d in map(dtype_of, value) if d is not None), None)
    return None


def _literal_kind(value: Any) -> str:
    """bool, int, float or text: the widest among the items of a literal."""
    if isinstance(value, (list, tuple)):
        kinds = {_literal_kind(item) for item in value}
        return next((kind for kind in ("text", "float", "int", "bool") if kind in kinds), "float")
    if isinstance(value, (str, bytes)):
        return "text"
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "float"


_KIND_DTYPES = {"text": string, "float": float32, "int": int32, "bool": bool_}


def common_dtype(values: Sequence[Any]) -> DType | None:
    """The dtype that Python literals next to these values get; None where values with dtypes stand alone."""
    typed = next((d for d in map(dtype_of, values) if d is not None), None)
    kinds = [_literal_kind(v) for v in values if dtype_of(v) is None]
    if not kinds:
        return None
    kind = next(k for k in ("text", "float", "int", "bool") if k in kinds)
    if typed is None:
        return _KIND_DTYPES[kind]
    if kind == "text" or typed == string:
        return string
    if kind == "float" and not typed.is_floating:
        return float32
    if kind == "int" and typed.is_bool:
        return int32
    return typed


def aligned(*values: Any) -> list[Any]:
    """The values with their Python literals converted to the dtype of the others."""
    dtype = common_dtype(values)
    return list(values) if dtype is None else [_as_dtype(value, dtype) for value in values]


def _as_dtype(value: Any, dtype: DType) -> Any:
    own = dtype_of(value)
    if own is None:
        return literal(value, dtype)
    adapts = (own.is_integer or own.is_bool) and (dtype == float32 or (own.is_bool and dtype == int32))
    if own == dtype or not adapts:
        return value
    return call("cast", [value], dtype=dtype)


def literal(value: Any, dtype: DType) -> Any:
    """A Python literal (or nested lists of them) as a value of that dtype; ValueError if it does not fit."""
    if isinstance(value, (list, tuple)) and symbolic(*value):
        return [_as_dtype(item, dtype) for item in value]
    if dtype == string:
        return value  # of whatever kind: the function will say what does not go together
    if dtype.is_integer:
        _check_fits(value, dtype)
    tracer = trace.current()
    if tracer is not None and dtype.name == "bfloat16":  # which NumPy may lack
        return tracer.symbol(tracer.native.const(value, dtype.name))
    return np.asarray(value, dtype.dtype)


def _check_fits(value: Any, dtype: DType) -> None:
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_fits(item, dtype)
    elif isinstance(value, int) and not dtype.holds(value):
        raise ValueError(
            f"{value} does not fit {dtype}, the dtype of the tensor beside it ({int(dtype.min)} to "
            f"{int(dtype.max)}); cast the tensor first, for example fl.cast(x, fl.int32)"
        )


def binary(name: str, a: Any, b: Any) -> Any:
    """A function of two arguments that broadcasts."""
    return call(name, aligned(a, b))


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A tensor from Python data.

    >>> import feedline as fl
    >>> fl.constant([1, 2]).dtype, fl.constant(1.5, fl.float64).dtype
    (dtype('int32'), dtype('float64'))

    Args:
        value: A number, text, a list (also nested), or an array. int becomes int32 (int64 if it does not
            fit), float becomes float32, text becomes a byte string.
        dtype: The dtype to convert to; a conversion that would change a value is refused.
        shape: The shape of the result: the value is reshaped to it, or repeated if it is a single one.
        name: Not used; accepted for tf.data's sake.
    """
    if symbolic(value):
        tracer = trace.required()
        made: Any = tracer.symbol(node(tracer, value))
        made = (
            made
            if dtype is None or made.dtype == as_dtype(dtype)
            else call("cast", [made], dtype=as_dtype(dtype))
        )
    else:
        spec = None if dtype is None else TensorSpec(None, dtype)
        value = list(value) if isinstance(value, tuple) else value
        made = _native.pack(value, spec).unpack()
    if shape is None:
        return made
    if getattr(made, "size", 1) == 1 and not symbolic(made):
        return np.full(shape, made, as_dtype(getattr(made, "dtype", "string")).dtype)
    return call("reshape", [made], shape=list(shape))


def as_tensor(value: Any, dtype: Any = None) -> Any:
    """An argument as it was given if it has a dtype; Python literals become tensors of that dtype."""
    return constant(value, dtype) if dtype_of(value) is None else value
