//! Leaves out columns that the map behind a source does not look at, also through operators in between that only carry
//! them. A column that is not read cannot fail any more: a null or a damaged page in it is not noticed.

use super::Rule;
use crate::op::Function;
use crate::ops::map::Map;
use crate::plan::Plan;
use std::sync::Arc;

pub static RULE: Rule = Rule {
    name: "narrow_columns",
    why: "after maps are fused, so that what a second one does not use of the first is known",
    apply: |node| {
        let Some(map) = node.is::<Map>() else { return Ok(None) };
        let graph = &map.function.0;
        let reads = graph.reads();
        if reads.iter().all(|read| *read) {
            return Ok(None);
        }
        let (mut carriers, mut at) = (vec![], &node.inputs[0]);
        while at.op.props().carries && at.inputs.len() == 1 {
            carriers.push(at);
            at = &at.inputs[0];
        }
        let Some((source, kept)) = at.op.narrowed(&reads)? else { return Ok(None) };
        let mut input = Plan::new(source, at.inputs.clone())?;
        for carrier in carriers.into_iter().rev() {
            input = carrier.with_inputs(vec![input])?;
        }
        let narrow = Map { function: Function::new(graph.of_leaves(&kept)), ..map.clone() };
        Plan::new(Arc::new(narrow), vec![input]).map(Some)
    },
};
