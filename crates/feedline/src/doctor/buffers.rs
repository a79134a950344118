//! What is kept and made ready: too little, too late, too much.

use super::{Case, Finding, rows};
use crate::lint::{is_random, may_be_random, memory_limit, reorders};
use crate::plan::{Plan, bytes_text, label, time_text};
use crate::runtime::streams;
use crate::tune::Change;
use std::sync::atomic::Ordering::Relaxed;

/// The consumer makes its elements itself.
pub fn not_ahead(case: &Case<'_>) -> Vec<Finding> {
    if case.runs.options.prefetch != Some(false) {
        return vec![];
    }
    let gain = case.ahead.rate() / case.model.rate();
    let text = "prefetch=False: nothing is made ready while the consumer works, so both times add up".into();
    vec![case.finding("not_ahead", case.runs, gain, text, ".with_options(prefetch=True)".into())]
}

/// A row that takes as long as a step should (`tune/chunk.rs`) travels alone anyway.
const DEAR_NS: f64 = 200_000.0;
/// What is left of the time for a cheap row if hundreds share a step, at least: `profile.doctor()` tries it.
const SHARED_STEP: f64 = 1.0 / 16.0;

/// A prefetch that lets too few rows travel together: each pays for a step.
pub fn small_prefetch(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for plan in case.nodes.iter().filter(|p| p.name() == "prefetch") {
        let Some(size) = plan.number("buffer_size").filter(|n| *n > 0) else { continue };
        let input = &plan.inputs[0];
        let (Some(meter), Some(part)) = (case.meter(input), case.part(input)) else { continue };
        let together = case.model.parts.iter().filter(|p| p.segment == input.id);
        let row_ns = together.clone().map(|p| p.cost_ns).sum::<f64>() / part.visits.max(1e-9);
        let few = rows(&meter) <= 2.0 * size as f64 * meter.chunks.load(Relaxed) as f64;
        if size > 16 || !few || row_ns > DEAR_NS {
            continue;
        }
        let faster = together.map(|p| (p.id, SHARED_STEP)).collect();
        let gain = case.gain(Change { faster, ..Change::default() });
        let text =
            format!("prefetch({size}) lets no more than {size} elements travel together: each pays for a whole step");
        found.push(case.finding("small_prefetch", plan, gain, text, ".prefetch(fl.AUTOTUNE)".into()));
    }
    found
}

/// Nothing comes out of a shuffle before its buffer is full.
pub fn shuffle_fill(case: &Case<'_>) -> Vec<Finding> {
    let (first, all) = (case.meters.first_ns.load(Relaxed) as f64, case.meters.elapsed_ns() as f64);
    let mut found = Vec::new();
    for plan in case.nodes.iter().filter(|p| p.name() == "shuffle") {
        let (Some(size), Some(meter)) = (plan.number("buffer_size"), case.meter(plan)) else { continue };
        if first < 0.2 * all || first < 2e7 || size == 1 {
            continue;
        }
        let buffer = if size > 0 { size.to_string() } else { "all elements".into() };
        let text = format!(
            "the first element came after {}: {buffer} were read before, {} of them held",
            time_text(first as u64),
            bytes_text((meter.row_bytes() * size.max(1) as f64) as usize)
        );
        let costly = |p: &Plan| p.name() == "map";
        let change = match (streams(&plan.inputs[0]), costly(&plan.inputs[0])) {
            (None, _) => ".shuffle()  # all elements by number, without a buffer".into(),
            (Some(_), true) => {
                ".shuffle(buffer_size).map(function)  # before the work: names or records, not pictures".into()
            }
            _ => format!(".shuffle({})", (size / 10).max(100)),
        };
        // What was made while it filled need not be made later: a pass takes at least as long as all of its work.
        let made = case.meters.delivered.load(Relaxed) as f64 * 1e9 / case.model.rate();
        let gain = all / (all - first).max(made).max(1.0);
        found.push(case.finding("shuffle_fill", plan, gain, text, change));
    }
    found
}

/// A limit on memory leaves no room to work ahead.
pub fn tight_memory(case: &Case<'_>) -> Vec<Finding> {
    let Some(limit) = case.runs.options.memory_limit else { return vec![] };
    let bound = crate::tune::segment_bytes(limit) as f64;
    let mut found = Vec::new();
    for plan in &case.nodes {
        let Some(meter) = case.meter(plan) else { continue };
        if meter.ended_here().is_none() {
            continue;
        }
        let chunk = meter.row_bytes() * rows(&meter) / (meter.chunks.load(Relaxed) as f64).max(1.0);
        // Fewer chunks than threads fit into its queue.
        if chunk * case.model.cores < bound {
            continue;
        }
        let text = format!(
            "memory_limit={} leaves {} for its queue, and {} travel together: there is room for {:.0}",
            bytes_text(limit),
            bytes_text(bound as usize),
            bytes_text(chunk as usize),
            (bound / chunk.max(1.0)).max(1.0).floor()
        );
        let change = format!(".with_options(memory_limit=\"{:.0}MB\")", (chunk * case.model.cores * 8.0 / 1e6).ceil());
        found.push(case.finding("tight_memory", plan, case.shortfall(), text, change));
    }
    // One limit, one finding: where most is held.
    found.truncate(1);
    found
}

/// Work that gives the same in each epoch, and whose results would fit into memory.
pub fn no_cache(case: &Case<'_>) -> Vec<Finding> {
    if !case.repeats {
        return vec![];
    }
    let limit = memory_limit(case.runs);
    let mut best: Option<(f64, f64, &Plan)> = None;
    let mut main = Vec::new();
    case.runs.walk(&mut |p| main.push(p.id));
    for plan in case.nodes.iter().filter(|p| main.contains(&p.id)) {
        let mut changes = false;
        plan.walk_all(&mut |p| {
            let kept = matches!(p.name(), "cache" | "snapshot");
            let is_source = matches!(p.name(), "random" | "from_generator" | "repeat");
            changes |= kept || is_source || is_random(p) || may_be_random(p) || reorders(p);
        });
        let (false, Some(part), Some(n)) = (changes, case.part(plan), plan.card.known()) else { continue };
        let held = n as f64 * part.row_bytes;
        let gain = case.gain(Change { cached_at: Some(plan.id), ..Change::default() });
        // As early as it can be for what it gains: the smaller part is kept.
        if held < limit as f64 / 2.0 && best.is_none_or(|(most, ..)| gain > most * 1.05) {
            best = Some((gain, held, plan));
        }
    }
    let Some((gain, held, plan)) = best else { return vec![] };
    let text = format!("all up to here gives the same in each epoch; {} would hold it", bytes_text(held as usize));
    let change = format!(".cache()  # behind {}", label(plan));
    vec![case.finding("no_cache", plan, gain, text, change)]
}
