//! Philox4x32-10: random numbers as a function of a key and a counter, so that any of them can be had without those
//! before it. (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)

const MULTIPLY: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// Added to the key each round: the golden ratio and the square root of 3, less 1.
const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Philox {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    /// How many numbers of the block are used up.
    used: usize,
}

fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

impl Philox {
    /// The stream of two seeds: the first is the key, the second the upper half of the counter, whose lower half runs.
    pub fn new(seed: u64, hi: u64) -> Philox {
        let [a, b] = halves(hi);
        Philox { key: halves(seed), counter: [0, 0, a, b], block: [0; 4], used: 4 }
    }

    /// The four numbers of a counter.
    pub fn block(&self, counter: [u32; 4]) -> [u32; 4] {
        let ([mut k0, mut k1], [mut a, mut b, mut c, mut d]) = (self.key, counter);
        for _ in 0..10 {
            let [low0, high0] = halves(u64::from(MULTIPLY[0]) * u64::from(a));
            let [low1, high1] = halves(u64::from(MULTIPLY[1]) * u64::from(c));
            (a, b, c, d) = (high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0);
            k0 = k0.wrapping_add(WEYL[0]);
            k1 = k1.wrapping_add(WEYL[1]);
        }
        [a, b, c, d]
    }

    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = self.block(self.counter);
            let low = u64::from(self.counter[0]) | u64::from(self.counter[1]) << 32;
            [self.counter[0], self.counter[1]] = halves(low.wrapping_add(1));
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    pub fn next_u64(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << 32
    }

    /// Goes to number `n` of the stream: the next one is what `n` calls of `next_u32` would have passed by.
    pub fn seek(&mut self, n: u64) {
        [self.counter[0], self.counter[1]] = halves(n / 4);
        self.used = 4;
        for _ in 0..n % 4 {
            self.next_u32();
        }
    }

    /// Uniform over `0..bound` without bias; 0 for a bound of 0. Most calls take one number.
    pub fn below(&mut self, bound: u64) -> u64 {
        if let Ok(bound) = u32::try_from(bound) {
            // Lemire's method: the upper half of a product is uniform once the rare uneven lower halves are thrown away.
            let uneven = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
            loop {
                let m = u64::from(self.next_u32()) * u64::from(bound);
                if m as u32 >= uneven {
                    return m >> 32;
                }
            }
        }
        let uneven = bound.wrapping_neg() % bound;
        loop {
            let m = u128::from(self.next_u64()) * u128::from(bound);
            if m as u64 >= uneven {
                return (m >> 64) as u64;
            }
        }
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        // From the known-answer file of Random123.
        let block = |key: [u32; 2], counter| Philox { key, ..Philox::new(0, 0) }.block(counter);
        assert_eq!(block([0; 2], [0; 4]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(block([u32::MAX; 2], [u32::MAX; 4]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(
            block([0xa4093822, 0x299f31d0], [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn streams_run_through_their_blocks() {
        let mut p = Philox::new(7, 9);
        let first: Vec<u32> = (0..11).map(|_| p.next_u32()).collect();
        assert_eq!(first[..4], Philox::new(7, 0).block([0, 0, 9, 0]));
        assert_eq!(first[4..8], Philox::new(7, 0).block([1, 0, 9, 0]));
        for (n, want) in first.iter().enumerate() {
            let mut q = Philox::new(7, 9);
            q.seek(n as u64);
            assert_eq!(q.next_u32(), *want);
        }
        assert_ne!(Philox::new(7, 8).next_u32(), first[0]);
        let mut q = Philox::new(1, 0);
        q.seek((1 << 34) - 1);
        q.next_u32();
        assert_eq!(q.next_u32(), Philox::new(1, 0).block([0, 1, 0, 0])[0]);
    }

    #[test]
    fn bounds_hold() {
        let mut p = Philox::new(1, 2);
        let mut seen = [0; 5];
        (0..5000).for_each(|_| seen[p.below(5) as usize] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(p.below(0), 0);
        assert_eq!(p.below(1), 0);
        assert!((0..100).all(|_| p.below(1 << 60) < 1 << 60));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&p.unit_f64())));
    }
}
