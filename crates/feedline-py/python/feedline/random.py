"""`fl.random`: random numbers that follow from a seed and from the position of the element.

Inside a traced function every element gets its own numbers, the same ones for any number of threads; a new
epoch gets new ones. A `seed` (or `set_seed`) makes them reproducible. Outside of functions each call gives
new numbers.
"""

from __future__ import annotations

import itertools
from typing import Any

from . import trace
from .calls import call_here, constant, dtype_of, symbolic
from .dtypes import as_dtype, float32, int64
from .seeds import get_seed, op_seed, set_seed

__all__ = [
    "bernoulli",
    "get_seed",
    "integers",
    "normal",
    "permutation",
    "set_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]

# Successive calls outside of functions differ by this number.
_eager_uses = itertools.count()


def _draw(name: str, args: list[Any], seed: int | None, **attrs: Any) -> Any:
    tracer = trace.current()
    use = next(_eager_uses) if tracer is None else tracer.use()
    return call_here(name, args, seed=op_seed(seed), use=use, **attrs)


def _shape(shape: Any) -> list[int]:
    if symbolic(shape):
        raise trace.NeedsValue("a random function with a symbolic shape", "give the shape as numbers")
    return [int(size) for size in (shape if hasattr(shape, "__iter__") else [shape])]


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers that are equally likely anywhere from `minval` up to, but without, `maxval`.

    >>> import feedline as fl
    >>> x = fl.random.uniform([3], seed=1)
    >>> bool((x >= 0).all() and (x < 1).all())
    True

    Args:
        shape: The shape of the result.
        minval: The lower bound.
        maxval: The upper bound: 1 for floats if it is not given; integers need one.
        dtype: A float or an integer dtype.
        seed: Makes the numbers reproducible.
        name: Not used.
    """
    dtype = as_dtype(dtype)
    if dtype.is_integer:
        if maxval is None:
            raise ValueError("fl.random.uniform of an integer dtype needs maxval")
        return integers(minval, maxval, shape, dtype, seed)
    high = 1 if maxval is None else maxval
    if symbolic(minval, high):
        drawn = _draw("random.uniform", [], seed, shape=_shape(shape), minval=0.0, maxval=1.0, dtype=dtype)
        return drawn * (high - minval) + minval
    return _draw(
        "random.uniform", [], seed, shape=_shape(shape), minval=float(minval), maxval=float(high), dtype=dtype
    )


def integers(low: Any, high: Any = None, shape: Any = (), dtype: Any = int64, seed: int | None = None) -> Any:
    """Whole numbers from `low` (0 if only one is given) up to, but without, `high`."""
    if high is None:
        low, high = 0, low
    dtype = as_dtype(dtype)
    bounds = [constant(bound, dtype) if dtype_of(bound) is None else bound for bound in (low, high)]
    if symbolic(*bounds):
        return _draw("random.integers", bounds, seed, shape=_shape(shape), dtype=dtype)
    low, high = (int(bound) for bound in bounds)
    if low >= high:
        raise ValueError(f"fl.random.integers needs low < high, not {low} and {high}")
    return _draw("random.integers", [], seed, shape=_shape(shape), minval=low, maxval=high, dtype=dtype)


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers with a normal distribution."""
    dtype = as_dtype(dtype)
    if symbolic(mean, stddev):
        return (
            _draw("random.normal", [], seed, shape=_shape(shape), mean=0.0, stddev=1.0, dtype=dtype) * stddev
            + mean
        )
    return _draw(
        "random.normal", [], seed, shape=_shape(shape), mean=float(mean), stddev=float(stddev), dtype=dtype
    )


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers with a normal distribution, none further than two standard deviations from the mean."""
    dtype = as_dtype(dtype)
    return _draw(
        "random.truncated_normal",
        [],
        seed,
        shape=_shape(shape),
        mean=float(mean),
        stddev=float(stddev),
        dtype=dtype,
    )


def bernoulli(shape: Any = (), p: float = 0.5, seed: int | None = None) -> Any:
    """Truth values that are True with probability `p`."""
    return _draw("random.bernoulli", [], seed, shape=_shape(shape), p=float(p))


def permutation(n: Any, seed: int | None = None) -> Any:
    """The numbers from 0 up to, but without, `n` in random order."""
    return _draw("random.permutation", [constant(n, int64) if dtype_of(n) is None else n], seed)


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """The slices along the first axis in random order."""
    return _draw("random.shuffle", [constant(value) if dtype_of(value) is None else value], seed)
