//! Rows that lie in files in blocks (row groups, record batches), decoded by workers. Not an operator: what the sources
//! that know where each row lies share.
//!
//! 1. The head, pulled by one worker at a time, starts the reads of the next blocks, as many as there is room for (`Room`),
//!    and hands out pieces of the first block that is there: rows without columns, whose positions say which they are.
//! 2. `Decode` makes columns of such rows; any number of workers run it side by side. What is decoded waits in the queue
//!    of the segment, which is bounded in bytes: neither a file nor a block is ever decoded as a whole.
//!    Functions behind it are run on fewer rows at a time: 64,000 paths may be as many pictures.
//! 3. The bytes of a block go when its last piece is decoded.
//! 4. By number, a row's piece is decoded and kept for the next row that lies in it (`pieces.rs`).

mod pieces;

pub use pieces::{Pieces, TableIndex};

use crate::element::{Chunk, Column, Dims, Leaf, Pos, Spec, is_waste};
use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use crate::runtime::bytes_text as size;
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, Budget, BuildCx, Built, ChunkFn, Cx, Item, Mark, Promise, Pull, Stage, Wake, unfit};
use feedline_io::{Buf, Scratch, Source, Task, scratch};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Bytes of blocks that may be read ahead of their decoding, or an eighth of the limit; one block is always read.
const AHEAD_BYTES: u64 = 32 << 20;
/// A block of more bytes is not read as a whole: decoding reads what it needs, and keeps what others need, too.
const BLOCK_BYTES: u64 = 256 << 20;
/// Pieces have about this size, and about so many rows at most; less than twice that in any case.
const PIECE_BYTES: u64 = 8 << 20;
const PIECE_ROWS: u64 = 64 << 10;
/// Whoever waits for room is told of it; this is for the case that nobody does.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Rows of a piece that is decoded.
pub struct Decoded {
    pub columns: Vec<Column>,
    /// Rows that cannot be elements, in rising order. Their places in the columns have arbitrary values.
    pub bad: Vec<(usize, Error)>,
}

/// A table in blocks.
pub trait Table: Send + Sync + 'static {
    /// A block that was read, and what its pieces share when they are decoded.
    type Block: Send + Sync;

    /// The number of each block's first row, and in the end the number of all rows.
    fn starts(&self) -> &[u64];
    /// Bytes that a row of the block takes up when it is decoded, more or less.
    fn row_bytes(&self, block: usize) -> u64;
    /// Bytes that are taken to decode any piece of a block, however small, and are then kept for the others.
    fn shared_bytes(&self, _block: usize) -> u64 {
        0
    }
    fn source(&self, block: usize) -> &Arc<dyn Source>;
    /// The bytes of a block.
    fn ranges(&self, block: usize) -> Vec<Range<u64>>;
    /// Whether rows of a block can be decoded before it was read: then what is needed of it is read by `decode`.
    fn reads(&self) -> bool {
        false
    }
    /// Whether the file of a block is still what it was. Called before the first of its blocks is decoded in a pass.
    fn check(&self, block: usize) -> Result<()>;
    /// A block, from the bytes of its ranges, or from none.
    fn block(&self, block: usize, read: Vec<Buf>, allowed: Allowed) -> Self::Block;
    /// What is taken to decode some rows, where that may be more than `row_bytes` says: a row may be longer than others.
    fn takes(&self, _number: usize, _rows: &Range<usize>, _block: &Self::Block) -> Result<Takes> {
        Ok(Takes::default())
    }
    fn decode(&self, number: usize, rows: Range<usize>, block: &Self::Block) -> Result<Decoded>;
    /// Whether its pieces point into what was read of their block, and keep all of that alive.
    fn lends(&self) -> bool {
        false
    }
    /// Whether it stands for a stream, of which no block may be left out: what cannot be read ends the pass.
    fn is_stream(&self) -> bool {
        false
    }
}

/// Bytes that are taken for rows while they are decoded, and the column that takes most of them.
#[derive(Debug, Default)]
pub struct Takes {
    pub bytes: usize,
    pub column: String,
    /// They are a library's memory, which does not count by itself.
    pub is_foreign: bool,
}

impl Takes {
    /// Room for them, which counts until it is dropped. Rows that take more than `most` of the limit can never be had; if that
    /// is one alone, it is said at once, otherwise fewer of them may be tried first (`ask`).
    fn room(&self, rows: &Range<usize>, most: usize, limit: usize) -> Result<Option<Scratch>> {
        if rows.len() > 1 {
            feedline_io::ask(self.bytes);
        }
        if self.bytes > most {
            let column = &self.column;
            let text = match rows.len() {
                1 => format!("a row takes {}, most of it for the column {column:?}", size(self.bytes)),
                n => format!("{n} rows take {}, most of it for the column {column:?}", size(self.bytes)),
            };
            let needed = (self.bytes / 7).saturating_mul(8).saturating_add(100_000);
            return Err(Error::new(
                Kind::Budget,
                format!(
                    "{text}, and a memory_limit of {} leaves {} for that: raise it to {} or more, leave the column out with \
                     columns=[...], or write shorter rows",
                    size(limit),
                    size(most),
                    size(needed)
                ),
            ));
        }
        feedline_io::ask(self.bytes);
        Ok((self.is_foreign && self.bytes > 0).then(|| scratch(self.bytes)))
    }
}

/// What decoding may take. Arrays are not decoded.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "columnar"), expect(dead_code))]
pub struct Allowed {
    /// Bytes of one piece that are kept for others.
    pub keep_bytes: usize,
    /// Bytes that a column of a piece may become, where that is not known before it is decoded.
    pub piece_bytes: usize,
    /// Bytes that may be taken for what all pieces of a block share: the pieces are copied out of it, one at least.
    pub shared_bytes: usize,
}

/// Bytes that may be taken to decode a piece under any limit.
const LEAST_AT_ONCE: usize = 1 << 20;

/// What may be taken to decode a piece at once, of the limit.
fn most_at_once(limit: usize) -> usize {
    (limit / 8 * 7).max(LEAST_AT_ONCE)
}

impl Allowed {
    fn new(keep_bytes: usize, limit: usize) -> Allowed {
        Allowed { keep_bytes, piece_bytes: limit / 4, shared_bytes: limit / 2 }
    }
}

/// What reading may take.
#[derive(Clone)]
struct Room {
    budget: Arc<Budget>,
}

impl Room {
    /// Bytes that may be read before they are decoded.
    fn ahead_bytes(&self) -> u64 {
        AHEAD_BYTES.min(self.budget.limit() as u64 / 8)
    }
    /// Whether a block of so many bytes is read as a whole: while it and the next one take half of what is free, since there
    /// may be other readers.
    fn has(&self, bytes: u64) -> bool {
        let limit = self.budget.limit() as u64;
        let free = limit.saturating_sub(self.budget.live() as u64);
        bytes <= BLOCK_BYTES.min(limit / 16) && (bytes <= self.ahead_bytes() / 8 || 4 * bytes <= free)
    }
    fn allowed(&self) -> Allowed {
        let limit = self.budget.limit();
        Allowed::new((BLOCK_BYTES as usize).min(limit / 16), limit)
    }
    /// Bytes that are taken to decode any piece of a block, if these are worth waiting for.
    fn needs(&self, table: &impl Table, block: usize) -> usize {
        let bytes = table.shared_bytes(block);
        if is_large(bytes, self.budget.limit()) { usize::try_from(bytes).unwrap_or(usize::MAX) } else { 0 }
    }
}

/// Whether what pieces share is so much that there should be few of them at a time, and that no row should keep it alive.
fn is_large(shared_bytes: u64, limit: usize) -> bool {
    shared_bytes > limit as u64 / 8
}

/// An error of a block.
fn of_block(table: &impl Table, error: Error) -> Error {
    if table.is_stream() { error.that_ends() } else { error }
}

fn rows_in(table: &impl Table, block: usize) -> u64 {
    table.starts()[block + 1] - table.starts()[block]
}

/// The block of a row, and its place there.
fn place(table: &impl Table, row: u64) -> (usize, usize) {
    let block = table.starts().partition_point(|start| *start <= row) - 1;
    (block, (row - table.starts()[block]) as usize)
}

/// The number in its file of a row.
#[cold]
fn row_in_file(table: &impl Table, row: u64) -> u64 {
    let (block, _) = place(table, row);
    let is_other = |b: &usize| !Arc::ptr_eq(table.source(*b), table.source(block));
    let first = (0..block).rev().find(is_other).map_or(0, |other| other + 1);
    row - table.starts()[first]
}

/// An error of a row, or of those from it on, with its file and its number there.
#[cold]
fn in_file(table: &impl Table, row: u64, error: Error) -> Error {
    let (block, _) = place(table, row);
    error.at_record(row_in_file(table, row)).in_file(table.source(block).name(), None)
}

/// Rows of a piece that begins with row `first`, each with its error, which learns where that is.
fn located(table: &impl Table, first: u64, bad: Vec<(usize, Error)>) -> Vec<(usize, Error)> {
    if bad.is_empty() {
        return bad;
    }
    let (source, before) = (table.source(place(table, first).0), row_in_file(table, first));
    let located =
        |(row, error): (usize, Error)| (row, error.at_record(before + row as u64).in_file(source.name(), None));
    bad.into_iter().map(located).collect()
}

/// How many rows of a block are decoded at once: equal pieces, so that none is a small rest. A block is cut only if it is
/// twice as large as a piece should be, because a page that is cut is decompressed for both pieces.
fn piece_rows(table: &impl Table, block: usize) -> usize {
    let rows = rows_in(table, block).max(1);
    let most = (PIECE_BYTES / table.row_bytes(block).max(1)).clamp(1, PIECE_ROWS);
    rows.div_ceil((rows / most).max(1)) as usize
}

/// Files are opened by so many threads at once: remote ones take their time.
#[cfg(feature = "columnar")]
const OPENERS: usize = 16;

/// Opens all files; the first error in their order is given.
#[cfg(feature = "columnar")]
pub fn in_parallel<T: Send + Sync>(names: &[String], open: impl Fn(&String) -> Result<T> + Sync) -> Result<Vec<T>> {
    use feedline_io::{Interest, Witness};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    if names.len() <= 4 {
        return names.iter().map(open).collect();
    }
    let (next, witness, interest) = (AtomicUsize::new(0), Witness::current(), Interest::current());
    let slots: Vec<OnceLock<Result<T>>> = names.iter().map(|_| OnceLock::new()).collect();
    let (promise, all) = Task::promised(|| ());
    let promise = Arc::new(promise);
    std::thread::scope(|scope| {
        for _ in 0..OPENERS.min(names.len()) {
            let promise = promise.clone();
            let (next, slots, open, witness, interest) = (&next, &slots, &open, &witness, &interest);
            scope.spawn(move || {
                let (_watched, _working) = (Witness::enter(witness.clone()), Interest::enter(interest.clone()));
                loop {
                    let i = next.fetch_add(1, Relaxed);
                    let Some((name, slot)) = names.get(i).zip(slots.get(i)) else { break };
                    let _ = slot.set(feedline_io::wanted().and_then(|()| open(name)));
                }
                // It is fulfilled when the last of them lets go of it.
                drop(promise);
            });
        }
        drop(promise);
        // While it joins them, this thread could not look whether anybody still waits for it.
        all.wait();
    });
    slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(|| Err(Error::internal("not opened")))).collect()
}

/// The columns (each with its spec, of one leaf or several) of which something is read, and the places of all their
/// leaves; `None` if that is all of them. One is always kept: there must be something to count rows by, which is one of
/// items of one size if there is such a column. `rows_only`: that has been done.
pub fn read_columns<'a>(
    columns: impl Iterator<Item = &'a Spec>,
    reads: &[bool],
    rows_only: bool,
) -> Option<(Vec<usize>, Vec<usize>)> {
    let (mut at, mut smallest) = (0, (u64::MAX, 0));
    let columns: Vec<Range<usize>> = columns
        .enumerate()
        .map(|(i, spec)| {
            let bytes = spec.leaves().into_iter().map(fixed_bytes).sum::<Option<u64>>().unwrap_or(u64::MAX);
            smallest = smallest.min((bytes, i));
            let from = at;
            at += spec.leaf_count();
            from..at
        })
        .collect();
    let mut kept: Vec<usize> =
        (0..columns.len()).filter(|&c| columns[c].clone().any(|leaf| reads.get(leaf) == Some(&true))).collect();
    let nothing = kept.is_empty();
    if nothing {
        kept.push(smallest.1);
    }
    if columns.is_empty() || kept.len() >= columns.len() && (rows_only || !nothing) {
        return None;
    }
    let leaves = kept.iter().flat_map(|&c| columns[c].clone()).collect();
    Some((kept, leaves))
}

/// Bytes of a leaf whose size is the same in all rows.
pub fn fixed_bytes(leaf: &Leaf) -> Option<u64> {
    let shape = leaf.shape().and_then(Dims::full)?;
    let size = leaf.dtype().map(|d| d.size()).filter(|size| *size > 0)?;
    shape.iter().try_fold(size, |n, &d| n.checked_mul(d)).map(|n| n as u64)
}

/// All rows in order, from the row with this number on.
pub fn build<T: Table>(table: Arc<T>, cx: &BuildCx, node: &Plan, first: u64) -> Built {
    let loaded = Arc::new(Mutex::new(HashMap::new()));
    let room = Room { budget: cx.run.budget.clone() };
    let (reads, name, starts) = (VecDeque::new(), node.name(), table.starts());
    let fetch = starts[1..].partition_point(|end| *end <= first);
    let row = if fetch + 1 < starts.len() { (first - starts[fetch]) as usize } else { 0 };
    let decode = Decode { table: table.clone(), loaded: loaded.clone(), limit: room.budget.limit(), name };
    let head = Head { table, loaded, room, fetch, reads, block: None, row, checked: None, name };
    cx.open_coarse(node, Box::new(head), Arc::new(decode))
}

/// A block that was read, and how many of its rows still need it.
struct Loaded<B> {
    block: Arc<B>,
    bytes: u64,
    left: usize,
    /// For what its pieces share, until one of them has made it.
    promise: Option<Promise>,
    /// For each piece that is being decoded, if they share much.
    pieces: Vec<Promise>,
}

type Blocks<B> = Arc<Mutex<HashMap<usize, Loaded<B>>>>;

struct Head<T: Table> {
    table: Arc<T>,
    loaded: Blocks<T::Block>,
    room: Room,
    /// The next block to read.
    fetch: usize,
    reads: VecDeque<Fetch>,
    /// The block that is being handed out, and the next row of it.
    block: Option<(usize, usize)>,
    /// The first row of the block that comes next: where a state says.
    row: usize,
    /// The file that was looked at last: asking a store about it for each block would take its time.
    checked: Option<Arc<dyn Source>>,
    /// The operator, for messages.
    name: &'static str,
}

/// A block on its way.
struct Fetch {
    block: usize,
    bytes: u64,
    /// Ranges with what has come of them.
    parts: Vec<(Range<u64>, Part)>,
}

enum Part {
    Coming(Task<Result<Buf>>),
    There(Buf),
}

impl Fetch {
    /// Reads the block if there is room for all of it, or if it has to be.
    fn start(table: &impl Table, block: usize, has_room: impl FnOnce(u64) -> bool) -> Fetch {
        let source = table.source(block);
        let mut ranges = table.ranges(block);
        let mut bytes = ranges.iter().map(|r| r.end - r.start).sum();
        if table.reads() && !has_room(bytes) {
            (ranges, bytes) = (vec![], 0);
        }
        let read = |range: Range<u64>| {
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            (range.clone(), Part::Coming(source.clone().read(range.start, len)))
        };
        Fetch { block, bytes, parts: ranges.into_iter().map(read).collect() }
    }
    fn poll(&mut self, name: &str, waker: &Waker) -> Poll<Result<()>> {
        for (range, part) in &mut self.parts {
            if let Part::Coming(task) = part {
                let Poll::Ready(read) = task.poll_with(waker) else { return Poll::Pending };
                match read.and_then(|buf| whole(buf, range, name)) {
                    Ok(buf) => *part = Part::There(buf),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
        Poll::Ready(Ok(()))
    }
    /// The same, waiting.
    fn wait(self, name: &str) -> Result<Vec<Buf>> {
        let wait = |(range, part): (Range<u64>, Part)| match part {
            Part::Coming(task) => task.wait().and_then(|buf| whole(buf, &range, name)),
            Part::There(buf) => Ok(buf),
        };
        self.parts.into_iter().map(wait).collect()
    }
    fn read(self) -> Vec<Buf> {
        let there = |(_, part)| match part {
            Part::There(buf) => buf,
            Part::Coming(_) => unreachable!("all parts have come"),
        };
        self.parts.into_iter().map(there).collect()
    }
}

/// A read that came out short is a file that is cut off.
fn whole(buf: Buf, range: &Range<u64>, name: &str) -> Result<Buf> {
    let missing = range.end - range.start - buf.len() as u64;
    match missing {
        0 => Ok(buf),
        n => Err(Error::loss(format!("ends {n} bytes early: it is cut off"))
            .in_file(name, Some(range.start + buf.len() as u64))),
    }
}

/// Reads wake whoever waits for the stage.
struct Woken(Weak<dyn Wake>);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = self.0.upgrade() {
            waker.wake();
        }
    }
}

impl<T: Table> Head<T> {
    /// Starts the reads that there is room for.
    fn read_ahead(&mut self) {
        let blocks = self.table.starts().len() - 1;
        let loaded: u64 = lock(&self.loaded).values().map(|l| l.bytes).sum();
        let mut held = loaded + self.reads.iter().map(|f| f.bytes).sum::<u64>();
        while self.fetch < blocks && (self.reads.is_empty() || held < self.room.ahead_bytes()) {
            let block = self.fetch;
            self.fetch += 1;
            if rows_in(&*self.table, block) > 0 {
                let fetch = Fetch::start(&*self.table, block, |bytes| self.room.has(bytes));
                held += fetch.bytes;
                self.reads.push_back(fetch);
            }
        }
    }
    /// Bytes of a piece of a block whose pieces share much: they are copied out of that.
    fn piece_needs(&self, block: usize) -> usize {
        match self.room.needs(&*self.table, block) {
            0 => 0,
            _ => piece_rows(&*self.table, block).saturating_mul(self.table.row_bytes(block) as usize),
        }
    }
    fn promise_piece(&self, block: usize) {
        let bytes = self.piece_needs(block);
        if let Some(loaded) = lock(&self.loaded).get_mut(&block).filter(|_| bytes > 0) {
            loaded.pieces.push(self.room.budget.promise(bytes));
        }
    }
    fn check(&mut self, block: usize) -> Result<()> {
        let source = self.table.source(block);
        if self.checked.as_ref().is_none_or(|last| !Arc::ptr_eq(last, source)) {
            self.table.check(block)?;
            self.checked = Some(source.clone());
        }
        Ok(())
    }
    /// The first block that was asked for, when all of it is there.
    fn arrive(&mut self, waker: &Waker) -> Poll<Option<Result<()>>> {
        let Some(first) = self.reads.front_mut() else { return Poll::Ready(None) };
        let block = first.block;
        let name = self.table.source(block).name();
        let Poll::Ready(came) = first.poll(name, waker) else { return Poll::Pending };
        let fetch = self.reads.pop_front().expect("looked at above");
        // Whatever becomes of this block: the next one begins with its first row.
        let row = std::mem::take(&mut self.row);
        let came = came.and_then(|()| self.check(block));
        Poll::Ready(Some(came.map(|()| {
            let left = (rows_in(&*self.table, block) - row as u64) as usize;
            let bytes = fetch.bytes;
            let read = self.table.block(block, fetch.read(), self.room.allowed());
            let promise = match self.room.needs(&*self.table, block) {
                0 => None,
                bytes => Some(self.room.budget.promise(bytes)),
            };
            let loaded = Loaded { block: Arc::new(read), bytes, left, promise, pieces: vec![] };
            lock(&self.loaded).insert(block, loaded);
            self.block = Some((block, row));
        })))
    }
}

impl<T: Table> Stage for Head<T> {
    /// A piece at a time, whatever is wanted: only `Decode` sees it.
    fn next(&mut self, cx: &mut Cx<'_>, _: usize) -> Pull {
        loop {
            if let Some((block, row)) = self.block {
                let rows = rows_in(&*self.table, block) as usize;
                if row < rows {
                    let n = piece_rows(&*self.table, block).min(rows - row);
                    self.block = Some((block, row + n));
                    self.promise_piece(block);
                    return Pull::Rows(Chunk::new(n, Pos::Run(self.table.starts()[block] + row as u64), []));
                }
                self.block = None;
            }
            self.read_ahead();
            let waker = Waker::from(Arc::new(Woken(cx.waker.clone())));
            match self.arrive(&waker) {
                Poll::Pending => return Pull::Pending,
                Poll::Ready(None) => return Pull::End,
                Poll::Ready(Some(Err(error))) => return Pull::Fail(of_block(&*self.table, error.in_op(self.name))),
                Poll::Ready(Some(Ok(()))) => {}
            }
        }
    }
    fn needs(&self) -> usize {
        let within = self.block.filter(|(block, row)| (*row as u64) < rows_in(&*self.table, *block));
        let next = self.reads.front().map_or(self.fetch, |f| f.block);
        match within {
            Some((block, _)) => self.piece_needs(block),
            None if next + 1 >= self.table.starts().len() => 0,
            None => self.room.needs(&*self.table, next).saturating_add(self.piece_needs(next)),
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        let next = self.reads.front().map_or(self.fetch, |f| f.block);
        let (block, row) = self.block.unwrap_or((next, self.row));
        out.number(block as u64);
        out.number(row as u64);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let block = at.up_to(self.table.starts().len() as u64 - 1)? as usize;
        let row = at.number()?;
        lock(&self.loaded).clear();
        self.reads.clear();
        (self.fetch, self.block) = (block, None);
        self.row = match row {
            0 => 0,
            row if block + 1 < self.table.starts().len() && row <= rows_in(&*self.table, block) => row as usize,
            _ => return Err(unfit()),
        };
        // All of it was given: the next one follows.
        if row > 0 && row == rows_in(&*self.table, block) {
            (self.fetch, self.row) = (block + 1, 0);
        }
        Ok(())
    }
}

struct Decode<T: Table> {
    table: Arc<T>,
    loaded: Blocks<T::Block>,
    limit: usize,
    /// The operator, for messages.
    name: &'static str,
}

impl<T: Table> ChunkFn for Decode<T> {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let first = chunk.pos.at(0);
        let (number, row) = place(&*self.table, first);
        let block = lock(&self.loaded).get(&number).map(|l| l.block.clone());
        let Some(block) = block else {
            return out.push(Item::Fail(Error::internal("the bytes of a block are gone")));
        };
        let rows = row..row + chunk.rows();
        let takes = {
            let _unasked = feedline_io::unasked();
            self.table.takes(number, &rows, &block)
        };
        // Where there is no room this unwinds, and is done again later, with fewer rows if need be.
        let room = takes.and_then(|takes| takes.room(&rows, most_at_once(self.limit), self.limit));
        // From here on rows are counted off, which must not be done twice.
        let _unasked = feedline_io::unasked();
        let decoded = room.and_then(|room| {
            let decoded = self.table.decode(number, rows, &block);
            drop(room);
            decoded
        });
        let mut loaded = lock(&self.loaded);
        let promises = loaded.get_mut(&number).map(|l| (l.promise.take(), l.pieces.pop()));
        let read = loaded.get(&number).map_or(0, |l| l.bytes);
        let done = match loaded.get_mut(&number) {
            Some(l) if l.left <= chunk.rows() => loaded.remove(&number),
            Some(l) => {
                l.left -= chunk.rows();
                None
            }
            None => None,
        };
        drop(loaded);
        drop((block, done, promises));
        match decoded {
            Ok(mut decoded) => {
                decoded.bad = located(&*self.table, first, decoded.bad);
                decoded.bad.iter_mut().for_each(|(_, error)| *error = error.clone().in_op(self.name));
                let is_large = is_large(self.table.shared_bytes(number), self.limit);
                // Its share of what was read.
                let part = chunk.rows() as f64 / rows_in(&*self.table, number).max(1) as f64;
                split(decoded, chunk, |rows| is_large || lent(&*self.table, rows, (read as f64 * part) as usize), out);
            }
            Err(error) => {
                let rows = chunk.rows();
                let error = error.reworded(|said| format!("{said}; {rows} rows from row {first} on are lost"));
                let error = of_block(&*self.table, error.at_element(first).in_op(self.name));
                out.push(Item::Fail(in_file(&*self.table, first, error)));
            }
        }
    }
    fn repeats(&self) -> bool {
        true
    }
}

/// Whether rows keep alive much more than they are: of what was read, of which this is theirs, most are other columns.
fn lent(table: &impl Table, rows: &Chunk, read: usize) -> bool {
    table.lends() && is_waste(read, rows.nbytes())
}

/// The good rows in their order, with an error in the place of each bad one. Rows of a piece may point into what it shares
/// with the whole block: `are_apart` says if they should not.
fn split(decoded: Decoded, chunk: Chunk, are_apart: impl FnOnce(&Chunk) -> bool, out: &mut Vec<Item>) {
    let (rows, pos) = (chunk.rows(), chunk.pos.clone());
    let chunk = Chunk::new(rows, pos.clone(), decoded.columns);
    let chunk = if are_apart(&chunk) { chunk.apart() } else { chunk.without_waste() };
    if decoded.bad.is_empty() {
        return out.push(Item::Rows(chunk));
    }
    let mut from = 0;
    for (row, error) in decoded.bad {
        if row > from {
            out.push(Item::Rows(chunk.slice(from..row)));
        }
        out.push(Item::Fail(error.at_element(pos.at(row))));
        from = row + 1;
    }
    if from < rows {
        out.push(Item::Rows(chunk.slice(from..rows)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Dataset;
    use crate::element::{DType, Tensor};
    use crate::op::{Op, OpInfo};
    use crate::ops::testing::{events, in_chunks};
    use crate::plan::Card;
    use crate::runtime::Index;
    use feedline_io::Stat;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Its byte `i` is `i`, and every second read is late.
    #[derive(Debug)]
    struct Bytes(AtomicUsize);

    impl Source for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }
        fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
            Task::ready(Ok(Stat { len: 200, version: String::new() }))
        }
        fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
            let mut buf = Buf::new(len.min(200 - at as usize));
            let out = buf.get_mut().unwrap();
            out.iter_mut().enumerate().for_each(|(i, b)| *b = at as u8 + i as u8);
            if self.0.fetch_add(1, Relaxed).is_multiple_of(2) {
                return Task::ready(Ok(buf));
            }
            let (promise, task) = Task::promised(|| Err(Error::internal("lost")));
            std::thread::spawn(move || promise.fulfil(Ok(buf)));
            task
        }
    }

    /// Rows are bytes. Those in `bad` fail; the blocks in `broken` cannot be decoded, those in `cut` not be read.
    #[derive(Debug)]
    pub(super) struct Fake {
        pub starts: Vec<u64>,
        pub bad: Vec<u64>,
        pub broken: Vec<usize>,
        pub cut: Vec<usize>,
        pub row_bytes: u64,
        pub shared_bytes: u64,
        /// Pieces that are being decoded now, and at most so far.
        pub at_work: [AtomicUsize; 2],
        pub source: Arc<dyn Source>,
    }

    impl Table for Fake {
        type Block = Vec<Buf>;
        fn starts(&self) -> &[u64] {
            &self.starts
        }
        fn row_bytes(&self, _: usize) -> u64 {
            self.row_bytes
        }
        fn shared_bytes(&self, _: usize) -> u64 {
            self.shared_bytes
        }
        fn source(&self, _: usize) -> &Arc<dyn Source> {
            &self.source
        }
        fn ranges(&self, block: usize) -> Vec<Range<u64>> {
            let more = if self.cut.contains(&block) { 1000 } else { 0 };
            let all = self.starts[block]..self.starts[block + 1] + more;
            [all].to_vec()
        }
        fn check(&self, _: usize) -> Result<()> {
            Ok(())
        }
        fn block(&self, _: usize, read: Vec<Buf>, _: Allowed) -> Vec<Buf> {
            read
        }
        fn decode(&self, number: usize, rows: Range<usize>, read: &Vec<Buf>) -> Result<Decoded> {
            if self.broken.contains(&number) {
                return Err(Error::data("broken"));
            }
            if self.shared_bytes > 0 {
                self.at_work[1].fetch_max(self.at_work[0].fetch_add(1, Relaxed) + 1, Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(5));
                self.at_work[0].fetch_sub(1, Relaxed);
            }
            let items: Vec<i64> = read[0].as_slice()[rows.clone()].iter().map(|b| i64::from(*b)).collect();
            let bad = items.iter().enumerate().filter(|(_, x)| self.bad.contains(&(**x as u64)));
            let bad = bad.map(|(i, _)| (i, Error::data("bad"))).collect();
            Ok(Decoded { columns: vec![Column::Dense(Tensor::from_items([rows.len()], &items))], bad })
        }
    }

    #[derive(Debug)]
    struct FakeOp(Arc<Fake>);

    static INFO: OpInfo = OpInfo { name: "range", doc: "", params: &[], read: |_| Err(Error::usage("not read")) };

    impl Op for FakeOp {
        fn info(&self) -> &'static OpInfo {
            &INFO
        }
        fn spec(&self, _: &[Plan]) -> Result<Spec> {
            Ok(Spec::scalar(DType::Int64))
        }
        fn cardinality(&self, _: &[Plan]) -> Card {
            Card::Known(*self.0.starts.last().unwrap())
        }
        fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
            Ok(build(self.0.clone(), cx, node, 0))
        }
        fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
            Ok(Some(Arc::new(TableIndex::new(self.0.clone(), Default::default(), cx))))
        }
        fn write(&self) -> Result<serde_json::Value> {
            Ok(serde_json::Value::Null)
        }
    }

    pub(super) fn fake(starts: &[u64]) -> Fake {
        let source = Arc::new(Bytes(AtomicUsize::new(0)));
        let (starts, row_bytes, shared_bytes, at_work) = (starts.to_vec(), 1, 0, Default::default());
        Fake { starts, bad: vec![], broken: vec![], cut: vec![], row_bytes, shared_bytes, at_work, source }
    }
    fn dataset(table: Fake) -> Dataset {
        Dataset::source(FakeOp(Arc::new(table))).unwrap()
    }
    fn numbers(of: impl Iterator<Item = u64>) -> String {
        of.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_in_order_for_any_chunks_and_pieces() {
        for row_bytes in [1, PIECE_BYTES / 3, PIECE_BYTES * 2] {
            let ds = dataset(Fake { row_bytes, ..fake(&[0, 7, 7, 40, 41, 100]) });
            assert_eq!(events(&ds), numbers(0..100));
            assert_eq!(events(&in_chunks(&ds, 3)), numbers(0..100));
            let by_number = ds.index().unwrap().get(&[41, 6, 99, 6]).unwrap();
            let got: Vec<i64> = (0..4).map(|i| by_number.element(i)[0].tensor().item()).collect();
            assert_eq!(got, [41, 6, 99, 6]);
        }
        assert_eq!(events(&dataset(fake(&[0]))), "");
        assert_eq!(events(&dataset(fake(&[0, 0, 0]))), "");
    }

    #[test]
    fn a_bad_row_costs_that_row_and_a_broken_block_its_rows() {
        let table = Fake { bad: vec![0, 5, 6, 11], broken: vec![2], cut: vec![3], ..fake(&[0, 8, 12, 16, 20, 24]) };
        let ds = dataset(table);
        assert_eq!(events(&ds), "! 1 2 3 4 ! ! 7 8 9 10 ! ! ! 20 21 22 23");
        let errors: Vec<String> = ds.iter().unwrap().filter_map(|e| e.err()).map(|e| e.to_string()).collect();
        assert_eq!(errors[1], "range: bad (bytes, record 5, element 5)");
        assert_eq!(errors[4], "range: broken; 4 rows from row 12 on are lost (bytes, record 12, element 12)");
        assert!(errors[5].contains("range: ends 820 bytes early: it is cut off (bytes at byte 200"), "{}", errors[5]);
        let index = ds.index().unwrap();
        assert!(index.get(&[4]).is_ok());
        assert_eq!(index.get(&[7, 5]).unwrap_err().to_string(), "bad (bytes, record 5, element 5)");
        assert_eq!(index.get(&[13]).unwrap_err().to_string(), "broken (bytes, record 12)");
    }

    #[test]
    fn pieces_are_equal_and_large_blocks_are_cut() {
        let cut = |rows: u64, row_bytes| piece_rows(&Fake { row_bytes, ..fake(&[0, rows]) }, 0);
        assert_eq!(cut(25_000, 268), 25_000);
        assert_eq!(cut(100_000, 268), 33_334);
        assert_eq!(cut(1_000_000, 1), 66_667);
        assert_eq!(cut(10, PIECE_BYTES * 5), 1);
    }

    #[test]
    fn columns_that_are_read() {
        let pair = Spec::tuple(vec![Spec::scalar(DType::Int64), Spec::scalar(DType::Int64)]);
        let columns = [Spec::scalar(DType::Int64), pair, Spec::scalar(DType::Int64)];
        let read = |reads: [bool; 4]| read_columns(columns.iter(), &reads, false);
        assert_eq!(read([false, false, true, true]), Some((vec![1, 2], vec![1, 2, 3])));
        assert_eq!(read([false; 4]), Some((vec![0], vec![0])));
        let small = [Spec::scalar(DType::String), Spec::scalar(DType::Int64), Spec::scalar(DType::Bool)];
        assert_eq!(read_columns(small.iter(), &[false; 3], false), Some((vec![2], vec![2])));
        assert_eq!(read([true; 4]), None);
    }
}
