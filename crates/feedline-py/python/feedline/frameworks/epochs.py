"""The number of an epoch, for the worker processes of PyTorch's loader.

A loader with workers never asks its dataset for an iterator in the main process: only workers do, each on its
own, and some that live for a single epoch. All of them have to run the same pass, and so have the workers of
the other ranks, whose loaders have drawn other seeds. So epochs are counted, in memory that a stream shares
with its workers:

1. Workers know an epoch by its key: the seed that their loader drew, and which of their own passes it is.
2. Who comes with a key that is not there yet takes the count behind the highest one, and writes both down.
   There is no lock: all who come with one key at once find the same highest count, so they write the same
   number to the same place.
3. The last few keys are kept, so epochs may overlap. Two that begin at the same moment may get one number:
   whoever runs epochs side by side gives them theirs with `set_epoch`.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Epochs"]

_KEPT = 64
"""How many epochs are kept."""
_BITS = 31
"""How many bits of what is written are the count. Key and count are one number, which is written at once."""


class Epochs:
    """Counts the epochs of a dataset that run in worker processes."""

    def __init__(self) -> None:
        # What is added to counts, then what was written last.
        self._cells = torch.full((1 + _KEPT,), -1, dtype=torch.int64)
        self._cells.share_memory_()
        self.set_next(0)

    def set_next(self, epoch: int) -> None:
        """Makes the next epoch the one with that number."""
        self._cells[1:] = -1
        self._cells[0] = epoch

    def number(self, seed: int, turn: int, epoch: int | None = None) -> int:
        """The number of an epoch.

        Args:
            seed: What the loader drew for its workers.
            turn: Which pass of the worker it is, from 0 on.
            epoch: The number that the epoch has, if that is known. Later ones are counted from there.
        """
        key = hash((seed, turn)) % 2**32
        first, *written = self._cells.tolist()
        counts = {item >> _BITS: item % 2**_BITS for item in written if item >= 0}
        count = counts.get(key)
        if count is None:
            count = max(counts.values(), default=-1) + 1
            self._cells[1 + count % _KEPT] = key << _BITS | count
        if epoch is None:
            return int(first) + count
        self._cells[0] = epoch - count
        return epoch

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Only a worker gets the same memory; a copy of a stream counts on its own.
        if not self._cells.is_shared():
            self._cells.share_memory_()
