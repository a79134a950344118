//! One pool of workers for the whole process.
//!
//! 1. Work is a segment that may take one step (`Work`). It waits in a queue by depth: 0 is nearest to a consumer.
//! 2. A worker takes from the queue nearest to a consumer first, so memory drains and the end never waits for the start.
//! 3. At most `budget` threads run work at once; a consumer that waits lends its thread and counts as one of them.
//! 4. A worker without work spins for about 3 µs, then sleeps. Waking one costs up to 80 µs on an idle core, so it is
//!    woken only if nobody is awake to take the work, or the work is long enough to be worth it.
//! 5. What the machine allows is asked again every second while there is work: quotas and affinities change.
//! 6. Workers are somewhat nicer to others than the thread that trains, which keeps its own priority when it helps.
//! 7. A pipeline that asks for fewer threads than there are has a `Share`: its work is passed over while so many run.
//! 8. Processes that compute for us (`map(workers=n)`) count among the threads that may run, but for one thread: somebody
//!    has to give them work.
//! 9. A step that calls Python may wait for the consumer (a generator that is told what became of its last element). So that
//!    it need not wait for ever, such steps do not count for a consumer that is late: it does whatever there is to do, and so
//!    do workers that its pipeline would not have otherwise.
//! 10. Work never blocks on another piece of work; therefore no set of pipelines can deadlock the pool.

use super::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use super::sync::{Condvar, Mutex, MutexGuard, lock, spawn, spin};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Something that a worker can run for a while without blocking.
pub trait Work: Send + Sync {
    fn step(self: Arc<Self>);
    /// Runs Python functions: such work is left to workers, so that a waiting consumer can always be interrupted.
    fn is_host(&self) -> bool;
    /// What its last steps took; 0 if it has not run yet.
    fn cost_ns(&self) -> u64;
    /// Whose threads it runs on, if not all of them.
    fn share(&self) -> Option<Arc<Share>> {
        None
    }
}

/// The threads of a pipeline that asks for fewer than there are.
pub struct Share {
    /// So many at the most, however many there are.
    most: Box<dyn Fn() -> usize + Send + Sync>,
    /// Changed under the pool's lock, as all that follows.
    running: AtomicUsize,
    /// Those of them that call Python.
    hosts: AtomicUsize,
    /// The consumer is.
    is_late: AtomicBool,
}

impl Share {
    pub fn new(most: impl Fn() -> usize + Send + Sync + 'static) -> Share {
        Share {
            most: Box::new(most),
            running: AtomicUsize::new(0),
            hosts: AtomicUsize::new(0),
            is_late: AtomicBool::new(false),
        }
    }
    fn has_room(&self, taker: Taker) -> bool {
        let taker = if self.is_late.load(Relaxed) { Taker::Late } else { taker };
        taker.counted(self.running.load(Relaxed), self.hosts.load(Relaxed)) < (self.most)()
    }
}

fn has_share(work: &dyn Work, taker: Taker) -> bool {
    taker == Taker::Nested || work.share().is_none_or(|share| share.has_room(taker))
}

/// A piece of work that was taken, and what it counts among.
struct Taken {
    work: Arc<dyn Work>,
    counts: Counts,
}

/// What a step counts among while it runs.
struct Counts {
    /// Those that run: not if it runs inside of another one.
    running: usize,
    /// It may take long.
    long: usize,
    /// It calls Python.
    host: usize,
    /// The threads of its pipeline.
    share: Option<Arc<Share>>,
}

/// Whether a step may take so long that others should not wait for its thread.
fn is_long(work: &dyn Work) -> bool {
    let cost = work.cost_ns();
    work.is_host() || cost == 0 || cost >= WORTH_WAKING_NS
}

/// Who takes work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taker {
    Worker,
    /// A consumer that waits, or is late.
    Consumer,
    Late,
    /// A worker in the middle of a step, which waits for another pipeline.
    Nested,
}

impl Taker {
    /// How many of those that run stand in its way.
    fn counted(self, running: usize, hosts: usize) -> usize {
        running - if self == Taker::Late { hosts } else { 0 }
    }
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

const DEPTHS: usize = 16;
/// Spins before sleeping; a pause instruction takes about 40 ns here. Where schedules are explored a pause is a turn of others,
/// and many in a row would leave nobody to sleep.
const SPINS: usize = if cfg!(feature = "shuttle") { 2 } else { 80 };
/// A step that takes less than this is not worth waking a sleeper for while somebody else is awake.
const WORTH_WAKING_NS: u64 = 50_000;
/// How often the machine is asked what it allows.
const LOOK: Duration = Duration::from_secs(1);

pub struct Pool {
    state: Mutex<State>,
    wake: Condvar,
    /// Changes with every submission: what spinners look at.
    tick: AtomicUsize,
    /// Threads that may run at once.
    budget: AtomicUsize,
    /// Processes that compute for us. Below zero while one has ended that has not been counted yet.
    elsewhere: AtomicIsize,
    follows: Option<Follows>,
}

/// A budget that changes by itself.
struct Follows {
    budget: fn() -> usize,
    /// Milliseconds from the start of the pool to the last look.
    looked: AtomicUsize,
    since: OnceLock<Instant>,
}

/// How busy a pool is: threads, those at work and how many may be, processes that compute beside them, and steps that wait.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub threads: usize,
    pub running: usize,
    pub budget: usize,
    pub elsewhere: usize,
    pub queued: usize,
}

struct State {
    queues: [VecDeque<Arc<dyn Work>>; DEPTHS],
    queued: usize,
    /// Threads inside `step`, those of them that may stay there for long, and those that call Python.
    running: usize,
    long: usize,
    hosts: usize,
    threads: usize,
    sleepers: usize,
    stop: bool,
}

impl State {
    fn begin(&mut self, work: &dyn Work, taker: Taker) -> Counts {
        // One that waits inside of a step counts among those of that.
        let (running, share) = match taker {
            Taker::Nested => (0, None),
            _ => (1, work.share()),
        };
        let counts = Counts { running, long: is_long(work).into(), host: work.is_host().into(), share };
        self.running += counts.running;
        self.long += counts.long;
        self.hosts += counts.host * running;
        if let Some(share) = &counts.share {
            share.running.fetch_add(1, Relaxed);
            share.hosts.fetch_add(counts.host, Relaxed);
        }
        counts
    }
    fn end(&mut self, counts: Counts) {
        self.running -= counts.running;
        self.long -= counts.long;
        self.hosts -= counts.host * counts.running;
        if let Some(share) = counts.share {
            share.running.fetch_sub(1, Relaxed);
            share.hosts.fetch_sub(counts.host, Relaxed);
        }
    }
    /// Whether there is something for a worker.
    fn can_run(&self) -> bool {
        self.queued > 0 && self.queues.iter().flatten().any(|work| has_share(&**work, Taker::Worker))
    }
}

impl Pool {
    pub fn new(budget: usize) -> Arc<Pool> {
        Pool::with(budget, None)
    }
    /// A pool whose budget is asked for again and again.
    pub fn following(budget: fn() -> usize) -> Arc<Pool> {
        Pool::with(budget(), Some(Follows { budget, looked: AtomicUsize::new(0), since: OnceLock::new() }))
    }
    fn with(budget: usize, follows: Option<Follows>) -> Arc<Pool> {
        Arc::new(Pool {
            state: Mutex::new(State {
                queues: Default::default(),
                queued: 0,
                running: 0,
                long: 0,
                hosts: 0,
                threads: 0,
                sleepers: 0,
                stop: false,
            }),
            wake: Condvar::new(),
            tick: AtomicUsize::new(0),
            budget: AtomicUsize::new(budget.max(1)),
            elsewhere: AtomicIsize::new(0),
            follows,
        })
    }
    /// Asks for the budget anew if that was some time ago.
    fn look(&self) {
        let Some(Follows { budget, looked, since }) = &self.follows else { return };
        let now = since.get_or_init(Instant::now).elapsed().as_millis() as usize;
        let before = looked.load(Relaxed);
        if now.saturating_sub(before) < LOOK.as_millis() as usize
            || looked.compare_exchange(before, now, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let budget = budget();
        if budget != self.budget() {
            log::info!("the machine allows {budget} threads now");
            self.set_budget(budget);
        }
    }

    /// Changes the number of threads that may run at once, also while work is going on.
    pub fn set_budget(&self, budget: usize) {
        let state = lock(&self.state);
        self.budget.store(budget.max(1), Relaxed);
        drop(state);
        self.wake.notify_all();
    }
    pub fn budget(&self) -> usize {
        self.budget.load(Relaxed)
    }
    /// The same as it will be when somebody works again, who looks: a pool without work does not.
    pub fn budget_now(&self) -> usize {
        self.follows.as_ref().map_or_else(|| self.budget(), |follows| (follows.budget)().max(1))
    }
    /// So many processes more, or fewer, compute for us.
    pub fn elsewhere(&self, change: isize) {
        self.elsewhere.fetch_add(change, Relaxed);
        // Whoever has seen the old number under the lock sleeps by now.
        let state = lock(&self.state);
        let wake = change < 0 && state.queued > 0 && state.sleepers > 0;
        drop(state);
        if wake {
            self.wake.notify_all();
        }
    }
    /// Threads that may run beside the processes that compute.
    fn room(&self) -> usize {
        self.budget().saturating_sub(self.processes()).max(1)
    }
    fn processes(&self) -> usize {
        usize::try_from(self.elsewhere.load(Relaxed)).unwrap_or(0)
    }
    /// How busy it is.
    pub fn load(&self) -> Load {
        let State { threads, running, queued, .. } = *lock(&self.state);
        Load { threads, running, budget: self.budget(), elsewhere: self.processes(), queued }
    }
    /// Worker threads started so far.
    pub fn threads(&self) -> usize {
        lock(&self.state).threads
    }

    /// Queues a step.
    pub fn submit(self: &Arc<Pool>, depth: usize, work: Arc<dyn Work>) {
        let worth = is_long(&*work);
        let mut state = lock(&self.state);
        // Asked before, whoever has the share might be asleep by now.
        let can_run = has_share(&*work, Taker::Worker);
        state.queues[depth.min(DEPTHS - 1)].push_back(work);
        state.queued += 1;
        self.tick.fetch_add(1, Relaxed);
        if state.threads < self.budget() && state.sleepers == 0 {
            state.threads += 1;
            let (pool, n) = (self.clone(), state.threads);
            drop(state);
            if spawn(format!("feedline-{n}"), move || pool.work()).is_err() {
                // No more threads to be had: the others and the consumer carry on.
                lock(&self.state).threads -= 1;
            }
            return;
        }
        // Somebody who looks for work now, or will do so soon, takes it without being woken.
        let looking = (state.threads - state.sleepers).saturating_sub(state.running);
        let taken = state.running.saturating_sub(state.long) + looking > 0;
        let wake = can_run && state.sleepers > 0 && state.running < self.room() && (worth || !taken);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Whether the consumer of a pipeline is late.
    pub fn set_late(&self, share: &Share, is_late: bool) {
        share.is_late.store(is_late, Relaxed);
        let state = lock(&self.state);
        let wake = is_late && state.queued > 0 && state.sleepers > 0;
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// A consumer that would wait, or is late, runs one step. False if there is nothing for it to do.
    pub fn help(&self, is_late: bool) -> bool {
        let taker = match (IS_WORKER.get(), is_late) {
            (true, _) => Taker::Nested,
            (false, true) => Taker::Late,
            (false, false) => Taker::Consumer,
        };
        let Some(Taken { work, counts }) = self.take(lock(&self.state), taker).0 else {
            return false;
        };
        work.step();
        self.look();
        let mut state = lock(&self.state);
        state.end(counts);
        // A worker may have gone to sleep because this thread took its place.
        let wake = state.queued > 0 && state.sleepers > 0;
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        true
    }

    /// The step nearest to a consumer, counted as running.
    fn take<'a>(&self, mut state: MutexGuard<'a, State>, taker: Taker) -> (Option<Taken>, MutexGuard<'a, State>) {
        // A worker whose step waits for another pipeline (a Python function that iterates) counts as running already,
        // and takes whatever there is: the others may all be waiting like it.
        let is_full = taker != Taker::Nested && taker.counted(state.running, state.hosts) >= self.room();
        if state.queued == 0 || is_full {
            return (None, state);
        }
        // Without a single worker the consumer has to do everything itself.
        let any = taker != Taker::Consumer || state.threads == 0;
        let may = |work: &Arc<dyn Work>| (any || !work.is_host()) && has_share(&**work, taker);
        let found = state.queues.iter_mut().find_map(|q| {
            let at = q.iter().position(may)?;
            q.remove(at)
        });
        let Some(work) = found else { return (None, state) };
        state.queued -= 1;
        let counts = state.begin(&*work, taker);
        (Some(Taken { work, counts }), state)
    }

    fn work(self: Arc<Pool>) {
        IS_WORKER.set(true);
        super::machine::be_nice(std::process::id());
        let mut state = lock(&self.state);
        loop {
            let (work, guard) = self.take(state, Taker::Worker);
            state = guard;
            if let Some(Taken { work, counts }) = work {
                drop(state);
                work.step();
                self.look();
                state = lock(&self.state);
                // This thread may take something else now, and others have passed over what the share is for.
                let wake = counts.share.is_some() && state.queued > 0 && state.sleepers > 0;
                state.end(counts);
                if wake {
                    self.wake.notify_one();
                }
                continue;
            }
            if state.stop {
                state.threads -= 1;
                return;
            }
            drop(state);
            let tick = self.tick.load(Relaxed);
            for _ in 0..SPINS {
                if self.tick.load(Relaxed) != tick {
                    break;
                }
                spin();
            }
            state = lock(&self.state);
            let is_work = state.running < self.room() && state.can_run();
            if is_work || state.stop {
                continue;
            }
            state.sleepers += 1;
            state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
            state.sleepers -= 1;
        }
    }

    /// Ends the workers once the queues are empty.
    pub fn stop(&self) {
        lock(&self.state).stop = true;
        self.wake.notify_all();
    }
}
