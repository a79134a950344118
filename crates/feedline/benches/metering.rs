//! What `bench/metering.py` counts the instructions of: `numbers` (W1) or `pictures` (W3), on one worker. Rows travel in
//! chunks as large as they grow to on a machine that is not slowed down by counting.

mod training;

use feedline::element::{Tensor, Value};
use feedline::{Dataset, Options, Result};

fn main() -> Result<()> {
    let (pipeline, chunk_rows) = match std::env::args().nth(1).as_deref() {
        Some("numbers") => {
            let ds = Dataset::range(2_000_000)?.map(|b, x| {
                let [two, one] = [2i64, 1].map(|n| b.constant(Value::Tensor(Tensor::scalar(n))));
                let twice = b.call("multiply", &[x[0], two?], Default::default())?;
                b.call("add", &[twice, one?], Default::default())
            })?;
            (ds.batch(128, false)?, 1 << 15)
        }
        Some("pictures") => {
            let photos = training::photos();
            (training::source(&photos[..64]).map_graph(training::train())?.batch(64, false)?, 1)
        }
        // `cargo bench` runs all of them.
        _ => return Ok(()),
    };
    let options = Options { cpu_budget: Some(1), chunk_rows: Some(chunk_rows), ..Options::default() };
    let batches = pipeline.with_options(options)?.iter()?.collect::<Result<Vec<_>>>()?.len();
    println!("{batches} batches");
    Ok(())
}
