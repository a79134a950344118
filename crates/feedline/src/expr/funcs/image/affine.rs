//! Pictures moved by a matrix.

use super::super::super::Func;

pub static FUNCS: &[Func] = &[];
