"""SPDL: its thread pipeline and its FFmpeg decoder, whose filter graph also crops, resizes and flips. It has no
normalising: NumPy does it, a batch at a time."""
from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

from by_hand import crop_box, normaliser
from cells import Batches, Passes, cell
from data import Photos
from pictures import SIDE

PACKAGE = "spdl"
random, normalise = Random(0), normaliser()
MIDDLE = f"scale=256:256:force_original_aspect_ratio=increase:flags=bilinear,crop={SIDE}:{SIDE}"


def frames(packets, filters: str):
    return spdl.io.decode_packets(packets, filter_desc=f"{filters},format=pix_fmts=rgb24")


def train(name: str):
    packets = spdl.io.demux_image(name)
    y, x, h, w = crop_box(random, packets.height, packets.width)
    flip = ",hflip" if random.random() < .5 else ""
    return frames(packets, f"crop={w}:{h}:{x}:{y}:exact=1,scale={SIDE}:{SIDE}:flags=bilinear{flip}")


def middle(name: str):
    return frames(spdl.io.demux_image(name), MIDDLE)


def batches(photos: Photos, batch: int, decode: Callable, shuffle: bool) -> Batches:
    rows = list(zip(photos.files, photos.labels, strict=True))
    decode(rows[0][0])  # loads the library: two threads that did it at once would now and then abort

    def source() -> Iterator[tuple[str, int]]:
        while True:
            if shuffle:
                random.shuffle(rows)
            yield from rows

    def collate(decoded: list) -> tuple[np.ndarray, np.ndarray]:
        pictures = spdl.io.to_numpy(spdl.io.convert_frames([picture for picture, _ in decoded]))
        return normalise(pictures), np.array([label for _, label in decoded])

    builder = PipelineBuilder().add_source(source())
    builder = builder.pipe(lambda row: (decode(row[0]), row[1]), concurrency=2, output_order="input")
    pipeline = builder.aggregate(batch).pipe(collate).add_sink(3).build(num_threads=3)

    def one_pass() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        with pipeline.auto_stop():
            yield from pipeline

    return Passes(one_pass)


@cell("W3", "SPDL", "2 decode, 1 collate")
def w3(photos: Photos, batch: int) -> Batches:
    return batches(photos, batch, train, shuffle=True)


@cell("W10", "SPDL", "2 decode, 1 collate")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    """It shuffles names: no window of records is held."""
    return batches(photos, batch, train, shuffle=True)


@cell("W4", "SPDL", "2 decode, 1 collate")
def w4(photos: Photos, batch: int) -> Batches:
    return batches(photos, batch, middle, shuffle=False)
