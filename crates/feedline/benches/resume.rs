//! What states cost: `cargo bench -p feedline --bench resume`. The buffer of large records takes 10 GB of memory.
//!
//! It fails where a state costs more than was promised: that of large records in a buffer is below a megabyte, taken in 5 ms and
//! restored faster than the buffer is filled; that of a permutation is 4 kB and 10 ms, wherever it is.

use feedline::runtime::State;
use feedline::{Dataset, Options};
use std::time::{Duration, Instant};

const BUFFER: i64 = 100_000;

/// What a state of a buffer of large records, and that of a permutation, must be below.
const BUFFER_BYTES: usize = 1_000_000;
const BUFFER_TAKEN: Duration = Duration::from_millis(5);
const PERMUTATION_BYTES: usize = 4096;
const PERMUTATION_TIME: Duration = Duration::from_millis(10);

/// What was not as promised. All of it is measured and printed first.
#[derive(Default)]
struct Broken(Vec<String>);

impl Broken {
    fn below<T: PartialOrd + std::fmt::Debug>(&mut self, what: &str, got: T, bound: T) {
        if got >= bound {
            self.0.push(format!("{what}: {got:?}, not below {bound:?}"));
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

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

/// A buffer over the records of these files.
fn shuffled(files: &[String], chunk_rows: Option<usize>) -> Dataset {
    let options = Options { chunk_rows, memory_limit: Some(16 << 30), ..Options::default() };
    let ds = Dataset::tf_record(files, "").unwrap().shuffle(Some(BUFFER), Some(1), true).unwrap();
    ds.with_options(options).unwrap()
}

/// What a state of a buffer cost: medians.
struct Buffer {
    bytes: usize,
    taken: Duration,
    filled: Duration,
    restored: Duration,
}

/// A buffer over records, in its steady state.
///
/// It is filled for the first time, and filled as it was when the state was taken, in processes of their own, in turns: that is
/// where a state is restored, and memory that a process has used before costs less than any other.
fn buffer(record: usize, chunk_rows: Option<usize>, passes: i64) -> Buffer {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path(), record, (passes + 2) as usize * BUFFER as usize);
    let ds = shuffled(&files, chunk_rows);
    let mut iter = ds.iter().unwrap();
    (0..1 + passes * BUFFER).for_each(|_| drop(iter.next()));
    let mut taken: Vec<Duration> = (0..20)
        .map(|_| {
            drop(iter.next());
            timed(|| iter.state().unwrap().to_json().unwrap()).1
        })
        .collect();
    taken.sort();
    let text = iter.state().unwrap().to_json().unwrap().to_string();
    let expected = iter.next().unwrap().unwrap()[0].tensor().str_at(0).to_vec();
    drop((iter, ds));
    std::fs::write(dir.path().join("state"), &text).unwrap();
    std::fs::write(dir.path().join("next"), expected).unwrap();
    let (mut filled, mut restored) = (vec![], vec![]);
    for _ in 0..3 {
        filled.push(elsewhere("fill", dir.path(), chunk_rows, &files));
        restored.push(elsewhere("restore", dir.path(), chunk_rows, &files));
    }
    filled.sort();
    restored.sort();
    println!(
        "shuffle({BUFFER}) of {} kB, chunks of {chunk_rows:?}: {} kB, taken in {:.2?} (median), {:.2?} (most); filled in \
         {filled:.2?}, restored in {restored:.2?}, each in a process of its own: {:.2} of the time (medians)",
        record / 1000,
        text.len() / 1000,
        taken[10],
        taken[19],
        restored[1].as_secs_f64() / filled[1].as_secs_f64(),
    );
    Buffer { bytes: text.len(), taken: taken[10], filled: filled[1], restored: restored[1] }
}

/// How long a process of its own takes until it has the first element.
fn elsewhere(what: &str, dir: &std::path::Path, chunk_rows: Option<usize>, files: &[String]) -> Duration {
    let rows = chunk_rows.unwrap_or(0).to_string();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let out = command.args([what, dir.to_str().unwrap(), &rows]).args(files).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Duration::from_nanos(String::from_utf8(out.stdout).unwrap().trim().parse().unwrap())
}

/// What `elsewhere` runs.
fn first_element(what: &str, dir: &std::path::Path, chunk_rows: &str, files: &[String]) {
    let ds = shuffled(files, Some(chunk_rows.parse().unwrap()).filter(|rows| *rows > 0));
    let text = std::fs::read_to_string(dir.join("state")).unwrap();
    let (first, took) = timed(|| {
        let mut iter = match what {
            "restore" => ds.iter_from(&State::from_json(&serde_json::from_str(&text).unwrap()).unwrap()).unwrap(),
            _ => ds.iter().unwrap(),
        };
        (iter.next().unwrap().unwrap(), iter)
    });
    if what == "restore" {
        assert!(first.0[0].tensor().str_at(0) == std::fs::read(dir.join("next")).unwrap());
    }
    println!("{}", took.as_nanos());
    // What it holds need not be given back piece by piece.
    std::process::exit(0);
}

/// Ten million elements by number, at the start, in the middle and before the last of their batches.
fn permutation(broken: &mut Broken) {
    const ELEMENTS: i64 = 10_000_000;
    const BATCH: i64 = 64;
    const TIMES: usize = 5;
    let ds = Dataset::range(ELEMENTS).unwrap().shuffle(None, Some(1), true).unwrap().batch(BATCH, false).unwrap();
    let batches = ELEMENTS / BATCH;
    let (mut iter, mut at) = (ds.iter().unwrap(), 0);
    for position in [0, 1, batches / 2, batches - 1] {
        (at..position).for_each(|_| drop(iter.next().unwrap().unwrap()));
        at = position + 1;
        // The first one makes the outline of the plan, which the others share.
        let json = iter.state().unwrap().to_json().unwrap();
        let bytes = json.to_string().len();
        let taken = median((0..TIMES).map(|_| timed(|| iter.state().unwrap().to_json().unwrap()).1).collect());
        let expected = iter.next().unwrap().unwrap()[0].tensor().items::<i64>().to_vec();
        let restore = |_| {
            let (first, took) = timed(|| {
                let mut again = ds.iter_from(&State::from_json(&json).unwrap()).unwrap();
                (again.next().unwrap().unwrap(), again)
            });
            assert_eq!(first.0[0].tensor().items::<i64>(), expected);
            took
        };
        let restored = median((0..TIMES).map(restore).collect());
        let what = format!("a permutation of 10 million behind {position} of {batches} batches");
        println!("{what}: {bytes} bytes, taken in {taken:.2?}, restored in {restored:.2?} (medians)");
        broken.below(&format!("{what}, bytes"), bytes, PERMUTATION_BYTES);
        broken.below(&format!("{what}, taken in"), taken, PERMUTATION_TIME);
        broken.below(&format!("{what}, restored in"), restored, PERMUTATION_TIME);
    }
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
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, dir, chunk_rows, files @ ..] = args.as_slice()
        && ["fill", "restore"].contains(&what.as_str())
    {
        return first_element(what, dir.as_ref(), chunk_rows, files);
    }
    let mut broken = Broken::default();
    chunks();
    permutation(&mut broken);
    numbered();
    for chunk_rows in [None, Some(8), Some(1)] {
        buffer(4096, chunk_rows, 8);
    }
    let Buffer { bytes, taken, filled, restored } = buffer(100_000, None, 4);
    broken.below("records of 100 kB, bytes", bytes, BUFFER_BYTES);
    broken.below("records of 100 kB, taken in", taken, BUFFER_TAKEN);
    broken.below("records of 100 kB, restored in", restored, filled);
    broken.0.iter().for_each(|line| println!("not as promised: {line}"));
    if !broken.0.is_empty() {
        std::process::exit(1);
    }
}
