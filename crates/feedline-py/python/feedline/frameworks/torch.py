"""Datasets in PyTorch, and PyTorch's datasets in feedline.

- `Stream`, an `IterableDataset`: the elements as tensors, in the memory in which the pipeline made them.
  Inside a `torch.utils.data.DataLoader` with workers each worker gives its batches in turn (`parts.py`).
- `Items`, a map-style `Dataset`: elements by number.
- `DataLoader`: PyTorch's loader, of PyTorch's datasets, with feedline's engine in place of worker processes.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import data as torch_data

from .. import nest
from ..dataset import Dataset
from ..dtypes import int64
from ..ragged import RaggedTensor
from ..sparse import SparseTensor
from ..spec import TensorSpec
from . import parts
from .memory import writable
from .passes import Pass, Resumable, plain

__all__ = ["DataLoader", "Items", "Stream", "rank_and_count"]


class Stream(Resumable, torch_data.IterableDataset):  # type: ignore[misc]
    """The elements of a dataset as tensors. Text stays bytes and NumPy arrays of bytes.

    Args:
        dataset: The dataset.
        device: Where tensors go. To a GPU the next element is copied while the last one is used.
        pin_memory: Tensors lie in memory that a GPU can copy from by itself.
        shard: The part of this process among several that train together: `(count, rank)`; or "auto": as
            torch.distributed says, or the variables RANK and WORLD_SIZE. All must have built the same
            dataset.
        equal: How ranks get equally many elements: "drop" leaves out the last few, "wrap" uses the first few
            twice. None: they may differ by one.
    """

    def __init__(
        self,
        dataset: Dataset,
        device: Any = None,
        pin_memory: bool = False,
        shard: Any = None,
        equal: str | None = "drop",
    ) -> None:
        if shard is not None:
            count, rank = rank_and_count(dataset) if shard == "auto" else shard
            # One rank too: it may go on from the state of several, and several from its own.
            dataset = parts.of_rank(dataset, count, rank, equal)
        self.dataset = plain(dataset)
        self.device = None if device is None else torch.device(device)
        self.pin_memory = bool(pin_memory)
        self._pass: int | None = None
        self._started = False

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with that number: its order and its random numbers."""
        self._pass = int(epoch)

    def __iter__(self) -> Pass:
        worker = torch_data.get_worker_info()
        if worker is not None:
            self._begin_worker(worker)
        epoch, self._pass = self._pass, None
        self._last = Pass(self._open(self.dataset, epoch), *self._steps())
        return self._last

    def _begin_worker(self, worker: Any) -> None:
        # A worker makes its part once. The pipeline in it counts passes from 0, also if the worker is one of
        # many that live for an epoch each: these get their number from the seed that the loader drew for the
        # epoch.
        if not self._started:
            self._started = True
            self.dataset = parts.of_worker(self.dataset, worker.num_workers, worker.id)
            if self._pass is None:
                self._pass = (worker.seed - worker.id) % 2**31

    def _steps(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any] | None]:
        """How an element is made, and how it is handed out if that is a step of its own."""
        device = self.device
        if device is not None and device.type == "cuda":
            copies = _Copies(device)
            return lambda element: copies.begin(_tensors(element)), copies.finish
        pin = self.pin_memory and torch.cuda.is_available()

        def make(element: Any) -> Any:
            made = _tensors(element)
            made = _pinned(made) if pin else made
            return made if device is None else _each_tensor(lambda tensor: tensor.to(device), made)

        return make, None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}


class Items(torch_data.Dataset):  # type: ignore[misc]
    """The elements of a dataset by number, as tensors. For pipelines whose operators all allow it."""

    def __init__(self, dataset: Dataset) -> None:
        dataset._need_index()
        self.dataset = plain(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return _tensors(self.dataset[index])


def rank_and_count(dataset: Dataset | None = None) -> tuple[int, int]:
    """How many processes train together, and the number of this one.

    With a dataset, and torch.distributed at work: checks that all have the same. Otherwise one that is
    shuffled without a seed would be cut from different orders.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        count, rank = distributed.get_world_size(), distributed.get_rank()
        if dataset is not None and count > 1:
            prints: list[Any] = [None] * count
            distributed.all_gather_object(prints, dataset.fingerprint())
            if len(set(prints)) > 1:
                raise ValueError(
                    "the ranks have built different datasets, so their parts would overlap: give shuffle a "
                    "seed, or call fl.random.set_seed with the same number in all of them before building"
                )
        return count, rank
    count, rank = os.environ.get("WORLD_SIZE"), os.environ.get("RANK")
    if count is None or rank is None:
        raise ValueError(
            'shard="auto" needs torch.distributed.init_process_group(), or the variables RANK and WORLD_SIZE '
            "(torchrun sets them); or say shard=(count, rank)"
        )
    return int(count), int(rank)


# Elements as tensors.


def _tensors(element: Any) -> Any:
    # The usual structures first: in general it takes three times as long.
    if type(element) is tuple:
        return tuple(map(_tensors, element))
    if type(element) is dict:
        return {key: _tensors(part) for key, part in element.items()}
    return nest.map_structure(_tensor, element, lists=False) if nest.is_nested(element) else _tensor(element)


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        kind = leaf.dtype.kind
        if kind == "O":
            return leaf
        leaf = writable(leaf)
        if kind == "V" and leaf.dtype.name == "bfloat16":
            return torch.from_numpy(leaf.view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(leaf)
    if isinstance(leaf, np.generic):
        return _tensor(np.asarray(leaf)).clone()
    if isinstance(leaf, RaggedTensor) and leaf.ragged_rank == 1:
        values, offsets = torch.from_numpy(leaf.flat_values), torch.from_numpy(leaf.row_splits)
        return torch.nested.nested_tensor_from_jagged(values, offsets)
    if isinstance(leaf, SparseTensor):
        places = torch.from_numpy(np.ascontiguousarray(leaf.indices.T))
        values = torch.from_numpy(leaf.values)
        return torch.sparse_coo_tensor(places, values, tuple(leaf.dense_shape), check_invariants=True)
    return leaf


def _each_tensor(function: Callable[[torch.Tensor], Any], element: Any) -> Any:
    return nest.map_structure(
        lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf, element
    )


def _pinned(element: Any) -> Any:
    return _each_tensor(torch.Tensor.pin_memory, element)


class _Copies:
    """Copies to a GPU on a stream of their own: the next element goes while the last one is computed with."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def begin(self, element: Any) -> Any:
        return _each_tensor(self._copied, element)

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        # Only from pinned memory a copy runs by itself.
        with torch.cuda.stream(self.stream):
            return tensor.pin_memory().to(self.device, non_blocking=True)

    def finish(self, element: Any) -> Any:
        compute = torch.cuda.current_stream(self.device)
        compute.wait_stream(self.stream)
        # Its memory must not be used again before what computes with it is done.
        _each_tensor(lambda tensor: tensor.record_stream(compute), element)
        return element


# PyTorch's datasets in feedline.


class DataLoader(torch_data.DataLoader):  # type: ignore[misc]
    """`torch.utils.data.DataLoader` with feedline's engine: the same arguments and the same batches.

    The dataset's `__getitem__` and `collate_fn` run on feedline's threads, up to `num_workers` batches at
    once and in order, while the consumer computes; nothing is pickled or copied between processes. That suits
    datasets that read files, decode pictures or call NumPy and torch, which all let other threads run; for
    work in pure Python use PyTorch's loader.

    Different from PyTorch's: an iterable dataset is read once, whatever `num_workers` is, and need not be
    split; `worker_init_fn` is called in each thread before its first batch; `timeout`,
    `multiprocessing_context` and `persistent_workers` have no effect.
    """

    def __iter__(self) -> Iterator[Any]:
        exchange = _Exchange(self)
        tickets = Dataset.from_generator(exchange.tickets, output_signature=TensorSpec((), int64))
        made = tickets.map(
            exchange.batch,
            num_parallel_calls=self.num_workers or None,
            deterministic=getattr(self, "in_order", True),
            synchronous=None if self.num_workers else True,
            python=True,
            output_signature=TensorSpec((), int64),
        )
        if self.num_workers:
            made = made.prefetch(self.num_workers * (self.prefetch_factor or 2))
        with made.iter(prefetch=bool(self.num_workers)) as numbers:
            for number in numbers:
                yield exchange.take(int(number))


class _Exchange:
    """What a loader's pipeline works on. A collated batch can be any object, so the pipeline carries numbers,
    and the objects wait here: tasks until a thread takes them, batches until the consumer does.
    """

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.tasks: dict[int, Any] = {}
        self.batches: dict[int, Any] = {}
        self.threads: dict[int, int] = {}

        # In the consumer's thread and in PyTorch's order, so that the same seeds give the same batches: the
        # loader draws a seed for workers, then the sampler one for its order when it is asked for the first
        # time.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        waiting = self._tasks()
        self.waiting = itertools.chain(list(itertools.islice(waiting, 1)), waiting)

    def tickets(self) -> Iterator[int]:
        for number, task in enumerate(self.waiting):
            self.tasks[number] = task
            yield number

    def _tasks(self) -> Iterator[Any]:
        """The numbers of a batch's samples, or the samples themselves where they come in a stream."""
        loader = self.loader
        if not isinstance(loader.dataset, torch_data.IterableDataset):
            yield from loader.sampler if loader.batch_sampler is None else loader.batch_sampler
            return
        samples = iter(loader.dataset)
        if loader.batch_size is None:
            yield from samples
            return
        while batch := list(itertools.islice(samples, loader.batch_size)):
            if loader.drop_last and len(batch) < loader.batch_size:
                return
            yield batch

    def batch(self, number: Any) -> Any:
        self._begin_thread()
        task = self.tasks.pop(int(number))
        loader = self.loader
        if not isinstance(loader.dataset, torch_data.IterableDataset):
            task = self._samples(task)
        made = loader.collate_fn(task)
        self.batches[int(number)] = _pinned(made) if loader.pin_memory and torch.cuda.is_available() else made
        return number

    def _samples(self, task: Any) -> Any:
        dataset = self.loader.dataset
        if self.loader.batch_sampler is None:
            return dataset[task]
        together: Callable[[Sequence[Any]], Any] | None = getattr(dataset, "__getitems__", None)
        return together(task) if together else [dataset[index] for index in task]

    def _begin_thread(self) -> None:
        # By the system's number of the thread: to Python a thread of the engine is a new one each time.
        thread = threading.get_ident()
        if thread not in self.threads:
            self.threads[thread] = len(self.threads)
            if self.loader.worker_init_fn is not None and self.loader.num_workers:
                self.loader.worker_init_fn(self.threads[thread])

    def take(self, number: int) -> Any:
        return self.batches.pop(number)
