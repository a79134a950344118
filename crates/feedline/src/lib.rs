//! feedline: the input pipeline for training. It reads the data where it lies, prepares it, and hands batches to the
//! training loop.

mod dataset;
pub mod doctor;
pub mod element;
/// The errors of every room: they are `feedline-io`'s, so that the crates below speak of them too.
mod error {
    pub use feedline_io::{At, Error, Kind, Result};
}
pub mod expr;
pub mod lint;
mod locate;
pub mod op;
pub mod ops;
mod options;
pub mod plan;
mod reduce;
mod retry;
pub mod rewrite;
pub mod runtime;
pub mod save;
mod trial;
pub mod tune;

pub use dataset::{Dataset, check_state, iterate, iterate_epoch, iterate_from, iterate_with};
pub use error::{At, Error, Kind, Result};
pub use feedline_io::bail;
pub use locate::{Draw, Located, locate, start_of};
pub use options::{MaxErrors, OnError, Options, parse_bytes};
pub use reduce::{reduce, reduce_watched};
pub use retry::{Retried, retry};
