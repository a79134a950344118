//! Choosing items: by condition, by bounds, by being set.

use super::super::{ByRow, Func, Made, arity, dense};
use super::arithmetic::only_bool;
use super::broadcast::{Elementwise, Tensors, broadcast_dims, broadcast_shape, check_room, room, zip_same};
use super::cast::cast;
use super::lead::broadcast_to;
use super::number::{inner_dtype, numbers, promote};
use crate::element::{B8, DType, Dims, Leaf, Tensor, Value};
use crate::error::{Error, Result};

pub static FUNCS: &[Func] = &[
    Func {
        name: "where",
        doc: "Items of x where the condition holds, else of y. With the condition alone: where it holds, as int64 [n, rank].",
        pure: true,
        make: |args, _| if args.len() == 1 { make_nonzero(args) } else { make_where(args) },
    },
    Func {
        name: "nonzero",
        doc: "The places of the items that are not zero, as int64 [n, rank].",
        pure: true,
        make: |args, _| make_nonzero(args),
    },
    Func {
        name: "clip",
        doc: "Items moved to the nearest place between two bounds.",
        pure: true,
        make: |args, _| {
            let [_, _, _] = arity::<3>(args)?;
            let ((x, dx), (lo, dl), (hi, dh)) = (dense(args, 0)?, dense(args, 1)?, dense(args, 2)?);
            let dtype = promote(promote(x, lo)?, hi)?;
            if !dtype.is_numeric() {
                return Err(Error::usage(format!("expects numbers, not {dtype}")));
            }
            let inner = inner_dtype(dtype);
            let kernel = Elementwise::new(move |mut t: Tensors| {
                let x = cast(t.remove(0), inner)?;
                let (lo, hi) = (cast(t.remove(0), inner)?, cast(t.remove(0), inner)?);
                let out = numbers!(inner, T =>
                int zip_same(zip_same(x, lo, |a: T, b: T| a.max(b))?, hi, |a: T, b: T| a.min(b));
                float {
                    let high = zip_same(x, lo, |a: T, b: T| if a < b { b } else { a })?;
                    zip_same(high, hi, |a: T, b: T| if a > b { b } else { a })
                });
                cast(out?, dtype)
            });
            Made::new(Leaf::tensor(dtype, broadcast_dims(&broadcast_dims(dx, dl)?, dh)?), kernel)
        },
    },
];

fn make_where(args: &[Leaf]) -> Result<Made> {
    arity::<3>(args)?;
    let ((c, dc), (x, dx), (y, dy)) = (dense(args, 0)?, dense(args, 1)?, dense(args, 2)?);
    only_bool(c)?;
    let dtype = promote(x, y)?;
    let dims = broadcast_dims(&broadcast_dims(dc, dx)?, dy)?;
    let kernel = Elementwise::new(move |mut t: Tensors| {
        let c = t.remove(0);
        let (x, y) = (cast(t.remove(0), dtype)?, cast(t.remove(0), dtype)?);
        let shape =
            broadcast_shape(c.shape(), x.shape()).and_then(|s| broadcast_shape(&s, y.shape())).ok_or_else(|| {
                let (c, x, y) = (c.shape(), x.shape(), y.shape());
                Error::data(format!("shapes {c:?}, {x:?} and {y:?} do not broadcast"))
            })?;
        check_room(dtype, &shape)?;
        // A single item stays one; anything else is written out, so that three ways of walking are enough.
        let spread = |t: Tensor| if t.len() == 1 { Ok(t) } else { broadcast_to(&t, &shape) };
        let (c, x, y) = (broadcast_to(&c, &shape)?, spread(x)?, spread(y)?);
        if dtype == DType::String {
            let (n, one) = (x.len(), Tensor::join(DType::String, [x.len() + y.len()], [&x, &y].into_iter()));
            let pick = c.items::<B8>().iter().enumerate().map(|(i, c)| match c.get() {
                true => {
                    if n == 1 {
                        0
                    } else {
                        i
                    }
                }
                false => n + if y.len() == 1 { 0 } else { i },
            });
            return Ok(one.take(&pick.collect::<Vec<_>>()).into_reshaped(shape));
        }
        let mut out = room(dtype, &shape)?;
        let (c, x, y) = (c.items::<B8>(), x.bytes(), y.bytes());
        match dtype.size() {
            1 => choose::<1>(c, x, y, out.bytes_mut()),
            2 => choose::<2>(c, x, y, out.bytes_mut()),
            4 => choose::<4>(c, x, y, out.bytes_mut()),
            _ => choose::<8>(c, x, y, out.bytes_mut()),
        }
        Ok(out)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn choose<const N: usize>(c: &[B8], x: &[u8], y: &[u8], out: &mut [u8]) {
    let (x, y, out) = (x.as_chunks::<N>().0, y.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    let n = out.len();
    if n == 0 {
        return;
    }
    let c = &c[..n];
    match (x.len() == n, y.len() == n) {
        (true, true) => (0..n).for_each(|i| out[i] = if c[i].get() { x[i] } else { y[i] }),
        (true, false) => (0..n).for_each(|i| out[i] = if c[i].get() { x[i] } else { y[0] }),
        (false, true) => (0..n).for_each(|i| out[i] = if c[i].get() { x[0] } else { y[i] }),
        (false, false) => (0..n).for_each(|i| out[i] = if c[i].get() { x[0] } else { y[0] }),
    }
}

fn make_nonzero(args: &[Leaf]) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    if dtype == DType::String {
        return Err(Error::usage("expects truth values or numbers, not strings; compare with something"));
    }
    let dims = Dims::of([None, shape.rank()]);
    let kernel = ByRow(|args: &[Value]| {
        let t = args[0].tensor();
        let set = cast(t.clone(), DType::Bool)?;
        let rank = t.rank();
        let mut places: Vec<i64> = Vec::new();
        let mut n = 0;
        for (i, _) in set.items::<B8>().iter().enumerate().filter(|(_, b)| b.get()) {
            let (mut rest, base) = (i, places.len());
            places.resize(base + rank, 0);
            for (k, &d) in t.shape().iter().enumerate().rev() {
                places[base + k] = (rest % d) as i64;
                rest /= d;
            }
            n += 1;
        }
        Ok(Value::Tensor(Tensor::from_items([n, rank], &places)))
    });
    Made::new(Leaf::tensor(DType::Int64, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, refused};
    use super::*;
    use serde_json::json;

    fn c() -> Tensor {
        Tensor::from_items([2, 2], &[B8(1), B8(0), B8(0), B8(3)])
    }

    #[test]
    fn chooses_by_condition() {
        let x = Tensor::from_items([2], &[1i32, 2]);
        let r = call("where", &[c(), x.clone(), Tensor::scalar(0i64)], json!({}));
        assert_eq!(r, Tensor::from_items([2, 2], &[1i64, 0, 0, 2]));
        let s = call("where", &[c(), Tensor::string(b"y"), Tensor::strings([2, 1], &["a", "b"])], json!({}));
        assert_eq!(s, Tensor::strings([2, 2], &["y", "a", "b", "y"]));
        let one = Tensor::scalar(B8(1));
        assert_eq!(call("where", &[one, x.clone(), x.clone()], json!({})), x);
        assert!(refused("where", &[x.clone(), x.clone(), x], json!({})).message().contains("bool"));
        let empty = Tensor::from_items([0], &[0f32; 0]);
        assert_eq!(call("where", &[Tensor::scalar(B8(0)), empty, Tensor::scalar(1f32)], json!({})).shape(), [0]);
    }

    #[test]
    fn finds_places() {
        assert_eq!(call("where", &[c()], json!({})), Tensor::from_items([2, 2], &[0i64, 0, 1, 1]));
        let v = Tensor::from_items([3], &[0.0f32, -1.0, f32::NAN]);
        assert_eq!(call("nonzero", &[v], json!({})).items::<i64>(), [1, 2]);
        assert_eq!(call("nonzero", &[Tensor::scalar(1i8)], json!({})).shape(), [1, 0]);
    }

    #[test]
    fn clips() {
        let x = Tensor::from_items([3], &[-5i32, 5, 15]);
        let r = call("clip", &[x, Tensor::scalar(0i32), Tensor::scalar(10i32)], json!({}));
        assert_eq!(r.items::<i32>(), [0, 5, 10]);
        let n = call("clip", &[Tensor::scalar(f32::NAN), Tensor::scalar(0f32), Tensor::scalar(1f32)], json!({}));
        assert!(n.item::<f32>().is_nan());
    }
}
