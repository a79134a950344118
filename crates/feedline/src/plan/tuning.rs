//! What the tuner chose in a pass, and why: a line a choice.

use super::{Plan, all_nodes, bytes_text};
use crate::runtime::{Lane, Meters, ahead_text, rows_text};
use crate::tune::Ahead;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// One thing that was chosen.
pub struct Choice {
    /// What it is: "workers", "chunk_rows", "queue_bytes", "read_ahead_bytes".
    what: &'static str,
    /// Behind which operator; `None`: for the whole pass.
    operator: Option<&'static str>,
    value: usize,
    /// What was asked for, which it does not exceed.
    cap: Option<usize>,
    why: String,
}

/// The choices of a pass: of the whole, then of each segment from the source on.
pub fn choices(plan: &Plan, meters: &Meters) -> Vec<Choice> {
    let (cores, why) = meters.workers();
    let mut all = vec![Choice { what: "workers", operator: None, value: cores, cap: None, why: why.to_string() }];
    let (readers, bytes) = meters.budget.readers();
    if readers > 0 {
        let why = format!("an eighth of memory_limit, or what all pipelines may; {readers} readers shared it");
        all.push(Choice { what: "read_ahead_bytes", operator: None, value: bytes, cap: None, why });
    }
    for node in all_nodes(plan) {
        let Some(meter) = meters.get(node.id) else { continue };
        let Some(lane) = meter.ended_here() else { continue };
        let operator = Some(node.op.called());
        let rows = meter.chunk_rows.load(Relaxed) as usize;
        if rows > 0 {
            let why = rows_text(lane.chosen.rows_why()).to_string();
            all.push(Choice { what: "chunk_rows", operator, value: rows, cap: None, why });
        }
        if let Some(calls) = Some(lane.calls.load(Relaxed) as usize).filter(|n| *n > 0) {
            let asked = if lane.away.load(Relaxed) { "workers" } else { "num_parallel_calls" };
            let why = format!("{asked} asks for no more at once");
            all.push(Choice { what: "calls", operator, value: calls.min(cores.max(1)), cap: Some(calls), why });
        }
        all.push(queue(operator, lane));
    }
    all
}

fn queue(operator: Option<&'static str>, lane: &Lane) -> Choice {
    let (bytes, elements) = (lane.chosen.bytes.load(Relaxed), lane.chosen.elements.load(Relaxed));
    let mut why = ahead_text(lane.chosen.bytes_why()).to_string();
    if lane.chosen.bytes_why() != Ahead::Most {
        let _ = write!(why, "; at most {}", bytes_text(lane.chosen.most_bytes.load(Relaxed)));
    }
    let cap = (elements > 0).then_some(elements);
    if let Some(n) = cap {
        let _ = write!(why, "; and no more than {n} element{}, as asked for", if n == 1 { "" } else { "s" });
    }
    Choice { what: "queue_bytes", operator, value: bytes, cap, why }
}

impl Choice {
    pub fn json(&self) -> Value {
        let Choice { what, operator, value, cap, why } = self;
        json!({ "what": what, "operator": operator, "value": value, "cap": cap, "why": why })
    }
    pub fn line(&self) -> String {
        let n = self.value;
        let s = if n == 1 { "" } else { "s" };
        let value = match self.what {
            "workers" => format!("{n} worker{s} at once"),
            "chunk_rows" => format!("{n} row{s} a chunk"),
            "calls" => format!("{n} at once"),
            "queue_bytes" => format!("up to {} in the queue", bytes_text(n)),
            _ => format!("up to {} read ahead", bytes_text(n)),
        };
        match self.operator {
            Some(operator) => format!("{operator}: {value} ({})", self.why),
            None => format!("{value} ({})", self.why),
        }
    }
}
