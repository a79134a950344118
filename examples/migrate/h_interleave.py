"""Ten files of records, read side by side.

What was wrong: in TensorFlow the order of the elements depends on the number of processors, because it
decides how many files are open at once where nothing is said. Here that is a fixed number, and the order the
same on any machine.
"""

from __future__ import annotations

import data
import feedline.tf as tf


def main() -> None:
    """Reads all of them."""
    names = [f"shard_{i}.tfrecord" for i in range(10)]
    for name in names:
        data.records(name, 12)
    dataset = tf.data.Dataset.from_tensor_slices(names).interleave(
        tf.data.TFRecordDataset, cycle_length=tf.data.AUTOTUNE, num_parallel_calls=tf.data.AUTOTUNE
    )
    count = sum(1 for _ in dataset)
    print(count, "records")
    assert count == 120


if __name__ == "__main__":
    main()
