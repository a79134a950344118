//! Who holds how much memory: an account for each pipeline that runs, and one count for the process.
//!
//! 1. A thread works *for* an account (`enter`). Blocks that it makes are charged to it; a block knows its account, so
//!    whoever drops it last gives its bytes back, on whatever thread.
//! 2. Each thread counts for itself and adds up every `LOT` bytes, and when it leaves: a small block costs no atomic
//!    instruction. A count is therefore wrong by at most `LOT` for each thread.
//! 3. Bytes that were handed to the consumer are counted apart: they are his.
//! 4. Nothing here waits or refuses. Whoever works ahead asks first whether there is room.
//! 5. Accounts lie in slots that are never freed, and are used again when all blocks of the last pipeline are gone: a
//!    block refers to its account without counting.

use crate::fork::brief;
use crate::{freed, step};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Bytes that a thread counts for itself.
const LOT: isize = 64 << 10;

/// The memory of one pipeline.
#[derive(Debug, Default)]
pub struct Account {
    live: AtomicIsize,
    out: AtomicIsize,
    limit: AtomicUsize,
    /// What all pipelines together may have.
    all: AtomicUsize,
    /// Readers that are open: they share what may be read ahead.
    pub(crate) readers: AtomicUsize,
    open: AtomicBool,
}

/// Bytes of all blocks of this process that are in use, without those that consumers have.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Bytes that all open accounts together may have, by their limits and by that of the process; `usize::MAX` if there are none.
static ROOM: AtomicUsize = AtomicUsize::new(usize::MAX);
static SLOTS: Mutex<Vec<&'static Account>> = Mutex::new(Vec::new());

thread_local! {
    static TALLY: Tally = const { Tally { works_for: Cell::new(None), of: Cell::new(None), bytes: Cell::new(0) } };
}

/// What a thread has counted and not added up.
struct Tally {
    works_for: Cell<Option<&'static Account>>,
    of: Cell<Option<&'static Account>>,
    bytes: Cell<isize>,
}

impl Tally {
    fn settle(&self) {
        let bytes = self.bytes.take();
        if bytes != 0 {
            add(self.of.get(), bytes);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.settle();
    }
}

fn same(a: Option<&'static Account>, b: Option<&'static Account>) -> bool {
    a.map(std::ptr::from_ref) == b.map(std::ptr::from_ref)
}

fn add(account: Option<&'static Account>, bytes: isize) {
    LIVE.fetch_add(bytes, Relaxed);
    if let Some(account) = account {
        account.live.fetch_add(bytes, Relaxed);
    }
}

fn count(account: Option<&'static Account>, bytes: isize) {
    step::count(bytes);
    let counted = TALLY.try_with(|tally| {
        if !same(tally.of.get(), account) {
            tally.settle();
            tally.of.set(account);
        }
        tally.bytes.set(tally.bytes.get() + bytes);
        if tally.bytes.get().abs() >= LOT {
            tally.settle();
        }
    });
    // A thread that is ending counts at once.
    if counted.is_err() {
        add(account, bytes);
    }
}

impl Account {
    /// An account of its own for a pipeline that may have so many bytes, and all of them together `all`. It is to be closed.
    pub fn open(limit: usize, all: usize) -> &'static Account {
        let _brief = brief();
        let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |a: &&&'static Account| {
            !a.open.load(Relaxed)
                && a.live.load(Relaxed) == 0
                && a.out.load(Relaxed) == 0
                && a.readers.load(Relaxed) == 0
        };
        let account = match slots.iter().find(idle) {
            Some(account) => *account,
            None => {
                let account: &'static Account = Box::leak(Box::default());
                slots.push(account);
                account
            }
        };
        account.limit.store(limit, Relaxed);
        account.all.store(all, Relaxed);
        account.open.store(true, Relaxed);
        share_out(&slots);
        account
    }
    /// No more is charged to it. Blocks that are left give their bytes back as before.
    pub fn close(&'static self) {
        let _brief = brief();
        let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        self.open.store(false, Relaxed);
        share_out(&slots);
    }
    /// The account that this thread works for.
    pub fn current() -> Option<&'static Account> {
        TALLY.try_with(|tally| tally.works_for.get()).ok().flatten()
    }
    /// Lets this thread work for it, or for nobody, until the result is dropped.
    pub fn enter(account: Option<&'static Account>) -> Entered {
        let before = TALLY.try_with(|tally| tally.works_for.replace(account)).ok().flatten();
        Entered { before }
    }
    /// Bytes of blocks that it holds.
    pub fn live(&self) -> usize {
        self.live.load(Relaxed).max(0) as usize
    }
    /// Bytes that the consumer has of it.
    pub fn out(&self) -> usize {
        self.out.load(Relaxed).max(0) as usize
    }
    /// Readers that are open.
    pub fn readers(&self) -> usize {
        self.readers.load(Relaxed)
    }
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }
    /// Whether it may have so many bytes more, and all pipelines together.
    pub fn has_room(&self, bytes: usize) -> bool {
        let all = self.all.load(Relaxed);
        self.live().saturating_add(bytes) <= self.limit() && live_bytes().saturating_add(bytes) <= all
    }
    /// Counts bytes as its own that lie in no block, or in blocks that were charged to an earlier pipeline.
    pub fn reserve(&self, bytes: isize) {
        self.live.fetch_add(bytes, Relaxed);
    }
}

/// What all blocks of the process take, without those that consumers have.
pub fn live_bytes() -> usize {
    LIVE.load(Relaxed).max(0) as usize
}

/// What they and those that are kept for reuse may take together: not all of the limits, since code, stacks and what the C
/// library keeps to itself are counted by nobody.
pub(crate) fn room() -> usize {
    ROOM.load(Relaxed)
}

fn share_out(slots: &[&'static Account]) {
    ROOM.store(shared(slots), Relaxed);
    let open = slots.iter().filter(|a| a.open.load(Relaxed));
    let lowest = open.map(|a| a.limit().min(a.all.load(Relaxed))).min();
    freed::bound(lowest.unwrap_or(usize::MAX));
}

fn shared(slots: &[&'static Account]) -> usize {
    let open = slots.iter().filter(|a| a.open.load(Relaxed));
    let limits = open.map(|a| (a.limit(), a.all.load(Relaxed)));
    let room = limits.reduce(|(sum, least), (limit, all)| (sum.saturating_add(limit), least.min(all)));
    room.map(|(sum, all)| sum.min(all)).map_or(usize::MAX, |bytes| bytes - bytes / 8)
}

/// As long as it lives this thread works for an account.
#[must_use]
pub struct Entered {
    before: Option<&'static Account>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = TALLY.try_with(|tally| {
            tally.works_for.set(self.before);
            tally.settle();
        });
    }
}

/// Bytes of a block, charged to somebody until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Option<&'static Account>,
    bytes: usize,
    /// So many of them are the consumer's.
    out: AtomicUsize,
}

impl Charge {
    /// May unwind, if a step is not to take so much: `step.rs`.
    pub(crate) fn new(bytes: usize) -> Charge {
        step::ask(bytes);
        Charge::taken(bytes)
    }
    /// For what is there already.
    pub(crate) fn taken(bytes: usize) -> Charge {
        let account = Account::current();
        count(account, bytes as isize);
        Charge { account, bytes, out: AtomicUsize::new(0) }
    }
    /// So many more of them are the consumer's from now on.
    pub(crate) fn hand_out(&self, bytes: usize) {
        let Some(account) = self.account else { return };
        let more = |out: usize| Some(out.saturating_add(bytes).min(self.bytes)).filter(|new| *new > out);
        if let Ok(before) = self.out.fetch_update(Relaxed, Relaxed, more) {
            let moved = bytes.min(self.bytes - before) as isize;
            add(Some(account), -moved);
            account.out.fetch_add(moved, Relaxed);
        }
    }
    /// Whether the account that this thread works for is charged.
    pub(crate) fn is_own(&self) -> bool {
        self.account.is_some() && same(self.account, Account::current())
    }
    /// Takes back what the consumer had.
    pub(crate) fn take_back(&self) {
        let Some(account) = self.account else { return };
        let back = self.out.swap(0, Relaxed) as isize;
        account.out.fetch_sub(back, Relaxed);
        add(Some(account), back);
    }
    /// Bytes that are not the consumer's.
    pub(crate) fn counted(&mut self) -> usize {
        self.bytes - *self.out.get_mut()
    }
    /// So many bytes from now on. More are asked for.
    fn resize(&mut self, bytes: usize) {
        step::ask(bytes.saturating_sub(self.bytes));
        count(self.account, bytes as isize - self.bytes as isize);
        self.bytes = bytes;
    }
    /// Charges them to whoever this thread works for.
    pub(crate) fn take_over(&mut self) {
        let account = Account::current();
        if !same(self.account, account) && *self.out.get_mut() == 0 {
            count(self.account, -(self.bytes as isize));
            count(account, self.bytes as isize);
            self.account = account;
        }
    }
}

/// Memory that lies in no block of ours, a library's for instance, as long as this lives.
#[must_use]
pub struct Scratch {
    charge: Charge,
    is_given_back: bool,
}

/// Charges so many bytes to whoever this thread works for, until the result is dropped.
pub fn scratch(bytes: usize) -> Scratch {
    Scratch { charge: Charge::new(bytes), is_given_back: false }
}

/// The same for what is there already, whoever this thread works for.
pub fn taken(bytes: usize, account: Option<&'static Account>) -> Scratch {
    let _entered = Account::enter(account);
    Scratch { charge: Charge::taken(bytes), is_given_back: false }
}

impl Scratch {
    /// So many bytes from now on; may unwind where they are more, as `scratch` does.
    pub fn resize(&mut self, bytes: usize) {
        self.charge.resize(bytes);
    }
    /// For memory that is the C library's, and free by the time this is dropped: it is then given back to the system.
    pub fn given_back(mut self) -> Scratch {
        self.is_given_back = true;
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_given_back {
            freed::give_back(self.charge.bytes, self.charge.account);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let out = *self.out.get_mut();
        count(self.account, -((self.bytes - out) as isize));
        if let Some(account) = self.account.filter(|_| out > 0) {
            account.out.fetch_sub(out as isize, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buf;

    #[test]
    fn blocks_are_charged_until_they_are_dropped() {
        let account = Account::open(1 << 30, usize::MAX);
        let entered = Account::enter(Some(account));
        let (large, small) = (Buf::new(1 << 20), Buf::new(100));
        let elsewhere = std::thread::spawn(|| (Account::current().is_none(), Buf::new(1 << 20))).join().unwrap();
        assert!(elsewhere.0);
        drop(entered);
        assert!(Account::current().is_none());
        assert_eq!((account.live(), account.out()), ((1 << 20) + 128 + 192, 0));
        large.hand_out(1000);
        assert_eq!((account.live(), account.out()), ((1 << 20) + 128 + 192 - 1000, 1000));
        large.hand_out(1 << 20);
        large.hand_out(1 << 20);
        assert_eq!((account.live(), account.out()), (128 + 192, 1 << 20));
        assert!(!large.is_own(), "this thread works for nobody");
        let entered = Account::enter(Some(account));
        assert!(large.is_own());
        drop(entered);
        large.take_back();
        large.take_back();
        assert_eq!((account.live(), account.out()), ((1 << 20) + 128 + 192, 0));
        large.hand_out(1 << 20);
        std::thread::spawn(|| drop((large, small))).join().unwrap();
        assert_eq!((account.live(), account.out()), (0, 0));
        account.close();
    }

    #[test]
    fn limits_add_up_to_that_of_the_process_at_most() {
        let made = |limit, all, open: bool| -> &'static Account {
            let account: &'static Account = Box::leak(Box::default());
            account.limit.store(limit, Relaxed);
            account.all.store(all, Relaxed);
            account.open.store(open, Relaxed);
            account
        };
        assert_eq!(shared(&[made(8, 8, false)]), usize::MAX);
        assert_eq!(shared(&[made(800, usize::MAX, true), made(80, usize::MAX, true), made(8, 8, false)]), 770);
        assert_eq!(shared(&[made(800, 1600, true), made(800, 1600, true), made(800, 1600, true)]), 1400);
    }

    #[test]
    fn parts_are_charged_once_and_results_of_others_are_taken_over() {
        let account = Account::open(1 << 30, usize::MAX);
        let mut whole = Buf::new(1 << 20);
        let entered = Account::enter(Some(account));
        whole.take_over();
        assert_eq!(account.live(), 1 << 20);
        let part = whole.split_to(1000).unwrap();
        drop(whole);
        drop(entered);
        assert_eq!(account.live(), 1 << 20, "memory goes with its last part");
        drop(part);
        TALLY.with(Tally::settle);
        assert_eq!(account.live(), 0);
        account.reserve(5);
        assert_eq!(account.live(), 5);
        account.reserve(-5);
        let entered = Account::enter(Some(account));
        let taken = scratch(1 << 20);
        assert_eq!(account.live(), 1 << 20);
        drop(taken);
        drop(entered);
        assert_eq!(account.live(), 0);
        account.close();
    }
}
