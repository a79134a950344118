//! `take_while(predicate)`: elements up to the first for which the predicate does not hold.

use super::filter::{Verdicts, judge, predicate, sift};
use crate::dataset::Dataset;
use crate::element::{B8, Element, Spec};
use crate::error::Result;
use crate::op::{Bound, Function, Op, OpInfo, Param, Props, read};
use crate::ops::Open;
use crate::ops::map::is_serial_host;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Item, Mark, Pull, Stage, pop_rows};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub static INFO: OpInfo = OpInfo {
    name: "take_while",
    doc: "Ends before the first element for which the predicate is false.",
    params: &[Param::new("predicate", "", "a function from an element to a bool scalar")],
    read: read::<TakeWhile>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeWhile {
    pub predicate: Function,
}

impl Dataset {
    /// Elements up to the first for which a Rust function says no.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::counter(0, 1)?.take_while_fn(|e| Ok(e[0].tensor().item::<i64>() < 3))?;
    /// assert_eq!(ds.iter()?.count(), 3);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn take_while_fn(&self, f: impl Fn(&Element) -> Result<bool> + Send + Sync + 'static) -> Result<Dataset> {
        self.apply(TakeWhile { predicate: predicate(self.spec(), f) })
    }
}

impl Op for TakeWhile {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        self.predicate.judges(&inputs[0].spec)
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn props(&self) -> Props {
        let graph = &self.predicate.0;
        // Any host code runs inside a serial stage here.
        Props { host: graph.host_fn().is_some(), pure: graph.is_pure(), partial: true, ..Props::default() }
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.predicate]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let serial = is_serial_host(&self.predicate.0);
        Ok(Built::Stage(Box::new(TakeWhileStage {
            input: Open::new(cx, &node.inputs, cx.cut_stage(&node.inputs[0], false)?),
            predicate: self.predicate.bound(cx),
            ready: VecDeque::new(),
            serial,
        })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        format!("{:?}", self.predicate)
    }
}

struct TakeWhileStage {
    /// Ended after the first no.
    input: Open<Box<dyn Stage>>,
    predicate: Bound,
    ready: VecDeque<Item>,
    serial: bool,
}

impl Stage for TakeWhileStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if let Some(item) = pop_rows(&mut self.ready, want) {
                return item.into();
            }
            let Some(input) = self.input.get() else { return Pull::End };
            // With a function that has side effects, nothing is read that may not be wanted.
            let chunk = crate::rows!(input.next(cx, if self.serial { 1 } else { want }));
            let verdicts: Vec<Result<bool>> = match judge(&self.predicate, &chunk, true) {
                Verdicts::All(t) => t.items::<B8>().iter().map(|b| Ok(b.get())).collect(),
                Verdicts::Each(each) => each,
            };
            let no = verdicts.iter().position(|v| matches!(v, Ok(false)));
            if no.is_some() {
                self.input.end();
            }
            let rows = no.unwrap_or(chunk.rows());
            sift(chunk, verdicts.into_iter().take(rows), &mut self.ready);
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.ready.clear();
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
    use super::*;
    use crate::element::Tensor;
    use crate::error::Error;
    use crate::ops::testing::{events, in_chunks, ints};

    #[test]
    fn ends_for_good() {
        let ds = Dataset::from_tensor_slices(Tensor::from_items([5], &[1i64, 2, 9, 1, 2])).unwrap();
        let ds = ds.take_while_fn(|e| Ok(e[0].tensor().item::<i64>() < 5)).unwrap();
        for rows in [1, 2, 100] {
            assert_eq!(ints(&in_chunks(&ds, rows)), [1, 2]);
        }
        let mut iter = ds.iter().unwrap();
        assert_eq!((iter.by_ref().count(), iter.next().is_none(), iter.next().is_none()), (2, true, true));
        assert_eq!(ints(&ds.repeat(Some(2)).unwrap()), [1, 2, 1, 2]);
    }

    #[test]
    fn errors_do_not_end_it() {
        let ds = Dataset::range(6).unwrap().take_while_fn(|e| match e[0].tensor().item::<i64>() {
            2 => Err(Error::func("no")),
            x => Ok(x < 4),
        });
        assert_eq!(events(&ds.unwrap()), "0 1 ! 3");
    }
}
