"""feedline with what its users have already: torchvision's transforms v2, unchanged, in two of its worker processes. The
calls are those of `torch.py`, whose rows of the same name are their peers: torch's DataLoader with two workers."""
import sys
from pathlib import Path

# The environment is torchvision's; the package is used where it lies, as `make` has built it.
sys.path.insert(0, str(Path(__file__).parents[2] / "crates" / "feedline-py" / "python"))

import feedline as fl
import feedline.torch
from numpy import array, ndarray

from cells import Batches, Passes, cell
from data import Photos
from loaders.torch import CROP, Folder, by_pil, by_tensor

PACKAGE = "torchvision"


def mapped(photos: Photos, batch: int, folder: Folder) -> Batches:
    """The transforms as the function of a `map`."""
    def picture(name: bytes, label: int) -> tuple[ndarray, int]:
        return folder.transform(folder.decode(name.decode())).numpy(), label

    files = fl.Dataset.from_tensor_slices((photos.files, array(photos.labels)))
    ds = files.shuffle().map(picture, workers=2).batch(batch)
    return Passes(lambda: ((x.transpose(0, 2, 3, 1), y) for x, y in ds))


@cell("W3", "feedline map, torchvision v2 tensor", "2 workers")
def w3(photos: Photos, batch: int) -> Batches:
    return mapped(photos, batch, by_tensor(photos, CROP))


@cell("W3", "feedline map, torchvision v2 PIL", "2 workers")
def w3_pil(photos: Photos, batch: int) -> Batches:
    return mapped(photos, batch, by_pil(photos, CROP))


@cell("W3", "feedline.torch.DataLoader, torchvision v2 tensor", "2 workers")
def w3_loader(photos: Photos, batch: int) -> Batches:
    """The whole program for torch's loader, with another loader."""
    dataset = by_tensor(photos, CROP)
    loader = feedline.torch.DataLoader(dataset, batch, shuffle=True, num_workers=2, persistent_workers=True)
    return Passes(lambda: ((x.permute(0, 2, 3, 1), y) for x, y in loader))
