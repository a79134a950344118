"""TensorFlow: a dataset for code that takes tf.data, and a tf.data pipeline that goes on here.

python examples/with_tensorflow.py
"""

from __future__ import annotations

import feedline as fl
import tensorflow as tf


def main() -> None:
    """There and back."""
    ours = fl.Dataset.range(10).map(lambda x: (x, x * x)).batch(4)
    theirs = ours.to_tf()
    assert isinstance(theirs, tf.data.Dataset)
    for numbers, squares in theirs:
        print(numbers.numpy(), squares.numpy())

    words = tf.data.Dataset.from_tensor_slices(["a few words", "and some more"]).map(tf.strings.split)
    back = fl.from_tf(words).map(lambda parts: fl.strings.upper(parts)).ragged_batch(2)
    print(back.get_single_element().to_list())
    assert len(theirs) == 3


if __name__ == "__main__":
    main()
