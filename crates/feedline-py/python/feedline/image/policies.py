"""Augmentation policies: RandAugment, TrivialAugment and AutoAugment, with the operations, ranges and choices
of torchvision, and the pixels of Pillow.

A policy is called on a uint8 picture of 1 or 3 channels, or on a batch of them, in a dataset:

>>> import feedline as fl, numpy as np
>>> pictures = np.zeros((4, 8, 8, 3), np.uint8)
>>> ds = fl.Dataset.from_tensor_slices(pictures).map(fl.image.RandAugment(magnitude=9)).batch(4)
>>> next(iter(ds)).shape
(4, 8, 8, 3)

Each picture draws its own operations. They follow from the seed and the position of the element, whatever the
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import ops, random
from ..calls import call, symbolic
from ..dtypes import float64, int64
from ..lazy_numpy import np
from ..params import integer

__all__ = ["AutoAugment", "RandAugment", "TrivialAugmentWide", "augment"]

OPERATIONS = (
    "Identity",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "AutoContrast",
    "Equalize",
    "Invert",
)
"""What `augment` can do. The order is that of the compiled part."""

SIGNED = frozenset(OPERATIONS[1:10])
"""The operations that go both ways."""

Fill = float | Sequence[float] | None


def augment(images: Any, op: Any, magnitude: Any = 0.0, fill: Fill = None) -> Any:
    """One operation of the policies on uint8 pictures.

    >>> import feedline as fl, numpy as np
    >>> fl.image.augment(np.full((1, 2, 1), 40, np.uint8), "Brightness", 0.5).reshape(-1).tolist()
    [60, 60]

    Args:
        images: A picture of 1 or 3 channels, or a batch of them.
        op: The name of the operation: Identity, ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness,
            Color, Contrast, Sharpness, Posterize, Solarize, AutoContrast, Equalize, Invert; or its number in
            this list, which may be symbolic, and one for each picture of a batch.
        magnitude: How much: columns a row or rows a column (Shear), pixels (Translate), degrees (Rotate),
            what is added to a factor of 1 (Brightness to Sharpness), bits (Posterize), a value (Solarize).
        fill: What stands where the picture was moved away: one value, or one a channel.
    """
    if isinstance(op, str):
        if op not in OPERATIONS:
            raise ValueError(f"there is no operation {op!r}; there are {', '.join(OPERATIONS)}")
        op = OPERATIONS.index(op)
    number = op if symbolic(op) else np.asarray(op, np.int64)
    amount = magnitude if symbolic(magnitude) else np.asarray(magnitude, np.float64)
    values = [0] if fill is None else [int(value) for value in np.atleast_1d(np.asarray(fill))]
    return call("image.augment", [images, number, amount], fill=values)


@dataclass(frozen=True)
class _Space:
    """Operations to choose from, each with its magnitudes.

    Attributes:
        numbers: Their numbers in `OPERATIONS`.
        magnitudes: Operation x step.
        signed: Whether each goes both ways.
        sides: What magnitudes count in: 0 as they are, 1 parts of the width, 2 parts of the height.
    """

    numbers: Any
    magnitudes: Any
    signed: Any
    sides: Any

    @classmethod
    def of(
        cls, steps: int, names: Sequence[str], *, most: dict[str, float], bits: int, relative: bool
    ) -> _Space:
        """The space of a policy: magnitudes go from nothing to the most."""
        if steps < 2:
            raise ValueError(f"num_magnitude_bins must be at least 2, not {steps}")
        rows = []
        for name in names:
            if name == "Posterize":
                rows.append(8 - np.round(np.arange(steps) / ((steps - 1) / bits)))
            elif name == "Solarize":
                rows.append(np.linspace(255.0, 0.0, steps))
            else:
                rows.append(np.linspace(0.0, most.get(name, 0.0), steps))
        side = {"TranslateX": 1, "TranslateY": 2} if relative else {}
        return cls(
            np.array([OPERATIONS.index(name) for name in names], np.int64),
            np.array(rows, np.float64),
            np.array([name in SIGNED for name in names]),
            np.array([side.get(name, 0) for name in names], np.int64),
        )

    def apply(self, images: Any, place: Any, step: Any, back: Any, fill: Fill, skip: Any = None) -> Any:
        """The operations at these places, in these steps; the other way where `back` holds.

        Args:
            images: A picture, or a batch with a place, a step, ... for each.
            place: Which operation of the space.
            step: Which of its magnitudes.
            back: Whether it goes the other way, if it goes both ways.
            fill: What stands where pictures were moved away.
            skip: Where nothing is done.
        """
        magnitude = ops.gather(self.magnitudes.reshape(-1), place * self.magnitudes.shape[1] + step)
        if self.sides.any():
            sizes = ops.cast(ops.shape(images, int64), float64)
            axes = len(images.shape)
            sides = ops.stack([np.float64(1), sizes[axes - 2], sizes[axes - 3]])
            magnitude = magnitude * ops.gather(sides, ops.gather(self.sides, place))
        turned = ops.logical_and(back, ops.gather(self.signed, place))
        magnitude = ops.where(turned, -magnitude, magnitude)
        number = ops.gather(self.numbers, place)
        if skip is not None:
            number = ops.where(skip, np.int64(0), number)
        return augment(images, number, magnitude, fill)


def _each(images: Any) -> Any:
    """The shape of what is drawn: one number for a picture, n for a batch of n."""
    shape = getattr(images, "shape", None)
    if shape is None or len(shape) not in (3, 4):
        raise ValueError(
            f"a policy expects a picture of 3 axes, or a batch of them, not shape {shape}; if it is not "
            "known, say it with fl.ensure_shape"
        )
    if len(shape) == 3:
        return []
    return [ops.shape(images, int64)[0] if shape[0] is None else shape[0]]


_WITHOUT_INVERT = OPERATIONS[:-1]
_LEARNED = dict.fromkeys(("ShearX", "ShearY"), 0.3) | dict.fromkeys(OPERATIONS[6:10], 0.9)
_LEARNED |= {"Rotate": 30.0} | dict.fromkeys(("TranslateX", "TranslateY"), 150 / 331)
_WIDE = dict.fromkeys((*OPERATIONS[1:3], *OPERATIONS[6:10]), 0.99)
_WIDE |= {"Rotate": 135.0} | dict.fromkeys(("TranslateX", "TranslateY"), 32.0)


class RandAugment:
    """Some operations at random, all of one strength (Cubuk et al., 2019).

    Args:
        num_ops: How many operations, one after the other.
        magnitude: How strong, from 0 up to, but without, `num_magnitude_bins`.
        num_magnitude_bins: How many steps of strength there are.
        fill: What stands where a picture was moved away: one value, or one a channel; 0 by default.
        seed: Makes the choices reproducible.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        fill: Fill = None,
        seed: int | None = None,
    ) -> None:
        if integer("RandAugment", "num_ops", num_ops) < 0:
            raise ValueError(f"RandAugment: num_ops must not be negative, but is {num_ops}")
        if not 0 <= integer("RandAugment", "magnitude", magnitude) < num_magnitude_bins:
            raise ValueError(
                f"RandAugment: magnitude must lie between 0 and {num_magnitude_bins - 1}, not {magnitude}"
            )
        self.num_ops, self.magnitude, self.fill, self.seed = num_ops, magnitude, fill, seed
        self._space = _Space.of(num_magnitude_bins, _WITHOUT_INVERT, most=_LEARNED, bits=4, relative=True)

    def __call__(self, images: Any) -> Any:
        """The picture, or each of a batch, changed at random."""
        each = _each(images)
        for _ in range(self.num_ops):
            place = random.integers(0, len(_WITHOUT_INVERT), each, seed=self.seed)
            back = random.bernoulli(each, seed=self.seed)
            images = self._space.apply(images, place, self.magnitude, back, self.fill)
        return images


class TrivialAugmentWide:
    """One operation at random, of random strength (Müller and Hutter, 2021).

    Args:
        num_magnitude_bins: How many steps of strength there are.
        fill: What stands where a picture was moved away: one value, or one a channel; 0 by default.
        seed: Makes the choices reproducible.
    """

    def __init__(self, num_magnitude_bins: int = 31, fill: Fill = None, seed: int | None = None) -> None:
        self.num_magnitude_bins, self.fill, self.seed = num_magnitude_bins, fill, seed
        self._space = _Space.of(num_magnitude_bins, _WITHOUT_INVERT, most=_WIDE, bits=6, relative=False)

    def __call__(self, images: Any) -> Any:
        """The picture, or each of a batch, changed at random."""
        each = _each(images)
        place = random.integers(0, len(_WITHOUT_INVERT), each, seed=self.seed)
        step = random.integers(0, self.num_magnitude_bins, each, seed=self.seed)
        back = random.bernoulli(each, seed=self.seed)
        return self._space.apply(images, place, step, back, self.fill)


class AutoAugment:
    """Pairs of operations that were learned for a data set (Cubuk et al., 2018); one pair at random.

    Args:
        policy: "imagenet", "cifar10" or "svhn".
        fill: What stands where a picture was moved away: one value, or one a channel; 0 by default.
        seed: Makes the choices reproducible.
    """

    def __init__(self, policy: str = "imagenet", fill: Fill = None, seed: int | None = None) -> None:
        name = str(getattr(policy, "value", policy)).lower()
        if name not in LEARNED:
            raise ValueError(f"AutoAugment: policy must be one of {', '.join(LEARNED)}, not {policy!r}")
        self.policy, self.fill, self.seed = name, fill, seed
        columns: tuple[Callable[[str], Any], ...] = (OPERATIONS.index, float, int)
        pairs = [[step.split() for step in line.split("|")] for line in LEARNED[name].strip().splitlines()]
        self._places, self._likely, self._steps = (
            np.array([[convert(step[i]) for step in pair] for pair in pairs])
            for i, convert in enumerate(columns)
        )
        self._space = _Space.of(10, OPERATIONS, most=_LEARNED, bits=4, relative=True)

    def __call__(self, images: Any) -> Any:
        """The picture, or each of a batch, changed at random."""
        each = _each(images)
        pair = random.integers(0, len(self._places), each, seed=self.seed)
        for second in range(2):
            place, likely, step = (
                ops.gather(table[:, second], pair) for table in (self._places, self._likely, self._steps)
            )
            skip = random.uniform(each, dtype=float64, seed=self.seed) > likely
            back = random.bernoulli(each, seed=self.seed)
            images = self._space.apply(images, place, step, back, self.fill, skip)
        return images


LEARNED = {
    "imagenet": """
Posterize .4 8 | Rotate .6 9
Solarize .6 5 | AutoContrast .6 0
Equalize .8 0 | Equalize .6 0
Posterize .6 7 | Posterize .6 6
Equalize .4 0 | Solarize .2 4
Equalize .4 0 | Rotate .8 8
Solarize .6 3 | Equalize .6 0
Posterize .8 5 | Equalize 1 0
Rotate .2 3 | Solarize .6 8
Equalize .6 0 | Posterize .4 6
Rotate .8 8 | Color .4 0
Rotate .4 9 | Equalize .6 0
Equalize 0 0 | Equalize .8 0
Invert .6 0 | Equalize 1 0
Color .6 4 | Contrast 1 8
Rotate .8 8 | Color 1 2
Color .8 8 | Solarize .8 7
Sharpness .4 7 | Invert .6 0
ShearX .6 5 | Equalize 1 0
Color .4 0 | Equalize .6 0
Equalize .4 0 | Solarize .2 4
Solarize .6 5 | AutoContrast .6 0
Invert .6 0 | Equalize 1 0
Color .6 4 | Contrast 1 8
Equalize .8 0 | Equalize .6 0
""",
    "cifar10": """
Invert .1 0 | Contrast .2 6
Rotate .7 2 | TranslateX .3 9
Sharpness .8 1 | Sharpness .9 3
ShearY .5 8 | TranslateY .7 9
AutoContrast .5 0 | Equalize .9 0
ShearY .2 7 | Posterize .3 7
Color .4 3 | Brightness .6 7
Sharpness .3 9 | Brightness .7 9
Equalize .6 0 | Equalize .5 0
Contrast .6 7 | Sharpness .6 5
Color .7 7 | TranslateX .5 8
Equalize .3 0 | AutoContrast .4 0
TranslateY .4 3 | Sharpness .2 6
Brightness .9 6 | Color .2 8
Solarize .5 2 | Invert 0 0
Equalize .2 0 | AutoContrast .6 0
Equalize .2 0 | Equalize .6 0
Color .9 9 | Equalize .6 0
AutoContrast .8 0 | Solarize .2 8
Brightness .1 3 | Color .7 0
Solarize .4 5 | AutoContrast .9 0
TranslateY .9 9 | TranslateY .7 9
AutoContrast .9 0 | Solarize .8 3
Equalize .8 0 | Invert .1 0
TranslateY .7 9 | AutoContrast .9 0
""",
    "svhn": """
ShearX .9 4 | Invert .2 0
ShearY .9 8 | Invert .7 0
Equalize .6 0 | Solarize .6 6
Invert .9 0 | Equalize .6 0
Equalize .6 0 | Rotate .9 3
ShearX .9 4 | AutoContrast .8 0
ShearY .9 8 | Invert .4 0
ShearY .9 5 | Solarize .2 6
Invert .9 0 | AutoContrast .8 0
Equalize .6 0 | Rotate .9 3
ShearX .9 4 | Solarize .3 3
ShearY .8 8 | Invert .7 0
Equalize .9 0 | TranslateY .6 6
Invert .9 0 | Equalize .6 0
Contrast .3 3 | Rotate .8 4
Invert .8 0 | TranslateY 0 2
ShearY .7 6 | Solarize .4 8
Invert .6 0 | Rotate .8 4
ShearY .3 7 | TranslateX .9 3
ShearX .1 6 | Invert .6 0
Solarize .7 2 | TranslateY .6 7
ShearY .8 4 | Invert .8 0
ShearX .7 9 | TranslateY .8 3
ShearY .8 5 | AutoContrast .7 0
ShearX .7 2 | Invert .1 0
""",
}
"""The learned pairs: operation, probability, and the step of its magnitude out of ten."""
