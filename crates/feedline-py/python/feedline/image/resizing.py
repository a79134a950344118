"""Pictures in another size."""

from __future__ import annotations

from typing import Any

from ..calls import as_tensor, call, symbolic
from ..dtypes import float32, int32
from ..lazy_numpy import np

__all__ = ["ResizeMethod", "crop_and_resize", "resize", "resize_shorter_side", "resize_with_pad"]


class ResizeMethod:
    """The methods of `resize`, by the names that TensorFlow gives them."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


def _known_size(size: Any) -> list[int]:
    sizes = np.asarray(size).reshape(-1)
    if len(sizes) != 2 or sizes.dtype.kind not in "iu":
        raise ValueError(f"size must be two integers, height and width, not {size!r}")
    return [int(n) for n in sizes]


def resize(
    images: Any,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Any:
    """Pictures in another size, by TensorFlow's rules.

    >>> import feedline as fl, numpy as np
    >>> fl.image.resize(np.array([[[0], [10]]], np.uint8), (1, 4)).reshape(-1).tolist()
    [0.0, 2.5, 7.5, 10.0]

    Args:
        images: A picture, height x width x channels, or a batch of them.
        size: Height and width of the result.
        method: "bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian" or
            "mitchellcubic".
        preserve_aspect_ratio: Keeps the proportions; the result is as large as fits into `size`.
        antialias: Averages where pixels become fewer. Without it some pixels are left out when a picture is
            made smaller.
        name: Not used.

    Returns:
        float32, with the values of the input; "nearest" keeps the dtype.
    """
    attrs = {
        "method": method,
        "preserve_aspect_ratio": preserve_aspect_ratio or None,
        "antialias": antialias or None,
    }
    if symbolic(size):
        return call("image.resize", [images, size], **attrs)
    return call("image.resize", [images], size=_known_size(size), **attrs)


def resize_shorter_side(
    images: Any, size: int, method: str = ResizeMethod.BILINEAR, antialias: bool = True
) -> Any:
    """Pictures whose shorter side is `size` long, in their own proportions, as torchvision's `Resize(size)`
    makes them.
    """
    return call("image.resize", [images], shorter_side=int(size), method=method, antialias=antialias or None)


def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: str = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Any:
    """Pictures of a size, in their own proportions, with zeros around them."""
    size = [int(target_height), int(target_width)]
    return call("image.resize_with_pad", [image], size=size, method=method, antialias=antialias or None)


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = ResizeMethod.BILINEAR,
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Any:
    """Parts of pictures of a batch, each in the size `crop_size`.

    Args:
        image: A batch of pictures.
        boxes: n x 4: y1, x1, y2, x2 in units of the last row and column; a box that is turned around flips
            its part.
        box_indices: n numbers of pictures in the batch.
        crop_size: Height and width of the parts.
        method: "bilinear" or "nearest".
        extrapolation_value: What stands where a box lies outside of its picture.
        name: Not used.
    """
    boxes = as_tensor(boxes, float32)
    box_indices = as_tensor(box_indices, int32)
    return call(
        "image.crop_and_resize",
        [image, boxes, box_indices],
        size=_known_size(crop_size),
        method=method,
        extrapolation_value=float(extrapolation_value),
    )
