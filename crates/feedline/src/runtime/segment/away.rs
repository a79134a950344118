//! Chunks of a segment that are worked on elsewhere: sent, and received in whatever order they come back.

use super::super::stage::Item;
use super::super::sync::atomic::Ordering::Relaxed;
use super::super::sync::lock;
use super::{Place, Shared};
use crate::element::Chunk;
use crate::error::Error;
use crate::expr::{Answer, Part, Reply};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

impl Shared {
    /// Has a chunk worked on elsewhere.
    pub(super) fn send(&self, number: u64, chunk: Chunk, place: Place, start: Instant) {
        // Somebody runs a step of this segment, and holds it.
        let Some(shared) = self.me.upgrade() else { return };
        let bytes = chunk.nbytes();
        let away = Away { shared, number, row: place.row, sent: chunk.clone(), bytes, given: false };
        let function = &self.functions[0].0;
        // After a panic the reply is dropped, which gives an error in its place.
        let _ = catch_unwind(AssertUnwindSafe(|| function.send(chunk, place.slots, Box::new(away))));
        let ns = start.elapsed().as_nanos() as u64;
        self.note_cost(ns);
        self.lane.step.note(ns, 0, None);
    }

    /// Takes what came back.
    fn receive(&self, away: &Away, answer: Answer) {
        let items = Item::of_parts(answer.parts, &away.sent);
        let fails = items.iter().filter(|i| matches!(i, Item::Fail(_))).count();
        let meter = &self.functions[0].1;
        let rows = items.iter().map(|i| if let Item::Rows(chunk) = i { chunk.rows() } else { 0 }).sum();
        meter.count(rows, answer.busy_ns, 0, || items.iter().map(|i| i.nbytes()).sum());
        meter.fails.fetch_add(fails as u64, Relaxed);
        self.note_fails(away.row, &items);
        let bytes: usize = items.iter().map(|i| i.nbytes()).sum();
        if self.bounds.chunk_rows.is_none() {
            let most = feedline_io::small_share(self.budget.limit(), self.bounds.parallel) / 2;
            let (asked, rows) = (self.want.load(Relaxed), away.sent.rows());
            let want = crate::tune::next_rows_away(asked, rows, bytes.max(away.bytes), answer.busy_ns, most);
            self.want.store(want, Relaxed);
            self.meter.chunk_rows.store(want as u64, Relaxed);
            self.chose_rows(want, crate::tune::Because::Message);
        }
        if answer.is_end {
            self.end_after(away.number);
        }
        // What was sent and what came back lie in memory that both sides have, as long as somebody is at it.
        self.fill(away.number, items, bytes, away.bytes + bytes, true);
        self.pump();
    }

    /// Nothing comes after this slot, also not what others are still working on.
    fn end_after(&self, number: u64) {
        let mut guard = lock(&self.queue);
        let queue = &mut *guard;
        queue.done = true;
        let next = (number.saturating_sub(queue.first) as usize).saturating_add(1);
        // One before it may have been the end already.
        if self.bounds.ordered && next <= queue.slots.len() {
            for slot in queue.slots.drain(next..) {
                queue.bytes -= slot.bytes;
                queue.rows -= slot.rows;
            }
        }
    }
}

/// A chunk that is worked on elsewhere: whoever does it gives the results to this.
struct Away {
    shared: Arc<Shared>,
    /// Its slot.
    number: u64,
    /// Its first row, counted as in `Place`.
    row: u64,
    sent: Chunk,
    /// Of what was sent.
    bytes: usize,
    given: bool,
}

impl Reply for Away {
    fn is_wanted(&self) -> bool {
        !self.shared.gone()
    }
    fn is_awaited(&self) -> bool {
        let queue = lock(&self.shared.queue);
        if self.shared.bounds.ordered { self.number == queue.first } else { queue.slots.is_empty() }
    }
    fn most(&self) -> usize {
        self.shared.budget.left()
    }
    fn give(mut self: Box<Self>, answer: Answer) {
        self.given = true;
        self.shared.receive(&self, answer);
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if !self.given {
            let lost = Part::Fail(Error::cancelled());
            self.shared.receive(self, Answer { parts: vec![lost], busy_ns: 0, is_end: true });
        }
    }
}
