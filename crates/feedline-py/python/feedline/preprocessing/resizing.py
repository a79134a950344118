"""Pictures of a size without distortion."""

from __future__ import annotations

from typing import Any

from .. import image, ops
from ..calls import symbolic
from ..dtypes import float64, int64
from ..lazy_numpy import np

__all__ = ["smart_resize"]


def smart_resize(
    x: Any,
    size: Any,
    interpolation: str = "bilinear",
    data_format: str = "channels_last",
    backend_module: Any = None,
) -> Any:
    """The middle of a picture that has the proportions of `size`, resized to it.

    >>> import feedline as fl, numpy as np
    >>> picture = np.zeros((20, 40, 3), np.uint8)
    >>> fl.preprocessing.image.smart_resize(picture, (10, 10)).shape
    (10, 10, 3)

    Args:
        x: A picture, height x width x channels, or a batch of them; also symbolic.
        size: Height and width of the result.
        interpolation: A method of `fl.image.resize`.
        data_format: "channels_last", or "channels_first" for channels x height x width.
        backend_module: Not used.
    """
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(
            f'smart_resize: data_format must be "channels_last" or "channels_first", not {data_format!r}'
        )
    try:
        height, width = (int(side) for side in size)
    except (TypeError, ValueError):
        raise ValueError(f"smart_resize: size must be height and width, not {size!r}") from None
    if height < 1 or width < 1:
        raise ValueError(f"smart_resize: size must be positive, not {size!r}")
    pictures = x if symbolic(x) else np.asarray(x)
    shape = pictures.shape
    if shape is None or len(shape) not in (3, 4):
        raise ValueError(
            f"smart_resize: expects a picture, or a batch of them, not shape {shape}; if it is not "
            "known, say it with fl.ensure_shape"
        )
    lead = [0] if len(shape) == 4 else []
    if data_format == "channels_first":
        first = [axis + len(lead) for axis in (1, 2, 0)]
        pictures = ops.transpose(pictures, [*lead, *first])
    resized = image.resize(_cut(pictures, height, width), (height, width), interpolation)
    if data_format == "channels_last":
        return resized
    return ops.transpose(resized, [*lead, *(axis + len(lead) for axis in (2, 0, 1))])


def _cut(pictures: Any, height: int, width: int) -> Any:
    """The largest part of the middle with these proportions."""
    axes = len(pictures.shape)
    known = pictures.shape[-3:-1]
    if None not in known:
        own_height, own_width = known
        tall = max(min(int(own_width * height / width), own_height), 1)
        wide = max(min(int(own_height * width / height), own_width), 1)
        top, left = (own_height - tall) // 2, (own_width - wide) // 2
        return pictures[..., top : top + tall, left : left + wide, :]
    sizes = ops.shape(pictures, int64)
    own_height, own_width = sizes[axes - 3], sizes[axes - 2]

    def side(other: Any, a: int, b: int, own: Any) -> Any:
        part = ops.cast(ops.floor(ops.cast(other * a, float64) / np.float64(b)), int64)
        return ops.maximum(ops.minimum(part, own), np.int64(1))

    tall, wide = side(own_width, height, width, own_height), side(own_height, width, height, own_width)
    top, left = (own_height - tall) // 2, (own_width - wide) // 2
    zero, rest = np.int64(0), np.int64(-1)
    lead = [zero] * (axes - 3)
    begin = [*lead, top, left, zero]
    return ops.slice(pictures, begin, [*([rest] * (axes - 3)), tall, wide, rest])
