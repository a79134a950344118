//! What fuzzing runs: for each parser a function of any bytes, which must neither panic nor take memory that the bytes do
//! not account for, and must give the same however the bytes are cut into blocks. `fuzz/` feeds them new bytes, and a test
//! the ones that were kept.

use crate::records::{Records, collect};
use crate::{csv, example, fixed, jsonl, lines, sequence_example, tar, tfrecord, tfrecord_index, webdataset};
use feedline_io::{Buf, Error, Stat};

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target. Adding one: its function here, and a file in `fuzz/fuzz_targets`.
pub static TARGETS: &[(&str, Target)] = &[
    ("csv", csv_rows),
    ("example", example_record),
    ("index", index),
    ("json_lines", json_lines),
    ("lines", text_lines),
    ("sequence_example", sequence_example_record),
    ("tar", tar_members),
    ("tfrecord", tfrecord_file),
];

type Cut = Vec<Result<Vec<u8>, String>>;

fn plain(all: Vec<Result<Vec<u8>, Error>>) -> Cut {
    all.into_iter().map(|r| r.map_err(|e| e.to_string())).collect()
}

/// The records of a file, which must not depend on the size of its blocks.
fn same_by_blocks(bytes: &[u8], mut reader: impl FnMut() -> Box<dyn Records>) -> Cut {
    let whole = plain(collect(&mut *reader(), [bytes]));
    for block in [1, 7, 512] {
        // Byte by byte is slow where there are many.
        if block > 1 || bytes.len() < 4096 {
            assert_eq!(plain(collect(&mut *reader(), bytes.chunks(block))), whole, "in blocks of {block}");
        }
    }
    whole
}

pub fn tfrecord_file(bytes: &[u8]) {
    for after_bad in [tfrecord::AfterBad::End, tfrecord::AfterBad::Resync] {
        for check in [true, false] {
            let options = tfrecord::Options { check, after_bad };
            let all = same_by_blocks(bytes, || Box::new(tfrecord::Reader::new(options, Some(bytes.len() as u64))));
            let held: usize = all.iter().flatten().map(|r| r.len() + 16).sum();
            assert!(held <= bytes.len(), "more bytes came out than went in");
        }
    }
    let _ = tfrecord::unframe(bytes, true);
}

pub fn index(bytes: &[u8]) {
    // The index itself says which file it belongs to, so that more than its first check is reached.
    let len = bytes.get(12..20).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
    let version = bytes.get(36..).map_or(String::new(), |b| String::from_utf8_lossy(&b[..b.len().min(8)]).into_owned());
    if let Some(index) = tfrecord_index::Index::read(bytes, &Stat { len, version }) {
        assert!((0..index.len()).all(|i| index.span(i).start < index.span(i).end && index.span(i).end <= len));
    }
}

pub fn example_record(bytes: &[u8]) {
    let wanted = example::Wanted::new(["a", "bb", "image/encoded"]);
    let mut found = [None, None, None];
    if wanted.read(bytes, &mut found).is_ok() {
        for feature in found.iter().flatten() {
            let Ok(count) = feature.count() else { continue };
            assert!(count <= bytes.len(), "more values than bytes");
            let mut ints = Vec::new();
            let mut floats = Vec::new();
            let _ = (feature.ints_onto(&mut ints), feature.floats_onto(&mut floats));
            let _ = feature.each_bytes(|part| assert!(part.len() <= bytes.len()));
        }
    }
    for (_, feature) in example::Entries::new(bytes).flatten() {
        let _ = feature.count();
    }
}

pub fn sequence_example_record(bytes: &[u8]) {
    let wanted = example::Wanted::new(["a", "bb"]);
    let mut found = [None, None];
    if wanted.read_lists(bytes, &mut found).is_ok() {
        for step in found.iter().flatten().flat_map(|list| list.steps()).flatten() {
            assert!(step.count().unwrap_or(0) <= bytes.len(), "more values than bytes");
        }
    }
    sequence_example::Lists::new(bytes).flatten().for_each(drop);
}

pub fn text_lines(bytes: &[u8]) {
    same_by_blocks(bytes, || Box::new(lines::Lines::default()));
    if let Ok(layout) = fixed::Layout::new(7, 3, 2) {
        same_by_blocks(bytes, || Box::new(fixed::Fixed::new(layout)));
    }
}

pub fn csv_rows(bytes: &[u8]) {
    let dialect = csv::Dialect::default();
    let rows = same_by_blocks(bytes, || Box::new(csv::Rows::new(dialect, false)));
    for row in rows.iter().flatten() {
        if let Ok(texts) = csv::texts(row, dialect) {
            let mut inference = csv::Inference::new(texts.len());
            let _ = inference.row(&texts, b"");
        }
    }
}

pub fn json_lines(bytes: &[u8]) {
    let mut inference = jsonl::Inference::default();
    let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    lines.iter().take(100).for_each(|line| drop(inference.line(line)));
    let Ok(schema) = jsonl::Schema::new(inference.fields()) else { return };
    let mut row = jsonl::Row::default();
    lines.iter().for_each(|line| drop(row.read(&schema, line)));
}

pub fn tar_members(bytes: &[u8]) {
    let members = |block: usize| {
        let mut reader = tar::Tar::default();
        let mut blocks = bytes.chunks(block);
        let mut seen = Vec::new();
        loop {
            match reader.next(&mut |_| true) {
                tar::Step::Member(member, view) => {
                    let name = String::from_utf8_lossy(&member.name).into_owned();
                    assert!(!name.starts_with('/') && !name.split('/').any(|part| part == ".."), "{name} escapes");
                    seen.push((name, view.map(|v| v.bytes().to_vec())));
                }
                tar::Step::More => match blocks.next() {
                    Some(block) => reader.feed(Buf::copied(block)),
                    None => reader.finish(),
                },
                tar::Step::Fail(error) => seen.push((error.to_string(), None)),
                tar::Step::End => return seen,
            }
            assert!(seen.len() <= bytes.len() / 512 + 2, "more members than headers");
        }
    };
    assert_eq!(members(512 + 7), members(bytes.len().max(1)));
    let _ = webdataset::first_fields([Ok(bytes)]);
}
