"""Datasets in training frameworks, a file each: torch, keras, jax, tensorflow.

Each file imports its framework, and is imported itself only when one of its methods is called; `import
feedline` needs none of them.
"""

from __future__ import annotations

import sys

__all__ = ["meet"]


def meet() -> None:
    """Lets a Keras that the program has imported take datasets as they are: `model.fit(ds)`."""
    if "keras" in sys.modules and "feedline.frameworks.keras" not in sys.modules:
        try:
            from . import keras as _  # noqa: F401
        except ImportError:
            # Another Keras than 3: to_keras() says so. Here nobody has asked.
            sys.modules["feedline.frameworks.keras"] = None  # type: ignore[assignment]
