"""Pipelines by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import feedline as fl

Pipeline = Callable[[Path], fl.Dataset]
PIPELINES: dict[str, Pipeline] = {}


def pipeline(make: Pipeline) -> Pipeline:
    """Enters a pipeline under its name."""
    PIPELINES[make.__name__] = make
    return make
