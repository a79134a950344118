//! What the formats that are a row of records (TFRecord, lines, fixed lengths) share: they are fed blocks in order and cut
//! records out of them, which point into the blocks.

use feedline_io::{Buf, Error};
use std::ops::Range;

/// Where cut records go.
pub trait Out {
    /// A record that lies in a block, without a copy.
    fn view(&mut self, block: &Buf, range: Range<usize>);
    /// A record that had to be put together.
    fn copy(&mut self, record: &[u8]);
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
    /// After `finish`: all is cut.
    End,
}

/// A reader that owns no I/O.
pub trait Records: Send {
    /// The next block of the file, in order. Only after `cut` said `More`.
    fn feed(&mut self, block: Buf);
    /// There are no more blocks.
    fn finish(&mut self);
    /// At most `want` records. Errors name the byte.
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut;
}

/// The bytes that are not cut yet: one block, in front of which lies what the last one had left over.
#[derive(Debug)]
pub struct Carry {
    block: Buf,
    /// The first byte that is not cut.
    start: usize,
    /// The place in the file of byte 0 of `block`.
    base: u64,
    finished: bool,
}

impl Default for Carry {
    fn default() -> Carry {
        Carry { block: Buf::new(0), start: 0, base: 0, finished: false }
    }
}

impl Carry {
    /// Starts in the middle of a file.
    pub fn at(base: u64) -> Carry {
        Carry { base, ..Carry::default() }
    }
    pub fn feed(&mut self, block: Buf) {
        let rest = self.rest().len();
        if rest == 0 {
            self.base += self.block.len() as u64;
            (self.block, self.start) = (block, 0);
            return;
        }
        let mut joined = Buf::new(rest + block.len());
        let out = joined.get_mut().expect("a new block has one holder");
        out[..rest].copy_from_slice(self.rest());
        out[rest..].copy_from_slice(block.as_slice());
        self.base += self.start as u64;
        (self.block, self.start) = (joined, 0);
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
        &self.block.as_slice()[self.start..]
    }
    /// The place in `block` where the rest begins.
    pub fn start(&self) -> usize {
        self.start
    }
    /// The place in the file where the rest begins.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }
    pub fn advance(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.block.len());
    }
}

/// All records of a file in memory, for tests and tools.
pub fn collect(records: &mut dyn Records, blocks: impl IntoIterator<Item = Vec<u8>>) -> Vec<Result<Vec<u8>, Error>> {
    struct All(Vec<Result<Vec<u8>, Error>>);
    impl Out for All {
        fn view(&mut self, block: &Buf, range: Range<usize>) {
            self.0.push(Ok(block.as_slice()[range].to_vec()));
        }
        fn copy(&mut self, record: &[u8]) {
            self.0.push(Ok(record.to_vec()));
        }
    }
    let mut all = All(Vec::new());
    let mut blocks = blocks.into_iter();
    loop {
        match records.cut(3, &mut all) {
            Cut::Records(_) => {}
            Cut::Fail(error) => all.0.push(Err(error)),
            Cut::More => match blocks.next() {
                Some(bytes) => {
                    let mut block = Buf::new(bytes.len());
                    block.get_mut().expect("a new block has one holder").copy_from_slice(&bytes);
                    records.feed(block);
                }
                None => records.finish(),
            },
            Cut::End => return all.0,
        }
    }
}
