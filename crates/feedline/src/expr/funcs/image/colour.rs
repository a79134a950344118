//! Brightness, contrast, hue and the like.

use super::super::super::{Attrs, Func, Made, arity, dense};
use super::super::broadcast::room;
use super::super::cast::cast;
use super::dtype::convert;
use super::pictures::{Fresh, InPlace, Layout, Param, check_number, list, picture, sides, with_sides};
use crate::element::{DType, Dims, Leaf, Shape, Tensor};
use crate::error::{Error, Result};
use feedline_image::colour::{self, Affine, Curve, Matrix, Planes};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.adjust_brightness",
        doc: "A number added to every value, as parts of the whole range.",
        make: |args, _| make_change(args, &BRIGHTNESS),
        pure: true,
    },
    Func {
        name: "image.adjust_contrast",
        doc: "Every value's distance to the mean of its picture and channel, times a factor.",
        make: |args, _| make_change(args, &CONTRAST),
        pure: true,
    },
    Func {
        name: "image.adjust_saturation",
        doc: "The saturation of colours times a factor.",
        make: |args, _| make_change(args, &SATURATION),
        pure: true,
    },
    Func {
        name: "image.adjust_hue",
        doc: "The hue of colours turned by parts of the circle.",
        make: |args, _| make_change(args, &HUE),
        pure: true,
    },
    Func {
        name: "image.adjust_gamma",
        doc: "gain * x ** gamma for every value x; gamma and gain are the second and third argument.",
        make: |args, _| make_change(args, &GAMMA),
        pure: true,
    },
    Func {
        name: "image.per_image_standardization",
        doc: "Each picture with mean 0 and deviation 1, as float32.",
        make: make_standardization,
        pure: true,
    },
    Func {
        name: "image.normalize",
        doc: "(x * scale - mean) / std for each channel, as floats; the channels may come to lie in front.",
        make: make_normalize,
        pure: true,
    },
    Func {
        name: "image.rgb_to_grayscale",
        doc: "The brightness of pixels, as the only channel.",
        make: make_gray,
        pure: true,
    },
    Func { name: "image.grayscale_to_rgb", doc: "The only channel three times.", make: make_colour, pure: true },
    Func {
        name: "image.rgb_to_hsv",
        doc: "Red, green and blue as hue, saturation and value, all from 0 to 1.",
        make: |args, _| make_space(args, &colour::RGB_TO_HSV),
        pure: true,
    },
    Func {
        name: "image.hsv_to_rgb",
        doc: "The inverse of rgb_to_hsv.",
        make: |args, _| make_space(args, &colour::HSV_TO_RGB),
        pure: true,
    },
    Func {
        name: "image.rgb_to_yuv",
        doc: "Red, green and blue as brightness and two differences of colour (PAL).",
        make: |args, _| make_space(args, &colour::RGB_TO_YUV),
        pure: true,
    },
    Func {
        name: "image.yuv_to_rgb",
        doc: "The inverse of rgb_to_yuv.",
        make: |args, _| make_space(args, &colour::YUV_TO_RGB),
        pure: true,
    },
    Func {
        name: "image.rgb_to_yiq",
        doc: "Red, green and blue as brightness and two differences of colour (NTSC).",
        make: |args, _| make_space(args, &colour::RGB_TO_YIQ),
        pure: true,
    },
    Func {
        name: "image.yiq_to_rgb",
        doc: "The inverse of rgb_to_yiq.",
        make: |args, _| make_space(args, &colour::YIQ_TO_RGB),
        pure: true,
    },
];

/// What a function looks at together.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    /// Each value on its own: any shape.
    Items,
    /// Pixels of three channels: the last axis.
    Pixels,
    /// All pixels of a picture: the last three axes.
    Pictures,
}

/// A function of pictures and numbers that changes their values: for bytes, and for floats, as which all other dtypes
/// are treated. It gets the items, how many channels they have, and its numbers.
struct Change {
    unit: Unit,
    numbers: &'static [&'static str],
    bytes: fn(&mut [u8], usize, &[f32]),
    floats: fn(&mut [f32], usize, &[f32]),
}

static BRIGHTNESS: Change = Change {
    unit: Unit::Items,
    numbers: &["delta"],
    bytes: |items, _, n| colour::brighten_bytes(items, n[0]),
    floats: |items, _, n| colour::brighten(items, n[0]),
};
static CONTRAST: Change = Change {
    unit: Unit::Pictures,
    numbers: &["contrast_factor"],
    bytes: |items, channels, n| colour::contrast_bytes(items, channels, n[0]),
    floats: |items, channels, n| colour::contrast(items, channels, n[0]),
};
static SATURATION: Change = Change {
    unit: Unit::Pixels,
    numbers: &["saturation_factor"],
    bytes: |items, _, n| colour::saturation_bytes(items, n[0]),
    floats: |items, _, n| colour::saturation(items, n[0]),
};
static HUE: Change = Change {
    unit: Unit::Pixels,
    numbers: &["delta"],
    bytes: |items, _, n| colour::hue_bytes(items, n[0]),
    floats: |items, _, n| colour::hue(items, n[0]),
};
static GAMMA: Change = Change {
    unit: Unit::Items,
    numbers: &["gamma", "gain"],
    bytes: |items, _, n| Curve::new(|x| n[1] * x.powf(n[0])).apply(items),
    floats: |items, _, n| items.iter_mut().for_each(|x| *x = n[1] * x.powf(n[0])),
};

fn not_colours(shape: &str) -> String {
    format!("expects colours, three values on the last axis, not shape {shape}")
}

impl Unit {
    /// Refuses what cannot be looked at so, when a function is traced.
    fn check(self, shape: &Dims) -> Result<()> {
        match (self, shape.dims()) {
            (Unit::Items, _) | (_, None) => Ok(()),
            (Unit::Pixels, Some([.., last])) if last.is_none_or(|n| n == 3) => Ok(()),
            (Unit::Pixels, Some(_)) => Err(Error::usage(not_colours(&shape.to_string()))),
            (Unit::Pictures, Some(d)) if d.len() >= 3 => Ok(()),
            (Unit::Pictures, Some(_)) => {
                Err(Error::usage(format!("expects pictures of height x width x channels, not shape {shape}")))
            }
        }
    }
    /// The units of an element: how many, and their channels.
    fn of(self, shape: &[usize]) -> Result<(usize, usize)> {
        match (self, shape) {
            (Unit::Items, _) => Ok((1, 1)),
            (Unit::Pixels, [.., 3]) => Ok((1, 3)),
            (Unit::Pixels, _) => Err(Error::data(not_colours(&format!("{shape:?}")))),
            (Unit::Pictures, [batch @ .., _, _, c]) => Ok((batch.iter().product(), *c)),
            (Unit::Pictures, _) => {
                Err(Error::data(format!("expects pictures of height x width x channels, not shape {shape:?}")))
            }
        }
    }
}

/// Calls `f` with the items of each unit, its channels, and the row that it belongs to.
fn each<T>(
    items: &mut [T],
    (rows, units, channels): (usize, usize, usize),
    mut f: impl FnMut(&mut [T], usize, usize) -> Result<()>,
) -> Result<()> {
    // Even where there are no items, the numbers of each row are looked at.
    let of_unit = items.len() / (rows * units).max(1);
    let mut rest = items;
    for row in 0..rows {
        for _ in 0..units.max(1) {
            let (unit, behind) = rest.split_at_mut(of_unit.min(rest.len()));
            f(unit, channels, row)?;
            rest = behind;
        }
    }
    Ok(())
}

/// A function of floats, of pictures of any dtype.
fn as_floats(t: Tensor, f: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Tensor> {
    match t.dtype() {
        DType::Float32 => f(t),
        dtype if dtype.is_float() => cast(f(cast(t, DType::Float32)?)?, dtype),
        dtype => convert(f(convert(t, DType::Float32, false)?)?, dtype, true),
    }
}

fn check_pixels(dtype: DType) -> Result<()> {
    if dtype.is_numeric() {
        return Ok(());
    }
    Err(Error::usage(format!("expects the pixels of a picture, not {dtype}")))
}

fn make_change(args: &[Leaf], change: &'static Change) -> Result<Made> {
    if args.len() != 1 + change.numbers.len() {
        let names = change.numbers.join(" and ");
        return Err(Error::usage(format!("takes a picture and {names}, {} arguments given", args.len())));
    }
    let (dtype, shape) = dense(args, 0)?;
    check_pixels(dtype)?;
    change.unit.check(shape)?;
    for (i, what) in change.numbers.iter().enumerate() {
        check_number(args, i + 1, what)?;
    }
    let kernel = InPlace(move |mut t: Tensor, params: &[Param], lead: usize| {
        let (units, channels) = change.unit.of(&t.shape()[lead..])?;
        let places = (t.shape()[..lead].iter().product(), units, channels);
        let numbers = |row: usize| -> Result<[f32; 2]> {
            let mut numbers = [0.0; 2];
            for ((number, param), what) in numbers.iter_mut().zip(params).zip(change.numbers) {
                *number = param.number(row, what)?;
            }
            Ok(numbers)
        };
        if dtype == DType::Uint8 {
            each(t.items_mut::<u8>(), places, |items, channels, row| {
                (change.bytes)(items, channels, &numbers(row)?);
                Ok(())
            })?;
            return Ok(t);
        }
        as_floats(t, |mut t| {
            each(t.items_mut::<f32>(), places, |items, channels, row| {
                (change.floats)(items, channels, &numbers(row)?);
                Ok(())
            })?;
            Ok(t)
        })
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

fn make_standardization(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    check_pixels(dtype)?;
    Unit::Pictures.check(shape)?;
    let kernel = InPlace(|t: Tensor, _: &[Param], lead: usize| {
        let (units, _) = Unit::Pictures.of(&t.shape()[lead..])?;
        let units = units * t.shape()[..lead].iter().product::<usize>();
        let items = t.len() / units.max(1);
        if t.dtype() == DType::Uint8 {
            let mut out = room(DType::Float32, t.shape())?;
            if items > 0 {
                let to = out.items_mut::<f32>().chunks_exact_mut(items);
                t.items::<u8>().chunks_exact(items).zip(to).for_each(|(from, to)| colour::standardize_bytes(from, to));
            }
            return Ok(out);
        }
        let mut t = cast(t, DType::Float32)?;
        if items > 0 {
            t.items_mut::<f32>().chunks_exact_mut(items).for_each(colour::standardize);
        }
        Ok(t)
    });
    Made::new(Leaf::tensor(DType::Float32, shape.clone()), kernel)
}

/// A number for each channel, or one for all.
fn channel_numbers(attrs: &Attrs, name: &str) -> Result<Vec<f64>> {
    let given = attrs.need(name, attrs.get(name))?;
    match list(given) {
        Some(list) if !list.is_empty() && list.iter().all(|x| x.is_finite()) => Ok(list),
        _ => Err(Error::usage(format!("{name} must be a number, or one for each channel, not {given}"))),
    }
}

/// `image.normalize`: what it does to pixels.
#[derive(Clone, Debug)]
pub struct Normalize {
    scale: f64,
    means: Vec<f64>,
    deviations: Vec<f64>,
    pub planes: Planes,
    pub dtype: DType,
}

impl Normalize {
    pub fn of(attrs: &Attrs) -> Result<Normalize> {
        let dtype = attrs.dtype("dtype")?.unwrap_or(DType::Float32);
        if !matches!(dtype, DType::Float32 | DType::Float16 | DType::Bfloat16) {
            return Err(Error::usage(format!(
                "dtype must be float32, float16 or bfloat16, not {dtype}; cast afterwards"
            )));
        }
        let (means, deviations) = (channel_numbers(attrs, "mean")?, channel_numbers(attrs, "std")?);
        if deviations.contains(&0.0) {
            return Err(Error::usage("std must not be 0: values are divided by it"));
        }
        let scale = attrs.f64("scale")?.unwrap_or(1.0);
        let planes = match attrs.bool("channels_first")?.unwrap_or(false) {
            true => Planes::Apart,
            false => Planes::Together,
        };
        Ok(Normalize { scale, means, deviations, planes, dtype })
    }
    /// A factor and a term for each of so many channels, or in words why there are none.
    pub fn affine(&self, channels: usize) -> std::result::Result<Affine, String> {
        let spread = |list: &[f64]| match list {
            [one] => Some(vec![*one; channels]),
            list => (list.len() == channels).then(|| list.to_vec()),
        };
        match (spread(&self.means), spread(&self.deviations)) {
            (Some(means), Some(deviations)) => Ok(Affine::new(self.scale, &means, &deviations)),
            _ => {
                let (means, deviations) = (self.means.len(), self.deviations.len());
                Err(format!("{means} means and {deviations} deviations for pictures of {channels} channels"))
            }
        }
    }
}

fn make_normalize(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (from, shape) = picture(args, 0)?;
    check_pixels(from)?;
    let how = Normalize::of(attrs)?;
    let [h, w, c] = sides(shape);
    if let Some(c) = c {
        how.affine(c).map_err(Error::usage)?;
    }
    let spec =
        Leaf::tensor(how.dtype, with_sides(shape, if how.planes == Planes::Apart { [c, h, w] } else { [h, w, c] }));
    let kernel = InPlace(move |t: Tensor, _: &[Param], lead: usize| {
        let size = Layout::of(&t, lead)?.size;
        let affine = how.affine(size.channels).map_err(Error::data)?;
        normalize(t, &affine, [size.height, size.width, size.channels], how.planes, how.dtype)
    });
    Made::new(spec, kernel)
}

fn normalize(mut t: Tensor, affine: &Affine, [h, w, c]: [usize; 3], planes: Planes, to: DType) -> Result<Tensor> {
    if t.dtype() == DType::Float32 && to == DType::Float32 && planes == Planes::Together && t.is_unique() {
        affine.apply_in_place(t.items_mut::<f32>());
        return Ok(t);
    }
    let mut shape: Shape = t.shape().into();
    let first = shape.len() - 3;
    if planes == Planes::Apart {
        shape[first..].copy_from_slice(&[c, h, w]);
    }
    let mut out = room(to, &shape)?;
    if !matches!(t.dtype(), DType::Uint8 | DType::Float32) {
        t = cast(t, DType::Float32)?;
    }
    let n = h * w * c;
    let one = |i: usize, to: &mut [f32]| match t.dtype() {
        DType::Uint8 => affine.apply(&t.items::<u8>()[i * n..(i + 1) * n], planes, to),
        _ => affine.apply(&t.items::<f32>()[i * n..(i + 1) * n], planes, to),
    };
    if to == DType::Float32 {
        out.items_mut::<f32>().chunks_exact_mut(n).enumerate().for_each(|(i, to)| one(i, to));
        return Ok(out);
    }
    let mut floats = vec![0f32; n];
    for i in 0..t.len() / n {
        one(i, &mut floats);
        match to {
            DType::Float16 => out.items_mut::<f16>()[i * n..(i + 1) * n].convert_from_f32_slice(&floats),
            _ => out.items_mut::<bf16>()[i * n..(i + 1) * n].convert_from_f32_slice(&floats),
        }
    }
    Ok(out)
}

/// The shape with another number of channels.
fn with_channels(shape: &Dims, channels: usize) -> Dims {
    Dims(shape.dims().map(|d| d[..d.len() - 1].iter().copied().chain([Some(channels)]).collect()))
}

fn make_gray(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    check_pixels(dtype)?;
    Unit::Pixels.check(shape)?;
    let kernel = Fresh(|t: &Tensor, _: &[Param], lead: usize| {
        Unit::Pixels.of(&t.shape()[lead..])?;
        let mut shape: Shape = t.shape().into();
        shape[t.rank() - 1] = 1;
        if t.dtype() == DType::Uint8 {
            let mut out = room(DType::Uint8, &shape)?;
            colour::gray_bytes(t.items::<u8>(), out.items_mut::<u8>());
            return Ok(Some(out));
        }
        let gray = as_floats(t.clone(), |t| {
            let mut out = room(DType::Float32, &shape)?;
            colour::gray(t.items::<f32>(), out.items_mut::<f32>());
            Ok(out)
        });
        gray.map(Some)
    });
    Made::new(Leaf::tensor(dtype, with_channels(shape, 1)), kernel)
}

fn make_colour(args: &[Leaf], _: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    check_pixels(dtype)?;
    let not_gray = |shape: &str| format!("expects pictures of one channel on the last axis, not shape {shape}");
    if shape.dims().is_some_and(|d| d.last().is_none_or(|c| c.is_some_and(|c| c != 1))) {
        return Err(Error::usage(not_gray(&shape.to_string())));
    }
    let kernel = Fresh(move |t: &Tensor, _: &[Param], lead: usize| {
        let inner = &t.shape()[lead..];
        if inner.last() != Some(&1) {
            return Err(Error::data(not_gray(&format!("{inner:?}"))));
        }
        let mut shape: Shape = t.shape().into();
        shape[t.rank() - 1] = 3;
        let mut out = room(t.dtype(), &shape)?;
        let size = t.dtype().size();
        for (from, to) in t.bytes().chunks_exact(size).zip(out.bytes_mut().chunks_exact_mut(3 * size)) {
            to.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(from));
        }
        Ok(Some(out))
    });
    Made::new(Leaf::tensor(dtype, with_channels(shape, 3)), kernel)
}

fn make_space(args: &[Leaf], matrix: &'static Matrix) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = dense(args, 0)?;
    if !dtype.is_float() {
        return Err(Error::usage(format!(
            "expects colours as floats from 0 to 1, not {dtype}; convert them: fl.image.convert_image_dtype(x, fl.float32)"
        )));
    }
    Unit::Pixels.check(shape)?;
    let kernel = InPlace(move |t: Tensor, _: &[Param], lead: usize| {
        Unit::Pixels.of(&t.shape()[lead..])?;
        as_floats(t, |mut t| {
            colour::pixels(t.items_mut::<f32>(), matrix);
            Ok(t)
        })
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    fn bytes() -> Tensor {
        Tensor::from_items([2, 3, 3], &(0..18).map(|i| (i * 37 % 256) as u8).collect::<Vec<_>>())
    }
    fn x(value: f32) -> Tensor {
        Tensor::scalar(value)
    }

    /// What is done to bytes is what is done to the floats that they stand for, of every dtype.
    #[test]
    fn dtypes_agree() {
        let cases: [(&str, &[f32]); 5] = [
            ("image.adjust_brightness", &[0.2]),
            ("image.adjust_contrast", &[1.7]),
            ("image.adjust_saturation", &[0.4]),
            ("image.adjust_hue", &[-0.3]),
            ("image.adjust_gamma", &[0.7, 0.9]),
        ];
        for (name, numbers) in cases {
            let change = |t: Tensor| {
                let args: Vec<Tensor> = std::iter::once(t).chain(numbers.iter().map(|n| x(*n))).collect();
                call(name, &args, json!({}))
            };
            let of_bytes = change(bytes());
            for dtype in [DType::Float16, DType::Float32, DType::Float64, DType::Uint16, DType::Int32] {
                let own = change(convert(bytes(), dtype, false).unwrap());
                assert_eq!(own.dtype(), dtype);
                let back = convert(own, DType::Uint8, true).unwrap();
                for (a, b) in of_bytes.items::<u8>().iter().zip(back.items::<u8>()) {
                    assert!(a.abs_diff(*b) <= 1, "{name} {dtype}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn each_picture_has_its_own_contrast() {
        let dark = Tensor::from_items([1, 2, 1], &[0f32, 0.2]);
        let light = Tensor::from_items([1, 2, 1], &[0.8f32, 1.0]);
        let both = call("image.adjust_contrast", &[Tensor::stack(&[dark.clone(), light]), x(0.0)], json!({}));
        let close = |a: &[f32], b: [f32; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(both.items::<f32>(), [0.1, 0.1, 0.9, 0.9]), "{both:?}");
        assert!(refused("image.adjust_contrast", &[x(1.0), x(1.0)], json!({})).message().contains("height"));
        let two = Tensor::from_items([2], &[1f32, 2.0]);
        assert!(fails("image.adjust_contrast", &[dark, two], json!({})).message().contains("one number"));
    }

    #[test]
    fn colours_have_three_channels() {
        let gray = Tensor::from_items([2, 2, 1], &[1u8, 2, 3, 4]);
        for name in ["image.adjust_hue", "image.adjust_saturation"] {
            assert!(refused(name, &[gray.clone(), x(0.1)], json!({})).message().contains("three"));
            assert!(fails(name, &[gray.clone(), x(0.1)], json!({})).message().contains("three"));
        }
        assert!(refused("image.rgb_to_hsv", &[bytes()], json!({})).message().contains("floats"));
        let rgb = call("image.grayscale_to_rgb", &[gray.clone()], json!({}));
        assert_eq!(rgb.items::<u8>(), [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
        assert_eq!(call("image.rgb_to_grayscale", &[rgb], json!({})), gray);
        assert!(refused("image.grayscale_to_rgb", &[bytes()], json!({})).message().contains("one channel"));
        let pixel = Tensor::from_items([3], &[1f64, 0.0, 0.0]);
        assert_eq!(call("image.rgb_to_hsv", &[pixel.clone()], json!({})).items::<f64>(), [0.0, 1.0, 1.0]);
        assert_eq!(call("image.hsv_to_rgb", &[Tensor::from_items([3], &[0f64, 1.0, 1.0])], json!({})), pixel);
    }

    #[test]
    fn standardization() {
        let a = call("image.per_image_standardization", &[bytes()], json!({}));
        let b = call("image.per_image_standardization", &[cast(bytes(), DType::Float32).unwrap()], json!({}));
        assert!(a.items::<f32>().iter().zip(b.items::<f32>()).all(|(a, b)| (a - b).abs() < 1e-5));
        let flat = Tensor::from_items([2, 2, 1], &[7u8; 4]);
        assert_eq!(call("image.per_image_standardization", &[flat], json!({})).items::<f32>(), [0.0; 4]);
    }

    #[test]
    fn normalization() {
        let how = json!({"mean": [0.5, 0.4, 0.3], "std": [0.5, 0.25, 0.2], "scale": 1.0 / 255.0});
        let t = Tensor::from_items([1, 2, 3], &[0u8, 255, 51, 255, 0, 102]);
        let got = call("image.normalize", &[t.clone()], how.clone());
        let close = |got: &[f32], want: [f32; 6]| got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(got.items::<f32>(), [-1.0, 2.4, -0.5, 1.0, -1.6, 0.5]), "{got:?}");
        let floats = cast(t.clone(), DType::Float32).unwrap();
        assert_eq!(call("image.normalize", &[floats], how.clone()), got);
        let mut first = how.clone();
        first["channels_first"] = json!(true);
        let planes = call("image.normalize", &[t.clone()], first.clone());
        assert_eq!(planes.shape(), [3, 1, 2]);
        assert!(close(planes.items::<f32>(), [-1.0, 1.0, 2.4, -1.6, -0.5, 0.5]), "{planes:?}");
        first["dtype"] = json!("float16");
        let half = call("image.normalize", &[Tensor::stack(&[t.clone(), t.clone()])], first);
        assert_eq!((half.shape(), half.items::<f16>()[1]), (&[2, 3, 1, 2][..], f16::ONE));
        let one = call("image.normalize", &[t.clone()], json!({"mean": 0, "std": 2}));
        assert_eq!(one.items::<f32>(), [0.0, 127.5, 25.5, 127.5, 0.0, 51.0]);
        let two = json!({"mean": [1, 2], "std": 1});
        assert!(refused("image.normalize", &[t.clone()], two.clone()).message().contains("2 means"));
        assert!(fails("image.normalize", &[t.clone()], two).message().contains("2 means"));
        assert!(refused("image.normalize", &[t], json!({"mean": 0, "std": 0})).message().contains("not be 0"));
    }
}
