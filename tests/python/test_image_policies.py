"""Augmentation policies: pixels of Pillow, choices by position, batches mixed with themselves."""

from __future__ import annotations

from typing import Any

import feedline as fl
import numpy as np
import pytest
from feedline.image import policies
from PIL import Image, ImageEnhance, ImageOps


def photo(seed: int, height: int = 23, width: int = 31) -> Any:
    """Smooth colours with some noise, not using all values."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(y / a + x / b) for a, b in rng.uniform(2, 9, (3, 2))]
    smooth = 110 + 70 * np.stack(waves, axis=-1) + rng.normal(0, 8, (height, width, 3))
    return np.clip(smooth, 5, 240).astype(np.uint8)


def by_pillow(picture: Any, op: str, magnitude: float, fill: int) -> Any:
    grey = picture.shape[-1] == 1
    given = Image.fromarray(picture[..., 0] if grey else picture)
    enhance = {
        "Brightness": ImageEnhance.Brightness,
        "Color": ImageEnhance.Color,
        "Contrast": ImageEnhance.Contrast,
        "Sharpness": ImageEnhance.Sharpness,
    }
    moves = {
        "ShearX": (1, magnitude, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, magnitude, 1, 0),
        "TranslateX": (1, 0, -int(magnitude), 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, -int(magnitude)),
    }
    colour = fill if grey else (fill,) * 3
    if op in enhance:
        made = enhance[op](given).enhance(1 + magnitude)
    elif op in moves:
        made = given.transform(given.size, Image.Transform.AFFINE, moves[op], fillcolor=colour)
    else:
        made = {
            "Identity": lambda: given,
            "Rotate": lambda: given.rotate(magnitude, fillcolor=colour),
            "Posterize": lambda: ImageOps.posterize(given, int(magnitude)),
            "Solarize": lambda: ImageOps.solarize(given, magnitude),
            "AutoContrast": lambda: ImageOps.autocontrast(given),
            "Equalize": lambda: ImageOps.equalize(given),
            "Invert": lambda: ImageOps.invert(given),
        }[op]()
    return np.asarray(made).reshape(picture.shape)


MAGNITUDES = {
    "ShearX": [0.3, -0.99, 0.01],
    "ShearY": [0.3, -0.99, 0.01],
    "TranslateX": [3.9, -7.0, 100.0],
    "TranslateY": [3.9, -7.0, 100.0],
    "Rotate": [30.0, -135.0, 90.0, 180.0, 0.5],
    "Brightness": [0.9, -0.9, 0.33],
    "Color": [0.9, -0.9, 0.33],
    "Contrast": [0.9, -0.9, 0.33],
    "Sharpness": [0.9, -0.9, 0.33],
    "Posterize": [1, 4, 8],
    "Solarize": [0.0, 128.0, 99.5, 256.0],
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("op", policies.OPERATIONS)
def test_pixels_of_pillow(op: str, channels: int) -> None:
    for seed, magnitude in enumerate(MAGNITUDES.get(op, [0.0, 0.0])):
        for shape in ((23, 31), (40, 40), (2, 2)):
            picture = photo(seed, *shape)[..., :channels]
            ours = fl.image.augment(picture, op, magnitude, fill=17)
            assert np.array_equal(ours, by_pillow(picture, op, magnitude, 17)), (magnitude, shape)


def test_flat_pictures() -> None:
    flat = np.full((4, 4, 3), 77, np.uint8)
    for op in ("AutoContrast", "Equalize"):
        assert np.array_equal(fl.image.augment(flat, op), by_pillow(flat, op, 0, 0))


def test_operations_by_name_and_number() -> None:
    picture = photo(1)
    for number, name in enumerate(policies.OPERATIONS):
        by_number = fl.image.augment(picture, number, 0.5)
        assert np.array_equal(by_number, fl.image.augment(picture, name, 0.5)), name
    with pytest.raises(ValueError, match="Blur"):
        fl.image.augment(picture, "Blur")
    with pytest.raises(ValueError, match="uint8"):
        fl.image.augment(picture.astype(np.float32), "Invert")


POLICIES = {
    "rand": lambda: fl.image.RandAugment(2, 9, seed=5),
    "trivial": lambda: fl.image.TrivialAugmentWide(seed=5),
    "imagenet": lambda: fl.image.AutoAugment(seed=5),
    "cifar10": lambda: fl.image.AutoAugment("cifar10", seed=5),
    "svhn": lambda: fl.image.AutoAugment("svhn", fill=[1, 2, 3], seed=5),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_choices_depend_on_position_only(policy: str) -> None:
    pictures = np.stack([photo(seed) for seed in range(24)])
    ds = fl.Dataset.from_tensor_slices(pictures).map(POLICIES[policy]())
    assert "python" not in ds.explain().lower()
    first = np.stack(list(ds.with_options(chunk_rows=1)))
    for options in ({"chunk_rows": 5}, {"cpu_budget": 1}, {}):
        again = (
            fl.Dataset.from_tensor_slices(pictures).map(POLICIES[policy]()).batch(8).with_options(**options)
        )
        assert np.array_equal(np.concatenate(list(again)), first), options
    changed = [not np.array_equal(a, b) for a, b in zip(first, pictures, strict=True)]
    assert sum(changed) > 12


def test_every_picture_of_a_batch_draws_for_itself() -> None:
    pictures = np.stack([photo(0)] * 32)
    ds = fl.Dataset.from_tensor_slices(pictures).batch(16).map(fl.image.RandAugment(1, 20, seed=3))
    assert ds.element_spec.shape == (None, 23, 31, 3)
    different = {picture.tobytes() for batch in ds for picture in batch}
    assert len(different) > 10


def test_random_strength_of_known_operations() -> None:
    """What RandAugment does to a picture is one of what its operations do."""
    picture = photo(4)
    steps = {
        "ShearX": 0.3, "ShearY": 0.3, "Rotate": 30.0, "Brightness": 0.9, "Color": 0.9, "Contrast": 0.9,
        "Sharpness": 0.9, "TranslateX": 150 / 331 * 31, "TranslateY": 150 / 331 * 23,
    }  # fmt: skip
    possible = {by_pillow(picture, op, 0, 0).tobytes() for op in ("Identity", "AutoContrast", "Equalize")}
    possible.add(by_pillow(picture, "Posterize", 8 - round(10 / (30 / 4)), 0).tobytes())
    possible.add(by_pillow(picture, "Solarize", 170, 0).tobytes())
    for op, most in steps.items():
        magnitude = np.linspace(0, most, 31)[10]
        possible |= {by_pillow(picture, op, sign * magnitude, 0).tobytes() for sign in (1, -1)}
    ds = fl.Dataset.from_tensors(picture).repeat(200).map(fl.image.RandAugment(1, 10, seed=1))
    drawn = {result.tobytes() for result in ds}
    assert drawn <= possible and len(drawn) > 18


def test_policies_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="between 0 and 30"):
        fl.image.RandAugment(magnitude=31)
    with pytest.raises(ValueError, match="imagenet, cifar10, svhn"):
        fl.image.AutoAugment("mnist")
    with pytest.raises(ValueError, match="at least 2"):
        fl.image.TrivialAugmentWide(1)
    with pytest.raises(ValueError, match="3 axes"):
        fl.Dataset.from_tensors(np.zeros(3, np.uint8)).map(fl.image.RandAugment())


def batches() -> Any:
    pictures = np.stack([np.full((6, 8, 3), value, np.uint8) for value in range(12)])
    labels = np.arange(12) % 4
    return fl.Dataset.from_tensor_slices((pictures, labels)).batch(4)


def test_mixup_blends_neighbours_and_labels_alike() -> None:
    ds = batches().map(lambda x, y: (x, y, *fl.image.mixup(x, y, 0.4, num_classes=4, seed=1)))
    assert "python" not in ds.explain().lower()
    shares = []
    for pictures, labels, mixed, shared in ds:
        share = shared[1][labels[1]]
        before = np.roll(pictures, 1, axis=0)
        assert np.allclose(mixed, share * pictures + (1 - share) * before, atol=1e-4)
        assert mixed.dtype == shared.dtype == np.float32
        assert np.allclose(shared, share * np.eye(4)[labels] + (1 - share) * np.eye(4)[np.roll(labels, 1)])
        shares.append(float(share))
    assert len(set(shares)) == 3
    assert [
        float(s[1].max()) for *_, s in ds.with_options(cpu_budget=1)
    ] != shares  # another pass, other shares


def test_cutmix_pastes_a_rectangle_and_counts_it() -> None:
    ds = batches().map(lambda x, y: (x, y, *fl.image.cutmix(x, fl.one_hot(y, 4), seed=3)))
    areas = []
    for pictures, labels, mixed, shared in ds.repeat(10):
        own = mixed == pictures
        assert (own | (mixed == np.roll(pictures, 1, axis=0))).all() and mixed.dtype == np.uint8
        foreign = ~own[0, :, :, 0]
        rows, columns = np.where(foreign.any(axis=1))[0], np.where(foreign.any(axis=0))[0]
        assert foreign.sum() == len(rows) * len(columns)
        assert all(np.diff(found).tolist() == [1] * (len(found) - 1) for found in (rows, columns))
        share = 1 - foreign.mean()
        before = np.eye(4)[np.roll(labels, 1)]
        assert np.allclose(shared, share * np.eye(4)[labels] + (1 - share) * before, atol=1e-6)
        areas.append(share)
    assert len(set(areas)) > 5


def test_mixing_needs_batches_and_classes() -> None:
    with pytest.raises(ValueError, match="num_classes"):
        batches().map(lambda x, y: fl.image.mixup(x, y))
    with pytest.raises(ValueError, match=r"after \.batch"):
        batches().unbatch().map(lambda x, y: fl.image.cutmix(x, y, num_classes=4))
    with pytest.raises(ValueError, match="positive"):
        batches().map(lambda x, y: fl.image.mixup(x, y, alpha=0, num_classes=4))
