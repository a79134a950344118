"""How right the doctor is: ceilings against measured rates, and predicted gains against those that a change made.

    python bench/doctor.py [--seconds 3] [--out bench/results/doctor.json]

A ceiling, with the time of the loop that reads, is compared with the rate of a pipeline that nothing holds back needlessly. A
gain is compared with what the same pipeline does once the change that the doctor names is made. Both are ratios, so the machine cancels out; it should
have nothing else to do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import feedline as fl
import numpy as np

D = fl.Dataset
MANY = 10**8
INT = fl.TensorSpec((), fl.int64)


def heavy(items: int) -> Callable[[Any], Any]:
    """Native work for one element: some ten nanoseconds an item."""

    def function(x: Any) -> Any:
        grid = fl.cast(fl.range(items), fl.float32) + fl.cast(x, fl.float32)
        return fl.reduce_sum(fl.sin(grid) * fl.cos(grid))

    return function


def sleeping(seconds: float) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return function


def spinning(x: Any) -> Any:
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass
    return x


def records(folder: Path, files: int, each: int, size: int, packed: bool = False) -> list[str]:
    random, names = np.random.default_rng(0), []
    folder.mkdir(exist_ok=True)
    for number in range(files):
        name = folder / f"{number:04}.tfrecord"
        with fl.io.TFRecordWriter(str(name)) as writer:
            for _ in range(each):
                writer.write(random.bytes(size))
        if packed:
            name.write_bytes(gzip.compress(name.read_bytes(), 1))
        names.append(str(name))
    return names


def python(function: Callable[[Any], Any]) -> dict[str, Any]:
    return {"map_func": function, "python": True, "output_signature": INT}


def tuned(folder: Path) -> dict[str, fl.Dataset]:
    """Pipelines that nothing holds back needlessly."""
    large = np.random.default_rng(0).random((512, 64, 64), dtype=np.float32)
    files = records(folder / "plain", 8, 4000, 500)
    return {
        "numbers": D.range(MANY).map(lambda x: x * 2 + 1).batch(256),
        "filter": D.range(MANY).filter(lambda x: x % 7 == 0).batch(64),
        "work": D.range(MANY).map(heavy(2000)).batch(16),
        "more work": D.range(MANY).map(heavy(20_000)).batch(4),
        "two functions": D.range(MANY)
        .map(heavy(1000))
        .filter(lambda x: x == x)
        .map(lambda x: x * 2)
        .batch(8),
        "shuffle": D.range(MANY).shuffle(10_000).map(lambda x: x + 1).batch(128),
        "arrays": D.from_tensor_slices(large).repeat().map(lambda x: x * 2 - 1).batch(32),
        "all orders": D.from_tensor_slices(large).shuffle().repeat().map(lambda x: x * 2 - 1).batch(32),
        "records": fl.TFRecordDataset(files).repeat().map(lambda r: fl.strings.length(r)).batch(64),
        "files in turn": D.from_tensor_slices(files)
        .repeat()
        .interleave(fl.TFRecordDataset, cycle_length=4, num_parallel_calls=fl.AUTOTUNE)
        .batch(64),
        "python": D.range(MANY).map(**python(spinning)).batch(4),
        "sleep": D.range(MANY).map(**python(sleeping(0.001))).batch(4),
    }


def mended(folder: Path) -> dict[str, tuple[str, fl.Dataset, fl.Dataset]]:
    """The cause, a pipeline that has it, and the same without it."""
    auto = fl.AUTOTUNE
    numbers, small = D.range(MANY), D.range(400)
    plain, packed = records(folder / "a", 4, 3000, 2000), records(folder / "b", 4, 3000, 2000, packed=True)
    many, few = records(folder / "c", 1000, 2, 200), records(folder / "d", 2, 1000, 200)
    names = D.from_tensor_slices(plain).repeat()

    def work(name: Any) -> fl.Dataset:
        return fl.TFRecordDataset(name).map(lambda r: heavy(2000)(fl.strings.length(r)))

    late = numbers.map(lambda x: (x, heavy(5000)(x)))
    return {
        "sequential": (
            "calls_capped",
            numbers.map(heavy(10_000), num_parallel_calls=1).batch(4),
            numbers.map(heavy(10_000), num_parallel_calls=auto).batch(4),
        ),
        "synchronous": (
            "calls_capped",
            numbers.map(heavy(10_000), synchronous=True).batch(4),
            numbers.map(heavy(10_000)).batch(4),
        ),
        "late filter": (
            "late_filter",
            late.filter(lambda x, y: x % 10 == 0).batch(4),
            numbers.filter(lambda x: x % 10 == 0).map(lambda x: (x, heavy(5000)(x))).batch(4),
        ),
        "serial files": (
            "serial_interleave",
            names.interleave(work, cycle_length=4).batch(4),
            names.interleave(work, cycle_length=4, num_parallel_calls=auto).batch(4),
        ),
        "compressed": (
            "compressed",
            fl.TFRecordDataset(packed, compression_type="GZIP").repeat().batch(64),
            fl.TFRecordDataset(plain).repeat().batch(64),
        ),
        "small files": (
            "small_files",
            fl.TFRecordDataset(many).repeat().batch(8),
            fl.TFRecordDataset(few).repeat().batch(8),
        ),
        "small prefetch": (
            "small_prefetch",
            numbers.map(lambda x: x + 1).prefetch(1).batch(256),
            numbers.map(lambda x: x + 1).prefetch(auto).batch(256),
        ),
        "budget": (
            "small_budget",
            numbers.map(heavy(10_000)).batch(4).with_options(cpu_budget=1),
            numbers.map(heavy(10_000)).batch(4),
        ),
        "no cache": (
            "no_cache",
            small.map(heavy(10_000)).map(lambda x: x + fl.random.uniform([])).repeat().batch(8),
            small.map(heavy(10_000)).cache().map(lambda x: x + fl.random.uniform([])).repeat().batch(8),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    ceilings, gains = [], []
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'ceiling of':16} {'measured':>10} {'at best':>10} {'off':>6}  held by")
        for name, dataset in tuned(Path(folder)).items():
            profile = dataset.profile(given.seconds)
            off = profile.expected / profile.rate - 1
            ceilings.append(
                {
                    "name": name,
                    "measured": profile.rate,
                    "ceiling": profile.ceiling,
                    "expected": profile.expected,
                    "off": off,
                }
            )
            print(
                f"{name:16} {profile.rate:10.4g} {profile.ceiling:10.4g} {off:6.0%}  {profile.bottleneck} ({profile.limit})"
            )
        off = sorted(abs(row["off"]) for row in ceilings)
        print(f"median {statistics.median(off):.0%}, worst {off[-1]:.0%}\n")
        print(f"{'gain of':16} {'predicted':>10} {'made':>10} {'off':>6}  named first")
        for name, (cause, wrong, right) in mended(Path(folder)).items():
            before = wrong.profile(given.seconds)
            found = before.doctor()
            predicted = next((f.gain for f in found if f.cause == cause), 1.0)
            made = right.profile(given.seconds).rate / before.rate
            first = found[0].cause if found else None
            row = {"name": name, "cause": cause, "first": first, "predicted": predicted, "made": made}
            gains.append(row)
            print(f"{name:16} {predicted:10.2f} {made:10.2f} {predicted / made - 1:6.0%}  {first}")
        close = sum(abs(row["predicted"] / row["made"] - 1) <= 0.2 for row in gains)
        named = sum(row["first"] == row["cause"] for row in gains)
        print(f"within a fifth: {close} of {len(gains)}; named first: {named} of {len(gains)}")
    if given.out:
        given.out.write_text(json.dumps({"ceilings": ceilings, "gains": gains}, indent=1) + "\n")


if __name__ == "__main__":
    main()
