"""Elements are NumPy arrays that belong to whoever got them: aligned, writable, and shared with nothing."""

from __future__ import annotations

import dataclasses
import gc
import json
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import feedline as fl
import ml_dtypes
import numpy as np
import pytest

D = fl.Dataset
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NUMBERS = [
    *map(np.dtype, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    *map(np.dtype, ("float16", "float32", "float64", "bool")),
    BFLOAT16,
]


def source() -> np.ndarray:
    """Four rows of three numbers, in memory of their own."""
    return np.arange(12.0).reshape(4, 3)


def arrays(element: Any) -> list[np.ndarray]:
    """The arrays of an element."""
    found: list[np.ndarray] = []
    for leaf in fl.nest.flatten(element):
        if isinstance(leaf, fl.RaggedTensor):
            found += [leaf.flat_values, *leaf.nested_row_splits]
        elif isinstance(leaf, fl.SparseTensor):
            found += [leaf.values, leaf.indices, leaf.dense_shape]
        elif isinstance(leaf, np.ndarray):
            found.append(leaf)
    return found


Build = Callable[[np.ndarray], fl.Dataset]

# Ways for an array to reach the consumer. In each, something could be handed out that is still used.
WAYS: dict[str, Build] = {
    "from_tensors": D.from_tensors,
    "from_tensors of a view": lambda x: D.from_tensors(x[1:]),
    "from_tensors repeated": lambda x: D.from_tensors(x).repeat(3),
    "from_tensor_slices": D.from_tensor_slices,
    "from_tensor_slices read-only": lambda x: D.from_tensor_slices(read_only(x)),
    "from_list": lambda x: D.from_list([x[0], x[1], x]),
    "from_list of rows": lambda x: D.from_list([x[0], x[1]]),
    "from_list repeated": lambda x: D.from_list([x.copy()]).repeat(3),
    "from_list shuffled": lambda x: D.from_list([x, x + 1]).shuffle(
        2, seed=1, reshuffle_each_iteration=False
    ),
    "by number": lambda x: D.from_tensor_slices(x).shuffle(seed=1, reshuffle_each_iteration=False),
    "batch": lambda x: D.from_tensor_slices(x).batch(2),
    "batch of all": lambda x: D.from_tensor_slices(x).batch(4),
    "batch of one": lambda x: D.from_tensor_slices(x).batch(1),
    "batch of batches": lambda x: D.from_tensor_slices(x).batch(2).batch(2),
    "padded_batch": lambda x: D.from_tensor_slices(x).padded_batch(2, [5]),
    "ragged_batch": lambda x: D.range(4).map(lambda n: fl.range(n)).ragged_batch(2),
    "sparse_batch": lambda x: D.from_tensor_slices(x).sparse_batch(2, [3]),
    "unbatch": lambda x: D.from_tensors(x).unbatch(),
    "rebatch": lambda x: D.from_tensors(x).rebatch(3),
    "window": lambda x: D.from_tensor_slices(x).window(2, 1).flat_map(lambda w: w.batch(2)),
    "overlapping windows": lambda x: D.from_tensor_slices(x).window(3, 1).flat_map(lambda w: w),
    "cache": lambda x: D.from_tensor_slices(x).cache(),
    "cache of batches": lambda x: D.from_tensor_slices(x).batch(2).cache(),
    "cache of the whole": lambda x: D.from_tensors(x).cache().repeat(2),
    "cache of ragged": lambda x: D.range(4).map(lambda n: fl.range(n)).ragged_batch(2).cache(),
    "cache of sparse": lambda x: D.from_tensor_slices(x).sparse_batch(2, [3]).cache(),
    "constant": lambda x: D.range(3).map(lambda _: x),
    "constant beside": lambda x: D.range(3).map(lambda n: (n, x)),
    "fl.constant": lambda x: D.range(3).map(lambda n: (n, fl.constant([1.5, 2.5]))),
    "zeros": lambda x: D.range(3).map(lambda _: fl.zeros([3])),
    "the same twice": lambda x: D.from_tensor_slices(x).map(lambda row: (row, row)),
    "views": lambda x: D.from_tensor_slices(x).batch(2).map(lambda b: (b, b.reshape(-1), b[:, :2], b.T)),
    "gather": lambda x: D.range(4).map(lambda n: fl.gather(x, n)),
    "broadcast": lambda x: D.from_tensor_slices(x).map(lambda row: fl.broadcast_to(row, [4, 3])),
    "cond": lambda x: D.range(3).map(
        lambda n: fl.cond(n > 1, lambda: fl.constant(x), lambda: fl.constant(x))
    ),
    "python": lambda x: D.from_tensor_slices(x).map(lambda row: row, python=True),
    "python constant": lambda x: D.range(3).map(lambda _: x, python=True),
    "python twice": lambda x: D.from_tensor_slices(x).map(lambda row: (row, row), python=True),
    "python batches": lambda x: D.from_tensor_slices(x).batch(2).map(lambda b: b[::-1], python=True),
    "generator": lambda x: D.from_generator(
        lambda: [x, x, x], output_signature=fl.TensorSpec((4, 3), fl.float64)
    ),
    "scan state": lambda x: D.range(3).scan(x, lambda s, n: (s, s)),
    "zip with itself": lambda x: (lambda ds: D.zip(ds, ds))(D.from_tensor_slices(x)),
    "zip of a cache": lambda x: (lambda ds: D.zip(ds, ds))(D.from_tensor_slices(x).batch(2).cache()),
    "concatenate": lambda x: (lambda ds: ds.concatenate(ds))(D.from_tensors(x)),
    "choose": lambda x: D.choose_from_datasets([D.from_tensors(x).repeat()] * 2, D.range(2)),
    "flat_map of a capture": lambda x: D.from_tensors(x).flat_map(lambda a: D.range(3).map(lambda _: a)),
    "group_by_window": lambda x: D.from_tensor_slices(x).group_by_window(
        lambda row: fl.cast(row[0], fl.int64) % 2, lambda key, window: window.batch(2), 2
    ),
    "prefetch": lambda x: D.from_tensors(x).repeat(5).prefetch(3),
    "ragged source": lambda x: D.from_tensors(fl.ragged.constant([[1, 2], [3]])).repeat(2),
    "ragged rows": lambda x: D.from_tensor_slices(fl.ragged.constant([[1, 2], [3]])),
    "sparse source": lambda x: D.from_tensors(fl.SparseTensor([[0, 1]], [5], [2, 2])).repeat(2),
    "strings": lambda x: D.from_tensors(["a", "b"]).repeat(2),
    "cached strings": lambda x: D.from_tensor_slices(["a", "b"]).batch(2).cache(),
    "from_list of strings": lambda x: D.from_list([["a", "b"], ["c"]]),
}


def read_only(x: np.ndarray) -> np.ndarray:
    view = x.view()
    view.setflags(write=False)
    return view


def copies(dataset: fl.Dataset) -> list[list[np.ndarray]]:
    return [[array.copy() for array in arrays(element)] for element in dataset]


def spoil(element: Any) -> None:
    """Overwrites all items of an element."""
    for array in arrays(element):
        array[...] = b"spoilt" if array.dtype == object else 77


def assert_equal(a: list[list[np.ndarray]], b: list[list[np.ndarray]]) -> None:
    assert [len(x) for x in a] == [len(x) for x in b]
    for x, y in zip(a, b, strict=True):
        for p, q in zip(x, y, strict=True):
            np.testing.assert_array_equal(p, q)


@pytest.mark.parametrize("way", WAYS)
def test_writing_into_elements_changes_nothing_else(way: str) -> None:
    """Neither later elements of the pass, nor later passes, nor the source."""
    x = source()
    expected = copies(WAYS[way](source()))
    dataset = WAYS[way](x)
    for _ in range(3):
        got = []
        for element in dataset:
            got.append([array.copy() for array in arrays(element)])
            spoil(element)
        assert_equal(got, expected)
        np.testing.assert_array_equal(x, source())


@pytest.mark.parametrize("way", WAYS)
def test_writing_into_all_elements_after_the_pass(way: str) -> None:
    x = source()
    expected = copies(WAYS[way](source()))
    dataset = WAYS[way](x)
    for _ in range(3):
        elements = list(dataset)
        assert_equal([[array.copy() for array in arrays(element)] for element in elements], expected)
        for element in elements:
            spoil(element)
        np.testing.assert_array_equal(x, source())


@pytest.mark.parametrize("way", WAYS)
def test_elements_share_no_memory(way: str) -> None:
    x = source()
    found = [array for element in WAYS[way](x) for array in arrays(element)]
    for place, array in enumerate(found):
        assert not np.shares_memory(array, x)
        for other in found[:place]:
            assert not np.shares_memory(array, other)


@pytest.mark.parametrize("way", WAYS)
def test_arrays_are_aligned_contiguous_and_writable(way: str) -> None:
    for element in WAYS[way](source()):
        for array in arrays(element):
            assert type(array) is np.ndarray
            assert array.flags.writeable
            assert array.flags.c_contiguous
            assert array.flags.aligned
            if array.dtype != object and array.size:
                assert array.ctypes.data % 64 == 0


@pytest.mark.parametrize("way", ["from_list", "from_tensors", "constant", "by number"])
def test_elements_by_number_are_not_shared(way: str) -> None:
    dataset = WAYS[way](source())
    expected = dataset[0].copy()
    first = dataset[0]
    first[...] = 77
    np.testing.assert_array_equal(dataset[0], expected)
    np.testing.assert_array_equal(arrays(next(iter(dataset)))[0], expected)


def test_results_of_reduce_are_not_the_initial_state() -> None:
    state = np.zeros(3)
    result = D.range(0).reduce(state, lambda s, x: s)
    result[...] = 77
    assert state.tolist() == [0, 0, 0]


def test_get_single_element_is_not_the_source() -> None:
    x = source()
    D.from_tensors(x).get_single_element()[...] = 77
    np.testing.assert_array_equal(x, source())


def test_functions_called_at_once_do_not_give_their_argument_back() -> None:
    """What `fl.` functions return can be written to without changing what they were given."""
    x = source()
    for result in (fl.identity(x), fl.reshape(x, [-1]), fl.cast(x, fl.float64), x[:1], fl.constant(x)):
        if not np.shares_memory(result, x):
            result[...] = 77
    assert x[1].tolist() == [3, 4, 5]


# dtypes


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 0), (0, 3), (5, 2, 2, 1)], ids=str)
def test_numbers_of_every_dtype_pass_unchanged(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    x = (np.arange(np.prod(shape)).reshape(shape) % 7).astype(dtype)
    dataset = D.from_tensor_slices(x)
    assert dataset.element_spec == fl.TensorSpec(shape[1:], dtype)
    rows = list(dataset)
    assert len(rows) == len(x)
    for row, expected in zip(rows, x, strict=True):
        assert row.dtype == dtype
        np.testing.assert_array_equal(row, expected)
    for batch, start in zip(dataset.batch(2), range(0, 5, 2), strict=False):
        assert batch.dtype == dtype
        np.testing.assert_array_equal(batch, x[start : start + 2])


EXTREMES = [
    (dtype, limit)
    for dtype in NUMBERS
    if dtype.kind in "iu"
    for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max)
]


@pytest.mark.parametrize(("dtype", "limit"), EXTREMES, ids=str)
def test_extreme_numbers(dtype: np.dtype, limit: int) -> None:
    (value,) = D.from_tensors(np.array(limit, dtype))
    assert value == limit and value.dtype == dtype


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.kind == "f" or d == BFLOAT16], ids=str)
def test_special_floats(dtype: np.dtype) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
    (value,) = D.from_tensors(x)
    assert value.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_scalars_are_numpy_scalars(dtype: np.dtype) -> None:
    for value in D.from_tensor_slices(np.ones(2, dtype)):
        assert isinstance(value, np.generic)
        assert value.dtype == dtype and value == 1


ODD_ARRAYS: dict[str, np.ndarray] = {
    "big-endian": np.arange(6, dtype=">i4").reshape(3, 2),
    "big-endian float": np.arange(6, dtype=">f8").reshape(3, 2),
    "every second column": np.arange(12).reshape(3, 4)[:, ::2],
    "reversed": np.arange(6).reshape(3, 2)[::-1],
    "transposed": np.arange(6).reshape(2, 3).T,
    "fortran": np.asfortranarray(np.arange(6).reshape(3, 2)),
    "broadcast": np.broadcast_to(np.arange(2), (3, 2)),
    "not aligned": np.frombuffer(b"\0" + np.arange(6).tobytes(), np.uint8)[1:].view(np.int64).reshape(3, 2),
    "of a bytes object": np.frombuffer(np.arange(6).tobytes(), np.int64).reshape(3, 2),
    "field of a record": np.zeros(3, [("a", "i1"), ("b", "f8", 2)])["b"],
    "subclass": np.arange(6).reshape(3, 2).view(np.matrix),
    "masked without mask": np.ma.array(np.arange(6).reshape(3, 2)),
}


@pytest.mark.parametrize("kind", ODD_ARRAYS)
def test_arrays_of_any_layout(kind: str) -> None:
    x = ODD_ARRAYS[kind]
    (whole,) = D.from_tensors(x)
    np.testing.assert_array_equal(whole, np.asarray(x))
    assert whole.dtype == x.dtype.newbyteorder("=")
    rows = list(D.from_tensor_slices(x))
    assert len(rows) == 3
    np.testing.assert_array_equal(np.stack(rows), np.asarray(x))


def test_memory_mapped_arrays(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    dataset = D.from_tensor_slices(x).batch(300)
    del x
    assert [batch.sum() for batch in dataset] == [
        np.arange(a, min(a + 300, 1000)).sum() for a in (0, 300, 600, 900)
    ]


def test_a_scalar_array_is_an_element_of_from_tensors() -> None:
    (value,) = D.from_tensors(np.array(3))
    assert value == 3 and isinstance(value, np.int64)


STRINGS: dict[str, tuple[Any, list[bytes]]] = {
    "str": (["a", "ü", ""], [b"a", "ü".encode(), b""]),
    "bytes": ([b"a", b"\xff\x00", b""], [b"a", b"\xff\x00", b""]),
    "str and bytes": (["ü", b"\xff"], ["ü".encode(), b"\xff"]),
    "np.str_": (np.array(["ab", "ü"]), [b"ab", "ü".encode()]),
    "np.bytes_": (np.array([b"ab", b"c"]), [b"ab", b"c"]),
    "object": (np.array(["ab", b"c"], object), [b"ab", b"c"]),
    "with zeros": (np.array([b"a\0b", b"\0"], object), [b"a\0b", b"\0"]),
    "ends with zero in a list": ([b"a\0", b"\0\0"], [b"a\0", b"\0\0"]),
    "long": (["x" * 100_000, "y"], [b"x" * 100_000, b"y"]),
    "wide characters": (["日本", "🙂"], ["日本".encode(), "🙂".encode()]),
}


@pytest.mark.parametrize("kind", STRINGS)
def test_text_comes_as_bytes(kind: str) -> None:
    given, expected = STRINGS[kind]
    dataset = D.from_tensor_slices(given)
    assert dataset.element_spec == fl.TensorSpec((), fl.string)
    assert list(dataset) == expected
    assert all(type(text) is bytes for text in dataset)
    (batch,) = dataset.batch(10)
    assert batch.dtype == object and batch.tolist() == expected


def test_string_dtype_of_numpy() -> None:
    x = np.array(["a", "bcü"], np.dtypes.StringDType())
    assert list(D.from_tensor_slices(x)) == [b"a", "bcü".encode()]


PYTHON_DATA = [
    ([1, 2], fl.int32),
    ([1.5], fl.float32),
    ([True], fl.bool),
    ([1, 2.5], fl.float32),
    ([], fl.float32),
    ([2**40], fl.int64),
    ([np.float64(1)], fl.float64),
    ([np.int8(1)], fl.int8),
    (["a"], fl.string),
    ([np.zeros(2, np.float16)] * 2, fl.float16),
    (range(3), None),
]


@pytest.mark.parametrize(("data", "dtype"), PYTHON_DATA, ids=[str(data)[:30] for data, _ in PYTHON_DATA])
def test_dtypes_of_python_data(data: Any, dtype: Any) -> None:
    spec = D.from_tensor_slices(data).element_spec
    assert spec.dtype.is_integer if dtype is None else spec.dtype == dtype


class FromElsewhere:
    """An array of another library: it only has `__array__`."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.arange(3)


def test_arrays_of_other_libraries_are_taken() -> None:
    assert list(D.from_tensor_slices(FromElsewhere())) == [0, 1, 2]
    assert list(D.from_tensor_slices((FromElsewhere(), [1, 2, 3])).map(lambda a, b: a)) == [0, 1, 2]


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d != BFLOAT16], ids=str)
def test_batches_go_to_other_libraries_without_a_copy(dtype: np.dtype) -> None:
    (batch,) = D.from_tensor_slices(np.ones((4, 2), dtype)).batch(4)
    view = np.from_dlpack(batch)
    assert np.shares_memory(view, batch)
    np.testing.assert_array_equal(view, batch)
    assert np.asarray(batch) is batch
    assert memoryview(batch).nbytes == batch.nbytes


# Memory


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether it comes true: what workers let go of is given back by the next call into feedline."""
    for _ in range(500):
        D.range(1)
        gc.collect()
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_views_keep_their_memory() -> None:
    iterator = iter(D.from_tensor_slices(np.arange(100_000)).batch(50_000))
    view = next(iterator)[1:3]
    del iterator
    gc.collect()
    for _ in range(3):
        list(D.range(100_000).batch(50_000))
    assert view.tolist() == [1, 2]


SOURCES: dict[str, Build] = {
    "from_tensors": D.from_tensors,
    "from_tensor_slices": D.from_tensor_slices,
    "from_list": lambda x: D.from_list([x]),
    "map": lambda x: D.range(2).map(lambda n: x),
    "python": lambda x: D.range(2).map(lambda n: x, python=True),
    "generator": lambda x: D.from_generator(lambda: [x], output_signature=fl.TensorSpec((4, 3), fl.float64)),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("read", ["not at all", "a part", "all"])
def test_source_arrays_are_let_go_with_the_dataset(kind: str, read: str) -> None:
    x = source()
    alive = weakref.ref(x)
    dataset = SOURCES[kind](x).batch(1).prefetch(1)
    del x
    if read == "a part":
        next(iter(dataset))
    elif read == "all":
        list(dataset)
    assert sum(array.size for element in dataset.take(1) for array in arrays(element)) > 0
    del dataset
    assert wait_for(lambda: alive() is None)


def test_the_source_lives_as_long_as_the_dataset() -> None:
    dataset = D.from_tensor_slices(np.arange(10_000)).batch(10_000)
    gc.collect()
    np.full(10_000, 77)
    (batch,) = dataset
    np.testing.assert_array_equal(batch, np.arange(10_000))


def test_a_consumer_that_keeps_all_batches_gets_different_ones() -> None:
    dataset = D.range(1000).map(lambda x: fl.fill([16], x)).batch(10)
    batches = list(dataset)
    assert [int(batch[0, 0]) for batch in batches] == list(range(0, 1000, 10))


def test_large_batches_are_made_in_their_own_memory() -> None:
    """Of several chunks, by several workers, and copied nowhere."""
    pictures = np.random.default_rng(1).integers(0, 256, (70, 224, 224, 3), np.uint8)
    dataset = D.from_tensor_slices((pictures, np.arange(70)))
    dataset = dataset.map(lambda x, y: (fl.cast(x, fl.float32) / 255, y)).batch(32)
    kept = list(dataset)
    ran = json.loads(dataset.explain("json"))["runs"]
    assert ran["op"] == "batch" and ran["meter"]["copied_bytes"] <= 70 * 8, "labels at most"
    assert [len(x) for x, _ in kept] == [32, 32, 6]
    for x, _ in kept:
        assert x.flags.writeable and x.flags.c_contiguous and x.ctypes.data % 64 == 0
    np.testing.assert_array_equal(np.concatenate([x for x, _ in kept]), pictures.astype(np.float32) / 255)
    np.testing.assert_array_equal(np.concatenate([y for _, y in kept]), np.arange(70))
    kept[0][0][:] = 0
    assert kept[1][0].max() > 0.9 and kept[2][0].max() > 0.9


def test_cached_batches_are_handed_out_as_they_lie() -> None:
    dataset = D.range(6).map(lambda x: fl.fill([256, 128], x)).batch(3).cache()
    first, second = list(dataset), list(dataset)
    again = list(dataset)
    for a, b, c in zip(first, second, again, strict=True):
        assert b.ctypes.data == c.ctypes.data and not b.flags.writeable
        np.testing.assert_array_equal(a, b)
        with pytest.raises(ValueError, match="read-only"):
            b[:] = 0
    small = list(D.range(6).batch(3).cache())
    assert all(x.flags.writeable for x in small)


def test_the_cache_is_let_go_with_the_dataset() -> None:
    class Marked(np.ndarray):
        pass

    x = source().view(Marked)
    alive = weakref.ref(x)
    dataset = D.from_tensors(x).cache().repeat(2)
    list(dataset)
    del dataset, x
    assert wait_for(lambda: alive() is None)


# Structures


class Point(NamedTuple):
    """A pair with names."""

    x: Any
    y: Any


@dataclasses.dataclass
class Example:
    """A dataclass."""

    image: Any
    label: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A dataclass that cannot be changed."""

    value: Any


STRUCTURES = [
    ([1, 2],),
    ([1, 2], [3, 4]),
    (([1, 2],), [3, 4]),
    {"b": [1, 2], "a": [3, 4]},
    {"outer": {"inner": [1, 2]}, "pair": ([1, 2], [3, 4])},
    Point([1, 2], [3, 4]),
    Point([1, 2], Point([3, 4], {"z": [5, 6]})),
    Example([1, 2], [3, 4]),
    Example(Point([1, 2], [3, 4]), {"label": [5, 6]}),
    Frozen([1, 2]),
    (Frozen([1, 2]), {"e": Example([1, 2], ([3, 4],))}),
    OrderedDict(z=[1, 2], a=[3, 4]),
    {"with space": [1, 2], "ü": [3, 4], "": [5, 6]},
]


def kinds(value: Any) -> Any:
    """The kinds and keys of a structure, without its leaves."""
    if fl.nest.is_nested(value, lists=False):
        kind = dict if isinstance(value, dict) else type(value)
        keys = fl.nest.keys(value)
        return kind, [(key, kinds(fl.nest.part(value, key))) for key in keys]
    return "leaf"


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: str(s)[:40])
def test_structures_keep_their_kind_and_order(structure: Any) -> None:
    dataset = D.from_tensor_slices(structure)
    assert kinds(dataset.element_spec) == kinds(structure)
    first, second = dataset
    assert kinds(first) == kinds(second) == kinds(structure)
    assert fl.nest.flatten(first) == [leaf[0] for leaf in fl.nest.flatten(structure, lists=False)]
    (batch,) = dataset.batch(2)
    assert kinds(batch) == kinds(structure)
    assert [leaf.tolist() for leaf in fl.nest.flatten(batch)] == fl.nest.flatten(structure, lists=False)
    assert kinds(next(iter(dataset.shuffle(2).cache().repeat(2).prefetch(1)))) == kinds(structure)
    (again,) = D.zip((dataset,)).take(1)
    assert kinds(again) == kinds((structure,))


@pytest.mark.parametrize("python", [False, True])
def test_functions_get_and_give_structures(python: bool) -> None:
    def swap(point: Point) -> Example:
        assert isinstance(point, Point)
        return Example(image=point.y, label={"x": point.x})

    dataset = D.from_tensor_slices(Point([1, 2], [3, 4])).map(swap, python=python)
    assert list(dataset) == [Example(3, {"x": 1}), Example(4, {"x": 2})]


def test_a_returned_list_is_a_tuple() -> None:
    assert list(D.range(1).map(lambda x: [x, x + 1])) == [(0, 1)]
    assert list(D.range(1).map(lambda x: [x, x + 1], python=True)) == [(0, 1)]


def test_dict_order_survives_every_operator() -> None:
    dataset = D.from_tensor_slices({"z": [1, 2], "a": [3, 4]})
    other = D.from_tensor_slices({"a": [5], "z": [6]})
    for ds in (
        dataset.batch(2),
        dataset.map(lambda d: {**d}),
        dataset.concatenate(other),
        dataset.padded_batch(2),
    ):
        assert all(list(element) == ["z", "a"] for element in ds)
    assert list(dataset.concatenate(other))[-1] == {"z": 6, "a": 5}


@pytest.mark.parametrize("python", [False, True])
def test_absent_components(python: bool) -> None:
    dataset = D.from_tensors((1, None))
    assert list(dataset) == [(1, None)]
    assert dataset.element_spec == (fl.TensorSpec((), fl.int32), fl.NoneSpec())
    assert list(dataset.map(lambda a, b: {"none": b, "is": b is None}, python=python)) == [
        {"none": None, "is": True}
    ]
    assert next(iter(D.range(2).map(lambda x: (x, None), python=python).batch(2)))[1] is None
    assert list(D.from_tensor_slices(([1, 2], None)).cache().repeat(2)) == [(1, None), (2, None)] * 2


# Ragged and sparse values


def test_ragged_tensors() -> None:
    rows = [[1, 2], [], [3]]
    ragged = fl.ragged.constant(rows)
    dataset = D.from_tensor_slices(ragged)
    assert [row.tolist() for row in dataset] == rows
    assert all(row.dtype == np.int32 for row in dataset)
    assert [batch.to_list() for batch in dataset.ragged_batch(2)] == [rows[:2], rows[2:]]
    (whole,) = D.from_tensors(ragged)
    assert whole == ragged and whole.shape == (3, None)
    (batch,) = D.from_tensors(ragged).repeat(2).batch(2)
    assert batch.to_list() == [rows, rows] and batch.ragged_rank == 2


@pytest.mark.parametrize("dtype", [*NUMBERS, "string"], ids=str)
def test_ragged_tensors_of_every_dtype(dtype: Any) -> None:
    values = ["a", "b", "c"] if dtype == "string" else np.ones(3, dtype)
    ragged = fl.RaggedTensor.from_row_lengths(values, [1, 0, 2])
    (batch,) = D.from_tensor_slices(ragged).ragged_batch(3)
    assert batch.dtype == dtype
    assert batch.row_lengths().tolist() == [1, 0, 2]
    assert batch.flat_values.tolist() == ragged.flat_values.tolist()


def test_ragged_tensors_of_two_ragged_axes() -> None:
    rows = [[[1], [2, 3]], [], [[4]]]
    got = list(D.from_tensor_slices(fl.ragged.constant(rows)))
    assert [row.to_list() for row in got] == rows
    (batch,) = D.from_tensor_slices(fl.ragged.constant(rows)).ragged_batch(3)
    assert batch.to_list() == rows


def test_sparse_tensors() -> None:
    dense = np.array([[0, 5, 0], [6, 0, 0]])
    sparse = fl.sparse.from_dense(dense)
    assert list(D.from_tensor_slices(sparse)) == [fl.sparse.from_dense(row) for row in dense]
    assert list(D.from_tensors(sparse)) == [sparse]
    (back,) = D.from_tensors(sparse).map(lambda s: fl.sparse.to_dense(s))
    np.testing.assert_array_equal(back, dense)
    (batch,) = D.from_tensor_slices(sparse).batch(2)
    np.testing.assert_array_equal(fl.sparse.to_dense(batch), dense)
    (made,) = D.from_tensor_slices(dense).sparse_batch(2, [4])
    np.testing.assert_array_equal(fl.sparse.to_dense(made), np.pad(dense, ((0, 0), (0, 1))))


@pytest.mark.parametrize("rows", [[[]], [[], [], []], [[1]]], ids=str)
def test_ragged_batches_of_empty_rows(rows: list[list[int]]) -> None:
    dataset = D.from_tensor_slices(fl.ragged.constant(rows, fl.int64))
    (batch,) = dataset.ragged_batch(len(rows))
    assert batch.to_list() == rows
