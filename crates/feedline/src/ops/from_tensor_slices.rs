//! `from_tensor_slices(values)`: the rows of arrays, cut along the first axis without a copy.

use super::from_tensors::Given;
use crate::dataset::Dataset;
use crate::element::{Buf, Chunk, Column, Leaf, Packed, Pos, Spec, Value, check_rows, unstack};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::ops::held::{Held, Kept};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "from_tensor_slices",
    doc: "One element for each row along the first axis of all values.",
    params: &[Param::new("values", "", "an array, or a structure of arrays of equal length")],
    read: read::<FromTensorSlices>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FromTensorSlices {
    given: Given,
    /// The rows, cut once for all passes.
    #[serde(skip)]
    rows: Kept,
}

impl Dataset {
    /// The rows of arrays of equal length.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Tensor};
    /// let ds = Dataset::from_tensor_slices(Tensor::from_items([3, 2], &[1i64, 2, 3, 4, 5, 6]))?;
    /// let rows: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().items::<i64>()[1]).collect();
    /// assert_eq!(rows, [2, 4, 6]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn from_tensor_slices(values: impl Into<Packed>) -> Result<Dataset> {
        Dataset::source(FromTensorSlices { given: Given::new(values.into()), rows: Kept::default() })
    }
}

/// The spec of a row.
fn row_of(leaf: &Leaf) -> Result<Leaf> {
    let cut = |shape: &crate::element::Dims| match shape.rank() {
        Some(0) => Err(Error::usage(
            "a scalar has no rows to cut; give arrays with a first axis, or use from_tensors for a single element",
        )),
        _ => Ok(shape.inner()),
    };
    Ok(match leaf {
        Leaf::Tensor { dtype, shape } => Leaf::Tensor { dtype: *dtype, shape: cut(shape)? },
        Leaf::Sparse { dtype, shape } => Leaf::Sparse { dtype: *dtype, shape: cut(shape)? },
        Leaf::Ragged { dtype, shape, ragged_rank, splits } => Leaf::Ragged {
            dtype: *dtype,
            shape: cut(shape)?,
            ragged_rank: ragged_rank.saturating_sub(1),
            splits: *splits,
        },
        Leaf::Absent => Leaf::Absent,
        Leaf::Dataset(_) => return Err(Error::usage("a dataset inside the values has no rows to cut")),
    })
}

/// How many rows a value has; `None` for an absent one, which has as many as the others.
fn rows_of(value: &Value) -> Result<Option<usize>> {
    Ok(match value {
        Value::Tensor(t) if t.rank() == 0 => return Err(Error::usage("a scalar has no rows to cut")),
        Value::Tensor(t) => Some(t.rows()),
        Value::Ragged(r) => Some(r.rows()),
        Value::Sparse(s) => Some(s.shape.first().map_or(0, |n| (*n).max(0) as usize)),
        Value::Absent => None,
        Value::Dataset(_) => return Err(Error::usage("a dataset inside the values has no rows to cut")),
    })
}

/// The length that all values have.
fn common_rows(values: &[Value], spec: &Spec) -> Result<usize> {
    let mut common: Option<(usize, String)> = None;
    for (value, path) in values.iter().zip(spec.paths()) {
        let Some(rows) = rows_of(value)? else { continue };
        match &common {
            Some((other, at)) if *other != rows => crate::bail!(
                Usage,
                "all values must have the same number of rows, but value{at} has {other} and value{path} has {rows}"
            ),
            Some(_) => {}
            None => common = Some((rows, path)),
        }
    }
    common.map(|(n, _)| n).ok_or_else(|| Error::usage("there are no values to cut into rows: the structure is empty"))
}

fn cut(values: &[Value], spec: &Spec) -> Result<Held> {
    let rows = common_rows(values, spec)?;
    if values.iter().any(|v| !matches!(v, Value::Tensor(_))) {
        check_rows(rows)?;
    }
    let columns = values.iter().map(|v| match v {
        Value::Tensor(t) => Ok(Column::Dense(t.clone())),
        Value::Absent => Ok(Column::Rows(vec![Value::Absent; rows].into(), 0..rows)),
        other => Ok(Column::Rows(unstack(other)?.into(), 0..rows)),
    });
    Ok(Held::new(Chunk::new(rows, Pos::Run(0), columns.collect::<Result<Vec<_>>>()?)))
}

impl Op for FromTensorSlices {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        let spec = self.given.spec()?;
        let rows = spec.try_map(&mut row_of)?;
        if let Some(values) = self.given.known() {
            common_rows(values, spec)?;
        }
        Ok(rows)
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        let Ok(spec) = self.given.spec() else { return Card::Unknown };
        match self.given.known() {
            Some(values) => common_rows(values, spec).map_or(Card::Unknown, |n| Card::Known(n as u64)),
            // Values inside a function often have a known length all the same.
            None => {
                spec.leaves().iter().find_map(|l| l.shape()?.first()).map_or(Card::Unknown, |n| Card::Known(n as u64))
            }
        }
    }
    fn build(&self, cx: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(self.held(cx)?.into_stage(0))
    }
    fn build_behind(&self, cx: &BuildCx, _: &Plan, rows: u64) -> Result<Option<Built>> {
        Ok(Some(self.held(cx)?.into_stage(rows)))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(self.held(cx)?)))
    }
    fn held_bytes(&self) -> usize {
        self.given.held_bytes()
    }
    fn given(&self) -> Vec<&Buf> {
        self.given.blocks()
    }
    fn claim(&self, bytes: usize) {
        self.given.claim(bytes);
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        self.given.spec().map(|s| s.to_string()).unwrap_or_default()
    }
}

impl FromTensorSlices {
    fn held(&self, cx: &BuildCx) -> Result<Held> {
        let spec = self.given.spec()?;
        match self.given.known() {
            Some(values) if !self.given.is_claimed() => self.rows.get(|| cut(values, spec)),
            _ => cut(&self.given.get(cx)?, spec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{DType, Ragged, Sparse, Tensor, Tree};

    #[test]
    fn refuses_what_has_no_rows() {
        let refused = |p: Packed| Dataset::from_tensor_slices(p).expect_err("refused").to_string();
        assert!(refused(Tensor::scalar(4i64).into()).contains("from_tensors"));
        assert!(refused(Packed::of(Tree::tuple(vec![])).unwrap()).contains("empty"));
        let uneven = vec![Tensor::from_items([3], &[1i64, 2, 3]), Tensor::from_items([2], &[1i64, 2])];
        assert!(refused(uneven.into()).contains("value[0] has 3 and value[1] has 2"));
    }

    #[test]
    fn no_rows_keep_the_spec() {
        let ds = Dataset::from_tensor_slices(Tensor::zeros(DType::Float32, [0, 4])).unwrap();
        assert_eq!((ds.spec().to_string().as_str(), ds.cardinality()), ("float32[4]", Card::Known(0)));
        assert_eq!(ds.iter().unwrap().count(), 0);
    }

    #[test]
    fn ragged_sparse_and_absent() {
        let ragged = Ragged {
            values: Tensor::from_items([3], &[1i64, 2, 3]),
            splits: vec![[0, 2, 2, 3].into()],
            splits_dtype: DType::Int64,
        };
        let sparse = Sparse {
            indices: Tensor::from_items([2, 2], &[0i64, 1, 2, 0]),
            values: Tensor::from_items([2], &[5f32, 6.]),
            shape: vec![3, 2],
        };
        let leaves = [Value::Ragged(ragged.into()), Value::Sparse(sparse.into()), Value::Absent];
        let packed = Packed::of(Tree::tuple(leaves.into_iter().map(Tree::Leaf).collect())).unwrap();
        let ds = Dataset::from_tensor_slices(packed).unwrap();
        assert_eq!(ds.spec().to_string(), "(ragged int64[?], sparse float32[2], none)");
        let all: Vec<_> = ds.iter().unwrap().map(|e| e.unwrap()).collect();
        assert_eq!(all.len(), 3);
        for (element, leaf) in all.iter().flat_map(|e| e.iter().zip(ds.spec().leaves())) {
            assert!(leaf.accepts(element), "{leaf} {element:?}");
        }
        let by_number = ds.index().unwrap().get(&[2, 0]).unwrap();
        assert_eq!((by_number.element(0), by_number.element(1)), (all[2].clone(), all[0].clone()));
    }
}
