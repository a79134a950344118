"""Counts the runs of Python code (host functions, generators), which some cases check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Calls:
    """How often Python code ran in one case."""

    total: int = 0

    def add(self) -> None:
        """One more run."""
        self.total += 1
