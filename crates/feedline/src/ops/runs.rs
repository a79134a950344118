//! Where rows came from that an operator holds: runs of rows, each with the mark from before it. Not an operator: what
//! shuffle and group_by_window keep for their states. No row is kept, only what is needed to read it again.
//!
//! 1. Each run that comes in is noted. It is forgotten when none of its rows is held in any state that can still be asked
//!    for.
//! 2. An operator's marks are *pins*: they say how far it was. Which rows it held then is found out only if a state is
//!    asked for, by doing with numbers of rows again what it did with rows, from the oldest pin on.

use crate::error::Result;
use crate::runtime::pack::{self, Unpack};
use crate::runtime::{At, Mark, RowRun, Saved, unfit};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// A row's number: its run, and its place there. No run is longer than a pull may be.
const ROW_BITS: u32 = 20;
pub const MOST_ROWS: usize = 1 << ROW_BITS;

fn number(run: u64, row: u32) -> u64 {
    run << ROW_BITS | u64::from(row)
}

/// The run of a row, and its place there.
pub fn place(number: u64) -> (u64, usize) {
    (number >> ROW_BITS, number as usize & (MOST_ROWS - 1))
}

/// Rows that came in together.
struct Came {
    number: u64,
    /// How many rows came in before.
    start: u64,
    from: Mark,
    rows: u32,
    /// Which of the rows that come from there, if not the first ones.
    picks: Option<Box<[u32]>>,
    /// How many of them are still held.
    left: u32,
}

/// Where a walk over the rows stands.
#[derive(Clone, Copy, Default)]
pub struct Next {
    pub run: u64,
    row: u32,
}

#[derive(Default)]
pub struct Runs {
    /// In the order of their numbers. Those of which nothing is held may be missing.
    runs: VecDeque<Came>,
    /// Of how many of them nothing is held.
    gone: usize,
    /// The number of the next run, and the rows that came in before it.
    end: u64,
    rows: u64,
}

/// So many runs of which nothing is held may stay: one row that is never drawn must not keep all that came after it.
const GONE: usize = 64;

impl Runs {
    pub fn add(&mut self, from: Mark, rows: usize) {
        self.push(from, rows as u32, None);
    }
    fn push(&mut self, from: Mark, rows: u32, picks: Option<Box<[u32]>>) {
        self.runs.push_back(Came { number: self.end, start: self.rows, from, rows, picks, left: rows });
        self.end += 1;
        self.rows += u64::from(rows);
    }
    /// The same for one that a state told of. Gives the numbers of its rows.
    pub fn add_again(&mut self, run: &RowRun) -> impl Iterator<Item = u64> + use<> {
        let (rows, at) = (run.rows.len() as u32, self.end);
        self.push(run.from.as_slice().into(), rows, Some(run.rows.as_slice().into()));
        (0..rows).map(move |row| number(at, row))
    }
    /// Behind the last row so far.
    pub fn end(&self) -> Next {
        Next { run: self.end, row: 0 }
    }
    /// A walk that begins at that row.
    pub fn from(&self, row: Option<&u64>) -> Next {
        row.map_or(self.end(), |number| Next { run: place(*number).0, row: place(*number).1 as u32 })
    }
    /// Where a run stands. None of the newest is missing, so it is found from behind, or searched for.
    fn index(&self, run: u64) -> Option<usize> {
        let from_behind = usize::try_from(self.end - run).ok().and_then(|n| self.runs.len().checked_sub(n));
        match from_behind.filter(|i| self.runs.get(*i).is_some_and(|came| came.number == run)) {
            Some(i) => Some(i),
            None => self.runs.binary_search_by_key(&run, |came| came.number).ok(),
        }
    }
    fn of(&self, number: u64) -> &Came {
        &self.runs[self.index(place(number).0).expect("runs of rows that are held are there")]
    }
    /// The next row's number, if it has come in.
    pub fn come(&self, next: &mut Next) -> Option<u64> {
        let run = &self.runs[self.index(next.run)?];
        let number = number(next.run, next.row);
        next.row += 1;
        if next.row == run.rows {
            *next = Next { run: next.run + 1, row: 0 };
        }
        Some(number)
    }
    /// A row is no longer held.
    pub fn release(&mut self, number: u64) {
        let Some(i) = self.index(place(number).0) else { return };
        let run = &mut self.runs[i];
        run.left -= 1;
        if run.left == 0 {
            (run.from, run.picks) = (Mark::default(), None);
            self.gone += 1;
        }
    }
    /// Forgets runs in front of a walk of which nothing is held.
    pub fn trim(&mut self, next: Next) {
        let is_gone = |run: &Came| run.left == 0 && run.number < next.run;
        while self.runs.front().is_some_and(is_gone) {
            self.runs.pop_front();
            self.gone = self.gone.saturating_sub(1);
        }
        if self.gone > GONE + self.runs.len() / 2 {
            self.runs.retain(|run| !is_gone(run));
            self.gone = self.runs.iter().filter(|run| run.left == 0).count();
        }
    }
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.runs.len()
    }
    /// Whether all that is to be told of these rows is there: runs from a stage that has much to tell cannot each tell it.
    pub fn is_whole(&self, numbers: &[u64]) -> bool {
        numbers.iter().all(|number| self.of(*number).from.is_whole())
    }
    /// Tells of the oldest run of these rows: from there on all is read again, up to a walk. Gives each row's place in
    /// that, and how many rows it is.
    pub fn tell_oldest(&self, numbers: &[u64], upto: Next, out: &mut Vec<Saved>) -> Result<(Vec<u64>, u64)> {
        let oldest = numbers.iter().min().map(|number| self.of(*number));
        let end = self.index(upto.run).map_or(self.rows, |i| self.runs[i].start) + u64::from(upto.row);
        let first = oldest.map_or(end, |run| run.start);
        let mut parts = Vec::new();
        if let Some(run) = oldest {
            run.from.saved(&mut parts)?;
        }
        out.push(Saved::Number(parts.len() as u64));
        out.extend(parts);
        let places = numbers.iter().map(|number| self.of(*number).start - first + place(*number).1 as u64).collect();
        Ok((places, end - first))
    }
    /// Tells of the runs of these rows. Gives each row's rank among them, in the order in which they came in.
    pub fn tell(&self, numbers: &[u64], out: &mut Vec<Saved>) -> Result<Vec<u32>> {
        // Sorted by counting: how many rows of each run, then the rows of a run among themselves.
        let run_of = |number: &u64| self.index(place(*number).0).expect("runs of rows that are held are there");
        let mut starts = vec![0u32; self.runs.len() + 1];
        numbers.iter().for_each(|n| starts[run_of(n) + 1] += 1);
        (1..starts.len()).for_each(|i| starts[i] += starts[i - 1]);
        let mut sorted = vec![(0u32, 0u32); numbers.len()];
        let mut fill = starts.clone();
        for (i, number) in numbers.iter().enumerate() {
            let run = run_of(number);
            sorted[fill[run] as usize] = (place(*number).1 as u32, i as u32);
            fill[run] += 1;
        }
        let mut ranks = vec![0u32; numbers.len()];
        let (mut bytes, mut marks) = (Vec::new(), Vec::new());
        for (i, run) in self.runs.iter().enumerate() {
            let rows = &mut sorted[starts[i] as usize..starts[i + 1] as usize];
            if rows.is_empty() {
                continue;
            }
            rows.sort_unstable();
            marks.push(&run.from);
            pack::number(rows.len() as u64, &mut bytes);
            let mut last = 0;
            for ((row, which), rank) in rows.iter().zip(starts[i]..) {
                let row = run.picks.as_ref().map_or(*row, |picks| picks[*row as usize]);
                pack::number(u64::from(row - last), &mut bytes);
                last = row;
                ranks[*which as usize] = rank;
            }
        }
        out.push(Saved::Number(marks.len() as u64));
        tell_marks(&marks, out)?;
        out.push(Saved::Bytes(bytes));
        Ok(ranks)
    }
}

/// Marks of numbers alone are packed as tables of equal length; others are spelt out. There may be one for each row of a
/// large buffer, so none of the former costs an allocation.
fn tell_marks(marks: &[&Mark], out: &mut Vec<Saved>) -> Result<()> {
    let (mut numbers, mut ends) = (Vec::new(), Vec::with_capacity(marks.len()));
    let packed = marks.iter().all(|mark| {
        let only_numbers = mark.numbers(&mut numbers);
        ends.push(numbers.len());
        only_numbers
    });
    out.push(Saved::Number(packed.into()));
    if !packed {
        for mark in marks {
            let mut parts = Vec::new();
            mark.saved(&mut parts)?;
            out.push(Saved::Number(parts.len() as u64));
            out.extend(parts);
        }
        return Ok(());
    }
    let (mut bytes, mut start) = (Vec::new(), 0);
    let mut widths = ends.iter().scan(0, |last, end| Some(end - std::mem::replace(last, *end))).peekable();
    while let Some(width) = widths.next() {
        let mut rows = 1;
        while widths.next_if_eq(&width).is_some() {
            rows += 1;
        }
        pack::table(rows, width, &numbers[start..start + rows * width], &mut bytes);
        start += rows * width;
    }
    out.push(Saved::Bytes(bytes));
    Ok(())
}

/// Reads what `Runs::tell` told.
pub fn read(at: &mut At<'_>) -> Result<Vec<RowRun>> {
    let count = at.number()?;
    let mut marks: Vec<Vec<Saved>> = Vec::new();
    if at.flag()? {
        let mut unpack = Unpack(at.bytes()?);
        while (marks.len() as u64) < count {
            let table = unpack.table().filter(|t| !t.is_empty()).ok_or_else(unfit)?;
            marks.extend(table.into_iter().map(|row| row.into_iter().map(Saved::Number).collect::<Vec<_>>()));
        }
    } else {
        for _ in 0..count {
            marks.push(at.counted()?.to_vec());
        }
    }
    let mut unpack = Unpack(at.bytes()?);
    let mut runs = Vec::with_capacity(marks.len());
    for from in marks {
        let count = unpack.count().filter(|n| *n > 0).ok_or_else(unfit)?;
        let (mut row, mut rows) = (0u32, Vec::with_capacity(count));
        for i in 0..count {
            let step = unpack.number().and_then(|n| u32::try_from(n).ok()).filter(|n| i == 0 || *n > 0);
            row = step.and_then(|n| row.checked_add(n)).filter(|r| (*r as usize) < MOST_ROWS).ok_or_else(unfit)?;
            rows.push(row);
        }
        runs.push(RowRun { from, rows });
    }
    if runs.len() as u64 == count { Ok(runs) } else { Err(unfit()) }
}

/// How many rows the runs have.
pub fn rows(runs: &[RowRun]) -> usize {
    runs.iter().map(|run| run.rows.len()).sum()
}

/// Marks that may be asked, in order: each with how far its operator was.
pub struct Pins<P>(VecDeque<(u64, Weak<P>)>);

impl<P> Pins<P> {
    pub fn new() -> Pins<P> {
        Pins(VecDeque::new())
    }
    pub fn add(&mut self, far: u64, pin: &Arc<P>) {
        self.0.push_back((far, Arc::downgrade(pin)));
    }
    /// How far the operator was at the oldest that is left; `now` if there is none.
    pub fn oldest(&mut self, now: u64) -> u64 {
        while self.0.front().is_some_and(|(_, pin)| pin.strong_count() == 0) {
            self.0.pop_front();
        }
        self.0.front().map_or(now, |(far, _)| *far)
    }
}
