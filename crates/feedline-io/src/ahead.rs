//! Bytes read ahead of their use: one bound for the process, shared evenly by the readers that are open, and an eighth
//! of what a pipeline may have, shared evenly by its own.
//!
//! 1. A reader asks before each read, and gives back when it hands the bytes on: bytes on their way and bytes that lie
//!    ready count alike.
//! 2. It may hold its own part (the bound through the number of readers) as long as all together stay within the bound.
//! 3. A reader that holds nothing always may read, so nothing can deadlock; where the bound is used up it gets `FLOOR`
//!    bytes. All readers together hold at most the bound and `FLOOR` for each of them.
//! 4. A read whose size is not the reader's to choose passes alone, however large it is.

use crate::account::Account;
use crate::settings::settings;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// What a reader gets in any case.
pub(crate) const FLOOR: usize = 64 << 10;

/// What all readers of the process may read ahead.
pub fn ahead_bytes() -> usize {
    settings().ahead_bytes
}

/// The counts of a process.
#[derive(Debug)]
struct Ahead {
    readers: AtomicUsize,
    held: AtomicUsize,
    /// The process that they belong to: after a fork the child's readers are its own.
    process: AtomicU32,
}

impl Ahead {
    const fn new() -> Ahead {
        Ahead { readers: AtomicUsize::new(0), held: AtomicUsize::new(0), process: AtomicU32::new(0) }
    }
}

static AHEAD: Ahead = Ahead::new();

/// One reader's part of it.
#[derive(Debug)]
pub(crate) struct Share {
    all: &'static Ahead,
    /// The pipeline that the reader belongs to.
    own: Option<&'static Account>,
    held: usize,
    /// More than this is of no use to the reader.
    most: usize,
    limit: usize,
}

impl Share {
    pub(crate) fn open(most: usize) -> Share {
        Share::of(&AHEAD, Account::current(), most, settings().ahead_bytes)
    }

    fn of(all: &'static Ahead, own: Option<&'static Account>, most: usize, limit: usize) -> Share {
        let process = std::process::id();
        if all.process.swap(process, Relaxed) != process {
            all.readers.store(0, Relaxed);
            all.held.store(0, Relaxed);
        }
        all.readers.fetch_add(1, Relaxed);
        if let Some(own) = own {
            own.readers.fetch_add(1, Relaxed);
        }
        Share { all, own, held: 0, most, limit }
    }

    /// The reader's part as things are now.
    pub(crate) fn part(&self) -> usize {
        let among = |bytes: usize, readers: &AtomicUsize| bytes / readers.load(Relaxed).max(1);
        let own = self.own.map_or(usize::MAX, |own| among(own.limit() / 8, &own.readers));
        self.most.min(among(self.limit, &self.all.readers)).min(own).max(FLOOR)
    }

    /// The size of a read for a reader that would like `want` bytes: there should be room for two.
    pub(crate) fn fit(&self, want: usize) -> usize {
        want.min((self.part() / 2).max(FLOOR)).max(1)
    }

    /// Takes `want` bytes if there is room.
    pub(crate) fn take(&mut self, want: usize) -> bool {
        if self.held.saturating_add(want) > self.part() {
            return false;
        }
        let room = |held: usize| held.checked_add(want).filter(|all| *all <= self.limit);
        if self.all.held.fetch_update(Relaxed, Relaxed, room).is_err() {
            return false;
        }
        self.held += want;
        true
    }

    /// Takes them whether or not there is room.
    pub(crate) fn force(&mut self, want: usize) {
        self.all.held.fetch_add(want, Relaxed);
        self.held += want;
    }

    pub(crate) fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        give_back(&self.all.held, bytes);
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        give_back(&self.all.held, self.held);
        give_back(&self.all.readers, 1);
        if let Some(own) = self.own {
            give_back(&own.readers, 1);
        }
    }
}

/// Never below zero: what a parent process took may be given back in its child.
fn give_back(count: &AtomicUsize, n: usize) {
    let _ = count.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(n)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_stay_within_the_bound() {
        static ALL: Ahead = Ahead::new();
        let mut one = Share::of(&ALL, None, usize::MAX, 1 << 20);
        assert!(one.take(1 << 20) && !one.take(1));
        // The second may have half of it by rights, but gets only what it forces while the first holds all.
        let mut two = Share::of(&ALL, None, usize::MAX, 1 << 20);
        assert_eq!((one.part(), two.part()), (512 << 10, 512 << 10));
        assert!(!two.take(FLOOR));
        two.force(FLOOR);
        one.give(768 << 10);
        // The first is at its half, a quarter is free, and the second may take it.
        assert!(two.take(256 << 10) && !two.take(512 << 10));
        assert_eq!(ALL.held.load(Relaxed), (256 << 10) + FLOOR + (256 << 10));
        drop((one, two));
        assert_eq!((ALL.held.load(Relaxed), ALL.readers.load(Relaxed)), (0, 0));
    }

    #[test]
    fn many_readers_read_small_blocks() {
        static ALL: Ahead = Ahead::new();
        let few: Vec<Share> = (0..4).map(|_| Share::of(&ALL, None, usize::MAX, 64 << 20)).collect();
        assert_eq!(few[0].fit(4 << 20), 4 << 20);
        let many: Vec<Share> = (0..1000).map(|_| Share::of(&ALL, None, usize::MAX, 64 << 20)).collect();
        assert_eq!(many[0].fit(4 << 20), FLOOR);
        drop(many);
        assert_eq!(few[0].fit(4 << 20), 4 << 20);
    }

    #[test]
    fn a_pipeline_reads_ahead_within_its_limit() {
        static ALL: Ahead = Ahead::new();
        let account = Account::open(16 << 20, usize::MAX);
        let own: Vec<Share> = (0..4).map(|_| Share::of(&ALL, Some(account), usize::MAX, 64 << 20)).collect();
        assert_eq!(own[0].part(), 512 << 10);
        drop(own);
        assert_eq!(account.readers.load(Relaxed), 0);
        account.close();
    }
}
