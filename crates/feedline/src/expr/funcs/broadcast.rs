//! Item-by-item work: NumPy's broadcasting, whole columns at once, and memory reused where nobody else holds it.

use super::super::{Arg, Kernel, RowAt, RowsAt};
use crate::element::{Column, DType, Dims, Item, Shape, StringsBuilder, Tensor, Value};
use crate::error::{Error, Result};
use feedline_io::wide;
use smallvec::{SmallVec, smallvec};

pub type Tensors = SmallVec<[Tensor; 3]>;

pub use crate::element::check_room;

/// A new tensor to be filled, or an error where it cannot fit into memory.
pub fn room(dtype: DType, shape: &[usize]) -> Result<Tensor> {
    check_room(dtype, shape)?;
    Ok(Tensor::new(dtype, shape))
}

/// The shape of the result of two partly known shapes.
pub fn broadcast_dims(a: &Dims, b: &Dims) -> Result<Dims> {
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else { return Ok(Dims::unknown()) };
    let rank = x.len().max(y.len());
    let at = |d: &[Option<usize>], i: usize| match (i + d.len()).checked_sub(rank) {
        Some(i) => d[i],
        None => Some(1),
    };
    let dims = (0..rank).map(|i| match (at(x, i), at(y, i)) {
        (Some(1), d) | (d, Some(1)) => Ok(d),
        (Some(m), Some(n)) if m == n => Ok(Some(m)),
        (Some(_), Some(_)) => Err(Error::usage(format!(
            "shapes {a} and {b} do not broadcast; sizes must be equal or 1, counted from the last axis"
        ))),
        (Some(n), None) | (None, Some(n)) => Ok(Some(n)),
        (None, None) => Ok(None),
    });
    Ok(Dims(Some(dims.collect::<Result<_>>()?)))
}

/// The same for shapes that are known.
pub fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Shape> {
    let rank = a.len().max(b.len());
    let at = |d: &[usize], i: usize| (i + d.len()).checked_sub(rank).map_or(1, |i| d[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (1, d) | (d, 1) => Some(d),
            (m, n) => (m == n).then_some(m),
        })
        .collect()
}

fn broadcast_or_fail(a: &[usize], b: &[usize]) -> Result<Shape> {
    broadcast_shape(a, b).ok_or_else(|| Error::data(format!("shapes {a:?} and {b:?} do not broadcast")))
}

/// A kernel of tensors that broadcast against each other.
pub struct Elementwise(Box<dyn Fn(Tensors) -> Result<Tensor> + Send + Sync>);

impl Elementwise {
    pub fn new(f: impl Fn(Tensors) -> Result<Tensor> + Send + Sync + 'static) -> Elementwise {
        Elementwise(Box::new(f))
    }
}

impl Kernel for Elementwise {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        Ok(Value::Tensor((self.0)(args.iter().map(|v| v.tensor().clone()).collect())?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, at: RowsAt<'_>) -> Result<Option<Column>> {
        let mut rank = 0;
        let mut varies = false;
        let mut inner = Some(Shape::new());
        for arg in &*args {
            let shape = match arg {
                Arg::Rows(Column::Dense(t)) => {
                    varies = true;
                    &t.shape()[1..]
                }
                Arg::Same(Value::Tensor(t)) => t.shape(),
                _ => return Ok(None),
            };
            rank = rank.max(shape.len());
            inner = inner.and_then(|s| broadcast_shape(&s, shape));
        }
        if inner.is_none() {
            return Ok(None); // The first row says which shapes do not fit.
        }
        if !varies {
            if rows == 0 {
                return Ok(None);
            }
            let values: SmallVec<[Value; 3]> = args.iter().map(|a| a.get(0)).collect();
            return Ok(Some(Column::repeated(&self.row(&values, at.row(0))?, rows)));
        }
        let tensors = args.iter_mut().map(|a| match std::mem::replace(a, Arg::Same(Value::Absent)) {
            Arg::Rows(Column::Dense(t)) if t.rank() < rank + 1 => {
                let mut shape: Shape = smallvec![t.shape()[0]];
                shape.extend(std::iter::repeat_n(1, rank + 1 - t.rank()));
                shape.extend_from_slice(&t.shape()[1..]);
                t.into_reshaped(shape)
            }
            Arg::Rows(Column::Dense(t)) | Arg::Same(Value::Tensor(t)) => t,
            _ => unreachable!("checked above"),
        });
        Ok(Some(Column::Dense((self.0)(tensors.collect())?)))
    }

    fn overwrites(&self) -> bool {
        true
    }
}

/// An axis of a result, and which operands walk along it (the others stay).
#[derive(Clone, Copy, PartialEq, Debug)]
struct Axis {
    size: usize,
    walks: [bool; 2],
}

/// The axes of a result, merged where both operands behave alike: equal shapes and scalars give a single axis.
fn axes(a: &[usize], b: &[usize], out: &[usize]) -> SmallVec<[Axis; 4]> {
    let at = |d: &[usize], i: usize| (i + d.len()).checked_sub(out.len()).map_or(1, |i| d[i]);
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    for (i, &size) in out.iter().enumerate().filter(|(_, d)| **d != 1) {
        let walks = [at(a, i) != 1, at(b, i) != 1];
        match axes.last_mut() {
            Some(last) if last.walks == walks => last.size *= size,
            _ => axes.push(Axis { size, walks }),
        }
    }
    axes
}

/// Calls `f` with the items at which each operand's next run begins, for every run of the last axis.
fn runs(axes: &[Axis], f: &mut dyn FnMut(usize, usize)) {
    let Some((last, outer)) = axes.split_last() else { return f(0, 0) };
    let mut strides: SmallVec<[[usize; 2]; 4]> = smallvec![[0; 2]; outer.len()];
    let mut inside = last.walks.map(|w| if w { last.size } else { 1 });
    for (axis, stride) in outer.iter().zip(&mut strides).rev() {
        for k in 0..2 {
            if axis.walks[k] {
                stride[k] = inside[k];
                inside[k] *= axis.size;
            }
        }
    }
    let mut index: SmallVec<[usize; 4]> = smallvec![0; outer.len()];
    let mut offset = [0usize; 2];
    loop {
        f(offset[0], offset[1]);
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            offset[0] += strides[axis][0];
            offset[1] += strides[axis][1];
            if index[axis] < outer[axis].size {
                break;
            }
            offset[0] -= strides[axis][0] * index[axis];
            offset[1] -= strides[axis][1] * index[axis];
            index[axis] = 0;
        }
    }
}

/// Short last axes (colour channels) make short runs. An operand that repeats along the axis before the last is written
/// out a number of times first, so that runs become long.
const SHORT: usize = 64;
const LONG: usize = 1024;

/// A run of pairs of items and where their results go. Only the loops over runs exist once for each function and dtype;
/// everything around them is shared.
pub enum Run<'a, T, U> {
    Pairs(&'a [T], &'a [T], &'a mut [U]),
    Right(&'a [T], T, &'a mut [U]),
    Left(T, &'a [T], &'a mut [U]),
}
/// A run whose results are written over one of the operands.
pub enum Over<'a, T> {
    Pairs(&'a mut [T], &'a [T]),
    Right(&'a mut [T], T),
    Left(T, &'a mut [T]),
}

#[inline(always)]
fn run_with<T: Item, U: Item>(run: Run<'_, T, U>, f: impl Fn(T, T) -> U) {
    match run {
        Run::Pairs(a, b, to) => {
            let n = to.len();
            let (a, b) = (&a[..n], &b[..n]);
            for i in 0..n {
                to[i] = f(a[i], b[i]);
            }
        }
        Run::Right(a, b, to) => {
            let a = &a[..to.len()];
            for i in 0..to.len() {
                to[i] = f(a[i], b);
            }
        }
        Run::Left(a, b, to) => {
            let b = &b[..to.len()];
            for i in 0..to.len() {
                to[i] = f(a, b[i]);
            }
        }
    }
}

#[inline(always)]
fn over_with<T: Item>(over: Over<'_, T>, f: impl Fn(T, T) -> T) {
    match over {
        Over::Pairs(to, b) => {
            let b = &b[..to.len()];
            for i in 0..to.len() {
                to[i] = f(to[i], b[i]);
            }
        }
        Over::Right(to, b) => {
            for x in to {
                *x = f(*x, b);
            }
        }
        Over::Left(a, to) => {
            for x in to {
                *x = f(a, *x);
            }
        }
    }
}

/// `f` of every pair of items.
pub fn zip<T: Item, U: Item>(a: &Tensor, b: &Tensor, f: impl Fn(T, T) -> U) -> Result<Tensor> {
    zip_runs(a, b, &|run| wide(|| run_with(run, &f)))
}

/// `f` of every pair of items, written over an operand where that memory has the right size and nobody else holds it.
pub fn zip_same<T: Item>(a: Tensor, b: Tensor, f: impl Fn(T, T) -> T) -> Result<Tensor> {
    zip_over(a, b, &|run| wide(|| run_with(run, &f)), &|over| wide(|| over_with(over, &f)))
}

fn zip_runs<T: Item, U: Item>(a: &Tensor, b: &Tensor, f: &dyn Fn(Run<'_, T, U>)) -> Result<Tensor> {
    let shape = broadcast_or_fail(a.shape(), b.shape())?;
    let mut out = room(U::DTYPE, &shape)?;
    if !out.is_empty() {
        let axes = axes(a.shape(), b.shape(), &shape);
        zip_slices(&axes, a.items(), b.items(), out.items_mut(), f);
    }
    Ok(out)
}

fn zip_slices<T: Item, U: Item>(axes: &[Axis], a: &[T], b: &[T], out: &mut [U], f: &dyn Fn(Run<'_, T, U>)) {
    if let Some(main) = uneven(axes) {
        let [first, rest] = [main, axes[0].size - main].map(|size| [Axis { size, ..axes[0] }, axes[1]]);
        let (to, more) = out.split_at_mut(main * axes[1].size);
        zip_slices(&first, a, b, to, f);
        return zip_slices(&rest, &a[passed(axes, 0, main)..], &b[passed(axes, 1, main)..], more, f);
    }
    if let Some((axes, k, wide)) = widened(axes, [a, b]) {
        let (a, b) = if k == 0 { (&wide[..], b) } else { (a, &wide[..]) };
        return zip_slices(&axes, a, b, out, f);
    }
    let last = last_of(axes);
    let n = last.size;
    let mut to = out.chunks_exact_mut(n);
    runs(axes, &mut |i, j| {
        let Some(to) = to.next() else { return };
        f(match last.walks {
            [true, true] => Run::Pairs(&a[i..i + n], &b[j..j + n], to),
            [true, false] => Run::Right(&a[i..i + n], b[j], to),
            _ => Run::Left(a[i], &b[j..j + n], to),
        })
    });
}

fn zip_over<T: Item>(
    mut a: Tensor,
    mut b: Tensor,
    f: &dyn Fn(Run<'_, T, T>),
    over: &dyn Fn(Over<'_, T>),
) -> Result<Tensor> {
    let shape = broadcast_or_fail(a.shape(), b.shape())?;
    let fits = |t: &Tensor| t.is_unique() && t.shape() == &shape[..];
    if fits(&a) {
        if !a.is_empty() {
            over_slices(&axes(&shape, b.shape(), &shape), a.items_mut(), b.items(), over);
        }
        return Ok(a);
    }
    if fits(&b) && a.len() == 1 && !b.is_empty() {
        over(Over::Left(a.item(), b.items_mut()));
        return Ok(b);
    }
    zip_runs(&a, &b, f)
}

fn over_slices<T: Item>(axes: &[Axis], to: &mut [T], from: &[T], f: &dyn Fn(Over<'_, T>)) {
    if let Some(main) = uneven(axes) {
        let [first, rest] = [main, axes[0].size - main].map(|size| [Axis { size, ..axes[0] }, axes[1]]);
        let (to, more) = to.split_at_mut(main * axes[1].size);
        over_slices(&first, to, from, f);
        return over_slices(&rest, more, &from[passed(axes, 1, main)..], f);
    }
    if let Some((axes, 1, wide)) = widened(axes, [&*to, from]) {
        return over_slices(&axes, to, &wide, f);
    }
    let last = last_of(axes);
    let mut to = to.chunks_exact_mut(last.size);
    runs(axes, &mut |_, j| {
        let Some(to) = to.next() else { return };
        f(match last.walks[1] {
            true => Over::Pairs(to, &from[j..j + last.size]),
            false => Over::Right(to, from[j]),
        })
    });
}

fn last_of(axes: &[Axis]) -> Axis {
    axes.last().copied().unwrap_or(Axis { size: 1, walks: [true; 2] })
}

/// Where to cut the first of two axes so that its larger part can be widened well: its size may have no good divisor.
fn uneven(axes: &[Axis]) -> Option<usize> {
    let [before, last] = axes else { return None };
    let most = LONG / last.size.max(1);
    if last.size >= SHORT || before.walks == [true, true] || before.size <= most {
        return None;
    }
    let even = (most / 2..=most).any(|t| before.size.is_multiple_of(t));
    (!even).then_some(before.size / most * most)
}

/// The items of an operand that lie before step `n` of the first of two axes.
fn passed(axes: &[Axis], operand: usize, n: usize) -> usize {
    match (axes[0].walks[operand], axes[1].walks[operand]) {
        (false, _) => 0,
        (true, false) => n,
        (true, true) => n * axes[1].size,
    }
}

/// Axes with a longer last axis and the operand (by number) that was written out for it, if that pays.
fn widened<T: Item>(axes: &[Axis], items: [&[T]; 2]) -> Option<(SmallVec<[Axis; 4]>, usize, Vec<T>)> {
    let [outer @ .., before, last] = axes else { return None };
    if last.size >= SHORT || before.size < 2 {
        return None;
    }
    // One operand walks along both axes, the other repeats: along the axis before the last, or along the last one.
    let k = match (before.walks, last.walks) {
        ([true, false], [true, _]) | ([true, true], [true, false]) => 1,
        ([false, true], [_, true]) | ([true, true], [false, true]) => 0,
        _ => return None,
    };
    let both = [true, true];
    let mut axes: SmallVec<[Axis; 4]> = outer.into();
    if before.walks == both {
        // `[n, 3]` with `[n, 1]`: every item is written `last.size` times.
        let wide = items[k].iter().flat_map(|x| std::iter::repeat_n(*x, last.size)).collect();
        let merged = Axis { size: before.size * last.size, walks: both };
        match axes.last_mut() {
            Some(axis) if axis.walks == both => axis.size *= merged.size,
            _ => axes.push(merged),
        }
        return Some((axes, k, wide));
    }
    // `[n, 3]` with `[3]`: the run is written `times` times, with `times` a divisor of n.
    let most = (LONG / last.size).min(before.size);
    let times = (2..=most).rev().find(|t| before.size.is_multiple_of(*t))?;
    let run = if last.walks[k] { last.size } else { 1 };
    let mut wide = Vec::with_capacity(items[k].len() * times);
    for part in items[k].chunks_exact(run) {
        (0..times).for_each(|_| wide.extend_from_slice(part));
    }
    if before.size > times {
        axes.push(Axis { size: before.size / times, walks: before.walks });
    }
    axes.push(Axis { size: times * last.size, walks: if last.walks[k] { both } else { last.walks } });
    Some((axes, k, wide))
}

/// `f` of every item.
pub fn map<T: Item, U: Item>(t: &Tensor, f: impl Fn(T) -> U) -> Result<Tensor> {
    let mut out = room(U::DTYPE, t.shape())?;
    let to = out.items_mut::<U>();
    let from = &t.items::<T>()[..to.len()];
    wide(|| {
        for i in 0..to.len() {
            to[i] = f(from[i]);
        }
    });
    Ok(out)
}

/// `f` of every item, written over the tensor if nobody else holds it.
pub fn map_same<T: Item>(mut t: Tensor, f: impl Fn(T) -> T) -> Result<Tensor> {
    if !t.is_unique() {
        return map(&t, f);
    }
    let items = t.items_mut::<T>();
    wide(|| {
        for x in items {
            *x = f(*x);
        }
    });
    Ok(t)
}

/// Calls `f` with the item numbers of both operands, in the order of the result, and says the result's shape.
pub fn zip_index(a: &[usize], b: &[usize], mut f: impl FnMut(usize, usize)) -> Result<Shape> {
    let shape = broadcast_or_fail(a, b)?;
    check_room(DType::String, &shape)?;
    if shape.iter().product::<usize>() > 0 {
        let axes = axes(a, b, &shape);
        let last = last_of(&axes);
        let step = last.walks.map(usize::from);
        runs(&axes, &mut |i, j| (0..last.size).for_each(|k| f(i + k * step[0], j + k * step[1])));
    }
    Ok(shape)
}

/// `f` of every pair of strings.
pub fn zip_strings<U: Item>(a: &Tensor, b: &Tensor, f: impl Fn(&[u8], &[u8]) -> U) -> Result<Tensor> {
    let mut out = Vec::new();
    let shape = zip_index(a.shape(), b.shape(), |i, j| out.push(f(a.str_at(i), b.str_at(j))))?;
    Ok(Tensor::from_items(shape, &out))
}

/// Strings made from pairs of strings.
pub fn build_strings(a: &Tensor, b: &Tensor, f: impl Fn(&[u8], &[u8], &mut Vec<u8>)) -> Result<Tensor> {
    let mut out = StringsBuilder::default();
    let mut text = Vec::new();
    let shape = zip_index(a.shape(), b.shape(), |i, j| {
        text.clear();
        f(a.str_at(i), b.str_at(j), &mut text);
        out.push(&text);
    })?;
    Ok(out.tensor(shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dims_broadcast() {
        let d = |v: &[i64]| Dims::of(v.iter().map(|&d| usize::try_from(d).ok()));
        let ok = |a: &[i64], b: &[i64]| broadcast_dims(&d(a), &d(b)).unwrap();
        assert_eq!(ok(&[2, 1], &[3]), d(&[2, 3]));
        assert_eq!(ok(&[-1, 1], &[3]), d(&[-1, 3]));
        assert_eq!(ok(&[-1], &[1]), d(&[-1]));
        assert_eq!(ok(&[-1], &[0]), d(&[0]));
        assert_eq!(ok(&[], &[-1, 2]), d(&[-1, 2]));
        assert!(broadcast_dims(&d(&[2]), &d(&[3])).is_err());
    }

    #[test]
    fn huge_shapes_are_refused() {
        assert!(room(DType::Float32, &[1 << 40, 1 << 20]).is_err());
        assert!(room(DType::Float32, &[0, usize::MAX, 2]).is_err());
        assert!(room(DType::Float32, &[1 << 50]).is_err());
        assert!(room(DType::Float32, &[0, 5]).is_ok());
    }

    /// Items by the book: every index of the result looked up in both operands.
    fn slow(a: &Tensor, b: &Tensor) -> Option<Vec<i64>> {
        let shape = broadcast_shape(a.shape(), b.shape())?;
        let pick = |t: &Tensor, mut n: usize| {
            let (mut at, mut step) = (0, 1);
            let rank = t.rank();
            for (k, &d) in shape.iter().rev().enumerate() {
                let i = n % d;
                n /= d;
                if k < rank {
                    let own = t.shape()[rank - 1 - k];
                    at += if own == 1 { 0 } else { i * step };
                    step *= own;
                }
            }
            t.items::<i64>()[at]
        };
        Some((0..shape.iter().product()).map(|n| pick(a, n) - 3 * pick(b, n)).collect())
    }

    #[test]
    fn short_axes_of_any_count() {
        for n in [1, 2, 5, 341, 342, 683, 1023, 1031, 4099] {
            let a = Tensor::from_items([n, 3], &(0..3 * n as i64).collect::<Vec<_>>());
            let b = Tensor::from_items([3], &[5i64, -7, 100]);
            let c = Tensor::from_items([n, 1], &(0..n as i64).map(|i| i * i).collect::<Vec<_>>());
            for other in [b, c] {
                let f = |x: i64, y: i64| x - 3 * y;
                assert_eq!(zip(&a, &other, f).unwrap().items::<i64>(), slow(&a, &other).unwrap());
                assert_eq!(zip(&other, &a, f).unwrap().items::<i64>(), slow(&other, &a).unwrap());
                let own = Tensor::from_items(a.shape(), a.items::<i64>());
                assert_eq!(zip_same(own, other.clone(), f).unwrap().items::<i64>(), slow(&a, &other).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn loops_agree_with_the_book(
            dims in prop::collection::vec((1usize..9, any::<bool>(), any::<bool>()), 0..5),
            drop_a in 0usize..3, drop_b in 0usize..3, unique: bool,
        ) {
            let make = |keep: &dyn Fn(&(usize, bool, bool)) -> bool, drop: usize, seed: i64| {
                let shape: Shape = dims.iter().skip(drop).map(|d| if keep(d) { d.0 } else { 1 }).collect();
                let n: usize = shape.iter().product();
                Tensor::from_items(shape, &(0..n as i64).map(|i| i * 7 + seed).collect::<Vec<_>>())
            };
            let a = make(&|d| d.1, drop_a, 1);
            let b = make(&|d| d.2, drop_b, 5);
            let want = slow(&a, &b).unwrap();
            let got = zip(&a, &b, |x: i64, y: i64| x - 3 * y).unwrap();
            prop_assert_eq!(got.items::<i64>(), &want[..]);
            let hold = (!unique).then(|| (a.clone(), b.clone()));
            let got = zip_same(a, b, |x: i64, y: i64| x - 3 * y).unwrap();
            prop_assert_eq!(got.items::<i64>(), &want[..]);
            drop(hold);
        }
    }
}
