//! Work on pictures one by one, where each picture has arguments of its own: a matrix, the number of an operation.

use super::super::super::{Arg, Kernel, RowAt, RowsAt, dense};
use crate::element::{Column, Dims, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use feedline_image::Size;
use smallvec::SmallVec;
use std::ops::Range;

/// Makes pictures of the same size. The first argument is a picture, or several along a first axis; the others belong to
/// one picture, or have that axis too.
pub struct Each<F> {
    /// The axes of each further argument, for one picture.
    pub ranks: &'static [usize],
    /// Writes one picture: the items of the range.
    pub work: F,
}

/// One picture among others, and where it goes.
pub struct Picture<'a> {
    pub from: &'a Tensor,
    pub to: &'a mut Tensor,
    /// Its items, in both.
    pub items: Range<usize>,
    pub size: Size,
}

type Own = SmallVec<[Tensor; 2]>;

/// What is known of the pictures, once the shapes of all arguments are checked.
pub fn check_each(args: &[Leaf], ranks: &[usize], names: &[&str]) -> Result<Dims> {
    let (_, pictures) = dense(args, 0)?;
    if let Some(rank) = pictures.rank()
        && !(3..=4).contains(&rank)
    {
        return Err(Error::usage(format!(
            "expects a picture [height, width, channels] or several along a first axis, not shape {pictures}"
        )));
    }
    for (i, (own, name)) in ranks.iter().zip(names).enumerate() {
        let (_, shape) = dense(args, i + 1)?;
        let Some(rank) = shape.rank() else { continue };
        if rank != *own && (rank != own + 1 || pictures.rank() == Some(3)) {
            return Err(Error::usage(format!("{name} of shape {shape} does not go with pictures of shape {pictures}")));
        }
    }
    Ok(pictures.clone())
}

impl<F: Fn(Picture<'_>, &[Tensor]) -> Result<()> + Send + Sync> Each<F> {
    /// The pictures of one element, which begin at item `start`.
    fn element(&self, from: &Tensor, to: &mut Tensor, shape: &[usize], start: usize, own: &[Tensor]) -> Result<()> {
        let (lead, [height, width, channels]) = match shape {
            [lead @ .., height, width, channels] if lead.len() <= 1 => (lead, [*height, *width, *channels]),
            _ => {
                return Err(Error::data(format!(
                    "expects a picture [height, width, channels] or several along a first axis, not shape {shape:?}"
                )));
            }
        };
        let (size, pictures) = (Size::new(height, width, channels), lead.first().copied());
        for p in 0..pictures.unwrap_or(1) {
            let mut args = Own::new();
            for (arg, rank) in own.iter().zip(self.ranks) {
                args.push(match pictures {
                    _ if arg.rank() == *rank => arg.clone(),
                    Some(n) if arg.rank() == rank + 1 && arg.rows() == n => arg.row(p),
                    _ => {
                        let shape = arg.shape();
                        return Err(Error::data(format!(
                            "an argument of shape {shape:?} does not go with {} pictures",
                            pictures.unwrap_or(1)
                        )));
                    }
                });
            }
            let at = start + p * size.items();
            (self.work)(Picture { from, to, items: at..at + size.items(), size }, &args)?;
        }
        Ok(())
    }
}

impl<F: Fn(Picture<'_>, &[Tensor]) -> Result<()> + Send + Sync> Kernel for Each<F> {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let from = args[0].tensor();
        let own: Own = args[1..].iter().map(|v| v.tensor().clone()).collect();
        let mut to = Tensor::new(from.dtype(), from.shape());
        self.element(from, &mut to, from.shape(), 0, &own)?;
        Ok(Value::Tensor(to))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let Some((Arg::Rows(Column::Dense(from)), rest)) = args.split_first() else { return Ok(None) };
        let mut to = Tensor::new(from.dtype(), from.shape());
        let items = from.len() / rows.max(1);
        for row in 0..rows {
            let own: Own = rest.iter().map(|a| a.get(row).tensor().clone()).collect();
            self.element(from, &mut to, &from.shape()[1..], row * items, &own)?;
        }
        Ok(Some(Column::Dense(to)))
    }
}
