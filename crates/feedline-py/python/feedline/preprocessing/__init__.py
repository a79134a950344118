"""`fl.preprocessing`: what pictures go through before training, under the names of `keras.preprocessing`."""

from __future__ import annotations

from . import image
from .image import ImageDataGenerator

__all__ = ["ImageDataGenerator", "image"]
