//! Pictures in another size.

use super::super::super::{Arg, Attrs, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::super::lead::{check_integers, integers};
use super::super::number::numbers;
use super::chain::Lines;
use super::pictures::{picture, sides, with_sides};
use crate::element::{Column, DType, Dims, Leaf, Shape, Tensor, Value, check_room};
use crate::error::{Error, Result};
use feedline_image::Size;
use feedline_image::resize::{Method, Resizer, Sample, Taps, nearest};
use half::{bf16, f16};
use std::cell::RefCell;

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.resize",
        doc: "Pictures in another size: [height, width] as an attribute or an argument, or `shorter_side`.",
        make: make_resize,
        pure: true,
    },
    Func {
        name: "image.resize_with_pad",
        doc: "Pictures of a size, their proportions kept and the rest filled with zeros.",
        make: make_resize_with_pad,
        pure: true,
    },
    Func {
        name: "image.crop_and_resize",
        doc: "Parts of pictures, given as boxes in units of their sides, all in one size.",
        make: make_crop_and_resize,
        pure: true,
    },
];

/// How large the result is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    Exact(usize, usize),
    /// As large as fits, with the picture's proportions.
    Within(usize, usize),
    ShorterSide(usize),
}

impl Target {
    /// Height and width for a picture.
    pub fn of(self, height: usize, width: usize) -> (usize, usize) {
        match self {
            Target::Exact(h, w) => (h, w),
            Target::Within(h, w) => {
                let scale = (h as f32 / height as f32).min(w as f32 / width as f32);
                let side = |n: usize| ((scale * n as f32).round_ties_even() as usize).max(1);
                (side(height), side(width))
            }
            // The longer side is cut off, not rounded, as torchvision does it.
            Target::ShorterSide(n) if height <= width => (n, (n * width / height.max(1)).max(1)),
            Target::ShorterSide(n) => ((n * height / width.max(1)).max(1), n),
        }
    }
}

/// `image.resize`: what it does to a picture.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    pub method: Method,
    pub antialias: bool,
    /// None: an argument says it.
    pub target: Option<Target>,
    within: bool,
}

impl Resize {
    pub fn of(attrs: &Attrs) -> Result<Resize> {
        let name = attrs.str("method")?.unwrap_or("bilinear");
        let method = Method::parse(name).ok_or_else(|| {
            Error::usage(format!(
                "there is no method {name:?}; there are bilinear, nearest, bicubic, area, lanczos3, lanczos5, gaussian and \
                 mitchellcubic"
            ))
        })?;
        let within = attrs.bool("preserve_aspect_ratio")?.unwrap_or(false);
        let side = |n: i64| match usize::try_from(n) {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(Error::usage(format!("a picture must become at least 1 pixel high and wide, not {n}"))),
        };
        let target = match (attrs.i64s("size")?, attrs.i64("shorter_side")?) {
            (None, None) => None,
            (None, Some(n)) => Some(Target::ShorterSide(side(n)?)),
            (Some(size), None) => match size[..] {
                [h, w] if within => Some(Target::Within(side(h)?, side(w)?)),
                [h, w] => Some(Target::Exact(side(h)?, side(w)?)),
                _ => return Err(Error::usage(format!("size must be [height, width], not {size:?}"))),
            },
            (Some(_), Some(_)) => return Err(Error::usage("size and shorter_side exclude each other")),
        };
        Ok(Resize { method, antialias: attrs.bool("antialias")?.unwrap_or(false), target, within })
    }
    /// The target, which an argument may give.
    pub fn target_of(&self, size: Option<&Tensor>) -> Result<Target> {
        match (self.target, size) {
            (Some(target), _) => Ok(target),
            (None, Some(size)) => self.argument(size),
            (None, None) => Err(Error::internal("a size is missing")),
        }
    }
    fn argument(&self, size: &Tensor) -> Result<Target> {
        match integers(size)?[..] {
            [h, w] if h > 0 && w > 0 && self.within => Ok(Target::Within(h as usize, w as usize)),
            [h, w] if h > 0 && w > 0 => Ok(Target::Exact(h as usize, w as usize)),
            ref other => Err(Error::data(format!(
                "a picture cannot get the size {other:?}: [height, width] of at least 1 pixel each are wanted"
            ))),
        }
    }
    pub fn dtype(&self, input: DType) -> DType {
        if self.method == Method::Nearest { input } else { DType::Float32 }
    }
    /// Pictures `[..., height, width, channels]` in another size.
    fn run(&self, pictures: &Tensor, target: Target) -> Result<Tensor> {
        let (lead, size) = picture_axes(pictures.shape())?;
        let (height, width) = target.of(size.height, size.width);
        let shape: Shape = lead.iter().copied().chain([height, width, size.channels]).collect();
        let dtype = self.dtype(pictures.dtype());
        check_room(dtype, &shape)?;
        let mut out = Tensor::new(dtype, shape);
        if out.is_empty() {
            return Ok(out);
        }
        numbers!(pictures.dtype(), T => all {
            if self.method == Method::Nearest {
                let pairs = pictures.items::<T>().chunks_exact(size.items());
                let sizes = height * width * size.channels;
                pairs.zip(out.items_mut::<T>().chunks_exact_mut(sizes)).for_each(|(from, to)| {
                    nearest(from, size, (height, width), to);
                });
                return Ok(out);
            }
            self.smooth::<T>(pictures.items::<T>(), size, (height, width), out.items_mut::<f32>());
            Ok::<(), Error>(())
        })?;
        Ok(out)
    }
    fn smooth<T: AsSample>(&self, src: &[T], size: Size, (height, width): (usize, usize), out: &mut [f32]) {
        with_tools(|tools| {
            let Tools { rows, columns, resizer, .. } = tools;
            let mut wide = Vec::new();
            rows.set(self.method, self.antialias, size.height, height, 0..height);
            columns.set(self.method, self.antialias, size.width, width, 0..width);
            let out_items = height * width * size.channels;
            for (from, to) in src.chunks_exact(size.items()).zip(out.chunks_exact_mut(out_items)) {
                let from = T::samples(from, &mut wide);
                for (y, row) in to.chunks_exact_mut(width * size.channels).enumerate() {
                    resizer.row(from, size.stride(), size.channels, rows, columns, y, row);
                }
            }
        });
    }
}

/// What a thread keeps for resizing, so that a picture costs no allocation.
#[derive(Default)]
pub struct Tools {
    pub rows: Taps,
    pub columns: Taps,
    pub resizer: Resizer,
    pub lines: Lines,
}

pub fn with_tools<R>(f: impl FnOnce(&mut Tools) -> R) -> R {
    thread_local!(static TOOLS: RefCell<Tools> = RefCell::default());
    TOOLS.with_borrow_mut(f)
}

/// Items as the resizer reads them.
trait AsSample: Sized {
    type Sample: Sample;
    fn samples<'a>(items: &'a [Self], wide: &'a mut Vec<f32>) -> &'a [Self::Sample];
}

macro_rules! samples {
    ($($t:ty),*) => { $(impl AsSample for $t {
        type Sample = $t;
        fn samples<'a>(items: &'a [$t], _wide: &'a mut Vec<f32>) -> &'a [$t] {
            items
        }
    })* };
}
samples!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

macro_rules! half_samples {
    ($($t:ty),*) => { $(impl AsSample for $t {
        type Sample = f32;
        fn samples<'a>(items: &'a [$t], wide: &'a mut Vec<f32>) -> &'a [f32] {
            wide.clear();
            wide.extend(items.iter().map(|x| x.to_f32()));
            wide
        }
    })* };
}
half_samples!(f16, bf16);

/// The axes in front of a picture, and its sizes.
fn picture_axes(shape: &[usize]) -> Result<(&[usize], Size)> {
    match shape {
        [lead @ .., height, width, channels] if *height > 0 && *width > 0 => {
            Ok((lead, Size::new(*height, *width, *channels)))
        }
        _ => Err(Error::data(format!("a picture without pixels, of shape {shape:?}, cannot be resized"))),
    }
}

/// The dtype and the shape of pictures of numbers.
fn numeric(args: &[Leaf]) -> Result<(DType, &Dims)> {
    match picture(args, 0)? {
        (DType::Bool, _) => Err(Error::usage("expects pictures of numbers, not of truth values; cast them first")),
        numeric => Ok(numeric),
    }
}

impl Kernel for Resize {
    fn row(&self, args: &[Value], _at: RowAt) -> Result<Value> {
        let target = self.target_of(args.get(1).map(|size| size.tensor()))?;
        self.run(args[0].tensor(), target).map(Value::Tensor)
    }
    fn rows(&self, args: &mut [Arg], _rows: usize, _at: RowsAt<'_>) -> Result<Option<Column>> {
        let Arg::Rows(Column::Dense(pictures)) = &args[0] else { return Ok(None) };
        let target = match args.get(1) {
            None => self.target_of(None)?,
            Some(Arg::Same(size)) => self.target_of(Some(size.tensor()))?,
            Some(Arg::Rows(_)) => return Ok(None),
        };
        self.run(pictures, target).map(|t| Some(Column::Dense(t)))
    }
}

fn make_resize(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let resize = Resize::of(attrs)?;
    if resize.target.is_some() {
        arity::<1>(args)?;
    } else {
        arity::<2>(args)?;
        check_integers("size", dense(args, 1)?.0)?;
    }
    let (dtype, shape) = numeric(args)?;
    let [known_height, known_width, channels] = sides(shape);
    let (height, width) = match (resize.target, known_height.zip(known_width)) {
        (Some(Target::Exact(h, w)), _) => (Some(h), Some(w)),
        (Some(target), Some((h, w))) => {
            let (h, w) = target.of(h, w);
            (Some(h), Some(w))
        }
        _ => (None, None),
    };
    Made::new(Leaf::tensor(resize.dtype(dtype), with_sides(shape, [height, width, channels])), resize)
}

fn make_resize_with_pad(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    let resize = Resize::of(attrs)?;
    let Some(Target::Exact(height, width)) = resize.target else {
        return Err(Error::usage("resize_with_pad needs a size [height, width]"));
    };
    let (dtype, shape) = numeric(args)?;
    let out = Leaf::tensor(resize.dtype(dtype), with_sides(shape, [Some(height), Some(width), sides(shape)[2]]));
    let kernel = super::super::super::ByRow(move |args: &[Value]| {
        let picture = args[0].tensor();
        let (lead, size) = picture_axes(picture.shape())?;
        let ratio = (size.width as f32 / width as f32).max(size.height as f32 / height as f32);
        let inner = |n: usize, all: usize| ((n as f32 / ratio).floor() as usize).clamp(1, all);
        let (h, w) = (inner(size.height, height), inner(size.width, width));
        let before = |n: usize, all: usize| (((all as f32 - n as f32 / ratio) / 2.0).floor().max(0.0)) as usize;
        let (top, left) = (before(size.height, height).min(height - h), before(size.width, width).min(width - w));
        let small = resize.run(picture, Target::Exact(h, w))?;
        let shape: Shape = lead.iter().copied().chain([height, width, size.channels]).collect();
        check_room(small.dtype(), &shape)?;
        let mut out = Tensor::zeros(small.dtype(), shape);
        let item = small.dtype().size() * size.channels;
        let (from_row, to_row) = (w * item, width * item);
        if !small.is_empty() {
            let pairs = small.bytes().chunks_exact(h * from_row).map(|p| p.to_vec()).collect::<Vec<_>>();
            for (from, to) in pairs.iter().zip(out.bytes_mut().chunks_exact_mut(height * to_row)) {
                for (y, row) in from.chunks_exact(from_row).enumerate() {
                    to[(top + y) * to_row + left * item..][..from_row].copy_from_slice(row);
                }
            }
        }
        Ok(Value::Tensor(out))
    });
    Made::new(out, kernel)
}

/// `image.crop_and_resize` of a batch of pictures.
fn make_crop_and_resize(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<3>(args)?;
    let resize = Resize::of(attrs)?;
    let is_nearest = match resize.method {
        Method::Bilinear => false,
        Method::Nearest => true,
        _ => return Err(Error::usage("crop_and_resize knows the methods bilinear and nearest")),
    };
    let Some(Target::Exact(height, width)) = resize.target else {
        return Err(Error::usage("crop_and_resize needs a size [height, width]"));
    };
    let outside = attrs.f64("extrapolation_value")?.unwrap_or(0.0) as f32;
    let (_, shape) = numeric(args)?;
    if shape.rank().is_some_and(|rank| rank != 4) {
        return Err(Error::usage(format!("crop_and_resize expects a batch of pictures, not shape {shape}")));
    }
    if dense(args, 1)?.0 != DType::Float32 {
        return Err(Error::usage("crop_and_resize expects boxes of float32, as [y1, x1, y2, x2] from 0 to 1"));
    }
    check_integers("box_indices", dense(args, 2)?.0)?;
    let channels = shape.dims().and_then(|d| d[3]);
    let boxes = dense(args, 1)?.1.dims().and_then(|d| d.first().copied().flatten());
    let out = Leaf::tensor(DType::Float32, Dims::of([boxes, Some(height), Some(width), channels]));
    let kernel = super::super::super::ByRow(move |args: &[Value]| {
        let (batch, boxes, index) = (args[0].tensor(), args[1].tensor(), integers(args[2].tensor())?);
        let (lead, size) = picture_axes(batch.shape())?;
        let ([pictures], [n, 4]) = (lead, boxes.shape()) else {
            return Err(Error::data(format!(
                "crop_and_resize expects boxes of shape [n, 4] for a batch of pictures, not {:?} for {:?}",
                boxes.shape(),
                batch.shape()
            )));
        };
        if index.len() != *n {
            return Err(Error::data(format!("{n} boxes, and {} numbers of their pictures", index.len())));
        }
        check_room(DType::Float32, &[*n, height, width, size.channels])?;
        let mut out = Tensor::new(DType::Float32, [*n, height, width, size.channels]);
        let mut items = out.items_mut::<f32>().iter_mut();
        for (corner, &picture) in boxes.items::<f32>().chunks_exact(4).zip(&index) {
            let picture = usize::try_from(picture).ok().filter(|p| p < pictures);
            let picture =
                picture.ok_or_else(|| Error::data(format!("a box for a picture that is not one of {pictures}")))?;
            let place = |from: f32, to: f32, len: usize, i: usize, steps: usize| {
                let last = (len - 1) as f32;
                let at = if steps > 1 {
                    from * last + i as f32 * ((to - from) * last / (steps - 1) as f32)
                } else {
                    0.5 * (from + to) * last
                };
                (0.0..=last).contains(&at).then_some(at)
            };
            numbers!(batch.dtype(), T => all {
                let all = &batch.items::<T>()[picture * size.items()..][..size.items()];
                let mut wide = Vec::new();
                let samples = T::samples(all, &mut wide);
                for y in 0..height {
                    let at_y = place(corner[0], corner[2], size.height, y, height);
                    for x in 0..width {
                        let at_x = place(corner[1], corner[3], size.width, x, width);
                        for c in 0..size.channels {
                            let at = |y: usize, x: usize| samples[(y * size.width + x) * size.channels + c].to_f32();
                            let value = match (at_y, at_x) {
                                (Some(y), Some(x)) if is_nearest => at(y.round() as usize, x.round() as usize),
                                (Some(y), Some(x)) => {
                                    let (top, left) = (y.floor() as usize, x.floor() as usize);
                                    let (bottom, right) = (y.ceil() as usize, x.ceil() as usize);
                                    let (down, across) = (y - y.floor(), x - x.floor());
                                    let above = at(top, left) + (at(top, right) - at(top, left)) * across;
                                    let below = at(bottom, left) + (at(bottom, right) - at(bottom, left)) * across;
                                    above + (below - above) * down
                                }
                                _ => outside,
                            };
                            if let Some(item) = items.next() {
                                *item = value;
                            }
                        }
                    }
                }
                Ok::<(), Error>(())
            })?;
        }
        Ok(Value::Tensor(out))
    });
    Made::new(out, kernel)
}
