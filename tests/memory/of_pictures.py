"""Pipelines whose steps are large: pictures, rows that grow, and both beside a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
from registry import pipeline


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


@pipeline
def pictures_of_two_kept(folder: Path) -> fl.Dataset:
    """Two decoders beside each other, and both are kept."""
    both = fl.Dataset.zip((uneven_pictures(folder), uneven_pictures(folder)))
    return both.cache(on_full="keep").repeat(3).map(corners)
