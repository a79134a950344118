//! A source from front to back in blocks, with the next ones on their way while one is used.

use crate::ahead::{FLOOR, Share};
use crate::source::Source;
use crate::{Buf, Result, Task};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

/// Where the source chooses the size of blocks, it begins with this, and two on their way; both double with each block
/// that is handed out. Whoever wants only the head of a far file does not fetch 64 MB for it, and when many files are
/// opened at once the first block does not wait for megabytes of all the others.
const FIRST: usize = 512 << 10;

#[derive(Debug)]
pub struct Blocks {
    source: Arc<dyn Source>,
    /// Where the next read begins.
    at: u64,
    /// The size of reads for now, and where it ends up.
    block: usize,
    most: usize,
    /// The size was asked for: it does not shrink when many read at once.
    fixed: bool,
    /// How many bytes may be on their way for now.
    window: usize,
    share: Share,
    /// What each read asked for, and the read.
    reads: VecDeque<(usize, Task<Result<Buf>>)>,
    /// No reads beyond what is on its way: the end was seen, or a read failed.
    done: bool,
}

impl Blocks {
    /// From byte `at` on, in blocks of the size that suits the source or of `block` bytes.
    pub fn new(source: Arc<dyn Source>, at: u64, block: Option<usize>) -> Blocks {
        let hints = source.hints();
        let fixed = block.is_some();
        let most = block.unwrap_or(hints.block).max(1);
        let block = if fixed { most } else { most.min(FIRST) };
        let share = Share::open(hints.ahead.max(most));
        let window = block.saturating_mul(2);
        Blocks { source, at, block, most, fixed, window, share, reads: VecDeque::new(), done: false }
    }
    /// For whoever wants little here and there: reads begin smaller than what is cheaper to read than to leave out.
    pub fn sparse(mut self) -> Blocks {
        self.block = (self.source.gap() / 4).clamp(1, self.most);
        self.window = self.block.saturating_mul(2);
        self
    }
    /// At least so many bytes are wanted next: reads that are larger stay as they are.
    pub fn expect(&mut self, bytes: usize) {
        self.block = self.block.max(bytes.min(self.most));
        self.window = self.window.max(self.block);
    }
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// All that is left is on its way: time to start on the file that comes next.
    pub fn is_sent(&self) -> bool {
        self.done
    }
    /// Sends the first reads off, for a file that will be needed soon. What was there at once (the page cache had it)
    /// needs no look-ahead: one block of it is enough, and takes less memory.
    pub fn start(&mut self) {
        while !self.done && !self.reads.back().is_some_and(|(_, read)| read.was_ready()) {
            let size = if self.fixed { self.block } else { self.share.fit(self.block) };
            let size = match self.source.known_len() {
                Some(len) if self.at >= len => {
                    self.done = true;
                    return;
                }
                Some(len) => size.min(usize::try_from(len - self.at).unwrap_or(usize::MAX)),
                None => size,
            };
            let size = match self.room(size) {
                0 => return,
                size => size,
            };
            self.reads.push_back((size, self.source.clone().read(self.at, size)));
            match self.at.checked_add(size as u64) {
                Some(at) => self.at = at,
                None => self.done = true,
            }
            self.done |= self.source.known_len().is_some_and(|len| self.at >= len);
        }
    }
    /// How much of a read of `size` bytes may begin now.
    fn room(&mut self, size: usize) -> usize {
        let first = self.reads.is_empty();
        if (first || self.share.held().saturating_add(size) <= self.window) && self.share.take(size) {
            return size;
        }
        if !first {
            return 0;
        }
        let size = if self.fixed { size } else { size.min(FLOOR) };
        self.share.force(size);
        size
    }
    /// The next block; `None` at the end. Fails once, then ends.
    pub fn poll_next(&mut self, waker: &Waker) -> Poll<Option<Result<Buf>>> {
        self.start();
        let Some((asked, first)) = self.reads.front_mut() else { return Poll::Ready(None) };
        let (asked, mut read) = (*asked, ready!(first.poll_with(waker)));
        if let Ok(buf) = &mut read {
            // Another thread may have made it.
            buf.take_over();
        }
        self.reads.pop_front();
        self.share.give(asked);
        self.window = self.window.saturating_mul(2);
        self.block = self.block.saturating_mul(2).min(self.most);
        if !read.as_ref().is_ok_and(|buf| buf.len() == asked) {
            self.done = true;
            self.reads.clear();
            self.share.give(usize::MAX);
        }
        Poll::Ready(match read {
            Ok(buf) if buf.is_empty() => None,
            read => Some(read),
        })
    }
    /// The next block, waiting for it.
    pub fn next_block(&mut self) -> Option<Result<Buf>> {
        if let Err(unwanted) = crate::wanted() {
            self.done = true;
            self.reads.clear();
            return Some(Err(unwanted));
        }
        loop {
            if let Poll::Ready(block) = self.poll_next(Waker::noop()) {
                return block;
            }
            self.reads.front_mut()?.1.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;

    fn all(mut blocks: Blocks) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(block) = blocks.next_block() {
            all.extend_from_slice(block.unwrap().as_slice());
        }
        assert!(blocks.next_block().is_none());
        all
    }

    #[test]
    fn blocks_are_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..100_000u32).map(|x| (x % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        for block in [1000, 4096, 100_000, 300_000] {
            let source = crate::open(path.to_str().unwrap()).unwrap();
            assert_eq!(all(Blocks::new(source, 10, Some(block))), bytes[10..]);
        }
    }

    #[test]
    fn no_more_is_on_its_way_than_allowed() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|x| (x % 251) as u8).collect();
        let source = Memory::new(bytes.clone(), 64 << 10, 512 << 10).slow();
        assert_eq!(all(Blocks::new(source.clone(), 0, None)), bytes);
        assert!(source.most_on_its_way() <= 512 << 10, "{}", source.most_on_its_way());
        // Other readers of this process may leave less than the whole, but there is always room for several.
        assert!(source.most_reads() > 1, "{}", source.most_reads());
        // A block over the bound passes, but alone.
        let source = Memory::new(bytes.clone(), 64 << 10, 128 << 10);
        assert_eq!(all(Blocks::new(source.clone(), 0, Some(1 << 20))), bytes);
        assert_eq!(source.most_reads(), 1);
    }

    #[test]
    fn only_the_head_is_fetched_for_the_head() {
        let source = Memory::new(vec![1; 64 << 20], 1 << 20, 64 << 20);
        let mut blocks = Blocks::new(source.clone(), 0, None);
        blocks.next_block().unwrap().unwrap();
        assert!(source.asked() <= 3 << 20, "{}", source.asked());
    }

    #[test]
    fn nothing_is_asked_beyond_a_known_end() {
        let source = Memory::new(vec![1; 1 << 20], 64 << 10, 1 << 20);
        source.tell_len();
        let mut blocks = Blocks::new(source.clone(), 0, None);
        assert!(!blocks.is_sent());
        blocks.start();
        assert_eq!(all(blocks).len(), 1 << 20);
        assert_eq!(source.asked(), 1 << 20);
        let mut last = Blocks::new(source.clone(), (1 << 20) - 10, None);
        last.start();
        assert!(last.is_sent());
        assert_eq!(all(last).len(), 10);
        assert!(all(Blocks::new(source.clone(), u64::MAX, None)).is_empty());
        assert_eq!(source.asked(), (1 << 20) + 10);
    }
}
