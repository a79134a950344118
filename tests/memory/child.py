"""One pipeline in a process of its own: what it takes of memory, and what comes out. Prints JSON.

    python child.py NAME LIMIT FOLDER

The folder has the files of `write`. bench/memory.py runs the same, beside tf.data.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

SIDES = (4000, 3500)
"""Of pictures that take 42 MB when they are decoded."""

Pipeline = Callable[[Path], fl.Dataset]
PIPELINES: dict[str, Pipeline] = {}


def pipeline(make: Pipeline) -> Pipeline:
    """Enters a pipeline under its name."""
    PIPELINES[make.__name__] = make
    return make


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
    write_long_rows(folder)


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


def sizes() -> np.ndarray:
    """Lengths of elements with a heavy tail: half are below 20,000 numbers, the largest have two million."""
    drawn = np.random.default_rng(1).pareto(1.1, 3000) * 12_000 + 4_000
    return np.minimum(drawn, 2 << 20).astype(np.int64)


def heavy() -> fl.Dataset:
    """Elements of these sizes, each filled with its number."""
    each = sizes()
    return fl.Dataset.range(len(each)).map(
        lambda x: fl.fill([fl.gather(each, x)], fl.cast(x, fl.int32) % 251), num_parallel_calls=fl.AUTOTUNE
    )


def records(folder: Path, cycle: int) -> fl.Dataset:
    """The records of all files, `cycle` of these at a time."""
    files = sorted(str(path) for path in folder.glob("*.tfrecord"))
    return fl.Dataset.from_tensor_slices(files).interleave(
        fl.TFRecordDataset, cycle_length=cycle, num_parallel_calls=fl.AUTOTUNE
    )


def decoded(ds: fl.Dataset) -> fl.Dataset:
    """Records as numbers, batched."""
    return (
        ds.map(lambda r: fl.io.decode_raw(r, fl.int32)).map(lambda x: fl.reshape(x, [RECORD // 4])).batch(16)
    )


@pipeline
def heavy_tailed(folder: Path) -> fl.Dataset:
    """Elements of very different sizes, one by one."""
    return heavy()


@pipeline
def heavy_tailed_ahead(folder: Path) -> fl.Dataset:
    """The same with more read ahead than there is memory for."""
    return heavy().prefetch(1000).map(lambda x: x + 1).prefetch(1000)


@pipeline
def heavy_tailed_batches(folder: Path) -> fl.Dataset:
    """Batches of rows of unequal length."""
    return heavy().ragged_batch(4)


@pipeline
def shuffled(folder: Path) -> fl.Dataset:
    """A buffer that takes half of the limit."""
    return decoded(records(folder, 8).shuffle(512, seed=1))


@pipeline
def shuffled_by_bytes(folder: Path) -> fl.Dataset:
    """As many elements as fit into so many bytes, of very different sizes."""
    return heavy().shuffle(buffer_bytes="24MB", seed=1)


@pipeline
def shuffled_lines(folder: Path) -> fl.Dataset:
    """Short rows that point into large blocks."""
    lines = fl.TextLineDataset(str(folder / "lines.txt"))
    return lines.shuffle(20_000, seed=1).map(lambda x: fl.strings.to_number(x, fl.int64)).batch(1000)


@pipeline
def interleaved(folder: Path) -> fl.Dataset:
    """64 files at once."""
    return decoded(records(folder, 64))


@pipeline
def interleaved_long(folder: Path) -> fl.Dataset:
    """64 files at once, a record of each of which would be more than the limit together."""
    files = sorted(str(path) for path in folder.glob("*.long"))
    ds = fl.Dataset.from_tensor_slices(files)
    ds = ds.interleave(fl.TFRecordDataset, cycle_length=FILES, num_parallel_calls=fl.AUTOTUNE)
    return ds.map(fl.strings.length)


def rows(file: Path) -> fl.Dataset:
    """The rows of a table, in batches."""
    columns = [f"column{i}" for i in range(COLUMNS)]
    return fl.ParquetDataset(str(file)).map(lambda row: fl.stack([row[c] for c in columns])).batch(1000)


@pipeline
def one_row_group(folder: Path) -> fl.Dataset:
    """A row group that is larger than the limit."""
    return rows(folder / "one.parquet")


@pipeline
def row_groups(folder: Path) -> fl.Dataset:
    """Row groups that are not."""
    return rows(folder / "many.parquet")


@pipeline
def long_strings(folder: Path) -> fl.Dataset:
    """A file of two kilobytes, whose rows all have one long string."""
    return fl.ParquetDataset(str(folder / "long.parquet")).map(lambda row: fl.strings.length(row["text"]))


@pipeline
def long_strings_of_arrow(folder: Path) -> fl.Dataset:
    """The same in an Arrow file, with the strings themselves in batches."""
    batches = fl.ArrowDataset(str(folder / "long.feather")).map(lambda row: row["text"]).batch(64)
    return batches.map(fl.strings.length)


@pipeline
def shuffled_strings(folder: Path) -> fl.Dataset:
    """Strings that lie in blocks of many, drawn here and there."""
    texts = fl.ParquetDataset(str(folder / "texts.parquet")).map(lambda row: row["text"])
    return texts.shuffle(9_000, seed=1).map(fl.strings.length)


@pipeline
def large_dictionaries(folder: Path) -> fl.Dataset:
    """Row groups in several pieces, each with a dictionary that takes a third of the limit."""
    return fl.ParquetDataset(str(folder / "words.parquet")).map(lambda row: fl.strings.length(row["word"]))


@pipeline
def compressed_batches(folder: Path) -> fl.Dataset:
    """Strings in record batches that take half of the limit when they are unpacked."""
    return fl.ArrowDataset(str(folder / "quarters.feather")).map(lambda row: fl.strings.length(row["text"]))


@pipeline
def compressed_whole(folder: Path) -> fl.Dataset:
    """All of them in one batch."""
    return fl.ArrowDataset(str(folder / "whole.feather")).map(lambda row: fl.strings.length(row["text"]))


@pipeline
def compressed_numbers(folder: Path) -> fl.Dataset:
    """Numbers in such batches, in batches of other sizes."""
    rows = fl.ArrowDataset(str(folder / "numbers.feather")).batch(5000)
    return rows.map(lambda row: row["column0"] + fl.cast(row["same"], fl.int64))


@pipeline
def compressed_by_number(folder: Path) -> fl.Dataset:
    """Rows from all over such batches."""
    texts = fl.ArrowDataset(str(folder / "quarters.feather")).map(lambda row: row["text"])
    return texts.shuffle(seed=1).take(60).batch(20).map(fl.strings.length)


@pipeline
def strings_in_lists(folder: Path) -> fl.Dataset:
    """Lists of strings that lie in pages of a megabyte."""
    lists = fl.ParquetDataset(str(folder / "texts_in_lists.parquet"))
    return lists.map(lambda row: fl.size(row["list"]))


@pipeline
def shuffled_lists(folder: Path) -> fl.Dataset:
    """The same, drawn here and there."""
    lists = fl.ParquetDataset(str(folder / "texts_in_lists.parquet")).map(lambda row: row["list"])
    return lists.shuffle(1_000, seed=1).map(fl.size)


@pipeline
def strings_by_number(folder: Path) -> fl.Dataset:
    """Strings from all over a file, each out of a page of a megabyte."""
    texts = fl.ParquetDataset(str(folder / "texts.parquet")).map(lambda row: row["text"])
    return texts.shuffle(seed=1).take(200).batch(100).map(fl.strings.length)


@pipeline
def long_lists(folder: Path) -> fl.Dataset:
    """A file of some kilobytes with long lists."""
    return fl.ParquetDataset(str(folder / "lists.parquet")).map(lambda row: fl.size(row["list"]))


@pipeline
def grown_rows(folder: Path) -> fl.Dataset:
    """Small rows, of which a function makes large ones."""
    small = fl.ParquetDataset(str(folder / "one.parquet")).take(20_000)
    return small.map(lambda row: fl.fill([2500], row["column0"]), num_parallel_calls=fl.AUTOTUNE)


def long_rows(name: str, length: Callable[[Any], Any] = fl.size) -> None:
    """Pipelines over such tables, in order and by number: with a row that fits, and one that does not."""
    kind, ending = name.split(".")
    source = fl.ParquetDataset if ending == "parquet" else fl.ArrowDataset

    def rows(folder: Path, which: str) -> fl.Dataset:
        return source(str(folder / f"{kind}_{which}.{ending}"))

    for which in ["fits", "does_not"]:
        PIPELINES[f"{ending}_{kind}_{which}"] = lambda folder, which=which: rows(folder, which).map(
            lambda row: length(row["x"])
        )
        PIPELINES[f"{ending}_{kind}_by_number_{which}"] = lambda folder, which=which: (
            rows(folder, which).shuffle(seed=1).map(lambda row: length(row["x"]))
        )


for table in ["list", "texts", "fixed"]:
    long_rows(f"{table}.parquet")
long_rows("nested.parquet", lambda x: fl.size(x.flat_values))
long_rows("struct.parquet", lambda x: fl.size(x["list"]))
long_rows("list.feather")
long_rows("fixed.feather")
long_rows("text.feather", fl.strings.length)


@pipeline
def several_long_rows(folder: Path) -> fl.Dataset:
    """Each of which takes most of the limit."""
    return fl.ParquetDataset(str(folder / "several.parquet")).map(lambda row: fl.size(row["x"]))


@pipeline
def several_long_rows_by_number(folder: Path) -> fl.Dataset:
    """The same here and there."""
    return several_long_rows(folder).shuffle(seed=1)


@pipeline
def long_rows_among_short(folder: Path) -> fl.Dataset:
    """In one piece with them, of which all together take three times the limit."""
    return fl.ParquetDataset(str(folder / "skewed.parquet")).map(lambda row: fl.reduce_sum(row["x"]))


@pipeline
def long_rows_among_short_by_number(folder: Path) -> fl.Dataset:
    """The same here and there."""
    rows = fl.ParquetDataset(str(folder / "skewed.parquet"))[2990:3030]
    return rows.shuffle(seed=1).map(lambda row: fl.reduce_sum(row["x"]))


@pipeline
def long_rows_of_arrow_among_short(folder: Path) -> fl.Dataset:
    """The same of an Arrow file."""
    return fl.ArrowDataset(str(folder / "skewed.feather")).map(lambda row: fl.reduce_sum(row["x"]))


@pipeline
def feather_coded_does_not(folder: Path) -> fl.Dataset:
    """A batch that can be decoded as a whole only."""
    return fl.ArrowDataset(str(folder / "coded_does_not.feather")).map(
        lambda row: fl.strings.length(row["x"])
    )


@pipeline
def windows(folder: Path) -> fl.Dataset:
    """Windows that overlap."""
    return decoded(records(folder, 4)).unbatch().window(64, shift=16).flat_map(lambda w: w.batch(64))


def pictures(folder: Path) -> fl.Dataset:
    """The bytes of large pictures."""
    files = [str(folder / f"{i}.jpg") for i in range(3)]
    return fl.Dataset.from_tensor_slices(files).repeat(4).map(fl.io.read_file)


@pipeline
def large_pictures(folder: Path) -> fl.Dataset:
    """Two of them would not fit, and nobody knows it before they are decoded."""
    return pictures(folder).map(fl.image.decode_jpeg, num_parallel_calls=fl.AUTOTUNE)


@pipeline
def large_pictures_made_small(folder: Path) -> fl.Dataset:
    """What is large is gone when a step ends."""

    def small(contents: Any) -> Any:
        return fl.image.resize(fl.image.decode_jpeg(contents, channels=3), (64, 64))

    return pictures(folder).map(small, num_parallel_calls=fl.AUTOTUNE).batch(4)


def middle_pictures(folder: Path, name: str) -> fl.Dataset:
    """Pictures of 19 MB."""
    contents = fl.Dataset.from_tensors(str(folder / name)).repeat(24).map(fl.io.read_file)
    return contents.map(
        lambda x: fl.image.decode_image(x, channels=3, expand_animations=False),
        num_parallel_calls=fl.AUTOTUNE,
    )


@pipeline
def progressive_pictures(folder: Path) -> fl.Dataset:
    """All coefficients of which are in memory at once, as large as they are themselves."""
    return middle_pictures(folder, "progressive.jpg")


@pipeline
def bitmaps(folder: Path) -> fl.Dataset:
    """Whose files are as large as they are."""
    return middle_pictures(folder, "picture.bmp")


@pipeline
def pictures_in_python(folder: Path) -> fl.Dataset:
    """A function of Python's makes more of them."""
    pictures = middle_pictures(folder, "progressive.jpg")
    return pictures.map(lambda x: x.copy(), python=True, num_parallel_calls=fl.AUTOTUNE)


@pipeline
def made_in_python(folder: Path) -> fl.Dataset:
    """Numbers of which functions of Python's make 40 MB: nobody knows it before they have."""
    return fl.Dataset.range(24).map(
        lambda x: np.full(5_000_000, int(x)), python=True, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def generated(folder: Path) -> fl.Dataset:
    """Large arrays of a generator, each made in the arena of another thread, and what is made of them."""
    arrays = fl.Dataset.from_generator(
        lambda: (np.full(1_000_000, i) for i in range(60)), output_signature=fl.TensorSpec([None], fl.int64)
    )
    return arrays.map(lambda x: fl.cast(x, fl.float32), num_parallel_calls=fl.AUTOTUNE).prefetch(8)


@pipeline
def lists_by_number(folder: Path) -> fl.Dataset:
    """Lists of strings from all over a row group, each out of a piece of 8 MB."""
    lists = fl.ParquetDataset(str(folder / "texts_in_lists.parquet")).map(lambda row: row["list"])
    return lists.shuffle(seed=1).take(30).map(fl.size)


@pipeline
def unpacked(folder: Path) -> fl.Dataset:
    """Strings that grow a thousand times, and a file that is read by all workers."""
    contents = fl.Dataset.from_tensors(str(folder / "zeros.zlib")).repeat(8).map(fl.io.read_file)
    return contents.map(lambda x: fl.io.decode_compressed(x, "ZLIB"), num_parallel_calls=fl.AUTOTUNE).map(
        fl.strings.length
    )


@pipeline
def rows_that_grow(folder: Path) -> fl.Dataset:
    """Numbers of which functions make 16 MB and then 8 MB, in two stages that work ahead."""
    large = fl.Dataset.range(24).map(lambda x: fl.fill([2_000_000], x), num_parallel_calls=fl.AUTOTUNE)
    return large.map(lambda x: fl.cast(x, fl.float32), num_parallel_calls=fl.AUTOTUNE).prefetch(4)


@pipeline
def rare_large_rows(folder: Path) -> fl.Dataset:
    """Short rows by the thousand, and a few that take half of the limit, in one chunk with them."""
    return fl.Dataset.range(3000).map(
        lambda x: fl.fill([fl.where(x % 200 == 199, 4_500_000, 100)], x), num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def too_large_pictures(folder: Path) -> fl.Dataset:
    """Floats of pictures of which one alone does not fit."""
    return pictures(folder).map(
        lambda x: fl.image.convert_image_dtype(fl.image.decode_jpeg(x), fl.float32),
        num_parallel_calls=fl.AUTOTUNE,
    )


@pipeline
def padded_by_one(_: Path) -> fl.Dataset:
    """One element of 800 KB among 256 of 80 bytes: a batch of 205 MB."""
    rows = fl.Dataset.range(256).map(lambda x: fl.fill([fl.where(x == 100, 100_000, 10)], x))
    return rows.padded_batch(256).map(lambda batch: fl.shape(batch))


@pipeline
def rows_of_ragged(_: Path) -> fl.Dataset:
    """The same by a function: one row of 80 KB makes 2000 of them as long."""
    rows = fl.Dataset.range(2000).map(lambda x: fl.fill([fl.where(x == 100, 10_000, 10)], x))
    return rows.ragged_batch(2000).map(lambda batch: batch.to_tensor()[0, 0])


@pipeline
def letters(_: Path) -> fl.Dataset:
    """A string of 4 MB becomes four million of them, each with its place: 96 MB and more."""
    text = fl.constant("abcdefghi " * 400_000)
    rows = fl.Dataset.range(4).map(lambda x: fl.strings.join([text, fl.strings.as_string(x)]))
    return rows.map(lambda row: fl.size(fl.strings.bytes_split(row)))


@pipeline
def growing_state(_: Path) -> fl.Dataset:
    """4 MB more with each element."""

    def grow(state: Any, x: Any) -> Any:
        return fl.concat([state, fl.zeros([500_000], fl.float64)], 0), fl.size(state)

    return fl.Dataset.range(100).scan(np.zeros(1), grow)


@pipeline
def too_many_keys(folder: Path) -> fl.Dataset:
    """A state for each of many keys."""
    total = fl.data.experimental.Reducer(lambda key: key, lambda state, x: state + x, lambda state: state)
    return fl.Dataset.range(300_000).apply(fl.data.experimental.group_by_reducer(lambda x: x, total))


@pipeline
def too_many_windows(folder: Path) -> fl.Dataset:
    """A window for each of many keys."""
    return fl.Dataset.range(300_000).group_by_window(
        lambda x: x % 100_000, lambda _, window: window.batch(3), window_size=3
    )


@pipeline
def short_rows_kept(folder: Path) -> fl.Dataset:
    """Rows of a few numbers and of different shapes: what stands around them takes more than they do."""
    rows = fl.Dataset.range(400_000).map(lambda x: fl.fill([x % 9], x))
    return rows.cache(on_full="keep").repeat(2).map(fl.size)


@pipeline
def cache_keep(folder: Path) -> fl.Dataset:
    """More than fits is kept: a part of it is."""
    return decoded(records(folder, 8)).cache(on_full="keep").repeat(2)


@pipeline
def cache_spill(folder: Path) -> fl.Dataset:
    """More than fits is kept: it moves to disk."""
    return decoded(records(folder, 8)).cache(on_full="spill").repeat(2)


@pipeline
def cache_error(folder: Path) -> fl.Dataset:
    """More than fits is to be kept."""
    return decoded(records(folder, 8)).cache()


def taken_apart(count: int, parts: int, size: int) -> Callable[[Any], fl.Dataset]:
    """A function from a number to the parts of an array of so many numbers."""
    return lambda i: fl.Dataset.from_tensor_slices(fl.fill([parts, size // parts], i)).take(count)


def made_one_by_one(count: int) -> Callable[[Any], fl.Dataset]:
    """A function from a number to elements of 8 MB that are made when they are read."""
    return lambda i: fl.Dataset.range(count).map(lambda x: fl.fill([1 << 20], x + i))


@pipeline
def interleaved_large(_: Path) -> fl.Dataset:
    """32 datasets at once whose elements are an eighth of the limit."""
    return fl.Dataset.range(64).interleave(
        made_one_by_one(3), cycle_length=32, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def interleaved_large_freely(_: Path) -> fl.Dataset:
    """The same in any order: all of them may have something next."""
    return fl.Dataset.range(64).interleave(
        made_one_by_one(3), cycle_length=32, num_parallel_calls=fl.AUTOTUNE, deterministic=False
    )


@pipeline
def interleaved_large_blocks(_: Path) -> fl.Dataset:
    """Blocks that are larger than the limit, each read by whoever wants it."""
    return fl.Dataset.range(16).interleave(made_one_by_one(16), cycle_length=4, block_length=16)


@pipeline
def interleaved_arrays(_: Path) -> fl.Dataset:
    """Arrays of 8 MB, four of which are taken apart at once: as many more would not fit."""
    return fl.Dataset.range(48).interleave(
        taken_apart(8, 8, 1 << 20), cycle_length=4, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def interleaved_arrays_serially(_: Path) -> fl.Dataset:
    """The same without anybody who works ahead."""
    return fl.Dataset.range(48).interleave(taken_apart(8, 8, 1 << 20), cycle_length=4)


@pipeline
def too_many_arrays(_: Path) -> fl.Dataset:
    """The order asks for 32 of them at once."""
    return fl.Dataset.range(64).interleave(
        taken_apart(8, 8, 1 << 20), cycle_length=32, num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def too_many_arrays_serially(_: Path) -> fl.Dataset:
    """And each of them is one element."""
    return fl.Dataset.range(64).interleave(
        lambda i: fl.Dataset.from_tensors(fl.fill([1 << 20], i)), cycle_length=32
    )


def arrays() -> fl.Dataset:
    """Arrays of 2.5 MB, of 20,000 rows."""
    return fl.Dataset.range(120).map(lambda i: fl.fill([20_000, 16], i))


@pipeline
def shuffled_parts(_: Path) -> fl.Dataset:
    """Rows that keep alive what they were taken out of, until the last of them is drawn."""
    return arrays().flat_map(fl.Dataset.from_tensor_slices).shuffle(20_000, seed=1).batch(1000)


@pipeline
def shuffled_parts_in_turns(_: Path) -> fl.Dataset:
    """The same of several arrays at once."""
    rows = arrays().interleave(fl.Dataset.from_tensor_slices, cycle_length=2)
    return rows.shuffle(20_000, seed=1).batch(1000)


@pipeline
def shuffled_parts_of_batches(_: Path) -> fl.Dataset:
    """The same by another operator."""
    return arrays().unbatch().shuffle(20_000, seed=1).batch(1000)


def few_of_many() -> fl.Dataset:
    """Two rows of each of many arrays of 2 MB."""
    return fl.Dataset.range(300).flat_map(taken_apart(2, 1000, 256_000))


@pipeline
def few_rows_shuffled(_: Path) -> fl.Dataset:
    """Each keeps a large array alive."""
    return few_of_many().shuffle(100, seed=1)


@pipeline
def few_rows_cached(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().cache().repeat(2)


@pipeline
def few_rows_in_windows(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().window(100).flat_map(lambda window: window.batch(100))


@pipeline
def few_rows_in_groups(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().group_by_window(
        lambda x: x[0] % 3, lambda _, window: window.batch(50), window_size=50
    )


@pipeline
def few_rows_in_batches(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().batch(100)


@pipeline
def few_rows_filled_up(_: Path) -> fl.Dataset:
    """The same."""
    return few_of_many().padded_batch(100)


def short_ragged() -> fl.Dataset:
    """Ragged rows of a few numbers: what stands around them takes most."""
    return fl.Dataset.range(66_000).map(lambda x: fl.fill([x % 9], x)).ragged_batch(3)


@pipeline
def short_ragged_kept(_: Path) -> fl.Dataset:
    """As many as fit."""
    return short_ragged().cache(on_full="keep").repeat(2).map(lambda x: fl.size(x.flat_values))


@pipeline
def short_ragged_in_groups(_: Path) -> fl.Dataset:
    """Seven windows of a thousand."""
    groups = (
        short_ragged()
        .enumerate()
        .group_by_window(lambda i, _: i % 7, lambda _, window: window, window_size=1000)
    )
    return groups.map(lambda _, x: fl.size(x.flat_values))


@pipeline
def short_ragged_shuffled(_: Path) -> fl.Dataset:
    """Drawn here and there."""
    return short_ragged().shuffle(10_000, seed=1).map(lambda x: fl.size(x.flat_values))


def short_rows() -> fl.Dataset:
    """Rows of a few numbers and of different shapes."""
    return fl.Dataset.range(150_000).map(lambda x: fl.fill([x % 9], x))


@pipeline
def short_rows_shuffled(_: Path) -> fl.Dataset:
    """A buffer that takes a third of the limit."""
    return short_rows().shuffle(30_000, seed=1).map(fl.size)


@pipeline
def short_rows_shuffled_by_many(_: Path) -> fl.Dataset:
    """One that takes most of it."""
    return short_rows().shuffle(80_000, seed=1).map(fl.size)


@pipeline
def short_strings_kept(_: Path) -> fl.Dataset:
    """As many as fit."""
    rows = fl.Dataset.range(400_000).map(fl.strings.as_string)
    return rows.cache(on_full="keep").repeat(2).map(fl.strings.length)


@pipeline
def numbers_shuffled(_: Path) -> fl.Dataset:
    """Numbers whose places and positions take more than they do."""
    return fl.Dataset.range(1_500_000).shuffle(500_000, seed=1).batch(1000)


@pipeline
def arrays_in_turns_shuffled(_: Path) -> fl.Dataset:
    """Arrays of 2.5 MB that are taken apart ahead of a buffer."""
    rows = arrays().interleave(fl.Dataset.from_tensor_slices, cycle_length=2, num_parallel_calls=fl.AUTOTUNE)
    return rows.shuffle(20_000, seed=1).batch(1000)


SMALL_LIMITS = {
    "numbers_shuffled": 16 << 20,
    "short_strings_kept": 16 << 20,
    "arrays_in_turns_shuffled": 16 << 20,
    **{name: 16 << 20 for name in PIPELINES if name.startswith(("short_ragged", "short_rows_shuffled"))},
    "shuffled_parts": 16 << 20,
    "shuffled_parts_in_turns": 32 << 20,
    "shuffled_parts_of_batches": 16 << 20,
    **{name: 16 << 20 for name in PIPELINES if name.startswith("few_rows")},
}
"""Limits of their own, lower than that of the others."""

# ---- Functions in other processes, rows that grow, and a buffer beside a cache ----


def sent_back(x: Any) -> Any:
    """What a worker got, in memory of its own."""
    return x.copy()


def of_workers(megabytes: int, count: int, workers: int = 4) -> fl.Dataset:
    """Numbers of which processes make so much each."""
    items = megabytes << 17
    return fl.Dataset.range(count).map(lambda x: np.full(items, int(x)), workers=workers)


@pipeline
def workers_make_1(_: Path) -> fl.Dataset:
    """Results of a megabyte."""
    return of_workers(1, 300)


@pipeline
def workers_make_4(_: Path) -> fl.Dataset:
    """Of four."""
    return of_workers(4, 100)


@pipeline
def workers_make_16(_: Path) -> fl.Dataset:
    """Of sixteen."""
    return of_workers(16, 40)


@pipeline
def workers_make_any(_: Path) -> fl.Dataset:
    """Of very different sizes."""
    each = sizes()[:1500] * 2
    return fl.Dataset.from_tensor_slices(each).map(
        lambda n: np.full(int(n), int(n) % 251, np.int32),
        workers=4,
        output_signature=fl.TensorSpec([None], fl.int32),
    )


@pipeline
def workers_get_and_make(_: Path) -> fl.Dataset:
    """Elements that are large on both ways."""
    large = fl.Dataset.range(60).map(lambda x: fl.fill([1 << 20], x), num_parallel_calls=fl.AUTOTUNE)
    return large.map(sent_back, workers=3)


@pipeline
def workers_fill_batches(_: Path) -> fl.Dataset:
    """Results that are written where a batch has its rows."""
    return of_workers(1, 200, 3).batch(8)


@pipeline
def dense_rows_that_grow(_: Path) -> fl.Dataset:
    """A megabyte of which a function makes sixteen, now and then."""
    rows = fl.Dataset.range(400).map(lambda x: fl.fill([1 << 17], x)).prefetch(8)
    return rows.map(lambda x: fl.tile(x, [fl.where(x[0] % 40 >= 34, 16, 1)]), num_parallel_calls=fl.AUTOTUNE)


@pipeline
def dense_rows_that_grow_for_a_while(_: Path) -> fl.Dataset:
    """The same, of which little is left."""
    rows = fl.Dataset.range(400).map(lambda x: fl.fill([1 << 16], x)).prefetch(8)
    return rows.map(
        lambda x: fl.reduce_sum(fl.tile(x, [fl.where(x[0] % 40 >= 34, 40, 1)])),
        num_parallel_calls=fl.AUTOTUNE,
    )


@pipeline
def shuffled_behind_a_cache(folder: Path) -> fl.Dataset:
    """A buffer of 50 MB of what a cache keeps a part of."""
    rows = (
        records(folder, 8)
        .map(lambda r: fl.io.decode_raw(r, fl.int32))
        .map(lambda x: fl.reshape(x, [RECORD // 4]))
    )
    return rows.batch(4).cache(on_full="keep").repeat(2).shuffle(180, seed=1)


def corners(*parts: Any) -> Any:
    """A part of a picture, which stands for it."""
    return fl.cast(parts[-1][:100], fl.int32)


def uneven_pictures(folder: Path) -> fl.Dataset:
    """Pictures of 6 to 14 MB."""
    files = [str(folder / f"uneven{i}.jpg") for i in range(4)] * 3
    return fl.Dataset.from_tensor_slices(files).map(
        lambda file: fl.image.decode_jpeg(fl.io.read_file(file), channels=3), num_parallel_calls=fl.AUTOTUNE
    )


@pipeline
def pictures_beside_a_cache(folder: Path) -> fl.Dataset:
    """Which keeps what fits of other large rows."""
    large = fl.Dataset.range(40).map(lambda x: fl.fill([1 << 20], x), num_parallel_calls=fl.AUTOTUNE)
    kept = large.cache(on_full="keep").repeat(2)
    return fl.Dataset.zip((kept, uneven_pictures(folder).repeat(7))).map(corners)


@pipeline
def pictures_of_a_cache_beside_others(folder: Path) -> fl.Dataset:
    """Some are kept, and others are decoded beside them."""
    kept = uneven_pictures(folder).cache(on_full="keep").repeat(4)
    return fl.Dataset.zip((kept, uneven_pictures(folder).repeat(4))).map(corners)


@pipeline
def pictures_of_a_cache_beside_rows(folder: Path) -> fl.Dataset:
    """The same beside rows of 2 MB."""
    kept = uneven_pictures(folder).cache(on_full="keep").repeat(4)
    rows = fl.Dataset.range(48).map(lambda x: fl.fill([1 << 18], x), num_parallel_calls=fl.AUTOTUNE)
    return fl.Dataset.zip((rows, kept)).map(corners)


WIDE = {
    *(name for name in PIPELINES if name.startswith(("pictures_beside", "pictures_of_a_cache"))),
    "large_pictures",
    "large_pictures_made_small",
    "unpacked",
    "rows_that_grow",
    "rare_large_rows",
    "progressive_pictures",
    "bitmaps",
    "pictures_in_python",
    "made_in_python",
    "generated",
    "lists_by_number",
    *(
        name
        for name in PIPELINES
        if name.startswith(("interleaved_large", "interleaved_arrays", "too_many_arrays"))
    ),
    *SMALL_LIMITS,
    "dense_rows_that_grow",
    "dense_rows_that_grow_for_a_while",
}
"""Run with more workers than small machines have: what each of them takes adds up."""
WIDE_WORKERS = 4


def status(key: str) -> int:
    """A number of bytes from /proc/self/status."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def shared() -> int:
    """Bytes of the memory that this process and its workers share, whether or not it is mapped here."""
    pieces = {}
    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    for pid in ["self", *(pid for some in children for pid in some)]:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if os.readlink(fd).startswith("/memfd:feedline"):
                    found = os.stat(fd)
                    pieces[found.st_ino] = 512 * found.st_blocks
    return sum(pieces.values())


class Watch(threading.Thread):
    """Looks again and again at what is taken: what workers have written counts, mapped here or not."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.003):
            self.peak = max(self.peak, status("VmRSS:") - status("RssShmem:") + shared())


def consumed(ds: fl.Dataset, stops: bool) -> Iterator[Any]:
    """The elements. A consumer that stops reads some, sleeps, and goes on."""
    for i, element in enumerate(ds):
        yield element
        if stops and i == 3:
            time.sleep(1.5)


def main(name: str, limit: str, folder: str) -> None:
    """Runs it, and says what it took."""
    stops = name.endswith("_stopped")
    ds = PIPELINES[name.removesuffix("_stopped")](Path(folder)).with_options(memory_limit=limit)
    if name in WIDE:
        fl.configure(cpu_budget=WIDE_WORKERS)
    # Threads, modules and the C library's arenas are there before it is measured.
    sum(1 for _ in fl.Dataset.range(1000).map(lambda x: fl.fill([1000], x)).batch(10))
    Path("/proc/self/clear_refs").write_text("5")
    idle = status("VmRSS:")
    # Whoever takes far more than the limit gets no memory, and dies of it. Address space counts that nobody
    # uses: each thread's arena in the C library (64 MB, now and then), and the ends of blocks.
    arenas = WIDE_WORKERS * (64 << 20) if name in WIDE else 0
    most = status("VmData:") + 3 * int(limit) + arenas
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    watch = Watch()
    if name.startswith("workers_"):
        watch.start()
    elements = total = largest = 0
    error = ""
    try:
        for element in consumed(ds, stops):
            values = element.flat_values if isinstance(element, fl.RaggedTensor) else element
            elements += len(values) if values.ndim else 1
            total += int(values.reshape(-1)[:: max(1, values.size // 16)].sum())
            largest = max(largest, values.nbytes)
    except MemoryError as raised:
        error = str(raised)
    watch.ended.set()
    peak = max(status("VmHWM:"), watch.peak) - idle
    found = {"peak": peak, "largest": largest, "elements": elements, "total": total, "error": error}
    print(json.dumps({**found, "explain": ds.explain()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
