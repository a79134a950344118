//! tf.data's shuffle: a buffer of rows; the next one is drawn, the oldest moves into its place, a new one comes in.
//!
//! 0. Short rows of several numbers are packed (`packed.rs`). What follows is for all others.
//! 1. The buffer holds references to rows of chunks as they came. Rows are copied once, when a chunk of them is given.
//! 2. Chunks that continue each other in memory (an array's rows) count as one.
//! 3. A chunk's memory is freed with its last row. When rows that are gone take up as much memory as those that are
//!    there, the rows of chunks that are less than half there are copied together: the buffer needs at most twice its
//!    rows. Memory that others hold anyway (an array, a cache) is left alone.

use super::packed::{Packed, prefetch};
use crate::element::{Chunk, Column, DType, RowRef, Tensor, gather};
use crate::error::Error;
use crate::expr::Philox;
use crate::runtime::{Cx, Pull, Stage};
use std::collections::VecDeque;

/// Below this it is not worth while to copy rows together.
const SLACK_BYTES: usize = 4 << 20;
/// Rows are copied together in this many steps, each of which frees memory before the next.
const STEPS: usize = 8;

pub struct BufferStage {
    input: Box<dyn Stage>,
    size: usize,
    random: Philox,
    /// The next random numbers, from place `drawn % AHEAD` on. They are made early so that the rows that they will choose
    /// can be asked for from memory: a buffer of 100,000 does not fit into the second-level cache.
    ahead: [u32; AHEAD],
    drawn: usize,
    /// Oldest first.
    held: VecDeque<RowRef>,
    /// While all rows can be: where they are. Their references have the part `PACKED`.
    packed: Option<Packed>,
    parts: Parts,
    /// Rows that came in and are not in the buffer yet, from `next` on.
    coming: Vec<RowRef>,
    next: usize,
    /// Met while rows were still to be given.
    error: Option<Error>,
    ended: bool,
    picked: Vec<RowRef>,
    /// Memory for lists of places.
    places: Vec<u32>,
}

/// Random numbers that are made early.
const AHEAD: usize = 8;

/// Not the number of a part: the row is packed.
const PACKED: u32 = u32::MAX;

impl BufferStage {
    pub fn new(input: Box<dyn Stage>, size: usize, mut random: Philox) -> BufferStage {
        BufferStage {
            input,
            size,
            ahead: std::array::from_fn(|_| random.next_u32()),
            drawn: 0,
            random,
            held: VecDeque::new(),
            packed: None,
            parts: Parts::default(),
            coming: Vec::new(),
            next: 0,
            error: None,
            ended: false,
            picked: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Takes rows in, packed if they can be.
    fn take_in(&mut self, chunk: Chunk) {
        self.coming.clear();
        self.next = 0;
        if self.held.is_empty() && self.picked.is_empty() && self.packed.is_none() {
            self.packed = Packed::like(&chunk, self.size);
        }
        match &mut self.packed {
            Some(packed) if packed.fits(&chunk) => {
                packed.add(&chunk, &mut self.places);
                self.coming.extend(self.places.iter().map(|&row| RowRef { part: PACKED, row }));
            }
            _ => {
                self.unpack();
                let (part, rows) = self.parts.add(chunk);
                self.coming.extend(rows.map(|row| RowRef { part, row }));
            }
        }
    }

    /// Rows came that cannot be packed: those that are there become a part like others.
    fn unpack(&mut self) {
        let Some(mut packed) = self.packed.take() else { return };
        let all: Vec<u32> = self.held.iter().chain(&self.picked).map(|r| r.row).collect();
        if all.is_empty() {
            return;
        }
        let (part, rows) = self.parts.add(packed.take(&all));
        for (held, row) in self.held.iter_mut().chain(&mut self.picked).zip(rows) {
            *held = RowRef { part, row };
        }
    }

    /// Moves rows that came in into the buffer, as far as there is room.
    fn fill(&mut self) {
        let room = self.size - self.held.len();
        let end = self.coming.len().min(self.next.saturating_add(room));
        self.held.extend(&self.coming[self.next..end]);
        self.next = end;
    }

    fn draw(&mut self) {
        let n = self.held.len();
        let chosen = |u: u32| match u32::try_from(n) {
            Ok(n) => (u % n) as usize,
            Err(_) => u as usize % n,
        };
        let later = self.random.next_u32();
        let u = std::mem::replace(&mut self.ahead[self.drawn % AHEAD], later);
        self.drawn = self.drawn.wrapping_add(1);
        // By then `AHEAD` rows have left in front. A guess: the buffer may have another length by then.
        if let Some(row) = self.held.get(chosen(later) + AHEAD) {
            prefetch(row);
        }
        self.held.swap(0, chosen(u));
        self.picked.extend(self.held.pop_front());
    }

    fn give(&mut self) -> Pull {
        if let Some(packed) = &mut self.packed {
            self.places.clear();
            self.places.extend(self.picked.drain(..).map(|r| r.row));
            return Pull::Rows(packed.take(&self.places));
        }
        let chunk = gather(&self.picked, |p| self.parts.chunk(p));
        for r in self.picked.drain(..) {
            self.parts.release(r.part);
        }
        if self.parts.is_wasteful() {
            let coming = self.coming.get(self.next).map(|r| r.part);
            self.parts.compact(&mut self.held, coming);
        }
        Pull::Rows(chunk)
    }
}

impl Stage for BufferStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.error.take() {
            return Pull::Fail(error);
        }
        while self.picked.len() < want {
            if self.held.len() < self.size {
                if self.next < self.coming.len() {
                    self.fill();
                    if self.held.len() < self.size {
                        continue;
                    }
                } else if !self.ended {
                    if cx.is_cancelled() {
                        return Pull::End;
                    }
                    // What is missing in the buffer, and one more for each row after the next.
                    let missing = self.size - self.held.len();
                    let ask = missing.saturating_add(want - self.picked.len() - 1);
                    match self.input.next(cx, ask.min(1 << 20)) {
                        Pull::Rows(chunk) => self.take_in(chunk),
                        Pull::End => self.ended = true,
                        stop if self.picked.is_empty() => return stop,
                        Pull::Fail(error) => {
                            self.error = Some(error);
                            break;
                        }
                        Pull::Pending => break,
                    }
                    continue;
                }
            }
            if self.held.is_empty() {
                break;
            }
            self.draw();
        }
        if self.picked.is_empty() { Pull::End } else { self.give() }
    }
}

/// The chunks that rows of the buffer lie in.
#[derive(Default)]
struct Parts {
    slots: Vec<Option<Part>>,
    free: Vec<u32>,
    last: Option<u32>,
    /// Bytes of rows that are there, and of rows that are gone but still take up memory; shared parts not counted.
    live: usize,
    dead: usize,
    /// Waste that could not be helped the last time: looked at again when there is more.
    tolerated: usize,
}

struct Part {
    chunk: Chunk,
    left: usize,
    row_bytes: usize,
    shared: bool,
}

impl Parts {
    fn chunk(&self, part: u32) -> &Chunk {
        &self.slots[part as usize].as_ref().expect("rows are left in it").chunk
    }
    /// Takes a chunk in; says where its rows are.
    fn add(&mut self, chunk: Chunk) -> (u32, std::ops::Range<u32>) {
        let rows = chunk.rows();
        if let Some(last) = self.last
            && let Some(part) = &mut self.slots[last as usize]
            && part.chunk.rows() + rows < u32::MAX as usize
            && part.chunk.extend(&chunk)
        {
            part.left += rows;
            if !part.shared {
                self.live += part.row_bytes * rows;
            }
            let end = part.chunk.rows() as u32;
            return (last, end - rows as u32..end);
        }
        let part = self.push(chunk);
        self.last = Some(part);
        (part, 0..rows as u32)
    }
    fn push(&mut self, chunk: Chunk) -> u32 {
        let (rows, row_bytes) = (chunk.rows(), chunk.nbytes() / chunk.rows());
        self.live += row_bytes * rows;
        let part = Some(Part { chunk, left: rows, row_bytes, shared: false });
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = part;
                at
            }
            None => {
                self.slots.push(part);
                self.slots.len() as u32 - 1
            }
        }
    }
    /// One row of it is gone.
    fn release(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        let Some(part) = slot else { return };
        part.left -= 1;
        if !part.shared {
            self.live -= part.row_bytes;
            self.dead += part.row_bytes;
        }
        if part.left == 0 {
            if !part.shared {
                self.dead -= part.row_bytes * part.chunk.rows();
            }
            *slot = None;
            self.free.push(at);
        }
    }
    fn is_wasteful(&self) -> bool {
        self.dead > self.live.max(SLACK_BYTES).max(self.tolerated)
    }
    /// Copies the rows of parts that are less than half there together, after which less is gone than is there. `coming`
    /// is in use and stays.
    fn compact(&mut self, held: &mut VecDeque<RowRef>, coming: Option<u32>) {
        for part in self.slots.iter_mut().flatten() {
            if !part.shared && part.chunk.is_shared() {
                part.shared = true;
                self.live -= part.row_bytes * part.left;
                self.dead -= part.row_bytes * (part.chunk.rows() - part.left);
            }
        }
        if !self.is_wasteful() {
            return;
        }
        let step = |p: u32| match &self.slots[p as usize] {
            Some(part) if !part.shared && coming != Some(p) && part.left * 2 < part.chunk.rows() => {
                Some(p as usize % STEPS)
            }
            _ => None,
        };
        let mut steps: [Vec<usize>; STEPS] = Default::default();
        for (i, r) in held.iter().enumerate() {
            if let Some(s) = step(r.part) {
                steps[s].push(i);
            }
        }
        for places in steps.into_iter().filter(|p| !p.is_empty()) {
            let rows: Vec<RowRef> = places.iter().map(|&i| held[i]).collect();
            let new = self.push(own(gather(&rows, |p| self.chunk(p))));
            for (row, i) in places.into_iter().enumerate() {
                self.release(held[i].part);
                held[i] = RowRef { part: new, row: row as u32 };
            }
        }
        self.tolerated = 0;
        if self.is_wasteful() {
            self.tolerated = self.dead * 2;
        }
    }
}

/// Strings are given memory of their own: they may be small parts of large blocks.
fn own(chunk: Chunk) -> Chunk {
    let (rows, pos) = (chunk.rows(), chunk.pos.clone());
    let columns = chunk.into_columns().into_iter().map(|c| match c {
        Column::Dense(t) if t.dtype() == DType::String => {
            let strings: Vec<&[u8]> = t.strs().collect();
            Column::Dense(Tensor::strings(t.shape(), &strings))
        }
        other => other,
    });
    Chunk::new(rows, pos, columns.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Pos;

    fn rows(first: u64, n: usize, bytes: usize) -> Chunk {
        let data: Vec<u8> = (0..n * bytes).map(|i| (first as usize + i / bytes) as u8).collect();
        Chunk::new(n, Pos::Run(first), [Column::Dense(Tensor::from_items([n, bytes], &data))])
    }

    struct Source(u64, usize);

    impl Stage for Source {
        fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
            if self.0 >= 2000 {
                return Pull::End;
            }
            let n = want.min(16).min(2000 - self.0 as usize);
            self.0 += n as u64;
            Pull::Rows(rows(self.0 - n as u64, n, self.1))
        }
    }

    fn run(bytes: usize) -> (Vec<u64>, usize) {
        let mut stage = BufferStage::new(Box::new(Source(0, bytes)), 100, Philox::new(1, 2));
        let cancelled = crate::runtime::sync::atomic::AtomicBool::new(false);
        let waker: std::sync::Weak<dyn crate::runtime::Wake> = std::sync::Weak::<Never>::new();
        let mut cx = Cx::new(&waker, &cancelled);
        let (mut order, mut most) = (vec![], 0);
        while let Pull::Rows(chunk) = stage.next(&mut cx, 7) {
            for r in 0..chunk.rows() {
                assert_eq!(chunk.element(r)[0].tensor().items::<u8>()[0], chunk.pos.at(r) as u8);
                order.push(chunk.pos.at(r));
            }
            let bytes: usize = stage.parts.slots.iter().flatten().map(|p| p.chunk.nbytes()).sum();
            most = most.max(bytes);
        }
        assert!(stage.parts.slots.iter().all(|s| s.is_none()));
        assert_eq!((stage.parts.live, stage.parts.dead), (0, 0));
        (order, most)
    }

    struct Never;
    impl crate::runtime::Wake for Never {
        fn wake(&self) {}
    }

    #[test]
    fn memory_is_bounded_and_the_order_does_not_depend_on_it() {
        let (small, _) = run(1);
        let (large, most) = run(100_000);
        assert_eq!(small, large);
        // A hundred rows of 100 kB, twice that at most, and what came in last.
        assert!(most < 100_000 * 230, "{most}");
        let mut all = large;
        all.sort();
        assert_eq!(all, (0..2000).collect::<Vec<_>>());
    }
}
