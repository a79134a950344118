//! Pictures: how bytes become pixels, and what is done to pixels. Slices in and out; no dataset, no threads, no I/O.
//!
//! A picture is `height x width x channels` items, row after row. Functions write into memory that the caller brings, so
//! that a picture can be made where its batch lies.

pub mod affine;
pub mod augment;
pub mod codec;
pub mod colour;
pub mod filter;
#[doc(hidden)]
pub mod fuzzing;
pub mod geometry;
pub mod mixing;
pub mod orient;
pub mod resize;

pub use feedline_io::{Error, Result};

/// The sizes of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
}

impl Size {
    pub const fn new(height: usize, width: usize, channels: usize) -> Size {
        Size { height, width, channels }
    }
    /// Items of a row.
    pub const fn stride(&self) -> usize {
        self.width * self.channels
    }
    /// Items of the picture.
    pub const fn items(&self) -> usize {
        self.height * self.stride()
    }
}
