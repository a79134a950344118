//! Where rows came from that an operator holds: runs of rows, each with the mark from before it. Not an operator: what
//! shuffle and group_by_window keep for their states. No row is kept, only what is needed to read it again.
//!
//! 1. Each run that comes in is noted. It is forgotten when none of its rows is held in any state that can still be asked
//!    for. Rows that follow those of a short run can be noted as more of it: that needs no mark, and takes less room in a
//!    state. To read one of them again, those in front of it have to be passed over.
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
    from: From,
    rows: u32,
    /// Which of the rows that come from there, if not the first ones.
    picks: Option<Box<[u32]>>,
    /// How many of them are still held.
    left: u32,
}

/// A mark. One of a few numbers, as most are, lies here: there are as many as runs, and a state asks for all of them.
enum From {
    Few([u64; FEW], u8),
    Any(Mark),
}

const FEW: usize = 8;

impl From {
    fn new(mark: &Mark) -> From {
        let mut numbers = [0; FEW];
        match mark.few(&mut numbers) {
            Some(count) => From::Few(numbers, count as u8),
            None => From::Any(mark.clone().again()),
        }
    }
    /// What it takes of memory besides its place.
    fn bytes(&self) -> usize {
        if let From::Any(mark) = self { mark.bytes() } else { 0 }
    }
    fn none() -> From {
        From::Few([0; FEW], 0)
    }
    fn parts(&self) -> usize {
        match self {
            From::Few(_, count) => usize::from(*count),
            From::Any(mark) => mark.parts(),
        }
    }
    fn is_whole(&self) -> bool {
        if let From::Any(mark) = self { mark.is_whole() } else { true }
    }
    /// Its numbers, if it is nothing but numbers.
    fn numbers(&self, out: &mut Vec<u64>) -> bool {
        match self {
            From::Few(numbers, count) => out.extend_from_slice(&numbers[..usize::from(*count)]),
            From::Any(mark) => return mark.numbers(out),
        }
        true
    }
    fn saved(&self, out: &mut Vec<Saved>) -> Result<()> {
        match self {
            From::Few(numbers, count) => out.extend(numbers[..usize::from(*count)].iter().map(|n| Saved::Number(*n))),
            From::Any(mark) => return mark.saved(out),
        }
        Ok(())
    }
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
    /// What their marks take of memory.
    marks: usize,
    /// The number of the next run, and the rows that came in before it.
    end: u64,
    rows: u64,
    /// More rows may be added to the last run.
    open: bool,
}

/// A run of fewer rows is short. So is one of fewer rows than its mark has parts, up to a bound: what is to be told of rows
/// should not be more than their order is.
const SHORT: std::ops::RangeInclusive<usize> = 16..=32;

/// So many runs of which nothing is held may stay: one row that is never drawn must not keep all that came after it.
const GONE: usize = 64;

impl Runs {
    /// What the list takes of memory.
    pub fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Came>() + self.marks
    }
    pub fn add(&mut self, from: &Mark, rows: usize) {
        self.push(from, rows as u32, None);
        self.open = true;
    }
    /// Whether what follows can be noted as more of the last run.
    pub fn is_open(&self) -> bool {
        let short = |run: &Came| (run.rows as usize) < run.from.parts().clamp(*SHORT.start(), *SHORT.end());
        self.open && self.runs.back().is_some_and(|run| run.left > 0 && short(run))
    }
    /// More rows of the last run, which is open.
    pub fn add_more(&mut self, rows: usize) {
        if let Some(run) = self.runs.back_mut() {
            run.rows += rows as u32;
            run.left += rows as u32;
            self.rows += rows as u64;
        }
    }
    /// What comes next does not follow the last row: something else came between them.
    pub fn part(&mut self) {
        self.open = false;
    }
    fn push(&mut self, from: &Mark, rows: u32, picks: Option<Box<[u32]>>) {
        let from = From::new(from);
        self.marks += from.bytes();
        self.runs.push_back(Came { number: self.end, start: self.rows, from, rows, picks, left: rows });
        self.end += 1;
        self.rows += u64::from(rows);
    }
    /// The same for one that a state told of. Gives the numbers of its rows.
    pub fn add_again(&mut self, run: &RowRun) -> impl Iterator<Item = u64> + use<> {
        self.part();
        let (rows, at) = (run.rows.len() as u32, self.end);
        self.push(&run.from.as_slice().into(), rows, Some(run.rows.as_slice().into()));
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
        // At the end of a run it stays there: more rows may be added.
        if self.runs[self.index(next.run)?].rows == next.row {
            self.index(next.run + 1)?;
            *next = Next { run: next.run + 1, row: 0 };
        }
        next.row += 1;
        Some(number(next.run, next.row - 1))
    }
    /// A row is no longer held.
    pub fn release(&mut self, number: u64) {
        let Some(i) = self.index(place(number).0) else { return };
        let run = &mut self.runs[i];
        run.left -= 1;
        if run.left == 0 {
            self.marks -= run.from.bytes();
            (run.from, run.picks) = (From::none(), None);
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
    /// Whether some of these rows are known by a state: of what came between them, and behind them, nothing is.
    pub fn has_gaps(&self, numbers: &[u64]) -> bool {
        numbers.iter().any(|number| self.of(*number).picks.is_some())
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
        // A bit for each row of the runs that are there says whether it is meant: no sorting.
        let starts = Starts::new(&self.runs);
        let mut bits = Bits::new(starts.all);
        let mut places = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (run, row) = place(*number);
            let place = starts.of(run) + row as u64;
            bits.set(place);
            places.push(place);
        }
        let (mut marks, mut rows, mut picks) = (Marks::default(), Vec::new(), Vec::new());
        for (run, (_, start)) in self.runs.iter().zip(&starts.runs) {
            picks.clear();
            bits.each(*start..start + u64::from(run.rows), |place| picks.push((place - start) as u32));
            if picks.is_empty() {
                continue;
            }
            if let Some(of) = &run.picks {
                picks.iter_mut().for_each(|row| *row = of[*row as usize]);
            }
            marks.push(&run.from)?;
            pack::rising(&picks, &mut rows);
        }
        marks.tell(out);
        out.push(Saved::Bytes(rows));
        let rank = bits.ranks();
        Ok(places.iter().map(|place| rank(*place)).collect())
    }
}

/// How many rows lie in front of each run, among those that are there.
struct Starts {
    /// By the number of the run.
    runs: Vec<(u64, u64)>,
    /// Where those with the same upper bits of their number begin: so that few have to be looked at for each, and only the
    /// right one where numbers lie close enough for all of their bits to be taken.
    parts: Vec<u32>,
    first: u64,
    shift: u32,
    all: u64,
}

/// Rows that stay long leave gaps between the numbers of runs: of a shuffle's, one in four is there.
const PARTS_A_RUN: u64 = 8;

impl Starts {
    fn new(runs: &VecDeque<Came>) -> Starts {
        let first = runs.front().map_or(0, |run| run.number);
        let span = runs.back().map_or(0, |run| run.number - first);
        let shift = (span / (PARTS_A_RUN * runs.len() as u64).max(1)).checked_ilog2().map_or(0, |bits| bits + 1);
        let (mut starts, mut parts, mut all) = (Vec::with_capacity(runs.len()), Vec::new(), 0);
        for (run, i) in runs.iter().zip(0..) {
            parts.resize(((run.number - first) >> shift) as usize + 1, i);
            starts.push((run.number, all));
            all += u64::from(run.rows);
        }
        parts.push(runs.len() as u32);
        Starts { runs: starts, parts, first, shift, all }
    }
    fn of(&self, run: u64) -> u64 {
        let part = ((run - self.first) >> self.shift) as usize;
        let alike = &self.runs[self.parts[part] as usize..];
        if self.shift == 0 {
            return alike[0].1;
        }
        let alike = &alike[..(self.parts[part + 1] - self.parts[part]) as usize];
        alike[alike.partition_point(|(number, _)| *number < run)].1
    }
}

/// Which of many places are meant.
struct Bits(Vec<u64>);

impl Bits {
    fn new(places: u64) -> Bits {
        Bits(vec![0; (places / 64 + 1) as usize])
    }
    fn set(&mut self, place: u64) {
        self.0[(place / 64) as usize] |= 1 << (place % 64);
    }
    /// Those of a range, in order.
    fn each(&self, range: std::ops::Range<u64>, mut f: impl FnMut(u64)) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / 64 + 1) * 64);
            let mut word = self.0[(at / 64) as usize] >> (at % 64);
            word &= u64::MAX >> (64 - (end - at));
            while word != 0 {
                f(at + u64::from(word.trailing_zeros()));
                word &= word - 1;
            }
            at = end;
        }
    }
    /// How many of them are in front of each.
    fn ranks(&self) -> impl Fn(u64) -> u32 {
        let mut all = 0;
        let before = |word: &u64| {
            all += word.count_ones();
            (*word, all - word.count_ones())
        };
        let words: Vec<(u64, u32)> = self.0.iter().map(before).collect();
        move |place| {
            let (word, before) = words[(place / 64) as usize];
            before + (word & ((1 << (place % 64)) - 1)).count_ones()
        }
    }
}

/// Marks of numbers alone are packed as tables of equal length; others are spelt out. There may be one for each row of a
/// large buffer, so none of the former costs an allocation.
#[derive(Default)]
struct Marks {
    count: u64,
    numbers: Vec<u64>,
    /// Where each one's numbers end.
    ends: Vec<usize>,
    /// All of them, once there is one that is more than numbers.
    spelt: Option<Vec<Saved>>,
}

impl Marks {
    fn push(&mut self, mark: &From) -> Result<()> {
        self.count += 1;
        if self.spelt.is_none() {
            let start = self.numbers.len();
            if mark.numbers(&mut self.numbers) {
                self.ends.push(self.numbers.len());
                return Ok(());
            }
            self.numbers.truncate(start);
        }
        let spelt = self.spelt.get_or_insert_with(|| {
            let mut start = 0;
            let mut one = |end: &usize| {
                let numbers = &self.numbers[std::mem::replace(&mut start, *end)..*end];
                [numbers.len() as u64].iter().chain(numbers).map(|n| Saved::Number(*n)).collect::<Vec<_>>()
            };
            self.ends.iter().flat_map(&mut one).collect()
        });
        let mut parts = Vec::new();
        mark.saved(&mut parts)?;
        spelt.push(Saved::Number(parts.len() as u64));
        spelt.extend(parts);
        Ok(())
    }
    fn tell(self, out: &mut Vec<Saved>) {
        out.push(Saved::Number(self.count));
        out.push(Saved::Number(self.spelt.is_none().into()));
        if let Some(spelt) = self.spelt {
            return out.extend(spelt);
        }
        let (mut bytes, mut start) = (Vec::new(), 0);
        let mut widths = self.ends.iter().scan(0, |last, end| Some(end - std::mem::replace(last, *end))).peekable();
        while let Some(width) = widths.next() {
            let mut rows = 1;
            while widths.next_if_eq(&width).is_some() {
                rows += 1;
            }
            pack::table(rows, width, &self.numbers[start..start + rows * width], &mut bytes);
            start += rows * width;
        }
        out.push(Saved::Bytes(bytes));
    }
}

/// Reads what `Runs::tell` told.
pub fn read(at: &mut At<'_>) -> Result<Vec<RowRun>> {
    let count = at.number()?;
    let mut marks: Vec<Vec<Saved>> = Vec::new();
    if at.flag()? {
        let mut unpack = Unpack(at.bytes()?);
        // What follows has a byte at least for each run.
        let most = if let Some(Saved::Bytes(rows)) = at.rest().first() { rows.len() } else { 0 };
        let mut room = Unpack::room(unpack.0.len() + most);
        while (marks.len() as u64) < count {
            let table = unpack.table(most - marks.len(), &mut room).filter(|t| !t.is_empty()).ok_or_else(unfit)?;
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
        let rows = unpack.rising(MOST_ROWS as u32).filter(|rows| !rows.is_empty()).ok_or_else(unfit)?;
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
