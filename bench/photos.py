"""Makes the pictures of the image workloads, and the right answers beside them: `photos.py`, once.

It runs in an environment of NumPy and Pillow alone, with pinned versions: the same bytes everywhere. 2,000 JPEGs of
about 500 x 375 and 110 KB, in ten classes, as a folder and, in the folder's order, as TFRecord files.
"""
from __future__ import annotations

import io
from multiprocessing import Pool
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw

from by_hand import crop_box
from data import PHOTOS, SHARDS, kept, masked_crc
from pictures import CLASSES, SIDE, cells

FIELD = 1024


def texture(rng: np.random.Generator) -> np.ndarray:
    """Noise whose spectrum falls with frequency as a photograph's does, colour faster than brightness."""
    f = np.hypot(np.fft.fftfreq(FIELD)[:, None], np.fft.rfftfreq(FIELD))
    f[0, 0] = np.inf
    planes = [np.fft.irfft2(np.fft.rfft2(rng.standard_normal((FIELD, FIELD))) / f**fall) for fall in (1, 1.4, 1.4)]
    bright, red, blue = (plane / plane.std() for plane in planes)
    return np.stack([bright + .35 * red, bright - .2 * (red + blue), bright + .35 * blue], -1).astype(np.float32)


TEXTURES = [texture(np.random.default_rng([1, k])) for k in range(6)]


def size(rng: np.random.Generator) -> tuple[int, int]:
    """Half are 500 x 375, the others anything like it; a quarter stand upright."""
    w, h = (500, 375)
    if rng.random() < .5:
        w, h = np.clip(rng.normal((480, 390), (90, 70)), 200, 900).astype(int).tolist()
    return (h, w) if rng.random() < .25 else (w, h)


def photo(number: int) -> bytes:
    """Shapes under texture and grain, lit from the upper left: pictures.py checks by that."""
    rng = np.random.default_rng([2, number])
    w, h = size(rng)
    picture = Image.new("RGB", (w, h), tuple(rng.integers(70, 190, 3).tolist()))
    draw = ImageDraw.Draw(picture)
    for _ in range(rng.integers(6, 18)):
        middle, half = rng.integers((0, 0), (w, h)), rng.integers((5, 5), (w // 4, h // 4))
        outline = draw.ellipse if rng.random() < .6 else draw.rectangle
        outline([*(middle - half).tolist(), *(middle + half).tolist()], fill=tuple(rng.integers(20, 236, 3).tolist()))
    y, x = rng.integers(0, FIELD - h), rng.integers(0, FIELD - w)
    pixels = .75 * np.asarray(picture, np.float32) + 32
    pixels += rng.gamma(8, 4.25) * TEXTURES[rng.integers(len(TEXTURES))][y:y + h, x:x + w]
    pixels += 9 * rng.standard_normal((h, w, 1), np.float32)
    pixels += np.linspace(25, -25, h, dtype=np.float32)[:, None, None] + np.linspace(15, -15, w, dtype=np.float32)[:, None]
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=92)
    return out.getvalue()


def resized(picture: Image.Image) -> np.ndarray:
    """Shorter side 256, the middle 224 x 224, as torchvision does it with Pillow."""
    w, h = picture.size
    short = min(w, h)
    w, h = int(w * 256 / short), int(h * 256 / short)
    x, y = round((w - SIDE) / 2), round((h - SIDE) / 2)
    return np.asarray(picture.resize((w, h), Image.Resampling.BILINEAR).crop((x, y, x + SIDE, y + SIDE)))


def cropped(picture: Image.Image, random: Random) -> np.ndarray:
    y, x, h, w = crop_box(random, picture.height, picture.width)
    out = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=(x, y, x + w, y + h)))
    return out[:, ::-1] if random.random() < .5 else out


def made(number: int) -> tuple[bytes, np.ndarray, np.ndarray, int]:
    """One photo, the cells of what W4 and W3 make of it, and its size decoded."""
    jpeg = photo(number)
    picture = Image.open(io.BytesIO(jpeg))
    answers = resized(picture), cropped(picture, Random(number))
    return jpeg, *(cells(answer).round().astype(np.uint8) for answer in answers), picture.width * picture.height * 3


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number: int, data: bytes) -> bytes:
    """A protobuf field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(jpeg: bytes, label: int) -> bytes:
    features = {b"image/class/label": field(3, field(1, varint(label))), b"image/encoded": field(1, field(1, jpeg))}
    return field(1, b"".join(field(1, field(1, name) + field(2, feature)) for name, feature in features.items()))


def framed(records: list[bytes]) -> bytes:
    """Records of any length as TFRecord has them: length, its checksum, data, its checksum."""
    sizes = np.array([len(record) for record in records])
    lengths = sizes.astype("<u8")[:, None].view(np.uint8)
    padded = np.zeros((len(records), sizes.max()), np.uint8, order="F")
    for row, record in zip(padded, records, strict=True):
        row[:len(record)] = np.frombuffer(record, np.uint8)
    parts = zip(lengths, masked_crc(lengths), records, masked_crc(padded, sizes), strict=True)
    return b"".join(bytes(part) for record in parts for part in record)


def main() -> None:
    folder, whole = kept("photos")
    if whole:
        return
    print("making files/photos", flush=True)
    shards: list[list[bytes]] = [[] for _ in range(SHARDS)]
    answers = []
    with Pool() as pool:
        for number, (jpeg, *right) in enumerate(pool.imap(made, range(PHOTOS), 16)):
            label = number * CLASSES // PHOTOS
            path = folder / "classes" / f"class-{label}" / f"photo-{number:05}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg)
            shards[number % SHARDS].append(example(jpeg, label))
            answers.append(right)
        for k, data in enumerate(pool.imap(framed, shards)):
            Path(folder, f"part-{k:05}-of-{SHARDS:05}.tfrecord").write_bytes(data)
    for name, column in zip(("resized", "cropped", "sizes"), zip(*answers, strict=True), strict=True):
        np.save(folder / f"{name}.npy", np.stack(column))
    (folder / "whole").touch()


if __name__ == "__main__":
    main()
