"""Pictures moved by a matrix: the same pixels as scipy.ndimage, by another program."""

from __future__ import annotations

from typing import Any

import feedline as fl
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import ndimage

MODES = ("nearest", "constant", "reflect", "wrap")


def by_scipy(picture: Any, matrix: Any, order: int, mode: str, cval: float) -> Any:
    how = {"order": order, "mode": mode, "cval": cval}
    channels = np.moveaxis(picture, -1, 0)
    moved = [ndimage.affine_transform(channel, matrix[:, :2], matrix[:, 2], **how) for channel in channels]
    return np.stack(moved, axis=-1)


@settings(max_examples=150, deadline=None)
@given(
    shape=st.tuples(st.integers(2, 12), st.integers(2, 12), st.sampled_from([1, 2, 3])),
    order=st.integers(0, 5),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 2**32 - 1),
)
def test_pixels_of_scipy(shape: tuple[int, int, int], order: int, mode: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if mode == "reflect" and order > 1:
        # scipy begins this filter with a value that it has overwritten already: that shows in small pictures.
        shape = (shape[0] + 14, shape[1] + 14, shape[2])
    picture = rng.uniform(0, 255, shape).astype(np.float32)
    matrix = np.concatenate([rng.uniform(-1.5, 1.5, (2, 2)), rng.uniform(-9, 9, (2, 1))], axis=1)
    ours = fl.image.affine_transform(picture, matrix, order=order, fill_mode=mode, cval=7.5)
    assert np.allclose(ours, by_scipy(picture, matrix, order, mode, 7.5), atol=2e-2)


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_bytes_are_rounded_like_scipys(order: int, mode: str) -> None:
    rng = np.random.default_rng(order)
    picture = rng.integers(0, 256, (17, 13, 3), np.uint8)
    turn = np.deg2rad(31)
    matrix = np.array([[np.cos(turn), -np.sin(turn), 4.2], [np.sin(turn), np.cos(turn), -3.3]])
    ours = fl.image.affine_transform(picture, matrix, order=order, fill_mode=mode, cval=9)
    difference = np.abs(ours.astype(int) - by_scipy(picture, matrix, order, mode, 9))
    assert difference.max() <= 1 and (difference > 0).mean() < 0.01


def test_a_matrix_for_each_picture() -> None:
    pictures = np.random.default_rng(0).uniform(size=(5, 4, 6, 2)).astype(np.float32)
    matrices = np.random.default_rng(1).uniform(-1, 1, (5, 2, 3))
    apart = [fl.image.affine_transform(x, m) for x, m in zip(pictures, matrices, strict=True)]
    assert np.array_equal(fl.image.affine_transform(pictures, matrices), apart)
    ds = fl.Dataset.from_tensor_slices((pictures, matrices)).map(fl.image.affine_transform).batch(5)
    for rows in (1, 2, 5):
        assert np.array_equal(next(iter(ds.with_options(chunk_rows=rows))), apart)


def test_what_does_not_fit() -> None:
    picture = np.zeros((2, 2, 1), np.float32)
    with pytest.raises(ValueError, match="2 rows of 3"):
        fl.image.affine_transform(picture, np.eye(3))
    with pytest.raises(ValueError, match="mirror"):
        fl.image.affine_transform(picture, np.eye(2, 3), fill_mode="mirror")
    with pytest.raises(ValueError, match="float64"):
        fl.image.affine_transform(picture.astype(np.float64), np.eye(2, 3))
