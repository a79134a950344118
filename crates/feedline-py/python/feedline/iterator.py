"""Iterators over a dataset. The class is the compiled one, so that a loop pays nothing for Python; the
methods that are asked for now and then are added to it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import InvalidArgumentError, OutOfRangeError

__all__ = ["Iterator", "Optional", "merge_states"]


def merge_states(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One state for all ranks: any number of ranks can go on from it, with nothing lost and nothing twice.

    Each rank takes its part of the elements by `shard`, and its state with `state_dict()`. Whoever saves the
    checkpoint gathers them (`torch.distributed.all_gather_object`, for instance) and saves what this returns.
    Each rank that goes on gives it to `Dataset.iter` or `load_state_dict`, as it would its own.

    - For as many ranks as before, each goes on exactly where the rank with its index was. Where `shard`
      operators follow each other, as in `shard(nodes, node).shard(processes, process)`, a rank is told from
      others by all of its indexes, and the states of all of them are needed, of each node with each process.
    - For another number, what is left of all parts is dealt out anew. Where nothing but `map`, `prefetch`,
      `batch`, `padded_batch` and `ragged_batch` follows `shard`, no element failed in them, and all ranks
      have gone equally far, this costs nothing. Otherwise each rank reads the rests of all parts, up to the
      end of this pass, and keeps its share: what stands in front of those operators runs once for each part,
      and takes as much memory. They are run for its share only, where no element failed.
    - Each such change within one pass makes copies of copies: of 2 ranks, then 3, then 4, the last ones read
      6 rests. State and memory grow as much, and 4096 parts are the most.
    - With `equal="drop"` each change may leave out some more elements at the end of the pass, fewer than
      there are ranks; with `equal="wrap"` as many may come twice.

    Args:
        states: What `state_dict()` gave on each rank, in any order: of iterators, or of what `to_torch` and
            the like return. All of the same pass.

    Returns:
        A state like those, which `json.dumps` takes.

    Raises:
        ValueError: A state is missing, or they do not belong together; the text says what.

    >>> import feedline as fl
    >>> def part(count, index):
    ...     return fl.Dataset.range(24).shard(count, index).shuffle(8).batch(2)
    >>> ranks = [iter(part(2, rank)) for rank in range(2)]
    >>> seen = [int(n) for it in ranks for n in next(it)]
    >>> state = fl.merge_states(it.state_dict() for it in ranks)
    >>> rest = [int(n) for rank in range(3) for batch in part(3, rank).iter(state) for n in batch]
    >>> sorted(seen + rest) == list(range(24))
    True
    """
    if isinstance(states, Mapping):
        raise TypeError(
            "merge_states takes a list of states, one of each rank, not a dict, which one state is"
        )
    states = list(states)
    if states and all(isinstance(state, Mapping) and state.keys() == {"pass"} for state in states):
        begun = [state["pass"] for state in states if state["pass"] is not None]
        if not begun:
            return dict(states[0])
        if len(begun) < len(states):
            raise ValueError("merge_states: some ranks have begun a pass and others have not")
        return {"pass": _native.merge_states(begun)}
    return _native.merge_states(states)


class Optional:
    """A value that may be absent, as `get_next_as_optional` gives them."""

    __slots__ = ("_has", "_value")

    def __init__(self, has: bool, value: Any = None) -> None:
        self._has = has
        self._value = value

    @classmethod
    def from_value(cls, value: Any) -> Optional:
        """An optional that has a value."""
        return cls(True, value)

    @classmethod
    def empty(cls, element_spec: Any = None) -> Optional:
        """An optional without a value."""
        return cls(False)

    def has_value(self, name: str | None = None) -> bool:
        """Whether there is a value."""
        return self._has

    def get_value(self, name: str | None = None) -> Any:
        """The value.

        Raises:
            InvalidArgumentError: There is none.
        """
        if not self._has:
            raise InvalidArgumentError("this optional has no value; ask has_value() first")
        return self._value

    def __repr__(self) -> str:
        return f"Optional({self._value!r})" if self._has else "Optional.empty()"


class _Methods:
    """Added to the compiled class."""

    def get_next(self: Any, name: str | None = None) -> Any:
        """The next element.

        Raises:
            OutOfRangeError: There is none.
        """
        try:
            return next(self)
        except StopIteration:
            count = self.delivered()
            elements = "element" if count == 1 else "elements"
            raise OutOfRangeError(
                f"the iterator has delivered all {count} {elements} of the dataset; add .repeat() to go on, "
                "or ask for fewer"
            ) from None

    def get_next_as_optional(self: Any) -> Optional:
        """The next element as an `Optional`, which is empty after the last one."""
        try:
            return Optional.from_value(next(self))
        except StopIteration:
            return Optional.empty()

    @property
    def element_spec(self: Any) -> Any:
        """The spec of the elements."""
        return self.spec

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(self: Any, *_: object) -> None:
        self.close()

    def __reduce__(self: Any) -> Any:
        raise TypeError(
            "an iterator cannot be pickled or copied: keep its state_dict(), and go on from that with "
            "dataset.iter(state), in another process too"
        )


for _name in ("get_next", "get_next_as_optional", "element_spec", "__enter__", "__exit__", "__reduce__"):
    setattr(_native.Iterator, _name, _Methods.__dict__[_name])

if TYPE_CHECKING:

    class Iterator(_native.Iterator, _Methods):
        """Goes over a dataset once. Also a context manager that stops the work behind it."""
else:
    Iterator = _native.Iterator
    if not Iterator.__doc__:
        Iterator.__doc__ = "Goes over a dataset once. Also a context manager that stops the work behind it."
