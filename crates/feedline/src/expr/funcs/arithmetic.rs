//! Arithmetic, comparison and logic, item by item with broadcasting.

use super::super::{Func, Made, arity, dense};
use super::broadcast::{Elementwise, Tensors, broadcast_dims, build_strings, map_same, zip, zip_same, zip_strings};
use super::cast::{cast, relabel};
use super::integer::Int;
use super::number::{Rounding, inner_dtype, numbers, promote, signless};
use crate::element::{B8, DType, Leaf, Tensor};
use crate::error::{Error, Result};

/// A function of two numbers of one dtype: what it does to two integers, and to two floats. `signless` if integers of
/// either sign have the same result, bit by bit.
macro_rules! binary {
    ($name:literal, $doc:literal, $a:ident $b:ident, $kind:ident $int:expr, float $float:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                computed_in(args, common(args)?, binary!(@ $kind), |dtype, x, y| {
                    numbers!(dtype, T =>
                        $kind zip_same(x, y, |$a: T, $b: T| -> T { $int });
                        float zip_same(x, y, |$a: T, $b: T| -> T { $float }))
                })
            },
        }
    };
    (@ int) => { false };
    (@ signless) => { true };
}
/// A function of one number.
macro_rules! unary {
    ($name:literal, $doc:literal, $a:ident, int $int:expr, float $float:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                unary(args, |x| {
                    numbers!(x.dtype(), T =>
                        int map_same(x, |$a: T| -> T { $int });
                        float map_same(x, |$a: T| -> T { $float }))
                })
            },
        }
    };
}
/// A comparison of numbers or strings. `swapped` exchanges the arguments: a > b is b < a.
macro_rules! compare {
    ($name:literal, $doc:literal, $swapped:literal, $a:ident $b:ident, $kind:ident $test:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                comparison(args, $swapped, binary!(@ $kind), |dtype, x, y| match dtype {
                    DType::String => zip_strings(x, y, |$a, $b| B8::from($test)),
                    dtype => numbers!(dtype, T =>
                        $kind zip(x, y, |$a: T, $b: T| B8::from($test));
                        float zip(x, y, |$a: T, $b: T| B8::from($test))),
                })
            },
        }
    };
}
/// Logic on truth values; on integers too if there is a form for them.
macro_rules! logic {
    ($name:literal, $doc:literal, $a:ident $b:ident, bool $bool:expr $(, int $int:expr)?) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                logic(args, logic!(@ints $($int)?), |dtype, x, y| match dtype {
                    DType::Bool => zip_same(x, y, |$a: B8, $b: B8| {
                        let ($a, $b) = ($a.get(), $b.get());
                        B8::from($bool)
                    }),
                    _dtype => logic!(@int _dtype, x, y, $a, $b $(, $int)?),
                })
            },
        }
    };
    (@ints) => { false };
    (@ints $int:expr) => { true };
    (@int $dtype:ident, $x:ident, $y:ident, $a:ident, $b:ident) => { Err(Error::internal("truth values expected")) };
    (@int $dtype:ident, $x:ident, $y:ident, $a:ident, $b:ident, $int:expr) => {
        numbers!($dtype, T => signless zip_same($x, $y, |$a: T, $b: T| -> T { $int }))
    };
}

macro_rules! shift {
    ($name:literal, $doc:literal, $a:ident $b:ident, $int:expr) => {
        Func {
            name: $name,
            doc: $doc,
            pure: true,
            make: |args, _| {
                let dtype = common(args)?;
                if !dtype.is_int() {
                    return Err(Error::usage(format!("expects integers, not {dtype}")));
                }
                computed_in(args, dtype, false, |dtype, x, y| {
                    numbers!(dtype, T => int zip_same(x, y, |$a: T, $b: T| $int))
                })
            },
        }
    };
}

pub static FUNCS: &[Func] = &[
    Func {
        name: "add",
        doc: "The sum of two tensors; strings are joined.",
        pure: true,
        make: |args, _| match args {
            [Leaf::Tensor { dtype: DType::String, shape: a }, Leaf::Tensor { dtype: DType::String, shape: b }] => {
                let spec = Leaf::tensor(DType::String, broadcast_dims(a, b)?);
                Made::new(
                    spec,
                    Elementwise::new(|t: Tensors| {
                        build_strings(&t[0], &t[1], |a, b, out| {
                            out.extend_from_slice(a);
                            out.extend_from_slice(b);
                        })
                    }),
                )
            }
            _ => computed_in(args, common(args)?, true, |dtype, x, y| {
                numbers!(dtype, T =>
                    signless zip_same(x, y, |a: T, b: T| a.wrapping_add(b));
                    float zip_same(x, y, |a: T, b: T| a + b))
            }),
        },
    },
    binary!("subtract", "The difference of two tensors.", a b, signless a.wrapping_sub(b), float a - b),
    binary!("multiply", "The product of two tensors.", a b, signless a.wrapping_mul(b), float a * b),
    Func {
        name: "truediv",
        doc: "The quotient as a float: integers of 8 and 16 bits give float32, larger ones float64.",
        pure: true,
        make: |args, _| {
            let dtype = super::number::float_of(common(args)?)?;
            computed_in(
                args,
                dtype,
                false,
                |dtype, x, y| numbers!(dtype, T => float zip_same(x, y, |a: T, b: T| a / b)),
            )
        },
    },
    Func {
        name: "floordiv",
        doc: "The quotient, rounded down. Division of integers by zero fails.",
        pure: true,
        make: |args, _| {
            arithmetic(args, |dtype, x, y| {
                numbers!(dtype, T =>
                    int {
                        no_zeros::<T>(&x, &y)?;
                        match power_of_two::<T>(&y) {
                            Some(k) => zip_same(x, y, move |a: T, _| a >> k),
                            None => zip_same(x, y, |a: T, b: T| a.floor_div(b)),
                        }
                    };
                    float zip_same(x, y, |a: T, b: T| (a / b).down()))
            })
        },
    },
    Func {
        name: "mod",
        doc: "The rest of the division that rounds down: it has the sign of the divisor, as in Python. Integers modulo zero fail.",
        pure: true,
        make: |args, _| {
            arithmetic(args, |dtype, x, y| {
                numbers!(dtype, T =>
                int {
                    no_zeros::<T>(&x, &y)?;
                    match power_of_two::<T>(&y) {
                        Some(_) => zip_same(x, y, |a: T, b: T| a & (b.wrapping_sub(1))),
                        None => zip_same(x, y, |a: T, b: T| a.floor_mod(b)),
                    }
                };
                float zip_same(x, y, |a: T, b: T| {
                    let rest = a % b;
                    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
                }))
            })
        },
    },
    Func {
        name: "pow",
        doc: "The first tensor to the power of the second. Integers wrap around and take no negative powers.",
        pure: true,
        make: |args, _| {
            arithmetic(args, |dtype, x, y| {
                numbers!(dtype, T =>
                int {
                    if !x.is_empty() && y.items::<T>().iter().any(|b| b.is_negative_int()) {
                        return Err(Error::data("an integer to a negative power; cast to float first"));
                    }
                    zip_same(x, y, |a: T, b: T| a.power(b))
                };
                float match y.rank() == 0 && y.item::<T>() == 2.0 {
                    true => zip_same(x, y, |a: T, _| a * a),
                    // The same for one of several exponents: rows may come one by one or together.
                    false => zip_same(x, y, |a: T, b: T| if b == 2.0 { a * a } else { a.powf(b) }),
                })
            })
        },
    },
    binary!("maximum", "The larger of two items; NaN if one is NaN.", a b, int a.max(b), float if a > b || a.is_nan() { a } else { b }),
    binary!("minimum", "The smaller of two items; NaN if one is NaN.", a b, int a.min(b), float if a < b || a.is_nan() { a } else { b }),
    binary!("squared_difference", "The square of the difference of two tensors.", a b,
        signless { let d = a.wrapping_sub(b); d.wrapping_mul(d) }, float { let d = a - b; d * d }),
    unary!("negative", "The number with the other sign.", a, int a.wrapping_neg(), float -a),
    unary!("abs", "The absolute value.", a, int a.magnitude(), float a.abs()),
    unary!("sign", "-1, 0 or 1, as the number is negative, zero or positive; NaN stays.", a,
        int a.sign(), float if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a }),
    unary!("square", "The number times itself.", a, int a.wrapping_mul(a), float a * a),
    compare!("equal", "Whether items are equal.", false, a b, signless a == b),
    compare!("not_equal", "Whether items differ.", false, a b, signless a != b),
    compare!("less", "Whether items of the first tensor are smaller; strings are compared byte by byte.", false, a b, int a < b),
    compare!("less_equal", "Whether items of the first tensor are smaller or equal.", false, a b, int a <= b),
    compare!("greater", "Whether items of the first tensor are larger.", true, a b, int a < b),
    compare!("greater_equal", "Whether items of the first tensor are larger or equal.", true, a b, int a <= b),
    logic!("logical_and", "Whether both are true.", a b, bool a & b),
    logic!("logical_or", "Whether at least one is true.", a b, bool a | b),
    logic!("logical_xor", "Whether exactly one is true.", a b, bool a ^ b),
    Func {
        name: "logical_not",
        doc: "Whether it is false.",
        pure: true,
        make: |args, _| {
            arity::<1>(args)?;
            let (dtype, _) = dense(args, 0)?;
            only_bool(dtype)?;
            unary_of(args, dtype, |x| map_same(x, |a: B8| B8::from(!a.get())))
        },
    },
    logic!("bitwise_and", "The bits that both have.", a b, bool a & b, int a & b),
    logic!("bitwise_or", "The bits that at least one has.", a b, bool a | b, int a | b),
    logic!("bitwise_xor", "The bits that exactly one has.", a b, bool a ^ b, int a ^ b),
    Func {
        name: "invert",
        doc: "The other bits; of a truth value, its opposite.",
        pure: true,
        make: |args, _| {
            arity::<1>(args)?;
            let (dtype, _) = dense(args, 0)?;
            if !dtype.is_int() && dtype != DType::Bool {
                return Err(Error::usage(format!("expects integers or bool, not {dtype}")));
            }
            unary_of(args, dtype, |x| match x.dtype() {
                DType::Bool => map_same(x, |a: B8| B8::from(!a.get())),
                d => numbers!(d, T => int map_same(x, |a: T| !a)),
            })
        },
    },
    shift!("left_shift", "Bits moved up; none are left if they move too far.", a b, a.shift_left(b)),
    shift!("right_shift", "Bits moved down, the sign filling up.", a b, a.shift_right(b)),
];

type Binary = fn(DType, Tensor, Tensor) -> Result<Tensor>;

/// The dtype in which two number arguments are computed.
fn common(args: &[Leaf]) -> Result<DType> {
    arity::<2>(args)?;
    let dtype = promote(dense(args, 0)?.0, dense(args, 1)?.0)?;
    match dtype {
        DType::Bool => Err(Error::usage("truth values have no arithmetic; cast them to a number dtype first")),
        DType::String => Err(Error::usage("strings have no such arithmetic; convert them with strings.to_number")),
        d => Ok(d),
    }
}

fn arithmetic(args: &[Leaf], f: Binary) -> Result<Made> {
    computed_in(args, common(args)?, false, f)
}

/// The kernel that brings both arguments to one dtype, computes, and gives that dtype.
fn computed_in(args: &[Leaf], dtype: DType, no_sign: bool, f: Binary) -> Result<Made> {
    let spec = Leaf::tensor(dtype, broadcast_dims(dense(args, 0)?.1, dense(args, 1)?.1)?);
    let inner = inner_dtype(dtype);
    let label = if no_sign { signless(inner) } else { inner };
    Made::new(
        spec,
        Elementwise::new(move |mut t: Tensors| {
            let (x, y) = (cast(t.remove(0), inner)?, cast(t.remove(0), inner)?);
            let out = f(label, relabel(x, label)?, relabel(y, label)?)?;
            cast(relabel(out, inner)?, dtype)
        }),
    )
}

fn comparison(
    args: &[Leaf],
    swapped: bool,
    no_sign: bool,
    f: fn(DType, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Made> {
    arity::<2>(args)?;
    let ((a, da), (b, db)) = (dense(args, 0)?, dense(args, 1)?);
    // Truth values compare as the numbers 0 and 1.
    let inner = match promote(a, b)? {
        DType::Bool => DType::Uint8,
        d => inner_dtype(d),
    };
    let label = if no_sign { signless(inner) } else { inner };
    Made::new(
        Leaf::tensor(DType::Bool, broadcast_dims(da, db)?),
        Elementwise::new(move |mut t: Tensors| {
            let (x, y) = (cast(t.remove(0), inner)?, cast(t.remove(0), inner)?);
            let (x, y) = (relabel(x, label)?, relabel(y, label)?);
            if swapped { f(label, &y, &x) } else { f(label, &x, &y) }
        }),
    )
}

fn logic(args: &[Leaf], ints: bool, f: Binary) -> Result<Made> {
    arity::<2>(args)?;
    let dtype = promote(dense(args, 0)?.0, dense(args, 1)?.0)?;
    if !ints {
        only_bool(dense(args, 0)?.0)?;
        only_bool(dense(args, 1)?.0)?;
    } else if !dtype.is_int() && dtype != DType::Bool {
        return Err(Error::usage(format!(
            "expects integers or bool, not {} and {}",
            dense(args, 0)?.0,
            dense(args, 1)?.0
        )));
    }
    computed_in(args, dtype, true, f)
}

pub(super) fn only_bool(dtype: DType) -> Result<()> {
    match dtype {
        DType::Bool => Ok(()),
        d => Err(Error::usage(format!("expects bool, not {d}; compare with something, or cast to bool"))),
    }
}

fn unary(args: &[Leaf], f: fn(Tensor) -> Result<Tensor>) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, _) = dense(args, 0)?;
    if !dtype.is_numeric() {
        return Err(Error::usage(format!("expects numbers, not {dtype}")));
    }
    unary_of(args, dtype, move |x| cast(f(cast(x, inner_dtype(dtype))?)?, dtype))
}

/// A function of one tensor, item by item, whose result has that dtype.
pub(super) fn unary_of(
    args: &[Leaf],
    dtype: DType,
    f: impl Fn(Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Made> {
    let (_, shape) = dense(args, 0)?;
    Made::new(Leaf::tensor(dtype, shape.clone()), Elementwise::new(move |mut t: Tensors| f(t.remove(0))))
}

fn no_zeros<T: Int>(x: &Tensor, y: &Tensor) -> Result<()> {
    match !x.is_empty() && y.items::<T>().contains(&T::ZERO) {
        true => Err(Error::data("division by zero")),
        false => Ok(()),
    }
}

/// The bits that a single divisor shifts by: what most chunks are divided by is a constant, and often such a one.
fn power_of_two<T: Int>(y: &Tensor) -> Option<u32> {
    if y.len() == 1 { y.item::<T>().log2_exact() } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use half::{bf16, f16};
    use serde_json::json;

    fn ints(v: &[i64]) -> Tensor {
        Tensor::from_items([v.len()], v)
    }
    fn two(name: &str, a: Tensor, b: Tensor) -> Tensor {
        call(name, &[a, b], json!({}))
    }
    fn bools(v: &[bool]) -> Tensor {
        Tensor::from_items([v.len()], &v.iter().map(|b| B8::from(*b)).collect::<Vec<_>>())
    }

    #[test]
    fn integers_wrap_and_divide_down() {
        assert_eq!(two("add", ints(&[i64::MAX, 1]), ints(&[1, 2])), ints(&[i64::MIN, 3]));
        let n = ints(&[7, -7, 7, -7, i64::MIN]);
        let d = ints(&[2, 2, -2, -2, -1]);
        assert_eq!(two("floordiv", n.clone(), d.clone()), ints(&[3, -4, -4, 3, i64::MIN]));
        assert_eq!(two("mod", n.clone(), d), ints(&[1, 1, -1, -1, 0]));
        assert_eq!(two("floordiv", n.clone(), Tensor::scalar(4i64)), ints(&[1, -2, 1, -2, i64::MIN / 4]));
        assert_eq!(two("mod", n.clone(), Tensor::scalar(4i64)), ints(&[3, 1, 3, 1, 0]));
        assert_eq!(two("mod", n, Tensor::scalar(3i64)), ints(&[1, 2, 1, 2, 1]));
        assert!(fails("mod", &[ints(&[1]), ints(&[0])], json!({})).message().contains("division by zero"));
        assert_eq!(two("floordiv", ints(&[]), Tensor::scalar(0i64)), ints(&[]));
        assert_eq!(two("pow", ints(&[3, 2, 0]), ints(&[4, 63, 0])), ints(&[81, i64::MIN, 1]));
        assert!(fails("pow", &[ints(&[2]), ints(&[-1])], json!({})).message().contains("negative"));
        assert_eq!(call("abs", &[ints(&[i64::MIN, -3])], json!({})), ints(&[i64::MIN, 3]));
        assert_eq!(call("sign", &[ints(&[-9, 0, 4])], json!({})), ints(&[-1, 0, 1]));
    }

    #[test]
    fn dtypes_promote() {
        let r = two("add", Tensor::scalar(200u8), Tensor::scalar(-1i8));
        assert_eq!((r.dtype(), r.item::<i16>()), (DType::Int16, 199));
        let r = two("truediv", Tensor::scalar(1u8), Tensor::scalar(4u8));
        assert_eq!((r.dtype(), r.item::<f32>()), (DType::Float32, 0.25));
        assert_eq!(two("truediv", ints(&[1]), ints(&[0])).items::<f64>(), [f64::INFINITY]);
        let r = two("multiply", Tensor::scalar(f16::from_f32(1.5)), Tensor::scalar(bf16::from_f32(2.0)));
        assert_eq!(r.item::<f32>(), 3.0);
        assert!(refused("add", &[bools(&[true]), bools(&[true])], json!({})).message().contains("cast"));
        assert!(
            refused("subtract", &[Tensor::string(b"a"), Tensor::scalar(1i32)], json!({})).message().contains("string")
        );
    }

    #[test]
    fn floats_follow_numpy() {
        let x = Tensor::from_items([4], &[5.5f32, -5.5, f32::NAN, 1.0]);
        assert_eq!(two("mod", x.clone(), Tensor::scalar(2f32)).items::<f32>()[..2], [1.5, 0.5]);
        assert_eq!(two("floordiv", x.clone(), Tensor::scalar(2f32)).items::<f32>()[..2], [2.0, -3.0]);
        let m = two("maximum", x.clone(), Tensor::scalar(0f32));
        assert!(m.items::<f32>()[2].is_nan() && m.items::<f32>()[1] == 0.0);
        assert!(two("minimum", Tensor::scalar(0f32), x.clone()).items::<f32>()[2].is_nan());
        assert_eq!(two("pow", x, Tensor::scalar(2f32)).items::<f32>()[1], 30.25);
    }

    #[test]
    fn comparisons_and_logic() {
        assert_eq!(two("less", ints(&[1, 2, 3]), Tensor::scalar(2i32)), bools(&[true, false, false]));
        let s = Tensor::strings([3], &["a", "b", ""]);
        assert_eq!(two("less_equal", s.clone(), Tensor::string(b"a")), bools(&[true, false, true]));
        assert_eq!(two("add", s, Tensor::string(b"x")), Tensor::strings([3], &["ax", "bx", "x"]));
        let odd = Tensor::from_items([2], &[B8(2), B8(0)]);
        assert_eq!(two("equal", odd.clone(), bools(&[true, false])), bools(&[true, true]));
        assert_eq!(two("logical_xor", odd.clone(), bools(&[true, true])), bools(&[false, true]));
        assert_eq!(call("logical_not", &[odd], json!({})), bools(&[false, true]));
        assert!(refused("logical_and", &[ints(&[1]), ints(&[1])], json!({})).message().contains("bool"));
        assert_eq!(two("bitwise_and", ints(&[12]), ints(&[10])), ints(&[8]));
        assert_eq!(call("invert", &[Tensor::scalar(1u8)], json!({})).item::<u8>(), 254);
        assert_eq!(two("left_shift", ints(&[1, 1, 1]), ints(&[3, 64, -1])), ints(&[8, 0, 0]));
        assert_eq!(two("right_shift", ints(&[-8, -8, 8]), ints(&[1, 64, 99])), ints(&[-4, -1, 0]));
    }

    #[test]
    fn shapes_that_do_not_fit_are_told() {
        let e = refused("add", &[ints(&[1, 2]), ints(&[1, 2, 3])], json!({}));
        assert!(e.message().contains("[2] and [3] do not broadcast"), "{e}");
    }
}
