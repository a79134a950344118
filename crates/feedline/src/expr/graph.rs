//! A traced function as data: nodes in the order in which they were made, each with its type; evaluated over whole
//! chunks. `Builder` makes one, checking types at every step, so that a mistake is reported at the user's own line.

use super::chance;
use super::crew::{Ask, Crew};
use super::func::{Arg, Attrs, RowsAt, Work, run, run_several};
use super::funcs;
use crate::element::{Column, DType, Element, Leaf, Nested, Slot, Spec, Tensor, Tree, Value};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A node of a graph, by number.
pub type NodeId = usize;

/// A function outside of expressions: Python, or a Rust closure. Called for one element at a time.
pub trait HostFn: Send + Sync + fmt::Debug + std::any::Any {
    fn name(&self) -> String;
    /// What tells it from another function, in later processes too; `None` if nothing does.
    fn identity(&self) -> Option<Vec<u8>> {
        Some(self.name().into_bytes())
    }
    /// The same without what calls may change, for states; `None` if nobody can tell. What stands before the last blank
    /// says what it can be compared with.
    fn code(&self) -> Option<String> {
        None
    }
    /// Whether it seems to draw random numbers, as far as that can be told without a call.
    fn may_draw(&self) -> bool {
        false
    }
    /// The leaves that came in, to the leaves that go out (as many as declared).
    fn call(&self, args: Element) -> Result<Element>;
    /// Whatever is needed around the calls for one chunk (the interpreter lock), once.
    fn scoped(&self, body: &mut dyn FnMut()) {
        body()
    }
    /// May several threads call it at once, and as early as they like?
    fn parallel(&self) -> bool;
    /// Those who call it elsewhere, in this process's place; `None` if it can only be called here.
    fn crew(&self, _ask: &Ask) -> Result<Option<Arc<dyn Crew>>> {
        Ok(None)
    }
}

#[derive(Clone)]
pub enum Kind {
    Input(usize),
    Const(Value),
    /// A value of the function around this one.
    Capture(usize),
    Call {
        func: &'static super::Func,
        args: Vec<NodeId>,
        attrs: Attrs,
        work: Work,
    },
    /// Calls host code; its results are taken apart by `Part`.
    Host {
        func: Arc<dyn HostFn>,
        args: Vec<NodeId>,
        outputs: Vec<Leaf>,
    },
    Part {
        node: NodeId,
        index: usize,
    },
    /// One of two functions, chosen row by row; they see the exported values of this graph.
    Cond {
        pred: NodeId,
        then: Arc<Graph>,
        otherwise: Arc<Graph>,
    },
    /// A dataset whose parameters are exported values of this graph.
    Dataset(Nested),
}

#[derive(Clone)]
pub struct Node {
    pub kind: Kind,
    pub leaf: Leaf,
}

/// A function from the leaves of one spec to the leaves of another.
#[derive(Clone)]
pub struct Graph {
    pub inputs: Vec<Leaf>,
    pub nodes: Vec<Node>,
    /// Nodes that inner functions and datasets refer to, by their place in this list.
    pub exports: Vec<NodeId>,
    pub outputs: Vec<NodeId>,
    pub spec: Spec,
    /// For each node, the last node that reads it (its own number if none): after that its memory can be reused.
    last_use: Vec<NodeId>,
    /// For each node, the output in whose memory its result belongs: an output's own node, and those that it overwrites.
    slot_of: Vec<Option<usize>>,
}

impl Graph {
    fn finish(inputs: Vec<Leaf>, nodes: Vec<Node>, exports: Vec<NodeId>, outputs: Vec<NodeId>, spec: Spec) -> Graph {
        let mut last_use: Vec<NodeId> = (0..nodes.len()).collect();
        for (i, node) in nodes.iter().enumerate() {
            node.kind.reads(&exports).for_each(|n| last_use[n] = i);
        }
        outputs.iter().for_each(|&n| last_use[n] = NodeId::MAX);
        let mut slot_of = vec![None; nodes.len()];
        for (k, &output) in outputs.iter().enumerate() {
            let mut at = Some(output);
            while let Some(n) = at.filter(|n| slot_of[*n].is_none())
                && let Kind::Call { args, work: Work::One(kernel), .. } = &nodes[n].kind
            {
                slot_of[n] = Some(k);
                let alike = |a: &&NodeId| last_use[**a] == n && nodes[**a].leaf == nodes[n].leaf;
                at = args.iter().find(alike).copied().filter(|_| kernel.overwrites());
            }
        }
        Graph { inputs, nodes, exports, outputs, spec, last_use, slot_of }
    }

    /// The function that returns its argument.
    pub fn identity(spec: &Spec) -> Graph {
        let inputs: Vec<Leaf> = spec.leaves().into_iter().cloned().collect();
        let nodes = inputs.iter().enumerate().map(|(i, l)| Node { kind: Kind::Input(i), leaf: l.clone() }).collect();
        let outputs = (0..inputs.len()).collect();
        Graph::finish(inputs, nodes, vec![], outputs, spec.clone())
    }

    /// A function that hands its whole argument to host code. Without a signature, results have unknown shapes.
    pub fn host(input: &Spec, func: Arc<dyn HostFn>, output: Spec) -> Graph {
        let mut b = Builder::new(input);
        let args = (0..b.inputs.len()).collect();
        let parts = b.host(func, args, output.leaves().into_iter().cloned().collect());
        let mut at = parts.into_iter();
        let tree = output.map(|_| at.next().expect("a part for each leaf"));
        b.finish(&tree)
    }

    /// Are there calls of host code anywhere in it? The one that sets up the scope is returned.
    pub fn host_fn(&self) -> Option<&Arc<dyn HostFn>> {
        self.nodes.iter().find_map(|n| match &n.kind {
            Kind::Host { func, .. } => Some(func),
            Kind::Cond { then, otherwise, .. } => then.host_fn().or_else(|| otherwise.host_fn()),
            _ => None,
        })
    }
    /// Whether host code anywhere in it seems to draw random numbers.
    pub fn may_draw(&self) -> bool {
        self.nodes.iter().any(|n| match &n.kind {
            Kind::Host { func, .. } => func.may_draw(),
            Kind::Cond { then, otherwise, .. } => then.may_draw() || otherwise.may_draw(),
            _ => false,
        })
    }
    /// Every call of a function of the table, those of branches included.
    pub fn calls(&self, f: &mut dyn FnMut(&'static super::Func, &Attrs)) {
        for node in &self.nodes {
            match &node.kind {
                Kind::Call { func, attrs, .. } => f(func, attrs),
                Kind::Cond { then, otherwise, .. } => {
                    then.calls(f);
                    otherwise.calls(f);
                }
                _ => {}
            }
        }
    }
    /// The host function that does all there is to do: it gets all arguments in order, and gives all results.
    pub fn only_host(&self) -> Option<&Arc<dyn HostFn>> {
        let (at, func, args, outputs) = self.nodes.iter().enumerate().find_map(|(at, n)| match &n.kind {
            Kind::Host { func, args, outputs } => Some((at, func, args, outputs)),
            _ => None,
        })?;
        let input = |(i, &a): (usize, &NodeId)| matches!(self.nodes[a].kind, Kind::Input(k) if k == i);
        let part = |(i, &o): (usize, &NodeId)| matches!(self.nodes[o].kind, Kind::Part { node, index } if node == at && index == i);
        let whole = args.len() == self.inputs.len() && outputs.len() == self.outputs.len();
        let direct = args.iter().enumerate().all(input) && self.outputs.iter().enumerate().all(part);
        (whole && direct).then_some(func)
    }
    /// The columns of a chunk as the function gets them.
    pub fn arguments(&self, columns: &[Column]) -> Vec<Column> {
        columns.iter().zip(&self.inputs).map(|(column, leaf)| argument(column, leaf)).collect()
    }
    /// Whether equal arguments give equal results.
    pub fn is_pure(&self) -> bool {
        self.nodes.iter().all(|n| match &n.kind {
            Kind::Call { func, .. } => func.pure,
            Kind::Host { .. } => false,
            Kind::Cond { then, otherwise, .. } => then.is_pure() && otherwise.is_pure(),
            _ => true,
        })
    }
    /// Whether the function depends on values around it.
    pub fn has_captures(&self) -> bool {
        self.nodes.iter().any(|n| matches!(n.kind, Kind::Capture(_)))
    }
    /// The output leaf that is input `i` unchanged, for each output.
    pub fn passes(&self) -> Vec<Option<usize>> {
        self.outputs
            .iter()
            .map(|&n| match self.nodes[n].kind {
                Kind::Input(i) => Some(i),
                _ => None,
            })
            .collect()
    }
    /// Whether it only returns its argument: a call whose result is not used may still fail.
    pub fn is_identity(&self) -> bool {
        if !self.nodes.iter().all(|n| matches!(n.kind, Kind::Input(_) | Kind::Part { .. })) {
            return false;
        }
        self.outputs.len() == self.inputs.len() && self.passes().iter().enumerate().all(|(i, p)| *p == Some(i))
    }

    /// Results of a whole chunk. `captures` are the values around the function.
    pub fn eval(
        &self,
        inputs: &[Column],
        captures: &[Arg],
        rows: usize,
        at: RowsAt<'_>,
    ) -> Result<SmallVec<[Column; 2]>> {
        self.eval_into(inputs, captures, rows, at, &mut [])
    }

    /// The same; results that can be made where they belong are made there: in the slots of the outputs.
    pub fn eval_into(
        &self,
        inputs: &[Column],
        captures: &[Arg],
        rows: usize,
        at: RowsAt<'_>,
        into: &mut [Option<Slot>],
    ) -> Result<SmallVec<[Column; 2]>> {
        let mut slots: Vec<SmallVec<[Arg; 1]>> = Vec::with_capacity(self.nodes.len());
        for (id, node) in self.nodes.iter().enumerate() {
            let slot: SmallVec<[Arg; 1]> = match &node.kind {
                Kind::Input(i) => smallvec::smallvec![Arg::Rows(argument(&inputs[*i], &node.leaf))],
                Kind::Const(v) => smallvec::smallvec![Arg::Same(v.clone())],
                Kind::Capture(k) => {
                    let value = captures.get(*k).ok_or_else(|| {
                        Error::usage(
                            "this function depends on a value of the function around it and can only run there",
                        )
                    })?;
                    smallvec::smallvec![value.clone()]
                }
                Kind::Part { node, index } => smallvec::smallvec![slots[*node][*index].clone()],
                Kind::Call { args, work, func, .. } => {
                    // An argument that nobody reads after this is moved, so that its memory can be written in place.
                    let args: Vec<Arg> = args
                        .iter()
                        .enumerate()
                        .map(|(i, &a)| match self.last_use[a] == id && !args[i + 1..].contains(&a) {
                            true => std::mem::take(&mut slots[a]).into_iter().next().expect("used once"),
                            false => slots[a][0].clone(),
                        })
                        .collect();
                    let failed = |e: Error| self.in_file(e, id, inputs, rows).in_op(func.name);
                    match work {
                        Work::One(kernel) => {
                            let slot = self.slot_of[id].and_then(|k| into.get_mut(k)).and_then(|s| s.as_mut());
                            let column = run(&**kernel, args, rows, at, slot).map_err(failed)?;
                            smallvec::smallvec![Arg::Rows(column)]
                        }
                        Work::Several(specs, kernel) => {
                            let columns = run_several(&**kernel, args, specs.len(), rows, at).map_err(failed)?;
                            columns.into_iter().map(Arg::Rows).collect()
                        }
                    }
                }
                Kind::Host { func, args, outputs } => {
                    let mut columns: Vec<Vec<Value>> = outputs.iter().map(|_| Vec::with_capacity(rows)).collect();
                    for row in 0..rows {
                        let result = func.call(args.iter().map(|&a| slots[a][0].get(row)).collect())?;
                        check_host(&**func, &result, outputs)?;
                        columns.iter_mut().zip(result).for_each(|(c, v)| c.push(v));
                    }
                    columns.into_iter().map(|c| Arg::Rows(Column::from_values(c))).collect()
                }
                Kind::Cond { pred, then, otherwise } => {
                    let captures: Vec<Arg> = self.exports.iter().map(|&n| exported(&slots, n)).collect();
                    eval_cond(&slots[*pred][0], then, otherwise, &captures, rows, at)?
                }
                Kind::Dataset(nested) => {
                    let env: Vec<Arg> = self.exports.iter().map(|&n| exported(&slots, n)).collect();
                    let bind = |row| Value::Dataset(nested.0.bind(env.iter().map(|a| a.get(row)).collect()));
                    let values = (0..rows).map(bind).collect();
                    smallvec::smallvec![Arg::Rows(Column::from_values(values))]
                }
            };
            slots.push(slot);
        }
        Ok(self.outputs.iter().map(|&n| slots[n][0].clone().into_column(rows)).collect())
    }

    /// An error of a node, with the file whose contents it worked on, if the function reads one and has one row.
    fn in_file(&self, error: Error, node: NodeId, inputs: &[Column], rows: usize) -> Error {
        if rows != 1 || error.at().file.is_some() {
            return error;
        }
        let (mut todo, mut seen) = (vec![node], vec![false; self.nodes.len()]);
        while let Some(n) = todo.pop() {
            if std::mem::replace(&mut seen[n], true) {
                continue;
            }
            let kind = &self.nodes[n].kind;
            if let Kind::Call { func, args, .. } = kind
                && func.name == "io.read_file"
                && let Some(name) = self.known(args[0], inputs)
                && let Some(name) = name.as_tensor().filter(|t| t.dtype() == DType::String && t.len() == 1)
            {
                return error.in_file(&String::from_utf8_lossy(name.str_at(0)), None);
            }
            todo.extend(kind.reads(&self.exports));
        }
        error
    }
    /// A node's value in the only row, if it needs no computing.
    fn known(&self, node: NodeId, inputs: &[Column]) -> Option<Value> {
        match &self.nodes[node].kind {
            Kind::Input(i) => inputs.get(*i).map(|column| column.get(0)),
            Kind::Const(value) => Some(value.clone()),
            Kind::Part { node, index: 0 } => self.known(*node, inputs),
            _ => None,
        }
    }

    /// One element.
    pub fn eval_one(&self, element: &Element, captures: &[Arg], at: super::RowAt) -> Result<Element> {
        let chunk = crate::element::Chunk::one(at.pos, element.clone());
        let pos = crate::element::Pos::Run(at.pos);
        let columns = self.eval(chunk.columns(), captures, 1, RowsAt { epoch: at.epoch, pos: &pos })?;
        Ok(columns.iter().map(|c| c.get(0)).collect())
    }

    /// This function, then `next` on its results.
    pub fn then(&self, next: &Graph) -> Graph {
        let base = self.nodes.len();
        let exports = self.exports.len();
        let mut nodes = self.nodes.clone();
        // Inputs of `next` become our outputs; its other nodes move up by `base`, its exports by ours.
        let rename = |n: NodeId| match next.nodes[n].kind {
            Kind::Input(i) => self.outputs[i],
            _ => base + n,
        };
        for node in &next.nodes {
            let kind = match &node.kind {
                Kind::Input(i) => Kind::Part { node: self.outputs[*i], index: 0 },
                other => other.clone().renamed(rename),
            };
            nodes.push(Node { kind, leaf: node.leaf.clone() });
        }
        debug_assert!(exports == 0 || next.exports.is_empty(), "only one of two fused functions may export");
        let exports = self.exports.iter().copied().chain(next.exports.iter().map(|&n| rename(n))).collect();
        let outputs = next.outputs.iter().map(|&n| rename(n)).collect();
        // Nothing is dropped: a call whose result is not used may still fail, and its element with it.
        Graph::finish(self.inputs.clone(), nodes, exports, outputs, next.spec.clone())
    }

    /// The same with other nodes in the place of its own.
    #[cfg(feature = "image")]
    pub(super) fn with_nodes(&self, nodes: Vec<Node>) -> Graph {
        Graph { nodes, ..self.clone() }
    }

    /// Drops nodes that nothing reads.
    fn without_unused(self) -> Graph {
        let live = self.reached(&[]);
        let inputs: Vec<usize> = (0..self.inputs.len()).collect();
        self.retained(&live, &inputs)
    }
    /// The nodes that the results, the exports (which keep their places: inner functions refer to them by number) and
    /// these others are made of.
    fn reached(&self, others: &[NodeId]) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        let mut todo: Vec<NodeId> = self.outputs.iter().chain(&self.exports).chain(others).copied().collect();
        while let Some(n) = todo.pop() {
            if !std::mem::replace(&mut live[n], true) {
                todo.extend(self.nodes[n].kind.reads(&self.exports));
            }
        }
        live
    }
    /// The nodes that matter when the function runs: a call whose result is not used may still fail.
    fn running(&self) -> Vec<bool> {
        let runs = |n: &NodeId| {
            let kind = &self.nodes[*n].kind;
            matches!(kind, Kind::Call { .. } | Kind::Host { .. } | Kind::Cond { .. } | Kind::Dataset(_))
        };
        self.reached(&(0..self.nodes.len()).filter(runs).collect::<Vec<_>>())
    }
    /// Which leaves of its argument the function looks at.
    pub fn reads(&self) -> Vec<bool> {
        let mut reads = vec![false; self.inputs.len()];
        for (node, live) in self.nodes.iter().zip(self.running()) {
            if let (Kind::Input(i), true) = (&node.kind, live) {
                reads[*i] = true;
            }
        }
        reads
    }
    /// The same function of an argument that has only these leaves, among which are all that it looks at.
    pub fn of_leaves(&self, keep: &[usize]) -> Graph {
        self.clone().retained(&self.running(), keep)
    }
    /// With these of the nodes and these of the inputs.
    pub(super) fn retained(self, live: &[bool], inputs: &[usize]) -> Graph {
        let mut place = vec![0; self.nodes.len()];
        let mut nodes = Vec::new();
        for (i, node) in self.nodes.into_iter().enumerate() {
            if live[i] {
                place[i] = nodes.len();
                let kind = match node.kind {
                    Kind::Input(i) => {
                        Kind::Input(inputs.iter().position(|&k| k == i).expect("an input that is read is kept"))
                    }
                    kind => kind.renamed(|n| place[n]),
                };
                nodes.push(Node { kind, leaf: node.leaf });
            }
        }
        let exports = self.exports.iter().map(|&n| place[n]).collect();
        let outputs = self.outputs.iter().map(|&n| place[n]).collect();
        let inputs = inputs.iter().map(|&i| self.inputs[i].clone()).collect();
        Graph::finish(inputs, nodes, exports, outputs, self.spec)
    }
}

impl Kind {
    /// Whether it has several results, which only parts of it name.
    fn is_several(&self) -> bool {
        matches!(self, Kind::Host { .. } | Kind::Cond { .. } | Kind::Call { work: Work::Several(..), .. })
    }
    pub(super) fn reads(&self, exports: &[NodeId]) -> impl Iterator<Item = NodeId> {
        let list: SmallVec<[NodeId; 4]> = match self {
            Kind::Input(_) | Kind::Const(_) | Kind::Capture(_) => SmallVec::new(),
            Kind::Call { args, .. } | Kind::Host { args, .. } => args.iter().copied().collect(),
            Kind::Part { node, .. } => smallvec::smallvec![*node],
            Kind::Cond { pred, .. } => exports.iter().copied().chain([*pred]).collect(),
            Kind::Dataset(_) => exports.iter().copied().collect(),
        };
        list.into_iter()
    }
    fn renamed(self, place: impl Fn(NodeId) -> NodeId) -> Kind {
        let all = |args: Vec<NodeId>| args.into_iter().map(&place).collect();
        match self {
            Kind::Call { func, args, attrs, work } => Kind::Call { func, args: all(args), attrs, work },
            Kind::Host { func, args, outputs } => Kind::Host { func, args: all(args), outputs },
            Kind::Part { node, index } => Kind::Part { node: place(node), index },
            Kind::Cond { pred, then, otherwise } => Kind::Cond { pred: place(pred), then, otherwise },
            other => other,
        }
    }
}

/// An exported value; what is made later than the one who asks cannot be what it refers to.
fn exported(slots: &[SmallVec<[Arg; 1]>], node: NodeId) -> Arg {
    slots.get(node).and_then(|s| s.first()).cloned().unwrap_or(Arg::Same(Value::Absent))
}

/// A leaf as functions see it: a row of a ragged vector, which has no ragged axis left, is a dense tensor.
pub fn as_argument(leaf: &Leaf) -> Leaf {
    match leaf {
        Leaf::Ragged { dtype, shape, ragged_rank: 0, .. } => Leaf::Tensor { dtype: *dtype, shape: shape.clone() },
        other => other.clone(),
    }
}

fn argument(column: &Column, leaf: &Leaf) -> Column {
    match (column, leaf) {
        (Column::Rows(values, rows), Leaf::Tensor { .. })
            if values[rows.clone()].iter().any(|v| matches!(v, Value::Ragged(_))) =>
        {
            let dense = values[rows.clone()].iter().map(|v| match v {
                Value::Ragged(r) => Value::Tensor(r.values.clone()),
                other => other.clone(),
            });
            Column::from_values(dense.collect())
        }
        _ => column.clone(),
    }
}

fn shape_attr(t: &Tensor) -> Option<serde_json::Value> {
    let sizes: Vec<i64> = match (t.rank(), t.dtype()) {
        (1, DType::Int32) => t.items::<i32>().iter().map(|&d| d.into()).collect(),
        (1, DType::Int64) => t.items::<i64>().to_vec(),
        _ => return None,
    };
    Some(sizes.into())
}

fn check_host(func: &dyn HostFn, result: &Element, outputs: &[Leaf]) -> Result<()> {
    if result.len() != outputs.len() {
        return Err(Error::func(format!(
            "{} returned {} components, {} were declared",
            func.name(),
            result.len(),
            outputs.len()
        )));
    }
    for (i, (value, leaf)) in result.iter().zip(outputs).enumerate() {
        if !leaf.accepts(value) {
            let got = Leaf::of(value).map_or("a dataset".into(), |l| l.to_string());
            return Err(Error::func(format!(
                "{} returned {got} as component {i}, where {leaf} was declared or seen first",
                func.name()
            )));
        }
    }
    Ok(())
}

fn eval_cond(
    pred: &Arg,
    then: &Graph,
    otherwise: &Graph,
    captures: &[Arg],
    rows: usize,
    at: RowsAt<'_>,
) -> Result<SmallVec<[Arg; 1]>> {
    let truth = |row: usize| pred.get(row).tensor().items::<crate::element::B8>().first().is_some_and(|b| b.get());
    let (yes, no): (Vec<usize>, Vec<usize>) = (0..rows).partition(|&row| truth(row));
    let mut out: Vec<Vec<Option<Value>>> = vec![vec![None; rows]; then.outputs.len()];
    for (graph, index) in [(then, yes), (otherwise, no)] {
        if index.is_empty() {
            continue;
        }
        let captures: Vec<Arg> = captures.iter().map(|a| a.take(&index)).collect();
        let pos = crate::element::Pos::List(index.iter().map(|&i| at.pos.at(i)).collect());
        let columns = graph.eval(&[], &captures, index.len(), RowsAt { epoch: at.epoch, pos: &pos })?;
        for (column, out) in columns.iter().zip(&mut out) {
            index.iter().enumerate().for_each(|(k, &row)| out[row] = Some(column.get(k)));
        }
    }
    Ok(out
        .into_iter()
        .map(|c| Arg::Rows(Column::from_values(c.into_iter().map(|v| v.expect("each row has a branch")).collect())))
        .collect())
}

/// Makes a graph step by step.
pub struct Builder {
    inputs: Vec<Leaf>,
    nodes: Vec<Node>,
    exports: Vec<NodeId>,
}

impl Builder {
    /// Nodes `0..` are the leaves of the argument.
    pub fn new(input: &Spec) -> Builder {
        let inputs: Vec<Leaf> = input.leaves().into_iter().map(as_argument).collect();
        let nodes = inputs.iter().enumerate().map(|(i, l)| Node { kind: Kind::Input(i), leaf: l.clone() }).collect();
        Builder { inputs, nodes, exports: vec![] }
    }
    fn push(&mut self, kind: Kind, leaf: Leaf) -> NodeId {
        self.nodes.push(Node { kind, leaf });
        self.nodes.len() - 1
    }
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }
    pub fn leaf(&self, node: NodeId) -> &Leaf {
        &self.nodes[node].leaf
    }
    /// The value, if it is known now.
    pub fn constant_value(&self, node: NodeId) -> Option<&Value> {
        match &self.nodes[node].kind {
            Kind::Const(v) => Some(v),
            _ => None,
        }
    }
    pub fn constant(&mut self, value: Value) -> Result<NodeId> {
        let leaf = Leaf::of(&value).ok_or_else(|| Error::usage("a dataset cannot be a constant of a function"))?;
        value.keep();
        Ok(self.push(Kind::Const(value), leaf))
    }
    /// A value that the function around this one exported as number `k`.
    pub fn capture(&mut self, k: usize, leaf: Leaf) -> NodeId {
        self.push(Kind::Capture(k), leaf)
    }
    /// Makes a node visible to inner functions and datasets; the same node gives the same number.
    pub fn export(&mut self, node: NodeId) -> usize {
        self.exports.iter().position(|&n| n == node).unwrap_or_else(|| {
            self.exports.push(node);
            self.exports.len() - 1
        })
    }
    /// Calls a function of the table that has one result.
    pub fn call(&mut self, name: &str, args: &[NodeId], attrs: Attrs) -> Result<NodeId> {
        match self.call_parts(name, args, attrs)?[..] {
            [one] => Ok(one),
            ref many => Err(Error::usage(format!("{name} has {} results; take its parts", many.len()))),
        }
    }
    /// Calls a function of the table: a node for each result. Calls of constants alone are computed now.
    pub fn call_parts(&mut self, name: &str, args: &[NodeId], mut attrs: Attrs) -> Result<Vec<NodeId>> {
        let func = funcs::find(name)?;
        let mut args: SmallVec<[NodeId; 4]> = args.into();
        // A shape that is known now becomes an attribute, so that the result's shape is known too.
        if let Some(i) = funcs::shape_arg(name).filter(|i| args.len() > *i && args.len() > 1)
            && let Some(shape) = self.constant_value(args[i]).and_then(|v| shape_attr(v.as_tensor()?))
        {
            attrs.0.insert("shape".into(), shape);
            args.remove(i);
        }
        let args = &args[..];
        let leaves: Vec<Leaf> = args.iter().map(|&a| self.leaf(a).clone()).collect();
        let made = (func.make)(&leaves, &attrs).map_err(|e| e.in_op(name))?;
        if func.pure
            && let Some(values) = args.iter().map(|&a| self.constant_value(a).cloned()).collect::<Option<Vec<_>>>()
        {
            let results = made.work.row(&values, super::RowAt { epoch: 0, pos: 0 }).map_err(|e| e.in_op(name))?;
            return results.into_iter().map(|value| self.constant(value)).collect();
        }
        let specs = made.specs().to_vec();
        let several = matches!(made.work, Work::Several(..));
        let node = self.push(Kind::Call { func, args: args.to_vec(), attrs, work: made.work }, made.spec);
        Ok(if several { self.parts(node, specs) } else { vec![node] })
    }
    fn parts(&mut self, node: NodeId, leaves: impl IntoIterator<Item = Leaf>) -> Vec<NodeId> {
        leaves.into_iter().enumerate().map(|(index, leaf)| self.push(Kind::Part { node, index }, leaf)).collect()
    }
    pub fn host(&mut self, func: Arc<dyn HostFn>, args: Vec<NodeId>, outputs: Vec<Leaf>) -> Vec<NodeId> {
        let node = self.push(Kind::Host { func, args, outputs: outputs.clone() }, Leaf::Absent);
        self.parts(node, outputs)
    }
    /// `then` or `otherwise`, row by row. Both are functions without arguments of one spec.
    pub fn cond(&mut self, pred: NodeId, then: Graph, otherwise: Graph) -> Result<Vec<NodeId>> {
        if !Spec::leaf(self.leaf(pred).clone()).may_be_scalar(crate::element::DType::Bool) {
            return Err(Error::usage(format!("cond: the condition must be a bool scalar, not {}", self.leaf(pred))));
        }
        let spec = then.spec.join(&otherwise.spec).map_err(|e| e.in_op("cond"))?;
        let node = self.push(Kind::Cond { pred, then: Arc::new(then), otherwise: Arc::new(otherwise) }, Leaf::Absent);
        Ok(self.parts(node, spec.leaves().into_iter().cloned()))
    }
    pub fn dataset(&mut self, template: Nested, spec: Spec) -> NodeId {
        self.push(Kind::Dataset(template), Leaf::Dataset(Arc::new(spec)))
    }
    pub fn finish(self, outputs: &Tree<NodeId>) -> Graph {
        let spec = outputs.map(|&n| self.nodes[n].leaf.clone());
        let ids = outputs.leaves().into_iter().copied().collect();
        Graph::finish(self.inputs, self.nodes, self.exports, ids, spec).without_unused()
    }
}

impl fmt::Debug for Graph {
    /// As a person would write it: `add(mul(x, 2), 1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn show(g: &Graph, n: NodeId, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
            if depth > 6 {
                return f.write_str("…");
            }
            let list = |f: &mut fmt::Formatter<'_>, args: &[NodeId]| {
                for (i, &a) in args.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    show(g, a, f, depth + 1)?;
                }
                Ok(())
            };
            match &g.nodes[n].kind {
                Kind::Input(i) if g.inputs.len() == 1 => write!(f, "{}", if *i == 0 { "x" } else { "?" }),
                Kind::Input(i) => write!(f, "x{i}"),
                Kind::Const(Value::Tensor(t)) if t.len() == 1 && t.rank() == 0 => {
                    crate::with_item!(t.dtype(), T => write!(f, "{:?}", t.item::<T>());
                                      String => write!(f, "{:?}", String::from_utf8_lossy(t.str_at(0))))
                }
                Kind::Const(v) => write!(f, "{}", Leaf::of(v).map_or("?".into(), |l| l.to_string())),
                Kind::Capture(k) => write!(f, "outer{k}"),
                Kind::Call { func, args, attrs, .. } => {
                    write!(f, "{}(", func.name)?;
                    list(f, args)?;
                    let is_drawn = chance::is_drawn(&attrs.0);
                    for (k, v) in attrs.0.iter().filter(|(k, _)| !is_drawn || !matches!(&k[..], "seed" | "drawn")) {
                        write!(f, ", {k}={v}")?;
                    }
                    f.write_str(")")
                }
                Kind::Host { func, args, .. } => {
                    write!(f, "python {}(", func.name())?;
                    list(f, args)?;
                    f.write_str(")")
                }
                Kind::Part { node, index } => {
                    show(g, *node, f, depth)?;
                    match &g.nodes[*node].kind {
                        Kind::Host { outputs, .. } if outputs.len() == 1 => Ok(()),
                        kind if kind.is_several() => write!(f, "[{index}]"),
                        _ => Ok(()),
                    }
                }
                Kind::Cond { pred, .. } => {
                    f.write_str("cond(")?;
                    show(g, *pred, f, depth + 1)?;
                    f.write_str(", …)")
                }
                Kind::Dataset(d) => write!(f, "{d:?}"),
            }
        }
        for (i, &n) in self.outputs.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            show(self, n, f, 0)?;
        }
        Ok(())
    }
}

// The written form: calls by name, host functions as attachments; kernels are made anew when it is read.

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenKind {
    Input(usize),
    Const(Value),
    Capture(usize),
    Call { func: String, args: Vec<NodeId>, attrs: Attrs },
    Host { func: usize, args: Vec<NodeId>, outputs: Vec<Leaf> },
    Part { node: NodeId, index: usize },
    Cond { pred: NodeId, then: Arc<Graph>, otherwise: Arc<Graph> },
    Dataset(serde_json::Value),
}

#[derive(Serialize, Deserialize)]
struct WrittenGraph {
    inputs: Vec<Leaf>,
    nodes: Vec<(WrittenKind, Leaf)>,
    exports: Vec<NodeId>,
    outputs: Vec<NodeId>,
    spec: Spec,
}

/// Whether every value of leaf `made` keeps the promise of `leaf`.
fn promises(leaf: &Leaf, made: &Leaf) -> bool {
    let (leaf, made) = (as_argument(leaf), as_argument(made));
    leaf.join(&made).is_some_and(|both| both == leaf)
}

/// A host function as it lies among the attachments.
pub struct HostAttachment(pub Arc<dyn HostFn>);

impl Serialize for Graph {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::Error as _;
        let Graph { inputs, nodes, exports, outputs, spec, last_use: _, slot_of: _ } = self;
        let kind = |k: &Kind| {
            Ok(match k.clone() {
                Kind::Input(i) => WrittenKind::Input(i),
                Kind::Const(v) => WrittenKind::Const(v),
                Kind::Capture(k) => WrittenKind::Capture(k),
                Kind::Call { func, args, attrs, .. } => {
                    WrittenKind::Call { func: func.name.into(), args, attrs: chance::now(attrs) }
                }
                Kind::Host { func, args, outputs } => WrittenKind::Host {
                    func: crate::element::attach(Arc::new(HostAttachment(func)))
                        .ok_or_else(|| S::Error::custom("a plan with Python functions can only be pickled"))?,
                    args,
                    outputs,
                },
                Kind::Part { node, index } => WrittenKind::Part { node, index },
                Kind::Cond { pred, then, otherwise } => WrittenKind::Cond { pred, then, otherwise },
                Kind::Dataset(d) => WrittenKind::Dataset(d.0.write().map_err(S::Error::custom)?),
            })
        };
        WrittenGraph {
            inputs: inputs.clone(),
            nodes: nodes
                .iter()
                .map(|n| Ok((kind(&n.kind)?, n.leaf.clone())))
                .collect::<std::result::Result<_, S::Error>>()?,
            exports: exports.clone(),
            outputs: outputs.clone(),
            spec: spec.clone(),
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Graph, D::Error> {
        use serde::de::Error as _;
        let WrittenGraph { inputs, nodes: written, exports, outputs, spec } = WrittenGraph::deserialize(d)?;
        let mut nodes: Vec<Node> = Vec::with_capacity(written.len());
        let bad = || D::Error::custom("not a written function");
        // Types are made anew; what is written of them counts only where nothing else says it.
        for (kind, leaf) in written {
            // Calls of host code and conditions have several results, which only parts of them name.
            let one = |n: &NodeId| nodes.get(*n).is_some_and(|n| !n.kind.is_several());
            let node = match kind {
                WrittenKind::Input(i) if inputs.get(i) == Some(&leaf) => Node { kind: Kind::Input(i), leaf },
                WrittenKind::Const(v) => {
                    v.keep();
                    Node { leaf: Leaf::of(&v).ok_or_else(bad)?, kind: Kind::Const(v) }
                }
                WrittenKind::Capture(k) => Node { kind: Kind::Capture(k), leaf },
                WrittenKind::Call { func, args, attrs } if args.iter().all(one) => {
                    let func = funcs::find(&func).map_err(D::Error::custom)?;
                    let leaves: Vec<Leaf> = args.iter().map(|&a| nodes[a].leaf.clone()).collect();
                    let made = (func.make)(&leaves, &attrs).map_err(D::Error::custom)?;
                    Node { kind: Kind::Call { func, args, attrs, work: made.work }, leaf: made.spec }
                }
                WrittenKind::Host { func, args, outputs } if args.iter().all(one) => {
                    let object = crate::element::attached(func).ok_or_else(bad)?;
                    let func = object.downcast_ref::<HostAttachment>().ok_or_else(bad)?.0.clone();
                    Node { kind: Kind::Host { func, args, outputs }, leaf: Leaf::Absent }
                }
                WrittenKind::Part { node, index } => {
                    let whole = match nodes.get(node).map(|n| (&n.kind, &n.leaf)).ok_or_else(bad)? {
                        (Kind::Host { outputs, .. }, _) => outputs.get(index).cloned(),
                        (Kind::Call { work: Work::Several(specs, _), .. }, _) => specs.get(index).cloned(),
                        (Kind::Cond { then, otherwise, .. }, _) => {
                            let parts = (then.spec.leaves(), otherwise.spec.leaves());
                            parts.0.get(index).zip(parts.1.get(index)).and_then(|(a, b)| a.join(b))
                        }
                        (_, leaf) => (index == 0).then(|| leaf.clone()),
                    };
                    if !whole.is_some_and(|whole| promises(&leaf, &whole)) {
                        return Err(bad());
                    }
                    Node { kind: Kind::Part { node, index }, leaf }
                }
                WrittenKind::Cond { pred, then, otherwise } if one(&pred) => {
                    let is_bool = Spec::leaf(nodes[pred].leaf.clone()).may_be_scalar(DType::Bool);
                    let plain = |g: &Graph| {
                        g.inputs.is_empty()
                            && g.nodes.iter().all(|n| match n.kind {
                                // What is exported later than here cannot be what the branch refers to.
                                Kind::Capture(k) => {
                                    exports.get(k).and_then(|e| nodes.get(*e)).is_some_and(|e| e.leaf == n.leaf)
                                }
                                _ => true,
                            })
                    };
                    if !is_bool || !plain(&then) || !plain(&otherwise) || then.spec.join(&otherwise.spec).is_err() {
                        return Err(bad());
                    }
                    Node { kind: Kind::Cond { pred, then, otherwise }, leaf: Leaf::Absent }
                }
                WrittenKind::Dataset(json) => {
                    let nested = Nested::read(&json).map_err(D::Error::custom)?;
                    let leaf = Leaf::Dataset(Arc::new(nested.0.spec().clone()));
                    Node { kind: Kind::Dataset(nested), leaf }
                }
                _ => return Err(bad()),
            };
            nodes.push(node);
        }
        let one = |n: &NodeId| nodes.get(*n).is_some_and(|n| !n.kind.is_several());
        let leaves = spec.leaves();
        if !exports.iter().chain(&outputs).all(one)
            || leaves.len() != outputs.len()
            || !leaves.iter().zip(&outputs).all(|(leaf, &n)| promises(leaf, &nodes[n].leaf))
        {
            return Err(bad());
        }
        Ok(Graph::finish(inputs, nodes, exports, outputs, spec))
    }
}
