//! The handle that users chain. Operators add their methods in their own files.

use crate::element::Spec;
use crate::error::Result;
use crate::op::Op;
use crate::options::Options;
use crate::plan::{Bound, Card, Format, Plan};
use crate::runtime::{Index, Iter, Runs, State, index_of, process_pool};
use std::fmt;
use std::sync::Arc;

/// A dataset: an immutable description of elements, iterated as often as one likes.
#[derive(Clone)]
pub struct Dataset {
    plan: Plan,
}

impl Dataset {
    /// Its plan, of which it keeps nothing.
    pub fn into_plan(self) -> Plan {
        self.plan
    }
    pub fn from_plan(plan: Plan) -> Dataset {
        Dataset { plan }
    }
    pub(crate) fn source(op: impl Op) -> Result<Dataset> {
        Ok(Dataset { plan: Plan::new(Arc::new(op), vec![])? })
    }
    pub(crate) fn apply(&self, op: impl Op) -> Result<Dataset> {
        Ok(Dataset { plan: Plan::new(Arc::new(op), vec![self.plan.clone()])? })
    }
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// What its elements are.
    pub fn spec(&self) -> &Spec {
        &self.plan.spec
    }
    /// How many elements it has, as far as is known without running it.
    pub fn cardinality(&self) -> Card {
        self.plan.card
    }
    /// Starts a pass. Each is independent of the others, and an epoch of its own for what reshuffles.
    pub fn iter(&self) -> Result<Iter> {
        iterate(&Bound { plan: self.plan.clone(), env: Arc::new([]) })
    }
    /// Starts the pass with that number, whatever passes came before: what a new process wants that knows its epoch.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = || Dataset::range(1000)?.shuffle(Some(100), Some(7), true);
    /// let numbers = |iter: feedline::runtime::Iter| iter.map(|e| e.unwrap()[0].tensor().item()).collect::<Vec<i64>>();
    /// let training = ds()?;
    /// numbers(training.iter()?);
    /// let second = numbers(training.iter()?);
    /// assert_eq!(numbers(ds()?.iter_epoch(1)?), second);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn iter_epoch(&self, epoch: u64) -> Result<Iter> {
        iterate_epoch(&Bound { plan: self.plan.clone(), env: Arc::new([]) }, None, epoch)
    }
    /// Goes on where the iterator was whose `state` this is, in this process or another, with any options
    /// but another `rewrite`, `on_error` or `deterministic`.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(1000)?.shuffle(Some(100), None, true)?;
    /// let mut iter = ds.iter()?;
    /// iter.next().unwrap()?;
    /// let state = iter.state()?;
    /// let rest: Vec<i64> = iter.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// let again: Vec<i64> = ds.iter_from(&state)?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(rest, again);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn iter_from(&self, state: &State) -> Result<Iter> {
        iterate_from(&Bound { plan: self.plan.clone(), env: Arc::new([]) }, None, state)
    }
    /// Access by number, or an error that says which operator does not allow it.
    pub fn index(&self) -> Result<Arc<dyn Index>> {
        index_of(&Bound { plan: self.plan.clone(), env: Arc::new([]) }, 0, process_pool())
    }
    /// The plan as written and as it will run.
    pub fn explain(&self, format: Format) -> String {
        crate::plan::explain(&self.plan, format)
    }
}

/// Rewrites a plan and starts its next pass on the process's pool.
pub fn iterate(bound: &Bound) -> Result<Iter> {
    iterate_with(bound, None)
}

/// The same under further options, for this pass only.
pub fn iterate_with(bound: &Bound, options: Option<Options>) -> Result<Iter> {
    let epoch = bound.plan.next_pass();
    let iter = Iter::new(as_run(bound, options)?, epoch, process_pool())?;
    feedline_io::wanted()?;
    bound.plan.set_meters(iter.meters().clone());
    Ok(iter)
}

/// The same as the pass with that number: its order and its random numbers, whatever was read before. The next pass is then
/// the one behind it.
pub fn iterate_epoch(bound: &Bound, options: Option<Options>, epoch: u64) -> Result<Iter> {
    bound.plan.walk_all(&mut |plan| {
        if let Some(seeds) = plan.op.seeds() {
            seeds.begin_at(epoch);
        }
    });
    bound.plan.set_next_pass(epoch);
    iterate_with(bound, options)
}

/// The same from where a state was taken on. The next pass is then the one behind it.
pub fn iterate_from(bound: &Bound, options: Option<Options>, state: &State) -> Result<Iter> {
    let runs = as_resumed(bound, options, state)?;
    let iter = Iter::resume(runs, state, process_pool())?;
    // One that was interrupted must not count: another may have begun since.
    feedline_io::wanted()?;
    bound.plan.set_next_pass(state.epoch().saturating_add(1));
    bound.plan.set_meters(iter.meters().clone());
    Ok(iter)
}

/// Whether `iterate_from` would take a state, as far as that can be told without beginning a pass.
pub fn check_state(bound: &Bound, options: Option<Options>, state: &State) -> Result<()> {
    state.fits(&as_resumed(bound, options, state)?)
}

/// The state has the marks of the operators that ran. Whether they were rewritten changes no results, so the rest of the pass
/// runs as its beginning did.
fn as_resumed(bound: &Bound, options: Option<Options>, state: &State) -> Result<Runs> {
    let runs = as_run(bound, options.clone())?;
    if state.is_as_written() == (runs.bound.plan.options.rewrite == Some(false)) {
        return Ok(runs);
    }
    let rewrite = Some(!state.is_as_written());
    as_run(bound, Some(Options { rewrite, ..options.unwrap_or_default() }))
}

/// The plan as it runs: rewritten, with the options of this pass.
pub(crate) fn as_run(bound: &Bound, options: Option<Options>) -> Result<Runs> {
    let asked = match options {
        None => bound.plan.clone(),
        Some(options) => Dataset { plan: bound.plan.clone() }.with_options(options)?.plan,
    };
    let runs = Bound { plan: asked.rewritten()?.plan, env: bound.env.clone() };
    Ok(Runs::new(runs, bound.plan.clone(), asked))
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}, {} elements", self.plan, self.plan.spec, self.plan.card)
    }
}
