//! What the functions on pictures share: how a chunk of them lies in memory, kernels for it, and the small tensors (a
//! box, a factor, a condition) that go with each element.

use super::super::super::{Arg, Kernel, RowAt, RowsAt, dense};
use super::super::broadcast::check_room;
use super::super::number::{Number, numbers};
use crate::element::{Column, DType, Dims, Leaf, Shape, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::Size;
use serde_json::Value as Json;
use smallvec::SmallVec;

/// The pictures of a tensor, which lie one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Elements: 1, or the rows of a chunk.
    pub rows: usize,
    /// Pictures of an element: 1, or those of a batch.
    pub each: usize,
    pub size: Size,
}

impl Layout {
    /// Of a tensor with `lead` axes of rows in front. Each element is a picture, or a batch of them.
    pub fn of(t: &Tensor, lead: usize) -> Result<Layout> {
        let (rows, inner) = t.shape().split_at(lead);
        let (each, [h, w, c]) = match *inner {
            [h, w, c] => (1, [h, w, c]),
            [n, h, w, c] => (n, [h, w, c]),
            _ => return Err(Error::data(no_picture(&format!("{inner:?}")))),
        };
        if h * w * c == 0 {
            return Err(Error::data(format!("a picture of shape {inner:?} has no pixels")));
        }
        Ok(Layout { rows: rows.iter().product(), each, size: Size::new(h, w, c) })
    }
    pub fn pictures(&self) -> usize {
        self.rows * self.each
    }
    /// The size in bytes a pixel.
    pub fn bytes(&self, dtype: DType) -> Size {
        Size { channels: self.size.channels * dtype.size(), ..self.size }
    }
}

fn no_picture(shape: &str) -> String {
    format!("expects a picture of height x width x channels, or a batch of such, not shape {shape}")
}

/// The argument that is a picture or a batch of them, as far as it is known when a function is traced.
pub fn picture(args: &[Leaf], i: usize) -> Result<(DType, &Dims)> {
    let (dtype, shape) = dense(args, i)?;
    if dtype == DType::String {
        return Err(Error::usage("expects pixels, not strings; decode them first: fl.image.decode_image"));
    }
    match shape.dims() {
        None => {}
        Some([_, _, _] | [_, _, _, _]) if !sides(shape).contains(&Some(0)) => {}
        Some([_, _, _] | [_, _, _, _]) => {
            return Err(Error::usage(format!("a picture of shape {shape} has no pixels")));
        }
        Some(_) => return Err(Error::usage(no_picture(&shape.to_string()))),
    }
    Ok((dtype, shape))
}

/// The height, width and channels of pictures whose rank is known.
pub fn sides(shape: &Dims) -> [Option<usize>; 3] {
    match shape.dims() {
        Some([.., h, w, c]) => [*h, *w, *c],
        _ => [None; 3],
    }
}

/// The same pictures with other sides.
pub fn with_sides(shape: &Dims, sides: [Option<usize>; 3]) -> Dims {
    Dims(shape.dims().map(|d| d[..d.len() - 3].iter().copied().chain(sides).collect()))
}

/// Pictures to be written, one for each of `t`. `None` for rows that do not fit into memory together, but may alone.
pub fn fresh(t: &Tensor, lead: usize, dtype: DType, sides: [usize; 3]) -> Result<Option<Tensor>> {
    let mut shape: Shape = t.shape().into();
    let first = shape.len() - 3;
    shape[first..].copy_from_slice(&sides);
    match check_room(dtype, &shape) {
        Ok(_) => Ok(Some(Tensor::new(dtype, shape))),
        Err(_) if lead > 0 => Ok(None),
        Err(e) => Err(e),
    }
}

/// A small tensor that goes with each element: one for each row, or one for all.
pub struct Param {
    tensor: Tensor,
    by_row: bool,
}

pub type Params = SmallVec<[Param; 2]>;

impl Param {
    pub fn at(&self, row: usize) -> Tensor {
        if self.by_row { self.tensor.row(row) } else { self.tensor.clone() }
    }
    /// The only number of a row's tensor.
    pub fn number(&self, row: usize, what: &str) -> Result<f32> {
        let t = self.at(row);
        if t.len() != 1 {
            return Err(Error::data(format!("{what} must be one number, not a tensor of shape {:?}", t.shape())));
        }
        numbers!(t.dtype(), T => all Ok(t.item::<T>().to_f64() as f32))
    }
}

/// Refuses what is no single number, when a function is traced.
pub fn check_number(args: &[Leaf], i: usize, what: &str) -> Result<()> {
    let (dtype, shape) = dense(args, i)?;
    if !dtype.is_numeric() || !shape.compatible(&Dims::scalar()) {
        return Err(Error::usage(format!("{what} must be one number, not {dtype} of shape {shape}")));
    }
    Ok(())
}

/// An attribute that is a number or a list of them.
pub fn list(given: &Json) -> Option<Vec<f64>> {
    match given {
        Json::Array(list) => list.iter().map(Json::as_f64).collect(),
        one => one.as_f64().map(|x| vec![x]),
    }
}

fn params(args: &[Value]) -> Params {
    args.iter().map(|v| Param { tensor: v.tensor().clone(), by_row: false }).collect()
}

/// The same for a chunk; `None` if they do not lie densely.
fn row_params(args: &[Arg]) -> Option<Params> {
    args.iter()
        .map(|arg| match arg {
            Arg::Rows(Column::Dense(t)) => Some(Param { tensor: t.clone(), by_row: true }),
            Arg::Same(Value::Tensor(t)) => Some(Param { tensor: t.clone(), by_row: false }),
            _ => None,
        })
        .collect()
}

/// A kernel that writes over its first argument where it can. The function gets that tensor, the other arguments, and the
/// number of axes of rows in front.
pub struct InPlace<F>(pub F);

impl<F: Fn(Tensor, &[Param], usize) -> Result<Tensor> + Send + Sync> Kernel for InPlace<F> {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        Ok(Value::Tensor((self.0)(args[0].tensor().clone(), &params(&args[1..]), 0)?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let Some(params) = row_params(&args[1..]).filter(|_| rows > 0) else { return Ok(None) };
        match std::mem::replace(&mut args[0], Arg::Same(Value::Absent)) {
            Arg::Rows(Column::Dense(t)) => Ok(Some(Column::Dense((self.0)(t, &params, 1)?))),
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

/// A kernel that makes new pictures. The function gets the same; it may give `None` for rows whose results do not fit
/// together.
pub struct Fresh<F>(pub F);

impl<F: Fn(&Tensor, &[Param], usize) -> Result<Option<Tensor>> + Send + Sync> Kernel for Fresh<F> {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let made = (self.0)(args[0].tensor(), &params(&args[1..]), 0)?;
        made.map(Value::Tensor).ok_or_else(|| Error::internal("no picture was made of one"))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let Some(params) = row_params(&args[1..]).filter(|_| rows > 0) else { return Ok(None) };
        let Arg::Rows(Column::Dense(t)) = &args[0] else { return Ok(None) };
        Ok((self.0)(t, &params, 1)?.map(Column::Dense))
    }
}
