//! Functions: in Python, held back, too early, or of very different length.

use super::machine::CROWDED;
use super::{Case, Finding, rows};
use crate::plan::{Plan, all_nodes, inner_plans, time_text};
use crate::tune::{Change, Lane, Limit};
use std::sync::atomic::Ordering::Relaxed;

fn in_parallel(plan: &Plan) -> Change {
    Change { parallel: vec![plan.id], ..Change::default() }
}

/// A Python function, which holds Python's lock and runs for one element at a time.
pub fn python_function(case: &Case<'_>) -> Vec<Finding> {
    let python = |p: &&Plan| p.op.props().host && p.op.functions().iter().any(|f| f.0.host_fn().is_some());
    let found = case.nodes.iter().filter(python).filter_map(|plan| {
        let part = case.part(plan).filter(|p| p.cost_ns > 0.0)?;
        let once = case.meter(plan)?.spread.at(0.5);
        let text = format!(
            "it runs as Python: one call at a time, {} each, {:.0} % of the work for an element",
            time_text(once),
            case.percent(part)
        );
        let native = "or write it with fl.* and NumPy functions, which run without Python";
        let workers = case.model.cores.max(2.0);
        let change = match plan.name() {
            "map" => format!(".map(function, python=True, workers={workers:.0})  # in processes; {native}"),
            "filter" => format!(
                ".map(lambda x: (x, predicate(x)), python=True, workers={workers:.0}).filter(lambda x, keep: keep)  # in \
                 processes; {native}"
            ),
            _ => "write it with fl.* and NumPy functions on its arguments: they run without Python".into(),
        };
        Some(case.finding("python_function", plan, case.gain(in_parallel(plan)), text, change))
    });
    found.collect()
}

/// A generator gives one element after the other.
pub fn python_generator(case: &Case<'_>) -> Vec<Finding> {
    let found = case.nodes.iter().filter(|p| p.name() == "from_generator").filter_map(|plan| {
        let part = case.part(plan).filter(|p| p.cost_ns > 0.0)?;
        let text = format!(
            "the generator makes its elements in Python, one after the other: {:.0} % of the work for an element",
            case.percent(part)
        );
        let change = "let it give names or numbers only, and do the work in .map(function, python=True, workers=n); or read \
                      files with fl.TFRecordDataset, fl.ParquetDataset and the like";
        Some(case.finding("python_generator", plan, case.gain(in_parallel(plan)), text, change.into()))
    });
    found.collect()
}

/// `num_parallel_calls`, or `synchronous`, keeps threads idle.
pub fn calls_capped(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for bound in case.model.bounds().iter().filter(|b| b.limit == Limit::Calls) {
        let Some(plan) = case.nodes.iter().find(|p| p.id == bound.id) else { continue };
        let Some(lane) = case.model.lanes.iter().find(|l| case.part(plan).is_some_and(|p| p.segment == l.id)) else {
            continue;
        };
        if case.part(plan).is_some_and(|p| p.serial) {
            found.extend(few_places(case, lane));
            continue;
        }
        // All functions that run together are freed together.
        let together = case.model.parts.iter().filter(|p| p.segment == lane.id && !p.serial).map(|p| p.id);
        let gain = case.gain(Change { parallel: together.collect(), ..Change::default() });
        let calls = lane.calls.unwrap_or(1.0);
        if case.part(plan).is_some_and(|p| p.away) {
            // Beyond that nobody can tell whether they wait for a core or for something else.
            if calls >= case.model.cores {
                continue;
            }
            let text = format!("its {calls} worker processes are all at work");
            let change = format!(".map(function, python=True, workers={})", case.model.cores);
            found.push(case.finding("calls_capped", plan, gain, text, change));
            continue;
        }
        let text = format!("num_parallel_calls={calls} lets {calls} of {} threads run it", case.model.cores);
        found.push(case.finding(
            "calls_capped",
            plan,
            gain,
            text,
            ".map(function, num_parallel_calls=fl.AUTOTUNE)".into(),
        ));
    }
    let held = |p: &&Plan| p.name() == "map" && p.op.functions().iter().all(|f| f.0.host_fn().is_none());
    for plan in case.nodes.iter().filter(held) {
        let Some(part) = case.part(plan).filter(|p| p.serial) else { continue };
        if plan.param("synchronous") != Some(true.into()) {
            continue;
        }
        let text =
            format!("synchronous=True runs it on one thread: {:.0} % of the work for an element", case.percent(part));
        let change = ".map(function)  # without synchronous=True".into();
        found.push(case.finding("calls_capped", plan, case.gain(in_parallel(plan)), text, change));
    }
    found
}

/// `num_parallel_calls` of the operator that reads these datasets lets fewer of them be read at once than are open.
fn few_places(case: &Case<'_>, lane: &Lane) -> Option<Finding> {
    let plan = case.nodes.iter().find(|p| inner_plans(p).iter().any(|inner| inner.id == lane.id))?;
    let inside = inner_plans(plan).iter().flat_map(all_nodes).map(|p| p.id).collect();
    let gain = case.gain(Change { parallel: inside, ..Change::default() });
    let places = lane.places.unwrap_or(1.0);
    let text = format!(
        "num_parallel_calls={places} lets {places} of the datasets that are open be read at once, on {} threads",
        case.model.cores
    );
    let change = ".interleave(function, num_parallel_calls=fl.AUTOTUNE)".into();
    Some(case.finding("calls_capped", plan, gain, text, change))
}

/// Rows of a chunk, below which calling a function weighs more than what it does with cheap rows.
const FEW_TOGETHER: f64 = 16.0;

/// A filter that could have come before the work on what it throws away.
pub fn late_filter(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for filter in case.nodes.iter().filter(|p| p.name() == "filter") {
        let mut map = &filter.inputs[0];
        while map.op.props().carries && map.op.props().keeps && map.inputs.len() == 1 {
            map = &map.inputs[0];
        }
        let (Some(predicate), Some(function)) =
            (filter.op.functions().first().copied(), map.op.functions().first().copied())
        else {
            continue;
        };
        // What it looks at must be there before the map, and come out of it as it went in.
        let passed = function.0.passes();
        let early = predicate.0.reads().iter().zip(&passed).all(|(read, from)| !read || from.is_some());
        let (true, "map", Some(into), Some(out)) = (early, map.name(), case.meter(map), case.meter(filter)) else {
            continue;
        };
        let kept = (rows(&out) / rows(&into).max(1.0)).min(1.0);
        // Where few rows travel together, most of what a cheap predicate takes is being called: before the function, it
        // is called for many at once.
        let few = rows(&into) < FEW_TOGETHER * into.chunks.load(Relaxed) as f64;
        let mut faster = vec![(map.id, kept)];
        faster.extend(few.then_some((filter.id, kept)));
        let steps = case.part(map).map(|part| (part.segment, kept)).into_iter().collect();
        let gain = case.gain(Change { faster, steps, ..Change::default() });
        let text = format!(
            "it throws away {:.0} % of what {} made, and looks only at what that function leaves as it is",
            100.0 - kept * 100.0,
            map.name()
        );
        found.push(case.finding(
            "late_filter",
            filter,
            gain,
            text,
            ".filter(predicate).map(function)  # the filter first".into(),
        ));
    }
    found
}

/// Few elements take much longer than the others, and those behind them wait for their turn.
pub fn straggler(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    // A thread that is kept from running looks like a slow element.
    if case.crowded() >= CROWDED {
        return found;
    }
    for plan in &case.nodes {
        let Some(meter) = case.meter(plan).filter(|m| m.is_parallel.load(Relaxed)) else { continue };
        let place = case.meters.get(meter.place.load(Relaxed));
        let Some(order_ns) = place.as_ref().and_then(|m| m.ended_here()).map(|l| l.order_ns.load(Relaxed)) else {
            continue;
        };
        let (usual, longest) = (meter.spread.at(0.5), meter.spread.at(0.995));
        // Most of the pass, something that was ready waited for its turn.
        if longest < 8 * usual.max(1000) || (order_ns as f64) < 0.3 * case.meters.elapsed_ns() as f64 {
            continue;
        }
        let text = format!(
            "most elements take {}, some {}: those behind them are ready and wait for their turn",
            time_text(usual),
            time_text(longest)
        );
        let change =
            ".with_options(deterministic=False)  # whatever is ready comes first; or look at the slow ones".into();
        found.push(case.finding("straggler", plan, case.shortfall(), text, change));
    }
    found
}
