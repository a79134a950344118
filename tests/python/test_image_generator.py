"""`fl.preprocessing.ImageDataGenerator`, beyond what the golden cases have."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest

Generator = fl.preprocessing.ImageDataGenerator

EVERYTHING: dict[str, Any] = {
    "rotation_range": 25,
    "width_shift_range": 0.2,
    "height_shift_range": [0.1, 0.2],
    "shear_range": 10.0,
    "zoom_range": 0.3,
    "horizontal_flip": True,
    "vertical_flip": True,
    "channel_shift_range": 20.0,
    "brightness_range": (0.5, 1.5),
}


def photos(count: int, height: int = 9, width: int = 14) -> Any:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), np.uint8)


def test_changes_depend_on_position_only() -> None:
    pictures = photos(12).astype(np.float32)

    def dataset(**options: Any) -> Any:
        ds = fl.Dataset.from_tensor_slices(pictures)
        return ds.map(lambda x: Generator(**EVERYTHING).random_transform(x, seed=3)).with_options(**options)

    assert "python" not in dataset().explain().lower()
    first = np.stack(list(dataset(chunk_rows=1)))
    for options in ({"chunk_rows": 4}, {"cpu_budget": 1}, {"rewrite": False}):
        assert np.array_equal(np.stack(list(dataset(**options))), first), options
    ds = dataset()
    assert not np.array_equal(np.stack(list(ds)), np.stack(list(ds))), "another pass, other changes"
    assert all(not np.array_equal(a, b) for a, b in zip(first, pictures, strict=True))


def test_each_picture_of_a_batch_has_its_own_numbers() -> None:
    pictures = np.stack([photos(1)[0]] * 20)
    for dtype in (np.uint8, np.float32):
        ds = fl.Dataset.from_tensor_slices(pictures.astype(dtype)).batch(10)
        ds = ds.map(Generator(**EVERYTHING).random_transform)
        assert ds.element_spec == fl.TensorSpec((None, 9, 14, 3), fl.as_dtype(dtype))
        assert len({picture.tobytes() for batch in ds for picture in batch}) > 15


def test_numbers_for_each_picture_of_a_batch() -> None:
    pictures, generator = photos(4).astype(np.float32), Generator(fill_mode="reflect")
    numbers = [generator.get_random_transform((9, 14, 3), seed) for seed in range(4)]
    drawn = Generator(**EVERYTHING)
    numbers = [drawn.get_random_transform((9, 14, 3), seed) for seed in range(4)]
    apart = [generator.apply_transform(x, each) for x, each in zip(pictures, numbers, strict=True)]
    together = {name: np.array([each[name] for each in numbers], np.float64) for name in numbers[0]}
    ds = fl.Dataset.from_tensors((pictures, together)).map(generator.apply_transform)
    assert np.allclose(next(iter(ds)), apart, atol=1e-3)


def test_axes_are_right_unless_asked_otherwise() -> None:
    shape = (10, 200, 1)
    wide = {"width_shift_range": 0.5}
    drawn = Generator(**wide).get_random_transform(shape, seed=0)
    assert drawn["ty"] == 0 and 5 < abs(drawn["tx"]) <= 100
    drawn = Generator(**wide, compatible=True).get_random_transform(shape, seed=0)
    assert drawn["tx"] == 0 and abs(drawn["ty"]) > 0
    # A half turn around the centre is both flips.
    picture = np.arange(12, dtype=np.float32).reshape(3, 4, 1)
    turned = Generator().apply_transform(picture, {"theta": 180})
    assert np.allclose(turned, picture[::-1, ::-1], atol=1e-4)
    assert not np.allclose(
        Generator(compatible=True).apply_transform(picture, {"theta": 180}), turned, atol=0.5
    )


def test_traced_shifts_go_the_right_way() -> None:
    """A shift of whole columns leaves each row what it was; one of rows each column."""
    stripes = np.tile(np.arange(40, dtype=np.float32)[None, :, None], (6, 1, 1))
    for option, moved in (("width_shift_range", True), ("height_shift_range", False)):
        ds = fl.Dataset.from_tensors(stripes).repeat(10).map(Generator(**{option: 0.9}).random_transform)
        assert all(np.array_equal(x, stripes) != moved for x in ds)


def test_flips_alone_are_exact() -> None:
    pictures = photos(40)
    ds = fl.Dataset.from_tensor_slices(pictures).map(Generator(horizontal_flip=True).random_transform)
    kinds = [
        0 if np.array_equal(got, was) else 1 if np.array_equal(got, was[:, ::-1]) else 2
        for got, was in zip(ds, pictures, strict=True)
    ]
    assert 2 not in kinds and 8 < sum(kinds) < 32


def test_nothing_asked_is_nothing_done() -> None:
    pictures = photos(2)
    ds = fl.Dataset.from_tensor_slices(pictures).map(Generator().random_transform)
    assert np.array_equal(np.stack(list(ds)), pictures)
    assert np.array_equal(Generator().random_transform(pictures[0]), pictures[0])


def test_channels_first() -> None:
    picture, numbers = photos(1)[0].astype(np.float32), {"theta": 20, "tx": 1.5, "brightness": 0.5}
    first = Generator(data_format="channels_first").apply_transform(picture.transpose(2, 0, 1), numbers)
    assert np.array_equal(first.transpose(1, 2, 0), Generator().apply_transform(picture, numbers))
    drawn = Generator(data_format="channels_first", height_shift_range=0.5).get_random_transform(
        (3, 100, 2), 0
    )
    assert abs(drawn["ty"]) > 1


def test_brightness_of_values_that_are_no_bytes() -> None:
    picture = np.array([[[-10.0], [0.0], [290.0]]], np.float32)
    lit = Generator().apply_transform(picture, {"brightness": 0.5})
    # Levels 0, 8 and 255 become 0, 4 and 127.
    assert np.allclose(lit.reshape(-1), [-10, 4 / 255 * 300 - 10, 127 / 255 * 300 - 10])


def test_statistics_and_whitening() -> None:
    data = np.random.default_rng(1).normal(5, 3, (60, 2, 2, 3)).astype(np.float32)
    generator = Generator(featurewise_std_normalization=True)
    generator.fit(data)
    normal = np.stack(list(fl.Dataset.from_tensor_slices(data).map(generator.standardize)))
    assert np.allclose(normal.mean(axis=(0, 1, 2)), 0, atol=1e-4)
    assert np.allclose(normal.std(axis=(0, 1, 2)), 1, atol=1e-4)
    white = Generator(zca_whitening=True)
    white.fit(data)
    for made in (white.standardize(data), next(iter(fl.Dataset.from_tensors(data).map(white.standardize)))):
        flat = made.reshape(60, -1)
        assert np.allclose(flat.T @ flat / 60, np.eye(12), atol=1e-2)
    generator.fit(data, augment=True, rounds=2, seed=1)
    with pytest.raises(ValueError, match="first axis"):
        generator.fit(data[0])


def test_no_statistics_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "feedline"):
        Generator(featurewise_center=True).standardize(np.zeros((1, 1, 1), np.float32))
    assert "until fit(data)" in caplog.text


def test_a_function_of_the_user_is_traced() -> None:
    generator = Generator(preprocessing_function=lambda x: x[..., ::-1], rescale=2)
    ds = fl.Dataset.from_tensors(photos(1)[0]).map(generator)
    assert "python" not in ds.explain().lower()
    assert np.array_equal(next(iter(ds)), photos(1)[0][..., ::-1].astype(np.float32) * 2)


def test_flow_gives_all_of_a_pass() -> None:
    pictures, labels = photos(7), np.arange(7)
    weights = np.linspace(0, 1, 7)
    ds = Generator(**EVERYTHING).flow(pictures, labels, batch_size=3, sample_weight=weights)
    assert len(ds) == 3 and ds.element_spec[0].shape == (None, 9, 14, 3)
    passes = [np.concatenate([y for _, y, _ in ds]).tolist() for _ in range(4)]
    assert all(sorted(order) == labels.tolist() for order in passes) and len({*map(tuple, passes)}) > 1
    for refused, message in [
        ({"y": labels[:3]}, "different lengths"),
        ({"sample_weight": weights}, "needs y"),
        ({"save_to_dir": "x"}, "save_to_dir"),
        ({"subset": "validation"}, "leaves none"),
        ({"batch_size": 0}, "at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            Generator().flow(pictures, **refused)


def test_flow_from_folders(tmp_path: Path) -> None:
    for number, name in enumerate(["a/1.png", "a/2.png", "a/3.png", "a/4.png", "b/1.png", "b/2.png"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(fl.image.encode_png(np.full((4, 8, 3), number, np.uint8)))
    generator = Generator(validation_split=0.5)
    how: dict[str, Any] = {"target_size": (2, 2), "shuffle": False}
    held = generator.flow_from_directory(tmp_path, **how, subset="validation", class_mode="sparse")
    pictures, labels = next(iter(held))
    assert pictures[:, 0, 0, 0].tolist() == [0, 1, 4] and labels.tolist() == [0, 0, 1]
    assert held.class_indices == {"a": 0, "b": 1} and pictures.dtype == labels.dtype == np.float32
    rest = generator.flow_from_directory(tmp_path, **how, subset="training", class_mode="input")
    pictures, same = next(iter(rest))
    assert pictures[:, 0, 0, 0].tolist() == [2, 3, 5] and np.array_equal(pictures, same)
    shuffled = generator.flow_from_directory(tmp_path, (2, 2), seed=4, class_mode=None, batch_size=4)
    again = generator.flow_from_directory(tmp_path, (2, 2), seed=4, class_mode=None, batch_size=4)
    assert [x.tolist() for x in shuffled] == [x.tolist() for x in again]
    (tmp_path / "b" / "scan.TIF").write_bytes(b"")
    with pytest.raises(ValueError, match=r"scan\.TIF"):
        generator.flow_from_directory(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"fill_mode": "mirror"},
        {"interpolation_order": 6},
        {"data_format": "nhwc"},
        {"validation_split": 1.0},
        {"zoom_range": "a lot"},
        {"brightness_range": 0.5},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Generator(**options)


def test_unknown_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="angle"):
        Generator().apply_transform(photos(1)[0], {"angle": 3})
