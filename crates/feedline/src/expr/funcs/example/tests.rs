//! Records of all sorts, one by one and in chunks, alone and in batches. (The goldens compare with TensorFlow.)

use super::super::testing::{attrs, call_several, exactly, refused};
use super::super::{find, testing};
use crate::element::{Column, Dims, Leaf, Pos, Ragged, Sparse, Tensor, Value};
use crate::error::Error;
use crate::expr::{Arg, RowsAt, Work, run_several};
use feedline_formats::example_writer::{Values, put_example, put_sequence_example};
use serde_json::{Value as Json, json};

fn example(features: &[(&str, Values<'_>)]) -> Vec<u8> {
    let features: Vec<(&[u8], Values<'_>)> = features.iter().map(|(k, v)| (k.as_bytes(), *v)).collect();
    let mut out = Vec::new();
    put_example(&mut out, Some(&features));
    out
}

fn records() -> Vec<Vec<u8>> {
    let long = vec![b'y'; 100];
    vec![
        example(&[
            ("i", Values::Ints(&[1, -2])),
            ("f", Values::Floats(&[0.5])),
            ("s", Values::Bytes(&[b"x", &long])),
            ("n", Values::Ints(&[2, 1])),
        ]),
        example(&[("i", Values::Ints(&[3, 4])), ("s", Values::Bytes(&[b"z"])), ("n", Values::Ints(&[0]))]),
        example(&[("i", Values::Ints(&[5, i64::MIN])), ("f", Values::Floats(&[1.5])), ("s", Values::Unset)]),
        example(&[("i", Values::Ints(&[7, 8])), ("s", Values::Bytes(&[b"a", b"", b"c"])), ("n", Values::Ints(&[3]))]),
    ]
}

fn string(bytes: &[u8]) -> Value {
    Value::Tensor(Tensor::string(bytes))
}

fn vector(records: &[Vec<u8>]) -> Value {
    Value::Tensor(Tensor::strings([records.len()], records))
}

fn features() -> Json {
    json!([
        {"name": "i", "kind": "fixed", "dtype": "int64", "shape": [1, 2]},
        {"name": "f", "kind": "fixed", "dtype": "float32", "shape": [], "default": 1},
        {"name": "s", "kind": "varlen", "dtype": "string"},
        {"name": "n", "kind": "sequence", "dtype": "int64", "shape": [], "allow_missing": true, "default": 2},
        {"name": "at", "kind": "sparse", "dtype": "float32", "value": "f", "index": ["g"], "size": [9]},
        {"name": "r", "kind": "ragged", "dtype": "string", "value": "s", "splits": "int32",
         "partitions": [{"row_lengths": "n"}]},
        {"name": "v", "kind": "ragged", "dtype": "int64", "value": "n", "splits": "int64", "partitions": []},
    ])
}

/// Without those that these records do not all agree with.
fn some_features() -> Json {
    json!(features().as_array().unwrap().iter().filter(|f| f["name"] != "r" && f["name"] != "at").collect::<Vec<_>>())
}

fn defaults() -> [Value; 2] {
    [Value::Tensor(Tensor::scalar(9f32)), Value::Tensor(Tensor::scalar(-1i64))]
}

#[test]
fn one_record_a_row() {
    let rows: Vec<Vec<Value>> = records().iter().map(|r| [vec![string(r)], defaults().to_vec()].concat()).collect();
    let out = call_several("io.parse_single_example", &rows, json!({"features": some_features()}));
    assert_eq!(out[0][0].tensor(), &Tensor::from_items([1, 2], &[1i64, -2]));
    assert_eq!(out[1][1].tensor(), &Tensor::scalar(9f32));
    let Value::Sparse(s) = &out[3][2] else { panic!("sparse") };
    assert_eq!(s.shape, [3]);
    assert_eq!(s.values, Tensor::strings([3], &["a", "", "c"]));
    assert_eq!(s.indices.items::<i64>(), [0, 1, 2]);
    assert_eq!(out[0][3].tensor(), &Tensor::from_items([2], &[2i64, 1]));
    assert_eq!(out[2][3].tensor().shape(), [0]);
    assert_eq!(out[0][4].tensor(), &Tensor::from_items([2], &[2i64, 1]));
}

#[test]
fn rows_of_equal_length_are_dense() {
    let rows: Vec<Vec<Value>> =
        [5, 6].iter().map(|&n| vec![string(&example(&[("x", Values::Ints(&[n, n]))]))]).collect();
    let features = json!([
        {"name": "x", "kind": "sequence", "dtype": "int64", "shape": [2], "allow_missing": true},
        {"name": "r", "kind": "ragged", "dtype": "int64", "value": "x", "splits": "int64", "partitions": []},
    ]);
    let out = call_several("io.parse_single_example", &rows, json!({"features": features}));
    assert_eq!(out[1][0].tensor(), &Tensor::from_items([1, 2], &[6i64, 6]));
    assert_eq!(out[1][1].tensor(), &Tensor::from_items([2], &[6i64, 6]));
}

#[test]
fn a_batch_a_row() {
    let all = records();
    let row = |records: &[Vec<u8>]| [vec![vector(records)], defaults().to_vec()].concat();
    let rows = [row(&all[..2]), row(&all[2..])];
    let out = call_several("io.parse_example", &rows, json!({"features": some_features()}));
    assert_eq!(out[1][0].tensor(), &Tensor::from_items([2, 1, 2], &[5i64, i64::MIN, 7, 8]));
    assert_eq!(out[1][1].tensor(), &Tensor::from_items([2], &[1.5f32, 9.0]));
    let Value::Sparse(s) = &out[0][2] else { panic!("sparse") };
    assert_eq!((&s.shape[..], s.indices.items::<i64>()), (&[2, 2][..], &[0, 0, 0, 1, 1, 0][..]));
    assert_eq!(out[0][3].tensor(), &Tensor::from_items([2, 2], &[2i64, 1, 0, -1]));
    assert_eq!(out[1][3].tensor(), &Tensor::from_items([2, 1], &[-1i64, 3]));
    let Value::Ragged(v) = &out[0][4] else { panic!("ragged") };
    assert_eq!((&*v.splits[0], v.values.items::<i64>()), (&[0, 2, 3][..], &[2, 1, 0][..]));
    // No records at all.
    let out = call_several("io.parse_example", &[row(&[])], json!({"features": some_features()}));
    assert_eq!(out[0][0].tensor().shape(), [0, 1, 2]);
    assert_eq!(out[0][3].tensor().shape(), [0, 0]);
}

fn ragged(values: &[i64], said: &[i64], partition: &str) -> Result<Value, Error> {
    let record = example(&[("v", Values::Ints(values)), ("p", Values::Ints(said))]);
    let features = json!([{"name": "r", "kind": "ragged", "dtype": "int64", "value": "v", "splits": "int64",
                           "partitions": [{partition: "p"}]}]);
    let made = (find("io.parse_single_example").unwrap().make)(
        &[Leaf::of(&string(&record)).unwrap()],
        &attrs(json!({"features": features})),
    )?;
    Ok(made.work.row(&[string(&record)], crate::expr::RowAt { epoch: 0, pos: 0 })?.remove(0))
}

#[test]
fn partitions() {
    let v = [1, 2, 3];
    for (partition, said) in [
        ("row_splits", &[0, 1, 1, 3][..]),
        ("row_lengths", &[1, 0, 2]),
        ("row_starts", &[0, 1, 1]),
        ("row_limits", &[1, 1, 3]),
        ("value_rowids", &[0, 2, 2]),
    ] {
        let Value::Ragged(r) = ragged(&v, said, partition).unwrap() else { panic!("ragged") };
        assert_eq!(&*r.splits[0], [0, 1, 1, 3], "{partition}");
        assert!(matches!(ragged(&[], &[], partition), Ok(Value::Ragged(r)) if r.rows() == 0), "{partition}");
        assert!(ragged(&v, &[], partition).is_err(), "{partition}");
        for bad in [&[-1, 4][..], &[0, 3, 1], &[9], &[0, i64::MAX], &[i64::MAX, i64::MAX], &[0, 0, i64::MAX]] {
            let error = ragged(&v, bad, partition).unwrap_err().to_string();
            assert!(error.contains("feature \"r\" cannot be cut into rows") && error.contains("\"p\""), "{error}");
        }
    }
}

#[test]
fn nested_partitions_in_batches() {
    let one = example(&[
        ("v", Values::Ints(&[1, 2, 3, 4, 5, 6])),
        ("in", Values::Ints(&[1, 0, 2])),
        ("out", Values::Ints(&[0, 2, 3])),
    ]);
    let two = example(&[("v", Values::Ints(&[7, 8])), ("in", Values::Ints(&[1])), ("out", Values::Ints(&[0, 1]))]);
    let features = json!([{"name": "r", "kind": "ragged", "dtype": "int64", "value": "v", "splits": "int64",
        "partitions": [{"row_splits": "out"}, {"row_lengths": "in"}, {"uniform": 2}]}]);
    let rows = [vec![vector(&[one.clone(), two.clone()])], vec![vector(&[two.clone(), one])]];
    let out = call_several("io.parse_example", &rows, json!({"features": features}));
    let Value::Ragged(r) = &out[0][0] else { panic!("ragged") };
    assert_eq!(r.values.shape(), [4, 2]);
    let splits: Vec<&[i64]> = r.splits.iter().map(|s| &**s).collect();
    assert_eq!(splits, [&[0, 2, 3][..], &[0, 2, 3, 4], &[0, 1, 1, 3, 4]]);
    // A uniform axis outside of a ragged one is ragged, too.
    let features = json!([{"name": "r", "kind": "ragged", "dtype": "int64", "value": "v", "splits": "int64",
        "partitions": [{"uniform": 1}, {"row_lengths": "v"}]}]);
    let record = example(&[("v", Values::Ints(&[2, 0]))]);
    let out = call_several("io.parse_single_example", &[vec![string(&record)]], json!({"features": features}));
    let Value::Ragged(r) = &out[0][0] else { panic!("ragged") };
    let splits: Vec<&[i64]> = r.splits.iter().map(|s| &**s).collect();
    assert_eq!(splits, [&[0, 1, 2][..], &[0, 2, 2]]);
}

#[test]
fn sparse_places() {
    let record = |at: &[i64], more: &[i64], values: &[f32]| {
        example(&[("at", Values::Ints(at)), ("more", Values::Ints(more)), ("x", Values::Floats(values))])
    };
    let feature = |sorted: bool| {
        json!({"features": [{"name": "p", "kind": "sparse", "dtype": "float32", "value": "x", "index": ["at", "more"],
                             "size": [4, 9], "sorted": sorted}]})
    };
    let records = [record(&[3, 0, 3], &[1, 5, 0], &[0.5, 1.5, 2.5]), record(&[], &[], &[])];
    let out = call_several("io.parse_example", &[vec![vector(&records)]], feature(false));
    let want = Sparse {
        indices: Tensor::from_items([3, 3], &[0i64, 0, 5, 0, 3, 0, 0, 3, 1]),
        values: Tensor::from_items([3], &[1.5f32, 2.5, 0.5]),
        shape: vec![2, 4, 9],
    };
    assert_eq!(exactly(&out[0][0]), exactly(&Value::Sparse(want.into())));
    let out = call_several("io.parse_single_example", &[vec![string(&records[0])]], feature(true));
    let Value::Sparse(p) = &out[0][0] else { panic!("sparse") };
    assert_eq!(p.indices.items::<i64>(), [3, 1, 0, 5, 3, 0]);
    let error = fails(&[vector(&[records[1].clone(), record(&[1], &[], &[0.5])])], feature(false));
    assert!(error.contains("record 1") && error.contains("1 values, but 0 indices"), "{error}");
}

/// The message with which parsing (of a batch if the first argument is a vector) fails.
fn fails(args: &[Value], json: Json) -> String {
    let leaves: Vec<Leaf> = args.iter().map(|v| Leaf::of(v).unwrap()).collect();
    let made = (find("io.parse_example").unwrap().make)(&leaves, &attrs(json)).unwrap();
    let Work::Several(specs, kernel) = &made.work else { panic!("several results") };
    let columns = args.iter().map(|v| Arg::Rows(Column::from_values(vec![v.clone()]))).collect();
    let rows = run_several(&**kernel, columns, specs.len(), 1, RowsAt { epoch: 0, pos: &Pos::Run(0) });
    let row = made.work.row(args, crate::expr::RowAt { epoch: 0, pos: 0 });
    assert_eq!(rows.err().map(|e| e.to_string()), row.as_ref().err().map(|e| e.to_string()));
    row.unwrap_err().to_string()
}

#[test]
fn messages_say_what_would_help() {
    let record =
        example(&[("image", Values::Bytes(&[b"x"])), ("label", Values::Ints(&[1, 2])), ("e", Values::Ints(&[]))]);
    let fixed = |name: &str, dtype: &str, default: Option<usize>| {
        let feature = json!({"name": name, "kind": "fixed", "dtype": dtype, "shape": [], "default": default});
        json!({"features": [feature]})
    };
    let one = [string(&record), Value::Tensor(Tensor::scalar(0i64))];
    let error = fails(&one, fixed("lable", "int64", None));
    assert!(error.contains("\"lable\" is required") && error.contains("it has \"e\", \"image\", \"label\""), "{error}");
    let error = fails(&one, fixed("image", "int64", None));
    assert!(error.contains("holds string, but int64 was asked for"), "{error}");
    let error = fails(&one, fixed("label", "int64", None));
    assert!(error.contains("has 2 values, but the shape [] needs 1"), "{error}");
    let error = fails(&one, fixed("e", "int64", Some(1)));
    assert!(error.contains("only stands for a feature that is not there"), "{error}");
    let batch = [vector(&[example(&[("label", Values::Ints(&[1]))]), record.clone()])];
    let error = fails(&batch, fixed("label", "int64", None));
    assert!(error.starts_with("record 1: feature \"label\" has 2"), "{error}");
    let error = fails(
        &[vector(&[vec![], b"garbage".to_vec()])],
        json!({"features": [{"name": "x", "kind": "varlen", "dtype": "int64"}]}),
    );
    assert!(error.starts_with("record 1: not a valid Example"), "{error}");

    let serialized = Tensor::string(&record);
    let refuse = |json: Json| refused("io.parse_single_example", &[serialized.clone()], json).to_string();
    assert!(refuse(json!({})).contains("no features"));
    assert!(refuse(fixed("x", "int32", None)).contains("ask for the stored type and cast"));
    assert!(
        refuse(json!({"features": [{"name": "x", "kind": "sequence", "dtype": "int64", "shape": []}]}))
            .contains("allow_missing")
    );
    let vector = Tensor::strings([1], &["x"]);
    let error = refused("io.parse_single_example", &[vector], fixed("x", "int64", None)).to_string();
    assert!(error.contains("parse_example takes a vector"), "{error}");
    let error = refused("io.parse_single_example", &[Tensor::scalar(1i64)], fixed("x", "int64", None)).to_string();
    assert!(error.contains("must be strings, not int64"), "{error}");
}

#[test]
fn sequence_examples() {
    let mut record = Vec::new();
    let steps: &[Values<'_>] = &[Values::Ints(&[1, 2]), Values::Ints(&[3, 4]), Values::Ints(&[5, 6])];
    let words: &[Values<'_>] = &[Values::Bytes(&[b"x", b"y"]), Values::Unset];
    put_sequence_example(&mut record, Some(&[(b"n", Values::Ints(&[7]))]), Some(&[(b"a", steps), (b"w", words)]));
    let mut other = Vec::new();
    put_sequence_example(&mut other, Some(&[(b"n", Values::Ints(&[8]))]), Some(&[(b"a", &steps[..1])]));
    let json = json!({
        "features": [{"name": "n", "kind": "fixed", "dtype": "int64", "shape": []}],
        "lists": [
            {"name": "a", "kind": "sequence", "dtype": "int64", "shape": [2]},
            {"name": "w", "kind": "varlen", "dtype": "string"},
            {"name": "r", "kind": "ragged", "dtype": "string", "value": "w", "splits": "int64", "partitions": []},
        ],
    });
    let rows = [vec![string(&record)], vec![string(&other)]];
    let out = call_several("io.parse_single_sequence_example", &rows, json.clone());
    assert_eq!(out[0][0].tensor(), &Tensor::scalar(7i64));
    assert_eq!(out[0][1].tensor(), &Tensor::from_items([3, 2], &[1i64, 2, 3, 4, 5, 6]));
    let Value::Sparse(w) = &out[0][2] else { panic!("sparse") };
    assert_eq!((&w.shape[..], w.indices.items::<i64>()), (&[2, 2][..], &[0, 0, 0, 1][..]));
    let Value::Ragged(r) = &out[0][3] else { panic!("ragged") };
    assert_eq!(&*r.splits[0], [0, 2, 2]);

    let rows = [vec![vector(&[other.clone(), record.clone()])], vec![vector(&[record.clone(), record])]];
    let out = call_several("io.parse_sequence_example", &rows, json);
    assert_eq!(out[0][0].tensor(), &Tensor::from_items([2], &[8i64, 7]));
    assert_eq!(out[0][1].tensor(), &Tensor::from_items([2, 3, 2], &[1i64, 2, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6]));
    let Value::Sparse(w) = &out[0][2] else { panic!("sparse") };
    assert_eq!((&w.shape[..], w.indices.items::<i64>()), (&[2, 2, 2][..], &[1, 0, 0, 1, 0, 1][..]));
    let Value::Ragged(r) = &out[0][3] else { panic!("ragged") };
    let want = Ragged {
        values: Tensor::strings([2], &["x", "y"]),
        splits: vec![[0, 0, 2].into(), [0, 2, 2].into()],
        splits_dtype: crate::element::DType::Int64,
    };
    assert_eq!(**r, want);
    assert_eq!(out[0][4].tensor(), &Tensor::from_items([2], &[1i64, 3]));
}

#[test]
fn unknown_shapes_are_checked_when_they_run() {
    let leaf = Leaf::tensor(crate::element::DType::String, Dims::unknown());
    let json = json!({"features": [{"name": "x", "kind": "varlen", "dtype": "int64"}]});
    let made = (find("io.parse_single_example").unwrap().make)(&[leaf], &testing::attrs(json)).unwrap();
    let args = [vector(&[vec![]])];
    let error = made.work.row(&args, crate::expr::RowAt { epoch: 0, pos: 0 }).unwrap_err();
    assert!(error.to_string().contains("must be one string"), "{error}");
}
