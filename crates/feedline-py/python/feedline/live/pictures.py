"""A batch as one small picture, if it looks like pictures."""

from __future__ import annotations

import struct
import time
import zlib
from typing import Any

import numpy as np

from .. import _native, nest

__all__ = ["contact_sheet", "next_element", "png"]

SIDE = 96
"""Pixels of one picture, at most, along each side."""
MANY = 16
"""Pictures of a batch that are shown."""


def next_element(pass_: _native.Pass, seconds: float = 2.0) -> Any:
    """The next element that the consumer gets, or None if it asks for none in time. Nothing stays behind."""
    pass_.want(True)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            element = pass_.take()
            if element is not None:
                return element
            time.sleep(0.01)
        return None
    finally:
        pass_.want(False)
        pass_.take()


def contact_sheet(element: Any) -> np.ndarray | None:
    """The first pictures of an element side by side, as bytes of RGB; None if nothing in it looks like some.

    >>> contact_sheet((np.zeros((4, 10, 12, 3), np.uint8), np.arange(4))).shape
    (22, 26, 3)
    """
    for leaf in nest.flatten(element):
        pictures = _pictures(leaf)
        if pictures is not None:
            return _side_by_side(pictures)
    return None


def _pictures(leaf: Any) -> np.ndarray | None:
    """Numbers as pictures of bytes, [count, height, width, 3]."""
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "uifb" or leaf.ndim not in (2, 3, 4):
        return None
    if leaf.ndim == 4 and leaf.shape[-1] not in (1, 3, 4) and leaf.shape[1] in (1, 3):
        leaf = leaf.transpose(0, 2, 3, 1)
    if leaf.ndim == 3:
        leaf = leaf[None] if leaf.shape[-1] in (1, 3, 4) else leaf[..., None]
    if leaf.ndim != 4 or leaf.shape[-1] not in (1, 3, 4) or min(leaf.shape[1:3]) < 8 or not leaf.shape[0]:
        return None
    step = max(1, -(-max(leaf.shape[1:3]) // SIDE))
    # A copy of a few pixels: the batch itself belongs to the consumer.
    few = np.array(leaf[:MANY, ::step, ::step, :3], dtype=np.float32 if leaf.dtype.kind == "f" else None)
    if few.shape[-1] == 1:
        few = np.repeat(few, 3, axis=-1)
    return few if few.dtype == np.uint8 else _bytes(few.astype(np.float32))


def _bytes(values: np.ndarray) -> np.ndarray:
    """Whatever range numbers have (0 to 1, -1 to 1, normalised) as 0 to 255."""
    values = np.nan_to_num(values)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and 1 < high <= 255:
        low, high = 0.0, 255.0
    elif low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= -1 and high <= 1:
        low, high = -1.0, 1.0
    return ((values - low) * (255.0 / max(high - low, 1e-6))).astype(np.uint8)


def _side_by_side(pictures: np.ndarray) -> np.ndarray:
    count, height, width, _ = pictures.shape
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    gap = 2
    sheet = np.zeros((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), np.uint8)
    for number, picture in enumerate(pictures):
        top, left = (number // columns) * (height + gap), (number % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def png(pixels: np.ndarray) -> bytes:
    """Bytes of RGB as a PNG file."""
    height, width, _ = pixels.shape
    # Every line begins with the number of its filter: none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", body) + part(b"IEND", b"")
