"""Parquet files that claim what cannot be: bytes that would be gigabytes are an error, and take no memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pyarrow.parquet as pq
import pytest

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY = 6, 7


def varint(n: int) -> bytes:
    """Seven bits a byte."""
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def struct(fields: dict[int, tuple[int, Any]]) -> bytes:
    """A struct in Thrift's compact form: types and values by the numbers of fields."""
    out, last = b"", 0
    for number, (kind, value) in fields.items():
        out += bytes([number - last << 4 | kind]) + written(kind, value)
        last = number
    return out + b"\0"


def written(kind: int, value: Any) -> bytes:
    """A value of that type; a list is its type and its values."""
    if kind in (I32, I64):
        return varint(value << 1 ^ value >> 63)
    if kind == BINARY:
        return varint(len(value)) + bytes(value)
    if kind == LIST:
        of, items = value
        return bytes([len(items) << 4 | of]) + b"".join(written(of, item) for item in items)
    return struct(value)


def lengths(count: int, first: int, step: int) -> bytes:
    """So many numbers at equal distances: packed, they are a few bytes, however many there are."""
    block = 1 << 17

    def zigzag(n: int) -> bytes:
        return varint(n << 1 ^ n >> 63)

    out = varint(block) + varint(1) + varint(count) + zigzag(first)
    for _ in range(0, max(count - 1, 0), block):
        out += zigzag(step) + b"\0"
    return out


def parquet(rows: int, page: bytes, encoding: int = DELTA_BYTE_ARRAY, said: int | None = None) -> bytes:
    """A file of one column of strings, `s`, with one page. The footer may say how large the strings are."""
    described = {1: (I32, rows), 2: (I32, encoding), 3: (I32, 3), 4: (I32, 3)}
    header = struct({1: (I32, 0), 2: (I32, len(page)), 3: (I32, len(page)), 5: (STRUCT, described)})
    size = len(header) + len(page)
    column = {
        1: (I32, 6),
        2: (LIST, (I32, [encoding])),
        3: (LIST, (BINARY, [b"s"])),
        4: (I32, 0),
        5: (I64, rows),
        6: (I64, size),
        7: (I64, size),
        9: (I64, 4),
    }
    if said is not None:
        column[16] = (STRUCT, {1: (I64, said)})
    group = {
        1: (LIST, (STRUCT, [{2: (I64, 4), 3: (STRUCT, column)}])),
        2: (I64, size),
        3: (I64, rows),
    }
    schema = [{4: (BINARY, b"schema"), 5: (I32, 1)}, {1: (I32, 6), 3: (I32, 0), 4: (BINARY, b"s")}]
    footer = struct({1: (I32, 2), 2: (LIST, (STRUCT, schema)), 3: (I64, rows), 4: (LIST, (STRUCT, [group]))})
    return b"PAR1" + header + page + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def growing(rows: int) -> bytes:
    """Strings of which each is the one before and one letter more: half the square of their number."""
    return lengths(rows, 0, 1) + lengths(rows, 1, 0) + b"x" * rows


def test_strings_that_grow(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet(300, growing(300)))
    wanted = [b"x" * (n + 1) for n in range(300)]
    assert pq.read_table(tmp_path / "a.parquet")["s"].to_pylist() == wanted
    ds = fl.ParquetDataset(tmp_path / "a.parquet")
    assert [row["s"] for row in ds.as_numpy_iterator()] == wanted
    assert ds[7]["s"] == wanted[7]


def test_strings_that_would_be_gigabytes(tmp_path: Path, program: Any) -> None:
    rows = 60_000
    (tmp_path / "a.parquet").write_bytes(parquet(rows, growing(rows)))
    result = program(
        f"""
        import resource
        import feedline as fl

        fl.configure(memory_limit="200MB")
        ds = fl.ParquetDataset({str(tmp_path / "a.parquet")!r})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            next(iter(ds))
        except MemoryError as error:
            text = str(error)
            assert "{rows * (rows + 1) // 2} bytes of strings" in text and "a.parquet" in text, text
            assert 'row group 0 cannot be decoded: column "s"' in text and "byte 4" in text, text
            print("refused")
        # By number, a row is decoded alone where its neighbours do not fit.
        assert ds[0]["s"] == b"x"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
        """
    )
    assert result.stdout.split() == ["refused"], result


@pytest.mark.parametrize("encoding", [DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY])
def test_more_lengths_than_values(encoding: int, tmp_path: Path, program: Any) -> None:
    """They are not even counted: memory for so many would end the process."""
    page = varint(1 << 17) + varint(1) + varint(1 << 45) + bytes(20)
    (tmp_path / "a.parquet").write_bytes(parquet(10, page, encoding))
    result = program(
        f"""
        import feedline as fl

        try:
            list(fl.ParquetDataset({str(tmp_path / "a.parquet")!r}))
        except fl.errors.DataError as error:
            assert "more lengths than values" in str(error), error
            print("refused")
        """
    )
    assert result.stdout.split() == ["refused"], result


def test_lengths_that_cannot_be(tmp_path: Path) -> None:
    def said(page: bytes, footer: int | None = None) -> str:
        (tmp_path / "a.parquet").write_bytes(parquet(10, page, said=footer))
        with pytest.raises(fl.errors.DataError) as error:
            list(fl.ParquetDataset(tmp_path / "a.parquet"))
        return str(error.value)

    assert "shares more with the one before" in said(lengths(10, 1, 0) + lengths(10, 1, 0) + b"x" * 10)
    assert "negative" in said(lengths(10, 0, -1) + lengths(10, 1, 0) + b"x" * 10)
    assert "end early" in said(lengths(10, 0, 1) + lengths(10, 1, 0) + b"x" * 9)
    assert "two lengths" in said(lengths(9, 0, 1) + lengths(10, 1, 0) + b"x" * 10)
    assert "its strings have 55 bytes, and the footer says 54" in said(growing(10), 54)
    (tmp_path / "a.parquet").write_bytes(parquet(10, growing(10), said=55))
    rows = list(fl.ParquetDataset(tmp_path / "a.parquet").as_numpy_iterator())
    assert np.sum([len(row["s"]) for row in rows]) == 55
