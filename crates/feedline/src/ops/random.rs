//! `random(seed)`: random 32-bit numbers without an end.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Pos, Spec, Tensor};
use crate::error::Result;
use crate::expr::Philox;
use crate::op::{Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Mark, PassSeeds, Pull, Seeded, Stage};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "random",
    doc: "Random whole numbers from 0 up to (not including) 2^32, without an end.",
    params: &[
        Param::new("seed", "None", "where the sequence starts; None: somewhere else for each dataset"),
        Param::new("seed2", "None", "the second half of the seed"),
        Param::new("rerandomize_each_iteration", "False", "another sequence in each pass"),
    ],
    read: read::<Random>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    #[serde(default)]
    seed: Option<i64>,
    #[serde(default)]
    seed2: Option<i64>,
    #[serde(default)]
    rerandomize_each_iteration: Option<bool>,
    #[serde(skip)]
    seeds: OnceLock<Arc<PassSeeds>>,
}

impl Dataset {
    /// Random numbers, the same in each pass.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let first = Dataset::random(Some(4))?.iter()?.next().unwrap()?;
    /// assert_eq!(first[0].tensor().item::<i64>(), 3128586565);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn random(seed: Option<i64>) -> Result<Dataset> {
        Dataset::source(Random { seed, seed2: None, rerandomize_each_iteration: None, seeds: OnceLock::new() })
    }
}

impl Random {
    fn each_pass(&self) -> bool {
        self.rerandomize_each_iteration == Some(true)
    }
    fn pass_seeds(&self) -> &Arc<PassSeeds> {
        self.seeds.get_or_init(|| Arc::new(PassSeeds::new(self.seed, self.seed2, self.each_pass())))
    }
}

impl Op for Random {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(Spec::scalar(DType::Int64))
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Infinite
    }
    fn props(&self) -> Props {
        Props { pure: self.seed.or(self.seed2).is_some() && !self.each_pass(), ..Props::default() }
    }
    fn seeds(&self) -> Option<&Arc<PassSeeds>> {
        Some(self.pass_seeds())
    }
    fn build(&self, cx: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(RandomStage::new(self.pass_seeds().start(cx)))))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct RandomStage {
    seeds: Seeded,
    numbers: Philox,
    at: u64,
}

impl RandomStage {
    fn new(seeds: Seeded) -> RandomStage {
        RandomStage { numbers: seeds.random(), seeds, at: 0 }
    }
}

impl Stage for RandomStage {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        let (rows, first) = (want.min(1 << 16), self.at);
        self.at += rows as u64;
        let mut t = Tensor::new(DType::Int64, [rows]);
        t.items_mut::<i64>().iter_mut().for_each(|x| *x = self.numbers.next_u32().into());
        Pull::Rows(Chunk::new(rows, Pos::Run(first), [Column::Dense(t)]))
    }
    fn mark(&mut self, out: &mut Mark) {
        self.seeds.mark(out);
        out.number(self.at);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.seeds.seek(at)?;
        self.numbers = self.seeds.random();
        self.at = at.up_to(u64::MAX / 2)?;
        self.numbers.seek(self.at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::source;
    use serde_json::json;

    fn first(ds: &Dataset) -> Vec<i64> {
        ds.iter().unwrap().take(2).map(|e| e.unwrap()[0].tensor().item()).collect()
    }

    #[test]
    fn passes_agree_unless_asked() {
        let ds = Dataset::random(Some(4)).unwrap();
        assert_eq!((first(&ds), first(&ds)), (vec![3128586565, 2023892699], vec![3128586565, 2023892699]));
        let params = json!({ "seed": 87654321, "seed2": 4, "rerandomize_each_iteration": true });
        let ds = source("random", params).unwrap();
        assert_eq!((first(&ds), first(&ds)), (vec![1905554911, 4215726141], vec![1683472663, 2279948892]));
        let unseeded = Dataset::random(None).unwrap();
        assert_eq!(first(&unseeded), first(&unseeded));
        assert_ne!(first(&unseeded), first(&Dataset::random(None).unwrap()));
    }
}
