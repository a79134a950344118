"""Random choice that is built from other operators: sampling by changing weights, and resampling by class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import debugging, ops, random
from .calls import dtype_of
from .dtypes import float32, float64, int64
from .lazy_numpy import np
from .params import naming

__all__ = ["rejection_resample", "sample_by_dataset"]

# Counts that every class is taken to have had before the first element, so that early estimates are tame.
_SMOOTHING = 10.0


def sample_by_dataset(
    cls: Any, inputs: list[Any], weights: Any, seed: int | None, stop_on_empty: bool, rerandomize: bool | None
) -> Any:
    """Samples from datasets with a vector of weights for each draw."""

    def choose(weight: Any, draw: Any) -> Any:
        share = ops.cumsum(ops.cast(weight, float64))
        share = debugging.ensure(
            share, ops.size(share) == len(inputs), f"there must be {len(inputs)} weights"
        )
        point = ops.cast(draw, float64) / np.float64(2**32) * share[-1]
        return ops.minimum(ops.searchsorted(share, point, side="right", out_type=int64), len(inputs) - 1)

    choice = cls.zip(weights, cls.random(seed, rerandomize)).map(choose)
    return cls.choose_from_datasets(inputs, choice, stop_on_empty)


def rejection_resample(
    dataset: Any, class_func: Callable[..., Any], target_dist: Any, initial_dist: Any, seed: int | None
) -> Any:
    """Keeps each element with a probability that depends on its class; gives (class, element)."""
    target = _distribution("target_dist", target_dist)
    unpacks = type(dataset.element_spec) is tuple

    def with_class(*parts: Any) -> Any:
        found = class_func(*parts)
        dtype = dtype_of(found)
        if isinstance(found, (str, bytes, float)) or (dtype is not None and not dtype.is_integer):
            raise TypeError(
                f"rejection_resample: class_func must return a whole number, not {dtype or repr(found)}"
            )
        return found, parts if unpacks else parts[0]

    def keep(chance: Any, _: Any, __: Any) -> Any:
        return random.uniform([], seed=seed) < chance

    classified = dataset.map(with_class)
    if initial_dist is not None:
        initial = _distribution("initial_dist", initial_dist)
        if len(initial) != len(target):
            raise ValueError(
                f"rejection_resample: target_dist has {len(target)} classes, initial_dist {len(initial)}"
            )
        chances = _chances(target, initial).astype(np.float32)
        chanced = classified.map(lambda c, x: (ops.gather(chances, c), c, x))
    else:
        counts = np.full(len(target), _SMOOTHING, np.float32)

        def count(seen: Any, element: Any) -> Any:
            c, x = element
            seen = seen + ops.one_hot(c, len(target), dtype=float32)
            ratio = ops.constant(target, float32) / (seen / ops.reduce_sum(seen))
            return seen, (ops.gather(ratio / ops.reduce_max(ratio), c), c, x)

        chanced = classified.scan(counts, count)
    return chanced.filter(keep).map(lambda _, c, x: (c, x))


def _chances(target: Any, initial: Any) -> Any:
    ratio = np.divide(target, initial, out=np.zeros_like(target), where=initial > 0)
    if not ratio.max(initial=0) > 0:
        raise ValueError("rejection_resample: no class that is wanted comes in the data, by initial_dist")
    return ratio / ratio.max()


def _distribution(what: str, values: Any) -> Any:
    with naming("rejection_resample"):
        array = np.asarray(values, np.float64)
    if array.ndim != 1 or not (array >= 0).all() or not array.sum() > 0:
        raise ValueError(
            f"rejection_resample: {what} is a list of shares that are not negative, not {values!r}"
        )
    return array / array.sum()
