//! `prefetch(buffer_size)`: elements are made ready before they are asked for.

use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param, Props, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "prefetch",
    doc: "Makes elements ready while the consumer works on earlier ones.",
    params: &[Param::new("buffer_size", "None", "how many elements; None or AUTOTUNE: as fits; 0: none")],
    read: read::<Prefetch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    #[serde(default)]
    pub buffer_size: Option<Int>,
}

impl Dataset {
    /// Works ahead by up to `buffer_size` elements, or as fits into memory's bounds.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// assert_eq!(Dataset::range(9)?.batch(2, false)?.prefetch(Some(2))?.iter()?.count(), 5);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn prefetch(&self, buffer_size: Option<i64>) -> Result<Dataset> {
        self.apply(Prefetch { buffer_size: buffer_size.map(Into::into) })
    }
}

impl Op for Prefetch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.buffer_size.and_then(Int::known) {
            at_least("buffer_size", n, -1)?;
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn props(&self) -> Props {
        Props { noop: self.buffer_size.and_then(Int::known) == Some(0), carries: true, keeps: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let size = match self.buffer_size {
            None => -1,
            Some(n) => n.get(cx)?,
        };
        at_least("buffer_size", size, -1)?;
        // Inside functions there may be thousands of pipelines: what is around them works ahead.
        if size == 0 {
            return cx.build(&node.inputs[0]);
        }
        if cx.nested {
            return Ok(Built::Stage(cx.not_ahead(&node.inputs[0])?));
        }
        let segment = cx.ahead(&node.inputs[0], |bounds| {
            if size > 0 {
                bounds.rows = bounds.rows.min(size as usize);
            }
        })?;
        if cx.begins() {
            segment.start();
        }
        Ok(Built::Stage(Box::new(segment)))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        cx.index(&node.inputs[0])
    }
    fn is_queue(&self) -> bool {
        self.buffer_size.is_some_and(|n| n.known().is_none_or(|n| n > 0))
    }
    fn tunables(&self) -> &'static [&'static str] {
        &["buffer_size"]
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, ints};

    #[test]
    fn order_and_errors_stay() {
        for size in [None, Some(-1), Some(0), Some(1), Some(3), Some(100)] {
            assert_eq!(events(&failing(5, &[2]).prefetch(size).unwrap()), "0 1 ! 3 4");
            assert_eq!(ints(&Dataset::range(5000).unwrap().prefetch(size).unwrap()).len(), 5000);
        }
        assert!(Dataset::range(5).unwrap().prefetch(Some(-2)).is_err());
    }
}
