"""torch DataLoader: in-process, with workers, with a batched sampler, and by hand with index tensors; pictures by
torchvision's transforms v2 in two workers, from the folder. They are made with channels first; a cell gives them out as
height x width x channels, without moving them."""
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy import ndarray
from PIL import Image
from torch import Tensor
from torch.utils.data import (BatchSampler, DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler,
                              TensorDataset)
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

from cells import Batches, Passes, cell
from data import Photos
from pictures import MEAN, SIDE, STD
from spin import spin

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


NORMALISE = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((MEAN / 255).tolist(), (STD / 255).tolist())]
CROP = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
MIDDLE = [v2.Resize(256, antialias=True), v2.CenterCrop(SIDE)]


class Folder(Dataset):
    """(picture, label) of each file."""

    def __init__(self, photos: Photos, decode: Callable[[str], Tensor | Image.Image], transform: v2.Transform) -> None:
        self.photos, self.decode, self.transform = photos, decode, transform

    def __len__(self) -> int:
        return len(self.photos.files)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.transform(self.decode(self.photos.files[i])), self.photos.labels[i]


def tensor(name: str) -> Tensor:
    return decode_jpeg(read_file(name), ImageReadMode.RGB)


def pil(name: str) -> Image.Image:
    return Image.open(name).convert("RGB")


def pictures(dataset: Dataset, batch: int, shuffle: bool) -> Batches:
    loader = DataLoader(dataset, batch, shuffle=shuffle, num_workers=2, persistent_workers=True)
    return Passes(lambda: ((x.permute(0, 2, 3, 1), y) for x, y in loader))


def by_tensor(photos: Photos, steps: list) -> Folder:
    return Folder(photos, tensor, v2.Compose([*steps, *NORMALISE]))


def by_pil(photos: Photos, steps: list) -> Folder:
    return Folder(photos, pil, v2.Compose([*steps, v2.PILToTensor(), *NORMALISE]))


@cell("W12", "torchvision v2 tensor", "2 workers")
@cell("W3", "torchvision v2 tensor", "2 workers")
def w3(photos: Photos, batch: int) -> Batches:
    return pictures(by_tensor(photos, CROP), batch, shuffle=True)


@cell("W3", "torchvision v2 PIL", "2 workers")
def w3_pil(photos: Photos, batch: int) -> Batches:
    return pictures(by_pil(photos, CROP), batch, shuffle=True)


@cell("W10", "torchvision v2 tensor", "2 workers")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    """Its sampler shuffles positions: no window of records is held."""
    return w3(photos, batch)


@cell("W4", "torchvision v2 tensor", "2 workers")
def w4(photos: Photos, batch: int) -> Batches:
    return pictures(by_tensor(photos, MIDDLE), batch, shuffle=False)


@cell("W4", "torchvision v2 PIL", "2 workers")
def w4_pil(photos: Photos, batch: int) -> Batches:
    return pictures(by_pil(photos, MIDDLE), batch, shuffle=False)


@cell("W7", "torch, all pictures in a tensor", "0 workers")
def w7(photos: Photos, batch: int) -> Batches:
    """It has no cache: its second pass is over a tensor filled by hand, gathered by a batched sampler."""
    kept = torch.empty((len(photos.files), SIDE, SIDE, 3))
    at = 0
    for images, _ in w4(photos, batch):
        kept[at:at + len(images)] = images
        at += len(images)
    dataset = Gathered(kept, torch.tensor(photos.labels))
    return batched(dataset, BatchSampler(SequentialSampler(dataset), batch, drop_last=False))


class Gathered(TensorDataset):
    """Takes many indices at once."""

    def __getitem__(self, i: list[int]) -> tuple[Tensor, ...]:
        return tuple(t.index_select(0, torch.as_tensor(i)) for t in self.tensors)


class Spun(Affine):
    """W9's function of each index."""

    def __getitem__(self, i: int) -> int:
        return spin(i)


@cell("W9", "torch DataLoader", "2 workers")
def w9(n: int, batch: int) -> Batches:
    return DataLoader(Spun(n), batch, num_workers=2, persistent_workers=True)


@cell("W9", "torch DataLoader, NumPy collate", "2 workers")
def w9_arrays(n: int, batch: int) -> Batches:
    """Arrays are pickled through a pipe, which for small ones is cheaper than a tensor's shared memory."""
    return DataLoader(Spun(n), batch, num_workers=2, persistent_workers=True, collate_fn=np.array)
