//! What functions need to know of item types: promotion, extreme values, and dispatch by dtype.

use crate::element::{B8, DType, Item};
use crate::error::{Error, Result};
use DType::*;
use half::{bf16, f16};

/// Runs one of two bodies with `$T` standing for the number type of a dtype; other dtypes never get here.
macro_rules! numbers {
    ($dtype:expr, $T:ident => int $int:expr; float $float:expr) => {{
        use crate::element::DType as D;
        match $dtype {
            D::Int8 => { type $T = i8; $int }
            D::Int16 => { type $T = i16; $int }
            D::Int32 => { type $T = i32; $int }
            D::Int64 => { type $T = i64; $int }
            D::Uint8 => { type $T = u8; $int }
            D::Uint16 => { type $T = u16; $int }
            D::Uint32 => { type $T = u32; $int }
            D::Uint64 => { type $T = u64; $int }
            D::Float16 => { type $T = half::f16; $float }
            D::Bfloat16 => { type $T = half::bf16; $float }
            D::Float32 => { type $T = f32; $float }
            D::Float64 => { type $T = f64; $float }
            D::Bool | D::String => Err(crate::Error::internal("numbers expected")),
        }
    }};
    ($dtype:expr, $T:ident => int $int:expr) => {{
        use crate::element::DType as D;
        match $dtype {
            D::Int8 => { type $T = i8; $int }
            D::Int16 => { type $T = i16; $int }
            D::Int32 => { type $T = i32; $int }
            D::Int64 => { type $T = i64; $int }
            D::Uint8 => { type $T = u8; $int }
            D::Uint16 => { type $T = u16; $int }
            D::Uint32 => { type $T = u32; $int }
            D::Uint64 => { type $T = u64; $int }
            _ => Err(crate::Error::internal("integers expected")),
        }
    }};
    ($dtype:expr, $T:ident => $body:expr) => { numbers!($dtype, $T => int $body; float $body) };
}
/// The same for floats, whose bodies are written for `f32` and `f64`: the half types are computed as `f32`.
macro_rules! floats {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use crate::element::DType as D;
        match $dtype {
            D::Float16 => { type $T = half::f16; $body }
            D::Bfloat16 => { type $T = half::bf16; $body }
            D::Float32 => { type $T = f32; $body }
            D::Float64 => { type $T = f64; $body }
            _ => Err(crate::Error::internal("floats expected")),
        }
    }};
}
pub(super) use {floats, numbers};

/// An item type with arithmetic: what reductions, sorting and the like are generic over.
pub trait Number: Item + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    /// What a maximum starts from.
    const LOWEST: Self;
    const HIGHEST: Self;
    /// What sums are collected in: integers wrap in their own type, floats in f64, rounded once at the end.
    type Sum: Copy + Send + Sync;
    const SUM_ZERO: Self::Sum;
    const SUM_ONE: Self::Sum;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    fn plus(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn times(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn to_f64(self) -> f64;
    /// Rounded to the nearest float; cut off and saturated for integers.
    fn of_f64(x: f64) -> Self;
    fn of_i64(x: i64) -> Self;
    /// All values in order, NaN last.
    fn order(self, other: Self) -> std::cmp::Ordering {
        self.partial_cmp(&other).unwrap_or_else(|| {
            let nan = |x: Self| x.partial_cmp(&x).is_none();
            nan(self).cmp(&nan(other))
        })
    }
}

macro_rules! ints {
    ($($t:ty),*) => { $(
        impl Number for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            type Sum = $t;
            const SUM_ZERO: $t = 0;
            const SUM_ONE: $t = 1;
            fn widen(self) -> $t { self }
            fn narrow(sum: $t) -> $t { sum }
            fn plus(a: $t, b: $t) -> $t { a.wrapping_add(b) }
            fn times(a: $t, b: $t) -> $t { a.wrapping_mul(b) }
            fn to_f64(self) -> f64 { self as f64 }
            fn of_f64(x: f64) -> $t { x as $t }
            fn of_i64(x: i64) -> $t { x as $t }
        }
    )* };
}
macro_rules! reals {
    ($($t:ty, $to:expr, $of:expr);*) => { $(
        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const HIGHEST: $t = <$t>::INFINITY;
            type Sum = f64;
            const SUM_ZERO: f64 = 0.0;
            const SUM_ONE: f64 = 1.0;
            fn widen(self) -> f64 { $to(self) }
            fn narrow(sum: f64) -> $t { $of(sum) }
            fn plus(a: f64, b: f64) -> f64 { a + b }
            fn times(a: f64, b: f64) -> f64 { a * b }
            fn to_f64(self) -> f64 { $to(self) }
            fn of_f64(x: f64) -> $t { $of(x) }
            fn of_i64(x: i64) -> $t { $of(x as f64) }
        }
    )* };
}
ints!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! halves {
    ($($t:ident),*) => { $(
        impl Number for $t {
            const ZERO: $t = $t::ZERO;
            const ONE: $t = $t::ONE;
            const LOWEST: $t = $t::NEG_INFINITY;
            const HIGHEST: $t = $t::INFINITY;
            type Sum = f64;
            const SUM_ZERO: f64 = 0.0;
            const SUM_ONE: f64 = 1.0;
            fn widen(self) -> f64 { self.to_f64() }
            fn narrow(sum: f64) -> $t { $t::from_f64(sum) }
            fn plus(a: f64, b: f64) -> f64 { a + b }
            fn times(a: f64, b: f64) -> f64 { a * b }
            fn to_f64(self) -> f64 { <$t>::to_f64(self) }
            fn of_f64(x: f64) -> $t { $t::from_f64(x) }
            fn of_i64(x: i64) -> $t { $t::from_f64(x as f64) }
        }
    )* };
}
halves!(f16, bf16);
reals!(f32, |x: f32| x as f64, |x: f64| x as f32; f64, |x: f64| x, |x: f64| x);

/// A float type whose functions are computed in `f32` or `f64`.
pub trait Real: Number {
    type In: Copy;
    fn inward(self) -> Self::In;
    fn outward(x: Self::In) -> Self;
}
macro_rules! real {
    ($($t:ty, $in:ty, $to:expr, $of:expr);*) => { $(
        impl Real for $t {
            type In = $in;
            #[inline(always)]
            fn inward(self) -> $in { $to(self) }
            #[inline(always)]
            fn outward(x: $in) -> $t { $of(x) }
        }
    )* };
}
real!(f16, f32, f16::to_f32, f16::from_f32; bf16, f32, bf16::to_f32, bf16::from_f32; f32, f32, |x| x, |x| x; f64, f64, |x| x, |x| x);

/// The dtype in which two are computed together: NumPy's rules.
pub fn promote(a: DType, b: DType) -> Result<DType> {
    if a == b {
        return Ok(a);
    }
    let signed = |bytes: usize| match bytes {
        1 => Int8,
        2 => Int16,
        4 => Int32,
        8 => Int64,
        _ => Float64,
    };
    Ok(match (a, b) {
        (String, other) | (other, String) => {
            return Err(Error::usage(format!(
                "string and {other} do not go together; convert one with strings.as_string or strings.to_number"
            )));
        }
        (Bool, d) | (d, Bool) => d,
        (x, y) if x.is_float() && y.is_float() => match (x, y) {
            (Float64, _) | (_, Float64) => Float64,
            _ => Float32,
        },
        (f, i) | (i, f) if f.is_float() => match i.size() {
            1 => f,
            2 if f.size() == 2 => Float32,
            2 => f,
            _ => Float64,
        },
        (x, y) if x.is_signed() == y.is_signed() => {
            if x.size() >= y.size() { x } else { y }
        }
        (x, y) => {
            let (s, u) = if x.is_signed() { (x, y) } else { (y, x) };
            if s.size() > u.size() { s } else { signed(2 * u.size()) }
        }
    })
}

/// The float in which functions of this dtype are computed: as is for floats, NumPy's choice for others.
pub fn float_of(dtype: DType) -> Result<DType> {
    match dtype {
        String => Err(Error::usage("expects numbers, not strings; convert them with strings.to_number")),
        d if d.is_float() => Ok(d),
        d if d.size() <= 2 => Ok(Float32),
        _ => Ok(Float64),
    }
}

/// Whether a boolean byte is set, for code that is generic over items.
pub trait Truth: Item {
    fn truth(self) -> bool;
}
impl Truth for B8 {
    fn truth(self) -> bool {
        self.get()
    }
}
macro_rules! truths {
    ($($t:ty),*) => { $(impl Truth for $t { fn truth(self) -> bool { self != <$t>::ZERO } })* };
}
truths!(i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_numpys() {
        for (a, b, c) in [
            (Int32, Int64, Int64),
            (Uint8, Int8, Int16),
            (Int8, Uint16, Int32),
            (Uint8, Int32, Int32),
            (Uint64, Int8, Float64),
            (Uint32, Int32, Int64),
            (Int64, Float32, Float64),
            (Int16, Float32, Float32),
            (Uint8, Float16, Float16),
            (Int16, Float16, Float32),
            (Int32, Float16, Float64),
            (Float16, Float32, Float32),
            (Bfloat16, Float16, Float32),
            (Bfloat16, Float64, Float64),
            (Bool, Uint8, Uint8),
            (Bool, Bool, Bool),
        ] {
            assert_eq!(promote(a, b).unwrap(), c, "{a} {b}");
            assert_eq!(promote(b, a).unwrap(), c, "{b} {a}");
        }
        assert!(promote(String, Int32).is_err());
    }

    #[test]
    fn nan_comes_last() {
        let mut v = [f32::NAN, 1.0, f32::INFINITY, -0.0];
        v.sort_by(|a, b| a.order(*b));
        assert_eq!(v[..3], [-0.0, 1.0, f32::INFINITY]);
        assert!(v[3].is_nan());
    }
}
