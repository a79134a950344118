//! A permutation of `0..n` that is computed, not stored: a keyed Feistel network on as many bits as n needs. Numbers that
//! land outside are sent through again until they land inside (at most half of them, each time).

use crate::element::Chunk;
use crate::error::Result;
use crate::runtime::{ChunkFn, Index, Item};
use std::sync::Arc;

const ROUNDS: usize = 8;

#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    /// Bits of the low and of the high half; they differ by at most one.
    low: u32,
    high: u32,
    keys: [u64; ROUNDS],
}

/// splitmix64's finaliser: every bit of the result depends on every bit of the argument.
fn mixed(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

impl Permutation {
    pub fn new(len: u64, key: [u64; 3]) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let mut state = key.iter().fold(0, |state, k| mixed(state ^ k));
        let keys = [(); ROUNDS].map(|_| {
            state = mixed(state);
            state
        });
        Permutation { len, low: bits.div_ceil(2), high: bits / 2, keys }
    }
    /// Where element `i` of the new order comes from.
    pub fn at(&self, i: u64) -> u64 {
        let mask = |bits: u32| if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        let (low_mask, high_mask) = (mask(self.low), mask(self.high));
        let mut x = i;
        loop {
            let (mut low, mut high) = (x & low_mask, x.checked_shr(self.low).unwrap_or(0));
            for keys in self.keys.as_chunks::<2>().0 {
                low ^= mixed(high ^ keys[0]) & low_mask;
                high ^= mixed(low ^ keys[1]) & high_mask;
            }
            x = high.checked_shl(self.low).unwrap_or(0) | low;
            if x < self.len {
                return x;
            }
        }
    }
}

/// The input in the new order, by number.
pub struct PermutedIndex {
    pub input: Arc<dyn Index>,
    pub order: Permutation,
}

impl Index for PermutedIndex {
    fn len(&self) -> u64 {
        self.input.len()
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let rows: Vec<u64> = rows.iter().map(|&r| self.order.at(r)).collect();
        self.input.get(&rows)
    }
    fn together(&self) -> usize {
        self.input.together()
    }
}

/// Fetches the elements of rows that are numbers of the new order; workers do that side by side.
pub struct Gather {
    index: PermutedIndex,
    /// So many rows are fetched together that there may be no room for them: then it is done again with fewer.
    repeats: bool,
}

impl Gather {
    pub fn new(index: PermutedIndex) -> Gather {
        Gather { repeats: index.together() > 1, index }
    }
}

impl ChunkFn for Gather {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let rows: Vec<u64> = (0..chunk.rows()).map(|r| self.index.order.at(chunk.pos.at(r))).collect();
        match self.index.input.get(&rows) {
            Ok(chunk) => out.push(Item::Rows(chunk)),
            // One of them failed: the others come in their places.
            Err(_) => {
                out.extend(rows.iter().map(|&row| match self.index.input.get(&[row]) {
                    Ok(chunk) => Item::Rows(chunk),
                    Err(error) => Item::Fail(error.at_element(row)),
                }));
                crate::ops::map::join_rows(out);
            }
        }
    }
    fn keeps_rows(&self) -> bool {
        true
    }
    fn repeats(&self) -> bool {
        self.repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_once() {
        for len in (0..70).chain([255, 256, 257, 1000, 4097]) {
            let order = Permutation::new(len, [1, 2, 3]);
            let mut seen: Vec<u64> = (0..len).map(|i| order.at(i)).collect();
            seen.sort();
            assert_eq!(seen, (0..len).collect::<Vec<_>>(), "{len}");
        }
    }

    #[test]
    fn large_and_well_mixed() {
        let order = Permutation::new(u64::MAX, [0, 0, 0]);
        assert_ne!(order.at(0), order.at(1));
        // First places are spread over the whole, and neighbours do not stay together.
        let order = Permutation::new(100_000, [9, 9, 0]);
        let first: Vec<u64> = (0..1000).map(|i| order.at(i)).collect();
        let mean = first.iter().sum::<u64>() / 1000;
        assert!((45_000..55_000).contains(&mean), "{mean}");
        assert!(first.windows(2).filter(|w| w[0].abs_diff(w[1]) < 100).count() < 20);
        let counts = (0..600u64).fold([0; 6], |mut n, key| {
            let o = Permutation::new(3, [key, 0, 0]);
            n[(o.at(0) * 2 + u64::from(o.at(1) > o.at(2))) as usize] += 1;
            n
        });
        assert!(counts.iter().all(|&n| n > 60), "{counts:?}");
    }
}
