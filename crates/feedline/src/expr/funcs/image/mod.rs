//! Functions on pictures, by subject. `feedline-image` has the pixels; here are types, shapes and rows.

mod affine;
mod augment;
mod codec;
mod colour;
mod each;
mod geometry;
mod resize;

use super::super::Func;

/// Every function on pictures, by file.
pub static FUNCS: &[&[Func]] =
    &[affine::FUNCS, augment::FUNCS, codec::FUNCS, colour::FUNCS, geometry::FUNCS, resize::FUNCS];
