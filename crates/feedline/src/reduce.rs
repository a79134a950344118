//! `reduce`: a whole pass folded into one value.

use crate::element::{Element, Value};
use crate::error::{Error, Result};
use crate::expr::RowAt;
use crate::op::Function;
use crate::plan::Bound;

/// Folds all elements into a state, which starts as `initial`. The first error is returned.
pub fn reduce(bound: &Bound, initial: Vec<Value>, function: &Function) -> Result<Element> {
    let mut state: Element = initial.into();
    for (pos, element) in crate::iterate(bound)?.enumerate() {
        let args: Element = state.iter().cloned().chain(element?).collect();
        let at = RowAt { epoch: 0, pos: pos as u64 };
        let next = match function.0.host_fn() {
            None => function.0.eval_one(&args, &[], at),
            Some(host) => {
                let mut result = Err(Error::internal("the host function's scope did not run"));
                host.scoped(&mut || result = function.0.eval_one(&args, &[], at));
                result
            }
        };
        state = next.map_err(|e| e.in_op("reduce").at_element(pos as u64))?;
    }
    Ok(state)
}
