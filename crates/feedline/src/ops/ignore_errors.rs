//! `ignore_errors()`: elements that failed are left out.

use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::Result;
use crate::op::{Op, OpInfo, Param, read};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Mark, Pull, Stage, Tally};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "ignore_errors",
    doc: "Leaves out elements that failed anywhere before.",
    params: &[Param::new("log_warning", "False", "write each of them to the log")],
    read: read::<IgnoreErrors>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IgnoreErrors {
    #[serde(default)]
    pub log_warning: bool,
}

impl Dataset {
    /// Leaves out failed elements, and says so in the log if asked.
    ///
    /// ```
    /// # use feedline::{Dataset, Error, element::{DType, Spec}};
    /// let ds = Dataset::range(3)?.map_fn(Spec::scalar(DType::Int64), |e| match e[0].tensor().item::<i64>() {
    ///     1 => Err(Error::data("bad")),
    ///     _ => Ok(e),
    /// })?;
    /// assert_eq!(ds.ignore_errors(false)?.iter()?.count(), 2);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn ignore_errors(&self, log_warning: bool) -> Result<Dataset> {
        self.apply(IgnoreErrors { log_warning })
    }
}

impl Op for IgnoreErrors {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let input = cx.stage(&node.inputs[0])?;
        let tally = cx.tally(node, OnError::Skip);
        Ok(Built::Stage(Box::new(IgnoreStage { input, log: self.log_warning, tally, again: cx.again })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct IgnoreStage {
    input: Box<dyn Stage>,
    log: bool,
    tally: Arc<Tally>,
    /// Reads again what was counted before.
    again: bool,
}

impl Stage for IgnoreStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            match self.input.next(cx, want) {
                // Nothing comes after it: without it, data would end early and nobody know.
                Pull::Fail(error) if error.ends() => return Pull::Fail(error),
                Pull::Fail(_) if self.again => {}
                Pull::Fail(error) => {
                    self.tally.count(&error);
                    if self.log {
                        log::warn!("ignore_errors: left out an element: {error}");
                    }
                }
                other => return other,
            }
            if cx.is_cancelled() {
                return Pull::End;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.tally.mark(out);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.tally.seek(at, self.again)?;
        self.input.seek(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing};

    #[test]
    fn before_and_after_batch() {
        let bad = || failing(6, &[1]);
        assert_eq!(events(&bad().ignore_errors(true).unwrap()), "0 2 3 4 5");
        assert_eq!(events(&failing(3, &[0, 1, 2]).ignore_errors(false).unwrap()), "");
        let sizes = |ds: Dataset| ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().len()).collect::<Vec<_>>();
        assert_eq!(sizes(bad().ignore_errors(false).unwrap().batch(2, false).unwrap()), [2, 2, 1]);
        assert_eq!(sizes(bad().batch(2, false).unwrap().ignore_errors(false).unwrap()), [2, 2]);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let ds = failing(6, &[1, 4]).ignore_errors(false).unwrap();
        assert_eq!(events(&ds), "0 2 3 5");
        let text = ds.explain(crate::plan::Format::Text);
        assert!(text.contains("ignore_errors left out 2 elements"), "{text}");
    }
}
