//! What one step of a pipeline takes while it runs, and whether it may take more.
//!
//! 1. What a function makes of a row can have any size, and nobody knows it before it is made: a picture behind its header,
//!    a string that was compressed. So a thread that runs a step counts what the step takes, now and at most.
//! 2. Before a step that has become large takes more, it asks. One in front of all others may take what the limit allows;
//!    one behind it only what leaves as much again, because the one in front may be just as large.
//! 3. Where there is no room the step unwinds with `NoRoom` and so drops all that it made. Kernels need to know nothing of
//!    it, and no thread waits for memory. Whoever runs steps does them again later, or says that they can never fit.
//! 4. Only steps ask that can be done twice. One with code of the user's asks once, before that is called: whether what
//!    such steps took before fits, and whether those that came first have left anything. Then it takes what it takes.

use crate::Account;
use std::cell::Cell;

/// A step that takes less than this part of the limit does not ask, nor one that takes less than this: small rows pass,
/// however low a limit is.
const SMALL: usize = 16;
const SMALL_BYTES: usize = 64 << 10;

/// What each of so many that work elsewhere may send back unasked, so that all of them together are small.
pub fn small_share(limit: usize, at_once: usize) -> usize {
    (limit / SMALL / at_once.max(1)).max(SMALL_BYTES)
}

/// Where a step stands among those of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It cannot be done again.
    Free,
    /// It cannot be done again once it has called what it calls; such steps took so many bytes before, or 0 if none is known.
    Once(usize),
    /// Others are in front of it; such steps took so many bytes before.
    Behind(usize),
    /// What comes behind it waits for it.
    First,
}

/// There was no room for a step that would have taken `bytes` in all, beside its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    pub bytes: usize,
    pub beside: usize,
}

impl NoRoom {
    /// Both.
    pub fn all(self) -> usize {
        self.bytes.saturating_add(self.beside)
    }
}

struct Now {
    standing: Cell<Standing>,
    /// It may take so much, whatever there is.
    most: Cell<usize>,
    /// What its rows take, which are there beside what it makes of them.
    beside: Cell<usize>,
    /// Bytes that it made less those that it dropped.
    taken: Cell<isize>,
    peak: Cell<isize>,
}

thread_local! {
    static NOW: Now = const {
        Now {
            standing: Cell::new(Standing::Free),
            most: Cell::new(0),
            beside: Cell::new(0),
            taken: Cell::new(0),
            peak: Cell::new(0),
        }
    };
}

/// As long as it lives, what this thread takes is that of one step.
#[must_use]
pub struct Step {
    before: (Standing, usize, usize, isize, isize),
}

impl Step {
    /// It may take `most` bytes in all.
    pub fn begin(standing: Standing, most: usize) -> Step {
        Step::of(standing, most, 0)
    }
    /// The same for a step whose rows take `beside`. What it makes of them and they together may be more only where the pass
    /// has room for that.
    pub fn of(standing: Standing, most: usize, beside: usize) -> Step {
        NOW.with(|now| Step {
            before: (
                now.standing.replace(standing),
                now.most.replace(most),
                now.beside.replace(beside),
                now.taken.take(),
                now.peak.take(),
            ),
        })
    }
    /// Asks for so many bytes, which `make` has made on another thread: they count as the step's.
    pub fn elsewhere<R>(bytes: usize, make: impl FnOnce() -> R) -> R {
        ask(bytes);
        let before = NOW.with(|now| now.taken.get());
        let made = make();
        if NOW.with(|now| now.taken.get()) < before + bytes as isize {
            count(bytes as isize);
        }
        made
    }
    /// Bytes that it had at once, at most.
    pub fn peak(&self) -> usize {
        NOW.with(|now| now.peak.get().max(0) as usize)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        NOW.with(|now| {
            now.standing.set(self.before.0);
            now.most.set(self.before.1);
            now.beside.set(self.before.2);
            now.taken.set(self.before.3);
            now.peak.set(self.before.4);
        });
    }
}

/// As long as it lives, what this thread takes counts as the step's, and nobody asks.
#[must_use]
pub struct Unasked(Standing);

/// For whoever has asked for all of it, or has bounds of its own.
pub fn unasked() -> Unasked {
    Unasked(NOW.with(|now| now.standing.replace(Standing::Free)))
}

impl Drop for Unasked {
    fn drop(&mut self) {
        NOW.with(|now| now.standing.set(self.0));
    }
}

/// Counts bytes that were made, or dropped.
pub(crate) fn count(bytes: isize) {
    NOW.with(|now| {
        let taken = now.taken.get() + bytes;
        now.taken.set(taken);
        now.peak.set(now.peak.get().max(taken));
    });
}

/// Unwinds if the step that this thread runs is not to take so many bytes more. Blocks ask for themselves; this is for
/// whoever knows before the first of several what all of them take.
pub fn ask(bytes: usize) {
    let refused = NOW.with(|now| {
        let standing = now.standing.get();
        if matches!(standing, Standing::Free | Standing::Once(_)) {
            return None;
        }
        let all = usize::try_from(now.taken.get()).unwrap_or(0).saturating_add(bytes);
        let is_large = |account: &&Account| all >= (account.limit() / SMALL).max(SMALL_BYTES);
        let account = Account::current().filter(is_large)?;
        let (live, with_rows) = (account.live().saturating_add(bytes), all.saturating_add(now.beside.get()));
        let fits = match standing {
            Standing::Behind(others) => live.saturating_add(all.max(others)) <= account.limit(),
            // What its rows take is there for sure; what is there in all may be a little more.
            _ => with_rows <= now.most.get() || live <= account.limit() + account.limit() / SMALL,
        };
        (!fits || all > now.most.get()).then_some(NoRoom { bytes: all, beside: now.beside.get() })
    });
    unwind(refused);
}

/// Before code of the user's is called: unwinds if there is no room for what it is likely to take. By then whoever waited for
/// a lock, Python's for instance, sees what those have made who had it first.
pub fn ask_once() {
    let refused = NOW.with(|now| {
        let Standing::Once(others) = now.standing.get() else { return None };
        now.standing.set(Standing::Free);
        let account = Account::current()?;
        let is_large = others >= (account.limit() / SMALL).max(SMALL_BYTES);
        // The one in front may be just as large.
        let coming = if is_large { others.saturating_mul(2) } else { 0 };
        let fits = account.live().saturating_add(coming) <= account.limit();
        (!fits).then_some(NoRoom { bytes: others, beside: 0 })
    });
    unwind(refused);
}

fn unwind(refused: Option<NoRoom>) {
    if let Some(no_room) = refused.filter(|_| !std::thread::panicking()) {
        // Nothing is wrong: no hook is called, nothing printed.
        std::panic::resume_unwind(Box::new(no_room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buf;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn refused(standing: Standing, most: usize, make: impl FnOnce()) -> Option<usize> {
        let step = Step::begin(standing, most);
        let made = catch_unwind(AssertUnwindSafe(make));
        drop(step);
        made.err().map(|panic| panic.downcast_ref::<NoRoom>().expect("no other panic").bytes >> 20)
    }

    #[test]
    fn steps_that_would_take_too_much_are_ended() {
        let account = Account::open(64 << 20, usize::MAX);
        let _entered = Account::enter(Some(account));
        let make =
            |sizes: &'static [usize]| move || drop(sizes.iter().map(|mb| Buf::new(mb << 20)).collect::<Vec<_>>());
        let all = 64 << 20;
        assert_eq!(refused(Standing::First, all, make(&[40])), None);
        assert_eq!(refused(Standing::First, all, make(&[40, 40])), Some(80));
        assert_eq!(refused(Standing::First, all / 4, make(&[1, 2, 10, 4])), Some(17));
        assert_eq!(refused(Standing::Free, 0, make(&[40, 40])), None);
        // As much again is left for the one in front, or as much as others took.
        assert_eq!(refused(Standing::Behind(0), all, make(&[28])), None);
        assert_eq!(refused(Standing::Behind(0), all, make(&[40])), Some(40));
        assert_eq!(refused(Standing::Behind(50 << 20), all, make(&[20])), Some(20));
        assert_eq!(refused(Standing::Behind(50 << 20), all, make(&[3])), None);
        // What others have counts; what was given back does not.
        let held = Buf::new(40 << 20);
        assert_eq!(refused(Standing::Behind(0), all, make(&[20])), Some(20));
        drop(held);
        let one_by_one = || (0..4).for_each(|_| drop(Buf::new(28 << 20)));
        assert_eq!(refused(Standing::Behind(0), all, one_by_one), None);
        // What its rows take counts, unless there is room for all of it.
        let beside = |mb: usize| {
            let step = Step::of(Standing::First, all, mb << 20);
            let made = catch_unwind(AssertUnwindSafe(make(&[40])));
            drop(step);
            made.is_ok()
        };
        assert_eq!([beside(0), beside(30)], [true, true]);
        let rows = Buf::new(30 << 20);
        assert_eq!([beside(24), beside(30)], [true, false]);
        drop(rows);
        assert_eq!(account.live(), 0, "what was made is dropped");
        account.close();
    }

    #[test]
    fn what_cannot_be_done_twice_asks_before_it_begins() {
        let account = Account::open(64 << 20, usize::MAX);
        let _entered = Account::enter(Some(account));
        let call = || {
            ask_once();
            // It has begun.
            drop([Buf::new(40 << 20), Buf::new(40 << 20)]);
            ask_once();
        };
        let once = |others: usize| refused(Standing::Once(others << 20), 0, call);
        assert_eq!((once(0), once(1), once(32), once(33)), (None, None, None, Some(33)));
        let held = Buf::new(48 << 20);
        assert_eq!((once(0), once(1), once(8), once(9)), (None, None, None, Some(9)));
        let more = Buf::new(32 << 20);
        assert_eq!((once(0), once(1)), (Some(0), Some(1)));
        drop((held, more));
        account.close();
    }

    #[test]
    fn steps_count_what_they_take() {
        let outer = Step::begin(Standing::Free, 0);
        let kept = Buf::new(1 << 20);
        let inner = Step::begin(Standing::Free, 0);
        drop((Buf::new(2 << 20), Buf::new(1 << 20)));
        drop(Buf::new(1 << 20));
        assert_eq!(inner.peak(), 3 << 20);
        drop(inner);
        drop(kept);
        assert_eq!(outer.peak(), 1 << 20);
    }
}
