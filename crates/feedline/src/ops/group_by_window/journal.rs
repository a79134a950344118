//! Which rows are in open windows, for the states of group_by_window: what the operator did with rows is done again with
//! their numbers, which needs their keys and the sizes of windows.
//!
//! Rows are read again run by run. Behind a shuffle, whose states are large, that would be a state for each run: there all
//! rows from the oldest that is held on are read again, and those that were given are passed over.

use crate::error::Result;
use crate::ops::runs::{self, Next, Pins, Runs};
use crate::runtime::pack::{self, Unpack};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, Later, Mark, RowRun, Saved, unfit};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

pub struct Journal(Mutex<Book>);

struct Book {
    runs: Runs,
    keys: Keys,
    sizes: Sizes,
    open: Open,
    pins: Pins<Pin>,
}

/// The keys of the rows of each run, from run `first` on; `None` for a row that is in no window. Those of runs that were
/// dealt out are forgotten: open windows have the numbers of their rows.
#[derive(Default)]
struct Keys {
    first: u64,
    runs: VecDeque<Vec<Option<i64>>>,
}

/// How many rows a window has.
pub enum Sizes {
    Fixed(usize),
    ByKey(HashMap<i64, usize>),
}

impl Sizes {
    fn of(&self, key: i64) -> Option<usize> {
        match self {
            Sizes::Fixed(size) => Some(*size),
            Sizes::ByKey(sizes) => sizes.get(&key).copied(),
        }
    }
    fn note(&mut self, key: i64, size: usize) {
        if let Sizes::ByKey(sizes) = self {
            sizes.insert(key, size);
        }
    }
}

/// Open windows by key, and how many rows were dealt out.
#[derive(Clone, Default)]
struct Open {
    windows: BTreeMap<i64, Vec<u64>>,
    dealt: u64,
    next: Next,
}

struct Pin {
    journal: Arc<Journal>,
    /// At the end windows are closed in the order of keys: up to this one.
    closed: Option<i64>,
}

/// A window that was open: its key, its size, and which of the rows that are read again are its own.
pub struct Window {
    pub key: i64,
    pub size: usize,
    pub rows: Vec<u64>,
}

/// How the rows of open windows are read again.
pub enum Source {
    Runs(Vec<RowRun>),
    /// So many rows from there on.
    Since(Vec<Saved>, u64),
}

impl Open {
    /// Deals out a row. `gone` is told of rows that are no longer held.
    fn deal(&mut self, runs: &Runs, keys: &Keys, sizes: &Sizes, gone: &mut Vec<u64>) -> bool {
        let Some(number) = runs.come(&mut self.next) else { return false };
        self.dealt += 1;
        let (run, row) = runs::place(number);
        let Some(key) = keys.runs[(run - keys.first) as usize][row] else {
            gone.push(number);
            return true;
        };
        let window = self.windows.entry(key).or_default();
        window.push(number);
        if sizes.of(key).is_some_and(|size| window.len() >= size) {
            gone.append(window);
            self.windows.remove(&key);
        }
        true
    }
}

impl Book {
    fn catch_up(&mut self, dealt: u64) {
        let Book { runs, keys, sizes, open, pins } = self;
        let upto = pins.oldest(dealt);
        let mut gone = Vec::new();
        while open.dealt < upto && open.deal(runs, keys, sizes, &mut gone) {
            gone.drain(..).for_each(|number| runs.release(number));
        }
        runs.trim(open.next);
        let dealt = (open.next.run - keys.first) as usize;
        keys.runs.drain(..dealt);
        keys.first += dealt as u64;
    }
}

impl Journal {
    pub fn new(sizes: Sizes) -> Arc<Journal> {
        let (runs, keys, open) = Default::default();
        Arc::new(Journal(Mutex::new(Book { runs, keys, sizes, open, pins: Pins::new() })))
    }
    /// As it was when these windows were open, after so many rows.
    pub fn restored(sizes: Sizes, runs: &[RowRun], windows: &[Window], dealt: u64) -> Arc<Journal> {
        let journal = Journal::new(sizes);
        let mut guard = lock(&journal.0);
        let book = &mut *guard;
        let mut owners: Vec<i64> = vec![0; runs::rows(runs)];
        for window in windows {
            window.rows.iter().for_each(|row| owners[*row as usize] = window.key);
            book.sizes.note(window.key, window.size);
        }
        let mut owners = owners.into_iter();
        for run in runs {
            let numbers = book.runs.add_again(run);
            for (number, key) in numbers.zip(owners.by_ref()) {
                book.open.windows.entry(key).or_default().push(number);
            }
        }
        (book.open.next, book.open.dealt) = (book.runs.end(), dealt);
        book.keys.first = book.open.next.run;
        drop(guard);
        journal
    }
    /// As it was before the rows are read again that these windows had.
    pub fn before(sizes: Sizes, windows: &[Window], dealt: u64) -> Arc<Journal> {
        let journal = Journal::new(sizes);
        let mut book = lock(&journal.0);
        windows.iter().for_each(|window| book.sizes.note(window.key, window.size));
        book.open.dealt = dealt;
        drop(book);
        journal
    }
    /// Notes rows that came in from there.
    pub fn add(&self, from: &Mark, keys: impl IntoIterator<Item = Option<i64>, IntoIter: ExactSizeIterator>) {
        let (keys, mut guard) = (keys.into_iter(), lock(&self.0));
        let Book { runs, keys: noted, .. } = &mut *guard;
        // A mark may take much more than a few rows do.
        match noted.runs.back_mut().filter(|_| runs.is_open()) {
            Some(last) => {
                runs.add_more(keys.len());
                last.extend(keys);
            }
            None => {
                runs.add(from, keys.len());
                noted.runs.push_back(keys.collect());
            }
        }
    }
    /// Notes that something else came.
    pub fn part(&self) {
        lock(&self.0).runs.part();
    }
    /// What it takes of memory, without what open windows do.
    pub fn bytes(&self) -> usize {
        lock(&self.0).runs.bytes()
    }
    /// The size of a key's windows.
    pub fn size(&self, key: i64, size: usize) {
        lock(&self.0).sizes.note(key, size);
    }
    /// One of so many rows that came last, which has a key but no window.
    pub fn lose(&self, row: usize, of: usize) {
        let mut book = lock(&self.0);
        let Some(keys) = book.keys.runs.back_mut() else { return };
        let before = keys.len() - of;
        keys[before + row] = None;
    }
    /// Marks the moment after so many rows.
    pub fn mark(self: &Arc<Self>, dealt: u64, closed: Option<i64>, out: &mut Mark) {
        let pin = Arc::new(Pin { journal: self.clone(), closed });
        let mut book = lock(&self.0);
        book.pins.add(dealt, &pin);
        book.catch_up(dealt);
        drop(book);
        out.later(pin, dealt);
    }
}

impl Later for Pin {
    fn tell(&self, dealt: u64, out: &mut Vec<Saved>) -> Result<()> {
        let book = lock(&self.journal.0);
        let mut open = book.open.clone();
        while open.dealt < dealt && open.deal(&book.runs, &book.keys, &book.sizes, &mut Vec::new()) {}
        open.windows.retain(|key, _| self.closed.is_none_or(|closed| *key > closed));
        let numbers: Vec<u64> = open.windows.values().flatten().copied().collect();
        // Where rows are known by a state, nobody knows how many came behind the oldest: each run is told, however large.
        let each = book.runs.is_whole(&numbers) || book.runs.has_gaps(&numbers);
        out.push(Saved::Number(each.into()));
        let mut bytes = Vec::new();
        let mut rows = if each {
            book.runs.tell(&numbers, out)?.into_iter().map(u64::from).collect::<Vec<u64>>().into_iter()
        } else {
            let (rows, all) = book.runs.tell_oldest(&numbers, open.next, out)?;
            out.push(Saved::Number(all));
            rows.into_iter()
        };
        pack::number(open.windows.len() as u64, &mut bytes);
        for (key, window) in &open.windows {
            pack::number(*key as u64, &mut bytes);
            pack::number(book.sizes.of(*key).unwrap_or(0) as u64, &mut bytes);
            pack::number(window.len() as u64, &mut bytes);
            // Rows of a window are in the order in which they came.
            let mut last = 0;
            for row in rows.by_ref().take(window.len()) {
                pack::number(row - last, &mut bytes);
                last = row;
            }
        }
        out.push(Saved::Bytes(bytes));
        Ok(())
    }
}

/// Reads what `Pin::tell` told.
pub fn read(at: &mut At<'_>) -> Result<(Source, Vec<Window>)> {
    let (source, all) = if at.flag()? {
        let runs = runs::read(at)?;
        let all = runs::rows(&runs) as u64;
        (Source::Runs(runs), all)
    } else {
        let from = at.counted()?.to_vec();
        let all = at.number()?;
        (Source::Since(from, all), all)
    };
    let mut unpack = Unpack(at.bytes()?);
    let (mut windows, mut owned) = (Vec::new(), HashSet::new());
    for _ in 0..unpack.count().ok_or_else(unfit)? {
        let mut head = || Some((unpack.number()? as i64, unpack.number()?, unpack.count()?));
        let (key, size, count) = head().ok_or_else(unfit)?;
        let size = usize::try_from(size).ok().filter(|size| count < *size).ok_or_else(unfit)?;
        let (mut row, mut rows) = (0u64, Vec::with_capacity(count));
        for _ in 0..count {
            row = unpack.number().and_then(|n| row.checked_add(n)).filter(|r| *r < all).ok_or_else(unfit)?;
            if !owned.insert(row) {
                return Err(unfit());
            }
            rows.push(row);
        }
        windows.push(Window { key, size, rows });
    }
    match &source {
        Source::Runs(_) if owned.len() as u64 != all => Err(unfit()),
        _ => Ok((source, windows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_each_other_share_a_mark() {
        let journal = Journal::new(Sizes::Fixed(1000));
        for chunk in 0..60 {
            let mut from = Mark::default();
            (0..20).for_each(|part| from.number(20 * chunk + part));
            journal.add(&from, [Some(0), Some(1)]);
            // One that had no window, and an error behind it.
            if chunk == 34 {
                journal.lose(1, 2);
                journal.part();
            }
        }
        assert_eq!(lock(&journal.0).runs.kept(), 4 + 3);
        let (few, mut last) = (journal.bytes(), Mark::default());
        assert!((7 * 20 * 8..60 * 20 * 8).contains(&few), "{few}");
        journal.mark(120, None, &mut last);
        let mut parts = Vec::new();
        last.saved(&mut parts).unwrap();
        let (source, windows) = read(&mut At::new(&parts)).unwrap();
        let Source::Runs(runs) = source else { panic!("all of it is there") };
        assert_eq!(runs.iter().map(|run| run.rows.len()).collect::<Vec<_>>(), [20, 20, 20, 9, 20, 20, 10]);
        assert_eq!((runs[3].rows[8], &runs[4].from[0]), (8, &Saved::Number(20 * 35)));
        assert_eq!(windows.iter().map(|w| w.rows.len()).collect::<Vec<_>>(), [60, 59]);
    }

    #[test]
    fn a_window_that_never_fills_keeps_its_own_rows_only() {
        let journal = Journal::new(Sizes::Fixed(3));
        let mut last = Mark::default();
        for row in 0..10_000 {
            let mut from = Mark::default();
            from.number(row);
            journal.add(&from, [Some((row > 0).into())]);
            last = Mark::default();
            journal.mark(row + 1, None, &mut last);
        }
        let book = lock(&journal.0);
        assert!(book.keys.runs.len() <= 1 && book.runs.kept() < 200, "{} runs", book.runs.kept());
        drop(book);
        // Row 0 waits in a window of its own; the 9,999 others fill theirs.
        let mut parts = Vec::new();
        last.saved(&mut parts).unwrap();
        let (source, windows) = read(&mut At::new(&parts)).unwrap();
        assert!(matches!(source, Source::Runs(runs) if runs.len() == 1 && runs[0].from == [Saved::Number(0)]));
        assert_eq!(windows.iter().map(|w| (w.key, w.rows.clone())).collect::<Vec<_>>(), [(0, vec![0])]);
    }
}
