"""Brightness, contrast, hue and the like, the colour spaces, and the way from pixels to what a network wants.

Values of a picture go from 0 to 1 as floats. Integers use the range of their dtype for that: they are
converted to float32, changed, and converted back, where nothing leaves their range. Floats are not clipped.
"""

from __future__ import annotations

from typing import Any

from ..calls import call, dtype_of, symbolic
from ..dtypes import as_dtype, float32
from ..lazy_numpy import np
from .geometry import pixels

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "convert_image_dtype",
    "gaussian_blur",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "normalize",
    "per_image_standardization",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "yiq_to_rgb",
    "yuv_to_rgb",
]


def _number(value: Any) -> Any:
    return np.float32(value) if dtype_of(value) is None else value


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Any:
    """Pictures with items of another dtype; what is 1.0 as a float is the largest value of an integer dtype.

    >>> import feedline as fl, numpy as np
    >>> fl.image.convert_image_dtype(np.array([0, 51, 255], np.uint8), fl.float32).round(3).tolist()
    [0.0, 0.20000000298023224, 1.0]

    Floats that are larger than 1 are not taken for 0 to 255: convert before `resize`, which gives floats with
    the values of its input, or use `normalize`.

    Args:
        image: Of any shape.
        dtype: An integer or a float dtype.
        saturate: Between integers, values that the other dtype lacks become its smallest or largest one; else
            they wrap around. Floats always saturate.
        name: Not used.
    """
    return call(
        "image.convert_image_dtype", [pixels(image)], dtype=as_dtype(dtype), saturate=saturate or None
    )


def adjust_brightness(image: Any, delta: Any) -> Any:
    """Adds a number to every value, as parts of the whole range also for integers.

    >>> import feedline as fl, numpy as np
    >>> fl.image.adjust_brightness(np.array([0, 100, 250], np.uint8), 0.1).tolist()
    [25, 125, 255]
    """
    return call("image.adjust_brightness", [pixels(image), _number(delta)])


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """Multiplies the distance of every value to the mean of its picture and channel.

    >>> import feedline as fl, numpy as np
    >>> fl.image.adjust_contrast(np.array([[[0.0], [0.5]]], np.float32), 2.0).reshape(-1).tolist()
    [-0.25, 0.75]
    """
    return call("image.adjust_contrast", [pixels(images), _number(contrast_factor)])


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Any:
    """Multiplies the saturation of the colours of pictures in RGB; 0 makes them grey.

    >>> import feedline as fl, numpy as np
    >>> fl.image.adjust_saturation(np.array([[[200, 100, 0]]], np.uint8), 0.5).tolist()
    [[[200, 150, 100]]]
    """
    return call("image.adjust_saturation", [pixels(image), _number(saturation_factor)])


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Any:
    """Turns the hue of pictures in RGB by a part of the circle, from -1 to 1.

    >>> import feedline as fl, numpy as np
    >>> fl.image.adjust_hue(np.array([[[200, 0, 0]]], np.uint8), 1 / 3).tolist()
    [[[0, 200, 0]]]
    """
    if not symbolic(delta) and not -1 <= delta <= 1:
        raise ValueError(f"delta must lie between -1 and 1, but is {delta}")
    return call("image.adjust_hue", [pixels(image), _number(delta)])


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    """`gain * x ** gamma` for every value x; a gamma below 1 lights up dark parts.

    >>> import feedline as fl, numpy as np
    >>> fl.image.adjust_gamma(np.array([0, 64, 255], np.uint8), 0.5).tolist()
    [0, 128, 255]
    """
    if not symbolic(gamma) and gamma < 0:
        raise ValueError(f"gamma must not be negative, but is {gamma}")
    return call("image.adjust_gamma", [pixels(image), _number(gamma), _number(gain)])


def per_image_standardization(image: Any) -> Any:
    """Pictures with mean 0 and deviation 1, each for itself over all its values, as float32.

    >>> import feedline as fl, numpy as np
    >>> fl.image.per_image_standardization(np.array([[[0], [2]]], np.uint8)).reshape(-1).tolist()
    [-1.0, 1.0]

    The deviation counts as at least one over the root of the number of values, so that a picture of one
    colour becomes zeros.
    """
    return call("image.per_image_standardization", [pixels(image)])


def normalize(
    image: Any,
    mean: Any,
    std: Any,
    scale: float = 1 / 255,
    data_format: str = "channels_last",
    dtype: Any = float32,
) -> Any:
    """`(x * scale - mean) / std` for each channel: what networks are trained on, from uint8 or floats.

    >>> import feedline as fl, numpy as np
    >>> x = np.array([[[0, 255]]], np.uint8)
    >>> fl.image.normalize(x, mean=[0.5, 0.5], std=[0.5, 0.25]).tolist()
    [[[-1.0, 2.0]]]

    Args:
        image: Height x width x channels, or a batch of such.
        mean: A number for each channel, or one for all, in units of `x * scale`.
        std: The same.
        scale: What values are multiplied with first: 1/255 for uint8 and for floats from 0 to 255, as
            `resize` gives them; 1 for floats from 0 to 1.
        data_format: The order of the result: "channels_last", or "channels_first" (as PyTorch wants it).
        dtype: float32, float16 or bfloat16.
    """
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f'data_format must be "channels_last" or "channels_first", not {data_format!r}')
    return call(
        "image.normalize",
        [pixels(image)],
        mean=np.asarray(mean, np.float64),
        std=np.asarray(std, np.float64),
        scale=float(scale),
        channels_first=True if data_format == "channels_first" else None,
        dtype=as_dtype(dtype),
    )


def rgb_to_grayscale(images: Any, name: str | None = None) -> Any:
    """How bright pixels are, as the only channel.

    >>> import feedline as fl, numpy as np
    >>> fl.image.rgb_to_grayscale(np.array([[[255, 0, 0]]], np.uint8)).tolist()
    [[[76]]]
    """
    return call("image.rgb_to_grayscale", [pixels(images)])


def grayscale_to_rgb(images: Any, name: str | None = None) -> Any:
    """The only channel three times.

    >>> import feedline as fl, numpy as np
    >>> fl.image.grayscale_to_rgb(np.array([[[7]]], np.uint8)).tolist()
    [[[7, 7, 7]]]
    """
    return call("image.grayscale_to_rgb", [pixels(images)])


def rgb_to_hsv(images: Any, name: str | None = None) -> Any:
    """Red, green and blue as hue, saturation and value, all floats from 0 to 1.

    >>> import feedline as fl, numpy as np
    >>> fl.image.rgb_to_hsv(np.array([0.0, 0.5, 0.0], np.float32)).round(3).tolist()
    [0.3330000042915344, 1.0, 0.5]
    """
    return call("image.rgb_to_hsv", [pixels(images)])


def hsv_to_rgb(images: Any, name: str | None = None) -> Any:
    """Hue, saturation and value as red, green and blue, all floats from 0 to 1."""
    return call("image.hsv_to_rgb", [pixels(images)])


def rgb_to_yuv(images: Any, name: str | None = None) -> Any:
    """Red, green and blue as brightness and two differences of colour (PAL), all floats."""
    return call("image.rgb_to_yuv", [pixels(images)])


def yuv_to_rgb(images: Any, name: str | None = None) -> Any:
    """The inverse of `rgb_to_yuv`."""
    return call("image.yuv_to_rgb", [pixels(images)])


def rgb_to_yiq(images: Any, name: str | None = None) -> Any:
    """Red, green and blue as brightness and two differences of colour (NTSC), all floats."""
    return call("image.rgb_to_yiq", [pixels(images)])


def yiq_to_rgb(images: Any, name: str | None = None) -> Any:
    """The inverse of `rgb_to_yiq`."""
    return call("image.yiq_to_rgb", [pixels(images)])


def gaussian_blur(image: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Each pixel as a weighted mean of those around it, with torchvision's weights; edges are mirrored.

    >>> import feedline as fl, numpy as np
    >>> fl.image.gaussian_blur(np.array([[[0], [255], [0]]], np.uint8), (3, 1), 1.0).reshape(-1).tolist()
    [140, 115, 140]

    Args:
        image: Height x width x channels, or a batch of such.
        kernel_size: How many pixels count, an odd number; two of them are those along the width and along the
            height.
        sigma: How wide the weights are, one number or two (width, height). It may be symbolic. Without it,
            `0.15 * kernel_size + 0.35`.
    """
    if symbolic(sigma):
        return call("image.gaussian_blur", [pixels(image), sigma], kernel_size=kernel_size)
    return call("image.gaussian_blur", [pixels(image)], kernel_size=kernel_size, sigma=sigma)
