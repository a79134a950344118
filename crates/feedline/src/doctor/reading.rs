//! Where elements come from: one file after the other, packed, in small pieces, from far away.

use super::{Case, Finding};
use crate::expr::Kind;
use crate::plan::{Plan, all_nodes, bytes_text, inner_plans};
use crate::runtime::Meter;
use crate::tune::Change;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Datasets of a function are read one after the other by whoever pulls.
pub fn serial_interleave(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let serial = |p: &&Plan| matches!(p.name(), "interleave" | "flat_map") && p.number("num_parallel_calls").is_none();
    for plan in case.nodes.iter().filter(serial) {
        let inside: Vec<u64> = inner_plans(plan).iter().flat_map(all_nodes).map(|p| p.id).collect();
        // Sixteen are open at once unless it says otherwise.
        let open = plan.number("cycle_length").filter(|n| *n > 0).unwrap_or(16) as f64;
        let change = Change { parallel: inside.clone(), latency: Some(1.0 / open), ..Change::default() };
        let cost: f64 = case.model.parts.iter().filter(|p| inside.contains(&p.id)).map(|p| p.cost_ns).sum();
        let text = format!(
            "it reads one dataset at a time, and all that is done inside of it runs on one thread: {:.0} % of the work",
            cost * 100.0 / case.total_ns().max(1.0)
        );
        let fix = ".interleave(function, num_parallel_calls=fl.AUTOTUNE)".into();
        found.push(case.finding("serial_interleave", plan, case.gain(change), text, fix));
    }
    found
}

/// Compressed files are read by one thread each.
pub fn compressed(case: &Case<'_>) -> Vec<Finding> {
    let packed = |p: &&Plan| p.inputs.is_empty() && packing(p).is_some();
    let found = case.nodes.iter().filter(packed).filter_map(|plan| {
        let (part, meter) = (case.part(plan)?, case.meter(plan)?);
        let left = 1.0 - share(&meter, &meter.unpack_ns);
        let gain = case.gain(Change { faster: vec![(plan.id, left)], ..Change::default() });
        let text = format!(
            "its files are compressed ({}), and one thread unpacks each: {:.0} % of the work for an element",
            packing(plan).unwrap_or_default(),
            case.percent(part)
        );
        let change = "feedline convert 'old/*.tfrecord.gz' new.tfrecord --shards 8  # plain files; or read several at once with \
                      .interleave(fl.TFRecordDataset, num_parallel_calls=fl.AUTOTUNE)";
        Some(case.finding("compressed", plan, gain, text, change.into()))
    });
    found.collect()
}

/// The share of a part in an operator's own time.
fn share(meter: &Meter, part_ns: &AtomicU64) -> f64 {
    (part_ns.load(Relaxed) as f64 / meter.busy_ns.load(Relaxed).max(1) as f64).min(1.0)
}

fn packing(plan: &Plan) -> Option<String> {
    // Sources with data of their own would write them all.
    let reads = matches!(plan.name(), "tf_record" | "text_line" | "csv" | "json_lines" | "fixed_length_record");
    let text = Some(plan).filter(|_| reads)?.param("compression_type")?.as_str()?.to_string();
    (!text.is_empty()).then_some(text)
}

/// Files below this are mostly opened, not read.
const SMALL_FILE: f64 = 128e3;
const MANY_FILES: usize = 64;
/// Files that are written in their place.
const FEW_FILES: f64 = 8.0;

/// Many files with little in them.
pub fn small_files(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let fix = "feedline convert 'many/*.tfrecord' few.tfrecord --shards 8  # the same records in a few large files";
    for plan in &case.nodes {
        let (files, Some(part)) = (plan.op.files().len(), case.part(plan)) else { continue };
        if files >= MANY_FILES {
            let Some(meter) = case.meter(plan) else { continue };
            let all = plan.card.known().map_or_else(|| super::rows(&meter), |n| n as f64) * part.row_bytes;
            if all / files as f64 > SMALL_FILE {
                continue;
            }
            // Whatever is done for each file is done for a few; what is in them is read as before.
            let fewer = FEW_FILES / files as f64;
            let cut = share(&meter, &meter.cut_ns);
            let gain = case.gain(Change {
                faster: vec![(plan.id, cut + (1.0 - cut) * fewer)],
                steps: vec![(part.segment, fewer)],
                latency: Some(fewer),
                ..Change::default()
            });
            let text = format!(
                "it reads {files} files of about {}: opening them takes longer than reading them",
                bytes_text((all / files as f64) as usize)
            );
            found.push(case.finding("small_files", plan, gain, text, fix.into()));
        } else if reads_files(plan) && part.cost_ns > 0.0 {
            // A function that opens a file for each element: what it waits for is the opening.
            let computing = (part.cpu_ns / part.cost_ns).clamp(0.1, 1.0);
            let gain = case.gain(Change { faster: vec![(plan.id, computing)], ..Change::default() });
            let text = format!(
                "it opens a file for each element and waits for it: {:.0} % of its time",
                100.0 - computing * 100.0
            );
            let change = "ds.save(\"train\", format=\"tfrecord\")  # once; then read fl.TFRecordDataset: few files, read in order";
            found.push(case.finding("small_files", plan, gain, text, change.into()));
        }
    }
    found
}

fn reads_files(plan: &Plan) -> bool {
    let reads = |kind: &Kind| matches!(kind, Kind::Call { func, .. } if func.name == "io.read_file");
    plan.op.functions().iter().any(|f| f.0.nodes.iter().any(|n| reads(&n.kind)))
}

/// Whoever pulls waits for bytes.
pub fn slow_reads(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for lane in case.model.lanes.iter().filter(|l| l.io_ns > 0.0) {
        let source =
            case.nodes.iter().find(|p| p.inputs.is_empty() && case.part(p).is_some_and(|q| q.segment == lane.id));
        let Some(plan) = source else { continue };
        let head: f64 = case.model.parts.iter().filter(|p| p.segment == lane.id && p.serial).map(|p| p.cost_ns).sum();
        let gain = case.gain(Change { latency: Some(1.0 / 16.0), ..Change::default() });
        let text = format!(
            "it waits for its files {:.0} % of the time: the disk or the store is slower than all that follows",
            lane.io_ns * 100.0 / (lane.io_ns + head).max(1.0)
        );
        let change = "read many files at once: fl.Dataset.list_files(pattern).interleave(fl.TFRecordDataset, cycle_length=16, \
                      num_parallel_calls=fl.AUTOTUNE); or keep far files on a local disk (FEEDLINE_CACHE_DIR)";
        found.push(case.finding("slow_reads", plan, gain, text, change.into()));
    }
    found
}
