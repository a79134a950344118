//! Where bytes come from. A `Source` is a file or an object that can be read at any place; `Blocks` reads one from front
//! to back, ahead of its use. All of it lands in `Buf`s, which records and tensors point into without a copy.
//!
//! Nothing here waits on a thread that computes: a read gives a `Task`, which is there at once where the bytes are in
//! memory already (the page cache), and otherwise wakes whoever polled it.

mod account;
mod ahead;
mod append;
mod blocks;
mod buf;
mod cache;
mod counted;
mod error;
mod flights;
mod fork;
mod freed;
mod glob;
mod list;
mod local;
mod location;
#[cfg(feature = "remote")]
mod net;
#[cfg(feature = "remote")]
mod objects;
mod ranges;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod retry;
mod settings;
mod shards;
mod slice;
mod source;
mod spare;
mod step;
mod task;
#[cfg(test)]
mod testing;
mod threads;
#[cfg(feature = "remote")]
mod upload;
mod wanted;
mod wide;
mod witness;
mod write;

pub use account::{Account, Entered, Scratch, live_bytes, scratch, taken};
pub use ahead::ahead_bytes;
pub use append::Append;
pub use blocks::Blocks;
pub use buf::{ALIGN, Buf, kept_bytes, make_room, release_kept};
pub use cache::{Cache, Cached};
pub use counted::Counted;
pub use error::{At, Error, Kind, Result};
pub use flights::{Read, reads_under_way};
pub use fork::{Brief, brief, in_child};
pub use freed::give_back;
pub use list::{INDEX_ENDING, exists, expand, expand_all, expand_each, expand_ending, files_in, glob, glob_data};
pub use local::Local;
pub use location::is_local;
pub use ranges::{Ranges, Want};
#[cfg(feature = "remote")]
pub use remote::Remote;
pub use settings::{Settings, configure, parse_bytes, settings};
pub use shards::{commit_together, sweep};
pub use slice::Slice;
pub use source::{Hints, Source, Stat, open, stat};
pub use spare::{Spare, keeps_spare, may_keep_spare, note_spare, spare_bytes};
pub use step::{NoRoom, Standing, Step, Unasked, ask, ask_once, small_share, unasked};
pub use task::{Promise, Task, promised};
pub use threads::in_background;
pub use wanted::{Interest, Look, Working, still_wanted, wanted, watched};
pub use wide::wide;
pub use witness::{Record, Watched, Witness};
pub use write::{AtomicFile, Sink, create};
