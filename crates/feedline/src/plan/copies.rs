//! Copies of plans with nothing of what passes over them have left: seeds that were taken, caches that were filled.

use super::Bound;
use super::{Plan, written};
use crate::element::{Attachments, Reader, with_attachments};
use crate::error::Result;
use crate::expr::chance;
use crate::op::Op;
use std::collections::HashMap;
use std::sync::Arc;

/// What a node becomes in a copy.
pub enum Becomes {
    Copied,
    /// It is itself there, with all below it.
    Itself,
    /// Another operator, on the copies of its inputs.
    Another(Arc<dyn Op>),
}

/// Makes them. What is shared by several nodes, or by functions of theirs, is so in the copy.
pub struct Copies<'a> {
    becomes: &'a dyn Fn(&Plan) -> Becomes,
    /// Seeds that nobody gave are the same, unless it is one of several copies that have their own.
    number: Option<u64>,
    made: HashMap<u64, Plan>,
}

impl<'a> Copies<'a> {
    pub fn new(becomes: &'a dyn Fn(&Plan) -> Becomes, number: Option<u64>) -> Copies<'a> {
        written::install();
        Copies { becomes, number, made: HashMap::new() }
    }
    pub fn of(&mut self, node: &Plan) -> Result<Plan> {
        if let Some(made) = self.made.get(&node.id) {
            return Ok(made.clone());
        }
        let copy = match (self.becomes)(node) {
            Becomes::Itself => node.clone(),
            Becomes::Another(op) => Plan::new(op, self.inputs(node)?)?,
            Becomes::Copied => {
                let inputs = self.inputs(node)?;
                Plan::new(self.op(node)?, inputs)?
            }
        };
        self.made.insert(node.id, copy.clone());
        Ok(copy)
    }
    fn inputs(&mut self, node: &Plan) -> Result<Vec<Plan>> {
        node.inputs.iter().map(|input| self.of(input)).collect()
    }
    fn op(&mut self, node: &Plan) -> Result<Arc<dyn Op>> {
        let op = &node.op;
        // A source that passes leave nothing in may carry much.
        if node.inputs.is_empty() && op.functions().is_empty() && op.seeds().is_none() && !op.keeps_passes() {
            return Ok(op.clone());
        }
        let (params, attachments) = with_attachments(Reader::Copies, vec![], || op.write());
        let mut params = params?;
        if let Some(number) = self.number {
            chance::redraw(&mut params, number);
        }
        let attachments = attachments.into_iter().map(|object| match object.downcast::<Bound>() {
            Ok(bound) => Ok(Arc::new(Bound { plan: self.of(&bound.plan)?, env: bound.env.clone() }) as _),
            Err(other) => Ok(other),
        });
        let attachments = attachments.collect::<Result<Attachments>>()?;
        with_attachments(Reader::Copies, attachments, || (op.info().read)(params)).0
    }
}

#[cfg(test)]
mod tests {
    use super::super::all_nodes;
    use super::*;
    use crate::Dataset;

    /// One dataset that the pipeline reads, and a function of it twice.
    fn shared() -> Dataset {
        let base = Dataset::range(8).unwrap().shuffle(Some(4), Some(3), true).unwrap();
        let inner = |ds: &Dataset| {
            let read = base.take(2).unwrap();
            ds.flat_map(|b, _| Ok(b.dataset(Bound::nested(read.plan().clone()), read.spec().clone()))).unwrap()
        };
        inner(&inner(&base))
    }

    #[test]
    fn what_is_shared_is_shared_in_the_copy() {
        let ds = shared();
        let copy = Copies::new(&|_| Becomes::Copied, None).of(ds.plan()).unwrap();
        let shuffles = |plan: &Plan| {
            let mut ids = Vec::new();
            plan.walk_all(&mut |p| ids.extend((p.name() == "shuffle").then_some(p.id)));
            ids
        };
        let (were, are) = (shuffles(ds.plan()), shuffles(&copy));
        assert!(were.len() == 1 && are.len() == 1 && were != are, "{were:?} {are:?}");
        assert_eq!(all_nodes(ds.plan()).len(), all_nodes(&copy).len());
    }

    #[test]
    fn some_stay_and_others_change() {
        let ds = shared();
        let becomes = |node: &Plan| match node.name() {
            "shuffle" => Becomes::Itself,
            "take" => Becomes::Another(Dataset::range(1).unwrap().take(5).unwrap().plan().op.clone()),
            _ => Becomes::Copied,
        };
        let copy = Copies::new(&becomes, None).of(ds.plan()).unwrap();
        let mut seen = Vec::new();
        copy.walk_all(&mut |p| seen.push((p.name(), p.op.show(), p.id)));
        let mut before = Vec::new();
        ds.plan().walk_all(&mut |p| before.push((p.name(), p.op.show(), p.id)));
        assert_eq!(seen.len(), before.len());
        for ((name, show, id), (_, was, old)) in seen.iter().zip(&before) {
            assert_eq!(id == old, ["range", "shuffle"].contains(name), "{name}");
            assert_eq!(show != was, ["flat_map", "take"].contains(name), "{name} {show} {was}");
        }
    }
}
