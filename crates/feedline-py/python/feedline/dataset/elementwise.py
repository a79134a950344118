"""Operators that look at elements one by one: map, filter, flat_map, interleave, scan and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import nest
from ..dtypes import bool_
from ..function import traced
from ..params import (
    check_name,
    integer,
    on_error as checked_on_error,
    optional_integer,
    parallel_calls,
    worker_count,
)
from ..spec import TensorSpec
from ..states import state_function
from .core import AUTOTUNE, Core
from .sources import _packed

if TYPE_CHECKING:
    from typing_extensions import Self


class Elementwise(Core):
    """Methods of `Dataset` that treat elements one by one."""

    __slots__ = ()

    def _traced(self, function: Callable[..., Any], op: str, **how: Any) -> Any:
        return traced(function, self.element_spec, op=op, sample=self._sample(), **how)

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
        *,
        python: bool = False,
        native: bool = False,
        output_signature: Any = None,
        workers: int | None = None,
        on_worker_death: str = "raise",
        on_error: str | None = None,
    ) -> Self:
        """Calls a function on every element.

        The function is called once, now, with symbolic values: what it does with them is recorded and runs
        without Python. A tuple element is unpacked into positional arguments; dicts, NamedTuples and
        dataclasses are one argument. A list that it returns counts as a tuple. A function that needs real
        values (`if x > 0`, `x.numpy()`) runs as Python, element by element, and a log line says why.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(3).map(lambda x: x * 2).as_numpy_iterator())
        [np.int64(0), np.int64(2), np.int64(4)]

        Args:
            map_func: The function.
            num_parallel_calls: At most this many calls at once; `fl.AUTOTUNE` sets no bound.
            deterministic: False lets results come in any order. None follows the options.
            synchronous: True runs it only when an element is asked for, never ahead.
            use_unbounded_threadpool: Accepted for tf.data's sake; there is one pool.
            name: A name for the operator, an identifier.
            python: Run the function as Python without trying to trace it.
            native: Refuse a function that cannot be traced.
            output_signature: What the function returns, where it runs as Python: `fl.TensorSpec`s in a
                structure. Without it the first element is tried, and shapes are unknown.
            workers: Run the function as Python in so many processes, started afresh; `fl.AUTOTUNE`: as many
                as the CPU budget. Results come in order unless `deterministic=False`. Lambdas and closures
                need the package cloudpickle. `fl.worker_info()` says there which worker it is.
            on_worker_death: "raise": a process that dies is an error, and the end of the pipeline.
                "restart": another one does its elements again; one that kills that one too is an error in
                its place.
            on_error: What becomes of elements that fail in it: "raise", "skip" or "quarantine". None follows
                the options.
        """
        check_name("map", name)
        if workers is not None:
            python = True
            workers = worker_count("map", workers)
        if on_worker_death not in ("raise", "restart"):
            raise ValueError(f'map: on_worker_death is "raise" or "restart", not {on_worker_death!r}')
        if synchronous and num_parallel_calls is not None:
            raise ValueError("map: synchronous=True runs nothing ahead and excludes num_parallel_calls")
        parallel = parallel_calls("map", num_parallel_calls)
        function = self._traced(
            map_func, "map", python=python, native=native, output_signature=output_signature
        )
        return self._then(
            "map",
            function=function,
            num_parallel_calls=parallel,
            deterministic=deterministic,
            synchronous=bool(synchronous),
            on_error=checked_on_error("map", on_error),
            **({} if workers is None else {"workers": workers, "on_worker_death": on_worker_death}),
        )

    def map_batches(
        self,
        map_func: Callable[..., Any],
        batch_size: int,
        *,
        python: bool = False,
        native: bool = False,
        output_signature: Any = None,
        workers: int | None = None,
        on_worker_death: str = "raise",
        name: str | None = None,
    ) -> Self:
        """Calls a function on groups of elements, stacked; gives the rows of what it returns one by one.

        For functions that NumPy, torch or a tokenizer run faster on many elements than on one. The groups are
        always the same: `batch_size` elements, the last one fewer. The function may return another number of
        rows than it got.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(4).map_batches(lambda x: x * 2, 3).as_numpy_iterator())
        [np.int64(0), np.int64(2), np.int64(4), np.int64(6)]

        Args:
            map_func: The function. What it gets has one more axis in front than the elements.
            batch_size: Elements in a group. Like those of a batch, they must have one shape.
            python: Run the function as Python without trying to trace it.
            native: Refuse a function that cannot be traced.
            output_signature: What the function returns, where it runs as Python, with the axis in front.
            workers: Run it in so many processes, as `map` does.
            on_worker_death: As in `map`.
            name: A name for the operator, an identifier.
        """
        check_name("map_batches", name)
        size = integer("map_batches", "batch_size", batch_size)
        groups = self._then("batch", batch_size=size, drop_remainder=False)
        made = groups.map(
            map_func,
            python=python,
            native=native,
            output_signature=output_signature,
            workers=workers,
            on_worker_death=on_worker_death,
        )
        return made._then("unbatch")

    def filter(
        self, predicate: Callable[..., Any], name: str | None = None, *, on_error: str | None = None
    ) -> Self:
        """The elements for which a function returns True.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(5).filter(lambda x: x % 2 == 1).as_numpy_iterator())
        [np.int64(1), np.int64(3)]

        Args:
            predicate: The function.
            name: A name for the operator, an identifier.
            on_error: What becomes of elements that fail in it: "raise", "skip" or "quarantine". None follows
                the options.
        """
        check_name("filter", name)
        return self._then(
            "filter",
            predicate=self._predicate(predicate, "filter"),
            on_error=checked_on_error("filter", on_error),
        )

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """The elements up to, but without, the first for which a function returns False.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(5).take_while(lambda x: x < 2).as_numpy_iterator())
        [np.int64(0), np.int64(1)]
        """
        check_name("take_while", name)
        return self._then("take_while", predicate=self._predicate(predicate, "take_while"))

    def _predicate(self, predicate: Callable[..., Any], op: str) -> Any:
        return self._traced(predicate, op, output_signature=TensorSpec((), bool_))

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Self:
        """Calls a function that returns a dataset, and gives the elements of these datasets one after
        another.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(3).flat_map(lambda x: fl.Dataset.range(x)).as_numpy_iterator())
        [np.int64(0), np.int64(0), np.int64(1)]
        """
        check_name("flat_map", name)
        return self._then("flat_map", function=self._traced(map_func, "flat_map"))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Calls a function that returns a dataset, and takes elements of several of these datasets in turn.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(2)
        >>> ds = ds.interleave(lambda x: fl.Dataset.from_tensors(x).repeat(2), cycle_length=2)
        >>> list(ds.as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(0), np.int64(1)]

        Args:
            map_func: The function.
            cycle_length: How many datasets are open at once. The default does not depend on the machine.
            block_length: How many elements are taken from one before the next has its turn.
            num_parallel_calls: How many datasets are read at once, at most `cycle_length`.
            deterministic: False lets elements come in any order. None follows the options.
            name: A name for the operator, an identifier.
        """
        check_name("interleave", name)
        cycle = optional_integer("interleave", "cycle_length", cycle_length)
        return self._then(
            "interleave",
            function=self._traced(map_func, "interleave"),
            cycle_length=None if cycle == AUTOTUNE else cycle,
            block_length=1 if block_length is None else integer("interleave", "block_length", block_length),
            num_parallel_calls=parallel_calls("interleave", num_parallel_calls),
            deterministic=deterministic,
        )

    def scan(self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None) -> Self:
        """Calls a function that carries a state from element to element.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(4).scan(fl.constant(0, fl.int64), lambda s, x: (s + x, s + x))
        >>> list(ds.as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(3), np.int64(6)]

        Args:
            initial_state: The state before the first element, a structure.
            scan_func: Takes the state and the element; returns the new state, of the same structure and
                dtypes, and the element to give.
            name: A name for the operator, an identifier.

        Raises:
            TypeError: The function returns no pair, or a state of another structure or dtype.
        """
        check_name("scan", name)
        initial = _packed(initial_state)

        def first_state(result: Any) -> Any:
            if not isinstance(result, tuple) or nest.is_namedtuple(result) or len(result) != 2:
                raise TypeError(
                    "scan: the function must return a pair: the new state and the element to give"
                )
            return result[0]

        sample = self._sample()
        function = state_function(
            scan_func,
            initial.spec,
            self.element_spec,
            "scan",
            state_of=first_state,
            sample=sample and (lambda: (initial.unpack(), sample())),
        )
        return self._then("scan", initial=initial, function=function)

    def enumerate(self, start: int = 0, name: str | None = None) -> Self:
        """Pairs of a running int64 number and the element.

        >>> import feedline as fl
        >>> list(fl.Dataset.from_tensor_slices(["a", "b"]).enumerate(5).as_numpy_iterator())
        [(np.int64(5), b'a'), (np.int64(6), b'b')]
        """
        check_name("enumerate", name)
        return self._then("enumerate", start=integer("enumerate", "start", start))

    def unique(self, name: str | None = None) -> Self:
        """The first occurrence of every element. Elements are single int32, int64 or string tensors.

        >>> import feedline as fl
        >>> list(fl.Dataset.from_tensor_slices([1, 2, 1]).unique().as_numpy_iterator())
        [np.int32(1), np.int32(2)]
        """
        check_name("unique", name)
        return self._then("unique")

    def with_origin(self, name: str | None = None) -> Self:
        """Each element with where it came from.

        They are pairs of the element and a dict of `file`, `record` (its number in the file), `byte` (where
        its data begins) and `position` (its place in the source). What is not known is empty, or -1.

        It has to stand before operators that put rows together, such as `batch`; a batch then has a vector of
        each.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(100).shuffle(10, seed=1).with_origin().batch(3)
        >>> numbers, origin = next(iter(ds))
        >>> bool((numbers == origin["position"]).all())
        True
        """
        check_name("with_origin", name)
        return self._then("with_origin")

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Self:
        """Without the elements that fail. `explain()` says how many they were.

        >>> import feedline as fl
        >>> ds = fl.Dataset.from_tensor_slices([1.0, 0.0])
        >>> ds = ds.map(lambda x: fl.debugging.check_numerics(1 / x, "inf"))
        >>> list(ds.ignore_errors().as_numpy_iterator())
        [np.float32(1.0)]

        Args:
            log_warning: Log each of them.
            name: A name for the operator, an identifier.
        """
        check_name("ignore_errors", name)
        return self._then("ignore_errors", log_warning=bool(log_warning))
