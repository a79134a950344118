//! `ragged_batch(batch_size)`: like `batch`, but components whose sizes are not known become ragged tensors.

use super::batch::{batched, batches};
use super::batches::{Batches, Beside};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Dims, Element, Leaf, Ragged, Shape, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Hold, Index, bytes_text};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "ragged_batch",
    doc: "Stacks consecutive elements; components of unknown size become ragged tensors.",
    params: &[
        Param::new("batch_size", "", "elements in a batch"),
        Param::new("drop_remainder", "False", "leave out a last batch that is not full"),
        Param::new("row_splits_dtype", "int64", "int32 or int64: how row borders are shown"),
    ],
    read: read::<RaggedBatch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaggedBatch {
    batch_size: Int,
    #[serde(default)]
    drop_remainder: bool,
    #[serde(default = "int64")]
    row_splits_dtype: DType,
}

fn int64() -> DType {
    DType::Int64
}

impl Dataset {
    /// Batches in which components of unknown size become ragged tensors.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Value};
    /// let ds = Dataset::range(5)?.batch(2, false)?.ragged_batch(3, false)?;
    /// let Value::Ragged(rows) = &ds.iter()?.next().unwrap()?[0] else { panic!() };
    /// assert_eq!(*rows.splits[0], [0, 2, 4, 5]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn ragged_batch(&self, batch_size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.apply(RaggedBatch { batch_size: batch_size.into(), drop_remainder, row_splits_dtype: DType::Int64 })
    }
}

/// The axes (of an element) that become ragged: all up to the last one whose size is not known.
fn ragged_axes(leaf: &Leaf) -> Option<usize> {
    match leaf {
        Leaf::Tensor { shape, .. } => shape.dims()?.iter().rposition(|d| d.is_none()).map(|axis| axis + 1),
        _ => None,
    }
}

impl Op for RaggedBatch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.batch_size.known() {
            at_least("batch_size", n, 1)?;
        }
        if !matches!(self.row_splits_dtype, DType::Int32 | DType::Int64) {
            crate::bail!(Usage, "row_splits_dtype must be int32 or int64, not {}", self.row_splits_dtype);
        }
        let size = self.batch_size.known().filter(|_| self.drop_remainder).map(|n| n as usize);
        inputs[0].spec.try_map(&mut |leaf| match (leaf, ragged_axes(leaf)) {
            (Leaf::Tensor { dtype, shape }, Some(ragged_rank)) => {
                Ok(Leaf::Ragged { dtype: *dtype, shape: shape.under(size), ragged_rank, splits: self.row_splits_dtype })
            }
            _ => match batched(&Spec::leaf(leaf.clone()), size)? {
                Spec::Leaf(leaf) => Ok(leaf),
                _ => unreachable!("a leaf stays a leaf"),
            },
        })
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        batches(inputs[0].card, self.batch_size.known().map(|n| n as u64), self.drop_remainder)
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Batches { size: self.batch_size, drop_remainder: self.drop_remainder, beside: Beside::Same }.build(
            cx,
            node,
            self.make(node),
        )
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Batches { size: self.batch_size, drop_remainder: self.drop_remainder, beside: Beside::Same }.index(
            cx,
            node,
            self.make(node),
        )
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

impl RaggedBatch {
    fn make(&self, node: &Plan) -> impl Fn(&Chunk, &mut Hold) -> Result<Element> + Send + Sync + use<> {
        let leaves: Vec<(Option<usize>, Dims)> = node.inputs[0]
            .spec
            .leaves()
            .iter()
            .map(|l| (ragged_axes(l), l.shape().cloned().unwrap_or(Dims::unknown())))
            .collect();
        let dtype = self.row_splits_dtype;
        move |chunk, hold| {
            // What is made of the rows counts beside them.
            let made = chunk.columns().iter().zip(&leaves).filter(|(_, (axes, _))| axes.is_some());
            let bytes = made.map(|(column, _)| column.nbytes()).sum::<usize>();
            hold.set(hold.bytes().saturating_add(bytes)).map_err(|over| {
                let what =
                    format!("the {} elements of a batch, and the batch, take {}", chunk.rows(), bytes_text(over.bytes));
                over.error(&what, "make smaller batches")
            })?;
            let columns = chunk.columns().iter().zip(&leaves);
            columns
                .map(|(column, (axes, dims))| match axes {
                    Some(axes) => Ok(Value::Ragged(Arc::new(ragged(column, *axes, dims, dtype)?))),
                    None => column.stack(),
                })
                .collect()
        }
    }
}

/// Rows of any size as one ragged tensor: `axes` of their axes are ragged, the others must agree.
fn ragged(column: &Column, axes: usize, dims: &Dims, splits_dtype: DType) -> Result<Ragged> {
    let rows = column.values();
    let mut splits: Vec<Vec<i64>> = vec![vec![0]; axes];
    let mut flat = Vec::with_capacity(rows.len());
    for (i, value) in rows.iter().enumerate() {
        let t = value.tensor();
        if !dims.accepts(t.shape()) {
            return Err(Error::data(format!(
                "element {i} of the batch has the shape {:?}, which is not {dims}",
                t.shape()
            )));
        }
        // Level k has a border for every block of the axes before it.
        let mut blocks = 1;
        for (k, level) in splits.iter_mut().enumerate() {
            let mut end = *level.last().expect("starts with 0");
            for _ in 0..blocks {
                end += t.shape()[k] as i64;
                level.push(end);
            }
            blocks *= t.shape()[k];
        }
        let mut shape: Shape = smallvec::smallvec![blocks];
        shape.extend_from_slice(&t.shape()[axes..]);
        flat.push(t.reshaped(shape));
    }
    if flat.iter().any(|t| t.shape()[1..] != flat[0].shape()[1..]) {
        return Err(Error::data("the inner sizes of the elements of a batch differ"));
    }
    Ok(Ragged { values: Tensor::concat(&flat), splits: splits.into_iter().map(Into::into).collect(), splits_dtype })
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;

    #[test]
    fn unknown_sizes_become_ragged() {
        let ds = fill_x(&Dataset::range(5).unwrap());
        same(
            &ds.ragged_batch(2, false).unwrap(),
            "ragged[[0, 0, 1]][1] ragged[[0, 2, 5]][2 2 3 3 3] ragged[[0, 4]][4 4 4 4]",
        );
        let three = ds.ragged_batch(3, true).unwrap();
        same(&three, "ragged[[0, 0, 1, 3]][1 2 2]");
        assert_eq!(three.spec().to_string(), "ragged int64[3, ?]");
        assert_eq!(three.cardinality(), Card::Known(1));
    }

    #[test]
    fn known_sizes_stay_dense() {
        let ds = Dataset::range(5).unwrap();
        same(&ds.ragged_batch(2, false).unwrap(), "[0 1] [2 3] [4]");
        same(&ds.batch(2, true).unwrap().ragged_batch(2, false).unwrap(), "[2, 2][0 1 2 3]");
        assert!(ds.ragged_batch(0, false).is_err());
    }

    #[test]
    fn matrices_are_ragged_up_to_the_last_unknown_axis() {
        let of = |dims: [Option<usize>; 2], f: fn(i64) -> Tensor| {
            let spec = Spec::leaf(Leaf::tensor(DType::Int32, Dims::of(dims)));
            let f = move |e: Element| Ok(smallvec::smallvec![Value::Tensor(f(e[0].tensor().item()))]);
            Dataset::range(2).unwrap().map_fn(spec, f).unwrap().ragged_batch(2, false).unwrap()
        };
        let both = |x| match x {
            0 => Tensor::from_items([1, 3], &[1i32, 2, 3]),
            _ => Tensor::from_items([2, 1], &[4i32, 5]),
        };
        same(&of([None, None], both), "ragged[[0, 1, 3], [0, 3, 4, 5]][1 2 3 4 5]");
        let first = |x| match x {
            0 => Tensor::from_items([1, 2], &[1i32, 2]),
            _ => Tensor::from_items([2, 2], &[3i32, 4, 5, 6]),
        };
        let ds = of([None, Some(2)], first);
        assert_eq!(ds.spec().to_string(), "ragged int32[?, ?, 2]");
        same(&ds, "ragged[[0, 1, 3]][1 2 3 4 5 6]");
    }
}
