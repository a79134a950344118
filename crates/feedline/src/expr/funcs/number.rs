//! What functions need to know of item types: promotion, extreme values, and dispatch by dtype.

use crate::element::{B8, DType, Item};
use crate::error::{Error, Result};
use DType::*;
use half::{bf16, f16};

/// Runs `$body` with `$T` standing for the type of a dtype, one of those named: `all` numbers, `int`, `float` (f32 and
/// f64: see `inner_dtype`), or the unsigned integers and floats (`signless`). Other dtypes never get here.
macro_rules! numbers {
    ($dtype:expr, $T:ident => int $body:expr) => { numbers!(@ $dtype, $T, (Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64): $body) };
    ($dtype:expr, $T:ident => float $body:expr) => { numbers!(@ $dtype, $T, (Float32 f32, Float64 f64): $body) };
    ($dtype:expr, $T:ident => int $int:expr; float $float:expr) => {
        numbers!(@ $dtype, $T, (Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64): $int,
            (Float32 f32, Float64 f64): $float)
    };
    ($dtype:expr, $T:ident => signless $int:expr; float $float:expr) => {
        numbers!(@ $dtype, $T, (Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64): $int, (Float32 f32, Float64 f64): $float)
    };
    ($dtype:expr, $T:ident => signless $int:expr) => {
        numbers!(@ $dtype, $T, (Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64): $int)
    };
    ($dtype:expr, $T:ident => all $body:expr) => {
        numbers!(@ $dtype, $T, (Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64,
            Float16 half::f16, Bfloat16 half::bf16, Float32 f32, Float64 f64): $body)
    };
    (@ $dtype:expr, $T:ident, $(($($d:ident $t:ty),*): $body:expr),*) => {
        match $dtype {
            $($(crate::element::DType::$d => { type $T = $t; $body })*)*
            other => Err(crate::Error::internal(format!("{other} was not refused"))),
        }
    };
}
pub(super) use numbers;

/// The dtype in which a computation is done: half floats as float32, rounded at the end. Fewer types to compile for.
pub fn inner_dtype(dtype: DType) -> DType {
    if matches!(dtype, Float16 | Bfloat16) { Float32 } else { dtype }
}

/// The unsigned integer of the same size, for computations that do not see the sign (two's complement).
pub fn signless(dtype: DType) -> DType {
    match dtype {
        Int8 => Uint8,
        Int16 => Uint16,
        Int32 => Uint32,
        Int64 => Uint64,
        d => d,
    }
}

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
            if x.size() >= y.size() {
                x
            } else {
                y
            }
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
