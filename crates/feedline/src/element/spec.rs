//! What is known of elements before any data flows: their tree, dtypes and (partly known) shapes.

use super::dtype::DType;
use super::tensor::Tensor;
use super::value::Value;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A partly known shape: `None` inside is an unknown size; `Dims(None)` an unknown rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dims(pub Option<Vec<Option<usize>>>);

impl Dims {
    pub fn unknown() -> Dims {
        Dims(None)
    }
    pub fn scalar() -> Dims {
        Dims(Some(vec![]))
    }
    pub fn known(shape: &[usize]) -> Dims {
        Dims(Some(shape.iter().map(|&d| Some(d)).collect()))
    }
    pub fn of(dims: impl IntoIterator<Item = Option<usize>>) -> Dims {
        Dims(Some(dims.into_iter().collect()))
    }
    pub fn rank(&self) -> Option<usize> {
        self.0.as_ref().map(|d| d.len())
    }
    pub fn dims(&self) -> Option<&[Option<usize>]> {
        self.0.as_deref()
    }
    /// The shape, if all of it is known.
    pub fn full(&self) -> Option<Vec<usize>> {
        self.0.as_ref()?.iter().copied().collect()
    }
    pub fn is_scalar(&self) -> bool {
        self.0.as_ref().is_some_and(|d| d.is_empty())
    }
    /// With one more axis in front.
    pub fn under(&self, first: Option<usize>) -> Dims {
        Dims(self.0.as_ref().map(|d| std::iter::once(first).chain(d.iter().copied()).collect()))
    }
    /// Without the first axis.
    pub fn inner(&self) -> Dims {
        Dims(self.0.as_ref().map(|d| d.get(1..).unwrap_or(&[]).to_vec()))
    }
    pub fn first(&self) -> Option<usize> {
        self.0.as_ref().and_then(|d| d.first().copied().flatten())
    }
    /// The most specific shape that covers both.
    pub fn join(&self, other: &Dims) -> Dims {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) if a.len() == b.len() => {
                Dims::of(a.iter().zip(b).map(|(x, y)| if x == y { *x } else { None }))
            }
            _ => Dims(None),
        }
    }
    pub fn accepts(&self, shape: &[usize]) -> bool {
        match &self.0 {
            None => true,
            Some(d) => d.len() == shape.len() && d.iter().zip(shape).all(|(d, s)| d.is_none_or(|d| d == *s)),
        }
    }
    /// Whether some shape fits both.
    pub fn compatible(&self, other: &Dims) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.is_none() || y.is_none() || x == y)
            }
            _ => true,
        }
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("<unknown rank>"),
            Some(d) => {
                let d: Vec<_> = d.iter().map(|d| d.map_or("?".into(), |d| d.to_string())).collect();
                write!(f, "[{}]", d.join(", "))
            }
        }
    }
}

/// The promise about one leaf.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leaf {
    Tensor { dtype: DType, shape: Dims },
    Ragged { dtype: DType, shape: Dims, ragged_rank: usize, splits: DType },
    Sparse { dtype: DType, shape: Dims },
    Absent,
    Dataset(Arc<Spec>),
}

impl Leaf {
    pub fn tensor(dtype: DType, shape: Dims) -> Leaf {
        Leaf::Tensor { dtype, shape }
    }
    pub fn scalar(dtype: DType) -> Leaf {
        Leaf::Tensor { dtype, shape: Dims::scalar() }
    }
    pub fn of_tensor(t: &Tensor) -> Leaf {
        Leaf::Tensor { dtype: t.dtype(), shape: Dims::known(t.shape()) }
    }
    /// The exact spec of a value; `None` for a dataset, whose spec its plan knows.
    pub fn of(value: &Value) -> Option<Leaf> {
        Some(match value {
            Value::Tensor(t) => Leaf::of_tensor(t),
            Value::Ragged(r) => {
                let mut dims = vec![Some(r.rows())];
                dims.extend(std::iter::repeat_n(None, r.splits.len()));
                dims.extend(r.values.shape()[1..].iter().map(|&d| Some(d)));
                if r.splits.is_empty() {
                    dims = r.values.shape().iter().map(|&d| Some(d)).collect();
                }
                Leaf::Ragged {
                    dtype: r.values.dtype(),
                    shape: Dims(Some(dims)),
                    ragged_rank: r.splits.len(),
                    splits: r.splits_dtype,
                }
            }
            Value::Sparse(s) => Leaf::Sparse {
                dtype: s.values.dtype(),
                shape: Dims::of(s.shape.iter().map(|&d| usize::try_from(d).ok())),
            },
            Value::Absent => Leaf::Absent,
            Value::Dataset(_) => return None,
        })
    }
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Leaf::Tensor { dtype, .. } | Leaf::Ragged { dtype, .. } | Leaf::Sparse { dtype, .. } => Some(*dtype),
            _ => None,
        }
    }
    pub fn shape(&self) -> Option<&Dims> {
        match self {
            Leaf::Tensor { shape, .. } | Leaf::Ragged { shape, .. } | Leaf::Sparse { shape, .. } => Some(shape),
            _ => None,
        }
    }
    /// The least common promise, or `None` if kinds or dtypes differ.
    pub fn join(&self, other: &Leaf) -> Option<Leaf> {
        Some(match (self, other) {
            (Leaf::Tensor { dtype: a, shape: s }, Leaf::Tensor { dtype: b, shape: t }) if a == b => {
                Leaf::Tensor { dtype: *a, shape: s.join(t) }
            }
            (
                Leaf::Ragged { dtype: a, shape: s, ragged_rank: r, splits: p },
                Leaf::Ragged { dtype: b, shape: t, ragged_rank: q, splits: o },
            ) if a == b && r == q && p == o => {
                Leaf::Ragged { dtype: *a, shape: s.join(t), ragged_rank: *r, splits: *p }
            }
            (Leaf::Sparse { dtype: a, shape: s }, Leaf::Sparse { dtype: b, shape: t }) if a == b => {
                Leaf::Sparse { dtype: *a, shape: s.join(t) }
            }
            (Leaf::Absent, Leaf::Absent) => Leaf::Absent,
            (Leaf::Dataset(a), Leaf::Dataset(b)) => Leaf::Dataset(Arc::new(a.join(b).ok()?)),
            _ => return None,
        })
    }
    /// Whether a value keeps the promise.
    pub fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Leaf::Tensor { dtype, shape }, Value::Tensor(t)) => *dtype == t.dtype() && shape.accepts(t.shape()),
            (Leaf::Ragged { dtype, ragged_rank, .. }, Value::Ragged(r)) => {
                *dtype == r.values.dtype() && *ragged_rank == r.splits.len()
            }
            (Leaf::Sparse { dtype, .. }, Value::Sparse(s)) => *dtype == s.values.dtype(),
            (Leaf::Absent, Value::Absent) | (Leaf::Dataset(_), Value::Dataset(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |f: &mut fmt::Formatter<'_>, kind: &str, dtype: &DType, shape: &Dims| {
            write!(f, "{kind}{dtype}")?;
            if shape.is_scalar() { Ok(()) } else { write!(f, "{shape}") }
        };
        match self {
            Leaf::Tensor { dtype, shape } => with(f, "", dtype, shape),
            Leaf::Ragged { dtype, shape, .. } => with(f, "ragged ", dtype, shape),
            Leaf::Sparse { dtype, shape } => with(f, "sparse ", dtype, shape),
            Leaf::Absent => f.write_str("none"),
            Leaf::Dataset(spec) => write!(f, "dataset of {spec}"),
        }
    }
}

/// Tuples and mappings around leaves. A `tag` names the Python class (NamedTuple, dataclass) to give back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tree<L> {
    Leaf(L),
    Tuple { tag: Option<Arc<str>>, items: Vec<Tree<L>> },
    Map { tag: Option<Arc<str>>, items: Vec<(Arc<str>, Tree<L>)> },
}

pub type Spec = Tree<Leaf>;

impl<L> Tree<L> {
    pub fn tuple(items: Vec<Tree<L>>) -> Tree<L> {
        Tree::Tuple { tag: None, items }
    }
    /// The children, in order.
    pub fn items(&self) -> Box<dyn Iterator<Item = &Tree<L>> + '_> {
        match self {
            Tree::Leaf(_) => Box::new(std::iter::empty()),
            Tree::Tuple { items, .. } => Box::new(items.iter()),
            Tree::Map { items, .. } => Box::new(items.iter().map(|(_, t)| t)),
        }
    }
    /// The leaves, left to right: the columns of a chunk.
    pub fn leaves(&self) -> Vec<&L> {
        fn walk<'a, L>(t: &'a Tree<L>, out: &mut Vec<&'a L>) {
            match t {
                Tree::Leaf(l) => out.push(l),
                _ => t.items().for_each(|t| walk(t, out)),
            }
        }
        let mut out = Vec::new();
        walk(self, &mut out);
        out
    }
    pub fn leaf_count(&self) -> usize {
        self.leaves().len()
    }
    /// The same tree with other leaves.
    pub fn try_map<M>(&self, f: &mut impl FnMut(&L) -> Result<M>) -> Result<Tree<M>> {
        Ok(match self {
            Tree::Leaf(l) => Tree::Leaf(f(l)?),
            Tree::Tuple { tag, items } => {
                Tree::Tuple { tag: tag.clone(), items: items.iter().map(|t| t.try_map(f)).collect::<Result<_>>()? }
            }
            Tree::Map { tag, items } => Tree::Map {
                tag: tag.clone(),
                items: items.iter().map(|(k, t)| Ok((k.clone(), t.try_map(f)?))).collect::<Result<_>>()?,
            },
        })
    }
    pub fn map<M>(&self, mut f: impl FnMut(&L) -> M) -> Tree<M> {
        self.try_map(&mut |l| Ok(f(l))).expect("the function cannot fail")
    }
    /// Path of every leaf, such as `features["x"]` or `[1]`: names components in messages.
    pub fn paths(&self) -> Vec<String> {
        fn walk<L>(t: &Tree<L>, path: String, out: &mut Vec<String>) {
            match t {
                Tree::Leaf(_) => out.push(path),
                Tree::Tuple { items, .. } => {
                    items.iter().enumerate().for_each(|(i, t)| walk(t, format!("{path}[{i}]"), out))
                }
                Tree::Map { items, .. } => items.iter().for_each(|(k, t)| walk(t, format!("{path}[{k:?}]"), out)),
            }
        }
        let mut out = Vec::new();
        walk(self, String::new(), &mut out);
        out
    }
}

impl Spec {
    pub fn leaf(leaf: Leaf) -> Spec {
        Tree::Leaf(leaf)
    }
    pub fn scalar(dtype: DType) -> Spec {
        Tree::Leaf(Leaf::scalar(dtype))
    }
    /// Joins two specs of equal structure and dtypes: shapes are weakened. Mappings match by key; `self` gives the order.
    pub fn join(&self, other: &Spec) -> Result<Spec> {
        let differ = || Error::usage(format!("the element specs do not match: {self} and {other}"));
        Ok(match (self, other) {
            (Tree::Leaf(a), Tree::Leaf(b)) => Tree::Leaf(a.join(b).ok_or_else(differ)?),
            (Tree::Tuple { tag, items: a }, Tree::Tuple { items: b, .. }) if a.len() == b.len() => {
                Tree::Tuple { tag: tag.clone(), items: a.iter().zip(b).map(|(a, b)| a.join(b)).collect::<Result<_>>()? }
            }
            (Tree::Map { tag, items: a }, Tree::Map { items: b, .. }) if a.len() == b.len() => Tree::Map {
                tag: tag.clone(),
                items: a
                    .iter()
                    .map(|(k, a)| {
                        let (_, b) = b.iter().find(|(l, _)| l == k).ok_or_else(differ)?;
                        Ok((k.clone(), a.join(b)?))
                    })
                    .collect::<Result<_>>()?,
            },
            _ => return Err(differ()),
        })
    }
    /// For each of our leaves the place of the matching leaf in `other`, whose mappings may be ordered differently.
    pub fn leaf_order(&self, other: &Spec) -> Vec<usize> {
        fn walk(a: &Spec, b: &Spec, base: usize, out: &mut Vec<usize>) {
            match (a, b) {
                (Tree::Map { items: a, .. }, Tree::Map { items: b, .. }) => {
                    for (k, a) in a {
                        let mut at = base;
                        for (l, b) in b {
                            if l == k {
                                walk(a, b, at, out);
                            }
                            at += b.leaf_count();
                        }
                    }
                }
                (Tree::Leaf(_), _) => out.push(base),
                _ => {
                    let mut at = base;
                    for (a, b) in a.items().zip(b.items()) {
                        walk(a, b, at, out);
                        at += b.leaf_count();
                    }
                }
            }
        }
        let mut out = Vec::new();
        walk(self, other, 0, &mut out);
        out
    }
    /// The single leaf of an unstructured element.
    pub fn as_leaf(&self) -> Option<&Leaf> {
        match self {
            Tree::Leaf(l) => Some(l),
            _ => None,
        }
    }
    /// True for a scalar of that dtype, or one that may turn out to be a scalar.
    pub fn may_be_scalar(&self, dtype: DType) -> bool {
        matches!(self, Tree::Leaf(Leaf::Tensor { dtype: d, shape }) if *d == dtype && shape.rank().is_none_or(|r| r == 0))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Leaf(l) => l.fmt(f),
            Tree::Tuple { items, .. } => {
                f.write_str("(")?;
                for (i, t) in items.iter().enumerate() {
                    write!(f, "{}{t}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Tree::Map { items, .. } => {
                f.write_str("{")?;
                for (i, (k, t)) in items.iter().enumerate() {
                    write!(f, "{}{k}: {t}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}
