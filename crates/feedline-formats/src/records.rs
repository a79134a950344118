//! What the formats that are a row of records (TFRecord, lines, fixed lengths) share: they are fed blocks in order and cut
//! records out of them, which point into the blocks.

use feedline_io::{Buf, Error, Kind, Result};
use std::ops::Range;

/// Where cut records go.
pub trait Out {
    /// A record that lies in a block, without a copy.
    fn view(&mut self, block: &Buf, range: Range<usize>);
    /// A record that had to be put together, of what begins at that byte of the file.
    fn copy(&mut self, byte: u64, record: &[u8]);
}

/// What a call of `cut` came to.
#[derive(Debug)]
pub enum Cut {
    /// That many records went out, at least one.
    Records(usize),
    /// This stands in the place of one record; cutting goes on after it.
    Fail(Error),
    /// Nothing whole is left: feed the next block, or `finish`.
    More,
    /// After `finish`: all is cut. Also where the rest of a damaged file is given up.
    End,
}

/// How long a record may be whose length is known before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    pub bytes: u64,
    /// That much of this memory_limit.
    pub limit: u64,
}

impl Default for Longest {
    fn default() -> Longest {
        Longest { bytes: u64::MAX, limit: u64::MAX }
    }
}

impl Longest {
    /// Refuses one that is longer.
    pub fn check(&self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let mega = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
        let (own, most, limit) = (bytes as f64, self.bytes as f64, self.limit as f64);
        let text = format!(
            "a record of {} is longer than the {} that one may have of a memory_limit of {}: raise it to {} or more, or write \
             shorter records",
            mega(own),
            mega(most),
            mega(limit),
            mega(own / most * limit + 100_000.0)
        );
        Err(Error::new(Kind::Budget, text))
    }
}

/// Records that were passed over.
#[derive(Debug, PartialEq)]
pub struct Hop {
    pub records: u64,
    /// Where the block that is fed next must begin, if it is not the one that follows.
    pub to: Option<u64>,
}

/// A reader that owns no I/O.
pub trait Records: Send {
    /// The next block of the file, in order. Only after `cut` said `More`.
    fn feed(&mut self, block: Buf);
    /// There are no more blocks.
    fn finish(&mut self);
    /// At most `want` records. Errors name the byte.
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut;
    /// The place in the file of byte 0 of the block that records are cut from, for readers that know it.
    fn base(&self) -> u64 {
        0
    }
    /// The byte from which a new reader goes on like this one; `None` where it would need to know more.
    fn place(&self) -> Option<u64> {
        None
    }
    /// Goes on at such a byte, before which so many records have been cut, if what it was fed reaches that far. False if it
    /// does not.
    fn go_to(&mut self, _byte: u64, _record: u64) -> bool {
        false
    }
    /// How many bytes are missing of the next record, where that is known.
    fn missing(&self) -> usize {
        0
    }
    /// Passes over at most so many records without a look at their data. `None` where that cannot be, or not without
    /// another block: then they must be cut. It may lead beyond what was fed, if it is by more than `gap` bytes.
    fn hop(&mut self, _most: u64, _gap: u64) -> Option<Hop> {
        None
    }
    /// Makes a new reader go on at such a byte, where so many records have been cut: the first block begins there. False if
    /// it cannot.
    fn start_at(&mut self, _byte: u64, _record: u64) -> bool {
        false
    }
}

/// Blocks from this size on are not kept for a little that is left of them.
const LARGE: usize = 64 << 10;

/// The bytes that are not cut yet: one block, in front of which lies what the last one had left over.
pub struct Carry {
    block: Buf,
    /// What of `block` is filled; there may be room behind it for the blocks to come.
    filled: usize,
    /// The first byte that is not cut.
    start: usize,
    /// The place in the file of byte 0 of `block`.
    base: u64,
    /// How many bytes the next record has, where that is known.
    need: usize,
    finished: bool,
}

impl Default for Carry {
    fn default() -> Carry {
        Carry { block: Buf::new(0), filled: 0, start: 0, base: 0, need: 0, finished: false }
    }
}

impl Carry {
    /// Starts in the middle of a file.
    pub fn at(base: u64) -> Carry {
        Carry { base, ..Carry::default() }
    }
    pub fn feed(&mut self, block: Buf) {
        let rest = self.filled - self.start;
        if rest == 0 {
            self.base += self.filled as u64;
            (self.filled, self.start) = (block.len(), 0);
            self.block = block;
            return;
        }
        // A record over many blocks is collected in one piece of memory, so that each byte is copied once.
        if let Some(out) = self.block.get_mut()
            && out.len() - self.filled >= block.len()
        {
            out[self.filled..self.filled + block.len()].copy_from_slice(block.as_slice());
            self.filled += block.len();
            return;
        }
        let room = match self.need {
            0 => rest * 2,
            need => need,
        };
        let mut joined = Buf::new(room.max(rest) + block.len());
        let out = joined.get_mut().expect("a new block has one holder");
        out[..rest].copy_from_slice(self.rest());
        out[rest..rest + block.len()].copy_from_slice(block.as_slice());
        self.base += self.start as u64;
        (self.block, self.filled, self.start) = (joined, rest + block.len(), 0);
    }
    pub fn finish(&mut self) {
        self.finished = true;
    }
    pub fn is_finished(&self) -> bool {
        self.finished
    }
    pub fn block(&self) -> &Buf {
        &self.block
    }
    /// What is not cut yet.
    pub fn rest(&self) -> &[u8] {
        &self.block.as_slice()[self.start..self.filled]
    }
    /// The place in `block` where the rest begins.
    pub fn start(&self) -> usize {
        self.start
    }
    /// The place in the file where the rest begins.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }
    /// The place in the file of byte 0 of `block`.
    pub fn base(&self) -> u64 {
        self.base
    }
    pub fn advance(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.filled);
        self.need = 0;
    }
    /// After records were cut, of which the last had so many bytes: a rest that has not even room for another like it is copied,
    /// where it would keep alive a large block. The next block may come late: whoever reads many files in turn would have one
    /// of each in memory.
    pub fn let_go(&mut self, last: usize) {
        let rest = self.filled - self.start;
        if self.block.len() < LARGE || rest >= last || rest > self.block.len() / 4 {
            return;
        }
        let block = Buf::copied(self.rest());
        self.base += self.start as u64;
        (self.block, self.filled, self.start) = (block, rest, 0);
    }
    /// Goes on to that byte of the file, if it is in what was fed.
    pub fn reach(&mut self, byte: u64) -> bool {
        let ahead = byte.checked_sub(self.offset()).filter(|n| *n <= self.rest().len() as u64);
        ahead.map(|n| self.advance(n as usize)).is_some()
    }
    /// How many of them are not there yet.
    pub fn missing(&self) -> usize {
        self.need.saturating_sub(self.rest().len())
    }
    /// Says how many bytes the next record has. The caller has made sure that the number can be right.
    pub fn need(&mut self, bytes: usize) {
        self.need = bytes;
    }
}

/// Collects records as copies, for tests and tools.
#[derive(Debug, Default)]
pub struct Copies(pub Vec<Vec<u8>>);

impl Out for Copies {
    fn view(&mut self, block: &Buf, range: Range<usize>) {
        self.0.push(block.as_slice()[range].to_vec());
    }
    fn copy(&mut self, _: u64, record: &[u8]) {
        self.0.push(record.to_vec());
    }
}

/// All records of a file in memory, for tests and tools.
pub fn collect<B: AsRef<[u8]>>(
    records: &mut dyn Records,
    blocks: impl IntoIterator<Item = B>,
) -> Vec<Result<Vec<u8>, Error>> {
    let mut all = Vec::new();
    let mut blocks = blocks.into_iter();
    loop {
        let mut some = Copies::default();
        match records.cut(3, &mut some) {
            Cut::Records(n) => {
                assert_eq!(n, some.0.len(), "a reader miscounted");
                all.extend(some.0.into_iter().map(Ok));
            }
            Cut::Fail(error) => all.push(Err(error)),
            Cut::More => match blocks.next() {
                Some(bytes) => records.feed(Buf::copied(bytes.as_ref())),
                None => records.finish(),
            },
            Cut::End => return all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_that_is_left_keeps_no_block() {
        let mut carry = Carry::default();
        carry.feed(Buf::copied(&vec![1; LARGE]));
        carry.advance(LARGE - 10);
        for (last, kept) in [(10, LARGE), (11, 10)] {
            carry.let_go(last);
            assert_eq!((carry.block().len(), carry.offset(), carry.rest()), (kept, LARGE as u64 - 10, &[1u8; 10][..]));
        }
        carry.feed(Buf::copied(&[2; 5]));
        assert_eq!((carry.rest().len(), carry.offset()), (15, LARGE as u64 - 10));
        carry.advance(15);
        assert_eq!(carry.offset(), LARGE as u64 + 5);
    }

    #[test]
    fn a_long_record_is_collected_in_one_place() {
        let mut carry = Carry::default();
        carry.feed(Buf::copied(&[1, 2, 3]));
        carry.advance(1);
        carry.need(1000);
        carry.feed(Buf::copied(&[4; 10]));
        let at = carry.rest().as_ptr();
        (0..98).for_each(|_| carry.feed(Buf::copied(&[5; 10])));
        assert_eq!((carry.rest().as_ptr(), carry.rest().len(), carry.offset()), (at, 992, 1));
        assert_eq!(carry.rest()[..4], [2, 3, 4, 4]);
        carry.advance(992);
        carry.feed(Buf::copied(&[9]));
        assert_eq!((carry.rest(), carry.offset()), (&[9u8][..], 993));
    }
}
