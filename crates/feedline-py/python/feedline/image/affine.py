"""Pictures moved by a matrix."""

from __future__ import annotations

from typing import Any

from ..calls import call, symbolic
from ..lazy_numpy import np

__all__ = ["affine_transform"]


def affine_transform(
    images: Any, matrix: Any, order: int = 1, fill_mode: str = "nearest", cval: float = 0.0
) -> Any:
    """Pictures turned, moved, sheared and zoomed, with the pixels of `scipy.ndimage.affine_transform`.

    >>> import feedline as fl, numpy as np
    >>> row = np.array([[[10], [20], [30]]], np.uint8)
    >>> fl.image.affine_transform(row, [[1, 0, 0], [0, 1, 0.5]]).reshape(-1).tolist()
    [15, 25, 30]

    Args:
        images: A picture, height x width x channels, or a batch of them, of uint8 or float32.
        matrix: 2 x 3, or one for each picture of a batch. The pixel at row r and column c of the result is
            read at the row `matrix[0] @ (r, c, 1)` and the column `matrix[1] @ (r, c, 1)`.
        order: 0 takes the nearest pixel, 1 interpolates linearly, 2 to 5 are splines.
        fill_mode: What lies outside: "nearest", "constant", "reflect" or "wrap".
        cval: The value outside, for "constant".
    """
    numbers = matrix if symbolic(matrix) else np.asarray(matrix, np.float64)
    return call(
        "image.affine_transform", [images, numbers], order=order, fill_mode=fill_mode, cval=float(cval)
    )
