//! `choose_from_datasets(choice, datasets)`: a dataset of numbers says from which dataset each element comes.

use super::Open;
use super::weave::{Picked, Source, collected};
use crate::dataset::Dataset;
use crate::element::{Chunk, DType, Spec};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::runtime::{At, BuildCx, Built, Cx, Ends, Mark, Pull, Stage, Tap, Waiting};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "choose_from_datasets",
    doc: "Takes each element from the dataset that the next number of a choice dataset names.",
    params: &[Param::new(
        "stop_on_empty_dataset",
        "True",
        "end when a chosen dataset has no more; False: pass it over",
    )],
    read: read::<ChooseFromDatasets>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChooseFromDatasets {
    #[serde(default = "yes")]
    stop_on_empty_dataset: bool,
}

fn yes() -> bool {
    true
}

impl Dataset {
    /// Elements of `datasets` in the order that `choice`, a dataset of int64 numbers, says.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let parts = [Dataset::range(2)?, Dataset::range_from(10, 12, 1)?];
    /// let ds = Dataset::choose_from_datasets(&Dataset::range(2)?, &parts, true)?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 10]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn choose_from_datasets(
        choice: &Dataset,
        datasets: &[Dataset],
        stop_on_empty_dataset: bool,
    ) -> Result<Dataset> {
        let inputs = std::iter::once(choice).chain(datasets).map(|d| d.plan().clone()).collect();
        Ok(Dataset::from_plan(Plan::new(Arc::new(ChooseFromDatasets { stop_on_empty_dataset }), inputs)?))
    }
}

/// The spec that covers the elements of all inputs.
pub fn joint_spec(inputs: &[Plan]) -> Result<Spec> {
    let Some((first, rest)) = inputs.split_first() else {
        return Err(Error::usage("there are no datasets to take elements from"));
    };
    rest.iter().try_fold(first.spec.clone(), |spec, input| spec.join(&input.spec))
}

/// Whether there is no end: the choice never ends, and neither do the datasets that matter.
pub fn mixed_card(choice: Card, inputs: &[Plan], stop_on_empty: bool) -> Card {
    let infinite = |p: &Plan| p.card == Card::Infinite;
    let endless = if stop_on_empty { inputs.iter().all(infinite) } else { inputs.iter().any(infinite) };
    if choice == Card::Infinite && endless { Card::Infinite } else { Card::Unknown }
}

impl Op for ChooseFromDatasets {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let Some((choice, inputs)) = inputs.split_first() else {
            return Err(Error::usage("a choice dataset is needed"));
        };
        if !choice.spec.may_be_scalar(DType::Int64) {
            crate::bail!(Usage, "the choice dataset must have int64 scalars, not {}; cast them with map", choice.spec);
        }
        joint_spec(inputs)
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        mixed_card(inputs[0].card, &inputs[1..], self.stop_on_empty_dataset)
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let mut serial = false;
        node.inputs[0].walk(&mut |p| serial |= p.op.props().host);
        let choices = Given { tap: Tap::new(cx.cut_stage(&node.inputs[0], false)?), ready: VecDeque::new(), serial };
        Ok(Built::Stage(mixed(cx, node, &node.inputs[1..], choices, self.stop_on_empty_dataset)?))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Says which dataset is next.
pub trait Choices: Send {
    /// Makes sure that there is a choice; gives what came in its place, if anything did. `want`: how many may be used.
    fn fill(&mut self, cx: &mut Cx<'_>, want: usize) -> Option<Pull>;
    /// The next choice, once there is one.
    fn first(&self) -> &Result<i64>;
    fn pop(&mut self);
    /// How many of the next `want` choices are for this dataset, as far as is known.
    fn count(&self, dataset: usize, want: usize) -> usize;
    /// That dataset, which was the next choice, has no more elements.
    fn gone(&mut self, dataset: usize);
    /// As those of a stage. `open`: which datasets have more elements.
    fn mark(&mut self, out: &mut Mark);
    fn seek(&mut self, at: &mut At<'_>, open: &[bool]) -> Result<()>;
}

/// Choices that a dataset gives.
struct Given {
    tap: Tap,
    ready: VecDeque<Result<i64>>,
    serial: bool,
}

impl Choices for Given {
    fn fill(&mut self, cx: &mut Cx<'_>, want: usize) -> Option<Pull> {
        if !self.ready.is_empty() {
            return None;
        }
        match self.tap.next(cx, if self.serial { 1 } else { want.min(4096) }) {
            Pull::Rows(chunk) => {
                self.ready.extend(numbers(&chunk));
                None
            }
            other => Some(other),
        }
    }
    fn first(&self) -> &Result<i64> {
        &self.ready[0]
    }
    fn pop(&mut self) {
        self.ready.pop_front();
        self.tap.used(1);
    }
    fn count(&self, dataset: usize, want: usize) -> usize {
        self.ready.iter().take(want).filter(|c| matches!(c, Ok(k) if *k == dataset as i64)).count()
    }
    fn gone(&mut self, _: usize) {
        self.pop();
    }
    fn mark(&mut self, out: &mut Mark) {
        self.tap.mark(!self.ready.is_empty(), out);
    }
    fn seek(&mut self, at: &mut At<'_>, _: &[bool]) -> Result<()> {
        self.ready.clear();
        self.tap.seek(at)
    }
}

fn numbers(chunk: &Chunk) -> impl Iterator<Item = Result<i64>> {
    (0..chunk.rows()).map(|row| match chunk.columns()[0].get(row).as_tensor() {
        Some(t) if t.rank() == 0 => Ok(t.item()),
        _ => Err(Error::data("a choice must be a scalar").at_element(chunk.pos.at(row))),
    })
}

/// A stage that takes rows of `inputs` in the order of `choices`.
pub fn mixed(
    cx: &BuildCx,
    node: &Plan,
    inputs: &[Plan],
    choices: impl Choices + 'static,
    stop_on_empty: bool,
) -> Result<Box<dyn Stage>> {
    let seen = Arc::default();
    let mut waiting = Vec::new();
    let source = |input: &Plan| {
        // How far the others are when one begins something depends on chunks: what is kept of it counts when all is read.
        let ends = Ends::below(cx, &seen);
        waiting.push(Waiting::new(cx, &ends, input));
        let turn = BuildCx { ends: Some(ends), ..cx.clone() };
        let stage = turn.cut_stage(input, false)?;
        Ok(Open::new(&turn, std::slice::from_ref(input), Source::new(stage, node.spec.leaf_order(&input.spec))))
    };
    let sources = inputs.iter().map(source).collect::<Result<Vec<_>>>()?;
    let open = sources.len();
    let (picked, failed, ended, made) = (Picked::new(), None, false, 0);
    Ok(Box::new(MixStage { choices, sources, open, stop_on_empty, ended, picked, failed, made, seen, waiting }))
}

struct MixStage<C> {
    choices: C,
    sources: Vec<Open<Source>>,
    open: usize,
    stop_on_empty: bool,
    ended: bool,
    picked: Picked,
    failed: Option<Error>,
    made: u64,
    /// Its end was.
    seen: Arc<AtomicBool>,
    /// What is kept of each waits for that.
    waiting: Vec<Waiting>,
}

impl<C: Choices> MixStage<C> {
    /// One choice: its row is picked, or something else is returned.
    fn step(&mut self, cx: &mut Cx<'_>, want: usize) -> Option<Pull> {
        if let Some(pull) = self.choices.fill(cx, want) {
            return Some(pull);
        }
        let k = match self.choices.first() {
            Ok(k) => usize::try_from(*k).ok().filter(|k| *k < self.sources.len()).ok_or_else(|| {
                Error::data(format!("the choice {k} is not one of the {} datasets", self.sources.len()))
            }),
            Err(error) => Err(error.clone()),
        };
        let k = match k {
            Ok(k) => k,
            Err(error) => {
                self.choices.pop();
                return Some(Pull::Fail(error));
            }
        };
        let Some(source) = self.sources[k].get() else {
            self.choices.pop();
            return None;
        };
        if source.left() == 0 {
            match source.pull(cx, self.choices.count(k, want).max(1)) {
                None => {}
                Some(Pull::End) => {
                    self.sources[k].end();
                    self.open -= 1;
                    self.ended = self.stop_on_empty || self.open == 0;
                    self.choices.gone(k);
                    return None;
                }
                Some(Pull::Fail(error)) => {
                    self.choices.pop();
                    return Some(Pull::Fail(error));
                }
                Some(other) => return Some(other),
            }
        }
        self.picked.pick(source, 1);
        self.choices.pop();
        None
    }
}

impl<C: Choices> Stage for MixStage<C> {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.failed.take() {
            return Pull::Fail(error);
        }
        if self.ended {
            // A state may have said so: what is left of them is let go.
            self.sources.iter_mut().for_each(|source| _ = source.get());
        }
        // A chunk's worth of choices at most: whoever asks for all there is gets it in pieces.
        let want = want.min(4096);
        let mut stop = Pull::End;
        while self.picked.rows() < want && !self.ended {
            if cx.is_cancelled() {
                return Pull::End;
            }
            if let Some(pull) = self.step(cx, want - self.picked.rows()) {
                stop = pull;
                break;
            }
        }
        let pull = collected(self.picked.take(&mut self.made), stop, &mut self.failed);
        if matches!(pull, Pull::End) && !cx.is_cancelled() {
            self.seen.store(true, Relaxed);
        }
        pull
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        out.flag(self.ended);
        if !self.ended {
            for source in &mut self.sources {
                out.flag(source.is_open());
                if let Some(source) = source.if_open() {
                    source.mark(out);
                }
            }
            self.choices.mark(out);
        }
        self.sources.iter().for_each(|source| source.below.mark(out));
        self.waiting.iter().for_each(|waiting| waiting.mark(out));
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        self.ended = at.flag()?;
        (self.picked, self.failed) = (Picked::new(), None);
        self.seen.store(false, Relaxed);
        if self.ended {
            // What is left of them is nobody's.
            self.open = 0;
            self.sources.iter_mut().try_for_each(|source| source.set_open(false).map(drop))?;
        } else {
            for source in &mut self.sources {
                if let Some(source) = source.set_open(at.flag()?)? {
                    source.seek(at)?;
                }
            }
            let open: Vec<bool> = self.sources.iter().map(Open::is_open).collect();
            self.open = open.iter().filter(|open| **open).count();
            self.choices.seek(at, &open)?;
        }
        self.sources.iter_mut().try_for_each(|source| source.below.seek(at))?;
        self.waiting.iter().try_for_each(|waiting| waiting.seek(at))
    }
    fn is_settled(&self) -> bool {
        self.failed.is_none()
    }
    fn replays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;

    fn three() -> [Dataset; 3] {
        [(0, 3), (10, 12), (20, 25)].map(|(a, b)| Dataset::range_from(a, b, 1).unwrap())
    }
    fn choose(choice: &[i64], stop: bool, expect: &str) {
        same(&Dataset::choose_from_datasets(&ints(choice), &three(), stop).unwrap(), expect);
    }

    #[test]
    fn choices_are_followed_to_the_end() {
        let twelve = [0, 1, 2].repeat(4);
        choose(&twelve, true, "0 10 20 1 11 21 2");
        choose(&twelve, false, "0 10 20 1 11 21 2 22 23");
        choose(&[0, 1, 2].repeat(40), false, "0 10 20 1 11 21 2 22 23 24");
        choose(&[2, 2, 2, 0, 0], true, "20 21 22 0 1");
        choose(&[], true, "");
    }

    #[test]
    fn wrong_choices_cost_their_place() {
        choose(&[0, 3, 1], true, "0 ! 10");
        choose(&[0, -1, 1], true, "0 ! 10");
        let choice = fail_at(&ints(&[0, 2, 1]), 2);
        same(&Dataset::choose_from_datasets(&choice, &three(), true).unwrap(), "0 ! 10");
        let inputs = [fail_at(&Dataset::range(3).unwrap(), 1), Dataset::range_from(10, 12, 1).unwrap()];
        same(&Dataset::choose_from_datasets(&ints(&[0, 0, 1, 0, 1]), &inputs, true).unwrap(), "0 ! 10 2 11");
    }

    #[test]
    fn inputs_are_checked() {
        let ds = Dataset::range(2).unwrap();
        assert!(Dataset::choose_from_datasets(&ds, &[], true).is_err());
        let batches = ds.batch(2, false).unwrap();
        assert!(Dataset::choose_from_datasets(&batches, &three(), true).is_err());
        let windows = ds.window(1, 1, 1, false).unwrap();
        assert!(Dataset::choose_from_datasets(&ds, &[ds.clone(), windows], true).is_err());
        let mixed = Dataset::choose_from_datasets(&ds, &[ds.clone(), batches], true).unwrap();
        assert_eq!(mixed.spec().to_string(), "int64<unknown rank>");
        same(&mixed, "0 [0 1]");
        assert_eq!(mixed.cardinality(), Card::Unknown);
    }
}
