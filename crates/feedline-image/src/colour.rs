//! Brightness, contrast, hue and the like.
