"""MLX Data: C++ buffers and streams, 2 prefetch threads. It has no range source, no reader of TFRecord and no scaling
of its own: W1 is left out, pictures come from the folder, and numbers are scaled by NumPy, a batch at a time."""
from collections.abc import Callable, Iterator

import mlx.data as dx
import numpy as np
from numpy import ndarray

from by_hand import normaliser
from cells import Batches, cell
from data import Photos
from pictures import SIDE

PACKAGE = "mlx-data"


def scale(image: ndarray) -> ndarray:
    return image.astype(np.float32) / 255


class Passes:
    """A new shuffle and a new stream a pass, so that each epoch has an order of its own."""

    def __init__(self, stream: Callable[[], dx.Stream]) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[tuple[ndarray, ndarray]]:
        return ((s["image"], s["label"]) for s in self.stream())


def rows(images: ndarray, labels: ndarray) -> dx.Buffer:
    return dx.buffer_from_vector([{"image": x, "label": int(y)} for x, y in zip(images, labels, strict=True)])


@cell("W8", "mlx-data", "2")
def w8(images: ndarray, labels: ndarray, batch: int) -> Batches:
    buffer = rows(images, labels)

    def stream() -> dx.Stream:
        return buffer.shuffle().to_stream().batch(batch).key_transform("image", scale).prefetch(4, 2)
    return Passes(stream)


def files(photos: Photos) -> dx.Buffer:
    named = zip(photos.files, photos.labels, strict=True)
    return dx.buffer_from_vector([{"image": name.encode(), "label": label} for name, label in named])


def train(pictures: dx.Stream, batch: int) -> dx.Stream:
    crops = pictures.image_random_area_crop("image", (.08, 1.), (3 / 4, 4 / 3)).image_resize("image", SIDE, SIDE)
    return crops.image_random_h_flip("image", .5).batch(batch).key_transform("image", normaliser()).prefetch(4, 2)


@cell("W3", "mlx-data", "2")
def w3(photos: Photos, batch: int) -> Batches:
    buffer = files(photos)
    return Passes(lambda: train(buffer.shuffle().to_stream().load_image("image"), batch))


@cell("W10", "mlx-data", "2")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    """The window holds files that have been read, as in a loader of records."""
    buffer = files(photos)
    return Passes(lambda: train(buffer.to_stream().load_file("image").shuffle(window)
                                .load_image("image", from_memory=True), batch))


def middles(photos: Photos) -> dx.Buffer:
    """Operations on a buffer, not on a stream: only those keep their order on two threads."""
    pictures = files(photos).load_image("image").image_resize_smallest_side("image", 256)
    return pictures.image_center_crop("image", SIDE, SIDE)


@cell("W4", "mlx-data", "2")
def w4(photos: Photos, batch: int) -> Batches:
    batches = middles(photos).batch(batch).key_transform("image", normaliser())
    return Passes(lambda: batches.ordered_prefetch(4, 2))


@cell("W7", "mlx-data, pictures in a buffer", "2")
def w7(photos: Photos, batch: int) -> Batches:
    """It has no cache: the buffer of its second pass is filled by hand."""
    ready = middles(photos).key_transform("image", normaliser()).ordered_prefetch(16, 2)
    buffer = dx.buffer_from_vector([{"image": s["image"], "label": int(s["label"])} for s in ready])
    return Passes(lambda: buffer.batch(batch).ordered_prefetch(4, 2))
