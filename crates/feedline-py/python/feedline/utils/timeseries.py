"""Windows over a series."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..dataset import Dataset
from ..lazy_numpy import np
from ..params import integer
from .directories import drawn_seed

__all__ = ["timeseries_dataset_from_array"]


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
) -> Dataset:
    """Windows over an array, each with the target of its first step, in batches.

    >>> import feedline as fl
    >>> series = [0, 10, 20, 30, 40, 50]
    >>> ds = fl.utils.timeseries_dataset_from_array(series[:-1], series[2:], sequence_length=2)
    >>> for windows, targets in ds:
    ...     print(windows.tolist(), targets.tolist())
    [[0, 10], [10, 20], [20, 30], [30, 40]] [20, 30, 40, 50]

    The target of a window is the one with the number of its *first* step. To predict what comes after the
    window, give targets that begin later, as above.

    Args:
        data: The steps, along the first axis.
        targets: A target for each step, or None for windows alone.
        sequence_length: Steps of a window.
        sequence_stride: Steps from the beginning of a window to that of the next.
        sampling_rate: Steps from one step of a window to the next.
        batch_size: Windows of a batch; None gives windows one by one.
        shuffle: Windows in random order, another one each pass.
        seed: Makes the order reproducible: it is that of Keras.
        start_index: The first step that is used.
        end_index: The step after the last one that is used. It must be less than the number of steps.

    Raises:
        ValueError: A number is out of range.
    """
    op = "timeseries_dataset_from_array"
    steps = np.asarray(data)
    if steps.ndim == 0:
        raise ValueError(f"{op}: data must have an axis of steps")
    count = len(steps)
    start = _within(op, "start_index", start_index, 0, count, 0)
    end = _within(op, "end_index", end_index, start + 1, count, count)
    length = integer(op, "sequence_length", sequence_length)
    if length < 1:
        raise ValueError(f"{op}: sequence_length must be at least 1, not {length}")
    rate = _within(op, "sampling_rate", sampling_rate, 1, count, 1)
    stride = _within(op, "sequence_stride", sequence_stride, 1, count, 1)
    windows = end - start - (length - 1) * rate
    aims = None
    if targets is not None:
        aims = np.asarray(targets)
        windows = min(windows, len(aims))
        aims = aims[start:end]
        if windows > len(aims):
            raise ValueError(
                f"{op}: there are {windows} windows from step {start} on, but only {len(aims)} targets from "
                "there on"
            )
    steps = steps[start:end]
    starts = np.arange(0, max(windows, 0), stride, dtype=np.int64)
    if shuffle:
        seed = drawn_seed(seed)
        np.random.RandomState(seed).shuffle(starts)
    offsets = np.arange(length, dtype=np.int64) * rate

    def window(first: Any) -> Any:
        found = ops.gather(steps, first + offsets)
        return found if aims is None else (found, ops.gather(aims, first))

    # Numbers are shuffled in place of the windows that are made of them: the order is the same.
    ds = Dataset.from_tensor_slices(starts)
    if shuffle:
        ds = ds.shuffle(1024 if batch_size is None else 8 * batch_size, seed=seed)
    ds = ds.map(window)
    return ds if batch_size is None else ds.batch(batch_size)


def _within(op: str, name: str, value: Any, low: int, end: int, default: int) -> int:
    if value is None:
        return default
    number = integer(op, name, value)
    if not low <= number < end:
        raise ValueError(f"{op}: {name} must lie between {low} and {end - 1} for {end} steps, not {number}")
    return int(number)
