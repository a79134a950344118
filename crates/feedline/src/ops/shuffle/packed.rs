//! Rows of a shuffle's buffer, each in one place: all its columns one after the other (`rows.rs`).
//!
//! A row that is drawn from columns costs a cache line for each of them: 40 columns in a buffer of 100,000 rows were 16 ns
//! a value, nearly all of it waiting. In one place a row is a few lines in a row. Rows are put together when they come in
//! and taken apart when they go out, some at a time, in memory that stays in the first-level cache.
//!
//! The places of the next rows are asked for from memory while these are copied, which hides most of the waiting.
//!
//! Places of rows that are gone are used again, so the memory is that of the rows that are there.

use super::rows::{GROUP, Rows, expect, items};
use crate::element::{Buf, Chunk, Column, Pos};
use std::sync::Arc;

/// Memory comes in blocks of about this size, which the system can back with huge pages, or of this part of what there is.
const BLOCK_BYTES: usize = 4 << 20;
const BLOCK_PART: usize = 64;
/// Rows of one column gain nothing by being in one place, but as they came they need room for those that are gone, and for
/// copying them together: from this part of the memory that there is on they are packed, too.
const MUCH: usize = 4;

pub struct Packed {
    rows: Arc<Rows>,
    /// Rows of a block: two to the power of this.
    block_bits: u32,
    blocks: Vec<Buf>,
    /// Places that hold no row.
    free: Vec<u32>,
    places: usize,
    scratch: Vec<u8>,
}

impl Packed {
    /// For rows like these, if it is worth while. The buffer has at most `size` rows, and `room` bytes. `expected`: how they
    /// lie if workers have put them together.
    pub fn like(chunk: &Chunk, size: usize, room: usize, expected: Option<&Arc<Rows>>) -> Option<Packed> {
        let takes = (chunk.nbytes() / chunk.rows()).saturating_mul(size);
        let rows = match expected {
            Some(rows) if rows.whole(chunk).is_some() || rows.fits(chunk) => rows.clone(),
            _ => Arc::new(Rows::like(chunk, if takes > room / MUCH { 1 } else { 2 })?),
        };
        let most = size.saturating_add(GROUP).checked_next_power_of_two().unwrap_or(usize::MAX);
        let block = BLOCK_BYTES.min(room / BLOCK_PART);
        let block_rows = (block / rows.bytes).next_power_of_two().min(most).max(GROUP);
        let (block_bits, scratch) = (block_rows.ilog2(), vec![0; GROUP * rows.bytes]);
        Some(Packed { rows, block_bits, blocks: vec![], free: vec![], places: 0, scratch })
    }
    /// What it takes of memory.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Buf::len).sum::<usize>() + self.beside_bytes()
    }
    /// What of it lies in no block.
    pub fn beside_bytes(&self) -> usize {
        4 * self.free.capacity()
    }
    /// Whether these rows can be taken in.
    pub fn fits(&self, chunk: &Chunk) -> bool {
        let fits = self.rows.whole(chunk).is_some() || self.rows.fits(chunk);
        fits && self.places + chunk.rows() < u32::MAX as usize
    }
    /// Takes rows in; says where they are.
    pub fn add(&mut self, chunk: &Chunk, places: &mut Vec<u32>) {
        places.clear();
        while self.free.len() < chunk.rows() {
            self.blocks.push(Buf::new(self.rows.bytes << self.block_bits));
            let first = self.places;
            self.places += 1 << self.block_bits;
            self.free.reserve_exact(1 << self.block_bits);
            self.free.extend((first as u32..self.places as u32).rev());
        }
        places.extend(self.free.drain(self.free.len() - chunk.rows()..).rev());
        let (row, bits, whole) = (self.rows.bytes, self.block_bits, self.rows.whole(chunk));
        let items = if whole.is_none() { items(chunk) } else { vec![] };
        // Asked for once: whether a block is shared takes an atomic operation to find out, behind which all copies wait.
        let blocks = self.blocks.iter_mut().map(|block| block.get_mut().expect("blocks are not shared"));
        let mut blocks: Vec<&mut [u8]> = blocks.collect();
        for start in (0..chunk.rows()).step_by(GROUP) {
            let group = start..(start + GROUP).min(chunk.rows());
            for &place in &places[group.clone()] {
                let (block, at) = place_at(place, bits, row);
                expect(&blocks[block][at..at + row]);
            }
            let rows = match whole {
                Some(rows) => &rows[group.start * row..group.end * row],
                None => {
                    let scratch = &mut self.scratch[..group.len() * row];
                    self.rows.put_together(&items, &chunk.pos, group.clone(), scratch);
                    scratch
                }
            };
            for (&place, from) in places[group].iter().zip(rows.chunks_exact(row)) {
                let (block, at) = place_at(place, bits, row);
                blocks[block][at..at + row].copy_from_slice(from);
            }
        }
    }
    /// Asks for rows from memory, without waiting for them.
    fn expect(&self, places: &[u32]) {
        for &place in places {
            let (block, at) = place_at(place, self.block_bits, self.rows.bytes);
            expect(&self.blocks[block].as_slice()[at..at + self.rows.bytes]);
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
            let rows = &self.scratch[..group.len() * row];
            pos.extend(self.rows.positions(rows));
            // A few at a time: the processor has room for some lines on their way, and would wait at the others.
            let behind = Packed::group_behind(places, i);
            self.rows.take_apart(rows, &mut outs, behind.len(), |share| self.expect(&behind[share]));
        }
        self.free.extend_from_slice(places);
        Chunk::new(places.len(), Pos::List(pos.into()), tensors.into_iter().map(Column::Dense))
    }
}

/// The block of a place, and the first byte of its row there.
fn place_at(place: u32, block_bits: u32, row_bytes: usize) -> (usize, usize) {
    let in_block = place & ((1 << block_bits) - 1);
    ((place >> block_bits) as usize, in_block as usize * row_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::rows::Together;
    use super::*;
    use crate::element::{DType, Tensor};
    use crate::runtime::{ChunkFn, Item};

    const ROOM: usize = 1 << 30;

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
        let mut packed = Packed::like(&chunk(0, 1), 100, ROOM, None).unwrap();
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
    fn rows_that_workers_put_together() {
        let given = chunk(7, 150);
        let rows = Arc::new(Rows::like(&given, 2).unwrap());
        let (mut places, mut out) = (vec![], vec![]);
        Together(rows.clone()).run(given.clone(), &mut out);
        let [Item::Rows(together)] = &out[..] else { panic!("one chunk") };
        assert_eq!((together.rows(), together.columns().len()), (150, 1));
        let again = rows.apart(together.clone());
        assert_eq!((again.pos.at(149), again.element(149)), (given.pos.at(149), given.element(149)));
        // Some come in as they are.
        let mut packed = Packed::like(together, 200, ROOM, Some(&rows)).unwrap();
        assert!(packed.fits(&together.slice(3..9)) && packed.fits(&given));
        packed.add(&together.slice(0..100), &mut places);
        let mut all = places.clone();
        packed.add(&given.slice(100..150), &mut places);
        all.extend(&places);
        all.reverse();
        let got = packed.take(&all);
        for row in 0..150 {
            let there = 149 - row;
            assert_eq!((got.pos.at(row), got.element(row)), (given.pos.at(there), given.element(there)));
        }
        // What somebody keeps stays where it is.
        given.keep();
        out.clear();
        Together(rows).run(given.clone(), &mut out);
        let [Item::Rows(same)] = &out[..] else { panic!("one chunk") };
        assert_eq!((same.columns().len(), same.element(5)), (5, given.element(5)));
    }

    #[test]
    fn only_rows_that_gain_by_it() {
        let rows = chunk(0, 3);
        assert!(
            Packed::like(&Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone()]), 9, ROOM, None).is_none(),
            "one column"
        );
        let one = Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone()]);
        assert!(Packed::like(&one, 1000, 30_000, None).is_some(), "unless they take much of what there is");
        let text = Column::Dense(Tensor::strings([3], &["a", "b", "c"]));
        assert!(Packed::like(&Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone(), text]), 9, ROOM, None).is_none());
        let long = Column::Dense(Tensor::zeros(DType::Uint8, [3, 5000]));
        assert!(Packed::like(&Chunk::new(3, Pos::Run(0), [rows.columns()[0].clone(), long]), 9, ROOM, None).is_none());
        let packed = Packed::like(&rows, 9, ROOM, None).unwrap();
        rows.keep();
        assert!(!packed.fits(&rows), "kept by somebody");
    }
}
