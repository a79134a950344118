//! The seeds of operators and of their passes, by tf.data's rules, so that orders agree.
//!
//! An operator has one stream of seeds, and each time it is started it takes the next of them: in a pass over the whole
//! pipeline once, or many times (under `repeat`, inside `flat_map`). Workers start it ahead of the consumer, so how many
//! seeds a pass has taken says nothing if it is left early. Therefore a pass takes seeds from a place of its own: behind
//! those of a pass that was read to its end, one behind the beginning of one that was not. Orders then depend on what the
//! consumer did, and not on how far workers were.

use super::sync::atomic::{AtomicBool, Ordering::Relaxed};
use super::sync::{Mutex, lock};
use crate::expr::Philox;
use feedline_io::brief;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Stands in for the global seed if only an operator's own is given.
const DEFAULT_SEED: u64 = 87654321;
const SEED_RANGE: i64 = i32::MAX as i64;

/// An operator's seed pair, and the stream from which its passes draw theirs.
#[derive(Debug)]
pub struct PassSeeds {
    pub pair: (u64, u64),
    passes: Mutex<Passes>,
    each_pass: bool,
}

#[derive(Debug, Default)]
struct Passes {
    /// The first seed of the next pass.
    next: u64,
    running: Vec<Pass>,
}

#[derive(Debug)]
struct Pass {
    /// Belongs to the pass: true once its consumer saw the end.
    finished: Arc<AtomicBool>,
    first: u64,
    taken: u64,
}

impl PassSeeds {
    /// Without seeds the pair is random. One seed alone is the operator's own.
    pub fn new(seed: Option<i64>, seed2: Option<i64>, each_pass: bool) -> PassSeeds {
        let own = |s: i64| s.rem_euclid(SEED_RANGE) as u64;
        let pair = match (seed, seed2) {
            (Some(a), Some(b)) => (a as u64, b as u64),
            (Some(s), None) | (None, Some(s)) => (DEFAULT_SEED, own(s)),
            (None, None) => (random_u64(), random_u64()),
        };
        PassSeeds { pair, passes: Mutex::default(), each_pass }
    }
    /// The generator of the operator that starts now, in the pass that `finished` belongs to.
    pub fn start(&self, finished: &Arc<AtomicBool>) -> Philox {
        let mut stream = Philox::new(self.pair.0, self.pair.1);
        if self.each_pass {
            let _brief = brief();
            stream.seek(2 * lock(&self.passes).take(finished));
            let (a, b) = (stream.next_u32(), stream.next_u32());
            stream = Philox::new(a.into(), b.into());
        }
        stream
    }
}

impl Passes {
    /// The number of the seeds that a pass takes next.
    fn take(&mut self, finished: &Arc<AtomicBool>) -> u64 {
        if let Some(pass) = self.running.iter_mut().find(|p| Arc::ptr_eq(&p.finished, finished)) {
            pass.taken += 1;
            return pass.first + pass.taken - 1;
        }
        let next = &mut self.next;
        self.running.retain(|p| {
            let over = p.finished.load(Relaxed);
            if over {
                *next = (*next).max(p.first + p.taken);
            }
            // Nobody else holds it: the pass was left early.
            !over && Arc::strong_count(&p.finished) > 1
        });
        let first = *next;
        *next += 1;
        self.running.push(Pass { finished: finished.clone(), first, taken: 1 });
        first
    }
}

fn random_u64() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_tf_datas() {
        let mut p = Philox::new(87654321, 4);
        let n: Vec<u32> = (0..5).map(|_| p.next_u32()).collect();
        assert_eq!(n, [3128586565, 2023892699, 452966358, 4293674553, 1485036815]);
    }

    #[test]
    fn seeds_are_reduced_and_passes_differ() {
        assert_eq!(PassSeeds::new(Some(-1), None, false).pair, (DEFAULT_SEED, 2147483646));
        assert_eq!(PassSeeds::new(Some(2147483648), None, false).pair, (DEFAULT_SEED, 1));
        let s = PassSeeds::new(Some(4), None, true);
        assert_eq!([s.start(&pass()).next_u32(), s.start(&pass()).next_u32()], [1905554911, 1683472663]);
        assert_ne!(PassSeeds::new(None, None, false).pair, PassSeeds::new(None, None, false).pair);
    }

    fn pass() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(false))
    }

    #[test]
    fn a_pass_begins_behind_one_that_was_read_and_not_where_workers_left_one() {
        let mut passes = Passes::default();
        let read = pass();
        assert_eq!([0; 3].map(|_| passes.take(&read)), [0, 1, 2]);
        read.store(true, Relaxed);
        let left = pass();
        (0..10).for_each(|n| assert_eq!(passes.take(&left), 3 + n));
        drop(left);
        let (one, other) = (pass(), pass());
        assert_eq!([passes.take(&one), passes.take(&other)], [4, 5]);
        // Two at once do not disturb each other.
        assert_eq!([passes.take(&one), passes.take(&other), passes.take(&one)], [5, 6, 6]);
        one.store(true, Relaxed);
        assert_eq!(passes.take(&pass()), 7);
        assert_eq!(passes.running.len(), 2);
    }
}
