//! The same items more often, in another order, or with a border.

use super::super::{Attrs, Func, Made, arity, dense};
use super::broadcast::{check_room, room};
use super::create::filled;
use super::lead::{
    Lead, LeadFirst, View, axis_in, axis_of, check_axis, check_integers, concat, integers, sizes, take_axis,
};
use crate::element::{DType, Dims, Leaf, Shape, Tensor};
use crate::error::{Error, Result};
use feedline_io::Counted;
use serde_json::Value as Json;

pub static FUNCS: &[Func] = &[
    Func { name: "tile", doc: "The whole tensor several times along each axis.", make: make_tile, pure: true },
    Func {
        name: "repeat",
        doc: "Each step along an axis several times; without an axis, each item.",
        make: make_repeat,
        pure: true,
    },
    Func { name: "reverse", doc: "Axes backwards.", make: make_reverse, pure: true },
    Func {
        name: "roll",
        doc: "Steps along axes moved on, those at the end coming in at the front.",
        make: make_roll,
        pure: true,
    },
    Func {
        name: "pad",
        doc: "A border: of a constant, or of the items mirrored with (SYMMETRIC) or without (REFLECT) the outermost ones.",
        make: make_pad,
        pure: true,
    },
];

fn counts(name: &str, list: Vec<i64>) -> Result<Vec<usize>> {
    list.iter()
        .map(|&n| usize::try_from(n).map_err(|_| Error::usage(format!("{name} cannot be negative, but is {n}"))))
        .collect()
}

fn tile(t: &Tensor, lead: usize, times: &[usize]) -> Result<Tensor> {
    let rank = t.rank() - lead;
    if times.len() != rank {
        return Err(Error::data(format!("{} multiples for a tensor of {rank} axes", times.len())));
    }
    let whole = View::of(t);
    let mut view = View { start: 0, axes: whole.axes[..lead].into() };
    let mut shape: Shape = t.shape()[..lead].into();
    for (i, &n) in times.iter().enumerate() {
        let axis = whole.axes[lead + i];
        view.axes.extend([(n, 0), axis]);
        shape.push(n.checked_mul(axis.0).ok_or_else(|| Error::data("the result is too large"))?);
    }
    Ok(view.copy(t)?.into_reshaped(shape))
}

fn make_tile(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = dense(args, 0)?;
    if let Some(times) = attrs.i64s("multiples")? {
        arity::<1>(args)?;
        let times = counts("multiples", times)?;
        if shape.rank().is_some_and(|r| r != times.len()) {
            return Err(Error::usage(format!("{} multiples for a tensor of shape {shape}", times.len())));
        }
        let dims = Dims::of((0..times.len()).map(|i| {
            let own = shape.dims().and_then(|d| d[i]);
            if times[i] == 0 { Some(0) } else { own.and_then(|d| d.checked_mul(times[i])) }
        }));
        let kernel = Lead::new(move |args: &[Tensor], lead: usize| tile(&args[0], lead, &times));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    check_integers("multiples", dense(args, 1)?.0)?;
    let kernel = LeadFirst::new(|args: &[Tensor], lead: usize| tile(&args[0], lead, &sizes(&args[1])?));
    Made::new(Leaf::tensor(dtype, Dims(shape.rank().map(|r| vec![None; r]))), kernel)
}

/// Each step along an axis as often as it should come; without an axis, the items.
fn repeat(t: &Tensor, lead: usize, times: &[usize], axis: Option<i64>) -> Result<Tensor> {
    let (t, axis) = match axis {
        Some(axis) => (t.clone(), axis_in(axis, t, lead)?),
        None => (flat(t, lead), lead),
    };
    let n = t.shape()[axis];
    let total = match times {
        [one] => n.checked_mul(*one).ok_or_else(|| Error::data("the result is too large"))?,
        times if times.len() == n => times.iter().try_fold(0usize, |a, b| a.checked_add(*b)).unwrap_or(usize::MAX),
        times => return Err(Error::data(format!("{} repeats for an axis of size {n}", times.len()))),
    };
    let index_bytes = check_room(DType::Int64, &[total])?;
    let mut shape: Shape = t.shape().into();
    shape[axis] = total;
    // Where each step comes from lies beside the result.
    feedline_io::ask(check_room(t.dtype(), &shape)?.saturating_add(index_bytes));
    let mut index = Counted::with_capacity(total);
    (0..n).for_each(|i| index.extend(std::iter::repeat_n(i, times[if times.len() == 1 { 0 } else { i }])));
    take_axis(&t, axis, &index)
}

/// All axes after the rows as one.
fn flat(t: &Tensor, lead: usize) -> Tensor {
    let mut shape: Shape = t.shape()[..lead].into();
    shape.push(t.shape()[lead..].iter().product());
    t.reshaped(shape)
}

fn make_repeat(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = dense(args, 0)?;
    let axis = attrs.i64("axis")?;
    if let Some(axis) = axis {
        check_axis(axis, shape)?;
    }
    let resized = |f: &dyn Fn(Option<usize>) -> Option<usize>| match (axis, shape.dims()) {
        (None, _) => Dims::of([f(shape.full().and_then(|s| s.iter().try_fold(1usize, |a, b| a.checked_mul(*b))))]),
        (Some(_), None) => Dims::unknown(),
        (Some(axis), Some(d)) => {
            let mut d = d.to_vec();
            if let Some(i) = axis_of(axis, d.len()) {
                d[i] = f(d[i]);
            }
            Dims(Some(d))
        }
    };
    if let Some(times) = attrs.i64s("repeats")? {
        arity::<1>(args)?;
        let times = counts("repeats", times)?;
        let dims = resized(&|n| match times.as_slice() {
            [one] => n.and_then(|n| n.checked_mul(*one)),
            all => all.iter().try_fold(0usize, |a, b| a.checked_add(*b)),
        });
        let kernel = Lead::new(move |args: &[Tensor], lead: usize| repeat(&args[0], lead, &times, axis));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    check_integers("repeats", dense(args, 1)?.0)?;
    let kernel = LeadFirst::new(move |args: &[Tensor], lead: usize| repeat(&args[0], lead, &sizes(&args[1])?, axis));
    Made::new(Leaf::tensor(dtype, resized(&|_| None)), kernel)
}

fn make_reverse(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let axes = attrs.i64s("axis")?.unwrap_or_else(|| vec![0]);
    axes.iter().try_for_each(|a| check_axis(*a, shape))?;
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        if t.is_empty() {
            return Ok(t.clone());
        }
        let mut view = View::of(t);
        let mut turned: Vec<usize> = axes.iter().map(|a| axis_in(*a, t, lead)).collect::<Result<_>>()?;
        turned.sort();
        turned.dedup();
        for i in turned {
            let (n, stride) = view.axes[i];
            view.start += (n - 1) * stride as usize;
            view.axes[i].1 = -stride;
        }
        view.copy(t)
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

fn make_roll(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let shifts = attrs.need("shift", attrs.i64s("shift")?)?;
    let axes = attrs.i64s("axis")?;
    if axes.as_ref().map_or(1, |a| a.len()) != shifts.len() {
        return Err(Error::usage("shift and axis must have the same length"));
    }
    axes.iter().flatten().try_for_each(|a| check_axis(*a, shape))?;
    fn roll(t: &Tensor, axis: usize, shift: i64) -> Result<Tensor> {
        let n = t.shape()[axis];
        if n == 0 {
            return Ok(t.clone());
        }
        let back = n - shift.rem_euclid(n as i64) as usize;
        take_axis(t, axis, &(0..n).map(|i| (i + back) % n).collect::<Vec<_>>())
    }
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let Some(axes) = &axes else {
            return Ok(roll(&flat(t, lead), lead, shifts[0])?.into_reshaped(t.shape()));
        };
        axes.iter().zip(&shifts).try_fold(t.clone(), |t, (axis, shift)| roll(&t, axis_in(*axis, &t, lead)?, *shift))
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Symmetric,
}

fn make_pad(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = dense(args, 0)?;
    let mode = match attrs.str("mode")?.unwrap_or("CONSTANT").to_ascii_uppercase().as_str() {
        "CONSTANT" => Mode::Constant,
        "REFLECT" => Mode::Reflect,
        "SYMMETRIC" => Mode::Symmetric,
        other => return Err(Error::usage(format!("mode must be CONSTANT, REFLECT or SYMMETRIC, not {other:?}"))),
    };
    let value = match attrs.get("constant_value") {
        Some(v) => super::create::item(dtype, v)?,
        None => Tensor::zeros(dtype, []),
    };
    let pad = move |t: &Tensor, lead: usize, borders: &[(usize, usize)]| -> Result<Tensor> {
        let rank = t.rank() - lead;
        if borders.len() != rank {
            return Err(Error::data(format!("{} pairs of paddings for a tensor of {rank} axes", borders.len())));
        }
        let mut out = t.clone();
        for (i, &(before, after)) in borders.iter().enumerate().filter(|(_, b)| **b != (0, 0)) {
            out = border(&out, lead + i, before, after, mode, &value)?;
        }
        Ok(out)
    };
    if let Some(list) = attrs.get("paddings") {
        arity::<1>(args)?;
        let borders = pairs(list)?;
        if shape.rank().is_some_and(|r| r != borders.len()) {
            return Err(Error::usage(format!("{} pairs of paddings for a tensor of shape {shape}", borders.len())));
        }
        let dims = Dims::of(
            borders
                .iter()
                .enumerate()
                .map(|(i, (a, b))| shape.dims().and_then(|d| d[i]).and_then(|d| d.checked_add(*a)?.checked_add(*b))),
        );
        let kernel = Lead::new(move |args: &[Tensor], lead: usize| pad(&args[0], lead, &borders));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    check_integers("paddings", dense(args, 1)?.0)?;
    let kernel = LeadFirst::new(move |args: &[Tensor], lead: usize| {
        let flat = integers(&args[1])?;
        if args[1].rank() != 2 || args[1].shape()[1] != 2 {
            return Err(Error::data(format!("paddings must have shape [n, 2], not {:?}", args[1].shape())));
        }
        let size = |n: i64| usize::try_from(n).map_err(|_| Error::data(format!("a padding cannot be {n}")));
        let borders: Vec<_> = flat.chunks(2).map(|p| Ok((size(p[0])?, size(p[1])?))).collect::<Result<_>>()?;
        pad(&args[0], lead, &borders)
    });
    Made::new(Leaf::tensor(dtype, Dims(shape.rank().map(|r| vec![None; r]))), kernel)
}

fn pairs(list: &Json) -> Result<Vec<(usize, usize)>> {
    let bad = || Error::usage(format!("paddings must be a list of pairs of sizes, not {list}"));
    let size = |v: &Json| v.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(bad);
    let pair = |p: &Json| match p.as_array().map(|p| p.as_slice()) {
        Some([a, b]) => Ok((size(a)?, size(b)?)),
        _ => Err(bad()),
    };
    list.as_array().ok_or_else(bad)?.iter().map(pair).collect()
}

fn border(t: &Tensor, axis: usize, before: usize, after: usize, mode: Mode, value: &Tensor) -> Result<Tensor> {
    let n = t.shape()[axis];
    if mode == Mode::Constant {
        let side = |n: usize| {
            let mut shape: Shape = t.shape().into();
            shape[axis] = n;
            filled(value, &shape)
        };
        return concat(&[side(before)?, t.clone(), side(after)?], axis);
    }
    let skip = usize::from(mode == Mode::Reflect);
    let most = n.saturating_sub(skip);
    if before > most || after > most {
        return Err(Error::data(format!(
            "a mirrored border of {} does not fit an axis of size {n}",
            before.max(after)
        )));
    }
    let mut index: Vec<usize> = (0..before).rev().map(|i| i + skip).collect();
    index.extend(0..n);
    index.extend((0..after).map(|i| n - 1 - skip - i));
    room(DType::Uint8, &[index.len()])?;
    take_axis(t, axis, &index)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    fn x() -> Tensor {
        Tensor::from_items([2, 3], &[1i32, 2, 3, 4, 5, 6])
    }
    fn v() -> Tensor {
        Tensor::from_items([3], &[1i32, 2, 3])
    }

    #[test]
    fn repeats() {
        let m = Tensor::from_items([2], &[2i32, 1]);
        assert_eq!(call("tile", &[x(), m], json!({})).shape(), [4, 3]);
        assert_eq!(call("tile", &[v()], json!({"multiples": [2]})).items::<i32>(), [1, 2, 3, 1, 2, 3]);
        assert_eq!(call("tile", &[v()], json!({"multiples": [0]})).shape(), [0]);
        assert_eq!(call("repeat", &[v()], json!({"repeats": 2})).items::<i32>(), [1, 1, 2, 2, 3, 3]);
        assert_eq!(call("repeat", &[x()], json!({"repeats": [0, 2], "axis": 0})).items::<i32>(), [4, 5, 6, 4, 5, 6]);
        let r = Tensor::from_items([3], &[1i64, 0, 2]);
        assert_eq!(call("repeat", &[x(), r], json!({"axis": 1})).items::<i32>(), [1, 3, 3, 4, 6, 6]);
        let huge = Tensor::scalar(i64::MAX);
        fails("repeat", &[v(), huge.reshaped([1])], json!({}));
        fails("tile", &[v(), Tensor::from_items([1], &[i64::MAX])], json!({}));
        assert!(refused("tile", &[v()], json!({"multiples": [1, 2]})).message().contains("multiples"));
    }

    #[test]
    fn turns() {
        assert_eq!(call("reverse", &[x()], json!({"axis": [1]})).items::<i32>(), [3, 2, 1, 6, 5, 4]);
        assert_eq!(call("reverse", &[x()], json!({"axis": [0, -1]})).items::<i32>(), [6, 5, 4, 3, 2, 1]);
        assert_eq!(call("roll", &[x()], json!({"shift": 1, "axis": 1})).items::<i32>(), [3, 1, 2, 6, 4, 5]);
        assert_eq!(call("roll", &[x()], json!({"shift": -4})).items::<i32>(), [5, 6, 1, 2, 3, 4]);
        let both = call("roll", &[x()], json!({"shift": [1, 2], "axis": [0, 1]}));
        assert_eq!(both.items::<i32>(), [5, 6, 4, 2, 3, 1]);
        call("roll", &[v()], json!({"shift": i64::MIN, "axis": 0}));
    }

    #[test]
    fn pads() {
        let p = call("pad", &[v()], json!({"paddings": [[1, 2]], "constant_value": 9}));
        assert_eq!(p.items::<i32>(), [9, 1, 2, 3, 9, 9]);
        let p = call("pad", &[x()], json!({"paddings": [[0, 1], [1, 0]]}));
        assert_eq!(p.items::<i32>(), [0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0]);
        let p = call("pad", &[v()], json!({"paddings": [[2, 2]], "mode": "REFLECT"}));
        assert_eq!(p.items::<i32>(), [3, 2, 1, 2, 3, 2, 1]);
        let p = call("pad", &[v()], json!({"paddings": [[2, 1]], "mode": "SYMMETRIC"}));
        assert_eq!(p.items::<i32>(), [2, 1, 1, 2, 3, 3]);
        let s = call("pad", &[Tensor::strings([1], &["a"])], json!({"paddings": [[0, 1]], "constant_value": "z"}));
        assert_eq!(s, Tensor::strings([2], &["a", "z"]));
        let t = call("pad", &[v(), Tensor::from_items([1, 2], &[0i64, 1])], json!({}));
        assert_eq!(t.items::<i32>(), [1, 2, 3, 0]);
        assert!(fails("pad", &[v()], json!({"paddings": [[3, 0]], "mode": "REFLECT"})).message().contains("mirrored"));
        fails("pad", &[v(), Tensor::from_items([1, 2], &[i64::MAX, i64::MAX])], json!({}));
    }
}
