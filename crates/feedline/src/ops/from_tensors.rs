//! `from_tensors(values)`: one element, the whole structure.

use crate::dataset::Dataset;
use crate::element::{Buf, Chunk, Packed, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::ops::held::Held;
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "from_tensors",
    doc: "One element: the values as they are.",
    params: &[Param::new("values", "", "a value, or a structure of values")],
    read: read::<FromTensors>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FromTensors {
    given: Given,
}

/// Values, or the numbers of values of the function around the dataset.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values: Option<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    symbols: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    #[serde(skip)]
    claimed: OnceLock<usize>,
}

impl Given {
    pub fn new(values: Packed) -> Given {
        Given { values: Some(values), symbols: None, spec: None, claimed: OnceLock::new() }
    }
    pub fn spec(&self) -> Result<&Spec> {
        match (&self.values, &self.symbols, &self.spec) {
            (Some(v), None, None) => Ok(&v.spec),
            (None, Some(s), Some(spec)) if spec.leaf_count() == s.len() => Ok(spec),
            _ => Err(Error::usage("needs values, or symbols with their spec")),
        }
    }
    /// Bytes of values that go with it.
    pub fn held_bytes(&self) -> usize {
        self.claimed.get().copied().unwrap_or(0)
    }
    pub fn blocks(&self) -> Vec<&Buf> {
        self.known().into_iter().flatten().flat_map(Value::tensors).flat_map(Tensor::blocks).collect()
    }
    pub fn claim(&self, bytes: usize) {
        // A second time it is the same.
        let _ = self.claimed.set(bytes);
    }
    /// Whether a function made it while a pass ran: others are there for all passes.
    pub fn is_claimed(&self) -> bool {
        self.claimed.get().is_some()
    }
    /// The values, if they are known before anything runs.
    pub fn known(&self) -> Option<&[Value]> {
        self.values.as_ref().map(|v| v.values.as_slice())
    }
    pub fn get(&self, cx: &BuildCx) -> Result<Vec<Value>> {
        match (&self.values, &self.symbols) {
            (Some(v), _) => Ok(v.values.clone()),
            (None, symbols) => symbols.iter().flatten().map(|&k| cx.symbol(k).cloned()).collect(),
        }
    }
}

impl Dataset {
    /// A dataset of one element.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Tensor};
    /// let ds = Dataset::from_tensors(Tensor::from_items([2], &[1i64, 2]))?;
    /// assert_eq!(ds.iter()?.count(), 1);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn from_tensors(values: impl Into<Packed>) -> Result<Dataset> {
        Dataset::source(FromTensors { given: Given::new(values.into()) })
    }
}

impl Op for FromTensors {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.given.spec().cloned()
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Known(1)
    }
    fn build(&self, cx: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(self.held(cx)?.into_stage(0))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(self.held(cx)?)))
    }
    fn held_bytes(&self) -> usize {
        self.given.held_bytes()
    }
    fn given(&self) -> Vec<&Buf> {
        self.given.blocks()
    }
    fn claim(&self, bytes: usize) {
        self.given.claim(bytes);
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        self.given.spec().map(|s| s.to_string()).unwrap_or_default()
    }
}

impl FromTensors {
    fn held(&self, cx: &BuildCx) -> Result<Held> {
        let held = Held::new(Chunk::one(0, self.given.get(cx)?.into()));
        // What a function made for it goes with it.
        Ok(if self.given.known().is_some() && !self.given.is_claimed() { held.kept() } else { held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Tree;
    use crate::ops::find;

    #[test]
    fn keeps_structure_and_absent_parts() {
        let t = Tensor::from_items([0, 3], &[] as &[i32]);
        let tree = Tree::tuple(vec![Tree::Leaf(t.clone().into()), Tree::Leaf(Value::Absent)]);
        let ds = Dataset::from_tensors(Packed::of(tree).unwrap()).unwrap();
        assert_eq!(ds.spec().to_string(), "(int32[0, 3], none)");
        let all: Vec<_> = ds.iter().unwrap().map(|e| e.unwrap()).collect();
        assert_eq!(all, [[Value::Tensor(t), Value::Absent].into_iter().collect::<crate::element::Element>()]);
        assert_eq!(ds.index().unwrap().len(), 1);
    }

    #[test]
    fn written_values_and_symbols_come_back() {
        let ds = Dataset::from_tensors(Tensor::scalar(5i64)).unwrap();
        let op = (find("from_tensors").unwrap().read)(ds.plan().op.write().unwrap()).unwrap();
        assert_eq!(op.spec(&[]).unwrap(), *ds.spec());
        let symbolic = serde_json::json!({ "symbols": [0], "spec": ds.spec() });
        let op = (find("from_tensors").unwrap().read)(symbolic).unwrap();
        let plan = Plan::new(op, vec![]).unwrap();
        assert!(Dataset::from_plan(plan.clone()).iter().is_err());
        let bound = crate::plan::Bound { plan, env: [Value::Tensor(Tensor::scalar(7i64))].into() };
        let got = crate::iterate(&bound).unwrap().next().unwrap().unwrap();
        assert_eq!(got[0].tensor().item::<i64>(), 7);
    }
}
