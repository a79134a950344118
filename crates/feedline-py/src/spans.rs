//! Recording for `fl.chrome_trace`: which thread worked for which operator, from when to when.

use crate::passes::each_plan;
use feedline::runtime::spans;
use pyo3::prelude::*;

/// Begins to record, the newest `most` spans. False if it is on already.
#[pyfunction]
pub fn start_spans(most: usize) -> bool {
    let started = spans::start(most);
    each_plan(spans::name);
    started
}

/// A span: operator, number of the thread, rows, start and length in nanoseconds.
type Span = (&'static str, u32, u64, u64, u64);

/// Ends it: spans, names of threads, and how many spans had to make room.
#[pyfunction]
pub fn stop_spans() -> Option<(Vec<Span>, Vec<String>, u64)> {
    let spans::Spans { spans, lost, names, threads } = spans::stop()?;
    let name = |node| match node {
        spans::WAIT => "wait",
        // A dataset that a function made while the pipeline ran.
        _ => names.get(&node).copied().unwrap_or("inner dataset"),
    };
    let list = spans.iter().map(|s| (name(s.node), s.thread, s.rows, s.start_ns, s.ns)).collect();
    Some((list, threads, lost))
}
