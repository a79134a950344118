//! Where the rows of a shuffle's buffer came from, for its states: no row is kept, only what is needed to read it again.
//!
//! 1. Each run of rows that comes in is noted with the mark from before it. A run is forgotten when none of its rows is in
//!    the buffer of any state that can still be asked for.
//! 2. Which rows are in the buffer, and in which order, follows from the random numbers alone. So the stage does not keep
//!    account of it: `Draws` does what the stage did, on numbers of rows, some way behind it: up to the oldest mark that
//!    is still there.
//! 3. A mark says after how many draws it was made. Asked for a state, the draws from (2) are repeated up to there.

use crate::error::Result;
use crate::expr::Philox;
use crate::runtime::pack::{self, Unpack};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, Later, Mark, RowRun, Saved, unfit};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The order of a buffer: what the stage does with rows, done with their numbers.
#[derive(Clone)]
pub struct Draws {
    size: usize,
    random: Philox,
    /// Oldest first.
    pub held: VecDeque<u64>,
    pub drawn: u64,
}

impl Draws {
    pub fn new(size: usize, random: Philox) -> Draws {
        Draws { size, random, held: VecDeque::new(), drawn: 0 }
    }
    /// Fills the buffer with what `come` gives, and draws a row; `None` if there is none.
    pub fn draw(&mut self, mut come: impl FnMut() -> Option<u64>) -> Option<u64> {
        while self.held.len() < self.size {
            let Some(row) = come() else { break };
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

/// The row that a random number chooses among `n`.
pub fn chosen(random: u32, n: usize) -> usize {
    match u32::try_from(n) {
        Ok(n) => (random % n) as usize,
        Err(_) => random as usize % n,
    }
}

/// A row's number: its run, and its place there. No run is longer than a pull may be.
const ROW_BITS: u32 = 20;

fn row_number(run: u64, row: u32) -> u64 {
    run << ROW_BITS | u64::from(row)
}

fn parts_of(number: u64) -> (u64, usize) {
    (number >> ROW_BITS, (number & ((1 << ROW_BITS) - 1)) as usize)
}

/// Rows that came in together.
struct Came {
    from: Mark,
    rows: u32,
    /// Which of the rows that come from there, if not the first ones.
    picks: Option<Box<[u32]>>,
    /// How many of them have not been drawn.
    left: u32,
}

/// Where a walk over the rows stands.
#[derive(Clone, Copy)]
struct Next {
    run: u64,
    row: u32,
}

struct Book {
    runs: VecDeque<Came>,
    /// The number of the first of them.
    first: u64,
    draws: Draws,
    next: Next,
    /// Marks that may be asked, in order: after how many draws they were made.
    pins: VecDeque<(u64, Weak<Pin>)>,
}

impl Book {
    fn come(&self, next: &mut Next) -> Option<u64> {
        let run = self.runs.get((next.run - self.first) as usize)?;
        let number = row_number(next.run, next.row);
        next.row += 1;
        if next.row == run.rows {
            *next = Next { run: next.run + 1, row: 0 };
        }
        Some(number)
    }
    /// Repeats draws up to the oldest mark, and forgets what nobody can ask for.
    fn catch_up(&mut self, drawn: u64) {
        while self.pins.front().is_some_and(|(_, pin)| pin.strong_count() == 0) {
            self.pins.pop_front();
        }
        let upto = self.pins.front().map_or(drawn, |(drawn, _)| *drawn);
        while self.draws.drawn < upto {
            let (mut draws, mut next) =
                (std::mem::replace(&mut self.draws, Draws::new(0, Philox::new(0, 0))), self.next);
            let mut gone = None;
            // Some at a time, so that they need not be taken out of the book for each.
            for _ in 0..(upto - draws.drawn).min(64) {
                gone = draws.draw(|| self.come(&mut next));
                let Some(number) = gone else { break };
                let (run, _) = parts_of(number);
                let run = &mut self.runs[(run - self.first) as usize];
                run.left -= 1;
                if run.left == 0 {
                    run.from = Mark::default();
                    run.picks = None;
                }
            }
            (self.draws, self.next) = (draws, next);
            if gone.is_none() {
                break;
            }
        }
        while self.first < self.next.run && self.runs.front().is_some_and(|run| run.left == 0) {
            self.runs.pop_front();
            self.first += 1;
        }
    }
}

pub struct Journal(Mutex<Book>);

/// A mark that may be asked.
struct Pin {
    journal: Arc<Journal>,
    /// Rows that had come in by then.
    came: u64,
}

/// The rows that a buffer held: runs to read, the order in which the buffer had them, and how many of the last came in
/// without being in the buffer yet.
pub struct Buffered {
    pub runs: Vec<RowRun>,
    pub order: Vec<u32>,
}

impl Journal {
    pub fn new(size: usize, random: Philox) -> Arc<Journal> {
        let draws = Draws::new(size, random);
        let (runs, first, next, pins) = (VecDeque::new(), 0, Next { run: 0, row: 0 }, VecDeque::new());
        Arc::new(Journal(Mutex::new(Book { runs, first, draws, next, pins })))
    }
    /// As it was when the buffer had these rows. `random` stands behind the draws.
    pub fn restored(size: usize, random: Philox, drawn: u64, buffered: &Buffered) -> Arc<Journal> {
        let journal = Journal::new(size, random);
        let mut guard = lock(&journal.0);
        let book = &mut *guard;
        book.draws.drawn = drawn;
        let mut numbers = Vec::new();
        for (i, run) in buffered.runs.iter().enumerate() {
            let rows = run.rows.len() as u32;
            let picks = Some(run.rows.as_slice().into());
            book.runs.push_back(Came { from: Mark::from(&run.from[..]), rows, picks, left: rows });
            numbers.extend((0..rows).map(|row| row_number(i as u64, row)));
        }
        book.draws.held = buffered.order.iter().map(|rank| numbers[*rank as usize]).collect();
        let rest = numbers.get(buffered.order.len()).map(|number| parts_of(*number));
        book.next = match rest {
            Some((run, row)) => Next { run, row: row as u32 },
            None => Next { run: book.runs.len() as u64, row: 0 },
        };
        drop(guard);
        journal
    }
    /// Notes rows that came in.
    pub fn add(&self, from: Mark, rows: usize) {
        let rows = rows as u32;
        lock(&self.0).runs.push_back(Came { from, rows, picks: None, left: rows });
    }
    /// Marks the moment: after so many draws, when so many rows had come in.
    pub fn mark(self: &Arc<Self>, drawn: u64, came: u64, out: &mut Mark) {
        let pin = Arc::new(Pin { journal: self.clone(), came });
        let mut book = lock(&self.0);
        book.pins.push_back((drawn, Arc::downgrade(&pin)));
        book.catch_up(drawn);
        drop(book);
        out.later(pin, drawn);
    }
}

impl Later for Pin {
    fn tell(&self, drawn: u64, out: &mut Vec<Saved>) -> Result<()> {
        let book = lock(&self.journal.0);
        let (mut draws, mut next) = (book.draws.clone(), book.next);
        while draws.drawn < drawn && draws.draw(|| book.come(&mut next)).is_some() {}
        // What had come in and was not in the buffer yet follows what was.
        let (buffered, mut numbers) = (draws.held.len(), draws.held);
        let missing = self.came - drawn - buffered as u64;
        numbers.extend((0..missing).map_while(|_| book.come(&mut next)));
        // Sorted by counting: how many rows of each run, then the rows of a run among themselves.
        let mut counts = vec![0u32; book.runs.len() + 1];
        let run_of = |number: &u64| (parts_of(*number).0 - book.first) as usize;
        numbers.iter().for_each(|n| counts[run_of(n) + 1] += 1);
        (1..counts.len()).for_each(|i| counts[i] += counts[i - 1]);
        let mut sorted = vec![(0u32, 0u32); numbers.len()];
        let mut fill = counts.clone();
        for (place, number) in numbers.iter().enumerate() {
            let run = run_of(number);
            sorted[fill[run] as usize] = (parts_of(*number).1 as u32, place as u32);
            fill[run] += 1;
        }
        let mut ranks = vec![0u32; numbers.len()];
        let mut bytes = Vec::new();
        let mut marks = Vec::new();
        for (i, run) in book.runs.iter().enumerate() {
            let rows = &mut sorted[counts[i] as usize..counts[i + 1] as usize];
            if rows.is_empty() {
                continue;
            }
            rows.sort_unstable();
            marks.push(&run.from);
            pack::number(rows.len() as u64, &mut bytes);
            let mut last = 0;
            for (k, (row, place)) in rows.iter().enumerate() {
                let row = run.picks.as_ref().map_or(*row, |picks| picks[*row as usize]);
                pack::number(u64::from(row - last), &mut bytes);
                last = row;
                ranks[*place as usize] = counts[i] + k as u32;
            }
        }
        out.push(Saved::Number(marks.len() as u64));
        save_marks(&marks, out)?;
        pack::number(buffered as u64, &mut bytes);
        ranks[..buffered].iter().for_each(|rank| pack::number(u64::from(*rank), &mut bytes));
        out.push(Saved::Bytes(bytes));
        Ok(())
    }
}

/// Marks of numbers alone are packed as a table, as long as they are of one length; others are spelt out.
fn save_marks(marks: &[&Mark], out: &mut Vec<Saved>) -> Result<()> {
    let mut saved = Vec::with_capacity(marks.len());
    for mark in marks {
        let mut parts = Vec::new();
        mark.saved(&mut parts)?;
        saved.push(parts);
    }
    let numbers: Option<Vec<Vec<u64>>> =
        saved.iter().map(|parts| parts.iter().map(Saved::as_number).collect()).collect();
    if let Some(rows) = numbers {
        out.push(Saved::Number(1));
        let mut bytes = Vec::new();
        for group in rows.chunk_by(|a, b| a.len() == b.len()) {
            pack::table(group, &mut bytes);
        }
        out.push(Saved::Bytes(bytes));
        return Ok(());
    }
    out.push(Saved::Number(0));
    for parts in saved {
        out.push(Saved::Number(parts.len() as u64));
        out.extend(parts);
    }
    Ok(())
}

impl Buffered {
    /// Reads what `Pin::tell` wrote.
    pub fn read(at: &mut At<'_>) -> Result<Buffered> {
        let count = usize::try_from(at.number()?).map_err(|_| unfit())?;
        let mut marks: Vec<Vec<Saved>> = Vec::new();
        if at.flag()? {
            let mut unpack = Unpack(at.bytes()?);
            while marks.len() < count {
                let table = unpack.table().filter(|t| !t.is_empty()).ok_or_else(unfit)?;
                marks.extend(table.into_iter().map(|row| row.into_iter().map(Saved::Number).collect::<Vec<_>>()));
            }
        } else {
            for _ in 0..count {
                let parts = at.number()?;
                marks.push(at.take(parts)?.to_vec());
            }
        }
        if marks.len() != count {
            return Err(unfit());
        }
        let mut unpack = Unpack(at.bytes()?);
        let mut all = 0;
        let mut runs = Vec::with_capacity(count);
        for from in marks {
            let rows = unpack.count().filter(|n| *n > 0).ok_or_else(unfit)?;
            let mut row = 0u32;
            let mut picks = Vec::with_capacity(rows);
            for i in 0..rows {
                let step = unpack.number().and_then(|n| u32::try_from(n).ok()).filter(|n| i == 0 || *n > 0);
                row = step.and_then(|n| row.checked_add(n)).filter(|r| *r < 1 << ROW_BITS).ok_or_else(unfit)?;
                picks.push(row);
            }
            all += rows;
            runs.push(RowRun { from, rows: picks });
        }
        let buffered = unpack.count().filter(|n| *n <= all).ok_or_else(unfit)?;
        let mut seen = vec![false; buffered];
        let mut order = Vec::with_capacity(buffered);
        for _ in 0..buffered {
            let rank = unpack.number().and_then(|n| usize::try_from(n).ok()).filter(|n| *n < buffered);
            let rank = rank.filter(|n| !std::mem::replace(&mut seen[*n], true)).ok_or_else(unfit)?;
            order.push(rank as u32);
        }
        Ok(Buffered { runs, order })
    }
    pub fn rows(&self) -> usize {
        self.runs.iter().map(|run| run.rows.len()).sum()
    }
}
