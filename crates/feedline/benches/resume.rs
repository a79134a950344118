//! What states cost: `cargo bench -p feedline --bench resume`. The buffer of large records takes 10 GB of memory.

use feedline::runtime::State;
use feedline::{Dataset, Options};
use std::time::{Duration, Instant};

const BUFFER: i64 = 100_000;

fn timed<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = f();
    (result, start.elapsed())
}

/// Records in files that are names of one and the same: reading them costs what memory costs.
fn files(dir: &std::path::Path, record: usize, count: usize) -> Vec<String> {
    let (mut bytes, per_file) = (Vec::new(), (64 << 20) / record);
    for i in 0..per_file {
        // Lengths that differ, as those of pictures do.
        feedline_formats::tfrecord::frame(&vec![i as u8; record / 2 + i * 7919 % record], &mut bytes);
    }
    let first = dir.join("records");
    std::fs::write(&first, &bytes).unwrap();
    let link = |i: usize| {
        let path = dir.join(format!("records-{i:05}"));
        std::fs::hard_link(&first, &path).unwrap();
        path.to_str().unwrap().into()
    };
    (0..count.div_ceil(per_file)).map(link).collect()
}

/// A buffer over records, in its steady state.
fn buffer(record: usize, chunk_rows: Option<usize>, passes: i64) {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path(), record, (passes + 2) as usize * BUFFER as usize);
    let memory_limit = Some(16 << 30);
    let options = Options { chunk_rows, memory_limit, ..Options::default() };
    let ds = Dataset::tf_record(&files, "").unwrap().shuffle(Some(BUFFER), Some(1), true).unwrap();
    let ds = ds.with_options(options).unwrap();
    let mut iter = ds.iter().unwrap();
    let ((), fill) = timed(|| drop(iter.next()));
    (0..passes * BUFFER).for_each(|_| drop(iter.next()));
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
    assert!(first[0].tensor().str_at(0) == expected[0].tensor().str_at(0));
    drop((first, expected, again));
    // Once more: memory that a process has never used before costs more than any other.
    let (_, refill) = timed(|| ds.iter().unwrap().next());
    println!(
        "shuffle({BUFFER}) of {} kB, chunks of {chunk_rows:?}: {} kB, taken in {:.2?} (median), {:.2?} (most); filled in \
         {fill:.2?} and {refill:.2?}, restored in {:.2?}",
        record / 1000,
        text.len() / 1000,
        taken[10],
        taken[19],
        built + read
    );
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
    chunks();
    permutation();
    numbered();
    for chunk_rows in [None, Some(8), Some(1)] {
        buffer(4096, chunk_rows, 8);
    }
    buffer(100_000, None, 4);
}
