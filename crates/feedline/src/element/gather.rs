//! Rows picked from several chunks, put together as one.

use super::chunk::{Chunk, Column};
use super::dtype::DType;
use super::pos::Pos;
use super::tensor::{Shape, Tensor};
use super::value::Value;
use std::collections::HashMap;

/// A row of a chunk that somebody holds: the chunk's number there, and the row in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRef {
    pub part: u32,
    pub row: u32,
}

/// The rows (at least one) in this order, with their positions; `part` finds a chunk by its number.
///
/// Rows come from many chunks in turn (a shuffle), so that nothing about a chunk is looked up for each row: the chunks
/// that are met get numbers from 0 on, and for each column a list of where their bytes lie.
pub fn gather<'a>(rows: &[RowRef], part: impl Fn(u32) -> &'a Chunk) -> Chunk {
    let (rows, numbers) = renumbered(rows);
    let parts: Vec<&Chunk> = numbers.into_iter().map(part).collect();
    let pos = Pos::picked(rows.iter().map(|r| (&parts[r.part as usize].pos, r.row as usize)));
    let leaves = parts[0].columns().len();
    let columns = (0..leaves).map(|k| {
        let parts: Vec<&Column> = parts.iter().map(|p| &p.columns()[k]).collect();
        column(&rows, &parts)
    });
    Chunk::new(rows.len(), pos, columns)
}

/// The same rows with chunks numbered from 0 on in the order in which they are met, and the numbers that these had.
fn renumbered(rows: &[RowRef]) -> (Vec<RowRef>, Vec<u32>) {
    const NONE: u32 = u32::MAX;
    let mut numbers: Vec<u32> = Vec::new();
    let mut number = |known: u32, part: u32| match known {
        NONE => {
            numbers.push(part);
            numbers.len() as u32 - 1
        }
        known => known,
    };
    let highest = rows.iter().map(|r| r.part).max().unwrap_or(0) as usize;
    let new: Vec<RowRef> = if highest <= 4 * rows.len() {
        let mut known = vec![NONE; highest + 1];
        let one = |r: &RowRef| {
            let slot = &mut known[r.part as usize];
            *slot = number(*slot, r.part);
            RowRef { part: *slot, row: r.row }
        };
        rows.iter().map(one).collect()
    } else {
        // A few rows out of very many chunks.
        let mut known: HashMap<u32, u32> = HashMap::new();
        let one = |r: &RowRef| {
            let slot = known.entry(r.part).or_insert(NONE);
            *slot = number(*slot, r.part);
            RowRef { part: *slot, row: r.row }
        };
        rows.iter().map(one).collect()
    };
    (new, numbers)
}

fn column(rows: &[RowRef], parts: &[&Column]) -> Column {
    if let Some(tensors) = alike(parts) {
        let mut shape: Shape = tensors[0].shape().into();
        shape[0] = rows.len();
        return Column::Dense(match tensors[0].dtype() {
            DType::String => Tensor::gathered_strings(&tensors, rows, shape),
            dtype => dense(rows, &tensors, Tensor::new(dtype, shape)),
        });
    }
    let values: Vec<Value> = rows.iter().map(|r| parts[r.part as usize].get(r.row as usize)).collect();
    Column::from_picked(values)
}

/// The tensors, if all parts are dense and their rows of one shape.
fn alike<'a>(parts: &[&'a Column]) -> Option<Vec<&'a Tensor>> {
    let tensors = parts.iter().map(|c| match c {
        Column::Dense(t) => Some(t),
        Column::Rows(..) => None,
    });
    let tensors: Vec<&Tensor> = tensors.collect::<Option<_>>()?;
    tensors.iter().all(|t| t.shape()[1..] == tensors[0].shape()[1..]).then_some(tensors)
}

fn dense(rows: &[RowRef], parts: &[&Tensor], mut out: Tensor) -> Tensor {
    let size = parts[0].shape()[1..].iter().product::<usize>() * out.dtype().size();
    let parts: Vec<&[u8]> = parts.iter().map(|t| t.bytes()).collect();
    let to = out.bytes_mut();
    match size {
        0 => {}
        // Fixed sizes become register moves.
        1 => copy::<1>(rows, &parts, to),
        2 => copy::<2>(rows, &parts, to),
        4 => copy::<4>(rows, &parts, to),
        8 => copy::<8>(rows, &parts, to),
        _ => {
            for (r, slot) in rows.iter().zip(to.chunks_exact_mut(size)) {
                let at = r.row as usize * size;
                slot.copy_from_slice(&parts[r.part as usize][at..at + size]);
            }
        }
    }
    out
}

fn copy<const N: usize>(rows: &[RowRef], parts: &[&[u8]], to: &mut [u8]) {
    let parts: Vec<&[[u8; N]]> = parts.iter().map(|p| p.as_chunks::<N>().0).collect();
    for (r, slot) in rows.iter().zip(to.as_chunks_mut::<N>().0) {
        *slot = parts[r.part as usize][r.row as usize];
    }
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
