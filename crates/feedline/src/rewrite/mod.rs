//! Plan to equal, better plan: pure functions in a fixed order. None may change which elements come out, or their order; only
//! errors of what is not read any more may go.

#[cfg(feature = "image")]
mod chain_pictures;
mod drop_noops;
mod fuse_maps;
mod narrow_columns;

use crate::error::Result;
use crate::plan::Plan;
use std::collections::HashMap;

/// A rewrite: a new node in the place of this one (whose inputs are done already), or `None`.
pub struct Rule {
    pub name: &'static str,
    /// Why it stands where it stands.
    pub why: &'static str,
    pub apply: fn(&Plan) -> Result<Option<Plan>>,
}

/// The rules, in the order in which each node meets them.
pub static RULES: &[&Rule] = &[
    &drop_noops::RULE,
    &fuse_maps::RULE,
    &narrow_columns::RULE,
    #[cfg(feature = "image")]
    &chain_pictures::RULE,
];

/// A rewritten plan and what was done to it.
#[derive(Clone, Debug)]
pub struct Rewritten {
    pub plan: Plan,
    pub log: Log,
}

/// Rules and the operators that they changed.
pub type Log = Vec<(&'static str, String)>;

/// Applies all rules from the sources up, until none applies to a node.
pub fn rewrite(plan: &Plan) -> Result<Rewritten> {
    let mut log = Vec::new();
    if plan.options.rewrite == Some(false) {
        return Ok(Rewritten { plan: plan.clone(), log });
    }
    let plan = walk(plan, &mut HashMap::new(), &mut log)?;
    Ok(Rewritten { plan, log })
}

/// `done` has the nodes that were met before, by their ids: what is shared is rewritten once and stays shared.
fn walk(plan: &Plan, done: &mut HashMap<u64, Plan>, log: &mut Log) -> Result<Plan> {
    if let Some(node) = done.get(&plan.id) {
        return Ok(node.clone());
    }
    let inputs = plan.inputs.iter().map(|i| walk(i, done, log)).collect::<Result<Vec<_>>>()?;
    let same = inputs.iter().zip(&plan.inputs).all(|(a, b)| a.same(b));
    let mut node = if same { plan.clone() } else { plan.with_inputs(inputs)? };
    'again: loop {
        for rule in RULES {
            if let Some(better) = (rule.apply)(&node)? {
                log.push((rule.name, format!("{}({})", node.name(), node.op.show())));
                node = better;
                continue 'again;
            }
        }
        done.insert(plan.id, node.clone());
        return Ok(node);
    }
}
