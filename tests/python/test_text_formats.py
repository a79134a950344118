"""CSV, JSON lines, tar and text, against files that others wrote and readers that others wrote."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pandas
import pytest
import webdataset

AWKWARD = ["plain", "", "a,b", 'say "hi"', "two\nlines", " spaces ", "é漢", "tab\t"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files are relative to a folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text_of(value: Any) -> Any:
    """Byte strings as text, arrays as lists."""
    if isinstance(value, dict):
        return {name: text_of(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(text_of(item) for item in value)
    if hasattr(value, "tolist"):
        return text_of(value.tolist())
    return value.decode() if isinstance(value, bytes) else value


# CSV


def test_rows_that_the_csv_module_wrote() -> None:
    rows = [(text, i, i / 3) for i, text in enumerate(AWKWARD)]
    with open("a.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["t", "n", "x"])
        writer.writerows(rows)
    ds = fl.CsvDataset("a.csv", [[""], fl.int32, fl.float64], header=True)
    assert text_of(list(ds)) == rows


def test_rows_for_the_csv_module() -> None:
    data = {"t": AWKWARD, "n": np.arange(8), "x": np.linspace(0, 1, 8), "b": np.arange(8) > 3}
    ds = fl.Dataset.from_tensor_slices(data)
    saved = ds.save_csv("b.csv", shards=2)
    assert (saved.files, saved.elements) == (["b-00000-of-00002.csv", "b-00001-of-00002.csv"], 8)
    found = []
    for name in saved.files:
        with open(name, newline="", encoding="utf-8") as file:
            found.append(list(csv.DictReader(file)))
    rows = [found[i % 2][i // 2] for i in range(8)]
    assert [row["t"] for row in rows] == AWKWARD
    assert [float(row["x"]) for row in rows] == data["x"].tolist()
    assert [row["b"] for row in rows] == ["false"] * 4 + ["true"] * 4


def test_csv_both_ways_with_pandas() -> None:
    frame = pandas.DataFrame({"t": AWKWARD, "n": np.arange(8, dtype=np.int64), "x": np.linspace(-1, 1, 8)})
    frame.to_csv("a.csv.gz", index=False, compression="gzip")
    ds = fl.data.experimental.make_csv_dataset(
        "a.csv.gz",
        8,
        num_epochs=1,
        shuffle=False,
        compression_type="GZIP",
        column_defaults=["", 0, fl.float64],
    )
    (batch,) = ds
    assert text_of(batch["t"]) == AWKWARD
    np.testing.assert_array_equal(batch["x"], frame["x"].to_numpy())
    ds.unbatch().save_csv("b.csv")
    again = pandas.read_csv("b.csv", keep_default_na=False)
    pandas.testing.assert_frame_equal(again, frame)


def test_a_csv_error_says_where_and_what() -> None:
    Path("bad.csv").write_text("n,t\n1,a\n2,b\nthree,c\n")
    ds = fl.CsvDataset("bad.csv", [fl.int32, fl.string], header=True)
    rows = iter(ds)
    assert [next(rows)[0], next(rows)[0]] == [1, 2]
    with pytest.raises(fl.errors.DataError) as caught:
        next(rows)
    for part in ("field 0", "three", "int32", "bad.csv", "byte 12", "record 2"):
        assert part in str(caught.value), part
    error = caught.value
    assert (error.file, error.byte, error.record, error.element) == ("bad.csv", 12, 2, 2)
    assert list(rows) == []


def test_decode_csv_inside_a_map() -> None:
    Path("a.txt").write_text("1;x\n2;\n")
    ds = fl.TextLineDataset("a.txt").map(
        lambda line: tuple(fl.io.decode_csv(line, [0, "none"], field_delim=";"))
    )
    assert text_of(list(ds)) == [(1, "x"), (2, "none")]
    lines = (
        fl.TextLineDataset("a.txt").batch(2).map(lambda x: tuple(fl.io.decode_csv(x, [fl.int64, [""]], ";")))
    )
    assert text_of(list(lines)) == [([1, 2], ["x", ""])]


def test_make_csv_dataset_reads_patterns_and_shuffles() -> None:
    for i in range(3):
        Path(f"part-{i}.csv").write_text("a,b\n" + "".join(f"{i * 10 + k},{k / 2}\n" for k in range(10)))
    make = fl.data.experimental.make_csv_dataset
    batches = list(make("part-*.csv", 7, num_epochs=1, shuffle_seed=3, num_parallel_reads=2))
    values = np.concatenate([batch["a"] for batch in batches])
    assert sorted(values) == list(range(30)) and list(values) != list(range(30))
    assert batches[0]["b"].dtype == np.float32
    by_number = next(iter(make("part-0.csv", 10, select_columns=[1], shuffle=False, num_epochs=1)))
    assert list(by_number) == ["b"]
    with pytest.raises(fl.errors.FileError, match="no file matches"):
        make("none-*.csv", 1)


@pytest.mark.parametrize("ignore_errors", [False, True])
def test_csv_files_with_other_headers_are_refused(ignore_errors: bool) -> None:
    Path("m1.csv").write_text("age,height\n1,170\n")
    Path("m2.csv").write_text("height,age\n180,2\n")
    make = fl.data.experimental.make_csv_dataset
    options: dict[str, Any] = {"num_epochs": 1, "shuffle": False, "ignore_errors": ignore_errors}
    rows = iter(make(["m1.csv", "m2.csv"], 1, num_rows_for_inference=1, select_columns=["age"], **options))
    assert text_of(next(rows)) == {"age": [1]}
    with pytest.raises(fl.errors.DataError, match=r'\["height", "age"\].*\["age", "height"\]') as caught:
        next(rows)
    assert caught.value.file == "m2.csv"
    with pytest.raises(fl.errors.DataError, match=r"m2\.csv"):
        list(make(["m1.csv", "m2.csv"], 1, **options))
    # Names that were given are the user's to answer for.
    given = make(["m1.csv", "m2.csv"], 1, column_names=["a", "b"], **options)
    assert [text_of(row["a"]) for row in given] == [[1], [180]]
    plain = fl.CsvDataset(["m1.csv", "m2.csv"], [fl.int32, fl.int32], header=True)
    assert text_of(list(plain)) == [(1, 170), (180, 2)]


# JSON lines


def test_lines_that_the_json_module_wrote() -> None:
    rows = [
        {"t": text, "n": i, "x": i / 3, "v": list(range(i)), "in": {"m": [[i, 1], [2, 3]], "b": i > 2}}
        for i, text in enumerate(AWKWARD)
    ]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ds = fl.JsonLinesDataset("a.jsonl")
    assert ds.element_spec["in"]["m"] == fl.TensorSpec([None, None], fl.int64)
    assert text_of(list(ds)) == rows
    ds.save_json_lines("b.jsonl.gz", compression_type="GZIP")
    with gzip.open("b.jsonl.gz", "rt", encoding="utf-8") as file:
        assert [json.loads(line) for line in file] == rows


def test_a_json_schema_with_defaults() -> None:
    Path("a.jsonl").write_text('{"a": 1, "o": {"k": [1, {"x": 2}]}}\n{"a": null}\n{"a": 3, "w": "x"}\n')
    schema = {"a": fl.int16, "o": {"k": "json"}, "v": fl.TensorSpec([None], fl.float32)}
    defaults = {"a": -1, "o.k": "[]", "v": []}
    rows = text_of(list(fl.JsonLinesDataset("a.jsonl", schema, defaults)))
    assert [row["a"] for row in rows] == [1, -1, 3]
    assert json.loads(rows[0]["o"]["k"]) == [1, {"x": 2}] and rows[1]["o"]["k"] == "[]"
    with pytest.raises(fl.errors.DataError, match=r'"a" is null.*a\.jsonl at byte 36'):
        list(fl.JsonLinesDataset("a.jsonl", {"a": fl.int16}))
    with pytest.raises(ValueError, match="not in the schema"):
        fl.JsonLinesDataset("a.jsonl", {"a": fl.int16}, {"b": 1})


def test_json_cannot_hold_everything() -> None:
    with pytest.raises(fl.errors.DataError, match="no NaN"):
        fl.Dataset.from_tensors({"x": np.float32("nan")}).save_json_lines("a.jsonl")
    with pytest.raises(fl.errors.DataError, match="UTF-8"):
        fl.Dataset.from_tensors({"x": b"\xff"}).save_json_lines("a.jsonl")
    assert not Path("a.jsonl").exists()


# tar


def write_tar(name: str, members: list[tuple[str, bytes]], **how: Any) -> None:
    with tarfile.open(name, "w", **how) as archive:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_files_of_each_kind(form: int) -> None:
    folder = "d" * 90 if form == tarfile.USTAR_FORMAT else "漢" * 50
    members = [
        (f"{folder}/{i:04}.{ending}", bytes([i]) * i * 100) for i in range(20) for ending in ("bin", "txt")
    ]
    write_tar("a.tar", members, format=form)
    rows = list(fl.WebDataset("a.tar"))
    assert [row["__key__"].decode() for row in rows] == [f"{folder}/{i:04}" for i in range(20)]
    assert [row["txt"] for row in rows] == [bytes([i]) * i * 100 for i in range(20)]
    ds = fl.WebDataset("a.tar", ["bin"], index=True, url=True)
    assert (len(ds), ds[7]["bin"], ds[7]["__url__"]) == (20, b"\x07" * 700, b"a.tar")
    assert sorted(row["__key__"] for row in ds.shuffle(seed=1)) == sorted(row["__key__"] for row in rows)


def test_links_and_folders_are_no_samples() -> None:
    with tarfile.open("a.tar", "w") as archive:
        for name, kind in [("d", tarfile.DIRTYPE), ("s.txt", tarfile.SYMTYPE), ("h.txt", tarfile.LNKTYPE)]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("x.txt")
        info.size = 2
        archive.addfile(info, io.BytesIO(b"hi"))
    assert list(fl.WebDataset("a.tar")) == [{"__key__": b"x", "txt": b"hi"}]


def test_names_do_not_lead_outside() -> None:
    write_tar("a.tar", [("../up.txt", b"1"), ("/abs.txt", b"2"), ("./in.txt", b"3")])
    rows = iter(fl.WebDataset("a.tar", ["txt"]))
    with pytest.raises(fl.errors.DataError, match=r'"\.\."'):
        next(rows)
    assert [row["__key__"] for row in rows] == [b"abs", b"in"]


def test_tar_files_for_tarfile() -> None:
    keys = ["a", "long/" * 60 + "b"]
    ds = fl.Dataset.from_tensor_slices({"__key__": keys, "jpg": [b"\xff\x00", b""], "cls": [3, 4]})
    ds.save_tar("a.tar.gz", compression_type="GZIP", mtime=7)
    with tarfile.open("a.tar.gz") as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        assert all(member.mtime == 7 for member in archive.getmembers())
    assert found == {
        f"{key}.{e}": v
        for key, j, c in zip(keys, [b"\xff\x00", b""], [b"3", b"4"], strict=True)
        for e, v in (("jpg", j), ("cls", c))
    }
    assert text_of([row["cls"] for row in fl.WebDataset("a.tar.gz", ["cls"], "GZIP")]) == ["3", "4"]
    with pytest.raises(ValueError, match="__key__"):
        fl.Dataset.from_tensors({"jpg": b""}).save_tar("b.tar")
    with pytest.raises(ValueError, match='"TXT" and "txt" differ only in capital letters'):
        fl.Dataset.from_tensors({"__key__": b"a", "TXT": b"", "txt": b""}).save_tar("b.tar")


def test_both_ways_with_webdataset() -> None:
    samples = [{"__key__": f"s{i:03}", "jpg": bytes([i]) * 700, "cls": str(i).encode()} for i in range(10)]
    with webdataset.TarWriter("theirs.tar") as writer:
        for sample in samples:
            writer.write(sample)
    assert sorted(map(sorted, (row.items() for row in fl.WebDataset("theirs.tar")))) == sorted(
        sorted({**s, "__key__": s["__key__"].encode()}.items()) for s in samples
    )
    fl.WebDataset("theirs.tar").save_tar("ours.tar")
    read = [
        {name: value for name, value in sample.items() if name in ("__key__", "jpg", "cls")}
        for sample in webdataset.WebDataset("ours.tar", shardshuffle=False, empty_check=False)
    ]
    assert read == samples


# Lines and fixed lengths


def test_lines_compressed_by_gzip() -> None:
    with gzip.open("a.gz", "wb") as file:
        file.write(b"one\r\ntwo\n\nlast")
    assert list(fl.TextLineDataset(Path("a.gz"), "GZIP")) == [b"one", b"two", b"", b"last"]


def test_records_of_one_length_by_number() -> None:
    array = np.arange(60, dtype="<i4")
    array.tofile("a.bin")
    ds = fl.FixedLengthRecordDataset(["a.bin", "a.bin"], 12, index=True)
    assert len(ds) == 40
    np.testing.assert_array_equal(np.frombuffer(ds[21], "<i4"), array[3:6])
    assert len(list(ds.shuffle(seed=0))) == 40


def test_readers_inside_functions() -> None:
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text(f"1,{name}\n2,{name}\n")
    files = fl.Dataset.from_tensor_slices(["a.csv", "b.csv"])
    ds = files.flat_map(lambda file: fl.CsvDataset(file, [fl.int32, fl.string]))
    assert text_of(list(ds)) == [(1, "a"), (2, "a"), (1, "b"), (2, "b")]
    lines = files.interleave(fl.TextLineDataset, cycle_length=2)
    assert list(lines) == [b"1,a", b"1,b", b"2,a", b"2,b"]


def tar_of(samples: dict[str, bytes]) -> bytearray:
    """A tar file of one member a sample."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in samples.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return bytearray(made.getvalue())


def test_zeros_in_a_member_are_not_the_end(tmp_path: Path) -> None:
    """Behind a damaged header members are searched, and one may be full of zeros."""
    data = tar_of({f"s{n}.bin": bytes(3000) if n == 1 else b"x" for n in range(6)})
    header = data.index(b"s1.bin")
    data[header] ^= 1
    (tmp_path / "bad.tar").write_bytes(data)
    for index in (False, True):
        ds = fl.WebDataset(str(tmp_path / "bad.tar"), ["bin"], index=index, on_error="skip")
        assert [bytes(element["__key__"]) for element in ds][-4:] == [b"s2", b"s3", b"s4", b"s5"]


def test_an_index_of_another_tar_file_is_refused(tmp_path: Path) -> None:
    """Samples of a file that was written anew are not mixed up."""
    path = tmp_path / "i.tar"
    path.write_bytes(tar_of({f"s{n}.bin": b"v%d" % n for n in range(4)}))
    ds = fl.WebDataset(str(path), ["bin"], index=True).shuffle(None, seed=1)
    assert {bytes(e["__key__"]): bytes(e["bin"]) for e in ds} == {b"s%d" % n: b"v%d" % n for n in range(4)}
    path.write_bytes(tar_of({f"s{n}.bin": b"v%d" % n for n in (3, 2, 1, 0)} | {"s4.bin": bytes(2000)}))
    with pytest.raises(fl.errors.FeedlineError, match="has changed since the dataset was made"):
        list(ds)


def test_the_index_of_a_tar_file_is_kept(tmp_path: Path) -> None:
    """Beside the file, and nobody takes it for data."""
    path = tmp_path / "i.tar"
    path.write_bytes(tar_of({f"s{n}.bin": b"v%d" % n for n in range(4)}))
    assert len(fl.WebDataset(str(tmp_path / "*"), index=True)) == 4
    kept = tmp_path / "i.tar.flidx"
    whole = kept.read_bytes()
    assert len(fl.WebDataset(str(tmp_path), index=True)) == 4
    assert len(list(fl.WebDataset(str(tmp_path / "*")))) == 4
    assert list(fl.Dataset.list_files(str(tmp_path / "*"))) == [str(path).encode()]
    # Whatever lies there in its place, all samples are found.
    for wrong in (whole[:-3], whole[:20], b"", bytes(1000), bytes([whole[0] ^ 1]) + whole[1:]):
        kept.write_bytes(wrong)
        ds = fl.WebDataset(str(path), index=True)
        assert [bytes(ds[n]["bin"]) for n in range(len(ds))] == [b"v0", b"v1", b"v2", b"v3"]
        assert kept.read_bytes() == whole
    # A file that changed gets a new one, also for other fields of it.
    path.write_bytes(tar_of({"a.bin": b"1", "a.txt": b"2"}))
    assert fl.WebDataset(str(path), ["txt"], index=True)[0] == {"__key__": b"a", "txt": b"2"}
    assert fl.WebDataset(str(path), ["bin"], index=True)[0] == {"__key__": b"a", "bin": b"1"}


def test_samples_come_in_order_only_if_they_were_counted(tmp_path: Path) -> None:
    """A file that is written anew is another one, in whatever order it is read."""
    path = tmp_path / "i.tar"
    path.write_bytes(tar_of({"a.bin": b"1"}))
    ds = fl.WebDataset(str(path), index=True)
    path.write_bytes(tar_of({"b.bin": b"2", "c.bin": b"3"}))
    with pytest.raises(fl.errors.FeedlineError, match="has changed since the dataset was made"):
        list(ds)


def test_a_quote_that_is_never_closed_costs_its_line(tmp_path: Path) -> None:
    """Rows behind it come, and the error says where it is."""
    path = tmp_path / "q.csv"
    path.write_text('a,b\n1,x\n2,"y\n3,z\n4,z\n')
    ds = fl.CsvDataset(str(path), [0, ""], header=True)
    assert [int(row[0]) for row in ds.ignore_errors()] == [1, 3, 4]
    with pytest.raises(fl.errors.DataError, match="a quote that is never closed") as caught:
        list(ds)
    assert (caught.value.file, caught.value.byte, caught.value.record) == (str(path), 8, 1)


def test_a_compressed_file_of_zeros_is_damaged(tmp_path: Path) -> None:
    """Zeros may follow a stream, but are none."""
    zeros, whole = tmp_path / "z.gz", tmp_path / "w.gz"
    zeros.write_bytes(bytes(5000))
    whole.write_bytes(gzip.compress(b"a\nb\n") + bytes(5000))
    assert list(fl.TextLineDataset(str(whole), compression_type="GZIP")) == [b"a", b"b"]
    for read in (fl.TextLineDataset, fl.TFRecordDataset):
        with pytest.raises(fl.errors.DataError):
            list(read(str(zeros), compression_type="GZIP"))


def test_places_of_records_are_those_in_the_file(tmp_path: Path) -> None:
    """Also behind the first block, and of what had to be put together."""
    (tmp_path / "f.bin").write_bytes(np.arange(4000, dtype=np.int64).tobytes())
    fixed = fl.FixedLengthRecordDataset(str(tmp_path / "f.bin"), 8, buffer_size=4096)
    assert fixed.locate(0).origin.byte == 0
    assert fixed.locate(3000).origin.byte == 24_000
    (tmp_path / "w.tar").write_bytes(tar_of({f"s{n:02}.bin": b"x" for n in range(30)}))
    samples = fl.WebDataset(str(tmp_path / "w.tar"), ["bin"])
    assert samples.locate(20).origin.byte == 20 * 1024


def test_columns_that_are_left_out_are_the_only_ones(tmp_path: Path) -> None:
    """All others are read: one that has no default is an error, wherever it stands."""
    path = tmp_path / "e.csv"
    path.write_text("1,2,3,4,5\n")

    def read(count: int, exclude: list[int]) -> list[list[int]]:
        ds = fl.CsvDataset(str(path), [fl.int32] * count, exclude_cols=exclude)
        return [[int(x) for x in row] for row in ds]

    assert read(3, [0, 2]) == [[2, 4, 5]]
    assert read(4, [4]) == read(4, [4, 4, 9]) == [[1, 2, 3, 4]]
    assert read(5, [7]) == [[1, 2, 3, 4, 5]]
    for count, exclude, left in ((1, [0, 2], 3), (2, [7], 5), (6, [7], 5)):
        words = f"has 5 fields, {left} of them not in exclude_cols; {count} are expected"
        with pytest.raises(fl.errors.DataError, match=words):
            read(count, exclude)
    with pytest.raises(ValueError, match="exclude_cols must not be negative"):
        read(4, [-1])
