//! What functions need to know of item types: promotion, extreme values, and dispatch by dtype.

use crate::element::{DType, Item};
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

/// A number type, for code that is generic over all of them.
pub trait Number: Item + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    fn to_f64(self) -> f64;
    /// Rounded to the nearest float; cut off and saturated for integers.
    fn of_f64(x: f64) -> Self;
    /// All values in order, NaN last.
    fn order(self, other: Self) -> std::cmp::Ordering {
        self.partial_cmp(&other).unwrap_or_else(|| {
            let nan = |x: Self| x.partial_cmp(&x).is_none();
            nan(self).cmp(&nan(other))
        })
    }
}

macro_rules! number {
    ($($t:ty: $zero:expr, $one:expr, $to:expr, $of:expr);*) => { $(
        impl Number for $t {
            const ZERO: $t = $zero;
            const ONE: $t = $one;
            fn to_f64(self) -> f64 {
                $to(self)
            }
            fn of_f64(x: f64) -> $t {
                $of(x)
            }
        }
    )* };
    (plain $($t:ty),*) => { number!($($t: 0 as $t, 1 as $t, |x| x as f64, |x| x as $t);*); };
}
number!(plain i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);
number!(f16: f16::ZERO, f16::ONE, f16::to_f64, f16::from_f64; bf16: bf16::ZERO, bf16::ONE, bf16::to_f64, bf16::from_f64);

/// Rounding without a call into the C library, which would keep loops from being vectorised on processors without SSE4.1:
/// below `WHOLE` a float has a fractional part, and adding and taking away `WHOLE` rounds it off, to even.
macro_rules! rounding {
    ($($t:ident, $whole:expr);*) => { $(
        impl Rounding for $t {
            #[inline(always)]
            fn nearest(self) -> $t {
                const WHOLE: $t = $whole;
                let a = self.abs();
                if a < WHOLE { ((a + WHOLE) - WHOLE).copysign(self) } else { self }
            }
            #[inline(always)]
            fn down(self) -> $t {
                let r = self.nearest();
                // The sign of a zero is that of what was rounded.
                (if r > self { r - 1.0 } else { r }).copysign(self)
            }
            #[inline(always)]
            fn up(self) -> $t {
                -(-self).down()
            }
            #[inline(always)]
            fn toward_zero(self) -> $t {
                self.abs().down().copysign(self)
            }
        }
    )* };
}
pub trait Rounding {
    /// Halves go to the even neighbour.
    fn nearest(self) -> Self;
    fn down(self) -> Self;
    fn up(self) -> Self;
    fn toward_zero(self) -> Self;
}
rounding!(f32, 8_388_608.0; f64, 4_503_599_627_370_496.0);

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
    fn rounding_is_that_of_the_library() {
        let mut list: Vec<f64> =
            vec![0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.49, 1e15, 4503599627370495.5, 4503599627370496.0, 1e300];
        list.extend([f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 8388607.5, 8388608.0, 0.49999999999999994]);
        for x in list.iter().flat_map(|x| [*x, -*x]) {
            let same = |a: f64, b: f64, what: &str| assert_eq!(a.to_bits(), b.to_bits(), "{what} {x}: {a} {b}");
            if !x.is_nan() {
                same(x.nearest(), x.round_ties_even(), "nearest");
                same(x.down(), x.floor(), "down");
                same(x.up(), x.ceil(), "up");
                same(x.toward_zero(), x.trunc(), "toward zero");
                let y = x as f32;
                assert_eq!(y.down().to_bits(), y.floor().to_bits(), "{y}");
                assert_eq!(y.up().to_bits(), y.ceil().to_bits(), "{y}");
                assert_eq!(y.nearest().to_bits(), y.round_ties_even().to_bits(), "{y}");
                assert_eq!(y.toward_zero().to_bits(), y.trunc().to_bits(), "{y}");
            }
            assert_eq!(x.down().is_nan(), x.is_nan());
        }
    }

    #[test]
    fn nan_comes_last() {
        let mut v = [f32::NAN, 1.0, f32::INFINITY, -0.0];
        v.sort_by(|a, b| a.order(*b));
        assert_eq!(v[..3], [-0.0, 1.0, f32::INFINITY]);
        assert!(v[3].is_nan());
    }
}
