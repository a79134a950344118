//! `concatenate(dataset)`: one dataset after the other.

use crate::dataset::Dataset;
use crate::element::{Chunk, Pos, Spec};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, EndsBelow, Index, Mark, Pull, Stage, Taken};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "concatenate",
    doc: "All elements of the first dataset, then all of the next.",
    params: &[Param::new("dataset", "", "what comes after this one")],
    read: read::<Concatenate>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concatenate {}

impl Dataset {
    /// These elements, then the other's.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(2)?.concatenate(&Dataset::range(3)?)?;
    /// assert_eq!(ds.iter()?.count(), 5);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn concatenate(&self, other: &Dataset) -> Result<Dataset> {
        let inputs = vec![self.plan().clone(), other.plan().clone()];
        Ok(Dataset::from_plan(Plan::new(Arc::new(Concatenate {}), inputs)?))
    }
}

impl Op for Concatenate {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let (first, rest) = inputs.split_first().ok_or_else(|| Error::usage("there is nothing to concatenate"))?;
        rest.iter().try_fold(first.spec.clone(), |spec, input| {
            spec.join(&input.spec).map_err(|_| {
                Error::usage(format!(
                    "the datasets must have elements of one structure and the same dtypes, but have {} and {}; \
                     convert one of them with map",
                    first.spec, input.spec
                ))
            })
        })
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs.iter().fold(Card::Known(0), |sum, input| match (sum, input.card) {
            (Card::Infinite, _) | (_, Card::Infinite) => Card::Infinite,
            (Card::Known(a), Card::Known(b)) => Card::Known(a.saturating_add(b)),
            _ => Card::Unknown,
        })
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (taken, cx) = Taken::new(cx, &node.inputs);
        let stage = Some(cx.stage(&node.inputs[0])?);
        let order = node.spec.leaf_order(&node.inputs[0].spec);
        let below = EndsBelow::of_starter(&cx, &node.inputs)?;
        let stage = ConcatenateStage { stage, order, cx, node: node.clone(), input: 0, made: 0, taken, below };
        Ok(Built::Stage(Box::new(stage)))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let mut parts = Vec::new();
        let mut len = 0u64;
        for input in &node.inputs {
            let Some(index) = cx.index(input)? else { return Ok(None) };
            parts.push((len, index, node.spec.leaf_order(&input.spec)));
            len += parts.last().map_or(0, |(_, i, _)| i.len());
        }
        Ok(Some(Arc::new(ConcatenateIndex { parts, len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Inputs are started when their turn comes: there may be thousands.
struct ConcatenateStage {
    stage: Option<Box<dyn Stage>>,
    /// Where the leaves of our spec are in the elements of this input.
    order: Vec<usize>,
    cx: BuildCx,
    node: Plan,
    input: usize,
    made: u64,
    /// The seeds of operators below: each input takes some.
    taken: Taken,
    below: EndsBelow,
}

impl Stage for ConcatenateStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if let Some(stage) = &mut self.stage {
                match stage.next(cx, want) {
                    Pull::Rows(chunk) => {
                        let first = self.made;
                        self.made += chunk.rows() as u64;
                        return Pull::Rows(chunk.reordered(&self.order).with_pos(Pos::Run(first)));
                    }
                    Pull::End => {
                        self.stage = None;
                        self.below.note();
                    }
                    other => return other,
                }
            }
            if cx.is_cancelled() || self.input + 1 >= self.node.inputs.len() {
                return Pull::End;
            }
            self.input += 1;
            let input = &self.node.inputs[self.input];
            match self.cx.stage(input) {
                Ok(stage) => self.stage = Some(stage),
                // An input that cannot be started costs one error, and the next one follows.
                Err(error) => return Pull::Fail(error),
            }
            self.order = self.node.spec.leaf_order(&input.spec);
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        out.number(self.input as u64);
        self.taken.mark(out);
        self.below.mark(out);
        out.flag(self.stage.is_some());
        if let Some(stage) = &mut self.stage {
            stage.mark(out);
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        let input = at.up_to(self.node.inputs.len() as u64 - 1)? as usize;
        self.taken.seek(at)?;
        self.below.seek(at)?;
        if !at.flag()? {
            (self.stage, self.input) = (None, input);
            return Ok(());
        }
        if input != self.input || self.stage.is_none() {
            let plan = &self.node.inputs[input];
            // Let go first: it may hold what the other one needs.
            self.stage = None;
            self.stage = Some(self.cx.stage(plan)?);
            (self.input, self.order) = (input, self.node.spec.leaf_order(&plan.spec));
        }
        self.stage.as_mut().map_or(Ok(()), |stage| stage.seek(at))
    }
}

struct ConcatenateIndex {
    /// First number, elements, and order of leaves of each input.
    parts: Vec<(u64, Arc<dyn Index>, Vec<usize>)>,
    len: u64,
}

impl Index for ConcatenateIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        // The last input that begins at or before the row: empty inputs begin where the next one does.
        let part = |row: &u64| self.parts.partition_point(|(first, ..)| first <= row) - 1;
        let mut chunks = Vec::new();
        for run in rows.chunk_by(|a, b| part(a) == part(b)) {
            let (first, index, order) = &self.parts[part(&run[0])];
            let of: Vec<u64> = run.iter().map(|r| r - first).collect();
            chunks.push(index.get(&of)?.reordered(order));
        }
        match chunks.is_empty() {
            true => Ok(self.parts[0].1.get(&[])?.reordered(&self.parts[0].2)),
            false => Ok(Chunk::concat(Pos::List(rows.into()), &chunks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Tensor;
    use crate::ops::testing::{events, failing, ints};

    #[test]
    fn shapes_weaken_and_dtypes_must_match() {
        let one = |n: usize| Dataset::from_tensors(Tensor::from_items([n], &vec![0i64; n])).unwrap();
        assert_eq!(one(2).concatenate(&one(1)).unwrap().spec().to_string(), "int64[?]");
        let scalar = Dataset::range(2).unwrap();
        assert_eq!(one(2).concatenate(&scalar).unwrap().spec().to_string(), "int64<unknown rank>");
        let other = Dataset::from_tensors(Tensor::scalar(3i32)).unwrap();
        let text = scalar.concatenate(&other).unwrap_err().to_string();
        assert!(text.contains("int64 and int32"), "{text}");
    }

    #[test]
    fn errors_keep_their_place() {
        let ds = failing(3, &[1]).concatenate(&Dataset::range_from(10, 12, 1).unwrap()).unwrap();
        assert_eq!(events(&ds), "0 ! 2 10 11");
    }

    #[test]
    fn by_number_across_empty_inputs() {
        let (a, none) = (Dataset::range(3).unwrap(), Dataset::range(0).unwrap());
        let ds = none.concatenate(&a).unwrap().concatenate(&none).unwrap().concatenate(&a).unwrap();
        let index = ds.index().unwrap();
        let all: Vec<u64> = (0..index.len()).collect();
        let chunk = index.get(&all).unwrap();
        let got: Vec<i64> = (0..chunk.rows()).map(|r| chunk.element(r)[0].tensor().item()).collect();
        assert_eq!(got, ints(&ds));
        assert_eq!(ds.cardinality(), Card::Known(6));
        assert_eq!(ds.concatenate(&Dataset::counter(0, 1).unwrap()).unwrap().cardinality(), Card::Infinite);
    }

    #[test]
    fn a_dataset_that_is_used_twice_is_asked_once() {
        let double = |ds: Dataset| (0..30).fold(ds, |ds, _| ds.concatenate(&ds).unwrap());
        let index = double(Dataset::range(4).unwrap()).index().unwrap();
        assert_eq!(index.len(), 4 << 30);
        assert_eq!(index.get(&[4 * 99 + 3]).unwrap().element(0)[0].tensor().item::<i64>(), 3);
        let streaming = double(Dataset::range(4).unwrap().filter_fn(|_| Ok(true)).unwrap());
        let text = streaming.shuffle(None, None, true).unwrap_err().to_string();
        assert!(text.contains("filter"), "{text}");
        // The same dataset in other epochs has other random numbers.
        let shuffled = Dataset::range(50).unwrap().shuffle(None, Some(1), true).unwrap();
        let index = shuffled.repeat(Some(2)).unwrap().index().unwrap();
        let all = index.get(&(0..100).collect::<Vec<_>>()).unwrap();
        assert_ne!(all.columns()[0].slice(0..50).values(), all.columns()[0].slice(50..100).values());
    }
}
