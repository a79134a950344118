//! `map(function)`: one element out for each element in.

use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Slots, Spec};
use crate::error::Result;
use crate::expr::{Builder, Graph, HostFn, NodeId, OnDeath, RowsAt};
use crate::op::{Bound, Function, Op, OpInfo, Param, Props, read};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, ChunkFn, Index, Item, much};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "map",
    doc: "Applies a function to each element.",
    params: &[
        Param::new("function", "", "what to do with an element"),
        Param::new("num_parallel_calls", "None", "a cap on the workers that run it at once; AUTOTUNE: no cap"),
        Param::new("deterministic", "None", "False delivers results as they are ready"),
        Param::new("synchronous", "False", "do not run ahead of whoever asks"),
        Param::new(
            "workers",
            "None",
            "run a Python function in so many processes; AUTOTUNE: as many as the CPU budget",
        ),
        Param::new("on_worker_death", "raise", "raise: an error and the end; restart: another process does its rows"),
        Param::new("on_error", "None", "what becomes of elements that fail: \"raise\", \"skip\", \"quarantine\""),
    ],
    read: read::<Map>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    pub function: Function,
    #[serde(default)]
    pub num_parallel_calls: Option<i64>,
    #[serde(default)]
    pub deterministic: Option<bool>,
    #[serde(default)]
    pub synchronous: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_worker_death: Option<OnDeath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// Maps that were made one: a state fits whether they were or not, which depends on `num_parallel_calls`.
    #[serde(skip, default = "one")]
    pub layers: usize,
}

fn one() -> usize {
    1
}

impl Dataset {
    /// Traces `f` once and runs the expression on whole chunks.
    ///
    /// ```
    /// # use feedline::{Dataset, expr::Attrs};
    /// let ds = Dataset::range(3)?.map(|b, x| b.call("add", &[x[0], x[0]], Attrs::default()))?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 2, 4]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn map(&self, f: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>) -> Result<Dataset> {
        let mut builder = Builder::new(self.spec());
        let args: Vec<NodeId> = (0..self.spec().leaf_count()).collect();
        let out = f(&mut builder, &args)?;
        self.map_graph(builder.finish(&crate::element::Tree::Leaf(out)))
    }
    /// Any Rust function of elements; `output` says what it gives.
    pub fn map_fn(
        &self,
        output: Spec,
        f: impl Fn(Element) -> Result<Element> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        self.map_graph(Graph::host(self.spec(), Arc::new(RustFn(Box::new(f))), output))
    }
    pub fn map_graph(&self, graph: Graph) -> Result<Dataset> {
        let function = Function::new(graph);
        self.apply(Map {
            function,
            num_parallel_calls: Some(-1),
            deterministic: None,
            synchronous: false,
            workers: None,
            on_worker_death: None,
            on_error: None,
            layers: 1,
        })
    }
}

pub(super) type BoxedFn = Box<dyn Fn(Element) -> Result<Element> + Send + Sync>;

/// A Rust closure as a host function.
pub(super) struct RustFn(pub BoxedFn);

impl std::fmt::Debug for RustFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a Rust function")
    }
}

impl HostFn for RustFn {
    fn name(&self) -> String {
        "a Rust function".into()
    }
    fn call(&self, args: Element) -> Result<Element> {
        (self.0)(args)
    }
    fn parallel(&self) -> bool {
        true
    }
}

impl Op for Map {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        crate::ops::check_parallel(self.num_parallel_calls)?;
        if self.synchronous && self.num_parallel_calls.is_some() {
            crate::bail!(Usage, "synchronous=True excludes num_parallel_calls");
        }
        if self.workers.is_some() {
            self.check_workers(&inputs[0].spec)?;
        }
        self.function.takes(&[&inputs[0].spec])?;
        Ok(self.function.spec().clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        super::after_errors(inputs[0].card, self.on_error)
    }
    fn on_error(&self) -> Option<OnError> {
        self.on_error
    }
    fn props(&self) -> Props {
        let graph = &self.function.0;
        let host = is_serial_host(graph) && self.workers.is_none();
        Props { host, pure: graph.is_pure(), noop: graph.is_identity(), keeps: true, ..Props::default() }
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.function]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        if let Some(workers) = self.workers {
            return self.build_away(cx, node, workers);
        }
        let function = Arc::new(MapFn(self.function.bound(cx)));
        if self.synchronous {
            let cx = BuildCx { nested: true, ..cx.clone() };
            return cx.then(node, function, None, true);
        }
        let ordered = crate::ops::ordered(cx, self.num_parallel_calls, self.deterministic);
        cx.then(node, function, crate::ops::cap(self.num_parallel_calls), ordered)
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        // Where some may be left out, nobody knows which number the others have.
        if self.on_error.is_some_and(|own| own != OnError::Raise) {
            return Ok(None);
        }
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        Ok(Some(Arc::new(MapIndex { input, function: self.function.bound(cx) })))
    }
    fn num_parallel_calls(&self) -> Option<i64> {
        self.num_parallel_calls
    }
    fn layers(&self) -> usize {
        self.layers
    }
    fn tunables(&self) -> &'static [&'static str] {
        &["num_parallel_calls", "workers", "on_worker_death"]
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        let calls = self.num_parallel_calls.filter(|n| *n > 0);
        let calls = calls.map_or(String::new(), |n| format!(", num_parallel_calls={n}"));
        let workers = match self.workers {
            None => String::new(),
            Some(-1) => ", workers=AUTOTUNE".into(),
            Some(n) => format!(", workers={n}"),
        };
        format!("{:?}{calls}{workers}{}", self.function, super::show_on_error(self.on_error))
    }
}

/// Host code that must run one element at a time, in order.
pub fn is_serial_host(graph: &Graph) -> bool {
    graph.host_fn().is_some_and(|h| !h.parallel())
}

/// Evaluates a function over a chunk. A failing row costs that row: the others come out in their places.
pub struct MapFn(pub Bound);

impl MapFn {
    fn eval(&self, chunk: &Chunk, mut slots: Slots) -> Result<Chunk> {
        let at = RowsAt { epoch: self.0.epoch, pos: &chunk.pos };
        let columns = self.0.graph.eval_into(chunk.columns(), &self.0.captures, chunk.rows(), at, &mut slots)?;
        // Whoever keeps them would put them together on one thread.
        Ok(Chunk::new(chunk.rows(), chunk.pos.clone(), columns).together())
    }
    /// Up to where more than `most` bytes were made; says how many rows that were.
    fn row_by_row(&self, chunk: &Chunk, most: usize, out: &mut Vec<Item>) -> usize {
        let (mut rows, mut bytes) = (0, 0);
        while rows < chunk.rows() && bytes <= most {
            let one = chunk.slice(rows..rows + 1);
            let item = match self.eval(&one, Slots::new()) {
                Ok(chunk) => Item::Rows(chunk),
                Err(error) => Item::Fail(chunk.blame(error, rows)),
            };
            bytes += item.nbytes();
            out.push(item);
            rows += 1;
        }
        join_rows(out);
        rows
    }
    /// Host code may have side effects: each row is called exactly once.
    fn call_host(&self, host: &Arc<dyn HostFn>, chunk: &Chunk, most: usize, out: &mut Vec<Item>) -> usize {
        let mut rows = 0;
        host.scoped(&mut || {
            feedline_io::ask_once();
            rows = self.row_by_row(chunk, most, out);
        });
        rows
    }
}

impl ChunkFn for MapFn {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        self.run_into(chunk, Slots::new(), out);
    }
    fn run_into(&self, chunk: Chunk, slots: Slots, out: &mut Vec<Item>) {
        match self.0.graph.host_fn() {
            Some(host) => drop(self.call_host(host, &chunk, usize::MAX, out)),
            None => match self.eval(&chunk, slots) {
                Ok(result) => out.push(Item::Rows(result)),
                Err(_) => drop(self.row_by_row(&chunk, usize::MAX, out)),
            },
        }
    }
    fn run_some(&self, chunk: Chunk, out: &mut Vec<Item>) -> Option<Chunk> {
        let Some(host) = self.0.graph.host_fn() else {
            self.run(chunk, out);
            return None;
        };
        let rows = self.call_host(host, &chunk, much(), out);
        (rows < chunk.rows()).then(|| chunk.slice(rows..chunk.rows()))
    }
    fn keeps_rows(&self) -> bool {
        true
    }
    fn fills_slots(&self) -> bool {
        self.0.graph.host_fn().is_none()
    }
    fn repeats(&self) -> bool {
        self.0.graph.host_fn().is_none()
    }
    fn is_host(&self) -> bool {
        is_serial_host(&self.0.graph)
    }
}

/// Puts runs of single rows back together.
pub fn join_rows(items: &mut Vec<Item>) {
    let mut joined: Vec<Item> = Vec::new();
    let mut run: Vec<Chunk> = Vec::new();
    let flush = |run: &mut Vec<Chunk>, joined: &mut Vec<Item>| {
        if !run.is_empty() {
            joined.push(Item::Rows(crate::ops::joined(run)));
            run.clear();
        }
    };
    for item in items.drain(..) {
        match item {
            Item::Rows(chunk) => run.push(chunk),
            fail => {
                flush(&mut run, &mut joined);
                joined.push(fail);
            }
        }
    }
    flush(&mut run, &mut joined);
    *items = joined;
}

struct MapIndex {
    input: Arc<dyn Index>,
    function: Bound,
}

impl Index for MapIndex {
    fn len(&self) -> u64 {
        self.input.len()
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let chunk = self.input.get(rows)?;
        match self.function.graph.host_fn() {
            None => MapFn(self.function.clone()).eval(&chunk, Slots::new()),
            Some(host) => {
                let mut result = Err(crate::Error::internal("the host function's scope did not run"));
                host.scoped(&mut || result = MapFn(self.function.clone()).eval(&chunk, Slots::new()));
                result
            }
        }
    }
}
