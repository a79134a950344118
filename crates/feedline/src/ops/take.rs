//! `take(count)`: the first elements.

use crate::dataset::Dataset;
use crate::element::{Chunk, Spec};
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param, Props, at_least, read};
use crate::ops::Open;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "take",
    doc: "The first count elements; nothing behind them is read.",
    params: &[Param::new("count", "", "how many; -1 for all")],
    read: read::<Take>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    pub count: Int,
}

impl Dataset {
    /// The first `count` elements, or all of them for -1. Errors do not count.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// assert_eq!(Dataset::counter(0, 1)?.take(5)?.iter()?.count(), 5);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn take(&self, count: i64) -> Result<Dataset> {
        self.apply(Take { count: count.into() })
    }
}

impl Take {
    fn limit(&self, cx: &BuildCx) -> Result<Option<u64>> {
        let count = self.count.get(cx)?;
        at_least("count", count, -1)?;
        Ok(u64::try_from(count).ok())
    }
}

impl Op for Take {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.count.known() {
            at_least("count", n, -1)?;
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        match (inputs[0].card, self.count.known()) {
            (card, Some(-1)) => card,
            (Card::Known(n), Some(c)) => Card::Known(n.min(c as u64)),
            (Card::Infinite, Some(c)) => Card::Known(c as u64),
            _ => Card::Unknown,
        }
    }
    fn props(&self) -> Props {
        Props { noop: self.count.known() == Some(-1), carries: true, partial: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        match self.limit(cx)? {
            None => cx.build(&node.inputs[0]),
            Some(left) => {
                let input = Open::new(cx, &node.inputs, cx.cut_stage(&node.inputs[0], true)?);
                Ok(Built::Stage(Box::new(TakeStage { input, left })))
            }
        }
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let len = self.limit(cx)?.unwrap_or(u64::MAX).min(input.len());
        Ok(Some(Arc::new(TakeIndex { input, len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct TakeStage {
    input: Open<Box<dyn Stage>>,
    left: u64,
}

impl Stage for TakeStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if self.left == 0 && self.input.is_open() {
            self.input.end();
        }
        let Some(input) = self.input.get() else { return Pull::End };
        let chunk = crate::rows!(input.next(cx, (want as u64).min(self.left) as usize));
        self.left -= chunk.rows() as u64;
        Pull::Rows(chunk)
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.left);
        // What lies behind the last one is never read.
        if let (1.., Some(input)) = (self.left, self.input.if_open()) {
            input.mark(out);
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.left = at.number()?;
        self.input.set_open(self.left > 0)?.map_or(Ok(()), |input| input.seek(at))
    }
}

struct TakeIndex {
    input: Arc<dyn Index>,
    len: u64,
}

impl Index for TakeIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        self.input.get(rows)
    }
    fn together(&self) -> usize {
        self.input.together()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, ints};

    #[test]
    fn counts_and_cardinalities() {
        let ds = Dataset::range(5).unwrap();
        for (count, n) in [(0, 0), (3, 3), (9, 5), (-1, 5)] {
            let taken = ds.take(count).unwrap();
            assert_eq!((ints(&taken).len() as u64, taken.cardinality()), (n, Card::Known(n)));
        }
        assert!(ds.take(-2).unwrap_err().to_string().contains("at least -1"));
        assert_eq!(ds.take(3).unwrap().index().unwrap().len(), 3);
    }

    #[test]
    fn errors_do_not_count() {
        assert_eq!(events(&failing(6, &[1]).take(3).unwrap()), "0 ! 2 3");
        assert_eq!(events(&failing(6, &[3]).take(3).unwrap()), "0 1 2");
    }
}
