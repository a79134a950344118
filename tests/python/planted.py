"""Pipelines with a planted fault, the same without it, and pipelines that nothing holds back needlessly.

`test_doctor.py` asks whether the doctor names the fault first; `bench/doctor.py` measures what mending it
gains, and how near the ceiling of the others is to what they reach. Work takes the same time in every build:
how fast it is, is measured once.
"""

from __future__ import annotations

import functools
import gzip
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np

D = fl.Dataset
Build = Callable[[Path], fl.Dataset]
Function = Callable[[Any], Any]

AUTO = fl.AUTOTUNE
MANY = 10**8
NUMBERS = D.range(MANY)
INT = fl.TensorSpec((), fl.int64)
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
WORKERS = max(2, CORES)


@dataclass(frozen=True)
class Pair:
    """A pipeline with a fault, and the same with the change made that the doctor should name."""

    name: str
    cause: str
    wrong: Build
    right: Build
    step: Callable[[Any], object] | None = None
    """What the consumer does with an element."""
    whole: bool = False
    """The fault is in the beginning of a pass: its whole time counts, not the rate once it runs."""


def computing(items: int) -> Function:
    """Native work on so many numbers."""

    def function(x: Any) -> Any:
        grid = fl.cast(fl.range(items), fl.float32) + fl.cast(x, fl.float32)
        return fl.reduce_sum(fl.sin(grid) * fl.cos(grid))

    return function


@functools.cache
def _items_per_us() -> float:
    items, rows = 2_000, 100
    dataset = D.range(rows).map(computing(items), synchronous=True).with_options(prefetch=False)

    def once() -> float:
        start = time.perf_counter()
        for _ in dataset:
            pass
        return time.perf_counter() - start

    return items * rows / min(once() for _ in range(5)) / 1e6


def work(us: float) -> Function:
    """Native work that takes so many microseconds."""
    return lambda x: computing(max(int(_items_per_us() * us), 1))(x)


def sleeping(seconds: float) -> Function:
    def function(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return function


def spinning(seconds: float) -> Function:
    def function(x: Any) -> Any:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return x

    return function


def is_even(x: Any) -> Any:
    time.sleep(0.002)
    return int(x) % 2 == 0


def python(function: Function, **how: Any) -> dict[str, Any]:
    """The arguments of a `map` that runs as Python."""
    return {"map_func": function, "python": True, "output_signature": INT, **how}


def records(folder: Path, files: int, each: int, size: int, packed: bool = False) -> list[str]:
    """TFRecord files, all alike, that compress to about half."""
    first = folder / "first"
    with fl.io.TFRecordWriter(first) as writer:
        for row in np.random.default_rng(0).integers(0, 16, (each, size), dtype=np.uint8):
            writer.write(row.tobytes())
    data = first.read_bytes()
    names = [folder / f"{number:04}.tfrecord" for number in range(files)]
    for name in names:
        name.write_bytes(gzip.compress(data, 1) if packed else data)
    return [str(name) for name in names]


def generator(pause: float) -> fl.Dataset:
    def numbers() -> Any:
        for number in range(MANY):
            if pause:
                time.sleep(pause)
            yield number

    return D.from_generator(numbers, output_signature=INT)


def files_in_turn(folder: Path, calls: int | None) -> fl.Dataset:
    names = D.from_tensor_slices(records(folder, 8, 500, 100)).repeat()

    def one(name: Any) -> fl.Dataset:
        return fl.TFRecordDataset(name).map(lambda r: work(150)(fl.strings.length(r)))

    return names.interleave(one, cycle_length=4, num_parallel_calls=calls).batch(4)


def noise(x: Any) -> Any:
    return x + fl.random.uniform([])


def late(x: Any) -> Any:
    return {"id": x, "y": work(100)(x)}


def few() -> fl.Dataset:
    return D.range(400).map(work(200))


def uncounted() -> fl.Dataset:
    """Numbers that a shuffle cannot take by their places."""
    return D.range(1200).filter(lambda x: x >= 0)


PAIRS = [
    Pair(
        "a function that sleeps",
        "python_function",
        lambda _: NUMBERS.map(**python(sleeping(0.002))).batch(8),
        lambda _: NUMBERS.map(**python(sleeping(0.002), workers=WORKERS)).batch(8),
    ),
    Pair(
        "a function that computes",
        "python_function",
        lambda _: NUMBERS.map(**python(spinning(0.002))).map(lambda x: x + 1).batch(4),
        lambda _: NUMBERS.map(**python(spinning(0.002), workers=WORKERS)).map(lambda x: x + 1).batch(4),
    ),
    Pair(
        "a predicate in Python",
        "python_function",
        lambda _: NUMBERS.filter(is_even).batch(4),
        lambda _: (
            NUMBERS.map(
                lambda x: (x, is_even(x)),
                python=True,
                output_signature=(INT, fl.TensorSpec((), fl.bool)),
                workers=WORKERS,
            )
            .filter(lambda x, even: even)
            .batch(4)
        ),
    ),
    Pair(
        "the second of two",
        "python_function",
        lambda _: NUMBERS.map(**python(sleeping(0.0002))).map(**python(sleeping(0.003))).batch(4),
        lambda _: (
            NUMBERS.map(**python(sleeping(0.0002))).map(**python(sleeping(0.003), workers=WORKERS)).batch(4)
        ),
    ),
    Pair(
        "a slow generator",
        "python_generator",
        lambda _: generator(0.002).batch(4),
        lambda _: generator(0).map(**python(sleeping(0.002), workers=WORKERS)).batch(4),
    ),
    Pair(
        "one call at a time",
        "calls_capped",
        lambda _: NUMBERS.map(lambda x: x * 3).map(work(200), num_parallel_calls=1).batch(4),
        lambda _: NUMBERS.map(lambda x: x * 3).map(work(200), num_parallel_calls=AUTO).batch(4),
    ),
    Pair(
        "synchronous",
        "calls_capped",
        lambda _: NUMBERS.map(work(200), synchronous=True).batch(4),
        lambda _: NUMBERS.map(work(200)).batch(4),
    ),
    Pair(
        "one file at a time",
        "calls_capped",
        lambda folder: files_in_turn(folder, 1),
        lambda folder: files_in_turn(folder, AUTO),
    ),
    Pair(
        "no file ahead",
        "serial_interleave",
        lambda folder: files_in_turn(folder, None),
        lambda folder: files_in_turn(folder, AUTO),
    ),
    Pair(
        "a late filter",
        "late_filter",
        lambda _: NUMBERS.map(late).filter(lambda e: e["id"] % 10 == 0).batch(4),
        lambda _: NUMBERS.filter(lambda x: x % 10 == 0).map(late).batch(4),
    ),
    Pair(
        "a late filter behind a shuffle",
        "late_filter",
        lambda _: NUMBERS.map(late).shuffle(20).filter(lambda e: e["id"] % 5 == 0).batch(4),
        lambda _: NUMBERS.filter(lambda x: x % 5 == 0).map(late).shuffle(20).batch(4),
    ),
    Pair(
        "compressed files",
        "compressed",
        lambda folder: (
            fl.TFRecordDataset(records(folder, 2, 1000, 2000, packed=True), compression_type="GZIP")
            .repeat()
            .batch(64)
        ),
        lambda folder: fl.TFRecordDataset(records(folder, 2, 1000, 2000)).repeat().batch(64),
    ),
    Pair(
        "small files",
        "small_files",
        lambda folder: fl.TFRecordDataset(records(folder, 200, 1, 100)).repeat().batch(8),
        lambda folder: fl.TFRecordDataset(records(folder, 4, 50, 100)).repeat().batch(8),
    ),
    Pair(
        "a small prefetch",
        "small_prefetch",
        lambda _: NUMBERS.map(lambda x: x + 1).prefetch(1).batch(256),
        lambda _: NUMBERS.map(lambda x: x + 1).prefetch(AUTO).batch(256),
    ),
    Pair(
        "a large shuffle",
        "shuffle_fill",
        lambda _: uncounted().map(work(600)).shuffle(1000).batch(4),
        lambda _: uncounted().shuffle(1000).map(work(600)).batch(4),
        step=lambda _: time.sleep(0.001),
        whole=True,
    ),
    Pair(
        "a small budget",
        "small_budget",
        lambda _: NUMBERS.map(work(200)).batch(4).with_options(cpu_budget=1),
        lambda _: NUMBERS.map(work(200)).batch(4),
    ),
    Pair(
        "the same in each epoch",
        "no_cache",
        lambda _: few().batch(4).repeat(),
        lambda _: few().batch(4).cache().repeat(),
    ),
    Pair(
        "the same before noise",
        "no_cache",
        lambda _: few().prefetch(AUTO).map(noise).repeat(),
        lambda _: few().cache().prefetch(AUTO).map(noise).repeat(),
    ),
    Pair(
        "a slow step",
        "slow_consumer",
        lambda _: NUMBERS.map(work(50)).batch(8),
        lambda _: NUMBERS.batch(8),
        step=lambda _: time.sleep(0.005),
    ),
    Pair(
        "nothing ahead of the step",
        "not_ahead",
        lambda _: NUMBERS.map(**python(sleeping(0.005))).with_options(prefetch=False),
        lambda _: NUMBERS.map(**python(sleeping(0.005))),
        step=lambda _: time.sleep(0.005),
    ),
]


def _arrays() -> fl.Dataset:
    return D.from_tensor_slices(np.random.default_rng(0).random((512, 64, 64), dtype=np.float32))


def _photos(count: int) -> list[bytes]:
    """JPEGs that take about as long to decode as photos of their size."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (count, 12, 16, 3), dtype=np.uint8)
    fine = random.integers(0, 24, (count, 192, 256, 3), dtype=np.uint8)
    images = coarse.repeat(16, 1).repeat(16, 2) // 8 * 7 + fine
    return [bytes(jpeg) for jpeg in D.from_tensor_slices(images).map(fl.io.encode_jpeg)]


def _written(folder: Path, values: list[bytes], files: int) -> list[str]:
    names = [str(folder / f"{number}.tfrecord") for number in range(files)]
    for number, name in enumerate(names):
        with fl.io.TFRecordWriter(name) as writer:
            for value in values[number::files]:
                writer.write(value)
    return names


def photos(folder: Path) -> fl.Dataset:
    def ready(jpeg: Any) -> Any:
        image = fl.image.random_resized_crop(fl.image.decode_jpeg(jpeg, channels=3), (96, 96))
        return fl.image.normalize(image, [0.5] * 3, [0.25] * 3)

    names = D.from_tensor_slices(_written(folder, _photos(64), 4)).repeat()
    return names.interleave(fl.TFRecordDataset, 4).map(ready).batch(16)


def waves(folder: Path) -> fl.Dataset:
    values = [np.random.default_rng(number).random(400, np.float32).tobytes() for number in range(2000)]
    records = fl.TFRecordDataset(_written(folder, values, 1)).repeat().batch(256)
    return records.map(lambda r: fl.sin(fl.io.decode_raw(r, fl.float32)) ** 2.0)


def lines(folder: Path) -> fl.Dataset:
    rows = ([f"{number * column % 997 / 7:.4f}" for column in range(40)] for number in range(5000))
    (folder / "all.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    source = fl.TextLineDataset(str(folder / "all.csv")).repeat()
    return source.map(lambda line: fl.stack(fl.io.decode_csv(line, [0.0] * 40))).batch(64)


TUNED: dict[str, Build] = {
    "work": lambda _: NUMBERS.map(work(50)).batch(16),
    "more work": lambda _: NUMBERS.map(work(500)).batch(4),
    "two functions": lambda _: NUMBERS.map(work(30)).filter(lambda x: x == x).map(work(10)).batch(8),
    "shuffle": lambda _: NUMBERS.shuffle(10_000).map(work(20)).batch(32),
    "filter": lambda _: NUMBERS.map(work(10)).filter(lambda x: x > 0).batch(64),
    "arrays": lambda _: _arrays().repeat().map(lambda x: x * 2 - 1).batch(32),
    "photos": photos,
    "waves": waves,
    "lines": lines,
    "files in turn": lambda folder: files_in_turn(folder, AUTO),
    "python": lambda _: NUMBERS.map(**python(spinning(0.001))).batch(4),
    "processes": lambda _: NUMBERS.map(**python(sleeping(0.001), workers=WORKERS)).batch(4),
}
