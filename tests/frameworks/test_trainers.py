"""Lightning and Accelerate: a stream as their data, and checkpoints that keep its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import accelerate
import feedline as fl
import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils import data as torch_data

torch.set_num_threads(1)
STEPS = 30
"""Batches of an epoch."""


def stream(digits: Any, **how: Any) -> Any:
    """Some digits in a new order with new noise in each epoch."""
    images, labels = digits[0]
    ds = fl.Dataset.from_tensor_slices((images[: STEPS * 10], labels[: STEPS * 10])).shuffle(100, seed=1)
    return ds.map(lambda x, y: (x + fl.random.normal([64], stddev=0.1, seed=3), y)).batch(10).to_torch(**how)


# Lightning.


class Net(lightning.LightningModule):
    """A linear model, and what it was given."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(64, 10)
        self.seen: list[Any] = []

    def training_step(self, batch: Any, number: int) -> Any:
        x, y = batch
        self.seen.append(y.tolist())
        return torch.nn.functional.cross_entropy(self.layer(x), y)

    def validation_step(self, batch: Any, number: int) -> None:
        x, y = batch
        self.log("right", (self.layer(x).argmax(1) == y).float().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), 5e-3)


def trainer(folder: Path, **how: Any) -> lightning.Trainer:
    saving = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=7, save_top_k=-1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(accelerator="cpu", devices=1, callbacks=[saving], **quiet, **how)


@pytest.mark.filterwarnings("ignore")
def test_lightning_learns(digits: Any, tmp_path: Path) -> None:
    train = fl.Dataset.from_tensor_slices(digits[0]).shuffle(seed=1).batch(50).to_torch()
    validation = fl.Dataset.from_tensor_slices(digits[1]).batch(100).to_torch()
    made = trainer(tmp_path, max_epochs=12)
    made.fit(Net(), train, validation)
    assert made.num_training_batches == 30
    assert made.callback_metrics["right"] > 0.93


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("step", [7, 35, 42])
def test_lightning_goes_on_to_the_same_weights(step: int, digits: Any, tmp_path: Path) -> None:
    """From a checkpoint within the first and the second epoch, with new objects."""
    whole = Net()
    trainer(tmp_path / "whole", max_epochs=2).fit(whole, stream(digits))
    assert len(whole.seen) == 2 * STEPS

    trainer(tmp_path / "cut", max_epochs=2, max_steps=step + 2).fit(Net(), stream(digits))
    again = Net()
    checkpoint = tmp_path / "cut" / f"step={step}.ckpt"
    trainer(tmp_path / "again", max_epochs=2).fit(
        again, stream(digits), ckpt_path=checkpoint, weights_only=False
    )
    assert again.seen == whole.seen[step:]
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


# Accelerate.


def accelerator(folder: Path) -> accelerate.Accelerator:
    how = accelerate.DataLoaderConfiguration(use_stateful_dataloader=True)
    return accelerate.Accelerator(cpu=True, project_dir=str(folder), dataloader_config=how)


def losses(model: Any, optimizer: Any, batches: Any, accelerated: accelerate.Accelerator) -> list[float]:
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerated.backward(loss)
        optimizer.step()
        found.append(loss.item())
    return found


def model() -> tuple[Any, Any]:
    torch.manual_seed(1)
    made = torch.nn.Linear(64, 10)
    return made, torch.optim.Adam(made.parameters(), 5e-3)


@pytest.mark.parametrize("prepared", [True, False], ids=["in a prepared loader", "as it is"])
def test_accelerate_goes_on_to_the_same_weights(prepared: bool, digits: Any, tmp_path: Path) -> None:
    def ready() -> tuple[Any, Any, Any, accelerate.Accelerator]:
        accelerated = accelerator(tmp_path)
        data = stream(digits)
        if prepared:
            data = torch_data.DataLoader(data, batch_size=None)
        net, optimizer, loader = accelerated.prepare(*model(), data)
        if not prepared:
            # Accelerate leaves what is no DataLoader as it is, and keeps the state of whatever has one.
            assert loader is data
            accelerated.register_for_checkpointing(data)
        return net, optimizer, loader, accelerated

    net, optimizer, loader, accelerated = ready()
    losses(net, optimizer, loader, accelerated)
    batches = iter(loader)
    losses(net, optimizer, (next(batches) for _ in range(11)), accelerated)
    accelerated.save_state(tmp_path / "state")
    rest = losses(net, optimizer, batches, accelerated)
    after = losses(net, optimizer, loader, accelerated)
    assert len(rest) == STEPS - 11 and len(after) == STEPS

    net, optimizer, loader, accelerated = ready()
    accelerated.load_state(tmp_path / "state")
    if prepared:
        # Its loaders count epochs from 0 in each process, and tell the data.
        loader.set_epoch(1)
    assert losses(net, optimizer, loader, accelerated) == rest
    assert losses(net, optimizer, loader, accelerated) == after


def test_a_state_is_plain_data(digits: Any) -> None:
    """So that any of their ways to store it will do."""
    data = stream(digits)
    next(iter(data))
    state = data.state_dict()
    assert json.loads(json.dumps(state)) == state
