"""The changes that Keras's ImageDataGenerator makes to a picture, for given numbers: real or symbolic ones,
for one picture, or one for each of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import ops
from ..calls import call, symbolic
from ..dtypes import float32, float64, int64
from ..lazy_numpy import np

__all__ = ["NEUTRAL", "Warp", "brightened", "matrix", "shifted"]

NEUTRAL: dict[str, Any] = {
    "theta": 0.0,
    "tx": 0.0,
    "ty": 0.0,
    "shear": 0.0,
    "zx": 1.0,
    "zy": 1.0,
    "flip_horizontal": False,
    "flip_vertical": False,
    "channel_shift_intensity": None,
    "brightness": None,
}
"""The numbers that change nothing."""

AFFINE = ("theta", "tx", "ty", "shear", "zx", "zy")
FLIPS = ("flip_horizontal", "flip_vertical")


@dataclass(frozen=True)
class Warp:
    """How pixels are found between and outside of pixels.

    Attributes:
        order: Of the interpolation, 0 to 5.
        fill_mode: What lies outside.
        cval: The value there, for "constant".
        compatible: Whether the centre of pictures that are not square lies where Keras puts it.
    """

    order: int = 1
    fill_mode: str = "nearest"
    cval: float = 0.0
    compatible: bool = False

    def __call__(self, picture: Any, numbers: Mapping[str, Any]) -> Any:
        """The picture (or the batch) moved as the numbers say, flips last."""
        moves = any(_acts(numbers, name) for name in AFFINE)
        if not moves and not any(_acts(numbers, name) for name in FLIPS):
            return picture
        made = matrix(numbers, *_sides(picture), compatible=self.compatible)
        order = self.order if moves else 0  # flips hit every pixel
        return call(
            "image.affine_transform",
            [picture, made],
            order=order,
            fill_mode=self.fill_mode,
            cval=float(self.cval),
        )


def _acts(numbers: Mapping[str, Any], name: str) -> bool:
    """Whether a number may change anything."""
    value = numbers.get(name, NEUTRAL[name])
    return symbolic(value) or bool(np.any(np.asarray(value) != NEUTRAL[name]))


def _number(value: Any) -> Any:
    return ops.cast(value, float64) if symbolic(value) else np.asarray(value, np.float64)[()]


def _sides(picture: Any) -> tuple[Any, Any]:
    """Height and width as float64."""
    height, width = picture.shape[-3:-1] if picture.shape is not None else (None, None)
    if height is not None and width is not None:
        return np.float64(height), np.float64(width)
    sizes = ops.cast(ops.shape(picture, int64)[-3:-1], float64)
    return sizes[0], sizes[1]


def matrix(numbers: Mapping[str, Any], height: Any, width: Any, compatible: bool = False) -> Any:
    """Where the pixel at a row and a column of the result is read: 2 x 3, or n x 2 x 3 for n numbers each.

    The numbers say how x and y (column and row) of the result become x and y of the picture: a zoom by
    (zx, zy), a shear, a shift by (tx, ty) and a turn by theta, in this order, around the centre.
    """
    get = {name: _number(numbers.get(name, NEUTRAL[name])) for name in (*AFFINE, *FLIPS)}
    turn, shear = (get[name] * np.float64(math.pi / 180) for name in ("theta", "shear"))
    cos, sin = ops.cos(turn), ops.sin(turn)
    slope, shrink = ops.sin(shear), ops.cos(shear)
    zx, zy, tx, ty = get["zx"], get["zy"], get["tx"], get["ty"]
    xx, xy = cos * zx, (cos * -slope - sin * shrink) * zy
    yx, yy = sin * zx, (sin * -slope + cos * shrink) * zy
    half = np.float64(0.5)
    centre_x, centre_y = (width * half - half, height * half - half)
    if compatible:
        centre_x, centre_y = centre_y, centre_x
    x = xx * -centre_x + xy * -centre_y + (cos * tx - sin * ty) + centre_x
    y = yx * -centre_x + yy * -centre_y + (sin * tx + cos * ty) + centre_y
    # A flip counts the columns (or rows) of the result from the other end.
    one, two = np.float64(1), np.float64(2)
    across, down = get["flip_horizontal"], get["flip_vertical"]
    x = x + xx * across * (width - one) + xy * down * (height - one)
    y = y + yx * across * (width - one) + yy * down * (height - one)
    across, down = one - two * across, one - two * down
    rows = [yy * down, yx * across, y, xy * down, xx * across, x]
    if not symbolic(*rows):
        flat = np.stack(np.broadcast_arrays(*rows), axis=-1)
        return flat.reshape(*flat.shape[:-1], 2, 3)
    zero = sum(get.values()) * np.float64(0)  # in the shape that all of them have together
    flat = ops.stack([item + zero for item in rows], axis=-1)
    return ops.reshape(flat, [2, 3] if flat.shape == (6,) else [-1, 2, 3])


def _of_each(number: Any, pictures: Any) -> Any:
    """A number of each picture of a batch, so that it goes with their pixels."""
    number = ops.cast(number, float32) if symbolic(number) else np.float32(number)
    if pictures.shape is not None and len(pictures.shape) == 4 and getattr(number, "shape", ()) != ():
        return ops.reshape(number, [-1, 1, 1, 1])
    return number


def _ends(pictures: Any) -> tuple[Any, Any]:
    """The least and the largest value of each picture."""
    axes = [-3, -2, -1]
    return ops.reduce_min(pictures, axes, True), ops.reduce_max(pictures, axes, True)


def shifted(pictures: Any, intensity: Any) -> Any:
    """float32 pictures with a number added to all values, which stay in the range that their picture had."""
    low, high = _ends(pictures)
    return ops.clip(pictures + _of_each(intensity, pictures), low, high)


def brightened(pictures: Any, factor: Any) -> Any:
    """float32 pictures made brighter or darker in 256 levels, as Pillow does.

    Values that are no bytes are stretched to 0 to 255 for that, and back.
    """
    low, high = _ends(pictures)
    wide = ops.logical_or(low < np.float32(0), high > np.float32(255))
    span = high - low
    whole = ops.where(span > np.float32(0), span, ops.ones_like(span))
    # To whole numbers: what is left of the point.
    levels = ops.floor(ops.where(wide, (pictures - low) / whole * np.float32(255), pictures))
    lit = ops.floor(ops.clip(levels * _of_each(factor, pictures), np.float32(0), np.float32(255)))
    return ops.where(wide, lit / np.float32(255) * span + low, lit)
