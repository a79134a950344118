//! A segment: a serial head (a chain of stages), functions that any number of workers run on its chunks, and a bounded
//! queue of results in order.
//!
//! 1. The *token* stands for the right to pull the head. It is held by at most one worker, so the head needs no lock that
//!    anybody waits for, and chunks get their numbers in the order in which they were pulled.
//! 2. `pump` hands the token to the pool if there is *credit*: room in the queue by count, rows and bytes (an estimate
//!    for chunks under way included) and in the memory of the whole pass (`budget.rs`), or nothing held at all, so that
//!    one over-sized chunk always passes.
//! 3. A step pulls the head, reserves the next slot of the queue, gives the token on (2), runs the functions, fills the
//!    slot. The chunk with the lowest number is therefore always under way: the byte bound cannot starve the front.
//! 4. A pull that finds nothing leaves the segment *starved* until the stage below wakes it. The flag is set before the
//!    pull, so a wake-up that comes in between is not lost.
//! 5. Downstream takes from the front and pumps. If the front is not there it leaves its waker, called when it comes.
//! 6. Unordered segments reserve no slots: chunks are appended as they are finished.
//! 7. A panic in a step becomes an internal error in the place of the chunk, and ends the segment: where order is kept,
//!    nothing comes behind it, however far others were.
//! 8. In front of a `batch`, whoever holds the token also cuts memory for the results out of the batch: see `batches.rs`.
//! 9. After each pull the head is marked: from there it goes on. A slot carries the mark from before its pull, so that the
//!    consumer's side knows from where to make again what it has not given yet.
//! 10. A function that has its rows worked on elsewhere (another process) gets a *reply* in place of being run: the slot
//!     is filled when it is given, and no worker waits for that.
//! 11. A step that finds no room for what it makes (`feedline-io/src/step.rs`) is put back, and done again when it is the
//!     first or there is room: see `segment/again.rs`. What a step takes for a while counts in the credit too.
//! 12. Dropping the consumer's side cancels: running steps finish, nothing new starts, memory goes with the last step.

mod again;
mod away;
mod chunks;
mod credit;
mod depth;
mod queue;

use self::again::{Again, Redo};
use self::depth::{Told, Watched};
pub use self::depth::{ahead_text, rows_text};
use super::batches::Batches;
use super::budget::FirstStep;
use super::build::Open;
use super::given::Given;
use super::mark::{At, Mark};
use super::meter::{Lane, Usage, take_lock_wait};
use super::pool::{Pool, Share, Work};
use super::spans::span;
use super::stage::{ChunkFn, Cx, Item, Pull, Stage, Wait, Wake};
use super::stall::{Busy, SegmentNow};
use super::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use super::sync::{Mutex, lock};
use super::{Budget, Meter};
use crate::element::Slots;
use crate::error::{Error, Result};
use feedline_io::{NoRoom, Standing, Step, Witness};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How a segment is bounded. `None` and `usize::MAX` mean: no bound of that kind.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Chunks under way at once.
    pub parallel: usize,
    /// The same as it was asked for, whatever the machine allows.
    pub calls: usize,
    /// Chunks in the queue, those that are not there yet included.
    pub chunks: usize,
    /// The same while the first one is there: more would only push what is needed next out of the processor's caches.
    pub ready: usize,
    pub rows: usize,
    pub bytes: usize,
    pub ordered: bool,
    /// Fixed rows a chunk, for tests.
    pub chunk_rows: Option<usize>,
    /// Chunks of more rows than this are multiples of it: what the batch behind it can cut without a copy.
    pub grain: usize,
    /// Its consumer is the pipeline's: how many bytes lie ready follows from what both sides take (`tune/depth.rs`).
    pub tuned: bool,
}

/// Steps that take so long are looked at more closely, every so many of them: it costs about a microsecond.
const LOOK_FROM_NS: u64 = 50_000;
const LOOK_EVERY: u64 = 8;
/// Steps that take so long gain nothing from results that are still in the processor's caches.
const LONG_NS: u64 = 200_000;
/// How long a worker keeps to a segment. A trip through the pool costs a microsecond; meanwhile nobody may hand on to the
/// consumer what is ready.
const STAYS_STEPS: usize = 16;
const STAYS: Duration = Duration::from_millis(1);
/// `calls` of a segment whose rows are worked on elsewhere: no other function joins it, since none asks for zero calls.
pub const AWAY: usize = 0;

/// Marks that are kept for their memory.
const SPARE: usize = 16;

/// Functions hardly ever make more of an element: where the limit has room for so much from each worker, nobody waits for the
/// first of Python's, which cannot be put back when they have begun, and others may write over what they get.
const MADE_BYTES: usize = 64 << 20;

/// The consumer's side of a segment.
pub struct Segment {
    shared: Arc<Shared>,
    /// Results that are dropped.
    drop: Given,
    /// The operators that it stands for, from the source on: each has a number in a mark. Whether it keeps rows.
    layers: Vec<bool>,
    /// Whether all of its functions do.
    keeps: bool,
}

pub struct Shared {
    me: Weak<Shared>,
    /// The same as a waker, made once.
    waker: Weak<dyn Wake>,
    pool: Arc<Pool>,
    cancelled: Arc<AtomicBool>,
    budget: Arc<Budget>,
    share: Option<Arc<Share>>,
    /// Who wants to know which files are read.
    witness: Option<Arc<Witness>>,
    dropped: AtomicBool,
    depth: usize,
    bounds: Bounds,
    head: Mutex<Head>,
    /// The row from which batches are counted: behind the last one that failed.
    counted_from: AtomicU64,
    functions: Vec<(Arc<dyn ChunkFn>, Arc<Meter>)>,
    /// The operators that they belong to.
    callers: Vec<&'static str>,
    queue: Mutex<Queue>,
    want: AtomicUsize,
    cost_ns: AtomicU64,
    meter: Arc<Meter>,
    lane: Arc<Lane>,
    host: bool,
    /// Until it is known what its functions take, it takes one step at a time.
    is_careful: bool,
    /// There is little memory for each that works at it.
    is_tight: bool,
    /// Of a dataset inside of a function.
    nested: bool,
    /// What a step took at most.
    most_step: std::sync::atomic::AtomicUsize,
    /// A step that could not be done again took much.
    grows: AtomicBool,
    /// The node of the head that is being pulled; 0 if none is. Not shuttle's: nothing depends on it.
    at: std::sync::atomic::AtomicU64,
    /// Errors may be left out behind it: they do not end a batch.
    sieved: bool,
    /// The operator behind which it ends, for people, and what they were told.
    name: &'static str,
    told: Told,
}

/// What only the holder of the token sees.
struct Head {
    stage: Box<dyn Stage>,
    batches: Option<Batches>,
    /// Rows so far; those that failed count.
    row: u64,
    /// What was given before a state was taken: not worth running functions on.
    skip: Given,
}

/// From where a chunk is made again: the mark of the head, and how much of what follows there is to be left out.
#[derive(Default)]
struct From {
    mark: Mark,
    skip: Given,
}

/// Where the results of a pull belong.
#[derive(Default)]
struct Place {
    /// The first row's number.
    row: u64,
    slots: Slots,
    /// What there was to wait for, if nothing came.
    waits: Option<Wait>,
    /// Time spent waiting for Python's lock.
    lock_ns: u64,
    /// What is still to be left out behind it, if it is an error that came before that.
    skip: Given,
    /// What the next pull will take.
    needs: usize,
}

struct Queue {
    slots: VecDeque<Slot>,
    /// Number of the first slot.
    first: u64,
    token: bool,
    starved: bool,
    done: bool,
    /// Nothing comes any more, whatever is still under way.
    over: bool,
    under_way: usize,
    rows: usize,
    bytes: usize,
    /// Moving average of a chunk's bytes.
    estimate: usize,
    /// Bytes that the head takes for the next one besides.
    needs: usize,
    /// Bytes that a step had at once, at most; falls slowly.
    takes: usize,
    /// Whether no step has come to its end, so that nothing is known of what steps take.
    is_new: bool,
    /// What leaves room for that one.
    first_step: Option<FirstStep>,
    /// Steps that found no room, those of the first slots first. They count as under way.
    again: VecDeque<Again>,
    redo: Redo,
    downstream: Option<Weak<dyn Wake>>,
    /// Whoever left that waker waits for this segment, and does not only look whether it has something.
    asked: bool,
    /// What it stands still for, and since when.
    still: Option<(Wait, Instant)>,
    /// Rows and errors that were taken from the first slot.
    taken: Given,
    /// From where the head goes on behind the last slot.
    from: From,
    /// Marks that are used again.
    spare: Vec<Mark>,
    /// What workers are at, by the number of the slot.
    busy: Vec<(u64, Busy)>,
    /// Bytes that it may hold, by what was seen.
    watched: Watched,
}

/// In place of a slot's number: the head is pulled.
const HEAD: u64 = u64::MAX;

impl Queue {
    /// Somebody wants to know when there is something.
    fn wait(&mut self, waker: &Weak<dyn Wake>, asks: bool) {
        self.downstream = Some(waker.clone());
        self.asked |= asks;
    }
    /// Whether somebody waits for something while it has nothing.
    fn is_asked(&self) -> bool {
        self.slots.is_empty() && self.under_way == 0 && self.downstream.is_some() && self.asked
    }
    fn idle(&mut self, number: u64) {
        self.busy.retain(|(n, _)| *n != number);
    }
}

struct Slot {
    items: Option<VecDeque<Item>>,
    bytes: usize,
    rows: usize,
    /// More of it is to come.
    is_part: bool,
    /// Nothing comes behind it.
    is_last: bool,
    from: From,
    /// When it was filled, if others in front of it were not.
    early: Option<Instant>,
}

impl Slot {
    /// Of a chunk that is under way.
    fn new(from: From) -> Slot {
        Slot { items: None, bytes: 0, rows: 0, is_part: false, is_last: false, from, early: None }
    }
}

impl Segment {
    pub fn new(cx: &super::BuildCx, depth: usize, open: Open, meter: Arc<Meter>) -> Segment {
        let run = &cx.run;
        let Open { mut head, functions, bounds, batches, layers, coarse: _ } = open;
        let mut from = From::default();
        head.mark(&mut from.mark);
        if !bounds.ordered {
            from.mark.never(UNORDERED);
        }
        let (lane, id) = (meter.lane(), meter.id);
        depth::note_bounds(&lane, &bounds);
        let (watched, told) = (Watched::new(bounds.bytes), Told::new(bounds.bytes));
        let running = lane.lanes.fetch_add(1, Relaxed) + 1;
        lane.lanes_peak.fetch_max(running, Relaxed);
        lane.calls.store(
            match bounds.calls {
                // Worked on elsewhere, by so many.
                AWAY => bounds.parallel as u64 / 2,
                usize::MAX => 0,
                calls => calls as u64,
            },
            Relaxed,
        );
        lane.away.store(bounds.calls == AWAY, Relaxed);
        for (_, function) in &functions {
            function.place.store(meter.id, Relaxed);
            function.is_parallel.store(true, Relaxed);
        }
        let name = |id: &u64| run.names.get(id).map_or("a dataset inside of a function", |(name, _)| name);
        let (name, callers) = (name(&id), functions.iter().map(|(_, meter)| name(&meter.id)).collect());
        let host = functions.iter().any(|(f, _)| f.is_host()) || run.has_host;
        let at_once = bounds.parallel.min(run.pool.budget()).max(1);
        let is_tight = run.budget.limit() / at_once < MADE_BYTES;
        let is_careful = is_tight && functions.iter().all(|(f, _)| !f.is_away()) && !functions.is_empty();
        let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared {
            me: me.clone(),
            waker: me.clone(),
            pool: run.pool.clone(),
            cancelled: run.cancelled.clone(),
            budget: run.budget.clone(),
            share: run.share.clone(),
            witness: cx.witness.clone(),
            dropped: AtomicBool::new(false),
            depth,
            want: AtomicUsize::new(bounds.chunk_rows.unwrap_or(1).max(1)),
            bounds,
            head: Mutex::new(Head { stage: head, batches, row: 0, skip: Given::default() }),
            counted_from: AtomicU64::new(0),
            functions,
            callers,
            queue: Mutex::new(Queue {
                slots: VecDeque::new(),
                first: 0,
                token: false,
                starved: false,
                done: false,
                over: false,
                under_way: 0,
                rows: 0,
                bytes: 0,
                estimate: 0,
                needs: 0,
                takes: 0,
                is_new: true,
                first_step: None,
                again: VecDeque::new(),
                redo: Redo::No,
                downstream: None,
                asked: false,
                still: None,
                taken: Given::default(),
                from,
                spare: vec![],
                busy: vec![],
                watched,
            }),
            cost_ns: AtomicU64::new(0),
            meter,
            lane,
            host,
            is_careful,
            is_tight,
            nested: cx.nested,
            most_step: Default::default(),
            grows: AtomicBool::new(false),
            at: std::sync::atomic::AtomicU64::new(0),
            sieved: run.errors.is_some(),
            name,
            told,
        });
        run.note_segment(&shared);
        let keeps = shared.functions.iter().all(|(f, _)| f.keeps_rows());
        Segment { shared, drop: Given::default(), layers, keeps }
    }
    /// Steps are likely to take so many bytes: others like them did.
    pub fn expect(&self, bytes: usize) {
        lock(&self.shared.queue).note_takes(bytes);
    }
    /// Of all segments of its kind so many may be pulled at once; 0: no bound.
    pub fn note_places(&self, places: usize) {
        self.shared.lane.places.store(places as u64, Relaxed);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.shared.dropped.store(true, Relaxed);
        self.shared.lane.lanes.fetch_sub(1, Relaxed);
        let mut queue = lock(&self.shared.queue);
        queue.done = true;
        queue.first_step = None;
        queue.downstream = None;
        let slots = (std::mem::take(&mut queue.slots), std::mem::take(&mut queue.again));
        drop(queue);
        drop(slots);
    }
}

impl Stage for Segment {
    fn start(&self) {
        self.shared.pump();
    }
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        // Whoever collects without end (a large shuffle buffer) and never finds the queue empty comes by here only.
        if cx.is_late(Instant::now()) {
            return Pull::Pending;
        }
        loop {
            let pull = self.shared.pop(self.drop.ask(want), cx.waker, !cx.looks);
            self.shared.pump();
            if let Pull::Pending = &pull {
                cx.waits = Some(Wait::Input);
            }
            if !self.drop.takes(&pull) {
                return pull;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        let queue = lock(&self.shared.queue);
        let (from, taken) = match queue.slots.front() {
            Some(slot) => (&slot.from, queue.taken),
            None => (&queue.from, Given::default()),
        };
        // What is left out before the functions has the number of the first of them, unless it is all the same.
        let (given, none) = (taken.and(self.drop), Given::default());
        let (given, first) = if self.keeps { (from.skip.and(given), none) } else { (given, from.skip) };
        given.mark(out);
        (2..self.layers.len()).for_each(|_| none.mark(out));
        if self.layers.len() > 1 {
            first.mark(out);
        }
        match given.is_none() && first.is_none() {
            true => out.extend(&from.mark),
            false => out.extend_again(&from.mark),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let shared = &*self.shared;
        // Operators that run together here have one number for all. Where they ran apart, each may have one: what it had given
        // is left out behind all of them if those behind it keep rows, or before all of them if those before it do.
        let (mut behind, mut before) = (Given::read(at)?, Given::default());
        for own in (0..self.layers.len().saturating_sub(1)).rev() {
            let given = Given::read(at)?;
            if self.layers[own + 1..].iter().all(|keeps| *keeps) {
                behind = behind.and(given.through_functions());
            } else if self.layers[..=own].iter().all(|keeps| *keeps) {
                before = before.and(given);
            } else if !given.is_none() {
                return Err(Error::usage(
                    "the state was taken with another num_parallel_calls, by which functions ran apart that run together here, \
                     with a filter before and one behind; resume with the number that it was taken with",
                ));
            }
        }
        // Where each row comes out as one, those that are to be dropped need not be made.
        if self.keeps {
            (behind, before) = (Given::default(), behind.and(before));
        }
        let resharded = at.is_resharded();
        let mut head = lock(&shared.head);
        head.stage.seek(at)?;
        if resharded {
            let passed = before.is_none() || head.stage.pass(std::mem::take(&mut before).results());
            if !passed || !behind.is_none() {
                return Err(super::mark::unfit());
            }
        }
        let mut from = From::default();
        head.stage.mark(&mut from.mark);
        let mut queue = lock(&shared.queue);
        if queue.token || queue.under_way > 0 || !queue.slots.is_empty() {
            return Err(Error::internal("a segment that has begun cannot be sent elsewhere"));
        }
        (from.skip, self.drop) = (before, behind);
        head.skip = from.skip;
        queue.from = from;
        Ok(())
    }
    fn pass(&mut self, results: u64) -> bool {
        let shared = &*self.shared;
        let mut head = lock(&shared.head);
        let passed = self.keeps && head.stage.pass(results);
        if passed {
            let mut from = From::default();
            head.stage.mark(&mut from.mark);
            lock(&shared.queue).from = from;
        }
        passed
    }
}

pub const UNORDERED: &str = "with deterministic=False elements come in whatever order they are ready, and no state can say which \
                         ones are left; leave it at True where a run is to be resumed";

impl Shared {
    /// What it is doing, for people.
    pub(super) fn now(&self, names: &HashMap<u64, (&'static str, Option<&'static str>)>) -> SegmentNow {
        let name = |meter: &Meter| names.get(&meter.id).copied().unwrap_or(("a dataset inside of a function", None));
        let first = self.functions.first().map(|(_, meter)| name(meter));
        let head = first.map_or_else(|| name(&self.meter).0, |(own, input)| input.unwrap_or(own));
        let queue = lock(&self.queue);
        SegmentNow {
            head,
            functions: self.functions.iter().map(|(_, meter)| name(meter).0).collect(),
            pulled: names.get(&self.at.load(Relaxed)).map(|(name, _)| *name),
            depth: self.depth,
            chunks: queue.slots.iter().filter(|s| s.items.is_some()).count(),
            rows: queue.rows,
            bytes: queue.bytes,
            ready: queue.slots.front().is_some_and(|s| s.items.is_some()),
            token: queue.token,
            starved: queue.starved,
            done: queue.done,
            busy: queue.busy.iter().map(|(_, busy)| *busy).collect(),
        }
    }
    fn gone(&self) -> bool {
        self.dropped.load(Relaxed) || self.cancelled.load(Relaxed)
    }

    /// Whether to look closely at a step: often enough, but only where looking costs next to nothing.
    fn looks(&self) -> bool {
        let cost = self.cost_ns.load(Relaxed);
        cost == 0 || (cost >= LOOK_FROM_NS && self.meter.chunks.load(Relaxed).is_multiple_of(LOOK_EVERY))
    }

    /// Pulls the head and runs the functions; gives the token on in between. False if there was nothing to do.
    fn advance(&self) -> bool {
        let start = Instant::now();
        let mut next = {
            let mut queue = lock(&self.queue);
            queue.starved = true;
            queue.busy.push((HEAD, Busy { head: true, since: start }));
            queue.spare.pop().unwrap_or_default()
        };
        let looks = self.looks();
        let used = if looks { Usage::now() } else { None };
        let pull = Step::begin(Standing::Free, usize::MAX);
        let pulled = catch_unwind(AssertUnwindSafe(|| self.pull(&mut next)));
        let mut takes = pull.peak();
        drop(pull);
        let mut out = Vec::new();
        let (mut place, mut locked_ns) = (Place::default(), 0);
        if let Ok((pull, at)) = &pulled {
            let ns = start.elapsed().as_nanos() as u64;
            locked_ns = at.lock_ns;
            self.lane.head.note(ns, at.lock_ns, Usage::since(used));
            if !matches!(pull, Pull::Rows(_) | Pull::Fail(_)) {
                self.lane.step.note(ns, at.lock_ns, Usage::since(used));
            }
        }
        let mut has_panicked = false;
        let pulled = match pulled {
            Ok((Pull::Pending, at)) => {
                self.meter.starved.fetch_add(1, Relaxed);
                {
                    let mut queue = lock(&self.queue);
                    queue.token = false;
                    queue.idle(HEAD);
                    queue.still = at.waits.map(|wait| (wait, Instant::now()));
                }
                // A wake-up between the pull and here found the token taken: look again.
                self.pump();
                return false;
            }
            Ok((Pull::End, _)) => {
                self.end();
                return false;
            }
            Ok((Pull::Rows(chunk), at)) => {
                place = at;
                Some(chunk)
            }
            Ok((Pull::Fail(error), at)) => {
                place = at;
                out.push(Item::Fail(error));
                None
            }
            Err(panic) => {
                out.push(Item::Fail(panic_error(panic)));
                has_panicked = true;
                None
            }
        };
        let number = {
            let mut queue = lock(&self.queue);
            queue.starved = false;
            // What is worked on elsewhere is sent in order: a chunk behind one that takes long would have to wait for it.
            queue.token = self.is_away() && pulled.is_some();
            queue.needs = place.needs;
            queue.idle(HEAD);
            if queue.over || (queue.done && self.is_away()) {
                // The end was given, or an answer was the end, while this was pulled.
                queue.token = false;
                return false;
            }
            queue.done |= has_panicked;
            queue.under_way += 1;
            let number = queue.first + queue.slots.len() as u64;
            // In an unordered segment chunks share numbers, and one of them is noted for all.
            if !self.functions.is_empty() {
                queue.busy.push((number, Busy { head: false, since: Instant::now() }));
            }
            if self.bounds.ordered {
                let from = std::mem::replace(&mut queue.from, From { mark: next, skip: place.skip });
                queue.slots.push_back(Slot::new(from));
            }
            number
        };
        let rows_in = pulled.as_ref().map_or(0, |c| c.rows());
        if let Some(chunk) = pulled {
            if self.functions.is_empty() {
                out.push(Item::Rows(chunk));
            } else if self.is_away() {
                self.send(number, chunk, place, start);
                lock(&self.queue).token = false;
                self.pump();
                return true;
            } else {
                self.pump();
                let (begun, used) = (Instant::now(), if looks { Usage::now() } else { None });
                let mut lock_ns = 0;
                let (result, took) = self.run_all(number, chunk, &mut place, &mut lock_ns);
                takes = takes.max(took);
                self.lane.work.note(begun.elapsed().as_nanos() as u64, lock_ns, Usage::since(used));
                locked_ns += lock_ns;
                match result {
                    Ok(Some(items)) => {
                        self.note_fails(place.row, &items);
                        out = items;
                    }
                    Ok(None) => return true,
                    Err(panic) => {
                        out.push(Item::Fail(panic_error(panic)));
                        self.end_with(number);
                    }
                }
            }
        }
        let bytes: usize = out.iter().map(|i| i.nbytes()).sum();
        self.adapt(rows_in, bytes, takes, (start.elapsed().as_nanos() as u64, locked_ns));
        self.fill(number, out, bytes, takes, true);
        self.lane.step.note(start.elapsed().as_nanos() as u64, locked_ns, Usage::since(used));
        true
    }

    fn is_away(&self) -> bool {
        self.functions.first().is_some_and(|(f, _)| f.is_away())
    }

    /// Pulls the head, says where the results belong, and marks from where it goes on.
    fn pull(&self, next: &mut Mark) -> (Pull, Place) {
        let mut cx = Cx { place: self.meter.id, at: Some(&self.at), ..Cx::new(&self.waker, &self.cancelled) };
        // The token makes this the only thread here; the lock only says so to the compiler.
        let mut head = lock(&self.head);
        while !head.skip.is_none() {
            let ask = head.skip.ask(1);
            let pull = head.stage.next(&mut cx, ask);
            if !head.skip.takes(&pull) {
                if let Pull::Fail(_) = pull {
                    head.stage.mark(next);
                }
                return (pull, Place { waits: cx.waits, lock_ns: cx.lock_ns, skip: head.skip, ..Place::default() });
            }
        }
        let mut pulled = self.pull_head(&mut head, &mut cx);
        (pulled.1.waits, pulled.1.lock_ns) = (cx.waits, cx.lock_ns);
        if matches!(pulled.0, Pull::Rows(_) | Pull::Fail(_)) {
            head.stage.mark(next);
            pulled.1.needs = head.stage.needs();
        }
        pulled
    }
    fn pull_head(&self, head: &mut Head, cx: &mut Cx<'_>) -> (Pull, Place) {
        let from = self.counted_from.load(Relaxed);
        let begun = (head.row.saturating_sub(from) % self.bounds.grain.max(1) as u64) as usize;
        let want = self.want_now(begun);
        let pull = head.stage.next(cx, head.batches.as_ref().map_or(want, |b| b.limit(want, begun)));
        let mut place = Place { row: head.row, ..Place::default() };
        match &pull {
            Pull::Rows(chunk) => {
                head.row += chunk.rows() as u64;
                if let Some(batches) = &mut head.batches {
                    place.slots = batches.place(chunk.rows(), begun);
                }
            }
            Pull::Fail(_) => {
                head.row += 1;
                self.counted_from.fetch_max(head.row, Relaxed);
            }
            Pull::Pending | Pull::End => {}
        }
        (pull, place)
    }

    /// Batches are counted from the last row that failed. `first` is the number of the first of these.
    fn note_fails(&self, first: u64, items: &[Item]) {
        let mut row = first;
        for item in items {
            match item {
                Item::Rows(chunk) => row += chunk.rows() as u64,
                Item::Fail(_) => {
                    row += 1;
                    match self.sieved {
                        // Batches go on: each ends one row later.
                        true => self.counted_from.fetch_add(1, Relaxed),
                        false => self.counted_from.fetch_max(row, Relaxed),
                    };
                }
            }
        }
    }

    /// Runs these of the functions. The slots are for `rows` rows, and for the last function. Where one of the user's may
    /// leave rows (`left`), those are put there and the others come out.
    fn run_functions(
        &self,
        which: std::ops::Range<usize>,
        mut items: Vec<Item>,
        (slots, rows): (&mut Slots, usize),
        mut left: Option<&mut VecDeque<Item>>,
        lock_ns: &mut u64,
    ) -> Vec<Item> {
        for (i, (function, meter)) in self.functions.iter().enumerate().take(which.end).skip(which.start) {
            let last = i + 1 == self.functions.len();
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    item if left.as_ref().is_some_and(|left| !left.is_empty()) => {
                        left.as_mut().expect("there are some").push_back(item);
                    }
                    Item::Rows(chunk) => {
                        let (n, start) = (chunk.rows(), Instant::now());
                        let before = out.len();
                        blamed(self.callers[i], || match &mut left {
                            Some(left) => left.extend(function.run_some(chunk, &mut out).map(Item::Rows)),
                            None if last && n == rows && !slots.is_empty() => {
                                function.run_into(chunk, std::mem::take(slots), &mut out);
                            }
                            None => function.run(chunk, &mut out),
                        });
                        let (ns, locked) = (start.elapsed().as_nanos() as u64, take_lock_wait());
                        *lock_ns += locked;
                        let seen = n - left.as_ref().map_or(0, |left| left.iter().map(Item::places).sum());
                        span(meter.id, start, ns, seen);
                        let (mut rows, mut fails) = (0, 0);
                        for item in &out[before..] {
                            match item {
                                Item::Rows(chunk) => rows += chunk.rows(),
                                Item::Fail(_) => fails += 1,
                            }
                        }
                        match function.counts() {
                            true => meter.count(rows, ns, locked, || out[before..].iter().map(|i| i.nbytes()).sum()),
                            false => drop(meter.busy_ns.fetch_add(ns.saturating_sub(locked), Relaxed)),
                        }
                        if fails > 0 {
                            meter.fails.fetch_add(fails, Relaxed);
                        }
                    }
                    fail => out.push(fail),
                }
            }
            items = out;
        }
        items
    }
}

fn wake(waker: Option<Weak<dyn Wake>>) {
    if let Some(waker) = waker.and_then(|w| w.upgrade()) {
        waker.wake();
    }
}

/// A panic, and the operator whose it is.
struct Panicked {
    op: &'static str,
    panic: Box<dyn std::any::Any + Send>,
}

/// Runs what belongs to an operator: a panic there is its, unless it is that of one further inside.
pub(super) fn blamed<R>(op: &'static str, f: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| match panic.is::<NoRoom>() || panic.is::<Panicked>() {
        true => resume_unwind(panic),
        false => resume_unwind(Box::new(Panicked { op, panic })),
    })
}

/// What a panic in a worker becomes.
pub fn panic_error(panic: Box<dyn std::any::Any + Send>) -> Error {
    let panic = match panic.downcast::<Panicked>() {
        Ok(panicked) => return panic_error(panicked.panic).in_op(panicked.op),
        Err(panic) => panic,
    };
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown".into());
    Error::internal(format!("a worker panicked: {text}; this is a fault of feedline, please report it"))
}

impl Work for Shared {
    fn step(self: Arc<Self>) {
        let (_entered, _watched) = (self.budget.enter(), Witness::enter(self.witness.clone()));
        let begun = Instant::now();
        // A worker keeps to the segment for some steps, without a trip through the pool, while there is credit.
        for _ in 0..STAYS_STEPS {
            if self.gone() {
                let mut queue = lock(&self.queue);
                queue.token = false;
                queue.done = true;
                queue.under_way -= queue.again.len();
                let left = (std::mem::take(&mut queue.again), queue.downstream.take());
                drop(queue);
                return wake(left.1);
            }
            let redo = {
                let mut queue = lock(&self.queue);
                let wanted = queue.redo == Redo::Wanted;
                if wanted {
                    queue.redo = Redo::Running;
                } else if self.is_early(&queue) {
                    queue.token = false;
                    return;
                }
                wanted
            };
            if redo {
                self.do_again();
            } else if !self.advance() {
                return;
            }
            if !self.grant(&mut lock(&self.queue)) {
                return;
            }
            if begun.elapsed() >= STAYS {
                break;
            }
        }
        self.submit();
    }
    fn is_host(&self) -> bool {
        self.host
    }
    fn cost_ns(&self) -> u64 {
        self.cost_ns.load(Relaxed)
    }
    fn share(&self) -> Option<Arc<Share>> {
        self.share.clone()
    }
}

impl Wake for Shared {
    fn wake(&self) {
        lock(&self.queue).starved = false;
        self.pump();
    }
}
