"""Functions of elements: what is traced means what NumPy means, and what cannot be traced runs as Python."""

from __future__ import annotations

import functools
import logging
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import feedline as fl
import numpy as np
import pytest
from outcomes import outcomes

D = fl.Dataset

ARRAYS = {
    "float32": np.array([[1.5, -2.25, 3.0], [0.0, 5.5, -6.0]], np.float32),
    "float64": np.array([[1.5, -2.25, 3.0], [0.25, 5.5, -6.0]]),
    "float16": np.array([[1.5, -2.25, 3.0], [0.25, 5.5, -6.0]], np.float16),
    "int64": np.array([[1, -2, 3], [4, 5, -6]]),
    "int32": np.array([[1, -2, 3], [7, 5, -6]], np.int32),
    "int8": np.array([[1, -2, 3], [4, 127, -6]], np.int8),
    "uint8": np.array([[1, 2, 3], [4, 250, 6]], np.uint8),
    "row": np.array([3.0, -1.0, 2.0]),
    "cube": np.arange(24.0).reshape(2, 3, 4),
}

# Evaluated with the name x, on symbolic values and on NumPy's. Where NumPy refuses, nothing is expected.
EXPRESSIONS = """
x + x; x + 1; 1 - x; x * 2; x - x; x // 2; x % 3; x ** 2; -x; +x; abs(x); divmod(x, 3); x > 1; x >= 1; x < 1
x <= 1; x == 1; x != 1; 1 < x; x == x; (x > 1) & (x < 5); (x > 1) | (x < 0); (x > 1) ^ (x < 5); ~(x > 1)
x & 3; x | 3; x ^ 5; ~x; x << 1; x >> 1; 7 // (abs(x) + 1); 7 % (abs(x) + 1); x[0]; x[-1]; x[:, 1]
x[..., 1]; x[..., 0]; x[:, ::-1]; x[::-1, 1:]; x[None]; x[:, None, :]; x[0, 1]; x[[1, 0]]; x[:, [2, 0]]
x[:, np.array([0, -1])]; x[x > 1]; x[1:1]; x[-1:]; x[5:]; x[..., None]; x[()]; x[1:, ..., :2]; x[::2]
x[-2:]; x[:, -1:]; x[None, ..., None]; x[[True, False]]; x[np.array([[0, 1], [1, 0]])]; x.T; x.reshape(-1)
x.reshape(3, 2); x.reshape((1, -1)); x.flatten(); x.ravel(); x.transpose(); x.copy(); x.transpose(1, 0)
x.swapaxes(0, 1); x.swapaxes(0, -1); x.squeeze(); x[None].squeeze(0); x.sum(); x.sum(0)
x.sum(axis=1, keepdims=True); x.sum(axis=(0, 1)); x.sum(-1); x.mean(); x.mean(0)
x.mean(axis=-1, keepdims=True); x.std(); x.std(axis=0); x.var(); x.max(); x.max(0); x.min(axis=0); x.prod()
x.prod(0); (x > 1).any(); (x > 1).all(); (x > 1).any(axis=0); (x > 1).sum(); (x > 1).mean()
(x > 1).sum(axis=0); x.argmax(); x.argmax(0); x.argmin(0); x.argmax(-1); x.cumsum(); x.cumsum(0)
x.clip(0, 2); x.clip(min=1); x.round(); x.dot(x.T); x @ x.T; x.repeat(2); x.repeat(2, axis=0)
x.take([0, 1]); x.take([0, 1], axis=0); x.astype(np.float32); x.astype(float); x.astype(int)
x.astype("int64"); x.astype(bool); abs(x).astype(np.uint8); np.abs(x); np.sqrt(np.abs(x)); np.exp(x / 10)
np.log1p(np.abs(x)); np.sin(x); np.cos(x); np.tan(x); np.tanh(x); np.floor(x); np.ceil(x); np.rint(x)
np.trunc(x); np.sign(x); np.square(x); np.arctan(x); np.sinh(x / 10); np.maximum(x, 1); np.minimum(x, x)
np.power(x, 2); np.add(x, 1); np.multiply(x, x); np.subtract(x, 1); np.divide(x, x + x + 1)
np.floor_divide(x, 2); np.mod(x, 2); np.negative(x); np.hypot(x, x); np.arctan2(x, x); np.logical_and(x, x)
np.logical_or(x, x); np.logical_not(x); np.equal(x, 1); np.isnan(x); np.isfinite(x); np.where(x > 1, x, 0)
np.where(x > 1, x, x); np.where(x > 1, x, -x); np.concatenate([x, x]); np.stack([x, x])
np.concatenate([x, x], axis=-1); np.concatenate((x, x), axis=None); np.stack([x, x], axis=-1)
np.hstack([x, x]); np.vstack([x, x]); np.dstack([x, x]); np.expand_dims(x, 0); np.expand_dims(x, -1)
np.expand_dims(x, (0, 1)); np.squeeze(x[None]); np.transpose(x); np.reshape(x, (-1,)); np.ravel(x)
np.sum(x); np.sum(x, axis=0); np.mean(x); np.std(x); np.var(x, axis=0); np.max(x); np.min(x, axis=0)
np.prod(x); np.argmax(x); np.argmin(x, axis=0); np.cumsum(x); np.cumsum(x, axis=0); np.clip(x, 0, 2)
np.clip(x, None, 2); np.clip(x, a_min=0, a_max=None); np.pad(x, 1); np.pad(x, 1, constant_values=3)
np.pad(x, ((0, 1), (1, 0))); np.pad(x, (2, 1)); np.tile(x, 2); np.pad(x, 1, mode="reflect")
np.pad(x, 1, mode="symmetric"); np.tile(x, (2, 1)); np.tile(x, (2, 1, 1)); np.repeat(x, 2)
np.repeat(x, 2, axis=0); np.flip(x); np.flip(x, 0); np.fliplr(x); np.flipud(x); np.roll(x, 1)
np.roll(x, 1, axis=0); np.sort(x); np.sort(x, axis=0); np.sort(x, axis=None); np.argsort(x)
np.argsort(x, axis=0); np.split(x, [1]); np.split(x, 3, axis=-1); np.split(x, [1, 2], axis=-1)
np.moveaxis(x, 0, -1); np.swapaxes(x, 0, 1); np.take(x, [0, 1], axis=0); np.take(x, 1); np.zeros_like(x)
np.ones_like(x); np.full_like(x, 2); np.broadcast_to(x, (4, *x.shape)); np.dot(x, x.T); np.matmul(x, x.T)
np.add.reduce(x); np.maximum.reduce(x); np.log10(np.abs(x) + 1); np.cosh(x / 10); np.arcsinh(x)
np.expm1(x / 10); np.any(x, axis=0); np.all(x); np.sum(x, dtype=np.float64); np.mean(x, dtype=np.float64)
np.ones_like(x, dtype=np.float32); x.sum(dtype=np.int32); np.add(x, 1, dtype=np.float32); np.float64(2) * x
np.int64(2) + x; np.arange(3) + x; x - np.float32(1); np.array([1.0, 2.0, 3.0]) * x
x + np.array([1, 2, 3], np.int16); x * np.ones((2, 1), np.float32); sum(x); [row for row in x]; tuple(x)
(x, {"a": x + 1}); len(x); x.ndim; x.size; max(x.shape); np.shape(x); np.expand_dims(x, (-1, -2))
np.expand_dims(x, (0, -1)); np.fabs(x); np.round(x, 1); np.round(x, 2); x.round(1); x.var(axis=-1)
np.full_like(x, True, dtype=bool); np.full_like(x > 1, True); np.full_like(x > 1, False)
np.tile(x, np.int64(2)); np.tile(x, np.array([2, 1]))
np.roll(x, (1, 2)); np.roll(x, (1, 2), axis=(0, -1)); np.roll(x, 1, axis=(0, 1))
np.roll(x, (1, 1), axis=0); np.split(x, np.int64(1)); np.reciprocal(x.astype(float))
"""
TABLE = [text.strip() for line in EXPRESSIONS.strip().splitlines() for text in line.split(";")]
# Python's numbers are int32.
OWN_DTYPES = {"len(x)", "x.ndim", "x.size", "max(x.shape)", "np.shape(x)"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def compiled(text: str) -> Any:
    return eval(f"lambda x: {text}", {"np": np, "fl": fl})


def close(got: Any, want: Any) -> None:
    """Equal up to rounding, in values and shapes."""
    got, want = fl.nest.flatten(got), fl.nest.flatten(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.shape == w.shape
        half = np.float16 in (g.dtype, w.dtype)
        np.testing.assert_allclose(g.astype(float), w.astype(float), rtol=5e-3 if half else 1e-5, atol=1e-6)


@pytest.mark.parametrize("text", TABLE)
def test_traced_functions_agree_with_numpy(text: str) -> None:
    """Values and shapes are equal for all dtypes; dtypes where NumPy and feedline treat them alike."""
    function = compiled(text)
    compared = 0
    for kind, x in ARRAYS.items():
        try:
            want = function(x.copy())
        except Exception:
            continue
        (got,) = D.from_tensors(x).map(function, native=True)
        close(got, want)
        compared += 1
        if x.dtype in (np.float32, np.float64, np.int64) and text not in OWN_DTYPES:
            dtypes = [np.asarray(leaf).dtype for leaf in fl.nest.flatten(got)]
            assert dtypes == [np.asarray(leaf).dtype for leaf in fl.nest.flatten(want)], kind
    assert compared


@pytest.mark.parametrize("text", TABLE)
def test_the_spec_of_a_traced_function_is_true(text: str) -> None:
    function = compiled(text)
    for x in ARRAYS.values():
        try:
            function(x.copy())
        except Exception:
            continue
        dataset = D.from_tensors(x).map(function, native=True)
        (got,) = dataset
        for leaf, spec in zip(fl.nest.flatten(got), fl.nest.flatten(dataset.element_spec), strict=True):
            assert np.asarray(leaf).dtype == spec.dtype.dtype
            assert spec.is_compatible_with(np.asarray(leaf))


@pytest.mark.parametrize("text", TABLE)
def test_traced_functions_do_not_depend_on_chunks(text: str) -> None:
    """Rows of one shape, many at a time, one at a time, and each with its own values."""
    function = compiled(text)
    x = ARRAYS["float64"]
    rows = np.stack([x + n for n in range(7)])
    try:
        want = [function(row.copy()) for row in rows]
    except Exception:
        return
    dataset = D.from_tensor_slices(rows).map(function, native=True)
    for chunk_rows in (1, 3, 100):
        for got, wanted in zip(dataset.with_options(chunk_rows=chunk_rows), want, strict=True):
            close(got, wanted)


SCALARS = [
    "x + 1",
    "-x",
    "x ** 2",
    "x > 1",
    "np.sqrt(x)",
    "x.sum()",
    "x[None]",
    "x[...]",
    "np.stack([x, x])",
    "x.astype(float)",
]


@pytest.mark.parametrize("text", SCALARS)
def test_traced_functions_on_scalars(text: str) -> None:
    function = compiled(text)
    for got, number in zip(D.range(5).map(function, native=True), range(5), strict=True):
        close(got, function(np.int64(number)))


UNKNOWN = [
    "x + 1",
    "x.sum()",
    "x[0]",
    "x[-1]",
    "x[1:]",
    "x[::-1]",
    "x.reshape(-1)",
    "x[x > 1]",
    "x.max(0)",
    "x[..., None]",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_traced_functions_on_rows_of_different_lengths(text: str) -> None:
    function = compiled(text)
    rows = [np.arange(1.0, n + 1) for n in (3, 1, 5, 2)]
    dataset = D.from_list(rows).map(function, native=True)
    for got, row in zip(dataset, rows, strict=True):
        close(got, function(row))


FL_FUNCTIONS = """
fl.abs(x); fl.add(x, x); fl.cast(x, fl.int32); fl.cast(x, fl.bool); fl.clip_by_value(x, 0, 2)
fl.concat([x, x], 0); fl.expand_dims(x, 0); fl.fill([2, 2], 3); fl.gather(x, [1, 0]); fl.maximum(x, 1)
fl.one_hot([0, 2], 3); fl.pad(x, [[1, 1]] * np.ndim(x)); fl.range(5); fl.reduce_mean(x); fl.reduce_sum(x, 0)
fl.reshape(x, [-1]); fl.reverse(x, [0]); fl.shape(x); fl.sqrt(fl.abs(x)); fl.squeeze(x); fl.stack([x, x])
fl.tile(x, [2] * np.ndim(x)); fl.transpose(x); fl.where(x > 1, x, -x); fl.zeros([2, 3]); fl.zeros_like(x)
fl.argmax(x); fl.cumsum(x); fl.math.log(fl.abs(x) + 1); fl.size(x); fl.rank(x); fl.sort(x); fl.eye(3)
fl.linspace(0.0, 1.0, 5); fl.broadcast_to(x, [2, *np.shape(x)]); fl.boolean_mask(x, x > 1); fl.roll(x, 1, 0)
fl.strings.as_string(fl.cast(x, fl.int32)); fl.constant([1, 2]); fl.constant(1.5); fl.unstack(x)
fl.split(x, 1)
"""


@pytest.mark.parametrize(
    "text", [t.strip() for line in FL_FUNCTIONS.strip().splitlines() for t in line.split(";")]
)
def test_functions_give_the_same_at_once_and_traced(text: str) -> None:
    function = compiled(text)
    for kind in ("float32", "int64", "int32", "cube"):
        x = ARRAYS[kind]
        (traced,) = D.from_tensors(x).map(function, native=True)
        eager = function(x)
        for a, b in zip(fl.nest.flatten(traced), fl.nest.flatten(eager), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a, b)


LITERALS = [
    # dtype of x, expression, dtype of the result
    ("uint8", "x * 2", "uint8"),
    ("uint8", "x / 255.0", "float32"),
    ("uint8", "x / 255", "float32"),
    ("uint8", "x * 0.5", "float32"),
    ("int32", "x + 1", "int32"),
    ("int32", "x + 1.0", "float32"),
    ("int64", "x + 1", "int64"),
    ("int64", "x * 1.5", "float32"),
    ("float16", "x * 2", "float16"),
    ("float16", "x * 2.5", "float16"),
    ("float32", "x * 2.5", "float32"),
    ("float64", "x * 2.5", "float64"),
    ("float64", "1 - x", "float64"),
    ("int64", "x * np.float32(2)", "float64"),
    ("uint8", "x + np.int16(1)", "int16"),
    ("float32", "x + np.float64(1)", "float64"),
    ("int32", "[1, 2, 3] * x", "int32"),
    ("int32", "[1.5, 2.5, 3.5] * x", "float32"),
    ("float64", "np.where(x > 1, 1, 0)", "int32"),
    ("float64", "np.where(x > 1, 1.0, 0.0)", "float32"),
    ("float64", "fl.where(x > 1, x, 0)", "float64"),
    ("float32", "x > 1", "bool"),
    ("bool", "fl.cast(x, fl.int32)", "int32"),
]


@pytest.mark.parametrize(("dtype", "text", "expected"), LITERALS)
def test_python_numbers_take_the_dtype_beside_them(dtype: str, text: str, expected: str) -> None:
    x = np.ones((2, 3), dtype)
    dataset = D.from_tensors(x).map(compiled(text), native=True)
    assert dataset.element_spec.dtype == expected
    (got,) = dataset
    assert got.dtype == expected


def test_bfloat16_is_computed() -> None:
    import ml_dtypes

    x = np.array([1.5, 2.5], ml_dtypes.bfloat16)
    dataset = D.from_tensors(x).map(lambda x: (x * 2, x + x, fl.cast(x, fl.float32)), native=True)
    double, again, wide = next(iter(dataset))
    assert double.dtype == again.dtype == ml_dtypes.bfloat16
    assert double.tolist() == again.tolist() == [3, 5] and wide.tolist() == [1.5, 2.5]


SYMBOLIC_INDICES = [
    "x[n]",
    "x[-1 - n]",
    "x[:n]",
    "x[n:]",
    "x[n : n + 2]",
    "x[-n:]",
    "x[:-n]",
    "x[:, n]",
    "x[n, 0]",
    "x[0, n]",
    "x[n, ..., 1]",
    "x[..., n]",
    "x[n:, :n]",
    "x[fl.stack([n, n])]",
    "x[:, :, None][n]",
]


@pytest.mark.parametrize("text", SYMBOLIC_INDICES)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_symbolic_indices(text: str, n: int) -> None:
    x = np.arange(9.0).reshape(3, 3)
    function = eval(f"lambda x, n: {text}", {"fl": fl})
    (got,) = D.from_tensors((x, np.int64(n))).map(function, native=True)
    close(got, function(x, np.int64(n)))


# With x of (3, 3, 3), a mask of two axes, and symbolic places of small dtypes.
FANCY_INDICES = [
    "x[m, 0]", "x[0, m]", "x[m]", "x[:, m]", "x[..., m]", "x[m, n]", "x[n, m]", "x[..., m, None]",
    "x[None, m]", "x[m[0], :, n:]", "x[n:, ..., m[1], :n]", "x[[n > 0, n > 1, n > 0]]", "x[i]",
    "x[..., -1, i, :]", "x[[0, -1], n]", "x[..., n, n]", "x[..., n, [[0, 1], [1, 0]]]",
    "x[..., n, None, n]", "x[[n, 0], 1]", "x[[]]", "x[range(2)]",
    "x[:, [[True, False, True], [True, True, True], [False, False, False]]]",
]  # fmt: skip
# What NumPy pairs, or brings to the front: the value is needed.
PAIRED_INDICES = [
    "x[[0, 1], [1, 0]]", "x[0, :, [0, 1]]", "x[[0, 1], :, 0]", "x[n, :, [0, 1]]", "x[m[0], m[1]]",
    "x[0, None, [0, 1]]", "x[m[0], ..., n]", "x[np.ix_([0, 1], [0, 2])]", "x[i, m[0] | m[1]]",
    "x[n > 0]", "x[True]",
]  # fmt: skip


@pytest.mark.parametrize("text", FANCY_INDICES + PAIRED_INDICES)
def test_arrays_and_masks_as_indices_mean_what_numpy_means(text: str) -> None:
    x, m = np.arange(27).reshape(3, 3, 3), np.eye(3, dtype=bool)
    element = (x, m, np.int64(1), np.array([-1, 0], np.int8))
    function = eval(f"lambda x, m, n, i: {text}", {"np": np})
    want = function(*element)
    (got,) = D.from_tensors(element).map(function, native=text in FANCY_INDICES or None)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_places_of_a_small_dtype_count_from_the_end_of_a_long_axis() -> None:
    (got,) = D.from_tensors((np.arange(200), np.int8(-1))).map(lambda x, i: x[i], native=True)
    assert got == 199


NUMPY_DTYPES = ["np.fabs(x)", "np.rint(x)", "np.var(x)", "np.std(x, axis=0)", "np.round(x)", "np.round(x, 2)"]


@pytest.mark.parametrize("text", NUMPY_DTYPES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "float32"])
def test_functions_of_whole_numbers_have_numpys_dtypes(text: str, dtype: str) -> None:
    x, function = np.array([[3, 1], [2, 100]], dtype), compiled(text)
    (got,) = D.from_tensors(x).map(function, native=True)
    assert got.dtype == function(x).dtype
    close(got, function(x))


AS_NUMPY = {
    "np.round(x, -1)": np.array([2**53 + 7, 15, -25]),
    "np.reciprocal(x)": np.array([1, 2, -1]),
    "np.dot(np.ones((2, 3)), x)": np.arange(60.0).reshape(4, 3, 5),
    "x.dot(np.ones((2, 4, 3)))": np.arange(12.0).reshape(3, 4),
    "np.round(x)": np.array([True, False]),
    "np.fabs(x)": np.array([True, False]),
    "np.var(x)": np.array([True, False]),
    "np.pad(x, 1, constant_values=(1, 2))": np.arange(3.0),
}


@pytest.mark.parametrize("text", AS_NUMPY)
def test_what_is_not_recorded_is_numpys(text: str) -> None:
    x, function = AS_NUMPY[text], compiled(text)
    want = function(x)
    (got,) = D.from_tensors(x).map(function)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


WRONG_SIZES = [
    "fl.split(x, [2, 2])", "fl.split(x, [2, 9])", "fl.split(x, [4, 3, -1])", "fl.split(x, [-1, -1])",
    "fl.split(x, [7, -2])", "fl.split(x, 0)", "fl.split(x, 2)", "fl.split(x, [5], axis=1)",
    "fl.split(x, [2, 2], axis=-1)", "fl.unstack(x, num=2)", "fl.unstack(x, num=6)",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG_SIZES)
def test_pieces_of_other_sizes_than_the_axis_are_refused(text: str) -> None:
    function = compiled(text)
    with pytest.raises(ValueError, match=r"split|unstack"):
        function(np.arange(5))
    with pytest.raises(ValueError, match=r"split|unstack"):
        D.from_tensors(np.arange(5)).map(function, native=True)


@pytest.mark.parametrize("text", ["fl.split(x, [2, 1])", "fl.unstack(x, num=3)", "fl.split(x, [1, 2], -1)"])
def test_pieces_of_an_axis_of_unknown_size_are_checked_in_each_element(text: str) -> None:
    dataset = D.from_list([np.arange(n) for n in (3, 4, 2, 3)]).map(compiled(text), native=True)
    first, longer, shorter, last = outcomes(dataset)
    assert np.hstack(first).tolist() == np.hstack(last).tolist() == [0, 1, 2]
    assert "the size of axis" in str(longer) and "is not 3" in str(shorter)


ITEMS = [
    ("fl.pad(x, [[1, 0]], constant_values=float('nan'))", np.arange(2.0), [np.nan, 0, 1]),
    ("fl.pad(x, [[1, 0]], constant_values=np.float32('-inf'))", np.arange(2.0), [-np.inf, 0, 1]),
    ("fl.pad(x, fl.stack([[1, fl.size(x) - 2]]), constant_values=np.inf)", np.arange(2.0), [np.inf, 0, 1]),
    ("np.pad(x, 1, constant_values=np.inf)", np.arange(2.0), [np.inf, 0, 1, np.inf]),
    ("np.pad(x, 1, constant_values=np.nan)", np.ones(1, np.float16), [np.nan, 1, np.nan]),
    ("fl.one_hot(x, 2, on_value=0.0, off_value=-np.inf)", np.array([1, 0]), [[-np.inf, 0], [0, -np.inf]]),
    ("fl.one_hot(x, 2, on_value=np.nan)", np.array([1]), [[0, np.nan]]),
    ("x.to_tensor(float('nan'))", fl.ragged.constant([[1.0, 2.0], [3.0]]), [[1, 2], [3, np.nan]]),
    ("fl.sparse.to_dense(x, np.inf)", fl.sparse.from_dense(np.array([0.0, 2.0])), [np.inf, 2]),
    ("fl.pad(x, [[0, 1]], constant_values='\u00e9'.encode())", np.array([b"a"], object), [b"a", b"\xc3\xa9"]),
]


@pytest.mark.parametrize(("text", "x", "want"), ITEMS, ids=[text for text, _, _ in ITEMS])
def test_constants_that_json_lacks_arrive(text: str, x: Any, want: Any) -> None:
    function = compiled(text)
    (traced,) = D.from_tensors(x).map(function, native=True)
    for got in (function(x), traced):
        np.testing.assert_array_equal(got, np.array(want, object if got.dtype == object else None))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("fl.pad(x, [[0, 1]], constant_values=b'\\xff')", "pad: constant_value must be text in UTF-8"),
        ("fl.strings.join([x, x], b'\\xff')", "strings.join: separator must be text in UTF-8"),
        ("fl.pad(x, [[0, 1]], constant_values=float('nan'))", "nan is not a value of dtype string"),
        ("fl.pad(fl.range(2), [[0, 1]], constant_values=np.inf)", "not a value of dtype int32"),
        ("fl.random.stateless_uniform([2], [1, 2], maxval=np.inf)", "maxval must be a number"),
    ],
)
def test_constants_that_cannot_be_carried_are_refused(text: str, match: str) -> None:
    x, function = np.array([b"a"], object), compiled(text)
    with pytest.raises(ValueError, match=match):
        function(x)
    with pytest.raises(ValueError, match=match):
        D.from_tensors(x).map(function, native=True)


# What Python does with a value behind the back of operators must not pass silently.

BEHIND = {
    "f-string": (lambda x: f"{x}", [b"0", b"1", b"2"]),
    "str()": (lambda x: str(x), [b"0", b"1", b"2"]),
    "format": (lambda x: "img_{}.png".format(x), [b"img_0.png", b"img_1.png", b"img_2.png"]),  # noqa: UP032
    "percent": (lambda x: "%d" % x, [b"0", b"1", b"2"]),  # noqa: UP031
    "dict.get": (lambda x: {0: 7}.get(x, 5), [7, 5, 5]),
    "dict[]": (lambda x: {0: 7, 1: 8, 2: 9}[x], [7, 8, 9]),
    "in a set": (lambda x: x in {1, 2}, [False, True, True]),
    "in a tuple": (lambda x: x in (1, 2), [False, True, True]),
    "if": (lambda x: 1 if x > 1 else 0, [0, 0, 1]),
    "chained": (lambda x: 0 < x < 2, [False, True, False]),
    "and": (lambda x: x > 0 and x < 2, [False, True, False]),
    "not": (lambda x: not x, [True, False, False]),
    "max()": (lambda x: max(x, 1), [1, 1, 2]),
    "range()": (lambda x: sum(range(x)), [0, 0, 1]),
    "list index": (lambda x: [4, 5, 6][x], [4, 5, 6]),
    "int()": (lambda x: int(x), [0, 1, 2]),
    "math": (lambda x: __import__("math").floor(x), [0, 1, 2]),
    "numpy()": (lambda x: x.numpy() + 1, [1, 2, 3]),
    "item()": (lambda x: x.item(), [0, 1, 2]),
    "np.asarray": (lambda x: np.asarray(x), [0, 1, 2]),
    "try": (lambda x: tried(x), [0, 1, 2]),
    "np.unique": (lambda x: np.unique(x)[0], [0, 1, 2]),
    "isinstance": (lambda x: isinstance(x.tolist(), int), [True, True, True]),
}


def tried(x: Any) -> Any:
    """Hides the question for the value."""
    try:
        return int(x)
    except TypeError:
        return x


@pytest.mark.parametrize("kind", BEHIND)
def test_functions_that_need_the_value_run_as_python(kind: str) -> None:
    function, expected = BEHIND[kind]
    assert list(D.range(3).map(function)) == expected


def records(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("feedline")]


def test_the_fallback_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def halve(x: Any) -> Any:
        if x > 2:  # asks for the value
            return x // 2
        return x

    with caplog.at_level(logging.WARNING, "feedline"):
        for _ in range(3):
            assert list(D.range(5).map(halve)) == [0, 1, 2, 1, 2]
    (message,) = records(caplog)
    line = halve.__code__.co_firstlineno + 1
    assert f"test_functions.py:{line}" in message
    assert "if x > 2:  # asks for the value" in message
    assert "map" in message and "halve" in message and "fl.where" in message


def test_each_function_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "feedline"):
        D.range(5).map(lambda x: int(x))
        D.range(5).filter(lambda x: bool(x > 1))
    assert [message.partition("(")[0] for message in records(caplog)] == ["map", "filter"]


def test_traced_functions_and_python_on_request_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "feedline"):
        list(D.range(5).map(lambda x: x + 1).map(lambda x: int(x), python=True))
    assert records(caplog) == []


def test_traced_functions_are_called_once() -> None:
    calls = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return x + 1

    dataset = D.range(100).map(counted)
    list(dataset)
    list(dataset)
    assert len(calls) == 1
    assert isinstance(calls[0], fl.Symbol)


def test_python_functions_get_numpy_values() -> None:
    seen = []

    def look(row: Any, number: Any, text: Any) -> Any:
        seen.append((type(row), type(number), type(text)))
        return number

    dataset = D.from_tensor_slices((np.zeros((3, 2)), [1, 2, 3], ["a", "b", "c"])).map(look, python=True)
    assert list(dataset) == [1, 2, 3]
    assert set(seen) == {(np.ndarray, np.int32, bytes)}


def test_native_refuses_what_cannot_be_traced() -> None:
    with pytest.raises(ValueError, match=r"(?s)map.*native=True.*int\(\).*test_functions.py"):
        D.range(3).map(lambda x: int(x), native=True)
    assert list(D.range(3).map(lambda x: x + 1, native=True)) == [1, 2, 3]


def test_output_signature_states_the_shape() -> None:
    spec = fl.TensorSpec((2,), fl.float32)
    dataset = D.range(3).map(lambda x: [float(x), 1.0], python=True, output_signature=spec)
    assert dataset.element_spec == spec
    assert [row.tolist() for row in dataset] == [[0, 1], [1, 1], [2, 1]]
    with pytest.raises(ValueError, match=r"\[2\]"):
        list(D.range(3).map(lambda x: [1.0], python=True, output_signature=spec))


def test_python_functions_of_an_empty_dataset_need_a_signature() -> None:
    with pytest.raises(ValueError, match="output_signature"):
        D.range(0).map(lambda x: int(x))
    signature = fl.TensorSpec((), fl.int64)
    assert list(D.range(0).map(lambda x: int(x), output_signature=signature)) == []


@pytest.mark.parametrize("made", ["lambda", "partial", "object", "method", "builtin", "numpy", "feedline"])
def test_anything_callable_is_a_function(made: str) -> None:
    class Adder:
        def __call__(self, x: Any) -> Any:
            return x + 1

        def add(self, x: Any) -> Any:
            return x + 1

    function = {
        "lambda": lambda x: x + 1,
        "partial": functools.partial(lambda a, x: x + a, 1),
        "object": Adder(),
        "method": Adder().add,
        "builtin": abs,
        "numpy": np.abs,
        "feedline": fl.abs,
    }[made]
    assert list(D.range(1, 3).map(function, native=True)) == [function(1), function(2)]


# Exceptions


class Custom(Exception):
    """An exception of the user's own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def fails_at_two(x: Any) -> Any:
    """Raises for one element."""
    if int(x) == 2:
        raise Custom(7)  # the line that fails
    return x


@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_exceptions_arrive_as_they_are_and_iteration_goes_on(chunk_rows: int) -> None:
    dataset = D.range(5).map(fails_at_two, python=True).with_options(chunk_rows=chunk_rows)
    for _ in range(2):
        found = outcomes(dataset)
        error = found.pop(2)
        assert found == [0, 1, 3, 4]
        assert type(error) is Custom and error.code == 7
        lines = "".join(traceback.format_tb(error.__traceback__))
        assert "raise Custom(7)  # the line that fails" in lines
        assert "fails_at_two" in lines


def test_an_exception_names_operator_and_element() -> None:
    error = outcomes(D.range(5).map(fails_at_two, python=True))[2]
    notes = getattr(error, "__notes__", None)
    if notes is not None:
        assert "map" in notes[0] and "element 2" in notes[0]


def test_an_exception_loses_one_element_of_what_follows() -> None:
    dataset = D.range(7).map(fails_at_two, python=True)
    assert list(dataset.ignore_errors()) == [0, 1, 3, 4, 5, 6]
    assert [batch.tolist() for batch in dataset.ignore_errors().batch(3)] == [[0, 1, 3], [4, 5, 6]]
    assert [x for x in outcomes(dataset.map(lambda x: x * 2)) if not isinstance(x, Custom)] == [
        0,
        2,
        6,
        8,
        10,
        12,
    ]


def test_each_failing_element_has_its_own_exception() -> None:
    def fail(x: Any) -> Any:
        raise Custom(int(x))

    dataset = D.range(4).map(fail, python=True, output_signature=fl.TensorSpec((), fl.int64))
    assert [error.code for error in outcomes(dataset)] == [0, 1, 2, 3]


def test_stop_iteration_in_a_function_is_no_end() -> None:
    def stop(x: Any) -> Any:
        if int(x) == 1:
            raise StopIteration
        return x

    found = outcomes(D.range(3).map(stop, python=True, output_signature=fl.TensorSpec((), fl.int64)))
    assert [found[0], found[2]] == [0, 2]
    assert isinstance(found[1], RuntimeError)


@pytest.mark.parametrize(
    "error", [KeyError("x"), OSError(2, "gone"), MemoryError(), AssertionError(), SystemError()]
)
def test_builtin_exceptions_arrive_too(error: Exception) -> None:
    def fail(x: Any) -> Any:
        raise error

    dataset = D.range(1).map(fail, python=True, output_signature=fl.TensorSpec((), fl.int64))
    (found,) = outcomes(dataset)
    assert found is error or (type(found) is type(error) and found.args == error.args)


def test_exceptions_while_tracing_are_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        D.range(3).map(lambda x: 1 / 0)


def test_errors_of_traced_functions_stand_in_their_place() -> None:
    found = outcomes(D.range(4).map(lambda x: 6 // (x - 2)))
    assert found[:2] == [-3, -6] and found[3] == 6
    assert isinstance(found[2], fl.errors.DataError) and isinstance(found[2], ValueError)
    assert "division by zero" in str(found[2]) and "element 2" in str(found[2])


def test_wrong_results_of_python_functions_are_errors_of_their_element() -> None:
    signature = fl.TensorSpec((), fl.int64)
    dataset = D.range(4).map(
        lambda x: 1.5 if x == 1 else "a" if x == 2 else int(x), output_signature=signature
    )
    found = outcomes(dataset)
    assert [found[0], found[3]] == [0, 3]
    assert all(isinstance(error, (TypeError, ValueError)) for error in found[1:3])


# Conditions, captures, datasets


def test_cond_runs_one_branch() -> None:
    dataset = D.range(4).map(lambda x: fl.cond(x == 0, lambda: x, lambda: 6 // x))
    assert list(dataset) == [0, 6, 3, 2]


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_cond_of_structures_and_shapes(chunk_rows: int) -> None:
    def choose(x: Any) -> Any:
        return fl.cond(
            x % 2 == 0, lambda: {"a": x, "b": fl.range(x)}, lambda: {"a": -x, "b": fl.zeros([1], fl.int64)}
        )

    found = list(D.range(5).map(choose, native=True).with_options(chunk_rows=chunk_rows))
    assert [element["a"] for element in found] == [0, -1, 2, -3, 4]
    assert [element["b"].tolist() for element in found] == [[], [0], [0, 1], [0], [0, 1, 2, 3]]


def test_cond_within_cond() -> None:
    def choose(x: Any) -> Any:
        return fl.cond(x > 1, lambda: fl.cond(x > 2, lambda: x * 10, lambda: x * 100), lambda: x)

    assert list(D.range(4).map(choose, native=True)) == [0, 1, 200, 30]


def test_cond_at_once() -> None:
    assert fl.cond(True, lambda: 1, lambda: 2) == 1
    assert fl.cond(np.bool_(False), lambda: 1, lambda: 2) == 2


def test_functions_use_values_of_the_functions_around_them() -> None:
    dataset = D.range(2).flat_map(
        lambda x: D.range(2).flat_map(lambda y: D.range(2).map(lambda z: x * 100 + y * 10 + z))
    )
    assert list(dataset) == [0, 1, 10, 11, 100, 101, 110, 111]


def test_captured_values_everywhere() -> None:
    table = np.array([10, 20, 30])
    dataset = D.range(3).flat_map(
        lambda x: (
            D.from_tensor_slices(table)
            .filter(lambda t: t > x * 10)
            .map(lambda t: t + x)
            .scan(x, lambda s, t: (s + 1, t + s))
            .take(x + 1)
        )
    )
    want = []
    for x in range(3):
        rows = [t + x for t in table if t > x * 10]
        want += [t + x + i for i, t in enumerate(rows)][: x + 1]
    assert list(dataset) == want


def test_arrays_and_numbers_from_outside() -> None:
    offset, table = 5, np.array([1.5, 2.5])
    dataset = D.range(2).map(lambda x: (x + offset, fl.gather(table, x)))
    offset = 6
    assert list(dataset) == [(5, 1.5), (6, 2.5)]


def test_datasets_as_values() -> None:
    assert [list(inner) for inner in D.range(3).map(lambda x: D.range(x))] == [[], [0], [0, 1]]
    outer = D.range(10, 12)
    assert list(D.range(2).flat_map(lambda x: outer.map(lambda y: y + x))) == [10, 11, 11, 12]
    windows = D.range(5).window(2, shift=2)
    assert [x.tolist() for x in windows.flat_map(lambda w: w.batch(2))] == [[0, 1], [2, 3], [4]]


def test_datasets_from_python_functions() -> None:
    assert list(D.range(3).flat_map(lambda x: D.range(int(x)))) == [0, 0, 1]
    assert list(D.range(2).interleave(lambda x: D.from_tensors(int(x)).repeat(2), cycle_length=2)) == [
        0,
        1,
        0,
        1,
    ]


def test_a_stored_symbolic_value_is_refused_later() -> None:
    stored = []
    D.range(3).map(lambda x: (stored.append(x), x)[1])
    with pytest.raises((ValueError, TypeError), match="symbolic"):
        stored[0] + 1
    with pytest.raises((ValueError, TypeError), match="symbolic"):
        D.range(3).map(lambda x: x + stored[0])


def test_numpy_function_in_the_middle_of_a_traced_one() -> None:
    def double(values: Any) -> Any:
        assert isinstance(values, np.ndarray)
        return values * 2

    dataset = D.range(3).batch(3).map(lambda x: fl.numpy_function(double, [x + 1], fl.int64) + 1)
    (batch,) = dataset
    assert batch.tolist() == [3, 5, 7]


# Random numbers

DRAWS = {
    "uniform": lambda: fl.random.uniform([2], seed=1),
    "uniform integers": lambda: fl.random.uniform([2], 0, 1 << 30, fl.int32, seed=1),
    "integers": lambda: fl.random.integers(0, 1 << 40, [2], seed=1),
    "normal": lambda: fl.random.normal([2], seed=1),
    "truncated_normal": lambda: fl.random.truncated_normal([2], seed=1),
    "permutation": lambda: fl.random.permutation(50, seed=1),
    "shuffle": lambda: fl.random.shuffle(np.arange(50), seed=1),
    "bernoulli": lambda: fl.random.bernoulli([64], seed=1),
}


def lists(dataset: Any) -> list[Any]:
    return [[np.asarray(leaf).tolist() for leaf in fl.nest.flatten(element)] for element in dataset]


@pytest.mark.parametrize("kind", DRAWS)
def test_random_numbers_do_not_depend_on_chunks_and_workers(kind: str) -> None:
    draw = DRAWS[kind]

    def dataset() -> fl.Dataset:
        return D.range(20).map(lambda x: (x, draw()))

    first = lists(dataset())
    for options in (
        {"chunk_rows": 1},
        {"chunk_rows": 7},
        {"cpu_budget": 1},
        {"rewrite": False},
        {"prefetch": False},
    ):
        assert lists(dataset().with_options(**options)) == first
    assert lists(dataset().shuffle(20, seed=3)) != first


@pytest.mark.parametrize("kind", DRAWS)
def test_random_numbers_differ_between_elements_epochs_and_uses(kind: str) -> None:
    draw = DRAWS[kind]
    dataset = D.range(10).map(lambda x: (draw(), draw()))
    epochs = [lists(dataset) for _ in range(3)] + [lists(dataset.repeat(2))]
    values = [str(value) for epoch in epochs[:3] for element in epoch for value in element]
    assert len(set(values)) == len(values)
    repeated = [str(value) for element in epochs[3] for value in element]
    assert len(set(repeated)) == len(repeated)


def test_every_epoch_is_reproducible() -> None:
    def dataset() -> fl.Dataset:
        return D.range(8).shuffle(8, seed=1).map(lambda x: (x, fl.random.uniform([], seed=2)))

    a, b = dataset(), dataset()
    for _ in range(3):
        assert lists(a) == lists(b)


def test_random_numbers_are_the_same_in_a_fresh_process(program: Any) -> None:
    source = """
        import feedline as fl
        fl.random.set_seed(11)
        ds = fl.Dataset.range(6).shuffle(4)
        ds = ds.map(lambda x: (x, fl.random.normal([]), fl.random.uniform([], seed=3)))
        for epoch in range(2):
            print([tuple(map(float, element)) for element in ds])
    """
    first, second = program(source).stdout, program(source, env={"FEEDLINE_CPU_BUDGET": "1"}).stdout
    assert first == second and len(first.splitlines()) == 2


def test_without_seeds_two_pipelines_differ() -> None:
    fl.random.set_seed(None)
    a, b = (lists(D.range(4).map(lambda x: fl.random.uniform([4]))) for _ in range(2))
    assert a != b


def test_random_numbers_in_inner_datasets() -> None:
    dataset = D.range(4).flat_map(lambda x: D.range(3).map(lambda y: fl.random.uniform([], seed=1)))
    found = list(dataset.with_options(chunk_rows=1))
    assert len(set(found)) == 12
    again = D.range(4).flat_map(lambda x: D.range(3).map(lambda y: fl.random.uniform([], seed=1)))
    assert list(again.with_options(chunk_rows=100, cpu_budget=1)) == found


def test_random_numbers_lie_where_they_should() -> None:
    dataset = D.range(500).map(
        lambda x: (fl.random.uniform([], 2, 3), fl.random.integers(-2, 3), fl.random.truncated_normal([]))
    )
    floats, integers, normals = map(np.array, zip(*dataset, strict=True))
    assert ((floats >= 2) & (floats < 3)).all()
    assert set(integers.tolist()) == {-2, -1, 0, 1, 2}
    assert (np.abs(normals) <= 2).all()


def test_choices_in_maps_that_are_joined() -> None:
    """A condition is about the value of its own map."""
    chosen = fl.Dataset.range(6).map(lambda x: x * 1 + 0)
    chosen = chosen.map(lambda x: fl.cond(x > 2, lambda: 10, lambda: 20))
    assert [int(x) for x in chosen] == [20, 20, 20, 10, 10, 10]
    twice = fl.Dataset.range(3).map(lambda x: fl.logical_not(x > 100))
    twice = twice.map(lambda b: fl.cond(fl.logical_not(fl.logical_not(b)), lambda: 1, lambda: 0))
    assert [int(x) for x in twice] == [1, 1, 1]


def test_a_power_is_the_same_in_every_chunk() -> None:
    """One exponent for each of several rows, and one for a row alone."""
    base = 49.27083055064112
    ds = fl.Dataset.from_list([1, 1, 2, 1]).map(
        lambda n: fl.fill([n], fl.constant(base, fl.float64)) ** fl.cast(n * 0 + 2, fl.float64)
    )
    for rows in (1, 4):
        for values in ds.with_options(chunk_rows=rows):
            assert (values == base * base).all()


def test_parameters_that_cannot_be_carried_are_refused() -> None:
    """Numbers that JSON does not have, and bytes that are no text, are not replaced by others."""

    class Counting:
        def __iter__(self) -> Any:
            return iter(range(3))

        def state_dict(self) -> dict[str, Any]:
            return {"rate": float("nan")}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    ds = fl.Dataset.from_generator(Counting, output_signature=fl.TensorSpec((), fl.int64))
    it = iter(ds)
    next(it)
    with pytest.raises(Exception, match="must be a finite number"):
        it.state_dict()
