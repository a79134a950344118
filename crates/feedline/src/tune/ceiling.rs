//! The best rate that a plan can reach, and what it would be if something were different.
//!
//! A pipeline is a row of segments on one set of threads. For one element that is delivered, each operator needs some time
//! of a thread; the slowest of these bounds says how fast the whole can be:
//!
//! 1. a segment's head is pulled by one thread at a time: the sum of its serial operators, and of the reads it waits for;
//!    of datasets that are read side by side, as many at once as were asked for;
//! 2. the functions of a segment run on as many threads as there are, or as were asked for, or in as many processes;
//! 3. Python functions share one lock: the sum of what they compute;
//! 4. all of it together runs on so many threads at once;
//! 5. what the consumer runs itself (nothing works ahead) comes on top of its own time.
//!
//! Costs are measured, so they hold for this machine and these data; what is not in them (caches that are shared, memory
//! that is slow when all read it) is not in the ceiling either.

use serde::{Deserialize, Serialize};

/// What one operator needs for one element that is delivered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    pub id: u64,
    pub name: String,
    /// The segment that it runs in; 0: the consumer itself runs it.
    pub segment: u64,
    /// In the head of the segment, so by one thread at a time.
    pub serial: bool,
    /// Nanoseconds of a thread, and how many of them it computes in.
    pub cost_ns: f64,
    pub cpu_ns: f64,
    /// Holds Python's lock while it computes.
    pub locks: bool,
    /// Runs in processes of its own, so takes no thread. Their time is not told apart from their waiting for a core.
    pub away: bool,
    /// Elements of this operator for one that is delivered.
    pub visits: f64,
    /// Bytes of one of its elements.
    pub row_bytes: f64,
    /// It and all that it reads from.
    pub with_inputs: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    pub id: u64,
    /// How many of its kind run side by side: datasets that are read at once.
    pub lanes: f64,
    /// How many of these may be pulled at once, where that was asked for.
    pub places: Option<f64>,
    /// Chunks under way at once, where that was asked for.
    pub calls: Option<f64>,
    /// Nanoseconds that it waits for files or objects, for one element that is delivered.
    pub io_ns: f64,
    /// Nanoseconds that its steps take besides what operators do: queues, taking turns.
    pub over_ns: f64,
}

/// A plan in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Model {
    /// Threads that may run at once.
    pub cores: f64,
    /// The consumer's own time for an element.
    pub step_ns: f64,
    /// Elements a second that were measured; 0: none were.
    pub measured: f64,
    pub parts: Vec<Part>,
    pub lanes: Vec<Lane>,
}

/// Which of the bounds it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// One thread at a time.
    Serial,
    /// As many at once as were asked for.
    Calls,
    /// Reads.
    Io,
    /// Python's lock.
    Lock,
    /// All threads are at work.
    Cores,
    /// Nothing works ahead of the consumer.
    NotAhead,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    pub limit: Limit,
    /// The operator that takes most of it.
    pub id: u64,
    pub name: String,
    /// Nanoseconds for one element.
    pub ns: f64,
}

/// What is different in a what-if.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// So many threads.
    pub cores: Option<f64>,
    /// These operators cost nothing.
    pub free: Vec<u64>,
    /// The results of this operator are kept: nothing before it runs.
    pub cached_at: Option<u64>,
    /// Reads wait for this part of the time.
    pub latency: Option<f64>,
    /// These operators run on as many threads as there are, without a lock that they share.
    pub parallel: Vec<u64>,
    /// Something works ahead of the consumer.
    pub ahead: bool,
    /// The operator takes this part of its time.
    pub faster: Vec<(u64, f64)>,
    /// The segment that ends at this operator takes this part of its steps: more travels together.
    pub steps: Vec<(u64, f64)>,
}

/// What is left of a cost that is said to be nothing, so that nothing is divided by zero.
const NOTHING_NS: f64 = 1e-3;

impl Model {
    fn in_lane(&self, lane: u64) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |p| p.segment == lane)
    }

    /// What bounds the pipeline itself, the tightest first.
    pub fn bounds(&self) -> Vec<Bound> {
        let cores = self.cores.max(1.0);
        let mut bounds = Vec::new();
        let mut add = |limit: Limit, parts: &mut dyn Iterator<Item = &Part>, ns: f64| {
            if let Some(most) = parts.max_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns)) {
                bounds.push(Bound { limit, id: most.id, name: most.name.clone(), ns });
            }
        };
        for lane in &self.lanes {
            let open = lane.lanes.clamp(1.0, cores);
            let side_by_side = lane.places.map_or(open, |places| places.clamp(1.0, open));
            let head: f64 = self.in_lane(lane.id).filter(|p| p.serial).map(|p| p.cost_ns).sum();
            let work: f64 = self.in_lane(lane.id).filter(|p| !p.serial).map(|p| p.cost_ns).sum();
            // Without functions there is nobody to whom the head could be left meanwhile.
            let head = if self.in_lane(lane.id).all(|p| p.serial) { head + lane.over_ns } else { head };
            // Nothing else keeps threads idle that could read more of them.
            let limit = if side_by_side < open { Limit::Calls } else { Limit::Serial };
            add(limit, &mut self.in_lane(lane.id).filter(|p| p.serial), head / side_by_side);
            if lane.io_ns > 0.0 {
                // Reads of several datasets overlap whatever the number of threads is.
                let ns = head / side_by_side + lane.io_ns / lane.lanes.max(1.0);
                add(Limit::Io, &mut self.in_lane(lane.id).filter(|p| p.serial), ns);
            }
            let away: f64 = self.in_lane(lane.id).filter(|p| p.away).map(|p| p.cost_ns).sum();
            if let Some(calls) = lane.calls.filter(|_| away > 0.0) {
                // Whoever pulls does so meanwhile, and waiting processes take no thread: there may be more than cores.
                let ns = away / (calls * lane.lanes.max(1.0)).max(1.0);
                add(Limit::Calls, &mut self.in_lane(lane.id).filter(|p| p.away), ns);
            } else if let Some(calls) = lane.calls.filter(|calls| *calls < cores) {
                let at_once = (calls * lane.lanes.max(1.0)).clamp(1.0, cores);
                add(Limit::Calls, &mut self.in_lane(lane.id).filter(|p| !p.serial), (head + work) / at_once);
            }
        }
        let locks = || self.parts.iter().filter(|p| p.locks);
        add(Limit::Lock, &mut locks(), locks().map(|p| p.cpu_ns).sum());
        let here = self.parts.iter().filter(|p| !p.away);
        let all = here.clone().map(|p| p.cost_ns).chain(self.lanes.iter().map(|l| l.over_ns));
        add(Limit::Cores, &mut here.clone(), all.sum::<f64>() / cores);
        add(Limit::NotAhead, &mut self.in_lane(0), self.in_lane(0).map(|p| p.cost_ns).sum());
        // Of equal bounds the one with the narrower reason, which stands first, is told.
        bounds.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        bounds
    }
    /// The best rate of the pipeline, in elements a second, whatever the consumer does.
    pub fn ceiling(&self) -> f64 {
        1e9 / self.bounds().first().map_or(0.0, |b| b.ns).max(NOTHING_NS)
    }
    /// The rate to expect with this consumer.
    pub fn rate(&self) -> f64 {
        let own: f64 = self.in_lane(0).map(|p| p.cost_ns).sum();
        1e9 / (self.step_ns + own).max(1e9 / self.ceiling())
    }
    /// How much faster the pipeline could be than it is read; `None` if nothing was measured.
    pub fn headroom(&self) -> Option<f64> {
        (self.measured > 0.0).then(|| self.ceiling() / self.measured)
    }
    /// Whether elements are ready before the consumer asks for them.
    pub fn is_consumer_bound(&self) -> bool {
        self.step_ns > 1e9 / self.ceiling()
    }
    /// The same plan with something different.
    pub fn changed(&self, change: &Change) -> Model {
        let mut model = self.clone();
        let Change { cores, free, cached_at, latency, parallel, ahead, faster, steps } = change;
        if let Some(cores) = cores {
            model.cores = *cores;
        }
        let kept = self.parts.iter().find(|p| Some(p.id) == *cached_at).map(|p| p.with_inputs.clone());
        let kept = kept.unwrap_or_default();
        for part in &mut model.parts {
            let speed: f64 = faster.iter().filter(|(id, _)| *id == part.id).map(|(_, share)| *share).product();
            let share = if free.contains(&part.id) || kept.contains(&part.id) { 0.0 } else { speed };
            part.cost_ns *= share;
            part.cpu_ns *= share;
        }
        for lane in &mut model.lanes {
            let mut inside = self.parts.iter().filter(|p| p.segment == lane.id && p.serial).peekable();
            // Whoever reads files stands lowest in a segment: if it is gone, so are its reads.
            if inside.peek().is_some() && inside.any(|p| kept.contains(&p.id) || free.contains(&p.id)) {
                lane.io_ns = 0.0;
            }
            if kept.contains(&lane.id) {
                lane.over_ns = 0.0;
            }
            lane.io_ns *= latency.unwrap_or(1.0);
            lane.over_ns *= steps.iter().filter(|(id, _)| *id == lane.id).map(|(_, share)| *share).product::<f64>();
        }
        for id in parallel {
            let Some(at) = model.parts.iter().position(|p| p.id == *id) else { continue };
            // It gets a segment of its own.
            let part = &mut model.parts[at];
            (part.segment, part.serial, part.locks, part.away) = (part.id, false, false, false);
            match model.lanes.iter_mut().find(|l| l.id == *id) {
                Some(lane) => lane.calls = None,
                None => model.lanes.push(Lane { id: *id, lanes: 1.0, ..Lane::default() }),
            }
        }
        if *ahead && model.parts.iter().any(|p| p.segment == 0) {
            let id = u64::MAX;
            model.parts.iter_mut().filter(|p| p.segment == 0).for_each(|p| p.segment = id);
            model.lanes.push(Lane { id, lanes: 1.0, ..Lane::default() });
        }
        model
    }
    /// How many times as fast it would be, for this consumer.
    pub fn gain(&self, change: &Change) -> f64 {
        self.changed(change).rate() / self.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: u64, segment: u64, serial: bool, cost_ns: f64) -> Part {
        let (name, with_inputs) = (format!("op{id}"), (1..=id).collect());
        Part { id, name, segment, serial, cost_ns, cpu_ns: cost_ns, visits: 1.0, with_inputs, ..Part::default() }
    }
    /// A source of 100 ns, a function of 900 ns in its segment, and a batch of 50 ns in the next.
    fn model(cores: f64) -> Model {
        Model {
            cores,
            parts: vec![part(1, 2, true, 100.0), part(2, 2, false, 900.0), part(3, 3, true, 50.0)],
            lanes: vec![Lane { id: 2, lanes: 1.0, ..Lane::default() }, Lane { id: 3, lanes: 1.0, ..Lane::default() }],
            ..Model::default()
        }
    }
    fn tightest(model: &Model) -> (Limit, u64, f64) {
        let bound = model.bounds().remove(0);
        (bound.limit, bound.id, bound.ns)
    }

    #[test]
    fn threads_bind_first_and_then_the_head() {
        assert_eq!(tightest(&model(1.0)), (Limit::Cores, 2, 1050.0));
        assert_eq!(tightest(&model(2.0)), (Limit::Cores, 2, 525.0));
        assert_eq!(tightest(&model(100.0)), (Limit::Serial, 1, 100.0));
        assert_eq!(model(2.0).ceiling(), 1e9 / 525.0);
        assert_eq!(model(1.0).gain(&Change { cores: Some(2.0), ..Change::default() }), 2.0);
    }

    #[test]
    fn calls_that_were_asked_for_are_a_bound() {
        let mut model = model(8.0);
        model.lanes[0].calls = Some(1.0);
        assert_eq!(tightest(&model), (Limit::Calls, 2, 1000.0));
        let freed = model.changed(&Change { parallel: vec![2], ..Change::default() });
        assert_eq!(tightest(&freed), (Limit::Cores, 2, 1050.0 / 8.0));
    }

    #[test]
    fn calls_are_a_bound_only_where_there_are_more_threads() {
        let mut model = model(2.0);
        model.lanes[0].calls = Some(4.0);
        assert_eq!(tightest(&model), (Limit::Cores, 2, 525.0));
        let many = model.changed(&Change { cores: Some(64.0), ..Change::default() });
        assert_eq!(tightest(&many), (Limit::Calls, 2, 250.0));
    }

    #[test]
    fn datasets_that_are_read_at_once_are_as_many_as_were_asked_for() {
        // Sixteen datasets are open, whose elements take 100 ns each.
        let mut model = Model { parts: vec![part(1, 1, true, 100.0)], lanes: vec![], ..model(8.0) };
        model.lanes.push(Lane { id: 1, lanes: 16.0, ..Lane::default() });
        assert_eq!(tightest(&model), (Limit::Serial, 1, 12.5));
        model.lanes[0].places = Some(2.0);
        assert_eq!(tightest(&model), (Limit::Calls, 1, 50.0));
        // Whoever waits for bytes leaves its place to others.
        model.lanes[0].io_ns = 1600.0;
        assert_eq!(tightest(&model), (Limit::Io, 1, 150.0));
        // More than there are threads is no bound.
        model.lanes[0] = Lane { id: 1, lanes: 16.0, places: Some(12.0), ..Lane::default() };
        assert_eq!(tightest(&model), (Limit::Serial, 1, 12.5));
    }

    #[test]
    fn processes_are_as_many_as_were_asked_for() {
        let mut model = model(2.0);
        model.parts[1].away = true;
        model.lanes[0].calls = Some(3.0);
        assert_eq!(tightest(&model), (Limit::Calls, 2, 300.0));
        // More of them than cores help functions that wait; their time takes no thread.
        model.lanes[0].calls = Some(5.0);
        assert_eq!(tightest(&model), (Limit::Calls, 2, 180.0));
        assert_eq!(model.bounds()[1].limit, Limit::Serial);
        let here = model.changed(&Change { parallel: vec![2], ..Change::default() });
        assert_eq!(tightest(&here), (Limit::Cores, 2, 525.0));
    }

    #[test]
    fn python_functions_share_a_lock() {
        let mut model = model(8.0);
        model.parts[1].locks = true;
        model.parts.push(Part { locks: true, ..part(4, 2, false, 300.0) });
        assert_eq!(tightest(&model), (Limit::Lock, 2, 1200.0));
        // Calls side by side share it as well.
        model.lanes[0].calls = Some(4.0);
        assert_eq!(tightest(&model), (Limit::Lock, 2, 1200.0));
        model.lanes[0].calls = None;
        // A function that sleeps does not hold it.
        model.parts[1].cpu_ns = 0.0;
        assert_eq!(tightest(&model), (Limit::Lock, 2, 300.0));
    }

    #[test]
    fn reads_are_waited_for_by_whoever_pulls() {
        let mut model = model(8.0);
        model.lanes[0].io_ns = 4000.0;
        assert_eq!(tightest(&model), (Limit::Io, 1, 4100.0));
        assert_eq!(tightest(&model.changed(&Change { latency: Some(0.5), ..Change::default() })).2, 2100.0);
        model.lanes[0].lanes = 4.0;
        assert_eq!(tightest(&model).2, 1025.0);
        let cached = model.changed(&Change { cached_at: Some(2), ..Change::default() });
        assert_eq!(tightest(&cached), (Limit::Serial, 3, 50.0));
    }

    #[test]
    fn a_slow_consumer_is_the_limit_whatever_is_changed() {
        let mut model = Model { step_ns: 2100.0, measured: 1e9 / 2100.0, ..model(2.0) };
        assert!(model.is_consumer_bound());
        assert_eq!(model.headroom(), Some(4.0));
        assert_eq!(model.gain(&Change { free: vec![2], ..Change::default() }), 1.0);
        // Without working ahead both times add up.
        model.parts.iter_mut().for_each(|p| p.segment = 0);
        assert_eq!(model.rate(), 1e9 / 3150.0);
        let ahead = model.gain(&Change { ahead: true, ..Change::default() });
        assert_eq!(ahead, 1.5);
    }

    #[test]
    fn steps_cost_something_themselves() {
        let mut model = model(100.0);
        model.lanes[1].over_ns = 200.0;
        assert_eq!(tightest(&model), (Limit::Serial, 3, 250.0));
        model.lanes[0].over_ns = 500.0;
        assert_eq!(tightest(&model), (Limit::Serial, 3, 250.0), "others pull meanwhile");
        model.cores = 1.0;
        assert_eq!(tightest(&model).2, 1750.0);
    }

    #[test]
    fn nothing_costs_nothing() {
        let empty = Model::default();
        assert!(empty.ceiling().is_finite() && empty.bounds().is_empty() && empty.headroom().is_none());
        let free = model(2.0).changed(&Change { free: vec![1, 2, 3], ..Change::default() });
        assert!(free.ceiling().is_finite() && free.rate().is_finite());
    }
}
