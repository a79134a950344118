//! The functions that expressions can call, by room. Adding one: write it in its file and name it in that file's list.
#![cfg_attr(test, allow(clippy::cloned_ref_to_slice_refs))]

mod arithmetic;
mod arrange;
mod broadcast;
mod cast;
mod check;
mod create;
pub mod csv;
mod example;
mod farmhash;
mod files;
#[cfg(feature = "image")]
mod image;
mod index;
mod integer;
mod io;
#[cfg(test)]
mod laws;
mod lead;
mod lookup;
mod math;
mod matmul;
mod number;
pub mod philox;
mod printf;
mod ragged;
mod random;
mod reduce;
mod select;
mod shape;
mod sort;
mod split;
mod strings;
#[cfg(test)]
mod testing;

pub use farmhash::fingerprint64;
pub use philox::Philox;

use super::Func;
use crate::error::{Error, Result};

/// Every function, by file.
pub static FUNCS: &[&[Func]] = &[
    arithmetic::FUNCS,
    arrange::FUNCS,
    cast::FUNCS,
    check::FUNCS,
    create::FUNCS,
    csv::FUNCS,
    example::FUNCS,
    files::FUNCS,
    index::FUNCS,
    io::FUNCS,
    lookup::FUNCS,
    matmul::FUNCS,
    math::FUNCS,
    ragged::FUNCS,
    random::FUNCS,
    reduce::FUNCS,
    select::FUNCS,
    shape::FUNCS,
    sort::FUNCS,
    split::FUNCS,
    strings::FUNCS,
];

#[cfg(not(feature = "image"))]
static PICTURES: &[&[Func]] = &[];
#[cfg(feature = "image")]
use image::FUNCS as PICTURES;

pub fn all() -> impl Iterator<Item = &'static Func> {
    FUNCS.iter().chain(PICTURES).copied().flatten()
}

pub fn find(name: &str) -> Result<&'static Func> {
    all().find(|f| f.name == name).ok_or_else(|| Error::usage(format!("there is no function {name:?}")))
}

/// The argument that gives the result's shape, where a function also takes it as the attribute `shape`.
pub fn shape_arg(name: &str) -> Option<usize> {
    match name {
        "fill" => Some(0),
        "reshape" | "broadcast_to" => Some(1),
        _ => None,
    }
}
