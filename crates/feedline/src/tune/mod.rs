//! What the meters mean: numbers in, decisions out. Nothing here waits, locks or touches data.

mod allot;
mod ceiling;
mod chunk;
mod depth;
mod report;

pub use allot::segment_bytes;
pub use ceiling::{Bound, Change, Lane, Limit, Model, Part};
pub use chunk::{Around, Because, because, next_rows, next_rows_away, whole_batches};
pub use depth::{Ahead, Depth, Pace};
pub use report::{Verdict, verdict};
