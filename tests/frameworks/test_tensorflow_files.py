"""Files and Examples that TensorFlow wrote are read here, and those that were written here by TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
import tensorflow as tf

RECORDS = [b"", b"a", bytes(range(256)) * 300, *(str(i).encode() * i for i in range(50))]
KINDS = ["", "GZIP", "ZLIB"]


def written(writer: Any, folder: Path, kind: str) -> str:
    """A file of the records, by whichever writer."""
    file = str(folder / "records")
    with writer(file, kind) as out:
        for record in RECORDS:
            out.write(record)
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_tensorflow(kind: str, tmp_path: Path) -> None:
    file = written(tf.io.TFRecordWriter, tmp_path, kind)
    assert list(fl.TFRecordDataset(file, compression_type=kind)) == RECORDS


@pytest.mark.parametrize("kind", KINDS)
def test_records_for_tensorflow(kind: str, tmp_path: Path) -> None:
    file = written(fl.io.TFRecordWriter, tmp_path, kind)
    assert [r.numpy() for r in tf.data.TFRecordDataset(file, kind)] == RECORDS


def test_sharded_sets_for_tensorflow(tmp_path: Path) -> None:
    """Files that are named after how many there are."""
    fl.Dataset.from_tensor_slices(RECORDS).save_tfrecord(tmp_path / "set.tfrecord", shards=3)
    files = sorted(str(path) for path in tmp_path.iterdir())
    assert len(files) == 3
    assert sorted(r.numpy() for r in tf.data.TFRecordDataset(files)) == sorted(RECORDS)


def feature(module: Any, values: Any) -> Any:
    """A feature of an Example, made by either side."""
    if isinstance(values[0], bytes):
        return module.train.Feature(bytes_list=module.train.BytesList(value=values))
    if isinstance(values[0], float):
        return module.train.Feature(float_list=module.train.FloatList(value=values))
    return module.train.Feature(int64_list=module.train.Int64List(value=values))


def example(module: Any, i: int) -> bytes:
    fields = {"label": [i - 3], "scores": [i / 2.0, -1.0], "words": [b"w%d" % j for j in range(i % 4 + 1)]}
    features = module.train.Features(feature={k: feature(module, v) for k, v in fields.items()})
    return module.train.Example(features=features).SerializeToString()


def parsed(module: Any, batch: Any) -> dict[str, Any]:
    io = module.io
    wanted = {
        "label": io.FixedLenFeature([], module.int64),
        "scores": io.FixedLenFeature([2], module.float32),
        "words": io.RaggedFeature(module.string),
        "missing": io.FixedLenFeature([], module.int64, default_value=7),
    }
    return io.parse_example(batch, wanted)


@pytest.mark.parametrize("writer", [tf, fl])
def test_examples(writer: Any) -> None:
    """Written by either, both read the same."""
    records = [example(writer, i) for i in range(20)]
    theirs = parsed(tf, records)
    ours = next(iter(fl.Dataset.from_tensors(records).map(lambda batch: parsed(fl, batch))))
    for name in ("label", "scores", "missing"):
        np.testing.assert_array_equal(ours[name], theirs[name].numpy())
    assert ours["words"].to_list() == theirs["words"].to_list()


def test_other_files(tmp_path: Path) -> None:
    lines, fixed, table = (str(tmp_path / name) for name in ("lines", "fixed", "table.csv"))
    Path(lines).write_bytes(b"one\r\n\ntwo\nthree")
    assert list(fl.TextLineDataset(lines)) == [x.numpy() for x in tf.data.TextLineDataset(lines)]
    Path(fixed).write_bytes(b"HH" + bytes(range(40)) + b"F")
    args: dict[str, Any] = {"record_bytes": 8, "header_bytes": 2, "footer_bytes": 1}
    theirs = [x.numpy() for x in tf.data.FixedLengthRecordDataset(fixed, **args)]
    assert list(fl.FixedLengthRecordDataset(fixed, **args)) == theirs
    Path(table).write_text('a,b\n1,"x, y"\n2,z\n')
    columns = tf.data.experimental.CsvDataset(table, [tf.int32, tf.string], header=True)
    ours = fl.data.experimental.CsvDataset(table, [fl.int32, fl.string], header=True)
    assert [(int(a), b) for a, b in ours] == [(int(a), b.numpy()) for a, b in columns]
