//! Checks that let an element pass or fail it.

use super::super::{Arg, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::arithmetic::{only_bool, unary_of};
use super::cast::cast;
use super::number::{inner_dtype, numbers};
use crate::element::{B8, Column, Leaf, Value};
use crate::error::{Error, Result};

pub static FUNCS: &[Func] = &[
    Func {
        name: "check_numerics",
        doc: "The tensor, if it has neither NaN nor infinity in it; else the element fails.",
        pure: true,
        make: |args, attrs| {
            arity::<1>(args)?;
            let (dtype, _) = dense(args, 0)?;
            let message = attrs.str("message")?.unwrap_or("check_numerics").to_string();
            if !dtype.is_float() {
                return Err(Error::usage(format!("expects floats, not {dtype}, which is always finite")));
            }
            unary_of(args, dtype, move |t| {
                let x = cast(t.clone(), inner_dtype(dtype))?;
                let (nan, infinite) = numbers!(x.dtype(), T => float {
                    let x = x.items::<T>();
                    Ok((x.iter().any(|x| x.is_nan()), x.iter().any(|x| x.is_infinite())))
                })?;
                match (nan, infinite) {
                    (false, false) => Ok(t),
                    (true, false) => Err(Error::data(format!("{message}: tensor had NaN values"))),
                    (false, true) => Err(Error::data(format!("{message}: tensor had Inf values"))),
                    (true, true) => Err(Error::data(format!("{message}: tensor had Inf and NaN values"))),
                }
            })
        },
    },
    Func {
        name: "ensure",
        doc: "The first argument, if all of the condition holds; else the element fails with the message.",
        pure: true,
        make: |args, attrs| {
            let [value, _] = arity::<2>(args)?;
            let (dtype, _) = dense(args, 1)?;
            only_bool(dtype)?;
            let message = attrs.str("message")?.unwrap_or("the condition does not hold").to_string();
            Made::new(value.clone(), Ensure(message))
        },
    },
    Func { name: "identity", doc: "The argument itself.", pure: true, make: |args, _| make_identity(args) },
    Func { name: "stop_gradient", doc: "The argument itself.", pure: true, make: |args, _| make_identity(args) },
];

fn make_identity(args: &[Leaf]) -> Result<Made> {
    let [leaf] = arity::<1>(args)?;
    Made::new(leaf.clone(), Identity)
}

struct Ensure(String);

impl Ensure {
    fn holds(condition: &Value) -> bool {
        condition.tensor().items::<B8>().iter().all(|b| b.get())
    }
}

impl Kernel for Ensure {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        match Ensure::holds(&args[1]) {
            true => Ok(args[0].clone()),
            false => Err(Error::data(self.0.clone())),
        }
    }
    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let holds = match &args[1] {
            Arg::Rows(Column::Dense(t)) => t.items::<B8>().iter().all(|b| b.get()),
            Arg::Same(v) => Ensure::holds(v),
            Arg::Rows(_) => false,
        };
        // What does not hold is found again in its own row.
        let same = Arg::Same(Value::Absent);
        Ok(holds.then(|| std::mem::replace(&mut args[0], same).into_column(rows)))
    }
}

struct Identity;

impl Kernel for Identity {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        Ok(args[0].clone())
    }
    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let same = Arg::Same(Value::Absent);
        Ok(args.first_mut().map(|a| std::mem::replace(a, same).into_column(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use crate::element::Tensor;
    use serde_json::json;

    #[test]
    fn numbers_are_checked() {
        let x = Tensor::from_items([2], &[1f32, 2.0]);
        assert_eq!(call("check_numerics", &[x.clone()], json!({"message": "m"})), x);
        let bad = Tensor::from_items([2], &[1f64, f64::NAN]);
        assert!(fails("check_numerics", &[bad], json!({"message": "m"})).message().contains("m: tensor had NaN"));
        refused("check_numerics", &[Tensor::scalar(1i32)], json!({}));
    }

    #[test]
    fn conditions_are_ensured() {
        let x = Tensor::string(b"x");
        assert_eq!(call("ensure", &[x.clone(), Tensor::scalar(B8(1))], json!({})), x);
        let e = fails("ensure", &[x.clone(), Tensor::scalar(B8(0))], json!({"message": "no"}));
        assert_eq!(e.message(), "no");
        assert_eq!(call("identity", &[x.clone()], json!({})), x);
    }
}
