//! Crops, flips, turns.

use super::super::super::Func;

pub static FUNCS: &[Func] = &[];
