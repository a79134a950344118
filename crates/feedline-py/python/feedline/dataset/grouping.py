"""Operators that gather elements: into windows, and by key."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import ops
from ..calls import dtype_of
from ..dtypes import int64
from ..function import traced
from ..params import check_name, integer, optional_integer
from ..spec import DatasetSpec, TensorSpec
from ..states import state_function
from .core import Core

if TYPE_CHECKING:
    from typing_extensions import Self

_KEY = TensorSpec((), int64)


class Grouping(Core):
    """Methods of `Dataset` that gather elements."""

    __slots__ = ()

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Windows over consecutive elements. Every window is a dataset (for structures: a structure of
        datasets).

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(5).window(3, shift=1, drop_remainder=True)
        >>> list(ds.flat_map(lambda window: window.batch(3)).as_numpy_iterator())
        [array([0, 1, 2]), array([1, 2, 3]), array([2, 3, 4])]

        Args:
            size: How many elements a window has.
            shift: How far the next window begins after this one: `size` if it is not given.
            stride: The distance between the elements of a window.
            drop_remainder: Leave out windows at the end that are short.
            name: A name for the operator, an identifier.
        """
        check_name("window", name)
        return self._then(
            "window",
            size=integer("window", "size", size),
            shift=optional_integer("window", "shift", shift),
            stride=integer("window", "stride", stride),
            drop_remainder=bool(drop_remainder),
        )

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Collects elements by key; every full window goes through a function that returns a dataset.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(6).group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 3)
        >>> list(ds.as_numpy_iterator())
        [array([0, 2, 4]), array([1, 3, 5])]

        Args:
            key_func: The key of an element, a whole-number scalar.
            reduce_func: Takes the key and the window, a dataset; returns a dataset.
            window_size: How many elements make a window full.
            window_size_func: The same, as a function of the key.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: Both window sizes are given, or neither.
        """
        check_name("group_by_window", name)
        if (window_size is None) == (window_size_func is None):
            raise ValueError("group_by_window takes either window_size or window_size_func")
        size_func = None
        if window_size_func is not None:
            size_func = traced(_whole(window_size_func), _KEY, op="group_by_window", output_signature=_KEY)
        return self._then(
            "group_by_window",
            key=self._key(key_func, "group_by_window"),
            reduce=traced(reduce_func, (_KEY, DatasetSpec(self.element_spec)), op="group_by_window"),
            window_size=optional_integer("group_by_window", "window_size", window_size),
            window_size_func=size_func,
        )

    def _key(self, key_func: Callable[..., Any], op: str) -> Any:
        return traced(
            _whole(key_func), self.element_spec, op=op, sample=self._sample(), output_signature=_KEY
        )

    def _group_by_reducer(self, key_func: Callable[..., Any], reducer: Any) -> Self:
        """What `fl.data.experimental.group_by_reducer` applies."""
        op = "group_by_reducer"
        init = traced(reducer.init_func, _KEY, op=op)
        reduce = state_function(reducer.reduce_func, init.spec, self.element_spec, op)
        finalize = traced(reducer.finalize_func, reduce.spec, op=op)
        key = self._key(key_func, op)
        return self._then(op, key=key, init=init, reduce=reduce, finalize=finalize)


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its whole-number result as int64."""
    if not callable(function):
        return function  # `traced` says what is wrong

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        result = function(*args)
        dtype = dtype_of(result)
        return ops.cast(result, int64) if dtype is not None and dtype.is_integer else result

    return called
