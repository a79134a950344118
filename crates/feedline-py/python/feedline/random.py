"""`fl.random`: random numbers that follow from a seed and from the position of the element.

Inside a traced function every element gets its own numbers, the same ones for any number of threads; a new
epoch gets new ones. A `seed` (or `set_seed`) makes them reproducible. Outside of functions each call gives
new numbers, unless it has a seed of its own.
"""

from __future__ import annotations

from typing import Any

from . import ops, trace
from .calls import as_tensor, call, call_here, symbolic
from .dtypes import as_dtype, float32, float64, int64
from .lazy_numpy import np
from .seeds import get_seed, global_seed, op_seed, set_seed

__all__ = [
    "bernoulli",
    "beta",
    "gamma",
    "get_seed",
    "integers",
    "normal",
    "permutation",
    "set_seed",
    "shuffle",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
]


def source(seed: int | None) -> dict[str, int]:
    """What tells one call of a random function from all others: its seed, and its number in the function.

    A seed that nobody gave is drawn: states of iterators bring it to other processes.
    """
    tracer = trace.current()
    own = {"seed": op_seed(seed), "use": 0 if tracer is None else tracer.use()}
    return {**own, "drawn": True} if seed is None and global_seed() is None else own


def _draw(name: str, args: list[Any], seed: int | None, **attrs: Any) -> Any:
    return call_here(name, args, **source(seed), **attrs)


def _filled(name: str, shape: Any, seed: int | None, **attrs: Any) -> Any:
    """A tensor of random items; its shape may be symbolic."""
    if not symbolic(shape):
        sizes = np.asarray(shape, np.int64).reshape(-1).tolist()
        return _draw(name, [], seed, shape=sizes, **attrs)
    if isinstance(shape, (list, tuple)):
        shape = [ops.cast(size, int64) for size in shape]
    return _draw(name, [shape], seed, **attrs)


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
        return _filled("random.uniform", shape, seed, dtype=dtype) * (high - minval) + minval
    return _filled("random.uniform", shape, seed, minval=float(minval), maxval=float(high), dtype=dtype)


def integers(low: Any, high: Any = None, shape: Any = (), dtype: Any = int64, seed: int | None = None) -> Any:
    """Whole numbers from `low` (0 if only one is given) up to, but without, `high`."""
    if high is None:
        low, high = 0, low
    dtype = as_dtype(dtype)
    if symbolic(low, high):
        low, high = (ops.cast(bound, int64) for bound in (low, high))
        share = _filled("random.uniform", shape, seed, dtype=float64)
        return ops.cast(low + ops.cast(ops.floor(share * ops.cast(high - low, float64)), int64), dtype)
    return _filled("random.integers", shape, seed, minval=int(low), maxval=int(high), dtype=dtype)


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers with a normal distribution."""
    return _normal(shape, mean, stddev, dtype, seed, None)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers with a normal distribution, none further than two standard deviations from the mean."""
    return _normal(shape, mean, stddev, dtype, seed, True)


def _normal(shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, truncated: bool | None) -> Any:
    how = {"dtype": as_dtype(dtype), "truncated": truncated}
    if symbolic(mean, stddev):
        return _filled("random.normal", shape, seed, **how) * stddev + mean
    return _filled("random.normal", shape, seed, mean=float(mean), stddev=float(stddev), **how)


def gamma(
    shape: Any,
    alpha: float,
    beta: float | None = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Numbers with a gamma distribution of shape `alpha` and rate `beta` (1 by default)."""
    rate = 1.0 if beta is None else float(beta)
    return _filled("random.gamma", shape, seed, alpha=float(alpha), beta=rate, dtype=as_dtype(dtype))


def beta(shape: Any, alpha: float, beta: float, dtype: Any = float32, seed: int | None = None) -> Any:
    """Numbers between 0 and 1 with a beta distribution.

    >>> import feedline as fl
    >>> x = fl.random.beta([100], 0.2, 0.2, seed=1)
    >>> bool((x >= 0).all() and (x <= 1).all())
    True
    """
    how = {"alpha": float(alpha), "beta": float(beta), "dtype": as_dtype(dtype)}
    return _filled("random.beta", shape, seed, **how)


def bernoulli(shape: Any = (), p: float = 0.5, seed: int | None = None) -> Any:
    """Truth values that are True with probability `p`."""
    return _filled("random.bernoulli", shape, seed, p=float(p))


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: float = 0,
    maxval: float = 1,
    dtype: Any = float32,
    name: str | None = None,
) -> Any:
    """Floats that follow from a pair of seeds alone: the same pair gives the same numbers everywhere.

    >>> import feedline as fl
    >>> a, b = (fl.random.stateless_uniform([3], seed=(1, 2)) for _ in range(2))
    >>> bool((a == b).all())
    True

    Args:
        shape: The shape of the result.
        seed: Two whole numbers, which may be symbolic: `(x, 0)` for an element's own number x.
        minval: The lower bound.
        maxval: The upper bound, which is not reached.
        dtype: A float dtype.
        name: Not used.
    """
    pair = seed_pair(seed)
    how = {"minval": float(minval), "maxval": float(maxval), "dtype": as_dtype(dtype)}
    if symbolic(shape):
        return call("random.stateless_uniform", [pair, shape], **how)
    sizes = np.asarray(shape, np.int64).reshape(-1).tolist()
    return call("random.stateless_uniform", [pair], shape=sizes, **how)


def seed_pair(seed: Any) -> Any:
    """A pair of seeds as an argument."""
    if symbolic(seed):
        return [ops.cast(part, int64) for part in seed] if isinstance(seed, (list, tuple)) else seed
    pair = np.asarray(seed)
    if pair.shape != (2,) or pair.dtype.kind not in "iu":
        raise ValueError(
            f"a stateless random function takes a pair of whole numbers as its seed, not {seed!r}"
        )
    return pair.astype(np.int64)


def permutation(n: Any, seed: int | None = None) -> Any:
    """The numbers from 0 up to, but without, `n` in random order."""
    if symbolic(n):
        return _draw("random.permutation", [n], seed)
    return _draw("random.permutation", [], seed, n=int(n))


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """The slices along the first axis in random order."""
    return _draw("random.shuffle", [as_tensor(value)], seed)
