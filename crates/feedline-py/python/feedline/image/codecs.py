"""From bytes to pixels and back."""

from __future__ import annotations

__all__: list[str] = []
