//! The house rules that a compiler does not check: who sees whom, and that every operator stands in the table.

use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}

/// Rooms, and the rooms that each may import from (besides itself and `error`).
const SEES: &[(&str, &[&str])] = &[
    ("doctor", &["expr", "lint", "plan", "runtime", "tune"]),
    ("element", &[]),
    ("expr", &["element"]),
    ("lint", &["element", "expr", "plan", "runtime"]),
    ("op", &["element", "expr", "options", "plan", "runtime"]),
    ("plan", &["element", "expr", "op", "options", "rewrite", "runtime", "tune"]),
    ("rewrite", &["element", "expr", "op", "ops", "plan"]),
    ("runtime", &["element", "expr", "op", "options", "plan", "tune"]),
    ("tune", &[]),
];

#[test]
fn rooms_import_only_what_they_may_see() {
    let mut broken = Vec::new();
    for (room, allowed) in SEES {
        let path = source().join(room);
        let files = if path.is_dir() { rust_files(&path) } else { vec![path.with_extension("rs")] };
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for line in text.lines().filter(|l| l.trim_start().starts_with("use crate::")) {
                let rest = line.trim_start().trim_start_matches("use crate::");
                let target = rest.split([':', ';', '{', ' ', ',']).next().unwrap_or("");
                let is_room = SEES.iter().any(|(r, _)| *r == target) || ["ops", "options", "dataset"].contains(&target);
                if is_room && target != *room && !allowed.contains(&target) {
                    broken.push(format!("{} must not see {target}: {}", file.display(), line.trim()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_operator_file_stands_in_the_table() {
    let mut missing = Vec::new();
    for file in rust_files(&source().join("ops")) {
        let text = fs::read_to_string(&file).unwrap();
        if text.contains("pub static INFO: OpInfo") {
            // An operator in a folder of its own is named after the folder.
            let at = if file.ends_with("mod.rs") { file.parent().unwrap() } else { &file };
            let name = at.file_stem().unwrap().to_str().unwrap().to_string();
            if !feedline::ops::OPS.iter().any(|i| i.name == name) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "not in OPS, or under another name than their file: {missing:?}");
}

#[test]
fn names_are_unique_and_described() {
    let mut names: Vec<&str> = feedline::ops::OPS.iter().map(|i| i.name).collect();
    assert!(feedline::ops::OPS.iter().all(|i| i.doc.ends_with('.')), "an operator's doc is a sentence");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), feedline::ops::OPS.len());
    let mut names: Vec<&str> = feedline::expr::funcs::all().map(|f| f.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
