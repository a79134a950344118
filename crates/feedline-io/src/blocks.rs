//! A source from front to back in blocks, with the next ones on their way while one is used.

use crate::source::Source;
use crate::{Buf, Result, Task};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

pub struct Blocks {
    source: Arc<dyn Source>,
    /// Where the next read begins.
    at: u64,
    block: usize,
    depth: usize,
    reads: VecDeque<Task<Result<Buf>>>,
    /// No reads beyond what is on its way: the end was seen, or a read failed.
    done: bool,
}

impl Blocks {
    /// From byte `at` on, in blocks of the size that suits the source or of `block` bytes.
    pub fn new(source: Arc<dyn Source>, at: u64, block: Option<usize>) -> Blocks {
        let hints = source.hints();
        let block = block.unwrap_or(hints.block).max(1);
        let depth = (hints.ahead / block).max(1);
        Blocks { source, at, block, depth, reads: VecDeque::new(), done: false }
    }
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// The next block; `None` at the end. Fails once, then ends.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Buf>>> {
        while !self.done && self.reads.len() < self.depth {
            self.reads.push_back(self.source.clone().read(self.at, self.block));
            self.at += self.block as u64;
        }
        let Some(first) = self.reads.front_mut() else { return Poll::Ready(None) };
        let read = ready!(first.poll_with(waker));
        self.reads.pop_front();
        match read {
            Ok(buf) => {
                if buf.len() < self.block {
                    self.done = true;
                    self.reads.clear();
                }
                Poll::Ready(if buf.is_empty() { None } else { Some(Ok(buf)) })
            }
            Err(error) => {
                self.done = true;
                self.reads.clear();
                Poll::Ready(Some(Err(error)))
            }
        }
    }
    /// The next block, waiting for it.
    pub fn next_block(&mut self) -> Option<Result<Buf>> {
        if self.reads.is_empty() && !self.done {
            // Fills the look-ahead; a block that is there already is taken.
            if let Poll::Ready(block) = self.poll_next(Waker::noop()) {
                return block;
            }
        }
        match self.poll_next(Waker::noop()) {
            Poll::Ready(block) => block,
            Poll::Pending => {
                let first = self.reads.pop_front()?.wait();
                self.reads.push_front(Task::ready(first));
                match self.poll_next(Waker::noop()) {
                    Poll::Ready(block) => block,
                    Poll::Pending => unreachable!("the first read is there"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..100_000u32).map(|x| (x % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        for block in [1000, 4096, 100_000, 300_000] {
            let source = crate::open(path.to_str().unwrap()).unwrap();
            let mut blocks = Blocks::new(source, 10, Some(block));
            let mut all = Vec::new();
            while let Some(block) = blocks.next_block() {
                all.extend_from_slice(block.unwrap().as_slice());
            }
            assert_eq!(all, bytes[10..]);
            assert!(blocks.next_block().is_none());
        }
    }
}
