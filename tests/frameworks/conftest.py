"""Tests with training frameworks: those that the environment has are collected, and the header says which
not.

`make test` runs them with Keras on JAX, `make test-frameworks` with PyTorch and TensorFlow too, each in an
environment of its own under .venvs.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


BACKENDS = [name for name in ("jax", "torch", "tensorflow") if _has(name)]
# Two that run other files, whose own imports say nothing.
NEEDS = {"test_examples.py": {"keras"}, "test_migrate.py": {"keras"}}


def _needs(file: Path) -> set[str]:
    """The modules that a file of tests imports at its top: read from it, so that no new file is forgotten."""
    names = NEEDS.get(file.name, set())
    for line in ast.parse(file.read_bytes()).body:
        if isinstance(line, ast.Import):
            names = names | {name.name for name in line.names}
        elif isinstance(line, ast.ImportFrom) and line.module and not line.level:
            names = names | {line.module}
    return {name.partition(".")[0] for name in names}


FILES = sorted(Path(__file__).parent.glob("test_*.py"))
collect_ignore = [file.name for file in FILES if not all(map(_has, _needs(file)))]

if BACKENDS:
    # Before anything imports them.
    os.environ.setdefault("KERAS_BACKEND", BACKENDS[0])
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def pytest_report_header() -> list[str]:
    """Says what is not collected, so that no gap is silent."""
    here = f"frameworks here: {', '.join(BACKENDS) or 'none'}"
    return [f"{here}; not collected: {', '.join(collect_ignore) or 'nothing'}"]


Split = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


@pytest.fixture(scope="session")
def digits() -> tuple[Split, Split]:
    """scikit-learn's handwritten digits, 8 x 8, from 0 to 1: for training, and for validation."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, validation = order[:1500], order[1500:]
    return (images[train], labels[train]), (images[validation], labels[validation])
