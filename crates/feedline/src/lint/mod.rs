//! Mistakes that can be seen in a plan before it runs. Each has a code, which never changes, a sentence, and a line that
//! mends it; docs/warnings.md has a section for each. A lint must be right: what is often meant is not reported.
//!
//! Adding one: a function in the file of its subject, a row in `LINTS`, a section in docs/warnings.md, a class in
//! `warnings.py`, and tests that trigger it and that do not.

mod cache;
mod order;
mod rows;

use crate::expr::{Graph, Kind};
use crate::plan::{Plan, label};
use std::collections::HashSet;

/// Something that hardly does what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub code: &'static str,
    /// The operator, as reports name it.
    pub at: String,
    /// What is wrong with it.
    pub text: String,
    /// A line to write in its place.
    pub fix: String,
}

/// What an operator of a plan is asked.
pub struct Look<'a> {
    pub node: &'a Plan,
    pub root: &'a Plan,
    /// Whoever reads the elements needs them all in one shape.
    pub fixed_shapes: bool,
}

/// What is wrong, and the line that mends it.
pub type Said = (String, String);

pub struct Lint {
    pub code: &'static str,
    /// In a sentence.
    pub doc: &'static str,
    pub look: fn(&Look<'_>) -> Option<Said>,
}

/// All of them. FL001 to FL005 are found while a program runs (`warnings.py`).
pub static LINTS: &[Lint] = &[
    Lint { code: "FL006", doc: "Random numbers are kept in a cache.", look: cache::random_before },
    Lint { code: "FL007", doc: "An order is kept in a cache.", look: cache::shuffle_before },
    Lint { code: "FL008", doc: "Batches are shuffled, not elements.", look: order::shuffled_batches },
    Lint { code: "FL009", doc: "A shuffle mixes epochs.", look: order::mixed_epochs },
    Lint { code: "FL010", doc: "A shuffle buffer is small against the data.", look: order::small_buffer },
    Lint { code: "FL011", doc: "A split of a new order each time.", look: order::leaking_split },
    Lint { code: "FL012", doc: "Shards of different orders overlap.", look: order::overlapping_shards },
    Lint { code: "FL013", doc: "A filter of endless data may never end.", look: rows::endless_filter },
    Lint { code: "FL014", doc: "A cache does not fit into memory.", look: cache::too_large },
    Lint { code: "FL015", doc: "A cache of endless data.", look: cache::endless },
    Lint { code: "FL016", doc: "A shuffle buffer does not fit into memory.", look: order::large_buffer },
    Lint { code: "FL017", doc: "Parts of an element are shuffled apart.", look: order::shuffled_apart },
    Lint { code: "FL018", doc: "Shapes are open where they must be fixed.", look: rows::open_shapes },
    Lint { code: "FL019", doc: "Nothing is left.", look: rows::nothing_left },
    Lint { code: "FL050", doc: "Parts of an element have different lengths.", look: rows::unequal_parts },
];

/// What is wrong with a plan, in the order of the codes.
pub fn lint(plan: &Plan, fixed_shapes: bool) -> Vec<Finding> {
    let mut nodes = Vec::new();
    plan.walk(&mut |node| nodes.push(node.clone()));
    let mut found = Vec::new();
    for Lint { code, look, .. } in LINTS {
        for node in &nodes {
            if let Some((text, fix)) = look(&Look { node, root: plan, fixed_shapes }) {
                found.push(Finding { code, at: label(node), text, fix });
            }
        }
    }
    found
}

/// The nearest operator before `node` for which `hit` holds; nothing before an operator that `stop` names is looked at.
fn before(node: &Plan, stop: impl Fn(&Plan) -> bool, hit: impl Fn(&Plan) -> bool) -> Option<Plan> {
    let (mut waiting, mut seen) = (Vec::from_iter(node.inputs.iter().cloned()), HashSet::new());
    while let Some(plan) = waiting.pop() {
        if hit(&plan) {
            return Some(plan);
        }
        if seen.insert(plan.id) && !stop(&plan) {
            waiting.extend(plan.inputs.iter().rev().cloned());
        }
    }
    None
}

/// The same with what stands in the functions of these operators: their datasets give the elements that come out. With it
/// comes the operator in whose function it stands, if it does.
fn before_or_inside(
    node: &Plan,
    stop: impl Fn(&Plan) -> bool,
    hit: impl Fn(&Plan) -> bool,
) -> Option<(Plan, Option<Plan>)> {
    let above = |plan: &Plan, of: &Option<Plan>| {
        let of = of.clone();
        plan.inputs.iter().rev().map(move |input| (input.clone(), of.clone())).collect::<Vec<_>>()
    };
    let (mut waiting, mut seen) = (above(node, &None), HashSet::new());
    while let Some((plan, of)) = waiting.pop() {
        if hit(&plan) {
            return Some((plan, of));
        }
        if seen.insert(plan.id) && !stop(&plan) {
            waiting.extend(above(&plan, &of));
            let outer = of.or_else(|| Some(plan.clone()));
            plan.op.functions().iter().for_each(|function| {
                function.each_dataset(&mut |dataset| waiting.push((dataset.plan.clone(), outer.clone())));
            });
        }
    }
    None
}

/// Whether a function draws random numbers.
pub fn draws(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| match &node.kind {
        Kind::Call { func, .. } => !func.pure && !func.name.starts_with("io."),
        Kind::Cond { then, otherwise, .. } => draws(then) || draws(otherwise),
        _ => false,
    })
}

/// Whether an operator draws random numbers, others in each pass.
pub fn is_random(plan: &Plan) -> bool {
    let is_source = plan.name() == "random" && plan.op.seeds().is_some_and(|seeds| seeds.differ());
    is_source || plan.op.functions().iter().any(|f| draws(&f.0))
}

/// Whether host code in a function of it seems to draw some.
pub fn may_be_random(plan: &Plan) -> bool {
    plan.op.functions().iter().any(|f| f.0.may_draw())
}

/// A buffer of one element leaves all in their places.
pub fn is_shuffle(plan: &Plan) -> bool {
    plan.name() == "shuffle" && plan.number("buffer_size") != Some(1)
}

/// A shuffle that gives another order in each pass.
pub fn reshuffles(plan: &Plan) -> bool {
    is_shuffle(plan) && plan.param("reshuffle_each_iteration") != Some(false.into())
}

/// Other turns of several datasets in each pass.
fn mixes_anew(plan: &Plan) -> bool {
    plan.name() == "sample_from_datasets"
        && plan.inputs.len() > 1
        && plan.op.seeds().is_some_and(|seeds| seeds.differ())
}

/// Whether an operator gives another order in each pass.
pub fn reorders(plan: &Plan) -> bool {
    reshuffles(plan) || mixes_anew(plan)
}

fn is_batch(plan: &Plan) -> bool {
    matches!(plan.name(), "batch" | "padded_batch" | "ragged_batch" | "sparse_batch")
}

/// Whether an operator repeats its input; without a number, for ever.
fn repeats(plan: &Plan) -> bool {
    plan.name() == "repeat" && !matches!(plan.number("count"), Some(0 | 1))
}

/// Bytes of an element, if its shapes are known.
pub fn element_bytes(plan: &Plan) -> Option<u64> {
    plan.spec.leaves().into_iter().try_fold(0u64, |sum, leaf| {
        let dtype = leaf.dtype().filter(|d| *d != crate::element::DType::String)?;
        let items: usize = leaf.shape()?.full()?.iter().product();
        Some(sum.saturating_add(items.saturating_mul(dtype.size()) as u64))
    })
}

/// Bytes that the pipeline may hold.
pub fn memory_limit(plan: &Plan) -> u64 {
    plan.options.memory_limit.unwrap_or_else(crate::runtime::memory_limit) as u64
}

/// Bytes in words.
fn bytes(n: u64) -> String {
    crate::plan::bytes_text(n as usize)
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::{Dataset, Result};

    /// The codes of what is found.
    pub fn codes(ds: Result<Dataset>) -> Vec<&'static str> {
        lint(ds.unwrap().plan(), false).into_iter().map(|f| f.code).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_told_apart() {
        let codes: Vec<&str> = LINTS.iter().map(|l| l.code).collect();
        assert!(codes.windows(2).all(|w| w[0] < w[1]));
        assert!(LINTS.iter().all(|l| l.doc.ends_with('.')));
    }
}
