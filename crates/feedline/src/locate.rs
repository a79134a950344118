//! Where a row of a pass came from, and how it became what it is.
//!
//! The pass is run again from where it started, or from a state, by a copy of the plan: once to find the origin of the row,
//! and once more to keep what each operator made of it. Results depend on seeds, epochs and positions alone, so the copy
//! makes the same elements; it takes as long as the pass took to get there, or less, since nobody trains on what it gives.

use crate::dataset::as_run;
use crate::element::Origin;
use crate::error::{Error, Kind, Result};
use crate::expr::{Attrs, Func};
use crate::options::Options;
use crate::plan::{Becomes, Bound, Copies, Plan};
use crate::runtime::{Iter, Seen, Start, State, Trace, process_pool};
use std::sync::Arc;

/// Where a row came from.
#[derive(Clone, Debug)]
pub struct Located {
    pub step: u64,
    pub row: Option<u64>,
    /// The number of the pass.
    pub epoch: u64,
    /// Rows of sources: one, or several where an operator put them together.
    pub origins: Vec<Origin>,
    /// What each operator made of it, in their order; the operators as they were written, where that is possible.
    pub stages: Vec<Seen>,
    pub draws: Vec<Draw>,
}

/// Random numbers that a function drew for the row: they follow from these alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub op: &'static str,
    pub function: &'static str,
    pub seed: u64,
    /// Which of the calls with that seed it is.
    pub call: u64,
    /// The pass as the function knows it, and the row's position.
    pub epoch: u64,
    pub position: u64,
}

/// Finds row `row` (of a batch) of what was delivered as number `step` in the pass that began like that.
/// `interrupted` is asked now and then; its error ends the search.
pub fn locate(
    bound: &Bound,
    options: Option<Options>,
    start: &Start,
    step: u64,
    row: Option<u64>,
    interrupted: &mut dyn FnMut() -> Result<()>,
) -> Result<Located> {
    if bound.plan.options.deterministic == Some(false) {
        return Err(Error::new(
            Kind::Precondition,
            "with deterministic=False each run has another order: no later one tells where a row came from",
        ));
    }
    let runs = as_run(&copied(bound)?, options.clone())?;
    let trace = Arc::new(Trace::default());
    let found = delivered(Iter::again(&runs, start, trace, process_pool())?, step, interrupted)?;
    let origin = match (found, row) {
        (Origin::Rows(all), Some(row)) => {
            let count = all.len();
            let missing = || Error::range(format!("element {step} has {count} rows; row {row} was asked for"));
            usize::try_from(row).ok().and_then(|row| all.get(row)).ok_or_else(missing)?.clone()
        }
        (one, None | Some(0)) => one,
        (_, Some(row)) => {
            return Err(Error::range(format!(
                "element {step} is no batch whose rows are known; row {row} was asked for"
            )));
        }
    };
    let mut origins = Vec::new();
    origin.rows(&mut |row| origins.push(row.clone()));
    let trace = Arc::new(Trace::watching(origins[0].clone()));
    // The operators as written say more than fused ones; but a state fits only the plan as it runs, and so may seeds.
    let written = Options { rewrite: Some(false), ..options.clone().unwrap_or_default() };
    let shown = as_run(&copied(bound)?, Some(written))?;
    let (shown, iter) = match Iter::again(&shown, start, trace.clone(), process_pool()) {
        Ok(iter) => (shown, iter),
        Err(_) => {
            let runs = as_run(&copied(bound)?, options)?;
            let iter = Iter::again(&runs, start, trace.clone(), process_pool())?;
            (runs, iter)
        }
    };
    delivered(iter, step, interrupted)?;
    let stages = trace.seen();
    let mut draws = Vec::new();
    shown
        .bound
        .plan
        .walk(&mut |node| stages.iter().filter(|s| s.node == node.id).for_each(|seen| drawn(node, seen, &mut draws)));
    Ok(Located { step, row, epoch: start.epoch(), origins, stages, draws })
}

/// The same plan, without what passes over it have left in it.
fn copied(bound: &Bound) -> Result<Bound> {
    let plan = Copies::new(&|_| Becomes::Copied, None).of(&bound.plan)?;
    Ok(Bound { plan, env: bound.env.clone() })
}

/// The origin of what is delivered as number `step`.
fn delivered(mut iter: Iter, step: u64, interrupted: &mut dyn FnMut() -> Result<()>) -> Result<Origin> {
    if iter.delivered() > step {
        let from = iter.delivered();
        return Err(Error::usage(format!("the state was taken behind element {step}: it goes on with element {from}")));
    }
    loop {
        while let Some((chunk, row)) = iter.next_ready() {
            let lost = Origin::Lost("an operator that mixes rows");
            let origin = chunk.pos.origin(row).cloned().unwrap_or(lost);
            if iter.delivered() > step {
                return Ok(origin);
            }
        }
        match iter.fetch(interrupted) {
            Ok(true) => {}
            Ok(false) => {
                let count = iter.delivered();
                return Err(Error::range(format!("the pass has {count} elements; element {step} was asked for")));
            }
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            // It stood in the place of an element when the pass ran, too.
            Err(_) => {}
        }
    }
}

/// The random functions that an operator called for a row.
fn drawn(node: &Plan, seen: &Seen, out: &mut Vec<Draw>) {
    let mut note = |func: &'static Func, attrs: &Attrs| {
        let attrs = crate::expr::chance::now(attrs.clone());
        let number = |name: &str| attrs.get(name).and_then(|v| v.as_u64().or(v.as_i64().map(|i| i as u64)));
        if !func.pure && (number("seed").is_some() || number("use").is_some()) {
            let (seed, call) = (number("seed").unwrap_or(0), number("use").unwrap_or(0));
            let (epoch, position) = (seen.epoch, seen.position);
            out.push(Draw { op: seen.op, function: func.name, seed, call, epoch, position });
        }
    };
    node.op.functions().iter().for_each(|function| function.0.calls(&mut note));
}

impl crate::Dataset {
    /// Where row `row` of element `step` of the last pass came from; of a first pass, if there was none.
    pub fn locate(&self, step: u64, row: Option<u64>) -> Result<Located> {
        let bound = Bound { plan: self.plan().clone(), env: Arc::new([]) };
        locate(&bound, None, &start_of(&bound, None)?, step, row, &mut || Ok(()))
    }
}

/// Where the last pass over a dataset began, or a state.
pub fn start_of(bound: &Bound, state: Option<State>) -> Result<Start> {
    match state {
        Some(state) => Ok(Start::State(Box::new(state))),
        None => match bound.plan.meters().and_then(|m| m.start()) {
            Some(start) => Ok(start),
            None => Ok(Start::first(&as_run(bound, None)?.bound.plan)),
        },
    }
}
