//! The operations of the augmentation policies, by number.

use super::super::super::{Attrs, Func, Made, arity, dense};
use super::super::cast::cast;
use super::super::lead::{check_integers, integers};
use super::each::{Each, Picture, check_each};
use crate::element::{DType, Leaf, Tensor};
use crate::error::{Error, Result};
use feedline_image::augment::Op;
use smallvec::SmallVec;

pub static FUNCS: &[Func] = &[Func {
    name: "image.augment",
    doc: "Pictures of uint8, each changed by the operation of that number with that magnitude.",
    make: make_augment,
    pure: true,
}];

fn make_augment(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let [_, _, _] = arity::<3>(args)?;
    let shape = check_each(args, &[0, 0], &["an operation", "a magnitude"])?;
    let (dtype, _) = dense(args, 0)?;
    if dtype != DType::Uint8 {
        return Err(Error::usage(format!("expects pictures of uint8, not {dtype}; augment before the conversion")));
    }
    check_integers("the operation", dense(args, 1)?.0)?;
    let magnitude = dense(args, 2)?.0;
    if !(magnitude.is_float() || magnitude.is_int()) {
        return Err(Error::usage(format!("the magnitude must be a number, not {magnitude}")));
    }
    let fill: Vec<u8> = attrs
        .i64s("fill")?
        .unwrap_or_else(|| vec![0])
        .iter()
        .map(|&v| u8::try_from(v).map_err(|_| Error::usage(format!("fill must lie between 0 and 255, not {v}"))))
        .collect::<Result<_>>()?;
    let work = move |picture: Picture<'_>, own: &[Tensor]| {
        let Picture { from, to, items, size } = picture;
        let op = Op::number(integers(&own[0])?[0])?;
        let magnitude = cast(own[1].clone(), DType::Float64)?.item::<f64>();
        let outside: SmallVec<[u8; 4]> = match fill.as_slice() {
            [all] => SmallVec::from_elem(*all, size.channels),
            each if each.len() == size.channels => each.into(),
            each => {
                let (given, channels) = (each.len(), size.channels);
                return Err(Error::data(format!("fill has {given} values, the picture {channels} channels")));
            }
        };
        op.apply(magnitude, &from.items::<u8>()[items.clone()], size, &outside, &mut to.items_mut::<u8>()[items])
    };
    Made::new(Leaf::tensor(dtype, shape), Each { ranks: &[0, 0], work })
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{call, fails, refused};
    use crate::element::Tensor;
    use serde_json::json;

    #[test]
    fn the_operation_is_drawn_by_picture() {
        let pictures = Tensor::from_items([2, 1, 2, 1], &[10u8, 20, 10, 20]);
        let ops = Tensor::from_items([2], &[14i64, 3]);
        let magnitudes = Tensor::from_items([2], &[0f32, 1.5]);
        let changed = call("image.augment", &[pictures, ops, magnitudes], json!({"fill": 5}));
        assert_eq!(changed.items::<u8>(), [245, 235, 5, 10]);
    }

    #[test]
    fn what_does_not_fit() {
        let picture = |channels| Tensor::from_items([1, 1, channels], &vec![1u8; channels]);
        let (op, magnitude) = (Tensor::scalar(1i32), Tensor::scalar(0f32));
        let text = |e: crate::Error| e.to_string();
        let with = |channels, op: &Tensor| [picture(channels), op.clone(), magnitude.clone()];
        assert!(text(fails("image.augment", &with(2, &op), json!({}))).contains("1 or 3 channels"));
        assert!(text(fails("image.augment", &with(3, &Tensor::scalar(99)), json!({}))).contains("no operation 99"));
        assert!(text(fails("image.augment", &with(1, &op), json!({"fill": [1, 2, 3]}))).contains("3 values"));
        assert!(text(refused("image.augment", &with(3, &op), json!({"fill": 300}))).contains("between 0 and 255"));
        assert!(text(refused("image.augment", &with(3, &magnitude), json!({}))).contains("must be integers"));
    }
}
