//! The state of an iterator: where its consumer is, in a form that can be written as JSON and taken elsewhere.

use super::mark::{self, Saved, unfit};
use super::seed::Seeds;
use super::sync::atomic::AtomicBool;
use crate::error::{Error, Result};
use crate::plan::{Outline, Plan};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::Arc;

/// Changes whenever states of before cannot be read any more.
const VERSION: u64 = 1;

#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(super) plan: Outline,
    pub(super) epoch: u64,
    pub(super) seeds: Vec<Seeds>,
    pub(super) at: Vec<Saved>,
    pub(super) delivered: u64,
    pub(super) ended: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    plan: Outline,
    epoch: u64,
    seeds: Vec<Seeds>,
    at: Json,
    delivered: u64,
    ended: bool,
}

/// Where the seeds of all operators of a plan stand in a pass, those inside functions included.
pub(super) fn seeds_of(plan: &Plan, finished: &Arc<AtomicBool>) -> Vec<Seeds> {
    let mut all = Vec::new();
    plan.walk_all(&mut |p| all.extend(p.op.seeds().map(|s| s.save(finished))));
    all
}

/// Leaves out so many more of what comes from there on.
pub(super) fn leave_out(at: &mut [Saved], rows: u64) {
    if let Some(Saved::Number(n)) = at.first_mut() {
        *n += rows;
    }
}

impl State {
    /// How many elements were delivered before it was taken.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
    /// The number of the pass that it was taken in.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        self.plan.check(&Outline::of(plan)?)
    }
    /// Sets the seeds of a plan's operators to where they were.
    pub(super) fn set_seeds(&self, plan: &Plan, finished: &Arc<AtomicBool>) -> Result<()> {
        let mut seeds = self.seeds.iter();
        let mut missing = false;
        plan.walk_all(&mut |p| {
            if let Some(own) = p.op.seeds() {
                match seeds.next() {
                    Some(seeds) => own.restore(finished, seeds),
                    None => missing = true,
                }
            }
        });
        if missing || seeds.next().is_some() { Err(unfit()) } else { Ok(()) }
    }
    pub fn to_json(&self) -> Result<Json> {
        let State { plan, epoch, seeds, at, delivered, ended } = self.clone();
        let at = mark::to_json(&at)?;
        Ok(serde_json::to_value(Written { version: VERSION, plan, epoch, seeds, at, delivered, ended })?)
    }
    pub fn from_json(json: &Json) -> Result<State> {
        match json.get("version").and_then(Json::as_u64) {
            Some(VERSION) => {}
            Some(n) => {
                return Err(Error::usage(format!(
                    "the state is of version {n}, and this feedline reads version {VERSION}: it was taken by another release"
                )));
            }
            None => return Err(Error::usage("not a state of an iterator: take one with state_dict()")),
        }
        let Written { plan, epoch, seeds, at, delivered, ended, .. } = serde_json::from_value(json.clone())
            .map_err(|e| Error::usage(format!("not a state of an iterator: {e}")))?;
        Ok(State { plan, epoch, seeds, at: mark::from_json(&at)?, delivered, ended })
    }
}
