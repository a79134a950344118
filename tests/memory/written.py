"""The files that pipelines read."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import feedline as fl
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

RECORD = 64 << 10
"""Bytes of a record in the files."""
LONG_RECORD = 1_500_000
"""The same in others."""
FILES, RECORDS = 64, 32
"""How many files there are, of how many records: 128 MB together."""
ROWS, COLUMNS = 1 << 20, 12
"""The tables: 100 MB that cannot be compressed."""
LONG_ROWS = 60_000
"""Rows of tables that are small in their files and large without: 1.2 GB of strings, 80 MB of lists."""

WORD, WORDS = 50_000, 400
"""Long strings, each another one, in row groups of so many: a writer makes a dictionary of 20 MB of them."""

TEXTS = 250_000
"""Rows of a table of strings, each another one: 120 MB."""

WIDE, WIDE_ROWS = 10_000, 1_500
"""Items of rows of 80 kB, 120 MB together, which come in batches of 10 MB, or in one."""

UNEVEN_FILES, UNEVEN_RECORDS = 8, 1500
"""Files of Examples with a list each: half of them have less than 500 numbers, the longest 60,000."""

SIDES = (4000, 3500)
"""Of pictures that take 42 MB when they are decoded."""


def write(folder: Path) -> None:
    """Files of records, all of which differ, a file of lines, a table in one row group and one in many."""
    for i in range(FILES):
        rows = np.arange(i * RECORDS, (i + 1) * RECORDS, dtype=np.int32)
        with fl.io.TFRecordWriter(str(folder / f"{i:03}.tfrecord")) as out:
            for row in rows:
                out.write(np.full(RECORD // 4, row, np.int32).tobytes())
    with fl.io.TFRecordWriter(str(folder / "000.long")) as out:
        for row in range(4):
            out.write(bytes([row]) * LONG_RECORD)
    for i in range(1, FILES):
        (folder / f"{i:03}.long").hardlink_to(folder / "000.long")
    write_uneven(folder)
    (folder / "lines.txt").write_text("".join(f"{i:09}\n" for i in range(200_000)))
    drawn = np.random.default_rng(2).integers(0, 1 << 62, (COLUMNS, ROWS))
    table = pa.table({f"column{i}": drawn[i] for i in range(COLUMNS)})
    pq.write_table(table, folder / "one.parquet", row_group_size=ROWS)
    pq.write_table(table, folder / "many.parquet", row_group_size=ROWS // 32)
    words = pa.array(["x" * 20_000, "y"]).dictionary_encode()
    places = pa.array(np.zeros(LONG_ROWS, np.int32))
    long = pa.table({"text": pa.DictionaryArray.from_arrays(places, words.dictionary)})
    pq.write_table(long, folder / "long.parquet", row_group_size=LONG_ROWS)
    pyarrow.feather.write_feather(
        long, folder / "long.feather", chunksize=LONG_ROWS, compression="uncompressed"
    )
    texts = pa.table({"text": pa.array([f"text {i} " * 40 for i in range(TEXTS)])})
    pq.write_table(texts, folder / "texts.parquet", row_group_size=TEXTS)
    for rows, name in [(TEXTS // 4, "quarters"), (TEXTS, "whole")]:
        pyarrow.feather.write_feather(texts, folder / f"{name}.feather", chunksize=rows, compression="lz4")
    numbers = table.select([0, 1]).append_column("same", pa.array(np.zeros(ROWS)))
    pyarrow.feather.write_feather(
        numbers, folder / "numbers.feather", chunksize=ROWS // 2 * 3 // 2, compression="zstd"
    )
    words = [np.random.default_rng(i).bytes(WORD) for i in range(6 * WORDS)]
    pq.write_table(pa.table({"word": words}), folder / "words.parquet", row_group_size=WORDS)
    ends = np.arange(0, TEXTS + 1, 5, dtype=np.int32)
    of_words = pa.ListArray.from_arrays(ends, texts["text"].combine_chunks())
    pq.write_table(pa.table({"list": of_words}), folder / "texts_in_lists.parquet", row_group_size=TEXTS)
    slope = np.add.outer(np.arange(SIDES[0]), np.arange(SIDES[1])) // 30
    for i in range(3):
        picture = np.repeat((slope + 50 * i).astype(np.uint8)[..., None], 3, axis=2)
        (folder / f"{i}.jpg").write_bytes(bytes(fl.image.encode_jpeg(picture, quality=60)))
    for i, (height, width) in enumerate([(1400, 1400), (1900, 1800), (2400, 2000), (1700, 1500)]):
        picture = np.repeat((slope[:height, :width] + 20 * i).astype(np.uint8)[..., None], 3, axis=2)
        (folder / f"uneven{i}.jpg").write_bytes(bytes(fl.image.encode_jpeg(picture, quality=60)))
    middle = np.repeat(slope[:2500, :2500].astype(np.uint8)[..., None], 3, axis=2)
    (folder / "progressive.jpg").write_bytes(
        bytes(fl.image.encode_jpeg(middle, quality=60, progressive=True))
    )
    header = struct.pack("<2sIHHIIiiHHIIIIII", b"BM", 0, 0, 0, 54, 40, 2500, 2500, 1, 24, 0, 0, 0, 0, 0, 0)
    (folder / "picture.bmp").write_bytes(header + middle.tobytes())
    (folder / "zeros.zlib").write_bytes(zlib.compress(bytes(20 << 20)))
    lists = pa.array([[7] * 1000]).take(pa.array(np.zeros(LONG_ROWS // 6, np.int32)))
    pq.write_table(pa.table({"list": lists}), folder / "lists.parquet", row_group_size=LONG_ROWS)
    wide = fl.Dataset.range(WIDE_ROWS).map(lambda n: {"x": fl.fill([WIDE], n), "n": n})
    wide.save(str(folder / "wide"))
    everything = next(iter(wide.batch(WIDE_ROWS)))
    x = pa.FixedSizeListArray.from_arrays(everything["x"].ravel(), WIDE)
    table = pa.table({"x": x, "n": everything["n"]})
    for name, rows in [("wide", WIDE_ROWS // 12), ("wide_whole", WIDE_ROWS)]:
        pyarrow.feather.write_feather(
            table, folder / f"{name}.feather", chunksize=rows, compression="uncompressed"
        )
    pq.write_table(table, folder / "wide.parquet", row_group_size=WIDE_ROWS // 4)
    write_long_rows(folder)


def write_uneven(folder: Path) -> None:
    """Examples with lists of very unequal length: 18 MB, which become 86 MB."""
    drawn = np.random.default_rng(3)
    for i in range(UNEVEN_FILES):
        with fl.io.TFRecordWriter(str(folder / f"{i}.uneven")) as out:
            for row in range(UNEVEN_RECORDS):
                items = drawn.integers(0, 50_000, min(int(drawn.pareto(1.5) * 300) + 1, 60_000))
                features = {
                    "list": fl.train.Feature(int64_list=fl.train.Int64List(value=items.tolist())),
                    "number": fl.train.Feature(int64_list=fl.train.Int64List(value=[row])),
                }
                example = fl.train.Example(features=fl.train.Features(feature=features))
                out.write(example.SerializeToString())


FITS, DOES_NOT = 4_000_000, 9_000_000
"""Items of a row that fits into 64 MB while it is decoded, as int64 with levels, and of one that does not."""


def write_long_rows(folder: Path) -> None:
    """Tables with one long row among short ones, most of them small in their files."""
    for name, items in [("fits", FITS), ("does_not", DOES_NOT)]:
        ends = np.array([0, 3, 3 + items, 6 + items], np.int32)
        of_numbers = pa.ListArray.from_arrays(ends, np.full(6 + items, 7))
        texts = pa.array(["x"]).take(pa.array(np.zeros(6 + items // 3, np.int32)))
        of_texts = pa.ListArray.from_arrays(np.array([0, 3, 3 + items // 3, 6 + items // 3], np.int32), texts)
        inner = pa.ListArray.from_arrays(np.arange(1 + items // 3, dtype=np.int32), np.full(items // 3, 7))
        nested = pa.ListArray.from_arrays(np.array([0, 3, items // 3 - 3, items // 3], np.int32), inner)
        struct_of = pa.StructArray.from_arrays([of_numbers], ["list"])
        fixed = pa.FixedSizeListArray.from_arrays(np.full(items, 7.0, np.float64), items)
        tables = {
            "list": of_numbers,
            "texts": of_texts,
            "nested": nested,
            "struct": struct_of,
            "fixed": fixed,
        }
        for kind, column in tables.items():
            pq.write_table(pa.table({"x": column}), folder / f"{kind}_{name}.parquet")
        for kind in ["list", "fixed"]:
            table = pa.table({"x": tables[kind]})
            pyarrow.feather.write_feather(
                table, folder / f"{kind}_{name}.feather", compression="uncompressed"
            )
        text = pa.table({"x": ["a", "b" * (8 * items), "c"]})
        pyarrow.feather.write_feather(text, folder / f"text_{name}.feather", compression="uncompressed")
        coded = text.append_column("y", pa.array(["u", "v", "u"]).dictionary_encode())
        pyarrow.feather.write_feather(coded, folder / f"coded_{name}.feather", compression="uncompressed")
    for name, lengths in [
        ("several", [DOES_NOT // 2] * 8),
        ("skewed", [5] * 3000 + [FITS // 3] * 12 + [5] * 3000),
    ]:
        ends = np.cumsum([0, *lengths]).astype(np.int32)
        column = pa.ListArray.from_arrays(ends, np.arange(ends[-1]) // 1000)
        pq.write_table(pa.table({"x": column}), folder / f"{name}.parquet", row_group_size=len(lengths))
        pyarrow.feather.write_feather(
            pa.table({"x": column}), folder / f"{name}.feather", compression="uncompressed"
        )
