"""Parts of a dataset, and labels as vectors."""

from __future__ import annotations

from typing import Any

from ..dataset import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from ..lazy_numpy import np
from ..seeds import op_seed

__all__ = ["split_dataset", "to_categorical"]


def split_dataset(
    dataset: Any,
    left_size: float | None = None,
    right_size: float | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> tuple[Dataset, Dataset]:
    """Two parts of a dataset: its first elements and its last.

    >>> import feedline as fl
    >>> left, right = fl.utils.split_dataset(fl.Dataset.range(10), left_size=0.7)
    >>> len(left), len(right)
    (7, 3)

    Nothing is read or copied: the parts are `take` and `skip`. With `shuffle`, the order is drawn once, so
    that both parts are the same in every pass.

    Args:
        dataset: A dataset of known length, or arrays (a structure of them) along whose first axis it goes.
        left_size: A number of elements, or a share between 0 and 1.
        right_size: The same for the second part; it is the rest by default.
        shuffle: Whether elements are drawn at random for the parts.
        seed: Makes that reproducible.

    Raises:
        ValueError: No size is given, one does not fit, or a part would be empty.
    """
    op = "split_dataset"
    ds = dataset if isinstance(dataset, Dataset) else Dataset.from_tensor_slices(dataset)
    count = int(ds.cardinality())
    if count in (INFINITE_CARDINALITY, UNKNOWN_CARDINALITY):
        raise ValueError(
            f"{op}: the length of the dataset must be known; if you know it, say so with "
            ".assert_cardinality(n)"
        )
    if left_size is None and right_size is None:
        raise ValueError(f"{op}: give left_size, right_size, or both")
    left, right = (_elements(op, size, count) for size in (left_size, right_size))
    if left is None or right is None:
        left, right = (count - (right or 0), right) if left is None else (left, count - left)
    assert left is not None and right is not None
    if left + right > count:
        raise ValueError(f"{op}: {left} and {right} elements are more than the {count} that there are")
    if left < 1 or right < 1:
        raise ValueError(
            f"{op}: of {count} elements the parts would have {left} and {right}; neither may be empty"
        )
    if shuffle:
        ds = ds.shuffle(seed=op_seed(seed) % 2**31, reshuffle_each_iteration=False)
    return ds.take(left), ds.skip(count - right).take(right)


def _elements(op: str, size: Any, count: int) -> int | None:
    if size is None:
        return None
    if isinstance(size, (bool, str)) or not (hasattr(size, "__index__") or isinstance(size, float)):
        raise TypeError(f"{op}: a size is a number of elements or a share, not {size!r}")
    if isinstance(size, float):
        if not 0 < size < 1:
            raise ValueError(f"{op}: a share lies between 0 and 1, not {size}")
        return round(size * count)
    if not 0 < size < count:
        raise ValueError(f"{op}: a size must lie between 1 and {count - 1}, not {size}")
    return int(size)


def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """Numbers of classes as vectors with a one in their place.

    >>> import feedline as fl
    >>> fl.utils.to_categorical([0, 2]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]

    Args:
        x: Whole numbers: an array, or a symbolic value inside a traced function. A last axis of one goes.
        num_classes: How many classes there are; by default one more than the largest number of an array.

    Raises:
        ValueError: A number is outside, or `num_classes` is missing for a symbolic value.
    """
    from .. import ops
    from ..calls import symbolic

    if symbolic(x):
        if num_classes is None:
            raise ValueError("to_categorical: the numbers are not known yet; give num_classes")
        shape = x.shape
        flat = ops.squeeze(x, [-1]) if shape and len(shape) > 1 and shape[-1] == 1 else x
        return ops.one_hot(ops.cast(flat, "int64"), num_classes)
    numbers = np.asarray(x, np.int64)
    if numbers.ndim > 1 and numbers.shape[-1] == 1:
        numbers = numbers[..., 0]
    count = int(numbers.max(initial=-1)) + 1 if num_classes is None else int(num_classes)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise ValueError(
            f"to_categorical: classes go from 0 to {count - 1}, the numbers from {numbers.min()} to "
            f"{numbers.max()}"
        )
    return np.eye(count, dtype=np.float32)[numbers]
