//! Counters of one operator of a running pipeline, and of the segment whose results come out of it.
//!
//! They are always on, so they count chunks and steps, never rows: some additions to memory that nobody waits for.

use super::stage::Wait;
use super::{Budget, LeftOut, Start, Tally};
use crate::options::OnError;
use crate::plan::Plan;
use crate::tune::{Ahead, Because};
use feedline_io::brief;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Meter {
    /// The plan node that it belongs to; 0 if it belongs to none.
    pub id: u64,
    pub chunks: AtomicU64,
    /// Rows that came out.
    pub rows: AtomicU64,
    /// Bytes of some of the rows that came out, and how many these were: looking at strings costs time.
    pub bytes: AtomicU64,
    pub weighed_rows: AtomicU64,
    pub fails: AtomicU64,
    /// Time inside the operator itself, without the stages below it and without waiting for Python's lock.
    pub busy_ns: AtomicU64,
    /// Time that it waited for Python's lock.
    pub lock_ns: AtomicU64,
    /// Of the time of a reader of files, what making records of bytes took, and plain bytes of compressed ones.
    pub cut_ns: AtomicU64,
    pub unpack_ns: AtomicU64,
    /// What a row cost in each chunk.
    pub spread: Spread,
    /// Pulls that found nothing below.
    pub starved: AtomicU64,
    /// Bytes that it keeps now, those in the queue behind it, and both together at most so far.
    kept: AtomicU64,
    queued: AtomicU64,
    pub held_peak: AtomicU64,
    /// Bytes of rows that it had to copy to put them together.
    pub copied: AtomicU64,
    /// Rows a chunk now.
    pub chunk_rows: AtomicU64,
    /// The node in whose segment it runs; 0: the consumer itself runs it.
    pub place: AtomicU64,
    /// Any number of workers run it at once, rather than whoever pulls the head.
    pub is_parallel: AtomicBool,
    /// The segment whose results are this operator's, if one ends here.
    lane: OnceLock<Arc<Lane>>,
}

/// Every so many chunks of an operator are weighed.
const WEIGH_EVERY: u64 = 8;

impl Meter {
    /// Counts a chunk: what came out, and what that took, of which it waited for Python's lock for some time. The chunk
    /// is weighed now and then.
    pub fn count(&self, rows: usize, ns: u64, lock_ns: u64, bytes: impl FnOnce() -> usize) {
        let chunks = self.chunks.fetch_add(1, Relaxed);
        self.rows.fetch_add(rows as u64, Relaxed);
        let own = ns.saturating_sub(lock_ns);
        self.busy_ns.fetch_add(own, Relaxed);
        if lock_ns > 0 {
            self.lock_ns.fetch_add(lock_ns, Relaxed);
        }
        if rows > 0 {
            self.spread.note(own / rows as u64, rows as u64);
            if chunks.is_multiple_of(WEIGH_EVERY) {
                self.bytes.fetch_add(bytes() as u64, Relaxed);
                self.weighed_rows.fetch_add(rows as u64, Relaxed);
            }
        }
    }
    /// Somebody keeps so many bytes who kept others before: there may be several in datasets inside of functions.
    pub fn keep(&self, before: usize, bytes: usize) {
        self.kept.fetch_add((bytes as u64).wrapping_sub(before as u64), Relaxed);
        self.held_peak.fetch_max(self.held(), Relaxed);
    }
    pub fn queue(&self, bytes: usize) {
        self.queued.store(bytes as u64, Relaxed);
        self.held_peak.fetch_max(self.held(), Relaxed);
    }
    /// Bytes that it keeps, or that wait behind it.
    pub fn held(&self) -> u64 {
        self.kept.load(Relaxed) + self.queued.load(Relaxed)
    }
    /// Bytes of a row that comes out, on average.
    pub fn row_bytes(&self) -> f64 {
        self.bytes.load(Relaxed) as f64 / self.weighed_rows.load(Relaxed).max(1) as f64
    }
    /// The counters of the segment that ends here.
    pub fn lane(&self) -> Arc<Lane> {
        self.lane.get_or_init(Arc::default).clone()
    }
    pub fn ended_here(&self) -> Option<&Lane> {
        self.lane.get().map(|lane| &**lane)
    }
}

/// The counters of a segment. Datasets inside of a function share one: `lanes` says how many ran at once.
#[derive(Debug, Default)]
pub struct Lane {
    pub lanes: AtomicU64,
    pub lanes_peak: AtomicU64,
    /// How many of these may be pulled at once, as it was asked for; 0: no bound.
    pub places: AtomicU64,
    /// Chunks under way at once as it was asked for; 0: no bound.
    pub calls: AtomicU64,
    /// Its functions run elsewhere, in `calls` processes.
    pub away: AtomicBool,
    /// Rows that were taken out of its queue.
    pub given: AtomicU64,
    /// Whole steps, and what they are made of: pulling the head, and running the functions.
    pub step: Phase,
    pub head: Phase,
    pub work: Phase,
    /// Time in which it stood still: for want of input, of bytes, or of room in its queue.
    pub input_ns: AtomicU64,
    pub io_ns: AtomicU64,
    pub room_ns: AtomicU64,
    /// Time that finished chunks waited for those before them.
    pub order_ns: AtomicU64,
    /// How full the queue was whenever something was taken out: thousandths, and how often.
    pub fill: AtomicU64,
    pub fills: AtomicU64,
    /// What was chosen for it.
    pub chosen: Chosen,
}

/// What was chosen for a segment, and why.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Bytes that its queue may hold now, and at most; elements, if so many were asked for (0: any number).
    pub bytes: AtomicUsize,
    pub most_bytes: AtomicUsize,
    pub elements: AtomicUsize,
    /// Why there are so many rows in a chunk, and bytes in the queue.
    why: AtomicU8,
}

const BECAUSE: [Because; 8] = [
    Because::Growing,
    Because::Fixed,
    Because::Batch,
    Because::Time,
    Because::Bytes,
    Because::Input,
    Because::Most,
    Because::Message,
];
const AHEAD: [Ahead; 3] = [Ahead::Most, Ahead::Steady, Ahead::Waited];

impl Chosen {
    pub fn set_rows_why(&self, why: Because) {
        let _ = self.why.fetch_update(Relaxed, Relaxed, |both| Some(both & 0xf0 | why as u8));
    }
    pub fn set_bytes(&self, bytes: usize, why: Ahead) {
        self.bytes.store(bytes, Relaxed);
        let _ = self.why.fetch_update(Relaxed, Relaxed, |both| Some(both & 0xf | (why as u8) << 4));
    }
    pub fn rows_why(&self) -> Because {
        BECAUSE[usize::from(self.why.load(Relaxed) & 0xf) % BECAUSE.len()]
    }
    pub fn bytes_why(&self) -> Ahead {
        AHEAD[usize::from(self.why.load(Relaxed) >> 4) % AHEAD.len()]
    }
}

impl Lane {
    pub fn note_wait(&self, wait: Wait, time: Duration) {
        let counter = match wait {
            Wait::Input => &self.input_ns,
            Wait::Io => &self.io_ns,
            Wait::Room => &self.room_ns,
        };
        counter.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

/// One part of the steps of a segment. Some of them are looked at more closely: was the processor at work, or did the thread
/// wait for something (a sleep, a read)? Time in which it was merely kept from running, because others had the core, is
/// neither.
#[derive(Debug, Default)]
pub struct Phase {
    pub ns: AtomicU64,
    pub seen_ns: AtomicU64,
    pub cpu_ns: AtomicU64,
    pub blocked_ns: AtomicU64,
}

impl Phase {
    /// Counts `ns`, with what the thread did meanwhile if that was looked at.
    pub fn note(&self, ns: u64, lock_ns: u64, looked: Option<Usage>) {
        let ns = ns.saturating_sub(lock_ns);
        self.ns.fetch_add(ns, Relaxed);
        if let Some(usage) = looked {
            // What is over at once is hardly more than the looking.
            let (cpu, gave_up) = if ns < BRIEF_NS { (ns, 0) } else { (usage.cpu_ns.min(ns), usage.gave_up) };
            self.seen_ns.fetch_add(ns, Relaxed);
            self.cpu_ns.fetch_add(cpu, Relaxed);
            if gave_up > 0 {
                self.blocked_ns.fetch_add(ns - cpu, Relaxed);
            }
        }
    }
    /// Whether enough of it was looked at to speak of the rest.
    fn is_seen(&self) -> bool {
        self.seen_ns.load(Relaxed) * 50 >= self.ns.load(Relaxed).max(1)
    }
    /// Shares of its time in which it computed, and in which it waited for something.
    pub fn shares(&self) -> (f64, f64) {
        let seen = self.seen_ns.load(Relaxed) as f64;
        match self.is_seen() {
            false => (1.0, 0.0),
            true => (self.cpu_ns.load(Relaxed) as f64 / seen, self.blocked_ns.load(Relaxed) as f64 / seen),
        }
    }
}

impl Lane {
    /// Time that its steps took besides what operators did in them, which was `taken_ns`.
    pub fn over_ns(&self, taken_ns: f64) -> f64 {
        let read = |n: &AtomicU64| n.load(Relaxed) as f64;
        let (step, all) = (&self.step, read(&self.step.ns));
        if !step.is_seen() {
            return (all - taken_ns).max(0.0);
        }
        let own = read(&step.cpu_ns) - read(&self.head.cpu_ns) - read(&self.work.cpu_ns);
        own.max(0.0) * all / read(&step.seen_ns)
    }
}

const BRIEF_NS: u64 = 10_000;

/// What a thread has used of a processor, and how often it gave it up of its own accord.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu_ns: u64,
    pub gave_up: u64,
}

impl Usage {
    /// Of this thread, so far; `None` where the system does not tell.
    #[cfg(target_os = "linux")]
    pub fn now() -> Option<Usage> {
        // SAFETY: all-zero values are valid ones, and the calls write nothing but them.
        let (usage, cpu) = unsafe {
            let (mut usage, mut cpu): (libc::rusage, libc::timespec) = (std::mem::zeroed(), std::mem::zeroed());
            // The times of a running thread are not up to date in its rusage; the clock is.
            let told = libc::getrusage(libc::RUSAGE_THREAD, &mut usage) == 0
                && libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut cpu) == 0;
            told.then_some((usage, cpu))?
        };
        let cpu_ns = cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64;
        Some(Usage { cpu_ns, gave_up: usage.ru_nvcsw as u64 })
    }
    #[cfg(not(target_os = "linux"))]
    pub fn now() -> Option<Usage> {
        None
    }
    /// What was used since then.
    pub fn since(before: Option<Usage>) -> Option<Usage> {
        let (before, now) = (before?, Usage::now()?);
        Some(Usage {
            cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
            gave_up: now.gave_up.saturating_sub(before.gave_up),
        })
    }
}

/// How often a number of nanoseconds came, by size: two classes for each power of two.
#[derive(Debug)]
pub struct Spread([AtomicU64; Spread::CLASSES]);

impl Default for Spread {
    fn default() -> Spread {
        Spread([const { AtomicU64::new(0) }; Spread::CLASSES])
    }
}

impl Spread {
    const CLASSES: usize = 80;

    fn class(ns: u64) -> usize {
        if ns < 2 {
            return ns as usize;
        }
        let power = ns.ilog2() as usize;
        (2 * power + (ns >> (power - 1) & 1) as usize).min(Spread::CLASSES - 1)
    }
    /// The middle of a class.
    fn middle(class: usize) -> u64 {
        let (power, upper) = (class / 2, class as u64 % 2);
        match class {
            0 | 1 => class as u64,
            _ => (1 << power) + (1 << power) / 2 * upper + (1 << power) / 4,
        }
    }
    pub fn note(&self, ns: u64, times: u64) {
        self.0[Spread::class(ns)].fetch_add(times, Relaxed);
    }
    /// The size below which so large a share lies; 0 if nothing was noted.
    pub fn at(&self, share: f64) -> u64 {
        let counts: Vec<u64> = self.0.iter().map(|n| n.load(Relaxed)).collect();
        let wanted = counts.iter().sum::<u64>() as f64 * share;
        let mut sum = 0;
        let reached = counts.iter().position(|n| {
            sum += n;
            *n > 0 && sum as f64 >= wanted
        });
        reached.map_or(0, Spread::middle)
    }
}

thread_local! {
    /// Time that this thread has waited for Python's lock, since somebody asked.
    static LOCK_NS: Cell<u64> = const { Cell::new(0) };
}

/// Notes that this thread waited for Python's lock.
pub fn note_lock_wait(time: Duration) {
    LOCK_NS.set(LOCK_NS.get() + time.as_nanos() as u64);
}

/// What was noted since the last call.
pub(super) fn take_lock_wait() -> u64 {
    LOCK_NS.replace(0)
}

/// The meters of one pass, by plan node, and what its consumer saw.
#[derive(Debug)]
pub struct Meters {
    nodes: Mutex<HashMap<u64, Arc<Meter>>>,
    started: Instant,
    /// Nanoseconds from the start to the end; 0 while it runs.
    ended_ns: AtomicU64,
    /// Threads that could run at once when somebody last asked.
    pub cores: AtomicU64,
    /// What says so.
    cores_why: Mutex<&'static str>,
    /// Who knows both: cores change while a pass runs.
    asks: OnceLock<Workers>,
    /// Elements handed to the consumer, and those of them that it was done with when it last asked for more: the
    /// times below are of these.
    pub delivered: AtomicU64,
    done: AtomicU64,
    /// Time that the consumer waited (or helped) for elements.
    pub waited_ns: AtomicU64,
    /// Time that it spent on what it got.
    pub own_ns: AtomicU64,
    /// How long it waited for the first chunk: the start says little about the rest.
    pub first_ns: AtomicU64,
    /// What operators left out because it failed.
    left_out: Mutex<Vec<Arc<Tally>>>,
    /// What they had left out before the pass was resumed.
    before: Mutex<Vec<LeftOut>>,
    /// Where the pass began.
    start: OnceLock<Start>,
    /// The plan, where it is not what the dataset's passes run (`ranks.rs`).
    pub ran: OnceLock<Plan>,
    pub budget: Arc<Budget>,
}

/// Tells how many threads may run at once, and what says so: as things are now (`true`), or as the pool knows them. `None`
/// where there is no pool any more.
struct Workers(Box<dyn Fn(bool) -> Option<(usize, &'static str)> + Send + Sync>);

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workers")
    }
}

/// Datasets that functions make while the pipeline runs (a window, what Python returns) are nodes without end: meters
/// are kept for so many nodes only.
const MAX_METERS: usize = 4096;

impl Meters {
    pub fn new(budget: Arc<Budget>) -> Meters {
        Meters {
            nodes: Mutex::default(),
            started: Instant::now(),
            ended_ns: AtomicU64::new(0),
            cores: AtomicU64::new(0),
            cores_why: Mutex::default(),
            asks: OnceLock::new(),
            delivered: AtomicU64::new(0),
            done: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            own_ns: AtomicU64::new(0),
            first_ns: AtomicU64::new(0),
            left_out: Mutex::default(),
            before: Mutex::default(),
            start: OnceLock::new(),
            ran: OnceLock::new(),
            budget,
        }
    }
    pub fn of(&self, node: u64) -> Arc<Meter> {
        let _brief = brief();
        let mut map = self.nodes.lock().unwrap_or_else(|e| e.into_inner());
        if map.len() >= MAX_METERS && !map.contains_key(&node) {
            return Arc::default();
        }
        map.entry(node).or_insert_with(|| Arc::new(Meter { id: node, ..Meter::default() })).clone()
    }
    pub fn get(&self, node: u64) -> Option<Arc<Meter>> {
        let _brief = brief();
        self.nodes.lock().unwrap_or_else(|e| e.into_inner()).get(&node).cloned()
    }
    /// The count of what an operator leaves out: one for all of its name and number.
    pub fn tally(&self, op: &'static str, number: Option<u64>, policy: OnError) -> Arc<Tally> {
        let _brief = brief();
        let mut all = self.left_out.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(tally) = all.iter().find(|t| (t.op, t.number, t.policy) == (op, number, policy)) {
            return tally.clone();
        }
        let tally = Tally::new(op, number, policy);
        let before = self.before.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(before) = before.iter().find(|b| b.operator == op && b.number == number) {
            tally.left_out.store(before.elements, Relaxed);
        }
        all.push(Arc::new(tally));
        all[all.len() - 1].clone()
    }
    /// Counts on from what a state tells.
    pub fn go_on(&self, before: &[LeftOut]) {
        let _brief = brief();
        *self.before.lock().unwrap_or_else(|e| e.into_inner()) = before.to_vec();
    }
    /// Remembers where the pass began.
    pub fn begin(&self, start: Start) {
        let _brief = brief();
        let _ = self.start.set(start);
    }
    pub fn start(&self) -> Option<Start> {
        self.start.get().cloned()
    }
    /// What operators left out so far.
    pub fn left_out(&self) -> Vec<Arc<Tally>> {
        let _brief = brief();
        let all = self.left_out.lock().unwrap_or_else(|e| e.into_inner());
        all.iter().filter(|t| t.left_out.load(Relaxed) > 0).cloned().collect()
    }
    /// Whom to ask for the threads that may run at once: see `Workers`.
    pub fn ask_for_workers(&self, asks: impl Fn(bool) -> Option<(usize, &'static str)> + Send + Sync + 'static) {
        self.note_workers(asks(false));
        let _ = self.asks.set(Workers(Box::new(asks)));
    }
    fn note_workers(&self, found: Option<(usize, &'static str)>) {
        let Some((cores, why)) = found else { return };
        let _brief = brief();
        *self.cores_why.lock().unwrap_or_else(|e| e.into_inner()) = why;
        self.cores.store(cores as u64, Relaxed);
    }
    /// Threads that may run at once, and what says so: now, or when the pass ended.
    pub fn workers(&self) -> (usize, &'static str) {
        if !self.has_ended() {
            self.note_workers(self.asks.get().and_then(|asks| asks.0(true)));
        }
        let _brief = brief();
        (self.cores.load(Relaxed) as usize, *self.cores_why.lock().unwrap_or_else(|e| e.into_inner()))
    }
    /// The pass is over. Only the first call counts.
    pub fn end(&self) {
        if !self.has_ended() {
            self.note_workers(self.asks.get().and_then(|asks| asks.0(false)));
        }
        let now = self.started.elapsed().as_nanos() as u64;
        let _ = self.ended_ns.compare_exchange(0, now, Relaxed, Relaxed);
    }
    pub fn has_ended(&self) -> bool {
        self.ended_ns.load(Relaxed) != 0
    }
    /// How long the pass took, or has taken so far.
    pub fn elapsed_ns(&self) -> u64 {
        match self.ended_ns.load(Relaxed) {
            0 => self.started.elapsed().as_nanos() as u64,
            ns => ns,
        }
    }
    /// The consumer got these rows. It alone counts them.
    pub fn deliver(&self, rows: usize) {
        self.delivered.store(self.delivered.load(Relaxed) + rows as u64, Relaxed);
    }
    /// The consumer asks for more, after it has worked for some time on what it got.
    pub fn ask(&self, own: Duration) {
        self.own_ns.fetch_add(own.as_nanos() as u64, Relaxed);
        self.done.store(self.delivered.load(Relaxed), Relaxed);
    }
    /// The consumer has waited; `came`: and there is more.
    pub fn answer(&self, waited: Duration, came: bool) {
        let ns = waited.as_nanos() as u64;
        self.waited_ns.fetch_add(ns, Relaxed);
        if came && self.delivered.load(Relaxed) == 0 {
            self.first_ns.store(ns, Relaxed);
        }
    }
    /// The consumer's own time for an element, and that between two elements, once it runs: nanoseconds.
    pub fn pace(&self) -> (f64, f64) {
        let get = |n: &AtomicU64| n.load(Relaxed) as f64;
        let (own, waited) = (get(&self.own_ns), get(&self.waited_ns));
        match get(&self.done) {
            0.0 => (0.0, waited / get(&self.delivered).max(1.0)),
            done => (own / done, (own + waited - get(&self.first_ns)).max(0.0) / done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_tells_sizes_within_a_quarter() {
        let spread = Spread::default();
        assert_eq!(spread.at(0.5), 0);
        (0..99).for_each(|_| spread.note(1000, 1));
        spread.note(1_000_000, 1);
        let near = |a: u64, b: u64| a.abs_diff(b) * 4 <= b;
        assert!(near(spread.at(0.5), 1000), "{}", spread.at(0.5));
        assert!(near(spread.at(0.99), 1000) && near(spread.at(1.0), 1_000_000));
        for ns in [0, 1, 2, 3, 5, 100, 12_345, 1 << 38] {
            assert!(near(Spread::middle(Spread::class(ns)), ns), "{ns}");
        }
        assert_eq!(Spread::class(u64::MAX), Spread::CLASSES - 1);
    }

    #[test]
    fn what_the_consumer_is_not_done_with_has_no_pace_yet() {
        let meters = Meters::new(Budget::new(usize::MAX, usize::MAX));
        let ns = Duration::from_nanos;
        meters.answer(ns(500), true);
        assert_eq!(meters.pace(), (0.0, 500.0));
        // Two rows of 100 ns, then a chunk of a thousand, of which one is taken.
        meters.deliver(1);
        meters.deliver(1);
        meters.ask(ns(200));
        meters.answer(ns(20), true);
        meters.deliver(1);
        assert_eq!(meters.delivered.load(Relaxed), 3);
        assert_eq!((meters.pace(), meters.first_ns.load(Relaxed)), ((100.0, 110.0), 500));
    }

    #[test]
    fn reasons_are_kept_beside_each_other() {
        let chosen = Chosen::default();
        assert_eq!((chosen.rows_why(), chosen.bytes_why()), (Because::Growing, Ahead::Most));
        for (because, ahead) in BECAUSE.into_iter().zip(AHEAD.into_iter().cycle()) {
            chosen.set_rows_why(because);
            chosen.set_bytes(7, ahead);
            assert_eq!((chosen.rows_why(), chosen.bytes_why()), (because, ahead));
        }
    }

    #[test]
    fn steps_take_more_than_their_parts() {
        let lane = Lane::default();
        lane.step.note(1_000_000, 0, None);
        assert_eq!(lane.over_ns(900_000.0), 100_000.0);
        // Where others had the core meanwhile, only what was computed counts.
        let usage = |cpu_ns| Some(Usage { cpu_ns, gave_up: 0 });
        lane.step.note(1_000_000, 0, usage(500_000));
        lane.head.note(100_000, 0, usage(100_000));
        lane.work.note(350_000, 0, usage(350_000));
        assert_eq!(lane.over_ns(0.0), 100_000.0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sleeping_is_not_computing() {
        let before = Usage::now();
        std::thread::sleep(Duration::from_millis(20));
        let slept = Usage::since(before).unwrap();
        assert!(slept.gave_up > 0 && slept.cpu_ns < 10_000_000, "{slept:?}");
        let phase = Phase::default();
        phase.note(20_000_000, 0, Some(slept));
        let (cpu, blocked) = phase.shares();
        assert!(blocked > 0.5 && cpu < 0.5);
        // What was seen once says nothing about a thousand times as much.
        phase.note(20_000_000_000, 0, None);
        assert_eq!(phase.shares(), (1.0, 0.0));
    }
}
