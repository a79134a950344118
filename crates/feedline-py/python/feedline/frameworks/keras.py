"""Datasets in Keras 3: `model.fit(ds)`, `evaluate` and `predict`, on the JAX, torch and TensorFlow backends.

How Keras takes data, and what is done here:

1. `fit` asks `get_data_adapter(x, ...)` for an adapter of what it was given. It knows arrays, tf.data,
   PyTorch's loader, `PyDataset` and generators, and takes an adapter as it is. None of these says "a stream
   that can be read again, of known length", which is what a dataset is, so it gets an adapter of its own,
   `Data`. The function is wrapped once, so that it also makes one of a bare dataset, with `class_weight` and
   `steps_per_epoch`, which Keras would not hand to a ready adapter.
2. For each epoch Keras asks the adapter for an iterator in the backend's terms, or goes on with the one it
   has if `steps_per_epoch` cuts epochs out of a longer pass. An iterator here opens its pass at the first
   batch: Keras asks for some that it never uses.
3. To build the model Keras may take one batch and start again, before anything else. That batch is put back:
   a shuffle buffer is filled once, and the first epoch is the first pass.
4. Keras may take batches ahead of the one it computes with, so an adapter counts those that it handed out,
   and knows from where the data goes on behind each of the last few (`places`): `BackupAndRestore` asks for
   the one behind the batch that was computed last.
5. An adapter that is sent to such a place (`go_on`) may be in the middle of an epoch. Keras counts the steps
   of an epoch and of a pass itself, and is told how many of them were done (`_resumed`). It must not run into
   the end in place of that: a step that fails for lack of data can change variables all the same.
"""

from __future__ import annotations

import functools
import itertools
import warnings as _python
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from .. import nest, ops, warnings
from ..dataset import INFINITE_CARDINALITY, Dataset
from ..spec import DatasetSpec, RaggedTensorSpec, SparseTensorSpec, TensorSpec, spec_text
from .memory import writable
from .passes import moment_of, plain

try:
    from keras.src.trainers import data_adapters
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter
    from keras.src.trainers.epoch_iterator import EpochIterator
except ImportError:
    raise ImportError(
        f"feedline works with Keras 3, but keras {keras.__version__} is installed; pip install 'keras>=3.5', "
        "or give an older Keras the result of ds.to_tf()"
    ) from None

__all__ = ["Data", "last_adapter"]

_AHEAD = 64
"""More batches than Keras takes ahead of the one it computes with."""


class Data(DataAdapter):  # type: ignore[misc]
    """A dataset as Keras wants it. Also an iterable of NumPy batches.

    Args:
        dataset: Batches: x, or (x, y), or (x, y, sample_weight).
        class_weight: The weight of each class, by its number, for the loss.
        steps: How many steps an epoch is meant to have, if that was said.
    """

    def __init__(
        self, dataset: Dataset, class_weight: Mapping[int, float] | None = None, steps: int | None = None
    ) -> None:
        self._silence: _python.catch_warnings[None] | None = None
        _check_elements(dataset)
        dataset = plain(dataset)
        self.dataset = dataset
        self._weighted = dataset if class_weight is None else _weighted(dataset, class_weight)
        self._steps = steps
        self._newest = _Open()
        self._running: Any = None
        self._spare: _Open | None = None
        self._untouched = True
        self._place: tuple[int, int | None] | None = None
        self.handed = 0
        self.places: dict[int, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def num_batches(self) -> int | None:
        """How many batches there are, None if that is not known, or if there is no end."""
        count = int(self.dataset.cardinality())
        return count if count >= 0 else None

    @property
    def batch_size(self) -> int | None:
        """The size of a batch, if it is fixed."""
        shape = getattr(nest.flatten(self.dataset.element_spec, lists=False)[0], "shape", None)
        return shape[0] if shape else None

    has_partial_batch = None
    partial_batch_size = None

    def get_numpy_iterator(self) -> Iterator[Any]:
        """A pass, as NumPy arrays."""
        return self._batches(np.asarray)

    get_jax_iterator = get_numpy_iterator
    """JAX takes NumPy arrays, and on a CPU uses them where they lie."""

    def get_torch_dataloader(self) -> Iterator[Any]:
        """A pass, as tensors on the device that Keras uses."""
        return self._batches(lambda leaf: keras.ops.convert_to_tensor(writable(leaf)))

    def get_tf_dataset(self) -> Any:
        """The batches as a `tf.data.Dataset`, of which every pass is one of Keras's iterators."""
        from .tensorflow import to_tensor, to_tf

        return to_tf(self._weighted, passes=lambda: self._batches(to_tensor))

    def place(self, number: int) -> Any:
        """Where the data was behind that batch, counted over all that were handed out."""
        assert self.places is not None
        return self.places.get(number)

    def go_on(self, state: Mapping[str, Any], left: int | None) -> bool:
        """Lets the next iterator begin where the data was when the state was taken.

        Args:
            state: The state.
            left: How many steps are left of the epoch; None if it is not cut by its number of steps.

        Returns:
            Whether there is data left in that pass. If not, the next iterator begins the next pass.
        """
        if self._spare is not None:
            self.handed -= self._spare.count
        now = _Open()
        now.iterator = self._weighted.iter(state)
        now.first = next(now.iterator, None)
        more = now.first is not None
        if not more:
            now.iterator = self._weighted.iter()
            now.first = next(now.iterator, None)
        self._spare = now
        self._place = (int(state["delivered"]), left) if more else None
        return more

    def take_place(self) -> tuple[int, int | None] | None:
        """After `go_on`, once: how many batches of the pass were read before, and `left`."""
        place, self._place = self._place, None
        return place

    @property
    def coming(self) -> Any:
        """The batch that comes next, after `go_on`."""
        return None if self._spare is None else self._spare.first

    def on_epoch_end(self) -> None:
        """Keras has dealt with the end of an epoch, or, when it says so for the first time, is about to begin
        the first one. A batch that it has by then was taken for a look.
        """
        self._unsilence()
        if self._untouched and self._newest.count == 1 and not self._newest.ended:
            self._spare = self._newest
        self._untouched = False

    def _batches(self, convert: Callable[[Any], Any]) -> _Batches:
        self._newest = _Open()
        return _Batches(self, self._newest, convert)

    def _note(self, opened: _Open) -> None:
        """Remembers from where the data goes on behind the batch that is handed out, or behind the last."""
        if self.places is not None:
            self.places[self.handed] = moment_of(opened.iterator)
            self.places.pop(self.handed - _AHEAD, None)

    def _open(self, into: _Open) -> None:
        """Opens a pass, or goes on with the one that was opened for a look at the first batch."""
        spare, self._spare = self._spare, None
        if spare is None:
            # Keras counts, and does not ask for the end. It has to be seen before the next pass begins:
            # operators draw their seeds from behind those of a pass that was read to its end.
            if self._running is not None and self._running.delivered() == self.num_batches:
                next(self._running, None)
            into.iterator = self._weighted.iter()
        else:
            self.handed -= spare.count
            into.first, into.iterator = spare.first, spare.iterator
        self._running = into.iterator

    @property
    def steps(self) -> int | None:
        """How many steps an epoch is meant to have, if that was said."""
        return self._steps

    def _ended(self) -> None:
        """A pass has come to its end. Where its length is not known, Keras finds the end by running into it,
        and warns as if something were wrong. That is kept quiet, unless more steps were promised.
        """
        if self.num_batches is None and self._steps is None and self._silence is None:
            self._silence = _python.catch_warnings()
            self._silence.__enter__()
            _python.filterwarnings("ignore", message="Your input ran out of data")

    def _unsilence(self) -> None:
        if self._silence is not None:
            self._silence.__exit__(None, None, None)
            self._silence = None

    def __del__(self) -> None:
        self._unsilence()


class _Open:
    """A pass that was opened: what it gave first, what gives the rest, and how far it is."""

    __slots__ = ("count", "ended", "first", "iterator")

    def __init__(self) -> None:
        self.first: Any = None
        self.iterator: Any = None
        self.count = 0
        self.ended = False


class _Batches:
    """One pass for Keras, opened when its first batch is asked for."""

    def __init__(self, data: Data, opened: _Open, convert: Callable[[Any], Any]) -> None:
        self._data = data
        self._pass = opened
        self._convert = convert

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        data, now = self._data, self._pass
        if now.iterator is None:
            data._open(now)
        again = now.count == 0 and now.first is not None
        batch = now.first if again else next(now.iterator, None)
        if batch is None:
            now.ended = True
            data._note(now)
            data._ended()
            raise StopIteration
        data.handed += 1
        data._note(now)
        now.count += 1
        now.first = batch if now.count == 1 else None
        return nest.map_structure(self._leaf, batch, lists=False)

    def _leaf(self, leaf: Any) -> Any:
        return None if leaf is None else self._convert(leaf)


def _check_elements(dataset: Dataset) -> None:
    """Says what is wrong with elements that no model can take, before Keras says it in its own way."""
    spec = dataset.element_spec
    told = f"the elements are {spec_text(spec)}"
    if isinstance(spec, tuple) and not nest.is_namedtuple(spec) and not 1 <= len(spec) <= 3:
        raise ValueError(
            f"Keras takes elements x, (x, y) or (x, y, sample_weight), but {told}; put them in order with "
            ".map"
        )
    for leaf in nest.flatten(spec, lists=False):
        if isinstance(leaf, TensorSpec) and leaf.shape == ():
            raise ValueError(f"Keras takes batches, but {told}; add .batch(n)")
        if isinstance(leaf, DatasetSpec):
            raise TypeError(
                f"Keras takes tensors, but {told}; make tensors of the inner datasets with .flat_map"
            )
        if isinstance(leaf, (RaggedTensorSpec, SparseTensorSpec)) and keras.backend.backend() != "tensorflow":
            raise TypeError(
                f"Keras on {keras.backend.backend()} takes dense tensors, but {told}; use .padded_batch, or "
                "fl.sparse.to_dense"
            )


def _weighted(dataset: Dataset, class_weight: Mapping[int, float]) -> Dataset:
    """With the weight of each label's class as the third part."""
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2 or not isinstance(spec[1], TensorSpec):
        raise ValueError(f"class_weight needs elements (x, y), but the elements are {spec_text(spec)}")
    if len(spec) == 3:
        raise ValueError("class_weight and a sample_weight in the elements exclude each other")
    table = np.ones(max(class_weight, default=0) + 2, np.float32)
    for number, weight in class_weight.items():
        table[number] = weight
    # The last place, weight 1, is for classes that are not in the table.
    last = np.int64(len(table) - 1)

    def weigh(x: Any, y: Any) -> Any:
        sizes = spec[1].shape
        if sizes is None:
            raise ValueError("class_weight needs labels of known rank")
        one_hot = len(sizes) > 1 and sizes[-1] != 1
        number = ops.argmax(y, axis=-1) if one_hot else ops.cast(ops.reshape(y, [-1]), "int64")
        inside = ops.where((number >= 0) & (number < last), number, last)
        return x, y, ops.gather(table, inside)

    return dataset.map(weigh, native=True)


_last: weakref.ref[Data] | None = None
"""The adapter that Keras got last, if it was one of these."""


def last_adapter() -> Data | None:
    """The adapter that Keras got last. When training begins, that is the one of the training data."""
    return None if _last is None else _last()


def _adapter(known: Callable[..., Any]) -> Callable[..., Any]:
    """Keras's function that finds an adapter, which then also knows datasets."""

    @functools.wraps(known)
    def get_data_adapter(x: Any, y: Any = None, sample_weight: Any = None, *args: Any, **how: Any) -> Any:
        global _last
        _last = None
        if not isinstance(x, (Dataset, Data)):
            return known(x, y, sample_weight, *args, **how)
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(
                    f"`{name}` is part of a dataset's elements: make them (x, y) or (x, y, weight)"
                )
        dataset = x if isinstance(x, Dataset) else x.dataset
        steps = how.get("steps_per_epoch")
        _check_steps(dataset, steps)
        made = Data(dataset, how.get("class_weight"), steps)
        _last = weakref.ref(made)
        return made

    return get_data_adapter


def _check_steps(dataset: Dataset, steps: int | None) -> None:
    count = int(dataset.cardinality())
    if count == 0:
        raise ValueError(f"the dataset is empty: {dataset!r}")
    if steps is None:
        if count == INFINITE_CARDINALITY:
            raise ValueError(
                "the dataset is endless: say how many steps an epoch has (steps_per_epoch, validation_steps "
                "or steps), or cut it with .take(n)"
            )
    elif 0 < count < steps:
        warnings.warn(
            warnings.StepsBeyondEnd,
            f"{steps} steps an epoch were asked for, but the dataset has {count} batches: each epoch ends "
            f"after {count}. Leave out steps_per_epoch, or add .repeat()",
        )


def _check_position(epochs: Any) -> None:
    """Tells of an epoch that goes on in the pass of the one before."""
    steps, count = epochs.steps_per_epoch, epochs.data_adapter.num_batches
    if steps and count and epochs._current_iterator is not None and 0 < epochs._steps_seen < count:
        warnings.warn(
            warnings.PositionCarriedOver,
            f"an epoch has {steps} steps, but the dataset {count} batches: each epoch goes on where the one "
            "before stopped, and may be cut short by the end of the data. Add .repeat() for epochs of equal "
            f"length, or .take({steps}) for the same batches in each",
        )


def _resumed(known: Callable[..., Any]) -> Callable[..., Any]:
    """Keras's steps of an epoch, which may be one that another process has begun, or go on in a pass."""

    @functools.wraps(known)
    def _enumerate_iterator(self: Any) -> Iterator[Any]:
        place = None
        if isinstance(self.data_adapter, Data):
            _check_position(self)
            place = self.data_adapter.take_place()
        steps = known(self)
        if place is None:
            yield from steps
            return
        # Where the length is known Keras counts on from the first step, elsewhere it counts in each.
        (seen, left), counts = place, bool(self.steps_per_epoch or self._num_batches)
        for number, step in enumerate(itertools.islice(steps, left and -(-left // self.steps_per_execution))):
            if number == 0 or not counts:
                self._steps_seen += seen
            yield step
        if left is not None:
            # The epoch ends here, and so may the pass.
            if self._num_batches and self._steps_seen >= self._num_batches:
                self._current_iterator = None
            self.data_adapter.on_epoch_end()

    return _enumerate_iterator


data_adapters.get_data_adapter = _adapter(data_adapters.get_data_adapter)
EpochIterator._enumerate_iterator = _resumed(EpochIterator._enumerate_iterator)
