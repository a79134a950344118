//! `skip(count)`: all but the first elements.

use crate::dataset::Dataset;
use crate::element::{Chunk, Spec};
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "skip",
    doc: "All elements but the first count. Sources with a known order begin behind them; others are read.",
    params: &[Param::new("count", "", "how many to leave out; a negative number leaves out all")],
    read: read::<Skip>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    pub count: Int,
}

impl Dataset {
    /// All but the first `count` elements. Errors among those are delivered, and do not count.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let first = Dataset::range(5)?.skip(3)?.iter()?.next().unwrap()?;
    /// assert_eq!(first[0].tensor().item::<i64>(), 3);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn skip(&self, count: i64) -> Result<Dataset> {
        self.apply(Skip { count: count.into() })
    }
}

impl Op for Skip {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        match (inputs[0].card, self.count.known()) {
            (Card::Known(n), Some(c)) => Card::Known(u64::try_from(c).map_or(0, |c| n.saturating_sub(c))),
            (Card::Known(_), None) => Card::Unknown,
            (other, _) => other,
        }
    }
    fn props(&self) -> Props {
        Props { noop: self.count.known() == Some(0), carries: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let input = &node.inputs[0];
        match self.count.get(cx)? {
            0 => cx.build(input),
            // Nothing is left, so nothing is read.
            count if count < 0 => Ok(Built::Stage(Box::new(super::batch::Nothing))),
            count => match cx.build_behind(input, count as u64)? {
                Some(built) => Ok(built),
                None => Ok(Built::Stage(Box::new(SkipStage { input: cx.stage(input)?, left: count as u64 }))),
            },
        }
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let by = u64::try_from(self.count.get(cx)?).unwrap_or(u64::MAX).min(input.len());
        Ok(Some(Arc::new(SkipIndex { input, by })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct SkipStage {
    input: Box<dyn Stage>,
    left: u64,
}

impl Stage for SkipStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        while self.left > 0 {
            if cx.is_cancelled() {
                return Pull::End;
            }
            // An error leaves the count as it is: exactly `count` elements are dropped in the end.
            let chunk = crate::rows!(self.input.next(cx, self.left.min(1 << 16) as usize));
            self.left -= chunk.rows() as u64;
        }
        self.input.next(cx, want)
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.left);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.left = at.number()?;
        self.input.seek(at)
    }
}

struct SkipIndex {
    input: Arc<dyn Index>,
    by: u64,
}

impl Index for SkipIndex {
    fn len(&self) -> u64 {
        self.input.len() - self.by
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let rows: Vec<u64> = rows.iter().map(|r| r + self.by).collect();
        self.input.get(&rows)
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
        for (count, n) in [(0, 5), (3, 2), (5, 0), (9, 0), (-1, 0)] {
            let rest = ds.skip(count).unwrap();
            assert_eq!((ints(&rest).len() as u64, rest.cardinality()), (n, Card::Known(n)));
        }
        assert_eq!(ints(&ds.take(4).unwrap().skip(2).unwrap()), [2, 3]);
        let index = ds.skip(2).unwrap().index().unwrap();
        assert_eq!((index.len(), index.get(&[1]).unwrap().element(0)[0].tensor().item::<i64>()), (3, 3));
    }

    #[test]
    fn an_error_does_not_restart_the_count() {
        assert_eq!(events(&failing(6, &[1]).skip(3).unwrap()), "! 4 5");
    }
}
