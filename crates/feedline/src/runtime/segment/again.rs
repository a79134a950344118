//! Steps that found no room for what they make.
//!
//! 1. Functions that can be run again get their rows twice: one copy is kept (columns are shared) until they are through.
//!    What would lose by that, because its memory could be overwritten, is kept only where it is large for the limit.
//! 2. A step that unwinds with `NoRoom` leaves that copy in the queue, under the number of its slot, and counts as under
//!    way. Nothing more is pulled until it is done.
//! 3. It is done again a few rows at a time, at last one by one, when its slot is the first (then nobody can go on without
//!    it) or there is room for it. One thread at a time does that, beside whoever holds the token.
//! 4. A slot of several rows is given in parts, so that what was made of it can leave before the rest is made.
//! 5. A single row that would take more than the limit, even in front, can never fit: that is an error in its place.

use super::super::pop_rows;
use super::super::stage::Item;
use super::super::sync::atomic::Ordering::Relaxed;
use super::super::sync::lock;
use super::{NoRoom, Place, Queue, Shared, panic_error};
use crate::element::{Chunk, Column, DType, Slots};
use crate::error::{Error, Kind};
use crate::runtime::bytes_text as size;
use feedline_io::{Standing, Step};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows whose memory is worth overwriting have more bytes.
const SMALL: usize = 64 << 10;
/// Parts of the limit: rows that take more are kept all the same, and a chunk of several takes at most a few of them.
const LARGE: usize = 16;
const SEVERAL: usize = 4;
/// So many times fewer rows at once, when even some of them are too many.
const FEWER: usize = 8;

/// Whether somebody does again what was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redo {
    No,
    Wanted,
    Running,
}

/// A step that was put back.
pub struct Again {
    /// Of its slot; not told apart where there are none.
    number: u64,
    /// The number of its first row.
    row: u64,
    items: VecDeque<Item>,
    /// Rows to do at once.
    rows: usize,
    /// What it would have taken.
    bytes: usize,
    /// There seemed to be room, and was not: it waits until it is the first.
    tried: bool,
}

type Ran = Result<Option<Vec<Item>>, Box<dyn std::any::Any + Send>>;

impl Queue {
    /// A step had so many bytes at once.
    pub(super) fn note_takes(&mut self, bytes: usize) {
        self.takes = bytes.max(self.takes - self.takes / 8);
    }
    fn put_back(&mut self, again: Again) {
        let at = self.again.partition_point(|a| a.number < again.number);
        self.again.insert(at, again);
    }
}

impl Shared {
    /// Runs the functions on a chunk, and says what that took at once. `None`: it was put back.
    pub(super) fn run_all(&self, number: u64, chunk: Chunk, place: &mut Place, lock_ns: &mut u64) -> (Ran, usize) {
        let rows = chunk.rows();
        let mut slots = std::mem::take(&mut place.slots);
        let mut kept = None;
        let step = Step::begin(Standing::Free, usize::MAX);
        let before = catch_unwind(AssertUnwindSafe(|| {
            self.run_functions(0..self.repeats_from, vec![Item::Rows(chunk)], (&mut slots, rows), lock_ns)
        }));
        let took = step.peak();
        drop(step);
        let items = match before {
            Ok(items) => items,
            Err(panic) => return (Err(panic), took),
        };
        if self.repeats_from == self.functions.len() {
            return (Ok(Some(items)), took);
        }
        let standing = match self.is_worth_keeping(&items) {
            true => {
                kept = Some(items.iter().map(copy).collect::<VecDeque<Item>>());
                self.standing(number)
            }
            false => Standing::Free,
        };
        let step = Step::begin(standing, self.most_of(rows));
        let after = self.repeats_from..self.functions.len();
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_functions(after, items, (&mut slots, rows), lock_ns)));
        let took = took.max(step.peak());
        drop((step, slots));
        let panic = match ran {
            Ok(items) => return (Ok(Some(items)), took),
            Err(panic) => panic,
        };
        match (panic.downcast_ref::<NoRoom>(), kept) {
            (Some(&NoRoom { bytes }), Some(mut items)) => {
                if rows == 1 && standing == Standing::First {
                    let refused = items.pop_front().map(|item| self.refused(&item, bytes));
                    return (Ok(Some(refused.into_iter().collect())), 0);
                }
                let again = Again { number, row: place.row, items, rows: (rows / FEWER).max(1), bytes, tried: false };
                if self.bounds.chunk_rows.is_none() {
                    self.want.store(1, Relaxed);
                }
                let mut queue = lock(&self.queue);
                queue.idle(number);
                queue.note_takes(bytes);
                queue.put_back(again);
                (Ok(None), took)
            }
            _ => (Err(panic), took),
        }
    }

    /// Whether to keep a copy of these until the functions are through.
    fn is_worth_keeping(&self, items: &[Item]) -> bool {
        let plain = |column: &Column| match column {
            Column::Dense(t) if t.dtype() == DType::String => 0,
            column => column.nbytes(),
        };
        let bytes = |item: &Item| match item {
            Item::Rows(chunk) => chunk.columns().iter().map(plain).sum(),
            Item::Fail(_) => 0,
        };
        let bytes: usize = items.iter().map(bytes).sum();
        bytes <= SMALL || bytes >= self.budget.limit() / LARGE
    }
    fn most_of(&self, rows: usize) -> usize {
        if rows > 1 { self.budget.limit() / SEVERAL } else { self.budget.limit() }
    }
    fn standing(&self, number: u64) -> Standing {
        let queue = lock(&self.queue);
        match self.bounds.ordered {
            true if number == queue.first => Standing::First,
            false if queue.under_way == 1 && queue.slots.is_empty() => Standing::First,
            _ => Standing::Behind(queue.takes),
        }
    }
    /// Whether what was put back first can be done before anything else is.
    fn is_next(&self, queue: &Queue, again: &Again) -> bool {
        match self.bounds.ordered {
            true => again.number == queue.first && queue.slots.front().is_some_and(|slot| slot.items.is_none()),
            false => queue.slots.is_empty() && queue.under_way == queue.again.len(),
        }
    }
    pub(super) fn can_redo(&self, queue: &Queue) -> bool {
        let Some(again) = queue.again.front().filter(|_| queue.redo == Redo::No && !self.gone()) else { return false };
        let has_room = || {
            !again.tried
                && queue.bytes < queue.watched.bytes()
                && self.budget.has_room(self.depth, again.bytes.saturating_mul(2))
        };
        self.is_next(queue, again) || has_room()
    }

    /// Does some rows of what was put back first.
    pub(super) fn do_again(&self) {
        let (mut again, standing) = {
            let mut queue = lock(&self.queue);
            let Some(again) = queue.again.pop_front() else {
                queue.redo = Redo::No;
                return;
            };
            // It is under way, and those that were put back with it are not.
            let first = match self.bounds.ordered {
                true => again.number == queue.first,
                false => queue.slots.is_empty() && queue.under_way == queue.again.len() + 1,
            };
            (again, if first { Standing::First } else { Standing::Behind(queue.takes) })
        };
        let item = pop_rows(&mut again.items, again.rows).expect("what was put back has rows");
        let rows = if let Item::Rows(chunk) = &item { chunk.rows() } else { 1 };
        let step = Step::begin(standing, self.most_of(rows));
        let functions = self.repeats_from..self.functions.len();
        let work = || self.run_functions(functions, vec![copy(&item)], (&mut Slots::new(), 0), &mut 0);
        let ran = catch_unwind(AssertUnwindSafe(work));
        let takes = step.peak();
        drop(step);
        let (items, ends) = match ran {
            Ok(items) => (items, false),
            Err(panic) => match panic.downcast_ref::<NoRoom>() {
                Some(&NoRoom { bytes }) if rows == 1 && standing == Standing::First => {
                    (vec![self.refused(&item, bytes)], false)
                }
                Some(&NoRoom { bytes }) => {
                    again.items.push_front(item);
                    // In front it is done with fewer rows; one alone waits until it is there.
                    let tried = rows == 1;
                    let again = Again { rows: (rows / FEWER).max(1), bytes, tried, ..again };
                    let mut queue = lock(&self.queue);
                    queue.put_back(again);
                    queue.redo = Redo::No;
                    return;
                }
                None => (vec![Item::Fail(panic_error(panic))], true),
            },
        };
        self.note_fails(again.row, &items);
        again.row += rows as u64;
        let bytes: usize = items.iter().map(|item| item.nbytes()).sum();
        let (number, last) = (again.number, again.items.is_empty() || ends);
        if ends {
            lock(&self.queue).done = true;
        }
        // What follows in the same slot is done only after this is there.
        self.fill(number, items, bytes, takes, last);
        let mut queue = lock(&self.queue);
        queue.redo = Redo::No;
        if !last && !self.gone() {
            queue.put_back(again);
        }
    }

    /// A row of which too much would be made.
    fn refused(&self, item: &Item, bytes: usize) -> Item {
        let limit = self.budget.limit();
        let error = Error::new(
            Kind::Budget,
            format!(
                "what is made of one element takes {} at once, which is more than the memory_limit of {}: raise it to {} or \
                 more, or make less of it (decode a part of a picture or a smaller one, leave out what takes most)",
                size(bytes),
                size(limit),
                size(bytes + bytes / 8)
            ),
        );
        match item {
            Item::Rows(chunk) => Item::Fail(chunk.blame(error.in_op(self.name), 0)),
            Item::Fail(_) => Item::Fail(error),
        }
    }
}

/// The same rows, which share their memory.
fn copy(item: &Item) -> Item {
    match item {
        Item::Rows(chunk) => Item::Rows(chunk.clone()),
        Item::Fail(error) => Item::Fail(error.clone()),
    }
}
