//! `with_options(options)`: wishes about how the pipeline runs; the elements stay the same.

use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, Props, read};
use crate::options::{MaxErrors, Options};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "with_options",
    doc: "Sets options for the whole pipeline; a later call wins field by field.",
    params: &[Param::new("options", "", "the options")],
    read: read::<WithOptions>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WithOptions {
    options: Options,
}

impl Dataset {
    /// The same elements under these options.
    pub fn with_options(&self, options: Options) -> Result<Dataset> {
        self.apply(WithOptions { options })
    }
}

impl Op for WithOptions {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(MaxErrors::Share(share)) = self.options.max_errors
            && !(0.0..=1.0).contains(&share)
        {
            return Err(Error::usage(format!("max_errors is a count or a share from 0 to 1, not {share}")));
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        super::after_errors(inputs[0].card, self.options.on_error)
    }
    fn props(&self) -> Props {
        Props { carries: true, keeps: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        cx.build(&node.inputs[0])
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        cx.index(&node.inputs[0])
    }
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        match serde_json::to_value(&self.options) {
            Ok(serde_json::Value::Object(map)) => {
                map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
            }
            _ => String::new(),
        }
    }
}
