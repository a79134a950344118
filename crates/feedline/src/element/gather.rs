//! Rows picked from several chunks, put together as one.

use super::chunk::{Chunk, Column, Pos};
use super::dtype::DType;
use super::tensor::{Shape, Tensor};
use super::value::Value;

/// A row of a chunk that somebody holds: the chunk's number there, and the row in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef {
    pub part: u32,
    pub row: u32,
}

/// The rows (at least one) in this order, with their positions; `part` finds a chunk by its number.
pub fn gather<'a>(rows: &[RowRef], part: impl Fn(u32) -> &'a Chunk + Copy) -> Chunk {
    let pos = rows.iter().map(|r| part(r.part).pos.at(r.row as usize)).collect();
    let leaves = part(rows[0].part).columns().len();
    let columns = (0..leaves).map(|k| column(rows, |p| &part(p).columns()[k]));
    Chunk::new(rows.len(), Pos::List(pos), columns)
}

fn column<'a>(rows: &[RowRef], part: impl Fn(u32) -> &'a Column + Copy) -> Column {
    if let Column::Dense(first) = part(rows[0].part) {
        let tensor = match first.dtype() {
            DType::String => strings(rows, first, part),
            _ => dense(rows, first, part),
        };
        if let Some(tensor) = tensor {
            return Column::Dense(tensor);
        }
    }
    let values: Vec<Value> = rows.iter().map(|r| part(r.part).get(r.row as usize)).collect();
    Column::from_values(values)
}

fn shape_of(rows: usize, like: &Tensor) -> Shape {
    let mut shape: Shape = like.shape().into();
    shape[0] = rows;
    shape
}

/// `None` if not all rows are dense and of one shape.
fn dense<'a>(rows: &[RowRef], first: &Tensor, part: impl Fn(u32) -> &'a Column + Copy) -> Option<Tensor> {
    let inner = &first.shape()[1..];
    let size = inner.iter().product::<usize>() * first.dtype().size();
    let mut out = Tensor::new(first.dtype(), shape_of(rows.len(), first));
    // Neighbouring references often name the same chunk: its bytes are looked up once.
    let (mut number, mut from) = (rows[0].part, first.bytes());
    let mut source = |r: &RowRef| {
        if r.part != number {
            let Column::Dense(t) = part(r.part) else { return None };
            if &t.shape()[1..] != inner {
                return None;
            }
            (number, from) = (r.part, t.bytes());
        }
        Some(&from[r.row as usize * size..(r.row as usize + 1) * size])
    };
    let to = out.bytes_mut();
    match size {
        0 => rows.iter().try_for_each(|r| source(r).map(|_| ()))?,
        // Fixed sizes become register moves.
        4 => copy::<4>(rows, to, source)?,
        8 => copy::<8>(rows, to, source)?,
        _ => {
            for (r, slot) in rows.iter().zip(to.chunks_exact_mut(size)) {
                slot.copy_from_slice(source(r)?);
            }
        }
    }
    Some(out)
}

fn copy<'a, const N: usize>(
    rows: &[RowRef],
    to: &mut [u8],
    mut source: impl FnMut(&RowRef) -> Option<&'a [u8]>,
) -> Option<()> {
    for (r, slot) in rows.iter().zip(to.as_chunks_mut::<N>().0) {
        slot.copy_from_slice(source(r)?);
    }
    Some(())
}

fn strings<'a>(rows: &[RowRef], first: &Tensor, part: impl Fn(u32) -> &'a Column + Copy) -> Option<Tensor> {
    let picked: Option<Vec<Tensor>> = rows
        .iter()
        .map(|r| match part(r.part) {
            Column::Dense(t) if t.shape()[1..] == first.shape()[1..] => Some(t.row(r.row as usize)),
            _ => None,
        })
        .collect();
    Some(Tensor::join(DType::String, shape_of(rows.len(), first), picked?.iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn rows(list: &[(u32, u32)]) -> Vec<RowRef> {
        list.iter().map(|&(part, row)| RowRef { part, row }).collect()
    }

    #[test]
    fn dense_strings_and_mixed() {
        let chunk = |t: Tensor| Chunk::new(t.rows(), Pos::Run(10), [Column::Dense(t)]);
        let pick = rows(&[(1, 0), (0, 1), (1, 1), (0, 0)]);
        let parts = [chunk(Tensor::from_items([2], &[1i64, 2])), chunk(Tensor::from_items([2], &[3i64, 4]))];
        let got = gather(&pick, |p| &parts[p as usize]);
        assert_eq!(got.columns()[0].stack().unwrap(), Tensor::from_items([4], &[3i64, 2, 4, 1]).into());
        assert_eq!(got.pos, Pos::List([10, 11, 11, 10].into()));
        let parts = [chunk(Tensor::strings([2], &["a", "b"])), chunk(Tensor::strings([2], &["c", "d"]))];
        let got = gather(&pick, |p| &parts[p as usize]);
        assert_eq!(got.columns()[0].stack().unwrap(), Tensor::strings([4], &["c", "b", "d", "a"]).into());
        let parts = [chunk(Tensor::from_items([2, 1], &[1u8, 2])), chunk(Tensor::from_items([2], &[3u8, 4]))];
        let got = gather(&pick, |p| &parts[p as usize]);
        assert_eq!(
            got.element(1),
            smallvec![Value::Tensor(Tensor::from_items([1], &[2u8]))] as crate::element::Element
        );
        assert_eq!(got.element(2), smallvec![Value::Tensor(Tensor::scalar(4u8))] as crate::element::Element);
    }

    #[test]
    fn neighbours_join_without_a_copy() {
        let t = Tensor::from_items([4], &[0i64, 1, 2, 3]);
        let mut a = Chunk::new(4, Pos::Run(0), [Column::Dense(t)]);
        let (b, c) = (a.slice(2..3), a.slice(3..4));
        a = a.slice(0..2);
        assert!(!a.clone().extend(&c));
        assert!(a.extend(&b) && a.extend(&c));
        assert_eq!((a.rows(), a.element(3)), (4, smallvec![Value::Tensor(Tensor::scalar(3i64))]));
    }
}
