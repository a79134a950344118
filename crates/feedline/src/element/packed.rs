//! Values with their structure: how data from outside becomes an operator's parameter.

use super::spec::{Leaf, Spec, Tree};
use super::value::Value;
use super::{Tensor, attach_value, attached};
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::sync::Arc;

/// A structure of values: its spec, and a value for each leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    pub spec: Spec,
    pub values: Vec<Value>,
}

impl Packed {
    pub fn new(spec: Spec, values: Vec<Value>) -> Result<Packed> {
        let leaves = spec.leaves();
        if leaves.len() != values.len() || !leaves.iter().zip(&values).all(|(l, v)| l.accepts(v)) {
            return Err(Error::usage(format!("the values do not match their spec {spec}")));
        }
        Ok(Packed { spec, values })
    }
    /// With the spec that the values themselves have. Datasets among them need `new`.
    pub fn of(tree: Tree<Value>) -> Result<Packed> {
        let spec = tree.try_map(&mut |v| Leaf::of(v).ok_or_else(|| Error::usage("a dataset needs a spec")))?;
        Ok(Packed { spec, values: tree.leaves().into_iter().cloned().collect() })
    }
}

impl From<Tensor> for Packed {
    fn from(t: Tensor) -> Packed {
        Packed { spec: Spec::leaf(Leaf::of_tensor(&t)), values: vec![t.into()] }
    }
}

/// A tuple of tensors.
impl From<Vec<Tensor>> for Packed {
    fn from(list: Vec<Tensor>) -> Packed {
        let spec = Tree::tuple(list.iter().map(|t| Spec::leaf(Leaf::of_tensor(t))).collect());
        Packed { spec, values: list.into_iter().map(Value::Tensor).collect() }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Live { live: usize },
    Spelt { spec: Spec, values: Vec<Value> },
}

impl Serialize for Packed {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match attach_value(Arc::new(self.clone())) {
            Some(live) => Written::Live { live },
            None => Written::Spelt { spec: self.spec.clone(), values: self.values.clone() },
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Packed, D::Error> {
        match Written::deserialize(d)? {
            Written::Live { live } => attached(live)
                .and_then(|o| o.downcast_ref::<Packed>().cloned())
                .ok_or_else(|| D::Error::custom("no such values")),
            Written::Spelt { spec, values } => Packed::new(spec, values).map_err(D::Error::custom),
        }
    }
}
