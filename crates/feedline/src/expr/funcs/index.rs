//! Taking parts of tensors: by constant index, by tensors of indices, by mask.

use super::super::{Arg, Attrs, ByRow, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::arithmetic::only_bool;
use super::broadcast::check_room;
use super::lead::{Lead, LeadFirst, View, axis_in, axis_of, check_axis, check_integers, integers, strides};
use crate::element::{B8, Column, Dims, Leaf, Shape, Tensor, Value};
use crate::error::{Error, Result};
use serde_json::Value as Json;

pub static FUNCS: &[Func] = &[
    Func {
        name: "getitem",
        doc: "x[…] with constant integers, slices, new axes and an ellipsis.",
        make: make_getitem,
        pure: true,
    },
    Func {
        name: "gather",
        doc: "The steps along an axis that a tensor of indices names; negative ones count from the end.",
        make: make_gather,
        pure: true,
    },
    Func {
        name: "slice",
        doc: "A block that begins at `begin` and has a `size`; -1 means to the end.",
        make: make_slice,
        pure: true,
    },
    Func {
        name: "split_at",
        doc: "Part `index` of an axis that is cut into `num` equal parts.",
        make: make_split_at,
        pure: true,
    },
    Func { name: "boolean_mask", doc: "The rows that a mask of truth values keeps.", make: make_mask, pure: true },
];

/// One entry of an index.
#[derive(Clone, Debug)]
enum At {
    Int(i64),
    Slice(Option<i64>, Option<i64>, i64),
    New,
    Ellipsis,
}

fn parse(spec: &Json) -> Result<Vec<At>> {
    let bad = || Error::usage(format!("spec {spec} is not an index"));
    let number = |v: &Json| if v.is_null() { Ok(None) } else { v.as_i64().map(Some).ok_or_else(bad) };
    let list = spec.as_array().ok_or_else(bad)?;
    let index: Vec<At> = list
        .iter()
        .map(|entry| {
            if let Some(word) = entry.as_str() {
                return match word {
                    "new" => Ok(At::New),
                    "ellipsis" => Ok(At::Ellipsis),
                    _ => Err(bad()),
                };
            }
            if let Some(i) = entry.get("i") {
                return Ok(At::Int(i.as_i64().ok_or_else(bad)?));
            }
            match entry.get("s").and_then(|s| s.as_array()).map(|s| s.as_slice()) {
                Some([start, stop, step]) => match number(step)?.unwrap_or(1) {
                    0 => Err(Error::usage("the step of a slice cannot be 0")),
                    step => Ok(At::Slice(number(start)?, number(stop)?, step)),
                },
                _ => Err(bad()),
            }
        })
        .collect::<Result<_>>()?;
    if index.iter().filter(|a| matches!(a, At::Ellipsis)).count() > 1 {
        return Err(Error::usage("an index can have only one ellipsis"));
    }
    Ok(index)
}

/// Where a Python slice begins in an axis, and how many items it takes.
fn slice_of(start: Option<i64>, stop: Option<i64>, step: i64, size: usize) -> (usize, usize) {
    let n = size as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |at: Option<i64>, default: i64| match at {
        None => default,
        Some(i) => (if i < 0 { i.saturating_add(n) } else { i }).clamp(low, high),
    };
    let (from, to) = if step > 0 { (place(start, 0), place(stop, n)) } else { (place(start, n - 1), place(stop, -1)) };
    let (span, step) = ((i128::from(to) - i128::from(from)) * i128::from(step.signum()), i128::from(step).abs());
    let count = if span <= 0 { 0 } else { (span + step - 1) / step };
    (if count == 0 { 0 } else { from as usize }, count as usize)
}

/// The axes that an ellipsis (or the end of the index) leaves as they are.
fn left_over(index: &[At], rank: usize) -> Option<usize> {
    rank.checked_sub(index.iter().filter(|a| matches!(a, At::Int(_) | At::Slice(..))).count())
}

fn make_getitem(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let index = parse(attrs.need("spec", attrs.get("spec"))?)?;
    let dims = match shape.dims() {
        None => Dims::unknown(),
        Some(d) => {
            let rest = left_over(&index, d.len())
                .ok_or_else(|| Error::usage(format!("too many indices for a tensor of shape {shape}")))?;
            let mut axes = d.iter().copied();
            let mut out = Vec::new();
            for at in &index {
                match at {
                    At::New => out.push(Some(1)),
                    At::Ellipsis => out.extend(axes.by_ref().take(rest)),
                    At::Int(i) => {
                        let size = axes.next().flatten();
                        if size.is_some_and(|n| axis_of(*i, n).is_none()) {
                            return Err(Error::usage(format!("index {i} lies outside a tensor of shape {shape}")));
                        }
                    }
                    At::Slice(start, stop, step) => {
                        out.push(axes.next().flatten().map(|n| slice_of(*start, *stop, *step, n).1));
                    }
                }
            }
            out.extend(axes);
            Dims(Some(out))
        }
    };
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let rest = left_over(&index, t.rank() - lead)
            .ok_or_else(|| Error::data(format!("too many indices for shape {:?}", &t.shape()[lead..])))?;
        let whole = View::of(t);
        let mut axes = whole.axes.iter().copied();
        let mut view = View { start: 0, axes: axes.by_ref().take(lead).collect() };
        for at in &index {
            match at {
                At::New => view.axes.push((1, 0)),
                At::Ellipsis => view.axes.extend(axes.by_ref().take(rest)),
                At::Int(i) => {
                    let (size, stride) = axes.next().unwrap_or((0, 0));
                    let i = axis_of(*i, size)
                        .ok_or_else(|| Error::data(format!("index {i} lies outside an axis of size {size}")))?;
                    view.start += i * stride as usize;
                }
                At::Slice(start, stop, step) => {
                    let (size, stride) = axes.next().unwrap_or((0, 0));
                    let (from, count) = slice_of(*start, *stop, *step, size);
                    view.start += from * stride as usize;
                    // With one step at most, how far it would go does not matter, and must not overflow.
                    view.axes.push((count, if count > 1 { stride * *step as isize } else { 0 }));
                }
            }
        }
        view.axes.extend(axes);
        cut(t, view)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

/// What a view shows: rows at the front share the memory, everything else is copied.
fn cut(t: &Tensor, view: View) -> Result<Tensor> {
    let own = strides(t.shape());
    let shape = view.shape();
    let n: usize = shape.iter().product();
    let row = own.first().map_or(1, |r| r.max(&1).unsigned_abs());
    if t.rank() > 0 && n > 0 && view.start.is_multiple_of(row) {
        let from = view.start / row;
        let contiguous = view.axes.iter().rev().try_fold(1isize, |inside, (size, step)| {
            (*size == 1 || *step == inside).then_some(inside * *size as isize)
        });
        let rows = n / row;
        if contiguous.is_some() && n.is_multiple_of(row) && from + rows <= t.rows() {
            return Ok(t.slice(from..from + rows).into_reshaped(shape));
        }
    }
    view.copy(t)
}

/// The place of an index in an axis, counted from the front.
fn place(i: i64, size: usize) -> Result<usize> {
    axis_of(i, size).ok_or_else(|| Error::data(format!("index {i} lies outside an axis of size {size}")))
}

/// Steps along `axis` named by `indices`; the first `batch` axes of both go along together.
fn gather(t: &Tensor, indices: &Tensor, axis: usize, batch: usize) -> Result<Tensor> {
    let (params, index) = (t.shape(), indices.shape());
    if params[..batch] != index[..batch] {
        return Err(Error::data(format!(
            "the first axes {:?} and {:?} of tensor and indices differ",
            &params[..batch],
            &index[..batch]
        )));
    }
    let size = params[axis];
    let mut shape: Shape = params[..axis].into();
    shape.extend_from_slice(&index[batch..]);
    shape.extend_from_slice(&params[axis + 1..]);
    check_room(t.dtype(), &shape)?;
    let batches: usize = params[..batch].iter().product();
    let middle: usize = params[batch..axis].iter().product();
    let each: usize = index[batch..].iter().product();
    let inner: usize = params[axis + 1..].iter().product();
    let steps: Vec<usize> = integers(indices)?.into_iter().map(|i| place(i, size)).collect::<Result<_>>()?;
    if shape.contains(&0) {
        return Ok(Tensor::zeros(t.dtype(), shape));
    }
    let lines = t.reshaped([batches * middle * size, inner]);
    if batches * middle == 1 {
        return Ok(lines.take(&steps).into_reshaped(shape));
    }
    let mut all = Vec::with_capacity(batches * middle * each);
    for b in 0..batches {
        for m in 0..middle {
            let base = (b * middle + m) * size;
            all.extend(steps[b * each..(b + 1) * each].iter().map(|i| base + i));
        }
    }
    Ok(lines.take(&all).into_reshaped(shape))
}

struct Gather {
    axis: Option<i64>,
    batch: i64,
}

impl Gather {
    /// Axis and batch axes from the front; the axis cannot lie inside the batch.
    fn places(&self, params: usize, indices: usize) -> std::result::Result<(usize, usize), String> {
        let batch = if self.batch < 0 { self.batch + indices as i64 } else { self.batch };
        let batch = usize::try_from(batch).ok().filter(|b| *b <= indices && *b < params.max(1));
        let batch = batch.ok_or_else(|| format!("batch_dims {} is too large for the shapes", self.batch))?;
        let axis = match self.axis {
            None => Some(batch).filter(|a| *a < params),
            Some(a) => axis_of(a, params),
        };
        match axis {
            Some(axis) if axis >= batch => Ok((axis, batch)),
            _ => Err(format!("there is no axis {} to gather from", self.axis.unwrap_or(batch as i64))),
        }
    }
}

impl Kernel for Gather {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let (t, i) = (args[0].tensor(), args[1].tensor());
        let (axis, batch) = self.places(t.rank(), i.rank()).map_err(Error::data)?;
        Ok(Value::Tensor(gather(t, i, axis, batch)?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let out = match &*args {
            _ if rows == 0 => return Ok(None),
            [Arg::Rows(Column::Dense(t)), Arg::Rows(Column::Dense(i))] => {
                let Ok((axis, batch)) = self.places(t.rank() - 1, i.rank() - 1) else { return Ok(None) };
                gather(t, i, axis + 1, batch + 1)
            }
            [Arg::Rows(Column::Dense(t)), Arg::Same(Value::Tensor(i))] => match self.places(t.rank() - 1, i.rank()) {
                Ok((axis, 0)) => gather(t, i, axis + 1, 0),
                _ => return Ok(None),
            },
            [Arg::Same(Value::Tensor(t)), Arg::Rows(Column::Dense(i))] => match self.places(t.rank(), i.rank() - 1) {
                Ok((0, 0)) => gather(t, i, 0, 0),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        // An index outside is found again in its own row.
        Ok(out.ok().map(Column::Dense))
    }
}

fn make_gather(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let ((dtype, shape), (of, index)) = (dense(args, 0)?, dense(args, 1)?);
    check_integers("indices", of)?;
    let kernel = Gather { axis: attrs.i64("axis")?, batch: attrs.i64("batch_dims")?.unwrap_or(0) };
    let dims = match (shape.dims(), index.dims()) {
        (Some(p), Some(i)) => {
            let (axis, batch) = kernel.places(p.len(), i.len()).map_err(Error::usage)?;
            let front = p[..batch].iter().zip(i).map(|(a, b)| a.or(*b)).chain(p[batch..axis].iter().copied());
            Dims::of(front.chain(i[batch..].iter().copied()).chain(p[axis + 1..].iter().copied()))
        }
        _ => Dims::unknown(),
    };
    if shape.is_scalar() {
        return Err(Error::usage("a scalar has no axis to gather from"));
    }
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_slice(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<3>(args)?;
    let ((dtype, shape), (b, _), (s, _)) = (dense(args, 0)?, dense(args, 1)?, dense(args, 2)?);
    check_integers("begin", b)?;
    check_integers("size", s)?;
    let dims = Dims(shape.rank().map(|r| vec![None; r]));
    let kernel = LeadFirst::new(|args: &[Tensor], lead: usize| {
        let t = &args[0];
        let (begin, size) = (integers(&args[1])?, integers(&args[2])?);
        let rank = t.rank() - lead;
        if begin.len() != rank || size.len() != rank {
            return Err(Error::data(format!(
                "begin and size must name {rank} axes, but have {} and {} items",
                begin.len(),
                size.len()
            )));
        }
        let mut view = View::of(t);
        for (i, (begin, size)) in begin.into_iter().zip(size).enumerate() {
            let (all, stride) = view.axes[lead + i];
            let from = usize::try_from(begin).ok().filter(|b| *b <= all);
            let end = from.and_then(|from| match size {
                -1 => Some(all),
                n => from.checked_add(usize::try_from(n).ok()?).filter(|end| *end <= all),
            });
            let (Some(from), Some(end)) = (from, end) else {
                return Err(Error::data(format!(
                    "begin {begin} and size {size} lie outside axis {i}, whose size is {all}"
                )));
            };
            view.start += if end > from { from * stride as usize } else { 0 };
            view.axes[lead + i].0 = end - from;
        }
        cut(t, view)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_split_at(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let axis = attrs.i64("axis")?.unwrap_or(0);
    check_axis(axis, shape)?;
    let num = attrs.need("num", attrs.i64("num")?)?;
    let index = attrs.need("index", attrs.i64("index")?)?;
    let (Some(num), Some(index)) = (usize::try_from(num).ok().filter(|n| *n > 0), usize::try_from(index).ok()) else {
        return Err(Error::usage("num must be positive and index not negative"));
    };
    if index >= num {
        return Err(Error::usage(format!("there is no part {index} of {num}")));
    }
    let uneven = move |n: usize| format!("an axis of size {n} cannot be cut into {num} equal parts");
    let mut dims = shape.clone();
    if let Some(d) = &mut dims.0
        && let Some(at) = axis_of(axis, d.len())
        && let Some(n) = d[at]
    {
        if n % num != 0 {
            return Err(Error::usage(uneven(n)));
        }
        d[at] = Some(n / num);
    }
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let axis = axis_in(axis, t, lead)?;
        let mut view = View::of(t);
        let (n, stride) = view.axes[axis];
        if n % num != 0 {
            return Err(Error::data(uneven(n)));
        }
        view.start = index * (n / num) * stride as usize;
        view.axes[axis].0 = n / num;
        cut(t, view)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_mask(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let ((dtype, shape), (of, mask)) = (dense(args, 0)?, dense(args, 1)?);
    only_bool(of)?;
    let axis = attrs.i64("axis")?.unwrap_or(0);
    if mask.is_scalar() {
        return Err(Error::usage("the mask must have at least one axis"));
    }
    let dims = match (shape.dims(), mask.dims()) {
        (Some(d), Some(m)) => {
            check_axis(axis, shape)?;
            let at = axis_of(axis, d.len()).unwrap_or(0);
            let covered = d
                .get(at..at + m.len())
                .ok_or_else(|| Error::usage(format!("a mask of shape {mask} has too many axes for shape {shape}")))?;
            if covered.iter().zip(m).any(|(a, b)| a.zip(*b).is_some_and(|(a, b)| a != b)) {
                return Err(Error::usage(format!("a mask of shape {mask} does not fit shape {shape} at axis {axis}")));
            }
            Dims::of(d[..at].iter().copied().chain([None]).chain(d[at + m.len()..].iter().copied()))
        }
        _ => Dims::unknown(),
    };
    let kernel = ByRow(move |args: &[Value]| {
        let (t, mask) = (args[0].tensor(), args[1].tensor());
        let at = axis_in(axis, t, 0)?;
        let fail = || {
            let (m, x) = (mask.shape(), t.shape());
            Error::data(format!("a mask of shape {m:?} does not fit shape {x:?} at axis {axis}"))
        };
        let covered = t.shape().get(at..at + mask.rank()).ok_or_else(fail)?;
        if covered != mask.shape() || mask.rank() == 0 {
            return Err(fail());
        }
        let mut shape: Shape = t.shape()[..at].into();
        shape.push(mask.len());
        shape.extend_from_slice(&t.shape()[at + mask.rank()..]);
        let kept: Vec<usize> = mask.items::<B8>().iter().enumerate().filter(|(_, b)| b.get()).map(|(i, _)| i).collect();
        Ok(Value::Tensor(super::lead::take_axis(&t.reshaped(shape), at, &kept)?))
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn x() -> Tensor {
        Tensor::from_items([2, 3], &[1i32, 2, 3, 4, 5, 6])
    }
    fn get(spec: serde_json::Value) -> Tensor {
        call("getitem", &[x()], json!({"spec": spec}))
    }

    #[test]
    fn indexes_as_python_does() {
        assert_eq!(get(json!([{"i": -1}])).items::<i32>(), [4, 5, 6]);
        assert_eq!(get(json!([{"s": [null, null, null]}, {"i": 1}])).items::<i32>(), [2, 5]);
        assert_eq!(get(json!(["ellipsis", {"s": [null, null, -1]}])).items::<i32>(), [3, 2, 1, 6, 5, 4]);
        assert_eq!(get(json!([{"i": 0}, "new", {"s": [-2, 99, 1]}])), Tensor::from_items([1, 2], &[2i32, 3]));
        assert_eq!(get(json!([{"s": [5, null, null]}])).shape(), [0, 3]);
        assert_eq!(get(json!([{"s": [i64::MAX, i64::MIN, i64::MIN]}])).shape(), [1, 3]);
        assert_eq!(get(json!([{"i": 1}, {"i": 2}])).item::<i32>(), 6);
        assert_eq!(get(json!([])), x());
        let s = call("getitem", &[Tensor::strings([3], &["a", "b", "c"])], json!({"spec": [{"s": [null, null, -2]}]}));
        assert_eq!(s, Tensor::strings([2], &["c", "a"]));
        assert!(refused("getitem", &[x()], json!({"spec": [{"i": 2}]})).message().contains("index 2"));
        assert!(fails("getitem", &[x()], json!({"spec": [{"i": -3}]})).message().contains("index -3"));
        assert!(refused("getitem", &[x()], json!({"spec": [{"s": [0, 1, 0]}]})).message().contains("step"));
        let three = json!([{"i": 0}, {"i": 0}, {"i": 0}]);
        assert!(refused("getitem", &[x()], json!({"spec": three})).message().contains("too many"));
    }

    proptest! {
        #[test]
        fn slices_agree_with_counting(n in 0usize..7, start in prop::option::of(-9i64..9), stop in prop::option::of(-9i64..9), step in -4i64..5) {
            prop_assume!(step != 0);
            let (from, count) = slice_of(start, stop, step, n);
            // CPython's PySlice_AdjustIndices, written as a walk.
            let size = n as i64;
            let fix = |i: i64| if i < 0 { i + size } else { i };
            let mut at = match start { None => if step > 0 { 0 } else { size - 1 }, Some(i) => if step > 0 { fix(i).max(0) } else { fix(i).min(size - 1) } };
            let end = match stop { None => if step > 0 { size } else { -1 }, Some(i) => if step > 0 { fix(i).min(size) } else { fix(i).max(-1) } };
            let mut want = vec![];
            while (step > 0 && at < end) || (step < 0 && at > end) {
                want.push(at);
                at += step;
            }
            let got: Vec<i64> = (0..count as i64).map(|k| from as i64 + k * step).collect();
            prop_assert_eq!(got, want);
        }
    }

    #[test]
    fn gathers() {
        let i = Tensor::from_items([2, 2], &[1i64, 0, -1, 1]);
        assert_eq!(call("gather", &[x(), i.clone()], json!({})).items::<i32>(), [4, 5, 6, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
        let c = call("gather", &[x(), Tensor::from_items([2], &[2i32, 0])], json!({"axis": 1}));
        assert_eq!(c, Tensor::from_items([2, 2], &[3i32, 1, 6, 4]));
        let b = call("gather", &[x(), i.clone()], json!({"batch_dims": 1}));
        assert_eq!(b, Tensor::from_items([2, 2], &[2i32, 1, 6, 5]));
        let b = call("gather", &[x(), i], json!({"axis": -1, "batch_dims": -1}));
        assert_eq!(b, Tensor::from_items([2, 2], &[2i32, 1, 6, 5]));
        assert_eq!(call("gather", &[x(), Tensor::scalar(1u8)], json!({})).items::<i32>(), [4, 5, 6]);
        assert!(fails("gather", &[x(), Tensor::scalar(2i64)], json!({})).message().contains("index 2"));
        assert!(refused("gather", &[Tensor::scalar(1i32), Tensor::scalar(0i64)], json!({})).message().contains("axis"));
    }

    #[test]
    fn cuts_blocks() {
        let b = |a: &[i64], s: &[i64]| {
            let args = [x(), Tensor::from_items([a.len()], a), Tensor::from_items([s.len()], s)];
            call("slice", &args, json!({}))
        };
        assert_eq!(b(&[0, 1], &[-1, 2]), Tensor::from_items([2, 2], &[2i32, 3, 5, 6]));
        assert_eq!(b(&[2, 3], &[0, 0]).shape(), [0, 0]);
        let args = [x(), Tensor::from_items([2], &[0i64, 2]), Tensor::from_items([2], &[1i64, 2])];
        assert!(fails("slice", &args, json!({})).message().contains("axis 1"));
        let part = call("split_at", &[x()], json!({"axis": 1, "num": 3, "index": 2}));
        assert_eq!(part, Tensor::from_items([2, 1], &[3i32, 6]));
        assert!(refused("split_at", &[x()], json!({"axis": 1, "num": 2, "index": 0})).message().contains("equal"));
    }

    #[test]
    fn masks() {
        let m = Tensor::from_items([2], &[B8(0), B8(1)]);
        assert_eq!(call("boolean_mask", &[x(), m], json!({})), Tensor::from_items([1, 3], &[4i32, 5, 6]));
        let all = Tensor::from_items([2, 3], &[B8(1), B8(0), B8(1), B8(0), B8(0), B8(1)]);
        assert_eq!(call("boolean_mask", &[x(), all], json!({})).items::<i32>(), [1, 3, 6]);
        let c = Tensor::from_items([3], &[B8(1), B8(0), B8(1)]);
        assert_eq!(call("boolean_mask", &[x(), c.clone()], json!({"axis": 1})).items::<i32>(), [1, 3, 4, 6]);
        assert!(refused("boolean_mask", &[x(), c], json!({})).message().contains("fit"));
    }
}
