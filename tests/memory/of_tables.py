"""Pipelines over Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
from registry import PIPELINES, pipeline
from written import COLUMNS


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


def wide_rows(name: str, rows: Callable[[Path], Any]) -> None:
    """Rows of 80 kB in batches of 10 MB or more: drawn here and there, by number, and their numbers alone."""
    PIPELINES[f"wide_{name}_shuffled"] = lambda folder: (
        rows(folder).shuffle(250, seed=1).map(lambda row: row["x"]).batch(16)
    )
    PIPELINES[f"wide_{name}_by_number"] = lambda folder: (
        rows(folder).shuffle(seed=1).take(600).map(lambda row: row["x"]).batch(16)
    )
    PIPELINES[f"wide_{name}_kept"] = lambda folder: (
        rows(folder).map(lambda row: row["n"]).shuffle(1_000, seed=1).cache().repeat(2)
    )


wide_rows("set", lambda folder: fl.Dataset.load(str(folder / "wide")))
wide_rows("batches", lambda folder: fl.ArrowDataset(str(folder / "wide.feather")))
wide_rows("batch", lambda folder: fl.ArrowDataset(str(folder / "wide_whole.feather")))
wide_rows("groups", lambda folder: fl.ParquetDataset(str(folder / "wide.parquet")))
