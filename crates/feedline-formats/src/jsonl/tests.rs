use super::*;
use proptest::prelude::*;

fn leaf(path: &str, kind: Kind, rank: usize, fill: Option<Fill>) -> (String, Node) {
    (path.into(), Node::Leaf(Leaf { path: path.into(), kind, rank, fill }))
}
fn one(kind: Kind, rank: usize, fill: Option<Fill>) -> Schema {
    Schema::new(vec![leaf("x", kind, rank, fill)]).unwrap()
}
fn failed(schema: &Schema, line: &str) -> String {
    Row::default().read(schema, line.as_bytes()).unwrap_err().to_string()
}
fn learned(lines: &[&str]) -> Schema {
    let mut found = Inference::default();
    lines.iter().for_each(|line| found.line(line.as_bytes()).unwrap());
    Schema::new(found.fields()).unwrap()
}

#[test]
fn an_object_that_comes_twice_counts_as_it_comes_last() {
    let inner = Node::Fields(vec![leaf("b", Kind::INT64, 0, Some(Fill::Int(7))), leaf("c", Kind::INT64, 0, None)]);
    let schema = Schema::new(vec![("a".into(), inner)]).unwrap();
    let mut row = Row::default();
    row.read(&schema, br#"{"a":{"b":1,"c":2},"a":{"c":3}}"#).unwrap();
    assert_eq!((&row.cells[0].ints[..], &row.cells[1].ints[..]), (&[7][..], &[3][..]));
    assert!(failed(&schema, r#"{"a":{"b":1,"c":2},"a":null}"#).contains("missing"));
}

#[test]
fn leaves_are_found_wherever_they_stand() {
    let inner = Node::Fields(vec![leaf("s", Kind::Text, 0, None), leaf("v", Kind::Float, 2, None)]);
    let schema = Schema::new(vec![leaf("n", Kind::INT64, 0, None), ("in".into(), inner)]).unwrap();
    let line = br#"{"other":[{"n":9}],"in":{"v":[[1,2.5],[3,4]],"s":"a\u00e9"},"n":-3}"#;
    let mut row = Row::default();
    for _ in 0..2 {
        row.read(&schema, line).unwrap();
        assert_eq!(row.cells[0].ints, [-3]);
        assert_eq!(row.text(line, &row.cells[1].texts[0]), "aé".as_bytes());
        assert_eq!((&row.cells[2].floats[..], &row.cells[2].shape[..]), (&[1.0, 2.5, 3.0, 4.0][..], &[2, 2][..]));
    }
    // Text without escapes is where it was, also behind a byte order mark.
    let line = b"\xef\xbb\xbf{\"n\":1,\"n\":2,\"in\":{\"v\":[],\"s\":\"plain\"}}";
    row.read(&schema, line).unwrap();
    assert!(matches!(&row.cells[1].texts[0], Text::View(r) if &line[r.clone()] == b"plain"));
    assert_eq!((row.cells[0].ints[0], &row.cells[2].shape[..]), (2, &[0, 0][..]));
}

#[test]
fn errors_name_the_field() {
    let byte = Kind::Int { min: 0, max: 255 };
    for (schema, line, message) in [
        (one(Kind::INT64, 0, None), r#"{"y":1}"#, "\"x\" is missing"),
        (one(Kind::INT64, 0, None), r#"{"x":null}"#, "\"x\" is null"),
        (one(Kind::INT64, 0, None), r#"{"x":"1"}"#, "\"x\" is \"1\", not an int64"),
        (one(Kind::INT64, 0, None), r#"{"x":1.5}"#, "is 1.5, not an int64"),
        (one(Kind::INT64, 0, None), r#"{"x":9223372036854775808}"#, "is 9223372036854775808, not an int64"),
        (one(Kind::Uint64, 0, None), r#"{"x":-1}"#, "is -1, not a uint64"),
        (one(Kind::Uint64, 0, None), r#"{"x":18446744073709551616}"#, "not a uint64"),
        (one(byte, 0, None), r#"{"x":256}"#, "is 256, not a whole number from 0 to 255"),
        (one(Kind::Text, 0, None), r#"{"x":1}"#, "is 1, not a string"),
        (one(Kind::Bool, 0, None), r#"{"x":0}"#, "not true or false"),
        (one(Kind::Float, 1, None), r#"{"x":1}"#, "is 1, not a list of a number"),
        (one(Kind::Float, 0, None), r#"{"x":[1]}"#, "is a list, not a number"),
        (one(Kind::Float, 1, None), r#"{"x":[1,null]}"#, "null in a list"),
        (one(Kind::Float, 2, None), r#"{"x":[[1],[1,2]]}"#, "different lengths, 1 and 2"),
        (one(Kind::Float, 0, None), r#"{"x":{}}"#, "is an object"),
        (one(Kind::Float, 0, None), r#"{"x":NaN}"#, "JSON has no NaN"),
        (one(Kind::Float, 0, None), r#"{"x":1"#, "not JSON: EOF while parsing"),
        (one(Kind::Float, 0, None), r#"{"x":1} x"#, "trailing characters, column 9"),
        (one(Kind::Float, 0, None), "[1]", "expected an object"),
    ] {
        let said = failed(&schema, line);
        assert!(said.contains(message), "{line}: {said}");
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert!(failed(&one(Kind::Json, 0, None), &deep).contains("not JSON"));
    assert!(failed(&one(Kind::Text, 0, None), &deep).contains("is a list"));
}

#[test]
fn defaults_stand_in() {
    let schema = Schema::new(vec![
        leaf("a", Kind::INT64, 0, Some(Fill::Int(7))),
        leaf("b", Kind::Float, 0, Some(Fill::Int(1))),
        leaf("c", Kind::Text, 0, Some(Fill::Text(b"dd".to_vec()))),
        leaf("d", Kind::Text, 1, Some(Fill::Empty)),
        leaf("e", Kind::Json, 0, Some(Fill::Text(b"null".to_vec()))),
    ])
    .unwrap();
    let mut row = Row::default();
    row.read(&schema, br#"{"a":null}"#).unwrap();
    assert_eq!((row.cells[0].ints[0], row.cells[1].floats[0]), (7, 1.0));
    assert_eq!(row.text(b"", &row.cells[2].texts[0]), b"dd");
    assert_eq!(row.cells[3].shape, [0]);
    assert_eq!(row.text(b"", &row.cells[4].texts[0]), b"null");
    let line = br#"{"x":null}"#;
    row.read(&one(Kind::Json, 0, Some(Fill::Text(b"-".to_vec()))), line).unwrap();
    assert_eq!(row.text(line, &row.cells[0].texts[0]), b"-");
    row.read(&one(Kind::Json, 0, None), line).unwrap();
    assert_eq!(row.text(line, &row.cells[0].texts[0]), b"null");
}

#[test]
fn schemas_are_learned() {
    let schema = learned(&[
        r#"{"a":1,"b":1,"c":"x","d":[1,2],"e":{"f":true},"g":[{"h":1}],"i":null,"l":[],"m":[[1],[2]]}"#,
        r#"{"a":2,"b":1.5,"c":null,"d":[],"e":{"f":false,"k":1},"g":[],"i":null,"j":3,"l":[1.5],"m":[[1,2]]}"#,
    ]);
    let told: Vec<String> = schema
        .leaves()
        .iter()
        .map(|l| {
            let kind = match l.kind {
                Kind::Int { .. } => "int".into(),
                kind => format!("{kind:?}").to_lowercase(),
            };
            format!("{} {kind}{}{}", l.path, "[]".repeat(l.rank), if l.fill.is_some() { "?" } else { "" })
        })
        .collect();
    let expected = [
        "a int",
        "b float",
        "c text?",
        "d int[]",
        "e.f bool",
        "e.k int?",
        "g json",
        "i json?",
        "l float[]",
        "m int[][]",
        "j int?",
    ];
    assert_eq!(told, expected);
    assert!(Inference::default().line(b"[1]").is_err());
    assert!(Schema::new(Inference::default().fields()).is_err());
}

#[test]
fn large_whole_numbers_stay_what_they_are() {
    let kinds = |lines: &[&str]| -> Vec<String> {
        let mut found = Inference::default();
        lines.iter().for_each(|line| found.line(line.as_bytes()).unwrap());
        let changed = found.changed();
        let kind = |leaf: &Leaf| match changed.iter().find(|(path, _)| *path == leaf.path) {
            Some((_, number)) => format!("!{number}"),
            None if leaf.kind == Kind::INT64 => "Int64".into(),
            None => format!("{:?}", leaf.kind),
        };
        Schema::new(found.fields()).unwrap().leaves().iter().map(kind).collect()
    };
    for (lines, kind) in [
        (&[r#"{"x":9223372036854775807}"#, r#"{"x":-9223372036854775808}"#][..], "Int64"),
        (&[r#"{"x":1}"#, r#"{"x":9223372036854775808}"#], "Uint64"),
        (&[r#"{"x":[18446744073709551615,0]}"#], "Uint64"),
        // No type has room for both.
        (&[r#"{"x":9223372036854775809}"#, r#"{"x":-1}"#], "!9223372036854775809"),
        (&[r#"{"x":-1}"#, r#"{"x":1}"#, r#"{"x":[9223372036854775809]}"#], "Json"),
        (&[r#"{"x":18446744073709551616123}"#], "!18446744073709551616123"),
        (&[r#"{"x":"a\\"}"#, r#"{"x":-9223372036854775809}"#], "Json"),
        (&[r#"{"x":-9223372036854775809}"#, r#"{"x":null}"#], "!-9223372036854775809"),
        (&[r#"{"x":[-9223372036854775809]}"#, r#"{"x":[1]}"#], "!-9223372036854775809"),
        // Among floats a number that a float64 changes is refused; one that it keeps is not.
        (&[r#"{"x":0.5}"#, r#"{"x":18446744073709551615}"#], "!18446744073709551615"),
        (&[r#"{"x":0.5}"#, r#"{"x":9007199254740992}"#], "Float"),
        (&[r#"{"x":0.5}"#, r#"{"x":9007199254740993}"#], "!9007199254740993"),
        (&[r#"{"x":-9007199254740993}"#, r#"{"x":1}"#, r#"{"x":0.5}"#], "!-9007199254740993"),
        (&[r#"{"x":18446744073709551615}"#, r#"{"x":0.5}"#], "!18446744073709551615"),
        (&[r#"{"x":100000000000000000000}"#, r#"{"x":0.5}"#], "Float"),
        (&[r#"{"x":9223372036854776000}"#, r#"{"x":0.5}"#], "Float"),
        (&[r#"{"x":1.8446744073709551616e25,"y":"123456789012345678901234567890"}"#], "Float"),
        // Text is kept as it is.
        (&[r#"{"x":18446744073709551616123}"#, r#"{"x":"y"}"#], "Json"),
        (&[r#"{"x":[{"y":18446744073709551616123}]}"#], "Json"),
    ] {
        assert_eq!(kinds(lines)[0], kind, "{lines:?}");
    }
    let mut found = Inference::default();
    found.line(br#"{"a":{"b":[1,123456789012345678901234567890]}}"#).unwrap();
    assert_eq!(found.changed(), [("a.b".to_string(), "123456789012345678901234567890".to_string())]);
    let mut row = Row::default();
    for n in [0, 9223372036854775808, u64::MAX] {
        row.read(&one(Kind::Uint64, 0, None), format!("{{\"x\":{n}}}").as_bytes()).unwrap();
        assert_eq!(row.cells[0].ints[0] as u64, n);
    }
    assert_eq!(column_of("12", br#"{"x":"312","y":12}"#), Some(16));
    assert_eq!(column_of("12", b"123 1.12"), None);
}

proptest! {
    #[test]
    fn what_is_written_reads_back(n: i64, x in -1e300f64..1e300, f in -1e30f32..1e30, text in "\\PC{0,9}", b: bool, list in prop::collection::vec(any::<i32>(), 0..4)) {
        let mut w = Writer::default();
        w.open(b'{');
        w.key("n").unwrap();
        w.int(n);
        w.key("x").unwrap();
        w.float(x).unwrap();
        w.key("f").unwrap();
        w.float(f).unwrap();
        w.key("t\"").unwrap();
        w.text(text.as_bytes()).unwrap();
        w.key("b").unwrap();
        w.bool(b);
        w.key("l").unwrap();
        w.open(b'[');
        list.iter().for_each(|i| w.int(i));
        w.close(b']');
        w.close(b'}');
        w.end_line();
        let line = w.take();
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        prop_assert_eq!(value["t\""].as_str().unwrap(), &text);
        let schema = learned(&[std::str::from_utf8(&line).unwrap()]);
        let mut row = Row::default();
        row.read(&schema, &line).unwrap();
        prop_assert_eq!(row.cells[0].ints[0], n);
        prop_assert_eq!(row.cells[1].floats[0], x);
        prop_assert_eq!(row.cells[2].floats[0] as f32, f);
        prop_assert_eq!(row.text(&line, &row.cells[3].texts[0]), text.as_bytes());
        prop_assert_eq!(row.cells[4].ints[0] != 0, b);
        let read: Vec<i32> = row.cells[5].ints.iter().map(|i| *i as i32).collect();
        prop_assert_eq!(read, list);
    }

    #[test]
    fn any_bytes_are_an_error_at_most(line in "[\\[\\]{}\",:x0-9.e+-]{0,24}", rank in 0usize..3) {
        for kind in [Kind::Bool, Kind::INT64, Kind::Uint64, Kind::Float, Kind::Text, Kind::Json] {
            let _ = Row::default().read(&one(kind, rank, None), line.as_bytes());
        }
        let _ = Inference::default().line(line.as_bytes());
    }
}

#[test]
fn what_json_cannot_hold_is_refused() {
    let mut w = Writer::default();
    assert!(w.float(f32::NAN).unwrap_err().to_string().contains("no NaN"));
    assert!(w.text(b"\xff").unwrap_err().to_string().contains("not UTF-8"));
}
