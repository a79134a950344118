//! Which thread worked for which operator, from when to when: what a trace shows.
//!
//! 1. Off, which is the rule, a span costs one relaxed load: this file keeps nothing.
//! 2. On, every pull and every function call on a chunk leaves a span in one bounded list; the oldest make room. A span
//!    that began inside another one of its thread lies within it.
//! 3. Spans have numbers of plan nodes. `name` says what those are called: for passes that begin while it is on, and by
//!    whoever turns it on for those that run.

use crate::plan::Plan;
use feedline_io::brief;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
// Not shuttle's: these are never on under its schedules.
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// In place of a node: the consumer waits (and helps).
pub const WAIT: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub node: u64,
    /// Number of the thread in `Spans::threads`.
    pub thread: u32,
    pub rows: u64,
    /// Since recording was turned on.
    pub start_ns: u64,
    pub ns: u64,
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Spans {
    /// In the order in which they ended.
    pub spans: VecDeque<Span>,
    /// Spans that had to make room.
    pub lost: u64,
    pub names: HashMap<u64, &'static str>,
    pub threads: Vec<String>,
}

struct Recording {
    since: Instant,
    most: usize,
    spans: Spans,
    /// Tells recordings apart: a thread's number is of one of them.
    number: u64,
}

static ON: AtomicBool = AtomicBool::new(false);
static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

fn recording() -> MutexGuard<'static, Option<Recording>> {
    RECORDING.lock().unwrap_or_else(|e| e.into_inner())
}

/// Begins to record, the newest `most` spans. False if it is on already.
pub fn start(most: usize) -> bool {
    static NUMBER: Mutex<u64> = Mutex::new(0);
    let _brief = brief();
    let mut recording = recording();
    if recording.is_some() {
        return false;
    }
    let mut number = NUMBER.lock().unwrap_or_else(|e| e.into_inner());
    *number += 1;
    *recording = Some(Recording { since: Instant::now(), most: most.max(1), spans: Spans::default(), number: *number });
    ON.store(true, Relaxed);
    true
}

/// Ends it; `None` if it was not on.
pub fn stop() -> Option<Spans> {
    let _brief = brief();
    ON.store(false, Relaxed);
    recording().take().map(|r| r.spans)
}

/// Remembers what the operators of a plan are called.
pub fn name(plan: &Plan) {
    if !ON.load(Relaxed) {
        return;
    }
    let mut names = Vec::new();
    plan.walk(&mut |p| names.push((p.id, p.name())));
    let _brief = brief();
    if let Some(recording) = &mut *recording() {
        recording.spans.names.extend(names);
    }
}

/// This thread worked on `rows` rows for `ns`.
#[inline]
pub fn span(node: u64, start: Instant, ns: u64, rows: usize) {
    if ON.load(Relaxed) {
        record(node, start, ns, rows as u64);
    }
}

#[cold]
fn record(node: u64, start: Instant, ns: u64, rows: u64) {
    thread_local! {
        /// The recording, and the number of this thread in it.
        static THREAD: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    }
    let _brief = brief();
    let mut recording = recording();
    let Some(recording) = &mut *recording else { return };
    let spans = &mut recording.spans;
    let (of, mut thread) = THREAD.get();
    if of != recording.number {
        thread = spans.threads.len() as u32;
        spans.threads.push(std::thread::current().name().unwrap_or("consumer").to_owned());
        THREAD.set((recording.number, thread));
    }
    if spans.spans.len() >= recording.most {
        spans.spans.pop_front();
        spans.lost += 1;
    }
    // What began before recording did is shown from there on.
    let early = recording.since.saturating_duration_since(start).as_nanos() as u64;
    let start_ns = start.saturating_duration_since(recording.since).as_nanos() as u64;
    spans.spans.push_back(Span { node, thread, rows, start_ns, ns: ns.saturating_sub(early) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;

    #[test]
    fn spans_lie_within_each_other_and_make_room() {
        let ds = || Dataset::range(5000).unwrap().map(|b, x| b.call("add", &[x[0], x[0]], Default::default())).unwrap();
        assert!(start(1 << 20));
        assert!(!start(1), "one recording at a time");
        let written = ds().batch(10, false).unwrap();
        assert_eq!(written.iter().unwrap().count(), 500);
        let Spans { spans, lost, names, threads } = stop().unwrap();
        assert!(stop().is_none());
        assert_eq!(lost, 0);
        let rows = |op| spans.iter().filter(|s| names.get(&s.node) == Some(&op)).map(|s| s.rows).sum::<u64>();
        // Other tests may run pipelines at the same time: at least what this one did.
        assert!(rows("range") >= 5000 && rows("map") >= 5000 && rows("batch") >= 500);
        for a in &spans {
            assert!((a.thread as usize) < threads.len());
            for b in spans.iter().filter(|b| b.thread == a.thread) {
                let (end_a, end_b) = (a.start_ns + a.ns, b.start_ns + b.ns);
                let apart = end_a <= b.start_ns || end_b <= a.start_ns;
                let within =
                    (a.start_ns <= b.start_ns && end_b <= end_a) || (b.start_ns <= a.start_ns && end_a <= end_b);
                assert!(apart || within, "{a:?} {b:?}");
            }
        }
        assert!(start(3));
        assert_eq!(ds().iter().unwrap().count(), 5000);
        let few = stop().unwrap();
        assert!(few.spans.len() <= 3);
    }
}
