//! Functions of floats, item by item. Integers and truth values become floats first: float32 up to 16 bits, else
//! float64. Half floats are computed in float32.

use super::super::{Func, Made, arity, dense};
use super::broadcast::{Elementwise, Tensors, broadcast_dims, map, map_same, zip_same};
use super::cast::cast;
use super::integer::Int;
use super::number::{Number, Rounding, float_of, inner_dtype, numbers, promote};
use crate::element::{B8, DType, Leaf, Tensor};
use crate::error::{Error, Result};

macro_rules! float {
    ($name:literal, $doc:literal, $x:ident => $f:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| unary(args, false, |t| numbers!(t.dtype(), T => float map_same(t, |$x: T| -> T { $f }))),
        }
    };
}
/// Functions that leave integers as they are.
macro_rules! rounding {
    ($name:literal, $doc:literal, $x:ident => $f:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| unary(args, true, |t| numbers!(t.dtype(), T => float map_same(t, |$x: T| -> T { $f }))),
        }
    };
}
macro_rules! test {
    ($name:literal, $doc:literal, $other:literal, $x:ident => $f:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                test(args, $other, |t| numbers!(t.dtype(), T => float map(&t, |$x: T| B8::from($f))))
            },
        }
    };
}
macro_rules! float2 {
    ($name:literal, $doc:literal, $x:ident $y:ident => $f:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                binary(args, |dtype, a, b| {
                    numbers!(dtype, T => float zip_same(a, b, |$x: T, $y: T| -> T { $f }))
                })
            },
        }
    };
}

pub static FUNCS: &[Func] = &[
    float!("exp", "e to the power of x.", x => x.exp()),
    float!("expm1", "exp(x) - 1, exact near zero.", x => x.exp_m1()),
    float!("log", "The natural logarithm.", x => x.ln()),
    float!("log1p", "log(1 + x), exact near zero.", x => x.ln_1p()),
    float!("log2", "The logarithm to base 2.", x => x.log2()),
    float!("log10", "The logarithm to base 10.", x => x.log10()),
    float!("sqrt", "The square root.", x => x.sqrt()),
    float!("rsqrt", "One over the square root.", x => 1.0 / x.sqrt()),
    float!("reciprocal", "One over x.", x => 1.0 / x),
    float!("sin", "The sine.", x => x.sin()),
    float!("cos", "The cosine.", x => x.cos()),
    float!("tan", "The tangent.", x => x.tan()),
    float!("asin", "The angle of a sine.", x => x.asin()),
    float!("acos", "The angle of a cosine.", x => x.acos()),
    float!("atan", "The angle of a tangent.", x => x.atan()),
    float!("sinh", "The hyperbolic sine.", x => x.sinh()),
    float!("cosh", "The hyperbolic cosine.", x => x.cosh()),
    float!("tanh", "The hyperbolic tangent.", x => x.tanh()),
    float!("asinh", "The inverse hyperbolic sine.", x => x.asinh()),
    float!("acosh", "The inverse hyperbolic cosine.", x => x.acosh()),
    float!("atanh", "The inverse hyperbolic tangent.", x => x.atanh()),
    float!("sigmoid", "1 / (1 + exp(-x)).", x => 1.0 / (1.0 + (-x).exp())),
    // Large x: log(1 + exp(x)) is x to within rounding, and exp would overflow.
    float!("softplus", "log(1 + exp(x)).", x => if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }),
    float!("erf", "The error function.", x => erf(x.to_f64()) as T),
    Func {
        name: "relu",
        doc: "The number if it is positive, else 0.",
        pure: true,
        make: |args, _| {
            arity::<1>(args)?;
            let (dtype, _) = dense(args, 0)?;
            if !dtype.is_numeric() {
                return Err(Error::usage(format!("expects numbers, not {dtype}")));
            }
            super::arithmetic::unary_of(args, dtype, move |t| {
                let t = cast(t, inner_dtype(dtype))?;
                let out = numbers!(t.dtype(), T =>
                    int map_same(t, |x: T| if x.is_negative_int() { 0 } else { x });
                    float map_same(t, |x: T| if x < 0.0 { 0.0 } else { x }));
                cast(out?, dtype)
            })
        },
    },
    rounding!("floor", "The next integer below.", x => x.down()),
    rounding!("ceil", "The next integer above.", x => x.up()),
    rounding!("round", "The nearest integer; halves go to the even one.", x => x.nearest()),
    rounding!("rint", "The nearest integer; halves go to the even one.", x => x.nearest()),
    rounding!("trunc", "The integer part.", x => x.toward_zero()),
    test!("is_nan", "Whether it is not a number.", false, x => x.is_nan()),
    test!("is_inf", "Whether it is infinite.", false, x => x.is_infinite()),
    test!("is_finite", "Whether it is neither infinite nor NaN.", true, x => x.is_finite()),
    float2!("atan2", "The angle of the point (y, x) given as two tensors.", y x => y.atan2(x)),
    float2!("hypot", "The length of the vector (x, y).", x y => x.hypot(y)),
    float2!("xlogy", "x * log(y), and 0 where x is 0.", x y => if x == 0.0 && !y.is_nan() { 0.0 } else { x * y.ln() }),
];

fn number(dtype: DType) -> Result<DType> {
    match dtype {
        DType::String => Err(Error::usage("expects numbers, not strings; convert them with strings.to_number")),
        d => Ok(d),
    }
}

fn unary(args: &[Leaf], keep_ints: bool, f: fn(Tensor) -> Result<Tensor>) -> Result<Made> {
    arity::<1>(args)?;
    let (from, _) = dense(args, 0)?;
    let from = number(from)?;
    if keep_ints && !from.is_float() {
        return super::arithmetic::unary_of(args, from, Ok);
    }
    let to = float_of(from)?;
    super::arithmetic::unary_of(args, to, move |t| cast(f(cast(t, inner_dtype(to))?)?, to))
}

fn test(args: &[Leaf], other: bool, f: fn(Tensor) -> Result<Tensor>) -> Result<Made> {
    arity::<1>(args)?;
    let from = number(dense(args, 0)?.0)?;
    super::arithmetic::unary_of(args, DType::Bool, move |t| match from.is_float() {
        true => f(cast(t, inner_dtype(from))?),
        false => {
            let mut out = super::broadcast::room(DType::Bool, t.shape())?;
            out.items_mut::<B8>().fill(B8::from(other));
            Ok(out)
        }
    })
}

fn binary(args: &[Leaf], f: fn(DType, Tensor, Tensor) -> Result<Tensor>) -> Result<Made> {
    arity::<2>(args)?;
    let ((a, da), (b, db)) = (dense(args, 0)?, dense(args, 1)?);
    let to = float_of(promote(number(a)?, number(b)?)?)?;
    let inner = inner_dtype(to);
    Made::new(
        Leaf::tensor(to, broadcast_dims(da, db)?),
        Elementwise::new(move |mut t: Tensors| {
            cast(f(inner, cast(t.remove(0), inner)?, cast(t.remove(0), inner)?)?, to)
        }),
    )
}

/// The error function: a series near zero, a continued fraction further out; accurate to about 1e-15.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    let frac_2_sqrt_pi = std::f64::consts::FRAC_2_SQRT_PI;
    if a < 2.5 {
        // 2/sqrt(pi) * exp(-x²) * sum of 2ⁿ x^(2n+1) / (1·3·…·(2n+1)): all terms positive, so nothing cancels.
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while term > sum * 1e-17 {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return (frac_2_sqrt_pi * (-a * a).exp() * sum).copysign(x);
    }
    // erfc(x) = exp(-x²)/sqrt(pi) * 1/(x + (1/2)/(x + (2/2)/(x + …))), from the inside out.
    let tail = (1..=60).rev().fold(a, |f, k| a + k as f64 / 2.0 / f);
    (1.0 - (-a * a).exp() * frac_2_sqrt_pi / 2.0 / tail).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, refused};
    use super::*;
    use serde_json::json;

    fn one(name: &str, x: f64) -> f64 {
        call(name, &[Tensor::scalar(x)], json!({})).item::<f64>()
    }

    #[test]
    fn known_values() {
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-14 * b.abs().max(1.0), "{a} {b}");
        near(one("exp", 1.0), std::f64::consts::E);
        near(one("erf", 0.5), 0.520_499_877_813_046_5);
        near(one("erf", 1.0), 0.842_700_792_949_714_9);
        near(one("erf", -2.0), -0.995_322_265_018_952_7);
        near(one("erf", 3.0), 0.999_977_909_503_001_4);
        assert_eq!(one("erf", 7.0), 1.0);
        near(one("sigmoid", 0.0), 0.5);
        near(one("softplus", 800.0), 800.0);
        near(one("softplus", 0.0), std::f64::consts::LN_2);
        near(one("rsqrt", 4.0), 0.5);
        assert_eq!(one("round", 2.5), 2.0);
        assert_eq!(one("round", -1.5), -2.0);
        assert_eq!(one("trunc", -1.5), -1.0);
        assert_eq!(one("relu", -3.0), 0.0);
        let h = call("hypot", &[Tensor::scalar(3f32), Tensor::scalar(4i16)], json!({}));
        assert_eq!(h.item::<f32>(), 5.0);
    }

    #[test]
    fn integers_become_floats() {
        assert_eq!(call("sqrt", &[Tensor::scalar(9u8)], json!({})).item::<f32>(), 3.0);
        assert_eq!(call("sqrt", &[Tensor::scalar(9i32)], json!({})).item::<f64>(), 3.0);
        assert_eq!(call("floor", &[Tensor::scalar(9i32)], json!({})).item::<i32>(), 9);
        let h = half::f16::from_f32(2.25);
        assert_eq!(call("sqrt", &[Tensor::scalar(h)], json!({})).item::<half::f16>().to_f32(), 1.5);
        assert!(refused("exp", &[Tensor::string(b"1")], json!({})).message().contains("to_number"));
    }

    #[test]
    fn tests_of_floats() {
        let x = Tensor::from_items([3], &[1f32, f32::NAN, f32::INFINITY]);
        assert_eq!(call("is_nan", &[x.clone()], json!({})).items::<B8>(), [B8(0), B8(1), B8(0)]);
        assert_eq!(call("is_inf", &[x.clone()], json!({})).items::<B8>(), [B8(0), B8(0), B8(1)]);
        assert_eq!(call("is_finite", &[x], json!({})).items::<B8>(), [B8(1), B8(0), B8(0)]);
        assert_eq!(call("is_finite", &[Tensor::scalar(3i64)], json!({})).item::<B8>(), B8(1));
    }
}
