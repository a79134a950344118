"""`ds.to_jax()`: values, devices, batches ahead, donation, and a model in plain JAX."""

from __future__ import annotations

import json
from typing import Any

import feedline as fl
import jax
import jax.numpy as jnp
import numpy as np
import pytest


def test_elements_are_arrays_on_a_device() -> None:
    ds = fl.Dataset.from_tensor_slices({"x": np.arange(6.0), "name": list("abcdef")}).batch(4)
    first, second = ds.to_jax()
    assert isinstance(first["x"], jax.Array)
    assert second["x"].tolist() == [4.0, 5.0]
    assert first["name"].tolist() == [b"a", b"b", b"c", b"d"]
    assert len(ds.to_jax()) == 2
    assert fl.Dataset.range(3).to_jax().element_spec == fl.TensorSpec((), fl.int64)


def test_it_can_be_read_again_and_empty() -> None:
    arrays = fl.Dataset.range(5).to_jax()
    assert [int(x) for x in arrays] == [int(x) for x in arrays] == [0, 1, 2, 3, 4]
    assert list(fl.Dataset.range(0).to_jax()) == []


def test_an_array_lies_where_the_pipeline_made_it() -> None:
    arrays = fl.Dataset.range(4096).map(lambda x: fl.cast(x, fl.float32)).batch(4096).to_jax()
    batch = np.arange(4096, dtype=np.float32)
    aligned = next(iter(fl.Dataset.from_tensors(batch)))
    assert arrays._put(aligned).unsafe_buffer_pointer() == aligned.ctypes.data


def test_the_next_batch_is_put_before_one_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    put = []
    real = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda x, *how: put.append(int(x)) or real(x, *how))
    iterator = iter(fl.Dataset.range(4).to_jax())
    assert int(next(iterator)) == 0
    assert put == [0, 1]
    assert [int(x) for x in iterator] == [1, 2, 3]
    assert put == [0, 1, 2, 3]


def test_batches_over_all_devices() -> None:
    assert len(jax.local_devices()) == 4
    ds = fl.Dataset.range(24).batch(8)
    total = jax.jit(lambda x: x.sum())
    for number, batch in enumerate(ds.to_jax(sharding="data")):
        pieces = {shard.device.id: np.asarray(shard.data).tolist() for shard in batch.addressable_shards}
        assert pieces == {d: [number * 8 + d * 2, number * 8 + d * 2 + 1] for d in range(4)}
        assert int(total(batch)) == sum(range(number * 8, number * 8 + 8))


def test_a_sharding_and_a_device_of_ones_own() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()).reshape(2, 2), ("a", "b"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a", "b"))
    (batch,) = fl.Dataset.from_tensors(np.arange(16.0).reshape(4, 4)).to_jax(sharding=sharding)
    assert {shard.data.shape for shard in batch.addressable_shards} == {(2, 2)}
    (batch,) = fl.Dataset.from_tensors([1, 2]).to_jax(sharding=jax.local_devices()[3])
    assert batch.devices() == {jax.local_devices()[3]}


def test_a_short_batch_cannot_be_cut() -> None:
    batches = iter(fl.Dataset.range(10).batch(8).to_jax(sharding="data"))
    with pytest.raises(ValueError, match="drop_remainder=True"):
        list(batches)
    with pytest.raises(ValueError, match='sharding is "data"'):
        fl.Dataset.range(3).to_jax(sharding="batch")


def test_donated_batches_are_not_overwritten() -> None:
    """The memory of a batch goes back to the pool when JAX lets go of it. A result must not lie in it."""
    size = 1 << 16
    ds = fl.Dataset.range(size * 40).map(lambda x: fl.cast(x, fl.float32)).batch(size)
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    kept = [step(batch) for batch in ds.to_jax()]
    for number, result in enumerate(kept):
        expected = np.arange(number * size, (number + 1) * size, dtype=np.float32) + 1
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_batches_that_are_kept_stay_as_they_are() -> None:
    size = 1 << 14
    ds = fl.Dataset.range(size * 40).map(lambda x: fl.cast(x, fl.float32)).batch(size)
    for number, batch in enumerate(list(ds.to_jax())):
        assert float(batch[0]) == number * size and float(batch[-1]) == (number + 1) * size - 1


def test_a_pass_goes_on_where_another_was() -> None:
    def arrays() -> Any:
        return fl.Dataset.range(60).shuffle(20, seed=1).batch(4).to_jax()

    whole = arrays()
    iterator = iter(whole)
    for _ in range(5):
        next(iterator)
    # One batch is on the device already, but was not given: it belongs to the rest.
    state = json.loads(json.dumps(whole.state_dict()))
    rest = [batch.tolist() for batch in iterator]
    again = arrays()
    again.load_state_dict(state)
    assert len(rest) == 10
    assert [batch.tolist() for batch in again] == rest
    assert [b.tolist() for b in again] == [b.tolist() for b in whole]


def test_a_source_without_a_state_is_read_all_the_same() -> None:
    ds = fl.Dataset.from_generator(lambda: iter(range(3)), output_signature=fl.TensorSpec((), fl.int64))
    arrays = ds.to_jax()
    iterator = iter(arrays)
    assert int(next(iterator)) == 0
    with pytest.raises(fl.errors.FailedPreconditionError, match="generator"):
        arrays.state_dict()
    assert [int(x) for x in iterator] == [1, 2]


def test_after_a_pass_that_had_ended_comes_the_next() -> None:
    def arrays() -> Any:
        return fl.Dataset.range(60).shuffle(20, seed=1).batch(4).to_jax()

    whole = arrays()
    assert len(list(whole)) == 15
    state = whole.state_dict()
    again = arrays()
    again.load_state_dict(state)
    assert [b.tolist() for b in again] == [b.tolist() for b in whole]


def test_datasets_of_feedline_tf() -> None:
    import feedline.tf as tf

    (batch,) = tf.data.Dataset.range(3).batch(3).to_jax()
    assert isinstance(batch, jax.Array)


def test_digits_are_learned(digits: Any) -> None:
    (images, labels), (unseen, answers) = digits
    train = fl.Dataset.from_tensor_slices((images, labels)).shuffle(seed=1).batch(100, drop_remainder=True)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        scores = jax.nn.log_softmax(x @ weights[0] + weights[1])
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    @jax.jit
    def step(weights: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 0.5 * g, weights, jax.grad(loss)(weights, x, y))

    weights = (jnp.zeros((64, 10)), jnp.zeros(10))
    for _ in range(15):
        for x, y in train.to_jax(sharding="data"):
            weights = step(weights, x, y)
    right = np.asarray(unseen @ weights[0] + weights[1]).argmax(1) == answers
    assert right.mean() > 0.93


def test_training_goes_on_to_the_same_weights(digits: Any) -> None:
    """Stopped within an epoch and taken up by new objects, on all devices: equal bit for bit."""

    def pipeline() -> Any:
        ds = fl.Dataset.from_tensor_slices(digits[0]).shuffle(200, seed=1)
        ds = ds.map(lambda x, y: (x + fl.random.normal([64], stddev=0.1, seed=3), y))
        return ds.batch(100, drop_remainder=True).to_jax(sharding="data")

    @jax.jit
    def step(weights: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()

        return weights - 0.5 * jax.grad(loss)(weights)

    def train(weights: Any, batches: Any, steps: int) -> Any:
        for _ in range(steps):
            weights = step(weights, *next(batches))
        return weights

    def epochs(arrays: Any) -> Any:
        while True:
            yield from arrays

    whole = train(jnp.zeros((64, 10)), epochs(pipeline()), 38)
    arrays = pipeline()
    part = train(jnp.zeros((64, 10)), epochs(arrays), 22)
    kept = np.asarray(part), json.dumps(arrays.state_dict())

    arrays = pipeline()
    arrays.load_state_dict(json.loads(kept[1]))
    resumed = train(jnp.asarray(kept[0]), epochs(arrays), 16)
    np.testing.assert_array_equal(np.asarray(whole), np.asarray(resumed))
