"""The input of each workload, made from a fixed seed, and beside it the right answer by plain NumPy."""
from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import spin
import windows
from digest import Columns
from pictures import MEAN, STD, figures, summary

FILES = Path(__file__).parent / "files"
SHARDS = 8


def kept(name: str) -> tuple[Path, bool]:
    """A folder for files that are made once, and whether they are there already."""
    folder = FILES / name
    folder.mkdir(parents=True, exist_ok=True)
    (FILES / ".gitignore").write_text("*\n")
    return folder, (folder / "whole").exists()


def features(n: int = 500_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((n, 10), np.float32), rng.integers(0, 10, n)


def examples(compressed: bool, shards: int = SHARDS) -> list[str]:
    """500,000 Examples of ten floats and a label, dealt out to TFRecord files. All have the same layout, so
    that they are made column by column, without any library that is measured here."""
    folder, whole = kept("examples.gz" if compressed else "examples")
    ending = "tfrecord.gz" if compressed else "tfrecord"
    names = [folder / f"part-{k:05}-of-{shards:05}.{ending}" for k in range(shards)]
    if not whole:
        x, y = features()
        records = framed(serialised(x, y))
        for k, name in enumerate(names):
            data = records[k::shards].tobytes()
            name.write_bytes(gzip.compress(data, 6) if compressed else data)
        (folder / "whole").touch()
    return [os.fspath(name) for name in names]


def serialised(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """tf.train.Example as protobuf lays it out: a row of bytes each."""
    parts: list[np.ndarray | bytes] = [b"\x0a\xb0\x01"]
    for j in range(10):
        parts += [b"\x0a\x0e\x0a\x02f%d\x12\x08\x12\x06\x0a\x04" % j, x[:, j:j + 1].copy().view(np.uint8)]
    parts += [b"\x0a\x0e\x0a\x05label\x12\x05\x1a\x03\x0a\x01", y.astype(np.uint8)[:, None]]
    rows = [np.broadcast_to(np.frombuffer(p, np.uint8), (len(x), len(p))) if isinstance(p, bytes) else p
            for p in parts]
    return np.concatenate(rows, axis=1)


def framed(records: np.ndarray) -> np.ndarray:
    """Records of one length as TFRecord has them: length, its checksum, data, its checksum."""
    n, size = records.shape
    length = np.frombuffer(np.uint64(size).tobytes(), np.uint8)
    head = np.concatenate([length, masked_crc(length[None, :])[0]])
    return np.concatenate([np.broadcast_to(head, (n, 12)), records, masked_crc(records)], axis=1)


def masked_crc(rows: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    """CRC-32C of each row, or of its first so many bytes, rotated and shifted, as 4 bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for at, column in enumerate(rows.T):
        longer = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
        crc = longer if sizes is None else np.where(at < sizes, longer, crc)
    crc = ~crc
    return ((crc >> 15 | crc << 17) + np.uint32(0xA282EAD8))[:, None].view(np.uint8)


def shards(number: int = 64, records: int = 64, items: int = 16_384) -> list[str]:
    """Records of 64 KB in shards of 4 MB: what lies in a store."""
    folder, whole = kept("shards")
    names = [folder / f"shard-{k:05}.tfrecord" for k in range(number)]
    if not whole:
        rng = np.random.default_rng(5)
        for name in names:
            rows = rng.integers(0, 1 << 31, (records, items), np.int32)
            name.write_bytes(framed(rows.view(np.uint8)).tobytes())
        (folder / "whole").touch()
    return [os.fspath(name) for name in names]


def stored_rows(files: list[str], batch: int) -> Iterator[Columns]:
    rng = np.random.default_rng(5)
    for _ in files:
        yield [rng.integers(0, 1 << 31, (64, 16_384), np.int32)]


def parsed_examples(files: list[str], batch: int) -> Iterator[Columns]:
    x, y = features()
    for start in range(0, len(y), batch):
        rows = slice(start, start + batch)
        yield [*(np.ascontiguousarray(x[rows, j]) for j in range(10)), y[rows]]


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


def spun_numbers(n: int, batch: int) -> Iterator[Columns]:
    x = np.arange(n) & 0xFFFF
    for _ in range(spin.ROUNDS):
        x = (x * 31 + 7) & 0xFFFF
    return ([x[start:start + batch]] for start in range(0, n, batch))


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

    parts = pads.dataset(files).to_batches(batch_size=window)
    arrays = ({name: part.column(name).to_numpy(zero_copy_only=False) for name in part.schema.names} for part in parts)
    return (list(columns.values()) for columns in windows.shuffled(arrays, window, batch))


PHOTOS = 2_000


@dataclass(frozen=True)
class Photos:
    """JPEG files in a folder a class, with their labels, and the same in TFRecord files."""

    folder: str
    files: list[str]
    labels: list[int]
    records: list[str]


def photos() -> Photos:
    """photos.py makes them; run.py runs it first."""
    root, whole = kept("photos")
    if not whole:
        raise FileNotFoundError(f"{root} is not there, or not whole: run bench/run.py, or bench/photos.py")
    files = sorted((root / "classes").glob("*/*.jpg"))
    return Photos(os.fspath(root / "classes"), [os.fspath(file) for file in files],
                  [int(file.parent.name.removeprefix("class-")) for file in files],
                  [os.fspath(name) for name in sorted(root.glob("*.tfrecord"))])


def answers(name: str) -> np.ndarray:
    """The cells of the right pictures: `resized` or `cropped`."""
    return np.load(FILES / "photos" / f"{name}.npy")


def crops_together() -> dict[str, float]:
    return summary([figures(cells) for cells in answers("cropped").astype(np.float32)])


def right_pictures(name: str, photos: Photos, order: np.ndarray, batch: int) -> Iterator[Columns]:
    """The cells themselves, normalised: small pictures, of which a digest makes what it makes of the large ones."""
    pictures, labels = answers(name), np.array(photos.labels)
    for start in range(0, len(order), batch):
        rows = order[start:start + batch]
        yield [(pictures[rows] - MEAN) / STD, labels[rows]]


def resized_photos(photos: Photos, batch: int) -> Iterator[Columns]:
    return right_pictures("resized", photos, np.arange(PHOTOS), batch)


def cropped_photos(photos: Photos, batch: int, window: int = PHOTOS) -> Iterator[Columns]:
    return right_pictures("cropped", photos, np.random.default_rng(0).permutation(PHOTOS), batch)


def decoded_sizes(photos: Photos, batch: int) -> Iterator[Columns]:
    sizes = answers("sizes")
    return ([sizes[start:start + batch]] for start in range(0, PHOTOS, batch))
