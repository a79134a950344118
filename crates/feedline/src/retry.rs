//! Elements that were quarantined, treated again: by the operator that failed and by those behind it, as long as each of
//! them makes one element of one.

use crate::element::{Element, Spec};
use crate::error::{Error, Result};
use crate::op::Bound as Call;
use crate::ops::filter::Filter;
use crate::ops::map::Map;
use crate::plan::{Bound, Plan};
use crate::runtime::Quarantined;
use std::sync::Arc;

/// What became of an element.
pub enum Retried {
    /// It is fine now: what the last operator made of it, and its spec.
    Made(Element, Spec),
    /// It is fine now, and a filter takes it out.
    Filtered,
}

/// Treats a quarantined element as the pass did in which it failed: with the same random numbers. An error if it fails
/// again; a usage error if this dataset cannot treat it, because it was not kept or belongs to another dataset.
pub fn retry(bound: &Bound, entry: &Quarantined) -> Result<Retried> {
    let plan = bound.plan.rewritten()?.plan;
    let mut element = entry.input.clone().ok_or_else(|| {
        let what = &entry.operator;
        Error::usage(format!("{what} failed before there was an element: what it read has to be read again"))
    })?;
    let mut chain = behind(&plan, entry)?.into_iter().peekable();
    let first = chain.peek().expect("the operator itself");
    let fits = first.inputs[0].spec.leaves();
    if fits.len() != element.len() || !fits.iter().zip(&element).all(|(leaf, value)| leaf.accepts(value)) {
        return Err(foreign(entry));
    }
    let mut spec = first.inputs[0].spec.clone();
    let captures: Arc<[_]> = bound.env.iter().map(|v| crate::expr::Arg::Same(v.clone())).collect();
    for node in chain {
        let (function, filters) = match (node.is::<Map>(), node.is::<Filter>()) {
            (Some(map), _) => (&map.function, false),
            (_, Some(filter)) => (&filter.predicate, true),
            _ => break,
        };
        let call = Call { graph: function.0.clone(), captures: captures.clone(), epoch: entry.key };
        let made = call.call(&element, entry.position.unwrap_or(0)).map_err(|e| e.in_op(node.name()))?;
        match filters {
            true if !made[0].as_tensor().is_some_and(|t| t.len() == 1 && t.bytes()[0] != 0) => {
                return Ok(Retried::Filtered);
            }
            true => {}
            false => (element, spec) = (made, node.spec.clone()),
        }
    }
    Ok(Retried::Made(element, spec))
}

/// The operator that failed, and those behind it.
fn behind(plan: &Plan, entry: &Quarantined) -> Result<Vec<Plan>> {
    let mut all: Vec<Plan> = Vec::new();
    plan.walk(&mut |p| all.push(p.clone()));
    let number = entry.number.ok_or_else(|| {
        Error::usage(format!("{} failed in a dataset inside of a function: give that dataset to retry", entry.operator))
    })?;
    let failed = usize::try_from(number).ok().and_then(|n| all.get(n)).filter(|p| p.name() == entry.operator);
    let mut chain = vec![failed.ok_or_else(|| foreign(entry))?.clone()];
    if chain[0].is::<Map>().is_none() && chain[0].is::<Filter>().is_none() {
        return Err(Error::usage(format!(
            "{} does not treat elements one by one: run the dataset again",
            entry.operator
        )));
    }
    while let Some(next) = all.iter().find(|p| p.inputs.iter().any(|i| i.same(&chain[chain.len() - 1]))) {
        chain.push(next.clone());
    }
    Ok(chain)
}

#[cold]
fn foreign(entry: &Quarantined) -> Error {
    let (op, number) = (&entry.operator, entry.number.map_or(String::new(), |n| format!(" (number {n})")));
    Error::usage(format!(
        "this dataset has no operator {op}{number} that takes such elements: another one was quarantined"
    ))
}
