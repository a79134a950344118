//! Pictures in another size.

use super::super::super::Func;

pub static FUNCS: &[Func] = &[];
