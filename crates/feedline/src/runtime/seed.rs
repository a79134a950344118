//! Seeds, and the generator behind them: Philox 4x32 with 10 rounds, as tf.data uses it, so that orders agree.

use super::sync::{Mutex, lock};
use std::hash::{BuildHasher, Hasher};

/// A stream of 32-bit numbers from a pair of seeds.
#[derive(Clone, Debug)]
pub struct Philox {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Philox {
    /// The first seed is the key; the second the high half of the counter.
    pub fn new(seed: u64, seed2: u64) -> Philox {
        let counter = [0, 0, seed2 as u32, (seed2 >> 32) as u32];
        Philox { key: [seed as u32, (seed >> 32) as u32], counter, block: [0; 4], used: 4 }
    }
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = block(self.counter, self.key);
            self.used = 0;
            // A 128-bit counter in four words.
            for word in &mut self.counter {
                *word = word.wrapping_add(1);
                if *word != 0 {
                    break;
                }
            }
        }
        self.used += 1;
        self.block[self.used - 1]
    }
}

fn block(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD2511F53;
        let b = u64::from(c[2]) * 0xCD9E8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E3779B9), k[1].wrapping_add(0xBB67AE85)];
    }
    c
}

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
    fn blocks_are_philox() {
        assert_eq!(block([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
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
