//! What slow elements cost: `cargo bench -p feedline --bench straggler`. One element in a hundred takes 50 times as long as
//! the others; beside it the same work spread evenly. The aim: at least 0.85 of that rate in strict order, 0.95 without.
//!
//! Elements sleep instead of computing, so that the figures say what the order costs and not what else the machine does.

use feedline::element::{DType, Spec};
use feedline::runtime::{Iter, Pool};
use feedline::{Dataset, Options};
use std::time::{Duration, Instant};

/// Many, so that the last slow element, beside which the other workers have nothing left to do, does not count.
const ELEMENTS: i64 = 10_000;
const USUAL: Duration = Duration::from_millis(1);
const TIMES: u32 = 50;
const ONE_IN: i64 = 100;

/// Seconds for all elements, of which each sleeps as long as `time` says.
fn seconds(workers: usize, deterministic: bool, time: fn(i64) -> Duration) -> f64 {
    let ds = Dataset::range(ELEMENTS).unwrap().map_fn(Spec::scalar(DType::Int64), move |e| {
        std::thread::sleep(time(e[0].tensor().item()));
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
    for workers in [2, 4, 8] {
        for (order, deterministic) in [("strict", true), ("relaxed", false)] {
            let (even, slow) = (seconds(workers, deterministic, evenly), seconds(workers, deterministic, straggling));
            println!(
                "{workers} workers, {order} order: {:.2} of the even rate ({even:.2} s, {slow:.2} s)",
                even / slow
            );
        }
    }
}
