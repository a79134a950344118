//! Portions of work for several writers: those of one writer in order and one at a time, those of different writers side by
//! side on the pool.
//!
//! 1. A portion is a function of its writer. It gets a number when it is pushed, and waits at the writer's *desk*.
//! 2. A desk is *ready* if portions wait there and nobody is at it. A *turn* takes the ready desk whose first portion has the
//!    lowest number, does that portion, and goes on as long as a desk is ready. Turns are the pool's `Work`: there are as
//!    many as desks that have something to do, at most as many as the pass may have threads. A turn never waits.
//! 3. Whoever pushes has to `wait` now and then, until no more bytes are under way than it allows: it helps meanwhile.
//! 4. An error drops the portions behind it, but those with lower numbers are done. What is said is the error with the lowest
//!    number: the same for any number of workers.
//! 5. Dropped early, portions that wait are dropped, those being done are waited for, then the writers go, with their files.
//! 6. Without a pool whoever waits takes all turns: for writers that wait for a network, which no worker may.

use crate::error::{Error, Result};
use crate::runtime::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::runtime::sync::{Condvar, Mutex, lock, wait};
use crate::runtime::{Pool, Work, panic_error};
use feedline_io::{Account, Scratch, scratch};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often whoever waits looks up.
const LOOK: Duration = Duration::from_millis(50);

type Job<W> = Box<dyn FnOnce(&mut W) -> Result<()> + Send>;

struct Portion<W> {
    number: u64,
    job: Job<W>,
    bytes: usize,
    /// The rows were handed out: as long as they wait they count as the pass's again.
    _charge: Scratch,
}

struct Desk<W> {
    /// `None` while somebody is at it.
    writer: Option<W>,
    waiting: VecDeque<Portion<W>>,
}

struct State<W> {
    desks: Vec<Desk<W>>,
    /// Desks that are ready, by the number of their first portion.
    ready: BTreeMap<u64, usize>,
    next: u64,
    /// Turns that were given to the pool and have not ended.
    turns: usize,
    /// Portions that are being done.
    running: usize,
    /// Bytes of portions that wait or are being done.
    bytes: usize,
    failed: Option<(u64, Error)>,
}

struct Shared<W> {
    pool: Option<Arc<Pool>>,
    /// Turns at once.
    most: usize,
    /// Workers work for it.
    account: Option<&'static Account>,
    state: Mutex<State<W>>,
    /// A portion is done.
    done: Condvar,
    cost_ns: AtomicU64,
}

pub struct Portions<W: Send + 'static>(Arc<Shared<W>>);

impl<W: Send + 'static> Portions<W> {
    /// For the account that this thread works for, with so many turns at once.
    pub fn new(pool: Option<Arc<Pool>>, most: usize) -> Portions<W> {
        let state =
            State { desks: vec![], ready: BTreeMap::new(), next: 0, turns: 0, running: 0, bytes: 0, failed: None };
        Portions(Arc::new(Shared {
            pool,
            most: most.max(1),
            account: Account::current(),
            state: Mutex::new(state),
            done: Condvar::new(),
            cost_ns: AtomicU64::new(0),
        }))
    }
    /// A desk for one more writer, and its number.
    pub fn add(&self, writer: W) -> usize {
        let mut state = lock(&self.0.state);
        state.desks.push(Desk { writer: Some(writer), waiting: VecDeque::new() });
        state.desks.len() - 1
    }
    /// A portion of so many bytes for the writer of a desk. They are charged to whoever this thread works for.
    pub fn push(&self, desk: usize, bytes: usize, job: impl FnOnce(&mut W) -> Result<()> + Send + 'static) {
        let (job, charge): (Job<W>, _) = (Box::new(job), scratch(bytes));
        let begin = {
            let mut state = lock(&self.0.state);
            let number = state.next;
            state.next += 1;
            state.bytes += bytes;
            let at = &mut state.desks[desk];
            let is_ready = at.writer.is_some() && at.waiting.is_empty();
            at.waiting.push_back(Portion { number, job, bytes, _charge: charge });
            if is_ready {
                state.ready.insert(number, desk);
            }
            let begin = self.0.pool.is_some() && state.turns < self.0.most.min(state.ready.len() + state.running);
            state.turns += usize::from(begin);
            begin
        };
        if begin {
            self.0.submit();
        }
    }
    /// Helps until no more than so many bytes are under way, or all portions are done. `watch` is asked now and then; its
    /// error ends the wait.
    pub fn wait(&self, bytes: usize, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.wait_until(|state| state.bytes <= bytes, watch)
    }
    /// Helps until all portions are done.
    pub fn settle(&self, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.wait_until(|_| false, watch)
    }
    fn wait_until(&self, enough: impl Fn(&State<W>) -> bool, watch: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let shared = &*self.0;
        // After an error those with lower numbers may tell of another one.
        let is_over = |state: &State<W>| {
            (state.ready.is_empty() && state.running == 0) || (state.failed.is_none() && enough(state))
        };
        let mut looked = Instant::now();
        loop {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                watch()?;
            }
            let state = lock(&shared.state);
            if is_over(&state) {
                return state.failed.as_ref().map_or(Ok(()), |(_, error)| Err(error.clone()));
            }
            drop(state);
            let helped = match &shared.pool {
                Some(pool) => pool.help(false),
                None => shared.advance(),
            };
            if helped {
                continue;
            }
            let state = lock(&shared.state);
            if !is_over(&state) {
                drop(wait(&shared.done, state, LOOK));
            }
        }
    }
    /// The writers, once everything is done.
    pub fn into_writers(self) -> Vec<W> {
        let mut state = lock(&self.0.state);
        state.desks.iter_mut().filter_map(|desk| desk.writer.take()).collect()
    }
    /// Looks at each writer, once everything is done.
    pub fn each(&self, f: impl FnMut(&W)) {
        lock(&self.0.state).desks.iter().filter_map(|desk| desk.writer.as_ref()).for_each(f);
    }
}

impl<W: Send + 'static> Drop for Portions<W> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.ready.clear();
        let waiting: Vec<_> = state.desks.iter_mut().map(|desk| std::mem::take(&mut desk.waiting)).collect();
        while state.running > 0 {
            state = wait(&self.0.done, state, LOOK);
        }
        let desks = std::mem::take(&mut state.desks);
        drop(state);
        drop((waiting, desks));
    }
}

impl<W: Send + 'static> Shared<W> {
    fn submit(self: &Arc<Self>) {
        if let Some(pool) = &self.pool {
            pool.submit(0, self.clone());
        }
    }
    /// Does the first portion of a desk that is ready. False if none is.
    fn advance(&self) -> bool {
        let Some((desk, mut writer, portion, skips)) = self.take() else { return false };
        let Portion { number, job, bytes, _charge } = portion;
        let start = Instant::now();
        let done = match skips {
            true => {
                drop(job);
                Ok(())
            }
            false => catch_unwind(AssertUnwindSafe(|| job(&mut writer))).unwrap_or_else(|e| Err(panic_error(e))),
        };
        drop(_charge);
        if !skips {
            self.note_cost(start.elapsed().as_nanos() as u64);
        }
        let mut state = lock(&self.state);
        state.running -= 1;
        state.bytes -= bytes;
        state.desks[desk].writer = Some(writer);
        if let Some(next) = state.desks[desk].waiting.front().map(|next| next.number) {
            state.ready.insert(next, desk);
        }
        if let Err(error) = done
            && state.failed.as_ref().is_none_or(|(before, _)| number < *before)
        {
            state.failed = Some((number, error));
        }
        drop(state);
        self.done.notify_all();
        true
    }
    /// Sits down at a desk that is ready; with its first portion, and whether that stands behind an error.
    fn take(&self) -> Option<(usize, W, Portion<W>, bool)> {
        let mut state = lock(&self.state);
        let (_, desk) = state.ready.pop_first()?;
        let writer = state.desks[desk].writer.take()?;
        let portion = state.desks[desk].waiting.pop_front()?;
        state.running += 1;
        let skips = state.failed.as_ref().is_some_and(|(number, _)| *number < portion.number);
        Some((desk, writer, portion, skips))
    }
    fn note_cost(&self, ns: u64) {
        let cost = self.cost_ns.load(Relaxed);
        self.cost_ns.store(if cost == 0 { ns } else { (cost * 3 + ns) / 4 }, Relaxed);
    }
}

impl<W: Send + 'static> Work for Shared<W> {
    fn step(self: Arc<Self>) {
        let entered = Account::enter(self.account);
        self.advance();
        drop(entered);
        let goes_on = {
            let mut state = lock(&self.state);
            let goes_on = !state.ready.is_empty();
            state.turns -= usize::from(!goes_on);
            goes_on
        };
        if goes_on {
            self.submit();
        }
    }
    fn is_host(&self) -> bool {
        false
    }
    fn cost_ns(&self) -> u64 {
        self.cost_ns.load(Relaxed)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn quiet() -> Result<()> {
        Ok(())
    }

    #[test]
    fn portions_of_a_desk_are_done_in_order_by_one_at_a_time() {
        for workers in [None, Some(1), Some(2), Some(4)] {
            let pool = workers.map(Pool::new);
            let portions = Portions::new(pool.clone(), 3);
            let desks: Vec<usize> = (0..5).map(|_| portions.add(Vec::new())).collect();
            for n in 0..500 {
                portions.push(desks[n % 5], 10, move |list: &mut Vec<usize>| {
                    list.push(n);
                    Ok(())
                });
                portions.wait(200, &mut quiet).unwrap();
                assert!(lock(&portions.0.state).bytes <= 200);
            }
            portions.settle(&mut quiet).unwrap();
            let lists = portions.into_writers();
            for (k, list) in lists.iter().enumerate() {
                assert!(list.iter().copied().eq((k..500).step_by(5)), "{workers:?}: {list:?}");
            }
            pool.iter().for_each(|pool| pool.stop());
        }
    }

    #[test]
    fn dropped_it_waits_for_what_runs_and_forgets_the_rest() {
        let pool = Pool::new(2);
        let (began, begun) = std::sync::mpsc::channel();
        let done = Arc::new(AtomicU64::new(0));
        let portions = Portions::new(Some(pool.clone()), 2);
        let desk = portions.add(done.clone());
        portions.push(desk, 1, move |done: &mut Arc<AtomicU64>| {
            began.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            done.fetch_add(1, Relaxed);
            Ok(())
        });
        begun.recv().unwrap();
        portions.push(desk, 1, |done| {
            done.fetch_add(100, Relaxed);
            Ok(())
        });
        drop(portions);
        assert_eq!((done.load(Relaxed), Arc::strong_count(&done)), (1, 1));
        pool.stop();
    }
}
