//! Work on whole tensors along axes: one function serves a single element and, with an axis of rows in front, a chunk.

use super::super::{Arg, Kernel, RowAt, RowsAt};
use super::broadcast::{Tensors, check_room};
use crate::element::{Column, DType, Dims, Shape, Tensor, Value};
use crate::error::{Error, Result};
use feedline_io::Counted;
use smallvec::{SmallVec, smallvec};

/// A kernel of tensors with `lead` axes in front that it must leave alone: none for one element, one for many rows.
/// Axes are counted after those.
pub struct Lead(Along);

type Along = Box<dyn Fn(&[Tensor], usize) -> Result<Tensor> + Send + Sync>;

impl Lead {
    pub fn new(f: impl Fn(&[Tensor], usize) -> Result<Tensor> + Send + Sync + 'static) -> Lead {
        Lead(Box::new(f))
    }
}

impl Kernel for Lead {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let tensors: Tensors = args.iter().map(|v| v.tensor().clone()).collect();
        Ok(Value::Tensor((self.0)(&tensors, 0)?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        if rows == 0 || !args.iter().any(|a| matches!(a, Arg::Rows(_))) {
            return Ok(None);
        }
        let mut tensors = Tensors::new();
        for arg in &*args {
            tensors.push(match arg {
                Arg::Rows(Column::Dense(t)) => t.clone(),
                Arg::Same(Value::Tensor(t)) => match repeated(t, rows) {
                    Ok(t) => t,
                    Err(_) => return Ok(None),
                },
                _ => return Ok(None),
            });
        }
        // A failure is found again row by row, where it concerns one element and shapes are the user's.
        Ok((self.0)(&tensors, 1).ok().map(Column::Dense))
    }
}

/// A kernel whose first argument varies while the others must be the same for all rows; otherwise row by row.
pub struct LeadFirst(Along);

impl LeadFirst {
    pub fn new(f: impl Fn(&[Tensor], usize) -> Result<Tensor> + Send + Sync + 'static) -> LeadFirst {
        LeadFirst(Box::new(f))
    }
}

impl Kernel for LeadFirst {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let tensors: Tensors = args.iter().map(|v| v.tensor().clone()).collect();
        Ok(Value::Tensor((self.0)(&tensors, 0)?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let mut tensors = Tensors::new();
        for (i, arg) in args.iter().enumerate() {
            match arg {
                Arg::Rows(Column::Dense(t)) if i == 0 && rows > 0 => tensors.push(t.clone()),
                Arg::Same(Value::Tensor(t)) if i > 0 => tensors.push(t.clone()),
                _ => return Ok(None),
            }
        }
        Ok((self.0)(&tensors, 1).ok().map(Column::Dense))
    }
}

/// The same tensor for each of many rows.
fn repeated(t: &Tensor, rows: usize) -> Result<Tensor> {
    let mut shape: Shape = smallvec![rows];
    shape.extend_from_slice(t.shape());
    check_room(t.dtype(), &shape)?;
    Ok(Tensor::join(t.dtype(), shape, std::iter::repeat_n(t, rows)))
}

/// An axis counted from the front. `rank` is the number of places it can take.
pub fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let n = rank as i64;
    (-n <= axis && axis < n).then(|| (if axis < 0 { axis + n } else { axis }) as usize)
}

/// The same, checked against a partly known shape when a function is traced.
pub fn check_axis(axis: i64, shape: &Dims) -> Result<()> {
    match shape.rank() {
        Some(rank) if axis_of(axis, rank).is_none() => Err(Error::usage(format!(
            "axis {axis} does not exist in shape {shape}; it must lie in {}..={}",
            -(rank as i64),
            rank as i64 - 1
        ))),
        _ => Ok(()),
    }
}

/// The place of an axis among all axes of a tensor, or an error for this element.
pub fn axis_in(axis: i64, t: &Tensor, lead: usize) -> Result<usize> {
    let rank = t.rank() - lead;
    axis_of(axis, rank)
        .map(|a| a + lead)
        .ok_or_else(|| Error::data(format!("axis {axis} does not exist in a tensor of shape {:?}", &t.shape()[lead..])))
}

/// A way to read a tensor in another order: for each axis of the result its size and how far one step goes.
pub struct View {
    pub start: usize,
    pub axes: SmallVec<[(usize, isize); 6]>,
}

/// Items from one step along each axis to the next.
pub fn strides(shape: &[usize]) -> SmallVec<[isize; 6]> {
    let mut strides = smallvec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i] as isize;
    }
    strides
}

impl View {
    /// The tensor as it lies.
    pub fn of(t: &Tensor) -> View {
        View { start: 0, axes: t.shape().iter().copied().zip(strides(t.shape())).collect() }
    }
    pub fn shape(&self) -> Shape {
        self.axes.iter().map(|a| a.0).collect()
    }
    /// Axes that continue each other become one; those of one step disappear.
    fn merged(&self) -> SmallVec<[(usize, isize); 6]> {
        let mut merged: SmallVec<[(usize, isize); 6]> = SmallVec::new();
        for &(size, step) in self.axes.iter().filter(|a| a.0 != 1) {
            match merged.last_mut() {
                Some((n, outer)) if *outer == step * size as isize => {
                    *n *= size;
                    *outer = step;
                }
                _ => merged.push((size, step)),
            }
        }
        merged
    }
    /// Copies what the view shows. Every place it shows lies inside the tensor: callers see to that.
    pub fn copy(&self, t: &Tensor) -> Result<Tensor> {
        let shape = self.shape();
        check_room(t.dtype(), &shape)?;
        let axes = self.merged();
        let n: usize = shape.iter().product();
        if n == 0 {
            return Ok(Tensor::zeros(t.dtype(), shape));
        }
        if t.dtype() == DType::String {
            let mut index = Vec::with_capacity(n);
            walk(&axes, self.start, &mut |i| index.push(i));
            return Ok(t.reshaped([t.len()]).take(&index).into_reshaped(shape));
        }
        if n == t.len() && self.start == 0 && matches!(axes.as_slice(), [] | [(_, 1)]) {
            return Ok(t.reshaped(shape));
        }
        let mut out = Tensor::new(t.dtype(), shape);
        let (axes, start, times) = units(axes, self.start, t.dtype().size());
        let (from, to) = (t.bytes(), out.bytes_mut());
        match t.dtype().size() * times {
            1 => copy_items::<1>(&axes, start, from, to),
            2 => copy_items::<2>(&axes, start, from, to),
            3 => copy_items::<3>(&axes, start, from, to),
            4 => copy_items::<4>(&axes, start, from, to),
            6 => copy_items::<6>(&axes, start, from, to),
            12 => copy_items::<12>(&axes, start, from, to),
            16 => copy_items::<16>(&axes, start, from, to),
            _ => copy_items::<8>(&axes, start, from, to),
        }
        Ok(out)
    }
}

/// A short last axis that lies as it is (colour channels) becomes part of the item, so that runs become longer: the axes
/// counted in such units, and how many items make one.
fn units(
    mut axes: SmallVec<[(usize, isize); 6]>,
    start: usize,
    size: usize,
) -> (SmallVec<[(usize, isize); 6]>, usize, usize) {
    let Some(&(n, 1)) = axes.last() else { return (axes, start, 1) };
    let even = |step: isize| step.unsigned_abs().is_multiple_of(n);
    let known = [2, 3, 4, 6, 8, 12, 16].contains(&(size * n));
    if !known || axes.len() < 2 || !start.is_multiple_of(n) || !axes[..axes.len() - 1].iter().all(|a| even(a.1)) {
        return (axes, start, 1);
    }
    axes.pop();
    axes.iter_mut().for_each(|a| a.1 /= n as isize);
    (axes, start / n, n)
}

/// The tensor repeated along axes of size 1 (and new ones in front) until it has that shape.
pub fn broadcast_to(t: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if t.shape() == shape {
        return Ok(t.clone());
    }
    let fail = || Error::data(format!("a tensor of shape {:?} does not broadcast to {shape:?}", t.shape()));
    let new = shape.len().checked_sub(t.rank()).ok_or_else(fail)?;
    let own = strides(t.shape());
    let axes = shape.iter().enumerate().map(|(i, &d)| match i.checked_sub(new) {
        None => Ok((d, 0)),
        Some(i) if t.shape()[i] == d => Ok((d, own[i])),
        Some(i) if t.shape()[i] == 1 => Ok((d, 0)),
        Some(_) => Err(fail()),
    });
    View { start: 0, axes: axes.collect::<Result<_>>()? }.copy(t)
}

/// Steps `index` along an axis, one after the other. They must lie inside.
pub fn take_axis(t: &Tensor, axis: usize, index: &[usize]) -> Result<Tensor> {
    let mut shape: Shape = t.shape().into();
    let n = std::mem::replace(&mut shape[axis], index.len());
    check_room(t.dtype(), &shape)?;
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    if outer * inner * index.len() == 0 {
        return Ok(Tensor::zeros(t.dtype(), shape));
    }
    let lines = t.reshaped([outer * n, inner]);
    if outer == 1 {
        return Ok(lines.take(index).into_reshaped(shape));
    }
    let mut all = Counted::with_capacity(outer * index.len());
    (0..outer).for_each(|o| all.extend(index.iter().map(|i| o * n + i)));
    Ok(lines.take(&all).into_reshaped(shape))
}

/// Tensors one after the other along an axis. Their other sizes must be equal.
pub fn concat(parts: &[Tensor], axis: usize) -> Result<Tensor> {
    let first = &parts[0];
    let mut shape: Shape = first.shape().into();
    shape[axis] = 0;
    for t in parts {
        let same = t.rank() == shape.len() && (0..t.rank()).all(|i| i == axis || t.shape()[i] == shape[i]);
        if !same {
            return Err(Error::data(format!(
                "shapes {:?} and {:?} cannot be joined: they differ in more than the axis",
                first.shape(),
                t.shape()
            )));
        }
        shape[axis] = shape[axis].checked_add(t.shape()[axis]).ok_or_else(|| Error::data("the result is too large"))?;
    }
    check_room(first.dtype(), &shape)?;
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    if outer <= 1 {
        return Ok(Tensor::join(first.dtype(), shape, parts.iter()));
    }
    if first.dtype() == DType::String {
        let total: usize = parts.iter().map(|t| t.len()).sum();
        let all = Tensor::join(DType::String, [total], parts.iter());
        let mut index = Vec::with_capacity(total);
        for o in 0..outer {
            let mut base = 0;
            for t in parts {
                let n = t.shape()[axis] * inner;
                index.extend(base + o * n..base + (o + 1) * n);
                base += t.len();
            }
        }
        return Ok(all.take(&index).into_reshaped(shape));
    }
    let mut out = Tensor::new(first.dtype(), shape);
    let size = first.dtype().size();
    let row = out.len() / outer * size;
    if row == 0 {
        return Ok(out);
    }
    let mut at = 0;
    let to = out.bytes_mut();
    for t in parts {
        let n = t.shape()[axis] * inner * size;
        if n > 0 {
            for (o, from) in t.bytes().chunks_exact(n).enumerate() {
                to[o * row + at..o * row + at + n].copy_from_slice(from);
            }
        }
        at += n;
    }
    Ok(out)
}

/// Calls `f` with the place of every item, in order.
fn walk(axes: &[(usize, isize)], start: usize, f: &mut impl FnMut(usize)) {
    match axes {
        [] => f(start),
        [(size, step)] => (0..*size as isize).for_each(|i| f(start.wrapping_add_signed(i * step))),
        [(size, step), rest @ ..] => {
            (0..*size as isize).for_each(|i| walk(rest, start.wrapping_add_signed(i * step), f))
        }
    }
}

fn copy_items<const N: usize>(axes: &[(usize, isize)], start: usize, from: &[u8], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    let (outer, last) = match axes {
        [outer @ .., last] => (outer, *last),
        [] => (axes, (1, 1)),
    };
    let mut to = to.chunks_exact_mut(last.0);
    walk(outer, start, &mut |at| {
        let Some(to) = to.next() else { return };
        match last.1 {
            1 => to.copy_from_slice(&from[at..at + to.len()]),
            0 => to.fill(from[at]),
            // A step that goes back, or over others; the index check keeps even a wrong view harmless.
            step => to.iter_mut().enumerate().for_each(|(i, o)| *o = from[at.wrapping_add_signed(i as isize * step)]),
        }
    });
}

/// A small integer tensor (a shape, indices) as numbers, whatever its integer dtype.
pub fn integers(t: &Tensor) -> Result<Vec<i64>> {
    Ok(match t.dtype() {
        DType::Int64 => t.items::<i64>().to_vec(),
        DType::Int32 => t.items::<i32>().iter().map(|&i| i.into()).collect(),
        DType::Int16 => t.items::<i16>().iter().map(|&i| i.into()).collect(),
        DType::Int8 => t.items::<i8>().iter().map(|&i| i.into()).collect(),
        DType::Uint8 => t.items::<u8>().iter().map(|&i| i.into()).collect(),
        DType::Uint16 => t.items::<u16>().iter().map(|&i| i.into()).collect(),
        DType::Uint32 => t.items::<u32>().iter().map(|&i| i.into()).collect(),
        // Too large for any size or index: it stays too large.
        DType::Uint64 => t.items::<u64>().iter().map(|&i| i64::try_from(i).unwrap_or(i64::MAX)).collect(),
        d => return Err(Error::internal(format!("integers expected, not {d}"))),
    })
}

/// Refuses an argument that is not an integer tensor, when a function is traced.
pub fn check_integers(what: &str, dtype: DType) -> Result<()> {
    if dtype.is_int() {
        return Ok(());
    }
    Err(Error::usage(format!("{what} must be integers, not {dtype}; cast to int64 first")))
}

/// Sizes from a tensor of integers, or an error for this element.
pub fn sizes(t: &Tensor) -> Result<Shape> {
    integers(t)?
        .into_iter()
        .map(|d| usize::try_from(d).map_err(|_| Error::data(format!("a size cannot be negative, but is {d}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_copy_in_any_order() {
        let t = Tensor::from_items([2, 3], &[1i32, 2, 3, 4, 5, 6]);
        let transposed = View { start: 0, axes: smallvec![(3, 1), (2, 3)] };
        assert_eq!(transposed.copy(&t).unwrap(), Tensor::from_items([3, 2], &[1i32, 4, 2, 5, 3, 6]));
        let back = View { start: 5, axes: smallvec![(2, -3), (3, -1)] };
        assert_eq!(back.copy(&t).unwrap().items::<i32>(), [6, 5, 4, 3, 2, 1]);
        let s = Tensor::strings([2], &["a", "b"]);
        let spread = View { start: 0, axes: smallvec![(2, 1), (2, 0)] };
        assert_eq!(spread.copy(&s).unwrap(), Tensor::strings([2, 2], &["a", "a", "b", "b"]));
    }

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(axis_of(-1, 3), Some(2));
        assert_eq!(axis_of(2, 3), Some(2));
        assert_eq!(axis_of(3, 3), None);
        assert_eq!(axis_of(i64::MIN, 0), None);
    }
}
