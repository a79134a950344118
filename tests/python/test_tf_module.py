"""Programs that were written for tf.data and changed their import."""

from __future__ import annotations

from typing import Any

import feedline as fl
import feedline.tf as tf
import numpy as np
import pytest

Dataset = tf.data.Dataset


def numpy(structure: Any) -> Any:
    """A structure of elements as plain values, by their own `numpy()`."""
    return fl.nest.map_structure(lambda leaf: leaf.numpy(), structure)


def lists(dataset: Any) -> list[Any]:
    return [
        fl.nest.map_structure(lambda leaf: np.asarray(leaf).tolist(), numpy(element)) for element in dataset
    ]


CHAINS = {
    "range": (lambda: Dataset.range(3), [0, 1, 2]),
    "range step": (lambda: Dataset.range(5, 1, -2), [5, 3]),
    "map": (lambda: Dataset.range(3).map(lambda x: x * 2, num_parallel_calls=tf.data.AUTOTUNE), [0, 2, 4]),
    "cast": (lambda: Dataset.range(2).map(lambda x: tf.cast(x, tf.float32) / 2.0), [0.0, 0.5]),
    "batch": (lambda: Dataset.range(5).batch(2), [[0, 1], [2, 3], [4]]),
    "drop_remainder": (lambda: Dataset.range(5).batch(2, drop_remainder=True), [[0, 1], [2, 3]]),
    "filter": (lambda: Dataset.range(5).filter(lambda x: tf.equal(x % 2, 0)), [0, 2, 4]),
    "take skip": (lambda: Dataset.range(9).skip(2).take(3), [2, 3, 4]),
    "repeat": (lambda: Dataset.range(2).repeat(2), [0, 1, 0, 1]),
    "cache prefetch": (lambda: Dataset.range(3).cache().prefetch(tf.data.AUTOTUNE), [0, 1, 2]),
    "enumerate": (lambda: Dataset.range(7, 9).enumerate(), [(0, 7), (1, 8)]),
    "zip": (lambda: Dataset.zip((Dataset.range(2), Dataset.range(5, 9))), [(0, 5), (1, 6)]),
    "zip dict": (lambda: Dataset.zip({"a": Dataset.range(1)}), [{"a": 0}]),
    "concatenate": (lambda: Dataset.range(2).concatenate(Dataset.range(9, 10)), [0, 1, 9]),
    "flat_map": (lambda: Dataset.range(3).flat_map(lambda x: Dataset.range(x)), [0, 0, 1]),
    "interleave": (
        lambda: Dataset.range(1, 4).interleave(
            lambda x: Dataset.from_tensors(x).repeat(2), cycle_length=2, block_length=1
        ),
        [1, 2, 1, 2, 3, 3],
    ),
    "window": (
        lambda: Dataset.range(5).window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3)),
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]],
    ),
    "padded_batch": (
        lambda: Dataset.range(1, 4).map(lambda x: tf.fill([x], x)).padded_batch(3),
        [[[1, 0, 0], [2, 2, 0], [3, 3, 3]]],
    ),
    "scan": (
        lambda: Dataset.range(4).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s + x)),
        [0, 1, 3, 6],
    ),
    "unique": (lambda: Dataset.from_tensor_slices([1, 2, 1]).unique(), [1, 2]),
    "unbatch": (lambda: Dataset.from_tensor_slices([[1, 2], [3, 4]]).unbatch(), [1, 2, 3, 4]),
    "rebatch": (lambda: Dataset.range(6).batch(2).rebatch(3), [[0, 1, 2], [3, 4, 5]]),
    "shard": (lambda: Dataset.range(5).shard(2, 1), [1, 3]),
    "take_while": (lambda: Dataset.range(9).take_while(lambda x: x < 2), [0, 1]),
    "group_by_window": (
        lambda: Dataset.range(6).group_by_window(lambda x: x % 2, lambda k, w: w.batch(3), window_size=3),
        [[0, 2, 4], [1, 3, 5]],
    ),
    "bucket": (
        lambda: (
            Dataset.from_tensor_slices([1, 5, 2, 6])
            .map(lambda x: tf.fill([x], x))
            .bucket_by_sequence_length(lambda x: tf.shape(x)[0], [4], [2, 2])
            .map(lambda x: tf.shape(x))
        ),
        [[2, 2], [2, 6]],
    ),
    "from_generator": (
        lambda: Dataset.from_generator(lambda: iter([1, 2]), output_signature=tf.TensorSpec((), tf.int32)),
        [1, 2],
    ),
    "output_types": (
        lambda: Dataset.from_generator(lambda: iter([1, 2]), tf.int64, tf.TensorShape([])),
        [1, 2],
    ),
    "choose": (
        lambda: Dataset.choose_from_datasets(
            [Dataset.from_tensors(w).repeat() for w in (1, 2)],
            Dataset.from_tensor_slices(np.array([0, 1, 1])),
        ),
        [1, 2, 2],
    ),
    "where": (lambda: Dataset.range(3).map(lambda x: tf.where(x > 1, x, -x)), [0, -1, 2]),
    "cond": (lambda: Dataset.range(3).map(lambda x: tf.cond(x > 1, lambda: x, lambda: -x)), [0, -1, 2]),
    "one_hot": (lambda: Dataset.range(2).map(lambda x: tf.one_hot(x, 2)), [[1.0, 0.0], [0.0, 1.0]]),
    "strings": (
        lambda: Dataset.from_tensor_slices(["a", "b"]).map(lambda s: tf.strings.join([s, "!"])),
        [b"a!", b"b!"],
    ),
    "py_function": (
        lambda: Dataset.range(3).map(lambda x: tf.py_function(lambda v: v.numpy() + 1, [x], tf.int64)),
        [1, 2, 3],
    ),
    "numpy_function": (
        lambda: Dataset.range(3).map(lambda x: tf.numpy_function(lambda v: v + 1, [x], tf.int64)),
        [1, 2, 3],
    ),
    "apply": (lambda: Dataset.range(3).apply(lambda ds: ds.skip(1)), [1, 2]),
    "with_options": (lambda: Dataset.range(3).with_options(tf.data.Options()), [0, 1, 2]),
    "features": (
        lambda: Dataset.from_tensor_slices(({"a": [1, 2], "b": [3, 4]}, [0, 1])).map(
            lambda features, label: (features["a"] + features["b"], label)
        ),
        [(4, 0), (6, 1)],
    ),
    "ignore_errors": (
        lambda: (
            Dataset.from_tensor_slices([1.0, 0.0])
            .map(lambda x: tf.debugging.check_numerics(1.0 / x, "inf"))
            .ignore_errors()
        ),
        [1.0],
    ),
    "Counter": (lambda: tf.data.experimental.Counter(2).take(2), [2, 3]),
    "from_list": (lambda: tf.data.experimental.from_list([(1,), (2,)]), [(1,), (2,)]),
    "experimental unique": (
        lambda: Dataset.from_tensor_slices([1, 1]).apply(tf.data.experimental.unique()),
        [1],
    ),
    "assert_cardinality": (
        lambda: Dataset.range(4).filter(lambda x: x < 2).apply(tf.data.experimental.assert_cardinality(2)),
        [0, 1],
    ),
    "dense_to_ragged_batch": (
        lambda: Dataset.range(2).apply(tf.data.experimental.dense_to_ragged_batch(2)).map(lambda x: x + 1),
        [[1, 2]],
    ),
    "shuffle_and_repeat": (
        lambda: Dataset.range(1).apply(tf.data.experimental.shuffle_and_repeat(2, count=2)),
        [0, 0],
    ),
    "map_and_batch": (
        lambda: Dataset.range(4).apply(tf.data.experimental.map_and_batch(lambda x: x + 1, 2)),
        [[1, 2], [3, 4]],
    ),
    "parallel_interleave": (
        lambda: Dataset.range(2).apply(
            tf.data.experimental.parallel_interleave(lambda x: Dataset.from_tensors(x).repeat(2), 2)
        ),
        [0, 1, 0, 1],
    ),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_chains(kind: str) -> None:
    build, expected = CHAINS[kind]
    dataset = build()
    assert isinstance(dataset, tf.data.Dataset)
    assert lists(dataset) == expected
    assert lists(dataset) == expected
    assert [
        fl.nest.map_structure(lambda x: np.asarray(x).tolist(), e) for e in dataset.as_numpy_iterator()
    ] == expected


def test_elements_answer_numpy() -> None:
    dataset = Dataset.from_tensor_slices(
        {"image": np.zeros((2, 3), np.float32), "label": [1, 2], "name": ["a", "b"]}
    )
    for element in dataset:
        assert type(element["image"].numpy()) is np.ndarray
        assert isinstance(element["label"].numpy(), np.int32)
        assert type(element["name"].numpy()) is bytes
        assert element["name"].numpy().decode() in "ab"
        assert element["image"].shape == (3,) and element["label"].shape == ()
        assert element["image"].dtype == tf.float32 and element["label"].dtype == tf.int32
        assert element["name"].dtype == tf.string
        assert np.asarray(element["image"]).tolist() == [0, 0, 0]


def test_elements_work_as_arrays() -> None:
    (batch,) = Dataset.range(4).batch(4)
    assert isinstance(batch, tf.Tensor) and isinstance(batch, np.ndarray)
    assert (batch + 1).numpy().tolist() == [1, 2, 3, 4]
    assert batch[1].numpy() == 1
    assert np.sum(batch) == 6 and int(batch[2]) == 2
    batch[0] = 7
    assert batch.numpy()[0] == 7
    for x in Dataset.range(2):
        assert f"{x}" in "01" and f"{x:d}" in "01"
        assert [10, 20][x] in (10, 20)


@pytest.mark.parametrize(
    "compute",
    [
        lambda: tf.constant([1, 2]),
        lambda: tf.convert_to_tensor([1.5]),
        lambda: tf.reduce_sum([1, 2]),
        lambda: tf.cast(1.5, tf.int32),
        lambda: tf.reduce_mean(next(iter(Dataset.range(4).batch(4)))),
        lambda: tf.reshape(next(iter(Dataset.range(4).batch(4))), [2, 2]),
        lambda: tf.random.uniform([2]),
        lambda: tf.strings.join(["a", "b"]),
        lambda: tf.data.experimental.at(Dataset.range(3), 1),
        lambda: Dataset.range(3)[1],
        lambda: Dataset.range(1).get_single_element(),
        lambda: Dataset.range(3).reduce(np.int64(0), lambda s, x: s + x),
        lambda: Dataset.range(3).cardinality(),
        lambda: iter(Dataset.range(3)).get_next(),
        lambda: iter(Dataset.range(3)).get_next_as_optional().get_value(),
    ],
)
def test_results_outside_of_functions_answer_numpy(compute: Any) -> None:
    compute().numpy()


def test_windows_are_datasets() -> None:
    windows = list(Dataset.range(5).window(2))
    assert all(isinstance(window, tf.data.Dataset) for window in windows)
    assert [[x.numpy() for x in window] for window in windows] == [[0, 1], [2, 3], [4]]
    assert len(windows[0]) == 2


def test_datasets_inside_functions_are_datasets_too() -> None:
    kinds = []

    def look(window: Any) -> Any:
        kinds.append(isinstance(window, tf.data.Dataset))
        return window.batch(2)

    list(Dataset.range(4).window(2).flat_map(look))
    assert kinds[0]


def test_iterators() -> None:
    iterator = iter(Dataset.range(1))
    assert isinstance(iterator, tf.data.Iterator)
    assert iterator.element_spec == tf.TensorSpec((), tf.int64)
    assert iterator.get_next().numpy() == 0
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()
    assert not iterator.get_next_as_optional().has_value()
    with pytest.raises(StopIteration):
        next(iterator)


CARDINALITIES = [
    (lambda: Dataset.range(10).batch(3), 4),
    (lambda: Dataset.range(10).repeat(), tf.data.INFINITE_CARDINALITY),
    (lambda: Dataset.range(10).filter(lambda x: x > 1), tf.data.UNKNOWN_CARDINALITY),
    (lambda: Dataset.range(10).repeat().take(3), 3),
]


@pytest.mark.parametrize(("build", "expected"), CARDINALITIES, ids=["batch", "repeat", "filter", "take"])
def test_cardinality(build: Any, expected: int) -> None:
    assert build().cardinality() == expected
    assert build().cardinality().numpy() == expected
    assert tf.data.experimental.cardinality(build()).numpy() == expected


def test_specs_and_dtypes() -> None:
    spec = Dataset.from_tensor_slices((np.zeros((4, 2)), ["a"] * 4)).batch(2).element_spec
    assert spec == (tf.TensorSpec(shape=(None, 2), dtype=tf.float64), tf.TensorSpec([None], tf.string))
    assert tf.as_dtype("float32") == tf.float32 == np.float32
    assert tf.float32.is_floating and tf.int32.is_integer and tf.bool.is_bool
    assert tf.float32.as_numpy_dtype is np.float32
    assert tf.int8.min == -128 and tf.int8.max == 127
    assert tf.uint8.name == "uint8"
    assert tf.TensorShape([None, 3]) == (None, 3)


NAMES = """
    cast constant convert_to_tensor reshape shape stack concat where range fill zeros ones one_hot
    gather squeeze expand_dims transpose reduce_sum reduce_mean reduce_max reduce_min reduce_prod
    reduce_all reduce_any argmax argmin sort argsort abs sqrt exp pow maximum minimum equal
    not_equal less greater clip_by_value pad tile boolean_mask cond py_function numpy_function
    identity cumsum size rank split unstack reverse roll searchsorted linspace eye repeat zeros_like
    ones_like matmul add subtract multiply divide floor round sign square negative logical_and
    logical_or logical_not broadcast_to ensure_shape slice is_tensor saturate_cast sigmoid sinh cosh
    tan asin acos atan atan2 reduce_logsumexp math.log math.log1p math.floordiv math.is_nan
    strings.join strings.split strings.to_number strings.length random.uniform random.normal
    random.shuffle random.set_seed random.truncated_normal nest.flatten nest.map_structure
    ragged.constant sparse.to_dense sparse.from_dense debugging.assert_equal lookup.StaticHashTable
    errors.InvalidArgumentError errors.OutOfRangeError errors.NotFoundError errors.DataLossError
    data.Dataset data.Options data.AUTOTUNE data.experimental.AUTOTUNE data.ThreadingOptions
    data.experimental.AutoShardPolicy data.experimental.OptimizationOptions
    data.experimental.get_structure data.experimental.bucket_by_sequence_length
    data.experimental.Reducer data.experimental.group_by_reducer
    data.experimental.sample_from_datasets data.experimental.take_while data.experimental.scan
    data.experimental.prefetch_to_device data.experimental.copy_to_device
    data.experimental.enumerate_dataset data.experimental.group_by_window
    data.experimental.pad_to_cardinality data.experimental.table_from_dataset
    data.experimental.index_table_from_dataset TensorSpec RaggedTensorSpec SparseTensorSpec
    RaggedTensor SparseTensor Tensor TensorShape DType newaxis string bool int8 int16 int32 int64
    uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_names(name: str) -> None:
    found: Any = tf
    for part in name.split("."):
        found = getattr(found, part)


def test_options() -> None:
    options = tf.data.Options()
    options.deterministic = False
    options.autotune.cpu_budget = 1
    options.threading.private_threadpool_size = 2
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = Dataset.range(10).with_options(options)
    assert sorted(x.numpy() for x in dataset) == list(range(10))
    assert dataset.options().deterministic is False
    assert dataset.options().autotune.cpu_budget == 1
    with pytest.raises(ValueError):
        dataset.options().deterministic = True
    with pytest.raises(AttributeError):
        options.determinism = True
    with pytest.raises(TypeError):
        options.deterministic = "no"


def test_errors_have_their_names() -> None:
    shapes = Dataset.from_generator(
        lambda: iter([[1], [1, 2]]), output_signature=tf.TensorSpec([None], tf.int32)
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)batch.*\[1\].*\[2\]"):
        list(shapes.batch(2))
    with pytest.raises(tf.errors.DataLossError):
        list(shapes.padded_batch(2, [1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than one"):
        Dataset.range(2).get_single_element()
    with pytest.raises(tf.errors.FailedPreconditionError):
        list(Dataset.range(2).apply(tf.data.experimental.assert_cardinality(3)))
    with pytest.raises(tf.errors.OpError) as caught:
        list(Dataset.range(2).map(lambda x: tf.debugging.assert_less(x, 1)))
    assert caught.value.message == str(caught.value)


def test_a_training_loop() -> None:
    """The shape of most programs: arrays, shuffle, augment, batch, prefetch, some epochs."""
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 4), np.uint8)
    labels = np.arange(20) % 3

    def augment(image: Any, label: Any) -> Any:
        image = tf.cast(image, tf.float32) / 255.0
        image = tf.cond(tf.random.uniform([]) < 0.5, lambda: image, lambda: tf.reverse(image, [1]))
        return tf.expand_dims(image, -1), tf.one_hot(label, 3)

    train = (
        tf.data.Dataset.from_tensor_slices((images, labels))
        .shuffle(20, seed=1)
        .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(8)
        .prefetch(tf.data.AUTOTUNE)
    )
    assert train.element_spec == (
        tf.TensorSpec((None, 4, 4, 1), tf.float32),
        tf.TensorSpec((None, 3), tf.float32),
    )
    for _ in range(2):
        steps = 0
        total = np.zeros(3)
        for x, y in train:
            assert x.numpy().max() <= 1.0 and x.shape[1:] == (4, 4, 1)
            total += y.numpy().sum(0)
            steps += 1
        assert steps == len(train) == 3
        assert total.tolist() == [7, 7, 6]


def test_reducers() -> None:
    reducer = tf.data.experimental.Reducer(
        lambda key: tf.constant(0, tf.int64), lambda s, x: s + x, lambda s: s
    )
    dataset = Dataset.range(5).apply(tf.data.experimental.group_by_reducer(lambda x: x % 2, reducer))
    assert lists(dataset) == [6, 4]


def test_ragged_and_sparse_elements() -> None:
    (batch,) = Dataset.range(3).map(lambda x: tf.range(x)).ragged_batch(3)
    assert isinstance(batch, tf.RaggedTensor) and batch.to_list() == [[], [0], [0, 1]]
    (sparse,) = Dataset.from_tensors(tf.sparse.from_dense(np.eye(2)))
    assert isinstance(sparse, tf.SparseTensor) and sparse.dense_shape.tolist() == [2, 2]


def test_seeds() -> None:
    def order() -> list[int]:
        tf.random.set_seed(5)
        return lists(Dataset.range(10).shuffle(10))

    first = order()
    assert first == order() and sorted(first) == list(range(10))
    tf.random.set_seed(None)
