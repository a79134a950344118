"""The one table of workloads: what every loader is asked to do, on which input, and how it is checked.

A workload is data and a promise, never code of a loader: cells get `inputs()` as their arguments, so that all
start from the same arrays, and `digest` and `truth` say what must come out: no speed comes from doing less.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import data
from digest import Columns, Digest, Epoch, Ordered, Rows, Table
from pictures import Cropped, Resized


@dataclass(frozen=True)
class Workload:
    """One row. `inputs` are made before the clock starts; `batch` is the first one's types and shapes. The consumer
    throws batches away, or takes `step_s` seconds with each, as a device would that computes: then it sleeps."""

    what: str
    unit: str
    items: int
    batch: str
    inputs: Callable[[], tuple]
    digest: Callable[[], Digest]
    truth: Callable[..., Iterator[Columns]]
    step_s: float = 0


PICTURES = "float32[64, 224, 224, 3], int64[64]"

WORKLOADS = {
    "W1": Workload(
        what="range(2M) -> map(x*2+1) -> batch 128", unit="elements", items=2_000_000,
        batch="int64[128]",
        inputs=lambda: (2_000_000, 128), digest=lambda: Ordered(rows=100 * 128), truth=data.odd_numbers),
    "W2": Workload(
        what="500k small Examples in 8 TFRecord files -> interleave -> parse -> batch 256", unit="examples",
        items=500_000, batch=", ".join(["float32[256]"] * 10 + ["int64[256]"]),
        inputs=lambda: (data.examples(False), 256), digest=lambda: Rows(rows=500_000),
        truth=data.parsed_examples),
    "W2gz": Workload(
        what="W2 from files in GZIP", unit="examples",
        items=500_000, batch=", ".join(["float32[256]"] * 10 + ["int64[256]"]),
        inputs=lambda: (data.examples(True), 256), digest=lambda: Rows(rows=500_000),
        truth=data.parsed_examples),
    "W3": Workload(
        what="2,000 JPEGs in 8 TFRecord files -> random-resized crop 224 -> flip -> normalise -> batch 64",
        unit="images", items=data.PHOTOS, batch=PICTURES, inputs=lambda: (data.photos(), 64),
        digest=lambda: Cropped(data.PHOTOS, data.crops_together()), truth=data.cropped_photos),
    "W4": Workload(
        what="2,000 JPEGs in a folder a class -> shorter side 256 -> middle 224 -> normalise -> batch 64",
        unit="images", items=data.PHOTOS, batch=PICTURES, inputs=lambda: (data.photos(), 64),
        digest=lambda: Resized(data.PHOTOS, data.answers("resized")), truth=data.resized_photos),
    "W6": Workload(
        what="Parquet, 2M rows x 40 columns -> shuffle 100k -> batch 4096 -> dict of NumPy", unit="rows",
        items=2_000_000, batch=", ".join(["int64[4096]"] + ["float32[4096]"] * 13 + ["int64[4096]"] * 26),
        inputs=lambda: (data.criteo_like(), 100_000, 4096), digest=lambda: Table(rows=2_000_000),
        truth=data.shuffled_table),
    "W7": Workload(
        what="W4 kept in memory: from the second epoch on", unit="images",
        items=data.PHOTOS, batch=PICTURES, inputs=lambda: (data.photos(), 64),
        digest=lambda: Resized(data.PHOTOS, data.answers("resized")), truth=data.resized_photos),
    "W8": Workload(
        what="60k x 28 x 28 uint8 in memory -> full shuffle -> batch 128 -> float32/255", unit="samples",
        items=60_000, batch="float32[128, 28, 28], int64[128]",
        inputs=lambda: (*data.digits(), 128), digest=lambda: Epoch(rows=60_000), truth=data.scaled_digits),
    "W9": Workload(
        what="range(20k) -> 200 us of pure Python each, two at once -> batch 32", unit="elements",
        items=20_000, batch="int64[32]",
        inputs=lambda: (20_000, 32), digest=lambda: Ordered(rows=20_000), truth=data.spun_numbers),
    "W10": Workload(
        what="W3 with a shuffle of 1,000 before the crop: what it takes of memory", unit="images",
        items=data.PHOTOS, batch=PICTURES, inputs=lambda: (data.photos(), 64, 1_000),
        digest=lambda: Cropped(data.PHOTOS, data.crops_together(), shuffled=True), truth=data.cropped_photos),
    "W11": Workload(
        what="4,096 records of 64 KB in 64 shards, shuffled, from a store of 100 MB/s -> batch 16", unit="records",
        items=4096, batch="int32[16, 16384]",
        inputs=lambda: (data.shards(), 16), digest=lambda: Rows(rows=4096), truth=data.stored_rows),
    "W12": Workload(
        what="W3 into a consumer that takes 60 ms a batch (1,067 images/s at most): how much of the time it is busy",
        unit="images", items=data.PHOTOS, batch=PICTURES, inputs=lambda: (data.photos(), 64),
        digest=lambda: Cropped(data.PHOTOS, data.crops_together()), truth=data.cropped_photos, step_s=.06),
    "M1": Workload(
        what="range(1M) -> batch 1: what one batch costs in Python", unit="batches", items=1_000_000,
        batch="int64[1]",
        inputs=lambda: (1_000_000, 1), digest=lambda: Ordered(rows=12_800), truth=data.numbers),
    "L1": Workload(
        what="the JPEGs of W3 and W4 decoded, and nothing else: a limit, by libraries", unit="images",
        items=data.PHOTOS, batch="int64[64]", inputs=lambda: (data.photos(), 64),
        digest=lambda: Ordered(rows=data.PHOTOS), truth=data.decoded_sizes),
}
