"""JAX without a library on top: batches shared out over all devices, and an argument that is donated.

XLA_FLAGS=--xla_force_host_platform_device_count=4 python examples/plain_jax.py
"""

from __future__ import annotations

import functools

import feedline as fl
import jax
import jax.numpy as jnp
import numpy as np

BATCH = 64


def waves(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, and a wavy function of them with noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (count, 1)).astype(np.float32)
    y = np.sin(3 * x) + random.normal(0, 0.05, x.shape)
    return x, y.astype(np.float32)


def answer(weights, x):
    """A layer of tanh between two linear ones."""
    first, bias, last = weights
    return jnp.tanh(x @ first + bias) @ last


def error(weights, x, y):
    """The mean square."""
    return jnp.mean((answer(weights, x) - y) ** 2)


@functools.partial(jax.jit, donate_argnums=0)
def step(weights, x, y):
    """A step downhill. The old weights are not needed any more: their memory is given to the new ones."""
    slope = jax.grad(error)(weights, x, y)
    return [w - 0.05 * s for w, s in zip(weights, slope, strict=True)]


def main() -> None:
    """Trains on all devices that there are."""
    ds = fl.Dataset.from_tensor_slices(waves(2048, seed=1)).shuffle(seed=1).batch(BATCH, drop_remainder=True)
    batches = ds.to_jax(sharding="data")
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [(1, 64), (64,), (64, 1)]
    weights = [jax.random.normal(k, s) * 0.5 for k, s in zip(keys, shapes, strict=True)]
    for _ in range(40):
        for x, y in batches:
            weights = step(weights, x, y)
        # Steps are only queued: devices of one CPU may wait for each other for ever if these are too many.
        jax.block_until_ready(weights)
    found = float(error(weights, *waves(500, seed=2)))
    print(f"mean square error {found:.4f} on {len(x.devices())} devices")
    assert found < 0.05


if __name__ == "__main__":
    main()
