//! A pipeline in Rust: records of files, shuffled, decoded, scaled and batched; two epochs, a state in the middle of a third,
//! and what it cost.
//!
//! `cargo run -p feedline --example pipeline`

use feedline::element::Tensor;
use feedline::expr::Attrs;
use feedline::plan::Format;
use feedline::{Dataset, Result};
use feedline_formats::tfrecord;
use serde_json::json;
use std::path::Path;

const ROWS: usize = 500;
const WIDTH: usize = 16;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let files: Vec<String> = (0..2).map(|shard| write_records(folder.path(), shard)).collect();

    // Functions are recorded, checked and run on many elements at a time; so a wrong dtype is an error in this line.
    let ds = Dataset::tf_record(&files, "")?
        .shuffle(Some(100), Some(7), true)?
        .map(|b, x| {
            let numbers = b.call("io.decode_raw", &[x[0]], attrs(json!({"out_type": "float32"})))?;
            let scale = b.constant(Tensor::scalar(1f32 / ROWS as f32).into())?;
            b.call("multiply", &[numbers, scale], Attrs::default())
        })?
        .batch(64, false)?;
    println!("{ds:?}\n");

    for epoch in 0..2 {
        let (mut rows, mut sum) = (0, 0.0);
        for batch in ds.iter()? {
            let batch = batch?;
            let numbers = batch[0].tensor();
            rows += numbers.rows();
            sum += numbers.items::<f32>().iter().sum::<f32>();
        }
        println!("epoch {epoch}: {rows} rows, mean {:.4}", sum / (rows * WIDTH) as f32);
        assert_eq!(rows, 2 * ROWS);
    }

    // A state is a few numbers. Whoever goes on from it, here or in another process, gets what would have come next.
    let mut iter = ds.iter()?;
    for _ in 0..3 {
        iter.next().expect("three batches")?;
    }
    let state = iter.state()?.to_json()?;
    let expected = iter.next().expect("a fourth batch")?;
    let state = feedline::runtime::State::from_json(&state)?;
    let found = ds.iter_from(&state)?.next().expect("a fourth batch")?;
    assert_eq!(expected[0].tensor().items::<f32>(), found[0].tensor().items::<f32>());

    println!("\n{}", ds.explain(Format::Text));
    Ok(())
}

/// A file of records: `WIDTH` float32 numbers each.
fn write_records(folder: &Path, shard: usize) -> String {
    let mut bytes = Vec::new();
    for row in 0..ROWS {
        let record: Vec<u8> = [row as f32; WIDTH].iter().flat_map(|x| x.to_le_bytes()).collect();
        tfrecord::frame(&record, &mut bytes);
    }
    let path = folder.join(format!("part-{shard}.tfrecord"));
    std::fs::write(&path, bytes).expect("room for a small file");
    path.to_str().expect("a path that is text").to_string()
}

fn attrs(json: serde_json::Value) -> Attrs {
    match json {
        serde_json::Value::Object(map) => Attrs(map),
        _ => Attrs::default(),
    }
}
