//! From bytes to pixels and back.

use super::super::super::Func;

pub static FUNCS: &[Func] = &[];
