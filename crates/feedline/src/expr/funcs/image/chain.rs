//! A picture from its bytes to its place in the batch in one go: decode, crop, resize, crop, flip, arithmetic.
//!
//! 1. A rewrite makes one call of `image.chain` out of calls that only feed each other (`expr/pictures.rs`). The chain
//!    still has their kernels, in order, and they are what it means.
//! 2. If the calls stand in the usual order and the picture is a JPEG, it takes the short way: which pixels of the result
//!    are wanted says which pixels of the resized picture are, that says which of the crop, and that which rows and
//!    blocks of the file are decoded at all. Then each row is resized, flipped and computed while it is in the cache, in
//!    the memory where the batch lies.
//! 3. Both ways make every pixel by the same operations in the same order, so they give the same bits. Whatever the short
//!    way does not like (another format, a file that is cut off, a box that does not fit), the long way does, or refuses in
//!    its own words.

use super::super::super::{Arg, Attrs, Func, Kernel, Made, RowAt, RowsAt, dense};
use super::super::lead::integers;
use super::codec::{jpeg_options, rect, with_scratch};
use super::resize::{Resize, Target, Tools, with_tools};
use crate::element::{B8, Column, DType, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::Size;
use feedline_image::codec::{Format, jpeg};
use feedline_image::geometry::Rect;
use feedline_image::resize::{Method, Sample};
use serde::Deserialize;
use std::sync::Arc;

pub static FUNCS: &[Func] = &[Func {
    name: "image.chain",
    doc: "Functions on a picture, one after the other, from its bytes to its pixels; made by rewriting.",
    make: make_chain,
    pure: true,
}];

/// A call of a chain, as its attributes have it: its first argument is the result of the call before it.
#[derive(Deserialize)]
struct Written {
    func: String,
    attrs: Attrs,
    /// Its other arguments, by their place among those of the chain.
    args: Vec<usize>,
}

struct Chain {
    steps: Vec<(Arc<dyn Kernel>, Vec<usize>)>,
    short: Option<Short>,
}

fn make_chain(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let bad = |e: serde_json::Error| Error::usage(format!("not the steps of a chain: {e}"));
    let written: Vec<Written> = serde_json::from_value(attrs.get("steps").cloned().unwrap_or_default()).map_err(bad)?;
    let mut leaf = args.first().cloned().ok_or_else(|| Error::usage("a chain needs an argument"))?;
    let mut steps = Vec::new();
    for step in &written {
        let mut leaves = vec![leaf];
        for &i in &step.args {
            leaves.push(args.get(i).cloned().ok_or_else(|| Error::usage("a chain with an argument too few"))?);
        }
        if step.func == "image.chain" {
            return Err(Error::usage("a chain in a chain"));
        }
        let made = (super::super::find(&step.func)?.make)(&leaves, &step.attrs).map_err(|e| e.in_op(&step.func))?;
        let super::super::super::Work::One(kernel) = made.work else {
            return Err(Error::usage(format!("{} has several results", step.func)));
        };
        steps.push((kernel, step.args.clone()));
        leaf = made.spec;
    }
    let short = Short::of(&written, args, &leaf)?;
    Made::new(leaf, Chain { steps, short })
}

impl Kernel for Chain {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value> {
        if let Some(out) = self.short.as_ref().and_then(|short| short.run(args)) {
            return Ok(Value::Tensor(out));
        }
        let mut value = args[0].clone();
        let mut own = Vec::new();
        for (kernel, others) in &self.steps {
            own.clear();
            own.push(value);
            own.extend(others.iter().map(|&i| args[i].clone()));
            value = kernel.row(&own, at)?;
        }
        Ok(value)
    }
    fn rows(&self, _args: &mut [Arg], _rows: usize, _at: RowsAt<'_>) -> Result<Option<Column>> {
        Ok(None)
    }
}

/// The calls of a chain that can take the short way, in its order. Arguments are places among those of the chain.
struct Short {
    options: jpeg::Options,
    crop: Option<usize>,
    resize: Option<(Resize, Option<usize>)>,
    part: Option<Part>,
    flip: Option<Option<usize>>,
    tail: Vec<Tail>,
    dtype: DType,
}

/// A part of the resized picture.
enum Part {
    Box(usize),
    /// The middle, if it is large enough.
    Middle([usize; 2]),
}

/// What is computed of the pixels, as float32, item by item.
enum Tail {
    Add(usize),
    Subtract(usize),
    Multiply(usize),
    Divide(usize),
    /// (x * scale - mean) / std
    Normalize {
        scale: f32,
        mean: Vec<f32>,
        std: Vec<f32>,
    },
}

impl Short {
    /// Whether the calls are in order; an error only if the attributes are.
    fn of(steps: &[Written], args: &[Leaf], result: &Leaf) -> Result<Option<Short>> {
        let Leaf::Tensor { dtype, .. } = result else { return Ok(None) };
        let mut steps = steps.iter().peekable();
        let Some(decode) = steps.next_if(|s| s.func == "image.decode") else { return Ok(None) };
        if decode.attrs.bool("exif_orientation")?.unwrap_or(false) {
            return Ok(None);
        }
        let options = jpeg_options(&decode.attrs)?;
        let crop = steps.next_if(|s| s.func == "image.crop").map(|s| s.args[0]);
        let resize = match steps.next_if(|s| s.func == "image.resize") {
            None => None,
            Some(s) => Some((Resize::of(&s.attrs)?, s.args.first().copied())),
        };
        if resize.as_ref().is_some_and(|(r, _)| r.method == Method::Nearest) {
            return Ok(None);
        }
        let part = match steps.peek() {
            Some(s) if s.func == "image.crop" => Some(Part::Box(s.args[0])),
            Some(s) if s.func == "image.resize_with_crop_or_pad" => match s.attrs.i64s("size")?.as_deref() {
                Some([h, w]) if *h > 0 && *w > 0 => Some(Part::Middle([*h as usize, *w as usize])),
                _ => return Ok(None),
            },
            _ => None,
        };
        if part.is_some() {
            steps.next();
        }
        let flip = steps.next_if(|s| s.func == "image.flip_left_right").map(|s| s.args.first().copied());
        let mut tail = Vec::new();
        let mut is_float = resize.is_some();
        for step in steps {
            let number = |i: usize| {
                let known = args.get(i).map(|leaf| dense(std::slice::from_ref(leaf), 0));
                matches!(known, Some(Ok((DType::Float32, shape))) if shape.rank().is_some_and(|rank| rank <= 1))
            };
            match (step.func.as_str(), &step.args[..]) {
                ("cast", []) if step.attrs.dtype("dtype")? == Some(DType::Float32) => is_float = true,
                ("add", &[i]) if is_float && number(i) => tail.push(Tail::Add(i)),
                ("subtract", &[i]) if is_float && number(i) => tail.push(Tail::Subtract(i)),
                ("multiply", &[i]) if is_float && number(i) => tail.push(Tail::Multiply(i)),
                ("truediv", &[i]) if is_float && number(i) => tail.push(Tail::Divide(i)),
                _ => return Ok(None),
            }
        }
        // Without arithmetic pixels are copied as they are; anything else is float32.
        let copied = !is_float && tail.is_empty() && *dtype == DType::Uint8;
        let computed = is_float && *dtype == DType::Float32;
        Ok((copied || computed).then_some(Short { options, crop, resize, part, flip, tail, dtype: *dtype }))
    }

    /// The picture, or None if that is for the long way.
    fn run(&self, args: &[Value]) -> Option<Tensor> {
        let contents = args[0].tensor();
        let bytes = (contents.rank() == 0).then(|| contents.str_at(0))?;
        if Format::of(bytes).ok()? != Format::Jpeg {
            return None;
        }
        let job = jpeg::Job::new(bytes, self.options).ok()?;
        let whole = Rect { y: 0, x: 0, height: job.size.height, width: job.size.width };
        let box_in = |place: usize, size: Size| rect(&integers(args[place].tensor()).ok()?, size).ok();
        let crop = self.crop.map_or(Some(whole), |place| box_in(place, job.size))?;
        let flip = match self.flip {
            None => false,
            Some(None) => true,
            Some(Some(place)) => args[place].tensor().items::<B8>().first()?.get(),
        };
        let channels = job.size.channels;
        // The picture of which a part is taken.
        let (height, width) = match &self.resize {
            None => (crop.height, crop.width),
            Some((resize, place)) => {
                resize.target_of(place.map(|p| args[p].tensor())).ok()?.of(crop.height, crop.width)
            }
        };
        let part = match &self.part {
            None => Rect { y: 0, x: 0, height, width },
            Some(Part::Box(place)) => box_in(*place, Size::new(height, width, channels))?,
            Some(Part::Middle([h, w])) if *h <= height && *w <= width => {
                Rect { y: (height - h) / 2, x: (width - w) / 2, height: *h, width: *w }
            }
            Some(Part::Middle(_)) => return None,
        };
        with_tools(|tools| {
            with_scratch(|scratch| match &self.resize {
                Some((resize, _)) => {
                    self.resized(&job, crop, resize, (height, width), part, flip, args, tools, scratch)
                }
                None => {
                    let rect = Rect { y: crop.y + part.y, x: crop.x + part.x, ..part };
                    self.plain(&job, rect, flip, args, tools, scratch)
                }
            })
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn resized(
        &self,
        job: &jpeg::Job,
        crop: Rect,
        resize: &Resize,
        (height, width): (usize, usize),
        part: Rect,
        flip: bool,
        args: &[Value],
        tools: &mut Tools,
        scratch: &mut Vec<u8>,
    ) -> Option<Tensor> {
        let Resize { method, antialias, .. } = *resize;
        let Tools { rows, columns, resizer, .. } = tools;
        rows.set(method, antialias, crop.height, height, part.y..part.y + part.height);
        columns.set(method, antialias, crop.width, width, part.x..part.x + part.width);
        let (down, across) = (rows.source(), columns.source());
        let needed = Rect { y: crop.y + down.start, x: crop.x + across.start, height: down.len(), width: across.len() };
        let window = job.decode_window(needed, scratch).ok()?;
        rows.rebase(down.start);
        columns.rebase(across.start);
        if flip {
            columns.mirror();
        }
        let channels = job.size.channels;
        let tail = self.lines(args, part.width, channels)?;
        let mut out = Tensor::new(DType::Float32, [part.height, part.width, channels]);
        let src = &scratch[window.offset..];
        for (y, row) in out.items_mut::<f32>().chunks_exact_mut(part.width * channels).enumerate() {
            resizer.row(src, window.stride, channels, rows, columns, y, row);
            tail.apply(row);
        }
        Some(out)
    }

    fn plain(
        &self,
        job: &jpeg::Job,
        rect: Rect,
        flip: bool,
        args: &[Value],
        _tools: &mut Tools,
        scratch: &mut Vec<u8>,
    ) -> Option<Tensor> {
        let channels = job.size.channels;
        let row_items = rect.width * channels;
        let window = job.decode_window(rect, scratch).ok()?;
        let rows = scratch[window.offset..].chunks(window.stride).map(|row| &row[..row_items]);
        let mut out = Tensor::new(self.dtype, [rect.height, rect.width, channels]);
        if self.dtype == DType::Uint8 {
            rows.zip(out.items_mut::<u8>().chunks_exact_mut(row_items)).for_each(|(from, to)| {
                copy_row(from, channels, flip, to, |x| x);
            });
            return Some(out);
        }
        let tail = self.lines(args, rect.width, channels)?;
        for (from, to) in rows.zip(out.items_mut::<f32>().chunks_exact_mut(row_items)) {
            copy_row(from, channels, flip, to, Sample::to_f32);
            tail.apply(to);
        }
        Some(out)
    }

    /// The tail for rows of `width` pixels; None if an argument has another number of channels.
    fn lines(&self, args: &[Value], width: usize, channels: usize) -> Option<Lines> {
        let line = |items: &[f32]| -> Option<Vec<f32>> {
            match items.len() {
                1 => Some(vec![items[0]; width * channels]),
                n if n == channels => Some(items.iter().copied().cycle().take(width * channels).collect()),
                _ => None,
            }
        };
        let of = |place: usize| line(args[place].tensor().items::<f32>());
        let mut lines = Vec::new();
        for step in &self.tail {
            match step {
                Tail::Add(i) => lines.push((Operation::Add, of(*i)?)),
                Tail::Subtract(i) => lines.push((Operation::Subtract, of(*i)?)),
                Tail::Multiply(i) => lines.push((Operation::Multiply, of(*i)?)),
                Tail::Divide(i) => lines.push((Operation::Divide, of(*i)?)),
                Tail::Normalize { scale, mean, std } => {
                    lines.push((Operation::Multiply, line(&[*scale])?));
                    lines.push((Operation::Subtract, line(mean)?));
                    lines.push((Operation::Divide, line(std)?));
                }
            }
        }
        Some(Lines(lines))
    }
}

fn copy_row<T: Copy>(from: &[u8], channels: usize, flip: bool, to: &mut [T], item: impl Fn(u8) -> T) {
    if flip {
        for (from, to) in from.chunks_exact(channels).rev().zip(to.chunks_exact_mut(channels)) {
            from.iter().zip(to).for_each(|(from, to)| *to = item(*from));
        }
    } else {
        from.iter().zip(to).for_each(|(from, to)| *to = item(*from));
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Operations on a row, each with an operand for every item of it.
struct Lines(Vec<(Operation, Vec<f32>)>);

impl Lines {
    fn apply(&self, row: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.apply_avx2(row) };
        }
        self.apply_any(row);
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn apply_avx2(&self, row: &mut [f32]) {
        self.apply_any(row);
    }
    #[inline(always)]
    fn apply_any(&self, row: &mut [f32]) {
        for (operation, line) in &self.0 {
            let pairs = row.iter_mut().zip(line);
            match operation {
                Operation::Add => pairs.for_each(|(x, a)| *x += a),
                Operation::Subtract => pairs.for_each(|(x, a)| *x -= a),
                Operation::Multiply => pairs.for_each(|(x, a)| *x *= a),
                Operation::Divide => pairs.for_each(|(x, a)| *x /= a),
            }
        }
    }
}
