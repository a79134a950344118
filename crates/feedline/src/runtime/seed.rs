//! The seeds of operators and of their passes, by tf.data's rules, so that orders agree.

use super::sync::{Mutex, lock};
use crate::expr::Philox;
use std::hash::{BuildHasher, Hasher};

/// Stands in for the global seed if only an operator's own is given.
const DEFAULT_SEED: u64 = 87654321;
const SEED_RANGE: i64 = i32::MAX as i64;

/// An operator's seed pair, and the stream from which its passes draw theirs.
#[derive(Debug)]
pub struct PassSeeds {
    pub pair: (u64, u64),
    stream: Mutex<Philox>,
    each_pass: bool,
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
        PassSeeds { pair, stream: Mutex::new(Philox::new(pair.0, pair.1)), each_pass }
    }
    /// The generator of a pass that starts now.
    pub fn start(&self) -> Philox {
        if !self.each_pass {
            return Philox::new(self.pair.0, self.pair.1);
        }
        let mut stream = lock(&self.stream);
        let (a, b) = (stream.next_u32(), stream.next_u32());
        Philox::new(a.into(), b.into())
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
        assert_eq!([s.start().next_u32(), s.start().next_u32()], [1905554911, 1683472663]);
        assert_ne!(PassSeeds::new(None, None, false).pair, PassSeeds::new(None, None, false).pair);
    }
}
