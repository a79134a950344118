"""Examples: against protobuf's own messages (as the `tfrecord` package has them), and in pipelines."""

from __future__ import annotations

import gzip
import pickle
import zlib
from pathlib import Path
from typing import Any

import feedline as fl
import feedline.tf as tf
import numpy as np
import pytest
from google.protobuf.json_format import MessageToJson
from hypothesis import given, strategies as st
from tfrecord import example_pb2

names = st.text(max_size=8)
ints = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)
floats = st.lists(st.floats(width=32, allow_nan=False), max_size=5)
strings = st.lists(st.binary(max_size=100), max_size=4)
values = st.one_of(
    st.tuples(st.just("int64_list"), ints),
    st.tuples(st.just("float_list"), floats),
    st.tuples(st.just("bytes_list"), strings),
    st.none(),
)
maps = st.dictionaries(names, values, max_size=5)
list_maps = st.dictionaries(names, st.lists(values, max_size=4), max_size=4)

DTYPES = {"int64_list": fl.int64, "float_list": fl.float32, "bytes_list": fl.string}


def our_feature(value: Any) -> fl.train.Feature:
    return fl.train.Feature() if value is None else fl.train.Feature(**{value[0]: value[1]})


def fill(feature: Any, value: Any) -> None:
    """The same with protobuf."""
    if value is not None:
        getattr(feature, value[0]).SetInParent()
        getattr(feature, value[0]).value.extend(value[1])


def our_example(features: dict[str, Any]) -> fl.train.Example:
    return fl.train.Example(fl.train.Features({name: our_feature(v) for name, v in features.items()}))


def their_example(features: dict[str, Any]) -> Any:
    message = example_pb2.Example()
    message.features.SetInParent()
    for name, value in features.items():
        fill(message.features.feature[name], value)
    return message


def in_key_order(names: Any) -> bool:
    """Whether protobuf writes names in order: of "a" and "ab", its Python version has the longer first."""
    return not any(a != b and b.startswith(a) for a in names for b in names)


@given(maps)
def test_examples_are_protobufs(features: dict[str, Any]) -> None:
    ours, theirs = our_example(features), their_example(features)
    written = theirs.SerializeToString(deterministic=True)
    if in_key_order(features):
        assert ours.SerializeToString() == written
    assert fl.train.Example.FromString(written) == ours
    assert example_pb2.Example.FromString(ours.SerializeToString()) == theirs


@given(maps, list_maps)
def test_sequence_examples_are_protobufs(context: dict[str, Any], lists: dict[str, Any]) -> None:
    ours = fl.train.SequenceExample(
        our_example(context).features,
        fl.train.FeatureLists({k: fl.train.FeatureList(map(our_feature, v)) for k, v in lists.items()}),
    )
    theirs = example_pb2.SequenceExample()
    theirs.context.CopyFrom(their_example(context).features)
    theirs.feature_lists.SetInParent()
    for name, steps in lists.items():
        theirs.feature_lists.feature_list[name].SetInParent()
        for step in steps:
            fill(theirs.feature_lists.feature_list[name].feature.add(), step)
    written = theirs.SerializeToString(deterministic=True)
    if in_key_order(context) and in_key_order(lists):
        assert ours.SerializeToString() == written
    assert fl.train.SequenceExample.FromString(written) == ours
    assert example_pb2.SequenceExample.FromString(ours.SerializeToString()) == theirs


@given(st.lists(maps, min_size=1, max_size=3))
def test_what_protobuf_wrote_is_parsed(records: list[dict[str, Any]]) -> None:
    written = np.empty(len(records), object)
    written[:] = [their_example(features).SerializeToString() for features in records]
    first = records[0]
    kinds = {name: value[0] for name, value in first.items() if value is not None}
    asked = {name: fl.io.RaggedFeature(DTYPES[kind]) for name, kind in kinds.items()}
    if not asked:
        return
    parsed = fl.io.parse_single_example(written[0], asked)
    for name in asked:
        assert parsed[name].tolist() == first[name][1]
    same_kinds = all(
        r.get(name) is None or r[name][0] == kind for r in records for name, kind in kinds.items()
    )
    if same_kinds:
        batch = fl.io.parse_example(written, asked)
        for name in asked:
            assert batch[name].to_list() == [(r.get(name) or ("", []))[1] for r in records]
    else:
        with pytest.raises(fl.errors.DataError, match="was asked for"):
            fl.io.parse_example(written, asked)


@given(maps)
def test_json_examples_are_protobufs(features: dict[str, Any]) -> None:
    theirs = their_example(features)
    decoded = fl.io.decode_json_example(MessageToJson(theirs).encode())
    assert example_pb2.Example.FromString(bytes(decoded)) == theirs


def test_messages_come_into_being_when_they_are_looked_at() -> None:
    example = fl.train.Example()
    assert example.SerializeToString() == b""
    example.features.feature["x"].int64_list.value.append(3)
    example.features.feature["y"].bytes_list.value.extend([b"a", b"b"])
    theirs = example_pb2.Example()
    theirs.features.feature["x"].int64_list.value.append(3)
    theirs.features.feature["y"].bytes_list.value.extend([b"a", b"b"])
    assert example.SerializeToString() == theirs.SerializeToString(deterministic=True)
    x = example.features.feature["x"]
    assert x.WhichOneof("kind") == "int64_list"
    assert x.HasField("int64_list") and not x.HasField("float_list")
    x.float_list = fl.train.FloatList(value=np.array([0.1]))
    assert x.float_list.value == [float(np.float32(0.1))]
    assert x.WhichOneof("kind") == "float_list"
    assert fl.train.Feature().WhichOneof("kind") is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fl.train.Feature(bytes_list=["text"]), "encode"),
        (lambda: fl.train.Feature(bytes_list=b"text"), "write \\[b'text'\\]"),
        (lambda: fl.train.Feature(int64_list=[2**63]), "64 bits"),
        (lambda: fl.train.Feature(int64_list=[1.5]), "float"),
        (lambda: fl.train.Feature(float_list=["x"]), "numbers"),
        (lambda: fl.train.Feature(int64_list=[1], float_list=[1]), "one list"),
        (lambda: fl.train.Features({"x": 3}), "must be a Feature"),
    ],
)
def test_wrong_values_are_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_broken_messages_are_refused() -> None:
    with pytest.raises(fl.errors.DataError, match=r"not a valid Example: .* at byte 2 of 3"):
        fl.train.Example.FromString(b"\x0a\x05x")
    with pytest.raises(fl.errors.DataError, match="not a valid SequenceExample"):
        fl.train.SequenceExample.FromString(b"\xff")


FEATURES = {
    "label": fl.io.FixedLenFeature([], fl.int64, default_value=-1),
    "x": fl.io.FixedLenFeature([2], fl.float32),
    "name": fl.io.FixedLenFeature([], fl.string),
    "tags": fl.io.RaggedFeature(fl.int64),
}


def record(i: int) -> bytes:
    features = {
        "x": fl.train.Feature(float_list=[i, i / 2]),
        "name": fl.train.Feature(bytes_list=[b"n%d" % i * (i % 3 * 30 + 1)]),
        "tags": fl.train.Feature(int64_list=range(i % 4)),
    }
    if i % 5:
        features["label"] = fl.train.Feature(int64_list=[i])
    return fl.train.Example(fl.train.Features(features)).SerializeToString()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "records.tfrecord")
    with fl.io.TFRecordWriter(path) as writer:
        for i in range(20):
            writer.write(record(i))
    return path


@pytest.mark.parametrize("chunk_rows", [1, 3, 64])
def test_files_of_examples(path: str, chunk_rows: int) -> None:
    files = fl.data.TFRecordDataset(path).with_options(chunk_rows=chunk_rows)
    single = files.map(lambda r: fl.io.parse_single_example(r, FEATURES))
    assert single.element_spec["x"] == fl.TensorSpec((2,), fl.float32)
    assert "python" not in single.explain().lower()
    rows = list(single)
    assert [int(row["label"]) for row in rows] == [i if i % 5 else -1 for i in range(20)]
    assert [row["tags"].tolist() for row in rows] == [list(range(i % 4)) for i in range(20)]
    assert [row["name"] for row in rows] == [b"n%d" % i * (i % 3 * 30 + 1) for i in range(20)]
    dense = single.map(lambda row: (row["x"], row["label"]))
    batches = [(x.tolist(), y.tolist()) for x, y in dense.batch(8)]
    of_batches = files.batch(8).map(lambda r: fl.io.parse_example(r, FEATURES))
    assert batches == [(b["x"].tolist(), b["label"].tolist()) for b in of_batches]
    assert [b["tags"].to_list() for b in of_batches][2] == [list(range(i % 4)) for i in range(16, 20)]


def test_one_bad_record_is_one_bad_element() -> None:
    records = [record(0), b"\xff\xff", record(2)]
    ds = fl.Dataset.from_list(records).map(lambda r: fl.io.parse_single_example(r, FEATURES))
    assert [float(row["x"][0]) for row in ds.ignore_errors()] == [0.0, 2.0]
    with pytest.raises(fl.errors.DataError, match=r"not a valid Example.*element 1"):
        list(ds)
    whole = fl.Dataset.from_tensors(np.array(records, object))
    with pytest.raises(fl.errors.DataError, match="record 1: not a valid Example"):
        list(whole.map(lambda r: fl.io.parse_example(r, FEATURES)))


def test_plans_with_parsing_travel(path: str) -> None:
    ds = fl.data.TFRecordDataset(path).map(lambda r: fl.io.parse_single_example(r, FEATURES))
    again = pickle.loads(pickle.dumps(ds))
    assert [int(row["label"]) for row in again] == [int(row["label"]) for row in ds]
    assert again.element_spec == ds.element_spec


def test_misspelt_names_are_told() -> None:
    with pytest.raises(fl.errors.DataError, match=r'"lable" is required.*it has .*"label"'):
        fl.io.parse_single_example(record(1), {"lable": fl.io.FixedLenFeature([], fl.int64)})


@pytest.mark.parametrize(
    ("feature", "error", "message"),
    [
        (fl.io.FixedLenFeature([None], fl.int64), ValueError, "must be known"),
        (fl.io.FixedLenFeature([], fl.int32), ValueError, "cast the result"),
        (fl.io.FixedLenFeature([], None), ValueError, "dtype is missing"),
        (fl.io.FixedLenFeature([2], fl.int64, [1]), ValueError, "does not fit"),
        (fl.io.FixedLenSequenceFeature([], fl.int64), ValueError, "allow_missing=True"),
        (fl.io.SparseFeature(["a", "b"], "v", fl.int64, [3]), ValueError, "2 index keys and 1 sizes"),
        (fl.io.RaggedFeature(fl.int64, partitions=["x"]), TypeError, "a partition is one of"),
        (fl.io.RaggedFeature(fl.int64, row_splits_dtype=fl.uint8), ValueError, "int32 or int64"),
        (fl.int64, TypeError, "must be a FixedLenFeature"),
    ],
)
def test_wrong_questions_are_refused(feature: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fl.io.parse_single_example(record(1), {"x": feature})


def test_tensorflows_names() -> None:
    features = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    example = tf.train.Example(
        features=tf.train.Features(
            feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0]))}
        )
    )
    parsed = tf.io.parse_single_example(example.SerializeToString(), features)
    assert parsed["x"].numpy().tolist() == [1.0, 2.0]


def test_compressed_strings() -> None:
    text = b"some text " * 20
    assert fl.io.decode_compressed(gzip.compress(text), "GZIP") == text
    both = fl.io.decode_compressed([zlib.compress(text), zlib.compress(b"")], "ZLIB")
    assert both.tolist() == [text, b""]
    with pytest.raises(fl.errors.DataError, match="not valid GZIP data"):
        fl.io.decode_compressed(text, "GZIP")


@given(st.sampled_from(["int8", "uint16", "float16", "float64", "bool", "int64"]), st.integers(0, 4))
def test_tensors_as_strings(dtype: str, n: int) -> None:
    array = np.arange(2 * n).reshape(2, n).astype(dtype)
    again = fl.io.parse_tensor(fl.io.serialize_tensor(array), dtype)
    assert again.dtype == array.dtype and again.tolist() == array.tolist()
