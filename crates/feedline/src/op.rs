//! The treaty between rooms: what an operator says of itself, and what it needs to start running.

use crate::element::{Buf, Element, Spec, Value};
use crate::error::{Error, Result};
use crate::expr::{Arg, Graph, Kind};
use crate::options::{OnError, Options};
use crate::plan::{self, Card, Plan};
use crate::runtime::{At, Begin, BuildCx, Built, Ends, Index, Mark, PassSeeds, Run};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// An operator: its parameters (the struct itself) and what follows from them. Immutable once built into a plan.
pub trait Op: fmt::Debug + Send + Sync + Any {
    fn info(&self) -> &'static OpInfo;
    /// The spec of the elements that come out; refuses inputs and parameters that cannot work.
    fn spec(&self, inputs: &[Plan]) -> Result<Spec>;
    /// How many elements come out, without running anything.
    fn cardinality(&self, inputs: &[Plan]) -> Card;
    fn props(&self) -> Props {
        Props::default()
    }
    /// Starts the operator for one pass; `node` is its place in the plan, with its inputs.
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built>;
    /// The same for a source that can begin behind its first `rows` elements without reading them.
    fn build_behind(&self, _cx: &BuildCx, _node: &Plan, _rows: u64) -> Result<Option<Built>> {
        Ok(None)
    }
    /// What people call it, where one operator has the methods of two.
    fn called(&self) -> &'static str {
        self.info().name
    }
    /// Whether what comes out stays in memory for later passes.
    fn hands_out_kept_rows(&self) -> bool {
        false
    }
    /// Access by number, where the operator and its inputs allow it.
    fn index(&self, _cx: &BuildCx, _node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(None)
    }
    /// Whether it reads its inputs by number when it runs.
    fn reads_by_number(&self) -> bool {
        false
    }
    /// The same source with only some leaves, among them all that `reads` names, and the places that they had; `None` if
    /// it has none to leave out.
    fn narrowed(&self, _reads: &[bool]) -> Result<Option<Narrowed>> {
        Ok(None)
    }
    /// The stream of seeds from which its passes draw, if it has one.
    fn seeds(&self) -> Option<&Arc<PassSeeds>> {
        None
    }
    /// Whether it keeps results of a pass for later ones.
    fn keeps_passes(&self) -> bool {
        false
    }
    /// Tells of which pass it keeps the results, where another one would give others: those that count once all of the pass
    /// below `ends` was read, or all of it. Whether there are some.
    fn kept_pass(&self, _run: &Arc<Run>, _ends: Option<&Arc<Ends>>, _out: &mut Mark) -> bool {
        false
    }
    /// Where a state was taken, those were kept: they count once all was read that is below the end that `cx` has.
    fn miss_pass(&self, _cx: &BuildCx, _at: &mut At<'_>) -> Result<()> {
        Ok(())
    }
    /// The same of what it keeps for somebody who begins now.
    fn kept_for(&self, _cx: &BuildCx, _out: &mut Mark) -> bool {
        false
    }
    /// Where a state was taken, that was for all who begin where `cx` is.
    fn miss_kept(&self, _cx: &BuildCx, _at: &mut At<'_>) -> Result<()> {
        Ok(())
    }
    /// What was missed before counts no more, nor what was kept with other seeds than those that its input has now.
    fn miss_none(&self, _run: &Run, _node: &Plan) {}
    /// Whether passes read what it keeps otherwise once the end of one was seen.
    fn is_read_by_ends(&self) -> bool {
        false
    }
    /// Whether it was for somebody who begins now.
    fn has_ended(&self, _cx: &BuildCx, _node: &Plan) -> Result<bool> {
        Ok(false)
    }
    /// Where a state was taken, that end had been seen by whoever is above the ends that `cx` has.
    fn recall_end(&self, _cx: &BuildCx, _node: &Plan) -> Result<()> {
        Ok(())
    }
    /// The functions that it calls.
    fn functions(&self) -> Vec<&Function> {
        vec![]
    }
    /// The code that it calls besides those, if there is some: see `HostFn::code`.
    fn code(&self) -> Option<String> {
        None
    }
    /// The files that it reads, where they are known before it runs: what was made of them is good as long as they are.
    fn files(&self) -> Vec<String> {
        vec![]
    }
    /// What becomes of elements that fail in it; `None`: what the options say.
    fn on_error(&self) -> Option<OnError> {
        None
    }
    /// Whether it has to know where its rows came from: the pass tells it then.
    fn wants_origins(&self) -> bool {
        false
    }
    /// Parameters that cannot change results: a state does not mind if they are others.
    fn tunables(&self) -> &'static [&'static str] {
        &[]
    }
    /// How many calls of its function may run at once, if it says so.
    fn num_parallel_calls(&self) -> Option<i64> {
        None
    }
    /// How many operators of the plan as it was written it stands for, if it calls a function: each has a number in marks.
    fn layers(&self) -> usize {
        1
    }
    /// Whether it works ahead of whoever reads it, by a number that was asked for.
    fn is_queue(&self) -> bool {
        false
    }
    /// Which part of its input's elements it gives, counted from 0, and of how many; `None` for every operator but `shard`.
    fn part(&self) -> Option<(u64, u64)> {
        None
    }
    /// The same operator for another part.
    fn with_part(&self, _index: u64, _of: u64) -> Option<Arc<dyn Op>> {
        None
    }
    /// Whether all of its parts have equally many elements.
    fn makes_equal_parts(&self) -> bool {
        false
    }
    /// What reads the rests of several of its parts.
    fn rests(&self, _begin: Vec<Begin>) -> Option<Arc<dyn Op>> {
        None
    }
    /// Bytes of data that the operator itself carries, as a window out of a stream does.
    fn held_bytes(&self) -> usize {
        0
    }
    /// The memory of values that it was given.
    fn given(&self) -> Vec<&Buf> {
        vec![]
    }
    /// Says that it was made by a function that runs, and goes with the dataset that this returned; so do as many bytes of
    /// what it was given.
    fn claim(&self, bytes: usize) {
        let _ = bytes;
    }
    /// What `with_options` asks for; `None` for every other operator.
    fn options(&self) -> Option<&Options> {
        None
    }
    /// The parameters in the written form; `OpInfo::read` takes them back.
    fn write(&self) -> Result<serde_json::Value>;
    /// The parameters as `explain` shows them.
    fn show(&self) -> String {
        show_params(self.write().ok())
    }
}

/// A source and, for each of its leaves, the place that it had before some were left out.
pub type Narrowed = (Arc<dyn Op>, Vec<usize>);

/// Facts that rewrites and the tuner ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Props {
    /// Does nothing with these parameters: can be left out.
    pub noop: bool,
    /// Calls Python functions in the order of the elements, with side effects that must not run early.
    pub host: bool,
    /// Equal inputs give equal outputs.
    pub pure: bool,
    /// Leaves are not looked at: each comes out as it went in (or stacked), in the same place of the structure.
    pub carries: bool,
    /// As many elements come out as went in, sooner or later.
    pub keeps: bool,
    /// Does not read each element of its input once: it stops before the end, or reads some again, or has kept them.
    pub partial: bool,
}

impl Default for Props {
    fn default() -> Props {
        Props { noop: false, host: false, pure: true, carries: false, keeps: false, partial: false }
    }
}

/// A row of the table of operators: what users read, and how a written operator is read back.
pub struct OpInfo {
    pub name: &'static str,
    /// A sentence that a user understands.
    pub doc: &'static str,
    pub params: &'static [Param],
    pub read: fn(serde_json::Value) -> Result<Arc<dyn Op>>,
}

pub struct Param {
    pub name: &'static str,
    /// As it would be written in Python; empty if it must be given.
    pub default: &'static str,
    pub doc: &'static str,
}

impl Param {
    pub const fn new(name: &'static str, default: &'static str, doc: &'static str) -> Param {
        Param { name, default, doc }
    }
}

/// Reads an operator's parameters: what `OpInfo::read` is for most operators.
pub fn read<O: Op + for<'de> Deserialize<'de>>(json: serde_json::Value) -> Result<Arc<dyn Op>> {
    Ok(Arc::new(serde_json::from_value::<O>(json)?))
}

fn show_params(json: Option<serde_json::Value>) -> String {
    let Some(serde_json::Value::Object(map)) = json else { return String::new() };
    let shown = map.iter().filter(|(_, v)| !v.is_null() && !v.is_object() && v.as_bool() != Some(false));
    shown.map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
}

/// A whole-number parameter that may be a value of the function around the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Int {
    Known(i64),
    Symbol { symbol: usize },
}

impl Int {
    pub fn known(self) -> Option<i64> {
        match self {
            Int::Known(n) => Some(n),
            Int::Symbol { .. } => None,
        }
    }
    pub fn get(self, cx: &BuildCx) -> Result<i64> {
        match self {
            Int::Known(n) => Ok(n),
            Int::Symbol { symbol } => scalar_i64(cx.symbol(symbol)?),
        }
    }
}

impl From<i64> for Int {
    fn from(n: i64) -> Int {
        Int::Known(n)
    }
}

/// A whole number from a scalar tensor of any integer type.
pub fn scalar_i64(value: &Value) -> Result<i64> {
    let bad = || Error::data(format!("a whole-number scalar is needed, not {value:?}"));
    let t = value.as_tensor().filter(|t| t.len() == 1 && t.dtype().is_int()).ok_or_else(bad)?;
    use crate::element::DType::*;
    Ok(match t.dtype() {
        Int8 => t.item::<i8>().into(),
        Int16 => t.item::<i16>().into(),
        Int32 => t.item::<i32>().into(),
        Int64 => t.item::<i64>(),
        Uint8 => t.item::<u8>().into(),
        Uint16 => t.item::<u16>().into(),
        Uint32 => t.item::<u32>().into(),
        Uint64 => i64::try_from(t.item::<u64>()).map_err(|_| bad())?,
        _ => return Err(bad()),
    })
}

/// A traced function as an operator's parameter.
#[derive(Clone)]
pub struct Function(pub Arc<Graph>);

impl Function {
    pub fn new(graph: Graph) -> Function {
        Function(Arc::new(graph))
    }
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }
    /// Every dataset that it contains.
    pub fn each_dataset(&self, f: &mut impl FnMut(&plan::Bound)) {
        fn inside(graph: &Graph, f: &mut impl FnMut(&plan::Bound)) {
            for node in &graph.nodes {
                match &node.kind {
                    Kind::Dataset(nested) => nested.0.as_any().downcast_ref().into_iter().for_each(&mut *f),
                    Kind::Cond { then, otherwise, .. } => {
                        inside(then, f);
                        inside(otherwise, f);
                    }
                    _ => {}
                }
            }
        }
        inside(&self.0, f);
    }
    /// Ready to run: with the values that it refers to.
    pub fn bound(&self, cx: &BuildCx) -> Bound {
        Bound { graph: self.0.clone(), captures: cx.captures(), epoch: cx.epoch }
    }
    /// The function must take elements of this spec.
    pub fn takes(&self, specs: &[&Spec]) -> Result<()> {
        let given: Vec<_> = specs.iter().flat_map(|s| s.leaves()).collect();
        let fits = given.len() == self.0.inputs.len()
            && given.iter().zip(&self.0.inputs).all(|(a, b)| crate::expr::as_argument(a).join(b).is_some());
        if fits { Ok(()) } else { Err(Error::usage("the function was traced for elements of another spec")) }
    }
    /// What a predicate leaves of an input: the same spec. It must give a bool scalar, as far as is known.
    pub fn judges(&self, input: &Spec) -> Result<Spec> {
        self.takes(&[input])?;
        if self.spec().may_be_scalar(crate::element::DType::Bool) {
            return Ok(input.clone());
        }
        Err(Error::usage(format!(
            "the predicate must return a bool scalar, but returns {}; reduce it with fl.reduce_all or fl.reduce_any",
            self.spec()
        )))
    }
    pub fn gives_dataset(&self) -> Result<&Spec> {
        match self.spec().as_leaf() {
            Some(crate::element::Leaf::Dataset(spec)) => Ok(spec),
            _ => Err(Error::usage(format!("the function must return a dataset, but returns {}", self.spec()))),
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Function {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match crate::element::attach_live(self.0.clone()) {
            Some(i) => Live { live: i }.serialize(s),
            None => self.0.serialize(s),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Live {
    live: usize,
}

impl<'de> Deserialize<'de> for Function {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Function, D::Error> {
        use serde::de::Error as _;
        let json = serde_json::Value::deserialize(d)?;
        if let Some(i) = json.get("live").and_then(|i| i.as_u64()) {
            let object = crate::element::attached(i as usize).ok_or_else(|| D::Error::custom("no such function"))?;
            return match object.downcast::<Graph>() {
                Ok(graph) => Ok(Function(graph)),
                Err(_) => Err(D::Error::custom("not a function")),
            };
        }
        Ok(Function::new(serde_json::from_value(json).map_err(D::Error::custom)?))
    }
}

/// A function with the values around it, ready to run.
#[derive(Clone)]
pub struct Bound {
    pub graph: Arc<Graph>,
    pub captures: Arc<[Arg]>,
    pub epoch: u64,
}

impl Bound {
    pub fn call(&self, element: &Element, pos: u64) -> Result<Element> {
        let mut result = Err(Error::internal("the host function's scope did not run"));
        self.scoped(&mut || result = self.call_scoped(element, pos));
        result
    }
    /// Runs `body` in whatever the function needs around its calls: enter once for many of `call_scoped`.
    pub fn scoped(&self, body: &mut dyn FnMut()) {
        match self.graph.host_fn() {
            None => body(),
            Some(host) => host.scoped(body),
        }
    }
    /// One call, inside of `scoped`.
    pub fn call_scoped(&self, element: &Element, pos: u64) -> Result<Element> {
        self.graph.eval_one(element, &self.captures, crate::expr::RowAt { epoch: self.epoch, pos })
    }
}

/// `usage` unless the number is at least `least`.
pub fn at_least(name: &str, n: i64, least: i64) -> Result<()> {
    if n >= least {
        return Ok(());
    }
    Err(Error::usage(format!("{name} must be at least {least}, not {n}")))
}
