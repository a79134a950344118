"""What every dataset is: a plan, with its spec, its length, its iterators, its looks and its storage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native, profiles, trace, warnings
from ..errors import OutOfRangeError, UnimplementedError
from ..frameworks import meet
from ..lazy_numpy import with_numpy
from ..options import Options, frozen_options, make_options
from ..params import integer, optional_integer
from ..spec import DatasetSpec, spec_text
from .restarts import note

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..function import Sample
    from ..iterator import Iterator
    from ..provenance import Located, Replayed
    from ..trace import Tracer

AUTOTUNE = -1
"""Lets the runtime choose."""
INFINITE_CARDINALITY = -1
"""What `cardinality()` gives for an endless dataset."""
UNKNOWN_CARDINALITY = -2
"""What `cardinality()` gives where the number of elements is only found by counting."""


class Cardinality(int):
    """A number of elements, which also answers `numpy()`."""

    def numpy(self) -> int:
        """The number."""
        return int(self)


class Core:
    """A plan and what can be known of it."""

    __slots__ = ("__weakref__", "_home", "_node", "_plan")

    _plan: _native.Plan
    _home: Tracer | None
    """The function being traced whose values the plan refers to."""
    _node: int | None
    """The node of that function that stands for this dataset, once it has one."""

    def __init__(self, plan: _native.Plan) -> None:
        if not isinstance(plan, _native.Plan):
            raise TypeError("a dataset is made by one of its sources, such as fl.Dataset.from_tensor_slices")
        with_numpy()
        meet()
        self._plan = plan
        self._home = trace.current() if plan.symbolic else None
        self._node = None

    @classmethod
    def _from_plan(cls, plan: _native.Plan) -> Self:
        return cls(plan)

    @classmethod
    def _make(cls, op: str, params: Mapping[str, Any], inputs: Sequence[Core] = ()) -> Self:
        tracer = trace.current()
        plans = [dataset._plan if tracer is None else tracer.plan_of(dataset) for dataset in inputs]  # type: ignore[arg-type]
        return cls(_native.make(op, params, plans))

    def _then(self, op: str, **params: Any) -> Self:
        """One more operator on this dataset."""
        if not isinstance(params.get("deterministic"), (bool, type(None))):
            raise TypeError(
                f"{op}: deterministic must be True, False or None, not {params['deterministic']!r}"
            )
        return self._make(op, params, [self])

    @classmethod
    def _of_node(cls, tracer: Tracer, node: int, element_spec: Any) -> Self:
        """A dataset that is a value of a function being traced."""
        plan = _native.make("nested", {"symbol": tracer.native.export(node), "spec": element_spec}, [])
        made = cls(plan)
        made._home, made._node = tracer, node
        return made

    # What is known of it.

    @property
    def element_spec(self) -> Any:
        """The structure, dtypes and shapes of the elements.

        >>> import feedline as fl
        >>> fl.Dataset.range(3).batch(2).element_spec
        TensorSpec(shape=(None,), dtype=fl.int64)
        """
        return self._plan.spec

    def cardinality(self) -> Cardinality:
        """The number of elements: -1 if endless, -2 if it is not known without counting.

        >>> import feedline as fl
        >>> fl.Dataset.range(10).batch(3).cardinality()
        4
        """
        return Cardinality(self._plan.cardinality)

    def options(self) -> Options:
        """The options in force, which cannot be changed; `with_options` makes a dataset with others."""
        return frozen_options(self._plan.options())

    def with_options(self, options: Options | None = None, name: str | None = None, **keywords: Any) -> Self:
        """The same dataset with options; later ones win over earlier ones, one by one.

        >>> import feedline as fl
        >>> fl.Dataset.range(3).with_options(deterministic=False).options().deterministic
        False

        Args:
            options: `fl.Options`.
            name: Not used.
            keywords: Options by name, in place of an object or on top of it.
        """
        return self._then("with_options", options=make_options(options, keywords))

    def fingerprint(self) -> str:
        """A hash of the pipeline: equal for equal pipelines, in every process."""
        return self._plan.fingerprint()

    def explain(self, format: str = "text") -> str:
        """The pipeline as written and as it runs; after a pass, with what each operator cost, how fast the
        whole could be here, and what holds it.

        Args:
            format: "text"; "json"; "dot" for Graphviz; "mermaid"; or "html", a page with a picture.
        """
        return self._plan.explain(format)

    def __len__(self) -> int:
        count = self._plan.cardinality
        if count == INFINITE_CARDINALITY:
            raise TypeError("the dataset is endless and has no length; cut it with .take(n)")
        if count == UNKNOWN_CARDINALITY:
            raise TypeError(
                "the length of the dataset is not known without reading it (after filter, flat_map, a "
                "generator, …); if you know it, say so with .assert_cardinality(n)"
            )
        return count

    def __bool__(self) -> bool:
        return True

    # Reading it.

    def __iter__(self) -> Iterator:
        if self._home is not None:
            raise trace.NeedsValue(
                "a loop over a dataset inside a function", "use its operators: map, reduce, batch"
            )
        note(self)
        self._begin()
        return self._plan.iter()  # type: ignore[return-value]

    def _begin(self) -> None:
        """A pass begins: warns of mistakes, and tells whoever measures."""
        self._warn()
        profiles.note(self._plan)

    def _warn(self) -> None:
        """Warns of mistakes in the plan, once."""
        for found in self._plan.lint_once():
            warnings.warn_of(*found)

    def iter(
        self, state: Mapping[str, Any] | None = None, *, epoch: int | None = None, **options: Any
    ) -> Iterator:
        """A new iterator: with options for this pass only, for a certain epoch, or from where another was.

        >>> import feedline as fl
        >>> with fl.Dataset.range(3).iter(prefetch=False) as it:
        ...     print(next(it))
        0

        `Iterator.state_dict()` says where an iterator is. One that is made from it, in this process or
        another, with any options but another `rewrite` (or what decides which elements come: `on_error`,
        `deterministic`) and on any number of cores, gives exactly what the other would have given next; so
        does the pass behind it. Elements that were held (in a shuffle's buffer, in a cache) are read again.

        >>> ds = fl.Dataset.range(100).shuffle(10).batch(2)
        >>> it = iter(ds)
        >>> first = next(it)
        >>> state = it.state_dict()
        >>> bool((next(it) == next(ds.iter(state))).all())
        True

        Every pass has a number, from 0 on, which its orders and random numbers depend on. A process that
        knows its epoch asks for it; the pass behind it is the next epoch.

        >>> ds = fl.Dataset.range(100).shuffle(10, seed=1)
        >>> zeroth, first = list(ds), list(ds)
        >>> list(ds.iter(epoch=0)) == zeroth, list(ds) == first
        (True, True)

        Args:
            state: What `state_dict` gave, or `merge_states` made of the states of all ranks. It is a dict
                that `json.dumps` takes.
            epoch: The number of the pass.
            options: Those of `with_options`.

        Raises:
            ValueError: The state was taken from a dataset that does something else; the text says what. Or
                there are both a state, which has its epoch, and an epoch.
        """
        if self._home is not None or (state is None and epoch is None and not options):
            return self.__iter__()
        if epoch is not None:
            if state is not None:
                raise ValueError("iter: a state has an epoch of its own; give a state or an epoch, not both")
            epoch = integer("iter", "epoch", epoch)
            if not 0 <= epoch < 2**53:
                raise ValueError(f"iter: epochs are counted from 0 on, so epoch cannot be {epoch}")
        self._begin()
        return self._plan.iter(make_options(None, options) if options else None, state, epoch)  # type: ignore[return-value]

    def locate(self, step: int, row: int | None = None, state: Mapping[str, Any] | None = None) -> Located:
        """Where a row of a pass came from: file, record and byte, and what random functions drew for it.

        The pass is run again up to that element, by a copy of this dataset: results depend on nothing but
        seeds and positions. It takes as long as the pass took to get there.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(10).shuffle(10, seed=3).batch(4)
        >>> batches = list(ds)
        >>> ds.locate(1, 2).origin.position == batches[1][2]
        np.True_

        Args:
            step: The number of the element in the pass, from 0 on; of the last pass that was started, or of a
                first one.
            row: The row in it, if it is a batch.
            state: A state of that pass that was taken before the element (`Iterator.state_dict`): the search
                begins there.

        Raises:
            OutOfRangeError: The pass has fewer elements, or the batch fewer rows.
            FailedPreconditionError: The order of the dataset is another one each time (deterministic=False).
        """
        from ..provenance import located

        return located(_native.locate(self._plan, step, row, state))

    def replay(self, step: int, row: int | None = None, state: Mapping[str, Any] | None = None) -> Replayed:
        """Makes a row of a pass again, and shows what every operator made of it.

        Args:
            step: The number of the element in the pass, as for `locate`.
            row: The row in it, if it is a batch.
            state: A state to begin at, as for `locate`. The operators are then shown as they run, not as they
                were written.

        Returns:
            A sequence of values, each with its operator. Notebooks show pictures.
        """
        from ..provenance import replayed

        return replayed(_native.locate(self._plan, step, row, state))

    def _sample(self) -> Sample | None:
        """Gives the first element, for functions that cannot be traced; None inside a traced function."""
        return None if self._home is not None else self._first

    def _first(self) -> Any:
        # By number where possible, else from a copy: a pass of its own would count as an epoch.
        if self._plan.cardinality > 0 and self._plan.indexed:
            return self._plan.at(0)
        iterator = _native.unpickled(*self._plan.pickled()).iter({"prefetch": False})
        try:
            return next(iterator)
        finally:
            iterator.close()

    def as_numpy_iterator(self) -> Iterator:
        """An iterator whose elements are NumPy values (text as bytes).

        >>> import feedline as fl
        >>> list(fl.Dataset.range(2).as_numpy_iterator())
        [np.int64(0), np.int64(1)]

        Raises:
            TypeError: Elements contain datasets.
        """
        from ..nest import flatten

        if any(isinstance(leaf, DatasetSpec) for leaf in flatten(self.element_spec, lists=False)):
            raise TypeError(
                "as_numpy_iterator: the elements contain datasets, which are no NumPy values; read them with "
                ".flat_map(lambda window: window.batch(size)), or iterate the dataset itself"
            )
        return Core.__iter__(self)

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            raise TypeError(f"a dataset is indexed by a whole number or a slice, not {key!r}")
        index = key.__index__()
        count = self._plan.cardinality
        if index < 0 and count >= 0:
            index += count
        if index < 0 or 0 <= count <= index:
            self._need_index()
            if count < 0:
                raise OutOfRangeError(f"element {index} of a dataset that has no known end")
            raise OutOfRangeError(f"element {key} was asked for, but the dataset has {count} elements")
        try:
            return self._plan.at(index)
        except ValueError:
            # Asked only now: to find out, all files of a cache are looked at, and `at` has just done so.
            self._need_index()
            raise

    def _need_index(self) -> None:
        if not self._plan.indexed:
            raise UnimplementedError(
                f"elements of {self!r} cannot be had by number: an operator in it (filter, flat_map, "
                "a generator, …) has to read in order; use .skip(n).peek(), or index before it"
            )

    def _slice(self, key: slice) -> Self:
        start, stop, step = (
            optional_integer("slice", name, getattr(key, name)) for name in ("start", "stop", "step")
        )
        step = 1 if step is None else step
        if step < 1:
            raise ValueError(
                f"a slice of a dataset cannot have the step {step}: datasets are not read backwards"
            )
        if (start is not None and start < 0) or (stop is not None and stop < 0):
            start, stop, _ = slice(start, stop).indices(len(self))
        made = self
        if stop is not None:
            made = made._then("take", count=max(stop, 0))
        if start:
            made = made._then("skip", count=start)
        return made if step == 1 else made._then("shard", num_shards=step, index=0)

    # Showing and storing it.

    def __repr__(self) -> str:
        count = self._plan.cardinality
        length = {-1: "endless", -2: "unknown length", 1: "1 element"}.get(count, f"{count} elements")
        return f"{chain_text(self._plan)}: {spec_text(self.element_spec)}, {length}"

    def _repr_html_(self) -> str:
        return self._plan.explain("html")

    def __reduce__(self) -> Any:
        from .pickling import pickled

        return pickled(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(_native.unpickled(*self._plan.pickled()))


def chain_text(plan: _native.Plan) -> str:
    """A plan as the chain of calls that makes it."""
    inputs = plan.inputs
    if not inputs:
        return call_text(plan)
    if len(inputs) == 1:
        return f"{chain_text(inputs[0])}.{call_text(plan)}"
    return f"{plan.op}({', '.join(chain_text(i) for i in inputs)})"


def call_text(plan: _native.Plan) -> str:
    """One operator with its parameters, shortened: `range(10)`, `batch(3)`."""
    params = plan.params
    if plan.op == "range":
        params = (
            params.removeprefix("start=0, ").replace(', output_type="int64"', "").removesuffix(", step=1")
        )
    params = re.sub(r" at 0x[0-9a-f]+", "", params)
    if plan.op == "shuffle":
        params = params.removesuffix("reshuffle_each_iteration=true").removesuffix(", ")
    if (
        plan.op not in ("shuffle", "with_options")
        and params.count("=") == 1
        and params.partition("=")[0].isidentifier()
    ):
        params = params.partition("=")[2]
    return f"{plan.op}({params if len(params) <= 60 else params[:59] + '…'})"
