//! `range(start, stop, step)`: whole numbers, as Python counts them.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Pos, Spec};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "range",
    doc: "Whole numbers from start up to (not including) stop, step apart.",
    params: &[
        Param::new("start", "0", "the first number"),
        Param::new("stop", "", "the end, which is not reached"),
        Param::new("step", "1", "the distance, which may be negative but not 0"),
        Param::new("output_type", "int64", "the dtype; larger numbers wrap around"),
    ],
    read: read::<Range>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Range {
    start: Int,
    stop: Int,
    step: Int,
    output_type: DType,
}

impl Dataset {
    /// The numbers `0..stop`.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let n: Vec<i64> = Dataset::range(3)?.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 1, 2]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn range(stop: i64) -> Result<Dataset> {
        Dataset::range_from(0, stop, 1)
    }
    /// The numbers from `start` up to `stop`, `step` apart.
    pub fn range_from(start: i64, stop: i64, step: i64) -> Result<Dataset> {
        let op = Range { start: start.into(), stop: stop.into(), step: step.into(), output_type: DType::Int64 };
        Dataset::source(op)
    }
}

/// The three numbers once they are known.
#[derive(Clone, Copy)]
struct Numbers {
    start: i64,
    step: i64,
    len: u64,
    dtype: DType,
}

impl Numbers {
    fn new(start: i64, stop: i64, step: i64, dtype: DType) -> Result<Numbers> {
        if step == 0 {
            return Err(Error::usage("step must not be 0"));
        }
        let span = if step > 0 { stop as i128 - start as i128 } else { start as i128 - stop as i128 };
        let len = (span.max(0) as u128).div_ceil(step.unsigned_abs() as u128) as u64;
        Ok(Numbers { start, step, len, dtype })
    }
    fn column(&self, rows: usize, nth: impl Fn(usize) -> u64) -> Column {
        let at = |i: usize| self.start.wrapping_add((nth(i) as i64).wrapping_mul(self.step));
        Column::Dense(crate::ops::counted(self.dtype, rows, at))
    }
}

impl Op for Range {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        if self.step.known() == Some(0) {
            return Err(Error::usage("step must not be 0"));
        }
        if !self.output_type.is_numeric() {
            return Err(Error::usage(format!("output_type must be a number, not {}", self.output_type)));
        }
        Ok(Spec::scalar(self.output_type))
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        match (self.start.known(), self.stop.known(), self.step.known()) {
            (Some(a), Some(b), Some(c)) => {
                Numbers::new(a, b, c, self.output_type).map_or(Card::Unknown, |n| Card::Known(n.len))
            }
            _ => Card::Unknown,
        }
    }
    fn build(&self, cx: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(RangeStage { numbers: self.numbers(cx)?, at: 0 })))
    }
    fn build_behind(&self, cx: &BuildCx, _: &Plan, rows: u64) -> Result<Option<Built>> {
        let numbers = self.numbers(cx)?;
        let at = rows.min(numbers.len);
        Ok(Some(Built::Stage(Box::new(RangeStage { numbers, at }))))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(self.numbers(cx)?)))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

impl Range {
    fn numbers(&self, cx: &BuildCx) -> Result<Numbers> {
        Numbers::new(self.start.get(cx)?, self.stop.get(cx)?, self.step.get(cx)?, self.output_type)
    }
}

struct RangeStage {
    numbers: Numbers,
    at: u64,
}

impl Stage for RangeStage {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        let rows = (self.numbers.len - self.at).min(want as u64).min(1 << 20) as usize;
        if rows == 0 {
            return Pull::End;
        }
        let first = self.at;
        self.at += rows as u64;
        Pull::Rows(Chunk::new(rows, Pos::Run(first), [self.numbers.column(rows, |i| first + i as u64)]))
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.at);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.at = at.up_to(self.numbers.len)?;
        Ok(())
    }
}

impl Index for Numbers {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        Ok(Chunk::new(rows.len(), Pos::List(rows.into()), [self.column(rows.len(), |i| rows[i])]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Tensor;

    #[test]
    fn lengths_are_pythons() {
        let len = |a, b, c| Numbers::new(a, b, c, DType::Int64).unwrap().len;
        assert_eq!((len(0, 10, 3), len(10, 0, -3), len(5, 5, 1), len(5, 0, 1)), (4, 4, 0, 0));
        assert_eq!(len(i64::MIN, i64::MAX, 1), u64::MAX);
        assert!(Dataset::range_from(0, 3, 0).is_err());
    }

    #[test]
    fn small_types_wrap() {
        let n = Numbers::new(254, 258, 1, DType::Uint8).unwrap();
        match n.get(&[0, 1, 2, 3]).unwrap().columns() {
            [Column::Dense(t)] => assert_eq!(t, &Tensor::from_items([4], &[254u8, 255, 0, 1])),
            other => panic!("{other:?}"),
        }
    }
}
