"""The arguments of `padded_batch`: shapes and values in the structure of the elements, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _native, nest
from .calls import dtype_of
from .lazy_numpy import np
from .spec import Shape, TensorSpec, as_shape, shape_text, spec_text

__all__ = ["shapes", "values"]


def shapes(spec: Any, given: Any) -> list[list[int | None]]:
    """For each leaf the shape to fill up to, with None for the longest."""
    leaves = _dense_leaves(spec)
    if given is None:
        return [_own_shape(leaf) for leaf in leaves]
    found: list[Any] = []
    _matched(spec, given, lambda leaf, shape: found.append(_checked_shape(leaf, shape)), "padded_shapes")
    return found


def values(spec: Any, given: Any) -> list[Any]:
    """For each leaf the packed value to fill up with, or None for the default."""
    leaves = _dense_leaves(spec)
    if given is None:
        return [None] * len(leaves)
    if not nest.is_nested(given, lists=False) and nest.is_nested(spec, lists=False):
        return [_checked_value(leaf, given) for leaf in leaves]
    found: list[Any] = []
    _matched(spec, given, lambda leaf, value: found.append(_checked_value(leaf, value)), "padding_values")
    return found


def _dense_leaves(spec: Any) -> list[TensorSpec]:
    leaves = nest.flatten(spec, lists=False)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                f"padded_batch fills up dense tensors, but the elements have {leaf}; use batch, or map it"
            )
    return leaves


def _own_shape(leaf: TensorSpec) -> list[int | None]:
    if leaf.shape is None:
        raise ValueError(
            "padded_batch: the number of axes of a component is not known; give padded_shapes, or state the "
            "shape before with .map(lambda x: fl.ensure_shape(x, [None]))"
        )
    return list(leaf.shape)


def _matched(spec: Any, given: Any, found: Callable[[TensorSpec, Any], None], what: str) -> None:
    """Walks two structures; what stands in the place of a leaf is handed on, whatever it is."""
    if not nest.is_nested(spec, lists=False):
        found(spec, given)
        return
    keys = nest.keys(spec)
    fits = nest.is_nested(given) and isinstance(given, Mapping) == isinstance(spec, Mapping)
    if not fits or set(nest.keys(given)) != set(keys):
        raise ValueError(
            f"padded_batch: {what} must have the structure of the elements, {spec_text(spec)}, but is "
            f"{given!r}"
        )
    for key in keys:
        _matched(nest.part(spec, key), nest.part(given, key), found, what)


def _checked_shape(leaf: TensorSpec, given: Any) -> list[int | None]:
    if given is None:
        return _own_shape(leaf)
    if isinstance(given, np.ndarray):
        given = given.tolist()
    try:
        shape = as_shape(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"padded_batch: padded_shapes: {error}") from None
    assert shape is not None
    if not _compatible(leaf.shape, shape):
        raise ValueError(
            f"padded_batch: elements of {leaf} cannot be filled up to the shape {shape_text(shape) or '[]'}: "
            "the number of axes differs, or an axis would have to shrink"
        )
    return list(shape)


def _compatible(own: Shape, padded: Shape) -> bool:
    if own is None or padded is None:
        return True
    sizes = zip(own, padded, strict=False)
    return len(own) == len(padded) and all(a is None or b is None or a <= b for a, b in sizes)


def _checked_value(leaf: TensorSpec, given: Any) -> Any:
    if given is None:
        return None
    packed = _native.pack(given)
    spec = packed.spec
    if not isinstance(spec, TensorSpec) or spec.shape != ():
        raise ValueError(f"padded_batch: a padding value is a single number or text, not {given!r}")
    if spec.dtype != leaf.dtype:
        hint = f"; write fl.constant({given!r}, {leaf.dtype!r})" if dtype_of(given) is None else ""
        raise TypeError(
            f"padded_batch: the padding value {given!r} is {spec.dtype}, but fills up {leaf.dtype} tensors"
            f"{hint}"
        )
    return packed
