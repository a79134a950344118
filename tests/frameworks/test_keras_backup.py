"""`feedline.keras.BackupAndRestore`: a run that was interrupted goes on to the same weights, bit for bit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import feedline as fl
import feedline.keras
import keras
import numpy as np
import pytest


class Stop(keras.callbacks.Callback):
    """Interrupts a run after so many batches, in all epochs together."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def model() -> keras.Model:
    """With dropout, whose random numbers must go on too."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    made = keras.Sequential(
        [keras.Input((64,)), layers.Dense(32, activation="relu"), layers.Dropout(0.2), layers.Dense(10)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss, metrics=["accuracy"])
    return made


def noisy(digits: Any, count: int = 300) -> fl.Dataset:
    """Some digits in a new order with new noise in each epoch: 30 batches."""
    images, labels = digits[0]
    ds = fl.Dataset.from_tensor_slices((images[:count], labels[:count])).shuffle(100, seed=1)
    return ds.map(lambda x, y: (x + fl.random.normal([64], stddev=0.1, seed=3), y)).batch(10)


PIPELINES: dict[str, tuple[Any, dict[str, Any]]] = {
    "passes": (noisy, {"epochs": 3}),
    "unknown length": (lambda digits: noisy(digits).filter(lambda x, y: fl.size(y) > 0), {"epochs": 3}),
    "endless": (lambda digits: noisy(digits).repeat(), {"epochs": 4, "steps_per_epoch": 22}),
    "carried over": (lambda digits: noisy(digits), {"epochs": 4, "steps_per_epoch": 15}),
    "several starts": (
        lambda digits: noisy(digits, 100).unbatch().repeat(3).shuffle(50, seed=5).batch(10),
        {"epochs": 3},
    ),
}


def trained(ds: fl.Dataset, folder: Path, freq: Any, stop: int | None = None, **how: Any) -> Any:
    made = model()
    callbacks = [feedline.keras.BackupAndRestore(folder, save_freq=freq)]
    if stop is not None:
        callbacks.append(Stop(stop))
    history = made.fit(ds, callbacks=callbacks, verbose=0, **how)
    return made, history.history


@pytest.fixture(scope="module")
def whole_runs() -> dict[str, Any]:
    """Weights and histories of runs that were not interrupted, by pipeline."""
    return {}


@pytest.mark.filterwarnings("ignore::feedline.warnings.PositionCarriedOver")
@pytest.mark.parametrize(
    ("kind", "freq", "stop"),
    [
        ("passes", 7, 39),
        ("passes", "epoch", 40),
        ("passes", 30, 61),
        ("unknown length", 7, 39),
        ("unknown length", 15, 50),
        ("endless", 7, 40),
        ("endless", 22, 46),
        ("carried over", 7, 39),
        ("carried over", 15, 31),
        ("several starts", "epoch", 40),
        ("several starts", 7, 40),
    ],
)
def test_the_same_weights_as_without_a_stop(
    kind: str, freq: Any, stop: int, digits: Any, tmp_path: Path, whole_runs: dict[str, Any]
) -> None:
    pipeline, how = PIPELINES[kind]
    if kind not in whole_runs:
        whole_runs[kind] = trained(pipeline(digits), tmp_path / "whole", "epoch", **how)
    whole, history = whole_runs[kind]
    with pytest.raises(KeyboardInterrupt):
        trained(pipeline(digits), tmp_path / "cut", freq, stop, **how)
    assert (tmp_path / "cut" / "backup.npz").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        if kind == "carried over":
            warnings.simplefilter("ignore")
        again, rest = trained(pipeline(digits), tmp_path / "cut", freq, **how)
    for a, b in zip(whole.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    # What an epoch that was cut tells at its end is about all of it.
    for name in history:
        assert history[name][-len(rest[name]) :] == rest[name]
    assert not (tmp_path / "cut" / "backup.npz").exists()


def test_a_run_that_stops_twice_and_is_validated(digits: Any, tmp_path: Path) -> None:
    validation = fl.Dataset.from_tensor_slices(digits[1]).batch(100)
    how = {"epochs": 3, "validation_data": validation}
    whole, history = trained(noisy(digits), tmp_path / "whole", 4, **how)
    for stop in (33, 35):
        with pytest.raises(KeyboardInterrupt):
            trained(noisy(digits), tmp_path / "cut", 4, stop, **how)
    again, rest = trained(noisy(digits), tmp_path / "cut", 4, **how)
    for a, b in zip(whole.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert rest["val_accuracy"] == history["val_accuracy"][-len(rest["val_accuracy"]) :]
    # The next run begins at the beginning.
    assert len(again.fit(noisy(digits), verbose=0).history["loss"]) == 1


def test_a_backup_of_another_model_or_pipeline_is_refused(digits: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(noisy(digits), tmp_path, 2, 3)
    with pytest.raises(ValueError, match="batch"):
        trained(noisy(digits).unbatch().batch(10), tmp_path, 2)
    other = keras.Sequential([keras.layers.Dense(10)])
    other.compile(loss="mse")
    with pytest.raises(ValueError, match=r"backup of another model.*delete it"):
        other.fit(noisy(digits), callbacks=[feedline.keras.BackupAndRestore(tmp_path)], verbose=0)


def test_what_cannot_be_backed_up(tmp_path: Path) -> None:
    rows = np.ones((4, 64), np.float32)
    with pytest.raises(TypeError, match="dataset of feedline"):
        model().fit(rows, np.zeros(4), callbacks=[feedline.keras.BackupAndRestore(tmp_path)], verbose=0)
    spec = (fl.TensorSpec((4, 64), fl.float32), fl.TensorSpec((4,), fl.int64))
    ds = fl.Dataset.from_generator(lambda: [(rows, np.zeros(4, np.int64))] * 3, output_signature=spec)
    with pytest.raises(fl.errors.FailedPreconditionError, match="generator"):
        trained(ds, tmp_path, 1)
    with pytest.raises(ValueError, match="save_freq"):
        feedline.keras.BackupAndRestore(tmp_path, save_freq=0)
