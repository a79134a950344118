//! Functions on pictures, by subject. `feedline-image` has the pixels; here are types, shapes and rows.

mod affine;
mod boxes;
mod chain;
mod codec;
mod colour;
mod dtype;
mod filter;
mod geometry;
mod pictures;
mod resize;

use super::super::Func;

/// Every function on pictures, by file.
pub static FUNCS: &[&[Func]] = &[
    affine::FUNCS,
    boxes::FUNCS,
    chain::FUNCS,
    codec::FUNCS,
    colour::FUNCS,
    dtype::FUNCS,
    filter::FUNCS,
    geometry::FUNCS,
    resize::FUNCS,
];
