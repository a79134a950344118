"""MLX Data: C++ buffers and streams, 2 prefetch threads. It has no range source and no scaling of its own: W1
is left out, W8 scales in a Python transform over the batch."""
from collections.abc import Callable, Iterator

import mlx.data as dx
import numpy as np
from numpy import ndarray

from cells import Batches, cell

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
