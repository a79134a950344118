//! `shard(num_shards, index)`: every num_shards-th element.

use crate::dataset::Dataset;
use crate::element::{Chunk, Spec};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "shard",
    doc: "One of num_shards disjoint parts: the elements whose number leaves the remainder index.",
    params: &[
        Param::new("num_shards", "", "how many parts there are"),
        Param::new("index", "", "which part, from 0 on"),
    ],
    read: read::<Shard>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    pub num_shards: Int,
    pub index: Int,
}

impl Dataset {
    /// Part `index` of `num_shards`.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let n: Vec<i64> = Dataset::range(7)?.shard(3, 1)?.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [1, 4]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn shard(&self, num_shards: i64, index: i64) -> Result<Dataset> {
        self.apply(Shard { num_shards: num_shards.into(), index: index.into() })
    }
}

fn check(shards: i64, index: Option<i64>) -> Result<()> {
    if shards < 1 {
        return Err(Error::usage(format!("num_shards must be at least 1, not {shards}")));
    }
    match index {
        Some(i) if i < 0 || i >= shards => {
            Err(Error::usage(format!("index must be from 0 to {} for {shards} shards, not {i}", shards - 1)))
        }
        _ => Ok(()),
    }
}

impl Shard {
    fn numbers(&self, cx: &BuildCx) -> Result<(u64, u64)> {
        let (shards, index) = (self.num_shards.get(cx)?, self.index.get(cx)?);
        check(shards, Some(index))?;
        Ok((shards as u64, index as u64))
    }
}

impl Op for Shard {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.num_shards.known() {
            check(n, self.index.known())?;
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        match (inputs[0].card, self.num_shards.known(), self.index.known()) {
            (Card::Known(n), Some(k), Some(i)) => Card::Known(n.saturating_sub(i as u64).div_ceil(k as u64)),
            (Card::Known(_), ..) => Card::Unknown,
            (other, ..) => other,
        }
    }
    fn props(&self) -> Props {
        Props { noop: self.num_shards.known() == Some(1), carries: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (every, index) = self.numbers(cx)?;
        Ok(Built::Stage(Box::new(ShardStage { input: cx.stage(&node.inputs[0])?, every, until: index })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let (every, index) = self.numbers(cx)?;
        let len = input.len().saturating_sub(index).div_ceil(every);
        Ok(Some(Arc::new(ShardIndex { input, every, index, len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct ShardStage {
    input: Box<dyn Stage>,
    every: u64,
    /// Elements until the next one of ours. Failed ones are not counted.
    until: u64,
}

impl Stage for ShardStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if cx.is_cancelled() {
                return Pull::End;
            }
            // Up to the last one that is wanted, and no further.
            let ask = (want as u64 - 1).saturating_mul(self.every).saturating_add(self.until + 1);
            let chunk = crate::rows!(self.input.next(cx, ask.min(1 << 20) as usize));
            let rows = chunk.rows() as u64;
            if self.every == 1 {
                return Pull::Rows(chunk);
            }
            if self.until >= rows {
                self.until -= rows;
                continue;
            }
            let ours: Vec<usize> = (self.until..rows).step_by(self.every as usize).map(|r| r as usize).collect();
            self.until = self.until + ours.len() as u64 * self.every - rows;
            return Pull::Rows(match ours.as_slice() {
                [one] => chunk.slice(*one..one + 1),
                many => chunk.take(many),
            });
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.until);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.until = at.up_to(self.every)?;
        self.input.seek(at)
    }
}

struct ShardIndex {
    input: Arc<dyn Index>,
    every: u64,
    index: u64,
    len: u64,
}

impl Index for ShardIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let rows: Vec<u64> = rows.iter().map(|r| r * self.every + self.index).collect();
        self.input.get(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, in_chunks, ints};

    #[test]
    fn parts_are_disjoint_and_complete() {
        let ds = Dataset::range(1000).unwrap();
        let mut all: Vec<i64> = (0..7).flat_map(|i| ints(&ds.shard(7, i).unwrap())).collect();
        assert_eq!(ints(&ds.shard(7, 3).unwrap())[..3], [3, 10, 17]);
        all.sort();
        assert_eq!(all, ints(&ds));
        let part = ds.shard(20, 15).unwrap();
        assert_eq!((ints(&part).len() as u64, part.cardinality()), (50, Card::Known(50)));
        assert_eq!(Dataset::range(10).unwrap().shard(20, 15).unwrap().cardinality(), Card::Known(0));
        assert_eq!(part.index().unwrap().get(&[2]).unwrap().element(0)[0].tensor().item::<i64>(), 55);
        for rows in [1, 2, 5] {
            assert_eq!(ints(&in_chunks(&part, rows)), ints(&part));
        }
    }

    #[test]
    fn parameters_are_checked() {
        let ds = Dataset::range(10).unwrap();
        for (shards, index) in [(3, 3), (3, -1), (0, 0), (-1, 0)] {
            assert!(ds.shard(shards, index).is_err(), "{shards} {index}");
        }
    }

    #[test]
    fn errors_surface_and_do_not_count() {
        assert_eq!(events(&failing(6, &[1]).shard(3, 0).unwrap()), "0 ! 4");
    }
}
