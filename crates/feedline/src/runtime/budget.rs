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
//! 4. The free lists count too, and give way first (`feedline-io/src/buf.rs`).

use super::Meter;
use crate::error::{Error, Kind};
use feedline_io::{Account, Entered, live_bytes};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Eighths of the limit that operators may keep; the rest is for what is on its way.
const KEEP: usize = 7;
/// Operators may keep this much under any limit.
const LEAST: usize = 1 << 20;

#[derive(Debug)]
pub struct Budget {
    account: &'static Account,
    limit: usize,
    /// What all pipelines together may have.
    all: usize,
    kept: AtomicUsize,
    peak: AtomicUsize,
    closed: AtomicBool,
}

impl Budget {
    pub fn new(limit: usize, all: usize) -> Arc<Budget> {
        let account = Account::open(limit);
        let (kept, peak, closed) = Default::default();
        Arc::new(Budget { account, limit, all, kept, peak, closed })
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
    /// Takes note of what there is, and says it: the peak is never below what was said.
    pub fn note(&self) -> usize {
        let live = self.live();
        self.peak.fetch_max(live, Relaxed);
        live
    }
    /// Whether there is room for `coming` more bytes at this distance from the consumer.
    pub fn has_room(&self, depth: usize, coming: usize) -> bool {
        let mine = self.limit - self.limit / 32 * depth.min(8);
        self.account.live().saturating_add(coming) <= mine && live_bytes().saturating_add(coming) <= self.all
    }
    /// Bytes that one operator may keep if no other keeps any.
    pub fn most(&self) -> usize {
        (self.limit / 8 * KEEP).max(LEAST)
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

/// What an operator keeps. Given back when it is dropped.
pub struct Hold {
    budget: Arc<Budget>,
    meter: Arc<Meter>,
    bytes: usize,
    reserved: usize,
    most: usize,
}

/// What was too much: what the operator would keep, what others keep, and what all may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Over {
    pub bytes: usize,
    pub others: usize,
    pub most: usize,
    pub limit: usize,
}

impl Hold {
    pub fn new(budget: &Arc<Budget>, meter: Arc<Meter>) -> Hold {
        Hold { budget: budget.clone(), meter, bytes: 0, reserved: 0, most: budget.most() }
    }
    /// For an operator that takes whatever there is: it leaves so many eighths to the others.
    pub fn leaving(mut self, eighths: usize) -> Hold {
        self.most = self.most / 8 * (8 - eighths);
        self
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    pub fn most(&self) -> usize {
        self.most
    }
    /// For whom later passes ask whether what it kept is charged to them already.
    pub fn budget(&self) -> Weak<Budget> {
        Arc::downgrade(&self.budget)
    }
    /// What was kept before, by a pass with this budget: it is charged to this one unless they are the same.
    pub fn inherit(&mut self, bytes: usize, from: &Weak<Budget>) {
        // It is there, whatever this pass may have.
        let _ = match from.ptr_eq(&self.budget()) {
            true => self.set(bytes),
            false => self.reserve(bytes),
        };
    }
    /// Says how many bytes it keeps now. An error if that is more than it may; they are counted all the same.
    pub fn set(&mut self, bytes: usize) -> std::result::Result<(), Over> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before == bytes {
            return Ok(());
        }
        self.meter.keep(bytes);
        let all =
            self.budget.kept.fetch_add(bytes.wrapping_sub(before), Relaxed).wrapping_add(bytes).wrapping_sub(before);
        let (most, others) = (self.budget.most(), all.saturating_sub(bytes));
        if bytes <= before || (all <= most && bytes <= self.most) {
            return Ok(());
        }
        // Alone it had too much, or with the others.
        let others = if bytes > self.most { 0 } else { others };
        Err(Over { bytes, others, most: most.min(self.most), limit: self.budget.limit })
    }
    /// The same for what lies in no block of this pass: it is charged to it as well.
    pub fn reserve(&mut self, bytes: usize) -> std::result::Result<(), Over> {
        self.budget.account.reserve(bytes as isize - self.reserved as isize);
        self.reserved = bytes;
        self.set(bytes)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.account.reserve(-(self.reserved as isize));
        self.budget.kept.fetch_sub(self.bytes, Relaxed);
        self.meter.keep(0);
    }
}

impl Over {
    /// In words: `what` it is that does not fit, and what would help besides a higher limit.
    pub fn error(self, what: &str, instead: &str) -> Error {
        let Over { others, most, limit, bytes } = self;
        let beside = match others {
            0 => String::new(),
            n => format!(", beside {} that other operators keep", size(n)),
        };
        let needed = size((limit as f64 / most as f64 * (bytes + others) as f64) as usize);
        Error::new(
            Kind::Budget,
            format!(
                "{what}{beside}; operators may keep {} of the memory_limit of {}: raise it to {needed} or more, or {instead}",
                size(most),
                size(limit)
            ),
        )
    }
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
        for part in ["beside 41.9 MB", "may keep 73.4 MB", "limit of 83.9 MB", "raise it to 85.1 MB", "or keep less"] {
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
