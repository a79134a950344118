//! Who holds a pipeline back.

/// Who the others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Elements are ready whenever they are asked for.
    Consumer,
    /// The consumer waits.
    Pipeline,
}

/// From the time that a consumer waited in a pass.
pub fn verdict(waited_ns: u64, elapsed_ns: u64) -> Verdict {
    // Below a tenth, the wait is mostly the start of the pass.
    if waited_ns.saturating_mul(10) < elapsed_ns { Verdict::Consumer } else { Verdict::Pipeline }
}
