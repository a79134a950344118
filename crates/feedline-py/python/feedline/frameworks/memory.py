"""Arrays as frameworks may have them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["writable"]


def writable(leaf: Any) -> Any:
    """An array that nobody else reads. What a cache keeps for later passes can only be read, which a tensor
    of most frameworks cannot be told: such an array is copied.
    """
    return leaf.copy() if isinstance(leaf, np.ndarray) and not leaf.flags.writeable else leaf
