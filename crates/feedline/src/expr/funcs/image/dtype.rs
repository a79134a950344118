//! Pictures with items of another type. Integers use their whole range for what floats call 0 to 1.

use super::super::super::{Attrs, Func, Made, arity, dense};
use super::super::broadcast::{map_same, room};
use super::super::cast::{cast, saturate};
use super::super::number::numbers;
use super::pictures::{InPlace, Param};
use crate::element::{DType, Leaf, Tensor};
use crate::error::{Error, Result};
use DType::*;
use feedline_image::colour;

pub static FUNCS: &[Func] = &[Func {
    name: "image.convert_image_dtype",
    doc: "Converts the items of pictures: what is 1.0 as a float is the largest value of an integer dtype.",
    make: make_convert,
    pure: true,
}];

fn make_convert(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (from, shape) = dense(args, 0)?;
    let to = attrs.need("dtype", attrs.dtype("dtype")?)?;
    if let Some(odd) = [from, to].into_iter().find(|d| !d.is_numeric()) {
        return Err(Error::usage(format!("pictures have items of an integer or a float dtype, not {odd}")));
    }
    let saturate = attrs.bool("saturate")?.unwrap_or(false);
    let kernel = InPlace(move |t: Tensor, _: &[Param], _: usize| convert(t, to, saturate));
    Made::new(Leaf::tensor(to, shape.clone()), kernel)
}

/// The largest value of an integer dtype is 2 to this power, less 1.
fn bits(dtype: DType) -> u32 {
    8 * dtype.size() as u32 - u32::from(dtype.is_signed())
}
fn most(dtype: DType) -> f64 {
    2f64.powi(bits(dtype) as i32) - 1.0
}

/// The items as another dtype. Between integers, `saturate` says what becomes of values that the other lacks.
pub fn convert(t: Tensor, to: DType, saturated: bool) -> Result<Tensor> {
    let from = t.dtype();
    match (from.is_int(), to.is_int()) {
        _ if from == to => Ok(t),
        (false, false) => cast(t, to),
        (true, false) => match (from, to) {
            (Uint8, Float32) => {
                let mut out = room(Float32, t.shape())?;
                colour::units(t.items::<u8>(), out.items_mut::<f32>());
                Ok(out)
            }
            (_, Float64) => scaled::<f64>(cast(t, Float64)?, 1.0 / most(from)),
            // Half floats are rounded once, at the end.
            _ => cast(scaled::<f32>(cast(t, Float32)?, (1.0 / most(from)) as f32)?, to),
        },
        (false, true) => match (from, to) {
            (Float32, Uint8) => {
                let mut out = room(Uint8, t.shape())?;
                colour::bytes(t.items::<f32>(), out.items_mut::<u8>());
                Ok(out)
            }
            (Float64, _) => cast(scaled::<f64>(t, most(to) + 0.5)?, to),
            _ => cast(scaled::<f32>(cast(t, Float32)?, (most(to) + 0.5) as f32)?, to),
        },
        (true, true) => {
            let convert = if saturated { saturate } else { cast };
            match bits(to).checked_sub(bits(from)) {
                Some(more) => {
                    numbers!(to, T => int map_same(convert(t, to)?, |x: T| x.wrapping_shl(more)))
                }
                None => {
                    let less = bits(from) - bits(to);
                    convert(numbers!(from, T => int map_same(t, |x: T| x >> less))?, to)
                }
            }
        }
    }
}

fn scaled<T: crate::element::Item + std::ops::Mul<Output = T>>(t: Tensor, by: T) -> Result<Tensor> {
    map_same(t, |x: T| x * by)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{call, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn ranges_are_carried_over() {
        let to = |t: &Tensor, dtype: &str| call("image.convert_image_dtype", &[t.clone()], json!({"dtype": dtype}));
        let bytes = Tensor::from_items([5], &[0u8, 1, 127, 128, 255]);
        assert_eq!(to(&bytes, "float32").items::<f32>()[4], 1.0);
        assert_eq!(to(&bytes, "float64").items::<f64>()[1], 1.0 / 255.0);
        assert_eq!(to(&bytes, "uint16").items::<u16>(), [0, 256, 32512, 32768, 65280]);
        assert_eq!(to(&bytes, "int8").items::<i8>(), [0, 0, 63, 64, 127]);
        assert_eq!(to(&bytes, "uint64").items::<u64>()[4], 255 << 56);
        let floats = Tensor::from_items([4], &[0f32, 0.5, 1.0, 2.0]);
        assert_eq!(to(&floats, "uint8").items::<u8>(), [0, 127, 255, 255]);
        assert_eq!(to(&floats, "int64").items::<i64>(), [0, 1 << 62, i64::MAX, i64::MAX]);
        assert_eq!(to(&floats, "float32"), floats);
    }

    /// Every byte comes back from every dtype that has room for it.
    #[test]
    fn bytes_come_back() {
        let bytes = Tensor::from_items([256], &(0..=255u8).collect::<Vec<_>>());
        for dtype in [Int16, Uint16, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64] {
            let there = convert(bytes.clone(), dtype, false).unwrap();
            assert_eq!(convert(there, Uint8, false).unwrap(), bytes, "{dtype}");
        }
    }

    #[test]
    fn what_does_not_fit_wraps_or_saturates() {
        let x = Tensor::from_items([3], &[-32768i16, -1, 32767]);
        let to = |saturate: bool| {
            call("image.convert_image_dtype", &[x.clone()], json!({"dtype": "uint8", "saturate": saturate}))
        };
        assert_eq!(to(false).items::<u8>(), [0, 255, 255]);
        assert_eq!(to(true).items::<u8>(), [0, 0, 255]);
        assert!(refused("image.convert_image_dtype", &[x], json!({"dtype": "bool"})).message().contains("bool"));
    }
}
