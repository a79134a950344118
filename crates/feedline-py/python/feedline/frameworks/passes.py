"""One pass over a dataset, for a framework: elements in its terms, one of them ahead, and the state of the
pass.

`state_dict` and `load_state_dict` are what torchdata's StatefulDataLoader, Lightning and Accelerate look for.
The state is where the consumer is: an element that was made ready ahead of it counts as not given yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dataset import Dataset
from ..errors import FeedlineError

__all__ = ["Pass", "Resumable", "moment_of", "plain"]


def plain(dataset: Dataset) -> Dataset:
    """The dataset with NumPy's arrays for elements, also if it is one of `feedline.tf`."""
    return dataset if type(dataset) is Dataset else Dataset(dataset._plan)


class Pass:
    """An iterator over a dataset.

    Args:
        iterator: Over the dataset itself.
        begin: Makes a framework's element of one of feedline's; a transfer may only begin here.
        finish: What is done to it when it is handed out. With it, the next element is begun before.
    """

    def __init__(
        self, iterator: Any, begin: Callable[[Any], Any], finish: Callable[[Any], Any] | None = None
    ) -> None:
        self._iterator = iterator
        self._begin = begin
        self._finish = finish
        self._reset()

    def _reset(self) -> None:
        self._state: Any = None
        """Where the consumer is, if that is not where the iterator is."""
        self._taken: tuple[Any, Any] | None = None
        """The element that was taken last, if it is not begun yet, and the moment behind it."""
        self._ahead: list[tuple[Any, Any]] = []
        """Elements that are begun, the next one first, each with the moment behind it."""
        self._error: Exception | None = None
        """Why there is none behind those."""
        self._ended = False

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        if self._finish is None:
            return self._begin(next(self._iterator))
        if not self._ahead:
            self._fetch_first()
        # An error belongs to the element behind this one, and is raised when that is asked for. An interrupt
        # is raised at once: this element stays in front, and is not given yet.
        if not self._ended and self._error is None:
            try:
                self._fetch()
            except Exception as error:
                self._error = error
        element, self._state = self._ahead.pop(0)
        return self._finish(element)

    def _fetch_first(self) -> None:
        """Fetches an element while none is ahead, or raises what there is in place of one."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            if not self._ended:
                self._state = self._state or moment_of(self._iterator)
                self._fetch()
        except Exception:
            self._state = None
            raise
        if self._ended:
            self._state = None
            raise StopIteration

    def _fetch(self) -> None:
        if self._taken is None:
            try:
                self._taken = next(self._iterator), moment_of(self._iterator)
            except StopIteration:
                self._ended = True
                return
        try:
            begun = self._begin(self._taken[0]), self._taken[1]
        except Exception:
            self._taken = None
            raise
        self._ahead.append(begun)
        self._taken = None

    def state_dict(self) -> dict[str, Any]:
        """Where the pass is: a dict that `json.dumps` takes."""
        if isinstance(self._state, FeedlineError):
            raise self._state
        return (self._iterator if self._state is None else self._state).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where another pass was."""
        self._iterator.load_state_dict(state)
        self._reset()

    def close(self) -> None:
        """Stops the work behind it. A generator around it does that by itself, so its state is kept."""
        if self._state is None:
            self._state = moment_of(self._iterator)
        self._iterator.close()


def moment_of(iterator: Any) -> Any:
    """Where an iterator is, to be told later, or why it cannot be; only who asks needs to know."""
    try:
        return iterator.moment()
    except FeedlineError as error:
        return error


class Resumable:
    """A dataset for a framework: can be read many times, and from a state on."""

    dataset: Dataset
    _last: Pass | None = None
    _resume: Mapping[str, Any] | None = None

    @property
    def element_spec(self) -> Any:
        """The spec of the elements."""
        return self.dataset.element_spec

    def __len__(self) -> int:
        return len(self.dataset)

    def state_dict(self) -> dict[str, Any]:
        """Where the last pass is, or that no pass was begun."""
        if self._last is not None:
            return {"pass": self._last.state_dict()}
        return {"pass": self._resume}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next pass begin where another one was; if that had ended, it is the one that follows."""
        if not isinstance(state, Mapping) or "pass" not in state:
            raise ValueError(
                "not a state of this: give load_state_dict what state_dict() or merge_states gave"
            )
        self._resume, self._last = state["pass"], None

    def _open(self, dataset: Dataset, epoch: int | None = None) -> Any:
        """An iterator for the next pass, or for the one with that number; a state that was loaded has its
        own.
        """
        state, self._resume = self._resume, None
        if state is None:
            return dataset.iter(epoch=epoch)
        # It refuses what is no state.
        resumed = dataset.iter(state)
        if all(rank["ended"] for rank in [state, *state.get("others", [])]):
            resumed.close()
            return dataset.iter()
        return resumed
