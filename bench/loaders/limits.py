"""No loader: bare library calls on two threads, which say what is left to gain. libjpeg-turbo by simplejpeg, the rest
by OpenCV and NumPy; all of it runs outside the interpreter's lock."""
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import cv2
import numpy as np
import simplejpeg

from by_hand import crop_box, middle, normaliser
from cells import Batches, Passes, cell
from data import Photos
from pictures import SIDE

PACKAGE = "simplejpeg"
cv2.setNumThreads(0)
normalise = normaliser()


def on_two_threads(make: Callable[[int], Any], photos: Photos, batch: int) -> Batches:
    """`make(start)` makes the batch that starts there; four are under way or waiting."""
    pool = ThreadPoolExecutor(2)

    def one_pass() -> Iterator[Any]:
        under_way: deque = deque()
        for start in range(0, len(photos.files), batch):
            under_way.append(pool.submit(make, start))
            if len(under_way) == 4:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    return Passes(one_pass)


def read(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read()


@cell("L1", "simplejpeg", "2 threads")
def decode(photos: Photos, batch: int) -> Batches:
    jpegs = [read(name) for name in photos.files]
    return on_two_threads(lambda start: np.array([simplejpeg.decode_jpeg(jpeg).size for jpeg in
                                                  jpegs[start:start + batch]]), photos, batch)


@cell("L1", "simplejpeg, fast DCT and upsampling", "2 threads")
def decode_fast(photos: Photos, batch: int) -> Batches:
    jpegs = [read(name) for name in photos.files]
    return on_two_threads(lambda start: np.array([simplejpeg.decode_jpeg(jpeg, fastdct=True, fastupsample=True).size
                                                  for jpeg in jpegs[start:start + batch]]), photos, batch)


@cell("L1", "OpenCV", "2 threads")
def decode_cv2(photos: Photos, batch: int) -> Batches:
    jpegs = [np.fromfile(name, np.uint8) for name in photos.files]
    return on_two_threads(lambda start: np.array([cv2.imdecode(jpeg, cv2.IMREAD_COLOR_RGB).size for jpeg in
                                                  jpegs[start:start + batch]]), photos, batch)


def filled(photos: Photos, batch: int, picture: Callable[[bytes], np.ndarray]) -> Batches:
    """Batches of pictures, normalised where they are to lie."""
    labels = np.array(photos.labels)

    def make(start: int) -> tuple[np.ndarray, np.ndarray]:
        names = photos.files[start:start + batch]
        out = np.empty((len(names), SIDE, SIDE, 3), np.float32)
        for row, name in zip(out, names, strict=True):
            row[:] = normalise(picture(read(name)))
        return out, labels[start:start + batch]

    return on_two_threads(make, photos, batch)


@cell("W3", "limit: simplejpeg, OpenCV without antialias, NumPy in a loop", "2 threads")
def w3(photos: Photos, batch: int) -> Batches:
    random = Random(0)

    def picture(jpeg: bytes) -> np.ndarray:
        image = simplejpeg.decode_jpeg(jpeg, fastdct=True, fastupsample=True)
        y, x, h, w = crop_box(random, *image.shape[:2])
        image = cv2.resize(image[y:y + h, x:x + w], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
        return cv2.flip(image, 1) if random.random() < .5 else image

    return filled(photos, batch, picture)


@cell("W4", "limit: simplejpeg, OpenCV without antialias, NumPy in a loop", "2 threads")
def w4(photos: Photos, batch: int) -> Batches:
    def picture(jpeg: bytes) -> np.ndarray:
        return middle(simplejpeg.decode_jpeg(jpeg, fastdct=True, fastupsample=True), antialias=False)

    return filled(photos, batch, picture)
