//! The memory of one pass: what it may have, what it has, and who keeps how much of it.
//!
//! 1. Every block of bytes is charged to the pass for which it was made, wherever it lies: in a queue, in a shuffle's
//!    buffer, on its way from a disk, in a function's hands (`feedline_io::Account`). What the consumer has is counted
//!    apart.
//! 2. Segments ask before they begin a chunk. The nearer one is to a source the earlier it stops, so that what is there is
//!    used before more comes in. A segment that holds nothing may always go on: nothing can deadlock, and where memory
//!    is short it is one chunk at a time. Whoever takes from a segment makes it ask again, so nobody has to be woken.
//! 3. Operators that collect (`shuffle`, `batch`, `cache`, windows) say how much they keep: a `Hold`. That does not
//!    shrink by waiting. What all of them together cannot keep within `KEEP` of the limit is refused, with the numbers.
//! 4. The same is counted for the process: what the operators of all passes keep, and what caches keep between passes
//!    (`Kept`), within `KEEP` of what the process may have. `LEAST` is nobody's to refuse, so that small pipelines run
//!    beside large ones. Refusing is all that is done: nobody waits for what another pass keeps, so nothing can deadlock.
//! 5. The free lists count too, and give way first (`feedline-io/src/buf.rs`).

use super::{Meter, bytes_text};
use crate::error::{Error, Kind};
use feedline_io::{Account, Entered, live_bytes};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Eighths of the limit that operators may keep; the rest is for what is on its way.
const KEEP: usize = 7;
/// Operators may keep this much under any limit.
const LEAST: usize = 1 << 20;
/// Steps that take more than this part of the limit are large.
const LARGE_STEP: usize = 16;
/// The part of the limit that is left to steps of which nothing is known.
const UNKNOWN_STEP: usize = 2;
/// What those that come take is told by those that are there: a little more is said to be enough.
const MARGIN: f64 = 17.0 / 16.0;
/// More elements than anybody has: a window of that size means all of them.
const ENDLESS: u64 = 1 << 40;
/// What the operators of all passes keep, and caches between them.
static KEPT: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub struct Budget {
    account: &'static Account,
    limit: usize,
    /// What all pipelines together may have.
    all: usize,
    /// What they keep together, this one included.
    kept_by_all: &'static AtomicUsize,
    kept: AtomicUsize,
    /// So much of it by those who can do with less.
    yielding: AtomicUsize,
    /// What the others say that they will keep more.
    expected: AtomicUsize,
    /// What a step of this pass took at once, or wanted to, at most.
    step: AtomicUsize,
    /// The same of each segment, together.
    steps: AtomicUsize,
    /// How many have begun and not come to the end of a step.
    unknown: AtomicUsize,
    peak: AtomicUsize,
    /// Bytes that somebody is about to take.
    promised: AtomicUsize,
    /// Bytes of elements of which the rest is waited for.
    partial: AtomicUsize,
    /// Readers of files that were open at once.
    readers: AtomicUsize,
    closed: AtomicBool,
}

impl Budget {
    pub fn new(limit: usize, all: usize) -> Arc<Budget> {
        Budget::among(limit, all, &KEPT)
    }
    fn among(limit: usize, all: usize, kept_by_all: &'static AtomicUsize) -> Arc<Budget> {
        let account = Account::open(limit, all);
        let (kept, yielding, expected, step, steps, unknown) = Default::default();
        let (peak, promised, partial, readers, closed) = Default::default();
        Arc::new(Budget {
            account,
            limit,
            all,
            kept_by_all,
            kept,
            yielding,
            expected,
            step,
            steps,
            unknown,
            peak,
            promised,
            partial,
            readers,
            closed,
        })
    }
    /// Lets this thread make blocks for the pass until the result is dropped.
    pub fn enter(&self) -> Entered {
        Account::enter(Some(self.account))
    }
    pub fn limit(&self) -> usize {
        self.limit
    }
    /// Bytes that it has now, and at most so far.
    pub fn live(&self) -> usize {
        if self.closed.load(Relaxed) { 0 } else { self.account.live() }
    }
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
    /// Bytes that the consumer holds of what it was given.
    pub fn out(&self) -> usize {
        if self.closed.load(Relaxed) { 0 } else { self.account.out() }
    }
    /// Readers of files that were seen open at once, and bytes that they may read ahead together.
    pub fn readers(&self) -> (usize, usize) {
        self.note();
        (self.readers.load(Relaxed), (self.limit / 8).min(feedline_io::ahead_bytes()))
    }
    /// Takes note of what there is, and says it: the peak is never below what was said.
    pub fn note(&self) -> usize {
        let live = self.live();
        self.peak.fetch_max(live, Relaxed);
        if !self.closed.load(Relaxed) {
            self.readers.fetch_max(self.account.readers(), Relaxed);
        }
        live
    }
    /// Whether there is room for `coming` more bytes at this distance from the consumer.
    pub fn has_room(&self, depth: usize, coming: usize) -> bool {
        let mine = self.limit - self.limit / 32 * depth.min(8);
        // What lies in queues does not go before a buffer behind them is full. One that expects more than there ever is may be
        // larger than the data.
        let expected = self.expected.load(Relaxed).min(self.limit / 2);
        let coming =
            [self.promised.load(Relaxed), self.step_room(), expected].into_iter().fold(coming, usize::saturating_add);
        let (live, all) = (self.account.live(), live_bytes());
        // What others have brings along what nobody counts: the C library's pieces, for instance.
        let uncounted = all.saturating_sub(live) / 16;
        live.saturating_add(coming) <= mine && all.saturating_add(coming).saturating_add(uncounted) <= self.all
    }
    /// What steps need that nothing can go on without: one of each segment, since each may be what others wait for, and the
    /// largest once more, since what the last one made may still be there.
    fn steps_need(&self) -> usize {
        let step = self.step.load(Relaxed);
        self.steps.load(Relaxed).max(step).saturating_add(step)
    }
    /// What whoever works ahead leaves to them: what lies in the queues of others does not go before they are done. Small steps
    /// need no room of their own, and those that could not be had wanted more than there will be.
    fn step_room(&self) -> usize {
        let is_large = self.step.load(Relaxed) > self.limit / LARGE_STEP;
        let known = if is_large { self.steps_need().min(self.limit / 4 * 3) } else { 0 };
        // Whoever has not done a step yet may need much for it.
        let unknown = if self.unknown.load(Relaxed) > 0 { self.limit / UNKNOWN_STEP } else { 0 };
        known.max(unknown)
    }
    /// Somebody's steps begin, and nobody knows what they take until the result is dropped.
    pub fn first_step(self: &Arc<Self>) -> FirstStep {
        self.unknown.fetch_add(1, Relaxed);
        FirstStep(self.clone())
    }
    /// Keeps room for bytes that are taken later, when others could have been let in, until the result is dropped.
    pub fn promise(self: &Arc<Self>, bytes: usize) -> Promise {
        self.promised.fetch_add(bytes, Relaxed);
        Promise { budget: self.clone(), bytes }
    }
    /// For whoever puts elements together of what others make.
    pub fn partial(self: &Arc<Self>) -> Partial {
        Partial { budget: self.clone(), bytes: 0 }
    }
    /// What is there as long as a step is under way that nothing can go on without, when that is made of so many bytes.
    pub fn beside(&self, rows: usize) -> usize {
        rows.saturating_add(self.partial.load(Relaxed))
    }
    /// A step took so much at once, or would have: whoever can do with less leaves it to the next one. `most` is what those of
    /// the same segment took, if it is one of few.
    pub fn note_step(&self, bytes: usize, most: Option<&AtomicUsize>) {
        if bytes > self.step.load(Relaxed) {
            self.step.fetch_max(bytes, Relaxed);
        }
        if let Some(most) = most.filter(|most| bytes > most.load(Relaxed)) {
            let before = most.fetch_max(bytes, Relaxed);
            self.steps.fetch_add(bytes.saturating_sub(before), Relaxed);
        }
    }
    /// What operators leave of the limit: what one step may take, if nothing can go on without it.
    pub fn left(&self) -> usize {
        self.limit.saturating_sub(self.kept.load(Relaxed)).max(self.limit / 8)
    }
    /// A limit under which a step of so many bytes has room. Those who keep what there is keep more of a higher one.
    pub fn limit_for(&self, bytes: usize) -> usize {
        let (kept, yielding) = (self.kept.load(Relaxed), self.yielding.load(Relaxed));
        let steady = (bytes + bytes / 8).saturating_add(kept.saturating_sub(yielding));
        scaled(steady, self.limit, self.limit.saturating_sub(yielding))
    }
    /// Why there is no room for a step of so many bytes, though nothing can go on without it.
    pub fn refused(&self, bytes: usize) -> Error {
        // What operators keep may be less by now: a lower limit than there is would not have been enough.
        let (limit, kept) = (self.limit, self.limit - self.left());
        let needed = enough(self.limit_for(bytes).max(limit + limit / LARGE_STEP));
        let why = match bytes > limit {
            true => format!("more than the memory_limit of {}", bytes_text(limit)),
            false if bytes > limit - kept => {
                let kept = bytes_text(kept);
                format!("more than the memory_limit of {}, of which operators keep {kept}", bytes_text(limit))
            }
            false => format!("too much beside what else there was under the memory_limit of {}", bytes_text(limit)),
        };
        Error::new(
            Kind::Budget,
            format!(
                "what is made of one element takes {} at once, which is {why}: raise it to {needed} or more, or make less of it \
                 (decode a part of a picture or a smaller one, leave out what takes most)",
                bytes_text(bytes),
            ),
        )
    }
    /// Bytes that one operator may keep if no other keeps any.
    pub fn most(&self) -> usize {
        most_of(self.limit)
    }
    /// The pass is over: its account is somebody else's from now on.
    pub fn close(&self) {
        self.note();
        if !self.closed.swap(true, Relaxed) {
            self.account.close();
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.close();
    }
}

/// Room that is kept for somebody.
pub struct Promise {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.budget.promised.fetch_sub(self.bytes, Relaxed);
    }
}

/// What is there of an element while the rest is waited for.
pub struct Partial {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Partial {
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            grow(&self.budget.partial, std::mem::replace(&mut self.bytes, bytes), bytes);
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A step that is the first of its kind.
pub struct FirstStep(Arc<Budget>);

impl Drop for FirstStep {
    fn drop(&mut self) {
        self.0.unknown.fetch_sub(1, Relaxed);
    }
}

/// So many bytes, as they are to those of which there is a part.
fn scaled(bytes: usize, whole: usize, part: usize) -> usize {
    (bytes as f64 * (whole as f64 / part.max(1) as f64)) as usize
}

fn most_of(limit: usize) -> usize {
    (limit / 8 * KEEP).max(LEAST)
}

/// What an operator keeps. Given back when it is dropped.
pub struct Hold {
    budget: Arc<Budget>,
    meter: Arc<Meter>,
    bytes: usize,
    /// What it will keep, as far as that is known, and so much of it is not there yet.
    expects: usize,
    missing: usize,
    /// Counted as kept by one that gives way.
    yields: usize,
    reserved: usize,
    most: usize,
    /// Eighths that it leaves to others.
    leaves: usize,
    /// It leaves others room to grow, too.
    gives_way: bool,
    /// So many of them its meter was told of: datasets inside of functions share one.
    told: usize,
    /// Its bytes are those that a pass has kept, which others of this pass may read as well.
    share: Option<Arc<Share>>,
    /// What it reads of an earlier pass stays counted for the process as long as it does.
    _inherited: Option<Arc<Kept>>,
}

/// What was kept by a pass for later ones: counted for the process until nobody has it.
#[derive(Debug, Default)]
pub struct Kept {
    bytes: usize,
    made_for: Weak<Budget>,
    by_all: Option<&'static AtomicUsize>,
    /// The passes that read it.
    shares: Mutex<Vec<Weak<Share>>>,
}

/// What was kept, as one pass has it: counted once for it, however many of its operators read it. A pass that repeats a
/// cache has one that ends and one that begins, and they have the same rows.
#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    kept: Arc<Kept>,
    reserved: usize,
}

impl Kept {
    fn share(self: &Arc<Self>, budget: &Arc<Budget>) -> Arc<Share> {
        // A fork must not find it held.
        let _brief = feedline_io::brief();
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.retain(|share| share.strong_count() > 0);
        let of_this = |share: &Arc<Share>| Arc::ptr_eq(&share.budget, budget);
        if let Some(share) = shares.iter().filter_map(Weak::upgrade).find(of_this) {
            return share;
        }
        // It is there, whatever this pass may have. What was made for it is charged to it already.
        let is_charged = self.made_for.ptr_eq(&Arc::downgrade(budget));
        let reserved = if is_charged { 0 } else { self.bytes };
        budget.kept.fetch_add(self.bytes, Relaxed);
        budget.account.reserve(reserved as isize);
        let share = Arc::new(Share { budget: budget.clone(), kept: self.clone(), reserved });
        shares.push(Arc::downgrade(&share));
        share
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.account.reserve(-(self.reserved as isize));
        self.budget.kept.fetch_sub(self.kept.bytes, Relaxed);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(all) = self.by_all {
            all.fetch_sub(self.bytes, Relaxed);
        }
    }
}

/// What was too much: what the operator would keep, what others of its pipeline keep, and what all may.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Over {
    pub bytes: usize,
    pub others: usize,
    pub most: usize,
    pub limit: usize,
    /// What it said that it will keep.
    pub expects: usize,
    /// So much of what others keep is kept by those who take what there is: they keep more of a higher limit.
    pub yielding: usize,
    /// Nobody knows how much there will be.
    pub is_guess: bool,
    /// The limit is that of the process, and other pipelines keep so much of it.
    pub elsewhere: Option<usize>,
}

impl Hold {
    pub fn new(budget: &Arc<Budget>, meter: Arc<Meter>) -> Hold {
        let (bytes, expects, missing, yields, reserved) = Default::default();
        let (leaves, gives_way, told, share, _inherited) = Default::default();
        let (budget, most) = (budget.clone(), budget.most());
        Hold {
            budget,
            meter,
            bytes,
            expects,
            missing,
            yields,
            reserved,
            most,
            leaves,
            gives_way,
            told,
            share,
            _inherited,
        }
    }
    /// For an operator that takes whatever there is: it leaves so many eighths to the others.
    pub fn leaving(mut self, eighths: usize) -> Hold {
        (self.most, self.leaves) = (self.most / 8 * (8 - eighths), eighths);
        self
    }
    /// For one that can do with less at any time: it leaves others a quarter more than they have, or say that they will have,
    /// and twice what a step takes, since what the last one made may still be there. What they keep goes up and down, and the
    /// last of it would be taken when they have least.
    pub fn giving_way(mut self) -> Hold {
        self.gives_way = true;
        self
    }
    /// It will keep so much in all: those who can do with less leave it that, and what is refused asks for it.
    pub fn expect(&mut self, bytes: usize) {
        self.expects = bytes;
        self.note_missing();
    }
    /// The same, if `all` rows will be like these `rows`, which take so many bytes wherever they lie: what is a cache's now, and
    /// costs nothing, may be followed by what is not. What nobody can mean is not expected.
    pub fn expect_rows(&mut self, all: u64, rows: usize, bytes: usize) {
        if all <= ENDLESS {
            self.expect((bytes as f64 / rows.max(1) as f64 * all as f64) as usize);
        }
    }
    fn note_missing(&mut self) {
        let missing = self.expects.min(self.most).saturating_sub(self.bytes);
        let before = std::mem::replace(&mut self.missing, missing);
        if before != missing {
            grow(&self.budget.expected, before, missing);
        }
        let yields = if self.gives_way { self.bytes } else { 0 };
        let before = std::mem::replace(&mut self.yields, yields);
        if before != yields {
            grow(&self.budget.yielding, before, yields);
        }
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    pub fn most(&self) -> usize {
        self.most
    }
    /// What the others leave it of that.
    pub fn room(&self) -> usize {
        let others = self.budget.kept.load(Relaxed).saturating_sub(self.bytes);
        self.most.min(self.budget.most().saturating_sub(others))
    }
    /// Whether the pass has most of what it may: rows that keep alive more than they are should not, from now on.
    pub fn is_tight(&self) -> bool {
        self.budget.live() > self.budget.limit / 4 * 3
    }
    /// Leaves what it keeps to later passes, who `inherit` it. Until it is dropped it counts for this one too.
    pub fn leave(&mut self) -> Arc<Kept> {
        if let Some(share) = &self.share {
            return share.kept.clone();
        }
        let (bytes, by_all) = (self.bytes, Some(self.budget.kept_by_all));
        let made_for = Arc::downgrade(&self.budget);
        let kept = Arc::new(Kept { bytes, made_for, by_all, shares: Mutex::default() });
        // From here on it is counted there.
        self.budget.kept.fetch_sub(bytes, Relaxed);
        self.share = Some(kept.share(&self.budget));
        kept
    }
    /// What was kept before: it is charged to this pass unless it was made for it.
    pub fn inherit(&mut self, kept: Arc<Kept>) {
        let share = kept.share(&self.budget);
        let _ = self.reserve(0);
        self.bytes = kept.bytes;
        self.note_missing();
        self.tell(kept.bytes);
        (self.share, self._inherited) = (Some(share), Some(kept));
    }
    fn tell(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.told, bytes);
        self.meter.keep(before, bytes);
    }
    /// Says how many bytes it keeps now. An error if that is more than it may; they are counted all the same.
    pub fn set(&mut self, bytes: usize) -> std::result::Result<(), Over> {
        let mut before = std::mem::replace(&mut self.bytes, bytes);
        if before == bytes {
            return Ok(());
        }
        if self.share.take().is_some() {
            before = 0;
        }
        self.tell(bytes);
        self.note_missing();
        let Budget { kept, kept_by_all, limit, all: allowed, .. } = &*self.budget;
        let mine = grow(kept, before, bytes);
        let all = grow(kept_by_all, before, bytes);
        if bytes <= before {
            return Ok(());
        }
        let (most, others) = (self.budget.most(), mine.saturating_sub(bytes));
        let (mut spare, mut step) = (0, 0);
        if self.gives_way {
            let expected = self.budget.expected.load(Relaxed);
            spare = expected.saturating_add(others.saturating_add(expected) / 4);
            step = self.budget.steps_need();
        }
        // What a step takes may be what is left beside that.
        let spare = spare.max(spare.saturating_add(step).saturating_sub(limit.saturating_sub(most)));
        if mine.saturating_add(spare) > most || bytes > self.most {
            // Alone it had too much, or with the others.
            let (expects, others) = (self.expects, if bytes > self.most { 0 } else { others });
            let yielding = self.budget.yielding.load(Relaxed).saturating_sub(self.yields).min(others);
            return Err(Over {
                bytes,
                others,
                most: most.min(self.most),
                limit: *limit,
                expects,
                yielding,
                is_guess: false,
                elsewhere: None,
            });
        }
        let (most, elsewhere) = (most_of(*allowed), all.saturating_sub(mine));
        let left = most / 8 * (8 - self.leaves);
        if mine <= LEAST || (all <= most && (self.leaves == 0 || bytes.saturating_add(elsewhere) <= left)) {
            return Ok(());
        }
        let most = if all > most { most } else { left };
        Err(Over {
            bytes,
            others,
            most,
            limit: *allowed,
            expects: self.expects,
            yielding: 0,
            is_guess: false,
            elsewhere: Some(elsewhere),
        })
    }
    /// Whether so many more may be there for a moment, beside what all operators keep.
    pub fn fits_beside(&self, bytes: usize) -> std::result::Result<(), Over> {
        let (kept, most) = (self.budget.kept.load(Relaxed), self.budget.limit.max(LEAST));
        if kept.saturating_add(bytes) <= most {
            return Ok(());
        }
        Err(Over {
            bytes: self.bytes.saturating_add(bytes),
            others: kept.saturating_sub(self.bytes),
            most,
            limit: self.budget.limit,
            expects: self.expects,
            ..Over::default()
        })
    }
    /// The same where so many of them lie in no block of this pass: these are charged to it as well.
    pub fn set_beside(&mut self, bytes: usize, beside: usize) -> std::result::Result<(), Over> {
        self.budget.account.reserve(beside as isize - self.reserved as isize);
        self.reserved = beside;
        self.set(bytes)
    }
    /// The same for what lies in no block of this pass: it is charged to it as well.
    pub fn reserve(&mut self, bytes: usize) -> std::result::Result<(), Over> {
        self.set_beside(bytes, bytes)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.account.reserve(-(self.reserved as isize));
        self.budget.expected.fetch_sub(self.missing, Relaxed);
        self.budget.yielding.fetch_sub(self.yields, Relaxed);
        if self.share.is_none() {
            self.budget.kept.fetch_sub(self.bytes, Relaxed);
            self.budget.kept_by_all.fetch_sub(self.bytes, Relaxed);
        }
        self.tell(0);
    }
}

/// Counts `after` in place of `before`, and says what there is then.
fn grow(count: &AtomicUsize, before: usize, after: usize) -> usize {
    let more = after.wrapping_sub(before);
    count.fetch_add(more, Relaxed).wrapping_add(more)
}

impl Over {
    /// The same for all of what was asked for, when only `there` of it takes that much. What nobody can mean stays out.
    pub fn if_there_were(self, all: u64, there: u64) -> Over {
        let all = if all > ENDLESS { there } else { all.max(there) };
        Over { bytes: (self.bytes as f64 / there.max(1) as f64 * all as f64) as usize, ..self }
    }
    /// The same for all elements, when `there` of them take that much; where nobody knows how many there are, for as many again:
    /// the limit that was too low is never said to be enough, nor is any other.
    pub fn for_all(self, all: Option<u64>, there: u64) -> Over {
        let over = self.if_there_were(all.unwrap_or(there.saturating_mul(2)), there);
        Over { is_guess: all.is_none(), ..over }
    }
    /// In words: `what` it is that does not fit, and what would help besides a higher limit.
    pub fn error(self, what: &str, instead: &str) -> Error {
        let Over { others, most, limit, bytes, expects, yielding, is_guess, elsewhere } = self;
        let mut beside = match others {
            0 => String::new(),
            n => format!(", beside {} that other operators keep", size(n)),
        };
        let all = bytes.max(expects).saturating_add(others - yielding).saturating_add(elsewhere.unwrap_or(0));
        let all = scaled(all, most, most.saturating_sub(yielding));
        // Of a very low limit more may be kept than of a higher one.
        let share = (limit as f64 / most as f64).max(8.0 / KEEP as f64) * MARGIN;
        // What is too much by a little must not be told to raise a limit to what it is.
        let needed = enough(((share * all as f64) as usize).max(limit + limit / 100));
        let (whose, how) = match elsewhere {
            None => ("operators may keep", "raise it to"),
            Some(n) => {
                let and = if others == 0 { ", beside" } else { " and" };
                beside += &format!("{and} {} that other pipelines and caches of this process keep", size(n));
                ("all pipelines of the process may keep", "drop iterators and datasets that are done with, raise it to")
            }
        };
        let guess = if is_guess { " (how many elements there are is not known)" } else { "" };
        let of = if elsewhere.is_some() { "its memory_limit" } else { "the memory_limit" };
        Error::new(
            Kind::Budget,
            format!(
                "{what}{beside}; {whose} {} of {of} of {}: {how} {needed} or more{guess}, or {instead}",
                size(most),
                size(limit)
            ),
        )
    }
}

/// The same, rounded up: what is said to be enough is.
pub fn enough(bytes: usize) -> String {
    let step = match bytes {
        0..1_000 => 1,
        1_000..1_000_000 => 100,
        1_000_000..1_000_000_000 => 100_000,
        _ => 10_000_000,
    };
    size(bytes.div_ceil(step).saturating_mul(step))
}

/// Bytes with a unit that fits.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use feedline_io::Buf;

    #[test]
    fn sources_stop_first() {
        let budget = Budget::new(32 << 20, usize::MAX);
        let entered = budget.enter();
        let block = Buf::new(24 << 20);
        drop(entered);
        assert!(budget.has_room(0, 8 << 20) && !budget.has_room(0, (8 << 20) + 1));
        assert!(budget.has_room(4, 4 << 20) && !budget.has_room(4, (4 << 20) + 1));
        assert!(!budget.has_room(8, 1) && !budget.has_room(100, 1));
        block.hand_out(24 << 20);
        assert!(budget.has_room(8, 24 << 20));
        assert_eq!((budget.live(), budget.out()), (0, 24 << 20));
        drop(block);
        assert_eq!(budget.out(), 0);
        let promise = budget.promise(30 << 20);
        assert!(budget.has_room(0, 2 << 20) && !budget.has_room(0, 3 << 20) && budget.live() == 0);
        drop(promise);
        assert!(budget.has_room(0, 32 << 20));
        // Whoever works ahead leaves room for two large steps.
        budget.note_step(2 << 20, None);
        assert!(budget.has_room(0, 32 << 20));
        budget.note_step(5 << 20, None);
        assert!(budget.has_room(0, 22 << 20) && !budget.has_room(0, 23 << 20));
        budget.note_step(1 << 40, None);
        assert!(budget.has_room(0, 8 << 20) && !budget.has_room(0, 9 << 20));
        // Each of several segments has its own.
        let (budget, mine, other) = (Budget::new(32 << 20, usize::MAX), AtomicUsize::new(0), AtomicUsize::new(0));
        [4, 3, 5].into_iter().for_each(|n| budget.note_step(n << 20, Some(&mine)));
        budget.note_step(3 << 20, Some(&other));
        assert!(budget.has_room(0, 19 << 20) && !budget.has_room(0, 20 << 20));
        // And for those of which nothing is known.
        let budget = Budget::new(32 << 20, usize::MAX);
        let (first, second) = (budget.first_step(), budget.first_step());
        assert!(budget.has_room(0, 16 << 20) && !budget.has_room(0, 17 << 20));
        drop(first);
        assert!(!budget.has_room(0, 17 << 20));
        drop(second);
        assert!(budget.has_room(0, 32 << 20));
    }

    #[test]
    fn what_is_refused_is_never_told_to_have_less() {
        let budget = Budget::new(64 << 20, usize::MAX);
        let told = |mb: usize| budget.refused(mb << 20).to_string();
        assert!(told(80).contains("more than the memory_limit of 67.1 MB: raise it to 94.4 MB"), "{}", told(80));
        // What was kept beside it is gone.
        assert!(told(30).contains("beside what else there was under the memory_limit of 67.1 MB: raise it to 71.4 MB"));
        let mut hold = Hold::new(&budget, Arc::default());
        assert_eq!(hold.set(40 << 20), Ok(()));
        assert!(told(30).contains("of which operators keep 41.9 MB: raise it to 77.4 MB"), "{}", told(30));
    }

    #[test]
    fn what_all_passes_keep_is_within_the_limit_of_the_process() {
        let kept: &'static AtomicUsize = Box::leak(Box::default());
        let budget = || Budget::among(80 << 20, 80 << 20, kept);
        let hold = |budget: &Arc<Budget>| Hold::new(budget, Arc::default());
        let (one, two) = (budget(), budget());
        let (mut a, mut b, mut c) = (hold(&one), hold(&two), hold(&two));
        assert_eq!((a.set(40 << 20), b.set(20 << 20), c.set(10 << 20)), (Ok(()), Ok(()), Ok(())));
        let over = c.set(20 << 20).unwrap_err();
        assert_eq!((over.others, over.elsewhere, over.most), (20 << 20, Some(40 << 20), 70 << 20));
        let text = over.error("c keeps 21.0 MB", "keep less").to_string();
        for part in [
            "beside 21.0 MB that other operators keep and 41.9 MB that other pipelines",
            "all pipelines of the process may keep 73.4 MB of its memory_limit of 83.9 MB",
            "drop iterators and datasets that are done with, raise it to 101.9 MB or more, or keep less",
        ] {
            assert!(text.contains(part), "{text}");
        }
        // A little is always to be had, and all is given back.
        let three = budget();
        let mut d = hold(&three);
        assert_eq!((d.set(LEAST), d.set(LEAST + 1).is_err()), (Ok(()), true));
        drop((a, d));
        assert_eq!(c.set(50 << 20), Ok(()));
        drop((b, c));
        assert_eq!(kept.load(Relaxed), 0);
    }

    #[test]
    fn caches_count_for_the_process_while_somebody_has_them() {
        let kept: &'static AtomicUsize = Box::leak(Box::default());
        let budget = || Budget::among(80 << 20, 80 << 20, kept);
        let first = budget();
        let mut hold = Hold::new(&first, Arc::default()).leaving(2);
        assert_eq!(hold.set(40 << 20), Ok(()));
        let left = hold.leave();
        assert_eq!(kept.load(Relaxed), 40 << 20);
        drop((hold, first));
        assert_eq!(kept.load(Relaxed), 40 << 20, "the pass is over, the cache is there");
        // Whoever reads it is charged with it; the process has it once.
        let second = budget();
        let mut reads = Hold::new(&second, Arc::default()).leaving(2);
        reads.inherit(left.clone());
        assert_eq!((second.live(), reads.bytes(), kept.load(Relaxed)), (40 << 20, 40 << 20, 40 << 20));
        // Another cache leaves something to those who cannot do with less.
        let third = budget();
        let mut other = Hold::new(&third, Arc::default()).leaving(2);
        assert_eq!(other.set(12 << 20), Ok(()));
        let over = other.set(13 << 20).unwrap_err();
        assert_eq!((over.elsewhere, over.most), (Some(40 << 20), (70 << 20) / 8 * 6));
        drop((left, other));
        assert_eq!(kept.load(Relaxed), 40 << 20, "somebody reads it");
        assert_eq!(reads.set(0), Ok(()));
        assert_eq!(reads.set(5 << 20), Ok(()));
        assert_eq!(kept.load(Relaxed), 45 << 20);
        drop(reads);
        assert_eq!(kept.load(Relaxed), 0);
    }

    #[test]
    fn what_several_of_a_pass_read_counts_once_for_it() {
        let kept: &'static AtomicUsize = Box::leak(Box::default());
        let budget = || Budget::among(80 << 20, 80 << 20, kept);
        let hold = |budget: &Arc<Budget>| Hold::new(budget, Arc::default());
        let counted =
            |budget: &Budget| (budget.kept.load(Relaxed) >> 20, budget.live() >> 20, kept.load(Relaxed) >> 20);
        let first = budget();
        let mut fills = hold(&first);
        assert_eq!(fills.set(40 << 20), Ok(()));
        let left = fills.leave();
        // The next repetition begins before the one that filled it is gone.
        let mut again = hold(&first);
        again.inherit(left.clone());
        let mut other = hold(&first);
        assert_eq!((counted(&first), other.set(30 << 20)), ((40, 0, 40), Ok(())));
        drop((fills, other));
        assert_eq!(counted(&first), (40, 0, 40));
        let second = budget();
        let (mut a, mut b) = (hold(&second), hold(&second));
        a.inherit(left.clone());
        b.inherit(left);
        assert_eq!((counted(&second), a.bytes(), b.bytes()), ((40, 40, 40), 40 << 20, 40 << 20));
        drop(a);
        assert_eq!(counted(&second), (40, 40, 40));
        assert_eq!(b.set(10 << 20), Ok(()));
        assert_eq!(counted(&second), (10, 0, 50));
        drop((b, again));
        assert_eq!((counted(&first), counted(&second)), ((0, 0, 0), (0, 0, 0)));
    }

    #[test]
    fn who_gives_way_leaves_others_room_to_grow() {
        let budget = Budget::new(80 << 20, usize::MAX);
        let hold = || Hold::new(&budget, Arc::default());
        let (mut buffer, mut cache) = (hold(), hold().leaving(2).giving_way());
        assert_eq!((buffer.set(16 << 20), cache.set(50 << 20)), (Ok(()), Ok(())));
        let over = cache.set(51 << 20).unwrap_err();
        assert_eq!((over.others, over.most), (16 << 20, (70 << 20) / 8 * 6));
        let _ = cache.set(50 << 20);
        assert_eq!(buffer.set(20 << 20), Ok(()));
        let text = buffer.set((20 << 20) + 1).unwrap_err().error("b keeps 20.0 MB", "keep less").to_string();
        assert!(text.contains("limit of 83.9 MB: raise it to 89.2 MB or more"), "{text}");
    }

    #[test]
    fn who_gives_way_leaves_what_others_expect_and_steps_take() {
        let budget = Budget::new(80 << 20, usize::MAX);
        let hold = || Hold::new(&budget, Arc::default());
        let (mut buffer, mut cache) = (hold(), hold().leaving(2).giving_way());
        // Ten rows of 4 MB, of which the first is a cache's and counts there.
        buffer.expect_rows(10, 1, 4 << 20);
        assert_eq!((cache.set(20 << 20), cache.set(21 << 20).is_err()), (Ok(()), true));
        let _ = cache.set(20 << 20);
        assert_eq!(buffer.set(40 << 20), Ok(()), "what it expects is there for it");
        // Nothing is kept for it twice, nor once it is gone.
        assert_eq!(cache.set(21 << 20).map_err(|over| over.others), Err(40 << 20));
        drop(buffer);
        assert_eq!(cache.set(50 << 20), Ok(()));
        budget.note_step(24 << 20, None);
        assert_eq!((budget.left(), cache.set(51 << 20).is_err()), (30 << 20, true), "and two steps");
        let _ = cache.set(44 << 20);
        assert_eq!(cache.set(44 << 20), Ok(()));
        // The cache would keep as large a part of a higher limit.
        let enough = budget.limit_for(54 << 20);
        assert!(enough > (54 << 20) * 80 / 36 && enough < 150 << 20, "{enough}");
        assert_eq!(super::enough(1_234_567), "1.3 MB");
    }

    #[test]
    fn what_is_kept_by_all_is_within_the_limit() {
        let budget = Budget::new(80 << 20, usize::MAX);
        let meter = Arc::<Meter>::default();
        let (mut a, mut b) = (Hold::new(&budget, meter.clone()), Hold::new(&budget, Arc::default()));
        assert_eq!((a.set(40 << 20), b.set(30 << 20)), (Ok(()), Ok(())));
        let over = b.set(31 << 20).unwrap_err();
        assert_eq!((over.bytes, over.others, over.most), (31 << 20, 40 << 20, 70 << 20));
        let text = over.error("b keeps 32.5 MB", "keep less").to_string();
        for part in ["beside 41.9 MB", "may keep 73.4 MB", "limit of 83.9 MB", "raise it to 90.5 MB", "or keep less"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(b.set(30 << 20), Ok(()), "less is never too much");
        assert_eq!(meter.held(), 40 << 20);
        drop(a);
        assert_eq!((b.set(70 << 20), meter.held()), (Ok(()), 0));
        assert_eq!(b.reserve(60 << 20), Ok(()));
        assert_eq!(budget.live(), 60 << 20);
        drop(b);
        assert_eq!(budget.live(), 0);
    }
}
