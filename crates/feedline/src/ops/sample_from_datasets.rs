//! `sample_from_datasets(datasets, weights)`: each element comes from a dataset that is drawn at random.

use super::choose_from_datasets::{Choices, joint_spec, mixed, mixed_card};
use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::Result;
use crate::expr::Philox;
use crate::op::{Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Mark, PassSeeds, Pull, Seeded};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "sample_from_datasets",
    doc: "Takes each element from a dataset that is drawn by weight.",
    params: &[
        Param::new("weights", "None", "how likely each dataset is; None: all equally"),
        Param::new("seed", "None", "makes the draws repeatable; None: others for each dataset"),
        Param::new("seed2", "None", "the second half of the seed"),
        Param::new(
            "stop_on_empty_dataset",
            "False",
            "end when a drawn dataset has no more; False: go on with the others",
        ),
        Param::new("rerandomize_each_iteration", "False", "other draws in each pass"),
    ],
    read: read::<SampleFromDatasets>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleFromDatasets {
    #[serde(default)]
    weights: Option<Vec<f64>>,
    #[serde(default)]
    seed: Option<i64>,
    #[serde(default)]
    seed2: Option<i64>,
    #[serde(default)]
    stop_on_empty_dataset: bool,
    #[serde(default)]
    rerandomize_each_iteration: Option<bool>,
    #[serde(skip)]
    seeds: OnceLock<Arc<PassSeeds>>,
}

impl Dataset {
    /// Elements of `datasets` in random turns, by weight; the same turns in each pass.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let parts = [Dataset::range(2)?, Dataset::range_from(10, 12, 1)?];
    /// let ds = Dataset::sample_from_datasets(&parts, Some(&[0.5, 0.0]), Some(4))?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 1]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn sample_from_datasets(datasets: &[Dataset], weights: Option<&[f64]>, seed: Option<i64>) -> Result<Dataset> {
        let op = SampleFromDatasets {
            weights: weights.map(|w| w.to_vec()),
            seed,
            seed2: None,
            stop_on_empty_dataset: false,
            rerandomize_each_iteration: None,
            seeds: OnceLock::new(),
        };
        Ok(Dataset::from_plan(Plan::new(Arc::new(op), datasets.iter().map(|d| d.plan().clone()).collect())?))
    }
}

impl SampleFromDatasets {
    fn each_pass(&self) -> bool {
        self.rerandomize_each_iteration == Some(true)
    }
    fn weights(&self, inputs: &[Plan]) -> Vec<f64> {
        self.weights.clone().unwrap_or_else(|| vec![1.0; inputs.len()])
    }
    /// The datasets that can be drawn, with their weights.
    fn live(&self, inputs: &[Plan]) -> (Vec<Plan>, Vec<f64>) {
        inputs.iter().cloned().zip(self.weights(inputs)).filter(|(_, w)| *w > 0.0).unzip()
    }
}

impl SampleFromDatasets {
    fn pass_seeds(&self) -> &Arc<PassSeeds> {
        self.seeds.get_or_init(|| Arc::new(PassSeeds::new(self.seed, self.seed2, self.each_pass())))
    }
}

impl Op for SampleFromDatasets {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let all = joint_spec(inputs)?;
        let weights = self.weights(inputs);
        if weights.len() != inputs.len() {
            crate::bail!(Usage, "there are {} weights for {} datasets", weights.len(), inputs.len());
        }
        if let Some(w) = weights.iter().find(|w| !w.is_finite()) {
            crate::bail!(Usage, "a weight must be a number, not {w}");
        }
        match self.live(inputs).0.as_slice() {
            [] => Ok(all),
            live => joint_spec(live),
        }
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        match self.live(inputs).0.as_slice() {
            [] => Card::Known(0),
            [one] => one.card,
            live => mixed_card(Card::Infinite, live, self.stop_on_empty_dataset),
        }
    }
    fn props(&self) -> Props {
        Props { pure: self.seed.or(self.seed2).is_some() && !self.each_pass(), ..Props::default() }
    }
    fn seeds(&self) -> Option<&Arc<PassSeeds>> {
        Some(self.pass_seeds())
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (live, weights) = self.live(&node.inputs);
        if let [one] = live.as_slice() {
            return cx.build(one);
        }
        if live.is_empty() {
            return Ok(Built::Stage(Box::new(super::batch::Nothing)));
        }
        let seeds = self.pass_seeds().start(cx);
        let (random, of_all) = (seeds.random(), weights.clone());
        let choices = Drawn { random, seeds, weights, of_all, ready: VecDeque::new(), used: 0, at: Ok(0) };
        Ok(Built::Stage(mixed(cx, node, &live, choices, self.stop_on_empty_dataset)?))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Choices drawn by weight. A dataset that has no more has the weight 0 from its last draw on.
struct Drawn {
    seeds: Seeded,
    random: Philox,
    weights: Vec<f64>,
    /// The weights while all of them have more.
    of_all: Vec<f64>,
    /// Numbers from 0 up to 1 that were drawn ahead. What they choose depends on the weights when their turn comes.
    ready: VecDeque<f64>,
    /// How many of them were used.
    used: u64,
    /// What the first of them chooses.
    at: Result<i64>,
}

/// More are not drawn ahead.
const AHEAD: usize = 256;

impl Drawn {
    fn choice(&self, draw: f64) -> usize {
        let mut rest = draw * self.weights.iter().sum::<f64>();
        let mut last = 0;
        for (i, w) in self.weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            last = i;
            rest -= w;
            if rest < 0.0 {
                break;
            }
        }
        last
    }
}

impl Choices for Drawn {
    fn fill(&mut self, _: &mut Cx<'_>, want: usize) -> Option<Pull> {
        if self.ready.is_empty() {
            for _ in 0..want.clamp(1, AHEAD) {
                let (high, low) = (u64::from(self.random.next_u32()), u64::from(self.random.next_u32()));
                self.ready.push_back(((high << 21) ^ (low >> 11)) as f64 / (1u64 << 53) as f64);
            }
        }
        self.at = Ok(self.choice(self.ready[0]) as i64);
        None
    }
    fn first(&self) -> &Result<i64> {
        &self.at
    }
    fn pop(&mut self) {
        self.ready.pop_front();
        self.used += 1;
    }
    fn count(&self, dataset: usize, want: usize) -> usize {
        self.ready.iter().take(want).filter(|draw| self.choice(**draw) == dataset).count()
    }
    fn gone(&mut self, dataset: usize) {
        self.weights[dataset] = 0.0;
        self.pop();
    }
    fn mark(&mut self, out: &mut Mark) {
        self.seeds.mark(out);
        out.number(self.used);
    }
    fn seek(&mut self, at: &mut At<'_>, open: &[bool]) -> Result<()> {
        self.seeds.seek(at)?;
        self.random = self.seeds.random();
        self.used = at.up_to(u64::MAX / 4)?;
        self.random.seek(2 * self.used);
        self.ready.clear();
        let weights = self.of_all.iter().zip(open);
        self.weights = weights.map(|(weight, open)| if *open { *weight } else { 0.0 }).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;

    fn two(a: i64, b: i64) -> [Dataset; 2] {
        [Dataset::range(a).unwrap(), Dataset::range_from(100, 100 + b, 1).unwrap()]
    }
    fn sampled(inputs: &[Dataset], params: serde_json::Value) -> Result<Dataset> {
        op("sample_from_datasets", params, &inputs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn all_inputs_are_drained_in_their_own_order() {
        let ds = Dataset::sample_from_datasets(&two(30, 20), Some(&[0.7, 0.3]), Some(4)).unwrap();
        let got = shown(&ds);
        same(&ds, &got);
        let numbers: Vec<i64> = got.split(' ').map(|n| n.parse().unwrap()).collect();
        let (small, large): (Vec<i64>, Vec<i64>) = numbers.iter().partition(|n| **n < 100);
        assert_eq!(small, (0..30).collect::<Vec<_>>());
        assert_eq!(large, (100..120).collect::<Vec<_>>());
        assert!(numbers[..20].iter().any(|n| *n >= 100), "they are mixed: {got}");
        assert_eq!(ds.cardinality(), Card::Unknown);
    }

    #[test]
    fn weights_are_kept_to() {
        let ds = Dataset::sample_from_datasets(&two(100_000, 100_000), Some(&[3.0, 1.0]), Some(7)).unwrap();
        let numbers: Vec<i64> = ds.iter().unwrap().take(20_000).map(|e| e.unwrap()[0].tensor().item()).collect();
        // The first dataset counts from 0: how far it got is how often it was drawn.
        let first = numbers.iter().fold(0, |next, n| if *n == next { next + 1 } else { next });
        assert!((14_500..15_500).contains(&first), "{first}");
    }

    #[test]
    fn weights_that_are_not_positive_remove_their_dataset() {
        same(&Dataset::sample_from_datasets(&two(3, 3), Some(&[1.0, 0.0]), Some(4)).unwrap(), "0 1 2");
        let ds = Dataset::sample_from_datasets(&two(3, 3), Some(&[-1.0, 1.0]), Some(4)).unwrap();
        same(&ds, "100 101 102");
        assert_eq!(ds.cardinality(), Card::Known(3));
        let none = Dataset::sample_from_datasets(&two(3, 3), Some(&[0.0, 0.0]), Some(4)).unwrap();
        same(&none, "");
        assert_eq!(none.cardinality(), Card::Known(0));
        // A weight that would hardly ever be drawn does not keep what is left waiting.
        let rare = Dataset::sample_from_datasets(&two(2, 3), Some(&[1.0, 1e-300]), Some(4)).unwrap();
        same(&rare, "0 1 100 101 102");
    }

    #[test]
    fn passes_repeat_unless_told_otherwise() {
        let params = |again: bool| serde_json::json!({"seed": 1, "seed2": 2, "rerandomize_each_iteration": again});
        let fixed = sampled(&two(20, 20), params(false)).unwrap();
        assert_eq!(shown(&fixed), shown(&fixed));
        let fresh = sampled(&two(20, 20), params(true)).unwrap();
        assert_ne!(shown(&fresh), shown(&fresh));
        assert!(!fresh.plan().is_pure() && fixed.plan().is_pure());
    }

    #[test]
    fn it_can_end_with_the_first_that_ends() {
        let ds = sampled(&two(3, 1000), serde_json::json!({"seed": 4, "stop_on_empty_dataset": true})).unwrap();
        let got = shown(&ds);
        same(&ds, &got);
        assert!(got.split(' ').count() < 200 && got.contains(" 2"), "{got}");
    }

    #[test]
    fn inputs_are_checked() {
        assert!(sampled(&[], serde_json::json!({})).is_err());
        assert!(sampled(&two(1, 1), serde_json::json!({"weights": [1.0]})).is_err());
        assert!(Dataset::sample_from_datasets(&two(1, 1), Some(&[f64::NAN, 1.0]), None).is_err());
    }
}
