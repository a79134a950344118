"""TFRecord files as a whole: those of others, damaged ones, those that change, and what lies beside them."""

from __future__ import annotations

import gc
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
import tfrecord


def frames(*records: bytes) -> bytes:
    crc = tfrecord.TFRecordWriter.masked_crc
    out = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        out += length + crc(length) + record + crc(record)
    return out


def read(ds: Any) -> list[bytes]:
    return [bytes(x) for x in ds.as_numpy_iterator()]


def written(path: Path, count: int) -> str:
    with fl.io.TFRecordWriter(path) as writer:
        for i in range(count):
            writer.write(b"%02d" % i)
    return str(path)


NUMBERS = [b"%02d" % i for i in range(20)]


def test_files_of_the_package_tfrecord_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "theirs")
    writer = tfrecord.TFRecordWriter(path)
    for i in range(50):
        datum = {"id": (i, "int"), "x": ([0.5 * i, -1.0], "float"), "name": (b"n%d" % i * i, "byte")}
        writer.write(datum)
    writer.close()
    features = {
        "id": fl.io.FixedLenFeature([], "int64"),
        "x": fl.io.FixedLenFeature([2], "float32"),
        "name": fl.io.FixedLenFeature([], "string"),
    }
    for index in (False, True):
        ds = fl.TFRecordDataset(path, index=index).map(lambda r: fl.io.parse_single_example(r, features))
        rows = list(ds.as_numpy_iterator())
        assert [int(r["id"]) for r in rows] == list(range(50))
        assert [r["name"] for r in rows] == [b"n%d" % i * i for i in range(50)]
        assert all(np.array_equal(r["x"], np.float32([0.5 * i, -1])) for i, r in enumerate(rows))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_the_package_tfrecord_reads_our_files(tmp_path: Path, compression: str) -> None:
    path = str(tmp_path / "ours")
    examples = [
        fl.train.Example(
            features=fl.train.Features(
                feature={
                    "id": fl.train.Feature(int64_list=fl.train.Int64List(value=[i])),
                    "x": fl.train.Feature(float_list=fl.train.FloatList(value=[0.5 * i, -1.0])),
                    "name": fl.train.Feature(bytes_list=fl.train.BytesList(value=[b"n%d" % i * i])),
                }
            )
        )
        for i in range(50)
    ]
    with fl.io.TFRecordWriter(path, compression) as writer:
        for example in examples:
            writer.write(example.SerializeToString())
    description = {"id": "int", "x": "float", "name": "byte"}
    kind = compression.lower() or None
    rows = list(tfrecord.tfrecord_loader(path, None, description, compression_type=kind))
    assert [int(r["id"][0]) for r in rows] == list(range(50))
    assert [bytes(r["name"]) for r in rows] == [b"n%d" % i * i for i in range(50)]
    assert all(np.array_equal(r["x"], np.float32([0.5 * i, -1])) for i, r in enumerate(rows))
    if not compression:
        # Byte by byte what the other one writes.
        with open(path, "rb") as file:
            assert file.read() == frames(*[e.SerializeToString() for e in examples])


def test_indexes_beside_files_are_no_data(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path / f"{name}.tfrecord", 3)
    assert len(fl.TFRecordDataset(tmp_path, index=True)) == 6
    assert (tmp_path / "a.tfrecord.flidx").exists()
    for index in (False, True):
        assert len(read(fl.TFRecordDataset(tmp_path, index=index))) == 6
        assert len(read(fl.TFRecordDataset(str(tmp_path / "*"), index=index))) == 6
        assert len(read(fl.TFRecordDataset(str(tmp_path / "a*"), index=index))) == 3
    listed = fl.Dataset.list_files(str(tmp_path / "*"), shuffle=False)
    assert [os.path.basename(name) for name in read(listed)] == [b"a.tfrecord", b"b.tfrecord"]
    assert len(read(listed.flat_map(fl.TFRecordDataset))) == 6
    assert len(read(fl.Dataset.list_files(str(tmp_path / "*.flidx")))) == 2
    # A listing shows what is there, and a name that is given is meant.
    assert len(fl.io.matching_files(str(tmp_path / "*"))) == 4
    with pytest.raises(fl.errors.DataLossError, match="not a TFRecord file"):
        read(fl.TFRecordDataset(tmp_path / "a.tfrecord.flidx"))


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("buffer_size", [None, 4096])
def test_records_behind_one_that_was_cut_short_are_read(
    tmp_path: Path, compression: str, buffer_size: int | None
) -> None:
    small = [b"small%d" % i for i in range(20)]
    contents = frames(b"first") + frames(b"B" * 1000)[:50] + frames(*small, b"C" * 800, b"last")
    path = tmp_path / "cut"
    if compression:
        import gzip

        path.write_bytes(gzip.compress(contents))
    else:
        path.write_bytes(contents)
    ds = fl.TFRecordDataset(path, compression, buffer_size, on_error="skip")
    assert read(ds) == [b"first", *small, b"C" * 800, b"last"]


def damaged(path: Path, what: str) -> list[bytes]:
    """Writes a file of twenty records with one that is damaged; returns the others."""
    contents = bytearray(frames(*NUMBERS))
    lost = 5
    if what == "length":
        contents[18 * lost] ^= 1
    elif what == "contents":
        contents[18 * lost + 12] ^= 1
    else:
        lost = 19
        del contents[-3:]
    path.write_bytes(contents)
    return [n for i, n in enumerate(NUMBERS) if i != lost]


@pytest.mark.parametrize("what", ["length", "contents", "end"])
def test_skip_holds_with_an_index(tmp_path: Path, what: str) -> None:
    whole = damaged(tmp_path / "a", what)
    ds = fl.TFRecordDataset(tmp_path / "a", on_error="skip", index=True)
    assert read(ds) == whole
    for rows in (1, 3, 100):
        mixed = ds.shuffle(seed=1).with_options(chunk_rows=rows)
        assert sorted(read(mixed)) == whole
    # An index that leaves something out is nobody else's.
    if what != "contents":
        with pytest.raises(fl.errors.DataLossError, match='on_error="skip"'):
            fl.TFRecordDataset(tmp_path / "a", index=True)
    else:
        with pytest.raises(fl.errors.DataLossError, match="checksum"):
            read(fl.TFRecordDataset(tmp_path / "a", index=True).shuffle())


def test_the_policy_of_a_source_is_not_that_of_what_follows(tmp_path: Path) -> None:
    damaged(tmp_path / "a", "contents")
    ds = fl.TFRecordDataset(tmp_path / "a", on_error="skip", index=True)
    bad = ds.map(lambda x: fl.debugging.ensure(x, x != b"07", "seven")).shuffle(seed=1)
    with pytest.raises(fl.errors.InvalidArgumentError, match="seven"):
        read(bad)
    ds = fl.TFRecordDataset(tmp_path / "a", on_error="raise", index=True).shuffle(seed=1)
    with pytest.raises(fl.errors.DataLossError, match="checksum"):
        read(ds.with_options(on_error="skip"))


def test_a_file_that_changed_is_not_read_by_an_old_index(tmp_path: Path) -> None:
    path = written(tmp_path / "a", 20)
    ds = fl.TFRecordDataset(path, index=True)
    assert len(ds) == 20
    # In its place: what was found is not there any more.
    shutil.copyfile(written(tmp_path / "b", 10), path)
    for changed in (ds, ds.skip(3), ds.shuffle(), ds.with_options(on_error="skip")):
        with pytest.raises(fl.errors.FailedPreconditionError, match="has changed since the dataset was made"):
            read(changed)
    # Under its name: the old file is read on, as far as it is open.
    ds = fl.TFRecordDataset(path, index=True)
    written(tmp_path / "a", 15)
    assert (len(ds), len(read(ds)), len(read(ds.shuffle()))) == (10, 10, 10)
    assert len(fl.TFRecordDataset(path, index=True)) == 15


def test_an_index_is_made_anew_though_the_time_is_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(frames(b"1234", b"5678"))
    before = os.stat(path)
    assert len(fl.TFRecordDataset(path, index=True)) == 2
    path.write_bytes(frames(b"1234" + b"x" * 20))
    assert os.stat(path).st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    ds = fl.TFRecordDataset(path, index=True)
    assert (len(ds), read(ds)) == (1, [b"1234" + b"x" * 20])


def test_a_writer_that_is_let_go_of_says_so(tmp_path: Path) -> None:
    writer = fl.io.TFRecordWriter(tmp_path / "a")
    writer.write(b"x")
    writer.flush()
    with pytest.warns(ResourceWarning, match=r"a'\) was not closed"):
        del writer
        gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("error")
def test_writers_that_are_closed_say_nothing(tmp_path: Path) -> None:
    writer = fl.io.TFRecordWriter(tmp_path / "a")
    writer.close()
    with pytest.raises(ZeroDivisionError), fl.io.TFRecordWriter(tmp_path / "b"):
        raise ZeroDivisionError
    with pytest.raises(OSError, match="none"):
        fl.io.TFRecordWriter(tmp_path / "a" / "none")
    del writer
    gc.collect()
