//! Crops, flips, turns: pixels that move and do not change.

use crate::Size;

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    pub y: usize,
    pub x: usize,
    pub height: usize,
    pub width: usize,
}

impl Rect {
    /// Whether it has pixels, and all of them lie in the picture.
    pub fn fits(&self, size: Size) -> bool {
        let inside = |at: usize, len: usize, all: usize| len > 0 && at.checked_add(len).is_some_and(|end| end <= all);
        inside(self.y, self.height, size.height) && inside(self.x, self.width, size.width)
    }
}
