//! Marks of stages that hold something back: they go to the last moment at which nothing was held, and what has been given
//! since is made again and dropped.

use super::mark::{At, Mark};
use super::stage::{Cx, Pull, Stage};
use crate::error::Result;

/// Around a stage that is not always settled, or whose chunks are handed on in parts.
pub struct Replay {
    stage: Box<dyn Stage>,
    /// Where the stage was when it held nothing, and what it has given since.
    from: Mark,
    given: u64,
    /// Whether `from` is where it is now.
    current: bool,
    /// To be dropped before anything is given: it was given before the state was taken.
    drop: u64,
}

impl Replay {
    pub fn new(stage: Box<dyn Stage>) -> Replay {
        Replay { stage, from: Mark::default(), given: 0, current: false, drop: 0 }
    }
    fn note(&mut self) {
        if !self.current && self.stage.is_settled() {
            self.from.clear();
            self.stage.mark(&mut self.from);
            (self.given, self.current) = (0, true);
        }
    }
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let pull = self.stage.next(cx, want);
        match &pull {
            Pull::Rows(chunk) => self.given += chunk.rows() as u64,
            Pull::Fail(_) => self.given += 1,
            // Nothing came out: whoever goes to `from` gets the same.
            Pull::Pending | Pull::End => return pull,
        }
        self.current = false;
        pull
    }
}

impl Stage for Replay {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        self.note();
        while self.drop > 0 {
            match self.pull(cx, self.drop.min(1 << 12) as usize) {
                Pull::Rows(chunk) => self.drop -= chunk.rows() as u64,
                // Nothing comes behind one that ends: it is not among what was given before.
                Pull::Fail(error) if !error.ends() => self.drop -= 1,
                stop => return stop,
            }
            self.note();
        }
        self.pull(cx, want)
    }
    fn mark(&mut self, out: &mut Mark) {
        self.note();
        out.number(self.given + self.drop);
        out.extend(&self.from);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let (drop, resharded) = (at.number()?, at.is_resharded());
        self.drop = drop;
        let from = at.rest();
        self.stage.seek(at)?;
        // It need not be settled yet: it may have to read again what it held.
        self.from = Mark::from(&from[..from.len() - at.rest().len()]);
        (self.given, self.current) = (0, true);
        if resharded {
            self.current = false;
            if std::mem::take(&mut self.drop) > 0 && !self.stage.pass(drop) {
                return Err(super::mark::unfit());
            }
        }
        Ok(())
    }
    fn pass(&mut self, results: u64) -> bool {
        // What is to be dropped comes first, and some of it may fail: it has to be made.
        let passed = self.drop == 0 && self.stage.pass(results);
        self.current &= !passed;
        passed
    }
}

/// An input of which more may be taken than is given on at once: what is held is read again from where it came from.
pub struct Tap {
    stage: Box<dyn Stage>,
    /// Where the input was before the last pull, and how much of what came then has been given on.
    from: Mark,
    used: u64,
    drop: u64,
}

impl Tap {
    pub fn new(stage: Box<dyn Stage>) -> Tap {
        Tap { stage, from: Mark::default(), used: 0, drop: 0 }
    }
    /// More rows, once all that came before has been given on.
    pub fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        while self.drop > 0 {
            match self.stage.next(cx, self.drop.min(1 << 12) as usize) {
                Pull::Rows(chunk) => self.drop -= chunk.rows() as u64,
                // Nothing comes behind one that ends: it is not among what was given before.
                Pull::Fail(error) if !error.ends() => self.drop -= 1,
                stop => return stop,
            }
        }
        self.from.clear();
        self.stage.mark(&mut self.from);
        self.used = 0;
        self.stage.next(cx, want)
    }
    /// So many more of what came last were given on.
    pub fn used(&mut self, rows: usize) {
        self.used += rows as u64;
    }
    /// `holds`: not all that came last has been given on.
    pub fn mark(&mut self, holds: bool, out: &mut Mark) {
        if holds {
            out.number(self.used);
            out.extend(&self.from);
        } else {
            out.number(self.drop);
            self.stage.mark(out);
        }
    }
    /// After this nothing is held.
    pub fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.drop = at.number()?;
        self.stage.seek(at)
    }
}
