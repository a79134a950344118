//! `unbatch()`: every element is taken apart along the first axis of its components.

use super::map::join_rows;
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Leaf, Pos, Shape, Spec, Value, check_rows, unstack};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, read};
use crate::plan::{Card, Plan};
use crate::rows;
use crate::runtime::{At, BuildCx, Built, Cx, Item, Mark, Pull, Stage, pop_rows};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub static INFO: OpInfo = OpInfo {
    name: "unbatch",
    doc: "Takes each element apart along the first axis of its components.",
    params: &[],
    read: read::<Unbatch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unbatch {}

impl Dataset {
    /// The inverse of `batch`.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(5)?.batch(2, false)?.unbatch()?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 1, 2, 3, 4]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn unbatch(&self) -> Result<Dataset> {
        self.apply(Unbatch {})
    }
}

/// The spec of the parts; refuses what cannot be taken apart.
pub fn unbatched(spec: &Spec) -> Result<Spec> {
    let mut sizes: Vec<usize> = Vec::new();
    let mut paths = spec.paths().into_iter();
    let parts = spec.try_map(&mut |leaf| {
        let path = paths.next().expect("a path for each leaf");
        if let Some(shape) = leaf.shape() {
            if shape.is_scalar() {
                crate::bail!(Usage, "component {path} is a scalar ({leaf}) and cannot be taken apart; batch it first");
            }
            sizes.extend(shape.first());
        }
        Ok(match leaf {
            Leaf::Tensor { dtype, shape } => Leaf::tensor(*dtype, shape.inner()),
            Leaf::Ragged { dtype, shape, ragged_rank: 0, .. } => Leaf::tensor(*dtype, shape.inner()),
            Leaf::Ragged { dtype, shape, ragged_rank, splits } => {
                Leaf::Ragged { dtype: *dtype, shape: shape.inner(), ragged_rank: ragged_rank - 1, splits: *splits }
            }
            Leaf::Sparse { dtype, shape } => Leaf::Sparse { dtype: *dtype, shape: shape.inner() },
            Leaf::Absent => Leaf::Absent,
            Leaf::Dataset(_) => crate::bail!(Usage, "component {path} is a dataset; use flat_map to read it"),
        })
    })?;
    if sizes.iter().any(|n| *n != sizes[0]) {
        crate::bail!(Usage, "the components have different first sizes: {sizes:?}");
    }
    if spec.leaves().iter().all(|l| matches!(l, Leaf::Absent)) {
        crate::bail!(Usage, "there is no component to take apart");
    }
    Ok(parts)
}

impl Op for Unbatch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        unbatched(&inputs[0].spec)
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        // Sparse tensors promise nothing about single elements.
        let size = |leaf: &&Leaf| match leaf {
            Leaf::Sparse { .. } => None,
            leaf => leaf.shape().and_then(|s| s.first()),
        };
        let leaves = inputs[0].spec.leaves();
        let sizes: Vec<Option<usize>> = leaves.iter().filter(|l| !matches!(l, Leaf::Absent)).map(size).collect();
        match (inputs[0].card, sizes.as_slice()) {
            (Card::Known(n), [Some(b), ..]) if sizes.iter().all(|s| s.is_some()) => {
                n.checked_mul(*b as u64).map_or(Card::Unknown, Card::Known)
            }
            (Card::Known(_), _) => Card::Unknown,
            (other, _) => other,
        }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(UnbatchStage::new(cx.stage(&node.inputs[0])?))))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

pub struct UnbatchStage {
    input: Box<dyn Stage>,
    ready: VecDeque<Item>,
    /// Rows that the last elements had, to ask for no more of them than are needed.
    size: usize,
    made: u64,
}

/// Below this, parts of different elements are copied together into one chunk.
const JOIN_BYTES: usize = 64 << 10;

impl UnbatchStage {
    pub fn new(input: Box<dyn Stage>) -> UnbatchStage {
        UnbatchStage { input, ready: VecDeque::new(), size: usize::MAX, made: 0 }
    }
}

impl Stage for UnbatchStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            match pop_rows(&mut self.ready, want) {
                Some(Item::Rows(chunk)) => {
                    let pos = Pos::Run(self.made);
                    self.made += chunk.rows() as u64;
                    return Pull::Rows(chunk.with_pos(pos));
                }
                Some(fail) => return fail.into(),
                None => {}
            }
            if cx.is_cancelled() {
                return Pull::End;
            }
            let chunk = rows!(self.input.next(cx, (want / self.size.max(1)).max(1)));
            let (elements, bytes) = (chunk.rows(), chunk.nbytes());
            let mut out = Vec::new();
            take_apart(chunk, &mut out);
            if bytes <= JOIN_BYTES {
                join_rows(&mut out);
            }
            let rows: usize = out.iter().map(|i| if let Item::Rows(c) = i { c.rows() } else { 0 }).sum();
            self.size = rows.div_ceil(elements);
            self.ready.extend(out);
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.ready.clear();
        self.made = at.number()?;
        self.input.seek(at)
    }
    fn is_settled(&self) -> bool {
        self.ready.is_empty()
    }
    fn replays(&self) -> bool {
        true
    }
}

/// The parts of all rows of a chunk; a row that cannot be taken apart becomes an error.
fn take_apart(chunk: Chunk, out: &mut Vec<Item>) {
    if let Some(parts) = reshaped(&chunk) {
        if parts.rows() > 0 {
            out.push(Item::Rows(parts));
        }
        return;
    }
    for row in 0..chunk.rows() {
        match one_apart(&chunk, row) {
            Ok(parts) if parts.rows() == 0 => {}
            Ok(parts) => out.push(Item::Rows(parts)),
            Err(error) => out.push(Item::Fail(error.at_element(chunk.pos.at(row)))),
        }
    }
}

/// Dense columns of equal first size: only the shape changes.
fn reshaped(chunk: &Chunk) -> Option<Chunk> {
    let dense = chunk.columns().iter().map(|c| match c {
        Column::Dense(t) if t.rank() > 1 => Some(t),
        _ => None,
    });
    let tensors: Vec<_> = dense.collect::<Option<_>>()?;
    let size = tensors.first()?.shape()[1];
    if tensors.iter().any(|t| t.shape()[1] != size) {
        return None;
    }
    let rows = chunk.rows() * size;
    let columns = tensors.into_iter().map(|t| {
        let mut shape: Shape = smallvec::smallvec![rows];
        shape.extend_from_slice(&t.shape()[2..]);
        Column::Dense(t.reshaped(shape))
    });
    let pos = match chunk.pos.is_traced() {
        true => {
            let each: Vec<Pos> = (0..chunk.rows()).map(|row| chunk.pos.apart(row, size)).collect();
            Pos::picked(each.iter().flat_map(|pos| (0..size).map(move |i| (pos, i))))
        }
        false => Pos::Run(0),
    };
    Some(Chunk::new(rows, pos, columns))
}

fn one_apart(chunk: &Chunk, row: usize) -> Result<Chunk> {
    let values = chunk.element(row);
    let mut columns: Vec<Option<Column>> = Vec::with_capacity(values.len());
    for value in &values {
        columns.push(match value {
            Value::Tensor(t) if t.rank() == 0 => {
                return Err(Error::data("a scalar component cannot be taken apart"));
            }
            Value::Tensor(t) => Some(Column::Dense(t.clone())),
            // A row of a ragged tensor without further levels is a plain tensor.
            Value::Ragged(r) if r.splits.is_empty() && r.values.rank() == 0 => {
                return Err(Error::data("a scalar component cannot be taken apart"));
            }
            Value::Ragged(r) if r.splits.is_empty() => Some(Column::Dense(r.values.clone())),
            Value::Absent => None,
            other => {
                let parts = unstack(other)?;
                let n = parts.len();
                Some(Column::Rows(parts.into(), 0..n))
            }
        });
    }
    let sizes: Vec<usize> = columns.iter().flatten().map(|c| c.rows()).collect();
    if sizes.iter().any(|n| *n != sizes[0]) {
        return Err(Error::data(format!("the components have different first sizes: {sizes:?}")));
    }
    let rows = sizes.first().copied().unwrap_or(0);
    if columns.iter().any(|c| c.is_none()) {
        check_rows(rows)?;
    }
    let columns = columns.into_iter().map(|c| c.unwrap_or_else(|| Column::repeated(&Value::Absent, rows)));
    Ok(Chunk::new(rows, chunk.pos.apart(row, rows), columns))
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;
    use crate::element::{DType, Dims, Element, Tensor};

    #[test]
    fn batches_come_apart() {
        let ds = Dataset::range(7).unwrap();
        same(&ds.batch(3, false).unwrap().unbatch().unwrap(), "0 1 2 3 4 5 6");
        same(&ds.batch(3, false).unwrap().unbatch().unwrap().batch(2, false).unwrap(), "[0 1] [2 3] [4 5] [6]");
        let known = ds.batch(3, true).unwrap().unbatch().unwrap();
        assert_eq!(known.cardinality(), Card::Known(6));
        assert_eq!(ds.batch(3, false).unwrap().unbatch().unwrap().cardinality(), Card::Unknown);
    }

    #[test]
    fn empty_elements_vanish_and_wrong_ones_fail() {
        let ds = fill_x(&Dataset::range(4).unwrap());
        same(&ds.unbatch().unwrap(), "1 2 2 3 3 3");
        assert!(Dataset::range(3).unwrap().unbatch().is_err());
        let unknown = Spec::leaf(Leaf::tensor(DType::Int64, Dims::unknown()));
        same(&Dataset::range(2).unwrap().map_fn(unknown, Ok).unwrap().unbatch().unwrap(), "! !");
        let vector = || Spec::leaf(Leaf::tensor(DType::Int64, Dims::of([None])));
        let pair = |e: Element| {
            let x = e[0].tensor().item::<i64>();
            let of = |n: i64| Value::Tensor(Tensor::from_items([n as usize], &vec![x; n as usize]));
            Ok(smallvec::smallvec![of(x), of(2)])
        };
        let ds = Dataset::range(4).unwrap().map_fn(Spec::tuple(vec![vector(), vector()]), pair).unwrap();
        same(&ds.unbatch().unwrap(), "! ! 2,2 2,2 !");
    }

    #[test]
    fn ragged_rows_lose_a_level() {
        let ds = fill_x(&Dataset::range(4).unwrap()).ragged_batch(3, false).unwrap();
        let rows = ds.unbatch().unwrap();
        same(&rows, "ragged[][] ragged[][1] ragged[][2 2] ragged[][3 3 3]");
        same(&rows.unbatch().unwrap(), "1 2 2 3 3 3");
        let sparse = fill_x(&Dataset::range(3).unwrap()).sparse_batch(2, &[Some(3)]).unwrap();
        same(&sparse.unbatch().unwrap(), "sparse[3][][] sparse[3][0][1] sparse[3][0 1][2 2]");
    }

    #[test]
    fn more_rows_than_memory_are_an_error() {
        use crate::element::{Packed, Sparse, Tree};
        let sparse = |shape: &[i64]| {
            let indices = Tensor::from_items([1, shape.len()], &vec![0i64; shape.len()]);
            let values = Tensor::from_items([1], &[1.0f32]);
            Packed::of(Tree::Leaf(Value::Sparse(std::sync::Arc::new(Sparse {
                indices,
                values,
                shape: shape.to_vec(),
            }))))
        };
        let ds = Dataset::from_tensors(sparse(&[1, 1 << 40, 3]).unwrap()).unwrap();
        same(&ds.unbatch().unwrap().unbatch().unwrap(), "!");
        assert!(
            Dataset::from_tensor_slices(sparse(&[1 << 40, 3]).unwrap()).and_then(|ds| ds.iter().map(drop)).is_err()
        );
    }
}
