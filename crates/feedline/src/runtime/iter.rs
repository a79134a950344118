//! A pass over a dataset: what a consumer holds.

use super::build::{BuildCx, Run};
use super::errors::Errors;
use super::mark::{At, Mark};
use super::pool::{Pool, Share};
use super::ranks::{Divided, Rests};
use super::spans;
use super::stage::{Cx, Pull, Stage, Wake};
use super::stall::{Consumer, Now, Watch};
use super::state::{Moment, Start, State};
use super::sync::atomic::{AtomicBool, Ordering::Relaxed};
use super::sync::{Condvar, Mutex, lock};
use super::trace::Trace;
use super::{Budget, Index, Meters};
use crate::element::{Buf, Chunk, Column, DType, Element, Value};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::{Bound, Outline, Plan};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Elements one after the other. Dropping it stops its work promptly.
pub struct Iter {
    root: Box<dyn Stage>,
    run: Arc<Run>,
    waiter: Arc<Waiter>,
    waker: Weak<dyn Wake>,
    chunk: Chunk,
    row: usize,
    /// From where `chunk` came.
    from: Mark,
    /// The plan as it runs.
    pub plan: Plan,
    epoch: u64,
    /// What it was asked for.
    runs: Runs,
    /// What states say of the plan.
    told: Option<(Outline, Divided)>,
    /// Seeds that were drawn.
    drawn: Vec<Arc<AtomicU64>>,
    delivered: u64,
    failed: u64,
    ended: bool,
    /// When the consumer went away with the last chunk.
    left: Option<Instant>,
}

/// Where a consumer sleeps until there is something.
pub(super) struct Waiter {
    ready: Mutex<bool>,
    wake: Condvar,
}

impl Default for Waiter {
    fn default() -> Waiter {
        Waiter { ready: Mutex::new(false), wake: Condvar::new() }
    }
}

impl Waiter {
    pub(super) fn reset(&self) {
        *lock(&self.ready) = false;
    }
    /// Until it is woken, or for some time.
    pub(super) fn wait(&self) {
        let ready = lock(&self.ready);
        if !*ready {
            drop(super::sync::wait(&self.wake, ready, LOOK));
        }
    }
}

impl Wake for Waiter {
    fn wake(&self) {
        *lock(&self.ready) = true;
        self.wake.notify_all();
    }
}

/// A consumer looks for interrupts this often while it waits.
const LOOK: Duration = Duration::from_millis(50);

/// After so much time a consumer asks for more than the threads that it was given: see `pool.rs`.
const LATE: Duration = Duration::from_secs(1);

/// A consumer in the middle of a call.
struct Waits {
    since: Instant,
    /// When it looked for interrupts.
    looked: Instant,
    is_late: bool,
}

/// What is shared by the stages of a pass over `plan` on this pool.
fn new_run(plan: &Plan, epoch: u64, pool: Arc<Pool>) -> Arc<Run> {
    traced_run(plan, epoch, pool, None)
}

/// The threads of a pipeline that asks for fewer than there are, also when the cores change that it leaves some of.
fn share_of(options: &Options) -> Option<Arc<Share>> {
    let Options { cpu_budget, leave_cores, .. } = *options;
    let budget = cpu_budget.unwrap_or(usize::MAX).max(1);
    match leave_cores {
        Some(leave) => Some(Share::new(move || super::machine::known_cores().saturating_sub(leave).clamp(1, budget))),
        None => cpu_budget.map(|_| Share::new(move || budget)),
    }
    .map(Arc::new)
}

/// The same for a pass that tells where rows come from. One that keeps what failed does so in any case.
fn traced_run(plan: &Plan, epoch: u64, pool: Arc<Pool>, trace: Option<Arc<Trace>>) -> Arc<Run> {
    let mut has_host = false;
    plan.walk(&mut |p| has_host |= p.op.props().host);
    spans::name(plan);
    let errors = Errors::of(plan, epoch);
    let all = super::memory_limit();
    let budget = Budget::new(plan.options.memory_limit.unwrap_or(all), all);
    let meters = Arc::new(Meters::new(budget.clone()));
    let (options, on) = (plan.options.clone(), Arc::downgrade(&pool));
    meters.ask_for_workers(move |now| {
        let pool = on.upgrade()?;
        let all = if now { pool.budget_now() } else { pool.budget() };
        let asked = super::cores_for(&options);
        let why = match asked <= all {
            true if options.cpu_budget == Some(asked) => "the pipeline's cpu_budget asks for it",
            true => "the pipeline's leave_cores asks for it",
            false => super::process::cpu_budget_why(),
        };
        Some((asked.min(all), why))
    });
    let mut names = HashMap::new();
    plan.walk_all(&mut |p| {
        // Options are no operator that anybody waits for.
        let name = |mut p: &Plan| {
            while p.op.options().is_some() {
                p = &p.inputs[0];
            }
            p.op.called()
        };
        names.insert(p.id, (name(p), p.inputs.first().map(name)));
    });
    let mut told = errors.as_ref().is_some_and(|e| e.keeps());
    plan.walk_all(&mut |p| told |= p.op.wants_origins());
    let trace = trace.or_else(|| told.then(Arc::default));
    Arc::new(Run {
        pool,
        cancelled: Arc::new(AtomicBool::new(false)),
        finished: Arc::new(AtomicBool::new(false)),
        ended: Mutex::new(vec![]),
        segments: Mutex::new(vec![]),
        names,
        stall: super::stall::threshold(&plan.options),
        consumer: Mutex::new(Consumer::default()),
        numbers: super::errors::numbers(plan),
        shared_seeds: super::seed::shared_seeds(plan),
        errors,
        trace,
        options: plan.options.clone(),
        meters,
        budget,
        share: share_of(&plan.options),
        has_host,
        resuming: AtomicBool::new(false),
        resumed: AtomicBool::new(false),
        name: AtomicU64::new(0),
    })
}

fn build_cx(run: &Arc<Run>, bound: &Bound, epoch: u64) -> BuildCx {
    BuildCx {
        run: run.clone(),
        env: bound.env.clone(),
        epoch,
        depth: 0,
        again: false,
        sparse: false,
        pass: run.finished.clone(),
        branch: false,
        moving: Arc::default(),
        in_turns: false,
        cut: None,
        ends: None,
        waits: false,
        nested: false,
        inner: false,
        grain: 1,
        known: Weak::new(),
        witness: None,
    }
}

/// The stage that a consumer would pull, of a plan that nobody is going to read: it is only sent somewhere.
pub(super) fn unread(bound: &Bound, epoch: u64) -> Result<Box<dyn Stage>> {
    let run = new_run(&bound.plan, epoch, super::process_pool());
    run.resuming.store(true, Relaxed);
    build_cx(&run, bound, epoch).root(&bound.plan)
}

/// For tests of single stages.
#[cfg(test)]
pub fn testing_cx(plan: &Plan) -> BuildCx {
    build_cx(&new_run(plan, 0, Pool::new(1)), &unbound(plan), 0)
}

/// What a pass runs, and the plan as it was written: which of its maps became one depends on how many may run at once, which
/// a state does not mind.
#[derive(Clone)]
pub struct Runs {
    pub bound: Bound,
    pub written: Plan,
    /// As it was written, with the options of the pass: what `bound` was made of.
    pub asked: Plan,
    /// Where others go on from what several ranks had begun: what that was, and what runs otherwise (`ranks.rs`).
    pub(super) parts: Vec<Rests>,
    pub(super) own: Option<Plan>,
}

impl Runs {
    pub fn new(bound: Bound, written: Plan, asked: Plan) -> Runs {
        Runs { bound, written, asked, parts: vec![], own: None }
    }
    /// The plans of which states tell how many seeds were taken: later passes have those of the second one.
    pub(super) fn told(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(&self.bound.plan).chain(&self.own)
    }
}

impl From<&Bound> for Runs {
    /// As it was written.
    fn from(bound: &Bound) -> Runs {
        Runs::new(bound.clone(), bound.plan.clone(), bound.plan.clone())
    }
}

impl Iter {
    /// Starts a pass on the pool. The plan is run as it is: rewriting it comes before.
    pub fn new(runs: impl Into<Runs>, epoch: u64, pool: Arc<Pool>) -> Result<Iter> {
        let runs = &runs.into();
        let bound = &runs.bound;
        let run = new_run(&bound.plan, epoch, pool);
        super::state::begin_seeds(&bound.plan, &run.finished);
        let seeds = super::state::seeds_of([&bound.plan], &run.finished);
        if super::ends::has_inner_snapshots(&bound.plan) {
            run.name();
        }
        let mut iter = Iter::build(runs, epoch, run)?;
        // What a cache gives was made in an earlier pass, and a snapshot reads its input or its shards: only a state tells.
        let mut cached = false;
        bound.plan.walk(&mut |p| cached |= matches!(p.name(), "cache" | "snapshot"));
        let start = match cached.then(|| iter.state()) {
            Some(Ok(state)) => Start::State(Box::new(state)),
            _ => Start::Seeds { epoch, seeds },
        };
        iter.run.meters.begin(start);
        iter.root.start();
        Ok(iter)
    }
    /// The pass that began like that once more, saying where rows come from. The plan must be a copy of its plan that
    /// nobody else uses.
    pub fn again(runs: &Runs, start: &Start, trace: Arc<Trace>, pool: Arc<Pool>) -> Result<Iter> {
        match start {
            Start::State(state) => {
                Iter::resume_in(runs, state, |plan| traced_run(plan, start.epoch(), pool, Some(trace)))
            }
            Start::Seeds { epoch, seeds } => {
                let bound = &runs.bound;
                let run = traced_run(&bound.plan, start.epoch(), pool, Some(trace));
                super::state::set_seeds(seeds, [&bound.plan], &run.finished)?;
                super::state::begin_seeds(&bound.plan, &run.finished);
                let iter = Iter::build(runs, *epoch, run)?;
                iter.root.start();
                Ok(iter)
            }
        }
    }
    /// Starts a pass where another one was. The plan must be the one that the state was taken from.
    pub fn resume(runs: impl Into<Runs>, state: &State, pool: Arc<Pool>) -> Result<Iter> {
        Iter::resume_in(&runs.into(), state, |plan| new_run(plan, state.epoch, pool))
    }
    fn resume_in(runs: &Runs, asked: &State, run: impl FnOnce(&Plan) -> Arc<Run>) -> Result<Iter> {
        asked.check(runs)?;
        let resumed = super::ranks::resumed(runs, asked)?;
        let (runs, state) = (&*resumed.runs, &*resumed.state);
        let bound = &runs.bound;
        let run = run(&bound.plan);
        run.meters.begin(Start::State(Box::new(asked.clone())));
        if runs.own.is_some() {
            let _ = run.meters.ran.set(bound.plan.clone());
        }
        run.meters.go_on(&state.left_out);
        state.set_seeds(runs, &run.finished)?;
        if !state.ended {
            super::state::begin_seeds(&bound.plan, &run.finished);
        }
        super::state::set_kept(&state.kept, &build_cx(&run, bound, state.epoch), &bound.plan)?;
        run.resuming.store(true, Relaxed);
        run.resumed.store(true, Relaxed);
        run.name.store(state.pass, Relaxed);
        let budget = run.budget.clone();
        let _entered = budget.enter();
        let mut iter = Iter::build(runs, state.epoch, run)?;
        (iter.delivered, iter.failed) = (state.delivered, state.failed);
        if state.ended {
            iter.run.finished.store(true, Relaxed);
            iter.ended = true;
            return Ok(iter);
        }
        if state.at.is_some() {
            let mut at = resumed.at();
            iter.root.seek(&mut at)?;
            at.finish()?;
        }
        iter.run.resuming.store(false, Relaxed);
        iter.root.start();
        Ok(iter)
    }
    fn build(runs: &Runs, epoch: u64, run: Arc<Run>) -> Result<Iter> {
        let bound = &runs.bound;
        if let Some(errors) = &run.errors {
            errors.prepare()?;
        }
        let _entered = run.budget.enter();
        let plan = bound.plan.clone();
        let root = build_cx(&run, bound, epoch).root(&plan)?;
        let waiter = Arc::new(Waiter::default());
        let waker: Arc<dyn Wake> = waiter.clone();
        let chunk = nothing();
        let waker = Arc::downgrade(&waker);
        let (from, row, told, delivered, failed, ended, left) = Default::default();
        let (drawn, runs) = (super::state::drawn(runs.told()), runs.clone());
        Ok(Iter {
            root,
            run,
            waiter,
            waker,
            chunk,
            row,
            from,
            plan,
            runs,
            epoch,
            told,
            drawn,
            delivered,
            failed,
            ended,
            left,
        })
    }

    /// Where the consumer is, whatever workers have done ahead: `resume` goes on with what it would get next. Elements
    /// that were given out as a chunk count as delivered.
    pub fn state(&mut self) -> Result<State> {
        self.moment()?.state()
    }
    /// The same, told later: for whoever takes elements ahead of somebody else and may be asked for any of their states.
    pub fn moment(&mut self) -> Result<Moment> {
        let (mut mark, mut row) = (Mark::default(), 0);
        if self.row < self.chunk.rows() {
            mark.extend(&self.from);
            row = self.row as u64;
        } else if !self.ended || self.run.cancelled.load(Relaxed) {
            self.root.mark(&mut mark);
        }
        let (plan, divided) = match &self.told {
            Some(told) => told.clone(),
            None => {
                let outline = Outline::of(&self.runs.written, &self.plan.options)?;
                self.told.insert((outline, Divided::of(&self.runs))).clone()
            }
        };
        // Operators that start others while they run say in their marks how many seeds those had taken by then.
        let seeds = super::state::seeds_of(self.runs.told(), &self.run.finished);
        let (epoch, delivered, failed, ended) = (self.epoch, self.delivered, self.failed, self.ended);
        let Divided { shards, part, inside } = divided;
        let left_out = super::state::left_out_of(&self.run.meters);
        let kept = super::state::kept_of(&self.plan, &self.run)?;
        let (at, drawn) = (None, self.drawn.iter().map(|cell| cell.load(Relaxed)).collect());
        let pass = self.run.name.load(Relaxed);
        let (parts, others) = (self.runs.parts.clone(), Vec::new());
        let rest = State {
            plan,
            epoch,
            seeds,
            at,
            delivered,
            failed,
            ended,
            shards,
            inside,
            left_out,
            kept,
            drawn,
            pass,
            part,
            parts,
            others,
        };
        Ok(Moment { mark, row, rest })
    }

    /// The next element that is there already, without waiting or locking: most calls end here.
    pub fn next_ready(&mut self) -> Option<(&Chunk, usize)> {
        if self.row >= self.chunk.rows() {
            return None;
        }
        self.row += 1;
        self.count(1);
        Some((&self.chunk, self.row - 1))
    }

    /// Waits for more: after `Ok(true)` there are rows for `next_ready`. An error stands in the place of one element.
    /// `interrupted` is asked now and then while waiting; its error ends the wait.
    pub fn fetch(&mut self, interrupted: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        let start = Instant::now();
        if let Some(left) = self.left {
            self.run.meters.ask(start.duration_since(left));
        }
        let mut waits = Waits { since: start, looked: start, is_late: false };
        let more = self.fetch_from(&mut waits, interrupted);
        if waits.is_late {
            self.set_late(false);
        }
        let now = Instant::now();
        self.run.meters.answer(now.duration_since(start), matches!(more, Ok(true)));
        self.left = Some(now);
        more
    }
    fn set_late(&self, is_late: bool) {
        if let Some(share) = &self.run.share {
            self.run.pool.set_late(share, is_late);
        }
    }
    fn fetch_from(&mut self, waits: &mut Waits, interrupted: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        let budget = self.run.budget.clone();
        let _entered = budget.enter();
        let mut watch = None;
        loop {
            if self.ended || self.run.cancelled.load(Relaxed) {
                return Ok(false);
            }
            if self.row > 0 {
                // The consumer has it all: nobody else should keep it.
                (self.chunk, self.row) = (nothing(), 0);
            }
            self.waiter.reset();
            self.from.clear();
            self.root.mark(&mut self.from);
            let mut cx = Cx::new(&self.waker, &self.run.cancelled);
            let want = match self.run.options {
                // Nothing runs ahead of the consumer, not even within a chunk.
                Options { prefetch: Some(false), .. } => 1,
                Options { chunk_rows: Some(rows), .. } => rows,
                _ => usize::MAX >> 8,
            };
            match self.root.next(&mut cx, want) {
                Pull::Rows(chunk) => {
                    freeze_twins(&chunk);
                    budget.note();
                    chunk.hand_out();
                    (self.chunk, self.row) = (chunk, 0);
                    return Ok(true);
                }
                Pull::Fail(error) => {
                    self.failed += 1;
                    return Err(error);
                }
                Pull::End => {
                    self.run.meters.end();
                    self.run.finish();
                    // The work is over, but the end is remembered: asking again gives the end again.
                    self.ended = true;
                    return Ok(false);
                }
                Pull::Pending => {
                    let start = Instant::now();
                    let watch = watch.get_or_insert_with(|| Watch::new(&self.run, self.delivered));
                    let waited = self.wait(waits, watch, interrupted);
                    spans::span(spans::WAIT, start, start.elapsed().as_nanos() as u64, 0);
                    waited?
                }
            }
        }
    }

    fn wait(&self, waits: &mut Waits, watch: &mut Watch, interrupted: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        loop {
            if waits.looked.elapsed() >= LOOK {
                waits.looked = Instant::now();
                waits.is_late = waits.since.elapsed() >= LATE;
                if waits.is_late {
                    self.set_late(true);
                }
                interrupted()?;
                watch.look()?;
            }
            if *lock(&self.waiter.ready) || self.run.cancelled.load(Relaxed) {
                return Ok(());
            }
            if self.run.pool.help(waits.is_late) {
                continue;
            }
            self.waiter.wait();
        }
    }

    /// Rows as they travelled, or `None` at the end. An error stands in the place of one element.
    pub fn next_chunk(&mut self, interrupted: &mut dyn FnMut() -> Result<()>) -> Result<Option<Chunk>> {
        if self.row >= self.chunk.rows() && !self.fetch(interrupted)? {
            return Ok(None);
        }
        let rest = self.chunk.slice(self.row..self.chunk.rows());
        self.row = self.chunk.rows();
        self.count(rest.rows());
        Ok(Some(rest))
    }

    /// The next element, an error in the place of one, or `None` at the end.
    pub fn next_element(&mut self) -> Option<Result<Element>> {
        loop {
            if let Some((chunk, row)) = self.next_ready() {
                return Some(Ok(chunk.element(row)));
            }
            match self.fetch(&mut || Ok(())) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
    /// All rows that are there already, as they lie.
    pub fn take_chunk(&mut self) -> Chunk {
        let rest = self.chunk.slice(self.row..self.chunk.rows());
        self.count(rest.rows());
        self.row = self.chunk.rows();
        rest
    }
    fn count(&mut self, rows: usize) {
        self.delivered = self.delivered.saturating_add(rows as u64);
        self.run.meters.deliver(rows);
    }
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
    /// Lets this thread make memory for the pass: what is made of its elements for the consumer.
    pub fn enter(&self) -> feedline_io::Entered {
        self.run.budget.enter()
    }
    /// Bytes that the pass may have.
    pub fn memory_limit(&self) -> usize {
        self.run.budget.limit()
    }
    /// The pool that it runs on, and how many threads of it the pass may have at once.
    pub fn workers(&self) -> (Arc<Pool>, usize) {
        (self.run.pool.clone(), super::cores_for(&self.run.options))
    }
    pub fn meters(&self) -> &Arc<Meters> {
        &self.run.meters
    }
    /// Stops the iterator from elsewhere, also while it waits.
    pub fn stopper(&self) -> Stopper {
        Stopper { run: self.run.clone(), waiter: self.waiter.clone() }
    }
    /// Stops the work; further elements are not given.
    pub fn close(&mut self) {
        self.stopper().stop();
        self.run.meters.end();
        self.ended = true;
        self.root = Box::new(Ended);
        self.chunk = nothing();
        self.row = 0;
    }
}

/// No rows.
fn nothing() -> Chunk {
    Chunk::new(0, crate::element::Pos::Run(0), [])
}

/// Stops an iterator, or tells what it is doing, from any thread.
#[derive(Clone)]
pub struct Stopper {
    run: Arc<Run>,
    waiter: Arc<Waiter>,
}

impl Stopper {
    /// What the pass is doing at this moment.
    pub fn now(&self) -> Now {
        Now::of(&self.run)
    }
    pub fn stop(&self) {
        self.run.cancelled.store(true, Relaxed);
        self.waiter.wake();
    }
}

/// What is left of a closed iterator.
struct Ended;

impl Stage for Ended {
    fn next(&mut self, _: &mut Cx<'_>, _: usize) -> Pull {
        Pull::End
    }
    fn mark(&mut self, out: &mut Mark) {
        out.never("the iterator was closed; take its state before");
    }
    fn seek(&mut self, _: &mut At<'_>) -> Result<()> {
        Err(super::mark::unfit())
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.run.meters.end();
        self.run.cancelled.store(true, Relaxed);
    }
}

impl Iterator for Iter {
    type Item = Result<Element>;
    fn next(&mut self) -> Option<Result<Element>> {
        self.next_element()
    }
}

/// Two components on the same memory (a function that returned its argument twice) must not be written through.
fn freeze_twins(chunk: &Chunk) {
    if chunk.columns().len() < 2 {
        return;
    }
    let mut bufs: smallvec::SmallVec<[&Buf; 4]> = smallvec::SmallVec::new();
    for column in chunk.columns() {
        match column {
            Column::Dense(t) if t.dtype() != DType::String => bufs.push(t.buf().0),
            Column::Dense(_) => {}
            Column::Rows(values, rows) => bufs.extend(values[rows.clone()].iter().filter_map(|v| match v {
                Value::Tensor(t) if t.dtype() != DType::String => Some(t.buf().0),
                _ => None,
            })),
        }
    }
    bufs.sort_unstable_by_key(|b| b.as_slice().as_ptr());
    bufs.windows(2).filter(|w| w[0].same(w[1])).for_each(|w| w[0].freeze());
}

/// Access by number to a whole plan, or an error that says which operator does not have it.
pub fn index(bound: &Bound, epoch: u64, pool: Arc<Pool>) -> Result<Arc<dyn Index>> {
    let run = new_run(&bound.plan, epoch, pool);
    match build_cx(&run, bound, epoch).index(&bound.plan)? {
        Some(index) => Ok(index),
        None => Err(Error::usage(format!("{} has no access by number", streaming_op(&bound.plan)))),
    }
}

/// The lowest operator that streams: the reason why a plan cannot be indexed.
pub fn streaming_op(plan: &Plan) -> String {
    let mut found = None;
    plan.walk(&mut |p| {
        if found.is_none()
            && p.op.index(&build_cx(&new_run(p, 0, Pool::new(1)), &unbound(p), 0), p).ok().flatten().is_none()
        {
            found = Some(p.name());
        }
    });
    format!("a dataset with {}", found.unwrap_or("this operator"))
}

/// The operator because of which a plan has no access by number; `None` if it has, or if that depends on values that are
/// not known yet.
pub fn streams(plan: &Plan) -> Option<&'static str> {
    let pool = Pool::new(1);
    let streaming = |p: &Plan| matches!(build_cx(&new_run(p, 0, pool.clone()), &unbound(p), 0).index(p), Ok(None));
    if !streaming(plan) {
        return None;
    }
    let mut found = None;
    plan.walk(&mut |p| {
        if found.is_none() && streaming(p) {
            found = Some(p.name());
        }
    });
    found
}

fn unbound(plan: &Plan) -> Bound {
    Bound { plan: plan.clone(), env: Arc::new([]) }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::Dataset;

    #[test]
    fn a_pull_that_goes_on_for_long_gives_up_also_where_there_are_rows() {
        let ds = Dataset::range(1000).unwrap().map(|b, x| b.call("add", &[x[0], x[0]], Default::default())).unwrap();
        let pool = Pool::new(1);
        let run = new_run(ds.plan(), 0, pool.clone());
        let mut segment = build_cx(&run, &unbound(ds.plan()), 0).stage(ds.plan()).unwrap();
        let waiter = Arc::new(Waiter::default());
        let waker: Arc<dyn Wake> = waiter.clone();
        let waker = Arc::downgrade(&waker);
        let rows = |pull: &Pull| matches!(pull, Pull::Rows(_));
        while !rows(&segment.next(&mut Cx::new(&waker, &run.cancelled), 1)) {
            pool.help(false);
        }
        *lock(&waiter.ready) = false;
        let mut late = Cx { deadline: Instant::now() - Duration::from_millis(1), ..Cx::new(&waker, &run.cancelled) };
        assert!(matches!(segment.next(&mut late, 1), Pull::Pending));
        assert!(*lock(&waiter.ready), "whoever gives up is called again");
        drop(segment);
        pool.stop();
    }
}
