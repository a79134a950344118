//! What becomes of elements that fail: they are raised, skipped or quarantined, and always counted.
//!
//! 1. If any operator of a pass leaves out what fails, each operator gets a *sieve* behind it, whatever it does itself: so
//!    that marks look the same wherever it runs. Without any there are no sieves. `with_options` has none, which does
//!    nothing that could fail and may be there or not when a state is resumed.
//! 2. The first sieve that an error meets is that of the operator that failed. It leaves the error out, or says whose it is
//!    (`Error::in_node`) and passes it on; all others pass such errors on. A source that is read by number fails inside of
//!    whoever reads it, behind no sieve of its own: its errors bear its name, and the sieve they meet does as it says.
//! 3. A sieve sees the elements of its operator in their order, whoever computed them. What it leaves out, and at which
//!    element the bound is exceeded, does not depend on workers or chunks. (Datasets inside functions that are read side by
//!    side share one count: with a bound, the element at which it is exceeded may be another one there.)
//! 4. Counts are in the marks: a pass that is resumed goes on counting, and what it makes again is not counted twice. What
//!    workers have left out ahead of the consumer is in the counts that `explain` shows, but not in a state.

use super::mark::{At, Mark};
use super::quarantine::{Entry, Quarantine};
use super::stage::{Cx, Pull, Stage};
use super::{BuildCx, Index};
use crate::element::Chunk;
use crate::error::{Error, Kind, Result};
use crate::options::{MaxErrors, OnError, Options};
use crate::plan::Plan;
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// How many of the first errors of an operator are kept for people.
const FIRST: usize = 3;

/// What an operator has left out in a pass.
#[derive(Debug)]
pub struct Tally {
    pub op: &'static str,
    /// Its number in the plan as it runs, sources first; `None` inside a function.
    pub number: Option<u64>,
    pub policy: OnError,
    pub left_out: AtomicU64,
    /// What came out of it.
    pub passed: AtomicU64,
    first: Mutex<Vec<String>>,
}

/// A tally in a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    pub operator: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    pub elements: u64,
}

impl Tally {
    pub fn new(op: &'static str, number: Option<u64>, policy: OnError) -> Tally {
        Tally { op, number, policy, left_out: AtomicU64::new(0), passed: AtomicU64::new(0), first: Mutex::default() }
    }
    /// Counts an error; returns how many there were with it.
    pub fn count(&self, error: &Error) -> u64 {
        let _brief = brief();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.len() < FIRST {
            first.push(error.to_string());
        }
        drop(first);
        self.left_out.fetch_add(1, Relaxed) + 1
    }
    /// The first errors, in words.
    pub fn first(&self) -> Vec<String> {
        let _brief = brief();
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub fn mark(&self, out: &mut Mark) {
        out.number(self.left_out.load(Relaxed));
        out.number(self.passed.load(Relaxed));
    }
    /// `again`: whoever reads again what was counted before does not change the counts.
    pub fn seek(&self, at: &mut At<'_>, again: bool) -> Result<()> {
        let (left_out, passed) = (at.number()?, at.number()?);
        if !again {
            self.left_out.store(left_out, Relaxed);
            self.passed.store(passed, Relaxed);
        }
        Ok(())
    }
}

/// What a pass does with errors: there is one if it leaves out any.
pub struct Errors {
    policy: OnError,
    most: Option<MaxErrors>,
    quarantine: Option<Quarantine>,
    epoch: u64,
}

impl Errors {
    /// Whether not all operators raise.
    pub fn are_left_out(plan: &Plan, options: &Options) -> bool {
        let mut any = options.on_error.unwrap_or_default() != OnError::Raise;
        plan.walk_all(&mut |p| any |= p.op.on_error().is_some_and(|own| own != OnError::Raise));
        any
    }
    /// `None` if all operators raise.
    pub fn of(plan: &Plan, epoch: u64) -> Option<Arc<Errors>> {
        let options = &plan.options;
        let policy = options.on_error.unwrap_or_default();
        Errors::are_left_out(plan, options).then(|| {
            let quarantine = options.quarantine.as_ref().map(|folder| Quarantine::new(folder));
            Arc::new(Errors { policy, most: options.max_errors, quarantine, epoch })
        })
    }
    /// Finds out what cannot be done before anything runs.
    pub fn prepare(&self) -> Result<()> {
        self.quarantine.as_ref().map_or(Ok(()), |q| q.prepare())
    }
    /// Whether what failed is written somewhere: then it is worth knowing where it came from.
    pub fn keeps(&self) -> bool {
        self.quarantine.is_some()
    }
    pub fn policy(&self, plan: &Plan) -> OnError {
        plan.op.on_error().unwrap_or(self.policy)
    }
    /// The error, if it is to be raised.
    fn sift(&self, error: Error, tally: &Tally, policy: OnError, key: u64) -> Option<Error> {
        let (count, op) = (tally.count(&error), tally.op);
        if policy == OnError::Quarantine
            && let Some(quarantine) = &self.quarantine
        {
            let entry = Entry { op, number: tally.number, epoch: self.epoch, key, error: &error };
            if let Err(failed) = quarantine.put(&entry) {
                let text =
                    format!("a failed element could not be quarantined: {}; it failed with: {error}", failed.message());
                return Some(Error::new(failed.kind(), text));
            }
        }
        match count {
            1 => log::warn!("{op}: left out an element, as on_error says: {error} (further ones are counted)"),
            _ => log::debug!("{op}: left out an element: {error}"),
        }
        let seen = count + tally.passed.load(Relaxed);
        let most = self.most.filter(|most| most.exceeded(count, seen))?;
        let most = match most {
            MaxErrors::Count(n) => n.to_string(),
            MaxErrors::Share(share) => share.to_string(),
        };
        Some(Error::data(format!(
            "{count} of {seen} elements failed in pass {}, and max_errors={most} allows fewer; the first: {}",
            self.epoch,
            tally.first().join("; ")
        )))
    }
}

/// The place of each operator in a plan, from the sources on.
pub fn numbers(plan: &Plan) -> HashMap<u64, u64> {
    let mut numbers = HashMap::new();
    plan.walk(&mut |p| {
        numbers.insert(p.id, numbers.len() as u64);
    });
    numbers
}

/// Whether it is about one element, so that others may be fine.
fn is_about_an_element(error: &Error) -> bool {
    !error.ends() && matches!(error.kind(), Kind::Data | Kind::Loss | Kind::Io | Kind::Func | Kind::Range)
}

/// What the sources that an operator reads by number do with errors, where they say so themselves. Two of one name that do
/// not agree count as one that raises: nobody could tell their errors apart.
fn sources(plan: &Plan) -> Vec<(&'static str, OnError)> {
    let mut all: Vec<(&'static str, OnError)> = Vec::new();
    if !plan.op.reads_by_number() {
        return all;
    }
    plan.walk(&mut |p| {
        let (true, Some(own)) = (p.inputs.is_empty(), p.op.on_error()) else { return };
        match all.iter_mut().find(|(name, _)| *name == p.name()) {
            Some((_, other)) if *other != own => *other = OnError::Raise,
            Some(_) => {}
            None => all.push((p.name(), own)),
        }
    });
    all
}

/// A source by number: its errors bear its name.
pub struct NamedIndex {
    pub index: Arc<dyn Index>,
    pub op: &'static str,
}

impl Index for NamedIndex {
    fn len(&self) -> u64 {
        self.index.len()
    }
    fn place(&self, row: u64) -> Option<(Arc<str>, u64, u64)> {
        self.index.place(row)
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        self.index.get(rows).map_err(|error| error.in_op(self.op))
    }
}

/// Behind an operator: leaves out the elements that failed in it, if that is what was asked.
pub struct Sieve {
    stage: Box<dyn Stage>,
    errors: Arc<Errors>,
    tally: Arc<Tally>,
    policy: OnError,
    sources: Vec<(&'static str, OnError)>,
    node: u64,
    /// What random numbers of the operator depend on.
    key: u64,
    again: bool,
}

impl Sieve {
    pub fn new(cx: &BuildCx, errors: &Arc<Errors>, plan: &Plan, stage: Box<dyn Stage>) -> Result<Sieve> {
        let policy = errors.policy(plan);
        let sources = sources(plan);
        let all = || sources.iter().map(|(_, own)| *own).chain([policy]);
        if all().any(|p| p == OnError::Quarantine) && errors.quarantine.is_none() {
            return Err(Error::usage(
                "on_error=\"quarantine\" needs a folder for what failed: with_options(quarantine=\"folder\")",
            ));
        }
        // Where it raises itself, what it leaves out is what a source said.
        let shown = all().rev().find(|p| *p != OnError::Raise).unwrap_or_default();
        let (tally, key, again) = (cx.tally(plan, shown), cx.epoch, cx.again);
        Ok(Sieve { stage, errors: errors.clone(), tally, policy, sources, node: plan.id, key, again })
    }
    fn policy_of(&self, error: &Error) -> OnError {
        let of = error.at().op.as_deref();
        self.sources.iter().find(|(op, _)| of == Some(*op)).map_or(self.policy, |(_, own)| *own)
    }
}

impl Stage for Sieve {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let error = match self.stage.next(cx, want) {
                Pull::Rows(chunk) => {
                    if !self.again {
                        self.tally.passed.fetch_add(chunk.rows() as u64, Relaxed);
                    }
                    return Pull::Rows(chunk);
                }
                Pull::Fail(error) => error,
                other => return other,
            };
            let policy = self.policy_of(&error);
            if error.at().node.is_some() || policy == OnError::Raise || !is_about_an_element(&error) {
                return Pull::Fail(error.in_node(self.tally.op, self.node));
            }
            let error = error.in_op(self.tally.op);
            if !self.again
                && let Some(error) = self.errors.sift(error, &self.tally, policy, self.key)
            {
                return Pull::Fail(error.in_node(self.tally.op, self.node));
            }
            if cx.is_cancelled() {
                return Pull::End;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.tally.mark(out);
        self.stage.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.tally.seek(at, self.again)?;
        self.stage.seek(at)
    }
    fn pass(&mut self, results: u64) -> bool {
        // Of what is read again those that failed were left out before.
        !self.again && self.stage.pass(results)
    }
    fn start(&self) {
        self.stage.start();
    }
}
