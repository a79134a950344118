//! Counters of one operator of a running pipeline.

use super::spans::span;
use super::{Budget, Cx, LeftOut, Start, Tally};
use crate::options::OnError;
use feedline_io::brief;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

#[derive(Debug, Default)]
pub struct Meter {
    /// The plan node that it belongs to; 0 if it belongs to none.
    pub id: u64,
    pub chunks: AtomicU64,
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    pub fails: AtomicU64,
    /// Time inside the operator itself, without the stages below it.
    pub busy_ns: AtomicU64,
    /// Pulls that found nothing below.
    pub starved: AtomicU64,
    /// Bytes that it keeps or its queue holds now, and at most so far.
    pub held: AtomicU64,
    pub held_peak: AtomicU64,
    /// Bytes of rows that it had to copy to put them together.
    pub copied: AtomicU64,
    /// Rows a chunk now.
    pub chunk_rows: AtomicU64,
}

impl Meter {
    /// Counts what `f` does as this operator's work on `rows` rows.
    pub fn time<R>(&self, cx: &mut Cx<'_>, rows: usize, f: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = f();
        let ns = start.elapsed().as_nanos() as u64;
        cx.inner_ns += ns;
        self.count(rows, ns);
        span(self.id, start, ns, rows);
        result
    }
    pub fn count(&self, rows: usize, ns: u64) {
        self.chunks.fetch_add(1, Relaxed);
        self.rows.fetch_add(rows as u64, Relaxed);
        self.busy_ns.fetch_add(ns, Relaxed);
    }
    pub fn hold(&self, bytes: usize) {
        self.held.store(bytes as u64, Relaxed);
        self.held_peak.fetch_max(bytes as u64, Relaxed);
    }
}

/// The meters of one pass, by plan node, and what its consumer saw.
#[derive(Debug)]
pub struct Meters {
    nodes: Mutex<HashMap<u64, Arc<Meter>>>,
    started: Instant,
    /// Nanoseconds from the start to the end; 0 while it runs.
    ended_ns: AtomicU64,
    /// Elements handed to the consumer.
    pub delivered: AtomicU64,
    /// Time that the consumer waited (or helped) for elements.
    pub waited_ns: AtomicU64,
    /// What operators left out because it failed.
    left_out: Mutex<Vec<Arc<Tally>>>,
    /// What they had left out before the pass was resumed.
    before: Mutex<Vec<LeftOut>>,
    /// Where the pass began.
    start: OnceLock<Start>,
    pub budget: Arc<Budget>,
}

/// Datasets that functions make while the pipeline runs (a window, what Python returns) are nodes without end: meters
/// are kept for so many nodes only.
const MAX_METERS: usize = 4096;

impl Meters {
    pub fn new(budget: Arc<Budget>) -> Meters {
        let (nodes, ended_ns, delivered, waited_ns, left_out, before, start) = Default::default();
        Meters { nodes, started: Instant::now(), ended_ns, delivered, waited_ns, left_out, before, start, budget }
    }
    pub fn of(&self, node: u64) -> Arc<Meter> {
        let _brief = brief();
        let mut map = self.nodes.lock().unwrap_or_else(|e| e.into_inner());
        if map.len() >= MAX_METERS && !map.contains_key(&node) {
            return Arc::default();
        }
        map.entry(node).or_insert_with(|| Arc::new(Meter { id: node, ..Meter::default() })).clone()
    }
    pub fn get(&self, node: u64) -> Option<Arc<Meter>> {
        let _brief = brief();
        self.nodes.lock().unwrap_or_else(|e| e.into_inner()).get(&node).cloned()
    }
    /// The count of what an operator leaves out: one for all of its name and number.
    pub fn tally(&self, op: &'static str, number: Option<u64>, policy: OnError) -> Arc<Tally> {
        let _brief = brief();
        let mut all = self.left_out.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(tally) = all.iter().find(|t| (t.op, t.number, t.policy) == (op, number, policy)) {
            return tally.clone();
        }
        let tally = Tally::new(op, number, policy);
        let before = self.before.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(before) = before.iter().find(|b| b.operator == op && b.number == number) {
            tally.left_out.store(before.elements, Relaxed);
        }
        all.push(Arc::new(tally));
        all[all.len() - 1].clone()
    }
    /// Counts on from what a state tells.
    pub fn go_on(&self, before: &[LeftOut]) {
        let _brief = brief();
        *self.before.lock().unwrap_or_else(|e| e.into_inner()) = before.to_vec();
    }
    /// Remembers where the pass began.
    pub fn begin(&self, start: Start) {
        let _brief = brief();
        let _ = self.start.set(start);
    }
    pub fn start(&self) -> Option<Start> {
        self.start.get().cloned()
    }
    /// What operators left out so far.
    pub fn left_out(&self) -> Vec<Arc<Tally>> {
        let _brief = brief();
        let all = self.left_out.lock().unwrap_or_else(|e| e.into_inner());
        all.iter().filter(|t| t.left_out.load(Relaxed) > 0).cloned().collect()
    }
    pub fn end(&self) {
        self.ended_ns.store(self.started.elapsed().as_nanos() as u64, Relaxed);
    }
    pub fn has_ended(&self) -> bool {
        self.ended_ns.load(Relaxed) != 0
    }
    /// How long the pass took, or has taken so far.
    pub fn elapsed_ns(&self) -> u64 {
        match self.ended_ns.load(Relaxed) {
            0 => self.started.elapsed().as_nanos() as u64,
            ns => ns,
        }
    }
}
