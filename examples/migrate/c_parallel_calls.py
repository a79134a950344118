"""Costly work with num_parallel_calls of 1, 4 and 16.

What was wrong: nothing, but the conclusion was. More calls than cores do not make it faster, and in tf.data
each stage brings threads of its own, so they make it slower. Here one pool as large as the machine serves
everything; the number is only an upper bound, and AUTOTUNE needs none.
"""

from __future__ import annotations

import time

import feedline.tf as tf


def costly(number):
    """Draws a picture and makes it smaller, twice."""
    picture = tf.random.uniform([64, 64, 3], seed=1)
    for _ in range(2):
        picture = tf.image.resize(tf.image.resize(picture, (96, 96)), (64, 64))
    return tf.reduce_sum(picture) + tf.cast(number, tf.float32)


def main() -> None:
    """Times them; the results are the same for any number."""
    results = []
    for calls in (1, 4, 16, tf.data.AUTOTUNE):
        dataset = tf.data.Dataset.range(16).map(costly, num_parallel_calls=calls)
        start = time.perf_counter()
        results.append([float(x) for x in dataset])
        print(f"num_parallel_calls={calls:2}: {time.perf_counter() - start:.2f} s")
    assert all(found == results[0] for found in results)


if __name__ == "__main__":
    main()
