//! Functions as data: expressions that were traced once, their types, and their evaluation over chunks.

pub mod chance;
mod crew;
mod func;
pub mod funcs;
mod graph;
#[cfg(feature = "image")]
mod pictures;

pub use crew::{Answer, Ask, Crew, Errand, OnDeath, Part, Reply};
pub use func::{Arg, Attrs, ByRow, Func, Kernel, Made, RowAt, RowsAt, Several, Work, arity, dense, run, run_several};
pub use funcs::Philox;
pub use graph::{Builder, Graph, HostAttachment, HostFn, Kind, Node, NodeId, as_argument};
