//! Brightness, contrast, hue and the like.

use super::super::super::Func;

pub static FUNCS: &[Func] = &[];
