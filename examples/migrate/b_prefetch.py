"""A slow map and a slow consumer, with and without prefetch.

What was wrong: `time.sleep` stood in the mapped function itself. Such a function is called once, to record
what it does, so it slept once and the experiment measured nothing. `py_function` says that Python is to be
called for each element. And feedline reads ahead without being asked: "without" has to be asked for.
"""

from __future__ import annotations

import time

import feedline.tf as tf

PAUSE = 0.01


def slow(x):
    """Takes its time over an element."""
    time.sleep(PAUSE)
    return x


def seconds(dataset: tf.data.Dataset) -> float:
    """How long a loop takes that works on each element."""
    start = time.perf_counter()
    for _ in dataset:
        time.sleep(PAUSE)
    return time.perf_counter() - start


def main() -> None:
    """Times both."""
    dataset = tf.data.Dataset.range(20).map(lambda x: tf.py_function(slow, [x], tf.int64))
    print(f"one after the other: {seconds(dataset.with_options(prefetch=False)):.2f} s")
    print(f"side by side:        {seconds(dataset.prefetch(tf.data.AUTOTUNE)):.2f} s")


if __name__ == "__main__":
    main()
