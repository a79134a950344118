//! Tensors from nothing or from a few numbers.

use super::super::{Attrs, ByRow, Func, Made, arity, dense};
use super::broadcast::{check_room, room};
use super::cast::cast;
use super::lead::{Lead, axis_of, broadcast_to, check_integers, integers, sizes};
use super::number::{Number, float_of, numbers, promote};
use super::shape::shape_dims;
use crate::element::{B8, DType, Dims, Leaf, Shape, Tensor, Value};
use crate::error::{Error, Result};
use serde_json::Value as Json;

pub static FUNCS: &[Func] = &[
    Func { name: "fill", doc: "A tensor of one value.", make: make_fill, pure: true },
    Func {
        name: "zeros",
        doc: "Zeros, False or empty strings.",
        make: |args, attrs| make_same(args, attrs, 0),
        pure: true,
    },
    Func { name: "ones", doc: "Ones or True.", make: |args, attrs| make_same(args, attrs, 1), pure: true },
    Func {
        name: "zeros_like",
        doc: "Zeros in the shape of a tensor.",
        make: |args, attrs| make_like(args, attrs, 0),
        pure: true,
    },
    Func {
        name: "ones_like",
        doc: "Ones in the shape of a tensor.",
        make: |args, attrs| make_like(args, attrs, 1),
        pure: true,
    },
    Func {
        name: "range",
        doc: "Numbers from start up to limit (which is left out), delta apart.",
        make: make_range,
        pure: true,
    },
    Func {
        name: "linspace",
        doc: "`num` numbers evenly from start to stop, both included.",
        make: make_linspace,
        pure: true,
    },
    Func { name: "eye", doc: "Ones on the diagonal, zeros elsewhere.", make: make_eye, pure: true },
    Func {
        name: "one_hot",
        doc: "For each index a vector of `depth` items that is on there and off elsewhere; indices outside give a vector that is off.",
        make: make_one_hot,
        pure: true,
    },
];

/// A JSON value as one item.
pub(super) fn item(dtype: DType, value: &Json) -> Result<Tensor> {
    let bad = || Error::usage(format!("{value} is not a value of dtype {dtype}"));
    // JSON has no word for these.
    let float = value.as_f64().or(match value.as_str() {
        Some("nan") => Some(f64::NAN),
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        _ => None,
    });
    match dtype {
        DType::String => Ok(Tensor::string(value.as_str().ok_or_else(bad)?.as_bytes())),
        DType::Bool => {
            let b = value.as_bool().or(value.as_f64().map(|x| x != 0.0)).ok_or_else(bad)?;
            Ok(Tensor::scalar(B8::from(b)))
        }
        d if d.is_int() => {
            let whole = value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
            let whole = whole.or(float.filter(|x| x.fract() == 0.0 && x.abs() < 2f64.powi(64)).map(|x| x as i128));
            let whole = whole.or(value.as_bool().map(i128::from)).ok_or_else(bad)?;
            numbers!(d, T => int T::try_from(whole).map(Tensor::scalar).map_err(|_| bad()))
        }
        d => {
            numbers!(d, T => all Ok(Tensor::scalar(T::of_f64(float.or(value.as_bool().map(f64::from)).ok_or_else(bad)?))))
        }
    }
}

/// A shape full of one item.
pub(super) fn filled(item: &Tensor, shape: &[usize]) -> Result<Tensor> {
    broadcast_to(&item.reshaped(Shape::new()), shape)
}

fn number_of(dtype: DType, n: i64) -> Result<Tensor> {
    match dtype {
        DType::String if n == 0 => Ok(Tensor::string(b"")),
        DType::String => Err(Error::usage("there is no string that is one")),
        d => cast(Tensor::scalar(n), d),
    }
}

/// The shape that an attribute gives, if there is one.
fn shape_attr(attrs: &Attrs, dtype: DType) -> Result<Option<Shape>> {
    let Some(list) = attrs.i64s("shape")? else { return Ok(None) };
    let shape: Shape = list
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| Error::usage(format!("shape {list:?} has a negative size"))))
        .collect::<Result<_>>()?;
    check_room(dtype, &shape).map_err(|e| Error::usage(e.message()))?;
    Ok(Some(shape))
}

fn make_fill(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    fn scalar(leaf: &Dims) -> Result<()> {
        match leaf.rank() {
            Some(n) if n > 0 => Err(Error::usage(format!("the value must be a scalar, not of shape {leaf}"))),
            _ => Ok(()),
        }
    }
    fn one(t: &Tensor) -> Result<&Tensor> {
        if t.len() == 1 {
            Ok(t)
        } else {
            Err(Error::data(format!("the value must be a scalar, not of shape {:?}", t.shape())))
        }
    }
    if let [value] = args {
        let (dtype, dims) = dense(args, 0)?;
        scalar(dims)?;
        let shape = attrs.need("shape", shape_attr(attrs, value.dtype().unwrap_or(dtype))?)?;
        let dims = Dims::known(&shape);
        let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
            let t = &args[0];
            if t.rank() != lead {
                return Err(Error::data(format!("the value must be a scalar, not of shape {:?}", &t.shape()[lead..])));
            }
            let mut full: Shape = t.shape()[..lead].into();
            full.extend(std::iter::repeat_n(1, shape.len()));
            let t = t.reshaped(full);
            let mut full: Shape = t.shape()[..lead].into();
            full.extend_from_slice(&shape);
            broadcast_to(&t, &full)
        });
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    let ((of, dims), (dtype, value)) = (dense(args, 0)?, dense(args, 1)?);
    scalar(value)?;
    let dims = shape_dims("the shape", of, dims)?;
    let kernel = ByRow(|args: &[Value]| Ok(Value::Tensor(filled(one(args[1].tensor())?, &sizes(args[0].tensor())?)?)));
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_same(args: &[Leaf], attrs: &Attrs, n: i64) -> Result<Made> {
    let dtype = attrs.dtype("dtype")?.unwrap_or(DType::Float32);
    let value = number_of(dtype, n)?;
    if let Some(shape) = shape_attr(attrs, dtype)? {
        arity::<0>(args)?;
        let dims = Dims::known(&shape);
        let kernel = ByRow(move |_: &[Value]| Ok(Value::Tensor(filled(&value, &shape)?)));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<1>(args)?;
    let (of, dims) = dense(args, 0)?;
    let dims = shape_dims("the shape", of, dims)?;
    let kernel = ByRow(move |args: &[Value]| Ok(Value::Tensor(filled(&value, &sizes(args[0].tensor())?)?)));
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

fn make_like(args: &[Leaf], attrs: &Attrs, n: i64) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    let dtype = attrs.dtype("dtype")?.unwrap_or(dtype);
    let value = number_of(dtype, n)?;
    let kernel = Lead::new(move |args: &[Tensor], _: usize| filled(&value, args[0].shape()));
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

fn scalars<const N: usize>(args: &[Leaf]) -> Result<DType> {
    arity::<N>(args)?;
    let mut dtype = dense(args, 0)?.0;
    for i in 0..N {
        let (d, shape) = dense(args, i)?;
        if !d.is_numeric() || shape.rank().is_some_and(|r| r > 0) {
            return Err(Error::usage(format!("argument {i} must be a number, not {}", args[i])));
        }
        dtype = promote(dtype, d)?;
    }
    Ok(dtype)
}

fn scalar_item(v: &Value) -> Result<&Tensor> {
    match v.tensor() {
        t if t.len() == 1 => Ok(t),
        t => Err(Error::data(format!("a scalar is wanted, not shape {:?}", t.shape()))),
    }
}

fn make_range(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let dtype = scalars::<3>(args)?;
    let to = attrs.dtype("dtype")?.unwrap_or(dtype);
    if !to.is_numeric() {
        return Err(Error::usage(format!("dtype must be a number dtype, not {to}")));
    }
    let kernel = ByRow(move |args: &[Value]| {
        let [start, limit, delta] = [0, 1, 2].map(|i| scalar_item(&args[i]));
        if dtype.is_int() {
            let number = |t: &Tensor| -> Result<i128> {
                match t.dtype() {
                    DType::Uint64 => Ok(t.item::<u64>().into()),
                    _ => Ok(integers(t)?[0].into()),
                }
            };
            let (start, limit, delta) = (number(start?)?, number(limit?)?, number(delta?)?);
            if delta == 0 {
                return Err(Error::data("delta cannot be 0"));
            }
            let span = (limit - start) * delta.signum();
            let n = if span <= 0 { 0 } else { (span + delta.abs() - 1) / delta.abs() };
            let n = usize::try_from(n).map_err(|_| Error::data("the range is too long"))?;
            let mut out = room(dtype, &[n])?;
            numbers!(dtype, T => int {
                out.items_mut::<T>().iter_mut().enumerate().for_each(|(i, o)| *o = (start + i as i128 * delta) as T);
                Ok(())
            })?;
            return Ok(Value::Tensor(cast(out, to)?));
        }
        let number = |t: &Tensor| -> Result<f64> { Ok(cast(t.clone(), DType::Float64)?.item::<f64>()) };
        let (start, limit, delta) = (number(start?)?, number(limit?)?, number(delta?)?);
        if delta == 0.0 || !(start.is_finite() && limit.is_finite() && delta.is_finite()) {
            return Err(Error::data(format!("no range goes from {start} to {limit} in steps of {delta}")));
        }
        let n = ((limit - start) / delta).ceil().max(0.0);
        if n > 1e15 {
            return Err(Error::data("the range is too long"));
        }
        let mut out = room(DType::Float64, &[n as usize])?;
        out.items_mut::<f64>().iter_mut().enumerate().for_each(|(i, o)| *o = start + i as f64 * delta);
        Ok(Value::Tensor(cast(out, to)?))
    });
    Made::new(Leaf::tensor(to, Dims::of([None])), kernel)
}

fn make_linspace(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let dtype = float_of(scalars::<2>(args)?)?;
    let num = attrs.need("num", attrs.i64("num")?)?;
    let num = usize::try_from(num).ok().filter(|n| *n > 0);
    let num = num.ok_or_else(|| Error::usage("num must be positive"))?;
    check_room(dtype, &[num]).map_err(|e| Error::usage(e.message()))?;
    let kernel = ByRow(move |args: &[Value]| {
        let number = |v: &Value| -> Result<f64> { Ok(cast(scalar_item(v)?.clone(), DType::Float64)?.item::<f64>()) };
        let (start, stop) = (number(&args[0])?, number(&args[1])?);
        let mut out = room(DType::Float64, &[num])?;
        let step = (stop - start) / (num.max(2) - 1) as f64;
        let items = out.items_mut::<f64>();
        items.iter_mut().enumerate().for_each(|(i, o)| *o = start + i as f64 * step);
        if num > 1 {
            items[num - 1] = stop;
        }
        Ok(Value::Tensor(cast(out, dtype)?))
    });
    Made::new(Leaf::tensor(dtype, Dims::of([Some(num)])), kernel)
}

fn make_eye(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<0>(args)?;
    let dtype = attrs.dtype("dtype")?.unwrap_or(DType::Float32);
    let size = |name: &str| -> Result<Option<usize>> {
        let n = attrs.i64(name)?;
        n.map(|n| usize::try_from(n).map_err(|_| Error::usage(format!("{name} cannot be negative")))).transpose()
    };
    let rows = attrs.need("num_rows", size("num_rows")?)?;
    let columns = size("num_columns")?.unwrap_or(rows);
    check_room(dtype, &[rows, columns]).map_err(|e| Error::usage(e.message()))?;
    let one = number_of(dtype, 1)?;
    let kernel = ByRow(move |_: &[Value]| {
        let mut out = Tensor::zeros(dtype, [rows, columns]);
        let size = dtype.size();
        let bytes = out.bytes_mut();
        for i in 0..rows.min(columns) {
            let at = (i * columns + i) * size;
            bytes[at..at + size].copy_from_slice(one.bytes());
        }
        Ok(Value::Tensor(out))
    });
    Made::new(Leaf::tensor(dtype, Dims::known(&[rows, columns])), kernel)
}

fn make_one_hot(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (of, shape) = dense(args, 0)?;
    check_integers("indices", of)?;
    let depth = attrs.need("depth", attrs.i64("depth")?)?;
    let depth = usize::try_from(depth).map_err(|_| Error::usage("depth cannot be negative"))?;
    let dtype = attrs.dtype("dtype")?.unwrap_or(DType::Float32);
    let value = |name: &str, n: i64| match attrs.get(name) {
        Some(v) => item(dtype, v),
        None => number_of(dtype, n),
    };
    let (on, off) = (value("on_value", 1)?, value("off_value", 0)?);
    if dtype == DType::String {
        return Err(Error::usage("one_hot makes numbers or truth values, not strings"));
    }
    let axis = attrs.i64("axis")?.unwrap_or(-1);
    let mut dims = shape.clone();
    if let Some(d) = &mut dims.0 {
        let at = axis_of(axis, d.len() + 1)
            .ok_or_else(|| Error::usage(format!("axis {axis} does not exist after shape {shape} has one more axis")))?;
        d.insert(at, Some(depth));
    }
    let kernel = Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let at = axis_of(axis, t.rank() - lead + 1)
            .ok_or_else(|| Error::data(format!("axis {axis} does not exist in the result")))?;
        let mut shape: Shape = t.shape().into();
        shape.insert(at + lead, depth);
        let inner: usize = t.shape()[at + lead..].iter().product();
        let mut out = filled(&off, &shape)?;
        if out.is_empty() {
            return Ok(out);
        }
        let size = dtype.size();
        let index = integers(t)?;
        let to = out.bytes_mut();
        for (k, i) in index.into_iter().enumerate() {
            if let Some(i) = usize::try_from(i).ok().filter(|i| *i < depth) {
                let at = (((k / inner) * depth + i) * inner + k % inner) * size;
                to[at..at + size].copy_from_slice(on.bytes());
            }
        }
        Ok(out)
    });
    Made::new(Leaf::tensor(dtype, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn fills() {
        let dims = Tensor::from_items([2], &[2i32, 2]);
        assert_eq!(call("fill", &[dims.clone(), Tensor::scalar(7u8)], json!({})).items::<u8>(), [7; 4]);
        assert_eq!(call("fill", &[Tensor::string(b"a")], json!({"shape": [2]})), Tensor::strings([2], &["a", "a"]));
        assert_eq!(call("zeros", &[dims], json!({"dtype": "int32"})).items::<i32>(), [0; 4]);
        assert_eq!(call("ones", &[], json!({"shape": [3]})).items::<f32>(), [1.0; 3]);
        assert_eq!(call("zeros", &[], json!({"shape": [], "dtype": "string"})), Tensor::string(b""));
        let x = Tensor::from_items([2], &[5i64, 6]);
        assert_eq!(call("zeros_like", &[x.clone()], json!({})).items::<i64>(), [0, 0]);
        assert_eq!(call("ones_like", &[x], json!({"dtype": "bool"})).items::<B8>(), [B8(1); 2]);
        let huge = Tensor::from_items([3], &[1i64 << 40, 1 << 40, 1 << 40]);
        fails("zeros", &[huge], json!({}));
        fails("zeros", &[Tensor::from_items([1], &[-1i64])], json!({}));
        let eye = call("eye", &[], json!({"num_rows": 2, "num_columns": 3, "dtype": "int8"}));
        assert_eq!(eye, Tensor::from_items([2, 3], &[1i8, 0, 0, 0, 1, 0]));
    }

    #[test]
    fn ranges() {
        let r = |a: i32, b: i32, c: i32| {
            call("range", &[Tensor::scalar(a), Tensor::scalar(b), Tensor::scalar(c)], json!({})).items::<i32>().to_vec()
        };
        assert_eq!(r(0, 5, 2), [0, 2, 4]);
        assert_eq!(r(5, 0, -2), [5, 3, 1]);
        assert_eq!(r(5, 0, 1), [0i32; 0]);
        let f = [Tensor::scalar(0f32), Tensor::scalar(1f32), Tensor::scalar(0.25f32)];
        assert_eq!(call("range", &f, json!({})).items::<f32>(), [0.0, 0.25, 0.5, 0.75]);
        let zero = [Tensor::scalar(0i32), Tensor::scalar(1i32), Tensor::scalar(0i32)];
        assert!(fails("range", &zero, json!({})).message().contains("delta"));
        let far = [Tensor::scalar(i64::MIN), Tensor::scalar(i64::MAX), Tensor::scalar(1i64)];
        fails("range", &far, json!({}));
        let l = call("linspace", &[Tensor::scalar(0f64), Tensor::scalar(1f64)], json!({"num": 5}));
        assert_eq!(l.items::<f64>(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(
            call("linspace", &[Tensor::scalar(3f32), Tensor::scalar(9f32)], json!({"num": 1})).items::<f32>(),
            [3.0]
        );
    }

    #[test]
    fn one_hots() {
        let x = Tensor::from_items([3], &[0i64, 2, -1]);
        let r = call("one_hot", &[x.clone()], json!({"depth": 3}));
        assert_eq!(r.items::<f32>(), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let r = call(
            "one_hot",
            &[x.clone()],
            json!({"depth": 2, "axis": 0, "on_value": 5, "off_value": 1, "dtype": "int32"}),
        );
        assert_eq!(r, Tensor::from_items([2, 3], &[5i32, 1, 1, 1, 1, 1]));
        assert_eq!(
            call("one_hot", &[Tensor::scalar(1u8)], json!({"depth": 2, "dtype": "bool"})).items::<B8>(),
            [B8(0), B8(1)]
        );
        assert_eq!(call("one_hot", &[x.clone()], json!({"depth": 0})).shape(), [3, 0]);
        assert!(refused("one_hot", &[x], json!({"depth": -1})).message().contains("depth"));
    }

    #[test]
    fn items_of_json() {
        assert_eq!(item(DType::Float16, &json!(1.5)).unwrap().item::<half::f16>().to_f32(), 1.5);
        assert!(item(DType::Float32, &json!("-inf")).unwrap().item::<f32>().is_infinite());
        assert!(item(DType::Uint8, &json!(300)).is_err());
        assert_eq!(item(DType::Int32, &json!(3.0)).unwrap().item::<i32>(), 3);
    }
}
