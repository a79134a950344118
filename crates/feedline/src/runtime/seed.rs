//! The seeds of operators and of their passes, by tf.data's rules, so that orders agree.
//!
//! An operator has one stream of seeds, and each time it is started it takes the next of them: in a pass over the whole
//! pipeline once, or many times (under `repeat`, inside `flat_map`). Workers start it ahead of the consumer, so how many
//! seeds a pass has taken says nothing if it is left early. Therefore a pass takes seeds from a place of its own: behind
//! those of a pass that was read to its end, one behind the beginning of one that was not. Orders then depend on what the
//! consumer did, and not on how far workers were.
//!
//! A state tells where the stream stood before the pass, and each running stage which seeds it took: so a pass that is
//! resumed, in whatever process, and those after it draw what they would have drawn.

use super::build::BuildCx;
use super::mark::{At, Mark};
use super::sync::atomic::{AtomicBool, Ordering::Relaxed};
use super::sync::{Mutex, lock};
use crate::error::Result;
use crate::expr::Philox;
use crate::plan::Plan;
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Stands in for the global seed if only an operator's own is given.
const DEFAULT_SEED: u64 = 87654321;
const SEED_RANGE: i64 = i32::MAX as i64;

/// An operator's seed pair, and the stream from which its passes draw theirs.
#[derive(Debug)]
pub struct PassSeeds {
    passes: Mutex<Passes>,
    each_pass: bool,
}

/// Where an operator's seeds stand: what a state keeps of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seeds {
    pair: (u64, u64),
    /// The first seed of the pass, and how many it has taken.
    first: u64,
    taken: u64,
}

#[derive(Debug, Default)]
struct Passes {
    pair: (u64, u64),
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
        PassSeeds { passes: Mutex::new(Passes { pair, ..Passes::default() }), each_pass }
    }
    pub fn pair(&self) -> (u64, u64) {
        let _brief = brief();
        lock(&self.passes).pair
    }
    /// Seeds for the operator that starts now.
    pub fn start(self: &Arc<Self>, cx: &BuildCx) -> Seeded {
        let pass = (!cx.again).then_some(&cx.run.finished);
        // Whoever is about to be sent where a state says is told there which seeds it took.
        if cx.again || cx.run.resuming.load(Relaxed) {
            return Seeded { seeds: self.clone(), pass: pass.cloned(), first: 0, number: 0 };
        }
        self.start_in(&cx.run.finished)
    }
    fn start_in(self: &Arc<Self>, pass: &Arc<AtomicBool>) -> Seeded {
        let (mut first, mut number) = (0, 0);
        if self.each_pass {
            let _brief = brief();
            (first, number) = lock(&self.passes).take(pass);
        }
        Seeded { seeds: self.clone(), pass: Some(pass.clone()), first, number }
    }
    /// How many of its seeds the pass has taken.
    fn taken(&self, finished: &Arc<AtomicBool>) -> u64 {
        let _brief = brief();
        lock(&self.passes).of(finished).map_or(0, |pass| pass.taken)
    }
    /// Says that the pass has taken so many of them.
    fn set_taken(&self, finished: &Arc<AtomicBool>, taken: u64) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        if passes.of(finished).is_none() && taken > 0 {
            passes.take(finished);
        }
        if let Some(pass) = passes.of(finished) {
            pass.taken = taken;
        }
    }
    /// Where a pass stands that has begun, or is about to begin.
    pub fn save(&self, finished: &Arc<AtomicBool>) -> Seeds {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        passes.sweep();
        let pair = passes.pair;
        match passes.of(finished) {
            Some(pass) => Seeds { pair, first: pass.first, taken: pass.taken },
            None => Seeds { pair, first: passes.next, taken: 0 },
        }
    }
    /// Makes the pass that starts next the one with that number, as if each before it had taken one seed.
    pub fn begin_at(&self, pass: u64) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        passes.sweep();
        passes.next = pass;
    }
    /// Makes the pass stand there.
    pub fn restore(&self, finished: &Arc<AtomicBool>, seeds: &Seeds) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        let Seeds { pair, first, taken } = *seeds;
        (passes.next, passes.pair) = (first, pair);
        if taken > 0 {
            passes.next = first.saturating_add(1);
            passes.running.push(Pass { finished: finished.clone(), first, taken });
        }
    }
}

/// How many seeds a pass has taken for the operators that somebody starts one after the other.
pub struct Taken {
    seeds: Vec<Arc<PassSeeds>>,
    /// `None` for whoever takes none.
    pass: Option<Arc<AtomicBool>>,
}

impl Taken {
    pub fn new(cx: &BuildCx, plans: &[Plan]) -> Taken {
        let mut seeds: Vec<Arc<PassSeeds>> = Vec::new();
        plans.iter().for_each(|plan| plan.walk_all(&mut |p| seeds.extend(p.op.seeds().cloned())));
        Taken::of(cx, &seeds)
    }
    pub fn of<'a>(cx: &BuildCx, seeds: impl IntoIterator<Item = &'a Arc<PassSeeds>>) -> Taken {
        let pass = (!cx.again).then(|| cx.run.finished.clone());
        Taken { seeds: seeds.into_iter().cloned().collect(), pass }
    }
    pub fn mark(&self, out: &mut Mark) {
        for seeds in &self.seeds {
            out.number(self.pass.as_ref().map_or(0, |pass| seeds.taken(pass)));
        }
    }
    /// Sets them to what a state says. Those that are running say later which are theirs.
    pub fn seek(&self, at: &mut At<'_>) -> Result<()> {
        for seeds in &self.seeds {
            let taken = at.up_to(u64::MAX / 4)?;
            if let Some(pass) = &self.pass {
                seeds.set_taken(pass, taken);
            }
        }
        Ok(())
    }
}

/// Seeds that were taken.
pub struct Seeded {
    seeds: Arc<PassSeeds>,
    /// The pass that they were taken in.
    pass: Option<Arc<AtomicBool>>,
    /// The pass's first number, and that of these.
    first: u64,
    number: u64,
}

impl Seeded {
    pub fn random(&self) -> Philox {
        let pair = self.seeds.pair();
        let mut stream = Philox::new(pair.0, pair.1);
        if self.seeds.each_pass {
            stream.seek(self.number.wrapping_mul(2));
            let (a, b) = (stream.next_u32(), stream.next_u32());
            stream = Philox::new(a.into(), b.into());
        }
        stream
    }
    pub fn mark(&self, out: &mut Mark) {
        out.number(self.first);
        out.number(self.number - self.first);
    }
    /// Takes those that a state says. Whoever starts next takes the ones behind them.
    pub fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.first = at.number()?;
        let nth = at.up_to(u64::MAX / 4 - self.first.min(u64::MAX / 4))?;
        self.number = self.first + nth;
        if let (true, Some(finished)) = (self.seeds.each_pass, &self.pass) {
            let _brief = brief();
            let mut passes = lock(&self.seeds.passes);
            passes.next = passes.next.max(self.first + 1);
            match passes.of(finished) {
                Some(pass) => (pass.first, pass.taken) = (self.first, pass.taken.max(nth + 1)),
                None => passes.running.push(Pass { finished: finished.clone(), first: self.first, taken: nth + 1 }),
            }
        }
        Ok(())
    }
}

impl Passes {
    fn of(&mut self, finished: &Arc<AtomicBool>) -> Option<&mut Pass> {
        self.running.iter_mut().find(|p| Arc::ptr_eq(&p.finished, finished))
    }
    /// The number of a pass's first seeds, and of those that it takes next.
    fn take(&mut self, finished: &Arc<AtomicBool>) -> (u64, u64) {
        if let Some(pass) = self.of(finished) {
            pass.taken += 1;
            return (pass.first, pass.first + pass.taken - 1);
        }
        self.sweep();
        let first = self.next;
        self.next += 1;
        self.running.push(Pass { finished: finished.clone(), first, taken: 1 });
        (first, first)
    }
    /// Forgets passes that are over.
    fn sweep(&mut self) {
        let next = &mut self.next;
        self.running.retain(|p| {
            let over = p.finished.load(Relaxed);
            if over {
                *next = (*next).max(p.first + p.taken);
            }
            // Nobody else holds it: the pass was left early.
            !over && Arc::strong_count(&p.finished) > 1
        });
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
        assert_eq!(PassSeeds::new(Some(-1), None, false).pair(), (DEFAULT_SEED, 2147483646));
        assert_eq!(PassSeeds::new(Some(2147483648), None, false).pair(), (DEFAULT_SEED, 1));
        let s = Arc::new(PassSeeds::new(Some(4), None, true));
        let first = || s.start_in(&pass()).random().next_u32();
        assert_eq!([first(), first()], [1905554911, 1683472663]);
        assert_ne!(PassSeeds::new(None, None, false).pair(), PassSeeds::new(None, None, false).pair());
    }

    fn pass() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(false))
    }

    #[test]
    fn a_pass_begins_behind_one_that_was_read_and_not_where_workers_left_one() {
        let mut passes = Passes::default();
        let read = pass();
        assert_eq!([0; 3].map(|_| passes.take(&read).1), [0, 1, 2]);
        read.store(true, Relaxed);
        let left = pass();
        (0..10).for_each(|n| assert_eq!(passes.take(&left).1, 3 + n));
        drop(left);
        let (one, other) = (pass(), pass());
        assert_eq!([passes.take(&one).1, passes.take(&other).1], [4, 5]);
        // Two at once do not disturb each other.
        assert_eq!([passes.take(&one).1, passes.take(&other).1, passes.take(&one).1], [5, 6, 6]);
        one.store(true, Relaxed);
        assert_eq!(passes.take(&pass()).1, 7);
        assert_eq!(passes.running.len(), 2);
    }
}
