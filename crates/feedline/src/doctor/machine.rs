//! The consumer and the machine.

use super::{Case, Finding};
use crate::plan::{rate, times};
use crate::runtime::{free_cores, settings};
use crate::tune::{Change, Limit, Verdict, verdict};
use std::sync::atomic::Ordering::Relaxed;

/// Elements are ready before they are asked for.
pub fn slow_consumer(case: &Case<'_>) -> Vec<Finding> {
    let waited = case.meters.waited_ns.load(Relaxed).saturating_sub(case.meters.first_ns.load(Relaxed));
    let own = case.meters.own_ns.load(Relaxed);
    if !case.model.is_consumer_bound() || verdict(waited, waited + own) != Verdict::Consumer {
        return vec![];
    }
    let text = format!(
        "your training step is the bottleneck; input has {} x headroom ({} elements a second, of {} that it could make)",
        times(case.model.headroom().unwrap_or(1.0)),
        rate(case.model.measured),
        rate(case.model.ceiling())
    );
    let change = "nothing here: make the step faster, or give cores back with fl.configure(cpu_budget=…)";
    vec![case.finding("slow_consumer", case.runs, 1.0, text, change.into())]
}

/// Fewer threads than the machine has were allowed.
pub fn small_budget(case: &Case<'_>) -> Vec<Finding> {
    let (cores, machine) = (case.model.cores, free_cores(0) as f64);
    let bounds = case.model.bounds();
    let (true, Some(bound)) = (cores < machine, bounds.first().filter(|b| b.limit == Limit::Cores)) else {
        return vec![];
    };
    let gain = case.gain(Change { cores: Some(machine), ..Change::default() });
    let text = format!(
        "all {cores} threads that cpu_budget allows are at work, mostly on {}; there are {machine}",
        bound.name
    );
    let change = match (case.runs.options.cpu_budget, settings().cpu_budget) {
        (Some(_), _) => format!(".with_options(cpu_budget={machine})"),
        _ => format!("fl.configure(cpu_budget={machine})"),
    };
    let at = case.nodes.iter().find(|p| p.id == bound.id).unwrap_or(case.runs);
    vec![case.finding("small_budget", at, gain, text, change)]
}

/// Everything is at work: only less work or more cores would help.
pub fn busy_machine(case: &Case<'_>) -> Vec<Finding> {
    let bounds = case.model.bounds();
    let Some(bound) = bounds.first().filter(|b| b.limit == Limit::Cores) else { return vec![] };
    let Some(at) = case.nodes.iter().find(|p| p.id == bound.id) else { return vec![] };
    let Some(part) = case.part(at) else { return vec![] };
    let gain = case.gain(Change { cores: Some(case.model.cores * 2.0), ..Change::default() });
    let text = format!(
        "all {} threads are at work, {:.0} % of their time on {}",
        case.model.cores,
        case.percent(part),
        bound.name
    );
    let change = "less work for each element (smaller pictures, fewer functions), or a machine with more cores";
    vec![case.finding("busy_machine", at, gain, text, change.into())]
}

/// Other programs, or other threads of this one, use the cores.
pub fn crowded_machine(case: &Case<'_>) -> Vec<Finding> {
    let crowded = case.crowded();
    if crowded < CROWDED {
        return vec![];
    }
    let text = format!("{:.0} % of the time its threads were ready to run, but others had the cores", crowded * 100.0);
    let change = "look for other programs, and for threads of this one: set OMP_NUM_THREADS, or a smaller cpu_budget";
    vec![case.finding("crowded_machine", case.runs, 1.0 / (1.0 - crowded).max(0.01), text, change.into())]
}

/// From here on, times say more about others than about the pipeline.
pub const CROWDED: f64 = 0.2;
