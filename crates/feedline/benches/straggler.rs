//! What slow elements cost: `cargo bench -p feedline --bench straggler`. One element in a hundred takes 50 times as long as
//! the others; beside it the same work spread evenly. At least 0.85 of that rate in strict order and 0.95 without, or this
//! fails.
//!
//! Elements sleep, so that the figures say what the order costs and not what else the machine does. Once they compute, on all
//! cores: there the consumer and whoever waits for a core count, too, and so does whatever else runs.

use feedline::element::{DType, Spec};
use feedline::runtime::{Iter, Pool};
use feedline::{Dataset, Options};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Many, so that the last slow element, beside which the other workers have nothing left to do, does not count.
const ELEMENTS: i64 = 10_000;
const USUAL: Duration = Duration::from_millis(1);
const TIMES: u32 = 50;
const ONE_IN: i64 = 100;
/// The least parts of the even rate.
const STRICT: f64 = 0.85;
const RELAXED: f64 = 0.95;

/// What an element does for some time.
#[derive(Clone, Copy)]
enum Work {
    Sleep,
    /// So many rounds a microsecond where nobody else wants the core: a fixed amount, however long it then takes.
    Compute(u32),
}

impl Work {
    fn for_time(self, time: Duration) {
        match self {
            Work::Sleep => std::thread::sleep(time),
            Work::Compute(rounds) => compute(u64::from(rounds) * time.as_micros() as u64),
        }
    }
}

fn compute(rounds: u64) {
    let mut x = black_box(1u64);
    for _ in 0..rounds {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    }
    black_box(x);
}

/// The best of some: what a core does while nobody else has it.
fn rounds_a_microsecond() -> u32 {
    const ROUNDS: u64 = 1_000_000;
    let one = |_| {
        let start = Instant::now();
        compute(ROUNDS);
        start.elapsed()
    };
    let best = (0..20).map(one).min().unwrap_or(USUAL);
    (ROUNDS as f64 / best.as_secs_f64() / 1e6).max(1.0) as u32
}

/// Seconds for all elements, of which each works as long as `time` says.
fn seconds(workers: usize, deterministic: bool, work: Work, time: fn(i64) -> Duration) -> f64 {
    let ds = Dataset::range(ELEMENTS).unwrap().map_fn(Spec::scalar(DType::Int64), move |e| {
        work.for_time(time(e[0].tensor().item()));
        Ok(e)
    });
    let options = Options { deterministic: Some(deterministic), ..Options::default() };
    let plan = ds.unwrap().with_options(options).unwrap().plan().rewritten().unwrap().plan;
    let bound = feedline::plan::Bound { plan, env: std::sync::Arc::new([]) };
    let (pool, start) = (Pool::new(workers), Instant::now());
    let iter = Iter::new(&bound, 0, pool.clone()).unwrap();
    assert_eq!(iter.count() as i64, ELEMENTS);
    pool.stop();
    start.elapsed().as_secs_f64()
}

fn main() {
    let evenly = |_| USUAL * (ONE_IN as u32 - 1 + TIMES) / ONE_IN as u32;
    let straggling = |n: i64| if n % ONE_IN == ONE_IN / 2 { USUAL * TIMES } else { USUAL };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut cases = [2, 4, 8].map(|workers| (workers, "sleep", Work::Sleep)).to_vec();
    cases.push((cores, "compute", Work::Compute(rounds_a_microsecond())));
    let mut is_slow = false;
    for (workers, does, work) in cases {
        for (order, deterministic, least) in [("strict", true, STRICT), ("relaxed", false, RELAXED)] {
            let seconds = |time| seconds(workers, deterministic, work, time);
            let (even, slow) = (seconds(evenly), seconds(straggling));
            let rate = even / slow;
            is_slow |= rate < least;
            println!(
                "{workers} workers that {does}, {order} order: {rate:.2} of the even rate ({even:.2} s, {slow:.2} s){}",
                if rate < least { format!(", less than {least}") } else { String::new() }
            );
        }
    }
    if is_slow {
        std::process::exit(1);
    }
}
