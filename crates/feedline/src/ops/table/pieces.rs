//! Rows of a table by number: pieces of blocks are decoded when a row of them is asked for, and the last used ones are kept.

use super::{Allowed, Fetch, LOOK_AGAIN, Table, in_file, lent, located, most_at_once, piece_rows, place, rows_in};
use crate::element::{Chunk, Pos, RowRef, gather};
use crate::error::{Error, Kind, Result};
use crate::runtime::sync::{Condvar, Mutex, lock, wait};
use crate::runtime::{BuildCx, Index};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// A block of more bytes is not read as a whole: less than for whoever reads in order and needs all of it, since by number
/// it is mostly a piece.
const BLOCK_BYTES: u64 = 32 << 20;
/// Decoded pieces that are kept.
const KEEP_BYTES: usize = 256 << 20;
/// Where not all pieces can be kept, so many rows are asked for together, or this part of the limit: each piece is decoded
/// once for all of them. One by one, rows of a file of 106 MB under 256 MB took 17 ms each.
const MOST_AT_ONCE: u64 = 8 << 10;
const FEW_AT_ONCE: usize = 64;

/// Pieces that were decoded for access by number, the last used ones.
#[derive(Default)]
pub struct Pieces {
    kept: Mutex<Kept>,
    /// Bytes that are being taken to decode pieces.
    working: Mutex<usize>,
    done: Condvar,
}

/// Room to decode a piece in, until it is dropped.
struct Working<'a> {
    pieces: &'a Pieces,
    bytes: usize,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        *lock(&self.pieces.working) -= self.bytes;
        self.pieces.done.notify_all();
    }
}

type Key = (usize, usize, usize);

#[derive(Default)]
struct Kept {
    /// By block, first row and number of rows.
    pieces: HashMap<Key, Entry>,
    /// What they have in all.
    bytes: usize,
    uses: u64,
}

#[derive(Default)]
struct Entry {
    /// When it was last asked for.
    used: u64,
    slot: Arc<Slot>,
    /// What it counts for: nothing until it was decoded.
    bytes: usize,
}

/// A piece, decoded by the first who asks for it while the others wait.
#[derive(Default)]
struct Slot(Mutex<Option<Arc<Piece>>>);

struct Piece {
    chunk: Chunk,
    bad: Vec<(usize, Error)>,
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pieces")
    }
}

impl Pieces {
    /// Waits until so many bytes can be taken beside those of pieces that are being decoded now; one always can be.
    fn work(&self, bytes: usize, most: usize) -> Working<'_> {
        let mut working = lock(&self.working);
        while *working > 0 && working.saturating_add(bytes) > most {
            working = wait(&self.done, working, LOOK_AGAIN);
        }
        *working += bytes;
        Working { pieces: self, bytes }
    }
    fn get(&self, key: Key, keep: usize, decode: impl FnOnce() -> Result<Piece>) -> Result<Arc<Piece>> {
        let slot = {
            let mut kept = lock(&self.kept);
            kept.uses += 1;
            let uses = kept.uses;
            let entry = kept.pieces.entry(key).or_default();
            entry.used = uses;
            entry.slot.clone()
        };
        let mut there = lock(&slot.0);
        if let Some(piece) = &*there {
            return Ok(piece.clone());
        }
        let decoded = decode().map(Arc::new);
        *there = decoded.as_ref().ok().cloned();
        drop(there);
        let mut kept = lock(&self.kept);
        let Kept { pieces, bytes, .. } = &mut *kept;
        // It may have been let go of meanwhile, and another be decoded in its place: then it counts for nothing.
        let own = pieces.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.slot, &slot));
        let piece = match (decoded, own) {
            (Ok(piece), Some(entry)) => {
                entry.bytes = piece.chunk.nbytes();
                *bytes += entry.bytes;
                piece
            }
            (Ok(piece), None) => piece,
            (Err(error), own) => {
                if own.is_some() {
                    pieces.remove(&key);
                }
                return Err(error);
            }
        };
        while *bytes > keep
            && let Some(oldest) = pieces.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key)
        {
            *bytes -= pieces.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
        drop(kept);
        // What it was decoded with, and older pieces, were many small blocks, which the C library would keep for this thread.
        feedline_io::give_back(piece.chunk.nbytes(), None);
        Ok(piece)
    }
}

/// Access by number.
pub struct TableIndex<T> {
    pub(super) table: Arc<T>,
    pub(super) pieces: Arc<Pieces>,
    pub(super) keep: usize,
    pub(super) limit: usize,
    pub(super) allowed: Allowed,
}

impl<T: Table> TableIndex<T> {
    pub fn new(table: Arc<T>, pieces: Arc<Pieces>, cx: &BuildCx) -> TableIndex<T> {
        let limit = cx.run.budget.limit();
        TableIndex { table, pieces, keep: (limit / 4).min(KEEP_BYTES), limit, allowed: Allowed::new(0, limit) }
    }
    /// Bytes up to which a block is read as a whole, for one piece of it.
    fn whole(&self) -> u64 {
        BLOCK_BYTES.min(self.limit as u64 / 16)
    }
    /// Bytes that are taken to decode a piece: what is read of it, what the decoder has, and what becomes of it.
    fn piece_bytes(&self, block: usize) -> usize {
        let table = &*self.table;
        let piece = table.row_bytes(block).saturating_mul(piece_rows(table, block) as u64);
        let read = table.ranges(block).iter().map(|r| r.end - r.start).sum::<u64>().min(self.whole());
        usize::try_from(piece.saturating_mul(3).saturating_add(read)).unwrap_or(usize::MAX)
    }
    /// The piece with a row of a block, and which row of that it is. Where the piece takes too much, it is the row alone.
    fn piece_with(&self, block: usize, at: usize) -> Result<(Arc<Piece>, usize)> {
        let (rows, size) = (rows_in(&*self.table, block) as usize, piece_rows(&*self.table, block));
        let range = at / size * size..((at / size + 1) * size).min(rows);
        match self.piece(block, range.clone()) {
            Err(error) if error.kind() == Kind::Budget && range.len() > 1 => Ok((self.piece(block, at..at + 1)?, 0)),
            piece => Ok((piece?, at % size)),
        }
    }
    fn piece(&self, block: usize, range: Range<usize>) -> Result<Arc<Piece>> {
        self.pieces.get((block, range.start, range.len()), self.keep, || {
            let table = &*self.table;
            table.check(block)?;
            let is_large = table.shared_bytes(block) > self.keep as u64 / 2;
            // Pieces that share much are decoded one at a time, others as far as there is room.
            let bytes = if is_large { usize::MAX } else { self.piece_bytes(block) };
            let _working = self.pieces.work(bytes, self.limit / 2);
            let (name, is_small) = (table.source(block).name(), |bytes| bytes <= self.whole());
            let fetch = Fetch::start(table, block, is_small);
            let fetched = fetch.bytes as usize;
            let read = table.block(block, fetch.wait(name)?, self.allowed);
            let first = table.starts()[block] + range.start as u64;
            let named = |e| in_file(table, first, e);
            // Where a piece takes too much its row is decoded alone, and not by fewer rows of those that were asked for.
            let _unasked = feedline_io::unasked();
            let takes = table.takes(block, &range, &read).map_err(named)?;
            let room = takes.room(&range, most_at_once(self.limit), self.limit).map_err(named)?;
            let decoded = table.decode(block, range.clone(), &read).map_err(named)?;
            drop(room);
            let chunk = Chunk::new(range.len(), Pos::Run(first), decoded.columns);
            let is_apart = is_large || lent(table, &chunk, fetched);
            let chunk = if is_apart { chunk.apart() } else { chunk.without_waste() };
            // It is handed out again and again.
            chunk.freeze();
            Ok(Piece { chunk, bad: located(table, first, decoded.bad) })
        })
    }
}

impl<T: Table> Index for TableIndex<T> {
    fn len(&self) -> u64 {
        self.table.starts().last().copied().unwrap_or(0)
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let mut pieces: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (i, &row) in rows.iter().enumerate() {
            let (block, at) = place(&*self.table, row);
            pieces.entry((block, at / piece_rows(&*self.table, block))).or_default().push(i);
        }
        let bytes = pieces.keys().map(|(block, _)| self.decoded_bytes(*block, 1)).fold(0, u64::saturating_add);
        if pieces.len() == 1 || bytes <= self.keep as u64 {
            return self.gathered(rows).map_err(|(_, error)| error);
        }
        // Of many pieces one after the other, which is gone before the next is decoded.
        let (mut parts, mut refs) = (Vec::with_capacity(pieces.len()), vec![RowRef { part: 0, row: 0 }; rows.len()]);
        let mut first_bad: Option<(usize, Error)> = None;
        for places in pieces.into_values() {
            let of_piece: Vec<u64> = places.iter().map(|&i| rows[i]).collect();
            match self.gathered(&of_piece) {
                Ok(chunk) => {
                    let part = parts.len() as u32;
                    parts.push(chunk);
                    (0..).zip(&places).for_each(|(row, &i)| refs[i] = RowRef { part, row });
                }
                Err((k, error)) if first_bad.as_ref().is_none_or(|(i, _)| places[k] < *i) => {
                    first_bad = Some((places[k], error))
                }
                Err(_) => {}
            }
        }
        match first_bad {
            Some((_, error)) => Err(error),
            None => Ok(gather(&refs, |p| &parts[p as usize])),
        }
    }
    fn together(&self) -> usize {
        let blocks = 0..self.table.starts().len().saturating_sub(1);
        let bytes = blocks.map(|block| self.decoded_bytes(block, usize::MAX)).fold(0, u64::saturating_add);
        if bytes <= self.keep as u64 {
            return 1;
        }
        let a_row = bytes / self.len().max(1);
        ((self.limit / FEW_AT_ONCE) as u64 / a_row.max(1)).clamp(1, MOST_AT_ONCE) as usize
    }
}

impl<T: Table> TableIndex<T> {
    /// What so many pieces of a block become, more or less, or all of them.
    fn decoded_bytes(&self, block: usize, pieces: usize) -> u64 {
        let (table, rows) = (&*self.table, rows_in(&*self.table, block));
        let of_pieces = (piece_rows(table, block) as u64).saturating_mul(pieces as u64);
        table.row_bytes(block).saturating_mul(of_pieces.min(rows))
    }
    /// These rows, which lie in so few pieces that all can be there; or which of them cannot be had, and why.
    fn gathered(&self, rows: &[u64]) -> Result<Chunk, (usize, Error)> {
        let mut parts: Vec<Arc<Piece>> = Vec::new();
        let mut known: HashMap<(usize, usize), u32> = HashMap::new();
        let mut refs = Vec::with_capacity(rows.len());
        for (i, &row) in rows.iter().enumerate() {
            let (block, at) = place(&*self.table, row);
            let size = piece_rows(&*self.table, block);
            let key = (block, at / size);
            let (part, row_in_piece) = match known.get(&key) {
                Some(part) => (*part, at % size),
                None => {
                    let (piece, row) = self.piece_with(block, at).map_err(|error| (i, error))?;
                    let is_alone = piece.chunk.rows() == 1 && size > 1;
                    parts.push(piece);
                    if !is_alone {
                        known.insert(key, parts.len() as u32 - 1);
                    }
                    (parts.len() as u32 - 1, row)
                }
            };
            if let Ok(bad) = parts[part as usize].bad.binary_search_by_key(&row_in_piece, |(r, _)| *r) {
                return Err((i, parts[part as usize].bad[bad].1.clone().at_element(row)));
            }
            refs.push(RowRef { part, row: row_in_piece as u32 });
        }
        // A few rows would keep alive what all of their pieces lie in, when these have long been decoded anew.
        Ok(match refs[..] {
            [] => Chunk::new(0, Pos::Run(0), []),
            // One may be as large as the limit allows: it is not copied if it is most of its piece.
            [RowRef { row, .. }] => parts[0].chunk.slice(row as usize..row as usize + 1).trimmed(),
            _ => gather(&refs, |p| &parts[p as usize].chunk).without_waste(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PIECE_BYTES;
    use super::super::tests::{Fake, fake};
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_kept_by_number_has_a_bound() {
        let table = Arc::new(Fake { row_bytes: PIECE_BYTES, ..fake(&[0, 100]) });
        let pieces: Arc<Pieces> = Arc::default();
        let index = TableIndex { table, pieces: pieces.clone(), keep: 100, limit: 400, allowed: Allowed::new(0, 400) };
        (0..100).for_each(|row| assert_eq!(index.get(&[row]).unwrap().rows(), 1));
        let kept = lock(&pieces.kept);
        assert!(kept.bytes <= 100 && kept.pieces.len() <= 4, "{} {}", kept.bytes, kept.pieces.len());
    }

    #[test]
    fn rows_from_all_over_are_asked_for_together() {
        let index = |row_bytes, keep, limit| {
            let table = Arc::new(Fake { row_bytes, shared_bytes: 1, ..fake(&[0, 40, 100]) });
            TableIndex { table, pieces: Arc::default(), keep, limit, allowed: Allowed::new(0, 400) }
        };
        let items = |index: &TableIndex<Fake>, rows: &[u64]| {
            let chunk = index.get(rows).unwrap();
            (0..rows.len()).map(|i| chunk.element(i)[0].tensor().item::<i64>() as u64).collect::<Vec<_>>()
        };
        let rows: Vec<u64> = (0..300).map(|i| i * 37 % 100).collect();
        // Ten pieces, none of which is kept: each is decoded once for all of its rows.
        let small = index(PIECE_BYTES / 10, 1, usize::MAX);
        assert_eq!(items(&small, &rows), rows);
        assert_eq!(lock(&small.pieces.kept).uses, 10);
        assert_eq!(items(&index(1, usize::MAX, usize::MAX), &rows), rows);
        // As many as the limit has room for, if not all can be kept.
        assert_eq!(index(1, 100, 400).together(), 1);
        assert_eq!(index(1000, 99_999, 128_000).together(), 2);
        assert_eq!(index(1000, 99_999, usize::MAX).together(), 8 << 10);
        assert_eq!(index(1 << 40, 99_999, 400).together(), 1);
    }

    #[test]
    fn the_first_of_the_rows_that_fail_is_told() {
        let table = Arc::new(Fake { row_bytes: PIECE_BYTES / 10, bad: vec![3, 97], ..fake(&[0, 40, 100]) });
        let allowed = Allowed::new(0, 400);
        let index = TableIndex { table, pieces: Arc::default(), keep: 1, limit: usize::MAX, allowed };
        for (rows, first) in [([50, 97, 3, 60], 97), ([50, 3, 97, 60], 3)] {
            assert_eq!(index.get(&rows).unwrap_err().at().element, Some(first));
        }
    }

    #[test]
    fn what_is_let_go_of_while_it_is_decoded_does_not_count() {
        let pieces = Pieces::default();
        let piece = |rows: usize| {
            let n = crate::element::Tensor::zeros(crate::element::DType::Uint8, [rows]);
            Ok(Piece { chunk: Chunk::new(rows, Pos::Run(0), [crate::element::Column::Dense(n)]), bad: vec![] })
        };
        let get = |key: usize, rows: usize| pieces.get((0, key, 1), 1 << 20, || piece(rows)).map(|p| p.chunk.rows());
        // While it is decoded, another one needs all the room.
        let slow = pieces.get((0, 0, 1), 1 << 20, || get(1, 2 << 20).and_then(|_| piece(600_000)));
        assert_eq!(slow.unwrap().chunk.rows(), 600_000);
        assert_eq!(get(2, 900_000).unwrap(), 900_000);
        let kept = lock(&pieces.kept);
        let counted: usize = kept.pieces.values().map(|entry| entry.bytes).sum();
        assert_eq!((kept.bytes, kept.pieces.contains_key(&(0, 2, 1))), (counted, true));
    }

    #[test]
    fn pieces_that_all_take_much_are_decoded_one_at_a_time() {
        let most = |shared_bytes, limit| {
            let table = Arc::new(Fake { row_bytes: PIECE_BYTES, shared_bytes, ..fake(&[0, 40]) });
            let (pieces, allowed) = (Arc::default(), Allowed::new(0, 400));
            let index = TableIndex { table: table.clone(), pieces, keep: 100, limit, allowed };
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let index = &index;
                    scope.spawn(move || (0..10).for_each(|i| assert!(index.get(&[i * 4 + thread]).is_ok())));
                }
            });
            table.at_work[1].load(Relaxed)
        };
        assert_eq!(most(51, usize::MAX), 1);
        // A piece takes three times what it becomes, and all of them half of the limit.
        assert_eq!(most(1, 8 * PIECE_BYTES as usize), 1);
        assert!(most(1, 13 * PIECE_BYTES as usize) <= 2);
    }
}
