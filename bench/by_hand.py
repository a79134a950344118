"""Steps that some loaders have no operation for, as a careful user would write them."""
from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np

from pictures import MEAN, SIDE, STD


def normaliser() -> Callable[[np.ndarray], np.ndarray]:
    """uint8 pictures (one or a batch) -> float32, normalised.

    Mean and deviation are repeated to a whole row of pixels: NumPy's inner loop then runs over 672 values instead
    of 3, which takes an eighth of the time.
    """
    scale = np.tile(1 / STD, SIDE)
    shift = np.tile(-MEAN / STD, SIDE)

    def normalise(pictures: np.ndarray) -> np.ndarray:
        rows = np.multiply(pictures.reshape(*pictures.shape[:-2], -1), scale, dtype=np.float32)
        rows += shift
        return rows.reshape(pictures.shape)

    return normalise


def crop_box(random: Random, height: int, width: int) -> tuple[int, int, int, int]:
    """torchvision's random-resized crop: top, left, height and width of 8 to 100 % of the area, 3:4 to 4:3. When ten
    tries do not fit: the middle, as much of it as the proportions allow."""
    for _ in range(10):
        area = height * width * random.uniform(.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


def middle(image: np.ndarray, antialias: bool) -> np.ndarray:
    """Shorter side 256, the middle 224 x 224, by OpenCV; what will not be seen is cut off before it is resized. Where
    it shrinks, OpenCV's antialiasing is the mean over areas, which takes as long as decoding."""
    import cv2

    h, w = image.shape[:2]
    side = round(min(h, w) * SIDE / 256)
    y, x = round((h - side) / 2), round((w - side) / 2)
    how = cv2.INTER_AREA if antialias and side > SIDE else cv2.INTER_LINEAR
    return cv2.resize(image[y:y + side, x:x + side], (SIDE, SIDE), interpolation=how)
