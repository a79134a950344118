"""Functions of elements: what is traced means what NumPy means."""

from __future__ import annotations

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
