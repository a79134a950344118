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
use super::codec::{jpeg_options, rect};
use super::colour::Normalize;
use super::resize::{Resize, Tools, with_tools};
use crate::element::{B8, Column, DType, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::Size;
use feedline_image::codec::{Format, jpeg};
use feedline_image::colour::Planes;
use feedline_image::geometry::Rect;
use feedline_image::resize::{Method, Sample};
use feedline_io::wide;
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
    let (leaf, chain) = Chain::of(args, attrs)?;
    Made::new(leaf, chain)
}

impl Chain {
    fn of(args: &[Leaf], attrs: &Attrs) -> Result<(Leaf, Chain)> {
        let bad = |e: serde_json::Error| Error::usage(format!("not the steps of a chain: {e}"));
        let written: Vec<Written> =
            serde_json::from_value(attrs.get("steps").cloned().unwrap_or_default()).map_err(bad)?;
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
        Ok((leaf, Chain { steps, short }))
    }
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
/// Arithmetic on single items may stand anywhere: where pixels come from and what is computed of them do not meet, except
/// in `resize`.
struct Short {
    options: jpeg::Options,
    /// May pixels be those of a picture that was decoded at a smaller scale?
    scaled: bool,
    crop: Option<usize>,
    /// Arithmetic in front of `resize`.
    head: Vec<Sum>,
    resize: Option<(Resize, Option<usize>)>,
    part: Option<Part>,
    flip: Option<Option<usize>>,
    tail: Vec<Sum>,
    /// The result has its channels apart.
    apart: bool,
    dtype: DType,
}

/// A part of the resized picture.
enum Part {
    Box(usize),
    /// The middle, if it is large enough.
    Middle([usize; 2]),
}

/// What is computed of the pixels, as float32, item by item.
enum Sum {
    Add(usize),
    Subtract(usize),
    Multiply(usize),
    Divide(usize),
    Normalize(Normalize),
    /// Bytes from 0 to 1.
    Unit,
}

/// Reads arithmetic, and remembers what it makes of pixels.
struct Sums<'a> {
    args: &'a [Leaf],
    is_float: bool,
    apart: bool,
}

impl Sums<'_> {
    /// Whether it is a number, or one for each channel.
    fn is_number(&self, place: usize) -> bool {
        let known = self.args.get(place).map(|leaf| dense(std::slice::from_ref(leaf), 0));
        matches!(known, Some(Ok((DType::Float32, shape))) if shape.rank().is_some_and(|rank| rank <= 1))
    }
    /// Adds the call to `sums`; false if it is none that the short way knows.
    fn take(&mut self, step: &Written, sums: &mut Vec<Sum>) -> Result<bool> {
        let is_sum = |i: usize| self.is_float && self.is_number(i);
        match (step.func.as_str(), &step.args[..]) {
            // What has its channels apart has other rows.
            _ if self.apart => return Ok(false),
            ("cast", []) if step.attrs.dtype("dtype")? == Some(DType::Float32) => self.is_float = true,
            ("add", &[i]) if is_sum(i) => sums.push(Sum::Add(i)),
            ("subtract", &[i]) if is_sum(i) => sums.push(Sum::Subtract(i)),
            ("multiply", &[i]) if is_sum(i) => sums.push(Sum::Multiply(i)),
            ("truediv", &[i]) if is_sum(i) => sums.push(Sum::Divide(i)),
            ("image.convert_image_dtype", []) if step.attrs.dtype("dtype")? == Some(DType::Float32) => {
                if !self.is_float {
                    sums.push(Sum::Unit);
                }
                self.is_float = true;
            }
            ("image.normalize", []) => {
                let normalize = Normalize::of(&step.attrs)?;
                if normalize.dtype != DType::Float32 {
                    return Ok(false);
                }
                (self.is_float, self.apart) = (true, normalize.planes == Planes::Apart);
                sums.push(Sum::Normalize(normalize));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Short {
    /// Whether the calls are in order; an error only if the attributes are.
    fn of(steps: &[Written], args: &[Leaf], result: &Leaf) -> Result<Option<Short>> {
        let Leaf::Tensor { dtype, .. } = result else { return Ok(None) };
        let Some((decode, mut steps)) = steps.split_first().filter(|(first, _)| first.func == "image.decode") else {
            return Ok(None);
        };
        if decode.attrs.bool("exif_orientation")?.unwrap_or(false) {
            return Ok(None);
        }
        let (options, scaled) = (jpeg_options(&decode.attrs)?, decode.attrs.bool("scaled")?.unwrap_or(false));
        let mut sums = Sums { args, is_float: false, apart: false };
        let (mut crop, mut part, mut flip) = (None, None, None);
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        while let Some((step, rest)) = steps.split_first() {
            match step.func.as_str() {
                "image.crop" if crop.is_none() => crop = Some(step.args[0]),
                _ if !sums.take(step, &mut head)? => break,
                _ => {}
            }
            steps = rest;
        }
        let mut resize = None;
        if let Some((step, rest)) = steps.split_first().filter(|(step, _)| step.func == "image.resize") {
            resize = Some((Resize::of(&step.attrs)?, step.args.first().copied()));
            (steps, sums.is_float) = (rest, true);
        }
        let is_nearest = resize.as_ref().is_some_and(|(r, _)| r.method == Method::Nearest);
        if is_nearest || (sums.apart && resize.is_some()) {
            return Ok(None);
        }
        for step in steps {
            match step.func.as_str() {
                "image.crop" if part.is_none() && flip.is_none() && !sums.apart => part = Some(Part::Box(step.args[0])),
                "image.resize_with_crop_or_pad" if part.is_none() && flip.is_none() && !sums.apart => {
                    match step.attrs.i64s("size")?.as_deref() {
                        Some([h, w]) if *h > 0 && *w > 0 => part = Some(Part::Middle([*h as usize, *w as usize])),
                        _ => return Ok(None),
                    }
                }
                "image.flip_left_right" if flip.is_none() && !sums.apart => flip = Some(step.args.first().copied()),
                _ if !sums.take(step, &mut tail)? => return Ok(None),
                _ => {}
            }
        }
        if resize.is_none() {
            head.append(&mut tail);
            tail = std::mem::take(&mut head);
        }
        // Without arithmetic pixels are copied as they are; anything else is float32.
        let copied = !sums.is_float && *dtype == DType::Uint8;
        let computed = sums.is_float && *dtype == DType::Float32;
        let (apart, dtype) = (sums.apart, *dtype);
        let short = Short { options, scaled, crop, head, resize, part, flip, tail, apart, dtype };
        Ok((copied || computed).then_some(short))
    }

    /// The picture, or None if that is for the long way.
    fn run(&self, args: &[Value]) -> Option<Tensor> {
        let contents = args[0].tensor();
        let bytes = (contents.rank() == 0).then(|| contents.str_at(0))?;
        if Format::of(bytes).ok()? != Format::Jpeg {
            return None;
        }
        let mut job = jpeg::Job::new(bytes, self.options).ok()?;
        let whole = Rect { y: 0, x: 0, height: job.size.height, width: job.size.width };
        let box_in = |place: usize, size: Size| rect(&integers(args[place].tensor()).ok()?, size).ok();
        let mut crop = self.crop.map_or(Some(whole), |place| box_in(place, job.size))?;
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
        if self.scaled && self.resize.is_some() {
            // As small as it may get without becoming smaller than the result.
            let enough = |ratio: &usize| crop.height >= ratio * height && crop.width >= ratio * width;
            if let Some(ratio) = [8, 4, 2].into_iter().find(enough) {
                job = jpeg::Job::new(bytes, jpeg::Options { ratio, ..self.options }).ok()?;
                let (bottom, right) = ((crop.y + crop.height).div_ceil(ratio), (crop.x + crop.width).div_ceil(ratio));
                let (y, x) = (crop.y / ratio, crop.x / ratio);
                crop = Rect { y, x, height: bottom - y, width: right - x };
            }
        }
        with_tools(|tools| match &self.resize {
            Some((resize, _)) => self.resized(&job, crop, resize, (height, width), part, flip, args, tools),
            None => {
                let rect = Rect { y: crop.y + part.y, x: crop.x + part.x, ..part };
                self.plain(&job, rect, flip, args, tools)
            }
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
    ) -> Option<Tensor> {
        let Resize { method, antialias, .. } = *resize;
        let Tools { rows, columns, resizer, lines } = tools;
        rows.set(method, antialias, crop.height, height, part.y..part.y + part.height);
        columns.set(method, antialias, crop.width, width, part.x..part.x + part.width);
        let (down, across) = (rows.source(), columns.source());
        let needed = Rect { y: crop.y + down.start, x: crop.x + across.start, height: down.len(), width: across.len() };
        let window = job.decode_window(needed).ok()?;
        rows.rebase(down.start);
        columns.rebase(across.start);
        if flip {
            columns.mirror();
        }
        let channels = job.size.channels;
        let src = window.items();
        if !self.head.is_empty() {
            set_lines(&self.head, args, needed.width, channels, lines)?;
            let stride = needed.width * channels;
            let mut wide = Tensor::new(DType::Float32, [needed.height, stride]);
            let wide = wide.items_mut::<f32>();
            for (y, to) in wide.chunks_exact_mut(stride).enumerate() {
                copy_row(&src[y * window.stride..][..stride], channels, false, to, Sample::to_f32);
                lines.apply(to);
            }
            set_lines(&self.tail, args, part.width, channels, lines)?;
            return Some(self.make_rows(Size::new(part.height, part.width, channels), |y, row| {
                resizer.row(wide, stride, channels, rows, columns, y, row);
                lines.apply(row);
            }));
        }
        set_lines(&self.tail, args, part.width, channels, lines)?;
        Some(self.make_rows(Size::new(part.height, part.width, channels), |y, row| {
            resizer.row(src, window.stride, channels, rows, columns, y, row);
            lines.apply(row);
        }))
    }

    fn plain(&self, job: &jpeg::Job, rect: Rect, flip: bool, args: &[Value], tools: &mut Tools) -> Option<Tensor> {
        let channels = job.size.channels;
        let row_items = rect.width * channels;
        let window = job.decode_window(rect).ok()?;
        let row = |y: usize| &window.items()[y * window.stride..][..row_items];
        if self.dtype == DType::Uint8 {
            let mut out = Tensor::new(self.dtype, [rect.height, rect.width, channels]);
            for (y, to) in out.items_mut::<u8>().chunks_exact_mut(row_items).enumerate() {
                copy_row(row(y), channels, flip, to, |x| x);
            }
            return Some(out);
        }
        set_lines(&self.tail, args, rect.width, channels, &mut tools.lines)?;
        Some(self.make_rows(Size::new(rect.height, rect.width, channels), |y, to| {
            copy_row(row(y), channels, flip, to, Sample::to_f32);
            tools.lines.apply(to);
        }))
    }

    /// A picture of rows that `make` makes, pixel after pixel; where channels lie apart they are put apart row by row.
    fn make_rows(&self, size: Size, mut make: impl FnMut(usize, &mut [f32])) -> Tensor {
        let Size { height, width, channels } = size;
        if !self.apart {
            let mut out = Tensor::new(DType::Float32, [height, width, channels]);
            out.items_mut::<f32>().chunks_exact_mut(width * channels).enumerate().for_each(|(y, row)| make(y, row));
            return out;
        }
        let mut out = Tensor::new(DType::Float32, [channels, height, width]);
        let items = out.items_mut::<f32>();
        let mut row = vec![0.0; width * channels];
        for y in 0..height {
            make(y, &mut row);
            for (c, plane) in items.chunks_exact_mut(height * width).enumerate() {
                let pixels = row[c..].iter().step_by(channels);
                plane[y * width..][..width].iter_mut().zip(pixels).for_each(|(to, x)| *to = *x);
            }
        }
        out
    }
}

/// Arithmetic on rows of `width` pixels, in the memory of the last one; None if an argument has another number of channels.
fn set_lines(sums: &[Sum], args: &[Value], width: usize, channels: usize, lines: &mut Lines) -> Option<()> {
    lines.used = 0;
    for sum in sums {
        let mut add = |operation, operand: &[f32]| lines.push(operation, operand, width * channels, channels);
        let of = |place: usize| args[place].tensor().items::<f32>();
        match sum {
            Sum::Add(i) => add(Operation::Add, of(*i))?,
            Sum::Subtract(i) => add(Operation::Subtract, of(*i))?,
            Sum::Multiply(i) => add(Operation::Multiply, of(*i))?,
            Sum::Divide(i) => add(Operation::Divide, of(*i))?,
            Sum::Unit => add(Operation::Multiply, &[feedline_image::colour::unit(1)])?,
            Sum::Normalize(normalize) => {
                let affine = normalize.affine(channels).ok()?;
                let (factors, terms) = affine.parts();
                add(Operation::Multiply, factors)?;
                add(Operation::Add, terms)?;
            }
        }
    }
    Some(())
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
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Operations on a row, each with an operand for every item of it.
#[derive(Default)]
pub struct Lines {
    /// More than are used keep their memory for later.
    all: Vec<(Operation, Vec<f32>)>,
    used: usize,
}

impl Lines {
    /// An operand for all items, or one for each channel.
    fn push(&mut self, operation: Operation, operand: &[f32], items: usize, channels: usize) -> Option<()> {
        if self.used == self.all.len() {
            self.all.push((operation, Vec::new()));
        }
        let (kept, line) = &mut self.all[self.used];
        *kept = operation;
        line.clear();
        match operand {
            [one] => line.resize(items, *one),
            some if some.len() == channels => some.iter().cycle().take(items).for_each(|x| line.push(*x)),
            _ => return None,
        }
        self.used += 1;
        Some(())
    }
    fn apply(&self, row: &mut [f32]) {
        wide(|| self.apply_any(row));
    }
    #[inline(always)]
    fn apply_any(&self, row: &mut [f32]) {
        for (operation, line) in &self.all[..self.used] {
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

#[cfg(test)]
mod tests {
    use super::super::super::super::{Builder, Graph, Kind};
    use super::*;
    use crate::element::{Spec, Tree};
    use proptest::prelude::*;
    use serde_json::json;

    fn jpeg(size: Size, seed: usize, chroma_downsampling: bool) -> Vec<u8> {
        let pixels: Vec<u8> =
            (0..size.items()).map(|i| ((i * (37 + seed) / 3) % 251 + (i / size.stride() * seed) % 5) as u8).collect();
        jpeg::encode(&pixels, size, jpeg::Encoding { chroma_downsampling, ..Default::default() }).unwrap()
    }

    /// A function of a picture's bytes: calls with their attributes and their other arguments.
    fn function(calls: &[(&str, serde_json::Value, Vec<Tensor>)]) -> Graph {
        let mut b = Builder::new(&Spec::scalar(DType::String));
        let mut node = 0;
        for (name, attrs, others) in calls {
            let mut args = vec![node];
            args.extend(others.iter().map(|t| b.constant(Value::Tensor(t.clone())).unwrap()));
            node = b.call(name, &args, Attrs(attrs.as_object().unwrap().clone())).unwrap();
        }
        b.finish(&Tree::Leaf(node))
    }
    fn run(graph: &Graph, bytes: &[u8]) -> Result<Tensor> {
        let element = smallvec::smallvec![Value::Tensor(Tensor::string(bytes))];
        Ok(graph.eval_one(&element, &[], RowAt { epoch: 0, pos: 0 })?[0].tensor().clone())
    }
    /// What the short way gives, of a function that has become one chain.
    fn run_short(graph: &Graph, bytes: &[u8]) -> Option<Tensor> {
        let mut chains = graph.nodes.iter().filter_map(|n| match &n.kind {
            Kind::Call { func, args, attrs, .. } if func.name == "image.chain" => Some((args, attrs)),
            _ => None,
        });
        let (args, attrs) = chains.next_back()?;
        let leaves: Vec<Leaf> = args.iter().map(|&a| graph.nodes[a].leaf.clone()).collect();
        let values: Vec<Value> = args
            .iter()
            .map(|&a| match &graph.nodes[a].kind {
                Kind::Const(value) => value.clone(),
                _ => Value::Tensor(Tensor::string(bytes)),
            })
            .collect();
        Chain::of(&leaves, attrs).unwrap().1.short.as_ref()?.run(&values)
    }
    fn list(items: [usize; 4]) -> Tensor {
        Tensor::from_items([4], &items.map(|n| n as i32))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_short_way_gives_the_same_bits(
            (height, width, seed) in (1usize..70, 1usize..70, 0usize..1000),
            (grey, chroma, channels) in (any::<bool>(), any::<bool>(), prop_oneof![Just(0), Just(1), Just(3)]),
            crop in prop::option::of((0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0)),
            resize in prop::option::of((1usize..40, 1usize..40, any::<bool>(), 0usize..3)),
            part in prop::option::of((0.0..1.0, 0.0..1.0, any::<bool>())),
            flip in prop::option::of(any::<bool>()),
            (tail, apart, head) in (0usize..5, any::<bool>(), 0usize..3),
        ) {
            let bytes = jpeg(Size::new(height, width, if grey { 1 } else { 3 }), seed, chroma);
            let mut calls = vec![("image.decode", json!({"channels": channels}), vec![])];
            let (mut h, mut w) = (height, width);
            let share = |x: f64, n: usize| ((x * n as f64) as usize).min(n - 1);
            if let Some((y, x, dh, dw)) = crop {
                let (y, x) = (share(y, h), share(x, w));
                (h, w) = (1 + share(dh, h - y), 1 + share(dw, w - x));
                calls.push(("image.crop", json!({}), vec![list([y, x, h, w])]));
            }
            match head {
                0 => {}
                1 => calls.push(("image.convert_image_dtype", json!({"dtype": "float32"}), vec![])),
                _ => {
                    calls.push(("cast", json!({"dtype": "float32"}), vec![]));
                    calls.push(("multiply", json!({}), vec![Tensor::scalar(0.3f32)]));
                }
            }
            if let Some((to_h, to_w, antialias, kind)) = resize {
                let method = ["bilinear", "bicubic", "area"][kind];
                let size = match kind {
                    2 => json!({"shorter_side": to_h, "method": method, "antialias": antialias}),
                    _ => json!({"size": [to_h, to_w], "method": method, "antialias": antialias}),
                };
                (h, w) = match kind {
                    2 => super::super::resize::Target::ShorterSide(to_h).of(h, w),
                    _ => (to_h, to_w),
                };
                calls.push(("image.resize", size, vec![]));
            }
            if let Some((dh, dw, middle)) = part {
                let (to_h, to_w) = (1 + share(dh, h), 1 + share(dw, w));
                match middle {
                    true => calls.push(("image.resize_with_crop_or_pad", json!({"size": [to_h, to_w]}), vec![])),
                    false => calls.push(("image.crop", json!({}), vec![list([h - to_h, w - to_w, to_h, to_w])])),
                }
            }
            if let Some(flip) = flip {
                calls.push(("image.flip_left_right", json!({}), vec![Tensor::scalar(B8::from(flip))]));
            }
            match tail {
                0 => {}
                1 => {
                    calls.push(("cast", json!({"dtype": "float32"}), vec![]));
                    calls.push(("truediv", json!({}), vec![Tensor::scalar(255f32)]));
                    calls.push(("subtract", json!({}), vec![Tensor::scalar(0.45f32)]));
                }
                2 => {
                    let how = json!({"mean": [0.4], "std": [0.2], "scale": 1.0 / 255.0, "channels_first": apart});
                    calls.push(("image.normalize", how, vec![]));
                }
                3 => calls.push(("image.convert_image_dtype", json!({"dtype": "float32"}), vec![])),
                _ => calls.push(("cast", json!({"dtype": "float32"}), vec![])),
            }
            let long = function(&calls);
            let wanted = run(&long, &bytes).unwrap();
            if let Some(chained) = long.with_picture_chains() {
                prop_assert_eq!(&run(&chained, &bytes).unwrap(), &wanted);
                prop_assert_eq!(run_short(&chained, &bytes), Some(wanted), "{:?}", calls);
                prop_assert!(run(&chained, &bytes[..bytes.len() - 2]).is_err(), "it is cut off");
            }
        }
    }

    #[test]
    fn a_smaller_scale_gives_nearly_the_same() {
        let size = Size::new(160, 200, 3);
        let smooth: Vec<u8> =
            (0..size.items()).map(|i| ((i / size.stride() + i % size.stride() / 3) / 2 + 20) as u8).collect();
        let bytes = jpeg::encode(&smooth, size, jpeg::Encoding::default()).unwrap();
        let small = |scaled: bool, side: usize| {
            let resize = ("image.resize", json!({"size": [side, side], "antialias": true}), vec![]);
            let graph = function(&[("image.decode", json!({"channels": 3, "scaled": scaled}), vec![]), resize]);
            run(&graph.with_picture_chains().unwrap(), &bytes).unwrap()
        };
        for side in [15, 30, 70, 150] {
            let (exact, scaled) = (small(false, side), small(true, side));
            let worst =
                exact.items::<f32>().iter().zip(scaled.items::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 3.0, "{side}: {worst}");
            assert_eq!(worst == 0.0, side > 80, "only what is much smaller: {side}");
        }
    }

    #[test]
    fn what_the_short_way_does_not_do_is_done_or_refused_as_before() {
        let size = Size::new(20, 30, 3);
        let bytes = jpeg(size, 3, true);
        let pixels = vec![7; size.items()];
        let png = feedline_image::codec::png::encode(&pixels, size, false, -1).unwrap();
        let resize = ("image.resize", json!({"size": [8, 9]}), vec![]);
        let graph = function(&[("image.decode", json!({"channels": 3}), vec![]), resize.clone()]);
        let chained = graph.with_picture_chains().unwrap();
        assert!(run_short(&chained, &png).is_none());
        assert_eq!(run(&chained, &png).unwrap(), run(&graph, &png).unwrap());
        for broken in [&bytes[..40], b"", b"no picture"] {
            let (ours, theirs) = (run(&chained, broken).unwrap_err(), run(&graph, broken).unwrap_err());
            assert_eq!(ours.message(), theirs.message());
        }
        let outside = function(&[
            ("image.decode", json!({}), vec![]),
            ("image.crop", json!({}), vec![list([10, 0, 11, 5])]),
            resize,
        ]);
        let error = run(&outside.with_picture_chains().unwrap(), &bytes).unwrap_err();
        assert!(error.message().contains("does not lie in"), "{error}");
    }

    #[test]
    fn a_picture_that_is_used_twice_is_decoded_once() {
        let mut b = Builder::new(&Spec::scalar(DType::String));
        let picture = b.call("image.decode", &[0], Attrs::default()).unwrap();
        let small = b.call("image.resize", &[picture], Attrs(json!({"size": [4, 4]}).as_object().unwrap().clone()));
        let graph = b.finish(&Tree::tuple(vec![Tree::Leaf(picture), Tree::Leaf(small.unwrap())]));
        assert!(graph.with_picture_chains().is_none());
    }

    #[test]
    fn asking_for_the_shape_needs_no_pixels() {
        let mut b = Builder::new(&Spec::scalar(DType::String));
        let picture = b.call("image.decode", &[0], Attrs::default()).unwrap();
        let shape = b.call("shape", &[picture], Attrs::default()).unwrap();
        let small = b.call("image.resize", &[picture], Attrs(json!({"size": [4, 4]}).as_object().unwrap().clone()));
        let graph = b.finish(&Tree::tuple(vec![Tree::Leaf(shape), Tree::Leaf(small.unwrap())]));
        let chained = graph.with_picture_chains().unwrap();
        assert!(format!("{chained:?}").contains("decoded_shape"), "{chained:?}");
        let bytes = jpeg(Size::new(20, 30, 3), 3, true);
        assert_eq!(run(&chained, &bytes).unwrap(), Tensor::from_items([3], &[20i32, 30, 3]));
    }
}
