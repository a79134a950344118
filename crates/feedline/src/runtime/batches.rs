//! Where rows belong in the batches behind a segment: memory for a whole batch, cut into the parts that chunks fill.
//!
//! 1. Whoever pulls the head counts its rows, and asks for no more than are missing in the batch that was begun: a chunk
//!    holds whole batches or lies inside one.
//! 2. The first chunk inside a batch brings memory for all of it. Each chunk takes its part along, and workers make
//!    their results there.
//! 3. `batch` finds parts that lie side by side and joins them without a copy; what it does not find there it copies.
//! 4. An element that fails ends the batch that it stands in (`batch` loses what it had collected), so batches are
//!    counted from the last one that failed. Functions fail later than rows are counted: until it is known, chunks
//!    get parts that do not fit the batches, and are copied.
//! 5. Rows that an operator keeps for later passes must be copied into batches in any case. Workers do that (`Lay`): one
//!    core alone copies large rows at half the speed of the memory.

use super::stage::{ChunkFn, Item};
use crate::element::{Chunk, Column, DType, Leaf, Shape, Slot, Slots, Spec, Tensor, Value};

/// Rows of fewer bytes are copied: counting would cost more.
const SMALL_ROW: usize = 1024;
/// More is not set aside for a batch that may have few rows after all.
const MOST_BYTES: usize = 1 << 30;

pub struct Batches {
    size: usize,
    /// The dtype and the bytes of a row, of each component that is made in place.
    components: Vec<Option<(DType, usize)>>,
    /// What is left of the batch that was begun.
    open: Slots,
}

impl Batches {
    /// Batches of so many such elements; `None` if no component is worth it.
    pub fn new(spec: &Spec, size: usize) -> Option<Batches> {
        let component = |leaf: &&Leaf| match leaf {
            Leaf::Tensor { dtype, shape } if *dtype != DType::String => {
                let sizes: Option<Vec<usize>> = shape.dims()?.iter().copied().collect();
                let bytes = sizes?.iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d))?;
                (bytes >= SMALL_ROW && bytes.checked_mul(size)? <= MOST_BYTES).then_some((*dtype, bytes))
            }
            _ => None,
        };
        let components: Vec<_> = spec.leaves().iter().map(component).collect();
        let any = size > 1 && components.iter().any(|c| c.is_some());
        any.then(|| Batches { size, components, open: Slots::new() })
    }
    /// As many rows as wanted, or fewer, so that a chunk does not cross the end of a batch of which `begun` rows are there.
    pub fn limit(&self, want: usize, begun: usize) -> usize {
        match begun {
            0 if want >= self.size => want,
            begun => want.min(self.size - begun),
        }
    }
    /// Says where the results of these rows belong, which follow `begun` of a batch.
    pub fn place(&mut self, rows: usize, begun: usize) -> Slots {
        if begun == 0 {
            let begin = |c: &Option<(DType, usize)>| c.map(|(dtype, bytes)| Slot::new(dtype, bytes, self.size));
            self.open = if rows < self.size { self.components.iter().map(begin).collect() } else { Slots::new() };
        }
        let left = self.size - begun;
        let part = |slot: &mut Option<Slot>| slot.as_mut().filter(|s| s.rows() == left)?.split_to(rows);
        self.open.iter_mut().map(part).collect()
    }
}

/// Copies rows to where they belong; those of whole batches stay where they lie.
pub struct Lay;

impl ChunkFn for Lay {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        out.push(Item::Rows(chunk));
    }
    fn run_into(&self, chunk: Chunk, mut slots: Slots, out: &mut Vec<Item>) {
        let (rows, pos) = (chunk.rows(), chunk.pos.clone());
        let columns = chunk.into_columns().into_iter().enumerate();
        let columns = columns.map(|(i, column)| match slots.get_mut(i) {
            Some(Some(slot)) => laid(&column, rows, slot).map_or(column, Column::Dense),
            _ => column,
        });
        out.push(Item::Rows(Chunk::new(rows, pos, columns)));
    }
    fn keeps_rows(&self) -> bool {
        true
    }
    fn fills_slots(&self) -> bool {
        true
    }
    fn repeats(&self) -> bool {
        true
    }
}

/// A copy of all rows in the slot; `None` if they are not alike.
fn laid(column: &Column, rows: usize, slot: &mut Slot) -> Option<Tensor> {
    let mut new = |dtype, shape: &[usize]| slot.offer(rows, || Tensor::new(dtype, shape));
    match column {
        Column::Dense(from) => {
            let mut to = new(from.dtype(), from.shape());
            to.bytes_mut().copy_from_slice(from.bytes());
            Some(to)
        }
        Column::Rows(values, range) => {
            let values = &values[range.clone()];
            let first = values.first().and_then(Value::as_tensor)?;
            let alike = |t: &Tensor| t.dtype() == first.dtype() && t.shape() == first.shape();
            if first.nbytes() == 0 || !values.iter().all(|v| v.as_tensor().is_some_and(alike)) {
                return None;
            }
            let shape: Shape = [rows].into_iter().chain(first.shape().iter().copied()).collect();
            let mut to = new(first.dtype(), &shape);
            let places = to.bytes_mut().chunks_exact_mut(first.nbytes());
            places.zip(values).for_each(|(place, v)| place.copy_from_slice(v.tensor().bytes()));
            Some(to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Dims, Pos};

    fn batches(size: usize) -> Batches {
        let picture = Leaf::tensor(DType::Uint8, Dims::of([Some(32), Some(32)]));
        let spec = Spec::tuple(vec![Spec::leaf(picture), Spec::scalar(DType::Int64)]);
        Batches::new(&spec, size).unwrap()
    }
    fn made(slots: &mut Slots, rows: usize) -> Option<Tensor> {
        assert!(slots.get(1).is_none_or(|s| s.is_none()), "a scalar is not worth it");
        let slot = slots.first_mut()?.as_mut()?;
        assert_eq!(slot.rows(), rows);
        Some(slot.offer(rows, || Tensor::new(DType::Uint8, [rows, 32, 32])))
    }

    #[test]
    fn chunks_end_where_batches_end() {
        let b = batches(8);
        assert_eq!([3, 8, 20].map(|want| b.limit(want, 0)), [3, 8, 20]);
        assert_eq!([1, 3, 8, 20].map(|want| b.limit(want, 6)), [1, 2, 2, 2]);
    }

    #[test]
    fn parts_of_a_batch_lie_side_by_side() {
        let mut b = batches(8);
        let parts: Vec<Tensor> =
            [(3, 0), (3, 3), (2, 6)].map(|(n, begun)| made(&mut b.place(n, begun), n).unwrap()).into();
        let at = parts[0].bytes().as_ptr();
        let batch = Tensor::rejoin([8, 32, 32], parts).unwrap();
        assert!(batch.bytes().as_ptr() == at && batch.is_unique());
        assert!(made(&mut b.place(8, 0), 8).is_none(), "a whole batch is its own memory");
        assert!(made(&mut b.place(4, 0), 4).is_some());
    }

    #[test]
    fn after_a_failure_batches_are_counted_anew() {
        let mut b = batches(4);
        b.place(2, 0);
        // The next one failed.
        let first = made(&mut b.place(1, 0), 1).unwrap();
        let rest = made(&mut b.place(3, 1), 3).unwrap();
        assert!(Tensor::rejoin([4, 32, 32], vec![first, rest]).is_ok());
        // A function's failure comes late: when it is known, rows of a batch that begins behind it are on their way.
        b.place(4, 0);
        assert!(made(&mut b.place(2, 1), 2).is_none(), "the batch was begun elsewhere");
        assert!(made(&mut b.place(1, 0), 1).is_some());
    }

    #[test]
    fn kept_rows_are_laid_side_by_side() {
        let picture = |n: u8, shape: &[usize]| {
            let mut t = Tensor::new(DType::Uint8, shape);
            t.bytes_mut().fill(n);
            t
        };
        let labels = |n: usize| Column::Dense(Tensor::zeros(DType::Int64, [n]));
        let apart = Column::Rows((0..3).map(|n| Value::Tensor(picture(n, &[32, 32]))).collect(), 0..3);
        let chunk = Chunk::new(3, Pos::Run(0), [apart, labels(3)]);
        let dense = Chunk::new(5, Pos::Run(3), [Column::Dense(picture(7, &[5, 32, 32])), labels(5)]);
        chunk.freeze();
        dense.freeze();
        let mut b = batches(8);
        let mut out = vec![];
        Lay.run_into(chunk, b.place(3, 0), &mut out);
        Lay.run_into(dense, b.place(5, 3), &mut out);
        let parts = out.into_iter().map(|item| match item {
            Item::Rows(chunk) => chunk,
            Item::Fail(error) => panic!("{error}"),
        });
        let (batch, copied) = Chunk::gathered(Pos::Run(0), parts.collect());
        assert_eq!(copied, 8 * 8, "labels only");
        let pictures = batch.columns()[0].stack().unwrap();
        let firsts: Vec<u8> = pictures.tensor().bytes().chunks(1024).map(|p| p[0]).collect();
        assert_eq!(firsts, [0, 1, 2, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn what_is_small_unknown_or_huge_is_copied() {
        let leaf = |shape: Dims| Spec::leaf(Leaf::tensor(DType::Float32, shape));
        assert!(Batches::new(&leaf(Dims::of([Some(255)])), 8).is_none());
        assert!(Batches::new(&leaf(Dims::of([Some(256)])), 8).is_some());
        assert!(Batches::new(&leaf(Dims::of([Some(256)])), 1).is_none());
        assert!(Batches::new(&leaf(Dims::of([Some(256), None])), 8).is_none());
        assert!(Batches::new(&leaf(Dims::unknown()), 8).is_none());
        assert!(Batches::new(&leaf(Dims::of([Some(256)])), usize::MAX).is_none());
        assert!(Batches::new(&leaf(Dims::of([Some(usize::MAX), Some(usize::MAX)])), 8).is_none());
    }
}
