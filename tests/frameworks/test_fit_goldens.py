"""The golden cases of `fit`: what Keras does with datasets of various lengths and numbers of steps."""

from __future__ import annotations

import warnings
from typing import Any

import feedline as fl
import keras
import pytest
from goldens import cases, steps
from goldens.calls import Calls

Case = dict[str, Any]
CASES = cases.training(cases.DATA)


class Count(keras.callbacks.Callback):
    """How many batches each epoch had."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.batches.append(0)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches[-1] += 1


def observe(case: Case) -> dict[str, Any]:
    """What happens here, in the form of a case's `expect`."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    numbers = steps.build(case["steps"], Calls()).map(lambda x: fl.cast(fl.reshape(x, [-1, 1]), fl.float32))
    count = Count()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            model.fit(numbers.map(lambda x: (x, x)), callbacks=[count], verbose=0, **case["params"])
        except ValueError as error:
            assert "empty" in str(error)
            return {"error": {"class": "ValueError", "when": "fit", "gist": "dataset_is_empty"}}
    ran_out = any("ran out of data" in str(warning.message) for warning in given)
    return {"batches_per_epoch": count.batches, "ran_out_warning": ran_out}


@pytest.mark.parametrize("golden", CASES, ids=[golden["id"] for golden in CASES])
def test_fit(golden: Case) -> None:
    assert observe(golden) == golden["expect"], golden["note"]
