"""Crops, flips, turns: pixels that move and do not change."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..calls import as_tensor, call, symbolic
from ..dtypes import float64, int32
from ..lazy_numpy import np

__all__ = [
    "central_crop",
    "crop_to_bounding_box",
    "flip_left_right",
    "flip_up_down",
    "pad_to_bounding_box",
    "resize_with_crop_or_pad",
    "rot90",
    "transpose",
]


def pixels(image: Any) -> Any:
    """A picture as an argument of a function: Python lists become arrays."""
    return as_tensor(image)


def known_shape(image: Any) -> list[int | None] | None:
    """The shape of a picture as far as it is known; None for an unknown rank."""
    shape = image.shape if symbolic(image) else np.shape(image)
    return None if shape is None else list(shape)


def known_sides(image: Any) -> tuple[int | None, int | None]:
    """The height and width of a picture, or of each of a batch, where they are known."""
    shape = known_shape(image)
    return (None, None) if shape is None or len(shape) not in (3, 4) else (shape[-3], shape[-2])


def _box_tensor(box: list[Any]) -> Any:
    return [ops.cast(number, int32) for number in box] if symbolic(box) else np.asarray(box, np.int32)


def _whole(**numbers: Any) -> None:
    """Refuses constants that are no whole numbers."""
    for name, value in numbers.items():
        if not symbolic(value) and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise TypeError(f"{name} must be a whole number, not {value!r}")


def _check_sides(offset: Any, target: Any, axis: str) -> None:
    if not symbolic(offset) and offset < 0:
        raise ValueError(f"offset_{axis} must not be negative, but is {offset}")
    if not symbolic(target) and target <= 0:
        raise ValueError(f"target_{axis} must be above 0, but is {target}")


def crop(image: Any, box: list[Any]) -> Any:
    """The rectangle [y, x, height, width]; what is known of it is checked now."""
    for place, size, side, axis in zip(
        box[:2], box[2:], known_sides(image), ("height", "width"), strict=True
    ):
        _check_sides(place, size, axis)
        if side is not None and not symbolic(place, size) and place + size > side:
            raise ValueError(f"a crop of {axis} {size} at {place} does not lie in a picture of {axis} {side}")
    size = None if symbolic(box[2:]) else [int(n) for n in box[2:]]
    return call("image.crop", [image, _box_tensor(box)], size=size)


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Any:
    """A rectangle of a picture, or the same one of each picture of a batch.

    >>> import feedline as fl, numpy as np
    >>> x = np.arange(12).reshape(3, 4, 1)
    >>> fl.image.crop_to_bounding_box(x, 1, 2, 2, 2)[..., 0].tolist()
    [[6, 7], [10, 11]]

    Args:
        image: Height x width x channels, or a batch of such.
        offset_height: The first row.
        offset_width: The first column.
        target_height: How many rows.
        target_width: How many columns.

    Raises:
        ValueError: The rectangle does not lie in the picture. Where that is not known before data flows, it
            is an error of the element.
    """
    box = [offset_height, offset_width, target_height, target_width]
    _whole(
        offset_height=box[0],
        offset_width=box[1],
        target_height=box[2],
        target_width=box[3],
    )
    return crop(pixels(image), box)


def central_crop(image: Any, central_fraction: Any) -> Any:
    """The middle of a picture: a part of its height and of its width.

    >>> import feedline as fl, numpy as np
    >>> fl.image.central_crop(np.zeros((8, 6, 3)), 0.5).shape
    (4, 4, 3)

    Args:
        image: Height x width x channels, or a batch of such.
        central_fraction: The part, above 0 and up to 1. On each side `int((n - n * part) / 2)` pixels are cut
            off, so that sides may stay a little longer.
    """
    image = pixels(image)
    if not symbolic(central_fraction):
        central_fraction = float(central_fraction)
        if not 0 < central_fraction <= 1:
            raise ValueError(f"central_fraction must lie above 0 and at most at 1, but is {central_fraction}")
    height, width = known_sides(image)
    if height is not None and width is not None and not symbolic(central_fraction):
        y, x = (int((side - side * central_fraction) / 2) for side in (height, width))
        return crop(image, [y, x, height - 2 * y, width - 2 * x])
    sides = ops.cast(ops.shape(image)[-3:-1], float64)
    cut = ops.cast((sides - sides * ops.cast(central_fraction, float64)) / 2.0, int32)
    box = ops.concat([cut, ops.cast(sides, int32) - 2 * cut], axis=0)
    return call("image.crop", [image, box])


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Any:
    """Zeros around a picture, or around each picture of a batch.

    >>> import feedline as fl, numpy as np
    >>> fl.image.pad_to_bounding_box(np.ones((1, 2, 1), int), 1, 0, 2, 3)[..., 0].tolist()
    [[0, 0, 0], [1, 1, 0]]

    Args:
        image: Height x width x channels, or a batch of such.
        offset_height: Rows of zeros above it.
        offset_width: Columns of zeros at its left.
        target_height: The height of the result.
        target_width: The width of the result.
    """
    image = pixels(image)
    box = [offset_height, offset_width, target_height, target_width]
    _whole(offset_height=box[0], offset_width=box[1], target_height=box[2], target_width=box[3])
    for place, size, side, axis in zip(
        box[:2], box[2:], known_sides(image), ("height", "width"), strict=True
    ):
        _check_sides(place, size, axis)
        if side is not None and not symbolic(place, size) and place + side > size:
            raise ValueError(f"a picture of {axis} {side} at {place} does not fit into {axis} {size}")
    size = None if symbolic(box[2:]) else [int(n) for n in box[2:]]
    return call("image.pad_to_bounding_box", [image, _box_tensor(box)], size=size)


def resize_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Any:
    """A picture in another size without scaling: its middle, with zeros around it where it is too small.

    >>> import feedline as fl, numpy as np
    >>> fl.image.resize_with_crop_or_pad(np.ones((4, 2, 1), int), 2, 4)[..., 0].tolist()
    [[0, 1, 1, 0], [0, 1, 1, 0]]

    Args:
        image: Height x width x channels, or a batch of such.
        target_height: The height of the result. An odd row is cut off or added at the bottom.
        target_width: The width of the result. An odd column is cut off or added at the right.
    """
    image = pixels(image)
    target = [target_height, target_width]
    _whole(target_height=target_height, target_width=target_width)
    _check_sides(0, target_height, "height")
    _check_sides(0, target_width, "width")
    if symbolic(target):
        return call("image.resize_with_crop_or_pad", [image, _box_tensor(target)])
    return call("image.resize_with_crop_or_pad", [image], size=[int(n) for n in target])


def flip_left_right(image: Any) -> Any:
    """A picture as in a mirror; each of a batch for itself.

    >>> import feedline as fl, numpy as np
    >>> fl.image.flip_left_right(np.arange(6).reshape(2, 3, 1))[..., 0].tolist()
    [[2, 1, 0], [5, 4, 3]]
    """
    return call("image.flip_left_right", [pixels(image)])


def flip_up_down(image: Any) -> Any:
    """A picture upside down; each of a batch for itself.

    >>> import feedline as fl, numpy as np
    >>> fl.image.flip_up_down(np.arange(6).reshape(2, 3, 1))[..., 0].tolist()
    [[3, 4, 5], [0, 1, 2]]
    """
    return call("image.flip_up_down", [pixels(image)])


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Any:
    """A picture turned by quarters of a turn against the clock; each of a batch for itself.

    >>> import feedline as fl, numpy as np
    >>> fl.image.rot90(np.arange(6).reshape(2, 3, 1))[..., 0].tolist()
    [[2, 5], [1, 4], [0, 3]]

    Args:
        image: Height x width x channels, or a batch of such.
        k: How many quarters; it may be symbolic, as `fl.random.integers(4)` is.
        name: Not used.
    """
    if symbolic(k):
        return call("image.rot90", [pixels(image), k])
    _whole(k=k)
    return call("image.rot90", [pixels(image)], k=int(k))


def transpose(image: Any, name: str | None = None) -> Any:
    """A picture whose rows have become columns; each of a batch for itself.

    >>> import feedline as fl, numpy as np
    >>> fl.image.transpose(np.arange(6).reshape(2, 3, 1))[..., 0].tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    return call("image.transpose", [pixels(image)])
