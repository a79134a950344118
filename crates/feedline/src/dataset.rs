//! The handle that users chain. Operators add their methods in their own files.

use crate::element::Spec;
use crate::error::Result;
use crate::op::Op;
use crate::plan::{Bound, Card, Format, Plan};
use crate::runtime::{Index, Iter, index_of, process_pool, settings};
use std::fmt;
use std::sync::Arc;

/// A dataset: an immutable description of elements, iterated as often as one likes.
#[derive(Clone)]
pub struct Dataset {
    plan: Plan,
}

impl Dataset {
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
    /// Access by number, or an error that says which operator does not allow it.
    pub fn index(&self) -> Result<Arc<dyn Index>> {
        index_of(&Bound { plan: self.plan.clone(), env: Arc::new([]) }, 0, process_pool())
    }
    /// The plan as written and as it will run.
    pub fn explain(&self, format: Format) -> String {
        crate::plan::explain(&self.plan, format)
    }
}

/// Rewrites a plan and starts it on the process's pool.
pub fn iterate(bound: &Bound) -> Result<Iter> {
    let epoch = bound.plan.next_pass();
    let mut plan = bound.plan.rewritten()?.plan;
    if plan.options.memory_limit.is_none()
        && let Some(limit) = settings().memory_limit
    {
        let options = crate::options::Options { memory_limit: Some(limit), ..Default::default() };
        plan = Dataset { plan }.with_options(options)?.plan;
    }
    let iter = Iter::new(&Bound { plan, env: bound.env.clone() }, epoch, process_pool())?;
    bound.plan.set_meters(iter.meters().clone());
    Ok(iter)
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}, {} elements", self.plan, self.plan.spec, self.plan.card)
    }
}
