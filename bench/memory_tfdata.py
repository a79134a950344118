"""The pipelines of tests/memory in tf.data, each in a process of its own: what it takes of memory, and what comes
out. Prints JSON.

    python memory_tfdata.py NAME FOLDER
"""
from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")

import numpy as np
import tensorflow as tf

from proc import status

RECORD = 64 << 10
AUTO = tf.data.AUTOTUNE
Dataset = tf.data.Dataset


def heavy() -> Dataset:
    each = np.minimum(np.random.default_rng(1).pareto(1.1, 3000) * 12_000 + 4_000, 2 << 20).astype(np.int64)
    return Dataset.range(len(each)).map(
        lambda x: tf.fill([tf.gather(each, x)], tf.cast(x, tf.int32) % 251), num_parallel_calls=AUTO)


def records(folder: Path, cycle: int, ending: str = "tfrecord") -> Dataset:
    files = sorted(str(path) for path in folder.glob(f"*.{ending}"))
    return Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset, cycle_length=cycle, num_parallel_calls=AUTO)


def decoded(ds: Dataset) -> Dataset:
    def decode(record: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.io.decode_raw(record, tf.int32), [RECORD // 4])

    return ds.map(decode, num_parallel_calls=AUTO).batch(16)


def lines(folder: Path) -> Dataset:
    read = tf.data.TextLineDataset(str(folder / "lines.txt")).shuffle(20_000, seed=1)
    return read.map(lambda x: tf.strings.to_number(x, tf.int64), num_parallel_calls=AUTO).batch(1000)


PIPELINES = {
    "heavy_tailed": lambda folder: heavy(),
    "heavy_tailed_ahead": lambda folder: heavy().prefetch(1000).map(lambda x: x + 1, AUTO).prefetch(1000),
    "heavy_tailed_batches": lambda folder: heavy().ragged_batch(4),
    "shuffled": lambda folder: decoded(records(folder, 8).shuffle(512, seed=1)),
    "shuffled_lines": lines,
    "interleaved": lambda folder: decoded(records(folder, 64)),
    "interleaved_long": lambda folder: records(folder, 64, "long").map(tf.strings.length, AUTO),
    "windows": lambda folder: decoded(records(folder, 4)).unbatch().window(64, shift=16).flat_map(lambda w: w.batch(64)),
    "cache": lambda folder: decoded(records(folder, 8)).cache().repeat(2),
}


def main(name: str, folder: str) -> None:
    ds = PIPELINES[name.removesuffix("_stopped")](Path(folder)).prefetch(AUTO)
    sum(1 for _ in Dataset.range(1000).map(lambda x: tf.fill([1000], x), AUTO).batch(10).prefetch(AUTO))
    Path("/proc/self/clear_refs").write_text("5")
    idle = status("VmRSS:")
    elements = total = largest = 0
    for i, element in enumerate(ds):
        values = (element.flat_values if isinstance(element, tf.RaggedTensor) else element).numpy()
        elements += len(values) if values.ndim else 1
        total += int(values.reshape(-1)[:: max(1, values.size // 16)].sum())
        largest = max(largest, values.nbytes)
        if name.endswith("_stopped") and i == 3:
            time.sleep(1.5)
    print(json.dumps({"peak": status("VmHWM:") - idle, "largest": largest, "elements": elements, "total": total}))


if __name__ == "__main__":
    main(*sys.argv[1:])
