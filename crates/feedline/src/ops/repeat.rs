//! `repeat(count)`: the elements again and again.

use crate::dataset::Dataset;
use crate::element::{Chunk, Pos, Spec};
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, EndsBelow, Index, Mark, Pull, Stage, Taken};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "repeat",
    doc: "Passes over the input one after the other; each is an epoch of its own.",
    params: &[Param::new("count", "None", "how many passes; None or a negative number: without an end")],
    read: read::<Repeat>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    #[serde(default)]
    pub count: Option<Int>,
}

impl Dataset {
    /// `count` passes one after the other, or passes without an end.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// assert_eq!(Dataset::range(3)?.repeat(Some(2))?.iter()?.count(), 6);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn repeat(&self, count: Option<i64>) -> Result<Dataset> {
        self.apply(Repeat { count: count.map(Into::into) })
    }
}

impl Repeat {
    /// `None`: for ever.
    fn passes(&self, cx: &BuildCx) -> Result<Option<u64>> {
        Ok(match self.count {
            None => None,
            Some(n) => u64::try_from(n.get(cx)?).ok(),
        })
    }
}

impl Op for Repeat {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        let count = match self.count {
            None => Some(-1),
            Some(n) => n.known(),
        };
        match (inputs[0].card, count) {
            (Card::Known(0), _) | (_, Some(0)) => Card::Known(0),
            (_, None) => Card::Unknown,
            (_, Some(c)) if c < 0 => Card::Infinite,
            (card, Some(c)) => card.map(|n| n.saturating_mul(c as u64)),
        }
    }
    fn props(&self) -> Props {
        Props { noop: self.count.and_then(Int::known) == Some(1), carries: true, partial: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let input = node.inputs[0].clone();
        let passes = self.passes(cx)?;
        if passes == Some(0) {
            return Ok(Built::Stage(Box::new(super::batch::Nothing)));
        }
        // One pass is the input itself, positions and random numbers included.
        if passes == Some(1) {
            return cx.build(&input);
        }
        // An empty pass is followed by others only if they may differ.
        let ends_empty = passes.is_none() || input.is_pure();
        let (taken, cx) = Taken::new(cx, &node.inputs);
        let stage = Some(cx.in_epoch(1).stage(&input)?);
        let (pass, any, made, below) = (0, false, 0, EndsBelow::of_starter(&cx, &node.inputs)?);
        Ok(Built::Stage(Box::new(RepeatStage { stage, cx, input, pass, passes, ends_empty, any, made, taken, below })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let input = node.inputs[0].clone();
        let (Some(first), Some(passes)) = (cx.index(&input)?, self.passes(cx)?) else { return Ok(None) };
        if passes == 1 {
            return Ok(Some(first));
        }
        let cx = cx.clone();
        let len = first.len().saturating_mul(passes);
        Ok(Some(Arc::new(RepeatIndex { same: input.is_pure(), first, cx, input, len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct RepeatStage {
    stage: Option<Box<dyn Stage>>,
    cx: BuildCx,
    input: Plan,
    pass: u64,
    passes: Option<u64>,
    ends_empty: bool,
    /// Whether this pass gave anything that a further one would give again.
    any: bool,
    made: u64,
    /// The seeds of operators below: each pass takes some.
    taken: Taken,
    below: EndsBelow,
}

impl Stage for RepeatStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let Some(stage) = &mut self.stage else { return Pull::End };
            match stage.next(cx, want) {
                Pull::Rows(chunk) => {
                    self.any = true;
                    let first = self.made;
                    self.made += chunk.rows() as u64;
                    return Pull::Rows(chunk.with_pos(Pos::Run(first)));
                }
                Pull::End => {}
                // For ever, errors alone would never end; a number of passes meets them again in each.
                Pull::Fail(error) => {
                    self.any |= self.passes.is_some();
                    return Pull::Fail(error);
                }
                Pull::Pending => return Pull::Pending,
            }
            self.stage = None;
            self.below.note();
            self.pass += 1;
            let over = self.passes.is_some_and(|n| self.pass >= n) || (!self.any && self.ends_empty);
            if over || cx.is_cancelled() {
                return Pull::End;
            }
            self.any = false;
            match self.cx.in_epoch(self.pass + 1).stage(&self.input) {
                Ok(stage) => self.stage = Some(stage),
                Err(error) => return Pull::Fail(error),
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        out.number(self.pass);
        out.flag(self.any);
        self.taken.mark(out);
        self.below.mark(out);
        out.flag(self.stage.is_some());
        if let Some(stage) = &mut self.stage {
            stage.mark(out);
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        let pass = at.up_to(u64::MAX - 1)?;
        self.any = at.flag()?;
        self.taken.seek(at)?;
        self.below.seek(at)?;
        if !at.flag()? {
            (self.stage, self.pass) = (None, pass);
            return Ok(());
        }
        if pass != self.pass || self.stage.is_none() {
            // Let go first: it may hold what the other one needs.
            self.stage = None;
            self.stage = Some(self.cx.in_epoch(pass + 1).stage(&self.input)?);
            self.pass = pass;
        }
        self.stage.as_mut().map_or(Ok(()), |stage| stage.seek(at))
    }
}

struct RepeatIndex {
    /// The first pass, and whether all others are like it.
    first: Arc<dyn Index>,
    same: bool,
    cx: BuildCx,
    input: Plan,
    len: u64,
}

impl Index for RepeatIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let (n, pos) = (self.first.len(), Pos::List(rows.into()));
        if self.same {
            let rows: Vec<u64> = rows.iter().map(|r| r % n).collect();
            return Ok(self.first.get(&rows)?.with_pos(pos));
        }
        let mut parts = Vec::new();
        for run in rows.chunk_by(|a, b| a / n == b / n) {
            let pass = self.cx.in_epoch(run[0] / n + 1).index(&self.input)?;
            let of: Vec<u64> = run.iter().map(|r| r % n).collect();
            parts.push(pass.as_ref().unwrap_or(&self.first).get(&of)?);
        }
        match parts.is_empty() {
            true => self.first.get(&[]),
            false => Ok(Chunk::concat(pos, &parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, ints};

    #[test]
    fn counts_and_cardinalities() {
        let ds = Dataset::range(3).unwrap();
        assert_eq!(ints(&ds.repeat(Some(2)).unwrap()), [0, 1, 2, 0, 1, 2]);
        assert_eq!(ints(&ds.repeat(Some(0)).unwrap()).len(), 0);
        let ever = ds.repeat(None).unwrap();
        assert_eq!(ints(&ever.take(5).unwrap()), [0, 1, 2, 0, 1]);
        let twice = |d: &Dataset| d.repeat(Some(2)).unwrap().cardinality();
        assert_eq!((twice(&ds), twice(&ever), ever.cardinality()), (Card::Known(6), Card::Infinite, Card::Infinite));
        assert_eq!(ever.repeat(Some(0)).unwrap().cardinality(), Card::Known(0));
        assert_eq!(ds.repeat(Some(-2)).unwrap().cardinality(), Card::Infinite);
    }

    #[test]
    fn nothing_is_not_repeated_for_ever() {
        let none = Dataset::range(0).unwrap().repeat(None).unwrap();
        assert_eq!((ints(&none).len(), none.cardinality()), (0, Card::Known(0)));
        assert_eq!(ints(&Dataset::range(0).unwrap().repeat(Some(i64::MAX)).unwrap()).len(), 0);
        assert_eq!(events(&failing(2, &[0, 1]).repeat(None).unwrap()), "! !");
        assert_eq!(events(&failing(2, &[0, 1]).repeat(Some(2)).unwrap()), "! ! ! !");
    }

    #[test]
    fn errors_come_again() {
        assert_eq!(events(&failing(3, &[1]).repeat(Some(2)).unwrap()), "0 ! 2 0 ! 2");
    }

    #[test]
    fn by_number() {
        let index = Dataset::range(3).unwrap().repeat(Some(2)).unwrap().index().unwrap();
        let got = index.get(&[4, 2]).unwrap();
        assert_eq!((index.len(), got.element(0)[0].tensor().item::<i64>(), got.pos), (6, 1, Pos::List([4, 2].into())));
    }
}
