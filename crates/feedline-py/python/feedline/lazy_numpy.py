"""NumPy, imported when something of it is first used: it takes longer to import than all of feedline.

Files that `import feedline` reads write `from .lazy_numpy import np`. They may use `np.` in functions and
annotations, but not while they are imported themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _NumPy:
        """Stands for the module, and keeps what was asked for, so that asking again costs nothing."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _NumPy()

__all__ = ["np", "with_numpy"]


def with_numpy() -> None:
    """Imports NumPy now, before native code does: a thread that dies with the interpreter while it imports
    must have no native frames below it.
    """
    _ = np.ndarray
