//! What is asked of Examples: the attribute `features` of the parsing functions, a list of these.
//!
//! A default is an argument of the call, named here by its number: JSON holds neither every float nor every byte string.

use crate::element::{DType, Dims, Leaf};
use crate::error::{Error, Result};
use feedline_formats::example::Stored;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct Feature {
    /// Its name in the result.
    pub name: String,
    pub dtype: DType,
    #[serde(flatten)]
    pub kind: Kind,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// As many values as the shape has room for.
    Fixed { shape: Vec<usize>, default: Option<usize> },
    /// Any number of items of that shape; batches are filled up with the default.
    Sequence {
        shape: Vec<usize>,
        default: Option<usize>,
        #[serde(default)]
        allow_missing: bool,
    },
    /// Any number of values, as a sparse tensor.
    Varlen,
    /// Values of one name at the places that others say.
    Sparse {
        value: String,
        index: Vec<String>,
        size: Vec<i64>,
        #[serde(default)]
        sorted: bool,
    },
    /// Any number of values, cut into rows by others.
    Ragged { value: String, partitions: Vec<Partition>, splits: DType },
}

/// How rows are cut; the outermost comes first.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    RowSplits(String),
    RowLengths(String),
    RowStarts(String),
    RowLimits(String),
    ValueRowids(String),
    Uniform(usize),
}

impl Partition {
    /// The name of the feature that says it.
    pub fn key(&self) -> Option<&str> {
        match self {
            Partition::RowSplits(key)
            | Partition::RowLengths(key)
            | Partition::RowStarts(key)
            | Partition::RowLimits(key)
            | Partition::ValueRowids(key) => Some(key),
            Partition::Uniform(_) => None,
        }
    }
}

/// The type in which a dtype is stored.
pub fn stored(name: &str, dtype: DType) -> Result<Stored> {
    match dtype {
        DType::Int64 => Ok(Stored::Ints),
        DType::Float32 => Ok(Stored::Floats),
        DType::String => Ok(Stored::Bytes),
        other => Err(Error::usage(format!(
            "feature {name:?}: Examples store int64, float32 and string, not {other}; ask for the stored type and cast \
             the result"
        ))),
    }
}

pub fn dtype_of(stored: Stored) -> DType {
    match stored {
        Stored::Ints => DType::Int64,
        Stored::Floats => DType::Float32,
        Stored::Bytes => DType::String,
    }
}

impl Feature {
    /// Refuses what cannot work. `args` are those of the call.
    pub fn check(&self, args: &[Leaf], in_list: bool) -> Result<()> {
        let name = &self.name;
        stored(name, self.dtype)?;
        match &self.kind {
            Kind::Fixed { .. } | Kind::Sparse { .. } if in_list => {
                return Err(Error::usage(format!(
                    "feature list {name:?}: use FixedLenSequenceFeature, VarLenFeature or RaggedFeature for the features \
                     of each step"
                )));
            }
            Kind::Fixed { default: Some(default), shape } => match args.get(*default) {
                Some(Leaf::Tensor { dtype, shape: have }) if *dtype == self.dtype => {
                    if have.full().is_some_and(|have| have.iter().product::<usize>() != shape.iter().product::<usize>())
                    {
                        return Err(Error::usage(format!(
                            "feature {name:?}: a default_value of shape {have} does not fit the shape {shape:?}"
                        )));
                    }
                }
                other => {
                    let other = other.map_or("nothing".into(), |leaf| leaf.to_string());
                    return Err(Error::usage(format!("feature {name:?}: the default is {other}, not {}", self.dtype)));
                }
            },
            Kind::Sequence { default: Some(default), .. } => match args.get(*default) {
                Some(Leaf::Tensor { dtype, shape }) if *dtype == self.dtype && shape.rank().is_none_or(|r| r == 0) => {}
                _ => {
                    let dtype = self.dtype;
                    return Err(Error::usage(format!("feature {name:?}: the default must be a scalar of {dtype}")));
                }
            },
            Kind::Sequence { allow_missing: false, .. } if !in_list => {
                return Err(Error::usage(format!(
                    "feature {name:?}: a FixedLenSequenceFeature of an Example must have allow_missing=True, because a \
                     list of no items and none at all are the same"
                )));
            }
            Kind::Sparse { index, size, .. } if index.len() != size.len() || index.is_empty() => {
                return Err(Error::usage(format!(
                    "feature {name:?}: {} index keys and {} sizes; each index key needs one size",
                    index.len(),
                    size.len()
                )));
            }
            Kind::Sparse { size, .. } if size.iter().any(|&n| n < 0) => {
                return Err(Error::usage(format!("feature {name:?}: the size must not be negative, but is {size:?}")));
            }
            Kind::Ragged { splits, .. } if !matches!(splits, DType::Int32 | DType::Int64) => {
                return Err(Error::usage(format!("feature {name:?}: row splits are int32 or int64, not {splits}")));
            }
            Kind::Ragged { partitions, .. } if partitions.iter().any(|p| matches!(p, Partition::Uniform(0))) => {
                return Err(Error::usage(format!("feature {name:?}: a uniform row length must be positive")));
            }
            _ => {}
        }
        Ok(())
    }

    /// The type of the result. `outer` are the axes of the batch (and, in lists of features, of the steps).
    pub fn leaf(&self, outer: &[Option<usize>]) -> Leaf {
        let under = |inner: &mut dyn Iterator<Item = Option<usize>>| Dims::of(outer.iter().copied().chain(inner));
        let dtype = self.dtype;
        match &self.kind {
            Kind::Fixed { shape, .. } => Leaf::tensor(dtype, under(&mut shape.iter().map(|&n| Some(n)))),
            Kind::Sequence { shape, .. } => {
                Leaf::tensor(dtype, under(&mut [None].into_iter().chain(shape.iter().map(|&n| Some(n)))))
            }
            Kind::Varlen => Leaf::Sparse { dtype, shape: under(&mut [None].into_iter()) },
            Kind::Sparse { size, .. } => {
                Leaf::Sparse { dtype, shape: under(&mut size.iter().map(|&n| usize::try_from(n).ok())) }
            }
            Kind::Ragged { partitions, splits, .. } => {
                // Uniform rows of values are dense; everything outside of a ragged axis is ragged, too.
                let uniform = |p: &&Partition| matches!(p, Partition::Uniform(_));
                let dense = partitions.iter().rev().take_while(uniform).count();
                let (cut, dense) = partitions.split_at(partitions.len() - dense);
                let sizes = dense.iter().map(|p| match p {
                    Partition::Uniform(n) => Some(*n),
                    _ => None,
                });
                let shape = under(&mut std::iter::repeat_n(None, cut.len() + 1).chain(sizes));
                match cut.len() + outer.len() {
                    0 => Leaf::tensor(dtype, shape),
                    ragged_rank => Leaf::Ragged { dtype, shape, ragged_rank, splits: *splits },
                }
            }
        }
    }

    /// The same for a list of features, which has an axis for the steps.
    pub fn list_leaf(&self, outer: &[Option<usize>]) -> Leaf {
        match self.kind {
            Kind::Sequence { .. } => self.leaf(outer),
            _ => self.leaf(&[outer, &[None]].concat()),
        }
    }
}
