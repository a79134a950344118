//! Elements by number: what sources with a length and operators that keep positions offer.

use crate::element::Chunk;
use crate::error::Result;

pub trait Index: Send + Sync {
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements with these numbers (each below `len`), in this order. Fails if any of them does.
    fn get(&self, rows: &[u64]) -> Result<Chunk>;
}
