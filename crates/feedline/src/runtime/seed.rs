//! The seeds of operators and of their passes, by tf.data's rules, so that orders agree.
//!
//! 1. An operator has one stream of seeds, and each time it is started it takes the next of them: in a pass over the whole
//!    pipeline once, or many times (under `repeat`, inside `flat_map`). Workers start it ahead of the consumer, so how many
//!    seeds a pass has taken says nothing if it is left early. Therefore a pass takes seeds from a place of its own, which
//!    is set aside when it begins: behind those of a pass that was read to its end, one behind the beginning of one that was
//!    not. Orders then depend on what the consumer did, and not on how far workers were.
//! 2. The same goes for a part of a pipeline that somebody above may leave early (`take`, `take_while`, `zip`): whoever starts
//!    others there takes one seed of the pass, and those that follow it in a *branch* of its own, of which the pass sees
//!    nothing. And for datasets that are read in turns (`interleave`): how far each of them has come when another starts
//!    something depends on workers and chunks. Or for a dataset that several functions open. Seeds of such a branch lie far from
//!    all others.
//! 3. Whoever keeps a pass on disk for all that follow keeps the first one, whichever it is in: it takes the first seeds, in a
//!    branch, too, as does a cache inside of a function. Otherwise it would matter how much of it workers had begun to keep
//!    when a pass was left. Values around such a dataset have seeds of their own.
//! 4. Nothing is taken for a pass that is over.
//!
//! A state tells where the stream stood before the pass, and each running stage which seeds it took: so a pass that is
//! resumed, in whatever process, and those after it draw what they would have drawn.

use super::build::{BuildCx, mix};
use super::mark::{At, Mark};
use super::sync::atomic::{AtomicBool, Ordering::Relaxed};
use super::sync::{Mutex, lock};
use crate::error::Result;
use crate::expr::Philox;
use crate::expr::funcs::fingerprint64;
use crate::plan::Plan;
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
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

/// Nobody takes more: larger numbers are those of a damaged state.
const MOST_TAKEN: u64 = u64::MAX / 4;

impl Seeds {
    pub fn are_possible(&self) -> bool {
        self.first.max(self.taken) <= MOST_TAKEN
    }
}

#[derive(Debug, Default)]
struct Passes {
    pair: (u64, u64),
    /// The first seed of the next pass.
    next: u64,
    running: Vec<Pass>,
    /// As soon as there are so many, those that are over are looked for.
    many: usize,
}

const FEW_PASSES: usize = 32;

#[derive(Debug)]
struct Pass {
    /// Belongs to the pass: true once its consumer saw the end.
    finished: Arc<AtomicBool>,
    /// Of whoever reads again, or a branch: the passes that follow have nothing to do with it.
    apart: bool,
    first: u64,
    taken: u64,
}

/// Seeds of datasets that several operators open in their functions, or one of them and the pipeline itself: in which order they
/// do so depends on chunks, so each takes its own.
pub fn shared_seeds(plan: &Plan) -> HashSet<usize> {
    let (mut openers, mut shared) = (HashMap::new(), HashSet::new());
    let mut note = |node: &Plan, opener: Option<u64>| {
        if let Some(seeds) = node.op.seeds().filter(|seeds| seeds.each_pass) {
            let before = openers.insert(seeds.address(), opener);
            shared.extend(before.filter(|before| *before != opener).map(|_| seeds.address()));
        }
    };
    plan.walk(&mut |node| note(node, None));
    plan.walk_all(&mut |opener| {
        let mut note = |node: &Plan| note(node, Some(opener.id));
        opener.op.functions().iter().for_each(|f| f.each_dataset(&mut |dataset| dataset.plan.walk(&mut note)));
    });
    shared
}

impl PassSeeds {
    /// Tells them from others.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
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
    /// Whether each pass has its own.
    pub fn differ(&self) -> bool {
        self.each_pass
    }
    /// Seeds for the operator that starts now.
    pub fn start(self: &Arc<Self>, cx: &BuildCx) -> Seeded {
        let (mut first, mut number) = (0, 0);
        if self.each_pass {
            let _brief = brief();
            let mut passes = lock(&self.passes);
            // Whoever is about to be sent where a state says is told there which seeds it took. What is read again takes
            // those that follow what it was told, if it was told anything.
            let told_later = match cx.again {
                true => passes.of(&cx.pass).is_none(),
                false => cx.run.resuming.load(Relaxed),
            } || cx.moving.load(Relaxed);
            // Somebody who worked ahead of it, and has not heard.
            let is_over = !cx.again && (cx.run.finished.load(Relaxed) || cx.run.cancelled.load(Relaxed));
            if !told_later && !is_over {
                (first, number) = passes.take(&cx.pass);
            }
        }
        Seeded { seeds: self.clone(), pass: cx.pass.clone(), apart: cx.again || cx.branch, first, number }
    }
    /// Sets the first seeds of a pass aside, unless it has some.
    pub fn begin(&self, pass: &Arc<AtomicBool>) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        if self.each_pass && passes.of(pass).is_none() {
            passes.sweep();
            let first = passes.next;
            passes.next += 1;
            passes.running.push(Pass { finished: pass.clone(), apart: false, first, taken: 0 });
        }
    }
    /// Takes one of the pass's seeds, for a branch that goes on from there, or far away. Whoever reads again takes none
    /// before it was told of some.
    fn branch(&self, cx: &BuildCx, branch: &Arc<AtomicBool>, is_far: bool) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        let is_told = !cx.again || passes.of(&cx.pass).is_some();
        if self.each_pass && is_told && passes.of(branch).is_none() {
            let (_, number) = passes.take(&cx.pass);
            // Below 2^52: all programs that read JSON have such numbers.
            let first = if is_far { mix(number, 1) >> 12 } else { number };
            if passes.running.len() >= passes.many {
                passes.sweep();
                passes.many = 2 * passes.running.len().max(FEW_PASSES);
            }
            passes.running.push(Pass { finished: branch.clone(), apart: true, first, taken: 0 });
        }
    }
    /// The first seed of the pass, and how many it has taken.
    fn taken(&self, pass: &Arc<AtomicBool>) -> (u64, u64) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        if let Some(pass) = passes.of(pass) {
            return (pass.first, pass.taken);
        }
        passes.sweep();
        (passes.next, 0)
    }
    /// Says which of them the pass has taken.
    fn set_taken(&self, taken: &Taken, first: u64, count: u64) {
        let _brief = brief();
        let mut passes = lock(&self.passes);
        match passes.of(&taken.pass) {
            Some(pass) => (pass.first, pass.taken) = (first, count),
            None if count > 0 || taken.apart => {
                let (finished, apart) = (taken.pass.clone(), taken.apart);
                passes.running.push(Pass { finished, apart, first, taken: count });
                if !taken.apart {
                    passes.next = passes.next.max(first + 1);
                }
            }
            None => {}
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
        // What was before does not count.
        passes.sweep();
        passes.running.retain(|p| !Arc::ptr_eq(&p.finished, finished));
        (passes.next, passes.pair) = (first, pair);
        if taken > 0 {
            passes.next = first + 1;
            passes.running.push(Pass { finished: finished.clone(), apart: false, first, taken });
        }
    }
}

/// Which seeds a pass has taken for the operators that somebody starts one after the other.
pub struct Taken {
    seeds: Vec<Arc<PassSeeds>>,
    /// Who takes them: the whole pass, a branch of it, or whoever reads a part of it again.
    pass: Arc<AtomicBool>,
    apart: bool,
}

impl Taken {
    /// For whoever starts these, and with what it does so.
    pub fn new(cx: &BuildCx, plans: &[Plan]) -> (Taken, BuildCx) {
        let mut seeds: Vec<Arc<PassSeeds>> = Vec::new();
        plans.iter().for_each(|plan| plan.walk_all(&mut |p| seeds.extend(p.op.seeds().cloned())));
        Taken::of(cx, &seeds)
    }
    pub fn of<'a>(cx: &BuildCx, seeds: impl IntoIterator<Item = &'a Arc<PassSeeds>>) -> (Taken, BuildCx) {
        let seeds: Vec<Arc<PassSeeds>> = seeds.into_iter().cloned().collect();
        let mut cx = cx.clone();
        let is_far = cx.in_turns || seeds.iter().any(|seeds| cx.run.shared_seeds.contains(&seeds.address()));
        if cx.cut == Some(0) || is_far {
            let branch = Arc::default();
            // A state tells where it is.
            let told_later = cx.moving.load(Relaxed) || !cx.again && cx.run.resuming.load(Relaxed);
            if !told_later {
                seeds.iter().for_each(|seeds| seeds.branch(&cx, &branch, is_far));
            }
            // Whatever starts others further down is part of it.
            (cx.pass, cx.branch, cx.cut, cx.in_turns) = (branch, true, None, false);
        }
        // What it starts is read no further than it is itself; what stands below that may be.
        cx.cut = cx.cut.map(|exact| exact + 1);
        (Taken { seeds, pass: cx.pass.clone(), apart: cx.again || cx.branch }, cx)
    }
    /// For whoever reads the first pass over a plan, whichever pass it is in.
    pub fn first_pass(cx: &BuildCx, plan: &Plan) -> BuildCx {
        // Below 2^52, as above.
        let epoch = match cx.env.is_empty() {
            true => 0,
            false => serde_json::to_vec(&*cx.env).map_or(0, |env| fingerprint64(&env)) >> 12,
        };
        let (pass, mut seeds) = (Arc::default(), Vec::new());
        plan.walk_all(&mut |p| seeds.extend(p.op.seeds().cloned()));
        let taken = Taken { seeds, pass, apart: true };
        taken.seeds.iter().filter(|seeds| seeds.each_pass).for_each(|seeds| seeds.set_taken(&taken, epoch, 0));
        BuildCx { epoch, pass: taken.pass, branch: true, cut: None, in_turns: false, ..cx.clone() }
    }
    pub fn mark(&self, out: &mut Mark) {
        for seeds in &self.seeds {
            let (first, taken) = seeds.taken(&self.pass);
            out.number(first);
            out.number(taken);
        }
    }
    /// Sets them to what a state says. Those that are running say later which are theirs.
    pub fn seek(&self, at: &mut At<'_>) -> Result<()> {
        for seeds in &self.seeds {
            let (first, taken) = (at.up_to(MOST_TAKEN)?, at.up_to(MOST_TAKEN)?);
            seeds.set_taken(self, first, taken);
        }
        Ok(())
    }
}

/// Seeds that were taken.
pub struct Seeded {
    seeds: Arc<PassSeeds>,
    /// The pass that they were taken in, and whether it stands apart from those that follow.
    pass: Arc<AtomicBool>,
    apart: bool,
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
        self.first = at.up_to(MOST_TAKEN)?;
        let nth = at.up_to(MOST_TAKEN)?;
        self.number = self.first + nth;
        if self.seeds.each_pass {
            let _brief = brief();
            let mut passes = lock(&self.seeds.passes);
            if !self.apart {
                passes.next = passes.next.max(self.first + 1);
            }
            match passes.of(&self.pass) {
                Some(pass) => (pass.first, pass.taken) = (self.first, pass.taken.max(nth + 1)),
                None => {
                    let (finished, apart, first) = (self.pass.clone(), self.apart, self.first);
                    passes.running.push(Pass { finished, apart, first, taken: nth + 1 });
                }
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
        self.running.push(Pass { finished: finished.clone(), apart: false, first, taken: 1 });
        (first, first)
    }
    /// Forgets passes that are over.
    fn sweep(&mut self) {
        let next = &mut self.next;
        self.running.retain(|p| {
            let over = !p.apart && p.finished.load(Relaxed);
            // What was set aside for one that took none, a reader of what is not written yet, is for the next one.
            if over && p.taken == 0 && *next == p.first + 1 {
                *next = p.first;
            } else if over {
                *next = (*next).max(p.first + p.taken);
            }
            // Nobody else holds it: the pass was left early.
            !over && Arc::strong_count(&p.finished) > 1
        });
    }
}

pub(super) fn random_u64() -> u64 {
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
        let first = || {
            let (first, number) = lock(&s.passes).take(&pass());
            Seeded { seeds: s.clone(), pass: pass(), apart: false, first, number }.random().next_u32()
        };
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
