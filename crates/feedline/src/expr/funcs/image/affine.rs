//! Pictures moved by a matrix.

use super::super::super::{Attrs, Func, Made, arity, dense};
use super::super::cast::cast;
use super::each::{Each, Picture, check_each};
use crate::element::{DType, Leaf, Tensor};
use crate::error::{Error, Result};
use feedline_image::affine::{Affine, Border, Pixel};

pub static FUNCS: &[Func] = &[Func {
    name: "image.affine_transform",
    doc: "Pictures turned, moved, sheared and zoomed: pixel (r, c) is read where the 2 x 3 matrix leads from there.",
    make: make_affine,
    pure: true,
}];

fn make_affine(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let [_, _] = arity::<2>(args)?;
    let shape = check_each(args, &[2], &["a matrix"])?;
    let (dtype, _) = dense(args, 0)?;
    if !matches!(dtype, DType::Uint8 | DType::Float32) {
        return Err(Error::usage(format!("expects pictures of uint8 or float32, not {dtype}; cast them first")));
    }
    let (matrix, dims) = dense(args, 1)?;
    if !(matrix.is_float() || matrix.is_int()) {
        return Err(Error::usage(format!("the matrix must be of numbers, not {matrix}")));
    }
    if let Some([.., rows, columns]) = dims.dims()
        && (rows.is_some_and(|n| n != 2) || columns.is_some_and(|n| n != 3))
    {
        return Err(Error::usage(format!("the matrix has 2 rows of 3 numbers, not shape {dims}")));
    }
    let order = attrs.i64("order")?.unwrap_or(1);
    let affine = Affine {
        matrix: [0.0; 6],
        order: u8::try_from(order).unwrap_or(u8::MAX),
        border: Border::parse(attrs.str("fill_mode")?.unwrap_or("nearest"))?,
        value: attrs.f64("cval")?.unwrap_or(0.0),
    };
    affine.check()?;
    let work = move |picture: Picture<'_>, own: &[Tensor]| {
        let matrix = cast(own[0].clone(), DType::Float64)?;
        let matrix = matrix.items::<f64>().try_into();
        let matrix = match (own[0].shape(), matrix) {
            ([2, 3], Ok(matrix)) => matrix,
            (shape, _) => return Err(Error::data(format!("the matrix has 2 rows of 3 numbers, not shape {shape:?}"))),
        };
        let affine = Affine { matrix, ..affine };
        match picture.from.dtype() {
            DType::Uint8 => warp::<u8>(&affine, picture),
            _ => warp::<f32>(&affine, picture),
        }
    };
    Made::new(Leaf::tensor(dtype, shape), Each { ranks: &[2], work })
}

fn warp<T: Pixel + crate::element::Item>(affine: &Affine, picture: Picture<'_>) -> Result<()> {
    let Picture { from, to, items, size } = picture;
    affine.warp(&from.items::<T>()[items.clone()], size, &mut to.items_mut::<T>()[items])
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{call, fails, refused};
    use crate::element::Tensor;
    use serde_json::json;

    fn picture() -> Tensor {
        Tensor::from_items([2, 3, 1], &[1f32, 2., 3., 4., 5., 6.])
    }

    #[test]
    fn one_picture_and_several() {
        let left = Tensor::from_items([2, 3], &[1f64, 0., 0., 0., 1., 1.]);
        let name = "image.affine_transform";
        let moved = call(name, &[picture(), left.clone()], json!({}));
        assert_eq!(moved.items::<f32>(), [2., 3., 3., 5., 6., 6.]);
        let two = Tensor::stack(&[picture(), picture()]);
        let both = call(name, &[two.clone(), left], json!({"fill_mode": "constant", "cval": 7}));
        assert_eq!(both.items::<f32>(), [2., 3., 7., 5., 6., 7., 2., 3., 7., 5., 6., 7.]);
        let each = Tensor::from_items([2, 2, 3], &[1f32, 0., 0., 0., 1., 0., -1., 0., 1., 0., 1., 0.]);
        let each = call(name, &[two, each], json!({"order": 0}));
        assert_eq!(each.items::<f32>(), [1., 2., 3., 4., 5., 6., 4., 5., 6., 1., 2., 3.]);
    }

    #[test]
    fn what_does_not_fit() {
        let name = "image.affine_transform";
        let matrix = |shape: &[usize]| Tensor::zeros(crate::element::DType::Float32, shape);
        let text = |e: crate::Error| e.to_string();
        assert!(text(refused(name, &[picture(), matrix(&[3, 3])], json!({}))).contains("2 rows of 3"));
        assert!(text(refused(name, &[picture(), matrix(&[1, 2, 3])], json!({}))).contains("does not go with"));
        assert!(text(refused(name, &[picture().reshaped([6]), matrix(&[2, 3])], json!({}))).contains("a picture"));
        let bad = json!({"fill_mode": "mirror"});
        assert!(text(refused(name, &[picture(), matrix(&[2, 3])], bad)).contains("\"mirror\""));
        assert!(text(refused(name, &[picture(), matrix(&[2, 3])], json!({"order": 6}))).contains("between 0 and 5"));
        assert!(text(fails(name, &[picture(), matrix(&[3, 2])], json!({}))).contains("2 rows of 3"));
        assert!(text(fails(name, &[picture().reshaped([6]), matrix(&[2, 3])], json!({}))).contains("a picture"));
        let infinite = Tensor::from_items([2, 3], &[f32::INFINITY; 6]);
        assert!(text(fails(name, &[picture(), infinite], json!({}))).contains("finite"));
    }
}
