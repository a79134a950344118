//! A part of a block, such as one record of those that were read together.

use crate::Buf;
use std::ops::{Deref, Range};

/// Some bytes of a `Buf`. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Slice {
    buf: Buf,
    range: Range<usize>,
}

impl Slice {
    /// What `buf` has of `range`; less where it ends before.
    pub fn new(buf: Buf, range: Range<usize>) -> Slice {
        let end = range.end.min(buf.len());
        Slice { range: range.start.min(end)..end, buf }
    }
    pub fn buf(&self) -> &Buf {
        &self.buf
    }
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
    pub fn as_slice(&self) -> &[u8] {
        &self.buf.as_slice()[self.range.clone()]
    }
}

impl From<Buf> for Slice {
    fn from(buf: Buf) -> Slice {
        Slice { range: 0..buf.len(), buf }
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}
