"""PyTorch: tensors from a dataset, and a run that goes on where it was stopped.

python examples/pytorch.py
"""

from __future__ import annotations

import feedline as fl
import numpy as np
import torch


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on two spirals, and which one each is on."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    turns = random.uniform(0.4, 1.6, count)
    angles = turns * np.pi + labels * np.pi
    points = np.stack([turns * np.cos(angles), turns * np.sin(angles)], 1)
    return points.astype(np.float32), labels


def pipeline() -> fl.Dataset:
    """Points that are shaken a little, otherwise in each epoch."""
    ds = fl.Dataset.from_tensor_slices(spirals(2000, seed=1)).shuffle(seed=1)
    ds = ds.map(lambda point, label: (point + fl.random.normal([2], stddev=0.02, seed=2), label))
    return ds.batch(50)


def main() -> None:
    """Trains, stops in the middle of an epoch, and goes on with new objects."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 2),
    )
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)

    def train(batches) -> None:
        for points, labels in batches:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(points), labels).backward()
            optimiser.step()

    # No DataLoader is needed: the pipeline has threads of its own. In one, workers would share the batches.
    data = pipeline().to_torch()
    for _ in range(6):
        train(data)
    batches = iter(data)
    train(next(batches) for _ in range(7))
    checkpoint = {"data": data.state_dict(), "model": model.state_dict()}

    data = pipeline().to_torch()
    data.load_state_dict(checkpoint["data"])
    for _ in range(7):
        train(data)

    points, labels = spirals(500, seed=2)
    right = model(torch.from_numpy(points)).argmax(1).numpy() == labels
    print(f"{right.mean():.1%} of new points are right")
    assert right.mean() > 0.95


if __name__ == "__main__":
    main()
