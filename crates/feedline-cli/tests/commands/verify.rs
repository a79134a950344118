//! `feedline verify`: what is broken, and where.

use super::place::Place;
use super::{files, framed, packed};
use feedline_formats::compress::Compression;
use feedline_formats::example_writer::{Values, put_example};
use serde_json::Value as Json;

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
