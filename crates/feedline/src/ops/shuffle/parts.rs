//! The memory of a shuffle's rows that are not packed: chunks as they came, freed with their last row, and copied together
//! where too much of them is gone.

use crate::element::{Chunk, RowRef, gather};
use std::collections::VecDeque;

/// Rows are copied together in this many steps at least, each of which frees memory before the next, and in more where
/// memory is short: all of them are gone through for each.
const STEPS: usize = 8;
const MOST_STEPS: usize = 16;
/// What a row takes besides while it is copied: its places, before and after, and its position twice.
const COPYING: usize = 48;
/// What a row takes besides: its position. Those of rows as they came mostly follow from the first, but not for long.
const POSITION: usize = size_of::<u64>();
/// Below this it is not worth while to copy rows together.
const SLACK_BYTES: usize = 4 << 20;
/// The chunks that rows of the buffer lie in.
#[derive(Default)]
pub struct Parts {
    pub slots: Vec<Option<Part>>,
    free: Vec<u32>,
    last: Option<u32>,
    /// Bytes of rows that are there, and of rows that are gone but still take up memory; shared parts not counted.
    pub live: usize,
    pub dead: usize,
    /// What lies beside the blocks of all parts: lists of positions.
    pub beside: usize,
    /// Waste that could not be helped the last time: looked at again when there is more.
    tolerated: usize,
}

pub struct Part {
    pub chunk: Chunk,
    left: usize,
    row_bytes: usize,
    shared: bool,
}

impl Part {
    /// Takes in what continues it in memory.
    fn extend(&mut self, next: &Chunk, beside: &mut usize) -> bool {
        let before = self.chunk.pos.nbytes();
        let extended = self.chunk.extend(next);
        *beside += self.chunk.pos.nbytes() - before;
        extended
    }
}

impl Parts {
    pub fn chunk(&self, part: u32) -> &Chunk {
        &self.slots[part as usize].as_ref().expect("rows are left in it").chunk
    }
    /// Takes a chunk in; says where its rows are.
    pub fn add(&mut self, chunk: Chunk) -> (u32, std::ops::Range<u32>) {
        let rows = chunk.rows();
        if let Some(last) = self.last
            && let Some(part) = &mut self.slots[last as usize]
            && part.chunk.rows() + rows < u32::MAX as usize
            && part.extend(&chunk, &mut self.beside)
        {
            part.left += rows;
            if !part.shared {
                self.live += part.row_bytes * rows;
            }
            let end = part.chunk.rows() as u32;
            return (last, end - rows as u32..end);
        }
        self.trim_last();
        let part = self.push(chunk);
        self.last = Some(part);
        (part, 0..rows as u32)
    }
    /// Nothing follows on the last chunk: it must not keep alive much more than it is.
    fn trim_last(&mut self) {
        if let Some(last) = self.last.take()
            && let Some(part) = &mut self.slots[last as usize]
        {
            part.chunk.trim();
        }
    }
    fn push(&mut self, chunk: Chunk) -> u32 {
        let (rows, shared) = (chunk.rows(), chunk.is_kept());
        let row_bytes = chunk.nbytes() / rows + POSITION;
        if !shared {
            self.live += row_bytes * rows;
        }
        self.beside += chunk.pos.nbytes();
        let part = Some(Part { chunk, left: rows, row_bytes, shared });
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
    /// What it takes to know where the parts are.
    pub fn list_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Part>>() + self.free.capacity() * size_of::<u32>()
    }
    /// One row of it is gone.
    pub fn release(&mut self, at: u32) {
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
            self.beside -= part.chunk.pos.nbytes();
            *slot = None;
            self.free.push(at);
        }
    }
    /// Whether rows that are gone take up too much: as much as those that are there, or the `room` for all of them.
    pub fn is_wasteful(&self, room: usize) -> bool {
        self.dead > self.live.max(SLACK_BYTES).min(self.spare(room)).max(self.tolerated)
    }
    /// What rows that are gone may take up where memory is short.
    fn spare(&self, room: usize) -> usize {
        room.saturating_sub(self.live).max(self.live / 8).max(SLACK_BYTES / 4)
    }
    /// Copies the rows of parts that are less than half there together, after which less is gone than is there; where
    /// there is no room for that much, those of all parts of which a row is gone. `coming` is in use and stays.
    pub fn compact(&mut self, held: &mut VecDeque<RowRef>, coming: Option<u32>, room: usize) {
        for part in self.slots.iter_mut().flatten() {
            if !part.shared && part.chunk.is_kept() {
                part.shared = true;
                self.live -= part.row_bytes * part.left;
                self.dead -= part.row_bytes * (part.chunk.rows() - part.left);
            }
        }
        if !self.is_wasteful(room) {
            return;
        }
        let times = if self.spare(room) < self.live { 1 } else { 2 };
        // What shares its memory with rows that are still to come has it alone later.
        let moves = |(p, slot): (u32, &Option<Part>)| {
            slot.as_ref().is_some_and(|part| {
                let is_thin = part.left * times < part.chunk.rows();
                !part.shared && coming != Some(p) && is_thin && !part.chunk.is_shared()
            })
        };
        let thin = (0u32..).zip(&self.slots).filter(|slot| moves(*slot)).filter_map(|(_, slot)| slot.as_ref());
        let bytes = thin.map(|part| part.left * (part.row_bytes + COPYING)).sum::<usize>();
        let steps = bytes.div_ceil((room / 32).max(1)).clamp(STEPS, MOST_STEPS);
        let mut freed = 0;
        // What is made here is whole, and not chosen again.
        for now in 0..steps {
            let is_now = |p: u32| p as usize % steps == now && moves((p, &self.slots[p as usize]));
            let of_now = |(_, r): &(usize, &RowRef)| is_now(r.part);
            let places: Vec<usize> = held.iter().enumerate().filter(of_now).map(|(i, _)| i).collect();
            if places.is_empty() {
                continue;
            }
            let rows: Vec<RowRef> = places.iter().map(|&i| held[i]).collect();
            let new = self.push(gather(&rows, |p| self.chunk(p)).with_own_strings());
            for (row, i) in places.into_iter().enumerate() {
                self.release(held[i].part);
                held[i] = RowRef { part: new, row: row as u32 };
            }
            // Lists of values come from the C library, which would keep what is free of them.
            if self.chunk(new).has_lists() {
                freed += self.slots[new as usize].as_ref().map_or(0, |part| part.left * part.row_bytes);
                freed = if feedline_io::give_back(freed, None) { 0 } else { freed };
            }
        }
        self.tolerated = 0;
        if self.is_wasteful(room) {
            self.tolerated = self.dead * 2;
        }
    }
}
