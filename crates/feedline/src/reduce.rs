//! `reduce`: a whole pass folded into one value.

use crate::dataset::Dataset;
use crate::element::{Element, Value};
use crate::error::{Error, Result};
use crate::expr::Arg;
use crate::op::{Bound as Call, Function};
use crate::plan::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Dataset {
    /// Folds all elements into a state: `function` makes the next one of a state and an element.
    pub fn reduce(&self, initial: Vec<Value>, function: &Function) -> Result<Element> {
        reduce(&Bound { plan: self.plan().clone(), env: Arc::new([]) }, initial, function)
    }
}

/// Folds all elements into a state, which starts as `initial`. The first error is returned.
pub fn reduce(bound: &Bound, initial: Vec<Value>, function: &Function) -> Result<Element> {
    reduce_watched(bound, initial, function, &mut || Ok(()))
}

/// The same; `interrupted` is asked now and then while it waits for data, and its error ends the pass.
pub fn reduce_watched(
    bound: &Bound,
    initial: Vec<Value>,
    function: &Function,
    interrupted: &mut dyn FnMut() -> Result<()>,
) -> Result<Element> {
    check(bound, &initial, function).map_err(|e| e.in_op("reduce"))?;
    let captures = bound.env.iter().map(|v| Arg::Same(v.clone())).collect();
    let call = Call { graph: function.0.clone(), captures, epoch: 0 };
    let mut state: Element = initial.into();
    let mut iter = crate::iterate(bound)?;
    let mut pos = 0;
    let mut looked = Instant::now();
    while iter.fetch(interrupted)? {
        if looked.elapsed() > Duration::from_millis(50) {
            looked = Instant::now();
            interrupted()?;
        }
        // All rows that are there, with one trip into whatever the function needs around it.
        let mut failed = None;
        call.scoped(&mut || {
            while let Some((chunk, row)) = iter.next_ready() {
                let args: Element = state.iter().cloned().chain(chunk.element(row)).collect();
                match call.call_scoped(&args, pos) {
                    Ok(next) => state = next,
                    Err(error) => {
                        failed = Some(error.in_op("reduce").at_element(pos));
                        return;
                    }
                }
                pos += 1;
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(state)
}

/// The function takes a state and an element, and gives a state of the same dtypes; shapes may grow.
fn check(bound: &Bound, initial: &[Value], function: &Function) -> Result<()> {
    let (inputs, elements) = (&function.0.inputs, bound.plan.spec.leaves());
    let outputs = function.spec().leaves();
    if inputs.len() != initial.len() + elements.len() {
        return Err(Error::usage("the function was traced for another state or for elements of another spec"));
    }
    if outputs.len() != initial.len() {
        return Err(Error::usage(format!(
            "the function must return a state of the structure that it got, but returns {}",
            function.spec()
        )));
    }
    for ((value, input), output) in initial.iter().zip(inputs).zip(outputs) {
        let own = crate::element::Leaf::of(value);
        if own.is_some_and(|own| own.join(input).is_none()) || input.join(output).is_none() {
            return Err(Error::usage(format!(
                "the state must keep its dtype, but the function gets {input} and returns {output}; cast the result"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{DType, Spec, Tensor, Tree};
    use crate::expr::{Attrs, Builder};

    fn add(state: DType) -> Function {
        let mut b = Builder::new(&Spec::tuple(vec![Spec::scalar(state), Spec::scalar(DType::Int64)]));
        let out = b.call("add", &[0, 1], Attrs::default()).unwrap();
        Function::new(b.finish(&Tree::Leaf(out)))
    }

    #[test]
    fn elements_are_folded_in_order() {
        let sum = |n| Dataset::range(n).unwrap().reduce(vec![Tensor::scalar(5i64).into()], &add(DType::Int64));
        assert_eq!(sum(5).unwrap()[0].tensor().item::<i64>(), 15);
        assert_eq!(sum(0).unwrap()[0].tensor().item::<i64>(), 5);
    }

    #[test]
    fn the_first_error_is_returned() {
        let bad = Dataset::range(5).unwrap().map_fn(Spec::scalar(DType::Int64), |_| Err(Error::data("bad"))).unwrap();
        let error = bad.reduce(vec![Tensor::scalar(0i64).into()], &add(DType::Int64)).unwrap_err();
        assert_eq!(error.message(), "bad");
        let other = Dataset::range(5).unwrap().reduce(vec![Tensor::scalar(0i32).into()], &add(DType::Int64));
        assert!(other.is_err(), "another dtype");
    }
}
