//! Rows of several streams put together: what flat_map, interleave, choose and their like share. Not an operator.

use crate::element::{Chunk, Column, DType, Pos, Value};
use crate::error::{Error, Result};
use crate::runtime::{At, Cx, Mark, Pull, Stage, Tap};
use std::time::{Duration, Instant};

/// Whoever collects before passing on stops after this time: long against the overhead of a chunk, short for a reader.
pub const PATIENCE: Duration = Duration::from_micros(100);
/// More bytes than this are passed on as they are: copying them together costs more than another chunk.
const COPY_BYTES: usize = 64 << 10;
/// Rows above this size are moved by reference, never copied together.
const ROW_BYTES: usize = 1024;

/// Short chunks that are joined before they go on, as long as that costs little.
#[derive(Default)]
pub struct Parts {
    parts: Vec<Chunk>,
    rows: usize,
    bytes: usize,
    since: Option<Instant>,
}

impl Parts {
    pub fn push(&mut self, chunk: Chunk) {
        self.since.get_or_insert_with(Instant::now);
        self.rows += chunk.rows();
        self.bytes += chunk.nbytes();
        self.parts.push(chunk);
    }
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Whether to wait no longer for `want` rows.
    pub fn is_full(&self, want: usize) -> bool {
        self.rows >= want || self.bytes >= COPY_BYTES || self.since.is_some_and(|t| t.elapsed() > PATIENCE)
    }
    /// All of it as one chunk, numbered from `count`, which is moved on; `None` if there is nothing.
    pub fn take(&mut self, count: &mut u64) -> Option<Chunk> {
        let pos = Pos::Run(*count);
        let chunk = match self.parts.len() {
            0 => return None,
            1 => self.parts.pop().expect("one part").with_pos(pos),
            _ => Chunk::concat(pos, &self.parts),
        };
        *count += self.rows as u64;
        self.parts.clear();
        (self.rows, self.bytes, self.since) = (0, 0, None);
        Some(chunk)
    }
}

/// A stage that goes on in small steps, most of which give few rows.
pub trait Steps: Send {
    /// One step: at most `want` rows go to `parts`; anything else is returned.
    fn step(&mut self, cx: &mut Cx<'_>, want: usize, parts: &mut Parts) -> Option<Pull>;
    /// As those of a stage.
    fn mark(&mut self, out: &mut Mark);
    fn seek(&mut self, at: &mut At<'_>) -> Result<()>;
    fn is_settled(&self) -> bool {
        true
    }
    fn settle(&mut self, _cx: &mut Cx<'_>, _want: usize) {}
}

/// Takes steps until there are enough rows to pass on.
pub struct Stepping<S> {
    steps: S,
    parts: Parts,
    failed: Option<Error>,
    made: u64,
}

impl<S: Steps> Stepping<S> {
    pub fn new(steps: S) -> Stepping<S> {
        Stepping { steps, parts: Parts::default(), failed: None, made: 0 }
    }
}

impl<S: Steps> Stage for Stepping<S> {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.failed.take() {
            return Pull::Fail(error);
        }
        let mut stop = Pull::Pending;
        while !self.parts.is_full(want) {
            if cx.is_cancelled() {
                return Pull::End;
            }
            if let Some(pull) = self.steps.step(cx, want - self.parts.rows(), &mut self.parts) {
                stop = pull;
                break;
            }
        }
        collected(self.parts.take(&mut self.made), stop, &mut self.failed)
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        self.steps.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        (self.parts, self.failed) = (Parts::default(), None);
        self.steps.seek(at)
    }
    fn is_settled(&self) -> bool {
        self.failed.is_none() && self.steps.is_settled()
    }
    fn settle(&mut self, cx: &mut Cx<'_>, want: usize) {
        if self.failed.is_none() {
            self.steps.settle(cx, want);
        }
    }
    fn replays(&self) -> bool {
        true
    }
}

/// Passes on what was collected until `stop`, which comes after it: an error waits in `failed`; the end and "not yet" are
/// met again.
pub fn collected(chunk: Option<Chunk>, stop: Pull, failed: &mut Option<Error>) -> Pull {
    let Some(chunk) = chunk else { return stop };
    if let Pull::Fail(error) = stop {
        *failed = Some(error);
    }
    Pull::Rows(chunk)
}

/// How many rows to ask of an input that is read before it is needed: doubles while the rows are small and keep coming.
#[derive(Clone, Copy, Debug)]
pub struct Ask(pub usize);

impl Ask {
    pub fn saw(&mut self, chunk: &Chunk) {
        self.saw_bytes(chunk.rows(), chunk.nbytes());
    }
    /// The same where something else counts than what came: what was made of it, for instance.
    pub fn saw_bytes(&mut self, rows: usize, bytes: usize) {
        if bytes * 2 > 4 * COPY_BYTES {
            // Larger than others before: as many as would have been small.
            self.0 = (rows.min(self.0) * COPY_BYTES / bytes).max(1);
        } else if rows >= self.0 && bytes * 2 <= COPY_BYTES && self.0 < 4096 {
            self.0 *= 2;
        }
    }
}

/// A stream, with the rows of it that were pulled but not picked yet.
pub struct Source {
    tap: Tap,
    /// Columns of the stream in the order of the joint spec; empty if it is the same.
    order: Vec<usize>,
    chunk: Option<Chunk>,
    at: usize,
    /// Where `chunk` lies among the parts of a `Picked`, if it was picked from: generation and place.
    part: (u64, usize),
    pub ask: Ask,
}

impl Source {
    pub fn new(stage: Box<dyn Stage>, order: Vec<usize>) -> Source {
        let order = if order.iter().enumerate().all(|(i, o)| i == *o) { vec![] } else { order };
        Source { tap: Tap::new(stage), order, chunk: None, at: 0, part: (0, 0), ask: Ask(1) }
    }
    /// Rows that can be picked now.
    pub fn left(&self) -> usize {
        self.chunk.as_ref().map_or(0, |c| c.rows() - self.at)
    }
    /// Bytes of the rows that were pulled last, if some are left.
    pub fn bytes(&self) -> usize {
        self.chunk.as_ref().map_or(0, |c| c.nbytes())
    }
    /// Pulls at most `want` rows once none are left. Gives what came in their place, if anything did.
    pub fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Option<Pull> {
        match self.tap.next(cx, want) {
            Pull::Rows(chunk) => {
                self.ask.saw(&chunk);
                let chunk = if self.order.is_empty() { chunk } else { chunk.reordered(&self.order) };
                (self.chunk, self.at, self.part) = (Some(chunk), 0, (0, 0));
                None
            }
            other => Some(other),
        }
    }
    pub fn mark(&mut self, out: &mut Mark) {
        self.tap.mark(self.chunk.is_some(), out);
    }
    pub fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.chunk = None;
        self.tap.seek(at)
    }
}

/// Rows picked from several sources, put together once.
pub struct Picked {
    parts: Vec<Chunk>,
    /// Part, first row, rows.
    runs: Vec<(usize, usize, usize)>,
    rows: usize,
    generation: u64,
}

impl Picked {
    pub fn new() -> Picked {
        Picked { parts: vec![], runs: vec![], rows: 0, generation: 1 }
    }
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// The next `rows` rows of a source, which has as many.
    pub fn pick(&mut self, source: &mut Source, rows: usize) {
        let chunk = source.chunk.as_ref().expect("a source with rows left");
        if source.part.0 != self.generation {
            source.part = (self.generation, self.parts.len());
            self.parts.push(chunk.clone());
        }
        let (part, start) = (source.part.1, source.at);
        match self.runs.last_mut() {
            Some((last, first, n)) if *last == part && *first + *n == start => *n += rows,
            _ => self.runs.push((part, start, rows)),
        }
        source.at += rows;
        source.tap.used(rows);
        self.rows += rows;
        if source.at == chunk.rows() {
            source.chunk = None;
        }
    }
    /// All rows in the order in which they were picked, numbered from `count`, which is moved on.
    pub fn take(&mut self, count: &mut u64) -> Option<Chunk> {
        let first = Pos::Run(*count);
        *count += self.rows as u64;
        self.joined(Some(first))
    }
    /// The same with the numbers that they have.
    pub fn take_as_numbered(&mut self) -> Option<Chunk> {
        self.joined(None)
    }
    fn joined(&mut self, pos: Option<Pos>) -> Option<Chunk> {
        if self.rows == 0 {
            return None;
        }
        let picked =
            self.runs.iter().flat_map(|(p, start, n)| (*start..start + n).map(|row| (&self.parts[*p].pos, row)));
        let chunk = match self.runs.as_slice() {
            [(part, start, rows)] => {
                let rows = self.parts[*part].slice(*start..start + rows);
                match pos {
                    Some(pos) => rows.with_pos(pos),
                    None => rows,
                }
            }
            // Long runs are cheapest to copy as they are.
            runs if self.rows >= runs.len() * 16 => {
                let cut: Vec<Chunk> =
                    runs.iter().map(|(p, start, n)| self.parts[*p].slice(*start..start + n)).collect();
                Chunk::concat(pos.unwrap_or_else(|| Pos::picked(picked)), &cut)
            }
            _ => {
                let columns = self.parts[0].columns().len();
                let is_traced = self.parts.iter().any(|p| p.pos.is_traced());
                let pos = match pos {
                    Some(pos) if is_traced => Pos::picked(picked).renumbered(pos),
                    Some(pos) => pos,
                    None => Pos::picked(picked),
                };
                Chunk::new(self.rows, pos, (0..columns).map(|k| self.column(k)))
            }
        };
        self.parts.clear();
        self.runs.clear();
        self.rows = 0;
        self.generation += 1;
        Some(chunk)
    }
    fn column(&self, k: usize) -> Column {
        let columns: Vec<&Column> = self.parts.iter().map(|c| &c.columns()[k]).collect();
        if !stackable(&columns) {
            let rows = self.runs.iter().flat_map(|(p, start, n)| (*start..start + n).map(|row| columns[*p].get(row)));
            let values: Vec<Value> = rows.collect();
            return Column::Rows(values.into(), 0..self.rows);
        }
        // The rows in use of every part, one part after the other; then the order in which they were picked.
        let mut used = vec![(usize::MAX, 0); columns.len()];
        for (p, start, n) in &self.runs {
            used[*p] = (used[*p].0.min(*start), used[*p].1.max(start + n));
        }
        let cut: Vec<Column> = columns.iter().zip(&used).map(|(c, (from, to))| c.slice(*from..*to)).collect();
        let mut offset = 0;
        let mut base = Vec::with_capacity(cut.len());
        for (column, (from, _)) in cut.iter().zip(&used) {
            base.push((offset, *from));
            offset += column.rows();
        }
        let mut index = Vec::with_capacity(self.rows);
        for (p, start, n) in &self.runs {
            let (offset, from) = base[*p];
            index.extend(offset + start - from..offset + start - from + n);
        }
        Column::concat(&cut).take(&index)
    }
}

/// Dense columns of one shape with rows that are cheap to copy.
fn stackable(columns: &[&Column]) -> bool {
    let Column::Dense(first) = columns[0] else { return false };
    let inner = &first.shape()[1..];
    let size = inner.iter().product::<usize>() * if first.dtype() == DType::String { 16 } else { first.dtype().size() };
    size <= ROW_BYTES && columns.iter().all(|c| matches!(c, Column::Dense(t) if t.shape()[1..] == *inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Tensor;

    struct Given(Vec<Chunk>);
    impl Stage for Given {
        fn next(&mut self, _: &mut Cx<'_>, _: usize) -> Pull {
            if self.0.is_empty() { Pull::End } else { Pull::Rows(self.0.remove(0)) }
        }
        fn mark(&mut self, _: &mut Mark) {}
        fn seek(&mut self, _: &mut At<'_>) -> Result<()> {
            Ok(())
        }
    }

    fn source(parts: &[&[i64]]) -> Source {
        let chunk = |p: &&[i64]| Chunk::new(p.len(), Pos::Run(0), [Column::Dense(Tensor::from_items([p.len()], p))]);
        Source::new(Box::new(Given(parts.iter().map(chunk).collect())), vec![])
    }

    #[test]
    fn picks_come_in_their_order_over_chunk_borders() {
        let waker: std::sync::Weak<dyn crate::runtime::Wake> = std::sync::Weak::<Nobody>::new();
        let cancelled = crate::runtime::sync::atomic::AtomicBool::new(false);
        let mut cx = Cx::new(&waker, &cancelled);
        let (mut a, mut b) = (source(&[&[1, 2, 3], &[4]]), source(&[&[10, 20]]));
        let (mut picked, mut count) = (Picked::new(), 0);
        let mut pick = |s: &mut Source, n: usize, picked: &mut Picked| {
            if s.left() == 0 {
                assert!(s.pull(&mut cx, 9).is_none());
            }
            picked.pick(s, n);
        };
        pick(&mut a, 2, &mut picked);
        pick(&mut b, 1, &mut picked);
        pick(&mut a, 1, &mut picked);
        pick(&mut a, 1, &mut picked);
        let chunk = picked.take(&mut count).unwrap();
        assert_eq!(chunk.columns()[0].stack().unwrap().tensor().items::<i64>(), [1, 2, 10, 3, 4]);
        pick(&mut b, 1, &mut picked);
        assert_eq!(picked.take(&mut count).unwrap().pos, Pos::Run(5));
        assert!(picked.take(&mut count).is_none());
    }

    struct Nobody;
    impl crate::runtime::Wake for Nobody {
        fn wake(&self) {}
    }
}
