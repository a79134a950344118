//! Shapes: asking for them, changing them, and joining tensors.

use super::super::{Attrs, Func, Made, arity, dense};
use super::broadcast::check_room;
use super::cast::cast;
use super::lead::{
    Lead, LeadFirst, View, axis_in, axis_of, broadcast_to, check_axis, check_integers, concat, integers, sizes,
};
use crate::element::{DType, Dims, Leaf, Shape, Tensor, count};
use crate::error::{Error, Result};

pub static FUNCS: &[Func] = &[
    Func { name: "shape", doc: "The sizes of all axes.", make: make_shape, pure: true },
    Func { name: "size", doc: "The number of items.", make: make_size, pure: true },
    Func { name: "rank", doc: "The number of axes, as int32.", make: make_rank, pure: true },
    Func {
        name: "reshape",
        doc: "The same items under another shape; -1 stands for the size that fits.",
        make: make_reshape,
        pure: true,
    },
    Func { name: "expand_dims", doc: "A new axis of size 1.", make: make_expand_dims, pure: true },
    Func { name: "squeeze", doc: "Takes away axes of size 1: those named, or all.", make: make_squeeze, pure: true },
    Func {
        name: "transpose",
        doc: "The axes in another order; reversed by default.",
        make: make_transpose,
        pure: true,
    },
    Func { name: "concat", doc: "Tensors one after the other along an axis.", make: make_concat, pure: true },
    Func { name: "stack", doc: "Tensors of one shape along a new axis.", make: make_stack, pure: true },
    Func {
        name: "broadcast_to",
        doc: "Repeats items along axes of size 1 until a shape is reached.",
        make: make_broadcast_to,
        pure: true,
    },
    Func {
        name: "ensure_shape",
        doc: "The tensor, if its shape is as given (None: any size), else an error for this element.",
        make: make_ensure,
        pure: true,
    },
    Func { name: "set_shape", doc: "The same as ensure_shape.", make: make_ensure, pure: true },
];

fn out_type(attrs: &Attrs) -> Result<DType> {
    match attrs.dtype("out_type")?.unwrap_or(DType::Int32) {
        d if d.is_int() => Ok(d),
        d => Err(Error::usage(format!("out_type must be an integer dtype, not {d}"))),
    }
}

fn make_shape(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let dtype = out_type(attrs)?;
    let dims = Dims::of([dense(args, 0)?.1.rank()]);
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let own: Vec<i64> = t.shape()[lead..].iter().map(|&d| d as i64).collect();
        let own = cast(Tensor::from_items([own.len()], &own), dtype)?;
        let mut shape: Shape = t.shape()[..lead].into();
        shape.push(own.len());
        broadcast_to(&own, &shape)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_size(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    dense(args, 0)?;
    let dtype = out_type(attrs)?;
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let (rows, own) = args[0].shape().split_at(lead);
        let n = cast(Tensor::scalar(own.iter().product::<usize>() as i64), dtype)?;
        broadcast_to(&n, rows)
    });
    Made::new(Leaf::scalar(dtype), kernel)
}

fn make_rank(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    dense(args, 0)?;
    let kernel = Lead::new(|args: &[Tensor], lead: usize| {
        let (rows, own) = args[0].shape().split_at(lead);
        broadcast_to(&Tensor::scalar(own.len() as i32), rows)
    });
    Made::new(Leaf::scalar(DType::Int32), kernel)
}

/// The sizes of a target shape with at most one -1, for that many items.
fn resolve(target: &[i64], items: usize) -> std::result::Result<Shape, String> {
    let mut free = None;
    let mut shape = Shape::new();
    for (i, &d) in target.iter().enumerate() {
        match usize::try_from(d) {
            Ok(d) => shape.push(d),
            Err(_) if d == -1 && free.is_none() => {
                free = Some(i);
                shape.push(1);
            }
            Err(_) if d == -1 => return Err(format!("shape {target:?} has more than one -1")),
            Err(_) => return Err(format!("shape {target:?} has a negative size")),
        }
    }
    let known = count(&shape).map_err(|e| e.message().to_string())?;
    if let Some(i) = free {
        if known == 0 {
            return Err(format!("the size at -1 in {target:?} cannot be told from an empty tensor"));
        }
        shape[i] = items / known;
    }
    match count(&shape) {
        Ok(n) if n == items => Ok(shape),
        _ => Err(format!("{items} items do not fill shape {target:?}")),
    }
}

fn reshape_to(t: &Tensor, lead: usize, target: &[i64]) -> Result<Tensor> {
    let (rows, own) = t.shape().split_at(lead);
    let mut shape: Shape = rows.into();
    shape.extend(resolve(target, own.iter().product()).map_err(Error::data)?);
    check_room(t.dtype(), &shape)?;
    Ok(t.reshaped(shape))
}

fn make_reshape(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, from) = dense(args, 0)?;
    if let Some(target) = attrs.i64s("shape")? {
        arity::<1>(args)?;
        let known = from.full().and_then(|s| count(&s).ok());
        let dims = match known {
            Some(n) => Dims::known(&resolve(&target, n).map_err(Error::usage)?),
            None => {
                // Checks what can be checked without the number of items.
                let free = target.iter().filter(|d| **d == -1).count();
                if free > 1 || target.iter().any(|d| *d < -1) {
                    return Err(Error::usage(resolve(&target, 0).err().unwrap_or_default()));
                }
                Dims::of(target.iter().map(|&d| usize::try_from(d).ok()))
            }
        };
        let kernel = Lead::new(move |args: &[Tensor], lead: usize| reshape_to(&args[0], lead, &target));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    let (of, shape) = dense(args, 1)?;
    let kernel = LeadFirst::new(move |args: &[Tensor], lead: usize| reshape_to(&args[0], lead, &integers(&args[1])?));
    Made::new(Leaf::tensor(dtype, shape_dims("the shape", of, shape)?), kernel)
}

/// What is known of a shape that comes as a tensor: its rank at most.
pub(super) fn shape_dims(what: &str, dtype: DType, shape: &Dims) -> Result<Dims> {
    check_integers(what, dtype)?;
    match shape.dims() {
        None => Ok(Dims::unknown()),
        Some([n]) => Ok(Dims(n.map(|n| vec![None; n.min(64)]))),
        Some(_) => Err(Error::usage(format!("{what} must be a vector of integers, not of shape {shape}"))),
    }
}

fn make_expand_dims(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let axis = attrs.need("axis", attrs.i64("axis")?)?;
    let dims = match shape.dims() {
        None => Dims::unknown(),
        Some(d) => {
            let at = axis_of(axis, d.len() + 1).ok_or_else(|| {
                Error::usage(format!("axis {axis} does not exist after shape {shape} has one more axis"))
            })?;
            let mut d = d.to_vec();
            d.insert(at, Some(1));
            Dims(Some(d))
        }
    };
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let at = axis_of(axis, t.rank() - lead + 1)
            .ok_or_else(|| Error::data(format!("axis {axis} does not exist in shape {:?}", &t.shape()[lead..])))?;
        let mut shape: Shape = t.shape().into();
        shape.insert(at + lead, 1);
        Ok(t.reshaped(shape))
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_squeeze(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let axes = attrs.i64s("axis")?.filter(|a| !a.is_empty());
    for &axis in axes.iter().flatten() {
        check_axis(axis, shape)?;
    }
    let dims = match (shape.dims(), &axes) {
        (Some(d), Some(axes)) => {
            let gone: Vec<usize> = axes.iter().filter_map(|a| axis_of(*a, d.len())).collect();
            if let Some(i) = gone.iter().find(|i| d[**i].is_some_and(|n| n != 1)) {
                return Err(Error::usage(format!("axis {i} of shape {shape} is not of size 1")));
            }
            Dims::of(d.iter().enumerate().filter(|(i, _)| !gone.contains(i)).map(|(_, d)| *d))
        }
        (Some(d), None) if d.iter().all(|d| d.is_some()) => Dims::of(d.iter().copied().filter(|d| *d != Some(1))),
        _ => Dims::unknown(),
    };
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let gone: Vec<usize> = match &axes {
            Some(axes) => axes.iter().map(|a| axis_in(*a, t, lead)).collect::<Result<_>>()?,
            None => (lead..t.rank()).filter(|i| t.shape()[*i] == 1).collect(),
        };
        if let Some(i) = gone.iter().find(|i| t.shape()[**i] != 1) {
            return Err(Error::data(format!("axis {} has size {}, not 1", i - lead, t.shape()[*i])));
        }
        let shape: Shape = t.shape().iter().enumerate().filter(|(i, _)| !gone.contains(i)).map(|(_, d)| *d).collect();
        Ok(t.reshaped(shape))
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

/// The axes of `perm`, from the front, if it names each of `rank` axes once.
fn order_of(perm: &Option<Vec<i64>>, rank: usize) -> Option<Vec<usize>> {
    let Some(perm) = perm else { return Some((0..rank).rev().collect()) };
    let order: Vec<usize> = perm.iter().map(|a| axis_of(*a, rank)).collect::<Option<_>>()?;
    ((0..rank).all(|i| order.contains(&i)) && order.len() == rank).then_some(order)
}

fn make_transpose(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let perm = attrs.i64s("perm")?;
    let wrong = |perm: &Option<Vec<i64>>, rank: usize| {
        format!("perm must name each of {rank} axes once, not {:?}", perm.clone().unwrap_or_default())
    };
    let dims = match shape.dims() {
        Some(d) => {
            let order = order_of(&perm, d.len()).ok_or_else(|| Error::usage(wrong(&perm, d.len())))?;
            Dims::of(order.iter().map(|i| d[*i]))
        }
        None => Dims(perm.as_ref().map(|p| vec![None; p.len()])),
    };
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let rank = t.rank() - lead;
        let order = order_of(&perm, rank).ok_or_else(|| Error::data(wrong(&perm, rank)))?;
        let mut view = View::of(t);
        let axes = view.axes.clone();
        view.axes = (0..lead).chain(order.iter().map(|i| i + lead)).map(|i| axes[i]).collect();
        view.copy(t)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

/// The dtype of several arguments that must have the same.
pub(super) fn same_dtype(args: &[Leaf]) -> Result<DType> {
    let (first, _) = dense(args, 0)?;
    for i in 1..args.len() {
        let (dtype, _) = dense(args, i)?;
        if dtype != first {
            return Err(Error::usage(format!(
                "the arguments must have one dtype, but argument 0 is {first} and argument {i} is {dtype}; cast one of them"
            )));
        }
    }
    Ok(first)
}

/// What is known of a shape that two others share.
fn agree(a: &Dims, b: &Dims) -> Result<Dims> {
    match (a.dims(), b.dims()) {
        (None, _) => Ok(b.clone()),
        (_, None) => Ok(a.clone()),
        (Some(x), Some(y)) if a.compatible(b) => Ok(Dims::of(x.iter().zip(y).map(|(x, y)| x.or(*y)))),
        _ => Err(Error::usage(format!("shapes {a} and {b} do not fit together"))),
    }
}

fn make_concat(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    if args.is_empty() {
        return Err(Error::usage("needs at least one tensor"));
    }
    let dtype = same_dtype(args)?;
    let axis = attrs.i64("axis")?.unwrap_or(0);
    let mut dims = Dims::unknown();
    let mut total = Some(0usize);
    for i in 0..args.len() {
        let (_, shape) = dense(args, i)?;
        if shape.is_scalar() {
            return Err(Error::usage("scalars cannot be joined; use stack"));
        }
        check_axis(axis, shape)?;
        let mut rest = shape.clone();
        match &mut rest.0 {
            Some(d) => {
                let at = axis_of(axis, d.len()).ok_or_else(|| Error::internal("the axis was checked"))?;
                let own = std::mem::take(&mut d[at]);
                total = total.zip(own).and_then(|(a, b)| a.checked_add(b));
            }
            None => total = None,
        }
        dims = agree(&dims, &rest)?;
    }
    if let Some(d) = &mut dims.0
        && let Some(at) = axis_of(axis, d.len())
    {
        d[at] = total;
    }
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let axis = axis_in(axis, &args[0], lead)?;
        concat(args, axis)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_stack(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    if args.is_empty() {
        return Err(Error::usage("needs at least one tensor"));
    }
    let dtype = same_dtype(args)?;
    let axis = attrs.i64("axis")?.unwrap_or(0);
    let mut dims = Dims::unknown();
    for i in 0..args.len() {
        dims = agree(&dims, dense(args, i)?.1)?;
    }
    if let Some(d) = &mut dims.0 {
        let at = axis_of(axis, d.len() + 1)
            .ok_or_else(|| Error::usage(format!("axis {axis} does not exist in a stack of {} axes", d.len() + 1)))?;
        d.insert(at, Some(args.len()));
    }
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let first = &args[0];
        let at = axis_of(axis, first.rank() - lead + 1)
            .ok_or_else(|| Error::data(format!("axis {axis} does not exist in the stack")))?;
        if let Some(odd) = args.iter().find(|t| t.shape() != first.shape()) {
            return Err(Error::data(format!("shapes {:?} and {:?} cannot be stacked", first.shape(), odd.shape())));
        }
        let parts: Vec<Tensor> = args
            .iter()
            .map(|t| {
                let mut shape: Shape = t.shape().into();
                shape.insert(at + lead, 1);
                t.reshaped(shape)
            })
            .collect();
        concat(&parts, at + lead)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_broadcast_to(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    fn to(t: &Tensor, lead: usize, target: &[usize]) -> Result<Tensor> {
        let own = t.rank() - lead;
        let fail = || Error::data(format!("shape {:?} does not broadcast to {target:?}", &t.shape()[lead..]));
        let mut aligned: Shape = t.shape()[..lead].into();
        aligned.extend(std::iter::repeat_n(1, target.len().checked_sub(own).ok_or_else(fail)?));
        aligned.extend_from_slice(&t.shape()[lead..]);
        let mut shape: Shape = t.shape()[..lead].into();
        shape.extend_from_slice(target);
        broadcast_to(&t.reshaped(aligned), &shape).map_err(|_| fail())
    }
    let (dtype, from) = dense(args, 0)?;
    if let Some(target) = attrs.i64s("shape")? {
        arity::<1>(args)?;
        let target: Vec<usize> = target
            .iter()
            .map(|&d| usize::try_from(d).map_err(|_| Error::usage(format!("shape {target:?} has a negative size"))))
            .collect::<Result<_>>()?;
        let dims = Dims::known(&target);
        if super::broadcast::broadcast_dims(from, &dims).map_err(|_| ()) != Ok(dims.clone()) && from.rank().is_some() {
            return Err(Error::usage(format!("shape {from} does not broadcast to {dims}")));
        }
        let kernel = Lead::new(move |args: &[Tensor], lead: usize| to(&args[0], lead, &target));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    let (of, shape) = dense(args, 1)?;
    let kernel = LeadFirst::new(move |args: &[Tensor], lead: usize| to(&args[0], lead, &sizes(&args[1])?));
    Made::new(Leaf::tensor(dtype, shape_dims("the shape", of, shape)?), kernel)
}

fn make_ensure(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, from) = dense(args, 0)?;
    let want = Dims(attrs.i64s("shape")?.map(|s| s.into_iter().map(|d| usize::try_from(d).ok()).collect()));
    let dims = agree(from, &want)
        .map_err(|_| Error::usage(format!("a tensor of shape {from} can never have shape {want}")))?;
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        match want.accepts(&t.shape()[lead..]) {
            true => Ok(t.clone()),
            false => Err(Error::data(format!("the shape is {:?}, but should be {want}", &t.shape()[lead..]))),
        }
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    fn x() -> Tensor {
        Tensor::from_items([2, 3], &[1i32, 2, 3, 4, 5, 6])
    }

    #[test]
    fn shapes_are_told() {
        assert_eq!(call("shape", &[x()], json!({})).items::<i32>(), [2, 3]);
        assert_eq!(call("size", &[x()], json!({"out_type": "int64"})).item::<i64>(), 6);
        assert_eq!(call("rank", &[x()], json!({})).item::<i32>(), 2);
        assert_eq!(call("shape", &[Tensor::scalar(1i8)], json!({})).shape(), [0]);
    }

    #[test]
    fn reshapes() {
        assert_eq!(call("reshape", &[x()], json!({"shape": [3, -1]})).shape(), [3, 2]);
        assert_eq!(call("reshape", &[x(), Tensor::from_items([1], &[-1i64])], json!({})).shape(), [6]);
        assert!(refused("reshape", &[x()], json!({"shape": [4, -1]})).message().contains("6 items"));
        assert!(refused("reshape", &[x()], json!({"shape": [-1, -1]})).message().contains("more than one"));
        assert!(fails("reshape", &[x()], json!({"shape": [5]})).message().contains("6 items"));
        let e = Tensor::from_items([0], &[0i32; 0]);
        assert_eq!(call("reshape", &[e.clone()], json!({"shape": [-1, 2]})).shape(), [0, 2]);
        assert!(fails("reshape", &[e], json!({"shape": [0, -1]})).message().contains("empty"));
        let huge = Tensor::from_items([2], &[i64::MAX, i64::MAX]);
        fails("reshape", &[x(), huge], json!({}));
        assert_eq!(call("expand_dims", &[x()], json!({"axis": -1})).shape(), [2, 3, 1]);
        let one = x().reshaped([1, 6, 1]);
        assert_eq!(call("squeeze", &[one.clone()], json!({})).shape(), [6]);
        assert_eq!(call("squeeze", &[one.clone()], json!({"axis": [0]})).shape(), [6, 1]);
        assert!(refused("squeeze", &[one], json!({"axis": 1})).message().contains("size 1"));
    }

    #[test]
    fn transposes() {
        assert_eq!(call("transpose", &[x()], json!({})), Tensor::from_items([3, 2], &[1i32, 4, 2, 5, 3, 6]));
        let cube = Tensor::from_items([1, 2, 3], &[1u8, 2, 3, 4, 5, 6]);
        let t = call("transpose", &[cube], json!({"perm": [2, 0, 1]}));
        assert_eq!(t, Tensor::from_items([3, 1, 2], &[1u8, 4, 2, 5, 3, 6]));
        assert!(refused("transpose", &[x()], json!({"perm": [0, 0]})).message().contains("once"));
    }

    #[test]
    fn joins() {
        let both = call("concat", &[x(), x()], json!({"axis": 1}));
        assert_eq!(both, Tensor::from_items([2, 6], &[1i32, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]));
        assert_eq!(call("concat", &[x(), x()], json!({"axis": -2})).shape(), [4, 3]);
        let s = Tensor::strings([2, 1], &["a", "b"]);
        let t = call("concat", &[s.clone(), s.clone()], json!({"axis": 1}));
        assert_eq!(t, Tensor::strings([2, 2], &["a", "a", "b", "b"]));
        assert_eq!(call("stack", &[x(), x()], json!({"axis": -1})).items::<i32>()[..4], [1, 1, 2, 2]);
        assert_eq!(call("stack", &[Tensor::scalar(1f32), Tensor::scalar(2f32)], json!({})).items::<f32>(), [1.0, 2.0]);
        assert!(refused("concat", &[x(), s], json!({})).message().contains("one dtype"));
        assert!(refused("concat", &[x(), x().reshaped([3, 2])], json!({})).message().contains("fit"));
    }

    #[test]
    fn broadcasts_and_promises() {
        let v = Tensor::from_items([3], &[1i8, 2, 3]);
        assert_eq!(call("broadcast_to", &[v.clone()], json!({"shape": [2, 3]})).items::<i8>(), [1, 2, 3, 1, 2, 3]);
        let to = Tensor::from_items([2], &[2i32, 3]);
        assert_eq!(call("broadcast_to", &[v.clone(), to], json!({})).shape(), [2, 3]);
        assert!(refused("broadcast_to", &[v.clone()], json!({"shape": [2, 4]})).message().contains("broadcast"));
        let huge = Tensor::from_items([2], &[i64::MAX / 2, 3]);
        fails("broadcast_to", &[v.clone(), huge], json!({}));
        call("ensure_shape", &[x()], json!({"shape": [null, 3]}));
        assert!(fails("ensure_shape", &[x()], json!({"shape": [null, 4]})).message().contains("[2, 3]"));
        assert!(refused("ensure_shape", &[v], json!({"shape": [4]})).message().contains("never"));
    }
}
