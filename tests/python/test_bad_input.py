"""Wrong parameters are refused when the pipeline is built: with the right kind of exception, and a message
that names the operator and says what is wrong in the user's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import feedline as fl
import numpy as np
import pytest

D = fl.Dataset
NUMBERS = D.range(4)
PAIRS = D.from_tensor_slices((np.arange(4, dtype=np.float32), np.arange(4)))
make_csv = fl.data.experimental.make_csv_dataset
DICTS = D.from_tensor_slices({"image": np.zeros((4, 2), np.float32), "label": np.arange(4)})
ROWS = NUMBERS.map(lambda x: fl.fill([x], x))
WHOLE = "whole number"

# Words of the implementation that say nothing to a user.
JARGON = re.compile(
    r"untagged|variant|expected (usize|[iuf]\d+)|invalid type|invalid value|unknown field|panick|null"
)


def refuse(op: str, build: Callable[[], Any], *words: str, error: Any = (TypeError, ValueError)) -> Any:
    """A row of the table: the operator that the message must name, and words that it must have."""
    refuse.count += 1  # type: ignore[attr-defined]
    return pytest.param(op, build, words, error, id=f"{refuse.count}-{op}")  # type: ignore[attr-defined]


refuse.count = 0  # type: ignore[attr-defined]


def check(op: str, build: Callable[[], Any], words: tuple[str, ...], error: Any) -> None:
    with pytest.raises(error) as caught:
        build()
    text = str(caught.value)
    for word in (op, *words):
        assert word in text, f"{word!r} is not in the message: {text}"
    assert not JARGON.search(text), text


SIZES = [
    # (operator, parameter, values that are too small)
    ("batch", "batch_size", (0, -1)),
    ("padded_batch", "batch_size", (0, -1)),
    ("ragged_batch", "batch_size", (0, -5)),
    ("rebatch", "batch_size", (0, -1)),
    ("take", "count", (-2, -10)),
    ("prefetch", "buffer_size", (-2,)),
    ("shuffle", "buffer_size", (0, -1, -3)),
    ("window", "size", (0, -1)),
    ("assert_cardinality", "cardinality", (-3,)),
]


@pytest.mark.parametrize(("op", "parameter", "value"), [(o, p, v) for o, p, vs in SIZES for v in vs])
def test_a_size_that_is_too_small(op: str, parameter: str, value: int) -> None:
    dataset = NUMBERS.batch(2) if op == "rebatch" else NUMBERS
    check(op, lambda: getattr(dataset, op)(value), (parameter, str(value)), ValueError)


COUNTS = [
    "batch",
    "padded_batch",
    "ragged_batch",
    "rebatch",
    "take",
    "skip",
    "repeat",
    "prefetch",
    "shuffle",
    "window",
    "enumerate",
    "assert_cardinality",
]


@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize(
    "value", [1.5, 2.0, "3", True, np.float32(2), np.array([[2, 3]]), {"n": 2}], ids=repr
)
def test_a_count_that_is_no_whole_number(op: str, value: Any) -> None:
    dataset = NUMBERS.batch(2) if op == "rebatch" else NUMBERS
    check(op, lambda: getattr(dataset, op)(value), ("number",), (TypeError, ValueError))


@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize("value", [2**63, 2**70])
def test_a_count_beyond_64_bits(op: str, value: int) -> None:
    dataset = NUMBERS.batch(2) if op == "rebatch" else NUMBERS
    check(op, lambda: getattr(dataset, op)(value), (str(value),), ValueError)


@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize("value", [np.int32(2), np.uint8(2), np.array(2)], ids=repr)
def test_numpy_counts_are_whole_numbers(op: str, value: Any) -> None:
    dataset = NUMBERS.batch(2) if op == "rebatch" else NUMBERS
    dataset = getattr(dataset, op)(value)
    assert dataset.element_spec is not None


SELECTION = [
    refuse("shard", lambda: NUMBERS.shard(0, 0), "num_shards", error=ValueError),
    refuse("shard", lambda: NUMBERS.shard(-1, 0), "num_shards", error=ValueError),
    refuse("shard", lambda: NUMBERS.shard(2, 2), "index", "2", error=ValueError),
    refuse("shard", lambda: NUMBERS.shard(2, -1), "index", "-1", error=ValueError),
    refuse("shard", lambda: NUMBERS.shard(2, 1.0), "index", WHOLE, error=TypeError),
    refuse("window", lambda: NUMBERS.window(2, shift=0), "shift", error=ValueError),
    refuse("window", lambda: NUMBERS.window(2, shift=-1), "shift", error=ValueError),
    refuse("window", lambda: NUMBERS.window(2, stride=0), "stride", error=ValueError),
    refuse("window", lambda: NUMBERS.window(2, 1.5), "shift", WHOLE, error=TypeError),
    refuse("shuffle", lambda: NUMBERS.shuffle(3, seed=1.5), "seed", error=TypeError),
    refuse("random", lambda: D.random(seed="a"), "seed", error=TypeError),
    refuse("range", lambda: D.range(), "stop"),
    refuse("range", lambda: D.range(1, 2, 3, 4), "4"),
    refuse("range", lambda: D.range(0, 4, 0), "step", error=ValueError),
    refuse("range", lambda: D.range(1.5), "stop", WHOLE, error=TypeError),
    refuse("range", lambda: D.range(3, output_type=fl.string), "string"),
    refuse("range", lambda: D.range(3, output_type="number"), "number", "int64"),
    refuse("counter", lambda: D.counter(1.5), "start", error=TypeError),
    refuse("counter", lambda: D.counter(dtype=fl.string), "string"),
    refuse("counter", lambda: D.counter("a", dtype=fl.float32), "a"),
    refuse("slice", lambda: NUMBERS[::-1], "-1", error=ValueError),
    refuse("slice", lambda: NUMBERS[::0], "0", error=ValueError),
    refuse("slice", lambda: NUMBERS[1.5:], "1.5"),
    refuse("dataset", lambda: NUMBERS[1.5], "1.5", error=TypeError),
    refuse("dataset", lambda: NUMBERS["a"], "a", error=TypeError),
    refuse("dataset", lambda: NUMBERS[4], "4", error=IndexError),
    refuse("dataset", lambda: NUMBERS[-5], "-5", error=IndexError),
    refuse("filter", lambda: NUMBERS.filter(lambda x: x > 1)[0], "number", error=NotImplementedError),
    refuse("cache", lambda: NUMBERS.cache(3), "filename", error=TypeError),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), SELECTION)
def test_selection(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


MIXING = [
    refuse(
        "concatenate", lambda: NUMBERS.concatenate(PAIRS), "int64", "float32", error=(TypeError, ValueError)
    ),
    refuse("concatenate", lambda: NUMBERS.concatenate(D.from_tensors(1)), "int64", "int32"),
    refuse(
        "concatenate",
        lambda: DICTS.concatenate(DICTS.map(lambda d: {"image": d["image"], "lable": d["label"]})),
        "label",
        "lable",
    ),
    refuse("concatenate", lambda: NUMBERS.concatenate([1, 2]), "dataset", error=TypeError),
    refuse("concatenate", lambda: NUMBERS.concatenate(None), "dataset", error=TypeError),
    refuse("zip", lambda: D.zip([NUMBERS, NUMBERS]), "list", "tuple", error=TypeError),
    refuse("zip", lambda: D.zip(NUMBERS, 1), "dataset", error=TypeError),
    refuse("zip", lambda: D.zip({"a": NUMBERS, "b": np.zeros(3)}), "dataset", error=TypeError),
    refuse("zip", lambda: D.zip(), "dataset", error=TypeError),
    refuse("zip", lambda: D.zip(()), "dataset", error=TypeError),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets([NUMBERS, PAIRS], D.range(2)), "float32"),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets([NUMBERS], PAIRS), "int64"),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets([NUMBERS], D.from_tensors(0)), "int64"),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets([NUMBERS], D.range(2).batch(2)), "scalar"),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets([], NUMBERS), "dataset", error=ValueError),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets([NUMBERS, 1], NUMBERS), error=TypeError),
    refuse("choose_from_datasets", lambda: D.choose_from_datasets(3, NUMBERS), error=TypeError),
    refuse(
        "choose_from_datasets", lambda: D.choose_from_datasets([NUMBERS], None), "dataset", error=TypeError
    ),
    refuse("sample_from_datasets", lambda: D.sample_from_datasets([NUMBERS, PAIRS]), "float32"),
    refuse("sample_from_datasets", lambda: D.sample_from_datasets([NUMBERS] * 2, [0.5]), "weight", "2"),
    refuse(
        "sample_from_datasets",
        lambda: D.sample_from_datasets([NUMBERS] * 2, [1, 2]),
        "float",
        error=TypeError,
    ),
    refuse("sample_from_datasets", lambda: D.sample_from_datasets([NUMBERS] * 2, [np.nan, 1.0]), "nan"),
    refuse("sample_from_datasets", lambda: D.sample_from_datasets([NUMBERS] * 2, [np.inf, 1.0]), "inf"),
    refuse("sample_from_datasets", lambda: D.sample_from_datasets([]), "dataset", error=ValueError),
    refuse("rejection_resample", lambda: NUMBERS.rejection_resample(lambda x: x, [[0.5]]), "target_dist"),
    refuse("rejection_resample", lambda: NUMBERS.rejection_resample(lambda x: "a", [0.5, 0.5])),
    refuse(
        "rejection_resample",
        lambda: NUMBERS.rejection_resample(lambda x: x, [0.5, 0.5], [1.0]),
        "initial_dist",
    ),
    refuse("apply", lambda: NUMBERS.apply(lambda ds: None), "dataset", error=TypeError),
    refuse("apply", lambda: NUMBERS.apply(3), error=TypeError),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), MIXING)
def test_mixing(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


def nothing(x: Any) -> None:
    """Returns nothing, as functions do that only print."""


FUNCTIONS = [
    refuse("map", lambda: NUMBERS.map(nothing), "nothing", "None", error=ValueError),
    refuse("map", lambda: NUMBERS.map(nothing, python=True), "nothing", "None", error=ValueError),
    refuse("filter", lambda: NUMBERS.filter(nothing), "None", error=ValueError),
    refuse("flat_map", lambda: NUMBERS.flat_map(nothing), "None", error=ValueError),
    refuse("interleave", lambda: NUMBERS.interleave(nothing), "None", error=ValueError),
    refuse("scan", lambda: NUMBERS.scan(np.int64(0), lambda s, x: None), "None"),
    refuse("reduce", lambda: NUMBERS.reduce(np.int64(0), lambda s, x: None), "None"),
    refuse("map", lambda: NUMBERS.map(lambda x: object()), "object", error=TypeError),
    refuse("map", lambda: NUMBERS.map(lambda x: {1, 2}), "{1, 2}", error=TypeError),
    refuse("map", lambda: NUMBERS.map(3), "function", error=TypeError),
    refuse("filter", lambda: NUMBERS.filter(None), "function", error=TypeError),
    refuse("flat_map", lambda: NUMBERS.flat_map(NUMBERS), "function", error=TypeError),
    refuse("scan", lambda: NUMBERS.scan(0, 3), "function", error=TypeError),
    refuse("reduce", lambda: NUMBERS.reduce(0, 3), "function", error=TypeError),
    refuse(
        "group_by_window", lambda: NUMBERS.group_by_window(3, lambda k, w: w, 2), "function", error=TypeError
    ),
    refuse("map", lambda: PAIRS.map(lambda x: x), "argument", error=TypeError),
    refuse("map", lambda: NUMBERS.map(lambda x, y: x), "argument", error=TypeError),
    refuse("map", lambda: DICTS.map(lambda image, label: image), "argument", error=TypeError),
    refuse(
        "map", lambda: NUMBERS.map(lambda x: x, num_parallel_calls=0), "num_parallel_calls", error=ValueError
    ),
    refuse(
        "map", lambda: NUMBERS.map(lambda x: x, num_parallel_calls=-2), "num_parallel_calls", error=ValueError
    ),
    refuse(
        "map", lambda: NUMBERS.map(lambda x: x, num_parallel_calls=1.5), "num_parallel_calls", error=TypeError
    ),
    refuse("map", lambda: NUMBERS.map(lambda x: x, 2, synchronous=True), "synchronous", error=ValueError),
    refuse("map", lambda: NUMBERS.map(lambda x: x, python=True, native=True), "native", error=ValueError),
    refuse("map", lambda: NUMBERS.map(lambda x: x, deterministic=3), "deterministic"),
    refuse("map", lambda: NUMBERS.map(lambda x: x, name="a b"), "identifier", error=ValueError),
    refuse("map", lambda: NUMBERS.map(lambda x: x, python=True, output_signature=3), "output_signature"),
    refuse("map", lambda: NUMBERS.map(lambda x: x, paralel=3), "paralel", error=TypeError),
    refuse("filter", lambda: NUMBERS.filter(lambda x: x), "bool", "int64"),
    refuse("filter", lambda: NUMBERS.batch(2).filter(lambda x: x > 1), "bool", "scalar"),
    refuse("filter", lambda: NUMBERS.filter(lambda x: (x > 1, x > 2)), "bool"),
    refuse("take_while", lambda: NUMBERS.take_while(lambda x: x + 1), "bool", "int64"),
    refuse("flat_map", lambda: NUMBERS.flat_map(lambda x: x), "dataset", "int64"),
    refuse("flat_map", lambda: NUMBERS.flat_map(lambda x: (D.range(x), D.range(x))), "dataset"),
    refuse("flat_map", lambda: NUMBERS.flat_map(lambda x: int(x)), "dataset"),
    refuse("flat_map", lambda: NUMBERS.flat_map(lambda x: [x]), "dataset"),
    refuse("interleave", lambda: NUMBERS.interleave(lambda x: x), "dataset"),
    refuse(
        "interleave", lambda: NUMBERS.interleave(D.range, cycle_length=0), "cycle_length", error=ValueError
    ),
    refuse(
        "interleave", lambda: NUMBERS.interleave(D.range, cycle_length=-2), "cycle_length", error=ValueError
    ),
    refuse(
        "interleave", lambda: NUMBERS.interleave(D.range, cycle_length=1.5), "cycle_length", error=TypeError
    ),
    refuse(
        "interleave", lambda: NUMBERS.interleave(D.range, block_length=0), "block_length", error=ValueError
    ),
    refuse("interleave", lambda: NUMBERS.interleave(D.range, num_parallel_calls=0), "num_parallel_calls"),
    refuse("interleave", lambda: NUMBERS.interleave(D.range, 2, num_parallel_calls=3), "cycle_length"),
    refuse("scan", lambda: NUMBERS.scan(np.int64(0), lambda s, x: s + x), "pair", error=TypeError),
    refuse("scan", lambda: NUMBERS.scan(np.int64(0), lambda s, x: (s, x, x)), "pair", error=TypeError),
    refuse("scan", lambda: NUMBERS.scan(0, lambda s, x: (s + x, x)), "int32", "int64", error=TypeError),
    refuse("scan", lambda: NUMBERS.scan((np.int64(0),), lambda s, x: (x, x)), "state", error=TypeError),
    refuse("reduce", lambda: NUMBERS.reduce(0, lambda s, x: s + x), "int32", "int64", error=TypeError),
    refuse(
        "reduce", lambda: D.counter().reduce(np.int64(0), lambda s, x: s + x), "endless", error=ValueError
    ),
    refuse("group_by_window", lambda: NUMBERS.group_by_window(lambda x: x, lambda k, w: w), "window_size"),
    refuse(
        "group_by_window",
        lambda: NUMBERS.group_by_window(lambda x: x, lambda k, w: w, 1, lambda k: k),
        "window_size",
    ),
    refuse("group_by_window", lambda: NUMBERS.group_by_window(lambda x: x, lambda k, w: w, 0), "window_size"),
    refuse(
        "group_by_window", lambda: NUMBERS.group_by_window(lambda x: x, lambda k, w: w, 1.5), "window_size"
    ),
    refuse("group_by_window", lambda: NUMBERS.group_by_window(lambda x: x / 2, lambda k, w: w, 2), "key"),
    refuse("group_by_window", lambda: NUMBERS.group_by_window(lambda x: x, lambda k, w: k, 2), "dataset"),
    refuse("unique", lambda: PAIRS.unique(), "component"),
    refuse("unique", lambda: PAIRS.map(lambda a, b: a).unique(), "float32"),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), FUNCTIONS)
def test_functions(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


@pytest.mark.parametrize("op", ["map", "filter", "flat_map", "take_while"])
def test_a_misspelt_field_is_named_with_the_fields_that_exist(op: str) -> None:
    with pytest.raises((KeyError, ValueError)) as caught:
        getattr(DICTS, op)(lambda element: element["lable"])
    text = str(caught.value)
    assert "lable" in text
    assert "image" in text and "'label'" in text


def test_a_misspelt_field_in_a_python_function_is_its_own_error() -> None:
    with pytest.raises(KeyError, match="lable"):
        DICTS.map(lambda element: element["lable"], python=True)


EXPRESSIONS = [
    refuse("300", lambda: D.from_tensor_slices(np.zeros(3, np.uint8)).map(lambda x: x + 300), "uint8", "255"),
    refuse("add", lambda: NUMBERS.map(lambda x: x + "one"), "string", "int64"),
    refuse("reshape", lambda: DICTS.map(lambda d: fl.reshape(d["image"], [3])), "[3]"),
    refuse("matmul", lambda: DICTS.map(lambda d: d["image"] @ fl.ones([3, 3])), "[2]", "[3, 3]"),
    refuse("add", lambda: DICTS.map(lambda d: d["image"] + fl.ones([3])), "[2]", "[3]"),
    refuse("5", lambda: DICTS.map(lambda d: d["image"][5]), "[2]", error=(ValueError, IndexError)),
    refuse("indices", lambda: DICTS.map(lambda d: d["image"][0, 0]), "[2]", error=(ValueError, IndexError)),
    refuse("axis", lambda: DICTS.map(lambda d: fl.reduce_sum(d["image"], 5)), "5"),
    refuse("dtype", lambda: NUMBERS.map(lambda x: fl.cast(x, "number")), "number", error=TypeError),
    refuse("fill", lambda: NUMBERS.map(lambda x: fl.fill([-1], x)), "-1"),
    refuse("integers", lambda: DICTS.map(lambda d: fl.gather(d["label"], d["image"]))),
    refuse("cond", lambda: NUMBERS.map(lambda x: fl.cond(x > 1, lambda: x, lambda: (x, x))), "structure"),
    refuse("concat", lambda: DICTS.map(lambda d: fl.concat([d["image"], fl.ones([2, 2])], 0))),
    refuse("stack", lambda: DICTS.map(lambda d: fl.stack([d["image"], fl.ones([3])])), "[2]", "[3]"),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), EXPRESSIONS)
def test_expressions(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


def test_the_traceback_of_a_wrong_expression_shows_the_users_line() -> None:
    import traceback

    def wrong(x: Any) -> Any:
        y = x * 2
        return y + "one"  # the wrong line

    with pytest.raises(ValueError) as caught:
        NUMBERS.map(wrong)
    assert 'return y + "one"  # the wrong line' in "".join(traceback.format_tb(caught.value.__traceback__))


BATCHING = [
    refuse("padded_batch", lambda: ROWS.padded_batch(2, [2, 2]), "[2, 2]", error=ValueError),
    refuse("padded_batch", lambda: ROWS.padded_batch(2, {"a": [2]}), "padded_shapes"),
    refuse("padded_batch", lambda: ROWS.padded_batch(2, "ab"), "padded_shapes"),
    refuse("padded_batch", lambda: ROWS.padded_batch(2, [-3]), "-3", error=ValueError),
    refuse(
        "padded_batch", lambda: DICTS.padded_batch(2, {"image": [1], "label": []}), "[1]", error=ValueError
    ),
    refuse("padded_batch", lambda: DICTS.padded_batch(2, {"image": [None]}), "label", error=ValueError),
    refuse("padded_batch", lambda: DICTS.padded_batch(2, ([None], [])), "structure", error=ValueError),
    refuse("padded_batch", lambda: ROWS.padded_batch(2, padding_values=0), "int32", "int64", error=TypeError),
    refuse("padded_batch", lambda: ROWS.padded_batch(2, padding_values="a"), "string", error=TypeError),
    refuse(
        "padded_batch", lambda: ROWS.padded_batch(2, padding_values=np.zeros(2, np.int64)), error=ValueError
    ),
    refuse("padded_batch", lambda: NUMBERS.window(2).padded_batch(2), "dataset", error=TypeError),
    refuse("padded_batch", lambda: NUMBERS.map(lambda x: x, python=True).padded_batch(2), "padded_shapes"),
    refuse("ragged_batch", lambda: ROWS.ragged_batch(2, row_splits_dtype=fl.float32), "float32"),
    refuse("sparse_batch", lambda: ROWS.sparse_batch(0, [3]), "batch_size", error=ValueError),
    refuse("sparse_batch", lambda: ROWS.sparse_batch(2, None), "row_shape", error=ValueError),
    refuse("sparse_batch", lambda: ROWS.sparse_batch(2, [-3]), "-3", error=ValueError),
    refuse("sparse_batch", lambda: ROWS.sparse_batch(2, [3, 3]), "row_shape", error=ValueError),
    refuse("sparse_batch", lambda: PAIRS.sparse_batch(2, [None]), "single"),
    refuse("unbatch", lambda: NUMBERS.unbatch(), "scalar", error=ValueError),
    refuse("unbatch", lambda: DICTS.unbatch(), "label", error=ValueError),
    refuse(
        "unbatch", lambda: D.from_tensors((np.zeros(3), np.zeros(2))).unbatch(), "3", "2", error=ValueError
    ),
    refuse("rebatch", lambda: NUMBERS.rebatch(2), "scalar", error=ValueError),
    refuse("rebatch", lambda: NUMBERS.batch(2).rebatch([[2]]), "batch_size"),
    refuse("rebatch", lambda: NUMBERS.batch(2).rebatch([2, -1]), "-1", error=ValueError),
    refuse("rebatch", lambda: NUMBERS.batch(2).rebatch([]), "batch_size", error=ValueError),
    refuse("rebatch", lambda: NUMBERS.batch(2).rebatch([0]), error=ValueError),
    refuse(
        "bucket_by_sequence_length",
        lambda: ROWS.bucket_by_sequence_length(lambda x: fl.shape(x)[0], [1, 2], [2, 2]),
        "2",
        error=ValueError,
    ),
    refuse(
        "bucket_by_sequence_length",
        lambda: ROWS.bucket_by_sequence_length(lambda x: fl.shape(x)[0], [2], [2, 0]),
        "0",
        error=ValueError,
    ),
    refuse(
        "bucket_by_sequence_length",
        lambda: ROWS.bucket_by_sequence_length(lambda x: fl.cast(fl.shape(x)[0], fl.float32), [2], [2, 2]),
        "float32",
    ),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), BATCHING)
def test_batching(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


SCALAR = fl.TensorSpec((), fl.int64)
SOURCES = [
    refuse(
        "from_generator",
        lambda: D.from_generator(iter([1]), output_signature=SCALAR),
        "function",
        error=TypeError,
    ),
    refuse(
        "from_generator",
        lambda: D.from_generator([1, 2], output_signature=SCALAR),
        "function",
        error=TypeError,
    ),
    refuse("from_generator", lambda: D.from_generator(lambda: [1]), "output_signature", error=TypeError),
    refuse(
        "from_generator", lambda: D.from_generator(lambda: [1], fl.int64, output_signature=SCALAR), "both"
    ),
    refuse("from_generator", lambda: D.from_generator(lambda: [1], output_signature=fl.int64), "TensorSpec"),
    refuse("from_generator", lambda: D.from_generator(lambda: [1], output_signature=3), "TensorSpec"),
    refuse("from_generator", lambda: D.from_generator(lambda: [1], "number"), "number"),
    refuse(
        "from_generator", lambda: D.from_generator(lambda: [1], (fl.int64, fl.int64), ((),)), "output_shapes"
    ),
    refuse(
        "from_generator", lambda: D.from_generator(lambda: [1], {"a": fl.int64}, {"b": ()}), "output_shapes"
    ),
    refuse(
        "from_tensor_slices", lambda: D.from_tensor_slices([[1, 2], [3]]), "equal length", error=ValueError
    ),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices([1, "a"]), "text", error=ValueError),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(3), "from_tensors", error=ValueError),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(([1, 2], 3)), "scalar", error=ValueError),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(([1, 2], [1])), "2", "1", error=ValueError),
    refuse(
        "from_tensor_slices",
        lambda: D.from_tensor_slices({"x": [1, 2], "y": [1]}),
        "x",
        "y",
        error=ValueError,
    ),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(()), "empty", error=ValueError),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices({}), "empty", error=ValueError),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(object()), "object"),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices({1, 2}), "{1, 2}"),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(x for x in [1]), "generator"),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(np.zeros(3, complex)), "complex"),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(np.zeros(3, "M8[s]")), "datetime64"),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices(np.zeros(3, [("a", "i4")])), "i4"),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices({1: [1]}), "key", error=TypeError),
    refuse("from_tensor_slices", lambda: D.from_tensor_slices([2**70]), str(2**70)),
    refuse("from_list", lambda: D.from_list([]), "one element", error=ValueError),
    refuse("from_list", lambda: D.from_list([1, 2.5]), "int32", "float32"),
    refuse("from_list", lambda: D.from_list([1, (1, 2)]), "structure"),
    refuse("from_list", lambda: D.from_list(3), error=TypeError),
    refuse("dataset", lambda: D([1, 2]), "from_tensor_slices", error=TypeError),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), SOURCES)
def test_sources(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


NO_TEXT = b"\xff\xfe.tfrecord"
READERS = [
    refuse("TFRecordDataset", lambda: fl.TFRecordDataset(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("TextLineDataset", lambda: fl.TextLineDataset([NO_TEXT]), "xff", "UTF-8", error=ValueError),
    refuse("WebDataset", lambda: fl.WebDataset(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("make_csv_dataset", lambda: make_csv(NO_TEXT, 1), "xff", "UTF-8", error=ValueError),
    refuse("ParquetDataset", lambda: fl.ParquetDataset(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("ArrowDataset", lambda: fl.ArrowDataset([NO_TEXT]), "xff", "UTF-8", error=ValueError),
    refuse("NumpyDataset", lambda: fl.NumpyDataset(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("list_files", lambda: D.list_files(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("load", lambda: D.load(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("save_tar", lambda: NUMBERS.save_tar(NO_TEXT), "xff", "UTF-8", error=ValueError),
    refuse("TextLineDataset", lambda: fl.TextLineDataset("a", num_parallel_reads=0), "num_parallel_reads"),
    refuse("TFRecordDataset", lambda: fl.TFRecordDataset("a", num_parallel_reads=1.5), "num_parallel_reads"),
    refuse("make_csv_dataset", lambda: make_csv("a", 1, num_parallel_reads=0), "num_parallel_reads"),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), READERS)
def test_readers(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


OPTION = (AttributeError, TypeError, ValueError)
OPTIONS = [
    refuse("determinstic", lambda: NUMBERS.with_options(determinstic=True), "deterministic", error=OPTION),
    refuse("threads", lambda: NUMBERS.with_options(threads=3), "option", error=OPTION),
    refuse("threads", lambda: NUMBERS.iter(threads=3), "option", error=OPTION),
    refuse("with_options", lambda: NUMBERS.with_options(3), "Options", error=TypeError),
    refuse("deterministic", lambda: NUMBERS.with_options(deterministic=1), "bool", error=TypeError),
    refuse("cpu_budget", lambda: NUMBERS.with_options(cpu_budget=0), "0", error=ValueError),
    refuse("cpu_budget", lambda: NUMBERS.with_options(cpu_budget=-1), "-1", error=ValueError),
    refuse("cpu_budget", lambda: NUMBERS.with_options(cpu_budget=1.5), "1.5", error=TypeError),
    refuse("cpu_budget", lambda: NUMBERS.with_options(cpu_budget=2**70), error=ValueError),
    refuse("chunk_rows", lambda: NUMBERS.with_options(chunk_rows=0), "0", error=ValueError),
    refuse("chunk_rows", lambda: NUMBERS.with_options(chunk_rows=-1), "-1", error=ValueError),
    refuse("bytes", lambda: NUMBERS.with_options(memory_limit="12XB"), "12XB", error=ValueError),
    refuse("memory", lambda: NUMBERS.with_options(memory_limit=0), "positive", error=ValueError),
    refuse("memory", lambda: NUMBERS.with_options(memory_limit="-5MB"), "positive", error=ValueError),
    refuse("bytes", lambda: NUMBERS.with_options(memory_limit=1.5), "1.5", error=TypeError),
    refuse("bytes", lambda: NUMBERS.with_options(memory_limit="infGB"), "infGB", error=ValueError),
    refuse("cpu_budget", lambda: fl.configure(cpu_budget=0), "0", error=ValueError),
    refuse("cpu_budget", lambda: fl.configure(cpu_budget=1.5), "1.5", error=TypeError),
    refuse("cpu_budget", lambda: fl.configure(cpu_budget=True), "True", error=TypeError),
    refuse("cpu_budget", lambda: fl.configure(cpu_budget=2**70), error=ValueError),
    refuse("bytes", lambda: fl.configure(memory_limit="much"), "much", error=ValueError),
    refuse("memory", lambda: fl.configure(memory_limit=-1), "positive", error=ValueError),
    refuse("memory", lambda: fl.configure(memory_limit=2**80), error=ValueError),
    refuse("seed", lambda: fl.configure(seed="a"), "whole number", error=TypeError),
    refuse("threads", lambda: fl.configure(threads=3), error=TypeError),
    refuse("seed", lambda: fl.random.set_seed(1.5), "1.5", error=TypeError),
    refuse("format", lambda: NUMBERS.explain("xml"), "json", error=ValueError),
]


@pytest.mark.parametrize(("op", "build", "words", "error"), OPTIONS)
def test_options(op: str, build: Any, words: Any, error: Any) -> None:
    check(op, build, words, error)


def test_options_of_a_dataset_are_frozen() -> None:
    options = NUMBERS.with_options(cpu_budget=1).options()
    with pytest.raises(ValueError, match="with_options"):
        options.cpu_budget = 2
    assert options.cpu_budget == 1


def test_refused_settings_change_nothing() -> None:
    before = fl.configuration()
    with pytest.raises(ValueError):
        fl.configure(cpu_budget=1, memory_limit=-1)
    assert fl.configuration() == before


NAMED = [
    ("batch", (2,)),
    ("take", (2,)),
    ("skip", (2,)),
    ("repeat", (2,)),
    ("shuffle", (2,)),
    ("prefetch", (2,)),
    ("cache", ()),
    ("window", (2,)),
    ("enumerate", ()),
    ("map", (lambda x: x,)),
    ("filter", (lambda x: x > 1,)),
    ("shard", (2, 0)),
]


@pytest.mark.parametrize(("op", "arguments"), NAMED, ids=[op for op, _ in NAMED])
@pytest.mark.parametrize("name", ["two words", "1st", "", 3])
def test_names_are_identifiers(op: str, arguments: tuple[Any, ...], name: Any) -> None:
    check(op, lambda: getattr(NUMBERS, op)(*arguments, name=name), ("name", "identifier"), ValueError)


@pytest.mark.parametrize("name", ["rows", "rows_2", None])
def test_good_names_are_accepted(name: str | None) -> None:
    assert list(NUMBERS.take(1, name=name)) == [0]
