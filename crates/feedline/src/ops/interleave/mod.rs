//! `interleave(function, cycle_length, block_length)`: the elements of several datasets in turn.
//!
//! There are `cycle_length` slots, visited in turn. A visit opens the next dataset if the slot is empty, and takes up to
//! `block_length` elements. A dataset that ends leaves its slot empty, and the turn passes on at once. With
//! `num_parallel_calls` the datasets of the slots, and those that come next, are read ahead by workers: the order stays.
//!
//! What the datasets of the slots are made of (an array that the function computed and takes apart, a window) is there until
//! they end. That is what the order asks for: where it does not fit, it is refused. Whatever is done before its turn needs room:
//! datasets that have no slot yet, rows of those that nobody waits for. Where any order will do, one of them is asked, and the
//! others are only looked at.

mod ahead;

use super::flat_map::{Inner, Inners, one_by_one, to_dataset, traced};
use super::weave::{PATIENCE, Picked, Source, collected};
use crate::dataset::Dataset;
use crate::element::{Element, Spec, Value};
use crate::error::{Error, Result};
use crate::expr::{Builder, NodeId};
use crate::op::{Function, Int, Op, OpInfo, Param, Props, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Mark, Over, Pull, Replay, Stage, UNORDERED, bytes_text, unfit};
use ahead::{Ahead, Lately, Opened};
use serde::{Deserialize, Serialize};
use std::time::Instant;

pub static INFO: OpInfo = OpInfo {
    name: "interleave",
    doc: "Makes a dataset of each element and takes from several of these in turn.",
    params: &[
        Param::new("function", "", "from an element to a dataset"),
        Param::new("cycle_length", "16", "how many datasets are open at once"),
        Param::new("block_length", "1", "elements taken from one before the next has its turn"),
        Param::new("num_parallel_calls", "None", "read that many of them ahead at once; AUTOTUNE: all"),
        Param::new("deterministic", "None", "False takes from whichever has something"),
    ],
    read: read::<Interleave>,
};

/// Fixed, so that the order does not depend on the machine.
const CYCLE_LENGTH: i64 = 16;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleave {
    function: Function,
    #[serde(default)]
    cycle_length: Option<Int>,
    #[serde(default = "one")]
    block_length: Int,
    #[serde(default)]
    num_parallel_calls: Option<i64>,
    #[serde(default)]
    deterministic: Option<bool>,
}

fn one() -> Int {
    Int::Known(1)
}

impl Dataset {
    /// Traces `f`, which makes a dataset of an element, and takes `block_length` elements of each of `cycle_length` open
    /// datasets in turn.
    pub fn interleave(
        &self,
        cycle_length: i64,
        block_length: i64,
        f: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>,
    ) -> Result<Dataset> {
        self.interleaved(traced(self.spec(), f)?, cycle_length, block_length, None)
    }
    /// The same for any Rust function, reading all open datasets ahead.
    ///
    /// ```
    /// # use feedline::{Dataset, element::{DType, Spec}};
    /// let ds = Dataset::range(3)?
    ///     .interleave_fn(2, 1, Spec::scalar(DType::Int64), |e| {
    ///         let x: i64 = e[0].tensor().item();
    ///         Dataset::range_from(10 * x, 10 * x + 2, 1)
    ///     })?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [0, 10, 1, 11, 20, 21]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn interleave_fn(
        &self,
        cycle_length: i64,
        block_length: i64,
        inner: Spec,
        f: impl Fn(Element) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        self.interleaved(to_dataset(self.spec(), inner, f), cycle_length, block_length, Some(-1))
    }
    fn interleaved(&self, function: Function, cycle: i64, block: i64, calls: Option<i64>) -> Result<Dataset> {
        self.apply(Interleave {
            function,
            cycle_length: Some(cycle.into()),
            block_length: block.into(),
            num_parallel_calls: calls,
            deterministic: None,
        })
    }
}

impl Op for Interleave {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        super::check_parallel(self.num_parallel_calls)?;
        if let Some(n) = self.block_length.known() {
            at_least("block_length", n, 1)?;
        }
        if let Some(n) = self.cycle_length.and_then(|n| n.known()).filter(|n| *n != -1) {
            at_least("cycle_length", n, 1)?;
            if let Some(calls) = self.num_parallel_calls.filter(|calls| *calls > n) {
                crate::bail!(Usage, "num_parallel_calls ({calls}) must not be larger than cycle_length ({n})");
            }
        }
        self.function.takes(&[&inputs[0].spec])?;
        Ok(self.function.gives_dataset()?.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        match inputs[0].card {
            Card::Infinite if self.num_parallel_calls.is_some() => Card::Infinite,
            _ => Card::Unknown,
        }
    }
    fn props(&self) -> Props {
        super::function_props(&self.functions())
    }
    fn tunables(&self) -> &'static [&'static str] {
        match (self.cycle_length.and_then(|n| n.known()), self.num_parallel_calls) {
            // As many as the cycle has, and so another order.
            (None | Some(-1), Some(calls)) if calls > CYCLE_LENGTH => &[],
            (_, Some(_)) => &["num_parallel_calls"],
            // Without it errors of what was not read yet come at another time.
            (_, None) => &[],
        }
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.function]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let calls = super::cap(self.num_parallel_calls);
        let cycle = match self.cycle_length.map(|n| n.get(cx)).transpose()? {
            // More calls than the usual cycle were asked for: a longer cycle.
            None | Some(-1) => CYCLE_LENGTH.max(self.num_parallel_calls.unwrap_or(0)),
            Some(n) => n,
        };
        let block = self.block_length.get(cx)?;
        at_least("cycle_length", cycle, 1)?;
        at_least("block_length", block, 1)?;
        if cycle == 1 && calls.is_none() {
            // Nothing is read before its turn: what starts in these datasets takes seeds of the pass, one after the other.
            return one_by_one(cx, node, &self.function);
        }
        let cycle = cycle as usize;
        let ahead = match calls {
            // Inside of other functions there may be thousands of these: they stay serial.
            Some(calls) if !cx.nested => Some(Ahead::new(cx, cycle, calls)),
            _ => None,
        };
        // Whoever works ahead opens more than is wanted of it.
        let cx = &BuildCx { cut: cx.cut.map(|exact| if calls.is_some() { 0 } else { exact }), ..cx.clone() };
        let mut outer = Inners::new(cx, node, &self.function)?;
        outer.cx.in_turns = true;
        Ok(Built::Stage(Box::new(InterleaveStage {
            outer,
            outer_ended: false,
            slots: Slots { made: vec![], len: cycle },
            cycle,
            at: 0,
            taken: 0,
            block: block as usize,
            open: 0,
            ahead,
            skips_failed: calls.is_some(),
            ordered: super::ordered(cx, self.num_parallel_calls, self.deterministic),
            waiting: 0,
            serial: self.props().host,
            picked: Picked::new(),
            failed: None,
            made: 0,
            hold: cx.hold(node),
            made_of: 0,
            most: node.inputs[0].card.known().map_or(cycle as u64, |n| n.min(cycle as u64)),
            row: Lately::default(),
            slot_bytes: cx.run.bounds().bytes / cycle,
            asked: None,
            refused: false,
        })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// The slots of the cycle. They are made as they are reached: a cycle much longer than the input costs nothing.
struct Slots {
    made: Vec<Option<Slot>>,
    len: usize,
}

/// A dataset that is open, and from where it came.
struct Slot {
    source: Source,
    from: Mark,
    /// What it was made of.
    bytes: usize,
}

impl Slots {
    fn at(&mut self, i: usize) -> &mut Option<Slot> {
        if self.made.len() <= i {
            self.made.resize_with(i + 1, || None);
        }
        &mut self.made[i]
    }
}

struct InterleaveStage {
    outer: Inners,
    outer_ended: bool,
    slots: Slots,
    cycle: usize,
    /// The slot whose turn it is, and how many elements it has given in this turn.
    at: usize,
    taken: usize,
    block: usize,
    /// Slots in use.
    open: usize,
    ahead: Option<Ahead>,
    /// Whether an input whose function failed uses up a turn, as it does when datasets are opened early.
    skips_failed: bool,
    ordered: bool,
    /// Slots in a row that had nothing, if the order is free.
    waiting: usize,
    /// Python runs inside: nothing is read before its turn.
    serial: bool,
    picked: Picked,
    failed: Option<Error>,
    made: u64,
    /// What the datasets of all slots are made of.
    hold: Hold,
    made_of: usize,
    /// Datasets that will be open at once.
    most: u64,
    /// What an element took lately, and what may be read at once of a dataset whose turn it is.
    row: Lately,
    slot_bytes: usize,
    /// The slot that somebody waits for, if the order is free. In a fixed order that is the one whose turn it is.
    asked: Option<usize>,
    /// It has ended early.
    refused: bool,
}

/// What a step led to.
enum Step {
    /// Goes on; true if something was pulled, which may have taken time.
    On(bool),
    Stop(Pull),
}

impl InterleaveStage {
    fn advance(&mut self) {
        self.at = (self.at + 1) % self.slots.len;
        self.taken = 0;
    }
    /// Nothing there yet: wait, or look at the next slot if the order is free. If the input is late, only those that are
    /// open are worth a look.
    fn wait(&mut self, input_is_late: bool) -> Step {
        if self.ordered {
            return Step::Stop(Pull::Pending);
        }
        self.waiting += 1;
        let made = &self.slots.made;
        let next = match input_is_late {
            true => (self.at + 1..made.len()).chain(0..self.at.min(made.len())).find(|i| made[*i].is_some()),
            false => Some((self.at + 1) % self.slots.len),
        };
        let Some(next) = next.filter(|_| self.waiting <= made.len()) else {
            self.waiting = 0;
            return Step::Stop(Pull::Pending);
        };
        (self.at, self.taken) = (next, 0);
        Step::On(false)
    }
    fn step(&mut self, cx: &mut Cx<'_>, want: usize) -> Step {
        let (at, fits) = (self.at, self.slot_bytes.checked_div(self.row.0).unwrap_or(1).max(1));
        let Some(Slot { source, bytes, .. }) = self.slots.at(at) else { return self.fill(cx) };
        if source.left() == 0 {
            let ask = match (self.serial, &self.ahead) {
                // What workers have read ahead is there anyway.
                (_, Some(_)) => usize::MAX >> 8,
                (true, None) => want.min(self.block - self.taken).min(fits),
                (false, None) => source.ask.0.max(self.block - self.taken).min(want.max(64)).min(fits),
            };
            cx.looks = !self.ordered && self.ahead.is_some() && self.asked.is_some_and(|asked| asked != at);
            let (pull, looks) = (source.pull(cx, ask), std::mem::take(&mut cx.looks));
            if !looks {
                self.asked = matches!(pull, Some(Pull::Pending)).then_some(at);
            }
            match pull {
                None => {
                    let (rows, bytes) = (source.left(), source.bytes());
                    self.row.saw(bytes / rows.max(1));
                    if let Some(ahead) = &mut self.ahead {
                        ahead.saw(bytes);
                    }
                }
                Some(Pull::End) => {
                    self.made_of -= *bytes;
                    let _ = self.hold.set(self.made_of);
                    *self.slots.at(at) = None;
                    self.open -= 1;
                    self.advance();
                    return Step::On(true);
                }
                Some(Pull::Pending) => return self.wait(false),
                Some(Pull::Fail(error)) => {
                    // It stands in the place of an element.
                    self.took(1);
                    return Step::Stop(Pull::Fail(error));
                }
                Some(Pull::Rows(_)) => unreachable!("rows stay with the source"),
            }
            self.waiting = 0;
            return Step::On(true);
        }
        let rows = source.left().min(self.block - self.taken).min(want);
        self.picked.pick(source, rows);
        self.waiting = 0;
        self.took(rows);
        Step::On(false)
    }
    fn took(&mut self, rows: usize) {
        self.taken += rows;
        if self.taken == self.block {
            self.advance();
        }
    }
    /// A dataset that nobody reads ahead. Where somebody might, marks are those of one that is.
    fn serial_stage(&self, value: &Value, pos: u64) -> Result<Box<dyn Stage>> {
        let stage = self.outer.stage(value, pos)?;
        Ok(if self.skips_failed { Box::new(Replay::new(stage)) } else { stage })
    }
    /// Opens the next dataset in the slot whose turn it is.
    fn fill(&mut self, cx: &mut Cx<'_>) -> Step {
        let opened = match &mut self.ahead {
            _ if self.outer_ended => None,
            Some(ahead) => {
                let next = ahead.next(&mut self.outer, cx);
                match next {
                    Some(opened) => opened,
                    None => return self.wait(true),
                }
            }
            None => {
                let mut from = Mark::default();
                self.outer.mark(&mut from);
                match self.outer.next(cx) {
                    Inner::Dataset(value, pos) => {
                        let bytes = value.own_bytes();
                        Some(Opened { stage: self.serial_stage(&value, pos), from, bytes })
                    }
                    Inner::Fail(error) => Some(Opened { stage: Err(error), from, bytes: 0 }),
                    Inner::Pending => return self.wait(true),
                    Inner::End => None,
                }
            }
        };
        match opened {
            Some(Opened { stage: Ok(stage), from, bytes }) => {
                *self.slots.at(self.at) = Some(Slot { source: Source::new(stage, vec![]), from, bytes });
                self.open += 1;
                self.made_of += bytes;
                match self.hold.set(self.made_of) {
                    Ok(()) => Step::On(true),
                    Err(over) => self.refuse(over),
                }
            }
            Some(Opened { stage: Err(error), .. }) => {
                if self.skips_failed {
                    self.advance();
                }
                Step::Stop(Pull::Fail(error))
            }
            None => {
                self.outer_ended = true;
                // Slots that were not reached stay empty for good.
                self.slots.len = self.slots.made.len();
                if self.open == 0 {
                    self.outer.end(cx);
                    return Step::Stop(Pull::End);
                }
                self.advance();
                Step::On(false)
            }
        }
    }
}

impl InterleaveStage {
    /// The order asks for more datasets at once than there is memory for.
    fn refuse(&mut self, over: Over) -> Step {
        let (open, most) = (self.open as u64, self.most);
        (self.slots.made, self.open, self.made_of, self.refused) = (vec![], 0, 0, true);
        let _ = self.hold.set(0);
        if let Some(ahead) = &mut self.ahead {
            ahead.reset(true);
        }
        let what = format!(
            "what {open} of the {most} datasets are made of that are open at once takes {}",
            bytes_text(over.bytes)
        );
        let instead = "give a lower cycle_length, or let the datasets make their elements one by one (map) instead of taking \
                       them out of one value";
        Step::Stop(Pull::Fail(over.if_there_were(most, open).error(&what, instead).that_ends()))
    }
}

impl Stage for InterleaveStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.failed.take() {
            return Pull::Fail(error);
        }
        if self.refused {
            return Pull::End;
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.fill(&mut self.outer, cx, false);
        }
        let start = Instant::now();
        let stop = loop {
            if cx.is_cancelled() {
                return Pull::End;
            }
            match self.step(cx, want - self.picked.rows()) {
                Step::On(pulled) => {
                    if self.picked.rows() == want || (pulled && self.picked.rows() > 0 && start.elapsed() > PATIENCE) {
                        break Pull::Pending;
                    }
                }
                Step::Stop(pull) => break pull,
            }
        };
        collected(self.picked.take(&mut self.made), stop, &mut self.failed)
    }
    fn mark(&mut self, out: &mut Mark) {
        if !self.ordered {
            return out.never(UNORDERED);
        }
        out.number(self.made);
        out.number(self.at as u64);
        out.number(self.taken as u64);
        out.flag(self.outer_ended);
        out.number(self.slots.made.len() as u64);
        for slot in &mut self.slots.made {
            out.flag(slot.is_some());
            if let Some(Slot { source, from, .. }) = slot {
                out.extend_again(from);
                source.mark(out);
            }
        }
        match &self.ahead {
            _ if self.outer_ended => self.outer.mark_ended(out),
            Some(ahead) => ahead.mark(&mut self.outer, out),
            None => self.outer.mark(out),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        let (turn, taken, ended) = (at.number()?, at.up_to(self.block as u64)?, at.flag()?);
        let made = at.up_to(self.cycle as u64)?;
        self.slots = Slots { made: vec![], len: if ended { made as usize } else { self.cycle } };
        (self.at, self.taken, self.outer_ended) = (turn as usize, taken as usize, ended);
        if self.at >= self.slots.len.max(1) {
            return Err(unfit());
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.reset(ended);
        }
        (self.open, self.waiting, self.picked, self.failed) = (0, 0, Picked::new(), None);
        (self.made_of, self.asked, self.refused) = (0, None, false);
        let _ = self.hold.set(0);
        let mut again = None;
        for _ in 0..made {
            if !at.flag()? {
                self.slots.made.push(None);
                continue;
            }
            let start = at.rest();
            let (value, pos) = self.outer.recall(at, &mut again)?;
            let from = Mark::from(&start[..start.len() - at.rest().len()]);
            let stage = match &mut self.ahead {
                Some(ahead) => ahead.open(&self.outer, &value, pos)?,
                None => self.serial_stage(&value, pos)?,
            };
            let mut source = Source::new(stage, vec![]);
            source.seek(at)?;
            let bytes = value.own_bytes();
            self.slots.made.push(Some(Slot { source, from, bytes }));
            (self.open, self.made_of) = (self.open + 1, self.made_of + bytes);
        }
        // It did fit when the state was taken: where there is less now, the next one is refused.
        let _ = self.hold.set(self.made_of);
        if ended { self.outer.seek_ended(at) } else { self.outer.seek(at) }
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
    use crate::element::{DType, Dims, Leaf, Tensor};
    use crate::options::Options;

    /// `count` times each element, as (traced) from_tensors(x).repeat(count) would give.
    fn repeats(ds: &Dataset, count: impl Fn(i64) -> i64 + Send + Sync + 'static) -> Function {
        let f = move |e: Element| {
            let x: i64 = e[0].tensor().item();
            Ok(ints(&vec![x; count(x) as usize]))
        };
        to_dataset(ds.spec(), Spec::scalar(DType::Int64), f)
    }

    /// Serial, with two calls and with as many as there are: all must give the same.
    fn all(ds: &Dataset, f: &Function, cycle: i64, block: i64, expect: &str) {
        for calls in [None, Some(1), Some(2), Some(-1)] {
            if calls.is_none_or(|c| c <= cycle) {
                same(&ds.interleaved(f.clone(), cycle, block, calls).unwrap(), expect);
            }
        }
    }

    #[test]
    fn turns_follow_the_rule() {
        let ds = Dataset::range_from(1, 6, 1).unwrap();
        let four = repeats(&ds, |_| 4);
        all(&ds, &four, 1, 1, "1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4 5 5 5 5");
        all(&ds, &four, 2, 1, "1 2 1 2 1 2 1 2 3 4 3 4 3 4 3 4 5 5 5 5");
        all(&ds, &four, 2, 3, "1 1 1 2 2 2 1 2 3 3 3 4 4 4 3 4 5 5 5 5");
        all(&ds, &four, 3, 2, "1 1 2 2 3 3 1 1 2 2 3 3 4 4 5 5 4 4 5 5");
        all(&ds, &four, 10, 1, "1 2 3 4 5 1 2 3 4 5 1 2 3 4 5 1 2 3 4 5");
        let ds = Dataset::range(6).unwrap();
        let own = repeats(&ds, |x| x);
        all(&ds, &own, 2, 1, "1 2 2 3 3 4 3 4 4 5 4 5 5 5 5");
        all(&ds, &own, 3, 2, "1 2 2 3 3 4 4 3 4 4 5 5 5 5 5");
        all(&ds, &own, 4, 3, "1 2 2 3 3 3 4 4 4 5 5 5 4 5 5");
    }

    #[test]
    fn a_table_that_all_datasets_have_is_there_anyway() {
        let rows = |n: i64| Tensor::from_items([64, 1024], &vec![n; 64 << 10]);
        let table = rows(7);
        let options = Options { memory_limit: Some(4 << 20), ..Default::default() };
        let spec = Spec::leaf(Leaf::tensor(DType::Int64, Dims::known(&[1024])));
        for is_shared in [true, false] {
            let table = table.clone();
            let made = move |e: Element| {
                let own = if is_shared { table.clone() } else { rows(e[0].tensor().item()) };
                Dataset::from_tensor_slices(own)
            };
            let ds = Dataset::range(16).unwrap().interleave_fn(16, 1, spec.clone(), made).unwrap();
            let seen: Result<Vec<Element>> = ds.with_options(options.clone()).unwrap().iter().unwrap().collect();
            match seen {
                Ok(seen) => assert!(is_shared && seen.len() == 16 * 64),
                Err(error) => assert!(!is_shared && error.to_string().contains("datasets are made of"), "{error}"),
            }
        }
    }

    #[test]
    fn a_failing_function_costs_its_input() {
        let ds = Dataset::range_from(1, 5, 1).unwrap();
        let f = repeats(&ds, |x| x);
        let bad = fail_at(&ds, 2);
        same(&bad.interleaved(f.clone(), 2, 1, None).unwrap(), "1 ! 3 3 4 3 4 4 4");
        same(&bad.interleaved(f, 2, 1, Some(2)).unwrap(), "1 ! 3 4 3 4 3 4 4");
    }

    #[test]
    fn an_error_inside_stands_for_an_element() {
        let ds = Dataset::range_from(1, 4, 1).unwrap();
        let inner = |e: Element| {
            let x: i64 = e[0].tensor().item();
            Ok(fail_at(&Dataset::range_from(x, x + 2, 1)?, 3))
        };
        let f = to_dataset(ds.spec(), Spec::scalar(DType::Int64), inner);
        all(&ds, &f, 2, 1, "1 2 2 ! ! 4");
        all(&ds, &f, 2, 2, "1 2 2 ! ! 4");
    }

    #[test]
    fn a_free_order_loses_nothing() {
        let ds = Dataset::range(6).unwrap();
        let f = repeats(&ds, |x| x);
        let mut op = Interleave {
            function: f,
            cycle_length: Some(3.into()),
            block_length: 1.into(),
            num_parallel_calls: Some(2),
            deterministic: Some(false),
        };
        for calls in [1, 2, -1] {
            op.num_parallel_calls = Some(calls);
            for chunk_rows in [Some(1), Some(3), None] {
                let options = Options { chunk_rows, ..Default::default() };
                let got = shown(&ds.apply(op.clone()).unwrap().with_options(options).unwrap());
                let mut got: Vec<&str> = got.split(' ').collect();
                got.sort();
                assert_eq!(got.join(" "), "1 2 2 3 3 3 4 4 4 4 5 5 5 5 5");
            }
        }
    }

    #[test]
    fn parameters_are_checked_when_it_is_built() {
        let ds = Dataset::range(3).unwrap();
        let f = repeats(&ds, |x| x);
        for (cycle, block, calls) in [(0, 1, None), (-2, 1, None), (2, 0, None), (2, 1, Some(0)), (2, 1, Some(4))] {
            assert!(ds.interleaved(f.clone(), cycle, block, calls).is_err(), "{cycle} {block} {calls:?}");
        }
        assert_eq!(ds.interleaved(f, -1, 1, Some(40)).map(|d| shown(&d)).unwrap(), "1 2 2");
    }

    #[test]
    fn what_was_asked_for_bounds_what_it_can_reach() -> Result<()> {
        // Rewritten when it runs: two maps become one.
        let double = |ds: &Dataset| ds.map(|b, x| b.call("add", &[x[0], x[0]], Default::default()));
        let inner = double(&double(&Dataset::range(50)?)?)?;
        let ds = Dataset::range(40)?;
        let places = |calls| -> Result<_> {
            let function = traced(ds.spec(), |b, _| {
                Ok(b.dataset(crate::plan::Bound::nested(inner.plan().clone()), inner.spec().clone()))
            })?;
            let ds = ds.interleaved(function, 4, 1, calls)?;
            assert_eq!(ds.iter()?.count(), 2000);
            let model = crate::plan::model(&ds.plan().runs()?, &ds.plan().meters().unwrap());
            let map = model.parts.iter().find(|p| p.name == "map").unwrap().clone();
            Ok(model.lanes.iter().find(|l| l.id == map.id && map.segment == l.id).map(|l| l.places))
        };
        assert_eq!(places(Some(2))?, Some(Some(2.0)));
        assert_eq!(places(Some(-1))?, Some(None), "all that are open");
        assert_eq!(places(None)?, None, "whoever pulls reads them");
        Ok(())
    }

    #[test]
    fn it_can_be_left_at_any_time() {
        let ds = Dataset::range(1_000_000).unwrap();
        let f = repeats(&ds, |x| x % 5);
        for taken in 0..40 {
            let mut iter = ds.interleaved(f.clone(), 4, 1, Some(2)).unwrap().iter().unwrap();
            (0..taken).for_each(|_| drop(iter.next().unwrap().unwrap()));
        }
    }

    #[test]
    fn many_datasets_pass_through_few_slots() {
        let ds = Dataset::range(2000).unwrap();
        let f = repeats(&ds, |x| x % 7);
        let sum = |ds: &Dataset| ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().item::<i64>()).collect::<Vec<_>>();
        let serial = sum(&ds.interleaved(f.clone(), 5, 2, None).unwrap());
        assert_eq!(serial.len(), (0..2000).map(|x| x % 7).sum::<usize>());
        assert_eq!(serial, sum(&ds.interleaved(f.clone(), 5, 2, Some(3)).unwrap()));
        assert_eq!(serial, sum(&ds.interleaved(f, 5, 2, Some(-1)).unwrap()));
    }
}
