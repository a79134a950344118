//! Marks of stages that hold something back: they go to the last moment at which nothing was held, and what has been given
//! since is made again and dropped.

use super::given::Given;
use super::mark::{At, Mark};
use super::stage::{Cx, Pull, Stage};
use crate::error::Result;

/// Around a stage that is not always settled, or whose chunks are handed on in parts.
pub struct Replay {
    stage: Box<dyn Stage>,
    /// Where the stage was when it held nothing, and what it has given since.
    from: Mark,
    given: Given,
    /// Whether `from` is where it is now.
    current: bool,
    /// Something was pulled.
    begun: bool,
    /// To be dropped before anything is given.
    drop: Given,
}

impl Replay {
    pub fn new(stage: Box<dyn Stage>) -> Replay {
        let (from, given, drop) = Default::default();
        Replay { stage, from, given, current: false, begun: false, drop }
    }
    fn note(&mut self) {
        if !self.current && self.stage.is_settled() {
            self.from.clear();
            self.stage.mark(&mut self.from);
            // Some are settled only before they begin: what is below would note where all rows came from, and for one that is
            // to be read again from its start. There is little to tell of that.
            if !self.begun && !self.from.is_whole() {
                self.from = std::mem::take(&mut self.from).told();
            }
            (self.given, self.current) = (Given::default(), true);
        }
    }
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        self.begun = true;
        let pull = self.stage.next(cx, want);
        self.given.count(&pull);
        // If nothing came out, whoever goes to `from` gets the same.
        self.current &= matches!(pull, Pull::Pending | Pull::End);
        pull
    }
}

impl Stage for Replay {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let want = self.drop.ask(want);
            // Who is never seen settled is never marked again, and what its first mark keeps for it grows with the pass.
            if !self.current && !self.stage.is_settled() {
                self.stage.settle(cx, want);
            }
            self.note();
            let pull = self.pull(cx, want);
            if !self.drop.takes(&pull) {
                return pull;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.note();
        let given = self.given.and(self.drop);
        given.mark(out);
        match given.is_none() {
            true => out.extend(&self.from),
            false => out.extend_again(&self.from),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let (drop, resharded) = (Given::read(at)?, at.is_resharded());
        (self.drop, self.begun) = (drop, true);
        let from = at.rest();
        self.stage.seek(at)?;
        // It need not be settled yet: it may have to read again what it held.
        self.from = Mark::from(&from[..from.len() - at.rest().len()]);
        (self.given, self.current) = (Given::default(), true);
        if resharded {
            self.current = false;
            if !std::mem::take(&mut self.drop).is_none() && !self.stage.pass(drop.results()) {
                return Err(super::mark::unfit());
            }
        }
        Ok(())
    }
    fn pass(&mut self, results: u64) -> bool {
        // What is to be dropped comes first, and some of it may fail: it has to be made.
        let passed = self.drop.is_none() && self.stage.pass(results);
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
    drop: Given,
}

impl Tap {
    pub fn new(stage: Box<dyn Stage>) -> Tap {
        Tap { stage, from: Mark::default(), used: 0, drop: Given::default() }
    }
    /// More rows, once all that came before has been given on.
    pub fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        while !self.drop.is_none() {
            let pull = self.stage.next(cx, self.drop.ask(want));
            if !self.drop.takes(&pull) {
                return pull;
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
            Given::rows(self.used).mark(out);
            out.extend_again(&self.from);
        } else {
            self.drop.mark(out);
            self.stage.mark(out);
        }
    }
    /// After this nothing is held.
    pub fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.drop = Given::read(at)?;
        self.stage.seek(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::{Later, Saved};
    use super::*;
    use crate::element::{Chunk, Column, Pos, Tensor};
    use std::sync::{Arc, Weak};

    /// Settled only before it begins.
    struct Remembers(Option<Weak<Place>>, bool);

    struct Place;

    impl Later for Place {
        fn tell(&self, at: u64, out: &mut Vec<Saved>) -> Result<()> {
            out.push(Saved::Number(at));
            Ok(())
        }
    }

    impl Stage for Remembers {
        fn next(&mut self, _cx: &mut Cx<'_>, _want: usize) -> Pull {
            self.1 = true;
            assert!(self.0.as_ref().is_some_and(|place| place.strong_count() == 0), "nobody asks for it any more");
            Pull::Rows(Chunk::new(2, Pos::Run(0), [Column::Dense(Tensor::from_items([2], &[1i64, 2]))]))
        }
        fn mark(&mut self, out: &mut Mark) {
            let place = Arc::new(Place);
            self.0 = Some(Arc::downgrade(&place));
            out.later(place, 7);
        }
        fn seek(&mut self, _at: &mut At<'_>) -> Result<()> {
            Ok(())
        }
        fn is_settled(&self) -> bool {
            !self.1
        }
    }

    #[test]
    fn what_is_read_again_from_its_start_asks_for_nothing() {
        struct Nobody;
        impl crate::runtime::Wake for Nobody {
            fn wake(&self) {}
        }
        let waker: Weak<dyn crate::runtime::Wake> = Weak::<Nobody>::new();
        let cancelled = crate::runtime::sync::atomic::AtomicBool::new(false);
        let mut replay = Replay::new(Box::new(Remembers(None, false)));
        for _ in 0..3 {
            assert!(matches!(replay.next(&mut Cx::new(&waker, &cancelled), 2), Pull::Rows(_)));
        }
        let (mut mark, mut parts) = (Mark::default(), Vec::new());
        replay.mark(&mut mark);
        mark.saved(&mut parts).unwrap();
        assert_eq!(parts.last(), Some(&Saved::Number(7)));
    }
}
