//! `scan(initial, function)`: a function that carries a state from element to element.

use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Leaf, Packed, Spec, Tensor, Tree, Value};
use crate::error::{Error, Kind, Result};
use crate::expr::{Builder, NodeId};
use crate::op::{Bound, Function, Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::rows;
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Item, Mark, Over, Pull, Stage, bytes_text, pop_rows, unfit};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub static INFO: OpInfo = OpInfo {
    name: "scan",
    doc: "Applies a function that carries a state from element to element.",
    params: &[
        Param::new("initial", "", "the state before the first element"),
        Param::new("function", "", "from a state and an element to the next state and a result"),
    ],
    read: read::<Scan>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    initial: Packed,
    function: Function,
}

impl Dataset {
    /// Traces `f`, which makes a new state and a result of a state (one tensor) and the leaves of an element.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Tensor, expr::Attrs};
    /// let ds = Dataset::range(4)?.scan(Tensor::scalar(0i64), |b, state, x| {
    ///     let sum = b.call("add", &[state, x[0]], Attrs::default())?;
    ///     Ok((sum, sum))
    /// })?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 1, 3, 6]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn scan(
        &self,
        initial: Tensor,
        f: impl FnOnce(&mut Builder, NodeId, &[NodeId]) -> Result<(NodeId, NodeId)>,
    ) -> Result<Dataset> {
        let spec = Spec::leaf(Leaf::of_tensor(&initial));
        let mut b = Builder::new(&Spec::tuple(vec![spec.clone(), self.spec().clone()]));
        let leaves: Vec<NodeId> = (1..=self.spec().leaf_count()).collect();
        let (state, result) = f(&mut b, 0, &leaves)?;
        let function = Function::new(b.finish(&Tree::tuple(vec![Tree::Leaf(state), Tree::Leaf(result)])));
        self.apply(Scan { initial: Packed { spec, values: vec![initial.into()] }, function })
    }
}

impl Op for Scan {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let Tree::Tuple { items, .. } = self.function.spec() else { return Err(no_pair(self.function.spec())) };
        let [state, output] = items.as_slice() else { return Err(no_pair(self.function.spec())) };
        super::check_state(&self.initial.spec, state)?;
        self.function.takes(&[&self.initial.spec, &inputs[0].spec])?;
        Ok(output.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn props(&self) -> Props {
        super::function_props(&self.functions())
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.function]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(ScanStage {
            input: cx.stage(&node.inputs[0])?,
            function: self.function.bound(cx),
            state: self.initial.values.iter().cloned().collect(),
            serial: self.props().host,
            hold: cx.hold(node),
            ready: VecDeque::new(),
            ended: false,
        })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

fn no_pair(spec: &Spec) -> Error {
    Error::usage(format!("the function must return a pair, the next state and a result, but returns {spec}"))
}

/// Whether values from elsewhere can be a state: as many, of the same kinds and dtypes.
fn fits(values: &[Value], state: &Element) -> bool {
    let kind = |v: &Value| Leaf::of(v).map(|leaf| (std::mem::discriminant(&leaf), leaf.dtype()));
    values.len() == state.len() && values.iter().zip(state).all(|(a, b)| kind(a) == kind(b))
}

struct ScanStage {
    input: Box<dyn Stage>,
    function: Bound,
    state: Element,
    /// Python runs inside: not before its result is asked for.
    serial: bool,
    /// What the state takes, and the one that is made of it.
    hold: Hold,
    ready: VecDeque<Item>,
    /// The state has become too large: nothing can follow.
    ended: bool,
}

fn bytes_of(state: &Element) -> usize {
    state.iter().map(|value| value.nbytes()).sum()
}

/// A state that there is no room for, with the one that it is made of.
fn too_large(over: Over, state: usize) -> Error {
    let what =
        format!("a state of {} takes {} with the one that is made of it", bytes_text(state), bytes_text(over.bytes));
    over.error(&what, "carry a smaller state")
}

impl ScanStage {
    /// The results of a chunk, in order. After an error the state is the one before it.
    fn run(&mut self, chunk: &Chunk) -> Vec<Item> {
        let ScanStage { function, state, hold, ended, .. } = self;
        let mut out: Vec<Item> = Vec::new();
        let mut results: Vec<Element> = Vec::with_capacity(chunk.rows());
        let mut first = 0;
        let flush = |results: &mut Vec<Element>, first: usize, out: &mut Vec<Item>| {
            if !results.is_empty() {
                let pos = chunk.slice(first..first + results.len()).pos;
                out.push(Item::Rows(Chunk::from_elements(pos, std::mem::take(results))));
            }
        };
        function.scoped(&mut || {
            for row in 0..chunk.rows() {
                // The next one is likely as large, and there is this one until it is made.
                let bytes = bytes_of(state);
                let room = hold.set(2 * bytes).map_err(|over| too_large(over, bytes));
                let args: Element = state.iter().cloned().chain(chunk.element(row)).collect();
                let made = room.and_then(|()| {
                    let mut result = function.call_scoped(&args, chunk.pos.at(row))?;
                    let output: Element = result.drain(state.len()..).collect();
                    let all = bytes.saturating_add(bytes_of(&result));
                    hold.set(all).map_err(|over| too_large(over, bytes))?;
                    Ok((result, output))
                });
                match made {
                    Ok((next, output)) => {
                        next.iter().for_each(|v| v.freeze());
                        *state = next;
                        results.push(output);
                    }
                    Err(error) if error.kind() == Kind::Budget => {
                        flush(&mut results, first, &mut out);
                        out.push(Item::Fail(error.at_element(chunk.pos.at(row)).that_ends()));
                        *ended = true;
                        break;
                    }
                    Err(error) => {
                        flush(&mut results, first, &mut out);
                        out.push(Item::Fail(error.at_element(chunk.pos.at(row))));
                        first = row + 1;
                    }
                }
            }
        });
        flush(&mut results, first, &mut out);
        let kept = if self.ended { 0 } else { bytes_of(&self.state) };
        let _ = self.hold.set(kept);
        out
    }
}

impl Stage for ScanStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if let Some(item) = pop_rows(&mut self.ready, want) {
                return item.into();
            }
            if cx.is_cancelled() || self.ended {
                return Pull::End;
            }
            let chunk = rows!(self.input.next(cx, if self.serial { 1 } else { want }));
            let out = self.run(&chunk);
            self.ready.extend(out);
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.values(self.state.as_slice().into());
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.ready.clear();
        self.ended = false;
        let state = at.values()?;
        if !fits(state, &self.state) {
            return Err(unfit());
        }
        self.state = state.iter().cloned().collect();
        self.state.iter().for_each(|v| v.freeze());
        self.input.seek(at)
    }
    fn is_settled(&self) -> bool {
        self.ready.is_empty()
    }
    fn replays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::super::map::RustFn;
    use super::*;
    use crate::element::{DType, Value};
    use crate::expr::Graph;
    use std::sync::Arc;

    fn scan(
        ds: &Dataset,
        initial: Tensor,
        output: Spec,
        f: impl Fn(i64, i64) -> Result<Element> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        let spec = Spec::leaf(Leaf::of_tensor(&initial));
        let args = Spec::tuple(vec![spec.clone(), ds.spec().clone()]);
        let call = move |e: Element| f(e[0].tensor().item(), e[1].tensor().item());
        let function = Function::new(Graph::host(&args, Arc::new(RustFn(Box::new(call))), output));
        ds.apply(Scan { initial: Packed { spec, values: vec![initial.into()] }, function })
    }
    fn int() -> Spec {
        Spec::scalar(DType::Int64)
    }
    fn value(x: i64) -> Value {
        Tensor::scalar(x).into()
    }
    fn pair() -> Spec {
        Spec::tuple(vec![int(), int()])
    }
    fn sums(ds: &Dataset) -> Dataset {
        scan(ds, Tensor::scalar(10i64), pair(), |s, x| {
            if x == 3 { Err(Error::func("no")) } else { Ok(smallvec::smallvec![value(s + x), value(s)]) }
        })
        .unwrap()
    }

    #[test]
    fn the_state_is_carried_and_errors_leave_it() {
        same(&sums(&Dataset::range(3).unwrap()), "10 10 11");
        same(&sums(&Dataset::range(6).unwrap()), "10 10 11 ! 13 17");
        same(&sums(&fail_at(&Dataset::range(6).unwrap(), 1)), "10 ! 10 ! 12 16");
        assert_eq!(sums(&Dataset::range(6).unwrap()).cardinality(), Card::Known(6));
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused() {
        let growing = Dataset::range(100).unwrap().scan(Tensor::zeros(DType::Float64, [1]), |b, state, _| {
            let more = b.constant(Tensor::zeros(DType::Float64, [50_000]).into())?;
            let attrs: crate::expr::Attrs = serde_json::from_value(serde_json::json!({"axis": 0})).unwrap();
            Ok((b.call("concat", &[state, more], attrs)?, state))
        });
        let options = crate::Options { memory_limit: Some(8 << 20), ..Default::default() };
        let mut it = growing.unwrap().with_options(options).unwrap().iter().unwrap();
        let made: Vec<_> = it.by_ref().map(|made| made.map(drop).map_err(|e| e.to_string())).collect();
        let Some((Err(text), before)) = made.split_last() else { panic!("it was not refused") };
        // 10 times 400 KB and twice that are more than seven eighths.
        assert_eq!((before.len(), before.iter().all(|made| made.is_ok())), (9, true));
        for part in ["a state of 3.6 MB takes", "of the memory_limit of 8.4 MB: raise it to", "carry a smaller state"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn results_can_have_any_structure() {
        let output = Spec::tuple(vec![int(), pair()]);
        let f = |s, x| Ok(smallvec::smallvec![value(s + 1), value(s), value(x)]);
        same(&scan(&ints(&[7, 8]), Tensor::scalar(0i64), output, f).unwrap(), "0,7 1,8");
    }

    #[test]
    fn wrong_functions_are_refused() {
        let ds = Dataset::range(3).unwrap();
        let f = |s, x| Ok(smallvec::smallvec![value(s), value(x)]);
        assert!(scan(&ds, Tensor::scalar(0i64), int(), f).is_err(), "not a pair");
        assert!(scan(&ds, Tensor::scalar(0i32), pair(), f).is_err(), "another dtype");
        assert!(scan(&ds, Tensor::scalar(0i64), Spec::tuple(vec![pair(), int()]), f).is_err(), "another structure");
    }
}
