"""Brightness, contrast, hue and the like."""

from __future__ import annotations

__all__: list[str] = []
