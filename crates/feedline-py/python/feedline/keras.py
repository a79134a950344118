"""`feedline.keras`: what feedline offers to programs written for Keras, beside `model.fit(ds)`."""

from __future__ import annotations

from .frameworks.backup import BackupAndRestore
from .frameworks.keras import Data

__all__ = ["BackupAndRestore", "Data"]
