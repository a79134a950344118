//! Crops, flips, turns.

use super::super::super::{Attrs, Func, Made, arity, dense};
use super::super::lead::{check_integers, integers};
use super::pictures::{Fresh, InPlace, Layout, Param, fresh, picture, sides, with_sides};
use crate::element::{B8, DType, Dims, Leaf, Tensor};
use crate::error::{Error, Result};
use feedline_image::Size;
use feedline_image::geometry::{self, Rect, Turn};

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.crop",
        doc: "The rectangle [y, x, height, width] of a picture, or of each of a batch.",
        make: make_crop,
        pure: true,
    },
    Func {
        name: "image.pad_to_bounding_box",
        doc: "Zeros around a picture, which begins at y, x of the result: [y, x, height, width].",
        make: make_pad,
        pure: true,
    },
    Func {
        name: "image.resize_with_crop_or_pad",
        doc: "The middle of a picture, with zeros around it where it is too small, in a given height and width.",
        make: make_crop_or_pad,
        pure: true,
    },
    Func {
        name: "image.flip_left_right",
        doc: "A picture as in a mirror; with a second argument, only where that is true.",
        make: |args, _| make_flip(args, &LEFT_RIGHT),
        pure: true,
    },
    Func {
        name: "image.flip_up_down",
        doc: "A picture upside down; with a second argument, only where that is true.",
        make: |args, _| make_flip(args, &UP_DOWN),
        pure: true,
    },
    Func {
        name: "image.rot90",
        doc: "A picture turned by k quarters against the clock; k is an attribute or the second argument.",
        make: make_rot90,
        pure: true,
    },
    Func {
        name: "image.transpose",
        doc: "A picture whose rows have become columns.",
        make: |args, _| {
            arity::<1>(args)?;
            let (dtype, shape) = picture(args, 0)?;
            let [h, w, c] = sides(shape);
            let spec = Leaf::tensor(dtype, with_sides(shape, [w, h, c]));
            Made::new(spec, Fresh(|t: &Tensor, _: &[Param], lead: usize| turned(t, lead, |_| Ok(Turn::TRANSPOSED))))
        },
        pure: true,
    },
];

/// A height and a width of the attribute `size`, if it is given.
fn size_attr(attrs: &Attrs) -> Result<Option<[usize; 2]>> {
    let Some(size) = attrs.i64s("size")? else { return Ok(None) };
    match size.as_slice() {
        [h, w] if *h > 0 && *w > 0 => Ok(Some([*h as usize, *w as usize])),
        _ => Err(Error::usage(format!("size must be a height and a width above 0, not {size:?}"))),
    }
}

/// Refuses what is no list of so many integers.
fn check_list(args: &[Leaf], i: usize, what: &str, items: usize) -> Result<()> {
    let (dtype, shape) = dense(args, i)?;
    check_integers(what, dtype)?;
    match shape.compatible(&Dims::known(&[items])) {
        true => Ok(()),
        false => Err(Error::usage(format!("{what} must be {items} integers, not a tensor of shape {shape}"))),
    }
}

/// [y, x, height, width] of an element. What it says of the size must be what `size` promised.
fn rect_of(param: &Param, row: usize, size: Option<[usize; 2]>) -> Result<Rect> {
    let list = integers(&param.at(row))?;
    let at = |i: usize| list.get(i).and_then(|n| usize::try_from(*n).ok());
    let (4, Some(y), Some(x), Some(height), Some(width)) = (list.len(), at(0), at(1), at(2), at(3)) else {
        return Err(Error::data(format!("a box is [y, x, height, width] without negative numbers, not {list:?}")));
    };
    if height == 0 || width == 0 {
        return Err(Error::data(format!("the height and width of a box must be above 0, but it is {list:?}")));
    }
    if size.is_some_and(|size| size != [height, width]) {
        return Err(Error::data(format!("the box {list:?} has not the size that was promised, {:?}", size.unwrap())));
    }
    Ok(Rect::new(y, x, height, width))
}

/// One rectangle for each row, all of one size; `None` if their sizes differ.
fn rects(param: &Param, rows: usize, size: Option<[usize; 2]>) -> Result<Option<Vec<Rect>>> {
    let rects: Vec<Rect> = (0..rows).map(|row| rect_of(param, row, size)).collect::<Result<_>>()?;
    let alike = rects.iter().all(|r| (r.height, r.width) == (rects[0].height, rects[0].width));
    Ok(alike.then_some(rects))
}

/// Calls `f` with each picture, the place for its result, and the row that it belongs to.
fn each(t: &Tensor, layout: Layout, out: &mut Tensor, f: impl Fn(&[u8], &mut [u8], usize)) {
    let bytes = layout.size.items() * t.dtype().size();
    let to = out.nbytes() / layout.pictures().max(1);
    if layout.pictures() > 0 {
        let results = out.bytes_mut().chunks_exact_mut(to);
        t.bytes().chunks_exact(bytes).zip(results).enumerate().for_each(|(i, (from, to))| f(from, to, i / layout.each));
    }
}

fn make_crop(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let (dtype, shape) = picture(args, 0)?;
    check_list(args, 1, "the box", 4)?;
    let size = size_attr(attrs)?;
    let [h, w, c] = sides(shape);
    if let Some(size) = size
        && [h, w].iter().zip(size).any(|(known, asked)| known.is_some_and(|n| n < asked))
    {
        return Err(Error::usage(format!("a crop of {} x {} from pictures of shape {shape}", size[0], size[1])));
    }
    let sides = [size.map(|s| s[0]), size.map(|s| s[1]), c];
    let kernel = Fresh(move |t: &Tensor, params: &[Param], lead: usize| {
        let layout = Layout::of(t, lead)?;
        let Some(rects) = rects(&params[0], layout.rows, size)? else { return Ok(None) };
        if let Some(r) = rects.iter().find(|r| !r.fits(layout.size)) {
            return Err(Error::data(format!(
                "a box of {} x {} at ({}, {}) does not lie in a picture of {} x {}",
                r.height, r.width, r.y, r.x, layout.size.height, layout.size.width
            )));
        }
        if rects.iter().all(|r| r.is_whole(layout.size)) {
            return Ok(Some(t.clone()));
        }
        let sides = [rects[0].height, rects[0].width, layout.size.channels];
        let Some(mut out) = fresh(t, lead, dtype, sides)? else { return Ok(None) };
        let size = layout.bytes(dtype);
        each(t, layout, &mut out, |from, to, row| geometry::crop(from, size, rects[row], to));
        Ok(Some(out))
    });
    Made::new(Leaf::tensor(dtype, with_sides(shape, sides)), kernel)
}

/// A part of each picture among zeros: the rectangle of row `row`, and where its corner comes to lie.
fn placed(
    t: &Tensor,
    lead: usize,
    layout: Layout,
    [height, width]: [usize; 2],
    part: impl Fn(usize) -> (Rect, (usize, usize)),
) -> Result<Option<Tensor>> {
    let Some(mut out) = fresh(t, lead, t.dtype(), [height, width, layout.size.channels])? else { return Ok(None) };
    let size = layout.bytes(t.dtype());
    let room = Size::new(height, width, size.channels);
    each(t, layout, &mut out, |from, to, row| {
        let (rect, corner) = part(row);
        geometry::place(from, size, rect, to, room, corner);
    });
    Ok(Some(out))
}

fn make_pad(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let (dtype, shape) = picture(args, 0)?;
    check_list(args, 1, "the box", 4)?;
    let size = size_attr(attrs)?;
    let kernel = Fresh(move |t: &Tensor, params: &[Param], lead: usize| {
        let layout = Layout::of(t, lead)?;
        let Some(rooms) = rects(&params[0], layout.rows, size)? else { return Ok(None) };
        let whole = Rect::new(0, 0, layout.size.height, layout.size.width);
        // The picture as a rectangle of the result.
        let inside = |r: &Rect| Rect { y: r.y, x: r.x, ..whole }.fits(Size::new(r.height, r.width, 1));
        if let Some(r) = rooms.iter().find(|r| !inside(r)) {
            return Err(Error::data(format!(
                "a picture of {} x {} at ({}, {}) does not fit into {} x {}",
                whole.height, whole.width, r.y, r.x, r.height, r.width
            )));
        }
        placed(t, lead, layout, [rooms[0].height, rooms[0].width], |row| (whole, (rooms[row].y, rooms[row].x)))
    });
    let sides = [size.map(|s| s[0]), size.map(|s| s[1]), sides(shape)[2]];
    Made::new(Leaf::tensor(dtype, with_sides(shape, sides)), kernel)
}

fn make_crop_or_pad(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = picture(args, 0)?;
    let fixed = size_attr(attrs)?;
    match fixed {
        Some(_) => drop(arity::<1>(args)?),
        None => {
            arity::<2>(args)?;
            check_list(args, 1, "the size", 2)?;
        }
    }
    let kernel = Fresh(move |t: &Tensor, params: &[Param], lead: usize| {
        let layout = Layout::of(t, lead)?;
        let asked = |row: usize| match fixed {
            Some(size) => Ok(size),
            None => match integers(&params[0].at(row))?.as_slice() {
                [h, w] if *h > 0 && *w > 0 => Ok([*h as usize, *w as usize]),
                other => Err(Error::data(format!("the size must be a height and a width above 0, not {other:?}"))),
            },
        };
        let sizes: Vec<[usize; 2]> = (0..layout.rows).map(asked).collect::<Result<_>>()?;
        let size = sizes[0];
        if sizes.iter().any(|s| *s != size) {
            return Ok(None);
        }
        // Along each axis: where the part begins, how long it is, and where it comes to lie.
        let along = |n: usize, to: usize| (n.saturating_sub(to) / 2, n.min(to), to.saturating_sub(n) / 2);
        let (y, height, top) = along(layout.size.height, size[0]);
        let (x, width, left) = along(layout.size.width, size[1]);
        placed(t, lead, layout, size, |_| (Rect::new(y, x, height, width), (top, left)))
    });
    let sides = [fixed.map(|s| s[0]), fixed.map(|s| s[1]), sides(shape)[2]];
    Made::new(Leaf::tensor(dtype, with_sides(shape, sides)), kernel)
}

/// A flip, into other memory and in place.
struct Flip {
    across: fn(&[u8], Size, &mut [u8]),
    in_place: fn(&mut [u8], Size),
}

static LEFT_RIGHT: Flip = Flip { across: geometry::flip_left_right, in_place: geometry::flip_left_right_in_place };
static UP_DOWN: Flip = Flip { across: geometry::flip_up_down, in_place: geometry::flip_up_down_in_place };

/// Whether each picture is to be flipped: one condition for an element, or one for each picture of its batch.
fn conditions(params: &[Param], layout: Layout) -> Result<Vec<bool>> {
    let [param] = params else { return Ok(vec![true; layout.pictures()]) };
    let mut flips = Vec::with_capacity(layout.pictures());
    for row in 0..layout.rows {
        let t = param.at(row);
        let own = t.items::<B8>();
        match own.len() {
            n if n == layout.each => flips.extend(own.iter().map(|b| b.get())),
            1 => flips.extend(std::iter::repeat_n(own[0].get(), layout.each)),
            n => return Err(Error::data(format!("{n} conditions for {} pictures", layout.each))),
        }
    }
    Ok(flips)
}

fn make_flip(args: &[Leaf], flip: &'static Flip) -> Result<Made> {
    let (dtype, shape) = picture(args, 0)?;
    if args.len() > 1 {
        arity::<2>(args)?;
        let (of, conditions) = dense(args, 1)?;
        if of != DType::Bool || conditions.rank().is_some_and(|r| r > 1) {
            return Err(Error::usage(format!(
                "the condition must be one truth value, or one for each picture of a batch, not {of} of shape {conditions}"
            )));
        }
    }
    let kernel = InPlace(move |mut t: Tensor, params: &[Param], lead: usize| {
        let layout = Layout::of(&t, lead)?;
        let flips = conditions(params, layout)?;
        if !flips.contains(&true) {
            return Ok(t);
        }
        let size = layout.bytes(dtype);
        if t.is_unique() {
            let pictures = t.bytes_mut().chunks_exact_mut(size.items());
            pictures.zip(&flips).filter(|(_, flip)| **flip).for_each(|(picture, _)| (flip.in_place)(picture, size));
            return Ok(t);
        }
        let mut out = Tensor::new(dtype, t.shape());
        let results = out.bytes_mut().chunks_exact_mut(size.items());
        for ((from, to), flips) in t.bytes().chunks_exact(size.items()).zip(results).zip(flips) {
            match flips {
                true => (flip.across)(from, size, to),
                false => to.copy_from_slice(from),
            }
        }
        Ok(out)
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

/// Each picture turned, all alike or not at all (`None`) if their results have different sides.
fn turned(t: &Tensor, lead: usize, of_row: impl Fn(usize) -> Result<Turn>) -> Result<Option<Tensor>> {
    let layout = Layout::of(t, lead)?;
    let turns: Vec<Turn> = (0..layout.rows).map(of_row).collect::<Result<_>>()?;
    let out = turns[0].size(layout.size);
    if turns.iter().any(|turn| turn.size(layout.size) != out) {
        return Ok(None);
    }
    if turns.iter().all(|turn| *turn == Turn::quarters(0)) {
        return Ok(Some(t.clone()));
    }
    let Some(mut out) = fresh(t, lead, t.dtype(), [out.height, out.width, out.channels])? else { return Ok(None) };
    let size = layout.bytes(t.dtype());
    each(t, layout, &mut out, |from, to, row| geometry::turn(from, size, turns[row], to));
    Ok(Some(out))
}

fn make_rot90(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let (dtype, shape) = picture(args, 0)?;
    let [h, w, c] = sides(shape);
    if let Some(k) = attrs.i64("k")? {
        arity::<1>(args)?;
        let dims = with_sides(shape, if Turn::quarters(k).exchanged { [w, h, c] } else { [h, w, c] });
        let kernel = Fresh(move |t: &Tensor, _: &[Param], lead: usize| turned(t, lead, |_| Ok(Turn::quarters(k))));
        return Made::new(Leaf::tensor(dtype, dims), kernel);
    }
    arity::<2>(args)?;
    let (of, scalar) = dense(args, 1)?;
    check_integers("k", of)?;
    if !scalar.compatible(&Dims::scalar()) {
        return Err(Error::usage(format!("k must be one integer, not a tensor of shape {scalar}")));
    }
    let either = if h == w { h } else { None };
    let kernel = Fresh(|t: &Tensor, params: &[Param], lead: usize| {
        turned(t, lead, |row| match integers(&params[0].at(row))?.as_slice() {
            [k] => Ok(Turn::quarters(*k)),
            other => Err(Error::data(format!("k must be one integer, not {other:?}"))),
        })
    });
    Made::new(Leaf::tensor(dtype, with_sides(shape, [either, either, c])), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    fn picture(shape: [usize; 3]) -> Tensor {
        Tensor::from_items(shape, &(0..shape.iter().product::<usize>()).map(|i| i as u8).collect::<Vec<_>>())
    }
    fn list(items: &[i32]) -> Tensor {
        Tensor::from_items([items.len()], items)
    }

    #[test]
    fn crops() {
        let x = picture([4, 5, 2]);
        let part = call("image.crop", &[x.clone(), list(&[1, 2, 2, 3])], json!({"size": [2, 3]}));
        assert_eq!(part.shape(), [2, 3, 2]);
        assert_eq!(part.items::<u8>(), [14, 15, 16, 17, 18, 19, 24, 25, 26, 27, 28, 29]);
        assert_eq!(call("image.crop", &[x.clone(), list(&[0, 0, 4, 5])], json!({})), x);
        let batch = Tensor::stack(&[x.clone(), x.clone()]);
        let parts = call("image.crop", &[batch, list(&[1, 2, 2, 3])], json!({}));
        assert_eq!(parts, Tensor::stack(&[part.clone(), part]));
        let fail = |rect: &[i32]| fails("image.crop", &[x.clone(), list(rect)], json!({}));
        assert!(fail(&[3, 0, 2, 1]).message().contains("does not lie in"));
        assert!(fail(&[-1, 0, 2, 1]).message().contains("negative"));
        assert!(fail(&[0, 0, 0, 1]).message().contains("above 0"));
        assert!(
            fails("image.crop", &[x.clone(), list(&[0, 0, 1, 1])], json!({"size": [2, 2]}))
                .message()
                .contains("promised")
        );
        assert!(refused("image.crop", &[x, list(&[0, 0, 9, 1])], json!({"size": [9, 1]})).message().contains("9 x 1"));
    }

    #[test]
    fn borders() {
        let x = picture([1, 2, 1]);
        let wide = call("image.pad_to_bounding_box", &[x.clone(), list(&[1, 0, 2, 3])], json!({"size": [2, 3]}));
        assert_eq!(wide, Tensor::from_items([2, 3, 1], &[0u8, 0, 0, 0, 1, 0]));
        assert!(
            fails("image.pad_to_bounding_box", &[x.clone(), list(&[2, 0, 2, 3])], json!({})).message().contains("fit")
        );
        let both = call("image.resize_with_crop_or_pad", &[picture([1, 5, 1])], json!({"size": [3, 2]}));
        assert_eq!(both, Tensor::from_items([3, 2, 1], &[0u8, 0, 1, 2, 0, 0]));
        let by_tensor = call("image.resize_with_crop_or_pad", &[picture([1, 5, 1]), list(&[3, 2])], json!({}));
        assert_eq!(by_tensor, both);
        assert!(fails("image.resize_with_crop_or_pad", &[x, list(&[0, 2])], json!({})).message().contains("above 0"));
    }

    #[test]
    fn flips_where_it_is_asked_for() {
        let x = picture([2, 3, 1]);
        let flipped = call("image.flip_left_right", &[x.clone()], json!({}));
        assert_eq!(flipped.items::<u8>(), [2, 1, 0, 5, 4, 3]);
        assert_eq!(call("image.flip_left_right", &[x.clone(), Tensor::scalar(B8(0))], json!({})), x);
        assert_eq!(call("image.flip_left_right", &[x.clone(), Tensor::scalar(B8(1))], json!({})), flipped);
        assert_eq!(call("image.flip_up_down", &[x.clone()], json!({})).items::<u8>(), [3, 4, 5, 0, 1, 2]);
        let batch = Tensor::stack(&[x.clone(), x.clone()]);
        let some = call("image.flip_left_right", &[batch.clone(), Tensor::from_items([2], &[B8(0), B8(1)])], json!({}));
        assert_eq!(some, Tensor::stack(&[x.clone(), flipped]));
        let three = Tensor::from_items([3], &[B8(1); 3]);
        assert!(fails("image.flip_left_right", &[batch, three], json!({})).message().contains("3 conditions"));
        assert!(refused("image.flip_left_right", &[picture([0, 3, 1])], json!({})).message().contains("no pixels"));
        assert!(refused("image.flip_left_right", &[Tensor::scalar(1u8)], json!({})).message().contains("channels"));
        let wide = Tensor::from_items([1, 2, 3], &[1.5f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(call("image.flip_left_right", &[wide], json!({})).items::<f64>(), [4.0, 5.0, 6.0, 1.5, 2.0, 3.0]);
    }

    #[test]
    fn turns() {
        let x = picture([2, 3, 1]);
        let quarter = call("image.rot90", &[x.clone()], json!({"k": 1}));
        assert_eq!(quarter, Tensor::from_items([3, 2, 1], &[2u8, 5, 1, 4, 0, 3]));
        assert_eq!(call("image.rot90", &[x.clone(), Tensor::scalar(-3i32)], json!({})), quarter);
        assert_eq!(call("image.rot90", &[x.clone(), Tensor::scalar(8i64)], json!({})), x);
        assert_eq!(call("image.transpose", &[x], json!({})).items::<u8>(), [0, 3, 1, 4, 2, 5]);
    }
}
