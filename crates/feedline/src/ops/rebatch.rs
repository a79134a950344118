//! `rebatch(batch_sizes)`: batches of other sizes. The sizes are used in turn.

use super::Open;
use super::batch::{Gather, batched, stack};
use super::unbatch::{UnbatchStage, unbatched};
use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Leaf, Ragged, Sparse, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Mark, Pull, Replay, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "rebatch",
    doc: "Takes batches apart and makes batches of other sizes.",
    params: &[
        Param::new("batch_sizes", "", "the sizes, used in turn; 0 among them gives empty batches"),
        Param::new("drop_remainder", "False", "leave out a last batch that is not full"),
    ],
    read: read::<Rebatch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebatch {
    batch_sizes: Vec<Int>,
    #[serde(default)]
    drop_remainder: bool,
}

impl Dataset {
    /// `unbatch`, then batches of these sizes in turn.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(6)?.batch(4, false)?.rebatch(&[2, 1], false)?;
    /// let sizes: Vec<usize> = ds.iter()?.map(|e| e.unwrap()[0].tensor().len()).collect();
    /// assert_eq!(sizes, [2, 1, 2, 1]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn rebatch(&self, batch_sizes: &[i64], drop_remainder: bool) -> Result<Dataset> {
        self.apply(Rebatch { batch_sizes: batch_sizes.iter().map(|n| (*n).into()).collect(), drop_remainder })
    }
}

fn check_sizes(sizes: &[i64]) -> Result<()> {
    sizes.iter().try_for_each(|n| at_least("batch_size", *n, 0))?;
    if sizes.iter().all(|n| *n == 0) {
        crate::bail!(Usage, "batch_size must be at least 1: batches of nothing would never end");
    }
    Ok(())
}

impl Rebatch {
    /// The size that every batch has for certain.
    fn fixed(&self, input: &Spec) -> Option<usize> {
        let first = usize::try_from(self.batch_sizes.first()?.known()?).ok()?;
        if self.batch_sizes.iter().any(|n| n.known() != Some(first as i64)) {
            return None;
        }
        let known = input.leaves().iter().find_map(|l| l.shape().and_then(|s| s.first()));
        (self.drop_remainder || known.is_some_and(|n| n.is_multiple_of(first))).then_some(first)
    }
}

impl Op for Rebatch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let known: Vec<i64> = self.batch_sizes.iter().filter_map(|n| n.known()).collect();
        if known.len() == self.batch_sizes.len() {
            check_sizes(&known)?;
        }
        batched(&unbatched(&inputs[0].spec)?, self.fixed(&inputs[0].spec))
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let sizes = self.batch_sizes.iter().map(|n| n.get(cx)).collect::<Result<Vec<i64>>>()?;
        check_sizes(&sizes)?;
        let rows = UnbatchStage::new(cx.stage(&node.inputs[0])?);
        Ok(Built::Stage(Box::new(RebatchStage {
            input: Open::new(cx, &node.inputs, Box::new(Replay::new(Box::new(rows)))),
            gather: Gather::new(sizes[0] as usize, cx.hold(node)),
            sizes: sizes.into_iter().map(|n| n as usize).collect(),
            at: 0,
            drop_remainder: self.drop_remainder,
            empty: empty(&node.spec)?,
            made: 0,
        })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// A batch of no elements; sizes that are not known count as 0.
fn empty(spec: &Spec) -> Result<Element> {
    let shape = |leaf: &Leaf| -> Vec<usize> {
        let dims = leaf.shape().and_then(|s| s.dims()).unwrap_or(&[None]);
        std::iter::once(0).chain(dims.iter().skip(1).map(|d| d.unwrap_or(0))).collect()
    };
    let value = |leaf: &&Leaf| match *leaf {
        Leaf::Tensor { dtype, .. } => Ok(Value::Tensor(Tensor::zeros(*dtype, shape(leaf)))),
        Leaf::Ragged { dtype, ragged_rank, splits, .. } => {
            let mut values = shape(leaf);
            values.drain(1..(ragged_rank + 1).min(values.len()));
            Ok(Value::Ragged(Arc::new(Ragged {
                values: Tensor::zeros(*dtype, values),
                splits: (0..*ragged_rank).map(|_| [0].into()).collect(),
                splits_dtype: *splits,
            })))
        }
        Leaf::Sparse { dtype, .. } => {
            let shape = shape(leaf);
            Ok(Value::Sparse(Arc::new(Sparse {
                indices: Tensor::from_items([0, shape.len()], &[] as &[i64]),
                values: Tensor::zeros(*dtype, [0]),
                shape: shape.into_iter().map(|d| d as i64).collect(),
            })))
        }
        Leaf::Absent => Ok(Value::Absent),
        Leaf::Dataset(_) => Err(Error::internal("a dataset in a batch")),
    };
    spec.leaves().iter().map(value).collect()
}

struct RebatchStage {
    input: Open<Box<dyn Stage>>,
    gather: Gather,
    sizes: Vec<usize>,
    at: usize,
    drop_remainder: bool,
    empty: Element,
    made: u64,
}

impl RebatchStage {
    fn advance(&mut self) {
        self.at = (self.at + 1) % self.sizes.len();
        self.gather.clear();
        self.gather.rows = self.sizes[self.at];
    }
    fn finish(&mut self) -> Pull {
        let rows = (!self.gather.is_empty()).then(|| self.gather.take().0);
        let batch = rows.as_ref().map_or_else(|| Ok(self.empty.clone()), stack);
        self.advance();
        match batch {
            Ok(element) => {
                self.made += 1;
                let number = self.made - 1;
                Pull::Rows(match &rows {
                    Some(rows) => rows.made_of(number, element),
                    None => Chunk::one(number, element),
                })
            }
            Err(error) => Pull::Fail(error.at_element(self.made)),
        }
    }
}

impl Stage for RebatchStage {
    fn next(&mut self, cx: &mut Cx<'_>, _: usize) -> Pull {
        loop {
            let Some(input) = self.input.get().filter(|_| !cx.is_cancelled()) else { return Pull::End };
            if self.gather.missing() == 0 {
                return self.finish();
            }
            match input.next(cx, self.gather.missing()) {
                Pull::Rows(chunk) => {
                    if let Err(error) = self.gather.push(chunk) {
                        self.advance();
                        return Pull::Fail(error);
                    }
                }
                // The error takes the place of the batch that was being collected.
                Pull::Fail(error) => {
                    self.advance();
                    return Pull::Fail(error);
                }
                Pull::Pending => return Pull::Pending,
                Pull::End => {
                    self.input.end();
                    if !self.gather.is_empty() && !self.drop_remainder {
                        return self.finish();
                    }
                }
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        out.number(self.at as u64);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        self.at = at.up_to(self.sizes.len() as u64 - 1)? as usize;
        self.gather.clear();
        self.gather.rows = self.sizes[self.at];
        self.input.seek(at)
    }
    fn is_settled(&self) -> bool {
        self.gather.is_empty()
    }
    fn replays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;

    #[test]
    fn sizes_are_used_in_turn() {
        let ds = Dataset::range(10).unwrap().batch(4, false).unwrap();
        same(&ds.rebatch(&[3], false).unwrap(), "[0 1 2] [3 4 5] [6 7 8] [9]");
        same(&ds.rebatch(&[3], true).unwrap(), "[0 1 2] [3 4 5] [6 7 8]");
        same(&ds.rebatch(&[2, 1], false).unwrap(), "[0 1] [2] [3 4] [5] [6 7] [8] [9]");
        same(&ds.rebatch(&[3, 4], true).unwrap(), "[0 1 2] [3 4 5 6] [7 8 9]");
        same(&ds.rebatch(&[2, 0, 1], false).unwrap(), "[0 1] [] [2] [3 4] [] [5] [6 7] [] [8] [9]");
        same(&ds.rebatch(&[100], false).unwrap(), "[0 1 2 3 4 5 6 7 8 9]");
        assert_eq!(ds.rebatch(&[3], true).unwrap().cardinality(), Card::Unknown);
    }

    #[test]
    fn the_static_size_is_known_where_it_must_be() {
        let ds = Dataset::range(8).unwrap();
        let spec = |first: bool, sizes: &[i64], drop: bool| {
            ds.batch(4, first).unwrap().rebatch(sizes, drop).unwrap().spec().to_string()
        };
        assert_eq!(spec(true, &[2], false), "int64[2]");
        assert_eq!(spec(true, &[2, 2], false), "int64[2]");
        assert_eq!(spec(true, &[3], false), "int64[?]");
        assert_eq!(spec(false, &[2], false), "int64[?]");
        assert_eq!(spec(false, &[2], true), "int64[2]");
        assert_eq!(spec(true, &[2, 1], true), "int64[?]");
    }

    #[test]
    fn ragged_and_sparse_batches_are_cut_anew() {
        let ragged = fill_x(&Dataset::range(4).unwrap()).ragged_batch(3, false).unwrap();
        same(
            &ragged.rebatch(&[2, 0], false).unwrap(),
            "ragged[[0, 0, 1]][1] ragged[[0]][] ragged[[0, 2, 5]][2 2 3 3 3] ragged[[0]][]",
        );
        let sparse = fill_x(&Dataset::range(3).unwrap()).sparse_batch(2, &[Some(3)]).unwrap();
        same(&sparse.rebatch(&[3, 0], true).unwrap(), "sparse[3, 3][1 0 2 0 2 1][1 2 2] sparse[0, 3][][]");
    }

    #[test]
    fn an_error_takes_the_place_of_a_batch() {
        let ds = fail_at(&Dataset::range(6).unwrap(), 2).batch(2, false).unwrap();
        same(&ds.rebatch(&[3, 1], false).unwrap(), "! [3] [4 5]");
    }

    #[test]
    fn sizes_that_never_end_are_refused() {
        let ds = Dataset::range(8).unwrap().batch(2, false).unwrap();
        for sizes in [&[0][..], &[-1], &[0, 0], &[2, -1], &[]] {
            assert!(ds.rebatch(sizes, false).is_err(), "{sizes:?}");
        }
        assert!(Dataset::range(8).unwrap().rebatch(&[2], false).is_err());
    }
}
