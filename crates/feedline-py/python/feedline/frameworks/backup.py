"""`BackupAndRestore` for Keras: a run that was interrupted goes on to the same weights.

1. After every so many batches, or after each epoch, one file gets the variables of the model, the optimiser,
   the metrics and the layers' random generators, the number of the epoch, and the state of the data behind
   the last batch that was computed. It takes its name when it is whole.
2. When training begins and there is such a file, all of it is put back. Keras is told to begin with that
   epoch, and the data goes on in the middle of it.
3. The metrics of the epoch are put back after Keras has reset them: what is told at its end is about all of
   it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..errors import FeedlineError
from .keras import Data, last_adapter

__all__ = ["BackupAndRestore"]

_ABOUT = "about"
_TORCH = "torch"
"""The entry of the file that is no variable."""


class BackupAndRestore(keras.callbacks.Callback):  # type: ignore[misc]
    """Keras's callback of that name for datasets of feedline, exact to the batch.

    Keras's own begins the interrupted epoch again, with weights that have seen a part of it. This one goes on
    with the batch behind the last one, and ends with the weights that the run would have had, bit for bit
    where the computation itself is reproducible.

    Args:
        backup_dir: A folder for the backup, for this run alone.
        save_freq: "epoch", or after how many batches.
        delete_checkpoint: Delete the backup when training has come to its end.
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: str | int = "epoch",
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError(f'save_freq is "epoch" or a positive number of batches, not {save_freq!r}')
        self.path = Path(backup_dir) / "backup.npz"
        self.save_freq = save_freq
        self.delete_checkpoint = delete_checkpoint
        self._data: Data | None = None
        self._epoch = 0
        # Batches: of this epoch by an earlier process, of it by this one, of earlier epochs by this one; all
        # of this process at the last save.
        self._done = self._batches = self._earlier = self._saved = 0
        self._metrics: list[np.ndarray[Any, Any]] | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Puts back what was saved."""
        self._data = last_adapter()
        if self._data is None:
            raise TypeError(
                "feedline's BackupAndRestore needs a dataset of feedline as the training data; for other "
                "data there is keras.callbacks.BackupAndRestore"
            )
        self._data.places = {}
        self._done = self._batches = self._earlier = self._saved = 0
        self._metrics = None
        if self.path.exists():
            self._restore(self._data)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras has reset the metrics."""
        self._epoch = epoch
        if self._metrics is not None:
            _assign(self.model.metrics_variables, self._metrics, self.path)
            self._metrics = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves, if it is time to."""
        self._batches = batch + 1
        number = self._earlier + self._batches
        if self.save_freq != "epoch" and number - self._saved >= int(self.save_freq):
            self._saved = number
            self._save(self._epoch, self._done + self._batches, number)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves, if it is time to."""
        self._earlier += self._batches
        self._done = self._batches = 0
        if self.save_freq == "epoch":
            self._save(epoch + 1, 0, self._earlier)

    def on_train_end(self, logs: Any = None) -> None:
        """There is nothing to go on with."""
        self.model._initial_epoch = None
        if self.delete_checkpoint:
            self.path.unlink(missing_ok=True)

    def _variables(self) -> list[Any]:
        optimizer = self.model.optimizer
        return [
            *self.model.trainable_variables,
            *self.model.non_trainable_variables,
            *([] if optimizer is None else optimizer.variables),
        ]

    def _save(self, epoch: int, done: int, number: int) -> None:
        assert self._data is not None
        moment = self._data.place(min(number, self._data.handed))
        if isinstance(moment, FeedlineError):
            raise moment
        state = None if moment is None else moment.state_dict()
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        about = {"epoch": epoch, "batches": done, "data": state}
        arrays: dict[str, Any] = {_ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8)}
        for kind, variables in (("v", self._variables()), ("m", self.model.metrics_variables)):
            for place, variable in enumerate(variables):
                arrays[f"{kind}{place}"] = _plain(keras.ops.convert_to_numpy(variable))
        if keras.backend.backend() == "torch":
            import torch

            # There, layers without a seed draw from torch's own generator.
            arrays[_TORCH] = torch.get_rng_state().numpy()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)

    def _restore(self, data: Data) -> None:
        with np.load(self.path) as file:
            about = json.loads(bytes(file[_ABOUT]))
            stored, metrics = (
                [file[f"{kind}{place}"] for place in range(sum(name[0] == kind for name in file.files))]
                for kind in "vm"
            )
            random = file[_TORCH] if _TORCH in file.files else None
        epoch, done = about["epoch"], about["batches"]
        left = None if data.steps is None or done == 0 else max(data.steps - done, 0)
        more = data.go_on(about["data"], left or None)
        if done and (left == 0 or not more):
            # It was saved after the last batch of its epoch.
            epoch, done = epoch + 1, 0
        # Not all backends have made the variables of the metrics and the optimiser by now.
        self.model._symbolic_build(data_batch=data.coming)
        _assign(self._variables(), stored, self.path)
        if random is not None and keras.backend.backend() == "torch":
            import torch

            torch.set_rng_state(torch.from_numpy(random))
        self._done = done
        self._metrics = metrics if done else None
        self.model._initial_epoch = epoch


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a dtype that NumPy's files have; bfloat16 and its kin go by their bits."""
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def _assign(variables: Iterable[Any], stored: list[np.ndarray[Any, Any]], path: Path) -> None:
    variables = list(variables)
    if len(variables) != len(stored):
        raise ValueError(
            f"{path} is the backup of another model: it has {len(stored)} variables, this one "
            f"{len(variables)}; delete it, or choose another folder"
        )
    for variable, array in zip(variables, stored, strict=True):
        now = keras.ops.convert_to_numpy(variable)
        if now.dtype.kind == "V":
            array = array.view(now.dtype)
        if array.shape != now.shape:
            raise ValueError(
                f"{path} is the backup of another model: {variable.path} has shape {now.shape} here and "
                f"{array.shape} there; delete it, or choose another folder"
            )
        variable.assign(array)
