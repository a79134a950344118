//! Boxes drawn at random: which part of a picture a crop takes. The pictures themselves need not be there, only their
//! shapes, so that a box can be drawn before anything is decoded.

use super::super::super::{Attrs, Func, Kernel, Made, RowAt, Several, dense};
use super::super::lead::{check_integers, integers};
use super::super::philox::Philox;
use super::super::random::{Source, check_seed, seeded};
use super::pictures::list;
use crate::element::{DType, Dims, Element, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::geometry::Rect;

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.random_crop_box",
        doc: "A box of a given size anywhere in a picture of a given shape: [y, x, height, width].",
        make: make_crop_box,
        pure: false,
    },
    Func {
        name: "image.random_crop_offset",
        doc: "Where a crop of any rank begins: for each axis a number from 0 up to the room there is, which is the argument.",
        make: make_crop_offset,
        pure: false,
    },
    Func {
        name: "image.random_resized_crop_box",
        doc: "A box with a share of a picture's area and an aspect ratio drawn from ranges: [y, x, height, width].",
        make: make_resized_crop_box,
        pure: false,
    },
    Func {
        name: "image.sample_distorted_bounding_box",
        doc: "A box that covers enough of one of some objects: where it begins, its size, and both as parts of the sides.",
        make: make_distorted_box,
        pure: false,
    },
];

/// Where the numbers of a call come from: the element's place, or a pair of seeds that is its last argument.
#[derive(Clone)]
enum Draws {
    ByPlace(Source),
    BySeed,
}

impl Draws {
    /// `args` are those that the function takes, and perhaps the seeds.
    fn of(args: &[Leaf], attrs: &Attrs, takes: usize) -> Result<Draws> {
        if args.len() == takes + 1 {
            check_seed(args, takes)?;
            return Ok(Draws::BySeed);
        }
        if args.len() != takes {
            return Err(Error::usage(format!("takes {takes} arguments and perhaps a seed, {} given", args.len())));
        }
        Ok(Draws::ByPlace(Source::of(attrs)?))
    }
    fn at(&self, args: &[Value], at: RowAt) -> Result<Philox> {
        match (self, args) {
            (Draws::ByPlace(source), _) => Ok(source.at(at)),
            (Draws::BySeed, [.., seed]) => seeded(seed.tensor()),
            (Draws::BySeed, []) => Err(Error::internal("a seed was not given")),
        }
    }
}

/// The height and width of a picture, of its shape: the first two sizes, or those after the size of a batch.
fn sides(shape: &Tensor) -> Result<(usize, usize)> {
    let list = integers(shape)?;
    let (h, w) = match list.as_slice() {
        [h, w] | [h, w, _] | [_, h, w, _] => (*h, *w),
        _ => return Err(Error::data(format!("a picture's shape is [height, width, channels], not {list:?}"))),
    };
    // Up to the largest box that fits into int32.
    match (i32::try_from(h), i32::try_from(w)) {
        (Ok(h), Ok(w)) if h > 0 && w > 0 => Ok((h as usize, w as usize)),
        _ => Err(Error::data(format!("the sides of a picture must be above 0, and its shape is {list:?}"))),
    }
}

fn check_shape(args: &[Leaf]) -> Result<()> {
    let (dtype, shape) = dense(args, 0)?;
    check_integers("the shape of a picture", dtype)?;
    match shape.dims() {
        None | Some([None | Some(2..=4)]) => Ok(()),
        _ => {
            Err(Error::usage(format!("a picture's shape is [height, width, channels], not a tensor of shape {shape}")))
        }
    }
}

/// A kernel that draws a box for the shape of a picture.
struct DrawBox<F>(Draws, F);

impl<F: Fn(&mut Philox, usize, usize) -> Result<Rect> + Send + Sync> Kernel for DrawBox<F> {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value> {
        let (height, width) = sides(args[0].tensor())?;
        let r = (self.1)(&mut self.0.at(args, at)?, height, width)?;
        let sides = [r.y, r.x, r.height, r.width].map(|n| n as i32);
        Ok(Value::Tensor(Tensor::from_items([4], &sides)))
    }
}

fn box_spec() -> Leaf {
    Leaf::tensor(DType::Int32, Dims::known(&[4]))
}

/// A corner at random for a box that fits.
fn corner(random: &mut Philox, all: usize, part: usize) -> usize {
    random.below((all - part) as u64 + 1) as usize
}

fn make_crop_box(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    check_shape(args)?;
    let draws = Draws::of(args, attrs, 1)?;
    let size = attrs.need("size", attrs.i64s("size")?)?;
    let (h, w) = match size[..] {
        [h, w] if h > 0 && w > 0 => (h as usize, w as usize),
        _ => return Err(Error::usage(format!("size must be a height and a width above 0, not {size:?}"))),
    };
    let kernel = DrawBox(draws, move |random: &mut Philox, height, width| {
        if h > height || w > width {
            return Err(Error::data(format!("a crop of {h} x {w} from a picture of {height} x {width}")));
        }
        Ok(Rect::new(corner(random, height, h), corner(random, width, w), h, w))
    });
    Made::new(box_spec(), kernel)
}

/// Offsets for any rank. Those of height and width are what `random_crop_box` draws.
struct DrawOffset(Draws);

impl Kernel for DrawOffset {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value> {
        let mut random = self.0.at(args, at)?;
        let mut offset = |room: i64| match u64::try_from(room) {
            Ok(room) => Ok(random.below(room.saturating_add(1)) as i64),
            Err(_) => Err(Error::data(format!(
                "a crop that is larger than the tensor, by {} along an axis",
                room.unsigned_abs()
            ))),
        };
        let offsets: Vec<i64> = integers(args[0].tensor())?.into_iter().map(&mut offset).collect::<Result<_>>()?;
        Ok(Value::Tensor(Tensor::from_items(args[0].tensor().shape(), &offsets)))
    }
}

fn make_crop_offset(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = dense(args, 0)?;
    check_integers("the room of a crop", dtype)?;
    Made::new(Leaf::tensor(DType::Int64, shape.clone()), DrawOffset(Draws::of(args, attrs, 1)?))
}

/// Two numbers above 0, in order.
pub fn range(attrs: &Attrs, name: &str, default: [f64; 2]) -> Result<[f64; 2]> {
    let Some(given) = attrs.get(name) else { return Ok(default) };
    match list(given).as_deref() {
        Some(&[low, high]) if 0.0 < low && low <= high && high.is_finite() => Ok([low, high]),
        _ => Err(Error::usage(format!("{name} must be two numbers above 0 in order, not {given}"))),
    }
}

fn between(random: &mut Philox, [low, high]: [f64; 2]) -> f64 {
    low + random.unit_f64() * (high - low)
}

/// A height and a width of a share of an area, whose ratio is equally likely to be large or small.
pub fn draw_sides(random: &mut Philox, area: f64, scale: [f64; 2], log_ratio: [f64; 2]) -> (f64, f64) {
    let area = area * between(random, scale);
    let ratio = between(random, log_ratio).exp();
    ((area / ratio).sqrt().round_ties_even(), (area * ratio).sqrt().round_ties_even())
}

/// How often a box is drawn anew before something else is done: torchvision's number.
pub const ATTEMPTS: usize = 10;

/// torchvision's box: some attempts, then the largest one in the middle whose ratio is allowed.
fn resized_crop(random: &mut Philox, (height, width): (usize, usize), scale: [f64; 2], ratio: [f64; 2]) -> Rect {
    let log_ratio = ratio.map(f64::ln);
    for _ in 0..ATTEMPTS {
        let (h, w) = draw_sides(random, height as f64 * width as f64, scale, log_ratio);
        if 0.0 < h && h <= height as f64 && 0.0 < w && w <= width as f64 {
            let (h, w) = (h as usize, w as usize);
            return Rect::new(corner(random, height, h), corner(random, width, w), h, w);
        }
    }
    let of = width as f64 / height as f64;
    let near = |x: f64, most: usize| (x.round_ties_even() as usize).clamp(1, most);
    let (h, w) = if of < ratio[0] {
        (near(width as f64 / ratio[0], height), width)
    } else if of > ratio[1] {
        (height, near(height as f64 * ratio[1], width))
    } else {
        (height, width)
    };
    Rect::new((height - h) / 2, (width - w) / 2, h, w)
}

fn make_resized_crop_box(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    check_shape(args)?;
    let draws = Draws::of(args, attrs, 1)?;
    let (scale, ratio) = (range(attrs, "scale", [0.08, 1.0])?, range(attrs, "ratio", [3.0 / 4.0, 4.0 / 3.0])?);
    let kernel = DrawBox(draws, move |random: &mut Philox, height, width| {
        Ok(resized_crop(random, (height, width), scale, ratio))
    });
    Made::new(box_spec(), kernel)
}

/// How TensorFlow's boxes are drawn.
struct Distorted {
    draws: Draws,
    dtype: DType,
    min_object_covered: f64,
    ratio: [f64; 2],
    area: [f64; 2],
    attempts: usize,
    whole_if_none: bool,
}

fn make_distorted_box(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = dense(args, 0)?;
    check_integers("image_size", dtype)?;
    if !shape.compatible(&Dims::known(&[3])) {
        return Err(Error::usage(format!("image_size is [height, width, channels], not a tensor of shape {shape}")));
    }
    let (of, boxes) = dense(args, 1)?;
    let last = boxes.dims().is_none_or(|d| d.last().is_some_and(|n| n.is_none_or(|n| n == 4)));
    if of != DType::Float32 || !last {
        return Err(Error::usage(format!(
            "bounding_boxes are [y_min, x_min, y_max, x_max] in float32 on the last axis, not {of} of shape {boxes}"
        )));
    }
    let draws = Draws::of(args, attrs, 2)?;
    let min_object_covered = attrs.f64("min_object_covered")?.unwrap_or(0.1);
    if min_object_covered.is_nan() || min_object_covered < 0.0 {
        return Err(Error::usage(format!("min_object_covered must not be negative, but is {min_object_covered}")));
    }
    let area = range(attrs, "area_range", [0.05, 1.0])?;
    if area[1] > 1.0 {
        return Err(Error::usage(format!("area_range goes up to 1 at most, not {}", area[1])));
    }
    let kernel = Distorted {
        draws,
        dtype,
        min_object_covered,
        ratio: range(attrs, "aspect_ratio_range", [0.75, 1.33])?,
        area,
        attempts: usize::try_from(attrs.i64("max_attempts")?.unwrap_or(100))
            .ok()
            .filter(|n| (1..=100_000).contains(n))
            .ok_or_else(|| Error::usage("max_attempts must lie between 1 and 100,000"))?,
        whole_if_none: attrs.bool("use_image_if_no_bounding_boxes")?.unwrap_or(false),
    };
    let three = Leaf::tensor(dtype, Dims::known(&[3]));
    Made::several(vec![three.clone(), three, Leaf::tensor(DType::Float32, Dims::known(&[1, 1, 4]))], kernel)
}

impl Distorted {
    /// One attempt: a height at random between those that the areas allow, its width by the ratio, and a corner.
    fn attempt(&self, random: &mut Philox, height: usize, width: usize) -> Option<Rect> {
        let ratio = between(random, self.ratio);
        let [least, most] = self.area.map(|share| share * height as f64 * width as f64);
        let wide = |h: f64| (h * ratio).round_ties_even();
        let mut high = (most / ratio).sqrt().round_ties_even();
        if wide(high) > width as f64 {
            high = ((width as f64 + 0.5 - 1e-7) / ratio).floor();
            if wide(high) > width as f64 {
                high -= 1.0;
            }
        }
        let high = high.min(height as f64);
        let low = (least / ratio).sqrt().round_ties_even().min(high);
        let mut h = low + random.below((high - low) as u64 + 1) as f64;
        // Rounding may miss the area by a little, on either side.
        if h * wide(h) < least {
            h += 1.0;
        }
        if h * wide(h) > most {
            h -= 1.0;
        }
        let w = wide(h);
        let fits = 0.0 < h && h <= height as f64 && 0.0 < w && w <= width as f64;
        if !fits || h * w < least || h * w > most {
            return None;
        }
        let (h, w) = (h as usize, w as usize);
        Some(Rect::new(corner(random, height, h), corner(random, width, w), h, w))
    }
    /// Whether enough of one of the objects lies in the box.
    fn covers(&self, r: Rect, objects: &[[f64; 4]]) -> bool {
        objects.iter().any(|[top, left, bottom, right]| {
            let overlap =
                |a: f64, b: f64, from: usize, n: usize| (b.min((from + n) as f64) - a.max(from as f64)).max(0.0);
            let area = (bottom - top) * (right - left);
            let inside = overlap(*top, *bottom, r.y, r.height) * overlap(*left, *right, r.x, r.width);
            area > 0.0 && inside / area >= self.min_object_covered
        })
    }
    fn draw(&self, random: &mut Philox, (height, width): (usize, usize), boxes: &Tensor) -> Result<Rect> {
        let whole = Rect::new(0, 0, height, width);
        let mut objects = Vec::with_capacity(boxes.len() / 4);
        if boxes.shape().last().is_some_and(|n| *n != 4) || boxes.rank() == 0 {
            return Err(Error::data(format!("bounding_boxes have 4 numbers each, not shape {:?}", boxes.shape())));
        }
        for b in boxes.items::<f32>().as_chunks::<4>().0 {
            let [top, left, bottom, right] = b.map(f64::from);
            if !(0.0..=1.0).contains(&top)
                || !(0.0..=1.0).contains(&left)
                || !(top..=1.0).contains(&bottom)
                || !(left..=1.0).contains(&right)
            {
                return Err(Error::data(format!(
                    "a bounding box is [y_min, x_min, y_max, x_max] in parts of the picture, not {b:?}"
                )));
            }
            let (h, w) = (height as f64, width as f64);
            objects.push([top * h, left * w, bottom * h, right * w]);
        }
        if objects.is_empty() {
            if !self.whole_if_none {
                return Err(Error::data(
                    "there are no bounding boxes; give some, or use_image_if_no_bounding_boxes=True",
                ));
            }
            objects.push([0.0, 0.0, height as f64, width as f64]);
        }
        let mut found = (0..self.attempts).filter_map(|_| self.attempt(random, height, width));
        Ok(found.find(|r| self.covers(*r, &objects)).unwrap_or(whole))
    }
}

impl Several for Distorted {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Element> {
        let size = args[0].tensor();
        if size.len() != 3 {
            return Err(Error::data(format!("image_size is [height, width, channels], not {:?}", integers(size)?)));
        }
        let (height, width) = sides(size)?;
        let r = self.draw(&mut self.draws.at(args, at)?, (height, width), args[1].tensor())?;
        let three = |items: [i64; 3]| super::super::cast::cast(Tensor::from_items([3], &items), self.dtype);
        let part = |n: usize, all: usize| (n as f64 / all as f64) as f32;
        let edges = [part(r.y, height), part(r.x, width), part(r.y + r.height, height), part(r.x + r.width, width)];
        Ok(smallvec::smallvec![
            Value::Tensor(three([r.y as i64, r.x as i64, 0])?),
            Value::Tensor(three([r.height as i64, r.width as i64, -1])?),
            Value::Tensor(Tensor::from_items([1, 1, 4], &edges)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::find;
    use super::super::super::testing::{attrs, call, fails, refused};
    use super::*;
    use serde_json::json;

    fn shape(list: &[i32]) -> Tensor {
        Tensor::from_items([list.len()], list)
    }
    /// The boxes of some positions.
    fn draw(name: &str, args: &[Tensor], a: serde_json::Value, n: u64) -> Vec<Vec<Tensor>> {
        let leaves: Vec<Leaf> = args.iter().map(Leaf::of_tensor).collect();
        let made = (find(name).unwrap().make)(&leaves, &attrs(a)).unwrap();
        let values: Vec<Value> = args.iter().cloned().map(Value::Tensor).collect();
        let row = |pos| made.work.row(&values, RowAt { epoch: 0, pos }).unwrap();
        (0..n).map(|pos| row(pos).iter().map(|v| v.tensor().clone()).collect()).collect()
    }

    #[test]
    fn crops_lie_inside_and_everywhere() {
        let boxes = draw("image.random_crop_box", &[shape(&[5, 4, 3])], json!({"size": [3, 4], "seed": 1}), 200);
        let ys: std::collections::BTreeSet<i32> = boxes.iter().map(|b| b[0].items::<i32>()[0]).collect();
        assert_eq!(ys.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(boxes.iter().all(|b| b[0].items::<i32>()[1..] == [0, 3, 4]));
        assert!(
            fails("image.random_crop_box", &[shape(&[2, 4, 3])], json!({"size": [3, 4]})).message().contains("3 x 4")
        );
        // The same numbers for a crop of any rank.
        let room = Tensor::from_items([3], &[2i64, 0, 9]);
        let offsets = draw("image.random_crop_offset", &[room], json!({"seed": 1}), 200);
        for (offset, b) in offsets.iter().zip(&boxes) {
            let (offset, b) = (offset[0].items::<i64>(), b[0].items::<i32>());
            assert_eq!(offset[..2], [i64::from(b[0]), i64::from(b[1])]);
            assert!((0..=9).contains(&offset[2]));
        }
        let small = Tensor::from_items([2], &[1i64, -3]);
        assert!(fails("image.random_crop_offset", &[small], json!({})).message().contains("by 3"));
        let batch = call("image.random_crop_box", &[shape(&[9, 3, 4, 1])], json!({"size": [3, 4]}));
        assert_eq!(batch.items::<i32>(), [0, 0, 3, 4]);
    }

    #[test]
    fn a_pair_of_seeds_gives_one_box() {
        let seed = Tensor::from_items([2], &[3i64, 4]);
        let boxes = draw("image.random_resized_crop_box", &[shape(&[50, 40]), seed], json!({"use": 3}), 5);
        assert!(boxes.iter().all(|b| b == &boxes[0]));
    }

    #[test]
    fn resized_crops_have_their_share_and_ratio() {
        let (h, w) = (300, 400);
        let boxes = draw("image.random_resized_crop_box", &[shape(&[h, w, 3])], json!({"seed": 5}), 2000);
        let (mut areas, mut ratios) = (vec![], vec![]);
        for b in &boxes {
            let &[y, x, bh, bw] = b[0].items::<i32>() else { panic!("{b:?}") };
            assert!(y >= 0 && x >= 0 && y + bh <= h && x + bw <= w);
            areas.push(f64::from(bh * bw) / f64::from(h * w));
            ratios.push((f64::from(bw) / f64::from(bh)).ln());
        }
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
        assert!(areas.iter().all(|a| (0.078..=1.0).contains(a)));
        assert!(ratios.iter().all(|r| r.abs() < (4f64 / 3.0).ln() + 0.03));
        // What torchvision's rule gives for pictures of this shape: large boxes of the wrong ratio are drawn anew.
        assert!((mean(&areas) - 0.4326).abs() < 0.02, "{}", mean(&areas));
        assert!((mean(&ratios) - 0.0308).abs() < 0.02, "{}", mean(&ratios));
    }

    #[test]
    fn where_no_box_fits_it_is_the_middle() {
        let b = call("image.random_resized_crop_box", &[shape(&[100, 10, 3])], json!({"scale": [1, 1]}));
        assert_eq!(b.items::<i32>(), [43, 0, 13, 10]);
        let b = call("image.random_resized_crop_box", &[shape(&[10, 100])], json!({"scale": [1, 1]}));
        assert_eq!(b.items::<i32>(), [0, 43, 10, 13]);
        let one = call("image.random_resized_crop_box", &[shape(&[1, 1000])], json!({}));
        assert_eq!(one.items::<i32>()[2], 1);
        let ratio = json!({"ratio": [2, 1]});
        assert!(refused("image.random_resized_crop_box", &[shape(&[9, 9])], ratio).message().contains("in order"));
    }

    #[test]
    fn distorted_boxes_cover_the_object() {
        let size = shape(&[100, 200, 3]);
        let object = Tensor::from_items([1, 1, 4], &[0.1f32, 0.2, 0.5, 0.6]);
        let how = json!({"min_object_covered": 0.5, "area_range": [0.1, 0.8], "seed": 2});
        let drawn = draw("image.sample_distorted_bounding_box", &[size.clone(), object.clone()], how, 300);
        let mut whole = 0;
        for parts in &drawn {
            let (begin, size, edges) = (parts[0].items::<i32>(), parts[1].items::<i32>(), parts[2].items::<f32>());
            assert_eq!((begin[2], size[2], parts[2].shape()), (0, -1, &[1, 1, 4][..]));
            let (h, w) = (f64::from(size[0]), f64::from(size[1]));
            if (size[0], size[1]) == (100, 200) {
                whole += 1;
                continue;
            }
            assert!((0.74..=1.35).contains(&(w / h)) && (0.1..=0.8).contains(&(w * h / 20_000.0)));
            let over = |a: f64, b: f64, from: f64, n: f64| (b.min(from + n) - a.max(from)).max(0.0);
            let inside = over(10.0, 50.0, f64::from(begin[0]), h) * over(40.0, 120.0, f64::from(begin[1]), w);
            assert!(inside / 3200.0 >= 0.5);
            assert_eq!(edges[0], begin[0] as f32 / 100.0);
        }
        assert!(whole < 10, "{whole} of 300 attempts failed");
        let none = Tensor::from_items([0, 0, 4], &[0f32; 0]);
        let any = json!({"use_image_if_no_bounding_boxes": true});
        draw("image.sample_distorted_bounding_box", &[size.clone(), none.clone()], any, 20);
        let made = (find("image.sample_distorted_bounding_box").unwrap().make)(
            &[Leaf::of_tensor(&size), Leaf::of_tensor(&none)],
            &attrs(json!({})),
        );
        let at = RowAt { epoch: 0, pos: 0 };
        let error = made.unwrap().work.row(&[Value::Tensor(size), Value::Tensor(none)], at).unwrap_err();
        assert!(error.message().contains("no bounding boxes"));
    }
}
