"""Ten thousand numbers, doubled.

What was wrong: nothing. `prefetch` at the end is what feedline does by itself, and `map` runs without Python.
"""

from __future__ import annotations

import feedline.tf as tf


def main() -> None:
    """Adds them up."""
    dataset = tf.data.Dataset.range(10_000).map(lambda x: x * 2).prefetch(tf.data.AUTOTUNE)
    total = sum(int(x) for x in dataset)
    print(total)
    assert total == 99_990_000


if __name__ == "__main__":
    main()
