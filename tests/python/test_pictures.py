"""Geometry and colour of pictures: against OpenCV and NumPy, in any chunks, with shapes known or not."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import Any

import cv2
import feedline as fl
import numpy as np
import pytest

im = fl.image
D = fl.Dataset


def picture(height: int = 11, width: int = 14, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def floats(*size: int, seed: int = 0) -> np.ndarray:
    return (picture(*size, seed=seed) / 255).astype(np.float32)


# Against other libraries.

MOVES: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (im.flip_left_right, lambda x: cv2.flip(x, 1)),
    (im.flip_up_down, lambda x: cv2.flip(x, 0)),
    (im.transpose, cv2.transpose),
    (im.rot90, lambda x: cv2.rotate(x, cv2.ROTATE_90_COUNTERCLOCKWISE)),
    (lambda x: im.rot90(x, 2), lambda x: cv2.rotate(x, cv2.ROTATE_180)),
    (lambda x: im.rot90(x, -1), lambda x: cv2.rotate(x, cv2.ROTATE_90_CLOCKWISE)),
]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("place", range(len(MOVES)))
def test_pixels_move_as_in_opencv(place: int, dtype: str) -> None:
    ours, theirs = MOVES[place]
    x = picture(37, 50).astype(dtype)
    np.testing.assert_array_equal(ours(x), theirs(x))
    batch = np.stack([x, x[::-1]])
    np.testing.assert_array_equal(ours(batch), np.stack([theirs(one) for one in batch]))


@pytest.mark.parametrize("size", [3, 5, (7, 3)])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5, (0.5, 1.5), None])
def test_blur_is_opencvs(size: Any, sigma: Any) -> None:
    taps = size if isinstance(size, tuple) else (size, size)
    wide = [0.15 * n + 0.35 for n in taps] if sigma is None else np.broadcast_to(sigma, 2)
    x = floats(20, 17)
    theirs = cv2.GaussianBlur(x, taps, sigmaX=wide[0], sigmaY=wide[1], borderType=cv2.BORDER_REFLECT_101)
    np.testing.assert_allclose(im.gaussian_blur(x, size, sigma), theirs, atol=1e-6)
    x = picture(20, 17)
    exact = cv2.GaussianBlur(
        x.astype(np.float64), taps, sigmaX=wide[0], sigmaY=wide[1], borderType=cv2.BORDER_REFLECT_101
    )
    assert np.abs(im.gaussian_blur(x, size, sigma) - exact).max() <= 0.501


def test_hsv_is_opencvs() -> None:
    x = floats(30, 30)
    theirs = cv2.cvtColor(x, cv2.COLOR_RGB2HSV) / [360, 1, 1]
    np.testing.assert_allclose(im.rgb_to_hsv(x), theirs, atol=1e-5)
    np.testing.assert_allclose(im.hsv_to_rgb(theirs.astype(np.float32)), x, atol=1e-5)


def test_hue_and_saturation_are_colorsyss() -> None:
    x = floats(5, 5)

    def by_pixel(change: Callable[[float, float, float], tuple[float, float, float]]) -> np.ndarray:
        pixels = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*p))) for p in x.reshape(-1, 3).tolist()]
        return np.array(pixels, np.float32).reshape(x.shape)

    for delta in (-1, -0.3, 0.2, 0.9):
        want = by_pixel(lambda h, s, v, by=delta: ((h + by) % 1, s, v))  # type: ignore[misc]
        np.testing.assert_allclose(im.adjust_hue(x, delta), want, atol=1e-5)
    for factor in (0, 0.5, 1.7):
        want = by_pixel(lambda h, s, v, by=factor: (h, min(s * by, 1), v))  # type: ignore[misc]
        np.testing.assert_allclose(im.adjust_saturation(x, factor), want, atol=1e-5)


# Against their definitions.


def test_light_is_what_numpy_says() -> None:
    x = floats(9, 8)
    mean = x.mean((0, 1))
    np.testing.assert_allclose(im.adjust_contrast(x, 1.4), (x - mean) * 1.4 + mean, atol=1e-6)
    np.testing.assert_allclose(im.adjust_brightness(x, -0.4), x - 0.4, atol=1e-6)
    np.testing.assert_allclose(im.adjust_gamma(x, 0.4, 1.1), 1.1 * x**0.4, atol=1e-6)
    standard = (x - x.mean()) / x.std()
    np.testing.assert_allclose(im.per_image_standardization(x), standard, atol=1e-5)


BYTES: list[Callable[[Any], Any]] = [
    lambda x: im.adjust_brightness(x, 0.13),
    lambda x: im.adjust_gamma(x, 1.7, 0.9),
    lambda x: im.adjust_hue(x, 0.37),
    lambda x: im.adjust_saturation(x, 1.3),
    im.rgb_to_grayscale,
]


@pytest.mark.parametrize("place", range(len(BYTES)))
def test_bytes_are_exactly_what_floats_give(place: int) -> None:
    x = picture(40, 40)
    by_floats = BYTES[place](im.convert_image_dtype(x, fl.float32))
    np.testing.assert_array_equal(BYTES[place](x), im.convert_image_dtype(by_floats, fl.uint8))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("order", ["channels_last", "channels_first"])
@pytest.mark.parametrize("given", ["uint8", "float32", "float64", "int32"])
def test_normalize(given: str, order: str, dtype: str) -> None:
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    x = np.stack([picture(seed=1), picture(seed=2)])
    want = (x / 255 - mean) / std
    if order == "channels_first":
        want = want.transpose(0, 3, 1, 2)

    def normalized(x: np.ndarray) -> Any:
        return im.normalize(x.astype(given), mean, std, data_format=order, dtype=dtype)

    got = normalized(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, atol=1e-6 if dtype == "float32" else 2e-3)
    np.testing.assert_array_equal(normalized(x[1]), got[1])


# In functions: any chunks, shapes known or not, batches.

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "central_crop": lambda x: im.central_crop(x, 0.6),
    "crop": lambda x: im.crop_to_bounding_box(x, 1, 2, 5, 4),
    "pad": lambda x: im.pad_to_bounding_box(x, 2, 1, 30, 31),
    "crop_or_pad": lambda x: im.resize_with_crop_or_pad(x, 9, 21),
    "flip_left_right": im.flip_left_right,
    "flip_up_down": im.flip_up_down,
    "rot90": lambda x: im.rot90(x, 3),
    "transpose": im.transpose,
    "convert": lambda x: im.convert_image_dtype(x, fl.float32),
    "brightness": lambda x: im.adjust_brightness(x, 0.2),
    "contrast": lambda x: im.adjust_contrast(x, 0.7),
    "saturation": lambda x: im.adjust_saturation(x, 0.7),
    "hue": lambda x: im.adjust_hue(x, 0.3),
    "gamma": lambda x: im.adjust_gamma(x, 0.6),
    "standardize": im.per_image_standardization,
    "normalize": lambda x: im.normalize(x, 0.5, 0.25, data_format="channels_first"),
    "gray": im.rgb_to_grayscale,
    "blur": lambda x: im.gaussian_blur(x, 3, 0.8),
    "random_crop": lambda x: im.random_crop(x, (5, 6, 3), seed=1),
    "random_resized_crop": lambda x: im.random_resized_crop(x, 8, seed=1),
    "random_flips": lambda x: im.random_flip_up_down(im.random_flip_left_right(x, seed=1), seed=2),
    "random_brightness": lambda x: im.random_brightness(x, 0.3, seed=3),
    "random_contrast": lambda x: im.random_contrast(x, 0.3, 1.5, seed=3),
    "random_saturation": lambda x: im.random_saturation(x, 0.3, 1.5, seed=3),
    "random_hue": lambda x: im.random_hue(x, 0.3, seed=3),
    "random_gaussian_blur": lambda x: im.random_gaussian_blur(x, 3, seed=3),
    "random_erasing": lambda x: im.random_erasing(x, value=(1, 2, 3), seed=3),
    "random_rot90": lambda x: im.rot90(x, fl.random.integers(4, seed=5)),
}


def run(ds: Any, **options: Any) -> list[Any]:
    return list(ds.with_options(**options).as_numpy_iterator())


def assert_same(a: list[Any], b: list[Any]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_depend_on_nothing_else(name: str) -> None:
    """Not on chunks, threads, on whether shapes are known, and not on whether memory is shared."""
    function = FUNCTIONS[name]
    pictures = np.stack([picture(seed=n) for n in range(13)])
    kept = pictures.copy()
    known = D.from_tensor_slices(pictures).map(function)
    assert "python" not in known.explain().lower()
    want = run(known, chunk_rows=1)
    for options in ({"chunk_rows": 4}, {"chunk_rows": 64}, {"cpu_budget": 1}, {"cpu_budget": 4}):
        assert_same(run(known, **options), want)
    np.testing.assert_array_equal(pictures, kept)
    unknown = fl.TensorSpec((None, None, None), fl.uint8)
    vague = D.from_generator(lambda: iter(pictures), output_signature=unknown).map(function)
    assert_same(run(vague), want)
    # Two steps: the first makes memory of its own, over which the second may write.
    own = D.from_tensor_slices(pictures).map(lambda x: x + np.uint8(0)).map(function)
    assert_same(run(own), want)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.startswith("random")])
def test_batches_are_their_pictures(name: str) -> None:
    function = FUNCTIONS[name]
    pictures = np.stack([picture(seed=n) for n in range(6)])
    one_by_one = run(D.from_tensor_slices(pictures).map(function))
    batches = run(D.from_tensor_slices(pictures).batch(2).map(function))
    assert_same([x for batch in batches for x in batch], one_by_one)


def test_pictures_of_different_sizes() -> None:
    sizes = [(5, 7), (7, 5), (6, 6), (5, 7)]
    pictures = [picture(h, w, seed=n) for n, (h, w) in enumerate(sizes)]
    spec = fl.TensorSpec((None, None, 3), fl.uint8)
    ds = D.from_generator(lambda: iter(pictures), output_signature=spec)
    cropped = ds.map(lambda x: im.random_crop(x, (4, 4, 3), seed=1)).batch(4)
    assert cropped.element_spec.shape == (None, 4, 4, 3)
    assert next(iter(cropped)).shape == (4, 4, 4, 3)
    middle = run(ds.map(lambda x: im.central_crop(x, 0.5)))
    assert [x.shape for x in middle] == [(3, 5, 3), (5, 3, 3), (4, 4, 3), (3, 5, 3)]
    assert_same(middle, [im.central_crop(x, 0.5) for x in pictures])


def test_numbers_of_elements_may_be_symbolic() -> None:
    x = picture()
    ds = D.range(4).map(lambda n: im.crop_to_bounding_box(x, n, 2, n + 1, 3))
    assert_same(run(ds), [x[n : 2 * n + 1, 2:5] for n in range(4)])
    ds = D.range(3).map(lambda n: im.adjust_brightness(x, fl.cast(n, fl.float32) / 10))
    assert_same(run(ds), [im.adjust_brightness(x, n / 10) for n in range(3)])
    ds = D.range(4).map(lambda n: im.rot90(x, n))
    assert_same(run(ds), [np.rot90(x, n) for n in range(4)])
    ds = D.range(3).map(lambda n: im.stateless_random_crop(x, (3, 3, 3), seed=(n, 1)))
    assert_same(run(ds), [im.stateless_random_crop(x, (3, 3, 3), seed=(n, 1)) for n in range(3)])
    ds = D.range(1, 3).map(lambda n: im.resize_with_crop_or_pad(x, n, 20))
    assert_same(run(ds), [im.resize_with_crop_or_pad(x, n, 20) for n in (1, 2)])


# Random forms.


def test_elements_and_epochs_differ_and_seeds_repeat() -> None:
    x = picture(40, 40)

    def once(seed: int) -> list[bytes]:
        ds = D.from_tensors(x).repeat(20).map(lambda x: im.random_crop(x, (20, 20, 3), seed=seed))
        return [y.tobytes() for y in ds]

    assert len(set(once(1))) > 15
    assert once(1) == once(1) and once(1) != once(2)
    ds = D.range(8).map(lambda _: im.random_crop(x, (20, 20, 3), seed=1))
    assert [y.tobytes() for y in ds] != [y.tobytes() for y in ds]


def test_pictures_of_a_batch_are_flipped_one_by_one() -> None:
    batch = np.stack([picture(seed=n) for n in range(64)])
    for known in (True, False):
        spec = fl.TensorSpec(batch.shape if known else (None, None, None, 3), fl.uint8)
        ds = D.from_generator(lambda: iter([batch]), output_signature=spec)
        (got,) = ds.map(lambda x: im.random_flip_left_right(x, seed=7))
        flipped = [np.array_equal(y, x[:, ::-1]) for x, y in zip(batch, got, strict=True)]
        assert all(np.array_equal(y, x) for x, y, f in zip(batch, got, flipped, strict=True) if not f)
        assert 16 < sum(flipped) < 48


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_crops_of_any_rank(rank: int) -> None:
    x = np.arange(6**rank).reshape((6,) * rank)
    size = [2, 6, 3, 1][:rank]
    windows = np.lib.stride_tricks.sliding_window_view(x, size).reshape(-1, *size)
    possible = {w.tobytes() for w in windows}
    ds = D.from_tensors(x).repeat(50).map(lambda x: im.random_crop(x, size, seed=3))
    assert ds.element_spec.shape == tuple(size)
    seen = {y.tobytes() for y in ds}
    assert seen <= possible and len(seen) > min(len(possible), 50) // 3


def test_stateless_forms_repeat() -> None:
    x = picture()
    forms: list[Callable[[Any], Any]] = [
        lambda seed: im.stateless_random_brightness(x, 0.3, seed),
        lambda seed: im.stateless_random_contrast(x, 0.3, 1.5, seed),
        lambda seed: im.stateless_random_saturation(x, 0.3, 1.5, seed),
        lambda seed: im.stateless_random_hue(x, 0.3, seed),
        lambda seed: im.stateless_random_crop(x, (4, 4, 3), seed),
    ]
    for form in forms:
        np.testing.assert_array_equal(form((1, 2)), form((1, 2)))
        assert any(not np.array_equal(form((1, 2)), form((n, 2))) for n in range(5))
        inside = run(D.range(3).map(lambda _, form=form: form((1, 2))))  # type: ignore[misc]
        assert_same(inside, [form((1, 2))] * 3)
    flips = [im.stateless_random_flip_left_right(x, (n, 0)) for n in range(40)]
    assert 5 < sum(np.array_equal(y, x) for y in flips) < 35


def test_random_ranges_are_kept() -> None:
    x = np.full((1, 1, 1), 0.5, np.float32)
    deltas = [
        float(y[0, 0, 0]) - 0.5 for y in D.range(400).map(lambda _: im.random_brightness(x, 0.2, seed=1))
    ]
    assert -0.2 <= min(deltas) < -0.18 and 0.18 < max(deltas) <= 0.2
    assert im.random_brightness(x, 0).item() == 0.5


def test_distorted_boxes_differ_between_elements() -> None:
    objects = np.array([[[0.2, 0.2, 0.8, 0.8]]], np.float32)
    ds = D.range(20).map(lambda _: im.sample_distorted_bounding_box((100, 100, 3), objects, seed=4))
    boxes = {(tuple(begin.tolist()), tuple(size.tolist())) for begin, size, _ in ds}
    assert len(boxes) > 15
    x = picture(100, 100)
    begin, size, edges = im.stateless_sample_distorted_bounding_box(x.shape, objects, (1, 2))
    part = fl.slice(x, begin, size)
    assert part.shape == (size[0], size[1], 3)
    np.testing.assert_allclose(edges[0, 0, :2], begin[:2] / 100, atol=1e-6)


def test_a_resized_crop_is_the_crop_of_its_box() -> None:
    x = picture(30, 50)

    def both(_: Any) -> Any:
        return im.random_resized_crop(x, (6, 8), seed=9), im.random_resized_crop_box(x.shape, seed=9)

    whole = [(part.shape, box.dtype, box.shape) for part, box in D.range(5).map(both)]
    assert whole == [((6, 8, 3), np.int32, (4,))] * 5


# What is refused.

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: im.crop_to_bounding_box(picture(), 8, 0, 5, 5), "does not lie in"),
    (lambda: im.crop_to_bounding_box(picture(), 0.5, 0, 5, 5), "whole number"),
    (lambda: im.pad_to_bounding_box(picture(), 0, 0, 5, 5), "does not fit"),
    (lambda: im.central_crop(picture(), 0), "central_fraction"),
    (lambda: im.random_crop(picture(), (3, 3)), "3 axes"),
    (lambda: im.random_crop(picture(), (30, 3, 3)), "a crop of size"),
    (lambda: im.adjust_hue(picture(channels=1), 0.1), "three values"),
    (lambda: im.adjust_gamma(picture(), -1), "negative"),
    (lambda: im.normalize(picture(), [1, 2], 1), "2 means"),
    (lambda: im.normalize(picture(), 0, 1, data_format="NCHW"), "data_format"),
    (lambda: im.normalize(picture(), 0, 1, dtype=fl.float64), "float32, float16"),
    (lambda: im.gaussian_blur(picture(), 4), "odd"),
    (lambda: im.random_gaussian_blur(picture(), 3, (0, 1)), "above 0"),
    (lambda: im.random_erasing(picture(), value="noise"), "random"),
    (lambda: im.random_erasing(picture(), value="random"), "noise"),
    (lambda: im.random_resized_crop(picture(), 8, ratio=(2, 1)), "ratio"),
    (lambda: im.random_jpeg_quality(picture(), 90, 80), "in order"),
    (lambda: im.stateless_random_crop(picture(), (1, 1, 3), seed=5), "pair"),
    (lambda: im.flip_left_right(np.zeros((3, 3))), "height x width x channels"),
    (lambda: im.rgb_to_hsv(picture()), "convert_image_dtype"),
    (lambda: im.sample_distorted_bounding_box((9, 9, 3), np.zeros((1, 0, 4), np.float32)), "bounding boxes"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_refused(place: int) -> None:
    call, words = REFUSED[place]
    with pytest.raises((ValueError, TypeError, fl.errors.DataError), match=words):
        call()


def test_a_picture_that_is_too_small_is_an_error_in_its_place() -> None:
    pictures = [picture(8, 8), picture(3, 8), picture(8, 8)]
    spec = fl.TensorSpec((None, None, 3), fl.uint8)
    ds = D.from_generator(lambda: iter(pictures), output_signature=spec)
    for function in (
        lambda x: im.crop_to_bounding_box(x, 0, 0, 5, 5),
        lambda x: im.random_crop(x, (5, 5, 3)),
    ):
        cropped = ds.map(function)
        with pytest.raises(fl.errors.DataError, match=r"crop|box"):
            list(cropped)
        assert len(list(cropped.ignore_errors())) == 2
