//! A plan for people: as written, what the rewrites did, as it runs, and what the last pass counted.

use super::tuning::choices;
use super::{Plan, draw, inner_plans, model};
use crate::error::{Error, Result};
use crate::options::OnError;
use crate::rewrite::Rewritten;
use crate::runtime::{Lane, Meter, Meters, bytes_text};
use crate::tune::{Limit, Model, Verdict, verdict};
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Dot,
    Mermaid,
    Html,
}

impl Format {
    pub fn parse(name: &str) -> Result<Format> {
        match name {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            "dot" => Ok(Format::Dot),
            "mermaid" => Ok(Format::Mermaid),
            "html" => Ok(Format::Html),
            other => Err(Error::usage(format!(
                "there is no format {other:?}; the formats are text, json, dot, mermaid and html"
            ))),
        }
    }
}

/// Explains a plan, with the meters of its last pass if there was one.
pub fn explain(plan: &Plan, format: Format) -> String {
    let (Ok(Rewritten { log, .. }), Ok(runs)) = (plan.rewritten(), plan.ran()) else { return format!("{plan:?}") };
    told(plan, &runs, &log, plan.meters().as_deref(), format)
}

/// Explains one pass over a plan, which may be not the last: `runs` is the plan as this one runs it.
pub fn explain_pass(plan: &Plan, runs: &Plan, meters: &Meters, format: Format) -> String {
    let Ok(Rewritten { log, .. }) = plan.rewritten() else { return format!("{plan:?}") };
    told(plan, runs, &log, Some(meters), format)
}

fn told(plan: &Plan, runs: &Plan, log: &[(&'static str, String)], meters: Option<&Meters>, format: Format) -> String {
    // A picture shows what was written until there is something to show of how it runs.
    let drawn = if meters.is_some() { runs } else { plan };
    match format {
        Format::Dot => draw::dot(drawn, meters),
        Format::Mermaid => draw::mermaid(drawn, meters),
        Format::Html => draw::html(drawn, meters),
        Format::Text => text(plan, runs, log, meters),
        Format::Json => {
            let model = meters.map(|m| model(runs, m));
            let value = json!({
                "written": node_json(plan, None, &mut HashSet::new()),
                "rules": log.iter().map(|(rule, on)| json!({ "rule": rule, "on": on })).collect::<Vec<_>>(),
                "runs": node_json(runs, meters, &mut HashSet::new()),
                "pass": meters.map(|m| json!({
                    "seconds": m.elapsed_ns() as f64 / 1e9,
                    "delivered": m.delivered.load(Relaxed),
                    "waited_seconds": m.waited_ns.load(Relaxed) as f64 / 1e9,
                    "own_seconds": m.own_ns.load(Relaxed) as f64 / 1e9,
                    "first_seconds": m.first_ns.load(Relaxed) as f64 / 1e9,
                    "cores": m.workers().0,
                    "ended": m.has_ended(),
                    "left_out": m.left_out().iter().map(|t| json!({
                        "operator": t.op, "number": t.number, "on_error": t.policy,
                        "elements": t.left_out.load(Relaxed), "first": t.first(),
                    })).collect::<Vec<_>>(),
                    "memory": json!({
                        "limit_bytes": m.budget.limit(), "held_bytes": m.budget.note(),
                        "held_bytes_peak": m.budget.peak(), "consumer_bytes": m.budget.out(),
                    }),
                })),
                "tuning": meters.map(|m| choices(runs, m).iter().map(|c| c.json()).collect::<Vec<_>>()),
                "ceiling": model.as_ref().map(ceiling_json),
                "model": model,
            });
            value.to_string()
        }
    }
}

/// A node whose inputs were shown before says so and does not repeat them.
fn node_json(plan: &Plan, meters: Option<&Meters>, seen: &mut HashSet<u64>) -> serde_json::Value {
    let again = !seen.insert(plan.id) && !plan.inputs.is_empty();
    let meter = meters.and_then(|m| Some(meter_json(&*m.get(plan.id)?, m)));
    let inputs = if again { &[] } else { plan.inputs.as_slice() };
    let mut json = json!({
        "id": plan.id, "op": plan.name(), "params": plan.op.show(), "spec": plan.spec.to_string(),
        "cardinality": plan.card.as_i64(), "meter": meter,
        "inputs": inputs.iter().map(|i| node_json(i, meters, seen)).collect::<Vec<_>>(),
    });
    // What runs inside of functions is told where it was measured.
    let inner = if again || meters.is_none() { vec![] } else { inner_plans(plan) };
    if !inner.is_empty() {
        json["inside"] = inner.iter().map(|i| node_json(i, meters, seen)).collect();
    }
    if again {
        json["as_above"] = true.into();
    }
    json
}

fn meter_json(m: &Meter, meters: &Meters) -> serde_json::Value {
    let place = meters.get(m.place.load(Relaxed));
    let is_parallel = m.is_parallel.load(Relaxed);
    let shares = place.as_ref().and_then(|p| p.ended_here()).map(|lane| match is_parallel {
        true => lane.work.shares(),
        false => lane.head.shares(),
    });
    let (rows, busy) = (m.rows.load(Relaxed), m.busy_ns.load(Relaxed));
    let mut json = json!({
        "rows": rows, "chunks": m.chunks.load(Relaxed), "fails": m.fails.load(Relaxed),
        "busy_ns": busy, "starved": m.starved.load(Relaxed),
        "held_bytes": m.held(), "held_bytes_peak": m.held_peak.load(Relaxed),
        "copied_bytes": m.copied.load(Relaxed),
        "chunk_rows": m.chunk_rows.load(Relaxed),
        "bytes": (m.row_bytes() * rows as f64) as u64,
        "cpu_ns": (busy as f64 * shares.map_or(1.0, |(cpu, _)| cpu)) as u64,
        "row_ns_p50": m.spread.at(0.5), "row_ns_p99": m.spread.at(0.99),
        "lock_ns": m.lock_ns.load(Relaxed), "cut_ns": m.cut_ns.load(Relaxed), "unpack_ns": m.unpack_ns.load(Relaxed),
        "parallel": is_parallel, "segment": m.place.load(Relaxed),
    });
    if let Some(lane) = m.ended_here() {
        json["queue"] = lane_json(lane);
    }
    json
}

/// The queue behind an operator and the segment that fills it.
fn lane_json(lane: &Lane) -> serde_json::Value {
    json!({
        "given": lane.given.load(Relaxed), "calls": lane.calls.load(Relaxed), "lanes": lane.lanes_peak.load(Relaxed),
        "fill": lane.fill.load(Relaxed) as f64 / 1000.0 / lane.fills.load(Relaxed).max(1) as f64,
        "head_ns": lane.head.ns.load(Relaxed), "work_ns": lane.work.ns.load(Relaxed),
        "input_ns": lane.input_ns.load(Relaxed), "io_ns": lane.io_ns.load(Relaxed),
        "room_ns": lane.room_ns.load(Relaxed), "order_ns": lane.order_ns.load(Relaxed),
    })
}

pub fn ceiling_json(model: &Model) -> serde_json::Value {
    let bounds = model.bounds();
    json!({
        "rate": model.ceiling(), "measured": model.measured, "headroom": model.headroom(),
        "expected": model.rate(), "consumer_bound": model.is_consumer_bound(),
        "limit": bounds.first(), "bounds": bounds,
    })
}

/// A bound in words that fit behind an operator's name.
pub fn limit_text(limit: Limit) -> &'static str {
    match limit {
        Limit::Serial => "one thread at a time runs it",
        Limit::Calls => "num_parallel_calls or workers let no more run at once",
        Limit::Io => "it waits for files or a store",
        Limit::Lock => "Python's lock lets one function run at a time",
        Limit::Cores => "all threads are at work, mostly on it",
        Limit::NotAhead => "nothing works ahead of the consumer",
    }
}

fn text(plan: &Plan, runs: &Plan, log: &[(&'static str, String)], meters: Option<&Meters>) -> String {
    let mut out = String::new();
    out.push_str("as written\n");
    let rows = lines(plan).into_iter().map(|l| vec![l.label, element_text(&l.plan), card_text(&l.plan)]).collect();
    table(&mut out, &["operator", "element", "elements"], rows);
    // As `BuildCx::root` does.
    let added = runs.options.prefetch.unwrap_or(!runs.has_last_queue());
    if log.is_empty() {
        out.push_str(if added { "\nno rewrites; a final prefetch is added\n" } else { "\nno rewrites\n" });
    } else {
        out.push_str(if added { "\nrewrites (and a final prefetch is added)\n" } else { "\nrewrites\n" });
        for (rule, on) in log {
            let _ = writeln!(out, "  {rule}: {}", cut(on, 90));
        }
    }
    let Some(meters) = meters else {
        if !log.is_empty() {
            out.push_str("\nas it runs\n");
            let rows = lines(runs).into_iter().map(|l| vec![l.label, element_text(&l.plan)]).collect();
            table(&mut out, &["operator", "element"], rows);
        }
        out.push_str("\nnot run yet: iterate over it to see what each operator costs\n");
        return out;
    };
    out.push_str("\nas it ran last\n");
    let lines = lines(runs);
    let found: Vec<_> = lines.iter().map(|l| meters.get(l.plan.id)).collect();
    let busy = |m: &Option<std::sync::Arc<crate::runtime::Meter>>| m.as_ref().map_or(0, |m| m.busy_ns.load(Relaxed));
    let total: u64 = found.iter().map(busy).sum::<u64>().max(1);
    let rows = lines
        .iter()
        .zip(&found)
        .map(|(line, meter)| {
            let Some(m) = meter else { return vec![line.label.clone()] };
            let rows = m.rows.load(Relaxed);
            vec![
                line.label.clone(),
                rows.to_string(),
                m.fails.load(Relaxed).to_string(),
                time(busy(meter)),
                busy(meter).checked_div(rows).map_or("-".into(), time),
                format!("{:.0} %", busy(meter) as f64 * 100.0 / total as f64),
                bytes_text(held(&line.plan, meters, |m| m.held()) as usize),
                bytes_text(held(&line.plan, meters, |m| m.held_peak.load(Relaxed)) as usize),
            ]
        })
        .collect();
    table(&mut out, &["operator", "rows", "errors", "busy", "per row", "share", "holds", "at most"], rows);
    let (elapsed, waited) = (meters.elapsed_ns().max(1), meters.waited_ns.load(Relaxed));
    let delivered = meters.delivered.load(Relaxed);
    let _ = writeln!(
        out,
        "\n{delivered} element{} in {} ({:.0} a second); the consumer waited {:.0} % of the time",
        if delivered == 1 { "" } else { "s" },
        time(elapsed),
        delivered as f64 * 1e9 / elapsed as f64,
        waited as f64 * 100.0 / elapsed as f64
    );
    for tally in meters.left_out() {
        let elements = tally.left_out.load(Relaxed);
        let how = if tally.policy == OnError::Quarantine { "quarantined" } else { "left out" };
        let s = if elements == 1 { "" } else { "s" };
        let _ = writeln!(out, "{} {how} {elements} element{s} that failed; the first:", tally.op);
        tally.first().iter().for_each(|error| {
            let _ = writeln!(out, "  {}", cut(error, 160));
        });
    }
    let memory = &meters.budget;
    let by_operators: u64 = lines.iter().map(|line| held(&line.plan, meters, |m| m.held())).sum();
    let on_its_way = match memory.live().saturating_sub(by_operators as usize) {
        0 => String::new(),
        rest => format!(" ({} of it read ahead, being made or handed on)", bytes_text(rest)),
    };
    let _ = writeln!(
        out,
        "memory: {} now{on_its_way} and {} at most, of {}; the consumer holds {} of what it was given",
        bytes_text(memory.live()),
        bytes_text(memory.peak()),
        bytes_text(memory.limit()),
        bytes_text(memory.out())
    );
    out.push_str("tuning:\n");
    for choice in choices(runs, meters) {
        let _ = writeln!(out, "  {}", choice.line());
    }
    let model = model(runs, meters);
    if let Some(bound) = model.bounds().first().filter(|_| delivered > 0) {
        let best = rate(model.ceiling());
        let _ = match verdict(waited, elapsed) {
            Verdict::Consumer => writeln!(
                out,
                "the consumer is the limit: the pipeline could be {} times as fast (at best {best} a second here)",
                times(model.headroom().unwrap_or(1.0))
            ),
            Verdict::Pipeline => writeln!(
                out,
                "the pipeline is the limit: at best {best} a second here, held by {} ({})",
                bound.name,
                limit_text(bound.limit)
            ),
        };
    }
    out
}

/// A rate with three digits.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 100.0 => format!("{r:.0}"),
        r => format!("{r:.3}").chars().take(4).collect(),
    }
}

/// A ratio with two digits.
pub fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0}") } else { format!("{ratio:.1}") }
}

/// An operator as it is named in reports: its name and its parameters, shortened.
pub fn label(plan: &Plan) -> String {
    cut(&format!("{}({})", plan.name(), plan.op.show()), 64)
}

struct Line {
    label: String,
    plan: Plan,
}

/// One line an operator, sources first; inputs of an operator with several are indented, and those that were shown
/// before are not shown again.
fn lines(plan: &Plan) -> Vec<Line> {
    fn visit(plan: &Plan, depth: usize, seen: &mut HashSet<u64>, out: &mut Vec<Line>) {
        let again = !seen.insert(plan.id) && !plan.inputs.is_empty();
        let below = if plan.inputs.len() > 1 { depth + 1 } else { depth };
        if !again {
            plan.inputs.iter().for_each(|i| visit(i, below, seen, out));
        }
        let label = format!("{}{}({})", "  ".repeat(depth.min(20)), plan.name(), plan.op.show());
        let label = cut(&label, 64) + if again { ", as above" } else { "" };
        out.push(Line { label, plan: plan.clone() });
    }
    let mut out = Vec::new();
    visit(plan, 0, &mut HashSet::new(), &mut out);
    out
}

/// A record of many fields would push everything behind it off the screen; the other formats have it whole.
const ELEMENT_CHARS: usize = 72;

/// What an operator holds, with what the datasets inside of its functions do.
fn held(plan: &Plan, meters: &Meters, of: impl Fn(&Meter) -> u64 + Copy) -> u64 {
    let inside = |inner: &Plan| {
        let mut sum = 0;
        inner.walk(&mut |node| sum += held(node, meters, of));
        sum
    };
    meters.get(plan.id).map_or(0, |m| of(&m)) + inner_plans(plan).iter().map(inside).sum::<u64>()
}

fn element_text(plan: &Plan) -> String {
    cut(&plan.spec.to_string(), ELEMENT_CHARS)
}

fn card_text(plan: &Plan) -> String {
    plan.card.to_string()
}

/// At most so many characters.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_string(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

fn table(out: &mut String, head: &[&str], rows: Vec<Vec<String>>) {
    let mut width: Vec<usize> = head.iter().map(|h| h.len()).collect();
    for row in &rows {
        row.iter().zip(&mut width).for_each(|(c, w)| *w = (*w).max(c.chars().count()));
    }
    let mut line = |cells: Vec<String>| {
        out.push_str("  ");
        for (i, (cell, w)) in cells.iter().zip(&width).enumerate() {
            let pad = " ".repeat(w - cell.chars().count());
            // The operator stands left, numbers right.
            let _ = if i == 0 { write!(out, "{cell}{pad}") } else { write!(out, "  {pad}{cell}") };
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    };
    line(head.iter().map(|h| h.to_string()).collect());
    rows.into_iter().for_each(&mut line);
}

/// A time with a unit that fits.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}
