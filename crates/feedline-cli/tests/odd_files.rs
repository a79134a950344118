//! The built command on files that are sound and odd: columns that elements do not have, names, archives, broken links.

mod place;

use feedline_formats::example_writer::{Values, put_example};
use feedline_formats::{tar, tfrecord};
use place::Place;

#[test]
fn columns_without_a_place_in_an_element_are_no_damage() {
    use feedline_formats::columnar::array::builder::{Int64Builder, MapBuilder, StringBuilder};
    use feedline_formats::columnar::array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    let place = Place::new();
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for n in 0..3 {
        map.keys().append_value("k");
        map.values().append_value(n);
        map.append(true).unwrap();
    }
    let columns: Vec<(&str, ArrayRef)> =
        vec![("a", Arc::new(Int64Array::from(vec![1, 2, 3]))), ("m", Arc::new(map.finish()))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let options = feedline_formats::parquet::WriteOptions { compression: "snappy".into(), group_rows: 2 };
    let mut out = feedline_formats::parquet::ParquetWriter::new(Vec::new(), batch.schema(), &options).unwrap();
    out.write(&batch).unwrap();
    let parquet = out.finish().unwrap();
    place.put("m.parquet", &parquet);
    let mut out = feedline_formats::arrow_ipc::ArrowWriter::new(Vec::new(), &batch.schema(), "none").unwrap();
    out.write(&batch).unwrap();
    place.put("m.arrow", out.finish().unwrap());
    for name in ["m.parquet", "m.arrow"] {
        let (code, json) = place.json(&["verify", name]);
        assert_eq!((code, &json["records"], &json["broken_files"]), (0, &3.into(), &0.into()), "{json}");
        assert_eq!(place.run(&["count", name]).out, format!("3\t{name}\n"));
        let (code, json) = place.json(&["inspect", name]);
        let file = &json["files"][0];
        assert_eq!((code, &file["records"], &file["schema"]["a"]), (0, &3.into(), &"int64".into()), "{json}");
        assert!(file["schema"]["m"].as_str().unwrap().contains("no place in an element"), "{json}");
        assert_eq!(file["rows"][2]["a"], 3);
        let shown = place.run(&["show", name, "1"]);
        assert!(shown.code == 0 && shown.out.contains("a: 2"), "{}{}", shown.out, shown.err);
        assert!(place.run(&["show", name, "3"]).err.contains("has no record 3"));
        let ran = place.run(&["convert", name, "none.csv"]);
        assert!(ran.code == 2 && ran.err.contains("; --columns NAME") && !ran.err.contains("=["), "{}", ran.err);
        assert_eq!(place.run(&["convert", name, "m.csv", "--columns", "a", "--overwrite"]).code, 0);
        assert_eq!(place.get("m.csv"), b"a\n1\n2\n3\n");
    }
    // Damage is found all the same: the header of the first page.
    let mut damaged = parquet;
    damaged[4..12].fill(0xff);
    place.put("m.parquet", damaged);
    let (code, json) = place.json(&["verify", "m.parquet"]);
    assert_eq!((code, &json["files"][0]["broken"], &json["records"]), (1, &1.into(), &1.into()), "{json}");
}

#[test]
fn a_file_that_cannot_be_opened_costs_one_line() {
    let place = Place::new();
    place.put("a.csv", "a,b\n1,2\n");
    std::os::unix::fs::symlink("nowhere", place.path("b.csv")).unwrap();
    let ran = place.run(&["count", "."]);
    assert!(ran.code == 1 && ran.out.contains("1\t./a.csv\n?\t"), "{}{}", ran.out, ran.err);
    let (code, json) = place.json(&["inspect", "a.csv", "b.csv"]);
    assert_eq!((code, &json["files"][0]["records"]), (1, &1.into()), "{json}");
    assert!(json["files"][1]["error"]["message"].as_str().unwrap().contains("no file or folder"), "{json}");
    let ran = place.run(&["inspect", "."]);
    assert!(ran.code == 1 && ran.out.contains("records     1") && ran.out.contains("error       "), "{}", ran.out);
}

#[test]
fn tabs_are_told_by_the_end_of_a_name() {
    let place = Place::new();
    place.put("a.csv", "a,b\n1,2\n");
    for (name, text) in [("x.tsv", "a\tb\n1\t2\n"), ("x.tsv.csv", "a,b\n1,2\n")] {
        assert_eq!(place.run(&["convert", "a.csv", name]).code, 0);
        assert_eq!(place.get(name), text.as_bytes());
    }
    assert_eq!(place.run(&["convert", "a.csv", "x.TSV.gz", "--compression", "none"]).code, 0);
    assert_eq!(place.get("x.TSV.gz"), b"a\tb\n1\t2\n");
}

#[test]
fn checksums_of_arrays_in_archives_are_compared() {
    let place = Place::new();
    place.put("a.csv", "a,b\n1,2\n3,4\n");
    assert_eq!(place.run(&["convert", "a.csv", "a.npz"]).code, 0);
    assert_eq!(place.run(&["verify", "a.npz"]).code, 0);
    let mut bytes = place.get("a.npz");
    // The first item of the first array.
    let at = bytes.windows(6).position(|w| w == b"\x93NUMPY").unwrap() + 128;
    bytes[at] ^= 1;
    place.put("a.npz", bytes);
    let ran = place.run(&["verify", "a.npz"]);
    assert!(ran.code == 1 && ran.out.contains("has a wrong checksum"), "{}", ran.out);
}

#[test]
fn what_only_later_rows_have_is_not_lost_silently() {
    let place = Place::new();
    // Features.
    let mut records = Vec::new();
    for i in 0..150i64 {
        let (n, mut record) = ([i], Vec::new());
        let both: [(&[u8], Values<'_>); 2] = [(b"a", Values::Ints(&n)), (b"b", Values::Ints(&n))];
        put_example(&mut record, Some(&both[..if i < 120 { 1 } else { 2 }]));
        tfrecord::frame(&record, &mut records);
    }
    place.put("a.tfrecord", records);
    let ran = place.run(&["convert", "a.tfrecord", "a.jsonl"]);
    assert!(ran.code == 1 && ran.err.contains("feature \"b\"") && ran.err.contains("--infer 0"), "{}", ran.err);
    for more in [&["--infer", "0"][..], &["--schema", "a: int64"], &["--columns", "a"]] {
        let ran = place.run(&[&["convert", "a.tfrecord", "a.jsonl", "--overwrite"][..], more].concat());
        assert_eq!(ran.code, 0, "{more:?}: {}", ran.err);
    }
    // Fields of samples.
    let mut out = tar::Writer::new(Vec::new());
    for name in ["0.txt", "1.txt", "1.more", "2.txt"] {
        out.append(name.as_bytes(), b"x", 0).unwrap();
    }
    place.put("a.tar", out.finish().unwrap());
    let ran = place.run(&["convert", "a.tar", "t.jsonl"]);
    assert!(ran.code == 1 && ran.err.contains("\"1\" has the field \"more\""), "{}", ran.err);
    assert_eq!(place.run(&["convert", "a.tar", "t.jsonl", "--columns", "txt,__key__"]).code, 0);
    assert_eq!(place.rows("t.jsonl")[1].to_string(), r#"{"txt":"x","__key__":"1"}"#);
    // A field that the first has not can be asked for; samples without it are errors.
    assert!(place.run(&["convert", "a.tar", "m.jsonl", "--columns", "more"]).err.contains("has no \"more\""));
    // Columns of tables.
    place.put("1.csv", "a\n1\n");
    place.put("2.csv", "b,a\n2,3\n");
    for name in ["1", "2"] {
        assert_eq!(place.run(&["convert", &format!("{name}.csv"), &format!("{name}.parquet")]).code, 0);
    }
    let ran = place.run(&["convert", "1.parquet", "2.parquet", "p.jsonl"]);
    assert!(ran.code == 1 && ran.err.contains("column \"b\" is here"), "{}", ran.err);
    assert!(ran.err.contains("--columns") && !ran.err.contains("=["), "{}", ran.err);
    assert_eq!(place.run(&["convert", "1.parquet", "2.parquet", "p.jsonl", "--columns", "a"]).code, 0);
    assert_eq!(place.get("p.jsonl"), b"{\"a\":1}\n{\"a\":3}\n");
}
