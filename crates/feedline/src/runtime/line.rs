//! Who wants Python's lock stands in line.
//!
//! The interpreter gives its lock to whoever is there first. A worker that has called Python for one chunk and wants to do so
//! for the next always is, since the others have to be woken; and as long as it lets go more often than every switch interval
//! nobody ever asks it to. The consumer, or the worker that has the element that comes next, then gets nothing for a tenth of
//! a second and more.
//!
//! 1. Consumers go first: while one wants the lock, no worker takes it again.
//! 2. A worker goes first that has waited for `PATIENCE`. Passing the lock on more often costs more than it is worth.
//! 3. Nobody waits here for more than a `MOMENT`. If the lock was not taken meanwhile somebody has it for long, and the
//!    interpreter's own rule is a good one.
//!
//! These are counters and no lock, so that nothing is held when the process is forked: its child forgets who waited.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(5);
const MOMENT: Duration = Duration::from_millis(1);
/// How often one looks whether it is one's turn.
const LOOK: Duration = Duration::from_micros(20);

/// All that want it.
#[derive(Debug, Default)]
pub struct Line {
    consumers: AtomicUsize,
    workers: AtomicUsize,
    /// When the first of these workers began to wait, in nanoseconds, or when one of them last got the lock.
    since: AtomicU64,
    /// How often somebody who stood in line got it.
    got: AtomicU64,
}

impl Line {
    pub const fn new() -> Line {
        Line {
            consumers: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            got: AtomicU64::new(0),
        }
    }
    /// Whether a worker that comes now should let somebody go first.
    fn is_due(&self, now: u64) -> bool {
        let waited = now.saturating_sub(self.since.load(Relaxed));
        self.consumers.load(Relaxed) > 0 || (self.workers.load(Relaxed) > 0 && waited >= PATIENCE.as_nanos() as u64)
    }
    /// Lets others go first if they are due.
    fn let_others(&self) {
        let (got, began) = (self.got.load(Relaxed), now());
        let mut at = began;
        while self.is_due(at) && self.got.load(Relaxed) == got && at - began < MOMENT.as_nanos() as u64 {
            std::thread::sleep(LOOK);
            at = now();
        }
    }
    /// A worker wants the lock, and lets others go first that are due.
    pub fn worker(&self) -> Waits<'_> {
        self.let_others();
        if self.workers.fetch_add(1, Relaxed) == 0 {
            self.since.store(now(), Relaxed);
        }
        Waits { line: self, consumer: false }
    }
    /// A consumer wants it back.
    pub fn consumer(&self) -> Waits<'_> {
        self.consumers.fetch_add(1, Relaxed);
        Waits { line: self, consumer: true }
    }
    /// The child of a fork has none of the threads that waited.
    pub fn forget(&self) {
        self.consumers.store(0, Relaxed);
        self.workers.store(0, Relaxed);
    }
}

/// Somebody stands in line, until it has the lock and drops this.
pub struct Waits<'a> {
    line: &'a Line,
    consumer: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let line = self.line;
        if self.consumer {
            line.consumers.fetch_sub(1, Relaxed);
        } else {
            line.workers.fetch_sub(1, Relaxed);
            line.since.store(now(), Relaxed);
        }
        line.got.fetch_add(1, Relaxed);
    }
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_go_first_and_workers_that_have_waited() {
        let line = Line::new();
        let patience = PATIENCE.as_nanos() as u64;
        // By its own clock: the test may lose the processor at any place.
        let since = || line.since.load(Relaxed);
        assert!(!line.is_due(u64::MAX), "nobody waits");
        let worker = line.worker();
        assert!(!line.is_due(since() + patience - 1) && line.is_due(since() + patience));
        let consumer = line.consumer();
        assert!(line.is_due(since()));
        drop(consumer);
        assert!(!line.is_due(since()) && line.is_due(since() + patience));
        let (second, before) = (line.worker(), since());
        drop(worker);
        assert!(since() > before && !line.is_due(since()), "the second waits from now on");
        assert!(line.is_due(since() + patience));
        drop(second);
        assert!(!line.is_due(u64::MAX));
    }

    #[test]
    fn nobody_is_waited_for_without_end() {
        let line = Line::new();
        let _consumer = line.consumer();
        // It never gets the lock: a worker goes on nevertheless.
        drop(line.worker());
        drop(line.worker());
        assert_eq!(line.got.load(Relaxed), 2);
    }

    #[test]
    fn a_child_forgets_who_waited() {
        let line = Line::new();
        let (worker, consumer) = (line.worker(), line.consumer());
        line.forget();
        assert!(!line.is_due(u64::MAX));
        std::mem::forget((worker, consumer));
    }
}
