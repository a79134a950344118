//! Order: sorting along an axis, searching in sorted sequences, distinct items.

use super::super::{Arg, Attrs, ByRow, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::broadcast::room;
use super::cast::cast;
use super::lead::{Lead, View, axis_in, check_axis};
use super::number::{Number, inner_dtype, numbers, promote};
use crate::element::{Column, DType, Dims, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use std::cmp::Ordering;
use std::collections::HashSet;

pub static FUNCS: &[Func] = &[
    Func {
        name: "sort",
        doc: "Items along an axis in order (direction ASCENDING or DESCENDING), NaN counting as largest.",
        make: |args, attrs| make_sort(args, attrs, false),
        pure: true,
    },
    Func {
        name: "argsort",
        doc: "The places, as int32, from which items would come if they were sorted along an axis; equal items keep their order.",
        make: |args, attrs| make_sort(args, attrs, true),
        pure: true,
    },
    Func {
        name: "searchsorted",
        doc: "Where values would go in a sorted sequence: before (side left) or after (side right) equal items.",
        make: make_search,
        pure: true,
    },
    Func {
        name: "unique_values",
        doc: "The distinct items of a vector, in the order in which they first appear.",
        make: make_unique,
        pure: true,
    },
];

/// The dtype whose order is that of a dtype.
fn ordered(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::Uint8 } else { inner_dtype(dtype) }
}

fn make_sort(args: &[Leaf], attrs: &Attrs, places: bool) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let axis = attrs.i64("axis")?.unwrap_or(-1);
    check_axis(axis, shape)?;
    let down = match attrs.str("direction")?.unwrap_or("ASCENDING") {
        "ASCENDING" => false,
        "DESCENDING" => true,
        other => return Err(Error::usage(format!("direction must be ASCENDING or DESCENDING, not {other:?}"))),
    };
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let axis = axis_in(axis, t, lead)?;
        // The axis goes last, is sorted there, and goes back.
        let swap = |t: &Tensor| {
            let mut view = View::of(t);
            let last = t.rank() - 1;
            view.axes.swap(axis, last);
            view.copy(t)
        };
        let moved = swap(t)?;
        let n = moved.shape().last().copied().unwrap_or(0).max(1);
        if dtype == DType::String {
            let mut order = Vec::with_capacity(moved.len());
            for base in (0..moved.len()).step_by(n) {
                let by = |a: &usize, b: &usize| moved.str_at(base + a).cmp(moved.str_at(base + b));
                order.extend(order_of(n, down, by).into_iter().map(|i| (base, i)));
            }
            if places {
                let at: Vec<i32> = order.iter().map(|(_, i)| *i as i32).collect();
                return swap(&Tensor::from_items(moved.shape(), &at));
            }
            let index: Vec<usize> = order.into_iter().map(|(base, i)| base + i).collect();
            return swap(&moved.reshaped([moved.len()]).take(&index).into_reshaped(moved.shape()));
        }
        let mut items = cast(moved, ordered(dtype))?;
        if places {
            let mut out = room(DType::Int32, items.shape())?;
            let to = out.items_mut::<i32>();
            numbers!(items.dtype(), T => int {
                places_of::<T>(items.items(), n, down, to);
                Ok(())
            }; float {
                places_of::<T>(items.items(), n, down, to);
                Ok(())
            })?;
            return swap(&out);
        }
        numbers!(items.dtype(), T => int {
            for slice in items.items_mut::<T>().chunks_exact_mut(n) {
                slice.sort_unstable();
                if down {
                    slice.reverse();
                }
            }
            Ok(())
        }; float {
            items.items_mut::<T>().chunks_exact_mut(n).for_each(|s| s.sort_by(|a, b| directed(down, a.order(*b))));
            Ok(())
        })?;
        swap(&cast(items, dtype)?)
    });
    Made::new(Leaf::tensor(if places { DType::Int32 } else { dtype }, shape.clone()), kernel)
}

fn directed(down: bool, order: Ordering) -> Ordering {
    if down { order.reverse() } else { order }
}

fn order_of(n: usize, down: bool, by: impl Fn(&usize, &usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| directed(down, by(a, b)));
    order
}

fn places_of<T: Number>(items: &[T], n: usize, down: bool, to: &mut [i32]) {
    for (slice, to) in items.chunks_exact(n).zip(to.chunks_exact_mut(n)) {
        let order = order_of(n, down, |a, b| slice[*a].order(slice[*b]));
        to.iter_mut().zip(order).for_each(|(o, i)| *o = i as i32);
    }
}

struct Search {
    dtype: DType,
    right: bool,
    to: DType,
}

impl Search {
    /// A vector is searched for all values; more axes go along with the first axes of the values.
    fn search(&self, sequence: &Tensor, values: &Tensor) -> Result<Tensor> {
        let (sequence, found) = (cast(sequence.clone(), self.dtype)?, values.shape());
        let values = cast(values.clone(), self.dtype)?;
        let (Some((&n, outer)), rank) = (sequence.shape().split_last(), values.rank()) else {
            return Err(Error::data("the sorted sequence must have at least one axis"));
        };
        let groups: usize = outer.iter().product();
        if !outer.is_empty() && (rank == 0 || values.shape()[..rank - 1] != *outer) {
            return Err(Error::data(format!(
                "shapes {:?} and {:?} must agree in all axes but the last",
                sequence.shape(),
                values.shape()
            )));
        }
        let mut out = room(DType::Int64, found)?;
        let each = values.len().checked_div(groups).unwrap_or(0).max(1);
        let to = out.items_mut::<i64>();
        numbers!(self.dtype, T => int {
            find_all::<T>(sequence.items(), n, values.items(), each, self.right, to);
            Ok(())
        }; float {
            find_all::<T>(sequence.items(), n, values.items(), each, self.right, to);
            Ok(())
        })?;
        cast(out, self.to)
    }
}

fn find_all<T: Number>(sequence: &[T], n: usize, values: &[T], each: usize, right: bool, to: &mut [i64]) {
    for (g, (values, to)) in values.chunks(each).zip(to.chunks_mut(each)).enumerate() {
        let row = &sequence[g * n..(g + 1) * n];
        for (v, o) in values.iter().zip(to) {
            let before = |x: &T| {
                let order = x.order(*v);
                order == Ordering::Less || (right && order == Ordering::Equal)
            };
            *o = row.partition_point(before) as i64;
        }
    }
}

impl Kernel for Search {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        Ok(Value::Tensor(self.search(args[0].tensor(), args[1].tensor())?))
    }
    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        match &*args {
            [Arg::Same(Value::Tensor(s)), Arg::Rows(Column::Dense(v))] if s.rank() == 1 && rows > 0 => {
                Ok(self.search(s, v).ok().map(Column::Dense))
            }
            _ => Ok(None),
        }
    }
}

fn make_search(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let ((a, sequence), (b, values)) = (dense(args, 0)?, dense(args, 1)?);
    let dtype = ordered(promote(a, b)?);
    if !dtype.is_numeric() {
        return Err(Error::usage(format!("expects numbers, not {dtype}")));
    }
    if sequence.is_scalar() {
        return Err(Error::usage("the sorted sequence must have at least one axis"));
    }
    let right = match attrs.str("side")?.unwrap_or("left") {
        "left" => false,
        "right" => true,
        other => return Err(Error::usage(format!("side must be \"left\" or \"right\", not {other:?}"))),
    };
    let to = attrs.dtype("out_type")?.unwrap_or(DType::Int32);
    if !to.is_int() {
        return Err(Error::usage(format!("out_type must be an integer dtype, not {to}")));
    }
    Made::new(Leaf::tensor(to, values.clone()), Search { dtype, right, to })
}

fn make_unique(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    if shape.rank().is_some_and(|r| r != 1) {
        return Err(Error::usage(format!("expects a vector, not shape {shape}; reshape it to [-1] first")));
    }
    fn firsts<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> Vec<usize> {
        let mut seen = HashSet::new();
        keys.enumerate().filter_map(|(i, k)| seen.insert(k).then_some(i)).collect()
    }
    let kernel = ByRow(move |args: &[Value]| {
        let t = args[0].tensor();
        if t.rank() != 1 {
            return Err(Error::data(format!("expects a vector, not shape {:?}", t.shape())));
        }
        let kept = match dtype {
            DType::String => firsts(t.strs()),
            DType::Bool => firsts(t.items::<crate::element::B8>().iter().map(|b| b.get())),
            // Both zeros are one number; adding 0 makes the negative one positive.
            d if d.is_float() => {
                let t = cast(t.clone(), DType::Float64)?;
                firsts(t.items::<f64>().iter().map(|x| (x + 0.0).to_bits()))
            }
            d => firsts(t.bytes().chunks_exact(d.size())),
        };
        Ok(Value::Tensor(t.take(&kept)))
    });
    Made::new(Leaf::tensor(dtype, Dims::of([None])), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn sorts() {
        let x = Tensor::from_items([2, 3], &[3i32, 1, 2, 6, 5, 4]);
        assert_eq!(call("sort", &[x.clone()], json!({})).items::<i32>(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(call("sort", &[x.clone()], json!({"direction": "DESCENDING"})).items::<i32>(), [3, 2, 1, 6, 5, 4]);
        assert_eq!(call("sort", &[x.clone()], json!({"axis": 0})).items::<i32>(), [3, 1, 2, 6, 5, 4]);
        assert_eq!(call("argsort", &[x.clone()], json!({})).items::<i32>(), [1, 2, 0, 2, 1, 0]);
        assert_eq!(
            call("argsort", &[x], json!({"axis": 0, "direction": "DESCENDING"})).items::<i32>(),
            [1, 1, 1, 0, 0, 0]
        );
        let f = Tensor::from_items([4], &[f32::NAN, 1.0, f32::NEG_INFINITY, 0.5]);
        assert_eq!(call("argsort", &[f], json!({})).items::<i32>(), [2, 3, 1, 0]);
        let s = Tensor::strings([3], &["b", "", "a"]);
        assert_eq!(call("sort", &[s.clone()], json!({})), Tensor::strings([3], &["", "a", "b"]));
        assert_eq!(call("argsort", &[s], json!({})).items::<i32>(), [1, 2, 0]);
        let same = Tensor::from_items([3], &[1u8, 1, 0]);
        assert_eq!(call("argsort", &[same], json!({"direction": "DESCENDING"})).items::<i32>(), [0, 1, 2]);
        assert_eq!(call("sort", &[Tensor::from_items([0], &[0f64; 0])], json!({})).shape(), [0]);
        assert!(refused("sort", &[Tensor::scalar(1i32)], json!({})).message().contains("axis"));
    }

    #[test]
    fn searches() {
        let s = Tensor::from_items([4], &[1i64, 3, 3, 5]);
        let v = Tensor::from_items([2, 2], &[0i64, 3, 5, 9]);
        assert_eq!(call("searchsorted", &[s.clone(), v.clone()], json!({})).items::<i32>(), [0, 1, 3, 4]);
        assert_eq!(call("searchsorted", &[s.clone(), v], json!({"side": "right"})).items::<i32>(), [0, 3, 4, 4]);
        let b = call("searchsorted", &[s.reshaped([2, 2]), Tensor::from_items([2, 1], &[2f64, 4.0])], json!({}));
        assert_eq!(b.items::<i32>(), [1, 1]);
        fails("searchsorted", &[s.reshaped([2, 2]), Tensor::scalar(1i64)], json!({}));
        let e = Tensor::from_items([0], &[0i64; 0]);
        assert_eq!(call("searchsorted", &[e, Tensor::scalar(1i64)], json!({"out_type": "int64"})).item::<i64>(), 0);
    }

    #[test]
    fn distinct_items() {
        let x = Tensor::from_items([5], &[3i32, 1, 3, 2, 1]);
        assert_eq!(call("unique_values", &[x], json!({})).items::<i32>(), [3, 1, 2]);
        let f = Tensor::from_items([4], &[0f32, -0.0, f32::NAN, f32::NAN]);
        assert_eq!(call("unique_values", &[f], json!({})).len(), 2);
        let s = Tensor::strings([3], &["a", "b", "a"]);
        assert_eq!(call("unique_values", &[s], json!({})), Tensor::strings([2], &["a", "b"]));
    }
}
