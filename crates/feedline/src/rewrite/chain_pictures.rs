//! Makes one call of the functions that bring a picture from its bytes into the batch: only what is needed is decoded, and
//! pixels are touched once.

use super::Rule;
use crate::op::Function;
use crate::ops::map::Map;
use crate::plan::Plan;
use std::sync::Arc;

pub static RULE: Rule = Rule {
    name: "chain_pictures",
    why: "after maps are fused, so that a picture's functions stand in one graph",
    apply: |node| {
        let Some(map) = node.is::<Map>() else { return Ok(None) };
        let Some(chained) = map.function.0.with_picture_chains() else { return Ok(None) };
        let chained = Map { function: Function::new(chained), ..map.clone() };
        Plan::new(Arc::new(chained), node.inputs.clone()).map(Some)
    },
};
