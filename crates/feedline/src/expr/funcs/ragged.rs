//! Between dense, ragged and sparse tensors.

use super::super::{Attrs, ByRow, Func, Made, arity, dense};
use super::broadcast::check_room;
use super::create::{filled, item};
use super::lead::{check_integers, integers};
use crate::element::{DType, Dims, Leaf, Ragged, Shape, Sparse, Tensor, Value, count};
use crate::error::{Error, Result};
use feedline_io::{Counted, ask};
use std::sync::Arc;

pub static FUNCS: &[Func] = &[
    Func {
        name: "ragged.to_tensor",
        doc: "Rows filled up to the longest with a default.",
        make: make_to_tensor,
        pure: true,
    },
    Func { name: "ragged.row_lengths", doc: "The lengths of the rows.", make: make_lengths, pure: true },
    Func {
        name: "ragged.row_splits",
        doc: "Where the rows begin, and where the last one ends.",
        make: make_splits,
        pure: true,
    },
    Func {
        name: "ragged.flat_values",
        doc: "The values of all rows, one after the other.",
        make: make_values,
        pure: true,
    },
    Func {
        name: "ragged.from_row_splits",
        doc: "Rows of unequal length, cut from values at the splits.",
        make: make_from_splits,
        pure: true,
    },
    Func {
        name: "sparse.to_dense",
        doc: "All items, those that are not stored being a default.",
        make: make_to_dense,
        pure: true,
    },
];

/// The ragged argument: dtype, shape, number of ragged axes, dtype of the splits.
fn ragged_arg(args: &[Leaf]) -> Result<(DType, &Dims, usize, DType)> {
    match arity::<1>(args)? {
        [Leaf::Ragged { dtype, shape, ragged_rank, splits }] => Ok((*dtype, shape, *ragged_rank, *splits)),
        [other] => Err(Error::usage(format!("expects a ragged tensor, not {other}"))),
    }
}

fn ragged(v: &Value) -> Result<&Ragged> {
    match v {
        Value::Ragged(r) => Ok(r),
        _ => Err(Error::internal("a ragged tensor was promised")),
    }
}

fn default_of(attrs: &Attrs, dtype: DType) -> Result<Tensor> {
    match attrs.get("default") {
        Some(v) => item(dtype, v),
        None => Ok(Tensor::zeros(dtype, [])),
    }
}

/// Rows of `values` at places of a result; what lies behind the last of them is a row full of the default.
fn scatter(values: &Tensor, places: &[usize], default: &Tensor) -> Result<Tensor> {
    let inner = &values.shape()[1..];
    let mut shape: Shape = inner.into();
    shape.insert(0, 1);
    let rows = Tensor::concat(&[values.clone(), filled(default, &shape)?]);
    Ok(rows.take(places))
}

fn make_to_tensor(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape, levels, _) = ragged_arg(args)?;
    let default = default_of(attrs, dtype)?;
    let dims = Dims(shape.dims().map(|d| {
        let unequal = 1..levels + 1;
        d.iter().enumerate().map(|(i, d)| if unequal.contains(&i) { None } else { *d }).collect()
    }));
    let kernel = ByRow(move |args: &[Value]| {
        let r = ragged(&args[0])?;
        if r.splits.is_empty() {
            return Ok(Value::Tensor(r.values.clone()));
        }
        // How far each level goes at most; then, for each place of the result, which row of the values it shows.
        let longest = |s: &[i64]| s.windows(2).map(|w| (w[1] - w[0]).max(0) as usize).max().unwrap_or(0);
        let mut shape: Shape = Shape::from_iter([r.rows()]);
        shape.extend(r.splits.iter().map(|s| longest(s)));
        let outer = shape.clone();
        shape.extend_from_slice(&r.values.shape()[1..]);
        let bytes = check_room(dtype, &shape)?;
        // One long row makes all of them long: what that takes is known, and asked for, before any of it is there.
        ask(bytes.saturating_add(count(&outer)?.saturating_mul(size_of::<usize>())));
        let mut places: Counted<usize> = Counted::with_capacity(r.rows());
        places.extend(0..r.rows());
        // Behind the last row of each level: a place that shows nothing.
        let ends = r.splits.iter().skip(1).map(|s| s.len().saturating_sub(1)).chain([r.values.rows()]);
        for ((level, width), last) in r.splits.iter().zip(&outer[1..]).zip(ends) {
            let mut next = Counted::with_capacity(count(&[places.len(), *width])?);
            for place in places.iter() {
                let (from, to) = level.get(place + 1).map_or((0, 0), |end| (level[*place] as usize, *end as usize));
                next.extend((0..*width).map(|k| if from + k < to { from + k } else { last }));
            }
            places = next;
        }
        let places = &places[..];
        Ok(Value::Tensor(scatter(&r.values, places, &default)?.into_reshaped(shape)))
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_lengths(args: &[Leaf], _: &Attrs) -> Result<Made> {
    let (_, shape, _, dtype) = ragged_arg(args)?;
    let kernel = ByRow(move |args: &[Value]| {
        let r = ragged(&args[0])?;
        let splits = r.splits.first().ok_or_else(|| Error::data("a row without ragged axes has no lengths"))?;
        let lengths: Vec<i64> = splits.windows(2).map(|w| w[1] - w[0]).collect();
        Ok(Value::Tensor(super::cast::cast(Tensor::from_items([lengths.len()], &lengths), dtype)?))
    });
    Made::new(Leaf::tensor(dtype, Dims::of([shape.first()])), kernel)
}

fn make_splits(args: &[Leaf], _: &Attrs) -> Result<Made> {
    let (_, shape, _, dtype) = ragged_arg(args)?;
    let kernel = ByRow(move |args: &[Value]| {
        let r = ragged(&args[0])?;
        let splits = r.splits.first().ok_or_else(|| Error::data("a row without ragged axes has no splits"))?;
        Ok(Value::Tensor(super::cast::cast(Tensor::from_items([splits.len()], splits), dtype)?))
    });
    Made::new(Leaf::tensor(dtype, Dims::of([shape.first().map(|n| n + 1)])), kernel)
}

fn make_values(args: &[Leaf], _: &Attrs) -> Result<Made> {
    let (dtype, shape, levels, _) = ragged_arg(args)?;
    let dims = match shape.dims().and_then(|d| d.get(levels + 1..)) {
        Some(inner) if levels > 0 => Dims::of([None].into_iter().chain(inner.iter().copied())),
        _ => Dims::unknown(),
    };
    let kernel = ByRow(|args: &[Value]| Ok(Value::Tensor(ragged(&args[0])?.values.clone())));
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_from_splits(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let ((dtype, values), (of, splits)) = (dense(args, 0)?, dense(args, 1)?);
    check_integers("splits", of)?;
    if values.is_scalar() || splits.rank().is_some_and(|r| r != 1) {
        return Err(Error::usage("expects values with at least one axis and a vector of splits"));
    }
    let splits_dtype = if of == DType::Int32 { DType::Int32 } else { DType::Int64 };
    let rows = splits.first().and_then(|n| n.checked_sub(1));
    let dims = Dims(values.dims().map(|d| [rows, None].into_iter().chain(d[1..].iter().copied()).collect()));
    let kernel = ByRow(move |args: &[Value]| {
        let (values, splits) = (args[0].tensor(), integers(args[1].tensor())?);
        if values.rank() == 0 {
            return Err(Error::data("the values of a ragged tensor need at least one axis"));
        }
        let whole = splits.first() == Some(&0)
            && splits.last() == Some(&(values.rows() as i64))
            && splits.windows(2).all(|w| w[0] <= w[1]);
        if !whole {
            return Err(Error::data(format!(
                "splits must rise from 0 to the number of values, {}, but are {splits:?}",
                values.rows()
            )));
        }
        Ok(Value::Ragged(Arc::new(Ragged { values: values.clone(), splits: vec![splits.into()], splits_dtype })))
    });
    Made::new(Leaf::Ragged { dtype, shape: dims, ragged_rank: 1, splits: splits_dtype }, kernel)
}

fn make_to_dense(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let [leaf] = arity::<1>(args)?;
    let Leaf::Sparse { dtype, shape } = leaf else {
        return Err(Error::usage(format!("expects a sparse tensor, not {leaf}")));
    };
    let dtype = *dtype;
    let default = default_of(attrs, dtype)?;
    let kernel = ByRow(move |args: &[Value]| {
        let Value::Sparse(s) = &args[0] else { return Err(Error::internal("a sparse tensor was promised")) };
        let Sparse { indices, values, shape } = &**s;
        let shape: Shape = shape
            .iter()
            .map(|&d| usize::try_from(d).map_err(|_| Error::data(format!("the shape {shape:?} has a negative size"))))
            .collect::<Result<_>>()?;
        let (bytes, n) = (check_room(dtype, &shape)?, count(&shape)?);
        ask(bytes.saturating_add(n.saturating_mul(size_of::<usize>())));
        let rank = shape.len();
        let mut places = Counted::with_capacity(n);
        places.extend(std::iter::repeat_n(values.rows(), n));
        let at = indices.items::<i64>();
        if at.len() != values.len() * rank {
            return Err(Error::data("a sparse tensor needs one index per value and axis"));
        }
        for k in 0..values.len() {
            let mut place = 0;
            for (i, size) in at[k * rank..(k + 1) * rank].iter().zip(&shape) {
                let inside = usize::try_from(*i).ok().filter(|i| i < size);
                let i = inside.ok_or_else(|| Error::data(format!("index {i} lies outside shape {shape:?}")))?;
                place = place * size + i;
            }
            places[place] = k;
        }
        Ok(Value::Tensor(scatter(values, &places, &default)?.into_reshaped(shape)))
    });
    // The promise of a sparse leaf does not bind its values' shapes, so only the rank is sure.
    let dims = Dims(shape.rank().map(|r| vec![None; r]));
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call_value, fails};
    use super::*;
    use serde_json::json;

    fn rows() -> Value {
        let values = Tensor::from_items([4], &[1i32, 2, 3, 4]);
        let splits = vec![Arc::from([0i64, 2, 2, 4])];
        Value::Ragged(Arc::new(Ragged { values, splits, splits_dtype: DType::Int64 }))
    }
    fn get(name: &str, v: Value, a: serde_json::Value) -> Tensor {
        call_value(name, &[v], a).tensor().clone()
    }

    #[test]
    fn ragged_and_back() {
        let t = get("ragged.to_tensor", rows(), json!({"default": 9}));
        assert_eq!(t, Tensor::from_items([3, 2], &[1i32, 2, 9, 9, 3, 4]));
        assert_eq!(get("ragged.row_lengths", rows(), json!({})).items::<i64>(), [2, 0, 2]);
        assert_eq!(get("ragged.row_splits", rows(), json!({})).items::<i64>(), [0, 2, 2, 4]);
        assert_eq!(get("ragged.flat_values", rows(), json!({})).len(), 4);
        let values = Tensor::from_items([4], &[1i32, 2, 3, 4]);
        let splits = Tensor::from_items([4], &[0i64, 2, 2, 4]);
        let args = [Value::Tensor(values.clone()), Value::Tensor(splits)];
        assert_eq!(call_value("ragged.from_row_splits", &args, json!({})), rows());
        let bad = Tensor::from_items([2], &[0i64, 3]);
        assert!(fails("ragged.from_row_splits", &[values, bad], json!({})).message().contains("rise"));
    }

    #[test]
    fn deep_rows() {
        let values = Tensor::strings([3], &["a", "b", "c"]);
        let splits: Vec<Arc<[i64]>> = vec![Arc::from([0i64, 1, 3]), Arc::from([0i64, 2, 2, 3])];
        let r = Value::Ragged(Arc::new(Ragged { values, splits, splits_dtype: DType::Int32 }));
        let t = get("ragged.to_tensor", r, json!({}));
        assert_eq!(t, Tensor::strings([2, 2, 2], &["a", "b", "", "", "", "", "c", ""]));
    }

    #[test]
    fn sparse_to_dense() {
        let s = Sparse {
            indices: Tensor::from_items([2, 2], &[0i64, 1, 1, 0]),
            values: Tensor::from_items([2], &[5f32, 6.0]),
            shape: vec![2, 2],
        };
        let t = get("sparse.to_dense", Value::Sparse(Arc::new(s)), json!({"default": -1}));
        assert_eq!(t, Tensor::from_items([2, 2], &[-1f32, 5.0, 6.0, -1.0]));
    }
}
