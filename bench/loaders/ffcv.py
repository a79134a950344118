"""FFCV: from its own file, which is made once and not measured, in two threads. Its file has the pictures as JPEG too, at
the quality of the photos."""
from __future__ import annotations

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor
from ffcv.writer import DatasetWriter
from PIL import Image

from cells import Batches, Passes, cell
from data import Photos, kept
from pictures import MEAN, SIDE, STD

PACKAGE = "ffcv"


class Rows:
    def __init__(self, photos: Photos) -> None:
        self.photos = photos

    def __len__(self) -> int:
        return len(self.photos.files)

    def __getitem__(self, i: int) -> tuple[Image.Image, int]:
        return Image.open(self.photos.files[i]).convert("RGB"), int(self.photos.labels[i])


def written(photos: Photos) -> str:
    folder, whole = kept("ffcv")
    name = folder / "photos.beton"
    if not whole:
        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=92), "label": IntField()}
        DatasetWriter(str(name), fields, num_workers=1).from_indexed_dataset(Rows(photos))
        (folder / "whole").touch()
    return str(name)


def batches(photos: Photos, batch: int, decoder, flip: bool, order: OrderOption) -> Batches:
    image = [decoder, *([RandomHorizontalFlip()] if flip else []), NormalizeImage(MEAN, STD, np.float32), ToTensor()]
    loader = Loader(written(photos), batch_size=batch, num_workers=2, order=order, os_cache=True, drop_last=False,
                    batches_ahead=2, pipelines={"image": image, "label": [IntDecoder(), ToTensor()]})
    return Passes(lambda: ((x, y[:, 0]) for x, y in loader))


@cell("W3", "FFCV", "2 threads")
def w3(photos: Photos, batch: int) -> Batches:
    return batches(photos, batch, RandomResizedCropRGBImageDecoder((SIDE, SIDE)), True, OrderOption.SEQUENTIAL)


@cell("W4", "FFCV", "2 threads")
def w4(photos: Photos, batch: int) -> Batches:
    return batches(photos, batch, CenterCropRGBImageDecoder((SIDE, SIDE), SIDE / 256), False, OrderOption.SEQUENTIAL)


@cell("W10", "FFCV, quasi-random order", "2 threads")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    """It shuffles places in its file: no window of records is held."""
    return batches(photos, batch, RandomResizedCropRGBImageDecoder((SIDE, SIDE)), True, OrderOption.QUASI_RANDOM)
