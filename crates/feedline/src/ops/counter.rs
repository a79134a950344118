//! `counter(start, step)`: numbers without an end.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Pos, Spec, Tensor};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};

pub static INFO: OpInfo = OpInfo {
    name: "counter",
    doc: "Numbers from start on, step apart, without an end.",
    params: &[
        Param::new("start", "0", "the first number"),
        Param::new("step", "1", "the distance"),
        Param::new("dtype", "int64", "the dtype; larger whole numbers wrap around"),
    ],
    read: read::<Counter>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    start: Number,
    step: Number,
    dtype: DType,
}

/// A whole number, perhaps symbolic, or a fraction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(Int),
    Fraction(f64),
}

impl Number {
    fn get(self, cx: &BuildCx) -> Result<(i64, f64)> {
        match self {
            Number::Whole(n) => n.get(cx).map(|n| (n, n as f64)),
            Number::Fraction(x) => Ok((0, x)),
        }
    }
    fn is_fraction(self) -> bool {
        matches!(self, Number::Fraction(_))
    }
}

impl Dataset {
    /// The numbers `start`, `start + step`, … without an end.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let n: Vec<i64> = Dataset::counter(3, 2)?.iter()?.take(3).map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [3, 5, 7]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn counter(start: i64, step: i64) -> Result<Dataset> {
        let whole = |n: i64| Number::Whole(n.into());
        Dataset::source(Counter { start: whole(start), step: whole(step), dtype: DType::Int64 })
    }
}

impl Op for Counter {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        if !self.dtype.is_numeric() {
            return Err(Error::usage(format!("dtype must be a number, not {}", self.dtype)));
        }
        if !self.dtype.is_float() && (self.start.is_fraction() || self.step.is_fraction()) {
            crate::bail!(Usage, "start and step must be whole numbers for {}; or give a float dtype", self.dtype);
        }
        Ok(Spec::scalar(self.dtype))
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Infinite
    }
    fn build(&self, cx: &BuildCx, _: &Plan) -> Result<Built> {
        let (start, step) = (self.start.get(cx)?, self.step.get(cx)?);
        Ok(Built::Stage(Box::new(CounterStage { start, step, dtype: self.dtype, at: 0 })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct CounterStage {
    /// As a whole number, and as any number.
    start: (i64, f64),
    step: (i64, f64),
    dtype: DType,
    at: u64,
}

impl Stage for CounterStage {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        let (rows, first) = (want.min(1 << 16), self.at);
        self.at += rows as u64;
        // Each number is computed from its place, so that rounding errors do not add up.
        let float = |i: usize| self.start.1 + (first + i as u64) as f64 * self.step.1;
        let whole = |i: usize| self.start.0.wrapping_add(((first + i as u64) as i64).wrapping_mul(self.step.0));
        let floats = |dtype| {
            let mut t = Tensor::new(dtype, [rows]);
            macro_rules! fill {
                ($t:ty, $convert:expr) => {
                    t.items_mut::<$t>().iter_mut().enumerate().for_each(|(i, x)| *x = $convert(float(i)))
                };
            }
            match dtype {
                DType::Float16 => fill!(half::f16, half::f16::from_f64),
                DType::Bfloat16 => fill!(half::bf16, half::bf16::from_f64),
                DType::Float32 => fill!(f32, |x| x as f32),
                _ => fill!(f64, |x| x),
            }
            t
        };
        let tensor = if self.dtype.is_float() { floats(self.dtype) } else { super::counted(self.dtype, rows, whole) };
        Pull::Rows(Chunk::new(rows, Pos::Run(first), [Column::Dense(tensor)]))
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.at);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.at = at.up_to(u64::MAX / 2)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::source;
    use serde_json::json;

    #[test]
    fn small_types_wrap_and_fractions_need_floats() {
        let ds = source("counter", json!({ "start": 254, "step": 1, "dtype": "uint8" })).unwrap();
        let n: Vec<u8> = ds.iter().unwrap().take(4).map(|e| e.unwrap()[0].tensor().item()).collect();
        assert_eq!(n, [254, 255, 0, 1]);
        let ds = source("counter", json!({ "start": 0.5, "step": 0.25, "dtype": "float32" })).unwrap();
        let n: Vec<f32> = ds.iter().unwrap().take(4).map(|e| e.unwrap()[0].tensor().item()).collect();
        assert_eq!(n, [0.5, 0.75, 1.0, 1.25]);
        assert_eq!(ds.cardinality(), Card::Infinite);
        assert!(source("counter", json!({ "start": 0.5, "step": 1, "dtype": "int64" })).is_err());
        assert!(source("counter", json!({ "start": 0, "step": 1, "dtype": "string" })).is_err());
    }
}
