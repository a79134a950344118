"""The small data that the programs of this folder read."""

from __future__ import annotations

from pathlib import Path

import feedline as fl
import numpy as np


def pictures(folder: str, count: int, size: tuple[int, int] = (60, 80)) -> None:
    """JPEGs of random colours in a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(count)
    for number in range(count):
        small = random.integers(0, 256, (4, 4, 3), np.uint8)
        picture = fl.image.resize(small, size).round().astype(np.uint8)
        Path(folder, f"{number:03}.jpg").write_bytes(bytes(fl.image.encode_jpeg(picture)))


def records(path: str, count: int, size: tuple[int, int] = (24, 32)) -> None:
    """Examples with the raw pixels of a picture and its label."""
    random = np.random.default_rng(count)
    with fl.io.TFRecordWriter(path) as writer:
        for number in range(count):
            pixels = random.integers(0, 256, (*size, 3), np.uint8)
            features = {
                "image": fl.train.Feature(bytes_list=[pixels.tobytes()]),
                "label": fl.train.Feature(int64_list=[number % 10]),
            }
            writer.write(fl.train.Example(fl.train.Features(features)).SerializeToString())
