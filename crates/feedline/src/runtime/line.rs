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
//! These are numbers and no lock, so that nothing is held when the process is forked: its child forgets who waited.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(5);
const MOMENT: Duration = Duration::from_millis(1);
/// How often one looks whether it is one's turn.
const LOOK: Duration = Duration::from_micros(20);

/// Workers that can stand in line. Where there are more, the others take what they get.
const PLACES: usize = 64;
/// Nobody stands there.
const FREE: u64 = 0;

/// All that want it.
#[derive(Debug)]
pub struct Line {
    consumers: AtomicUsize,
    /// Since when each of the workers waits, in nanoseconds.
    workers: [AtomicU64; PLACES],
    /// How often somebody who stood in line got it.
    got: AtomicU64,
}

impl Default for Line {
    fn default() -> Line {
        Line::new()
    }
}

impl Line {
    pub const fn new() -> Line {
        Line {
            consumers: AtomicUsize::new(0),
            workers: [const { AtomicU64::new(FREE) }; PLACES],
            got: AtomicU64::new(0),
        }
    }
    /// Whether a worker that comes now should let somebody go first.
    fn is_due(&self, now: u64) -> bool {
        let has_waited = |since: u64| since != FREE && now.saturating_sub(since) >= PATIENCE.as_nanos() as u64;
        self.consumers.load(Relaxed) > 0 || self.workers.iter().any(|since| has_waited(since.load(Relaxed)))
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
        let since = now();
        let stands = |place: &&AtomicU64| place.compare_exchange(FREE, since, Relaxed, Relaxed).is_ok();
        Waits { line: self, worker: self.workers.iter().find(stands), consumer: false }
    }
    /// A consumer wants it back.
    pub fn consumer(&self) -> Waits<'_> {
        self.consumers.fetch_add(1, Relaxed);
        Waits { line: self, worker: None, consumer: true }
    }
    /// The child of a fork has none of the threads that waited.
    pub fn forget(&self) {
        self.consumers.store(0, Relaxed);
        self.workers.iter().for_each(|place| place.store(FREE, Relaxed));
    }
}

/// Somebody stands in line, until it has the lock and drops this.
pub struct Waits<'a> {
    line: &'a Line,
    worker: Option<&'a AtomicU64>,
    consumer: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.consumer {
            self.line.consumers.fetch_sub(1, Relaxed);
        }
        if let Some(place) = self.worker {
            place.store(FREE, Relaxed);
        }
        self.line.got.fetch_add(1, Relaxed);
    }
}

/// Nanoseconds since somebody first asked; never `FREE`.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_go_first_and_workers_that_have_waited() {
        let line = Line::new();
        let patience = PATIENCE.as_nanos() as u64;
        // By its own clock: the test may lose the processor at any place.
        let since = |waits: &Waits<'_>| waits.worker.unwrap().load(Relaxed);
        assert!(!line.is_due(u64::MAX), "nobody waits");
        let worker = line.worker();
        let began = since(&worker);
        assert!(!line.is_due(began + patience - 1) && line.is_due(began + patience));
        let consumer = line.consumer();
        assert!(line.is_due(began));
        drop(consumer);
        assert!(!line.is_due(began) && line.is_due(began + patience));
        // One that always gets the lock at once does not make it wait longer.
        drop(line.worker());
        assert!(line.is_due(began + patience));
        let second = line.worker();
        drop(worker);
        assert!(!line.is_due(since(&second) + patience - 1) && line.is_due(since(&second) + patience));
        drop(second);
        assert!(!line.is_due(u64::MAX));
    }

    #[test]
    fn where_too_many_wait_the_others_do_not_stand_in_line() {
        let line = Line::new();
        let mut all: Vec<Waits<'_>> = (0..PLACES + 3).map(|_| line.worker()).collect();
        assert_eq!(all.iter().filter(|waits| waits.worker.is_none()).count(), 3);
        all.clear();
        assert!(line.worker().worker.is_some() && !line.is_due(u64::MAX));
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
