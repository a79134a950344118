//! How it runs: stages that are pulled, segments that work ahead on one pool, and the iterator that a consumer holds.

mod batches;
mod build;
mod index;
mod iter;
mod meter;
mod pool;
mod process;
mod seed;
mod segment;
mod stage;
pub mod sync;

pub use build::{BuildCx, Built, Known, Run, mix};
pub use index::Index;
pub use iter::{Iter, Stopper, index as index_of, streaming_op, streams};
pub use meter::{Meter, Meters};
pub use pool::{Pool, Work};
pub use process::{Settings, configure, pool as process_pool, settings};
pub use seed::PassSeeds;
pub use segment::{Bounds, Segment};
pub use stage::{ChunkFn, Cx, Inline, Item, Pull, Stage, Wake, pop_rows};
