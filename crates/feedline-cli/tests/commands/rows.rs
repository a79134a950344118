//! `feedline head`, `inspect`, `record` and `retry`: single rows of files.

use super::place::{Place, Ran};
use super::{example, framed};
use feedline_formats::example_writer::{Values, put_example};
use serde_json::Value as Json;
use std::process::Stdio;

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
