//! Reductions along axes.
//!
//! Sums of floats are collected in f64 and rounded once, so that their order hardly shows; integers wrap in their dtype.

use super::super::{Attrs, Func, Made, arity, dense};
use super::arithmetic::only_bool;
use super::broadcast::{check_room, room};
use super::cast::{cast, relabel};
use super::lead::{Lead, View, axis_of};
use super::number::{Number, float_of, inner_dtype, numbers, signless};
use crate::element::{B8, DType, Dims, Item, Leaf, Shape, Tensor};
use crate::error::{Error, Result};
use smallvec::SmallVec;

macro_rules! reduction {
    ($name:literal, $doc:literal, $dtype:expr, $f:expr) => {
        Func { name: $name, doc: $doc, pure: true, make: |args, attrs| make(args, attrs, $dtype, $f) }
    };
}

pub static FUNCS: &[Func] = &[
    reduction!("reduce_sum", "The sum along axes, of the same dtype.", number, |t, parts| match t.dtype() {
        d if d.is_int() => {
            let out = numbers!(signless(d), T => signless fold(
                &relabel(t, signless(d))?, parts, 0 as T, |a, x: T| a.wrapping_add(x), |a, b| a.wrapping_add(b)));
            relabel(out?, d)
        }
        d => float_fold(t, parts, d, 0.0, |a, x| a + x, |a, b| a + b),
    }),
    reduction!("reduce_prod", "The product along axes, of the same dtype.", number, |t, parts| match t.dtype() {
        d if d.is_int() => {
            let out = numbers!(signless(d), T => signless fold(
                &relabel(t, signless(d))?, parts, 1 as T, |a, x: T| a.wrapping_mul(x), |a, b| a.wrapping_mul(b)));
            relabel(out?, d)
        }
        d => float_fold(t, parts, d, 1.0, |a, x| a * x, |a, b| a * b),
    }),
    reduction!(
        "reduce_max",
        "The largest item along axes; NaN if one is NaN, the lowest number if there is none.",
        number,
        |t, parts| extreme(t, parts, true)
    ),
    reduction!(
        "reduce_min",
        "The smallest item along axes; NaN if one is NaN, the highest number if there is none.",
        number,
        |t, parts| extreme(t, parts, false)
    ),
    reduction!(
        "reduce_mean",
        "The mean along axes. Integers give floats, as with truediv (TensorFlow rounds them instead).",
        mean_dtype,
        |t, parts| {
            let n = parts.n as f64;
            let dtype = float_of(t.dtype())?;
            let sum = float_fold(t, parts, DType::Float64, 0.0, |a, x| a + x, |a, b| a + b)?;
            cast(super::broadcast::map_same(sum, |s: f64| s / n)?, dtype)
        }
    ),
    reduction!("reduce_any", "Whether some item along axes is true.", boolean, |t, parts| {
        fold(&t, parts, B8(0), |a, x: B8| B8(a.0 | x.get() as u8), |a, b| B8(a.0 | b.0))
    }),
    reduction!("reduce_all", "Whether all items along axes are true.", boolean, |t, parts| {
        fold(&t, parts, B8(1), |a, x: B8| B8(a.0 & x.get() as u8), |a, b| B8(a.0 & b.0))
    }),
    reduction!("reduce_variance", "The mean squared distance from the mean, along axes.", mean_dtype, |t, parts| {
        by_slice(t, parts, |x| {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64
        })
    }),
    reduction!("reduce_std", "The standard deviation along axes.", mean_dtype, |t, parts| {
        by_slice(t, parts, |x| {
            let mean = x.iter().sum::<f64>() / x.len() as f64;
            (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64).sqrt()
        })
    }),
    reduction!("reduce_logsumexp", "log(sum(exp(x))) along axes, without overflow.", mean_dtype, |t, parts| {
        by_slice(t, parts, |x| {
            let max = x.iter().copied().fold(f64::NEG_INFINITY, |a, x| if x > a || x.is_nan() { x } else { a });
            if max.is_infinite() || max.is_nan() {
                return max;
            }
            max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
        })
    }),
    Func {
        name: "count_nonzero",
        doc: "How many items along axes are not zero, as int64.",
        pure: true,
        make: |args, attrs| {
            make(
                args,
                attrs,
                |_| Ok(DType::Int64),
                |t, parts| {
                    let set = match t.dtype() {
                        DType::String => {
                            let set: Vec<B8> = t.strs().map(|s| B8::from(!s.is_empty())).collect();
                            Tensor::from_items(t.shape(), &set)
                        }
                        _ => cast(t, DType::Bool)?,
                    };
                    fold(&set, parts, 0i64, |a, x: B8| a + i64::from(x.get()), |a, b| a + b)
                },
            )
        },
    },
    Func {
        name: "argmax",
        doc: "Where the largest item lies along an axis (the first, if there are several; NaN counts as largest).",
        pure: true,
        make: |args, attrs| make_arg(args, attrs, true),
    },
    Func {
        name: "argmin",
        doc: "Where the smallest item lies along an axis (the first, if there are several; NaN counts as smallest).",
        pure: true,
        make: |args, attrs| make_arg(args, attrs, false),
    },
    Func {
        name: "cumsum",
        doc: "Running sums along an axis; `exclusive` leaves out the item itself, `reverse` starts at the end.",
        pure: true,
        make: |args, attrs| make_scan(args, attrs, true),
    },
    Func {
        name: "cumprod",
        doc: "Running products along an axis; `exclusive` leaves out the item itself, `reverse` starts at the end.",
        pure: true,
        make: |args, attrs| make_scan(args, attrs, false),
    },
];

fn number(dtype: DType) -> Result<DType> {
    match dtype.is_numeric() {
        true => Ok(dtype),
        false => Err(Error::usage(format!("expects numbers, not {dtype}; cast first"))),
    }
}
fn mean_dtype(dtype: DType) -> Result<DType> {
    float_of(number(dtype)?)
}
fn boolean(dtype: DType) -> Result<DType> {
    only_bool(dtype)?;
    Ok(dtype)
}

/// A tensor as `outer` blocks of `n` steps that are reduced, of `inner` neighbours each.
struct Parts {
    outer: usize,
    n: usize,
    inner: usize,
    /// The shape of the result without the reduced axes.
    shape: Shape,
}

/// The axes that `axis` names; `None` for all of them.
fn axes_attr(attrs: &Attrs, shape: &Dims) -> Result<Option<Vec<i64>>> {
    let axes = attrs.i64s("axis")?;
    for (i, &axis) in axes.iter().flatten().enumerate() {
        super::lead::check_axis(axis, shape)?;
        let same = |b: &i64| *b == axis || shape.rank().is_some_and(|r| axis_of(*b, r) == axis_of(axis, r));
        if axes.iter().flatten().take(i).any(same) {
            return Err(Error::usage(format!("axis {axis} is named twice")));
        }
    }
    Ok(axes)
}

fn make(
    args: &[Leaf],
    attrs: &Attrs,
    dtype: fn(DType) -> Result<DType>,
    f: fn(Tensor, &Parts) -> Result<Tensor>,
) -> Result<Made> {
    arity::<1>(args)?;
    let (from, shape) = dense(args, 0)?;
    let to = dtype(from)?;
    let keep = attrs.bool("keepdims")?.unwrap_or(false);
    let axes = axes_attr(attrs, shape)?;
    let reduced = |rank: usize| -> Option<Vec<bool>> {
        let Some(axes) = &axes else { return Some(vec![true; rank]) };
        let mut reduced = vec![false; rank];
        for &axis in axes {
            reduced[axis_of(axis, rank)?] = true;
        }
        Some(reduced)
    };
    let dims = match shape.dims() {
        None if axes.is_none() && !keep => Dims::scalar(),
        None => Dims::unknown(),
        Some(d) => {
            let reduced = reduced(d.len()).ok_or_else(|| Error::internal("axes were checked"))?;
            let axes = d.iter().zip(reduced);
            Dims::of(axes.filter(|(_, r)| keep || !r).map(|(d, r)| if r { Some(1) } else { *d }))
        }
    };
    let axes = axes.clone();
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let rank = t.rank() - lead;
        let mut reduced: SmallVec<[bool; 6]> = smallvec::smallvec![axes.is_none(); t.rank()];
        reduced[..lead].fill(false);
        for &axis in axes.iter().flatten() {
            reduced[super::lead::axis_in(axis, t, lead)?] = true;
        }
        debug_assert_eq!(rank + lead, reduced.len());
        let (t, parts) = apart(t, &reduced)?;
        let mut shape = parts.shape.clone();
        if keep {
            shape = args[0].shape().iter().zip(&reduced).map(|(d, r)| if *r { 1 } else { *d }).collect();
        }
        check_room(to, &shape)?;
        Ok(f(t, &parts)?.into_reshaped(shape))
    });
    Made::new(Leaf::tensor(to, dims), kernel)
}

/// Brings the reduced axes together: as they lie if they are neighbours, else moved to the end.
fn apart(t: &Tensor, reduced: &[bool]) -> Result<(Tensor, Parts)> {
    let pick = |r: bool| t.shape().iter().zip(reduced).filter(move |(_, x)| **x == r).map(|(d, _)| *d);
    let shape: Shape = pick(false).collect();
    let n: usize = pick(true).product();
    let wide = |i: &usize| t.shape()[*i] != 1;
    let first = (0..t.rank()).filter(wide).find(|&i| reduced[i]);
    let last = (0..t.rank()).filter(wide).rfind(|&i| reduced[i]);
    let (Some(first), Some(last)) = (first, last) else {
        // Nothing to reduce: each item by itself.
        return Ok((t.clone(), Parts { outer: t.len() / n.max(1), n, inner: 1, shape }));
    };
    if (first..=last).filter(wide).all(|i| reduced[i]) {
        let outer = t.shape()[..first].iter().product();
        let inner = t.shape()[last + 1..].iter().product();
        return Ok((t.clone(), Parts { outer, n, inner, shape }));
    }
    let mut view = View::of(t);
    let axes = view.axes.clone();
    let order = (0..t.rank()).filter(|i| !reduced[*i]).chain((0..t.rank()).filter(|i| reduced[*i]));
    view.axes = order.map(|i| axes[i]).collect();
    Ok((view.copy(t)?, Parts { outer: shape.iter().product(), n, inner: 1, shape }))
}

/// Several sums at once let the processor work on them side by side.
const LANES: usize = 8;
const WIDE: usize = 64;

fn fold<T: Item, A: Item>(
    t: &Tensor,
    parts: &Parts,
    zero: A,
    step: impl Fn(A, T) -> A,
    merge: impl Fn(A, A) -> A,
) -> Result<Tensor> {
    let Parts { outer, n, inner, .. } = *parts;
    let mut out = room(A::DTYPE, &[outer * inner])?;
    let to = out.items_mut::<A>();
    if n == 0 || to.is_empty() {
        to.fill(zero);
        return Ok(out);
    }
    let blocks = t.items::<T>().chunks_exact(n * inner);
    if inner == 1 {
        for (block, o) in blocks.zip(to) {
            if n < 2 * LANES {
                *o = block.iter().fold(zero, |a, x| step(a, *x));
                continue;
            }
            let mut lanes = [zero; LANES];
            let (chunks, rest) = block.as_chunks::<LANES>();
            for chunk in chunks {
                for i in 0..LANES {
                    lanes[i] = step(lanes[i], chunk[i]);
                }
            }
            for i in 0..rest.len() {
                lanes[i] = step(lanes[i], rest[i]);
            }
            *o = lanes.into_iter().reduce(&merge).unwrap_or(zero);
        }
        return Ok(out);
    }
    // Few neighbours (colour channels): several steps side by side, put together at the end.
    let width = inner * (WIDE / inner);
    if width >= 2 * inner && n * inner >= 2 * width {
        let mut sums = vec![zero; width];
        for (block, o) in blocks.zip(to.chunks_exact_mut(inner)) {
            sums.fill(zero);
            for line in block.chunks(width) {
                let sums = &mut sums[..line.len()];
                for i in 0..line.len() {
                    sums[i] = step(sums[i], line[i]);
                }
            }
            let (first, rest) = sums.split_at(inner);
            o.copy_from_slice(first);
            for line in rest.chunks_exact(inner) {
                for i in 0..inner {
                    o[i] = merge(o[i], line[i]);
                }
            }
        }
        return Ok(out);
    }
    for (block, o) in blocks.zip(to.chunks_exact_mut(inner)) {
        o.fill(zero);
        for line in block.chunks_exact(inner) {
            for i in 0..inner {
                o[i] = step(o[i], line[i]);
            }
        }
    }
    Ok(out)
}

/// Reduces floats, or integers as floats, in f64, and rounds the result to a dtype.
fn float_fold(
    t: Tensor,
    parts: &Parts,
    dtype: DType,
    zero: f64,
    step: impl Fn(f64, f64) -> f64,
    merge: impl Fn(f64, f64) -> f64,
) -> Result<Tensor> {
    let inner = if t.dtype().is_int() { DType::Float64 } else { inner_dtype(t.dtype()) };
    let t = cast(t, inner)?;
    let out = numbers!(inner, T => float fold(&t, parts, zero, |a, x: T| step(a, x.to_f64()), merge))?;
    cast(out, dtype)
}

fn extreme(t: Tensor, parts: &Parts, largest: bool) -> Result<Tensor> {
    let dtype = t.dtype();
    let t = cast(t, inner_dtype(dtype))?;
    let out = numbers!(t.dtype(), T =>
    int match largest {
        true => fold(&t, parts, T::MIN, |a, x: T| a.max(x), |a, b| a.max(b)),
        false => fold(&t, parts, T::MAX, |a, x: T| a.min(x), |a, b| a.min(b)),
    };
    float {
        let max = |a: T, b: T| if b > a || b.is_nan() { b } else { a };
        let min = |a: T, b: T| if b < a || b.is_nan() { b } else { a };
        match largest {
            true => fold(&t, parts, T::NEG_INFINITY, max, max),
            false => fold(&t, parts, T::INFINITY, min, min),
        }
    });
    cast(out?, dtype)
}

/// A function of all reduced items together, as f64.
fn by_slice(t: Tensor, parts: &Parts, f: fn(&[f64]) -> f64) -> Result<Tensor> {
    let dtype = float_of(t.dtype())?;
    let Parts { outer, n, inner, .. } = *parts;
    let t = cast(t, DType::Float64)?;
    let t = if inner == 1 { t } else { swapped(&t, parts)? };
    let mut out = room(DType::Float64, &[outer * inner])?;
    let to = out.items_mut::<f64>();
    match n {
        0 => to.fill(f(&[])),
        _ => to.iter_mut().zip(t.items::<f64>().chunks_exact(n)).for_each(|(o, x)| *o = f(x)),
    }
    cast(out, dtype)
}

/// The reduced axis moved behind its inner neighbours.
fn swapped(t: &Tensor, parts: &Parts) -> Result<Tensor> {
    let Parts { outer, n, inner, .. } = *parts;
    let (i, n) = (inner as isize, n as isize);
    let axes = [(outer, i * n), (inner, 1), (n as usize, i)];
    View { start: 0, axes: SmallVec::from_slice(&axes) }.copy(t)
}

fn one_axis(args: &[Leaf], attrs: &Attrs) -> Result<i64> {
    let axis = attrs.i64("axis")?.unwrap_or(0);
    super::lead::check_axis(axis, dense(args, 0)?.1)?;
    Ok(axis)
}

/// The tensor's parts along one axis.
fn along(t: &Tensor, axis: usize) -> Parts {
    let mut shape: Shape = t.shape().into();
    let n = shape.remove(axis);
    Parts { outer: t.shape()[..axis].iter().product(), n, inner: t.shape()[axis + 1..].iter().product(), shape }
}

fn make_arg(args: &[Leaf], attrs: &Attrs, largest: bool) -> Result<Made> {
    arity::<1>(args)?;
    let (from, shape) = dense(args, 0)?;
    if from == DType::String {
        return Err(Error::usage("expects numbers, not strings"));
    }
    let axis = one_axis(args, attrs)?;
    let to = attrs.dtype("output_type")?.unwrap_or(DType::Int64);
    if !to.is_int() {
        return Err(Error::usage(format!("output_type must be an integer dtype, not {to}")));
    }
    let dims = Dims(shape.dims().map(|d| {
        let gone = axis_of(axis, d.len());
        d.iter().enumerate().filter(|(i, _)| Some(*i) != gone).map(|(_, d)| *d).collect()
    }));
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let parts = along(t, super::lead::axis_in(axis, t, lead)?);
        let Parts { outer, n, inner, .. } = parts;
        if n == 0 && outer * inner > 0 {
            return Err(Error::data(format!("axis {axis} is empty: there is no item to point at")));
        }
        let t = match from {
            DType::Bool => cast(t.clone(), DType::Uint8)?,
            d => cast(t.clone(), inner_dtype(d))?,
        };
        let t = if inner == 1 { t } else { swapped(&t, &parts)? };
        let mut out = room(DType::Int64, &[outer * inner])?;
        let at = out.items_mut::<i64>();
        numbers!(t.dtype(), T => int {
            let better = |x: T, best: T| if largest { x > best } else { x < best };
            at.iter_mut().zip(t.items::<T>().chunks_exact(n.max(1))).for_each(|(o, x)| *o = first_best(x, better));
            Ok(())
        }; float {
            let better = |x: T, best: T| {
                !best.is_nan() && (x.is_nan() || if largest { x > best } else { x < best })
            };
            at.iter_mut().zip(t.items::<T>().chunks_exact(n.max(1))).for_each(|(o, x)| *o = first_best(x, better));
            Ok(())
        })?;
        cast(out.into_reshaped(parts.shape), to)
    });
    Made::new(Leaf::tensor(to, dims), kernel)
}

fn first_best<T: Copy>(items: &[T], better: impl Fn(T, T) -> bool) -> i64 {
    let mut best = 0;
    for i in 1..items.len() {
        if better(items[i], items[best]) {
            best = i;
        }
    }
    best as i64
}

fn make_scan(args: &[Leaf], attrs: &Attrs, sum: bool) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    number(dtype)?;
    let axis = one_axis(args, attrs)?;
    let exclusive = attrs.bool("exclusive")?.unwrap_or(false);
    let reverse = attrs.bool("reverse")?.unwrap_or(false);
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let parts = along(t, super::lead::axis_in(axis, t, lead)?);
        let way = Way { exclusive, reverse };
        if dtype.is_int() {
            let t = relabel(t.clone(), signless(dtype))?;
            let out = numbers!(t.dtype(), T => signless match sum {
                true => scan(&t, &parts, way, 0 as T, |a, x: T| a.wrapping_add(x), |a| a),
                false => scan(&t, &parts, way, 1 as T, |a, x: T| a.wrapping_mul(x), |a| a),
            });
            return relabel(out?, dtype);
        }
        let t = cast(t.clone(), inner_dtype(dtype))?;
        let out = numbers!(t.dtype(), T => float match sum {
            true => scan(&t, &parts, way, 0f64, |a, x: T| a + x.to_f64(), |a| a as T),
            false => scan(&t, &parts, way, 1f64, |a, x: T| a * x.to_f64(), |a| a as T),
        });
        cast(out?, dtype)
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

#[derive(Clone, Copy)]
struct Way {
    exclusive: bool,
    reverse: bool,
}

fn scan<T: Number, A: Copy>(
    t: &Tensor,
    parts: &Parts,
    way: Way,
    zero: A,
    step: impl Fn(A, T) -> A,
    finish: impl Fn(A) -> T,
) -> Result<Tensor> {
    let Parts { n, inner, .. } = *parts;
    let mut out = room(T::DTYPE, t.shape())?;
    if out.is_empty() {
        return Ok(out);
    }
    let mut sums = vec![zero; inner];
    let blocks = t.items::<T>().chunks_exact(n * inner);
    for (from, to) in blocks.zip(out.items_mut::<T>().chunks_exact_mut(n * inner)) {
        sums.fill(zero);
        for k in 0..n {
            let k = if way.reverse { n - 1 - k } else { k };
            let line = k * inner..(k + 1) * inner;
            for ((sum, x), o) in sums.iter_mut().zip(&from[line.clone()]).zip(&mut to[line]) {
                let before = *sum;
                *sum = step(before, *x);
                *o = finish(if way.exclusive { before } else { *sum });
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    fn x() -> Tensor {
        Tensor::from_items([2, 3], &[1i32, 5, 3, 4, -2, 6])
    }
    fn f() -> Tensor {
        Tensor::from_items([2, 3], &[1f32, 5.0, 3.0, 4.0, -2.0, 6.0])
    }

    #[test]
    fn sums_along_any_axes() {
        assert_eq!(call("reduce_sum", &[x()], json!({})).item::<i32>(), 17);
        assert_eq!(call("reduce_sum", &[x()], json!({"axis": 0})).items::<i32>(), [5, 3, 9]);
        let kept = call("reduce_sum", &[x()], json!({"axis": [-1], "keepdims": true}));
        assert_eq!(kept, Tensor::from_items([2, 1], &[9i32, 8]));
        let cube = Tensor::from_items([2, 2, 2], &[1f64, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(call("reduce_sum", &[cube.clone()], json!({"axis": [0, 2]})).items::<f64>(), [14.0, 22.0]);
        assert_eq!(call("reduce_sum", &[cube], json!({"axis": []})).rank(), 3);
        let many = Tensor::from_items([300], &[1u8; 300]);
        assert_eq!(call("reduce_sum", &[many], json!({})).item::<u8>(), 44);
        assert!(refused("reduce_sum", &[x()], json!({"axis": 2})).message().contains("axis 2"));
        assert!(refused("reduce_sum", &[x()], json!({"axis": [1, -1]})).message().contains("twice"));
        assert!(fails("reduce_sum", &[x()], json!({"axis": 5})).message().contains("axis 5"));
    }

    #[test]
    fn empty_tensors_have_reductions() {
        let e = Tensor::from_items([0, 2], &[0f32; 0]);
        assert_eq!(call("reduce_sum", &[e.clone()], json!({"axis": 0})).items::<f32>(), [0.0, 0.0]);
        assert_eq!(call("reduce_prod", &[e.clone()], json!({})).item::<f32>(), 1.0);
        assert_eq!(call("reduce_max", &[e.clone()], json!({})).item::<f32>(), f32::NEG_INFINITY);
        assert!(call("reduce_mean", &[e.clone()], json!({})).item::<f32>().is_nan());
        assert_eq!(call("reduce_max", &[e.clone()], json!({"axis": 1})).shape(), [0]);
        assert!(fails("argmax", &[e], json!({})).message().contains("empty"));
    }

    #[test]
    fn means_and_spreads() {
        let m = call("reduce_mean", &[x()], json!({"axis": 1}));
        assert_eq!((m.dtype(), m.items::<f64>()), (DType::Float64, &[3.0, 8.0 / 3.0][..]));
        assert_eq!(call("reduce_mean", &[f()], json!({})).item::<f32>(), 17.0 / 6.0);
        let v = Tensor::from_items([4], &[2f64, 4.0, 4.0, 6.0]);
        assert_eq!(call("reduce_variance", &[v.clone()], json!({})).item::<f64>(), 2.0);
        assert_eq!(call("reduce_std", &[v], json!({})).item::<f64>(), 2f64.sqrt());
        let big = Tensor::from_items([2], &[1000f64, 1000.0]);
        assert_eq!(call("reduce_logsumexp", &[big], json!({})).item::<f64>(), 1000.0 + 2f64.ln());
        assert_eq!(call("reduce_std", &[f()], json!({"axis": 0})).items::<f32>(), [1.5, 3.5, 1.5]);
    }

    #[test]
    fn extremes_and_places() {
        assert_eq!(call("reduce_max", &[x()], json!({"axis": 1})).items::<i32>(), [5, 6]);
        assert_eq!(call("reduce_min", &[f()], json!({})).item::<f32>(), -2.0);
        let nan = Tensor::from_items([3], &[1f32, f32::NAN, 2.0]);
        assert!(call("reduce_max", &[nan.clone()], json!({})).item::<f32>().is_nan());
        assert_eq!(call("argmax", &[nan], json!({})).item::<i64>(), 1);
        assert_eq!(call("argmax", &[x()], json!({"axis": 1})).items::<i64>(), [1, 2]);
        assert_eq!(call("argmin", &[x()], json!({"output_type": "int32"})).items::<i32>(), [0, 1, 0]);
        let same = Tensor::from_items([3], &[2u8, 2, 2]);
        assert_eq!(call("argmax", &[same], json!({})).item::<i64>(), 0);
    }

    #[test]
    fn truth_and_counts() {
        let b = Tensor::from_items([2, 2], &[B8(1), B8(4), B8(0), B8(1)]);
        assert_eq!(call("reduce_all", &[b.clone()], json!({"axis": 1})).items::<B8>(), [B8(1), B8(0)]);
        assert_eq!(call("reduce_any", &[b.clone()], json!({})).item::<B8>(), B8(1));
        assert_eq!(call("count_nonzero", &[b], json!({"axis": 0})).items::<i64>(), [1, 2]);
        assert_eq!(call("count_nonzero", &[Tensor::strings([2], &["", "a"])], json!({})).item::<i64>(), 1);
        assert!(refused("reduce_all", &[x()], json!({})).message().contains("bool"));
    }

    #[test]
    fn running_sums() {
        assert_eq!(call("cumsum", &[x()], json!({"axis": 1})).items::<i32>(), [1, 6, 9, 4, 2, 8]);
        assert_eq!(call("cumsum", &[x()], json!({})).items::<i32>(), [1, 5, 3, 5, 3, 9]);
        let back = call("cumsum", &[x()], json!({"axis": 1, "reverse": true, "exclusive": true}));
        assert_eq!(back.items::<i32>(), [8, 3, 0, 4, 6, 0]);
        assert_eq!(call("cumprod", &[f()], json!({"axis": -1})).items::<f32>(), [1.0, 5.0, 15.0, 4.0, -8.0, -48.0]);
    }
}
