//! Both ends of a segment's queue: results are put into their slots, and taken from the front.

use super::super::given::Given;
use super::super::pop_rows;
use super::super::stage::{Item, Pull, Wake};
use super::super::sync::atomic::Ordering::Relaxed;
use super::super::sync::lock;
use super::{From, HEAD, Queue, SPARE, Shared, Slot, wake};
use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Instant;

impl Shared {
    pub(super) fn pop(&self, want: usize, waker: &Weak<dyn Wake>, asks: bool) -> Pull {
        let mut guard = lock(&self.queue);
        let queue = &mut *guard;
        loop {
            let Some(slot) = queue.slots.front_mut() else {
                if queue.over || (queue.done && queue.under_way == 0) {
                    return Pull::End;
                }
                queue.wait(waker, asks);
                self.note_empty(queue);
                return Pull::Pending;
            };
            let Some(items) = &mut slot.items else {
                queue.wait(waker, asks);
                self.note_empty(queue);
                return Pull::Pending;
            };
            let pull: Option<Pull> = pop_rows(items, want).map(Into::into);
            pull.iter().for_each(|pull| queue.taken.count(pull));
            // What is left of a slot keeps its whole byte count until it is gone: an upper bound.
            if items.is_empty() && slot.is_part {
                slot.items = None;
                let (bytes, rows) = (std::mem::take(&mut slot.bytes), std::mem::take(&mut slot.rows));
                self.lane.given.fetch_add(rows as u64, Relaxed);
                queue.bytes -= bytes;
                queue.rows -= rows;
                self.meter.queue(queue.bytes);
            } else if items.is_empty() {
                let given = self.fill_of(queue);
                let slot = queue.slots.front().expect("looked at above");
                queue.watched.note_taken(slot.bytes, queue.bytes);
                self.lane.fill.fetch_add(given, Relaxed);
                self.lane.fills.fetch_add(1, Relaxed);
                self.lane.given.fetch_add(slot.rows as u64, Relaxed);
                queue.bytes -= slot.bytes;
                self.meter.queue(queue.bytes);
                queue.rows -= slot.rows;
                queue.first += 1;
                queue.taken = Given::default();
                if let Some(mut slot) = queue.slots.pop_front() {
                    if slot.is_last {
                        self.forget_rest(queue);
                    }
                    if queue.spare.len() < SPARE {
                        slot.from.mark.clear();
                        queue.spare.push(slot.from.mark);
                    }
                }
                self.watch(queue);
            }
            if let Some(pull) = pull {
                queue.asked = false;
                return pull;
            }
        }
    }

    /// How full a queue is, in thousandths of what binds first.
    fn fill_of(&self, queue: &Queue) -> u64 {
        let share = |held: usize, bound: usize| held as f64 / bound.max(1) as f64;
        let (b, bytes) = (&self.bounds, share(queue.bytes, queue.watched.bytes()));
        let most = share(queue.slots.len(), b.ready.min(b.chunks)).max(share(queue.rows, b.rows)).max(bytes);
        (most.min(1.0) * 1000.0) as u64
    }

    /// Nothing comes behind this slot, where there is an order.
    pub(super) fn end_with(&self, number: u64) {
        let mut queue = lock(&self.queue);
        queue.done = true;
        let at = number.checked_sub(queue.first).map_or(usize::MAX, |at| at as usize);
        if let Some(slot) = queue.slots.get_mut(at).filter(|_| self.bounds.ordered) {
            slot.is_last = true;
        }
    }
    /// What others have made, or still work on, is not given any more. A state goes on with the first of it all the same.
    fn forget_rest(&self, queue: &mut Queue) {
        queue.over = true;
        let mut rest = std::mem::take(&mut queue.slots);
        if let Some(next) = rest.pop_front() {
            queue.from = next.from;
        }
        (queue.bytes, queue.rows) = (0, 0);
        self.meter.queue(0);
        queue.under_way -= queue.again.len();
        queue.again.clear();
    }

    pub(super) fn end(&self) {
        let waker = {
            let mut queue = lock(&self.queue);
            queue.done = true;
            queue.first_step = None;
            queue.token = false;
            queue.starved = false;
            queue.idle(HEAD);
            queue.downstream.take()
        };
        wake(waker);
    }

    /// Puts results into their slot: all of them, or the `last` or another part. The step took so many bytes at once.
    pub(super) fn fill(&self, number: u64, items: Vec<Item>, bytes: usize, takes: usize, last: bool) {
        let rows: usize = items.iter().map(Item::places).sum();
        let waker = {
            let mut queue = lock(&self.queue);
            if last {
                queue.under_way -= 1;
                queue.idle(number);
            }
            queue.note_takes(takes);
            queue.is_new = false;
            queue.first_step = None;
            if self.dropped.load(Relaxed) {
                return;
            }
            let at = number.checked_sub(queue.first).map_or(usize::MAX, |at| at as usize);
            if self.bounds.ordered && at >= queue.slots.len() {
                // It came after the end.
                let waker = queue.downstream.take();
                drop(queue);
                return wake(waker);
            }
            queue.bytes += bytes;
            queue.rows += rows;
            queue.estimate = if queue.estimate == 0 { bytes } else { (queue.estimate * 7 + bytes) / 8 };
            self.meter.queue(queue.bytes);
            self.budget.note();
            let front = if self.bounds.ordered {
                let slot = &mut queue.slots[at];
                match &mut slot.items {
                    Some(before) => before.extend(items),
                    none => *none = Some(items.into()),
                }
                (slot.bytes, slot.rows, slot.is_part) = (slot.bytes + bytes, slot.rows + rows, !last);
                if at > 0 && queue.slots[at - 1].items.is_none() {
                    queue.slots[at].early = Some(Instant::now());
                } else {
                    self.end_early(&mut queue.slots, at + 1);
                }
                at == 0
            } else {
                let from = From { mark: queue.from.mark.clone(), skip: Given::default() };
                queue.slots.push_back(Slot { items: Some(items.into()), bytes, rows, ..Slot::new(from) });
                true
            };
            let finished = queue.done && queue.under_way == 0;
            if front || finished { queue.downstream.take() } else { None }
        };
        wake(waker);
    }

    /// The slot in front of these is filled now: says how long they waited for it.
    fn end_early(&self, slots: &mut VecDeque<Slot>, from: usize) {
        let mut now = None;
        for slot in slots.range_mut(from..).take_while(|slot| slot.items.is_some()) {
            if let Some(since) = slot.early.take() {
                let waited = now.get_or_insert_with(Instant::now).duration_since(since);
                self.lane.order_ns.fetch_add(waited.as_nanos() as u64, Relaxed);
            }
        }
    }
}
