//! How it runs: stages that are pulled, segments that work ahead on one pool, and the iterator that a consumer holds.

mod batches;
mod budget;
mod build;
mod ends;
mod errors;
mod given;
mod index;
mod iter;
mod line;
mod machine;
mod mark;
mod meter;
pub mod pack;
mod pool;
mod process;
mod quarantine;
mod ranks;
mod recall;
mod replay;
mod seed;
mod segment;
pub mod spans;
mod stage;
mod stall;
mod state;
pub mod sync;
mod trace;

pub use budget::{Budget, Hold, Kept, Over, Partial, Promise, enough as enough_text, size as bytes_text};
pub use build::{BuildCx, Built, Known, Run, mix};
pub use ends::{Ends, EndsBelow, Waiting};
pub use errors::{Errors, LeftOut, Tally};
pub use given::Given;
pub use index::Index;
#[cfg(test)]
pub use iter::testing_cx;
pub use iter::{Iter, Runs, Stopper, index as index_of, streaming_op, streams};
pub use line::Line;
pub use machine::be_nice;
pub use mark::{At, Later, Mark, Saved, from_json as parts_from_json, to_json as parts_to_json, unfit};
pub use meter::{Lane, Meter, Meters, Phase, Spread, Usage, note_lock_wait};
pub use pool::{Load, Pool, Share, Work};
pub use process::{
    Settings, configure, cores_for, cpu_budget, free_cores, memory_limit, pool as process_pool, settings,
};
pub use quarantine::{Quarantined, quarantined};
pub use ranks::Begin;
pub use recall::{Numbers, Run as RowRun, wait_for};
pub use replay::{Replay, Tap};
pub use seed::{PassSeeds, Seeded, Seeds, Taken};
pub use segment::{Bounds, Segment, UNORDERED, panic_error};
pub use segment::{ahead_text, rows_text};
pub use stage::{ChunkFn, Cx, Inline, Item, Pull, Stage, Wait, Wake, much, pop_rows};
pub use stall::{Busy, Now, SegmentNow};
pub use state::{Moment, Start, State, seeds_hash};
pub use trace::{Seen, Trace};
