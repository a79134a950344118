"""Methods that read a dataset and give a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _native, trace
from ..errors import InvalidArgumentError, OutOfRangeError
from ..params import check_name
from ..states import state_function
from .core import INFINITE_CARDINALITY, Core
from .sources import _packed


class Terminals(Core):
    """Methods of `Dataset` that read it."""

    __slots__ = ()

    def reduce(
        self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None
    ) -> Any:
        """Carries a state through all elements and gives the last one.

        >>> import feedline as fl
        >>> fl.Dataset.range(5).reduce(fl.constant(0, fl.int64), lambda state, x: state + x)
        np.int64(10)

        Args:
            initial_state: The state before the first element, a structure.
            reduce_func: Takes the state and the element; returns the new state, of the same structure and
                dtypes.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: The dataset is endless.
            TypeError: The function returns a state of another structure or dtype.
        """
        check_name("reduce", name)
        self._need_values("reduce")
        if self._plan.cardinality == INFINITE_CARDINALITY:
            raise ValueError("reduce: the dataset is endless; cut it with .take(n)")
        initial = _packed(initial_state)
        sample = self._sample()
        function = state_function(
            reduce_func,
            initial.spec,
            self.element_spec,
            "reduce",
            sample=sample and (lambda: (initial.unpack(), sample())),
        )
        return _native.reduce(self._plan, initial, function)

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element.

        >>> import feedline as fl
        >>> fl.Dataset.range(7).batch(10).get_single_element()
        array([0, 1, 2, 3, 4, 5, 6])

        Raises:
            InvalidArgumentError: The dataset has none, or more than one.
        """
        check_name("get_single_element", name)
        self._need_values("get_single_element")
        with self.iter() as iterator:
            try:
                element = next(iterator)
            except StopIteration:
                raise InvalidArgumentError("get_single_element: the dataset is empty") from None
            for _ in iterator:
                raise InvalidArgumentError(
                    "get_single_element: the dataset has more than one element; use .take(1), or .batch(n)"
                )
        return element

    def peek(self) -> Any:
        """The first element, without disturbing anything: to see what the data looks like.

        >>> import feedline as fl
        >>> fl.Dataset.range(3, 5).peek()
        np.int64(3)

        Raises:
            OutOfRangeError: The dataset is empty.
        """
        self._need_values("peek")
        try:
            return self._first()
        except StopIteration:
            raise OutOfRangeError("peek: the dataset is empty") from None

    def _need_values(self, op: str) -> None:
        if self._home is not None:
            raise trace.NeedsValue(f"{op} of a dataset inside a function")
