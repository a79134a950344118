//! Makes one function of two maps in a row: one pass over the chunk, and results that can be overwritten in place.

use super::Rule;
use crate::op::Function;
use crate::ops::map::Map;
use crate::plan::Plan;
use std::sync::Arc;

pub static RULE: Rule = Rule {
    name: "fuse_maps",
    why: "after no-ops are gone, so that maps stand next to each other",
    apply: |node| {
        let Some(outer) = node.is::<Map>() else { return Ok(None) };
        let Some(inner) = node.inputs[0].is::<Map>() else { return Ok(None) };
        let (f, g) = (&inner.function.0, &outer.function.0);
        // Python functions keep their own calls and their own place in messages; datasets inside functions refer to
        // exported values by number, which only one of the two may have.
        let plain = f.host_fn().is_none() && g.host_fn().is_none() && f.exports.is_empty() && g.exports.is_empty();
        let alike = (inner.num_parallel_calls, inner.deterministic, inner.synchronous, inner.on_error)
            == (outer.num_parallel_calls, outer.deterministic, outer.synchronous, outer.on_error);
        if !plain || !alike {
            return Ok(None);
        }
        let layers = inner.layers + outer.layers;
        let fused = Map { function: Function::new(f.then(g)), layers, ..outer.clone() };
        Plan::new(Arc::new(fused), node.inputs[0].inputs.clone()).map(Some)
    },
};
