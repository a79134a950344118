"""The random forms: each element draws its own numbers, the same for any number of threads."""

from __future__ import annotations

__all__: list[str] = []
