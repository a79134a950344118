//! `from_list(values)`: elements that were written down one by one.

use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Packed, Pos, Spec};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::ops::held::{Held, Kept};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "from_list",
    doc: "The elements of a list, which have one structure and may have different shapes.",
    params: &[Param::new("values", "", "a list of elements")],
    read: read::<FromList>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromList {
    values: Vec<Packed>,
    #[serde(skip)]
    rows: Kept,
}

impl Dataset {
    /// A list of elements of one structure.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Tensor};
    /// let ds = Dataset::from_list([Tensor::from_items([1], &[1i64]), Tensor::from_items([2], &[2i64, 3])])?;
    /// assert_eq!(ds.spec().to_string(), "int64[?]");
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn from_list(values: impl IntoIterator<Item = impl Into<Packed>>) -> Result<Dataset> {
        Dataset::source(FromList { values: values.into_iter().map(Into::into).collect(), rows: Kept::default() })
    }
}

impl Op for FromList {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        let Some((first, rest)) = self.values.split_first() else {
            crate::bail!(Usage, "the list is empty; there is no element to take the structure from");
        };
        let mut spec = first.spec.clone();
        for (i, value) in rest.iter().enumerate() {
            if value.spec != spec {
                spec = spec.join(&value.spec).map_err(|_| {
                    Error::usage(format!(
                        "all elements must have one structure and the same dtypes: element 0 is {}, element {} is {}",
                        first.spec,
                        i + 1,
                        value.spec
                    ))
                })?;
            }
        }
        Ok(spec)
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Known(self.values.len() as u64)
    }
    fn build(&self, _: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(self.held(&node.spec)?.into_stage(0))
    }
    fn index(&self, _: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(self.held(&node.spec)?)))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        format!("{} elements", self.values.len())
    }
}

impl FromList {
    fn held(&self, spec: &Spec) -> Result<Held> {
        let element = |v: &Packed| -> Element {
            // Mappings match by key, in whatever order they were written.
            spec.leaf_order(&v.spec).into_iter().map(|i| v.values[i].clone()).collect()
        };
        let chunk = || Chunk::from_elements(Pos::Run(0), self.values.iter().map(element).collect());
        self.rows.get(|| Ok(Held::new(chunk())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Tensor, Tree};

    #[test]
    fn mismatches_are_refused() {
        let none: [Tensor; 0] = [];
        assert!(Dataset::from_list(none).unwrap_err().to_string().contains("empty"));
        let mixed = [Tensor::scalar(1i64), Tensor::scalar(2f32)];
        let text = Dataset::from_list(mixed).unwrap_err().to_string();
        assert!(text.contains("element 0 is int64, element 1 is float32"), "{text}");
    }

    #[test]
    fn mappings_match_by_key() {
        let map = |a: &str, x: i64, b: &str, y: i64| {
            let leaf = |v| Tree::Leaf(Tensor::scalar(v).into());
            Packed::of(Tree::Map { tag: None, items: vec![(a.into(), leaf(x)), (b.into(), leaf(y))] }).unwrap()
        };
        let ds = Dataset::from_list([map("a", 1, "b", 2), map("b", 20, "a", 10)]).unwrap();
        let all: Vec<i64> = ds.iter().unwrap().flat_map(|e| e.unwrap()).map(|v| v.tensor().item()).collect();
        assert_eq!(all, [1, 2, 10, 20]);
    }
}
