"""An error of a file says where it is: in attributes, and in its text once."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

Make = Callable[[Path], fl.Dataset]


def tar(*members: tuple[str, bytes]) -> bytes:
    """A tar file of these members, each a header and a block if it is short."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, contents in members:
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))
    return out.getvalue()


def changed(contents: bytes, at: int, by: bytes = b"\xff") -> bytes:
    """The same with other bytes somewhere."""
    return contents[:at] + by + contents[at + len(by) :]


def records(path: Path, rows: list[bytes]) -> bytes:
    """A TFRecord file, each record of which has 16 bytes around its own."""
    with fl.io.TFRecordWriter(str(path)) as out:
        for row in rows:
            out.write(row)
    return path.read_bytes()


def tf_record(path: Path) -> fl.Dataset:
    path.write_bytes(changed(records(path, [b"one", b"two", b"three"]), 19 + 13))
    return fl.TFRecordDataset(str(path))


def tf_record_length(path: Path) -> fl.Dataset:
    path.write_bytes(changed(records(path, [b"one", b"two"]), 19 + 1))
    return fl.TFRecordDataset(str(path))


def tf_record_cut(path: Path) -> fl.Dataset:
    path.write_bytes(records(path, [b"one", b"two"])[:-2])
    return fl.TFRecordDataset(str(path))


def tf_record_index(path: Path) -> fl.Dataset:
    path.write_bytes(changed(records(path, [b"one", b"two", b"three"]), 19 + 13))
    return fl.TFRecordDataset(str(path), index=True).shuffle(seed=1)


def tf_record_index_length(path: Path) -> fl.Dataset:
    path.write_bytes(changed(records(path, [b"one", b"two"]), 19 + 1))
    return fl.TFRecordDataset(str(path), index=True).shuffle(seed=1)


def gzip_damaged(path: Path) -> fl.Dataset:
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % i for i in range(100)))[:-12])
    return fl.TextLineDataset(str(path), compression_type="GZIP")


def web(path: Path, contents: bytes, **options: Any) -> fl.Dataset:
    path.write_bytes(contents)
    return fl.WebDataset(str(path), fields=["txt"], **options)


TWO = tar(("a.txt", b"1"), ("b.txt", b"2"))


def tar_checksum(path: Path) -> fl.Dataset:
    return web(path, changed(TWO, 1024 + 5))


def tar_size(path: Path) -> fl.Dataset:
    header = bytearray(TWO[1024:1536])
    header[124:136] = b"x" * 12
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return web(path, changed(TWO, 1024, bytes(header)))


def tar_cut(path: Path) -> fl.Dataset:
    return web(path, TWO[: 1024 + 512])


def tar_cut_header(path: Path) -> fl.Dataset:
    return web(path, TWO[: 1024 + 100])


def tar_escape(path: Path) -> fl.Dataset:
    return web(path, tar(("a.txt", b"1"), ("../b.txt", b"2")))


def tar_field(path: Path) -> fl.Dataset:
    return web(path, tar(("a.txt", b"1"), ("b.cls", b"2"), ("b.jpg", b"3")))


def tar_field_by_number(path: Path) -> fl.Dataset:
    return web(path, tar(("a.txt", b"1"), ("b.cls", b"2"), ("b.jpg", b"3")), index=True).shuffle(seed=1)


def tar_twice(path: Path) -> fl.Dataset:
    return web(path, tar(("a.txt", b"1"), ("b.txt", b"2"), ("b.txt", b"3")))


def tar_index(path: Path) -> fl.Dataset:
    return web(path, changed(TWO, 1024 + 5), index=True).shuffle(seed=1)


def line_too_long(path: Path) -> fl.Dataset:
    path.write_bytes(b"one\n" + b"x" * 3_000_000 + b"\n")
    return fl.TextLineDataset(str(path)).with_options(memory_limit="4MB")


def csv(path: Path, text: str, **options: Any) -> fl.Dataset:
    path.write_text(text)
    return fl.data.experimental.CsvDataset(str(path), [fl.int64, fl.string], **options)


def csv_unclosed(path: Path) -> fl.Dataset:
    return csv(path, 'n,t\n1,a\n2,"b\n', header=True)


def csv_cell(path: Path) -> fl.Dataset:
    return csv(path, "1,a\nx,b\n")


def csv_fields(path: Path) -> fl.Dataset:
    return csv(path, "1,a\n2,b\n3\n")


def csv_empty(path: Path) -> fl.Dataset:
    return csv(path, "", header=True)


def csv_too_long(path: Path) -> fl.Dataset:
    return csv(path, "1,a\n2," + "x" * 3_000_000 + "\n").with_options(memory_limit="4MB")


def json_lines(path: Path, text: str, **options: Any) -> fl.Dataset:
    path.write_text(text)
    return fl.JsonLinesDataset(str(path), **options)


def json_broken(path: Path) -> fl.Dataset:
    return json_lines(path, '{"a": 1}\n{"a": }\n', schema={"a": fl.int64})


def json_null(path: Path) -> fl.Dataset:
    return json_lines(path, '{"a": 1}\n\n{"a": null}\n', schema={"a": fl.int64})


def json_learned(path: Path) -> fl.Dataset:
    return json_lines(path, '{"a": 1}\n{"a": 2}\n[3]\n')


def json_too_long(path: Path) -> fl.Dataset:
    long = '{"a": 1}\n{"a": ' + " " * 3_000_000 + "2}\n"
    return json_lines(path, long, schema={"a": fl.int64}).with_options(memory_limit="4MB")


def fixed_cut(path: Path) -> fl.Dataset:
    path.write_bytes(bytes(23))
    return fl.FixedLengthRecordDataset(str(path), 10)


def fixed_cut_packed(path: Path) -> fl.Dataset:
    path.write_bytes(gzip.compress(bytes(23)))
    return fl.FixedLengthRecordDataset(str(path), 10, compression_type="GZIP")


def npy_header(path: Path) -> fl.Dataset:
    path.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': 3 }   ")
    return fl.NumpyDataset(str(path))


def npy_cut(path: Path) -> fl.Dataset:
    np.save(path.with_suffix(".npy"), np.arange(100))
    path.write_bytes(path.with_suffix(".npy").read_bytes()[:500])
    return fl.NumpyDataset(str(path))


def npz(path: Path, compression: int) -> bytes:
    """An archive with the array `x`, which begins behind a header of 35 bytes."""
    array = io.BytesIO()
    np.save(array, np.arange(1000))
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x.npy", array.getvalue())
    return path.read_bytes()


def npz_member(path: Path) -> fl.Dataset:
    path.write_bytes(changed(npz(path, zipfile.ZIP_STORED), 35))
    return fl.NumpyDataset(str(path))


def npz_packed(path: Path) -> fl.Dataset:
    path.write_bytes(changed(npz(path, zipfile.ZIP_DEFLATED), 200, b"\xff" * 40))
    return fl.NumpyDataset(str(path))


def npz_entry(path: Path) -> fl.Dataset:
    contents = npz(path, zipfile.ZIP_STORED)
    path.write_bytes(changed(contents, contents.index(b"PK\x01\x02") + 8, b"\x01"))
    return fl.NumpyDataset(str(path))


def parquet_page(path: Path) -> fl.Dataset:
    """The only page of the second row group."""
    table = pa.table({"s": [f"{i}" for i in range(100)]})
    pq.write_table(table, path, row_group_size=50, compression="none", use_dictionary=False)
    at = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    path.write_bytes(changed(path.read_bytes(), at, b"\xff\xff"))
    return fl.ParquetDataset(str(path))


def parquet_null(path: Path) -> fl.Dataset:
    pq.write_table(pa.table({"n": [1, 2, None, 4]}), path, row_group_size=2)
    return fl.ParquetDataset(str(path))


def parquet_null_by_number(path: Path) -> fl.Dataset:
    return parquet_null(path).shuffle(seed=1)


def parquet_null_in_second(path: Path) -> fl.Dataset:
    pq.write_table(pa.table({"n": [1, 2, 3]}), path.with_suffix(".first"))
    pq.write_table(pa.table({"n": [1, None]}), path)
    return fl.ParquetDataset([str(path.with_suffix(".first")), str(path)])


def parquet_footer(path: Path) -> fl.Dataset:
    pq.write_table(pa.table({"n": [1, 2]}), path)
    contents = path.read_bytes()
    path.write_bytes(contents[:-8] + struct.pack("<I", 1 << 30) + b"PAR1")
    return fl.ParquetDataset(str(path))


def arrow_batch(path: Path) -> fl.Dataset:
    """Offsets of strings that fall, in the second batch."""
    pyarrow.feather.write_feather(pa.table({"s": ["abc"] * 4}), path, chunksize=2, compression="uncompressed")
    contents = path.read_bytes()
    offsets = struct.pack("<3i", 0, 3, 6)
    second = contents.index(offsets, contents.index(offsets) + 1)
    path.write_bytes(changed(contents, second, struct.pack("<3i", 0, 7, 6)))
    return fl.ArrowDataset(str(path))


def arrow_null(path: Path) -> fl.Dataset:
    pyarrow.feather.write_feather(pa.table({"n": [1, 2, None]}), path, chunksize=2)
    return fl.ArrowDataset(str(path))


def arrow_cut(path: Path) -> fl.Dataset:
    pyarrow.feather.write_feather(pa.table({"n": [1, 2]}), path, compression="uncompressed")
    path.write_bytes(path.read_bytes()[:-4])
    return fl.ArrowDataset(str(path))


def size(path: Path) -> int:
    return path.stat().st_size


PLACES: list[tuple[Make, int | Callable[[Path], int], int | None, str]] = [
    # What is broken, the byte (-1: none is known), the record (-1: any), and words of the message.
    (tf_record, 19, 1, "checksum"),
    (tf_record_length, 19, 1, "checksum of a record's length"),
    (tf_record_cut, 19, 1, "and the file has 1 more"),
    (tf_record_index, 19, 1, "checksum"),
    (tf_record_index_length, 19, 1, "have no number"),
    (gzip_damaged, size, -1, "cut"),
    # The sample in front of the damage is lost with it: nobody knows whether that was all of it.
    (tar_checksum, 1024, 0, "the checksum of a tar header is wrong"),
    (tar_size, 1024, 0, "the size in a tar header is not a number"),
    (tar_cut, 1536, 0, "1 bytes of the last member are missing"),
    (tar_cut_header, 1024, 0, "100 bytes of a header"),
    (tar_escape, 1024, 0, '".." in its name'),
    (tar_field, 1024, 1, '"b" has no "txt", only cls, jpg; say which fields'),
    (tar_field_by_number, 1024, 1, '"b" has no "txt", only cls, jpg; say which fields'),
    (tar_twice, 1024, 1, "two files of the extension"),
    (tar_index, 1024, 0, "the checksum of a tar header is wrong"),
    (line_too_long, 4, 1, "a line is longer than"),
    (csv_unclosed, 8, 1, "a quote that is never closed"),
    (csv_cell, 4, 1, "not a"),
    (csv_fields, 8, 2, "field"),
    (csv_empty, 0, 0, "is empty"),
    (csv_too_long, 4, 1, "a record is longer than"),
    (json_broken, 9, 1, "not JSON"),
    (json_null, 10, 1, "is null"),
    (json_learned, 18, 2, "learned"),
    (json_too_long, 9, 1, "a line is longer than"),
    (fixed_cut, 20, 0, "not a multiple of the 10"),
    (fixed_cut_packed, 20, 2, "ends with 3 bytes"),
    (npy_header, 0, None, "header cannot be read"),
    (npy_cut, 500, None, "bytes are needed"),
    (npz_member, 35, None, "x.npy"),
    (npz_packed, 35, 0, "cannot be decompressed"),
    (npz_entry, lambda path: path.read_bytes().index(b"PK\x01\x02"), None, "is encrypted"),
    (
        parquet_page,
        lambda path: pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset,
        50,
        "page",
    ),
    (parquet_null, -1, 2, "is null here"),
    (parquet_null_by_number, -1, 2, "is null here"),
    (parquet_null_in_second, -1, 1, "is null here"),
    (parquet_footer, lambda path: size(path) - 8, None, "the footer claims"),
    (arrow_batch, lambda path: path.read_bytes().index(struct.pack("<3i", 0, 7, 6)), 2, "offsets fall"),
    (arrow_null, -1, 2, "is null here"),
    (arrow_cut, size, None, "cut off"),
]


@pytest.mark.parametrize(("make", "byte", "record", "said"), PLACES, ids=[p[0].__name__ for p in PLACES])
def test_where_it_is(make: Make, byte: Any, record: int | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises((fl.errors.OpError, ValueError)) as caught:
        list(make(path))
    error = caught.value
    byte = byte(path) if callable(byte) else byte
    assert isinstance(error, fl.errors.DataError), repr(error)
    assert (error.file, error.byte) == (str(path), None if byte < 0 else byte), error
    assert error.record == record or (record == -1 and error.record is not None), error
    assert error.operator or "by_number" in make.__name__ or make is tf_record_index, error
    text = str(error)
    assert said in text and text.count(str(path)) == 1, text
    assert text.count("byte ") - text.count("byte order") <= 1 and text.count("record ") <= 2, text
    if byte >= 0:
        assert f"({path} at byte {byte}" in text, text
