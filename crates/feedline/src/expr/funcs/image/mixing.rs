//! Pictures of a batch mixed with each other.

use super::super::super::{Attrs, ByRow, Func, Made, arity, dense};
use super::super::cast::cast;
use super::super::lead::{check_integers, integers};
use crate::element::{DType, Dims, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::geometry::Rect;
use feedline_image::{Size, mixing};

pub static FUNCS: &[Func] = &[
    Func {
        name: "image.blend_batch",
        doc: "A share of each picture of a batch and the rest of the one before it (the first: of the last), as float32.",
        make: make_blend,
        pure: true,
    },
    Func {
        name: "image.paste_batch",
        doc: "Each picture of a batch with the part [y, x, height, width] of the one before it (the first: of the last).",
        make: make_paste,
        pure: true,
    },
];

fn batch(args: &[Leaf]) -> Result<(DType, &Dims)> {
    let (dtype, shape) = dense(args, 0)?;
    match shape.rank() {
        None | Some(4) => Ok((dtype, shape)),
        _ => Err(Error::usage(format!("mixes pictures of a batch, after batch(), not shape {shape}"))),
    }
}

/// The size of the pictures of a batch.
fn size(t: &Tensor) -> Result<Size> {
    match *t.shape() {
        [_, height, width, channels] => Ok(Size::new(height, width, channels)),
        _ => Err(Error::data(format!("mixes pictures of a batch, after batch(), not shape {:?}", t.shape()))),
    }
}

fn make_blend(args: &[Leaf], _: &Attrs) -> Result<Made> {
    let [_, _] = arity::<2>(args)?;
    let (dtype, shape) = batch(args)?;
    if !matches!(dtype, DType::Uint8 | DType::Float32) {
        return Err(Error::usage(format!("expects pictures of uint8 or float32, not {dtype}; cast them first")));
    }
    let (number, share) = dense(args, 1)?;
    if !number.is_numeric() || !share.compatible(&Dims::scalar()) {
        return Err(Error::usage(format!("the share must be one number, not {number} of shape {share}")));
    }
    let kernel = ByRow(|args: &[Value]| {
        let (from, share) = (args[0].tensor(), args[1].tensor());
        if share.rank() != 0 {
            return Err(Error::data(format!("the share must be one number, not shape {:?}", share.shape())));
        }
        let (items, share) = (size(from)?.items(), cast(share.clone(), DType::Float32)?.item::<f32>());
        crate::element::check_room(DType::Float32, from.shape())?;
        let mut to = Tensor::new(DType::Float32, from.shape());
        match from.dtype() {
            DType::Uint8 => mixing::blend(from.items::<u8>(), items, share, to.items_mut()),
            _ => mixing::blend(from.items::<f32>(), items, share, to.items_mut()),
        }
        Ok(Value::Tensor(to))
    });
    Made::new(Leaf::tensor(DType::Float32, shape.clone()), kernel)
}

fn make_paste(args: &[Leaf], _: &Attrs) -> Result<Made> {
    let [_, _] = arity::<2>(args)?;
    let (dtype, shape) = batch(args)?;
    if dtype == DType::String {
        return Err(Error::usage("expects pixels, not strings; decode them first: fl.image.decode_image"));
    }
    check_integers("the part", dense(args, 1)?.0)?;
    let kernel = ByRow(|args: &[Value]| {
        let (from, part) = (args[0].tensor(), integers(args[1].tensor())?);
        let size = size(from)?;
        let rect = rect(&part).filter(|r| {
            let inside = |at: usize, len: usize, all: usize| at.checked_add(len).is_some_and(|end| end <= all);
            inside(r.y, r.height, size.height) && inside(r.x, r.width, size.width)
        });
        let rect = rect.ok_or_else(|| {
            let (height, width) = (size.height, size.width);
            Error::data(format!("the part {part:?} does not lie in pictures of {height} x {width}"))
        })?;
        let mut to = Tensor::new(from.dtype(), from.shape());
        let size = Size { channels: size.channels * from.dtype().size(), ..size };
        mixing::paste(from.bytes(), size, rect, to.bytes_mut());
        Ok(Value::Tensor(to))
    });
    Made::new(Leaf::tensor(dtype, shape.clone()), kernel)
}

fn rect(part: &[i64]) -> Option<Rect> {
    let [y, x, height, width] = <[i64; 4]>::try_from(part).ok()?.map(|n| usize::try_from(n).ok());
    Some(Rect::new(y?, x?, height?, width?))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{call, fails, refused};
    use crate::element::Tensor;
    use serde_json::json;

    #[test]
    fn batches_are_mixed() {
        let batch = Tensor::from_items([2, 1, 2, 1], &[1u8, 2, 3, 4]);
        let mixed = call("image.blend_batch", &[batch.clone(), Tensor::scalar(0.75f32)], json!({}));
        assert_eq!(mixed.items::<f32>(), [1.5, 2.5, 2.5, 3.5]);
        let part = Tensor::from_items([4], &[0i32, 1, 1, 1]);
        assert_eq!(call("image.paste_batch", &[batch, part.clone()], json!({})).items::<u8>(), [1, 4, 3, 2]);
        let floats = Tensor::from_items([2, 1, 2, 1], &[1f32, 2., 3., 4.]);
        assert_eq!(call("image.paste_batch", &[floats, part], json!({})).items::<f32>(), [1., 4., 3., 2.]);
    }

    #[test]
    fn what_does_not_fit() {
        let picture = Tensor::from_items([1, 2, 1], &[1u8, 2]);
        let error = refused("image.blend_batch", &[picture.clone(), Tensor::scalar(1f32)], json!({}));
        assert!(error.to_string().contains("after batch()"));
        let batch = picture.reshaped([1, 1, 2, 1]);
        for part in [&[0i64, 0, 2, 1][..], &[0, -1, 1, 1], &[0, 0, 1], &[i64::MAX, 0, i64::MAX, 0]] {
            let part = Tensor::from_items([part.len()], part);
            assert!(fails("image.paste_batch", &[batch.clone(), part], json!({})).to_string().contains("lie in"));
        }
    }
}
