//! Where rows stand in the stream they came from, and, if somebody asked to be told, where they were first.

use crate::error::Error;
use std::ops::Range;
use std::sync::Arc;

/// Where each row stands in the stream it came from: what randomness and error messages refer to.
#[derive(Clone, Debug, PartialEq)]
pub enum Pos {
    /// Consecutive from here.
    Run(u64),
    List(Arc<[u64]>),
    /// With their origins: only in passes that trace them.
    Traced(Arc<[Traced]>),
}

/// A row's position, and where it was first.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    pub at: u64,
    pub origin: Origin,
}

/// What a row was made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A row of a source.
    Row { source: Arc<RowSource>, position: u64, record: Option<u64>, byte: Option<u64> },
    /// Several rows, in the order in which they lie in it: a batch, or what `zip` put side by side.
    Rows(Arc<[Origin]>),
    /// Rows that this operator put together without telling which.
    Lost(&'static str),
}

/// Where rows come from: an operator without inputs, in one pass, and the file that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSource {
    pub op: &'static str,
    /// Its place in the plan as it runs; `None` inside a function.
    pub number: Option<u64>,
    /// The pass that its random numbers belong to.
    pub epoch: u64,
    pub file: Option<Arc<str>>,
}

impl Pos {
    /// What the list takes, if it is one.
    pub fn nbytes(&self) -> usize {
        match self {
            Pos::Run(_) => 0,
            Pos::List(list) => size_of_val(&**list),
            Pos::Traced(list) => size_of_val(&**list),
        }
    }
}

impl Origin {
    /// The rows of sources that it was made of, in order.
    pub fn rows(&self, f: &mut impl FnMut(&Origin)) {
        match self {
            Origin::Rows(all) => all.iter().for_each(|o| o.rows(f)),
            one => f(one),
        }
    }
    /// Whether a row of a source is among them.
    pub fn has(&self, row: &Origin) -> bool {
        match self {
            Origin::Rows(all) => all.iter().any(|o| o.has(row)),
            one => one == row,
        }
    }
}

impl Pos {
    pub fn at(&self, row: usize) -> u64 {
        match self {
            Pos::Run(first) => first + row as u64,
            Pos::List(list) => list[row],
            Pos::Traced(list) => list[row].at,
        }
    }
    pub fn is_traced(&self) -> bool {
        matches!(self, Pos::Traced(_))
    }
    /// Where a row was first, if that is traced.
    pub fn origin(&self, row: usize) -> Option<&Origin> {
        match self {
            Pos::Traced(list) => list.get(row).map(|t| &t.origin),
            _ => None,
        }
    }
    /// The error with the position of a row, and where it was read, if that is traced.
    #[cold]
    pub fn blame(&self, error: Error, row: usize) -> Error {
        let error = error.at_element(self.at(row));
        let mut found = None;
        if let Some(origin) = self.origin(row) {
            origin.rows(&mut |one| found = found.take().or(Some(one.clone())));
        }
        match found {
            Some(Origin::Row { source, record, byte, .. }) if error.at().file.is_none() => {
                let error = record.map_or(error.clone(), |record| error.clone().at_record(record));
                source.file.as_ref().map_or(error.clone(), |file| error.in_file(file, byte))
            }
            _ => error,
        }
    }
    pub fn slice(&self, rows: Range<usize>) -> Pos {
        match self {
            Pos::Run(first) => Pos::Run(first + rows.start as u64),
            Pos::List(list) => Pos::List(list[rows].into()),
            Pos::Traced(list) => Pos::Traced(list[rows].into()),
        }
    }
    pub fn take(&self, index: &[usize]) -> Pos {
        match self {
            Pos::Traced(list) => Pos::Traced(index.iter().map(|&i| list[i].clone()).collect()),
            _ => Pos::List(index.iter().map(|&i| self.at(i)).collect()),
        }
    }
    /// The same rows where others count: their origins stay.
    pub fn renumbered(&self, new: Pos) -> Pos {
        match self {
            Pos::Traced(list) => {
                let row = |(i, t): (usize, &Traced)| Traced { at: new.at(i), origin: t.origin.clone() };
                Pos::Traced(list.iter().enumerate().map(row).collect())
            }
            _ => new,
        }
    }
    /// Those of rows picked one by one.
    pub fn picked<'a>(rows: impl Iterator<Item = (&'a Pos, usize)> + Clone) -> Pos {
        if rows.clone().any(|(pos, _)| pos.is_traced()) {
            return Pos::Traced(rows.map(|(pos, row)| pos.traced(row)).collect());
        }
        Pos::List(rows.map(|(pos, row)| pos.at(row)).collect())
    }
    fn traced(&self, row: usize) -> Traced {
        let origin = self.origin(row).cloned().unwrap_or(Origin::Lost("an operator that mixes rows"));
        Traced { at: self.at(row), origin }
    }
    /// Those of groups of rows that become one row each, `size` at a time, numbered from `first`.
    pub fn grouped(&self, rows: usize, size: usize, first: u64) -> Pos {
        let Pos::Traced(list) = self else { return Pos::Run(first) };
        let group = |(i, group): (usize, &[Traced])| {
            let all = group.iter().map(|t| t.origin.clone()).collect();
            Traced { at: first + i as u64, origin: Origin::Rows(all) }
        };
        Pos::Traced(list[..rows].chunks(size.max(1)).enumerate().map(group).collect())
    }
    /// Those of rows that stand side by side in one: positions are the first one's.
    pub fn beside(all: &[&Pos], rows: usize) -> Pos {
        if !all.iter().any(|p| p.is_traced()) {
            return all[0].clone();
        }
        let row = |row: usize| {
            let origins = all.iter().map(|pos| pos.traced(row).origin).collect();
            Traced { at: all[0].at(row), origin: Origin::Rows(origins) }
        };
        Pos::Traced((0..rows).map(row).collect())
    }
    /// Those of rows that were taken out of one row: as many as its origins, or all of them of the one that it has.
    pub fn apart(&self, row: usize, rows: usize) -> Pos {
        let Some(origin) = self.origin(row) else { return Pos::Run(0) };
        let of = |i: usize| match origin {
            Origin::Rows(all) if all.len() == rows => all[i].clone(),
            one => one.clone(),
        };
        Pos::Traced((0..rows).map(|i| Traced { at: i as u64, origin: of(i) }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u64) -> Origin {
        let source = Arc::new(RowSource { op: "range", number: Some(0), epoch: 0, file: None });
        Origin::Row { source, position: n, record: None, byte: None }
    }
    fn traced(rows: Range<u64>) -> Pos {
        Pos::Traced(rows.map(|n| Traced { at: n, origin: source(n) }).collect())
    }

    #[test]
    fn origins_stay_with_their_rows() {
        let pos = traced(10..16).slice(1..5).take(&[3, 0]).renumbered(Pos::Run(100));
        assert_eq!([pos.at(0), pos.at(1)], [100, 101]);
        assert_eq!([pos.origin(0), pos.origin(1)], [Some(&source(14)), Some(&source(11))]);
        assert_eq!(Pos::Run(3).renumbered(Pos::Run(9)), Pos::Run(9));
        let plain = Pos::Run(7);
        assert_eq!(Pos::picked([(&plain, 1), (&plain, 0)].into_iter()), Pos::List([8, 7].into()));
    }

    #[test]
    fn rows_of_batches() {
        let pos = traced(0..7).grouped(7, 3, 5);
        assert_eq!((pos.at(0), pos.at(2)), (5, 7));
        assert!(pos.origin(1).unwrap().has(&source(4)) && !pos.origin(1).unwrap().has(&source(6)));
        let apart = pos.apart(1, 3);
        assert_eq!((apart.at(2), apart.origin(2)), (2, Some(&source(5))));
        assert_eq!(pos.apart(2, 9).origin(8), pos.origin(2), "of whichever it was");
        assert_eq!(Pos::Run(0).grouped(7, 3, 5), Pos::Run(5));
        let both = Pos::beside(&[&traced(0..2), &Pos::Run(4)], 2);
        let Some(Origin::Rows(all)) = both.origin(1) else { panic!("{both:?}") };
        assert_eq!((&all[0], matches!(all[1], Origin::Lost(_))), (&source(1), true));
    }
}
