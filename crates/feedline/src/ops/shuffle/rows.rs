//! Rows with all their columns one after the other, and their positions in front: how a shuffle keeps short rows of
//! several numbers. Not an operator.
//!
//! Drawing is the work of one thread; putting rows together need not be. Where elements have many columns workers do it,
//! behind the input (`Together`): such rows come as chunks of one column, which elements that can be packed do not have.
//! Taking them apart stays where they are drawn: they are in the first-level cache just then.

use crate::element::{Chunk, Column, DType, Leaf, Pos, Shape, Spec, Tensor};
use crate::runtime::{ChunkFn, Item};
use std::ops::Range;
use std::sync::Arc;

/// Longer rows are kept by reference: a copy would cost more than the waiting.
const MOST_ROW_BYTES: usize = 4 << 10;
/// Rows that are put together or taken apart at once: they stay in the first-level cache.
pub const GROUP: usize = 64;
/// From so many columns on workers do it: until then it costs less than handing rows over.
const MANY_COLUMNS: usize = 8;
const POS_BYTES: usize = 8;

/// How the columns of a row lie behind each other.
#[derive(PartialEq)]
pub struct Rows {
    columns: Vec<Layout>,
    pub bytes: usize,
}

/// A column's place in a row.
#[derive(PartialEq)]
struct Layout {
    dtype: DType,
    inner: Shape,
    offset: usize,
    bytes: usize,
}

/// The rows' items, if they can be packed: fixed sizes, and memory that nobody keeps anyway.
fn plain(column: &Column) -> Option<&Tensor> {
    match column {
        Column::Dense(t) if t.dtype() != DType::String && !t.buf().0.is_kept() => Some(t),
        _ => None,
    }
}

fn position(row: &[u8]) -> u64 {
    u64::from_ne_bytes(row[..POS_BYTES].try_into().expect("eight bytes"))
}

impl Rows {
    /// Of columns of these types and shapes, if all have one and there are so many of them that it is worth while.
    pub fn new(parts: impl Iterator<Item = Option<(DType, Shape)>>, least: usize) -> Option<Rows> {
        let (mut columns, mut offset) = (Vec::new(), POS_BYTES);
        for part in parts {
            let (dtype, inner) = part.filter(|(dtype, _)| *dtype != DType::String)?;
            let bytes = inner.iter().try_fold(dtype.size(), |n, d| n.checked_mul(*d))?;
            columns.push(Layout { dtype, inner, offset, bytes });
            offset = offset.checked_add(bytes).filter(|n| *n <= MOST_ROW_BYTES)?;
        }
        (columns.len() >= least).then(|| Rows { columns, bytes: offset.next_multiple_of(8) })
    }
    /// Of rows like these, which have so many columns.
    pub fn like(chunk: &Chunk, least: usize) -> Option<Rows> {
        if chunk.pos.is_traced() {
            return None;
        }
        Rows::new(chunk.columns().iter().map(|c| plain(c).map(|t| (t.dtype(), t.shape()[1..].into()))), least)
    }
    /// Of elements that have so many columns that workers should put their rows together.
    pub fn of_many_columns(spec: &Spec) -> Option<Rows> {
        let part = |leaf: &&Leaf| match leaf {
            Leaf::Tensor { dtype, shape } => Some((*dtype, shape.dims()?.iter().copied().collect::<Option<Shape>>()?)),
            _ => None,
        };
        Rows::new(spec.leaves().iter().map(part), MANY_COLUMNS)
    }
    /// Whether these rows can be put together.
    pub fn fits(&self, chunk: &Chunk) -> bool {
        let fits = |(layout, column): (&Layout, &Column)| {
            plain(column).is_some_and(|t| t.dtype() == layout.dtype && t.shape()[1..] == layout.inner[..])
        };
        let (columns, all) = (chunk.columns(), &self.columns);
        columns.len() == all.len() && all.iter().zip(columns).all(fits) && !chunk.pos.is_traced()
    }
    /// The rows of a chunk in which they are together already.
    pub fn whole<'a>(&self, chunk: &'a Chunk) -> Option<&'a [u8]> {
        match chunk.columns() {
            [Column::Dense(t)] if t.dtype() == DType::Uint8 && t.shape() == [chunk.rows(), self.bytes] => {
                Some(t.bytes())
            }
            _ => None,
        }
    }
    /// Puts rows of a chunk that fits together; `items` are those of all its rows.
    pub fn put_together(&self, items: &[&[u8]], pos: &Pos, rows: Range<usize>, out: &mut [u8]) {
        let row = self.bytes;
        for (i, to) in rows.clone().zip(out.chunks_exact_mut(row)) {
            to[..POS_BYTES].copy_from_slice(&pos.at(i).to_ne_bytes());
        }
        for (layout, items) in self.columns.iter().zip(items) {
            let (n, at) = (layout.bytes, layout.offset);
            let (from, behind) = items[rows.start * n..].split_at(rows.len() * n);
            // So many columns are more than the processor looks ahead in by itself.
            expect(&behind[..behind.len().min(GROUP * n)]);
            match n {
                1 => put::<1>(from, out, row, at),
                4 => put::<4>(from, out, row, at),
                8 => put::<8>(from, out, row, at),
                0 => {}
                n => {
                    let pairs = from.chunks_exact(n).zip(out.chunks_exact_mut(row));
                    pairs.for_each(|(from, to)| to[at..at + n].copy_from_slice(from));
                }
            }
        }
    }
    /// For results of so many rows.
    pub fn columns(&self, rows: usize) -> Vec<Tensor> {
        let shape = |l: &Layout| std::iter::once(rows).chain(l.inner.iter().copied()).collect::<Shape>();
        self.columns.iter().map(|l| Tensor::new(l.dtype, shape(l))).collect()
    }
    /// Takes some rows apart; the results' rests are those behind them. `between` is called before each column, with its
    /// share of the numbers up to `of`.
    pub fn take_apart(&self, rows: &[u8], outs: &mut [&mut [u8]], of: usize, mut between: impl FnMut(Range<usize>)) {
        let (row, count, all) = (self.bytes, rows.len() / self.bytes, self.columns.len());
        for (c, (layout, out)) in self.columns.iter().zip(outs).enumerate() {
            between(c * of / all..(c + 1) * of / all);
            let (to, rest) = std::mem::take(out).split_at_mut(count * layout.bytes);
            expect(&rest[..rest.len().min(to.len())]);
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
    /// The columns of rows that are together; of a chunk that has columns, these.
    pub fn apart(&self, chunk: Chunk) -> Chunk {
        let Some(rows) = self.whole(&chunk) else { return chunk };
        let mut tensors = self.columns(chunk.rows());
        let mut outs: Vec<&mut [u8]> = tensors.iter_mut().map(|t| t.bytes_mut()).collect();
        rows.chunks(GROUP * self.bytes).for_each(|group| self.take_apart(group, &mut outs, 0, |_| {}));
        Chunk::new(chunk.rows(), chunk.pos.clone(), tensors.into_iter().map(Column::Dense))
    }
    pub fn positions(&self, rows: &[u8]) -> Vec<u64> {
        rows.chunks_exact(self.bytes).map(position).collect()
    }
}

/// What the columns of a chunk that fits consist of.
pub fn items(chunk: &Chunk) -> Vec<&[u8]> {
    fn bytes(column: &Column) -> &[u8] {
        let Column::Dense(t) = column else { unreachable!("checked by `fits`") };
        t.bytes()
    }
    chunk.columns().iter().map(bytes).collect()
}

/// Puts rows together before they come into a shuffle.
pub struct Together(pub Arc<Rows>);

impl ChunkFn for Together {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let rows = &self.0;
        if !rows.fits(&chunk) {
            return out.push(Item::Rows(chunk));
        }
        let mut whole = Tensor::new(DType::Uint8, [chunk.rows(), rows.bytes]);
        let items = items(&chunk);
        for (i, to) in whole.bytes_mut().chunks_mut(GROUP * rows.bytes).enumerate() {
            let first = i * GROUP;
            rows.put_together(&items, &chunk.pos, first..first + to.len() / rows.bytes, to);
        }
        out.push(Item::Rows(Chunk::new(chunk.rows(), chunk.pos.clone(), [Column::Dense(whole)])));
    }
    fn keeps_rows(&self) -> bool {
        true
    }
    fn counts(&self) -> bool {
        false
    }
    fn repeats(&self) -> bool {
        true
    }
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

/// The same for all lines of some memory.
pub fn expect(soon: &[u8]) {
    soon.chunks(64).for_each(|line| prefetch(&line[0]));
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
