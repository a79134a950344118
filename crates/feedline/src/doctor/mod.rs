//! What holds a pipeline back, and what to change: findings about a pass that was measured, the one that helps most first.
//!
//! Each cause has a function, which looks at the plan and at what was measured, and asks the model (`tune/ceiling.rs`) what
//! would be gained. Nothing is said that would gain less than a twentieth.

mod buffers;
mod functions;
mod machine;
mod reading;

use crate::plan::{Plan, all_nodes, ceiling_json, label, model};
use crate::runtime::{Meter, Meters};
use crate::tune::{Change, Model, Part};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Something that can be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A word for programs, which never changes.
    pub cause: &'static str,
    /// The operator, as reports name it, and its number.
    pub at: String,
    pub id: u64,
    pub text: String,
    /// What to write.
    pub change: String,
    /// How many times as fast the whole would be; 1 where nothing here would help.
    pub gain: f64,
}

/// How findings are ranked before their gains are: what is wrong stands before what costs memory or money.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// What a pass loses before its first element comes, whatever the limit is from then on.
    Start,
    /// Whatever is changed, this one stays the limit.
    Limit,
    Mistake,
    Cost,
    /// Not of the pipeline's making.
    Outside,
}

/// A pass that was measured.
struct Case<'a> {
    /// As it ran, and all operators of it, also inside of functions.
    runs: &'a Plan,
    nodes: Vec<Plan>,
    meters: &'a Meters,
    model: Model,
    /// The same with something that works ahead: what other changes are weighed against.
    ahead: Model,
    /// Whether elements are read more than once.
    repeats: bool,
}

impl Case<'_> {
    fn part(&self, plan: &Plan) -> Option<&Part> {
        self.model.parts.iter().find(|p| p.id == plan.id)
    }
    fn meter(&self, plan: &Plan) -> Option<Arc<Meter>> {
        self.meters.get(plan.id)
    }
    /// Nanoseconds of a thread that one delivered element takes in all.
    fn total_ns(&self) -> f64 {
        self.model.parts.iter().map(|p| p.cost_ns).sum()
    }
    /// An operator's part of that, in percent.
    fn percent(&self, part: &Part) -> f64 {
        part.cost_ns * 100.0 / self.total_ns().max(1.0)
    }
    fn finding(&self, cause: &'static str, at: &Plan, gain: f64, text: String, change: String) -> Finding {
        Finding { cause, at: label(at), id: at.id, text, change, gain }
    }
    fn gain(&self, change: Change) -> f64 {
        self.ahead.gain(&change)
    }
    /// The share of the time in which its threads were ready, but others had the cores.
    fn crowded(&self) -> f64 {
        let (mut seen, mut own) = (0.0, 0.0);
        for lane in self.model.lanes.iter().filter_map(|l| self.meters.get(l.id)) {
            for phase in lane.ended_here().iter().flat_map(|l| [&l.head, &l.work]) {
                let ns = phase.seen_ns.load(Relaxed) as f64;
                let (cpu, blocked) = phase.shares();
                seen += ns;
                own += ns * (cpu + blocked);
            }
        }
        if seen > 0.0 { (1.0 - own / seen).max(0.0) } else { 0.0 }
    }
    /// How far the pass stayed below what its operators allow: what is lost by waiting for each other.
    fn shortfall(&self) -> f64 {
        if self.model.measured > 0.0 { self.model.rate() / self.model.measured } else { 1.0 }
    }
}

type Cause = (Rank, fn(&Case<'_>) -> Vec<Finding>);

static CAUSES: &[Cause] = &[
    (Rank::Limit, machine::slow_consumer),
    (Rank::Mistake, functions::python_function),
    (Rank::Mistake, functions::python_generator),
    (Rank::Mistake, functions::calls_capped),
    (Rank::Mistake, functions::late_filter),
    (Rank::Mistake, functions::straggler),
    (Rank::Mistake, reading::serial_interleave),
    (Rank::Mistake, reading::compressed),
    (Rank::Mistake, reading::small_files),
    (Rank::Mistake, reading::slow_reads),
    (Rank::Mistake, buffers::not_ahead),
    (Rank::Mistake, buffers::small_prefetch),
    (Rank::Start, buffers::shuffle_fill),
    (Rank::Mistake, buffers::tight_memory),
    (Rank::Mistake, machine::small_budget),
    (Rank::Cost, buffers::no_cache),
    (Rank::Cost, machine::busy_machine),
    (Rank::Outside, machine::crowded_machine),
];

/// What is gained at least for something to be said.
const WORTH: f64 = 1.05;

/// What the last pass over a plan was like.
pub struct Diagnosis {
    pub model: Model,
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Of the last pass over a dataset; `None` if there was none.
    pub fn of(plan: &Plan) -> Option<Diagnosis> {
        let (runs, meters) = (plan.ran().ok()?, plan.meters()?);
        let (nodes, model) = (all_nodes(&runs), model(&runs, &meters));
        let repeats = plan.passes() > 1 || nodes.iter().any(|p| p.name() == "repeat");
        let ahead = model.changed(&Change { ahead: true, ..Change::default() });
        let case = Case { runs: &runs, nodes, meters: &meters, model, ahead, repeats };
        let mut found: Vec<(Rank, Finding)> = Vec::new();
        // Nothing came, so nothing was measured.
        let causes = if meters.delivered.load(Relaxed) > 0 { CAUSES } else { &[] };
        for (rank, look) in causes {
            let worth = |f: &Finding| f.gain >= WORTH || *rank == Rank::Limit;
            found.extend(look(&case).into_iter().filter(worth).map(|f| (*rank, f)));
        }
        found.sort_by(|(a, x), (b, y)| a.cmp(b).then(y.gain.total_cmp(&x.gain)));
        Some(Diagnosis { model: case.model, findings: found.into_iter().map(|(_, f)| f).collect() })
    }
    pub fn to_json(&self) -> serde_json::Value {
        let findings = self.findings.iter().map(
            |f| json!({ "cause": f.cause, "at": f.at, "id": f.id, "text": f.text, "change": f.change, "gain": f.gain }),
        );
        json!({ "ceiling": ceiling_json(&self.model), "model": self.model, "findings": findings.collect::<Vec<_>>() })
    }
}

/// Rows that came out of an operator.
fn rows(meter: &Meter) -> f64 {
    meter.rows.load(Relaxed) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Budget, Wait};
    use crate::{Dataset, Options};
    use std::time::Duration;

    /// `range > map > batch` with a pass that is made up: an element takes a microsecond in `range` and ten in `map`.
    fn made_up(options: Options, set: impl Fn(&Meters, &Meter, &Meter)) -> Vec<Finding> {
        let ds = Dataset::range(1000).unwrap().map(|b, x| b.call("add", &[x[0], x[0]], Default::default())).unwrap();
        let ds = ds.batch(10, false).unwrap().with_options(options).unwrap();
        let runs = ds.plan().runs().unwrap();
        let mut nodes = all_nodes(&runs);
        nodes.retain(|p| p.name() != "with_options");
        let meters = Arc::new(Meters::new(Budget::new(usize::MAX, usize::MAX)));
        meters.cores.store(4, Relaxed);
        let [range, map, batch] = [0, 1, 2].map(|i| meters.of(nodes[i].id));
        for (meter, rows, ns) in [(&range, 1000, 1_000_000), (&map, 1000, 10_000_000), (&batch, 100, 100_000)] {
            (0..10).for_each(|_| meter.count(rows / 10, ns / 10, 0, || 80 * rows / 10));
        }
        for meter in [&range, &map] {
            meter.place.store(map.id, Relaxed);
        }
        map.is_parallel.store(true, Relaxed);
        batch.place.store(batch.id, Relaxed);
        for (meter, rows) in [(&map, 1000), (&batch, 100)] {
            let lane = meter.lane();
            lane.lanes_peak.store(1, Relaxed);
            lane.given.store(rows, Relaxed);
        }
        meters.answer(Duration::ZERO, true);
        meters.deliver(100);
        meters.ask(Duration::ZERO);
        meters.waited_ns.store(2_525_000, Relaxed);
        set(&meters, &range, &map);
        meters.end();
        ds.plan().set_meters(meters);
        Diagnosis::of(ds.plan()).unwrap().findings
    }
    fn causes(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|f| f.cause).collect()
    }

    #[test]
    fn nothing_is_wrong_but_the_machine_is_busy() {
        let found = made_up(Options::default(), |_, _, _| ());
        assert_eq!(causes(&found), ["busy_machine"]);
        assert!(found[0].at.starts_with("map("), "{found:?}");
        assert_eq!(found[0].gain, 2.0);
    }

    #[test]
    fn a_slow_consumer_comes_first() {
        let found = made_up(Options::default(), |meters, _, _| meters.own_ns.store(90_000_000, Relaxed));
        assert_eq!((found[0].cause, found[0].gain), ("slow_consumer", 1.0));
        assert!(found[0].text.contains("your training step is the bottleneck"), "{}", found[0].text);
        assert_eq!(found.len(), 1, "nothing else would help");
    }

    #[test]
    fn reads_that_are_waited_for() {
        let found = made_up(Options::default(), |_, _, map| {
            map.lane().note_wait(Wait::Io, Duration::from_millis(90));
        });
        assert_eq!(found[0].cause, "slow_reads");
        assert!(found[0].at.starts_with("range(") && found[0].gain > 10.0, "{found:?}");
    }

    #[test]
    fn elements_that_wait_for_their_turn() {
        let slow = |meters: &Meters, _: &Meter, map: &Meter| {
            map.spread.note(50_000_000, 20);
            map.lane().order_ns.store(u64::MAX / 2, Relaxed);
            meters.waited_ns.store(25_000_000, Relaxed);
        };
        let found = made_up(Options::default(), slow);
        assert_eq!(found[0].cause, "straggler", "{found:?}");
        // Where others had the cores, nobody can tell.
        let crowded = made_up(Options::default(), |meters, range, map| {
            slow(meters, range, map);
            let usage = crate::runtime::Usage { cpu_ns: 100_000, gave_up: 0 };
            map.lane().work.note(1_000_000, 0, Some(usage));
        });
        assert!(
            !causes(&crowded).contains(&"straggler") && causes(&crowded).contains(&"crowded_machine"),
            "{crowded:?}"
        );
    }

    #[test]
    fn a_limit_that_leaves_no_room() {
        let slow = |meters: &Meters, _: &Meter, _: &Meter| meters.waited_ns.store(25_000_000, Relaxed);
        let limited = |limit| made_up(Options { memory_limit: Some(limit), ..Options::default() }, slow);
        assert_eq!(limited(10_000)[0].cause, "tight_memory");
        assert!(!causes(&limited(10_000_000)).contains(&"tight_memory"));
    }
}
