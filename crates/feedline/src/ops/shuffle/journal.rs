//! Which rows a shuffle's buffer held, for its states.
//!
//! Which rows are in the buffer, and in which order, follows from the random numbers alone. So the stage does not keep
//! account of it: `Draws` does what the stage did, with numbers of rows, up to the oldest mark that is still there. Where
//! the buffer is bounded by bytes it also follows from how many rows came in before each draw: these numbers are noted.

use crate::error::Result;
use crate::expr::Philox;
use crate::ops::runs::{self, Next, Pins, Runs};
use crate::runtime::pack::{self, Unpack};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, Later, Mark, RowRun, Saved, unfit};
use std::collections::VecDeque;
use std::sync::Arc;

/// The order of a buffer: what the stage does with rows, done with their numbers.
#[derive(Clone)]
pub struct Draws {
    fill: Fill,
    random: Philox,
    /// Oldest first.
    pub held: VecDeque<u64>,
    pub drawn: u64,
}

/// How many rows come in before a draw.
#[derive(Clone)]
pub enum Fill {
    /// As many as are missing to this number.
    UpTo(usize),
    /// As many as came in before each of the next draws.
    Noted(VecDeque<u32>),
}

impl Draws {
    pub fn new(fill: Fill, random: Philox) -> Draws {
        Draws { fill, random, held: VecDeque::new(), drawn: 0 }
    }
    /// Fills the buffer with what `come` gives, and draws a row; `None` if there is none.
    pub fn draw(&mut self, mut come: impl FnMut() -> Option<u64>) -> Option<u64> {
        let missing = match &mut self.fill {
            Fill::UpTo(size) => size.saturating_sub(self.held.len()),
            Fill::Noted(counts) => counts.pop_front()? as usize,
        };
        for _ in 0..missing {
            let Some(row) = come() else { break };
            make_room(&mut self.held, 1);
            self.held.push_back(row);
        }
        if self.held.is_empty() {
            return None;
        }
        let at = chosen(self.random.next_u32(), self.held.len());
        self.held.swap(0, at);
        self.drawn += 1;
        self.held.pop_front()
    }
}

/// Room for so many more, and little more than that: a list that doubles may have as much again that it never uses, and what
/// goes round in it touches all of it.
pub fn make_room<T>(list: &mut VecDeque<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 8).max(16));
    }
}

/// The row that a random number chooses among `n`.
pub fn chosen(random: u32, n: usize) -> usize {
    match u32::try_from(n) {
        Ok(n) => (random % n) as usize,
        Err(_) => random as usize % n,
    }
}

pub struct Journal(Mutex<Book>);

struct Book {
    runs: Runs,
    draws: Draws,
    next: Next,
    pins: Pins<Pin>,
}

/// A mark that may be asked.
struct Pin {
    journal: Arc<Journal>,
    /// Rows that had come in by then.
    came: u64,
}

/// The rows that a buffer held: runs to read, and the order in which it had them. Those that are left over came in last and
/// were not in it yet.
pub struct Buffered {
    pub runs: Vec<RowRun>,
    pub order: Vec<u32>,
}

impl Book {
    /// Repeats draws up to the oldest mark, and forgets what nobody can ask for.
    fn catch_up(&mut self, drawn: u64) {
        let Book { runs, draws, next, pins } = self;
        let upto = pins.oldest(drawn);
        while draws.drawn < upto {
            let Some(row) = draws.draw(|| runs.come(next)) else { break };
            runs.release(row);
        }
        runs.trim(*next);
    }
}

impl Journal {
    pub fn new(fill: Fill, random: Philox) -> Arc<Journal> {
        let (runs, next, pins) = (Runs::default(), Next::default(), Pins::new());
        Arc::new(Journal(Mutex::new(Book { runs, draws: Draws::new(fill, random), next, pins })))
    }
    /// As it was when the buffer had these rows. `random` stands behind the draws.
    pub fn restored(fill: Fill, random: Philox, drawn: u64, buffered: &Buffered) -> Arc<Journal> {
        let journal = Journal::new(fill, random);
        let mut book = lock(&journal.0);
        book.draws.drawn = drawn;
        let mut numbers: Vec<u64> = Vec::new();
        for run in &buffered.runs {
            numbers.extend(book.runs.add_again(run));
        }
        book.draws.held = buffered.order.iter().map(|rank| numbers[*rank as usize]).collect();
        book.next = book.runs.from(numbers.get(buffered.order.len()));
        drop(book);
        journal
    }
    /// Whether a mark is needed for what comes in next.
    pub fn needs_mark(&self) -> bool {
        !lock(&self.0).runs.is_open()
    }
    /// Notes rows that came in; `from` where a mark was needed.
    pub fn add(&self, from: Option<Mark>, rows: usize) {
        let runs = &mut lock(&self.0).runs;
        match from {
            Some(from) => runs.add(&from, rows),
            None => runs.add_more(rows),
        }
    }
    /// What it takes of memory.
    pub fn bytes(&self) -> usize {
        let book = lock(&self.0);
        let noted = if let Fill::Noted(counts) = &book.draws.fill { counts.capacity() * size_of::<u32>() } else { 0 };
        book.draws.held.capacity() * size_of::<u64>() + book.runs.bytes() + noted
    }
    /// Notes that something else came.
    pub fn part(&self) {
        lock(&self.0).runs.part();
    }
    /// Marks the moment: after so many draws, when so many rows had come in. `fills`: how many went into the buffer
    /// before each draw since the last mark.
    pub fn mark(self: &Arc<Self>, drawn: u64, came: u64, fills: &mut Vec<u32>, out: &mut Mark) {
        let pin = Arc::new(Pin { journal: self.clone(), came });
        let mut book = lock(&self.0);
        if let Fill::Noted(counts) = &mut book.draws.fill {
            counts.extend(fills.drain(..));
        }
        book.pins.add(drawn, &pin);
        book.catch_up(drawn);
        drop(book);
        out.later(pin, drawn);
    }
}

impl Later for Pin {
    fn tell(&self, drawn: u64, out: &mut Vec<Saved>) -> Result<()> {
        let book = lock(&self.journal.0);
        let (mut draws, mut next) = (book.draws.clone(), book.next);
        while draws.drawn < drawn && draws.draw(|| book.runs.come(&mut next)).is_some() {}
        let buffered = draws.held.len();
        let mut numbers: Vec<u64> = draws.held.into();
        let outside = self.came - drawn - buffered as u64;
        numbers.extend((0..outside).map_while(|_| book.runs.come(&mut next)));
        let ranks = book.runs.tell(&numbers, out)?;
        let mut bytes = Vec::new();
        pack::number(buffered as u64, &mut bytes);
        pack::dense(&ranks[..buffered], buffered as u32, &mut bytes);
        out.push(Saved::Bytes(bytes));
        Ok(())
    }
}

impl Buffered {
    /// Reads what `Pin::tell` told.
    pub fn read(at: &mut At<'_>) -> Result<Buffered> {
        let runs = runs::read(at)?;
        let all = runs::rows(&runs);
        let mut unpack = Unpack(at.bytes()?);
        let count = unpack.number().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= all).ok_or_else(unfit)?;
        let order = unpack.dense(count, count as u32).ok_or_else(unfit)?;
        let mut seen = vec![false; count];
        let once = |rank: &u32| seen.get_mut(*rank as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        if order.iter().all(once) { Ok(Buffered { runs, order }) } else { Err(unfit()) }
    }
    pub fn rows(&self) -> usize {
        runs::rows(&self.runs)
    }
}
