//! The state of an iterator: where its consumer is, in a form that can be written as JSON and taken elsewhere.

use super::build::{BuildCx, Run};
use super::given::Given;
use super::iter::Runs;
use super::mark::{self, At, Mark, Saved, unfit};
use super::ranks::{self, Rests, Share};
use super::seed::Seeds;
use super::sync::atomic::AtomicBool;
use super::{LeftOut, Meters, Tally};
use crate::error::{Error, Result};
use crate::expr::chance;
use crate::expr::funcs::fingerprint64;
use crate::plan::{Outline, Plan};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Changes whenever states of before cannot be read any more.
const VERSION: u64 = 11;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub(super) plan: Outline,
    pub(super) epoch: u64,
    pub(super) seeds: Vec<Seeds>,
    /// Nothing where the plan begins by itself where it goes on.
    #[serde(skip_serializing, deserialize_with = "read_marks")]
    pub(super) at: Option<Vec<Saved>>,
    pub(super) delivered: u64,
    /// How many errors were raised by then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) failed: u64,
    pub(super) ended: bool,
    /// Which part of how many each `shard` gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) shards: Vec<Share>,
    /// What operators had left out by then, ahead of the consumer too; exact counts are in the marks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<LeftOut>,
    /// Which parts of how many functions read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inside: Vec<Share>,
    /// Of which pass each cache keeps the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kept: Vec<Option<Json>>,
    /// Seeds of random functions that were given none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) drawn: Vec<u64>,
    /// The name of the pass; 0 if it matters to nobody.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) pass: u64,
    /// Which part of how many it is of, where `shard` divides the elements: that of the topmost one, then that of the one
    /// whose part that divides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) part: Vec<Share>,
    /// What the pass was divided into before, the rests of which it reads (`ranks.rs`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Rests>,
    /// The states of all other parts: then it is that of all ranks.
    #[serde(skip)]
    pub(super) others: Vec<State>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn read_marks<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Vec<Saved>>, D::Error> {
    mark::from_json(&Json::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

/// Where an iterator was. Its state is found out when it is asked for: until then it costs next to nothing.
pub struct Moment {
    pub(super) mark: Mark,
    /// Rows to be left out of what comes from there on.
    pub(super) row: u64,
    /// The state but for that.
    pub(super) rest: State,
}

impl Moment {
    pub fn state(&self) -> Result<State> {
        let mut state = self.rest.clone();
        let mut mark = Mark::default();
        match self.row {
            0 => mark.extend(&self.mark),
            _ => mark.extend_again(&self.mark),
        }
        let mut at = Vec::new();
        mark.saved(&mut at)?;
        Given::leave_out(&mut at, self.row);
        state.at = Some(at);
        Ok(state)
    }
}

/// What the operators of a pass have left out.
pub(super) fn left_out_of(meters: &Meters) -> Vec<LeftOut> {
    let one = |t: &Arc<Tally>| {
        let elements = t.left_out.load(std::sync::atomic::Ordering::Relaxed);
        LeftOut { operator: t.op.into(), number: t.number, elements }
    };
    meters.left_out().iter().map(one).collect()
}

/// Where a pass begins: what another one needs to give the same.
#[derive(Clone, Debug)]
pub enum Start {
    Seeds { epoch: u64, seeds: Vec<Seeds> },
    State(Box<State>),
}

impl Start {
    /// Where the first pass over a plan begins.
    pub fn first(plan: &Plan) -> Start {
        Start::Seeds { epoch: 0, seeds: seeds_of([plan], &Arc::new(AtomicBool::new(false))) }
    }
    pub fn epoch(&self) -> u64 {
        match self {
            Start::Seeds { epoch, .. } => *epoch,
            Start::State(state) => state.epoch,
        }
    }
}

/// Sets the seeds of these plans' operators to where they were.
pub(super) fn set_seeds<'a>(
    seeds: &[Seeds],
    plans: impl IntoIterator<Item = &'a Plan>,
    finished: &Arc<AtomicBool>,
) -> Result<()> {
    let mut seeds = seeds.iter();
    let mut missing = false;
    for plan in plans {
        plan.walk_all(&mut |p| {
            if let Some(own) = p.op.seeds() {
                match seeds.next().filter(|seeds| seeds.are_possible()) {
                    Some(seeds) => own.restore(finished, seeds),
                    None => missing = true,
                }
            }
        });
    }
    if missing || seeds.next().is_some() { Err(unfit()) } else { Ok(()) }
}

/// Which part of how many each `shard` of a plan gives.
pub(super) fn shards_of(plan: &Plan) -> Vec<Share> {
    let mut shards = Vec::new();
    plan.walk(&mut |p| shards.extend(p.op.part()));
    shards
}

/// Sets the first seeds of a pass aside, for those operators that have none of it.
pub(super) fn begin_seeds(plan: &Plan, finished: &Arc<AtomicBool>) {
    plan.walk_all(&mut |p| p.op.seeds().into_iter().for_each(|seeds| seeds.begin(finished)));
}

/// Where the seeds of all operators of these plans stand in a pass, those inside functions included.
pub(super) fn seeds_of<'a>(plans: impl IntoIterator<Item = &'a Plan>, finished: &Arc<AtomicBool>) -> Vec<Seeds> {
    let mut all = Vec::new();
    for plan in plans {
        plan.walk_all(&mut |p| all.extend(p.op.seeds().map(|s| s.save(finished))));
    }
    all
}

/// The cells of drawn seeds of all functions of a plan, in the order of the calls.
pub(super) fn cells(plan: &Plan) -> Vec<Arc<AtomicU64>> {
    let mut cells = Vec::new();
    plan.walk_all(&mut |p| {
        p.op.functions().iter().for_each(|f| f.0.calls(&mut |_, attrs| chance::find(attrs, &mut cells)));
    });
    cells
}

/// The same of these plans, each once.
pub(super) fn drawn<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Vec<Arc<AtomicU64>> {
    let mut known = HashSet::new();
    plans.into_iter().flat_map(cells).filter(|cell| known.insert(Arc::as_ptr(cell))).collect()
}

/// Which seeds all operators and functions of a plan have, given or drawn: with others, other elements come. Below 2^52,
/// since not every program that reads JSON has larger numbers.
pub fn seeds_hash(plan: &Plan) -> u64 {
    let mut seeds = Vec::new();
    plan.walk_all(&mut |p| seeds.extend(p.op.seeds().map(|seeds| seeds.pair())));
    let drawn: Vec<u64> = drawn([plan]).iter().map(|cell| cell.load(Relaxed)).collect();
    match seeds.is_empty() && drawn.is_empty() {
        true => 0,
        false => fingerprint64(format!("{seeds:?} {drawn:?}").as_bytes()) >> 12,
    }
}

/// The passes whose results the plan's caches keep, where others would give something else. Nothing if none does.
pub(super) fn kept_of(plan: &Plan, run: &Arc<Run>) -> Result<Vec<Option<Json>>> {
    let (mut kept, mut marks) = (Vec::new(), Vec::new());
    plan.walk(&mut |p| {
        let mut mark = Mark::default();
        marks.extend(p.op.keeps_passes().then(|| p.op.kept_pass(run, None, &mut mark).then_some(mark)));
    });
    for mark in marks {
        let mut parts = Vec::new();
        let told = mark.map(|mark| mark.saved(&mut parts)).transpose()?;
        kept.push(told.map(|()| mark::to_json(&parts)).transpose()?);
    }
    Ok(if kept.iter().all(Option::is_none) { Vec::new() } else { kept })
}

/// Tells caches of which pass they kept the results where the state was taken.
pub(super) fn set_kept(kept: &[Option<Json>], cx: &BuildCx, plan: &Plan) -> Result<()> {
    // Those inside of functions keep passes, too, of which a state tells nothing: but with its seeds others come.
    plan.walk_all(&mut |p| {
        if p.op.keeps_passes() {
            p.op.miss_none(&cx.run, p);
        }
    });
    let (mut kept, mut told) = (kept.iter(), Ok(()));
    plan.walk(&mut |p| {
        if p.op.keeps_passes()
            && told.is_ok()
            && let Some(json) = kept.next().and_then(Option::as_ref)
        {
            told = mark::from_json(json).and_then(|parts| {
                let mut at = At::new(&parts);
                p.op.miss_pass(cx, &mut at)?;
                at.finish()
            });
        }
    });
    told
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
    /// Whether the plan ran with `rewrite=False`.
    pub fn is_as_written(&self) -> bool {
        self.plan.is_as_written()
    }
    pub(super) fn check(&self, runs: &Runs) -> Result<()> {
        self.plan.check(&Outline::of(&runs.written, &runs.bound.plan.options)?)
    }
    /// Whether a plan can go on from it, as far as that can be told before it does.
    pub(crate) fn fits(&self, runs: &Runs) -> Result<()> {
        self.check(runs)?;
        let resumed = ranks::resumed(runs, self)?;
        if drawn(resumed.runs.told()).len() == resumed.state.drawn.len() { Ok(()) } else { Err(unfit()) }
    }
    /// Sets the seeds of these plans' operators and functions to where they were.
    pub(super) fn set_seeds(&self, runs: &Runs, finished: &Arc<AtomicBool>) -> Result<()> {
        let cells = drawn(runs.told());
        if cells.len() != self.drawn.len() {
            return Err(unfit());
        }
        cells.iter().zip(&self.drawn).for_each(|(cell, seed)| cell.store(*seed, Relaxed));
        set_seeds(&self.seeds, runs.told(), finished)
    }
    pub fn to_json(&self) -> Result<Json> {
        let mut json = json!({ "version": VERSION });
        if let (Some(json), Json::Object(rest)) = (json.as_object_mut(), serde_json::to_value(self)?) {
            json.extend(rest);
        }
        // They may be long: they are put where they belong, not copied there.
        json["at"] = mark::to_json(self.at.as_deref().unwrap_or_default())?;
        if !self.others.is_empty() {
            json["others"] = self.others.iter().map(State::to_json).collect::<Result<Vec<_>>>()?.into();
        }
        Ok(json)
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
        let mut rest = json.as_object().cloned().unwrap_or_default();
        rest.remove("version");
        let others = rest.remove("others");
        if others.iter().filter_map(Json::as_array).flatten().any(|other| other.get("others").is_some()) {
            return Err(Error::usage("not a state of an iterator: of all ranks there is one, and not one of each"));
        }
        let first: State = serde_json::from_value(Json::Object(rest))
            .map_err(|e| Error::usage(format!("not a state of an iterator: {e}")))?;
        let Some(others) = others else { return Ok(first) };
        let others = others.as_array().ok_or_else(unfit)?.iter().map(State::from_json);
        // They may come from anywhere, too.
        State::merge(std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<_>>>()?)
    }
}
