"""Datasets in training frameworks, a file each: torch, keras, jax, tensorflow.

Each file imports its framework, and is imported itself only when one of its methods is called; `import
feedline` needs none of them.
"""

from __future__ import annotations

import sys

__all__ = ["meet"]

_met = False


def meet() -> None:
    """Lets a Keras that the program has imported take datasets as they are: `model.fit(ds)`."""
    global _met
    if _met or "keras" not in sys.modules:
        return
    _met = True
    try:
        from . import keras as _  # noqa: F401
    except ImportError as error:
        # Nobody may want to fit a dataset, so this is no error yet; to_keras() raises it.
        import logging

        logging.getLogger("feedline").info("model.fit(ds) is not available: %s", error)
