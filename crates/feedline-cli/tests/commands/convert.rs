//! `feedline convert`: what comes out of it, and what stays of a run that was broken off.

use super::place::Place;
use super::{example, files, framed};
use feedline_formats::example_writer::{Values, put_example};
use feedline_formats::tar;
use serde_json::Value as Json;
use std::path::Path;
use std::process::Stdio;

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
