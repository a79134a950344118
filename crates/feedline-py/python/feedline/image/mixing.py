"""Pictures of a batch mixed with each other, and their labels too: MixUp and CutMix."""

from __future__ import annotations

from typing import Any

from .. import ops, random
from ..calls import call, dtype_of, symbolic
from ..dtypes import float32, float64, int64
from ..lazy_numpy import np

__all__ = ["cutmix", "mixup"]


def mixup(
    images: Any, labels: Any, alpha: float = 0.2, num_classes: int | None = None, seed: int | None = None
) -> tuple[Any, Any]:
    """Each picture of a batch blended with the one before it, and their labels in the same shares.

    >>> import feedline as fl, numpy as np
    >>> ds = fl.Dataset.from_tensor_slices((np.zeros((6, 4, 4, 3), np.uint8), np.arange(6))).batch(3)
    >>> ds = ds.map(lambda images, labels: fl.image.mixup(images, labels, num_classes=6))
    >>> [(images.shape, labels.sum(axis=1).round(3).tolist()) for images, labels in ds]
    [((3, 4, 4, 3), [1.0, 1.0, 1.0]), ((3, 4, 4, 3), [1.0, 1.0, 1.0])]

    The share is drawn once a batch, from the beta distribution of `alpha` and `alpha` (Zhang et al., 2017).
    It follows from the seed and the position of the batch. Shuffle before `batch`: neighbours are mixed.

    Args:
        images: A batch of pictures, uint8 or float32. The result is float32.
        labels: Numbers of classes, or vectors of floats (one-hot or other shares).
        alpha: Small ones leave most pictures almost alone; 1 makes all shares equally likely.
        num_classes: How many classes there are, for numbers of classes.
        seed: Makes the shares reproducible.
    """
    shares = _vectors("mixup", labels, num_classes)
    images = _batch("mixup", images)
    share = _beta("mixup", alpha, seed)
    return call("image.blend_batch", [images, share]), _mixed(shares, share)


def cutmix(
    images: Any, labels: Any, alpha: float = 1.0, num_classes: int | None = None, seed: int | None = None
) -> tuple[Any, Any]:
    """Each picture of a batch with a rectangle of the one before it, and labels in the shares of their areas.

    >>> import feedline as fl, numpy as np
    >>> ds = fl.Dataset.from_tensor_slices((np.zeros((6, 4, 4, 3), np.uint8), np.arange(6))).batch(3)
    >>> ds = ds.map(lambda images, labels: fl.image.cutmix(images, labels, num_classes=6))
    >>> [(images.dtype, labels.shape) for images, labels in ds]
    [(dtype('uint8'), (3, 6)), (dtype('uint8'), (3, 6))]

    The rectangle is drawn once a batch: its centre anywhere, its area by the beta distribution of `alpha` and
    `alpha` (Yun et al., 2019). What lies outside of the picture is cut off, and does not count.

    Args:
        images: A batch of pictures, which keep their dtype.
        labels: Numbers of classes, or vectors of floats (one-hot or other shares).
        alpha: Of the distribution.
        num_classes: How many classes there are, for numbers of classes.
        seed: Makes the rectangles reproducible.
    """
    shares = _vectors("cutmix", labels, num_classes)
    images = _batch("cutmix", images)
    half = np.float64(0.5) * ops.sqrt(np.float64(1) - ops.cast(_beta("cutmix", alpha, seed), float64))
    sizes = ops.cast(ops.shape(images, int64)[1:3], float64)
    centre = ops.floor(random.uniform([2], dtype=float64, seed=seed) * sizes)
    reach = ops.floor(half * sizes)
    start, end = ops.maximum(centre - reach, np.float64(0)), ops.minimum(centre + reach, sizes)
    part = ops.cast(ops.concat([start, end - start], 0), int64)
    share = np.float64(1) - ops.reduce_prod((end - start) / sizes)
    return call("image.paste_batch", [images, part]), _mixed(shares, ops.cast(share, float32))


def _batch(op: str, images: Any) -> Any:
    images = images if symbolic(images) else np.asarray(images)
    if images.shape is not None and len(images.shape) != 4:
        raise ValueError(
            f"{op}: mixes pictures of a batch; map it after .batch(n), not on shape {images.shape}"
        )
    return images


def _beta(op: str, alpha: float, seed: int | None) -> Any:
    if not alpha > 0:
        raise ValueError(f"{op}: alpha must be positive, not {alpha}")
    return random.beta([], alpha, alpha, seed=seed)


def _vectors(op: str, labels: Any, num_classes: int | None) -> Any:
    """Labels as vectors of shares."""
    labels = labels if symbolic(labels) else np.asarray(labels)
    dtype, shape = dtype_of(labels), labels.shape
    assert dtype is not None
    if dtype.is_floating:
        return ops.cast(labels, float32)
    if num_classes is None:
        raise ValueError(
            f"{op}: labels are numbers of classes; say how many classes there are: num_classes=n"
        )
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        labels = ops.squeeze(labels, [1])
    return ops.one_hot(ops.cast(labels, int64), num_classes)


def _mixed(shares: Any, share: Any) -> Any:
    """The labels of each picture and of the one before it."""
    return shares * share + ops.roll(shares, 1, 0) * (np.float32(1) - share)
