//! `assert_cardinality(count)`: a promise about the number of elements, kept or reported.

use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::{Error, Kind, Result};
use crate::op::{Int, Op, OpInfo, Param, Props, at_least, read};
use crate::ops::Open;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "assert_cardinality",
    doc: "States how many elements there are; fails where that turns out to be wrong.",
    params: &[Param::new("count", "", "the number; -1: without an end; -2: not known")],
    read: read::<AssertCardinality>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssertCardinality {
    pub count: Int,
}

impl Dataset {
    /// States the number of elements, where it is known better than it can be computed.
    ///
    /// ```
    /// # use feedline::{Dataset, plan::Card};
    /// let ds = Dataset::range(4)?.ignore_errors(false)?.assert_cardinality(4)?;
    /// assert_eq!(ds.cardinality(), Card::Known(4));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn assert_cardinality(&self, count: i64) -> Result<Dataset> {
        self.apply(AssertCardinality { count: count.into() })
    }
}

impl Op for AssertCardinality {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.count.known() {
            at_least("count", n, -2)?;
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        match self.count.known() {
            Some(-1) => Card::Infinite,
            Some(n) if n >= 0 => Card::Known(n as u64),
            _ => Card::Unknown,
        }
    }
    fn props(&self) -> Props {
        // Not a no-op even for -2: it hides a known number.
        Props::default()
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let count = self.count.get(cx)?;
        at_least("count", count, -2)?;
        if count == -2 {
            return cx.build(&node.inputs[0]);
        }
        let input = Open::new(cx, &node.inputs, cx.stage(&node.inputs[0])?);
        Ok(Built::Stage(Box::new(AssertStage { input, count: u64::try_from(count).ok(), seen: 0 })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let count = self.count.get(cx)?;
        if count != -2 && i128::from(count) != i128::from(input.len()) {
            crate::bail!(Data, "{}", wrong(u64::try_from(count).ok(), &input.len().to_string()));
        }
        Ok(Some(input))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

fn wrong(count: Option<u64>, found: &str) -> String {
    match count {
        Some(n) => format!("the dataset was said to have {n} elements, but has {found}"),
        None => format!("the dataset was said to have no end, but has {found} elements"),
    }
}

struct AssertStage {
    /// Ended after the end or a broken promise: the error is given once, then the end, so that nobody can loop on it.
    input: Open<Box<dyn Stage>>,
    count: Option<u64>,
    seen: u64,
}

impl Stage for AssertStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let Some(input) = self.input.get() else { return Pull::End };
        let left = self.count.map_or(u64::MAX, |n| n - self.seen);
        let found = match input.next(cx, (want as u64).min(left.max(1)) as usize) {
            Pull::Rows(_) if left == 0 => "more".to_string(),
            Pull::Rows(chunk) => {
                self.seen += chunk.rows() as u64;
                return Pull::Rows(chunk);
            }
            Pull::End if self.count == Some(self.seen) || cx.is_cancelled() => {
                self.input.end();
                return Pull::End;
            }
            Pull::End => self.seen.to_string(),
            other => return other,
        };
        self.input.end();
        Pull::Fail(Error::new(Kind::Precondition, wrong(self.count, &found)))
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.seen);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.seen = at.up_to(self.count.unwrap_or(u64::MAX))?;
        self.input.seek(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, in_chunks};

    #[test]
    fn broken_promises_fail_once() {
        let ds = |n| Dataset::range(4).unwrap().assert_cardinality(n).unwrap();
        for rows in [1, 100] {
            assert_eq!(events(&in_chunks(&ds(4), rows)), "0 1 2 3");
            assert_eq!(events(&in_chunks(&ds(6), rows)), "0 1 2 3 !");
            assert_eq!(events(&in_chunks(&ds(2), rows)), "0 1 !");
            assert_eq!(events(&in_chunks(&ds(0), rows)), "!");
            assert_eq!(events(&in_chunks(&ds(-1), rows)), "0 1 2 3 !");
            assert_eq!(events(&in_chunks(&ds(-2), rows)), "0 1 2 3");
        }
        assert_eq!((ds(-2).cardinality(), ds(-1).cardinality()), (Card::Unknown, Card::Infinite));
        assert!(Dataset::range(4).unwrap().assert_cardinality(-3).is_err());
        let text = ds(6).iter().unwrap().last().unwrap().unwrap_err().to_string();
        assert_eq!(text, "assert_cardinality: the dataset was said to have 6 elements, but has 4");
    }
}
