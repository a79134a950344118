"""The random forms: each element draws its own numbers, the same for any number of threads.

`random_*` follow from a seed and from the position of the element (see `fl.random`); `stateless_random_*`
follow from a pair of seeds alone. One number is drawn for a call, also for a batch of pictures, except by the
flips and by `random_erasing`, which draw for each picture.
"""

from __future__ import annotations

from typing import Any

from .. import ops, random
from ..calls import call, call_here, call_parts_here, dtype_of, symbolic
from ..dtypes import float64, int64
from ..lazy_numpy import np
from .codecs import adjust_jpeg_quality
from .colour import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation, gaussian_blur
from .geometry import known_shape, pixels
from .resizing import ResizeMethod, resize

__all__ = [
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_erasing",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_gaussian_blur",
    "random_hue",
    "random_jpeg_quality",
    "random_resized_crop",
    "random_resized_crop_box",
    "random_saturation",
    "sample_distorted_bounding_box",
    "stateless_random_brightness",
    "stateless_random_contrast",
    "stateless_random_crop",
    "stateless_random_flip_left_right",
    "stateless_random_flip_up_down",
    "stateless_random_hue",
    "stateless_random_jpeg_quality",
    "stateless_random_saturation",
    "stateless_sample_distorted_bounding_box",
]


class _Place:
    """Numbers that follow from a seed and the element's position."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed

    def uniform(self, low: float, high: float) -> Any:
        return random.uniform((), low, high, seed=self.seed)

    def coins(self, shape: Any) -> Any:
        return random.bernoulli(shape, seed=self.seed)

    def integer(self, low: int, high: int) -> Any:
        return random.integers(low, high, seed=self.seed)

    def box(self, name: str, shape: Any, **attrs: Any) -> Any:
        return call_here(name, [shape], **random.source(self.seed), **attrs)


class _Pair:
    """Numbers that follow from a pair of seeds."""

    def __init__(self, seed: Any) -> None:
        self.seed = random.seed_pair(seed)

    def uniform(self, low: float, high: float) -> Any:
        return random.stateless_uniform((), self.seed, low, high)

    def coins(self, shape: Any) -> Any:
        return random.stateless_uniform(shape, self.seed) < np.float32(0.5)

    def integer(self, low: int, high: int) -> Any:
        return ops.cast(ops.floor(random.stateless_uniform((), self.seed, low, high, float64)), int64)

    def box(self, name: str, shape: Any, **attrs: Any) -> Any:
        return call(name, [shape, self.seed], **attrs)


_Numbers = _Place | _Pair


def _flipped(function: str, image: Any, numbers: _Numbers) -> Any:
    image = pixels(image)
    shape = known_shape(image)
    batch: Any = ()
    if shape is not None and len(shape) == 4:
        batch = (shape[0],) if shape[0] is not None else ops.shape(image)[:1]
    return call(function, [image, numbers.coins(batch)])


def random_flip_left_right(image: Any, seed: int | None = None) -> Any:
    """A picture as in a mirror, half of the time; each picture of a batch for itself.

    >>> import feedline as fl, numpy as np
    >>> x = np.arange(3).reshape(1, 3, 1)
    >>> ds = fl.Dataset.from_tensors(x).repeat(20).map(lambda x: fl.image.random_flip_left_right(x, seed=1))
    >>> sorted({tuple(y.ravel().tolist()) for y in ds})
    [(0, 1, 2), (2, 1, 0)]
    """
    return _flipped("image.flip_left_right", image, _Place(seed))


def random_flip_up_down(image: Any, seed: int | None = None) -> Any:
    """A picture upside down, half of the time; each picture of a batch for itself."""
    return _flipped("image.flip_up_down", image, _Place(seed))


def stateless_random_flip_left_right(image: Any, seed: Any) -> Any:
    """`random_flip_left_right` with a pair of seeds."""
    return _flipped("image.flip_left_right", image, _Pair(seed))


def stateless_random_flip_up_down(image: Any, seed: Any) -> Any:
    """`random_flip_up_down` with a pair of seeds."""
    return _flipped("image.flip_up_down", image, _Pair(seed))


def _cropped(value: Any, size: Any, numbers: _Numbers) -> Any:
    value = pixels(value)
    shape = known_shape(value)
    if not symbolic(size):
        size = np.asarray(size).reshape(-1)
        if size.dtype.kind not in "iu" or (size < 0).any():
            raise ValueError(f"size must be whole numbers that are not negative, not {size.tolist()}")
        sizes: list[int] = size.tolist()
        if shape is not None and len(sizes) != len(shape):
            raise ValueError(f"size has {len(sizes)} numbers for a tensor of {len(shape)} axes: {sizes}")
        for side, asked in zip(shape or [], sizes, strict=False):
            if side is not None and asked > side:
                raise ValueError(f"a crop of size {sizes} from a tensor of shape {tuple(shape or ())}")
        # Of a picture: a box, which can be known before the picture is.
        if shape is not None and len(shape) == 3 and shape[2] == sizes[2] and min(sizes) > 0:
            sides = sizes[:2]
            box = numbers.box("image.random_crop_box", ops.shape(value), size=sides)
            return call("image.crop", [value, box], size=sides)
    room = ops.cast(ops.shape(value), int64) - ops.cast(size, int64)
    offset = numbers.box("image.random_crop_offset", room)
    part = ops.slice(value, offset, size)
    return part if symbolic(size) else ops.ensure_shape(part, size.tolist())


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Any:
    """A block of a tensor of any rank, anywhere in it.

    >>> import feedline as fl, numpy as np
    >>> ds = fl.Dataset.from_tensors(np.zeros((9, 8, 3), np.uint8))
    >>> ds.map(lambda x: fl.image.random_crop(x, (4, 5, 3))).element_spec.shape
    (4, 5, 3)

    Args:
        value: A picture or any other tensor.
        size: The size along each axis, channels included.
        seed: Makes the crops reproducible.
        name: Not used.

    Raises:
        ValueError: The tensor is smaller. Where that is not known before data flows, it is an error of the
            element.
    """
    return _cropped(value, size, _Place(seed))


def stateless_random_crop(value: Any, size: Any, seed: Any, name: str | None = None) -> Any:
    """`random_crop` with a pair of seeds."""
    return _cropped(value, size, _Pair(seed))


def random_resized_crop_box(
    shape: Any, scale: Any = (0.08, 1.0), ratio: Any = (3 / 4, 4 / 3), seed: int | None = None
) -> Any:
    """The box of `random_resized_crop` for a picture of a given shape: int32 [y, x, height, width].

    >>> import feedline as fl
    >>> y, x, height, width = fl.image.random_resized_crop_box((300, 400, 3), seed=1)
    >>> bool(y + height <= 300 and x + width <= 400)
    True

    The pixels need not be there: `fl.image.extract_jpeg_shape` and `fl.image.decode_and_crop_jpeg` make a
    crop of a part that alone is decoded.

    Args:
        shape: [height, width] or [height, width, channels].
        scale: The range of the share of the area, each part equally likely.
        ratio: The range of the ratio of width to height; its logarithm is equally likely everywhere.
        seed: Makes the boxes reproducible.
    """
    return _resized_crop_box(shape, scale, ratio, _Place(seed))


def _resized_crop_box(shape: Any, scale: Any, ratio: Any, numbers: _Numbers) -> Any:
    scale, ratio = ([float(x) for x in pair] for pair in (scale, ratio))
    if not symbolic(shape):
        shape = np.asarray(shape)
    return numbers.box("image.random_resized_crop_box", shape, scale=scale, ratio=ratio)


def random_resized_crop(
    image: Any,
    size: Any,
    scale: Any = (0.08, 1.0),
    ratio: Any = (3 / 4, 4 / 3),
    interpolation: str = ResizeMethod.BILINEAR,
    antialias: bool = True,
    seed: int | None = None,
) -> Any:
    """A part of a picture, of random size and place, in a fixed size: the usual augmentation of ImageNet.

    >>> import feedline as fl, numpy as np
    >>> ds = fl.Dataset.from_tensors(np.zeros((300, 400, 3), np.uint8))
    >>> ds.map(lambda x: fl.image.random_resized_crop(x, (224, 224))).element_spec
    TensorSpec(shape=(224, 224, 3), dtype=fl.float32)

    The box is drawn as torchvision draws it: ten attempts, then the largest one in the middle whose ratio is
    allowed.

    Args:
        image: Height x width x channels, or a batch of such, which all get the same box.
        size: Height and width of the result, or one number for both.
        scale: The range of the share of the picture's area.
        ratio: The range of the ratio of width to height.
        interpolation: The method of `resize`.
        antialias: Averages where pixels become fewer, as torchvision does it.
        seed: Makes the crops reproducible.

    Returns:
        float32 with the values of the picture, as `resize` gives them; "nearest" keeps the dtype.
    """
    image = pixels(image)
    box = _resized_crop_box(ops.shape(image), scale, ratio, _Place(seed))
    part = call("image.crop", [image, box])
    sides = [size, size] if isinstance(size, (int, np.integer)) else size
    return resize(part, sides, interpolation, antialias=antialias)


def _check_range(lower: float, upper: float) -> None:
    if not 0 <= lower < upper:
        raise ValueError(f"lower must not be negative and less than upper, but they are {lower} and {upper}")


def _check_delta(max_delta: float, most: float) -> None:
    if not 0 <= max_delta <= most:
        bound = f"between 0 and {most}" if most < float("inf") else "not negative"
        raise ValueError(f"max_delta must be {bound}, but is {max_delta}")


def _brightness(image: Any, max_delta: float, numbers: _Numbers) -> Any:
    _check_delta(max_delta, float("inf"))
    return adjust_brightness(image, numbers.uniform(-max_delta, max_delta)) if max_delta else pixels(image)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """`adjust_brightness` by a number from `-max_delta` to `max_delta`.

    >>> import feedline as fl, numpy as np
    >>> x = fl.image.random_brightness(np.full((2, 2, 3), 100, np.uint8), 0.1, seed=3)
    >>> len(set(x.ravel().tolist())), bool(abs(int(x[0, 0, 0]) - 100) <= 26)
    (1, True)
    """
    return _brightness(image, max_delta, _Place(seed))


def stateless_random_brightness(image: Any, max_delta: float, seed: Any) -> Any:
    """`random_brightness` with a pair of seeds."""
    return _brightness(image, max_delta, _Pair(seed))


def _contrast(image: Any, lower: float, upper: float, numbers: _Numbers) -> Any:
    _check_range(lower, upper)
    return adjust_contrast(image, numbers.uniform(lower, upper))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """`adjust_contrast` by a factor from `lower` to `upper`."""
    return _contrast(image, lower, upper, _Place(seed))


def stateless_random_contrast(image: Any, lower: float, upper: float, seed: Any) -> Any:
    """`random_contrast` with a pair of seeds."""
    return _contrast(image, lower, upper, _Pair(seed))


def _saturation(image: Any, lower: float, upper: float, numbers: _Numbers) -> Any:
    _check_range(lower, upper)
    return adjust_saturation(image, numbers.uniform(lower, upper))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Any:
    """`adjust_saturation` by a factor from `lower` to `upper`."""
    return _saturation(image, lower, upper, _Place(seed))


def stateless_random_saturation(image: Any, lower: float, upper: float, seed: Any) -> Any:
    """`random_saturation` with a pair of seeds."""
    return _saturation(image, lower, upper, _Pair(seed))


def _hue(image: Any, max_delta: float, numbers: _Numbers) -> Any:
    _check_delta(max_delta, 0.5)
    return adjust_hue(image, numbers.uniform(-max_delta, max_delta)) if max_delta else pixels(image)


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Any:
    """`adjust_hue` by a number from `-max_delta` to `max_delta`, which is at most 0.5."""
    return _hue(image, max_delta, _Place(seed))


def stateless_random_hue(image: Any, max_delta: float, seed: Any) -> Any:
    """`random_hue` with a pair of seeds."""
    return _hue(image, max_delta, _Pair(seed))


def _jpeg_quality(image: Any, least: int, most: int, numbers: _Numbers) -> Any:
    if not 0 <= least < most <= 100:
        raise ValueError(f"qualities must lie between 0 and 100 in order, but they are {least} and {most}")
    return adjust_jpeg_quality(image, numbers.integer(least, most))


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Any:
    """`adjust_jpeg_quality` by a quality from `min_jpeg_quality` up to, but without, `max_jpeg_quality`."""
    return _jpeg_quality(image, min_jpeg_quality, max_jpeg_quality, _Place(seed))


def stateless_random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any) -> Any:
    """`random_jpeg_quality` with a pair of seeds."""
    return _jpeg_quality(image, min_jpeg_quality, max_jpeg_quality, _Pair(seed))


def random_gaussian_blur(
    image: Any, kernel_size: Any, sigma: tuple[float, float] = (0.1, 2.0), seed: int | None = None
) -> Any:
    """`gaussian_blur` with a sigma drawn from a range, as torchvision's `GaussianBlur` does it.

    >>> import feedline as fl, numpy as np
    >>> fl.image.random_gaussian_blur(np.zeros((8, 8, 3), np.uint8), 5).shape
    (8, 8, 3)

    Args:
        image: Height x width x channels, or a batch of such.
        kernel_size: How many pixels count, an odd number; two of them are those along the width and along the
            height.
        sigma: The smallest and the largest sigma.
        seed: Makes the blur reproducible.
    """
    low, high = (float(x) for x in sigma)
    if not 0 < low <= high:
        raise ValueError(f"sigma must be two numbers above 0 in order, not {sigma!r}")
    return gaussian_blur(image, kernel_size, low if low == high else _Place(seed).uniform(low, high))


def random_erasing(
    image: Any,
    p: float = 0.5,
    scale: tuple[float, float] = (0.02, 0.33),
    ratio: tuple[float, float] = (0.3, 3.3),
    value: Any = 0,
    seed: int | None = None,
) -> Any:
    """Wipes out a rectangle of a picture, as torchvision's `RandomErasing` does it; one of each picture of a
    batch.

    >>> import feedline as fl, numpy as np
    >>> x = fl.image.random_erasing(np.ones((20, 20, 3), np.float32), p=1, seed=1)
    >>> bool(0 < (x == 0).sum() < 600)
    True

    Args:
        image: Height x width x channels, or a batch of such.
        p: How likely it is done at all.
        scale: The range of the share of the picture's area.
        ratio: The range of the ratio of height to width.
        value: What is written: a number, one for each channel, or "random" for noise with a normal
            distribution.
        seed: Makes the rectangles reproducible.
    """
    noise = isinstance(value, str)
    if noise and value != "random":
        raise ValueError(f'value must be a number, one for each channel, or "random", not {value!r}')
    return call_here(
        "image.random_erasing",
        [pixels(image)],
        **random.source(seed),
        p=float(p),
        scale=[float(x) for x in scale],
        ratio=[float(x) for x in ratio],
        value=None if noise else np.asarray(value, np.float64),
    )


def _distorted(
    image_size: Any,
    bounding_boxes: Any,
    seeds: list[Any],
    source: dict[str, int],
    min_object_covered: Any,
    aspect_ratio_range: Any,
    area_range: Any,
    max_attempts: int | None,
    use_image_if_no_bounding_boxes: bool | None,
) -> tuple[Any, Any, Any]:
    size = np.asarray(image_size, np.int32) if dtype_of(image_size) is None else image_size
    boxes = np.asarray(bounding_boxes, np.float32) if dtype_of(bounding_boxes) is None else bounding_boxes
    begin, extent, edges = call_parts_here(
        "image.sample_distorted_bounding_box",
        [size, boxes, *seeds],
        **source,
        min_object_covered=float(min_object_covered),
        aspect_ratio_range=None if aspect_ratio_range is None else [float(x) for x in aspect_ratio_range],
        area_range=None if area_range is None else [float(x) for x in area_range],
        max_attempts=max_attempts,
        use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes or None,
    )
    return begin, extent, edges


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = 0,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """A box at random that covers enough of one of the objects in a picture.

    >>> import feedline as fl
    >>> objects = [[[0.1, 0.2, 0.5, 0.9]]]
    >>> begin, size, edges = fl.image.sample_distorted_bounding_box((60, 80, 3), objects, seed=1)
    >>> begin.shape, int(begin[2]), int(size[2]), edges.shape
    ((3,), 0, -1, (1, 1, 4))

    Args:
        image_size: [height, width, channels].
        bounding_boxes: 1 x n x 4 floats: [y_min, x_min, y_max, x_max] of the objects, from 0 to 1.
        seed: Makes the boxes reproducible; 0 and None are no seed.
        min_object_covered: The part of an object that must lie in the box.
        aspect_ratio_range: The range of the ratio of width to height; (0.75, 1.33) if it is not given.
        area_range: The range of the share of the picture's area; (0.05, 1) if it is not given.
        max_attempts: How often a box is drawn, 100 times if it is not given; then it is the whole picture.
        use_image_if_no_bounding_boxes: Takes the whole picture for the object if there is none; else that is
            an error.
        name: Not used.

    Returns:
        Where the box begins ([y, x, 0]) and its size ([height, width, -1]), for `fl.slice`, in the dtype of
        `image_size`; and the box as 1 x 1 x 4 floats like `bounding_boxes`.
    """
    return _distorted(
        image_size,
        bounding_boxes,
        [],
        random.source(seed or None),
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
    )


def stateless_sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """`sample_distorted_bounding_box` with a pair of seeds."""
    return _distorted(
        image_size,
        bounding_boxes,
        [random.seed_pair(seed)],
        {},
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
    )
