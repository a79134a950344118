//! Any element as columns that Arrow has, and back again: what saved sets and caches hold.
//!
//! | leaf | columns |
//! |---|---|
//! | tensor whose shape is known, the first axis perhaps not | the same: lists of items |
//! | any other tensor | `shape` and `values`: lists alone do not say what 0 x 3 items are |
//! | ragged | the same: lists of lists |
//! | sparse | `shape`, `indices` and `values` |
//!
//! bfloat16 is kept as the bits that it is. Datasets and absent components have no place in a file.

use crate::element::{Chunk, Column, DType, Dims, Leaf, Ragged, Sparse, Spec, Tensor, Tree, Value};
use crate::error::{Error, Result};
use std::sync::Arc;

/// The spec of what is written for elements of this one.
pub fn stored_spec(spec: &Spec) -> Result<Spec> {
    let named = |name: &str, tree: &Spec| {
        stored_spec(tree).map_err(|e| Error::new(e.kind(), format!("component {name}: {}", e.message())))
    };
    Ok(match spec {
        Tree::Leaf(leaf) => stored_leaf(leaf)?,
        Tree::Tuple { items, .. } => {
            Tree::tuple(items.iter().enumerate().map(|(i, tree)| named(&i.to_string(), tree)).collect::<Result<_>>()?)
        }
        Tree::Map { items, .. } => {
            let items = items.iter().map(|(name, tree)| Ok((name.clone(), named(name, tree)?)));
            Tree::Map { tag: None, items: items.collect::<Result<_>>()? }
        }
    })
}

fn stored_leaf(leaf: &Leaf) -> Result<Spec> {
    match leaf {
        Leaf::Tensor { dtype, shape } if is_plain(shape) => {
            Ok(Tree::Leaf(Leaf::Tensor { dtype: bits(*dtype), shape: shape.clone() }))
        }
        Leaf::Tensor { dtype, .. } => Ok(parts(&["shape"], *dtype)),
        Leaf::Ragged { dtype, shape, ragged_rank, splits } => {
            let inner = shape.dims().map(|dims| dims.get(ragged_rank + 1..).unwrap_or_default());
            if inner.is_none_or(|dims| dims.iter().any(|d| d.is_none_or(|d| d == 0))) {
                return Err(Error::usage(format!(
                    "{leaf} has inner axes of unknown size, which a file of lists cannot tell from ragged ones"
                )));
            }
            let (dtype, shape) = (bits(*dtype), shape.clone());
            Ok(Tree::Leaf(Leaf::Ragged { dtype, shape, ragged_rank: *ragged_rank, splits: *splits }))
        }
        Leaf::Sparse { dtype, .. } => Ok(parts(&["shape", "indices"], *dtype)),
        Leaf::Absent => Err(Error::usage("an absent component cannot be saved; leave it out with map")),
        Leaf::Dataset(_) => Err(Error::usage("a dataset inside an element cannot be saved; flatten it with flat_map")),
    }
}

/// Whether lists say all of a tensor's shape: no axis but the first may be unknown, and none empty.
fn is_plain(shape: &Dims) -> bool {
    let known = |(axis, d): (usize, &Option<usize>)| d.map_or(axis == 0, |d| d > 0 && i32::try_from(d).is_ok());
    shape.dims().is_some_and(|dims| dims.iter().enumerate().all(known))
}

fn parts(numbers: &[&str], dtype: DType) -> Spec {
    let list = |dtype| Tree::Leaf(Leaf::Tensor { dtype, shape: Dims::of([None]) });
    let numbers = numbers.iter().map(|name| ((*name).into(), list(DType::Int64)));
    Tree::Map { tag: None, items: numbers.chain([("values".into(), list(bits(dtype)))]).collect() }
}

/// The type that stands for it in a file.
fn bits(dtype: DType) -> DType {
    if dtype == DType::Bfloat16 { DType::Uint16 } else { dtype }
}

/// The same bits as items of another type of that size.
fn retyped(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    if tensor.dtype().size() != dtype.size() || [tensor.dtype(), dtype].contains(&DType::String) {
        return Err(Error::data(format!("items are {} where {dtype} was expected", tensor.dtype())));
    }
    let (buf, start) = tensor.buf();
    Tensor::from_buf(dtype, tensor.shape(), buf.clone(), start)
}

/// Rows of elements as rows of what is written.
pub fn to_stored(chunk: &Chunk, spec: &Spec) -> Result<Chunk> {
    let mut out = Vec::new();
    for (leaf, column) in spec.leaves().into_iter().zip(chunk.columns()) {
        stored_columns(leaf, column, &mut out)?;
    }
    Ok(Chunk::new(chunk.rows(), chunk.pos.clone(), out))
}

fn stored_columns(leaf: &Leaf, column: &Column, out: &mut Vec<Column>) -> Result<()> {
    let odd = |value: &Value| Error::data(format!("{value:?} where the spec says {leaf}"));
    let plain = match leaf {
        Leaf::Tensor { shape, .. } => is_plain(shape),
        Leaf::Ragged { .. } => true,
        _ => false,
    };
    if plain {
        out.push(match column {
            Column::Dense(t) => Column::Dense(retyped(t, bits(t.dtype()))?),
            Column::Rows(..) => mapped(column, |value| match value {
                Value::Tensor(t) => Ok(retyped(t, bits(t.dtype()))?.into()),
                Value::Ragged(r) => {
                    let values = retyped(&r.values, bits(r.values.dtype()))?;
                    Ok(Value::Ragged(Arc::new(Ragged { values, ..(**r).clone() })))
                }
                other => Err(odd(other)),
            })?,
        });
        return Ok(());
    }
    let mut lists: [Vec<Value>; 3] = Default::default();
    for value in column.values() {
        let (shape, values) = match &value {
            Value::Tensor(t) => (t.shape().iter().map(|&d| d as i64).collect::<Vec<_>>(), t),
            Value::Sparse(s) => {
                lists[1].push(s.indices.reshaped([s.indices.len()]).into());
                (s.shape.clone(), &s.values)
            }
            other => return Err(odd(other)),
        };
        lists[0].push(Tensor::from_items([shape.len()], &shape).into());
        lists[2].push(retyped(values, bits(values.dtype()))?.into_reshaped([values.len()]).into());
    }
    let [shape, indices, values] = lists;
    out.push(Column::from_values(shape));
    if matches!(leaf, Leaf::Sparse { .. }) {
        out.push(Column::from_values(indices));
    }
    out.push(Column::from_values(values));
    Ok(())
}

fn mapped(column: &Column, each: impl Fn(&Value) -> Result<Value>) -> Result<Column> {
    Ok(Column::from_values(column.values().iter().map(each).collect::<Result<_>>()?))
}

/// Columns that were read, as columns of elements of this spec.
pub fn from_stored(columns: Vec<Column>, spec: &Spec) -> Result<Vec<Column>> {
    let mut columns = columns.into_iter();
    spec.leaves().into_iter().map(|leaf| loaded(leaf, &mut columns)).collect()
}

fn loaded(leaf: &Leaf, columns: &mut impl Iterator<Item = Column>) -> Result<Column> {
    let mut next = || columns.next().ok_or_else(|| Error::data("there are fewer columns than the manifest says"));
    match leaf {
        Leaf::Tensor { dtype, shape } if is_plain(shape) => match next()? {
            Column::Dense(t) => Ok(Column::Dense(retyped(&t, *dtype)?)),
            column => mapped(&column, |value| Ok(retyped(list(value)?, *dtype)?.into())),
        },
        Leaf::Tensor { dtype, .. } => {
            let (shapes, values) = (next()?, next()?);
            let row = |(shape, values): (Value, Value)| {
                let (values, shape) = (list(&values)?, numbers(&shape)?);
                let sizes = shape.iter().map(|&d| usize::try_from(d)).collect::<std::result::Result<Vec<_>, _>>();
                match sizes.ok().filter(|s| crate::element::count(s).is_ok_and(|n| n == values.len())) {
                    Some(sizes) => Ok(retyped(values, *dtype)?.into_reshaped(&sizes[..]).into()),
                    None => Err(Error::data(format!("{} items do not have the shape {shape:?}", values.len()))),
                }
            };
            Ok(Column::from_values(shapes.values().into_iter().zip(values.values()).map(row).collect::<Result<_>>()?))
        }
        Leaf::Ragged { dtype, ragged_rank, splits, .. } => mapped(&next()?, |value| match value {
            Value::Ragged(r) if r.splits.len() == *ragged_rank => {
                let values = retyped(&r.values, *dtype)?;
                Ok(Value::Ragged(Arc::new(Ragged { values, splits: r.splits.clone(), splits_dtype: *splits })))
            }
            other => Err(Error::data(format!("{other:?} where the manifest says {leaf}"))),
        }),
        Leaf::Sparse { dtype, .. } => {
            let (shapes, places, values) = (next()?.values(), next()?.values(), next()?.values());
            let row = |((shape, places), values): ((Value, Value), Value)| {
                let (shape, places, values) = (numbers(&shape)?.to_vec(), list(&places)?, list(&values)?);
                if places.len() != values.len() * shape.len() || places.dtype() != DType::Int64 {
                    return Err(Error::data("the places of a sparse tensor do not fit its values"));
                }
                let indices = places.reshaped([values.len(), shape.len()]);
                Ok(Value::Sparse(Arc::new(Sparse { indices, values: retyped(values, *dtype)?, shape })))
            };
            let rows = shapes.into_iter().zip(places).zip(values).map(row).collect::<Result<Vec<Value>>>()?;
            Ok(Column::from_values(rows))
        }
        Leaf::Absent | Leaf::Dataset(_) => Err(Error::data(format!("the manifest says {leaf}, which cannot be saved"))),
    }
}

/// A list out of a file: a dense tensor, in ragged clothes perhaps.
fn list(value: &Value) -> Result<&Tensor> {
    match value {
        Value::Tensor(t) => Ok(t),
        Value::Ragged(r) if r.splits.is_empty() => Ok(&r.values),
        other => Err(Error::data(format!("{other:?} is no list"))),
    }
}

fn numbers(value: &Value) -> Result<&[i64]> {
    let tensor = list(value)?;
    if tensor.dtype() == DType::Int64 {
        Ok(tensor.items::<i64>())
    } else {
        Err(Error::data("a shape is no list of int64"))
    }
}
