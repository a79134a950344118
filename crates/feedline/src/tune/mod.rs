//! What the meters mean: numbers in, decisions out. Nothing here waits, locks or touches data.

mod allot;
mod chunk;
mod report;

pub use allot::segment_bytes;
pub use chunk::next_rows;
pub use report::{Verdict, verdict};
