"""`feedline.torch`: what feedline offers to programs written for PyTorch."""

from __future__ import annotations

from .frameworks.torch import DataLoader, Items, Stream, rank_and_count

__all__ = ["DataLoader", "Items", "Stream", "rank_and_count"]
