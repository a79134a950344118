"""Crops, flips, turns: pixels that move and do not change."""

from __future__ import annotations

__all__: list[str] = []
