"""The input of each workload, made from a fixed seed, and beside it the right answer by plain NumPy."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from digest import Columns


def digits(n: int = 60_000) -> tuple[np.ndarray, np.ndarray]:
    """Random 28 x 28 images and labels. Each image carries its row number in its first four pixels, so that
    a check can tell which rows arrived after a shuffle, and whether each kept its label."""
    rng = np.random.default_rng(8)
    images = rng.integers(0, 256, (n, 28, 28), np.uint8)
    images[:, 0, :4] = np.arange(n, dtype="<u4").view(np.uint8).reshape(n, 4)
    return images, rng.integers(0, 10, n)


def numbers(n: int, batch: int) -> Iterator[Columns]:
    for start in range(0, n, batch):
        yield [np.arange(start, min(start + batch, n))]


def odd_numbers(n: int, batch: int) -> Iterator[Columns]:
    return ([x * 2 + 1] for (x,) in numbers(n, batch))


def scaled_digits(images: np.ndarray, labels: np.ndarray, batch: int) -> Iterator[Columns]:
    order = np.random.default_rng(0).permutation(len(images))
    for start in range(0, len(order), batch):
        rows = order[start:start + batch]
        yield [images[rows].astype(np.float32) / 255, labels[rows]]


TABLES = Path(__file__).parent / "tables"
TABLE_ROWS, TABLE_FILES = 2_000_000, 8


def criteo_like() -> list[str]:
    """Eight Parquet files of 250,000 rows: a label, 13 float32 and 26 int64 columns of 4 to a million values.
    Made once, by whoever comes first, with pyarrow's own defaults but row groups of 25,000."""
    files = [TABLES / f"part-{k:05d}.parquet" for k in range(TABLE_FILES)]
    if not all(file.exists() for file in files):
        import pyarrow as pa
        import pyarrow.parquet as pq

        TABLES.mkdir(exist_ok=True)
        rng = np.random.default_rng(4)
        values = np.geomspace(4, 1_000_000, 26).astype(np.int64)
        rows = TABLE_ROWS // TABLE_FILES
        for file in files:
            columns = {"label": rng.integers(0, 2, rows)}
            columns |= {f"I{j}": rng.lognormal(1, 1.5, rows).astype(np.float32) for j in range(13)}
            columns |= {f"C{j}": (values[j] * rng.random(rows) ** 3).astype(np.int64) for j in range(26)}
            half = file.with_suffix(".half")
            pq.write_table(pa.table(columns), half, row_group_size=25_000)
            half.rename(file)
    return [str(file) for file in files]


def shuffled_table(files: list[str], window: int, batch: int) -> Iterator[Columns]:
    """The same rows, shuffled within windows."""
    import pyarrow.dataset as pads

    rng = np.random.default_rng(0)
    for part in pads.dataset(files).to_batches(batch_size=window):
        columns = [column.to_numpy(zero_copy_only=False) for column in part.columns]
        order = rng.permutation(len(part))
        for start in range(0, len(order), batch):
            yield [column[order[start:start + batch]] for column in columns]
