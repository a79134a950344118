//! What a segment chooses for itself while it runs: what was seen of its queue, and what people are told. The decisions
//! are `tune`'s.

use super::super::bytes_text;
use super::super::meter::Lane;
use super::super::stage::Wait;
use super::super::sync::{Mutex, lock};
use super::{Bounds, Queue, Shared};
use crate::tune::{Ahead, Because, Depth, Pace};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A queue is looked at after so long, and so many chunks.
const LOOK: Duration = Duration::from_secs(1);
const CHUNKS: u64 = 16;

/// What a queue may hold, and what was seen of it since the last look.
pub struct Watched {
    depth: Depth,
    pace: Pace,
    since: Option<Instant>,
    chunks: u64,
    fullest: usize,
    emptiest: usize,
}

impl Watched {
    pub fn new(bytes: usize) -> Watched {
        let depth = Depth::new(bytes);
        Watched { depth, pace: Pace::default(), since: None, chunks: 0, fullest: 0, emptiest: usize::MAX }
    }
    pub fn bytes(&self) -> usize {
        self.depth.bytes
    }
    /// The segment stood still for so long.
    pub fn note_still(&mut self, wait: Wait, time: Duration) {
        if let Wait::Room = wait {
            self.pace.room_ns += time.as_nanos() as u64;
        }
    }
    /// A chunk of so many bytes is taken out of a queue that has so many.
    pub fn note_taken(&mut self, chunk: usize, queue: usize) {
        self.chunks += 1;
        self.pace.taken += chunk;
        self.pace.chunk = self.pace.chunk.max(chunk);
        (self.fullest, self.emptiest) = (self.fullest.max(queue), self.emptiest.min(queue));
    }
    /// The last look is so long ago that it is time for another.
    fn is_due(&mut self) -> bool {
        self.chunks >= CHUNKS && self.since.get_or_insert_with(Instant::now).elapsed() >= LOOK
    }
    fn next(&mut self, calls: usize, most: usize) -> Depth {
        let now = Instant::now();
        let ns = self.since.replace(now).map_or(0, |since| now.duration_since(since).as_nanos() as u64);
        // What waited longer than this was seen did so for all of it.
        let room_ns = self.pace.room_ns.min(ns);
        let pace = Pace { ns, room_ns, calls, dip: self.fullest.saturating_sub(self.emptiest), ..self.pace };
        *self = Watched { since: self.since, ..Watched::new(0) }.with(self.depth.next(&pace, most));
        self.depth
    }
    fn with(self, depth: Depth) -> Watched {
        Watched { depth, ..self }
    }
}

/// What people were told last, and when. Of passes that are over soon they are not told at all.
pub struct Told {
    rows: AtomicUsize,
    last: Mutex<(Instant, usize)>,
}

impl Told {
    pub fn new(bytes: usize) -> Told {
        Told { rows: AtomicUsize::new(0), last: Mutex::new((Instant::now(), bytes)) }
    }
}

/// How often people are told of a segment's rows.
const TELL: Duration = Duration::from_secs(2);

impl Shared {
    /// The consumer found nothing. If it has less ahead than it could have, that ends at once.
    pub(super) fn note_empty(&self, queue: &mut Queue) {
        queue.watched.pace.waits += 1;
        if queue.watched.bytes() < self.bounds.bytes && !queue.done {
            self.choose_depth(queue);
        }
    }
    /// Something was taken: now and then it is time to see how much is worth having ready.
    pub(super) fn watch(&self, queue: &mut Queue) {
        if self.bounds.tuned && queue.watched.is_due() {
            self.choose_depth(queue);
        }
    }
    fn choose_depth(&self, queue: &mut Queue) {
        let before = queue.watched.bytes();
        let calls = if self.functions.is_empty() { 1 } else { self.at_once() };
        let Depth { bytes, why, .. } = queue.watched.next(calls, self.bounds.bytes);
        if bytes == before {
            return;
        }
        self.lane.chosen.set_bytes(bytes, why);
        // Giving back takes some steps: the last of them, at half or less, is worth a line. So is getting it back.
        let is_news = |last: usize| why == Ahead::Waited || bytes.saturating_mul(2) <= last;
        let mut last = lock(&self.told.last);
        if is_news(last.1) {
            *last = (Instant::now(), bytes);
            log::debug!(
                "{}: up to {} lie ready for the consumer now (before: {}): {}",
                self.name,
                bytes_text(bytes),
                bytes_text(before),
                ahead_text(why)
            );
        }
    }
    /// Takes note of why chunks have so many rows. People are told of much fewer or many more, once that has lasted.
    pub(super) fn chose_rows(&self, rows: usize, why: Because) {
        self.lane.chosen.set_rows_why(why);
        let before = self.told.rows.load(Relaxed);
        if before > 0 && rows < before.saturating_mul(2) && rows.saturating_mul(2) > before {
            return;
        }
        if why == Because::Growing || !log::log_enabled!(log::Level::Debug) {
            return;
        }
        let mut last = lock(&self.told.last);
        if last.0.elapsed() >= TELL {
            last.0 = Instant::now();
            self.told.rows.store(rows, Relaxed);
            log::debug!(
                "{}: chunks have up to {rows} row{} now: {}",
                self.name,
                if rows == 1 { "" } else { "s" },
                rows_text(why)
            );
        }
    }
}

/// What a segment begins with.
pub fn note_bounds(lane: &Lane, bounds: &Bounds) {
    let chosen = &lane.chosen;
    chosen.set_bytes(bounds.bytes, Ahead::Most);
    chosen.most_bytes.store(bounds.bytes, Relaxed);
    chosen.elements.store(if bounds.rows == usize::MAX { 0 } else { bounds.rows }, Relaxed);
    if bounds.chunk_rows.is_some() {
        chosen.set_rows_why(Because::Fixed);
    }
}

/// In words.
pub fn rows_text(why: Because) -> &'static str {
    match why {
        Because::Growing => "still being found",
        Because::Fixed => "chunk_rows asks for it",
        Because::Batch => "a whole batch at a time",
        Because::Time => "a step then takes long against its overhead, and no longer",
        Because::Bytes => "what a step makes then fits the processor's cache and the queue",
        Because::Input => "its input gives no more at a time",
        Because::Most => "more would make nothing faster",
        Because::Message => "a message to another process then takes some milliseconds",
    }
}

pub fn ahead_text(why: Ahead) -> &'static str {
    match why {
        Ahead::Most => "all that a queue may hold: a quarter of memory_limit, or 33.6 MB if that is less",
        Ahead::Steady => "the pipeline is faster than its consumer, and both are steady",
        Ahead::Waited => "with less the consumer had to wait",
    }
}
