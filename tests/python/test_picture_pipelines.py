"""Pictures through whole pipelines: from files to batches, the same for any way to get there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from outcomes import outcomes

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pictures of different sizes and formats."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(20):
        height, width = rng.integers(40, 90, 2)
        coarse = rng.integers(0, 256, (height // 8 + 1, width // 8 + 1, 1 if i % 7 == 3 else 3), np.uint8)
        picture = np.ascontiguousarray(coarse.repeat(8, 0).repeat(8, 1)[:height, :width])
        if i % 5 == 4:
            (folder / f"{i:02}.png").write_bytes(fl.image.encode_png(picture))
        else:
            jpeg = fl.image.encode_jpeg(picture, chroma_downsampling=i % 2 == 0, progressive=i % 3 == 0)
            (folder / f"{i:02}.jpg").write_bytes(jpeg)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.iterdir())


def train(name: Any) -> Any:
    image = fl.image.decode_jpeg(fl.io.read_file(name), channels=3)
    image = fl.image.random_resized_crop(image, (24, 28), antialias=True, seed=5)
    image = fl.image.random_flip_left_right(image, seed=7)
    return fl.image.normalize(image, MEAN, STD)


def evaluate(name: Any) -> Any:
    image = fl.image.decode_jpeg(fl.io.read_file(name), channels=3)
    image = fl.image.resize_with_crop_or_pad(fl.image.resize_shorter_side(image, 32), 24, 24)
    return fl.image.normalize(image, MEAN, STD, data_format="channels_first")


def by_hand(name: Any) -> Any:
    image = fl.image.decode_jpeg(fl.io.read_file(name), channels=3)
    image = fl.image.convert_image_dtype(fl.image.central_crop(image, 0.5), fl.float32)
    return fl.image.resize((image - 0.5) / np.array(STD, np.float32), (16, 16))


@pytest.mark.parametrize("prepare", [train, evaluate, by_hand])
def test_the_short_way_is_taken_and_gives_the_same_bits(folder: Path, prepare: Any) -> None:
    dataset = fl.Dataset.from_tensor_slices(names(folder)).map(prepare).batch(8)
    plain = np.concatenate(list(dataset.with_options(rewrite=False)))
    assert "chain_pictures" in dataset.explain()
    for workers in (1, 2, 4):
        for rows in (1, 3, 16):
            with_options = dataset.with_options(cpu_budget=workers, chunk_rows=rows)
            np.testing.assert_array_equal(np.concatenate(list(with_options)), plain)


def test_each_pass_and_picture_has_its_own_numbers(folder: Path) -> None:
    dataset = fl.Dataset.from_tensor_slices([names(folder)[0]] * 6).map(train)
    first, second = list(dataset), list(dataset)
    pictures = [x.tobytes() for x in first + second]
    assert len(set(pictures)) == 12


def test_evaluation_equals_its_parts_one_by_one(folder: Path) -> None:
    for name, made in zip(
        names(folder), fl.Dataset.from_tensor_slices(names(folder)).map(evaluate), strict=True
    ):
        image = fl.image.decode_jpeg(Path(name).read_bytes(), channels=3)
        height, width = image.shape[:2]
        size = (32, 32 * width // height) if height <= width else (32 * height // width, 32)
        small = fl.image.resize(image, size, antialias=True)
        top, left = (small.shape[0] - 24) // 2, (small.shape[1] - 24) // 2
        middle = small[top : top + 24, left : left + 24] / 255
        wanted = (middle - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        np.testing.assert_allclose(made, wanted.transpose(2, 0, 1), atol=1e-5)


def test_a_broken_picture_costs_one_element_and_is_named(folder: Path, tmp_path: Path) -> None:
    good = names(folder)
    whole = Path(good[0]).read_bytes()
    broken = {"cut.jpg": whole[: len(whole) // 2], "text.jpg": b"no picture", "empty.jpg": b""}
    for name, contents in broken.items():
        (tmp_path / name).write_bytes(contents)
    paths = [
        good[0],
        str(tmp_path / "cut.jpg"),
        good[1],
        str(tmp_path / "text.jpg"),
        str(tmp_path / "empty.jpg"),
        good[2],
    ]
    dataset = fl.Dataset.from_tensor_slices(paths).map(train)
    found = outcomes(dataset)
    errors = [str(found[place]) for place in (1, 3, 4) if isinstance(found[place], fl.errors.DataError)]
    assert len(found) == 6 and len(errors) == 3
    assert "cut off" in errors[0] and "not a picture" in errors[1] and "no bytes" in errors[2]
    assert all(name in error for name, error in zip(broken, errors, strict=True))
    assert len(list(dataset.ignore_errors())) == 3


def test_scaled_decoding_is_asked_for(folder: Path) -> None:
    jpeg = Path(names(folder)[0]).read_bytes()
    height, width, _ = fl.image.decode_jpeg(jpeg).shape
    for ratio in (2, 4, 8):
        assert fl.image.decode_jpeg(jpeg, ratio=ratio).shape[:2] == (-(-height // ratio), -(-width // ratio))
