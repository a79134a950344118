"""Object stores, by a real S3 server on loopback: reading, listing, writing, and what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import feedline as fl
import pytest
from stores import S3


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with S3() as s3:
        yield s3


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    server.use(monkeypatch)
    return server


def shard(path: Path, words: list[bytes], **options: Any) -> bytes:
    with fl.io.TFRecordWriter(path, fl.io.TFRecordOptions(**options)) as writer:
        for word in words:
            writer.write(word)
    return path.read_bytes()


def words(n: int) -> list[bytes]:
    return [b"%d " % i * (i % 50) for i in range(n)]


def test_records_are_read_over_s3_and_http(s3: S3, tmp_path: Path) -> None:
    wanted = words(2000)
    url = s3.put("train/a.tfrecord", shard(tmp_path / "a", wanted))
    assert list(fl.TFRecordDataset(url).as_numpy_iterator()) == wanted
    assert list(fl.TFRecordDataset(s3.http("train/a.tfrecord")).as_numpy_iterator()) == wanted
    packed = s3.put("train/a.tfrecord.gz", shard(tmp_path / "b", wanted, compression_type="GZIP"))
    assert list(fl.TFRecordDataset(packed, "GZIP").as_numpy_iterator()) == wanted


def test_patterns_find_objects(s3: S3, tmp_path: Path) -> None:
    for k in range(3):
        s3.put(f"shards/part-{k}.tfrecord", shard(tmp_path / str(k), [b"%d" % k]))
    s3.put("shards/readme.txt", b"not a record")
    pattern = s3.put("shards/part-0.tfrecord", shard(tmp_path / "0", [b"0"])).replace("part-0", "part-*")
    names = [name.decode() for name in fl.Dataset.list_files(pattern, shuffle=False).as_numpy_iterator()]
    assert [name[-10:] for name in names] == ["0.tfrecord", "1.tfrecord", "2.tfrecord"]
    read = fl.Dataset.list_files(pattern, shuffle=False).interleave(fl.TFRecordDataset, num_parallel_calls=2)
    assert sorted(read.as_numpy_iterator()) == [b"0", b"1", b"2"]
    assert list(fl.TFRecordDataset(pattern).as_numpy_iterator()) == [b"0", b"1", b"2"]


def test_buckets_and_folders_are_no_objects(s3: S3) -> None:
    """A bucket was read as an empty file."""
    for key in ("a.txt", "d/b.txt"):
        s3.put(f"{key}", key.encode() + b"\n")
    bucket = f"s3://{s3.bucket}"
    for name in (bucket, f"{bucket}/"):
        assert b"a.txt" in list(fl.TextLineDataset(name).as_numpy_iterator())
    assert list(fl.TextLineDataset(f"{bucket}/d/").as_numpy_iterator()) == [b"d/b.txt"]
    with pytest.raises(fl.errors.NotFoundError, match=f"name it {bucket}/d/"):
        list(fl.TextLineDataset(f"{bucket}/d"))
    for name, word in ((bucket, "bucket"), (f"{bucket}/d/", "folder")):
        with pytest.raises(ValueError, match=f"is a {word} and not an object"):
            list(fl.Dataset.from_tensors(name).map(fl.io.read_file))


def test_records_by_number(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDLINE_INDEX_DIR", str(tmp_path / "indexes"))
    wanted = words(500)
    ds = fl.TFRecordDataset(s3.put("indexed.tfrecord", shard(tmp_path / "a", wanted)), index=True)
    assert len(ds) == 500 and ds[321] == wanted[321]
    assert sorted(ds.shuffle(seed=1).as_numpy_iterator()) == sorted(wanted)
    assert list((tmp_path / "indexes").iterdir())


def test_samples_by_number(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDLINE_INDEX_DIR", str(tmp_path / "indexes"))

    def put(count: int) -> str:
        samples = {"__key__": [f"{i:03}" for i in range(count)], "txt": words(count)}
        fl.Dataset.from_tensor_slices(samples).save_tar(tmp_path / "a.tar", overwrite=True)
        return s3.put("samples/a.tar", (tmp_path / "a.tar").read_bytes())

    url = put(300)
    ds = fl.WebDataset(url, index=True)
    assert len(ds) == 300 and ds[222]["txt"] == words(300)[222]
    (kept,) = (tmp_path / "indexes").iterdir()
    made = kept.stat().st_mtime_ns
    assert sorted(row["txt"] for row in fl.WebDataset(url, index=True).shuffle(seed=1)) == sorted(words(300))
    assert kept.stat().st_mtime_ns == made, "it was made again"
    # Another object, and a damaged index.
    assert len(fl.WebDataset(put(200), index=True)) == 200
    kept.write_bytes(kept.read_bytes()[:-5])
    assert len(fl.WebDataset(url, index=True)) == 200


def test_a_folder_is_its_files_of_the_kind(s3: S3, tmp_path: Path) -> None:
    """As Spark leaves it: the data, and notes beside it."""
    for k in (1, 0):
        part = tmp_path / f"part-{k}.parquet"
        fl.Dataset.range(2).map(lambda x, k=k: {"x": x + 2 * k}).save_parquet(part)
        s3.put(f"spark/{part.name}", part.read_bytes())
    for name in ("_SUCCESS", "._SUCCESS.crc", "_metadata.parquet", "notes.txt"):
        s3.put(f"spark/{name}", b"no table")
        (tmp_path / name).write_bytes(b"no table")
    for folder in (s3.url("spark/"), str(tmp_path), f"file://{tmp_path}"):
        assert [int(row["x"]) for row in fl.ParquetDataset(folder)] == [0, 1, 2, 3], folder
    with pytest.raises(FileNotFoundError, match=r"spark/ ends with \.npy or \.npz"):
        fl.NumpyDataset(s3.url("spark/"))
    # Readers of any file take all but the notes.
    s3.put("text/a.txt", b"a\n")
    s3.put("text/_SUCCESS", b"b\n")
    assert list(fl.TextLineDataset(s3.url("text/")).as_numpy_iterator()) == [b"a"]


def test_files_are_written(s3: S3) -> None:
    url = s3.put("written/old", b"")
    target = url.replace("old", "new.tfrecord")
    saved = fl.Dataset.from_tensor_slices(words(100)).save_tfrecord(target)
    assert saved.elements == 100
    assert list(fl.TFRecordDataset(target).as_numpy_iterator()) == words(100)
    assert len(s3.get("written/new.tfrecord")) == saved.bytes


def test_what_is_missing_is_named(s3: S3) -> None:
    url = s3.put("here", b"x")
    with pytest.raises(fl.errors.NotFoundError, match="gone") as failed:
        next(iter(fl.TFRecordDataset(url.replace("here", "gone"))))
    # As a local file that is missing.
    assert isinstance(failed.value, FileNotFoundError)
    with pytest.raises(FileNotFoundError, match="gone"):
        fl.io.read_file(url.replace("here", "gone"))
    with pytest.raises(OSError, match="none-"):
        fl.TFRecordDataset(url.replace("here", "none-*"))
    assert fl.io.read_file(url) == b"x"


def test_caches_know_the_objects_that_they_are_made_of(s3: S3, tmp_path: Path) -> None:
    def make() -> Any:
        names = fl.Dataset.from_tensor_slices([s3.url("kept/a.txt"), s3.url("kept/b.txt")])
        return names.flat_map(fl.TextLineDataset).cache(tmp_path / "cache")

    s3.put("kept/a.txt", b"1\n2\n")
    s3.put("kept/b.txt", b"3\n")
    assert list(make().as_numpy_iterator()) == [b"1", b"2", b"3"]
    (manifest,) = (tmp_path / "cache").rglob("dataset.json")
    before = manifest.stat().st_mtime_ns
    assert list(make().as_numpy_iterator()) == [b"1", b"2", b"3"]
    assert manifest.stat().st_mtime_ns == before
    s3.put("kept/b.txt", b"4\n")
    assert list(make().as_numpy_iterator()) == [b"1", b"2", b"4"]
