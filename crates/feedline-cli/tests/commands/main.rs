//! The built command on good, empty, damaged, missing and hostile files: what it prints, and its exit codes.

mod convert;
mod index;
#[path = "../place/mod.rs"]
mod place;
mod rows;
mod verify;

use feedline_formats::compress::{Compression, Deflate};
use feedline_formats::example_writer::{Values, put_example};
use feedline_formats::{tar, tfrecord};
use place::Place;
use serde_json::Value as Json;
use std::io::Write;

fn example(n: i64) -> Vec<u8> {
    let (word, x) = (format!("w{n}"), [n as f32 / 4.0, 0.1]);
    let words: Vec<&[u8]> = (0..n % 3).map(|_| &b"again"[..]).collect();
    let mut out = Vec::new();
    put_example(
        &mut out,
        Some(&[
            (b"label", Values::Ints(&[n])),
            (b"many", Values::Bytes(&words)),
            (b"word", Values::Bytes(&[word.as_bytes()])),
            (b"x", Values::Floats(&x)),
        ]),
    );
    out
}

fn framed(records: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    records.into_iter().for_each(|record| tfrecord::frame(&record, &mut out));
    out
}

fn packed(kind: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut out = Deflate::new(Vec::new(), kind, None).unwrap();
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A file of each format, of that many rows.
fn files(place: &Place, rows: i64) -> Vec<&'static str> {
    let records = framed((0..rows).map(example));
    place.put("a.tfrecord", &records);
    place.put("b.tfrecord.gz", packed(Compression::Gzip, &records));
    place.put("c.tfrecord", packed(Compression::Zstd, &records));
    place.put("d.csv", (0..rows).fold("n,word\n".to_owned(), |t, n| t + &format!("{n},\"w,{n}\"\n")));
    place.put("e.jsonl", (0..rows).map(|n| format!("{{\"n\": {n}, \"x\": [1, {n}]}}\n")).collect::<String>());
    place.put("f.tsv", (0..rows).fold("n\tword\n".to_owned(), |t, n| t + &format!("{n}\tw{n}\n")));
    let mut samples = tar::Writer::new(Vec::new());
    for n in 0..rows {
        samples.append(format!("{n:04}.txt").as_bytes(), format!("text {n}").as_bytes(), 0).unwrap();
        samples.append(format!("{n:04}.cls").as_bytes(), n.to_string().as_bytes(), 0).unwrap();
    }
    place.put("g.tar", samples.finish().unwrap());
    vec!["a.tfrecord", "b.tfrecord.gz", "c.tfrecord", "d.csv", "e.jsonl", "f.tsv", "g.tar"]
}

#[test]
fn good_files() {
    let place = Place::new();
    for rows in [1, 150] {
        for name in files(&place, rows) {
            let (code, json) = place.json(&["inspect", name]);
            let file = &json["files"][0];
            assert_eq!(
                (code, &file["records"], &file["records_are_exact"]),
                (0, &rows.into(), &true.into()),
                "{name}: {json}"
            );
            assert_eq!(file["rows"].as_array().unwrap().len(), rows.min(3) as usize, "{name}");
            assert!(!file["schema"].as_object().unwrap().is_empty(), "{name}: {json}");
            let (code, json) = place.json(&["verify", name]);
            assert_eq!((code, &json["records"], &json["broken_files"]), (0, &rows.into(), &0.into()), "{name}: {json}");
            let members = if name == "g.tar" { (2 * rows).into() } else { Json::Null };
            assert_eq!(json["files"][0]["members"], members, "{name}");
            let (code, json) = place.json(&["count", name]);
            assert_eq!((code, &json["records"]), (0, &rows.into()), "{name}: {json}");
            assert_eq!(place.rows(name).len(), rows as usize, "{name}");
            for command in ["inspect", "verify", "count", "head", "index"] {
                assert_eq!(place.run(&[command, name]).code, 0, "{command} {name}");
            }
        }
    }
    let all = place.run(&["count", "."]);
    assert!(all.out.ends_with("1050\ttotal\n"), "{}", all.out);
    assert_eq!(place.run(&["count", "d.*", "e.jsonl"]).out, "150\td.csv\n150\te.jsonl\n300\ttotal\n");
}

#[test]
fn rows_and_schemas_are_told() {
    let place = Place::new();
    files(&place, 7);
    let schema = |name: &str| place.json(&["inspect", name]).1["files"][0]["schema"].clone();
    let features = serde_json::json!({ "label": "int64", "many": "string[]", "word": "string", "x": "float32[2]" });
    for name in ["a.tfrecord", "b.tfrecord.gz", "c.tfrecord"] {
        assert_eq!(schema(name), features);
        let row = serde_json::json!({ "label": 5, "many": ["again", "again"], "word": "w5", "x": [1.25, 0.1] });
        assert_eq!(place.rows(name)[5], row);
    }
    assert_eq!(place.rows("d.csv")[3], serde_json::json!({ "n": 3, "word": "w,3" }));
    assert_eq!(place.rows("f.tsv")[3], serde_json::json!({ "n": 3, "word": "w3" }));
    assert_eq!(place.rows("g.tar")[2], serde_json::json!({ "__key__": "0002", "txt": "text 2", "cls": "2" }));
    place.put("h.csv", "1,a\n2,b\n");
    let (_, json) = place.json(&["head", "--no-header", "h.csv"]);
    assert_eq!(json["rows"][1], serde_json::json!({ "c0": 2, "c1": "b" }));
    assert_eq!(place.json(&["count", "--no-header", "h.csv"]).1["records"], 2);
    place.put("raw.tfrecord", framed([b"one".to_vec(), vec![0xff, 0xfe]]));
    assert_eq!(place.rows("raw.tfrecord"), [serde_json::json!("one"), serde_json::json!({ "base64": "//4=" })]);
    assert_eq!(place.json(&["inspect", "raw.tfrecord"]).1["files"][0]["holds"], "bytes");
}

#[test]
fn empty_files() {
    let place = Place::new();
    for name in ["a.tfrecord", "a.jsonl", "a.csv", "a.tar"] {
        place.put(name, "");
        for command in ["inspect", "verify", "count", "head"] {
            let (code, json) = place.json(&[command, name]);
            assert_eq!(code, 0, "{command} {name}: {json}");
        }
        assert_eq!(place.json(&["count", name]).1["records"], 0, "{name}");
        assert_eq!(place.json(&["verify", name]).1["records"], 0, "{name}");
    }
    place.put("blank.jsonl", "\n\n  \n");
    assert_eq!(place.rows("blank.jsonl").len(), 0);
    assert_eq!(place.run(&["index", "a.tfrecord"]).code, 0);
    assert_eq!(place.run(&["convert", "a.tfrecord", "b.tfrecord"]).code, 0);
    assert_eq!(place.get("b.tfrecord"), b"");
    // What an empty file says nothing about cannot be written.
    for (from, to) in [("a.jsonl", "n.tfrecord"), ("a.csv", "n.jsonl"), ("a.tar", "n.csv")] {
        assert_ne!(place.run(&["convert", from, to]).code, 0, "{from}");
    }
    place.put("a", "");
    assert_eq!(place.run(&["inspect", "a"]).code, 2);
    assert!(!place.names().iter().any(|name| name.starts_with('n')), "{:?}", place.names());
}

#[test]
fn missing_and_hostile_files() {
    let place = Place::new();
    files(&place, 3);
    for command in ["inspect", "verify", "count", "head", "index"] {
        for name in ["none.tfrecord", "no/such/file", "none-*.csv"] {
            let ran = place.run(&[command, name]);
            assert_eq!(ran.code, 1, "{command} {name}");
            assert!(ran.err.contains(name) || ran.out.contains(name), "{command}: {} {}", ran.out, ran.err);
        }
    }
    // Others are still checked.
    let (code, json) = place.json(&["verify", "none.csv", "a.tfrecord"]);
    assert_eq!((code, &json["records"], &json["broken_files"]), (1, &3.into(), &1.into()));

    let mut hostile = framed([b"ok".to_vec()]);
    let length = (1u64 << 60).to_le_bytes();
    hostile.extend(length);
    hostile.extend(tfrecord::masked_crc(&length).to_le_bytes());
    place.put("long.tfrecord", hostile);
    place.put("noise.tfrecord", (0..50_000u32).map(|n| (n * n / 7) as u8).collect::<Vec<_>>());
    // Expands a thousandfold.
    place.put("bomb.jsonl.gz", packed(Compression::Gzip, &vec![b' '; 4 << 20]));
    place.put("deep.jsonl", "[".repeat(100_000));
    place.put("deeper.jsonl", "{\"a\":".repeat(100_000));
    let mut climber = tar::Writer::new(Vec::new());
    climber.append(b"a.txt", b"x", 0).unwrap();
    let mut climber = climber.finish().unwrap();
    climber[..8].copy_from_slice(b"../b.txt");
    let sum: u32 = climber[..148].iter().chain(&climber[156..512]).map(|b| u32::from(*b)).sum::<u32>() + 8 * 32;
    climber[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    place.put("climber.tar", climber);
    std::os::unix::fs::symlink("round.csv", place.path("round.csv")).unwrap();
    std::fs::create_dir(place.path("folder.csv")).unwrap();
    let pipe = std::ffi::CString::new(place.path("pipe.jsonl").to_str().unwrap()).unwrap();
    // SAFETY: a path that ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let names =
        ["long.tfrecord", "noise.tfrecord", "deep.jsonl", "deeper.jsonl", "climber.tar", "round.csv", "pipe.jsonl"];
    for command in ["inspect", "verify", "count", "head"] {
        for name in names.iter().chain(&["bomb.jsonl.gz", "folder.csv"]) {
            let ran = place.run(&[command, name]);
            assert!(ran.code <= 2, "{command} {name}: {} {}", ran.code, ran.err);
        }
    }
    for name in names {
        assert_eq!(place.run(&["verify", name]).code, 1, "{name}");
    }
    assert_eq!(place.run(&["verify", "folder.csv"]).code, 1);
}

#[test]
fn wrong_usage() {
    let place = Place::new();
    files(&place, 3);
    place.put("notes.txt", "nothing that anybody knows");
    let wrong: &[&[&str]] = &[
        &[],
        &["conquer"],
        &["verify"],
        &["head", "-n", "many", "a.tfrecord"],
        &["count", "--format", "excel", "a.tfrecord"],
        &["inspect", "notes.txt"],
        &["convert", "a.tfrecord"],
        &["convert", "a.tfrecord", "b.xlsx"],
        &["convert", "a.tfrecord", "."],
        &["convert", "a.tfrecord", "e.jsonl"],
        &["convert", "a.tfrecord", "d.csv", "n.jsonl"],
        &["convert", "a.tfrecord", "n.csv"],
        &["convert", "e.jsonl", "n.csv", "--shards", "0"],
        &["convert", "e.jsonl", "n.tfrecord", "--schema", "n: int64"],
        &["convert", "a.tfrecord", "n.jsonl", "--schema", "label: int32"],
        &["convert", "a.tfrecord", "n.jsonl", "--base64", "picture"],
        &["completions", "tcsh"],
    ];
    for words in wrong {
        let ran = place.run(words);
        assert_eq!(ran.code, 2, "{words:?}: {} {}", ran.out, ran.err);
        assert!(!ran.err.is_empty(), "{words:?}");
    }
    assert!(!place.names().iter().any(|name| name.starts_with("n.")), "{:?}", place.names());
    // In JSON, too.
    let (code, json) = place.json(&["inspect", "notes.txt"]);
    assert_eq!((code, &json["error"]["kind"]), (2, &"usage".into()));
    for words in [&["--help"][..], &["--version"], &["convert", "--help"], &["verify", "-h"]] {
        assert_eq!(place.run(words).code, 0);
    }
}

#[test]
fn nothing_is_drawn_where_nobody_looks() {
    let place = Place::new();
    files(&place, 20);
    assert_eq!(place.run(&["verify", "a.tfrecord"]).err, "");
    assert_eq!(place.run(&["convert", "--quiet", "a.tfrecord", "n.jsonl"]).err, "");
    assert_eq!(place.run(&["verify", "--threads", "1", "."]).code, 0);
}

#[test]
fn completions_for_shells() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = place.run(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("verify"), "{shell}");
    }
    let (code, json) = place.json(&["completions", "bash"]);
    assert_eq!((code, &json["shell"]), (0, &"bash".into()));
}
