//! The functions that expressions can call, by room. Adding one: write it in its file and name it in that file's list.

mod arithmetic;
mod broadcast;
mod cast;
mod integer;
mod lead;
mod number;
#[cfg(test)]
mod testing;

use super::Func;
use crate::error::{Error, Result};

/// Every function, by file.
pub static FUNCS: &[&[Func]] = &[arithmetic::FUNCS, cast::FUNCS];

pub fn all() -> impl Iterator<Item = &'static Func> {
    FUNCS.iter().copied().flatten()
}

pub fn find(name: &str) -> Result<&'static Func> {
    all().find(|f| f.name == name).ok_or_else(|| Error::usage(format!("there is no function {name:?}")))
}
