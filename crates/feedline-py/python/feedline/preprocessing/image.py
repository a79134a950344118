"""`fl.preprocessing.image`: the generator of augmented pictures, and resizing without distortion."""

from __future__ import annotations

from .generator import ImageDataGenerator
from .resizing import smart_resize

__all__ = ["ImageDataGenerator", "smart_resize"]
