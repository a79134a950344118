//! A plan in numbers: what its last pass measured, as the model of `tune` wants it.

use super::Plan;
use crate::runtime::{Meter, Meters};
use crate::tune::{Lane, Model, Part};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The datasets in an operator's functions, as they run.
pub fn inner_plans(plan: &Plan) -> Vec<Plan> {
    let mut out = Vec::new();
    plan.op.functions().iter().for_each(|f| f.each_dataset(&mut |dataset| out.extend(dataset.plan.runs().ok())));
    out
}

/// A plan and all that it reads, also inside of functions: inputs first, each once.
pub fn all_nodes(plan: &Plan) -> Vec<Plan> {
    fn visit(plan: &Plan, seen: &mut HashSet<u64>, out: &mut Vec<Plan>) {
        if seen.insert(plan.id) {
            plan.inputs.iter().for_each(|i| visit(i, seen, out));
            inner_plans(plan).iter().for_each(|i| visit(i, seen, out));
            out.push(plan.clone());
        }
    }
    let mut out = Vec::new();
    visit(plan, &mut HashSet::new(), &mut out);
    out
}

fn read(n: &AtomicU64) -> f64 {
    n.load(Relaxed) as f64
}

/// Rows of an operator that whoever stands behind it has taken: its queue may hold more.
fn taken(meter: &Meter) -> f64 {
    meter.ended_here().map_or_else(|| read(&meter.rows), |lane| read(&lane.given))
}

/// How many elements of each operator one delivered element takes.
fn visits(nodes: &[Plan], meters: &HashMap<u64, Arc<Meter>>) -> HashMap<u64, f64> {
    let mut visits: HashMap<u64, f64> = HashMap::new();
    visits.extend(nodes.last().map(|root| (root.id, 1.0)));
    for plan in nodes.iter().rev() {
        let own = visits.get(&plan.id).copied().unwrap_or(0.0);
        let rows = meters.get(&plan.id).map_or(0.0, |m| read(&m.rows));
        let props = plan.op.props();
        for input in &plan.inputs {
            let share = match (input.card.known(), plan.card.known()) {
                _ if props.keeps => 1.0,
                // What was counted so far may end in the middle of a batch; the whole does not.
                (Some(n), Some(out)) if !props.partial && plan.inputs.len() == 1 && out > 0 => n as f64 / out as f64,
                _ => meters.get(&input.id).map_or(0.0, |m| taken(m)) / rows.max(1.0),
            };
            *visits.entry(input.id).or_default() += own * share;
        }
        for inner in inner_plans(plan) {
            *visits.entry(inner.id).or_default() += own;
        }
    }
    visits
}

/// What was measured in a pass over a plan, as it ran.
pub fn model(runs: &Plan, meters: &Meters) -> Model {
    let nodes = all_nodes(runs);
    let found: HashMap<u64, Arc<Meter>> = nodes.iter().filter_map(|p| Some((p.id, meters.get(p.id)?))).collect();
    let visits = visits(&nodes, &found);
    let (step_ns, between_ns) = meters.pace();
    let measured = if between_ns > 0.0 { 1e9 / between_ns } else { 0.0 };
    let mut model = Model { cores: meters.workers().0 as f64, step_ns, measured, ..Model::default() };
    let mut with_inputs: HashMap<u64, Vec<u64>> = HashMap::new();
    // What operators took of the steps of each segment.
    let mut taken_ns: HashMap<u64, f64> = HashMap::new();
    for plan in &nodes {
        let mut all: HashSet<u64> = HashSet::from([plan.id]);
        let below = plan.inputs.iter().cloned().chain(inner_plans(plan));
        below.for_each(|i| all.extend(with_inputs.get(&i.id).into_iter().flatten()));
        let mut all: Vec<u64> = all.into_iter().collect();
        all.sort_unstable();
        with_inputs.insert(plan.id, all.clone());
        let Some(meter) = found.get(&plan.id) else { continue };
        let segment = meter.place.load(Relaxed);
        let serial = !meter.is_parallel.load(Relaxed);
        let lane = meters.get(segment);
        let away = !serial && lane.as_ref().and_then(|m| m.ended_here()).is_some_and(|l| l.away.load(Relaxed));
        let (cpu, blocked) = match lane.as_ref().and_then(|m| m.ended_here()) {
            Some(lane) if serial => lane.head.shares(),
            Some(lane) => lane.work.shares(),
            None => (1.0, 0.0),
        };
        let often = visits.get(&plan.id).copied().unwrap_or(0.0);
        let per_row = often / read(&meter.rows).max(1.0);
        let busy = read(&meter.busy_ns) * per_row;
        *taken_ns.entry(segment).or_default() += read(&meter.busy_ns);
        model.parts.push(Part {
            id: plan.id,
            name: plan.name().to_string(),
            segment,
            serial,
            cost_ns: busy * (cpu + blocked),
            cpu_ns: busy * cpu,
            locks: plan.op.props().host,
            away,
            visits: often,
            row_bytes: meter.row_bytes(),
            with_inputs: all,
        });
        if let Some(lane) = meter.ended_here() {
            let [calls, places] = [&lane.calls, &lane.places].map(|n| Some(read(n)).filter(|n| *n > 0.0));
            let io_ns = read(&lane.io_ns) * per_row;
            let lanes = read(&lane.lanes_peak).max(1.0);
            model.lanes.push(Lane { id: plan.id, lanes, places, calls, io_ns, over_ns: 0.0 });
        }
    }
    for lane in &mut model.lanes {
        let Some(counted) = found.get(&lane.id).and_then(|m| m.ended_here().map(|l| (m, l))) else { continue };
        let (meter, counted) = counted;
        let per_row = visits.get(&lane.id).copied().unwrap_or(0.0) / read(&meter.rows).max(1.0);
        lane.over_ns = counted.over_ns(taken_ns.get(&lane.id).copied().unwrap_or(0.0)) * per_row;
    }
    model
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::error::Result;

    /// Elements of each operator for one that is delivered, by name, after a pass.
    fn measured(ds: &Dataset) -> Result<HashMap<String, f64>> {
        ds.iter()?.for_each(|element| drop(element.unwrap()));
        let model = model(&ds.plan().runs()?, &ds.plan().meters().unwrap());
        Ok(model.parts.into_iter().map(|p| (p.name, p.visits)).collect())
    }

    #[test]
    fn a_part_of_a_huge_source_is_all_that_is_charged() -> Result<()> {
        for (name, source) in [("range", Dataset::range(1_000_000_000)?), ("counter", Dataset::counter(0, 1)?)] {
            let visits = measured(&source.take(600)?.batch(6, false)?)?;
            assert_eq!((visits[name], visits["take"]), (6.0, 6.0));
        }
        Ok(())
    }

    #[test]
    fn what_is_read_again_is_charged_each_time() -> Result<()> {
        let visits = measured(&Dataset::range(100)?.repeat(Some(5))?.batch(10, false)?)?;
        assert_eq!((visits["range"], visits["repeat"]), (10.0, 10.0));
        // A cache reads its input once, however often it is read itself.
        let visits = measured(&Dataset::range(100)?.cache()?.repeat(Some(5))?)?;
        assert_eq!((visits["range"], visits["cache"]), (0.2, 1.0));
        Ok(())
    }
}
