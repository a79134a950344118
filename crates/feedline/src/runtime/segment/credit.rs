//! Whether a segment may take another step: room in its queue and in memory, a thread to take it, or somebody who waits for it.

use super::super::stage::Wait;
use super::super::sync::lock;
use super::again::Redo;
use super::{AWAY, LONG_NS, Queue, Shared};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl Shared {
    /// Hands the token to the pool if there is credit.
    pub(super) fn pump(&self) {
        {
            let mut queue = lock(&self.queue);
            if !self.grant(&mut queue) {
                return;
            }
        }
        self.submit();
    }
    /// Takes the token if there is credit, or the right to do again what was put back. Says how long there was none.
    pub(super) fn grant(&self, queue: &mut Queue) -> bool {
        if self.can_redo(queue) {
            queue.redo = Redo::Wanted;
            return true;
        }
        if queue.token || queue.starved || queue.done || self.gone() {
            return false;
        }
        if !self.credit(queue) {
            if queue.under_way == 0 && queue.still.is_none() {
                queue.still = Some((Wait::Room, Instant::now()));
            }
            return false;
        }
        if let Some((wait, since)) = queue.still.take() {
            let time = since.elapsed();
            queue.watched.note_still(wait, time);
            self.lane.note_wait(wait, time);
        }
        queue.token = true;
        // Inside of functions they are many, and like each other.
        if queue.is_new && queue.first_step.is_none() && !self.nested {
            queue.first_step = Some(self.budget.first_step());
        }
        true
    }
    pub(super) fn submit(&self) {
        if let Some(me) = self.me.upgrade() {
            self.pool.submit(self.depth, me);
        }
    }
    fn credit(&self, queue: &Queue) -> bool {
        // Who is asked for something, and holds nothing, goes on whatever there is.
        if queue.is_asked() {
            return true;
        }
        if !queue.again.is_empty() {
            return false;
        }
        let b = &self.bounds;
        let held = queue.slots.len() + if b.ordered { 0 } else { queue.under_way };
        // Workers elsewhere are not left idle because of what they may send: one chunk each is always under way.
        let assured = b.calls == AWAY && queue.under_way < b.parallel / 2;
        let coming = if assured { 0 } else { queue.estimate.saturating_mul(queue.under_way + 1) };
        let copied = if b.calls == AWAY { queue.estimate } else { 0 };
        let taken = queue.takes.saturating_mul(queue.under_way + 1).saturating_add(copied);
        queue.under_way < if queue.is_new && self.is_careful { 1 } else { self.at_once() }
            && held < if self.is_enough(queue) { b.ready.min(b.chunks) } else { b.chunks }
            && queue.rows < b.rows
            && queue.bytes.saturating_add(coming) <= queue.watched.bytes()
            && self.budget.has_room(self.depth, coming.saturating_add(queue.needs).max(taken))
    }

    /// Chunks that are worked on at once. If every thread is at one, another step would only wait in the pool: for a consumer
    /// that waits, too, which would take it from a worker that is about to be free and has to be woken afterwards.
    pub(super) fn at_once(&self) -> usize {
        match self.bounds.calls {
            AWAY => self.bounds.parallel,
            _ => self.bounds.parallel.min(self.pool.budget()),
        }
    }

    /// Whether a step that was granted is not to begin after all: nobody asks for anything of a segment that has nothing, and
    /// since it was granted others took the room. (Of an `interleave`, many are granted at once.)
    pub(super) fn is_early(&self, queue: &Queue) -> bool {
        let is_idle = queue.slots.is_empty() && queue.under_way == 0 && !queue.is_asked();
        is_idle && !self.credit(queue)
    }

    /// Whether there is something to be taken, so that few results more are worth while. Where any result will do, there
    /// nearly always is; but whoever takes them may be at a slow element itself, and the others have to go on meanwhile.
    fn is_enough(&self, queue: &Queue) -> bool {
        let ready = queue.slots.front().is_some_and(|slot| slot.items.is_some());
        ready && (self.bounds.ordered || self.cost_ns.load(Relaxed) < LONG_NS)
    }
}
