//! One leaf of one element: a tensor, a ragged or sparse tensor, nothing, or a dataset.

use super::dtype::DType;
use super::tensor::Tensor;
use crate::error::Result;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Tensor(Tensor),
    Ragged(Arc<Ragged>),
    Sparse(Arc<Sparse>),
    /// A component that is not there (Python's None).
    Absent,
    Dataset(Nested),
}

/// Rows of unequal length: `splits[k]` cuts level `k` (row `i` is `splits[i]..splits[i + 1]` of the next level),
/// the last one cuts the rows of `values`. There is at least one level, except for a row cut out of a ragged vector.
#[derive(Clone, PartialEq, Debug)]
pub struct Ragged {
    pub values: Tensor,
    pub splits: Vec<Arc<[i64]>>,
    /// int32 or int64: how the splits are shown to the user.
    pub splits_dtype: DType,
}

impl Ragged {
    pub fn rows(&self) -> usize {
        self.splits.first().map_or(self.values.rows(), |s| s.len().saturating_sub(1))
    }
    pub fn nbytes(&self) -> usize {
        self.values.nbytes() + self.splits.iter().map(|s| s.len() * 8).sum::<usize>()
    }
}

/// Coordinates and values of the items that are not zero.
#[derive(Clone, PartialEq, Debug)]
pub struct Sparse {
    /// int64 `[n, rank]`.
    pub indices: Tensor,
    /// `[n]`.
    pub values: Tensor,
    pub shape: Vec<i64>,
}

/// A dataset inside an element. What it is made of is known to `plan` only.
#[derive(Clone)]
pub struct Nested(pub Arc<dyn NestedDataset>);

pub trait NestedDataset: Send + Sync + fmt::Debug + 'static {
    fn as_any(&self) -> &dyn Any;
    /// The spec of its elements.
    fn spec(&self) -> &super::spec::Spec;
    /// A template with its open parameters filled in.
    fn bind(&self, env: Vec<Value>) -> Nested;
    /// Bytes that it keeps alive, as a window does with the elements in it.
    fn nbytes(&self) -> usize;
    /// The same without what is there anyway.
    fn own_bytes(&self) -> usize;
    /// The written form (JSON) of a dataset that is part of a function.
    fn write(&self) -> Result<serde_json::Value>;
}

/// Reads what `NestedDataset::write` wrote; set once by `plan`, which this room does not see.
pub static READ_NESTED: OnceLock<fn(&serde_json::Value) -> Result<Nested>> = OnceLock::new();

impl PartialEq for Nested {
    fn eq(&self, other: &Nested) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl fmt::Debug for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What stands around a list that is shared: what counts its holders, its place, and what the C library takes for both.
const LIST_BYTES: usize = 96;

impl Value {
    /// What a value by itself takes besides its contents: its place in a list, and a small block of its own with what is
    /// needed to count its holders. Where a million short rows are kept that is most of it.
    pub const BESIDE: usize = Value::PLACE + 256;
    /// Its place in a list. Lists of all lengths come and go, and the C library keeps a quarter of what they take in the holes
    /// between them (80,000 short rows in a shuffle: 11 MB in lists and small blocks, and 3 MB free beside them).
    pub const PLACE: usize = size_of::<Value>() * 5 / 4;

    pub fn nbytes(&self) -> usize {
        let lists = self.list_bytes();
        match self {
            Value::Tensor(t) => t.nbytes(),
            Value::Ragged(r) => r.values.nbytes() + lists,
            Value::Sparse(s) => s.indices.nbytes() + s.values.nbytes() + lists + 256,
            Value::Dataset(n) => n.0.nbytes(),
            Value::Absent => 64,
        }
    }
    /// What a value takes besides as a row of a column. One that lies in a block with others has no block of its own.
    pub fn beside_bytes(&self) -> usize {
        if self.tensors().all(|t| !t.is_alone()) { Value::PLACE } else { Value::BESIDE }
    }
    /// What it has in lists, which lie in no block.
    pub fn list_bytes(&self) -> usize {
        match self {
            Value::Ragged(r) => {
                size_of::<Ragged>() + r.splits.iter().map(|s| size_of_val(&**s) + LIST_BYTES).sum::<usize>()
            }
            Value::Sparse(_) => size_of::<Sparse>() + LIST_BYTES,
            _ => 0,
        }
    }
    /// The same without what is there anyway.
    pub fn own_bytes(&self) -> usize {
        match self {
            Value::Dataset(n) => n.0.own_bytes(),
            _ => self.tensors().map(Tensor::own_bytes).sum(),
        }
    }
    /// The tensors that it is made of.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let (one, two) = match self {
            Value::Tensor(t) => (Some(t), None),
            Value::Ragged(r) => (Some(&r.values), None),
            Value::Sparse(s) => (Some(&s.indices), Some(&s.values)),
            Value::Dataset(_) | Value::Absent => (None, None),
        };
        one.into_iter().chain(two)
    }
    /// The same in memory of its own.
    pub fn to_own(&self) -> Value {
        match self {
            Value::Tensor(t) => Value::Tensor(t.to_own()),
            Value::Ragged(r) => Value::Ragged(Arc::new(Ragged { values: r.values.to_own(), ..(**r).clone() })),
            Value::Sparse(s) => {
                let (indices, values) = (s.indices.to_own(), s.values.to_own());
                Value::Sparse(Arc::new(Sparse { indices, values, shape: s.shape.clone() }))
            }
            Value::Dataset(_) | Value::Absent => self.clone(),
        }
    }
    /// What its contents take, however they lie in memory.
    pub fn content_bytes(&self) -> usize {
        let tensor = |t: &Tensor| match t.dtype() {
            DType::String => t.strs().map(|s| s.len() + 16).sum(),
            _ => t.nbytes(),
        };
        match self {
            Value::Tensor(t) => tensor(t),
            Value::Ragged(r) => tensor(&r.values) + r.splits.iter().map(|s| s.len() * 8).sum::<usize>(),
            Value::Sparse(s) => tensor(&s.indices) + tensor(&s.values),
            Value::Dataset(_) | Value::Absent => 64,
        }
    }
    /// Says that it is kept and must not change under whoever it is handed to.
    pub fn freeze(&self) {
        self.tensors().for_each(Tensor::freeze);
    }
    /// The same for what is kept for later passes, and counted there.
    pub fn keep(&self) {
        self.tensors().for_each(Tensor::keep);
    }
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(t) => Some(t),
            _ => None,
        }
    }
    /// The tensor; callers have checked the spec by then.
    pub fn tensor(&self) -> &Tensor {
        self.as_tensor().expect("a dense tensor, as its spec says")
    }
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        Value::Tensor(t)
    }
}
