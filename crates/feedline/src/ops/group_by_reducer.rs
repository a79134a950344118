//! `group_by_reducer(key, init, reduce, finalize)`: all elements of a key folded into one result.

use super::group_by_window::{check_key, key_spec, keys};
use super::map::MapFn;
use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Pos, Spec, Tensor, Value};
use crate::error::{Kind, Result};
use crate::op::{Bound, Function, Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Mark, Pull, Stage, bytes_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::VecDeque;

pub static INFO: OpInfo = OpInfo {
    name: "group_by_reducer",
    doc: "Folds all elements of a key into one result; results come in rising order of the keys.",
    params: &[
        Param::new("key", "", "from an element to its key, an int64 scalar"),
        Param::new("init", "", "from a key to the state before its first element"),
        Param::new("reduce", "", "from a state and an element to the next state"),
        Param::new("finalize", "", "from the last state to the result"),
    ],
    read: read::<GroupByReducer>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupByReducer {
    key: Function,
    init: Function,
    reduce: Function,
    finalize: Function,
}

impl Dataset {
    /// One result for each key: the state that `init` makes of the key, `reduce`d with each element, `finalize`d.
    pub fn group_by_reducer(
        &self,
        key: Function,
        init: Function,
        reduce: Function,
        finalize: Function,
    ) -> Result<Dataset> {
        self.apply(GroupByReducer { key, init, reduce, finalize })
    }
}

impl Op for GroupByReducer {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        self.key.takes(&[&inputs[0].spec])?;
        check_key(&self.key, "the key function")?;
        self.init.takes(&[&key_spec()])?;
        super::check_state(self.init.spec(), self.reduce.spec())?;
        self.reduce.takes(&[self.init.spec(), &inputs[0].spec])?;
        self.finalize.takes(&[self.reduce.spec()])?;
        Ok(self.finalize.spec().clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn props(&self) -> Props {
        super::function_props(&self.functions())
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.key, &self.init, &self.reduce, &self.finalize]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(ReducerStage {
            input: cx.stage(&node.inputs[0])?,
            key: MapFn(self.key.bound(cx)),
            init: self.init.bound(cx),
            reduce: self.reduce.bound(cx),
            finalize: self.finalize.bound(cx),
            serial: self.props().host,
            states: BTreeMap::new(),
            hold: cx.hold(node),
            all: node.inputs[0].card.known(),
            read: 0,
            failed: VecDeque::new(),
            ended: false,
            made: 0,
            begun: false,
        })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct ReducerStage {
    input: Box<dyn Stage>,
    key: MapFn,
    init: Bound,
    reduce: Bound,
    finalize: Bound,
    serial: bool,
    states: BTreeMap<i64, Element>,
    /// What the states take.
    hold: Hold,
    /// Elements that there are, if that is known, and how many of them came.
    all: Option<u64>,
    read: u64,
    /// Errors of the last chunk, one after the other.
    failed: VecDeque<crate::Error>,
    ended: bool,
    made: u64,
    /// Whether anything was read.
    begun: bool,
}

impl ReducerStage {
    fn put(&mut self, key: i64, element: Element, pos: u64) -> Result<()> {
        let state = match self.states.get(&key) {
            Some(state) => state.clone(),
            None => self.init.call(&smallvec::smallvec![Tensor::scalar(key).into()], pos)?,
        };
        let args: Element = state.into_iter().chain(element).collect();
        let state = self.reduce.call(&args, pos)?;
        let more = state_bytes(&state);
        let less = self.states.insert(key, state).map_or(0, |old| state_bytes(&old));
        self.hold.set(self.hold.bytes() + more - less).map_err(|over| {
            let what = format!(
                "the states of {} keys of {} elements take {}",
                self.states.len(),
                self.read,
                bytes_text(over.bytes)
            );
            over.for_all(self.all, self.read).error(&what, "have fewer keys or smaller states")
        })
    }
}

/// A state with its place in the map, a third of which is empty.
fn state_bytes(state: &Element) -> usize {
    state.iter().map(|value| value.nbytes() + Value::BESIDE).sum::<usize>() + size_of::<(i64, Element)>() * 3 / 2
}

impl Stage for ReducerStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            // An element that fails is left out, and the others go on.
            if let Some(error) = self.failed.pop_front() {
                return Pull::Fail(error);
            }
            if cx.is_cancelled() {
                return Pull::End;
            }
            if self.ended {
                let Some((_, state)) = self.states.pop_first() else { return Pull::End };
                let _ = self.hold.set(self.hold.bytes() - state_bytes(&state));
                let pos = self.made;
                self.made += 1;
                return match self.finalize.call(&state, pos) {
                    Ok(result) => Pull::Rows(Chunk::from_elements(Pos::Run(pos), vec![result])),
                    Err(error) => Pull::Fail(error.at_element(pos)),
                };
            }
            self.begun = true;
            match self.input.next(cx, if self.serial { 1 } else { want }) {
                Pull::Rows(chunk) => {
                    for (row, key) in keys(&self.key, &chunk).into_iter().enumerate() {
                        let pos = chunk.pos.at(row);
                        self.read += 1;
                        match key.and_then(|key| self.put(key, chunk.element(row), pos)) {
                            Ok(()) => {}
                            // Nothing can follow.
                            Err(error) if error.kind() == Kind::Budget => {
                                self.states.clear();
                                let _ = self.hold.set(0);
                                self.ended = true;
                                return Pull::Fail(error.at_element(pos).that_ends());
                            }
                            Err(error) => self.failed.push_back(error.at_element(pos)),
                        }
                    }
                }
                Pull::End => self.ended = true,
                other => return other,
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.states.clear();
        let _ = self.hold.set(0);
        self.failed.clear();
        (self.ended, self.made, self.begun, self.read) = (false, 0, false, 0);
        self.input.seek(at)
    }
    // The states are made of all that came so far: it is read again from the start.
    fn is_settled(&self) -> bool {
        !self.begun
    }
    fn replays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;

    fn function(inputs: usize, f: impl Fn(&[i64]) -> Result<i64> + Send + Sync + 'static) -> Function {
        let spec = Spec::tuple(vec![key_spec(); inputs]);
        let call = move |e: Element| {
            let args: Vec<i64> = e.iter().map(|v| v.tensor().item()).collect();
            Ok(smallvec::smallvec![Value::Tensor(Tensor::scalar(f(&args)?))])
        };
        let host = super::super::map::RustFn(Box::new(call));
        Function::new(crate::expr::Graph::host(&spec, std::sync::Arc::new(host), key_spec()))
    }
    fn sums(ds: &Dataset, bad: i64) -> Dataset {
        let key = function(1, |x| Ok(x[0].rem_euclid(3)));
        let reduce = function(2, move |x| if x[1] == bad { Err(crate::Error::func("no")) } else { Ok(x[0] + x[1]) });
        ds.group_by_reducer(key, function(1, |_| Ok(0)), reduce, function(1, |x| Ok(x[0] * 10))).unwrap()
    }

    #[test]
    fn one_result_for_each_key_in_rising_order() {
        same(&sums(&ints(&[5, 3, 4, 3, 5, 8]), -1), "60 40 180");
        same(&sums(&ints(&[]), -1), "");
        assert_eq!(sums(&ints(&[1]), -1).cardinality(), Card::Unknown);
    }

    #[test]
    fn states_that_do_not_fit_are_refused() {
        let key = function(1, |x| Ok(x[0]));
        let ds = Dataset::range(20_000).unwrap();
        let ds = ds.group_by_reducer(key, function(1, |_| Ok(0)), function(2, |x| Ok(x[1])), function(1, |x| Ok(x[0])));
        let options = crate::Options { memory_limit: Some(1 << 20), ..Default::default() };
        let ds = ds.unwrap();
        let mut it = ds.with_options(options).unwrap().iter().unwrap();
        let error = it.next().unwrap().unwrap_err();
        let text = error.to_string();
        assert!(error.kind() == Kind::Budget && text.contains("keys of"), "{error}");
        assert!(it.next().is_none());
        // What is said to be enough is, and not much more than that.
        let needed = text.split("raise it to ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let needed = needed.parse::<f64>().unwrap() * 1e6;
        assert!(text.contains(" MB or more") && needed > 1.5e6, "{text}");
        let results = |limit: f64| {
            let options = crate::Options { memory_limit: Some(limit as usize), ..Default::default() };
            let it = ds.with_options(options).unwrap().iter().unwrap();
            it.take_while(|result| result.is_ok()).count()
        };
        assert_eq!((results(needed * 1.01), results(needed * 0.8)), (20_000, 0));
    }

    #[test]
    fn a_failing_element_is_left_out() {
        same(&sums(&ints(&[5, 3, 4, 3, 5, 8]), 4), "! 60 180");
        same(&sums(&fail_at(&ints(&[5, 3, 4, 3, 5, 8]), 3), 8), "! ! ! 40 100");
    }
}
