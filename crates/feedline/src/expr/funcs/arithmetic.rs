//! Arithmetic, comparison and logic, item by item with broadcasting.

use super::super::{Attrs, Func, Made};
use crate::element::Leaf;
use crate::error::Result;

pub static FUNCS: &[Func] = &[];

#[allow(dead_code)]
fn sketch(_: &[Leaf], _: &Attrs) -> Result<Made> {
    unreachable!()
}
