//! `nested`: the dataset that a function got as an argument, such as a window, inside the function's own dataset.

use crate::element::{Spec, Value};
use crate::error::Result;
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Bound, Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "nested",
    doc: "The elements of a dataset that is part of an element.",
    params: &[
        Param::new("symbol", "", "which value of the function around it is the dataset"),
        Param::new("spec", "", "what its elements are"),
    ],
    read: read::<NestedInput>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NestedInput {
    symbol: usize,
    spec: Spec,
}

impl NestedInput {
    #[cfg(feature = "columnar")]
    pub fn new(symbol: usize, spec: Spec) -> NestedInput {
        NestedInput { symbol, spec }
    }
    fn value<'a>(&self, cx: &'a BuildCx) -> Result<&'a Value> {
        cx.symbol(self.symbol)
    }
}

impl Op for NestedInput {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.spec.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(Built::Stage(cx.nested_stage(self.value(cx)?, 0)?))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let bound = Bound::of(self.value(cx)?)?;
        cx.with_env(bound.env.clone()).index(&bound.plan)
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}
