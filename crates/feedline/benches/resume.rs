//! What states cost: `cargo bench -p feedline --bench resume`. The file is sparse: it takes up no room, and reading it
//! costs what memory costs.

use feedline::runtime::State;
use feedline::{Dataset, Options};
use std::time::{Duration, Instant};

const BUFFER: i64 = 100_000;
const RECORD: u64 = 4096;

fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}

fn shuffled(file: &str, chunk_rows: Option<usize>) -> Dataset {
    let params = serde_json::json!({
        "files": { "values": feedline::element::Packed::from(feedline::element::Tensor::strings([1], &[file])) },
        "record_bytes": RECORD, "header_bytes": 0, "footer_bytes": 0,
    });
    let op = (feedline::ops::find("fixed_length_record").unwrap().read)(params).unwrap();
    let files = Dataset::from_plan(feedline::plan::Plan::new(op, vec![]).unwrap());
    let options = Options { chunk_rows, ..Options::default() };
    files.shuffle(Some(BUFFER), Some(1), true).unwrap().with_options(options).unwrap()
}

/// A buffer over a file, in its steady state: chunks of some rows, as large records have them, and of one.
fn buffer(file: &str) {
    for chunk_rows in [None, Some(8), Some(1)] {
        let ds = shuffled(file, chunk_rows);
        let mut iter = ds.iter().unwrap();
        let ((), fill) = timed(|| drop(iter.next()));
        (0..8 * BUFFER).for_each(|_| drop(iter.next()));
        let mut taken: Vec<Duration> = (0..20)
            .map(|_| {
                drop(iter.next());
                timed(|| iter.state().unwrap().to_json().unwrap()).1
            })
            .collect();
        taken.sort();
        let json = iter.state().unwrap().to_json().unwrap();
        let text = json.to_string();
        let expected = iter.next().unwrap().unwrap();
        drop(iter);
        let (mut again, built) = timed(|| ds.iter_from(&State::from_json(&json).unwrap()).unwrap());
        let (first, read) = timed(|| again.next().unwrap().unwrap());
        assert_eq!(format!("{first:?}"), format!("{expected:?}"));
        println!(
            "shuffle({BUFFER}), chunks of {chunk_rows:?}: {} kB, taken in {:.2?} (median), {:.2?} (most); filled in {fill:.2?}, \
             restored in {:.2?}",
            text.len() / 1000,
            taken[10],
            taken[19],
            built + read
        );
    }
}

/// Ten million elements by number.
fn permutation() {
    let ds = Dataset::range(10_000_000).unwrap().shuffle(None, Some(1), true).unwrap().batch(64, false).unwrap();
    let mut iter = ds.iter().unwrap();
    (0..150_000).for_each(|_| drop(iter.next()));
    drop(iter.state());
    let (json, taken) = timed(|| iter.state().unwrap().to_json().unwrap());
    let (mut again, built) = timed(|| ds.iter_from(&State::from_json(&json).unwrap()).unwrap());
    let (_, first) = timed(|| again.next());
    println!(
        "a permutation of 10 million: {} bytes, taken in {taken:.2?}, restored in {:.2?}",
        json.to_string().len(),
        built + first
    );
}

/// A buffer over numbers: nothing is noted, the order is found again by drawing.
fn numbered() {
    let ds = Dataset::range(20_000_000).unwrap().shuffle(Some(BUFFER), Some(1), true).unwrap();
    let mut iter = ds.iter().unwrap();
    let ((), run) = timed(|| {
        let mut left = 10_000_000;
        while left > 0 {
            match iter.next_ready() {
                Some(_) => left -= 1,
                None => assert!(iter.fetch(&mut || Ok(())).unwrap()),
            }
        }
    });
    let (json, taken) = timed(|| iter.state().unwrap().to_json().unwrap());
    let (mut again, built) = timed(|| ds.iter_from(&State::from_json(&json).unwrap()).unwrap());
    let (_, first) = timed(|| again.next());
    println!(
        "shuffle({BUFFER}) of numbers after 10 million ({run:.2?}): {} bytes, taken in {taken:.2?}, restored in {:.2?}",
        json.to_string().len(),
        built + first
    );
}

/// Chunks of one row: nearly all of it is what a chunk costs, marks included.
fn chunks() {
    let one = |b: &mut feedline::expr::Builder, x: &[usize]| b.call("add", &[x[0], x[0]], Default::default());
    let options = Options { chunk_rows: Some(1), prefetch: Some(true), cpu_budget: Some(1), ..Options::default() };
    let ds = Dataset::range(1_000_000).unwrap();
    let plain = ds.with_options(options.clone()).unwrap();
    let mapped = ds.map(one).unwrap().with_options(options.clone()).unwrap();
    let batched = ds.map(one).unwrap().batch(2, false).unwrap().repeat(Some(1)).unwrap().with_options(options).unwrap();
    for (name, ds) in [("range", plain), ("range > map", mapped), ("range > map > batch", batched)] {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            best = best.min(timed(|| ds.iter().unwrap().count()).1);
        }
        println!("{name}: {} ns an element in chunks of one", best.as_nanos() / 1_000_000);
    }
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(RECORD * 20 * BUFFER as u64).unwrap();
    chunks();
    permutation();
    numbered();
    buffer(path.to_str().unwrap());
}
