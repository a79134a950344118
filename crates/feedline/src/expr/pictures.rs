//! Finds calls in a function that make a picture from its bytes and only feed each other, and puts one call of
//! `image.chain` in their place. See `funcs/image/chain.rs` for what that saves.

use super::func::Attrs;
use super::graph::{Graph, Kind, Node, NodeId};
use super::{Work, funcs};
use crate::element::Leaf;
use serde_json::json;

/// Functions that a chain may go on with, if its picture is their first argument.
const LINKS: &[&str] = &[
    "image.crop",
    "image.resize",
    "image.resize_with_crop_or_pad",
    "image.flip_left_right",
    "image.normalize",
    "image.convert_image_dtype",
    "cast",
    "add",
    "subtract",
    "multiply",
    "truediv",
];

impl Graph {
    /// The same function with chains in the place of their calls; None if it has none.
    pub fn with_picture_chains(&self) -> Option<Graph> {
        let is_decode = |n: &NodeId| matches!(self.call(*n), Some(("image.decode", _, _)));
        (0..self.nodes.len()).filter(is_decode).find_map(|decode| self.with_chain_from(decode))
    }

    fn call(&self, node: NodeId) -> Option<(&'static str, &[NodeId], &Attrs)> {
        match &self.nodes[node].kind {
            Kind::Call { func, args, attrs, work: Work::One(_) } => Some((func.name, args, attrs)),
            _ => None,
        }
    }
    /// The node that a node is another name of.
    fn meant(&self, mut node: NodeId) -> NodeId {
        while let Kind::Part { node: whole, index: 0 } = self.nodes[node].kind
            && self.call(whole).is_some()
        {
            node = whole;
        }
        node
    }
    /// The calls that read a node; None if it is also used in another way.
    fn readers(&self, node: NodeId) -> Option<Vec<NodeId>> {
        let mut readers = Vec::new();
        for (i, other) in self.nodes.iter().enumerate() {
            if self.meant(i) != i || !other.kind.reads(&self.exports).any(|n| self.meant(n) == node) {
                continue;
            }
            self.call(i)?;
            readers.push(i);
        }
        let used = self.outputs.iter().chain(&self.exports).any(|&n| self.meant(n) == node);
        (!used).then_some(readers)
    }
    /// The only call that goes on with the picture that `node` makes. `shapes` gets those that ask only for its shape.
    fn next_link(&self, node: NodeId, mut shapes: Option<&mut Vec<NodeId>>) -> Option<NodeId> {
        let mut readers = self.readers(node)?;
        if let Some(shapes) = &mut shapes {
            let is_shape = |n: &NodeId| matches!(self.call(*n), Some(("shape", _, _)));
            shapes.extend(readers.iter().copied().filter(is_shape));
            readers.retain(|n| !is_shape(n));
        }
        let [next] = readers[..] else { return None };
        let (name, args, _) = self.call(next)?;
        let once = args.iter().filter(|a| self.meant(**a) == node).count() == 1;
        (LINKS.contains(&name) && once && self.meant(args[0]) == node).then_some(next)
    }

    fn with_chain_from(&self, decode: NodeId) -> Option<Graph> {
        let mut shapes = Vec::new();
        let mut links = vec![decode];
        while let Some(next) = self.next_link(*links.last()?, (links.len() == 1).then_some(&mut shapes)) {
            links.push(next);
        }
        if links.len() == 1 {
            return None;
        }
        let contents = self.call(decode)?.1[0];
        // The arguments of the chain: the bytes, then what the calls take besides the picture.
        let mut args = vec![contents];
        let mut steps = Vec::new();
        for &link in &links {
            let (func, own, attrs) = self.call(link)?;
            let places: Vec<usize> = own[1..]
                .iter()
                .map(|a| {
                    args.push(*a);
                    args.len() - 1
                })
                .collect();
            steps.push(json!({"func": func, "attrs": attrs, "args": places}));
        }
        let mut nodes = self.nodes.clone();
        let call = |name: &str, args: Vec<NodeId>, attrs: Attrs| -> Option<Node> {
            let func = funcs::find(name).ok()?;
            let leaves: Vec<Leaf> = args.iter().map(|&a| self.nodes[a].leaf.clone()).collect();
            let made = (func.make)(&leaves, &attrs).ok()?;
            Some(Node { kind: Kind::Call { func, args, attrs, work: made.work }, leaf: made.spec })
        };
        let last = *links.last()?;
        let attrs = Attrs(serde_json::Map::from_iter([("steps".to_string(), steps.into())]));
        nodes[last] = call("image.chain", args, attrs)?;
        for shape in shapes {
            // What the header says; the pixels need not be there.
            let mut attrs = self.call(decode)?.2.clone();
            if let Some(dtype) = self.call(shape)?.2.get("out_type") {
                attrs.0.insert("out_type".into(), dtype.clone());
            }
            nodes[shape] = call("image.decoded_shape", vec![contents], attrs)?;
        }
        // The calls that the chain stands for, and their other names, are gone.
        let gone = &links[..links.len() - 1];
        let live: Vec<bool> = (0..nodes.len()).map(|n| !gone.contains(&self.meant(n))).collect();
        let inputs: Vec<usize> = (0..self.inputs.len()).collect();
        Some(self.with_nodes(nodes).retained(&live, &inputs))
    }
}
