"""What a pass over a dataset comes to when some of its elements fail."""

from __future__ import annotations

from typing import Any


def outcomes(dataset: Any) -> list[Any]:
    """The elements of a pass, and in the places of those that failed the exceptions."""
    found: list[Any] = []
    iterator = iter(dataset)
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(error)
