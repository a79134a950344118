//! Elements by number: what sources with a length and operators that keep positions offer.

use crate::element::Chunk;
use crate::error::Result;
use std::sync::Arc;

pub trait Index: Send + Sync {
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The file that an element is read from, the number of its record there, and the byte at which its data begins.
    fn place(&self, _row: u64) -> Option<(Arc<str>, u64, u64)> {
        None
    }
    /// The elements with these numbers (each below `len`), in this order. Fails if any of them does.
    fn get(&self, rows: &[u64]) -> Result<Chunk>;
    /// So many elements from anywhere, asked for together, cost much less than one by one.
    fn together(&self) -> usize {
        1
    }
}
