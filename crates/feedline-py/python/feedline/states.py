"""Functions that carry a state: the dtypes and structure of the state are fixed, its shape may grow looser.

The function is traced with the state's first shape. Where it returns another shape, the parts that differ
become unknown and it is traced again, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _native, nest
from .function import Sample, traced
from .spec import RaggedTensorSpec, Shape, SparseTensorSpec, TensorSpec, spec_text

__all__ = ["state_function"]


def state_function(
    function: Callable[..., Any],
    state: Any,
    element: Any,
    op: str,
    *,
    state_of: Callable[[Any], Any] = lambda result: result,
    sample: Sample | None = None,
) -> _native.Function:
    """A function of (state, element), traced so that what it returns fits what it takes.

    Args:
        function: The user's function.
        state: The spec of the first state.
        element: The spec of the elements.
        op: The operator that it is for.
        state_of: The state within the spec of the results.
        sample: Gives a real (state, element).
    """
    while True:
        made = traced(function, (state, element), op=op, sample=sample)
        returned = state_of(made.spec)
        weaker = _joined(state, returned, op)
        if weaker == state:
            return made
        state = weaker


def _joined(state: Any, returned: Any, op: str) -> Any:
    try:
        nest.assert_same_structure(state, returned, lists=False)
        return nest.map_structure(_joined_leaf, state, returned, lists=False)
    except (TypeError, ValueError):
        raise TypeError(
            f"{op}: the function must return a state like the one it gets, {spec_text(state)}, but returns "
            f"{spec_text(returned)}; cast it, or start with a state of that kind"
        ) from None


def _joined_leaf(a: Any, b: Any) -> Any:
    if type(a) is not type(b) or getattr(a, "dtype", None) != getattr(b, "dtype", None):
        raise TypeError
    if isinstance(a, TensorSpec):
        return TensorSpec(_joined_shape(a.shape, b.shape), a.dtype)
    if isinstance(a, SparseTensorSpec):
        return SparseTensorSpec(_joined_shape(a.shape, b.shape), a.dtype)
    if isinstance(a, RaggedTensorSpec) and a.ragged_rank == b.ragged_rank:
        return RaggedTensorSpec(_joined_shape(a.shape, b.shape), a.dtype, a.ragged_rank, a.row_splits_dtype)
    if a != b:
        raise TypeError
    return a


def _joined_shape(a: Shape, b: Shape) -> Shape:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))
