//! The built command on good, empty, damaged, missing and hostile files: what it prints, and its exit codes.

mod place;

use feedline_formats::compress::{Compression, Deflate};
use feedline_formats::example_writer::{Values, put_example};
use feedline_formats::{tar, tfrecord};
use place::{Place, Ran};
use serde_json::Value as Json;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

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
fn damage_is_listed_with_its_place() {
    let place = Place::new();
    let records = framed((0..20).map(|n| format!("record {n:02}").into_bytes()));
    let whole = records.len() / 20;
    let mut bad = records.clone();
    // The data of record 3, and the length of record 11.
    bad[3 * whole + 14] ^= 1;
    bad[11 * whole] ^= 1;
    place.put("a.tfrecord", &bad);
    let (code, json) = place.json(&["verify", "a.tfrecord"]);
    let file = &json["files"][0];
    assert_eq!((code, &file["records"], &file["broken"]), (1, &18.into(), &2.into()), "{json}");
    let places: Vec<[u64; 3]> = file["damage"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| ["record", "byte", "lost_bytes"].map(|key| d[key].as_u64().unwrap()))
        .collect();
    let whole = whole as u64;
    assert_eq!(places, [[3, 3 * whole, whole], [11, 11 * whole, whole]]);
    let text = place.run(&["verify", "a.tfrecord"]);
    assert_eq!(text.code, 1);
    for record in [3, 11] {
        assert!(text.out.contains(&format!("at byte {}, record {record}: ", record * whole)), "{}", text.out);
    }
    // Compressed, the same.
    place.put("a.tfrecord.gz", packed(Compression::Gzip, &bad));
    let (code, json) = place.json(&["verify", "a.tfrecord.gz"]);
    assert_eq!((code, &json["files"][0]["damage"][1]["record"]), (1, &11.into()), "{json}");

    // Commands that need it whole say so; rows before the damage are shown.
    let head = place.run(&["head", "-n", "9", "a.tfrecord"]);
    assert_eq!((head.code, head.out.lines().count()), (1, 3), "{}", head.out);
    assert!(head.err.contains(&format!("byte {}", 3 * whole)), "{}", head.err);
    assert_eq!(place.run(&["index", "a.tfrecord"]).code, 1);
    assert_eq!(place.run(&["count", "a.tfrecord"]).code, 1);
    let inspect = place.run(&["inspect", "a.tfrecord"]);
    assert!(inspect.code == 1 && inspect.out.contains("feedline verify"), "{}", inspect.out);
    let convert = place.run(&["convert", "a.tfrecord", "b.jsonl"]);
    assert!(convert.code == 1 && convert.err.contains("record 3"), "{}", convert.err);
    assert!(!place.names().iter().any(|name| name.contains('b')), "{:?}", place.names());
}

#[test]
fn damage_of_other_formats() {
    let place = Place::new();
    for name in files(&place, 50) {
        let bytes = place.get(name);
        // Cut in the middle of a row.
        place.put(name, &bytes[..bytes.len() - if name == "g.tar" { 1600 } else { 4 }]);
    }
    for name in ["a.tfrecord", "b.tfrecord.gz", "c.tfrecord", "d.csv", "e.jsonl", "g.tar"] {
        let (code, json) = place.json(&["verify", name]);
        assert_eq!((code, &json["broken_files"]), (1, &1.into()), "{name}: {json}");
        for command in ["inspect", "count", "head"] {
            let ran = place.run(&[command, name]);
            assert!(ran.code <= 1, "{command} {name}: {}", ran.err);
        }
    }
    // A tar file that is cut between two members can be read, and is not all there.
    files(&place, 50);
    let whole = place.run(&["verify", "g.tar"]);
    assert!(whole.code == 0 && whole.out.contains("tar, 50 samples, 100 members"), "{}", whole.out);
    place.put("g.tar", &place.get("g.tar")[..60 * 1024]);
    let (code, json) = place.json(&["verify", "g.tar"]);
    let file = &json["files"][0];
    assert_eq!((code, &file["records"], &file["members"]), (1, &30.into(), &60.into()), "{json}");
    assert_eq!((&file["damage"][0]["byte"], &file["broken"]), (&(60 * 1024).into(), &1.into()), "{json}");
    assert!(place.run(&["verify", "g.tar"]).out.contains("the end mark is missing"));
    assert_eq!(place.json(&["count", "g.tar"]).1["records"], 30);
    let broken = |name: &str, text: &str, byte: u64, record: u64| {
        place.put(name, text);
        let (code, json) = place.json(&["verify", name]);
        let damage = &json["files"][0]["damage"][0];
        assert_eq!((code, &damage["byte"], &damage["record"]), (1, &byte.into(), &record.into()), "{json}");
    };
    broken("a.jsonl", "{\"a\": 1}\n{\"a\": }\n{}\n", 9, 1);
    broken("a.jsonl", "{\"a\": 1}\n[1]\n", 9, 1);
    broken("a.csv", "a,b\n1,2\n3\n", 8, 2);
    broken("a.csv", "a,b\n1,x\"y\"\n", 4, 1);

    // Tables: damaged, cut, of no bytes.
    assert_eq!(place.run(&["convert", "f.tsv", "whole.parquet"]).code, 0);
    assert_eq!(place.run(&["convert", "f.tsv", "whole.arrow"]).code, 0);
    assert_eq!(place.run(&["convert", "f.tsv", "n.npy", "--to", "npy"]).code, 2, "no strings in NumPy files");
    for name in ["whole.parquet", "whole.arrow"] {
        let bytes = place.get(name);
        for (cut, to) in [("cut", bytes.len() / 2), ("empty", 0), ("short", bytes.len() - 1)] {
            let broken = format!("{cut}-{name}");
            place.put(&broken, &bytes[..to]);
            for command in ["verify", "inspect", "count", "head"] {
                let ran = place.run(&[command, &broken]);
                assert!((1..=2).contains(&ran.code), "{command} {broken}: {} {}", ran.code, ran.out);
            }
        }
    }
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
fn indexes_are_made_kept_and_refreshed() {
    let place = Place::new();
    files(&place, 30);
    let state = |words: &[&str]| place.json(&[&["index"], words].concat()).1["files"][0]["state"].clone();
    assert_eq!(state(&["a.tfrecord"]), "made");
    assert!(place.names().contains(&"a.tfrecord.flidx".to_owned()));
    assert_eq!(state(&["a.tfrecord"]), "kept");
    assert_eq!(state(&["--force", "a.tfrecord"]), "made");
    let (_, json) = place.json(&["inspect", "a.tfrecord"]);
    assert!(json["files"][0]["index"].as_str().unwrap().ends_with("a.tfrecord.flidx"), "{json}");
    assert_eq!(json["files"][0]["record_bytes"]["of"], 30);
    // A file that changed gets a new one.
    place.put("a.tfrecord", framed((0..31).map(example)));
    assert_eq!(place.json(&["count", "a.tfrecord"]).1["records"], 31);
    assert_eq!(state(&["a.tfrecord"]), "made");
    // Where nothing can be written beside the file there is the cache folder.
    std::fs::create_dir(place.path("taken")).unwrap();
    std::fs::rename(place.path("a.tfrecord"), place.path("taken/b.tfrecord")).unwrap();
    std::fs::create_dir(place.path("taken/b.tfrecord.flidx")).unwrap();
    let (code, json) = place.json(&["index", "taken/b.tfrecord"]);
    assert_eq!(code, 0, "{json}");
    assert!(json["files"][0]["index"].as_str().unwrap().contains(".cache"), "{json}");
}

#[test]
fn indexes_of_tar_files() {
    let place = Place::new();
    let tar = |samples: usize| {
        let mut tar = feedline_formats::tar::Writer::new(Vec::new());
        for i in 0..samples {
            tar.append(format!("{i}.txt").as_bytes(), b"some text", 0).unwrap();
            tar.append(format!("{i}.cls").as_bytes(), b"7", 0).unwrap();
        }
        tar.finish().unwrap()
    };
    place.put("a.tar", tar(30));
    let index = |words: &[&str]| place.json(&[&["index"], words].concat()).1["files"][0].clone();
    let made = index(&["a.tar"]);
    assert_eq!((&made["state"], &made["records"]), (&"made".into(), &30.into()));
    assert!(place.names().contains(&"a.tar.flidx".to_owned()));
    assert_eq!(index(&["a.tar"])["state"], "kept");
    assert_eq!(index(&["--force", "a.tar"])["state"], "made");
    let (_, json) = place.json(&["inspect", "a.tar"]);
    assert!(json["files"][0]["index"].as_str().unwrap().ends_with("a.tar.flidx"), "{json}");
    assert_eq!(json["files"][0]["records"], 30);
    // A file that changed, and a damaged index, are not believed.
    place.put("a.tar", tar(31));
    assert_eq!(place.json(&["count", "a.tar"]).1["records"], 31);
    assert_eq!(index(&["a.tar"])["state"], "made");
    let kept = place.get("a.tar.flidx");
    place.put("a.tar.flidx", &kept[..kept.len() - 1]);
    assert_eq!(index(&["a.tar"])["state"], "made");
    assert_eq!(place.get("a.tar.flidx"), kept);
    assert_eq!(place.json(&["verify", "."]).0, 0, "it is no data");
    // Where nothing can be written beside the file there is the cache folder.
    std::fs::remove_file(place.path("a.tar.flidx")).unwrap();
    std::fs::create_dir(place.path("a.tar.flidx")).unwrap();
    let made = index(&["a.tar"]);
    assert!(made["index"].as_str().unwrap().contains(".cache"), "{made}");
    assert_eq!(index(&["a.tar"])["state"], "kept");
    // A damaged file has none.
    place.put("b.tar", &tar(3)[..2000]);
    assert_eq!(place.json(&["index", "b.tar"]).0, 1);
    assert!(!place.names().contains(&"b.tar.flidx".to_owned()));
}

#[test]
fn rows_come_back_from_every_format() {
    let place = Place::new();
    files(&place, 150);
    let convert = |words: &[&str]| {
        let ran = place.run(&[&["convert", "--quiet"], words].concat());
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
    };
    let original = place.get("a.tfrecord");
    convert(&["a.tfrecord", "t.jsonl"]);
    convert(&["t.jsonl", "from-jsonl.tfrecord"]);
    assert_eq!(place.get("from-jsonl.tfrecord"), original);
    convert(&["b.tfrecord.gz", "t.tfrecord.zst"]);
    convert(&["t.tfrecord.zst", "from-zstd.tfrecord"]);
    assert_eq!(place.get("from-zstd.tfrecord"), original);
    // Dealt out to shards and put together again.
    convert(&["a.tfrecord", "s.tfrecord", "--shards", "4"]);
    let shards: Vec<Vec<Json>> = (0..4).map(|i| place.rows(&format!("s-{i:05}-of-00004.tfrecord"))).collect();
    let dealt: Vec<Json> = (0..150).map(|n| shards[n % 4][n / 4].clone()).collect();
    assert_eq!(dealt, place.rows("a.tfrecord"));
    convert(&["s-*.tfrecord", "all.jsonl.gz", "--compression", "gzip"]);
    assert_eq!(place.json(&["count", "all.jsonl.gz"]).1["records"], 150);

    // What CSV can hold.
    let schema = ["--schema", "label: int64, word: string"];
    convert(&[&["a.tfrecord", "t.csv"], &schema[..]].concat());
    convert(&[&["a.tfrecord", "scalars.tfrecord"], &schema[..]].concat());
    convert(&["t.csv", "from-csv.tfrecord"]);
    assert_eq!(place.get("from-csv.tfrecord"), place.get("scalars.tfrecord"));
    assert_eq!(place.rows("from-csv.tfrecord")[9], serde_json::json!({ "label": 9, "word": "w9" }));
    convert(&["t.csv", "t.tsv"]);
    assert_eq!(place.rows("t.tsv"), place.rows("t.csv"));

    // Bytes in tar files, where rows get a key.
    convert(&["a.tfrecord", "t.tar", "--schema", "word: string"]);
    assert_eq!(place.rows("t.tar")[7], serde_json::json!({ "__key__": "000000007", "word": "w7" }));
    convert(&["t.tar", "from-tar.tfrecord"]);
    assert_eq!(place.rows("from-tar.tfrecord"), place.rows("t.tar"));
    convert(&["g.tar", "g.jsonl"]);
    convert(&["g.jsonl", "g2.tar"]);
    assert_eq!(place.rows("g2.tar"), place.rows("g.tar"));

    // Tables, which have types of their own.
    for name in ["t.parquet", "t.arrow"] {
        convert(&["a.tfrecord", name]);
        let (code, json) = place.json(&["inspect", name]);
        assert_eq!((code, &json["files"][0]["records"]), (0, &150.into()), "{json}");
        assert_eq!(place.json(&["verify", name]).1["records"], 150);
        assert_eq!(place.json(&["count", name]).1["records"], 150);
        convert(&[name, "from-table.tfrecord", "--overwrite"]);
        assert_eq!(place.get("from-table.tfrecord"), original, "{name}");
    }
    convert(&["t.parquet", "small.parquet", "--compression", "zstd"]);
    assert_eq!(place.rows("small.parquet"), place.rows("t.parquet"));
    convert(&["a.tfrecord", "t.npz", "--schema", "label: int64, x: float32[2]"]);
    assert_eq!(place.rows("t.npz")[4], serde_json::json!({ "label": 4, "x": [1.0, 0.1] }));
    convert(&["t.npz", "from-npz.tfrecord"]);
    assert_eq!(place.rows("from-npz.tfrecord"), place.rows("t.npz"));

    // Bytes that are no text, through text.
    let bytes: Vec<Vec<u8>> = (0..20u8).map(|n| vec![0xff, n]).collect();
    place.put(
        "raw.tfrecord",
        framed(bytes.iter().map(|b| {
            let mut out = Vec::new();
            put_example(&mut out, Some(&[(b"image", Values::Bytes(&[b]))]));
            out
        })),
    );
    let refused = place.run(&["convert", "raw.tfrecord", "raw.jsonl"]);
    assert!(refused.code == 1 && refused.err.contains("--base64"), "{}", refused.err);
    convert(&["raw.tfrecord", "raw.jsonl", "--base64", "image"]);
    convert(&["raw.jsonl", "raw2.tfrecord", "--base64", "image"]);
    assert_eq!(place.get("raw2.tfrecord"), place.get("raw.tfrecord"));
    // Tables know bytes.
    convert(&["raw.tfrecord", "raw.parquet"]);
    convert(&["raw.parquet", "raw3.tfrecord"]);
    assert_eq!(place.get("raw3.tfrecord"), place.get("raw.tfrecord"));
    // Records that are no Examples are rows of one field.
    place.put("lines.tfrecord", framed([b"one".to_vec(), b"two".to_vec()]));
    convert(&["lines.tfrecord", "lines.jsonl"]);
    assert_eq!(place.rows("lines.jsonl")[1], serde_json::json!({ "record": "two" }));
}

#[test]
fn schemas_that_do_not_hold_are_explained() {
    let place = Place::new();
    let record = |n: usize| {
        let mut out = Vec::new();
        put_example(&mut out, Some(&[(b"x", Values::Ints(&vec![1; if n == 150 { 2 } else { 1 }]))]));
        out
    };
    place.put("a.tfrecord", framed((0..200).map(record)));
    let ran = place.run(&["convert", "a.tfrecord", "a.jsonl"]);
    assert!(ran.code == 1 && ran.err.contains("--infer 0"), "{}", ran.err);
    assert_eq!(place.names(), ["a.tfrecord"]);
    assert_eq!(place.run(&["convert", "a.tfrecord", "a.jsonl", "--infer", "0"]).code, 0);
    assert_eq!(place.rows("a.jsonl")[150], serde_json::json!({ "x": [1, 1] }));
    assert_eq!(place.run(&["convert", "a.tfrecord", "a.jsonl", "--infer", "0"]).code, 2);
    assert_eq!(place.run(&["convert", "a.tfrecord", "a.jsonl", "--schema", "x: int64[]", "--overwrite"]).code, 0);
}

/// Something that takes a while to convert.
fn long(place: &Place) {
    place.put("long.tfrecord", framed((0..100).map(example)).repeat(10_000));
}

/// Starts a conversion and waits until it writes.
fn converting(place: &Place) -> std::process::Child {
    std::fs::create_dir_all(place.path("out")).unwrap();
    let mut command = place.command(&["convert", "long.tfrecord", "out/a.jsonl.gz", "--shards", "3"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while listed(&place.path("out")).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote anything");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let place = Place::new();
    long(&place);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let child = converting(&place);
        // SAFETY: a process that we started and have not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(listed(&place.path("out")), [] as [&str; 0]);
    }
}

#[test]
fn a_killed_run_leaves_no_file_under_its_name() {
    let place = Place::new();
    long(&place);
    let mut child = converting(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    let left = listed(&place.path("out"));
    assert!(left.iter().all(|name| name.ends_with(".tmp")), "{left:?}");
    // What is left is not taken for data.
    let ran = place.run(&["verify", "out/"]);
    assert!(ran.code == 1 && ran.out.contains("no files"), "{}", ran.out);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let place = Place::new();
    place.put("a.tfrecord", framed((0..20_000).map(example)));
    let mut command = place.command(&["head", "-n", "20000", "a.tfrecord"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap(), &["head"]);
    assert_eq!((ran.code, ran.err.as_str()), (141, ""));
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

/// A picture of one colour.
fn bmp(width: u32, height: u32) -> Vec<u8> {
    let (row, head) = ((width * 3).next_multiple_of(4), 54u32);
    let mut out = b"BM".to_vec();
    for n in [head + row * height, 0, head, 40, width, height] {
        out.extend(n.to_le_bytes());
    }
    out.extend([1, 0, 24, 0]);
    out.extend([0; 24]);
    out.resize((head + row * height) as usize, 7);
    out
}

#[test]
fn one_record_is_shown() {
    let place = Place::new();
    let picture = bmp(6, 4);
    let mut pictured = Vec::new();
    put_example(
        &mut pictured,
        Some(&[(b"label", Values::Ints(&[3])), (b"image", Values::Bytes(&[&picture])), (b"x", Values::Floats(&[0.5]))]),
    );
    place.put("a.tfrecord", framed([example(0), pictured, b"plain".to_vec()]));
    let ran = place.run(&["show", "a.tfrecord", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("label: 3") && ran.out.contains("image: Bmp, 4 x 6 pixels"), "{}", ran.out);
    let (code, json) = place.json(&["show", "a.tfrecord", "0"]);
    assert_eq!((code, &json["record"]["label"]), (0, &Json::from(0)));
    assert_eq!(place.run(&["show", "a.tfrecord", "2"]).out.trim(), "\"plain\"");
    assert_eq!(place.run(&["show", "a.tfrecord", "1", "--out", "p.bmp"]).code, 0);
    assert_eq!(place.get("p.bmp"), picture);
    let ran = place.run(&["show", "a.tfrecord", "1", "--out", "q", "--field", "word"]);
    assert!(ran.code == 2 && ran.err.contains("it has image"), "{}", ran.err);
    let ran = place.run(&["show", "a.tfrecord", "3"]);
    assert!(ran.code == 1 && ran.err.contains("no record 3"), "{}", ran.err);
    place.put("rows.csv", "a,b\n1,x\n2,y\n");
    let ran = place.run(&["show", "rows.csv", "1"]);
    assert!(ran.out.contains("a: 2") && ran.out.contains("b: \"y\""), "{}", ran.out);
}

#[test]
fn what_was_quarantined_is_read_again() {
    let place = Place::new();
    let good = framed([b"one".to_vec(), b"two".to_vec()]);
    let mut bad = good.clone();
    bad[19 + 12] ^= 1;
    place.put("a.tfrecord", &bad);
    let name = place.path("a.tfrecord").to_str().unwrap().to_owned();
    let folder = place.path("bad").to_str().unwrap().to_owned();
    let options = feedline::Options {
        on_error: Some(feedline::OnError::Quarantine),
        quarantine: Some(folder),
        ..Default::default()
    };
    let ds = feedline::Dataset::tf_record(&[&name], "").unwrap().with_options(options).unwrap();
    assert_eq!(ds.iter().unwrap().filter(|e| e.is_ok()).count(), 1);
    let ran = place.run(&["retry", "bad"]);
    assert!(ran.code == 1 && ran.out.contains("still damaged") && ran.out.contains("1 element"), "{}", ran.out);
    place.put("a.tfrecord", &good);
    let (code, json) = place.json(&["retry", "bad"]);
    assert_eq!((code, &json["elements"][0]["now"], &json["elements"][0]["byte"]), (0, &"whole".into(), &19.into()));
    place.put("a.tfrecord", &good[..10]);
    assert!(place.run(&["retry", "bad"]).out.contains("10 bytes by now"));
    let ran = place.run(&["retry", "none"]);
    assert!(ran.code == 1 && ran.err.contains("no folder"), "{}", ran.err);
}

#[test]
fn text_is_converted_as_it_was_written() {
    let place = Place::new();
    let rows: String = (0..200).map(|n| format!("{n},{n}\n")).collect();
    place.put("late.csv", format!("n,m\n{}", rows.replace("150,150\n", "150,2.5\n")));
    assert_eq!(place.run(&["convert", "late.csv", "late.jsonl"]).code, 0);
    assert_eq!(place.rows("late.jsonl")[150], serde_json::json!({ "n": 150, "m": 2.5 }));
    // Where only some rows are looked at, what they did not show is said.
    let ran = place.run(&["convert", "late.csv", "few.jsonl", "--infer", "100"]);
    assert!(ran.code == 1 && ran.err.contains("record 150") && ran.err.contains("--infer 0"), "{}", ran.err);
    place.put("zeros.csv", "id\n1\n2\n007\n");
    let ran = place.run(&["convert", "zeros.csv", "few.jsonl", "--infer", "2"]);
    assert!(ran.code == 1 && ran.err.contains("007") && ran.err.contains("--infer 0"), "{}", ran.err);

    place.put(
        "a.csv",
        "x,y,id,plus,long,big,t\n0.1234567890123,123456789.25,007,+1,9223372036854775807,12345678901234567890,\n\
         1.5,2,8,2,1,1,u\n",
    );
    assert_eq!(place.run(&["convert", "a.csv", "a.jsonl"]).code, 0);
    let text = String::from_utf8(place.get("a.jsonl")).unwrap();
    let first = r#"{"x":0.1234567890123,"y":123456789.25,"id":"007","plus":"+1","long":9223372036854775807,"#;
    assert!(text.starts_with(&format!("{first}\"big\":\"12345678901234567890\",\"t\":\"\"}}\n")), "{text}");
    assert_eq!(place.run(&["convert", "a.jsonl", "b.csv"]).code, 0);
    assert_eq!(place.rows("b.csv"), place.rows("a.csv"));
    assert_eq!(place.run(&["convert", "a.csv", "some.csv", "--columns", "t,id"]).code, 0);
    assert_eq!(place.get("some.csv"), b"t,id\n,007\nu,8\n");
    let (code, json) = place.json(&["head", "--columns", "t,id", "a.csv"]);
    assert_eq!((code, json["rows"][1].to_string()), (0, "{\"t\":\"u\",\"id\":\"8\"}".into()));
    assert_eq!(place.run(&["head", "--columns", "none", "a.csv"]).code, 2);
    assert_eq!(place.run(&["convert", "a.csv", "none.csv", "--columns", "none"]).code, 2);

    // Columns in another order are others.
    place.put("h1.csv", "age,height\n1,2\n");
    place.put("h2.csv", "height,age\n3,4\n");
    let ran = place.run(&["convert", "h1.csv", "h2.csv", "h.jsonl"]);
    assert_eq!(ran.code, 1);
    for word in ["h1.csv", "h2.csv", "age,height", "height,age"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    assert!(!place.names().contains(&"h.jsonl".to_owned()));
}

#[test]
fn whole_numbers_beyond_int64_are_kept_or_refused() {
    let place = Place::new();
    place.put("a.jsonl", "{\"n\":7,\"m\":1}\n{\"n\":18446744073709551615,\"m\":2}\n");
    for to in ["b.parquet", "b.csv", "b.npz"] {
        assert_eq!(place.run(&["convert", "a.jsonl", to]).code, 0, "{to}");
        assert_eq!(place.run(&["convert", to, "c.jsonl", "--overwrite"]).code, 0, "{to}");
        let back = String::from_utf8(place.get("c.jsonl")).unwrap();
        assert!(back.contains("18446744073709551615"), "{to}: {back}");
    }
    place.put("a.jsonl", "{\"m\":1,\"n\":-1}\n{\"m\":2,\"n\":18446744073709551615}\n");
    let ran = place.run(&["convert", "a.jsonl", "d.parquet"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for part in ["\"n\"", "18446744073709551615", "line 1 of the file, column 12", "a.jsonl", "--columns"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert_eq!(place.run(&["convert", "a.jsonl", "d.parquet", "--columns", "m"]).code, 0);
    // Those who only look see what is there.
    assert_eq!(place.run(&["inspect", "a.jsonl"]).code, 0);
    assert_eq!(place.rows("a.jsonl")[1]["n"], 18446744073709551615u64);
}

#[test]
fn whole_numbers_beside_fractions_are_not_rounded() {
    let place = Place::new();
    for (number, is_kept) in [("9007199254740993", false), ("-9007199254740993", false), ("9007199254740992", true)] {
        for lines in [format!("{{\"n\":0.5}}\n{{\"n\":{number}}}\n"), format!("{{\"n\":[{number},0.5]}}\n")] {
            place.put("a.jsonl", &lines);
            let ran = place.run(&["convert", "a.jsonl", "b.parquet", "--overwrite"]);
            assert_eq!(ran.code == 0, is_kept, "{lines}: {}", ran.err);
            assert!(is_kept || ran.err.contains(number) && ran.err.contains("a.jsonl"), "{}", ran.err);
            assert_eq!(place.run(&["inspect", "a.jsonl"]).code, 0);
        }
    }
    // Behind the lines that tell the types, too.
    place.put("a.jsonl", "{\"n\":0.5}\n{\"n\":9007199254740993}\n");
    let ran = place.run(&["convert", "a.jsonl", "c.parquet", "--infer", "1"]);
    assert!(ran.code == 1 && ran.err.contains("9007199254740993, which would not stay so"), "{}", ran.err);
}

#[test]
fn fields_that_come_late_are_refused() {
    let place = Place::new();
    let late = |place: &Place, line: &str| place.put("a.jsonl", "{\"a\":1,\"o\":{\"x\":1}}\n".repeat(120) + line);
    let infer = ["convert", "a.jsonl", "b.jsonl", "--overwrite", "--infer", "100"];
    for (line, name) in
        [("{\"a\":2,\"b\":3,\"o\":{\"x\":1}}\n", "\"b\""), ("{\"a\":2,\"o\":{\"x\":1,\"y\":2}}\n", "\"o.y\"")]
    {
        late(&place, line);
        let ran = place.run(&infer);
        let said = format!("the line has the field {name}, and those before it have not");
        for part in [&*said, "record 120", "a.jsonl", "--infer 0"] {
            assert!(ran.code == 1 && ran.err.contains(part), "{part}: {}", ran.err);
        }
        assert_eq!(place.run(&["convert", "a.jsonl", "c.jsonl", "--overwrite", "--fill", "0"]).code, 0);
    }
    // What nobody asked for may come; what is inside of what was asked for may not.
    assert_eq!(place.run(&[&infer[..], &["--columns", "a"]].concat()).code, 0);
    assert_eq!(place.run(&[&infer[..], &["--columns", "o"]].concat()).code, 1);
    late(&place, "{\"a\":2,\"b\":3,\"o\":{\"x\":1}}\n");
    assert_eq!(place.run(&[&infer[..], &["--columns", "o"]].concat()).code, 0);
    assert_eq!(place.run(&["head", "a.jsonl"]).code, 0);

    let mut samples = tar::Writer::new(Vec::new());
    for n in 0..120 {
        samples.append(format!("{n:04}.txt").as_bytes(), b"text", 0).unwrap();
    }
    samples.append(b"0120.txt", b"text", 0).unwrap();
    samples.append(b"0120.cls", b"7", 0).unwrap();
    place.put("a.tar", samples.finish().unwrap());
    for infer in [&[][..], &["--infer", "100"]] {
        let ran = place.run(&[&["convert", "a.tar", "d.jsonl"], infer].concat());
        for part in ["the sample \"0120\" has the field \"cls\"", "a.tar", "byte 122880", "--columns"] {
            assert!(ran.code == 1 && ran.err.contains(part), "{part}: {}", ran.err);
        }
    }
    assert_eq!(place.run(&["convert", "a.tar", "d.jsonl", "--columns", "txt"]).code, 0);
}

#[test]
fn nothing_stands_for_empty_fields_unasked() {
    let place = Place::new();
    place.put("a.csv", "n,x,t\n1,1.5,a\n,2.5,\n3,,c\n");
    let ran = place.run(&["convert", "a.csv", "a.jsonl"]);
    assert_eq!(ran.code, 1);
    for word in ["\"n\"", "row 1", "a.csv", "--fill n=VALUE"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    let ran = place.run(&["convert", "a.csv", "a.jsonl", "--infer", "1"]);
    assert!(ran.code == 1 && ran.err.contains("(\"n\") is empty") && ran.err.contains("--fill"), "{}", ran.err);
    assert_eq!(place.run(&["convert", "a.csv", "a.jsonl", "--fill", "n=-1", "--fill", "x=0.5"]).code, 0);
    let text = "{\"n\":1,\"x\":1.5,\"t\":\"a\"}\n{\"n\":-1,\"x\":2.5,\"t\":\"\"}\n{\"n\":3,\"x\":0.5,\"t\":\"c\"}\n";
    assert_eq!(place.get("a.jsonl"), text.as_bytes());
    assert_eq!(place.run(&["convert", "a.csv", "b.csv", "--fill", "-7", "--fill", "t=none"]).code, 0);
    assert_eq!(place.get("b.csv"), b"n,x,t\n1,1.5,a\n-7,2.5,none\n3,-7.0,c\n");
    for wrong in [["--fill", "none=1"], ["--fill", "n=x"]] {
        assert_eq!(place.run(&[&["convert", "a.csv", "c.csv"], &wrong[..]].concat()).code, 2, "{wrong:?}");
    }
    assert_eq!(place.rows("a.csv")[1], serde_json::json!({ "n": null, "x": 2.5, "t": "" }));

    place.put("b.jsonl", "{\"a\":1,\"b\":null,\"l\":[1]}\n{\"b\":2.5,\"c\":{\"d\":\"x\"}}\n");
    let ran = place.run(&["convert", "b.jsonl", "c.csv", "--columns", "b"]);
    assert!(
        ran.code == 1 && ran.err.contains("\"b\" is null in line 0") && ran.err.contains("--fill b="),
        "{}",
        ran.err
    );
    let ran = place.run(&["convert", "b.jsonl", "c.csv", "--columns", "a,b", "--fill", "b=0"]);
    assert!(ran.code == 1 && ran.err.contains("\"a\" is missing in line 1"), "{}", ran.err);
    assert_eq!(place.run(&["convert", "b.jsonl", "c.jsonl", "--fill", "-1", "--fill", "c.d=?"]).code, 0);
    let rows =
        "{\"a\":1,\"b\":-1.0,\"l\":[1],\"c\":{\"d\":\"?\"}}\n{\"a\":-1,\"b\":2.5,\"l\":[],\"c\":{\"d\":\"x\"}}\n";
    assert_eq!(String::from_utf8(place.get("c.jsonl")).unwrap(), rows);
    assert_eq!(place.rows("b.jsonl")[0], serde_json::json!({ "a": 1, "b": null, "l": [1] }));
    // Fields that are always null, or of several kinds, are text of JSON: nothing stands for a null of it unasked.
    place.put("n.jsonl", "{\"a\":1,\"b\":null}\n");
    let ran = place.run(&["convert", "n.jsonl", "n.csv"]);
    assert!(ran.code == 1 && ran.err.contains("\"b\" is null"), "{}", ran.err);
    place.put("m.jsonl", "{\"a\":1}\n{\"a\":\"x\"}\n");
    let ran = place.run(&["convert", "m.jsonl", "m.csv"]);
    assert!(ran.code == 0 && ran.err.contains("a is of several kinds"), "{}", ran.err);
    let tar = ["convert", "a.tfrecord", "t.csv", "--fill", "1"];
    files(&place, 3);
    assert_eq!(place.run(&tar).code, 2);
}

#[test]
fn types_of_columns_are_kept_or_remarked() {
    use feedline_formats::arrow_ipc::ArrowFile;
    use feedline_formats::columnar::array::builder::{ListBuilder, TimestampMicrosecondBuilder};
    use feedline_formats::columnar::array::{ArrayRef, Date32Array, Decimal128Array, DurationSecondArray};
    use feedline_formats::columnar::array::{RecordBatch, Time64NanosecondArray, TimestampMicrosecondArray};
    use std::sync::Arc;

    let place = Place::new();
    let put = |name: &str, columns: Vec<(&str, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = feedline_formats::arrow_ipc::ArrowWriter::new(Vec::new(), &batch.schema(), "none").unwrap();
        out.write(&batch).unwrap();
        place.put(name, out.finish().unwrap());
    };
    let get = |name: &str| {
        let file = ArrowFile::open(feedline_io::open(place.path(name).to_str().unwrap()).unwrap()).unwrap();
        let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
        file.decode(0, &columns, 0..2, None).unwrap()
    };
    let decimal = |values: [i128; 2], digits, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(values.to_vec()).with_precision_and_scale(digits, scale).unwrap())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_700_000_000_000_001, -1]).with_timezone("UTC"))),
        ("day", Arc::new(Date32Array::from(vec![19_000, -1]))),
        ("time", Arc::new(Time64NanosecondArray::from(vec![1, 86_399_999_999_999]))),
        ("took", Arc::new(DurationSecondArray::from(vec![5, -5]))),
        ("price", decimal([999_999_999_999_999, -110], 15, 2)),
    ];
    put("a.arrow", columns.clone());
    for to in ["b.parquet", "b.arrow"] {
        let ran = place.run(&["convert", "a.arrow", to]);
        assert!(ran.code == 0 && !ran.err.contains("; its values"), "{}", ran.err);
        assert_eq!(place.run(&["convert", "--overwrite", to, "c.arrow"]).code, 0);
        assert_eq!(get("c.arrow"), get("a.arrow"), "{to}");
    }
    let ran = place.run(&["convert", "a.arrow", "c.csv"]);
    for (name, plain) in [("at is Timestamp", "int64"), ("day is Date32", "int32"), ("price is Decimal", "float64")] {
        let said = ran.err.lines().any(|line| line.contains(name) && line.contains(plain));
        assert!(ran.code == 0 && said, "{name}: {}", ran.err);
    }
    assert_eq!(place.get("c.csv").split(|b| *b == b'\n').nth(2).unwrap(), b"-1,-1,86399999999999,-5,-1.1");

    // Files that do not agree, and what lies inside of lists.
    let mut lists = ListBuilder::new(TimestampMicrosecondBuilder::new());
    lists.append_value([Some(1)]);
    lists.append_value([]);
    put("l.arrow", vec![("l", Arc::new(lists.finish()))]);
    let ran = place.run(&["convert", "l.arrow", "l.parquet"]);
    assert!(ran.code == 0 && ran.err.contains("l is Timestamp"), "{}", ran.err);
    put("d1.arrow", vec![("x", decimal([1, 2], 5, 1))]);
    put("d2.arrow", vec![("x", decimal([1, 2], 5, 3))]);
    let ran = place.run(&["convert", "d1.arrow", "d2.arrow", "d.arrow"]);
    assert!(ran.code == 0 && ran.err.contains("x is Decimal"), "{}", ran.err);
    assert_eq!(place.rows("d.arrow")[3]["x"], 0.002);

    // What a float64 would change is refused.
    put("m.arrow", vec![("id", columns[1].1.clone()), ("money", decimal([1_000_000_000_000_000_001, 1], 19, 0))]);
    for to in ["m.parquet", "m.csv"] {
        let ran = place.run(&["convert", "m.arrow", to]);
        for part in ["\"money\" is Decimal128(19, 0)", "m.arrow", "15 digits", "--columns"] {
            assert!(ran.code == 1 && ran.err.contains(part), "{part}: {}", ran.err);
        }
    }
    assert_eq!(place.run(&["convert", "m.arrow", "m.csv", "--columns", "id"]).code, 0);
}

#[test]
fn nulls_of_tables_are_no_damage() {
    use feedline_formats::columnar::array::builder::{Int64Builder, ListBuilder, StringBuilder};
    use feedline_formats::columnar::array::{ArrayRef, RecordBatch, StructArray};
    use feedline_formats::columnar::buffer::NullBuffer;
    use feedline_formats::columnar::schema::{DataType, Field};
    use std::sync::Arc;

    let place = Place::new();
    let (mut a, mut s, mut l) = (Int64Builder::new(), StringBuilder::new(), ListBuilder::new(Int64Builder::new()));
    [Some(1), None, Some(3)].into_iter().for_each(|n| a.append_option(n));
    [Some("x"), None, Some("")].into_iter().for_each(|t| s.append_option(t));
    l.append_value([Some(1), None]);
    l.append_null();
    l.append_value([]);
    let inner: ArrayRef = Arc::new({
        let mut b = Int64Builder::new();
        b.append_slice(&[7, 8, 9]);
        b.finish()
    });
    let fields = vec![Arc::new(Field::new("q", DataType::Int64, true))].into();
    let st = StructArray::new(fields, vec![inner], Some(NullBuffer::from(vec![true, false, true])));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(a.finish())),
        ("s", Arc::new(s.finish())),
        ("l", Arc::new(l.finish())),
        ("st", Arc::new(st)),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let options = feedline_formats::parquet::WriteOptions { compression: "snappy".into(), group_rows: 2 };
    let mut out = feedline_formats::parquet::ParquetWriter::new(Vec::new(), batch.schema(), &options).unwrap();
    out.write(&batch).unwrap();
    place.put("n.parquet", out.finish().unwrap());
    let mut out = feedline_formats::arrow_ipc::ArrowWriter::new(Vec::new(), &batch.schema(), "none").unwrap();
    out.write(&batch).unwrap();
    place.put("n.arrow", out.finish().unwrap());

    let rows = [
        r#"{"a":1,"s":"x","l":[1,null],"st":{"q":7}}"#,
        r#"{"a":null,"s":null,"l":null,"st":null}"#,
        r#"{"a":3,"s":"","l":[],"st":{"q":9}}"#,
    ];
    for name in ["n.parquet", "n.arrow"] {
        let (code, json) = place.json(&["verify", name]);
        assert_eq!((code, &json["records"], &json["broken_files"]), (0, &3.into(), &0.into()), "{json}");
        assert_eq!(place.run(&["head", name]).out, format!("{}\n", rows.join("\n")));
        let (code, json) = place.json(&["inspect", name]);
        let file = &json["files"][0];
        assert_eq!((code, &file["error"], file["rows"][1]["a"].is_null()), (0, &Json::Null, true), "{json}");
        assert_eq!(file["schema"]["a"], "int64", "{json}");
        assert_eq!(
            place.json(&["head", "--columns", "st,a", name]).1["rows"][1].to_string(),
            r#"{"st":null,"a":null}"#
        );
        let shown = place.run(&["show", name, "1"]);
        assert!(shown.code == 0 && shown.out.contains("a: null"), "{}", shown.err);

        let ran = place.run(&["convert", name, "none.csv", "--columns", "a,s"]);
        assert!(ran.code == 1 && ran.err.contains("\"a\" is null here; --fill"), "{}", ran.err);
        assert!(ran.err.contains(name) && !ran.err.contains("ignore_errors"), "{}", ran.err);
        let words = ["convert", "--overwrite", name, "o.csv", "--columns", "s,a", "--fill", "a=-1", "--fill", "s=?"];
        assert_eq!(place.run(&words).code, 0);
        assert_eq!(place.get("o.csv"), b"s,a\nx,1\n?,-1\n,3\n");
        assert_eq!(place.run(&["convert", "--overwrite", name, "o.jsonl", "--fill", "0"]).code, 0);
        let second = serde_json::json!({ "a": 0, "s": "0", "l": [], "st": { "q": 0 } });
        assert_eq!(place.rows("o.jsonl")[1], second);
    }
}

#[test]
fn good_lines_are_shown_beside_a_bad_one() {
    let place = Place::new();
    place.put("c.csv", "a,b\n1,2\n3\n4,5\n");
    place.put("d.jsonl", "{\"a\":1}\n{\"a\":\n{\"a\":3}\n");
    for (name, second) in [("c.csv", r#"{"a":4,"b":5}"#), ("d.jsonl", r#"{"a":3}"#)] {
        let head = place.run(&["head", name]);
        assert_eq!((head.code, head.out.lines().count()), (1, 2), "{name}: {}", head.err);
        assert!(head.out.contains(second) && head.err.contains("at byte 8"), "{name}: {} {}", head.out, head.err);
        let (code, json) = place.json(&["inspect", name]);
        let file = &json["files"][0];
        assert_eq!((code, file["rows"].as_array().unwrap().len()), (1, 2), "{json}");
        assert_eq!(file["schema"]["a"], "int64", "{json}");
        assert_eq!(file["error"]["byte"], 8, "{json}");
        let ran = place.run(&["convert", name, "o.jsonl"]);
        assert!(ran.code == 1 && ran.err.contains("record 1"), "{}", ran.err);
        // A bad line behind what is shown is not the first lines' matter.
        assert_eq!(place.run(&["head", "-n", "1", name]).code, 0);
    }
    // The last line, too, says what it costs.
    place.put("e.csv", "a,b\n1,2\n3\n");
    place.put("e.jsonl", "{\"a\":1}\n{\"a\":");
    for (name, lost) in [("e.csv", 2), ("e.jsonl", 5)] {
        let (code, json) = place.json(&["verify", name]);
        let file = &json["files"][0];
        assert_eq!(
            (code, &file["lost_bytes"], &file["damage"][0]["lost_bytes"]),
            (1, &lost.into(), &lost.into()),
            "{json}"
        );
    }
}

#[test]
fn a_name_that_is_no_text_costs_one_file() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff.csv");
    if std::fs::write(place.0.path().join(odd), "a,b\n1,2\n").is_err() {
        // A file system that knows only text has no such files.
        return;
    }
    place.put("a.csv", "a,b\n1,2\n");
    for pattern in [".", "*.csv"] {
        let ran = place.run(&["verify", pattern]);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.out.contains("a.csv  csv, 1 record") && ran.out.contains("odd\\xff.csv: the name"), "{}", ran.out);
        assert!(ran.out.contains("2 files, 1 broken"), "{}", ran.out);
    }
}

#[test]
fn a_bad_record_of_several_files_is_named() {
    let place = Place::new();
    let late = {
        let mut out = Vec::new();
        put_example(&mut out, Some(&[(b"n", Values::Ints(&[1])), (b"late", Values::Ints(&[1]))]));
        out
    };
    let good = || {
        let mut out = Vec::new();
        put_example(&mut out, Some(&[(b"n", Values::Ints(&[1]))]));
        out
    };
    place.put("a.tfrecord", framed((0..120).map(|_| good())));
    place.put("b.tfrecord", framed((0..50).map(|_| good()).chain([late]).chain((0..50).map(|_| good()))));
    // Of the record itself, behind its length and the checksum of that.
    let byte = 50 * (good().len() + 16) + 12;
    let ran = place.run(&["convert", "a.tfrecord", "b.tfrecord", "c.jsonl"]);
    let place_of = format!("b.tfrecord at byte {byte}");
    for part in ["the feature \"late\"", ", record 50, ", "b.tfrecord", &place_of, "--infer 0"] {
        assert!(ran.code == 1 && ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn numpy_files_are_what_their_names_say() {
    let place = Place::new();
    place.put("a.csv", "n,x\n1,0.5\n2,1.5\n");
    assert_eq!(place.run(&["convert", "a.csv", "two.npz"]).code, 0);
    let ran = place.run(&["convert", "two.npz", "two.npy"]);
    assert!(ran.code == 2 && ran.err.contains("n, x; an .npz") && ran.err.contains("--columns"), "{}", ran.err);
    // One array is one, whatever it lies in.
    assert_eq!(place.run(&["convert", "two.npz", "n.npy", "--columns", "n"]).code, 0);
    assert!(place.get("n.npy").starts_with(b"\x93NUMPY"));
    assert_eq!(place.run(&["convert", "n.npy", "n.npz"]).code, 0);
    assert!(place.get("n.npz").starts_with(b"PK"));
    assert_eq!(place.rows("n.npz"), [serde_json::json!({ "arr_0": 1 }), serde_json::json!({ "arr_0": 2 })]);
    assert_eq!(place.run(&["convert", "n.npz", "back.npy"]).code, 0);
    assert_eq!(place.get("back.npy"), place.get("n.npy"));
}

#[test]
fn folders_that_hugging_face_saved() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("set/train")).unwrap();
    place.put("a.csv", "n\n1\n2\n");
    place.put("b.csv", "n\n3\n");
    assert_eq!(place.run(&["convert", "a.csv", "set/train/data-1.arrow"]).code, 0);
    assert_eq!(place.run(&["convert", "b.csv", "set/train/data-0.arrow"]).code, 0);
    place.put("set/train/dataset_info.json", "{\"features\": {}}");
    let state =
        |files: &str| place.put("set/train/state.json", format!("{{\"_data_files\": {files}, \"_split\": null}}"));
    // The order is that of the list.
    state("[{\"filename\": \"data-1.arrow\"}, {\"filename\": \"data-0.arrow\"}]");
    for folder in ["set/train", "set/train/"] {
        assert!(place.run(&["count", folder]).out.ends_with("3\ttotal\n"));
        let (code, json) = place.json(&["verify", folder]);
        assert_eq!((code, json["files"].as_array().unwrap().len(), &json["records"]), (0, 2, &3.into()), "{json}");
        assert_eq!(place.run(&["convert", "--overwrite", folder, "o.csv"]).code, 0);
        assert_eq!(place.get("o.csv"), b"n\n1\n2\n3\n");
        for command in ["head", "inspect"] {
            assert_eq!(place.run(&[command, folder]).code, 0, "{command}");
        }
    }
    state("[{\"filename\": \"data-1.arrow\"}, {\"filename\": \"data-2.arrow\"}]");
    let ran = place.run(&["verify", "set/train"]);
    assert!(ran.code == 1 && ran.out.contains("data-2.arrow"), "{}", ran.out);
    state("1");
    let ran = place.run(&["verify", "set/train"]);
    assert!(ran.code == 1 && ran.out.contains("_data_files"), "{}", ran.out);
    // Several splits: which one is for the user to say.
    place.put("set/dataset_dict.json", "{\"splits\": [\"train\", \"test\"]}");
    for words in
        [&["verify", "set"][..], &["count", "set"], &["head", "set"], &["inspect", "set"], &["convert", "set", "p.csv"]]
    {
        let ran = place.run(words);
        assert!(ran.code == 2 && ran.err.contains("name one of them: set/train, set/test"), "{}", ran.err);
    }
    // Somebody else's.
    std::fs::create_dir(place.path("own")).unwrap();
    place.put("own/state.json", "{\"a\": 1}\n{\"a\": 2}\n");
    assert_eq!(place.json(&["count", "own"]).1["records"], 2);
}

#[test]
fn small_things_of_convert() {
    let place = Place::new();
    place.put("a.csv", "a,b\n1,2\n");
    for words in [&["convert", "a.csv", "-"][..], &["convert", "a.csv", "-", "--to", "jsonl"]] {
        let ran = place.run(words);
        assert!(ran.code == 2 && ran.err.contains("standard output"), "{}", ran.err);
    }
    assert_eq!(place.names(), ["a.csv"]);
    // An array without a name.
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend(format!("{:<117}\n", "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }").bytes());
    npy.extend([5i64, -6].iter().flat_map(|n| n.to_le_bytes()));
    place.put("x.npy", npy);
    assert_eq!(place.run(&["convert", "x.npy", "x.jsonl"]).code, 0);
    assert_eq!(place.get("x.jsonl"), b"{\"value\":5}\n{\"value\":-6}\n");
    assert_eq!(place.run(&["convert", "x.npy", "x.csv"]).code, 0);
    assert_eq!(place.get("x.csv"), b"value\n5\n-6\n");
    place.put("noise", [0u8, 1, 2, 0xff]);
    let ran = place.run(&["inspect", "noise"]);
    assert!(ran.code == 2 && ran.err.contains("neither its contents nor its name says what it is"), "{}", ran.err);
}
