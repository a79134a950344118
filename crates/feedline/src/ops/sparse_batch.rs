//! `sparse_batch(batch_size, row_shape)`: dense rows of different sizes as one sparse tensor.

use super::batch::batches;
use super::batches::{Batches, Beside};
use crate::dataset::Dataset;
use crate::element::{Chunk, DType, Dims, Element, Leaf, Sparse, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Hold, Index};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "sparse_batch",
    doc: "Puts consecutive dense elements of different sizes into one sparse tensor.",
    params: &[
        Param::new("batch_size", "", "elements in a batch"),
        Param::new("row_shape", "", "the size of each axis of a row; None: the longest in the batch"),
    ],
    read: read::<SparseBatch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparseBatch {
    batch_size: Int,
    row_shape: Vec<Option<i64>>,
}

impl Dataset {
    /// Batches as sparse tensors; `None` in `row_shape` is the longest in the batch.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Value};
    /// let ds = Dataset::range(5)?.batch(2, false)?.sparse_batch(3, &[Some(4)])?;
    /// let Value::Sparse(rows) = &ds.iter()?.next().unwrap()?[0] else { panic!() };
    /// assert_eq!((rows.shape.as_slice(), rows.values.len()), (&[3, 4][..], 5));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn sparse_batch(&self, batch_size: i64, row_shape: &[Option<i64>]) -> Result<Dataset> {
        self.apply(SparseBatch { batch_size: batch_size.into(), row_shape: row_shape.into() })
    }
}

impl SparseBatch {
    fn dims(&self) -> Vec<Option<usize>> {
        self.row_shape.iter().map(|d| d.and_then(|d| usize::try_from(d).ok())).collect()
    }
    fn make(&self) -> impl Fn(&Chunk, &mut Hold) -> Result<Element> + Send + Sync + use<> {
        let dims = self.dims();
        move |chunk, _| {
            let rows = chunk.columns()[0].values();
            let tensors: Vec<&Tensor> = rows.iter().map(|v| v.tensor()).collect();
            Ok(smallvec::smallvec![Value::Sparse(Arc::new(sparse(&tensors, &dims)?))])
        }
    }
}

/// Every item of every row, with its place; zeros too.
fn sparse(rows: &[&Tensor], dims: &[Option<usize>]) -> Result<Sparse> {
    let mut shape: Vec<usize> = std::iter::once(rows.len()).chain(dims.iter().map(|d| d.unwrap_or(0))).collect();
    let mut indices: Vec<i64> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let own = row.shape();
        if own.len() != dims.len() {
            return Err(Error::data(format!(
                "element {i} of the batch has {} axes, but row_shape has {}",
                own.len(),
                dims.len()
            )));
        }
        for (axis, (have, fixed)) in own.iter().zip(dims).enumerate() {
            match fixed {
                Some(size) if have > size => {
                    return Err(Error::data(format!(
                        "element {i} of the batch has the shape {own:?}, longer than the {size} that row_shape allows for \
                         axis {axis}"
                    )));
                }
                Some(_) => {}
                None => shape[axis + 1] = shape[axis + 1].max(*have),
            }
        }
        let mut at = vec![0i64; own.len()];
        for _ in 0..row.len() {
            indices.push(i as i64);
            indices.extend_from_slice(&at);
            // The next place in row-major order.
            for axis in (0..own.len()).rev() {
                at[axis] += 1;
                if at[axis] < own[axis] as i64 {
                    break;
                }
                at[axis] = 0;
            }
        }
    }
    let items: usize = rows.iter().map(|t| t.len()).sum();
    Ok(Sparse {
        indices: Tensor::from_items([items, dims.len() + 1], &indices),
        values: Tensor::join(rows[0].dtype(), [items], rows.iter().copied()),
        shape: shape.into_iter().map(|d| d as i64).collect(),
    })
}

impl Op for SparseBatch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.batch_size.known() {
            at_least("batch_size", n, 1)?;
        }
        if let Some(d) = self.row_shape.iter().flatten().find(|d| **d < -1) {
            crate::bail!(Usage, "row_shape has the size {d}; write None for the longest in the batch");
        }
        let dtype: DType = match inputs[0].spec.as_leaf() {
            Some(Leaf::Tensor { dtype, .. }) => *dtype,
            _ => crate::bail!(
                Usage,
                "the elements must be single dense tensors, not {}; choose one component with map first",
                inputs[0].spec
            ),
        };
        Ok(Spec::leaf(Leaf::Sparse { dtype, shape: Dims(Some(self.dims())).under(None) }))
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        batches(inputs[0].card, self.batch_size.known().map(|n| n as u64), false)
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Batches { size: self.batch_size, drop_remainder: false, beside: Beside::Nothing }.build(cx, node, self.make())
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Batches { size: self.batch_size, drop_remainder: false, beside: Beside::Nothing }.index(cx, node, self.make())
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;

    #[test]
    fn rows_keep_their_places() {
        let ds = fill_x(&Dataset::range(4).unwrap());
        same(
            &ds.sparse_batch(2, &[Some(6)]).unwrap(),
            "sparse[2, 6][1 0][1] sparse[2, 6][0 0 0 1 1 0 1 1 1 2][2 2 3 3 3]",
        );
        same(
            &ds.sparse_batch(3, &[None]).unwrap(),
            "sparse[3, 2][1 0 2 0 2 1][1 2 2] sparse[1, 3][0 0 0 1 0 2][3 3 3]",
        );
        assert_eq!(ds.sparse_batch(2, &[Some(6)]).unwrap().spec().to_string(), "sparse int64[?, 6]");
    }

    #[test]
    fn a_row_that_does_not_fit_costs_its_batch() {
        let ds = fill_x(&Dataset::range(5).unwrap());
        same(&ds.sparse_batch(2, &[Some(2)]).unwrap(), "sparse[2, 2][1 0][1] ! !");
        same(&ds.sparse_batch(2, &[Some(6), Some(1)]).unwrap(), "! ! !");
    }

    #[test]
    fn wrong_inputs_are_refused() {
        let ds = fill_x(&Dataset::range(5).unwrap());
        assert!(ds.sparse_batch(0, &[Some(6)]).is_err());
        assert!(ds.sparse_batch(2, &[Some(-2)]).is_err());
        assert!(Dataset::range(4).unwrap().window(2, 2, 1, false).unwrap().sparse_batch(2, &[None]).is_err());
    }
}
