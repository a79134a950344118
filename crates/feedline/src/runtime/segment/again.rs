//! Steps that found no room for what they make.
//!
//! 1. Functions that can be run again (not Python's) get their rows twice: one copy is kept (columns are shared) until they
//!    are through. What would lose by that, because its memory could be overwritten, is kept only where it is large for the
//!    limit, where the limit is low for so many workers, or once a step of the segment has become large, whatever it got.
//!    Functions of the user's can be put back before the first of their rows, and ask when they have Python's lock.
//! 2. A step that unwinds with `NoRoom` leaves that copy in the queue, under the number of its slot, and counts as under
//!    way. Nothing more is pulled until it is done.
//! 3. It is done again a few rows at a time, at last one by one, when its slot is the first (then nobody can go on without
//!    it) or there is room for it. One thread at a time does that, beside whoever holds the token.
//! 4. A slot of several rows is given in parts, so that what was made of it can leave before the rest is made.
//! 5. A function of the user's that has made much of the first rows of a chunk leaves the others: these are given as a part,
//!    and the rest is put back as if there had been no room for it.
//! 6. A single row that would take more than the limit, even in front, can never fit: that is an error in its place.

use super::super::pop_rows;
use super::super::stage::Item;
use super::super::sync::atomic::Ordering::Relaxed;
use super::super::sync::lock;
use super::{NoRoom, Place, Queue, Shared, panic_error};
use crate::element::{Chunk, Column, DType, Slots};

use feedline_io::{Standing, Step};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;

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
    /// What is left to do. The first of them have come furthest.
    parts: VecDeque<Part>,
    /// Rows to do at once.
    rows: usize,
    /// What it would have taken.
    bytes: usize,
    /// There seemed to be room, and was not: it waits until it is the first.
    tried: bool,
}

type Panic = Box<dyn std::any::Any + Send>;
type Ran = Result<Option<Vec<Item>>, Panic>;

/// Why functions did not come to an end.
enum Unfinished {
    Panic(Panic),
    Back(Back),
}

/// Some rows, and the function that comes next for them.
struct Part {
    at: usize,
    items: VecDeque<Item>,
}

/// What functions made, and the rows that those of the user's have left.
struct Done {
    items: Vec<Item>,
    left: VecDeque<Part>,
}

/// Rows for which functions found no room, or which they have left.
struct Back {
    parts: VecDeque<Part>,
    no_room: NoRoom,
}

impl Again {
    /// The rows that are next, at most so many as are done at once, and their function.
    fn pop(&mut self) -> (usize, Item) {
        let part = self.parts.front_mut().expect("what was put back has rows");
        let (at, item) = (part.at, pop_rows(&mut part.items, self.rows).expect("a part has rows"));
        if part.items.is_empty() {
            self.parts.pop_front();
        }
        (at, item)
    }
    fn put_in_front(&mut self, mut parts: VecDeque<Part>) {
        parts.append(&mut self.parts);
        self.parts = parts;
    }
}

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
        let (rows, standing) = (chunk.rows(), self.standing(number));
        let mut slots = std::mem::take(&mut place.slots);
        let (ran, took) = self.run_from(0, vec![Item::Rows(chunk)], standing, (&mut slots, rows), lock_ns);
        drop(slots);
        let mut again = Again { number, row: place.row, parts: VecDeque::new(), rows: 1, bytes: took, tried: false };
        match ran {
            Ok(Done { items, left }) if left.is_empty() => return (Ok(Some(items)), took),
            Ok(Done { items, left }) => {
                self.note_fails(place.row, &items);
                again.row += (rows - rows_of(&left)) as u64;
                again.parts = left;
                let bytes = items_bytes(&items);
                self.fill(number, items, bytes, took, false);
            }
            Err(Unfinished::Panic(panic)) => return (Err(panic), took),
            Err(Unfinished::Back(Back { parts, no_room })) if rows == 1 && standing == Standing::First => {
                return (Ok(Some(self.refused(parts, no_room))), 0);
            }
            Err(Unfinished::Back(Back { parts, no_room })) => {
                (again.parts, again.bytes, again.rows) = (parts, no_room.bytes, (rows / FEWER).max(1));
            }
        }
        if self.bounds.chunk_rows.is_none() {
            self.want.store(1, Relaxed);
        }
        let mut queue = lock(&self.queue);
        queue.idle(number);
        queue.note_takes(again.bytes);
        queue.put_back(again);
        (Ok(None), took)
    }

    /// Runs the functions from one on, those that can be run again together, and says what that took at once.
    fn run_from(
        &self,
        mut at: usize,
        mut items: Vec<Item>,
        standing: Standing,
        (slots, rows): (&mut Slots, usize),
        lock_ns: &mut u64,
    ) -> (Result<Done, Unfinished>, usize) {
        let (mut took, mut rest) = (0, VecDeque::new());
        while let Some((function, _)) = self.functions.get(at) {
            let repeats = function.repeats();
            // What calls code of the user's must not be called again because the next one finds no room.
            let alike = if repeats { self.functions[at..].iter().take_while(|(f, _)| f.repeats()).count() } else { 1 };
            let standing = match standing {
                Standing::Behind(others) if function.is_host() => Standing::Once(others),
                standing if repeats && self.is_worth_keeping(&items) => standing,
                _ => Standing::Free,
            };
            // A row alone in front is not done again. Where it is large it is not kept, and may be written over, unless a
            // quarantine wants what it was.
            let own = items.iter().map(Item::own_bytes).sum();
            let alone = rows == 1 && standing == Standing::First && !self.sieved;
            let last = items.first().and_then(Item::rows).filter(|_| alone && own > self.budget.limit() / LARGE);
            let last = last.map(|chunk| chunk.pos.clone());
            let kept = (standing != Standing::Free && last.is_none()).then(|| items.iter().map(copy).collect());
            let beside = self.budget.beside(own);
            let step = Step::of(standing, self.most_of(rows), beside);
            let mut left = VecDeque::new();
            let may_leave = (!repeats).then_some(&mut left);
            let run = || self.run_functions(at..at + alike, items, (&mut *slots, rows), may_leave, lock_ns);
            let ran = catch_unwind(AssertUnwindSafe(run));
            let peak = step.peak();
            took = took.max(peak);
            self.budget.note_step(peak, self.most_step());
            drop(step);
            if standing == Standing::Free && repeats && peak >= self.budget.limit() / LARGE {
                self.grows.store(true, Relaxed);
            }
            items = match ran {
                Ok(items) => items,
                Err(panic) => {
                    if let (Some(no_room), Some(pos)) = (panic.downcast_ref::<NoRoom>(), last) {
                        self.budget.note_step(no_room.bytes, self.most_step());
                        let error = self.budget.refused(no_room.all()).in_op(self.name);
                        return (Ok(Done { items: vec![Item::Fail(pos.blame(error, 0))], left: rest }), took);
                    }
                    let unfinished = match (panic.downcast_ref::<NoRoom>(), kept) {
                        (Some(&no_room), Some(items)) => {
                            self.budget.note_step(no_room.bytes, self.most_step());
                            rest.push_front(Part { at, items });
                            Unfinished::Back(Back { parts: rest, no_room })
                        }
                        _ => Unfinished::Panic(panic),
                    };
                    return (Err(unfinished), took);
                }
            };
            if !left.is_empty() {
                rest.push_front(Part { at, items: left });
            }
            at += alike;
        }
        (Ok(Done { items, left: rest }), took)
    }

    /// Whether to keep a copy of these until the functions are through.
    fn is_worth_keeping(&self, items: &[Item]) -> bool {
        // A megabyte can become any size in each worker at once, and is little beside the limit itself.
        if self.is_tight || self.grows.load(Relaxed) {
            return true;
        }
        let plain = |column: &Column| match column {
            Column::Dense(t) if t.dtype() == DType::String => 0,
            // Nor is anything written over what is ragged or sparse.
            Column::Rows(rows, of) if rows[of.clone()].iter().all(|row| row.as_tensor().is_none()) => 0,
            column => column.nbytes(),
        };
        let bytes = |item: &Item| match item {
            Item::Rows(chunk) => chunk.columns().iter().map(plain).sum(),
            Item::Fail(_) => 0,
        };
        let bytes: usize = items.iter().map(bytes).sum();
        bytes <= SMALL || bytes >= self.budget.limit() / LARGE
    }
    /// What its steps took at most. Inside of functions there are many, of which few run at once.
    fn most_step(&self) -> Option<&AtomicUsize> {
        (!self.nested).then_some(&self.most_step)
    }
    fn most_of(&self, rows: usize) -> usize {
        if rows > 1 { self.budget.limit() / SEVERAL } else { self.budget.left() }
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
        let (at, item) = again.pop();
        let mut rows = item.places();
        let (ran, takes) = self.run_from(at, vec![item], standing, (&mut Slots::new(), rows), &mut 0);
        let (items, ends) = match ran {
            Ok(Done { items, left }) => {
                if !left.is_empty() {
                    rows -= rows_of(&left);
                    again.rows = 1;
                    again.put_in_front(left);
                }
                (items, false)
            }
            Err(Unfinished::Panic(panic)) => (vec![Item::Fail(panic_error(panic))], true),
            Err(Unfinished::Back(Back { parts, no_room })) if rows == 1 && standing == Standing::First => {
                (self.refused(parts, no_room), false)
            }
            Err(Unfinished::Back(Back { parts, no_room })) => {
                again.put_in_front(parts);
                // In front it is done with fewer rows; one alone waits until it is there.
                (again.rows, again.bytes, again.tried) = ((rows / FEWER).max(1), no_room.bytes, rows == 1);
                let mut queue = lock(&self.queue);
                queue.redo = Redo::No;
                match queue.over {
                    true => queue.under_way -= 1,
                    false => queue.put_back(again),
                }
                return;
            }
        };
        self.note_fails(again.row, &items);
        again.row += rows as u64;
        // Those that took most may be over.
        if takes <= self.budget.limit() / SEVERAL / FEWER {
            again.rows = again.rows.saturating_mul(2);
        }
        let bytes = items_bytes(&items);
        let (number, last) = (again.number, again.parts.is_empty() || ends);
        if ends {
            self.end_with(number);
        }
        // What follows in the same slot is done only after this is there.
        self.fill(number, items, bytes, takes, last);
        let mut queue = lock(&self.queue);
        queue.redo = Redo::No;
        match queue.over {
            true if !last => queue.under_way -= 1,
            false if !last && !self.gone() => queue.put_back(again),
            _ => {}
        }
    }

    /// For a row of which too much would be made.
    fn refused(&self, row: VecDeque<Part>, no_room: NoRoom) -> Vec<Item> {
        row.iter().flat_map(|part| &part.items).map(|item| self.refused_row(item, no_room)).collect()
    }
    fn refused_row(&self, item: &Item, no_room: NoRoom) -> Item {
        let error = self.budget.refused(no_room.all());
        match item {
            Item::Rows(chunk) => Item::Fail(chunk.blame(error.in_op(self.name), 0)),
            Item::Fail(_) => Item::Fail(error),
        }
    }
}

fn items_bytes(items: &[Item]) -> usize {
    items.iter().map(|item| item.nbytes()).sum()
}

fn rows_of(parts: &VecDeque<Part>) -> usize {
    parts.iter().flat_map(|part| &part.items).map(Item::places).sum()
}

/// The same rows, which share their memory.
fn copy(item: &Item) -> Item {
    match item {
        Item::Rows(chunk) => Item::Rows(chunk.clone()),
        Item::Fail(error) => Item::Fail(error.clone()),
    }
}

#[cfg(test)]
mod tests {
    use crate::element::{DType, Dims, Element, Leaf, Spec, Tensor, Value};
    use crate::error::{Kind, Result};
    use crate::expr::{Attrs, Graph, HostFn};
    use crate::{Dataset, Options};
    use feedline_io::Account;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex, PoisonError};

    /// Rows of so many numbers, each filled with its own.
    fn grown(rows: i64, items: i64) -> Dataset {
        let dims = Tensor::from_items([1], &[items]);
        Dataset::range(rows)
            .unwrap()
            .map(|b, x| {
                let dims = b.constant(Value::Tensor(dims))?;
                b.call("fill", &[dims, x[0]], Attrs::default())
            })
            .unwrap()
    }
    fn firsts(ds: &Dataset, limit: usize, chunk_rows: usize, ordered: bool) -> Vec<Option<i64>> {
        let options = Options {
            memory_limit: Some(limit),
            chunk_rows: Some(chunk_rows),
            deterministic: Some(ordered),
            cpu_budget: Some(4),
            ..Default::default()
        };
        let it = ds.with_options(options).unwrap().iter().unwrap();
        it.map(|e| e.map(|e| e[0].tensor().items::<i64>()[0]).map_err(|e| assert_eq!(e.kind(), Kind::Budget)).ok())
            .collect()
    }

    #[test]
    fn rows_come_in_order_where_few_of_them_fit() {
        // A quarter of the limit each: chunks of several rows are put back, and given in parts.
        let ds = grown(40, 100_000);
        for chunk_rows in [1, 3, 16, 100] {
            let all: Vec<_> = (0..40).map(Some).collect();
            assert_eq!(firsts(&ds, 3_200_000, chunk_rows, true), all, "{chunk_rows} rows a chunk");
            let mut got = firsts(&ds, 3_200_000, chunk_rows, false);
            got.sort();
            assert_eq!(got, all, "{chunk_rows} rows a chunk, in any order");
        }
    }

    /// As Python's functions are: one at a time, under a lock. Each makes rows of so many numbers.
    #[derive(Default)]
    struct Locked {
        items: usize,
        lock: Mutex<()>,
        calls: Mutex<Vec<i64>>,
        /// Bytes that the pipeline had when one was called, at most.
        live: AtomicUsize,
    }

    impl std::fmt::Debug for Locked {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("locked")
        }
    }

    impl HostFn for Locked {
        fn name(&self) -> String {
            "locked".into()
        }
        fn call(&self, args: Element) -> Result<Element> {
            self.live.fetch_max(Account::current().map_or(0, |account| account.live()), Relaxed);
            let x: i64 = args[0].tensor().item();
            self.calls.lock().unwrap().push(x);
            // Long enough for others to come to the lock.
            std::thread::sleep(std::time::Duration::from_millis(2));
            Ok(smallvec::smallvec![Tensor::from_items([self.items], &vec![x; self.items]).into()])
        }
        fn scoped(&self, body: &mut dyn FnMut()) {
            let _locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            body();
        }
        fn parallel(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_cannot_be_run_again_waits_for_room_before_it_begins() {
        const LIMIT: usize = 1 << 20;
        for (items, ordered) in [(150_000, true), (150_000, false), (50_000, true), (30_000, false)] {
            let made = Arc::new(Locked { items, ..Default::default() });
            let spec = Spec::leaf(Leaf::tensor(DType::Int64, Dims::known(&[items])));
            let ds = Dataset::range(60).unwrap();
            let ds = ds.map_graph(Graph::host(ds.spec(), made.clone(), spec)).unwrap();
            // Another such function behind it: what was called once is not called again because this finds no room.
            let behind = Arc::new(Locked { items: 1, ..Default::default() });
            let one = Spec::leaf(Leaf::tensor(DType::Int64, Dims::known(&[1])));
            let first = ds.map(|b, x| b.call("reduce_min", &[x[0]], Attrs::default())).unwrap();
            let ds = first.map_graph(Graph::host(first.spec(), behind.clone(), one)).unwrap();
            let mut got = firsts(&ds, LIMIT, 1, ordered);
            got.sort();
            assert_eq!(got, (0..60).map(Some).collect::<Vec<_>>(), "{items} numbers");
            for (function, most) in [(&made, LIMIT), (&behind, 2 * LIMIT)] {
                let mut calls = function.calls.lock().unwrap().clone();
                calls.sort();
                assert_eq!(calls, (0..60).collect::<Vec<_>>(), "each is called once");
                let live = function.live.load(Relaxed);
                assert!(live <= most, "{live} bytes when a row of {items} numbers was begun");
            }
        }
    }

    #[test]
    fn rows_are_left_where_much_was_made_of_those_before() {
        const LIMIT: usize = 1 << 20;
        for ordered in [true, false] {
            let made = Arc::new(Locked { items: 30_000, ..Default::default() });
            let spec = Spec::leaf(Leaf::tensor(DType::Int64, Dims::known(&[30_000])));
            let ds = Dataset::range(60).unwrap();
            let ds = ds.map_graph(Graph::host(ds.spec(), made.clone(), spec)).unwrap();
            let ds = ds.map(|b, x| b.call("reduce_min", &[x[0]], Attrs::default())).unwrap();
            let mut got = firsts(&ds, LIMIT, 16, ordered);
            if !ordered {
                got.sort();
            }
            assert_eq!(got, (0..60).map(Some).collect::<Vec<_>>());
            let mut calls = made.calls.lock().unwrap().clone();
            calls.sort();
            assert_eq!(calls, (0..60).collect::<Vec<_>>(), "each is called once");
            let live = made.live.load(Relaxed);
            assert!(live <= 2 * LIMIT, "{live} bytes when a row was begun");
        }
    }

    #[test]
    fn what_can_never_fit_costs_its_row() {
        for chunk_rows in [1, 4] {
            assert_eq!(firsts(&grown(5, 100_000), 700_000, chunk_rows, true), [None; 5]);
        }
        let options = Options { memory_limit: Some(1 << 20), ..Default::default() };
        let error = grown(1, 1 << 20).with_options(options).unwrap().iter().unwrap().next().unwrap().unwrap_err();
        let text = error.to_string();
        for part in ["takes 8.4 MB at once", "memory_limit of 1.0 MB", "raise it to 9.5 MB", "map"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
