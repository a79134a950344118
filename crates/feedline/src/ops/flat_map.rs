//! `flat_map(function)`: the elements of the datasets that a function makes, one dataset after the other.

use super::map::{MapFn, RustFn};
use super::weave::{Ask, Parts, Stepping, Steps};
use crate::dataset::Dataset;
use crate::element::{Chunk, Leaf, Spec, Value};
use crate::error::{Error, Result};
use crate::expr::{Builder, Graph, NodeId};
use crate::op::{Function, Op, OpInfo, Param, Props, read};
use crate::plan::{Bound, Card, Plan};
use crate::runtime::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::runtime::{
    At, BuildCx, Built, ChunkFn, Cx, Ends, EndsBelow, Item, Mark, Pull, Stage, Taken, Waiting, pop_rows, unfit,
    wait_for,
};
use feedline_io::{NoRoom, Standing, Step};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "flat_map",
    doc: "Makes a dataset of each element and puts these one after the other.",
    params: &[Param::new("function", "", "from an element to a dataset")],
    read: read::<FlatMap>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatMap {
    function: Function,
}

impl Dataset {
    /// Traces `f`, which makes a dataset of the leaves of an element (`Builder::dataset`).
    ///
    /// ```
    /// # use feedline::{Dataset, plan::Bound};
    /// let two = Dataset::range(2)?;
    /// let ds = Dataset::range(3)?
    ///     .flat_map(|b, _| Ok(b.dataset(Bound::nested(two.plan().clone()), two.spec().clone())))?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 1, 0, 1, 0, 1]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn flat_map(&self, f: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>) -> Result<Dataset> {
        self.apply(FlatMap { function: traced(self.spec(), f)? })
    }
    /// Any Rust function from an element to a dataset, whose elements are `inner`.
    ///
    /// ```
    /// # use feedline::{Dataset, element::{DType, Spec}};
    /// let ds = Dataset::range(4)?.flat_map_fn(Spec::scalar(DType::Int64), |e| Dataset::range(e[0].tensor().item()))?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 0, 1, 0, 1, 2]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn flat_map_fn(
        &self,
        inner: Spec,
        f: impl Fn(crate::element::Element) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        self.apply(FlatMap { function: to_dataset(self.spec(), inner, f) })
    }
}

/// A traced function from the leaves of an element to one node.
pub fn traced(input: &Spec, f: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>) -> Result<Function> {
    let mut builder = Builder::new(input);
    let args: Vec<NodeId> = (0..input.leaf_count()).collect();
    let out = f(&mut builder, &args)?;
    Ok(Function::new(builder.finish(&crate::element::Tree::Leaf(out))))
}

/// A Rust function that makes datasets.
pub fn to_dataset(
    input: &Spec,
    inner: Spec,
    f: impl Fn(crate::element::Element) -> Result<Dataset> + Send + Sync + 'static,
) -> Function {
    let call = move |e| {
        let dataset = Bound::nested(f(e)?.into_plan());
        Bound::claim(&dataset, |block, is_own| if is_own { block.own_bytes() } else { 0 })?;
        Ok(smallvec::smallvec![Value::Dataset(dataset)])
    };
    let output = Spec::leaf(Leaf::Dataset(Arc::new(inner)));
    Function::new(Graph::host(input, Arc::new(RustFn(Box::new(call))), output))
}

impl Op for FlatMap {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        self.function.takes(&[&inputs[0].spec])?;
        Ok(self.function.gives_dataset()?.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn props(&self) -> Props {
        super::function_props(&self.functions())
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.function]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        one_by_one(cx, node, &self.function)
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        format!("{:?}", self.function)
    }
}

/// The elements of the datasets that a function makes of those of the node's input.
pub fn one_by_one(cx: &BuildCx, node: &Plan, function: &Function) -> Result<Built> {
    let outer = Inners::new(cx, node, function)?;
    Ok(Built::Stage(Box::new(Stepping::new(FlatMapSteps { outer, inner: None, from: Mark::default() }))))
}

/// The datasets that a function makes of the elements of an input, one after the other.
pub struct Inners {
    pub cx: BuildCx,
    input: Box<dyn Stage>,
    function: MapFn,
    ready: VecDeque<Item>,
    ask: Ask,
    /// Python functions run when their result is needed, not before.
    serial: bool,
    /// What host code must return: it makes a new dataset each time.
    check: Option<Spec>,
    /// What it was started with, to start it again.
    node: Plan,
    op: Function,
    /// Where the input was before what is ready came, and how much of that was used.
    from: Mark,
    used: u64,
    drop: u64,
    /// The seeds of operators inside the function: each dataset takes some when it is opened.
    taken: Taken,
    /// All of them were read.
    seen: Arc<AtomicBool>,
    /// What is kept of the input waits for that.
    waiting: Waiting,
    below: EndsBelow,
}

/// What comes next of them.
pub enum Inner {
    /// The dataset, and the position of its element.
    Dataset(Value, u64),
    Fail(Error),
    Pending,
    End,
}

impl Inners {
    pub fn new(cx: &BuildCx, node: &Plan, function: &Function) -> Result<Inners> {
        let check = function.0.host_fn().map(|_| node.spec.clone());
        let (taken, inner) = super::seeds_taken(cx, &[function]);
        let seen = Arc::default();
        // How far ahead of the datasets it is read depends on chunks.
        let ends = Ends::below(cx, &seen);
        let waiting = Waiting::new(cx, &ends, &node.inputs[0]);
        let outer = BuildCx { ends: Some(ends), ..cx.clone() };
        let (input, below) = (outer.stage(&node.inputs[0])?, EndsBelow::new(&outer, &node.inputs));
        Ok(Inners {
            cx: inner,
            input,
            function: MapFn(function.bound(cx)),
            ready: VecDeque::new(),
            ask: Ask(1),
            serial: super::map::is_serial_host(&function.0),
            check,
            node: node.clone(),
            op: function.clone(),
            from: Mark::default(),
            used: 0,
            drop: 0,
            taken,
            seen,
            waiting,
            below,
        })
    }
    pub fn next(&mut self, cx: &mut Cx<'_>) -> Inner {
        loop {
            let item = pop_rows(&mut self.ready, 1);
            if item.is_some() {
                self.used += 1;
                if self.drop > 0 {
                    self.drop -= 1;
                    continue;
                }
            }
            match item {
                Some(Item::Rows(one)) => {
                    let value = one.columns()[0].get(0);
                    return match self.checked(&value) {
                        Ok(()) => Inner::Dataset(value, one.pos.at(0)),
                        Err(error) => Inner::Fail(error.at_element(one.pos.at(0))),
                    };
                }
                Some(Item::Fail(error)) => return Inner::Fail(error),
                None => {}
            }
            self.from.clear();
            self.input.mark(&mut self.from);
            self.used = 0;
            let want = if self.serial { 1 } else { self.ask.0 };
            match self.input.next(cx, want) {
                Pull::Rows(chunk) => {
                    let (rows, bytes) = (chunk.rows(), chunk.nbytes());
                    let mut out = Vec::new();
                    self.run(chunk, &mut out);
                    // What the datasets are made of may be much larger than the elements.
                    let made = out.iter().filter_map(Item::rows).map(|c| c.columns()[0].own_bytes()).sum();
                    self.ask.saw_bytes(rows, bytes.max(made));
                    self.ready.extend(out);
                }
                Pull::Fail(error) if self.drop > 0 && !error.ends() => self.drop -= 1,
                Pull::Fail(error) => return Inner::Fail(error),
                Pull::Pending => return Inner::Pending,
                Pull::End => {
                    self.below.note();
                    return Inner::End;
                }
            }
        }
    }
    /// What the function makes of these, if there is room for that: the operator that reads them cannot go on without it.
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        if !self.function.repeats() {
            return self.function.run(chunk, out);
        }
        let budget = &self.cx.run.budget;
        let step = Step::of(Standing::First, budget.left(), budget.beside(chunk.own_bytes()));
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut made = Vec::new();
            self.function.run(chunk.clone(), &mut made);
            made
        }));
        drop(step);
        match ran {
            Ok(made) => out.extend(made),
            Err(panic) => match panic.downcast_ref::<NoRoom>() {
                None => resume_unwind(panic),
                Some(no_room) if chunk.rows() == 1 => {
                    out.push(Item::Fail(chunk.blame(budget.refused(no_room.all()), 0)))
                }
                Some(_) => (0..chunk.rows()).for_each(|row| self.run(chunk.slice(row..row + 1), out)),
            },
        }
    }
    /// From where the next dataset comes.
    pub fn mark(&mut self, out: &mut Mark) {
        self.taken.mark(out);
        if self.ready.is_empty() {
            out.number(self.drop);
            self.input.mark(out);
        } else {
            out.number(self.used + self.drop);
            out.extend_again(&self.from);
        }
        self.waiting.mark(out);
    }
    /// The same behind the last of them: nothing is read of the input any more.
    pub fn mark_ended(&mut self, out: &mut Mark) {
        self.taken.mark(out);
        self.waiting.mark(out);
        self.below.mark(out);
    }
    /// Whoever reads them has come to the end.
    pub fn end(&self, cx: &Cx<'_>) {
        self.seen.store(!cx.is_cancelled(), Relaxed);
    }
    pub fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.seen.store(false, Relaxed);
        self.taken.seek(at)?;
        self.drop = at.number()?;
        self.ready.clear();
        self.input.seek(at)?;
        self.waiting.seek(at)
    }
    pub fn seek_ended(&mut self, at: &mut At<'_>) -> Result<()> {
        self.seen.store(false, Relaxed);
        self.taken.seek(at)?;
        self.waiting.seek(at)?;
        self.below.seek(at)
    }
    /// The dataset that came next at a mark. `again` is kept from one call to the next.
    pub fn recall(&self, at: &mut At<'_>, again: &mut Option<Box<Inners>>) -> Result<(Value, u64)> {
        let inners = match again {
            Some(inners) => inners,
            None => {
                let cx = BuildCx { nested: true, in_turns: false, ..self.cx.again() };
                again.insert(Box::new(Inners::new(&cx, &self.node, &self.op)?))
            }
        };
        let sent = inners.cx.sent();
        inners.seek(at)?;
        drop(sent);
        let next = wait_for(&self.cx.run.cancelled, |cx| match inners.next(cx) {
            Inner::Pending => None,
            next => Some(next),
        });
        match next? {
            Inner::Dataset(value, pos) => Ok((value, pos)),
            Inner::Fail(error) => Err(error),
            Inner::Pending | Inner::End => Err(unfit()),
        }
    }
    /// Starts such a dataset. Its random numbers depend on the element that it was made of.
    pub fn stage(&self, value: &Value, pos: u64) -> Result<Box<dyn Stage>> {
        self.inner_cx().nested_stage(value, pos + 1).map_err(|e| e.at_element(pos))
    }
    /// What such a dataset starts with.
    pub fn inner_cx(&self) -> BuildCx {
        let ends = match self.cx.in_turns {
            true => Some(Ends::below(&self.cx, &self.seen)),
            false => self.cx.ends.clone(),
        };
        BuildCx { ends, ..self.cx.clone() }
    }
    fn checked(&self, value: &Value) -> Result<()> {
        let Some(spec) = &self.check else { return Ok(()) };
        let got = &Bound::of(value)?.plan.spec;
        if got == spec || spec.join(got).is_ok_and(|joint| joint == *spec && spec.leaf_order(got).is_sorted()) {
            return Ok(());
        }
        Err(Error::func(format!(
            "the function returned a dataset of {got}, where a dataset of {spec} was declared or seen first"
        )))
    }
}

struct FlatMapSteps {
    outer: Inners,
    inner: Option<Box<dyn Stage>>,
    /// From where the inner one came.
    from: Mark,
}

impl FlatMapSteps {
    fn open(&self, value: &Value, pos: u64) -> Result<Box<dyn Stage>> {
        // Most of it may be counted by others, as the rows of a window are: only what can never be is refused.
        let (bytes, budget) = (value.own_bytes(), &self.outer.cx.run.budget);
        if bytes > budget.most() {
            return Err(budget.refused(bytes).at_element(pos));
        }
        self.outer.stage(value, pos)
    }
}

impl Steps for FlatMapSteps {
    fn step(&mut self, cx: &mut Cx<'_>, want: usize, parts: &mut Parts) -> Option<Pull> {
        if let Some(inner) = &mut self.inner {
            match inner.next(cx, want) {
                Pull::Rows(chunk) => parts.push(chunk),
                Pull::End => self.inner = None,
                other => return Some(other),
            }
            return None;
        }
        self.from.clear();
        self.outer.mark(&mut self.from);
        let opened = match self.outer.next(cx) {
            Inner::Dataset(value, pos) => self.open(&value, pos),
            Inner::Fail(error) => Err(error),
            Inner::Pending => return Some(Pull::Pending),
            Inner::End => {
                self.outer.end(cx);
                return Some(Pull::End);
            }
        };
        match opened {
            Ok(stage) => self.inner = Some(stage),
            Err(error) => return Some(Pull::Fail(error)),
        }
        None
    }
    fn mark(&mut self, out: &mut Mark) {
        // First: what runs inside may go on from before now, and knows which seeds were taken by then.
        self.outer.mark(out);
        out.flag(self.inner.is_some());
        if let Some(inner) = &mut self.inner {
            out.extend_again(&self.from);
            inner.mark(out);
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.inner = None;
        self.outer.seek(at)?;
        if at.flag()? {
            let start = at.rest();
            let (value, pos) = self.outer.recall(at, &mut None)?;
            self.from = Mark::from(&start[..start.len() - at.rest().len()]);
            let mut stage = self.open(&value, pos)?;
            stage.seek(at)?;
            self.inner = Some(stage);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;
    use crate::element::DType;

    #[test]
    fn inner_datasets_follow_each_other() {
        let ds = Dataset::range(5).unwrap().flat_map(ranges).unwrap();
        same(&ds, "0 0 1 0 1 2 0 1 2 3");
        assert_eq!(ds.cardinality(), Card::Unknown);
        same(&Dataset::range(0).unwrap().flat_map(ranges).unwrap(), "");
        same(&Dataset::range(1).unwrap().flat_map(ranges).unwrap(), "");
    }

    #[test]
    fn errors_cost_one_element_each() {
        // In the function: that input is dropped. In an inner dataset: it goes on.
        let ds = fail_at(&Dataset::range(4).unwrap(), 2).flat_map(ranges).unwrap();
        same(&ds, "0 ! 0 1 2");
        let inner = |e: crate::element::Element| Ok(fail_at(&Dataset::range(e[0].tensor().item())?, 1));
        let ds = Dataset::range(4).unwrap().flat_map_fn(Spec::scalar(DType::Int64), inner).unwrap();
        same(&ds, "0 0 ! 0 ! 2");
        let broken = |e: crate::element::Element| match e[0].tensor().item::<i64>() {
            2 => Err(Error::func("no")),
            n => Dataset::range(n),
        };
        same(&Dataset::range(4).unwrap().flat_map_fn(Spec::scalar(DType::Int64), broken).unwrap(), "0 ! 0 1 2");
    }

    #[test]
    fn what_is_not_a_dataset_is_refused() {
        let ds = Dataset::range(3).unwrap();
        let error = ds.flat_map(|_, x| Ok(x[0])).unwrap_err();
        assert!(error.message().contains("must return a dataset"), "{error}");
        // Host code shows only at run time what it returns.
        let other = |_: crate::element::Element| Dataset::range(3)?.batch(2, false);
        same(&ds.flat_map_fn(Spec::scalar(DType::Int64), other).unwrap(), "! ! !");
    }

    #[test]
    fn inner_functions_see_the_values_around_them() {
        // x to range(2).map(y to x + y), and one level deeper: x to range(2).flat_map(y to range(x + y)).
        let sum = |b: &mut Builder, symbol: usize, y: NodeId| {
            let x = b.capture(symbol, Leaf::scalar(DType::Int64));
            b.call("add", &[x, y], crate::expr::Attrs::default())
        };
        let ds = Dataset::range(3).unwrap().flat_map(|b, x| {
            let symbol = b.export(x[0]);
            let inner = Dataset::range(2)?.map(|b, y| sum(b, symbol, y[0]))?;
            Ok(b.dataset(Bound::nested(inner.plan().clone()), inner.spec().clone()))
        });
        same(&ds.unwrap(), "0 1 1 2 2 3");
        let ds = Dataset::range(3).unwrap().flat_map(|b, x| {
            let symbol = b.export(x[0]);
            let inner = Dataset::range(2)?.flat_map(|b, y| {
                let n = sum(b, symbol, y[0])?;
                ranges(b, &[n])
            })?;
            Ok(b.dataset(Bound::nested(inner.plan().clone()), inner.spec().clone()))
        });
        same(&ds.unwrap(), "0 0 0 1 0 1 0 1 2");
    }

    #[test]
    fn inner_datasets_are_rewritten_too() {
        let mut written = None;
        let ds = Dataset::range(4).unwrap().flat_map(|b, x| {
            let stop = b.export(x[0]);
            let params = serde_json::json!({"start": 0, "stop": {"symbol": stop}, "step": 1, "output_type": "int64"});
            let sum = |ds: &Dataset| {
                ds.map(|b, y| {
                    let x = b.capture(stop, Leaf::scalar(DType::Int64));
                    b.call("add", &[x, y[0]], Default::default())
                })
            };
            let inner = sum(&sum(&op("range", params, &[])?.skip(0)?)?)?;
            written = Some(inner.plan().clone());
            Ok(b.dataset(Bound::nested(inner.plan().clone()), inner.spec().clone()))
        });
        let (ds, written) = (ds.unwrap(), written.unwrap());
        same(&ds, "2 4 5 6 7 8");
        let mut names = Vec::new();
        written.runs().unwrap().walk(&mut |p| names.push(p.name()));
        assert_eq!(names, ["range", "map"]);
        for rewrite in [None, Some(false)] {
            let options = crate::options::Options { rewrite, ..Default::default() };
            let mut iter = ds.with_options(options).unwrap().iter().unwrap();
            assert_eq!(iter.by_ref().count(), 6);
            assert_eq!(iter.meters().get(written.id).is_some(), rewrite == Some(false));
            assert_eq!(iter.meters().get(written.runs().unwrap().id).is_some(), rewrite.is_none());
        }
    }

    #[test]
    fn many_small_ones_come_in_few_chunks() {
        let ds = Dataset::range(10_000).unwrap().flat_map(|b, _| {
            let two = Dataset::range(2)?;
            Ok(b.dataset(Bound::nested(two.plan().clone()), two.spec().clone()))
        });
        let n: i64 = ds.unwrap().iter().unwrap().map(|e| e.unwrap()[0].tensor().item::<i64>()).sum();
        assert_eq!(n, 10_000);
    }
}
