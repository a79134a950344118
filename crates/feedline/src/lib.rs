//! feedline: the input pipeline for training. It reads the data where it lies, prepares it, and hands batches to the
//! training loop.

mod dataset;
pub mod element;
mod error;
pub mod expr;
pub mod op;
pub mod ops;
mod options;
pub mod plan;
mod reduce;
pub mod rewrite;
pub mod runtime;
pub mod tune;

pub use dataset::{Dataset, iterate};
pub use error::{At, Error, Kind, Result};
pub use options::{Options, parse_bytes};
pub use reduce::{reduce, reduce_watched};
