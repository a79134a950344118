"""`ds.to_tf()` and `fl.from_tf(...)`: the same elements, specs and lengths on both sides."""

from __future__ import annotations

import warnings
from typing import Any

import feedline as fl
import numpy as np
import pytest
import tensorflow as tf


def test_elements_and_specs() -> None:
    ds = fl.Dataset.from_tensor_slices({"x": np.arange(6.0), "name": list("abcdef")}).batch(4)
    made = ds.to_tf()
    assert isinstance(made, tf.data.Dataset)
    assert made.element_spec == {
        "x": tf.TensorSpec((None,), tf.float64),
        "name": tf.TensorSpec((None,), tf.string),
    }
    assert int(made.cardinality()) == len(made) == 2
    for _ in range(2):
        found = list(made.as_numpy_iterator())
        assert [e["x"].tolist() for e in found] == [[0, 1, 2, 3], [4, 5]]
        assert found[1]["name"].tolist() == [b"e", b"f"]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "int64", "float16", "bfloat16", "float64"])
def test_dtypes_go_there_and_back(dtype: str) -> None:
    ds = fl.Dataset.range(5).map(lambda x: fl.cast(x, dtype)).batch(5)
    again = fl.from_tf(ds.to_tf())
    assert again.element_spec == ds.element_spec
    assert again.get_single_element().tolist() == ds.get_single_element().tolist()


def test_ragged_and_sparse_go_there_and_back() -> None:
    ds = fl.Dataset.range(3).map(lambda x: fl.range(x)).ragged_batch(3)
    made = ds.to_tf()
    assert next(iter(made)).to_list() == [[], [0], [0, 1]]
    assert fl.from_tf(made).get_single_element().to_list() == [[], [0], [0, 1]]
    sparse = tf.data.Dataset.from_tensors(tf.SparseTensor([[0, 1]], [5], [2, 3]))
    ours = fl.from_tf(sparse)
    assert ours.get_single_element().values.tolist() == [5]
    assert next(iter(ours.to_tf())).dense_shape.numpy().tolist() == [2, 3]


def test_lengths() -> None:
    assert int(fl.Dataset.range(3).repeat().to_tf().cardinality()) == tf.data.INFINITE_CARDINALITY
    assert (
        int(fl.Dataset.range(3).filter(lambda x: x > 0).to_tf().cardinality()) == tf.data.UNKNOWN_CARDINALITY
    )
    assert len(fl.from_tf(tf.data.Dataset.range(7).batch(2))) == 4
    assert fl.from_tf(tf.data.Dataset.range(7).repeat()).cardinality() == fl.INFINITE_CARDINALITY
    assert fl.from_tf(tf.data.Dataset.range(7).filter(lambda x: x > 0)).cardinality() == -2


def test_a_tensorflow_pipeline_goes_on_here() -> None:
    theirs = tf.data.Dataset.range(10).map(lambda x: (x, tf.strings.as_string(x)))
    ours = fl.from_tf(theirs).map(lambda x, text: (x * 2, text)).batch(4)
    assert [x.tolist() for x, _ in ours] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert [text.tolist() for _, text in ours][2] == [b"8", b"9"]


def test_a_pass_that_is_left_early_ends() -> None:
    made = fl.Dataset.range(1_000_000).map(lambda x: x + 1).to_tf()
    for _ in range(5):
        assert [int(x) for x in made.take(2)] == [1, 2]


def test_errors_cross_the_border() -> None:
    made = fl.Dataset.from_tensor_slices([1.0, 0.0]).map(lambda x: fl.debugging.check_numerics(1 / x, "inf"))
    with pytest.raises(Exception, match="inf"):
        list(made.to_tf())


def test_what_tensorflow_cannot_take(capsys: Any) -> None:
    with pytest.raises(TypeError, match="flat_map"):
        fl.Dataset.range(4).window(2).to_tf()
    with pytest.raises(TypeError, match="of tensors, not of"):
        fl.from_tf(tf.data.Dataset.range(4).window(2))


def test_mistakes_are_told_at_the_line_that_makes_the_dataset() -> None:
    for number in range(2):
        mixed = fl.Dataset.range(10).repeat(2).shuffle(5)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            made = mixed.to_tf()  # TensorFlow begins passes where no line of a user is known
            assert len(list(made)) == 20
        found = [w.filename for w in given if issubclass(w.category, fl.warnings.MixedEpochs)]
        assert found == ([__file__] if number == 0 else []), "once for a line"
