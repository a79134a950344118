//! Conversion between dtypes.

use super::super::{Attrs, Func, Made, arity, dense};
use super::broadcast::{Elementwise, map, map_same, room};
use super::number::{Number, numbers};
use crate::element::{B8, DType, Dims, Leaf, Shape, Tensor};
use crate::error::{Error, Result};
use crate::with_item;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

pub static FUNCS: &[Func] = &[
    Func {
        name: "cast",
        doc: "Converts items to another dtype: floats to integers towards zero, integers wrap around, any number that is not zero is True. Floats outside the range of an integer dtype become its nearest value, NaN becomes 0.",
        make: |args, attrs| make(args, attrs, cast),
        pure: true,
    },
    Func {
        name: "saturate_cast",
        doc: "Converts items to another dtype; numbers outside its range become its nearest value.",
        make: |args, attrs| make(args, attrs, saturate),
        pure: true,
    },
    Func {
        name: "bitcast",
        doc: "Reads the bytes of the items as another dtype. A smaller dtype adds a last axis, a larger one takes it away.",
        make: make_bitcast,
        pure: true,
    },
];

fn make(args: &[Leaf], attrs: &Attrs, f: fn(Tensor, DType) -> Result<Tensor>) -> Result<Made> {
    arity::<1>(args)?;
    let (from, shape) = dense(args, 0)?;
    let to = attrs.need("dtype", attrs.dtype("dtype")?)?;
    if from != to && (from == DType::String || to == DType::String) {
        return Err(Error::usage(format!("cannot cast {from} to {to}; use strings.to_number or strings.as_string")));
    }
    let spec = Leaf::tensor(to, shape.clone());
    Made::new(spec, Elementwise::new(move |mut args: super::broadcast::Tensors| f(args.remove(0), to)))
}

/// Converts a number to another type as the `cast` function promises.
pub trait Cast<U> {
    fn cast(self) -> U;
}

macro_rules! casts {
    ($($t:ty)* => $all:tt) => { $(casts!(@one $t => $all);)* };
    (@one $t:ty => ($($u:ty)*)) => { $(
        impl Cast<$u> for $t {
            #[inline(always)]
            fn cast(self) -> $u { self as $u }
        }
    )* };
}
casts!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 => (i8 i16 i32 i64 u8 u16 u32 u64 f32 f64));

// The half types convert by way of f32, which holds all their values, or from f64, which rounds once.
macro_rules! half_casts {
    ($h:ident: $($t:ty)*) => { $(
        impl Cast<$h> for $t {
            #[inline(always)]
            fn cast(self) -> $h { $h::from_f64(self as f64) }
        }
        impl Cast<$t> for $h {
            #[inline(always)]
            fn cast(self) -> $t { self.to_f32() as $t }
        }
    )* };
}
half_casts!(f16: i16 i32 i64 u16 u32 u64 f64);
half_casts!(bf16: i16 i32 i64 u16 u32 u64 f64);
macro_rules! small_casts {
    ($h:ident: $($t:ty)*) => { $(
        impl Cast<$h> for $t {
            #[inline(always)]
            fn cast(self) -> $h { $h::from_f32(self as f32) }
        }
        impl Cast<$t> for $h {
            #[inline(always)]
            fn cast(self) -> $t { self.to_f32() as $t }
        }
    )* };
}
small_casts!(f16: i8 u8 f32);
small_casts!(bf16: i8 u8 f32);
macro_rules! between_halves {
    ($($a:ident $b:ident),*) => { $(
        impl Cast<$b> for $a {
            #[inline(always)]
            fn cast(self) -> $b { $b::from_f32(self.to_f32()) }
        }
    )* };
}
between_halves!(f16 f16, f16 bf16, bf16 f16, bf16 bf16);
macro_rules! bool_casts {
    ($($t:ty)*) => { $(
        impl Cast<B8> for $t {
            #[inline(always)]
            fn cast(self) -> B8 { B8::from(self != <$t as Number>::ZERO) }
        }
        impl Cast<$t> for B8 {
            #[inline(always)]
            fn cast(self) -> $t { if self.get() { <$t as Number>::ONE } else { <$t as Number>::ZERO } }
        }
    )* };
}
bool_casts!(i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
impl Cast<B8> for B8 {
    fn cast(self) -> B8 {
        self
    }
}

/// Items as another dtype; strings only as themselves.
pub fn cast(t: Tensor, to: DType) -> Result<Tensor> {
    if t.dtype() == to {
        return Ok(t);
    }
    if let (DType::Float16, DType::Float32) | (DType::Float32, DType::Float16) = (t.dtype(), to) {
        // Whole slices use the processor's own instruction where it has one.
        let mut out = room(to, t.shape())?;
        match to {
            DType::Float32 => t.items::<f16>().convert_to_f32_slice(out.items_mut::<f32>()),
            _ => out.items_mut::<f16>().convert_from_f32_slice(t.items::<f32>()),
        }
        return Ok(out);
    }
    with_item!(t.dtype(), T =>
        with_item!(to, U => map::<T, U>(&t, |x| x.cast()); String => no_strings());
        String => no_strings())
}

/// The same bytes as items of another dtype of the same size. What was the only handle stays the only one.
pub fn relabel(t: Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        return Ok(t);
    }
    let shape: Shape = t.shape().into();
    let (buf, start) = t.buf();
    let (buf, start) = (buf.clone(), start);
    drop(t);
    Tensor::from_buf(dtype, shape, buf, start)
}

fn no_strings() -> Result<Tensor> {
    Err(Error::internal("a cast of strings was not refused"))
}

/// Integers that lie outside the range of another dtype are moved to its ends first.
pub fn saturate(t: Tensor, to: DType) -> Result<Tensor> {
    // Casts from floats saturate anyway; only integers wrap.
    if !(t.dtype().is_int() && to.is_int()) {
        return cast(t, to);
    }
    let bits = 8 * to.size() as u32;
    let (low, high) = match to.is_signed() {
        true => (-1i128 << (bits - 1), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let inside = numbers!(t.dtype(), T => int {
        let (low, high) = (low.max(T::MIN as i128) as T, high.min(T::MAX as i128) as T);
        map_same(t, |x: T| x.clamp(low, high))
    })?;
    cast(inside, to)
}

fn make_bitcast(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (from, shape) = dense(args, 0)?;
    let to = attrs.need("dtype", attrs.dtype("dtype")?)?;
    if [from, to].iter().any(|d| matches!(d, DType::String | DType::Bool)) {
        return Err(Error::usage(format!("cannot bitcast {from} to {to}; only numbers have bytes to read anew")));
    }
    let (a, b) = (from.size(), to.size());
    let dims = match shape.dims() {
        None => Dims::unknown(),
        Some(d) if a == b => Dims::of(d.iter().copied()),
        Some(d) if a > b => Dims::of(d.iter().copied().chain([Some(a / b)])),
        Some([rest @ .., last]) if last.is_none_or(|n| n == b / a) => Dims::of(rest.iter().copied()),
        Some(_) => {
            return Err(Error::usage(format!("bitcast of {from}{shape} to {to} wants a last axis of size {}", b / a)));
        }
    };
    let kernel = super::lead::Lead::new(move |args: &[Tensor], lead: usize| {
        let t = &args[0];
        let mut shape: Shape = t.shape().into();
        if a > b {
            shape.push(a / b);
        } else if a < b && (t.rank() == lead || shape.pop() != Some(b / a)) {
            return Err(Error::data(format!("bitcast to {to} wants a last axis of size {}", b / a)));
        }
        let mut out = room(to, &shape)?;
        out.bytes_mut().copy_from_slice(t.bytes());
        Ok(out)
    });
    Made::new(Leaf::tensor(to, dims), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;
    use serde_json::json;

    #[test]
    fn casts_truncate_wrap_and_never_fail() {
        let f = Tensor::from_items([5], &[-1.7f32, 2.9, f32::NAN, 300.0, -1e30]);
        assert_eq!(call("cast", &[f.clone()], json!({"dtype": "int32"})).items::<i32>(), [-1, 2, 0, 300, i32::MIN]);
        assert_eq!(call("cast", &[f.clone()], json!({"dtype": "uint8"})).items::<u8>(), [0, 2, 0, 255, 0]);
        let b = call("cast", &[f], json!({"dtype": "bool"}));
        assert!(b.items::<B8>().iter().all(|b| b.get()));
        let i = Tensor::from_items([2], &[300i64, -1]);
        assert_eq!(call("cast", &[i.clone()], json!({"dtype": "uint8"})).items::<u8>(), [44, 255]);
        assert_eq!(call("saturate_cast", &[i], json!({"dtype": "uint8"})).items::<u8>(), [255, 0]);
        let odd = Tensor::from_items([2], &[B8(7), B8(0)]);
        assert_eq!(call("cast", &[odd], json!({"dtype": "int16"})).items::<i16>(), [1, 0]);
        let h = call("cast", &[Tensor::scalar(1e6f64)], json!({"dtype": "float16"}));
        assert_eq!(h.item::<f16>(), f16::INFINITY);
    }

    #[test]
    fn bitcasts_move_the_last_axis() {
        let x = Tensor::from_items([1], &[0x0102_0304u32]);
        let bytes = call("bitcast", &[x.clone()], json!({"dtype": "uint8"}));
        assert_eq!(bytes.shape(), [1, 4]);
        assert_eq!(call("bitcast", &[bytes], json!({"dtype": "uint32"})), x);
        assert_eq!(call("bitcast", &[Tensor::scalar(1f32)], json!({"dtype": "int32"})).item::<i32>(), 0x3f80_0000);
    }
}
