//! Where bytes come from. A `Source` is a file or an object that can be read at any place; `Blocks` reads one from front
//! to back, ahead of its use. All of it lands in `Buf`s, which records and tensors point into without a copy.
//!
//! Nothing here waits on a thread that computes: a read gives a `Task`, which is there at once where the bytes are in
//! memory already (the page cache), and otherwise wakes whoever polled it.

mod blocks;
mod buf;
mod error;
mod fork;
mod local;
mod source;
mod task;
mod threads;

pub use blocks::Blocks;
pub use buf::{ALIGN, Buf, kept_bytes, release_kept};
pub use error::{At, Error, Kind, Result};
pub use fork::{Brief, brief, in_child};
pub use local::Local;
pub use source::{Source, Stat, open};
pub use task::Task;
pub use threads::in_background;
