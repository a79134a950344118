"""Datasets in PyTorch, and PyTorch's datasets in feedline.

- `Stream`, an `IterableDataset`: the elements as tensors, in the memory in which the pipeline made them.
  Inside a `torch.utils.data.DataLoader` with workers each worker gives its batches in turn (`parts.py`).
- `Items`, a map-style `Dataset`: elements by number.
- `DataLoader`: PyTorch's loader, of PyTorch's datasets, with feedline's engine and its worker processes.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.utils import data as torch_data

from .. import nest
from ..dataset import Dataset
from ..dtypes import int64, string, uint8
from ..function import traced
from ..ragged import RaggedTensor
from ..sparse import SparseTensor
from ..spec import TensorSpec
from ..workers import seed_modules, worker_info
from . import parts
from .epochs import Epochs
from .memory import writable
from .passes import Pass, Resumable, plain

__all__ = ["DataLoader", "Items", "Stream", "rank_and_count"]

_ALIGN = 64
"""Where tensors of a batch begin in the memory that they share."""


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
        # Kept with the dataset: another stream of it, for the next epoch, counts on.
        if dataset not in _epochs:
            _epochs[dataset] = Epochs()
        self._epochs = _epochs[dataset]
        self.device = None if device is None else torch.device(device)
        self.pin_memory = bool(pin_memory)
        self._pass: int | None = None
        self._turns = 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with that number: its order and its random numbers. The passes behind
        it are counted from there. Workers of a loader get to know it, also those that were started before.
        """
        self._pass = int(epoch)
        self._epochs.set_next(self._pass)

    def __iter__(self) -> Pass:
        worker = torch_data.get_worker_info()
        epoch, self._pass = self._pass, None
        if worker is not None:
            epoch = self._begin_worker(worker)
        self._last = Pass(self._open(self.dataset, epoch), *self._steps())
        return self._last

    def _begin_worker(self, worker: Any) -> int:
        """The number of the pass that begins in a worker. A worker makes its part once."""
        if self._turns == 0:
            self.dataset = parts.of_worker(self.dataset, worker.num_workers, worker.id)
        resumed = None if self._resume is None else int(self._resume["epoch"])
        epoch = self._epochs.number(worker.seed - worker.id, self._turns, resumed)
        self._turns += 1
        return epoch

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


_epochs: WeakKeyDictionary[Dataset, Epochs] = WeakKeyDictionary()


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
    # PyTorch has no text: such leaves stay as they are.
    if isinstance(leaf, RaggedTensor) and leaf.ragged_rank == 1 and leaf.flat_values.dtype.kind != "O":
        return torch.nested.nested_tensor_from_jagged(_tensor(leaf.flat_values), _tensor(leaf.row_splits))
    if isinstance(leaf, SparseTensor) and leaf.values.dtype.kind != "O":
        places, values = _tensor(np.ascontiguousarray(leaf.indices.T)), _tensor(leaf.values)
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

    With `num_workers`, the dataset's `__getitem__` and `collate_fn` run in so many processes, which are
    started afresh (never forked) and kept for the next epoch. Tensors and arrays come back in shared memory.

    With `threads=True`, or if the dataset cannot be pickled, they run on feedline's threads, up to
    `num_workers` batches at once: nothing is sent anywhere, and nothing has to start. That suits datasets
    that read files, decode pictures or call NumPy and torch, which all let other threads run.

    Different from PyTorch's: random numbers in workers belong to the batch, not to the worker, and do not
    depend on how many there are; an iterable dataset is read once and in this process, whatever `num_workers`
    is, and need not be split; `timeout` and `multiprocessing_context` have no effect.
    """

    def __init__(self, *args: Any, threads: bool = False, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.threads = bool(threads)
        self._function: Any = None
        self._kept: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_function": None, "_kept": None}

    def __iter__(self) -> Iterator[Any]:
        exchange = _Exchange(self)
        if self.num_workers and exchange.is_map_style:
            exchange.begin()
            if not self.threads:
                elements = self._open_processes(exchange)
                if elements is not None:
                    return self._from_processes(elements)
        return self._from_threads(exchange)

    def _open_processes(self, exchange: _Exchange) -> Any:
        if self._function is None:
            # Kept, because the workers belong to it.
            text, number = TensorSpec((), string), TensorSpec((None,), int64)
            returns = (text, TensorSpec((None,), uint8), number)
            self._function = traced(_Job(self), text, op="DataLoader", python=True, output_signature=returns)
        tickets = Dataset.from_generator(exchange.pickled, output_signature=TensorSpec((), string))
        in_order = getattr(self, "in_order", True)
        made = tickets._then("map", function=self._function, workers=self.num_workers, deterministic=in_order)
        try:
            return iter(made.prefetch(self.num_workers * (self.prefetch_factor or 2)))
        except TypeError as error:
            logging.getLogger("feedline").warning("DataLoader runs on threads: %s", error)
            self.threads = True
            return None

    def _from_processes(self, elements: Any) -> Iterator[Any]:
        pin = self.pin_memory and torch.cuda.is_available()
        try:
            for element in elements:
                batch = _unpacked(*element)
                yield _pinned(batch) if pin else batch
            if self.persistent_workers:
                # Workers are not let go while an iterator is there.
                self._kept, elements = elements, None
        finally:
            if elements is not None:
                elements.close()

    def _from_threads(self, exchange: _Exchange) -> Iterator[Any]:
        exchange.begin()
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


def _samples(loader: Any, task: Any) -> Any:
    """What `collate_fn` gets for the numbers of a batch, or for one number where there are no batches."""
    dataset = loader.dataset
    if not loader.is_batched:
        return dataset[task]
    together: Callable[[Sequence[Any]], Any] | None = getattr(dataset, "__getitems__", None)
    return together(task) if together else [dataset[index] for index in task]


class _Job:
    """Makes a batch, in a worker process."""

    def __init__(self, loader: DataLoader) -> None:
        self.dataset, self.collate_fn = loader.dataset, loader.collate_fn
        self.is_batched = loader.batch_sampler is not None
        self.worker_init_fn, self.num_workers = loader.worker_init_fn, loader.num_workers
        self.persistent_workers = loader.persistent_workers
        self.seed: int | None = None
        self.begun: set[int] = set()

    def __call__(self, ticket: bytes) -> tuple[bytes, Any, Any]:
        seed, number, task = pickle.loads(ticket)
        self._begin(seed)
        seed_modules(seed + number)
        return _packed(self.collate_fn(_samples(self, task)))

    def _begin(self, seed: int) -> None:
        """Begins an epoch, which its seed stands for. In PyTorch workers that do not stay are new in each."""
        if seed != self.seed:
            here = worker_info()
            assert here is not None
            worker = torch_data._utils.worker
            worker._worker_info = worker.WorkerInfo(
                id=here.id, num_workers=self.num_workers, seed=seed + here.id, dataset=self.dataset
            )
            if seed not in self.begun:
                if self.worker_init_fn is not None and not (self.begun and self.persistent_workers):
                    self.worker_init_fn(here.id)
                self.begun.add(seed)
            self.seed = seed


class _Pickler(pickle.Pickler):
    """Leaves the items of tensors out, as pickle does by itself with those of arrays."""

    def reducer_override(self, value: Any) -> Any:
        plain = type(value) is torch.Tensor and value.layout is torch.strided and value.device.type == "cpu"
        if not plain or value.requires_grad or value.is_quantized or value.numel() == 0:
            return NotImplemented
        items = value.contiguous().reshape(-1).view(torch.uint8).numpy()
        return _tensor_of, (pickle.PickleBuffer(items), value.dtype, tuple(value.shape))


def _tensor_of(items: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    return torch.frombuffer(items, dtype=dtype).reshape(shape)


def _packed(batch: Any) -> tuple[bytes, Any, Any]:
    """Any object as bytes, with the items of its tensors and arrays in one block beside them."""
    found: list[Any] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=lambda buffer: found.append(buffer.raw())).dump(batch)
    sizes = np.array([part.nbytes for part in found], np.int64)
    block, at = np.empty(int((-(-sizes // _ALIGN) * _ALIGN).sum()), np.uint8), 0
    for part in found:
        block[at : at + part.nbytes] = part
        at += -(-part.nbytes // _ALIGN) * _ALIGN
    return file.getvalue(), block, sizes


def _unpacked(data: bytes, block: Any, sizes: Any) -> Any:
    parts, at = [], 0
    for size in sizes.tolist():
        parts.append(block[at : at + size])
        at += -(-size // _ALIGN) * _ALIGN
    return pickle.loads(data, buffers=parts)


class _Exchange:
    """What a loader's pipeline works on. A collated batch can be any object, so the pipeline carries numbers,
    and the objects wait here: tasks until a thread takes them, batches until the consumer does.
    """

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.dataset, self.is_batched = loader.dataset, loader.batch_sampler is not None
        self.is_map_style = not isinstance(loader.dataset, torch_data.IterableDataset)
        self.tasks: dict[int, Any] = {}
        self.batches: dict[int, Any] = {}
        self.threads: dict[int, int] = {}
        self.waiting: Iterator[Any] | None = None

        # In the consumer's thread and in PyTorch's order, so that the same seeds give the same batches: the
        # loader draws a seed for workers when an epoch begins, and the sampler one for its order when it is
        # asked for the first time.
        self.seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())

    def begin(self) -> None:
        """Asks for the first task, if that was not done yet: with workers at once, else for the first
        batch.
        """
        if self.waiting is None:
            tasks = self._tasks()
            self.waiting = itertools.chain(list(itertools.islice(tasks, 1)), tasks)

    def tickets(self) -> Iterator[int]:
        for number, task in enumerate(self.waiting or ()):
            self.tasks[number] = task
            yield number

    def pickled(self) -> Iterator[bytes]:
        """What a worker process needs to know of a batch."""
        for number, task in enumerate(self.waiting or ()):
            yield pickle.dumps((self.seed, number, task))

    def _tasks(self) -> Iterator[Any]:
        """The numbers of a batch's samples, or the samples themselves where they come in a stream."""
        loader = self.loader
        if self.is_map_style:
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
        if self.is_map_style:
            task = _samples(self, task)
        made = loader.collate_fn(task)
        self.batches[int(number)] = _pinned(made) if loader.pin_memory and torch.cuda.is_available() else made
        return number

    def _begin_thread(self) -> None:
        # By the system's number of the thread: to Python a thread of the engine is a new one each time.
        thread = threading.get_ident()
        if thread not in self.threads:
            self.threads[thread] = len(self.threads)
            if self.loader.worker_init_fn is not None and self.loader.num_workers:
                self.loader.worker_init_fn(self.threads[thread])

    def take(self, number: int) -> Any:
        return self.batches.pop(number)
