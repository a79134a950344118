//! Rows of a shuffle's buffer, each in one place: all its columns one after the other.
//!
//! A row that is drawn from columns costs a cache line for each of them: 40 columns in a buffer of 100,000 rows were 16 ns
//! a value, nearly all of it waiting. In one place a row is a few lines in a row. Rows are put together when they come in
//! and taken apart when they go out, some at a time, in memory that stays in the first-level cache.
//!
//! The places of the next rows are asked for from memory while these are taken apart, which hides most of the waiting.
//!
//! Drawing is the work of one thread, taking apart is not: rows of many columns are given as they lie (`take_whole`), and
//! workers take them apart (`Apart`).
//!
//! Places of rows that are gone are used again, so the memory is that of the rows that are there.

use crate::element::{Buf, Chunk, Column, DType, Leaf, Pos, Shape, Spec, Tensor};
use crate::runtime::{ChunkFn, Item};
use std::sync::Arc;

/// Longer rows are kept by reference: a copy would cost more than the waiting.
const MOST_ROW_BYTES: usize = 4 << 10;
/// Rows that are put together or taken apart at once.
const GROUP: usize = 64;
/// Memory comes in blocks of about this size, which the system can back with huge pages.
const BLOCK_BYTES: usize = 4 << 20;
/// From so many columns on workers take rows apart: until then it costs less than handing them over.
const MANY_COLUMNS: usize = 8;
/// In front of its columns a row has its position.
const POS_BYTES: usize = 8;

pub struct Packed {
    rows: Rows,
    /// Rows of a block: two to the power of this.
    block_bits: u32,
    blocks: Vec<Buf>,
    /// Places that hold no row.
    free: Vec<u32>,
    places: usize,
    scratch: Vec<u8>,
}

/// How the columns of a row lie behind each other.
#[derive(PartialEq)]
pub struct Rows {
    columns: Vec<Layout>,
    bytes: usize,
}

/// A column's place in a row.
#[derive(PartialEq)]
struct Layout {
    dtype: DType,
    inner: Shape,
    offset: usize,
    bytes: usize,
}

impl Rows {
    /// Of columns of these types and shapes, if all have one and it is worth while.
    fn new(parts: impl Iterator<Item = Option<(DType, Shape)>>) -> Option<Rows> {
        let (mut columns, mut offset) = (Vec::new(), POS_BYTES);
        for part in parts {
            let (dtype, inner) = part.filter(|(dtype, _)| *dtype != DType::String)?;
            let bytes = inner.iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d))?;
            columns.push(Layout { dtype, inner, offset, bytes });
            offset = offset.checked_add(bytes).filter(|n| *n <= MOST_ROW_BYTES)?;
        }
        (columns.len() > 1).then(|| Rows { columns, bytes: offset.next_multiple_of(8) })
    }
    /// Of elements that have so many columns that workers should take their rows apart.
    pub fn of_many_columns(spec: &Spec) -> Option<Rows> {
        let part = |leaf: &&Leaf| match leaf {
            Leaf::Tensor { dtype, shape } => Some((*dtype, shape.dims()?.iter().copied().collect::<Option<Shape>>()?)),
            _ => None,
        };
        Rows::new(spec.leaves().iter().map(part)).filter(|rows| rows.columns.len() >= MANY_COLUMNS)
    }
    /// For results of so many rows.
    fn columns(&self, rows: usize) -> Vec<Tensor> {
        let shape = |l: &Layout| std::iter::once(rows).chain(l.inner.iter().copied()).collect::<Shape>();
        self.columns.iter().map(|l| Tensor::new(l.dtype, shape(l))).collect()
    }
    /// Takes some rows apart; the results' rests are those behind them.
    fn apart(&self, rows: &[u8], outs: &mut [&mut [u8]]) {
        let (row, count) = (self.bytes, rows.len() / self.bytes);
        for (layout, out) in self.columns.iter().zip(outs) {
            let (to, rest) = std::mem::take(out).split_at_mut(count * layout.bytes);
            *out = rest;
            let at = layout.offset;
            match layout.bytes {
                1 => get::<1>(rows, row, at, to),
                4 => get::<4>(rows, row, at, to),
                8 => get::<8>(rows, row, at, to),
                0 => {}
                n => {
                    let pairs = rows.chunks_exact(row).zip(to.chunks_exact_mut(n));
                    pairs.for_each(|(from, to)| to.copy_from_slice(&from[at..at + n]));
                }
            }
        }
    }
}

/// Takes rows apart that were given as a whole: chunks of one column, which elements that can be packed do not have.
pub struct Apart(pub Arc<Rows>);

impl ChunkFn for Apart {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let [Column::Dense(whole)] = chunk.columns() else { return out.push(Item::Rows(chunk)) };
        let mut tensors = self.0.columns(chunk.rows());
        let mut outs: Vec<&mut [u8]> = tensors.iter_mut().map(|t| t.bytes_mut()).collect();
        for group in whole.bytes().chunks(GROUP * self.0.bytes) {
            self.0.apart(group, &mut outs);
        }
        out.push(Item::Rows(Chunk::new(chunk.rows(), chunk.pos.clone(), tensors.into_iter().map(Column::Dense))));
    }
    fn keeps_rows(&self) -> bool {
        true
    }
}

/// The rows' type and shape, if they can be packed: fixed sizes, and memory that nobody keeps anyway.
fn plain(column: &Column) -> Option<&Tensor> {
    match column {
        Column::Dense(t) if t.dtype() != DType::String && !t.buf().0.is_frozen() => Some(t),
        _ => None,
    }
}

fn position(row: &[u8]) -> u64 {
    u64::from_ne_bytes(row[..POS_BYTES].try_into().expect("eight bytes"))
}

impl Packed {
    /// For rows like these, if it is worth while. The buffer has at most `size` rows.
    pub fn like(chunk: &Chunk, size: usize) -> Option<Packed> {
        if chunk.pos.is_traced() {
            return None;
        }
        let rows = Rows::new(chunk.columns().iter().map(|c| plain(c).map(|t| (t.dtype(), t.shape()[1..].into()))))?;
        let most = size.saturating_add(GROUP).checked_next_power_of_two().unwrap_or(usize::MAX);
        let block_rows = (BLOCK_BYTES / rows.bytes).next_power_of_two().min(most).max(GROUP);
        let (block_bits, scratch) = (block_rows.ilog2(), vec![0; GROUP * rows.bytes]);
        Some(Packed { rows, block_bits, blocks: vec![], free: vec![], places: 0, scratch })
    }
    /// What it takes of memory.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Buf::len).sum::<usize>() + 4 * self.places
    }
    /// Whether these rows can be taken in.
    pub fn fits(&self, chunk: &Chunk) -> bool {
        let fits = |(layout, column): (&Layout, &Column)| {
            plain(column).is_some_and(|t| t.dtype() == layout.dtype && t.shape()[1..] == layout.inner[..])
        };
        self.rows.columns.iter().zip(chunk.columns()).all(fits) && self.places + chunk.rows() < u32::MAX as usize
    }
    /// Takes rows in; says where they are.
    pub fn add(&mut self, chunk: &Chunk, places: &mut Vec<u32>) {
        places.clear();
        while self.free.len() < chunk.rows() {
            self.blocks.push(Buf::new(self.rows.bytes << self.block_bits));
            let first = self.places;
            self.places += 1 << self.block_bits;
            self.free.extend((first as u32..self.places as u32).rev());
        }
        places.extend(self.free.drain(self.free.len() - chunk.rows()..).rev());
        let row = self.rows.bytes;
        for start in (0..chunk.rows()).step_by(GROUP) {
            let group = start..(start + GROUP).min(chunk.rows());
            self.expect(&places[group.clone()]);
            let scratch = &mut self.scratch[..group.len() * row];
            for (i, to) in scratch.chunks_exact_mut(row).enumerate() {
                to[..POS_BYTES].copy_from_slice(&chunk.pos.at(start + i).to_ne_bytes());
            }
            for (layout, column) in self.rows.columns.iter().zip(chunk.columns()) {
                let Column::Dense(t) = column else { unreachable!("checked by `fits`") };
                let from = &t.bytes()[group.start * layout.bytes..group.end * layout.bytes];
                let at = layout.offset;
                match layout.bytes {
                    1 => put::<1>(from, scratch, row, at),
                    4 => put::<4>(from, scratch, row, at),
                    8 => put::<8>(from, scratch, row, at),
                    0 => {}
                    n => {
                        let pairs = from.chunks_exact(n).zip(scratch.chunks_exact_mut(row));
                        pairs.for_each(|(from, to)| to[at..at + n].copy_from_slice(from));
                    }
                }
            }
            let mut last = usize::MAX;
            let mut block: &mut [u8] = &mut [];
            for (i, &place) in places[group].iter().enumerate() {
                let (number, at) = place_at(place, self.block_bits, row);
                // Neighbours often lie in one block: it is asked for once.
                if number != last {
                    block = self.blocks[number].get_mut().expect("blocks are not shared");
                    last = number;
                }
                block[at..at + row].copy_from_slice(&self.scratch[i * row..(i + 1) * row]);
            }
        }
    }
    /// Asks for rows from memory, without waiting for them.
    fn expect(&self, places: &[u32]) {
        for &place in places {
            let (block, at) = place_at(place, self.block_bits, self.rows.bytes);
            self.blocks[block].as_slice()[at..at + self.rows.bytes].chunks(64).for_each(|line| prefetch(&line[0]));
        }
    }
    /// Copies rows to where they are needed.
    fn copy(blocks: &[Buf], bits: u32, row: usize, places: &[u32], to: &mut [u8]) {
        for (&place, to) in places.iter().zip(to.chunks_exact_mut(row)) {
            let (block, at) = place_at(place, bits, row);
            to.copy_from_slice(&blocks[block].as_slice()[at..at + row]);
        }
    }
    /// The places of the group behind group `i`.
    fn group_behind(places: &[u32], i: usize) -> &[u32] {
        let next = ((i + 1) * GROUP).min(places.len());
        &places[next..(next + GROUP).min(places.len())]
    }
    /// Takes rows out, in this order.
    pub fn take(&mut self, places: &[u32]) -> Chunk {
        let row = self.rows.bytes;
        let mut pos = Vec::with_capacity(places.len());
        let mut tensors = self.rows.columns(places.len());
        let mut outs: Vec<&mut [u8]> = tensors.iter_mut().map(|t| t.bytes_mut()).collect();
        self.expect(&places[..places.len().min(GROUP)]);
        for (i, group) in places.chunks(GROUP).enumerate() {
            Packed::copy(&self.blocks, self.block_bits, row, group, &mut self.scratch);
            self.expect(Packed::group_behind(places, i));
            let rows = &self.scratch[..group.len() * row];
            pos.extend(rows.chunks_exact(row).map(position));
            self.rows.apart(rows, &mut outs);
        }
        self.free.extend_from_slice(places);
        Chunk::new(places.len(), Pos::List(pos.into()), tensors.into_iter().map(Column::Dense))
    }
    /// The same as one column, for `Apart`, if rows lie as it expects them.
    pub fn take_whole(&mut self, places: &[u32], expected: &Rows) -> Option<Chunk> {
        if self.rows != *expected {
            return None;
        }
        let row = self.rows.bytes;
        let mut whole = Tensor::new(DType::Uint8, [places.len(), row]);
        let to = whole.bytes_mut();
        self.expect(&places[..places.len().min(GROUP)]);
        for (i, (group, to)) in places.chunks(GROUP).zip(to.chunks_mut(GROUP * row)).enumerate() {
            self.expect(Packed::group_behind(places, i));
            Packed::copy(&self.blocks, self.block_bits, row, group, to);
        }
        let pos: Vec<u64> = to.chunks_exact(row).map(position).collect();
        self.free.extend_from_slice(places);
        Some(Chunk::new(places.len(), Pos::List(pos.into()), [Column::Dense(whole)]))
    }
}

/// The block of a place, and the first byte of its row there.
fn place_at(place: u32, block_bits: u32, row_bytes: usize) -> (usize, usize) {
    let in_block = place & ((1 << block_bits) - 1);
    ((place >> block_bits) as usize, in_block as usize * row_bytes)
}

/// A hint that the line of memory in which this lies will be used soon.
pub fn prefetch<T>(soon: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; nothing is read or written, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(soon).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = soon;
}

// Fixed sizes become register moves.

fn put<const N: usize>(from: &[u8], rows: &mut [u8], row: usize, at: usize) {
    for (from, to) in from.as_chunks::<N>().0.iter().zip(rows.chunks_exact_mut(row)) {
        to[at..at + N].copy_from_slice(from);
    }
}

fn get<const N: usize>(rows: &[u8], row: usize, at: usize, to: &mut [u8]) {
    for (from, to) in rows.chunks_exact(row).zip(to.as_chunks_mut::<N>().0) {
        to.copy_from_slice(&from[at..at + N]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(first: u64, rows: usize) -> Chunk {
        let n: Vec<i64> = (0..rows as i64).map(|i| first as i64 + i).collect();
        let b: Vec<u8> = n.iter().map(|n| *n as u8).collect();
        let w: Vec<f32> = n.iter().flat_map(|n| [*n as f32, 0.5, -1.]).collect();
        let h: Vec<i16> = n.iter().map(|n| *n as i16).collect();
        let columns = [
            Tensor::from_items([rows], &n),
            Tensor::from_items([rows], &b),
            Tensor::from_items([rows, 3], &w),
            Tensor::from_items([rows, 0], &[] as &[i64]),
            Tensor::from_items([rows], &h),
        ];
        Chunk::new(rows, Pos::Run(first), columns.map(Column::Dense))
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut packed = Packed::like(&chunk(0, 1), 100).unwrap();
        let (mut held, mut places, mut next) = (vec![], vec![], 0u64);
        for round in 0..50usize {
            let rows = 1 + round * 7 % 150;
            let given = chunk(next, rows);
            assert!(packed.fits(&given));
            packed.add(&given, &mut places);
            held.extend(places.iter().copied().zip(next..));
            next += rows as u64;
            let out: Vec<(u32, u64)> = (0..held.len().min(90)).map(|i| held.swap_remove(i * 31 % held.len())).collect();
            let got = packed.take(&out.iter().map(|(p, _)| *p).collect::<Vec<_>>());
            for (row, (_, n)) in out.into_iter().enumerate() {
                assert_eq!(got.pos.at(row), n);
                assert_eq!(got.element(row), chunk(n, 1).element(0));
            }
        }
        // Places are used again.
        assert!(packed.places <= 1024, "{}", packed.places);
    }

    #[test]
    fn rows_that_are_given_whole_are_taken_apart() {
        let given = chunk(7, 150);
        let mut packed = Packed::like(&given, 200).unwrap();
        let (mut places, mut out) = (vec![], vec![]);
        packed.add(&given, &mut places);
        places.reverse();
        let other = Rows::new([Some((DType::Int64, Shape::new())), Some((DType::Int64, Shape::new()))].into_iter());
        assert!(packed.take_whole(&places, &other.unwrap()).is_none(), "other rows are expected");
        let like = Packed::like(&given, 1).unwrap().rows;
        let whole = packed.take_whole(&places, &like).unwrap();
        assert_eq!((whole.rows(), whole.columns().len()), (150, 1));
        Apart(Arc::new(like)).run(whole, &mut out);
        let [Item::Rows(rows)] = &out[..] else { panic!("one chunk") };
        for row in 0..150 {
            let there = 149 - row;
            assert_eq!((rows.pos.at(row), rows.element(row)), (given.pos.at(there), given.element(there)));
        }
        assert_eq!(packed.free.len(), packed.places, "their places are free again");
    }

    #[test]
    fn only_rows_that_gain_by_it() {
        let rows = chunk(0, 3);
        assert!(Packed::like(&Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone()]), 9).is_none(), "one column");
        let text = Column::Dense(Tensor::strings([3], &["a", "b", "c"]));
        assert!(Packed::like(&Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone(), text]), 9).is_none());
        let long = Column::Dense(Tensor::zeros(DType::Uint8, [3, 5000]));
        assert!(Packed::like(&Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone(), long]), 9).is_none());
        let packed = Packed::like(&rows, 9).unwrap();
        rows.freeze();
        assert!(!packed.fits(&rows), "kept by somebody");
    }
}
