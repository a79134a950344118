//! `enumerate(start)`: each element with its number.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Spec, Tree};
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "enumerate",
    doc: "Pairs of a number and the element; failed elements use up their numbers.",
    params: &[Param::new("start", "0", "the first number")],
    read: read::<Enumerate>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enumerate {
    pub start: Int,
}

impl Dataset {
    /// Pairs of a number (int64, from `start` on) and the element.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let pair = Dataset::range(3)?.skip(2)?.enumerate(7)?.iter()?.next().unwrap()?;
    /// assert_eq!((pair[0].tensor().item::<i64>(), pair[1].tensor().item::<i64>()), (7, 2));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn enumerate(&self, start: i64) -> Result<Dataset> {
        self.apply(Enumerate { start: start.into() })
    }
}

/// The chunk with a column of numbers in front.
fn numbered(chunk: Chunk, at: impl Fn(usize) -> i64) -> Chunk {
    let (rows, pos) = (chunk.rows(), chunk.pos.clone());
    let numbers = Column::Dense(super::counted(DType::Int64, rows, at));
    Chunk::new(rows, pos, std::iter::once(numbers).chain(chunk.into_columns()))
}

impl Op for Enumerate {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        Ok(Tree::tuple(vec![Spec::scalar(DType::Int64), inputs[0].spec.clone()]))
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(EnumerateStage { input: cx.stage(&node.inputs[0])?, at: self.start.get(cx)? })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        Ok(Some(Arc::new(EnumerateIndex { input, start: self.start.get(cx)? })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct EnumerateStage {
    input: Box<dyn Stage>,
    at: i64,
}

impl Stage for EnumerateStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        match self.input.next(cx, want) {
            Pull::Rows(chunk) => {
                let first = self.at;
                self.at = first.wrapping_add(chunk.rows() as i64);
                Pull::Rows(numbered(chunk, |i| first.wrapping_add(i as i64)))
            }
            // The number of the failed element is left out, so that the others keep theirs.
            Pull::Fail(error) => {
                self.at = self.at.wrapping_add(1);
                Pull::Fail(error)
            }
            other => other,
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.at as u64);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.at = at.number()? as i64;
        self.input.seek(at)
    }
}

struct EnumerateIndex {
    input: Arc<dyn Index>,
    start: i64,
}

impl Index for EnumerateIndex {
    fn len(&self) -> u64 {
        self.input.len()
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        Ok(numbered(self.input.get(rows)?, |i| self.start.wrapping_add(rows[i] as i64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::failing;

    #[test]
    fn failed_elements_use_up_their_numbers() {
        let ds = failing(4, &[1]).enumerate(5).unwrap();
        assert_eq!(ds.spec().to_string(), "(int64, int64)");
        let got: Vec<(i64, i64)> =
            ds.iter().unwrap().filter_map(|e| e.ok()).map(|e| (e[0].tensor().item(), e[1].tensor().item())).collect();
        assert_eq!(got, [(5, 0), (7, 2), (8, 3)]);
    }

    #[test]
    fn by_number() {
        let index = Dataset::range(4).unwrap().enumerate(5).unwrap().index().unwrap();
        assert_eq!(index.get(&[3]).unwrap().element(0)[0].tensor().item::<i64>(), 8);
    }
}
