"""torch DataLoader: in-process, with workers, with a batched sampler, and by hand with index tensors."""
from collections.abc import Callable, Iterator

import torch
from numpy import ndarray
from torch import Tensor
from torch.utils.data import (BatchSampler, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler,
                              TensorDataset)

from cells import Batches, cell

PACKAGE = "torch"


class Affine(Dataset):
    """x * 2 + 1 of each index below n."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i * 2 + 1


class AffineBatches(Affine):
    """The same of many indices at once, a list or a tensor of them."""

    def __getitem__(self, i: list[int] | Tensor) -> Tensor:
        return torch.as_tensor(i) * 2 + 1


class TensorBatches(Sampler):
    """Batches of indices as slices of one tensor: no Python list of ints is ever built."""

    def __init__(self, indices: Callable[[], Tensor], batch: int) -> None:
        self.indices, self.batch = indices, batch

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.indices().split(self.batch))


def batched(dataset: Dataset, sampler: Sampler) -> DataLoader:
    """The sampler's batches go to the dataset whole; nothing is collated."""
    return DataLoader(dataset, sampler=sampler, batch_size=None)


@cell("W1", "torch DataLoader in-process", "0 workers")
def w1(n: int, batch: int) -> Batches:
    return DataLoader(Affine(n), batch)


@cell("W1", "torch DataLoader batched sampler", "0 workers")
def w1_batched(n: int, batch: int) -> Batches:
    return batched(AffineBatches(n), BatchSampler(SequentialSampler(range(n)), batch, drop_last=False))


@cell("W1", "torch DataLoader index tensors", "0 workers")
def w1_tensors(n: int, batch: int) -> Batches:
    return batched(AffineBatches(n), TensorBatches(lambda: torch.arange(n), batch))


class ScaledBatches(TensorDataset):
    """Takes many indices at once. `index_select` gathers rows more than twice as fast as indexing does."""

    def __getitem__(self, i: list[int] | Tensor) -> tuple[Tensor, Tensor]:
        images, labels = (t.index_select(0, torch.as_tensor(i)) for t in self.tensors)
        return images.div(255), labels


def stack(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.stack([image for image, _ in rows]).div(255), torch.stack([label for _, label in rows])


def tensors(images: ndarray, labels: ndarray) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(images), torch.from_numpy(labels)


@cell("W8", "torch DataLoader", "2 workers")
def w8_workers(images: ndarray, labels: ndarray, batch: int) -> Batches:
    dataset = TensorDataset(*tensors(images, labels))
    return DataLoader(dataset, batch, shuffle=True, collate_fn=stack, num_workers=2, persistent_workers=True)


@cell("W8", "torch DataLoader in-process", "0 workers")
def w8(images: ndarray, labels: ndarray, batch: int) -> Batches:
    return DataLoader(TensorDataset(*tensors(images, labels)), batch, shuffle=True, collate_fn=stack)


@cell("W8", "torch DataLoader batched sampler", "0 workers")
def w8_batched(images: ndarray, labels: ndarray, batch: int) -> Batches:
    dataset = ScaledBatches(*tensors(images, labels))
    return batched(dataset, BatchSampler(RandomSampler(dataset), batch, drop_last=False))


@cell("W8", "torch DataLoader index tensors", "0 workers, 1 thread")
def w8_tensors(images: ndarray, labels: ndarray, batch: int) -> Batches:
    torch.set_num_threads(1)  # batches of 400 KB: a second thread costs more CPU than it saves time
    order = TensorBatches(lambda: torch.randperm(len(images)), batch)
    return batched(ScaledBatches(*tensors(images, labels)), order)
