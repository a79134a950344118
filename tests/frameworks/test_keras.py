"""`model.fit(ds)` on the backend that this environment has: lengths, epochs, weights, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from typing import Any

import feedline as fl
import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seeds() -> Any:
    keras.utils.set_random_seed(1)
    fl.random.set_seed(1)
    yield
    fl.random.set_seed(None)


class Record(keras.callbacks.Callback):
    """What callbacks see: the steps that were announced, and those that came, for each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[Any] = []
        self.steps: list[int] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.announced.append(self.params["steps"])
        self.steps.append(0)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.steps[-1] += 1


def line() -> keras.Model:
    """A model that learns nothing: its answer is always 0, so that losses can be computed by hand."""
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
    return model


def rows(count: int, size: int = 2) -> fl.Dataset:
    """Batches of (x, y), where y counts from 0."""
    x = np.ones((count, 3), np.float32)
    return fl.Dataset.from_tensor_slices((x, np.arange(count, dtype=np.float32)[:, None])).batch(size)


def fitted(ds: Any, **how: Any) -> tuple[Record, dict[str, list[float]]]:
    record = Record()
    history = line().fit(ds, callbacks=[record], verbose=0, **how)
    return record, history.history


def test_digits_are_learned(digits: Any) -> None:
    train = fl.Dataset.from_tensor_slices(digits[0]).shuffle().batch(50)
    validation = fl.Dataset.from_tensor_slices(digits[1]).batch(100)
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss, metrics=["accuracy"])
    history = model.fit(train, validation_data=validation, epochs=12, verbose=0).history
    assert history["val_accuracy"][-1] > 0.94
    assert model.evaluate(validation, verbose=0)[1] == pytest.approx(history["val_accuracy"][-1], abs=1e-6)
    right = model.predict(validation, verbose=0).argmax(1) == digits[1][1]
    assert right.mean() == pytest.approx(history["val_accuracy"][-1], abs=1e-6)


def test_every_epoch_is_a_pass() -> None:
    passes = []

    def source() -> Any:
        passes.append(None)
        for i in range(6):
            yield np.full((2, 3), i, np.float32), np.full((2, 1), i, np.float32)

    spec = (fl.TensorSpec((2, 3), fl.float32), fl.TensorSpec((2, 1), fl.float32))
    ds = fl.Dataset.from_generator(source, output_signature=spec).assert_cardinality(6)
    record, history = fitted(ds, epochs=3)
    assert record.steps == [6, 6, 6]
    assert record.announced == [6, 6, 6]
    assert history["loss"] == pytest.approx([np.mean(np.arange(6.0) ** 2)] * 3)
    # The batch that builds the model is put back.
    assert len(passes) == 3


@pytest.mark.parametrize("steps", [None, 1])
def test_epochs_of_one_batch_are_passes_too(steps: int | None) -> None:
    noisy = rows(4, 4).map(lambda x, y: (x, y + fl.random.normal([4, 1])))
    model = line()
    # The first fit builds the model with a look at the first batch, the second does not.
    for _ in range(2):
        loss = model.fit(noisy, epochs=4, steps_per_epoch=steps, verbose=0).history["loss"]
        assert len(set(loss)) == 4


def test_epochs_are_shuffled_anew() -> None:
    ds = rows(64, 1).shuffle(64).take(8)
    _, history = fitted(ds, epochs=3)
    assert len(set(history["loss"])) == 3


def test_unknown_length_is_no_reason_to_warn() -> None:
    ds = rows(10).filter(lambda x, y: y[0, 0] != 4)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        record, _ = fitted(ds, epochs=3)
    assert record.steps == [4, 4, 4]
    assert [w for w in given if "ran out" in str(w.message)] == []
    # The filter of that time is gone.
    with pytest.warns(UserWarning, match="ran out"):
        warnings.warn("Your input ran out of data", stacklevel=1)


def test_endless_data_needs_steps() -> None:
    record, _ = fitted(rows(10).repeat(), epochs=2, steps_per_epoch=7)
    assert record.steps == [7, 7]
    with pytest.raises(ValueError, match="endless: say how many steps"):
        line().fit(rows(10).repeat(), verbose=0)


def test_more_steps_than_batches() -> None:
    with pytest.warns(fl.warnings.StepsBeyondEnd, match=r"FL001: 9 steps .* 5 batches.*#fl001"):
        record, _ = fitted(rows(10), epochs=2, steps_per_epoch=9)
    assert record.steps == [5, 5]


def test_more_steps_than_batches_to_evaluate() -> None:
    model = line()
    with pytest.warns(fl.warnings.StepsBeyondEnd, match=r"FL001: 7 steps .* 5 batches"):
        model.evaluate(rows(10), steps=7, verbose=0)


def test_fewer_steps_than_batches_carry_the_position_over() -> None:
    with pytest.warns(fl.warnings.PositionCarriedOver, match="FL004: an epoch has 4 steps") as given:
        record, history = fitted(rows(10), epochs=3, steps_per_epoch=4)
    assert record.steps == [4, 1, 4]
    assert history["loss"][1] == pytest.approx((64 + 81) / 2)
    told = [warning for warning in given if warning.category is fl.warnings.PositionCarriedOver]
    assert [warning.filename for warning in told] == [__file__]


def test_fewer_steps_are_quiet_where_no_epoch_follows_in_the_pass() -> None:
    model = line()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.warnings.FeedlineWarning)
        assert fitted(rows(10), epochs=1, steps_per_epoch=4)[0].steps == [4]
        model.evaluate(rows(10), steps=3, verbose=0)
        assert len(model.predict(rows(10), steps=3, verbose=0)) == 6
        # Validation begins anew each time.
        fitted(rows(10), epochs=2, validation_data=rows(10), validation_steps=2)


def test_steps_of_the_right_number_are_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.warnings.FeedlineWarning)
        assert fitted(rows(10), epochs=2, steps_per_epoch=5)[0].steps == [5, 5]


def test_sample_weights() -> None:
    ds = rows(4, 4).map(lambda x, y: (x, y, fl.cast(fl.reshape(y, [-1]) > 1, fl.float32)))
    _, history = fitted(ds)
    assert history["loss"][0] == pytest.approx((4 + 9) / 4)


@pytest.mark.parametrize("one_hot", [False, True])
def test_class_weights(one_hot: bool) -> None:
    labels = np.array([0, 1, 2, 1])
    targets = np.eye(3, dtype=np.float32)[labels] if one_hot else labels[:, None].astype(np.float32)
    ds = fl.Dataset.from_tensor_slices((np.ones((4, 3), np.float32), targets)).batch(4)
    model = keras.Sequential([keras.layers.Dense(targets.shape[1], kernel_initializer="zeros")])
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
    loss = model.fit(ds.to_keras(), class_weight={0: 5.0, 1: 3.0}, verbose=0).history["loss"][0]
    weights = np.array([5.0, 3.0, 1.0, 3.0])
    assert loss == pytest.approx(float(np.mean(weights * (targets**2).mean(1))))


def test_validation_of_endless_data_and_dicts() -> None:
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model({"a": a, "b": b}, keras.layers.Dense(1)(keras.layers.Add()([a, b])))
    model.compile(optimizer="sgd", loss="mse")
    ds = rows(10).map(lambda x, y: ({"a": x, "b": x}, y))
    history = model.fit(ds, validation_data=ds.repeat(), validation_steps=3, verbose=0).history
    assert set(history) == {"loss", "val_loss"}
    assert model.predict(ds, verbose=0).shape == (10, 1)


def test_predict_takes_bare_inputs() -> None:
    model = line()
    assert model.predict(rows(10).map(lambda x, y: x), verbose=0).shape == (10, 1)
    assert model.predict(rows(10), verbose=0).shape == (10, 1)


def test_batches_of_a_cache_are_not_written_to() -> None:
    """Large cached batches can only be read, and frameworks are not all able to know that."""
    x = np.ones((64, 512), np.float32)
    ds = fl.Dataset.from_tensor_slices((x, x[:, :1])).batch(64).cache()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(ds, epochs=2)
    assert all((batch == 1).all() for batch, _ in ds)


def test_keras_data_is_also_an_iterable() -> None:
    data = rows(10).to_keras()
    assert len(data) == 5
    assert [len(x) for x, _ in data] == [2] * 5
    assert (data.num_batches, data.batch_size) == (5, None)


@pytest.mark.parametrize(
    ("ds", "message"),
    [
        (
            rows(10).unbatch().map(lambda x, y: (x, y[0])),
            r"takes batches, but the elements are \(float32\[3\], float32\)",
        ),
        (rows(10).map(lambda x, y: (x, y, y, y)), "put them in order with .map"),
        (rows(0), "empty"),
    ],
    ids=["unbatched", "too many parts", "empty"],
)
def test_what_no_model_can_take(ds: fl.Dataset, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        line().fit(ds, verbose=0)


def test_labels_beside_a_dataset_are_refused() -> None:
    with pytest.raises(ValueError, match="part of a dataset's elements"):
        line().fit(rows(10), np.zeros((10, 1)), verbose=0)


def test_other_data_goes_where_it_went() -> None:
    line().fit(np.ones((4, 3), np.float32), np.zeros((4, 1), np.float32), verbose=0)


@pytest.mark.parametrize("first", ["import keras", "import feedline as fl"])
def test_either_may_be_imported_first(first: str) -> None:
    program = f"""
        {first}
        import keras, feedline as fl, numpy as np
        ds = fl.Dataset.from_tensor_slices((np.ones((4, 3), "float32"), np.ones((4, 1), "float32"))).batch(2)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(loss="mse")
        print(len(model.fit(ds, verbose=0).history["loss"]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.stdout.strip().endswith("1"), done.stderr
