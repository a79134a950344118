//! What the meters mean: numbers in, decisions out. Nothing here waits, locks or touches data.

mod allot;
mod chunk;
mod report;

pub use allot::segment_bytes;
pub use chunk::{next_rows, next_rows_away};
pub use report::{Verdict, verdict};
