"""Datasets as arrays on JAX's devices.

1. A batch is put on the devices before the one in front of it is handed out: its transfer runs while that one
   is computed with.
2. JAX keeps a reference to a NumPy array for as long as it may read it; on a CPU the device array lies in the
   same memory, for all its life. feedline uses memory again only when nobody refers to it, so no batch is
   overwritten under a transfer.
3. A function that is allowed to write into its argument (`donate_argnums`) gets other memory for its result
   where the argument's belongs to NumPy. The tests hold JAX to that.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from .. import nest
from ..dataset import Dataset
from ..ragged import RaggedTensor
from ..sparse import SparseTensor
from .passes import Pass, Resumable, plain

__all__ = ["Arrays"]


class Arrays(Resumable):
    """The elements of a dataset as arrays on JAX's devices. Text stays NumPy, ragged and sparse stay as they
    are.

    Args:
        dataset: The dataset.
        sharding: Where arrays go: None for JAX's default device; a device; a `jax.sharding.Sharding`; or
            "data": batches are cut along their first axis, a piece for each local device.
    """

    def __init__(self, dataset: Dataset, sharding: Any = None) -> None:
        self.dataset = plain(dataset)
        self.sharding = _over_devices() if isinstance(sharding, str) and sharding == "data" else sharding
        if isinstance(self.sharding, str):
            raise ValueError(
                f'to_jax: sharding is "data", a device or a jax.sharding.Sharding, not {sharding!r}'
            )

    def __iter__(self) -> Pass:
        put = functools.partial(nest.map_structure, self._put, lists=False)
        self._last = Pass(self._open(self.dataset), put, finish=lambda element: element)
        return self._last

    def _put(self, leaf: Any) -> Any:
        if leaf is None or isinstance(leaf, (bytes, RaggedTensor, SparseTensor)):
            return leaf
        array = np.asarray(leaf)
        if array.dtype == object:
            return leaf
        if isinstance(self.sharding, jax.sharding.Sharding):
            self._check_pieces(array)
            if not self.sharding.is_fully_addressable:
                # Every process has read its own part of the batch.
                return jax.make_array_from_process_local_data(self.sharding, array)
        return jax.device_put(array, self.sharding)

    def _check_pieces(self, array: np.ndarray[Any, Any]) -> None:
        try:
            self.sharding.shard_shape(array.shape)
        except ValueError as error:
            raise ValueError(
                f"an array of shape {array.shape} cannot be cut as {self.sharding} says ({error}); batches "
                "are all of one size with .batch(n, drop_remainder=True)"
            ) from None


def _over_devices() -> Any:
    devices = np.array(jax.local_devices())
    mesh = jax.sharding.Mesh(devices, ("data",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
