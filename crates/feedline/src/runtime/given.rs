//! Results that were given before a state was taken: they are made again, and dropped.
//!
//! Rows and errors count alike, each as one. Whether errors were among them is noted: where none was, an error that comes
//! now is a new one (a file was damaged since), which is given and dropped in nobody's place.

use super::mark::{At, Mark, Saved, unfit};
use super::stage::Pull;
use crate::error::Result;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    results: u64,
    failed: bool,
}

impl Given {
    pub fn rows(results: u64) -> Given {
        Given { results, failed: false }
    }
    /// As many, of which any may have failed.
    pub fn of_all(results: u64) -> Given {
        Given { results, failed: results > 0 }
    }
    /// How many there are.
    pub fn results(self) -> u64 {
        self.results
    }
    pub fn is_none(self) -> bool {
        self.results == 0
    }
    /// One more result, or several.
    pub fn count(&mut self, pull: &Pull) {
        match pull {
            Pull::Rows(chunk) => self.results += chunk.rows() as u64,
            Pull::Fail(_) => (self.results, self.failed) = (self.results + 1, true),
            Pull::Pending | Pull::End => {}
        }
    }
    /// These, and others behind them.
    pub fn and(self, behind: Given) -> Given {
        Given { results: self.results.saturating_add(behind.results), failed: self.failed | behind.failed }
    }
    /// The same behind functions that keep rows: any of them may have failed there.
    pub fn through_functions(self) -> Given {
        Given { failed: !self.is_none(), ..self }
    }
    /// What is left of them behind the first ones. Where nothing is left, nothing has failed.
    pub fn behind(self, first: u64) -> Given {
        let results = self.results.saturating_sub(first);
        Given { results, failed: self.failed && results > 0 }
    }
    /// How many rows to ask for: as many as are wanted, unless there is something to drop.
    pub fn ask(self, want: usize) -> usize {
        if self.is_none() { want } else { self.results.min(1 << 12) as usize }
    }
    /// Whether a result is one of these, and so to be dropped; it is counted off then. Nothing comes behind an error that
    /// ends: it was not given before.
    pub fn takes(&mut self, pull: &Pull) -> bool {
        let results = match pull {
            Pull::Rows(chunk) => chunk.rows() as u64,
            Pull::Fail(error) if self.failed && !error.ends() => 1,
            _ => return false,
        };
        let takes = !self.is_none();
        *self = self.behind(results);
        takes
    }
    /// So many more rows were given of what comes from there on.
    pub fn leave_out(at: &mut [Saved], rows: u64) {
        if let Some(Saved::Number(n)) = at.first_mut() {
            *n = n.saturating_add(rows << 1);
        }
    }
    pub fn mark(self, out: &mut Mark) {
        out.number(self.number());
    }
    pub fn saved(self) -> Saved {
        Saved::Number(self.number())
    }
    fn number(self) -> u64 {
        self.results << 1 | u64::from(self.failed)
    }
    pub fn read(at: &mut At<'_>) -> Result<Given> {
        let number = at.number()?;
        let given = Given { results: number >> 1, failed: number & 1 == 1 };
        if given.failed && given.is_none() { Err(unfit()) } else { Ok(given) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Chunk, Pos};
    use crate::error::Error;

    fn rows(n: usize) -> Pull {
        Pull::Rows(Chunk::new(n, Pos::Run(0), []))
    }

    #[test]
    fn what_was_given_is_dropped() {
        let mut given = Given::default();
        [rows(3), Pull::Pending, rows(2)].iter().for_each(|pull| given.count(pull));
        assert_eq!((given.results(), given.ask(9)), (5, 5));
        assert!(given.takes(&rows(4)) && !given.takes(&Pull::Pending));
        // It is not among them: none had failed.
        assert!(!given.takes(&Pull::Fail(Error::data("new"))));
        assert!(given.takes(&rows(1)) && !given.takes(&rows(1)));
        assert_eq!(given.ask(9), 9);
    }

    #[test]
    fn errors_that_were_given_are_dropped_too() {
        let mut given = Given::rows(1);
        given.count(&Pull::Fail(Error::data("old")));
        let mut mark = Mark::default();
        given.mark(&mut mark);
        let mut parts = vec![];
        mark.saved(&mut parts).unwrap();
        let mut read = Given::read(&mut At::new(&parts)).unwrap();
        assert_eq!(read, given);
        assert!(!read.takes(&Pull::Fail(Error::data("full").that_ends())));
        assert!(read.takes(&rows(1)) && read.takes(&Pull::Fail(Error::data("old"))));
        assert!(read.is_none() && !read.takes(&Pull::Fail(Error::data("next"))));
        // A state of that moment can be read, too.
        mark.clear();
        parts.clear();
        read.and(Given::rows(2)).mark(&mut mark);
        read.mark(&mut mark);
        mark.saved(&mut parts).unwrap();
        let mut at = At::new(&parts);
        assert_eq!(Given::read(&mut at).unwrap(), Given::rows(2));
        assert_eq!(Given::read(&mut at).unwrap(), Given::default());
    }
}
