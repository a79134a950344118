//! Functions on pictures, by subject. `feedline-image` has the pixels; here are types, shapes and rows.

mod affine;
mod augment;
mod boxes;
mod chain;
mod codec;
mod colour;
mod dtype;
mod each;
mod filter;
mod geometry;
mod mixing;
mod pictures;
mod resize;

use super::super::Func;

/// Every function on pictures, by file.
pub static FUNCS: &[&[Func]] = &[
    affine::FUNCS,
    augment::FUNCS,
    boxes::FUNCS,
    chain::FUNCS,
    codec::FUNCS,
    colour::FUNCS,
    dtype::FUNCS,
    filter::FUNCS,
    geometry::FUNCS,
    mixing::FUNCS,
    resize::FUNCS,
];
