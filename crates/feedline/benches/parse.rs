//! How long Examples take to become columns: `cargo bench -p feedline --bench parse`.

use feedline::element::{Buf, Column, Leaf, Pos, Spec, StringsBuilder, Tensor, Tree};
use feedline::expr::{Builder, Graph, RowsAt};
use feedline_formats::example_writer::{Values, put_example};
use serde_json::{Value as Json, json};
use std::time::Instant;

const ROWS: usize = 1024;

/// Five features: two integers, a name, a weight, a vector.
fn record(i: i64) -> Vec<u8> {
    let x: Vec<f32> = (0..16).map(|k| (i * k) as f32).collect();
    let name = format!("user-{i}");
    let mut out = Vec::new();
    put_example(
        &mut out,
        Some(&[
            (b"id", Values::Ints(&[i * 1000])),
            (b"label", Values::Ints(&[i % 10])),
            (b"name", Values::Bytes(&[name.as_bytes()])),
            (b"weight", Values::Floats(&[0.5])),
            (b"x", Values::Floats(&x)),
        ]),
    );
    out
}

/// Records one after the other in a block, as they come from a file.
fn records() -> Tensor {
    let all: Vec<Vec<u8>> = (0..ROWS as i64).map(record).collect();
    let block = Buf::copied(&all.concat());
    let mut strings = StringsBuilder::with_capacity(ROWS);
    let mut at = 0;
    for record in &all {
        strings.push_view(&block, at..at + record.len());
        at += record.len();
    }
    strings.tensor([ROWS])
}

fn time(what: &str, serialized: Tensor, function: &str, features: Json) {
    let mut b = Builder::new(&Spec::leaf(Leaf::of_tensor(&serialized.row(0))));
    let attrs = serde_json::from_value(json!({"features": features})).unwrap();
    let parts = b.call_parts(function, &[0], attrs).unwrap();
    let graph: Graph = b.finish(&Tree::tuple(parts.into_iter().map(Tree::Leaf).collect()));
    let rows = serialized.rows();
    let column = [Column::Dense(serialized)];
    let pos = Pos::Run(0);
    let mut best = f64::MAX;
    let begin = Instant::now();
    while begin.elapsed().as_millis() < 500 {
        let start = Instant::now();
        drop(std::hint::black_box(graph.eval(&column, &[], rows, RowsAt { epoch: 0, pos: &pos }).unwrap()));
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    println!("{what:44} {:9.1} ns/record", best / ROWS as f64);
}

fn main() {
    let fixed =
        |name: &str, dtype: &str, shape: Json| json!({"name": name, "kind": "fixed", "dtype": dtype, "shape": shape});
    let all = json!([
        fixed("id", "int64", json!([])),
        fixed("label", "int64", json!([])),
        fixed("name", "string", json!([])),
        fixed("weight", "float32", json!([])),
        fixed("x", "float32", json!([16])),
    ]);
    time("5 fixed features, one by one", records(), "io.parse_single_example", all.clone());
    time("5 fixed features, batches of 256", records().reshaped([4, 256]), "io.parse_example", all);
    time(
        "label and x of 5 features",
        records(),
        "io.parse_single_example",
        json!([fixed("label", "int64", json!([])), fixed("x", "float32", json!([16])),]),
    );
    let ragged =
        json!([{"name": "x", "kind": "ragged", "dtype": "float32", "value": "x", "splits": "int32", "partitions": []}]);
    time("x as a ragged feature", records(), "io.parse_single_example", ragged);
    time(
        "x as a sparse feature",
        records(),
        "io.parse_single_example",
        json!([{"name": "x", "kind": "varlen", "dtype": "float32"}]),
    );
    time(
        "x as a sparse feature, batches of 256",
        records().reshaped([4, 256]),
        "io.parse_example",
        json!([{"name": "x", "kind": "varlen", "dtype": "float32"}]),
    );
}
