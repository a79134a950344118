//! For whoever keeps rows for long: they must not keep alive much more than they are.
//!
//! Rows are mostly views: of the array that a function made and `flat_map` or `unbatch` took apart, of a block that was read.
//! A few of them keep all of it alive. They get memory of their own, but not at once: those that come next may be the rest of
//! it, and then nothing is wasted and nothing has to be copied.

use super::chunk::{Chunk, Column};
use super::tensor::is_loose;
use smallvec::SmallVec;

/// The end of a list of chunks that are kept: how many of the last ones lie in the same blocks, column by column.
#[derive(Debug, Default)]
pub struct Run {
    columns: SmallVec<[Side; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    chunks: usize,
    bytes: usize,
}

/// How many chunks at the end of a list keep alive much more than they are, column by column.
#[must_use]
pub struct Loose(SmallVec<[usize; 2]>);

impl Run {
    /// To be called before `next` goes to the end of a list.
    pub fn follow(&mut self, last: Option<&Chunk>, next: &Chunk) -> Loose {
        self.columns.resize(next.columns().len(), Side::default());
        let sides = self.columns.iter_mut().zip(next.columns()).enumerate();
        let loose = sides.map(|(k, (side, next))| {
            let last = last.map(|last| &last.columns()[k]);
            let goes_on = side.chunks > 0 && last.is_some_and(|last| next.lies_with(last));
            let ended = if goes_on { 0 } else { side.end(last) };
            (side.chunks, side.bytes) = (side.chunks + 1, side.bytes + next.nbytes());
            ended
        });
        Loose(loose.collect())
    }
    /// How many chunks at the end lie in the same blocks, in every column, and the bytes of all that do: these go together.
    pub fn together(&self) -> (usize, usize) {
        let chunks = self.columns.iter().map(|side| side.chunks).min();
        (chunks.unwrap_or(0), self.columns.iter().map(|side| side.bytes).sum())
    }
    /// The same when nothing follows for long.
    pub fn end(&mut self, last: Option<&Chunk>) -> Loose {
        let sides = self.columns.iter_mut().enumerate();
        Loose(sides.map(|(k, side)| side.end(last.map(|last| &last.columns()[k]))).collect())
    }
}

impl Side {
    fn end(&mut self, last: Option<&Column>) -> usize {
        let Side { chunks, bytes } = std::mem::take(self);
        let are_loose = last.is_some_and(|last| is_loose(last.held_bytes(), bytes));
        if are_loose { chunks } else { 0 }
    }
}

impl Loose {
    /// Gives those memory of their own. The list comes from its end on.
    pub fn trim<'a>(self, list: impl Iterator<Item = &'a mut Chunk>) {
        let most = self.0.iter().copied().max().unwrap_or(0);
        for (i, chunk) in list.take(most).enumerate() {
            let columns = self.0.iter().enumerate().filter(|(_, chunks)| i < **chunks);
            columns.for_each(|(k, _)| chunk.trim_column(k));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Column, Pos, Tensor, Value};

    fn chunk(t: Tensor) -> Chunk {
        Chunk::new(t.rows(), Pos::Run(0), [Column::Dense(t)])
    }
    /// What is kept of these, and how many bytes that keeps alive.
    fn kept(chunks: impl IntoIterator<Item = Chunk>) -> (usize, usize) {
        let (mut run, mut list) = (Run::default(), Vec::<Chunk>::new());
        for chunk in chunks {
            run.follow(list.last(), &chunk).trim(list.iter_mut().rev());
            list.push(chunk);
        }
        run.end(list.last()).trim(list.iter_mut().rev());
        (list.iter().map(|c| c.nbytes()).sum(), list.iter().map(|c| c.columns()[0].held_bytes()).sum())
    }

    #[test]
    fn few_rows_of_much_get_memory_of_their_own() {
        let large = |n: i64| chunk(Tensor::from_items([1000, 128], &vec![n; 128_000]));
        // Two rows of each of many arrays.
        let (used, held) = kept((0..20).map(|n| large(n).slice(3..5)));
        assert!(held <= 2 * used, "{held} bytes for {used}");
        // All of them, some at a time: they stay where they are.
        let all = large(7);
        let lies_there = |chunk: Chunk| chunk.columns()[0].lies_with(&all.columns()[0]);
        let mut run = Run::default();
        let parts: Vec<Chunk> = (0..10).map(|i| all.slice(100 * i..100 * i + 100)).collect();
        for i in 0..10usize {
            assert_eq!(run.follow(i.checked_sub(1).map(|i| &parts[i]), &parts[i]).0[0], 0);
        }
        assert_eq!(run.end(parts.last()).0[0], 0);
        assert!(!lies_there(parts[3].clone().trimmed()), "alone it is little");
        // What is there anyway is left alone.
        all.keep();
        assert!(lies_there(all.slice(3..5).trimmed()));
    }

    #[test]
    fn rows_of_their_own_and_strings() {
        let rows = |values: Vec<Value>| Chunk::new(values.len(), Pos::Run(0), [Column::Rows(values.into(), 0..3)]);
        let of = |t: &Tensor, i| Value::Tensor(t.row(i));
        let (a, b) = (Tensor::from_items([9, 600], &[1i64; 5400]), Tensor::from_items([9, 600], &[2i64; 5400]));
        let few = rows(vec![of(&a, 0), of(&b, 0), of(&a, 1)]).trimmed();
        assert!(!few.columns()[0].get(0).tensor().lies_with(&a) && few.columns()[0].held_bytes() < 30_000);
        let short: Vec<Value> = (0..3).map(|n: i64| Tensor::scalar(n).into()).collect();
        let same = rows(short.clone()).trimmed();
        assert!(same.columns()[0].get(0).tensor().lies_with(short[0].tensor()));
        let text = Tensor::strings([1000], &vec!["twenty bytes of text"; 1000]);
        assert!(chunk(text.slice(0..3)).trimmed().columns()[0].held_bytes() < 200);
        assert!(chunk(text.slice(0..800)).trimmed().columns()[0].get(0).tensor().lies_with(&text));
    }
}
