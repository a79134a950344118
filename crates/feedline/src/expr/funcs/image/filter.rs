//! Blur, and rectangles wiped out.

use super::super::super::{Arg, Attrs, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::super::cast::cast;
use super::super::number::{Number, numbers};
use super::super::philox::Philox;
use super::super::random::{Normal, Source};
use super::boxes::{ATTEMPTS, draw_sides, range};
use super::pictures::{Fresh, Layout, Param, list, picture, sides};
use crate::element::{Column, DType, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::filter::{self, Blur, gaussian};
use feedline_image::geometry::Rect;
use serde_json::Value as Json;

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.gaussian_blur",
        doc: "Each pixel as a weighted mean of those around it; the second argument, if any, is the sigma of the weights.",
        make: make_blur,
        pure: true,
    },
    Func {
        name: "image.random_erasing",
        doc: "Wipes out a rectangle of a picture, with a given probability.",
        make: make_erasing,
        pure: false,
    },
];

/// One or two positive numbers: along the width and along the height.
fn pair(name: &str, given: &Json) -> Result<[f64; 2]> {
    match list(given).as_deref() {
        Some([both]) if *both > 0.0 => Ok([*both; 2]),
        Some([x, y]) if *x > 0.0 && *y > 0.0 => Ok([*x, *y]),
        _ => Err(Error::usage(format!("{name} must be one or two numbers above 0, not {given}"))),
    }
}

/// The longest curve that anybody would want, and that does not overflow anything.
const MOST_TAPS: f64 = 8191.0;

fn make_blur(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = picture(args, 0)?;
    if !dtype.is_numeric() {
        return Err(Error::usage(format!("expects the pixels of a picture, not {dtype}")));
    }
    let taps = pair("kernel_size", attrs.need("kernel_size", attrs.get("kernel_size"))?)?;
    if taps.iter().any(|n| n % 2.0 != 1.0 || *n > MOST_TAPS) {
        return Err(Error::usage(format!("kernel_size must be odd numbers, and at most {MOST_TAPS}, not {taps:?}")));
    }
    let taps = taps.map(|n| n as usize);
    let fixed = match args.len() {
        1 => Some(match attrs.get("sigma") {
            Some(sigma) => pair("sigma", sigma)?,
            // Wide enough that the ends of the curve hardly count.
            None => taps.map(|n| 0.15 * n as f64 + 0.35),
        }),
        _ => {
            arity::<2>(args)?;
            let (of, sigma) = dense(args, 1)?;
            if !of.is_float() || sigma.rank().is_some_and(|r| r > 1) {
                return Err(Error::usage(format!("sigma must be one or two floats, not {of} of shape {sigma}")));
            }
            None
        }
    };
    let [h, w, _] = sides(shape);
    let too_long = move |h: usize, w: usize| -> std::result::Result<(), String> {
        match taps[1] / 2 < h && taps[0] / 2 < w {
            true => Ok(()),
            false => {
                Err(format!("half of kernel_size {} x {} is longer than a picture of {w} x {h}", taps[0], taps[1]))
            }
        }
    };
    too_long(h.unwrap_or(usize::MAX), w.unwrap_or(usize::MAX)).map_err(Error::usage)?;
    let kernel = Fresh(move |t: &Tensor, params: &[Param], lead: usize| {
        let layout = Layout::of(t, lead)?;
        too_long(layout.size.height, layout.size.width).map_err(Error::data)?;
        let sigma = |row: usize| match fixed {
            Some(sigma) => Ok(sigma),
            None => sigma_of(&params[0].at(row)),
        };
        let whole = dtype == DType::Uint8;
        let source = if whole { t.clone() } else { cast(t.clone(), DType::Float32)? };
        let mut out = Tensor::new(source.dtype(), t.shape());
        let n = layout.size.items();
        for row in 0..layout.rows {
            let [x, y] = sigma(row)?;
            let mut blur = Blur::new(gaussian(taps[1], y), gaussian(taps[0], x));
            for i in row * layout.each..(row + 1) * layout.each {
                let at = i * n..(i + 1) * n;
                match whole {
                    true => {
                        let to = &mut out.items_mut::<u8>()[at.clone()];
                        blur.apply(&source.items::<u8>()[at], layout.size, to);
                    }
                    false => {
                        let to = &mut out.items_mut::<f32>()[at.clone()];
                        blur.apply(&source.items::<f32>()[at], layout.size, to);
                    }
                }
            }
        }
        if dtype.is_int() && !whole {
            out.items_mut::<f32>().iter_mut().for_each(|x| *x = x.round_ties_even());
        }
        cast(out, dtype).map(Some)
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

fn sigma_of(t: &Tensor) -> Result<[f64; 2]> {
    let list: Vec<f64> = numbers!(t.dtype(), T => all Ok(t.items::<T>().iter().map(|x| x.to_f64()).collect()))?;
    match list.as_slice() {
        [both] if *both > 0.0 => Ok([*both; 2]),
        [x, y] if *x > 0.0 && *y > 0.0 => Ok([*x, *y]),
        _ => Err(Error::data(format!("sigma must be one or two numbers above 0, not {list:?}"))),
    }
}

/// torchvision's way to wipe out a rectangle.
struct Erasing {
    source: Source,
    p: f64,
    scale: [f64; 2],
    log_ratio: [f64; 2],
    /// What is written: a value for all channels or one for each; noise of a normal distribution without it.
    value: Option<Tensor>,
}

fn make_erasing(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let (dtype, shape) = picture(args, 0)?;
    if !dtype.is_numeric() {
        return Err(Error::usage(format!("expects the pixels of a picture, not {dtype}")));
    }
    let p = attrs.f64("p")?.unwrap_or(0.5);
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::usage(format!("p must lie between 0 and 1, but is {p}")));
    }
    let scale = range(attrs, "scale", [0.02, 0.33])?;
    if scale[1] > 1.0 {
        return Err(Error::usage(format!("scale goes up to 1 at most, not {}", scale[1])));
    }
    let value = match attrs.get("value") {
        None => None,
        Some(given) => {
            let list: Option<Vec<f64>> = match given {
                Json::Array(list) => list.iter().map(Json::as_f64).collect(),
                one => one.as_f64().map(|x| vec![x]),
            };
            let list = list.filter(|list| !list.is_empty());
            let list = list
                .ok_or_else(|| Error::usage(format!("value must be a number, or one for each channel, not {given}")))?;
            if let Some(c) = sides(shape)[2].filter(|c| list.len() > 1 && list.len() != *c) {
                return Err(Error::usage(format!("{} values for pictures of {c} channels", list.len())));
            }
            Some(cast(Tensor::from_items([list.len()], &list), dtype)?)
        }
    };
    if value.is_none() && !dtype.is_float() {
        return Err(Error::usage(format!("noise cannot be written into pictures of {dtype}; give a value")));
    }
    let log_ratio = range(attrs, "ratio", [0.3, 3.3])?.map(f64::ln);
    let source = Source::of(attrs)?;
    Made::new(Leaf::tensor(dtype, shape.clone()), Erasing { source, p, scale, log_ratio, value })
}

impl Erasing {
    /// The rectangle of one picture, if it is to have one.
    fn rect(&self, random: &mut Philox, height: usize, width: usize) -> Option<Rect> {
        if random.unit_f64() >= self.p {
            return None;
        }
        for _ in 0..ATTEMPTS {
            // torchvision's ratio is height to width here, and width to height for crops.
            let (w, h) = draw_sides(random, height as f64 * width as f64, self.scale, self.log_ratio);
            if h < height as f64 && w < width as f64 {
                let (h, w) = (h as usize, w as usize);
                let y = random.below((height - h) as u64 + 1) as usize;
                let x = random.below((width - w) as u64 + 1) as usize;
                return Some(Rect::new(y, x, h, w));
            }
        }
        None
    }

    /// Each picture draws for itself, those of an element one after the other.
    fn apply(&self, mut t: Tensor, lead: usize, at: impl Fn(usize) -> RowAt) -> Result<Tensor> {
        let layout = Layout::of(&t, lead)?;
        let dtype = t.dtype();
        let pixel: Option<Vec<u8>> = match &self.value {
            None => None,
            Some(value) if value.len() == 1 => Some(value.bytes().repeat(layout.size.channels)),
            Some(value) if value.len() == layout.size.channels => Some(value.bytes().to_vec()),
            Some(value) => {
                return Err(Error::data(format!(
                    "{} values for pictures of {} channels",
                    value.len(),
                    layout.size.channels
                )));
            }
        };
        let (size, n) = (layout.bytes(dtype), layout.size.items());
        for row in 0..layout.rows {
            let mut random = self.source.at(at(row));
            for i in row * layout.each..(row + 1) * layout.each {
                let Some(rect) = self.rect(&mut random, size.height, size.width) else { continue };
                match &pixel {
                    Some(pixel) => {
                        filter::erase(&mut t.bytes_mut()[i * size.items()..(i + 1) * size.items()], size, rect, pixel)
                    }
                    None => numbers!(dtype, T => all {
                        noise(&mut t.items_mut::<T>()[i * n..(i + 1) * n], layout.size, rect, &mut random);
                        Ok(())
                    })?,
                }
            }
        }
        Ok(t)
    }
}

fn noise<T: Number>(picture: &mut [T], size: feedline_image::Size, rect: Rect, random: &mut Philox) {
    let mut normal = Normal::default();
    for row in picture.chunks_exact_mut(size.stride()).skip(rect.y).take(rect.height) {
        let part = &mut row[rect.x * size.channels..(rect.x + rect.width) * size.channels];
        part.iter_mut().for_each(|x| *x = T::of_f64(normal.next(random)));
    }
}

impl Kernel for Erasing {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value> {
        Ok(Value::Tensor(self.apply(args[0].tensor().clone(), 0, |_| at)?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, at: RowsAt<'_>) -> Result<Option<Column>> {
        if rows == 0 {
            return Ok(None);
        }
        match std::mem::replace(&mut args[0], Arg::Same(Value::Absent)) {
            Arg::Rows(Column::Dense(t)) => Ok(Some(Column::Dense(self.apply(t, 1, |row| at.row(row))?))),
            other => {
                args[0] = other;
                Ok(None)
            }
        }
    }

    fn overwrites(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::find;
    use super::super::super::testing::{attrs, call, fails, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn blur_spreads_a_point() {
        let mut point = vec![0u8; 25];
        point[12] = 255;
        let t = Tensor::from_items([5, 5, 1], &point);
        let got = call("image.gaussian_blur", &[t.clone()], json!({"kernel_size": 3, "sigma": 1.0}));
        // 255 times the products of 0.27406862 and 0.45186276.
        assert_eq!(got.items::<u8>()[6..9], [19, 32, 19]);
        assert_eq!(got.items::<u8>()[11..14], [32, 52, 32]);
        let by_tensor = call("image.gaussian_blur", &[t.clone(), Tensor::scalar(1f32)], json!({"kernel_size": 3}));
        assert_eq!(by_tensor, got);
        // One number is (x, y).
        let row = call("image.gaussian_blur", &[t.clone()], json!({"kernel_size": [3, 1], "sigma": 1.0}));
        assert_eq!(row.items::<u8>()[10..15], [0, 70, 115, 70, 0]);
        let floats = cast(t.clone(), DType::Float32).unwrap();
        let of_floats = call("image.gaussian_blur", &[floats], json!({"kernel_size": 3, "sigma": 1.0}));
        assert!(of_floats.items::<f32>().iter().zip(got.items::<u8>()).all(|(a, b)| (a - f32::from(*b)).abs() <= 0.5));
        let refuse = |a| refused("image.gaussian_blur", &[t.clone()], a).message().to_string();
        assert!(refuse(json!({"kernel_size": 4})).contains("odd"));
        assert!(refuse(json!({"kernel_size": 11})).contains("longer"));
        assert!(refuse(json!({"kernel_size": 3, "sigma": 0})).contains("above 0"));
        let zero = [t.clone(), Tensor::scalar(0f32)];
        assert!(fails("image.gaussian_blur", &zero, json!({"kernel_size": 3})).message().contains("above 0"));
    }

    fn erased(t: &Tensor, a: serde_json::Value, n: u64) -> Vec<Tensor> {
        let made = (find("image.random_erasing").unwrap().make)(&[Leaf::of_tensor(t)], &attrs(a)).unwrap();
        let row = |pos| made.kernel().row(&[Value::Tensor(t.clone())], RowAt { epoch: 0, pos }).unwrap();
        (0..n).map(|pos| row(pos).tensor().clone()).collect()
    }

    #[test]
    fn one_rectangle_is_wiped_out_half_of_the_time() {
        let t = Tensor::from_items([20, 30, 2], &[1u8; 1200]);
        let all = erased(&t, json!({"value": [7, 9], "seed": 3}), 400);
        let mut changed = 0;
        for x in &all {
            let pixels = x.items::<u8>().as_chunks::<2>().0;
            let hit: Vec<usize> = (0..600).filter(|i| pixels[*i] != [1, 1]).collect();
            let Some(first) = hit.first() else { continue };
            changed += 1;
            let last = hit.last().unwrap();
            let (h, w) = (last / 30 - first / 30 + 1, last % 30 - first % 30 + 1);
            assert!(hit.len() == h * w && hit.iter().all(|i| pixels[*i] == [7, 9]));
            assert!((0.01..0.36).contains(&(hit.len() as f64 / 600.0)), "{h} x {w}");
        }
        assert!((160..240).contains(&changed), "{changed}");
        assert_eq!(erased(&t, json!({"value": 0, "p": 0}), 3), vec![t.clone(); 3]);
        call("image.random_erasing", &[t.clone()], json!({"value": 0, "p": 1}));
        assert!(refused("image.random_erasing", &[t.clone()], json!({})).message().contains("noise"));
        assert!(refused("image.random_erasing", &[t], json!({"value": [1, 2, 3]})).message().contains("3 values"));
    }

    #[test]
    fn noise_has_mean_0() {
        let t = Tensor::from_items([64, 64, 1], &[100f32; 4096]);
        let x = &erased(&t, json!({"p": 1, "scale": [0.3, 0.3]}), 1)[0];
        let noise: Vec<f32> = x.items::<f32>().iter().copied().filter(|x| *x != 100.0).collect();
        let mean = noise.iter().sum::<f32>() / noise.len() as f32;
        assert!(noise.len() > 1000 && mean.abs() < 0.15, "{} {mean}", noise.len());
    }
}
