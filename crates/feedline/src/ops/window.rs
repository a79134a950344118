//! `window(size, shift, stride)`: datasets of neighbouring elements.
//!
//! Window k has the input positions k·shift + j·stride, j = 0..size-1. Windows share the chunks that they lie in: making one
//! copies nothing unless the stride leaves rows out.

use super::rows::Rows;
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Element, Leaf, Pos, Run, Spec, Value};
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Index, Item, Mark, Pull, Stage, bytes_text};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "window",
    doc: "Groups neighbouring elements into datasets.",
    params: &[
        Param::new("size", "", "elements in a window"),
        Param::new("shift", "size", "how far the next window begins after this one"),
        Param::new("stride", "1", "the distance between the elements of a window"),
        Param::new("drop_remainder", "False", "leave out windows that are not full"),
    ],
    read: read::<Window>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    size: Int,
    #[serde(default)]
    shift: Option<Int>,
    #[serde(default = "one")]
    stride: Int,
    #[serde(default)]
    drop_remainder: bool,
}

fn one() -> Int {
    Int::Known(1)
}

impl Dataset {
    /// Datasets of `size` elements that lie `stride` apart; the next begins `shift` elements later.
    ///
    /// ```
    /// # use feedline::{Dataset, plan::Bound};
    /// let ds = Dataset::range(5)?.window(3, 1, 1, true)?;
    /// let windows: Vec<Dataset> = ds
    ///     .iter()?
    ///     .map(|e| Dataset::from_plan(Bound::of(&e.unwrap()[0]).unwrap().plan.clone()))
    ///     .collect();
    /// let last: Vec<i64> = windows[2].iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!((windows.len(), last), (3, vec![2, 3, 4]));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn window(&self, size: i64, shift: i64, stride: i64, drop_remainder: bool) -> Result<Dataset> {
        let (size, shift, stride) = (size.into(), Some(shift.into()), stride.into());
        self.apply(Window { size, shift, stride, drop_remainder })
    }
}

/// The numbers once they are known.
#[derive(Clone, Copy)]
struct Numbers {
    size: u64,
    shift: u64,
    stride: u64,
    drop_remainder: bool,
}

impl Numbers {
    fn new(size: i64, shift: i64, stride: i64, drop_remainder: bool) -> Result<Numbers> {
        at_least("size", size, 1)?;
        at_least("shift", shift, 1)?;
        at_least("stride", stride, 1)?;
        Ok(Numbers { size: size as u64, shift: shift as u64, stride: stride as u64, drop_remainder })
    }
    /// Positions from the first to the last element of a full window.
    fn span(&self) -> u64 {
        (self.size - 1).saturating_mul(self.stride).saturating_add(1)
    }
    fn windows(&self, n: u64) -> u64 {
        match self.drop_remainder {
            false => n.div_ceil(self.shift),
            true => n.checked_sub(self.span()).map_or(0, |rest| rest / self.shift + 1),
        }
    }
    /// The datasets of one window, one for each leaf.
    fn element(&self, chunks: &[Chunk], leaves: &[Spec]) -> Result<Element> {
        let leaf = |(k, spec): (usize, &Spec)| {
            let one = |c: &Chunk| Chunk::new(c.rows(), c.pos.renumbered(Pos::Run(0)), [c.columns()[k].clone()]);
            Rows::new(chunks.iter().map(one).collect(), spec.clone()).sharing(self.shift, self.span()).into_value()
        };
        leaves.iter().enumerate().map(leaf).collect()
    }
}

impl Window {
    fn numbers(&self, cx: &BuildCx) -> Result<Numbers> {
        let size = self.size.get(cx)?;
        let shift = self.shift.map_or(Ok(size), |n| n.get(cx))?;
        Numbers::new(size, shift, self.stride.get(cx)?, self.drop_remainder)
    }
}

/// The spec of each leaf as an element of its own.
fn leaves(spec: &Spec) -> Arc<[Spec]> {
    spec.leaves().into_iter().map(|l| Spec::leaf(l.clone())).collect()
}

impl Op for Window {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let named = [("size", Some(self.size)), ("shift", self.shift), ("stride", Some(self.stride))];
        for (name, n) in named {
            n.and_then(|n| n.known()).map_or(Ok(()), |n| at_least(name, n, 1))?;
        }
        Ok(inputs[0].spec.map(|leaf| Leaf::Dataset(Arc::new(Spec::leaf(leaf.clone())))))
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        let numbers = || {
            let size = self.size.known()?;
            let shift = self.shift.map_or(Some(size), |n| n.known())?;
            Numbers::new(size, shift, self.stride.known()?, self.drop_remainder).ok()
        };
        match (inputs[0].card, numbers()) {
            (Card::Known(n), Some(numbers)) => Card::Known(numbers.windows(n)),
            (Card::Known(_), None) => Card::Unknown,
            (other, _) => other,
        }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(WindowStage {
            input: cx.stage(&node.inputs[0])?,
            numbers: self.numbers(cx)?,
            leaves: leaves(&node.inputs[0].spec),
            held: VecDeque::new(),
            begin: 0,
            end: 0,
            next: 0,
            ended: false,
            made: 0,
            hold: cx.hold(node),
            run: Run::default(),
            most: node.inputs[0].card.known().unwrap_or(u64::MAX),
        })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let numbers = self.numbers(cx)?;
        Ok(Some(Arc::new(WindowIndex { input, numbers, leaves: leaves(&node.inputs[0].spec) })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct WindowStage {
    input: Box<dyn Stage>,
    numbers: Numbers,
    leaves: Arc<[Spec]>,
    /// What was read of the positions `begin..end`; an error stands for one position.
    held: VecDeque<Read>,
    begin: u64,
    end: u64,
    /// The position at which the next window begins.
    next: u64,
    ended: bool,
    made: u64,
    hold: Hold,
    run: Run,
    /// Elements that there are, as far as that is known.
    most: u64,
}

/// What was read, from where it came, and what it takes.
struct Read {
    item: Item,
    from: Mark,
    bytes: usize,
}

fn positions(item: &Item) -> u64 {
    match item {
        Item::Rows(chunk) => chunk.rows() as u64,
        Item::Fail(_) => 1,
    }
}

impl WindowStage {
    /// Before an item goes to the end of what is held: what is there keeps little more alive than it is.
    fn trim_run(&mut self, next: &Item) {
        let last = self.held.back().and_then(|read| read.item.rows());
        let loose = match next {
            Item::Rows(next) => self.run.follow(last, next),
            Item::Fail(_) => self.run.end(last),
        };
        // An error ends a run: there is none among those that are to be trimmed.
        loose.trim(self.held.iter_mut().rev().map_while(|read| read.item.rows_mut()));
    }
    /// Forgets what lies before the next window.
    fn trim(&mut self) {
        while let Some(Read { item, bytes, .. }) = self.held.front() {
            let (n, bytes) = (positions(item), *bytes);
            if self.begin + n > self.next {
                break;
            }
            self.begin += n;
            self.held.pop_front();
            let _ = self.hold.set(self.hold.bytes() - bytes);
        }
    }
    /// The rows of the window that begins at `next`, or the first error in it.
    fn rows(&self) -> Result<Vec<Chunk>> {
        let (stride, last) = (self.numbers.stride, self.next.saturating_add(self.numbers.span()).min(self.end));
        let mut chunks = Vec::new();
        let mut begin = self.begin;
        for Read { item, .. } in &self.held {
            if begin >= last {
                break;
            }
            let n = positions(item);
            // The first member at or after the beginning of this item.
            let from = match begin.checked_sub(self.next) {
                None => self.next - begin,
                Some(past) => past.next_multiple_of(stride) - past,
            };
            let to = n.min(last - begin);
            if from < to {
                match item {
                    Item::Fail(error) => return Err(error.clone()),
                    Item::Rows(chunk) if stride == 1 => chunks.push(chunk.slice(from as usize..to as usize)),
                    Item::Rows(chunk) => {
                        let index: Vec<usize> = (from as usize..to as usize).step_by(stride as usize).collect();
                        chunks.push(chunk.take(&index));
                    }
                }
            }
            begin += n;
        }
        Ok(chunks)
    }
}

impl Stage for WindowStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let mut columns: Vec<Vec<Value>> = vec![vec![]; self.leaves.len()];
        let mut rows = 0;
        let first = self.made;
        let mut stop = Pull::Pending;
        while rows < want {
            self.trim();
            let full = self.end >= self.next.saturating_add(self.numbers.span());
            if !full && !self.ended {
                if rows > 0 {
                    break;
                }
                if cx.is_cancelled() {
                    return Pull::End;
                }
                let windows = (want as u64 - 1).saturating_mul(self.numbers.shift);
                let upto = self.next.saturating_add(windows).saturating_add(self.numbers.span());
                let mut from = Mark::default();
                self.input.mark(&mut from);
                let item = match self.input.next(cx, (upto - self.end).min(1 << 16) as usize) {
                    Pull::Rows(chunk) => Item::Rows(chunk.together()),
                    Pull::Fail(error) => Item::Fail(error),
                    Pull::Pending => return Pull::Pending,
                    Pull::End => {
                        self.ended = true;
                        continue;
                    }
                };
                self.end += positions(&item);
                let bytes = item.own_bytes();
                self.trim_run(&item);
                if let Item::Rows(chunk) = &item {
                    self.hold.expect_rows(self.numbers.span().min(self.most), chunk.rows(), chunk.nbytes());
                }
                let kept = self.hold.set(self.hold.bytes() + bytes);
                self.held.push_back(Read { item, from, bytes });
                if let Err(over) = kept {
                    let (held, all) = (self.end - self.begin, self.numbers.span());
                    (self.ended, self.next) = (true, self.end);
                    (self.held, self.run) = (VecDeque::new(), Run::default());
                    let _ = self.hold.set(0);
                    let what = format!("{held} elements for a window of {all} take {}", bytes_text(over.bytes));
                    let whole = over.if_there_were(all.min(self.most), held);
                    return Pull::Fail(whole.error(&what, "make smaller windows"));
                }
                continue;
            }
            if !full && (self.numbers.drop_remainder || self.next >= self.end) {
                stop = Pull::End;
                break;
            }
            match self.rows().and_then(|chunks| self.numbers.element(&chunks, &self.leaves)) {
                Ok(element) => columns.iter_mut().zip(element).for_each(|(c, v)| c.push(v)),
                // Windows before it go first; this one is tried again then.
                Err(_) if rows > 0 => break,
                Err(error) => {
                    self.next = self.next.saturating_add(self.numbers.shift);
                    return Pull::Fail(error);
                }
            }
            self.next = self.next.saturating_add(self.numbers.shift);
            rows += 1;
        }
        if rows == 0 {
            return stop;
        }
        self.made += rows as u64;
        Pull::Rows(Chunk::new(rows, Pos::Run(first), columns.into_iter().map(|c| Column::Rows(c.into(), 0..rows))))
    }
    fn mark(&mut self, out: &mut Mark) {
        self.trim();
        out.number(self.made);
        out.number(self.next);
        out.number(self.begin);
        match self.held.front() {
            Some(Read { from, .. }) => out.extend_again(from),
            None => self.input.mark(out),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        self.next = at.number()?;
        self.begin = at.up_to(self.next)?;
        (self.end, self.ended) = (self.begin, false);
        (self.held, self.run) = (VecDeque::new(), Run::default());
        let _ = self.hold.set(0);
        self.input.seek(at)
    }
}

struct WindowIndex {
    input: Arc<dyn Index>,
    numbers: Numbers,
    leaves: Arc<[Spec]>,
}

impl Index for WindowIndex {
    fn len(&self) -> u64 {
        self.numbers.windows(self.input.len())
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let element = |k: &u64| {
            let first = k * self.numbers.shift;
            let last = first.saturating_add(self.numbers.span()).min(self.input.len());
            let of: Vec<u64> = (first..last).step_by(self.numbers.stride as usize).collect();
            self.numbers.element(&[self.input.get(&of)?], &self.leaves)
        };
        Ok(Chunk::from_elements(Pos::List(rows.into()), rows.iter().map(element).collect::<Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;
    use crate::element::{DType, Tensor};

    fn seven(size: i64, shift: i64, stride: i64, drop: bool, expect: &str) {
        let ds = Dataset::range(7).unwrap().window(size, shift, stride, drop).unwrap();
        same(&ds, expect);
        assert_eq!(ds.cardinality(), Card::Known(ds.iter().unwrap().count() as u64));
        let index = ds.index().unwrap();
        let shown: Vec<String> = (0..index.len()).map(|i| show(&index.get(&[i]).unwrap().element(0)[0])).collect();
        assert_eq!(shown.join(" "), expect, "by number");
    }

    #[test]
    fn windows_lie_where_the_rule_says() {
        seven(3, 3, 1, false, "{0 1 2} {3 4 5} {6}");
        seven(3, 3, 1, true, "{0 1 2} {3 4 5}");
        seven(3, 1, 1, true, "{0 1 2} {1 2 3} {2 3 4} {3 4 5} {4 5 6}");
        seven(3, 2, 1, false, "{0 1 2} {2 3 4} {4 5 6} {6}");
        seven(2, 3, 1, false, "{0 1} {3 4} {6}");
        seven(2, 3, 1, true, "{0 1} {3 4}");
        seven(3, 3, 2, false, "{0 2 4} {3 5} {6}");
        seven(3, 1, 2, false, "{0 2 4} {1 3 5} {2 4 6} {3 5} {4 6} {5} {6}");
        seven(3, 1, 2, true, "{0 2 4} {1 3 5} {2 4 6}");
        seven(2, 1, 3, true, "{0 3} {1 4} {2 5} {3 6}");
        seven(10, 10, 1, false, "{0 1 2 3 4 5 6}");
        seven(10, 10, 1, true, "");
        seven(i64::MAX, i64::MAX, i64::MAX, false, "{0}");
        same(&Dataset::range(0).unwrap().window(3, 3, 1, false).unwrap(), "");
    }

    #[test]
    fn an_error_costs_the_windows_that_contain_it() {
        let ds = fail_at(&Dataset::range(7).unwrap(), 2);
        same(&ds.window(2, 2, 1, false).unwrap(), "{0 1} ! {4 5} {6}");
        same(&ds.window(3, 1, 1, true).unwrap(), "! ! ! {3 4 5} {4 5 6}");
        same(&ds.window(2, 1, 2, true).unwrap(), "! {1 3} ! {3 5} {4 6}");
        same(&ds.window(2, 3, 1, true).unwrap(), "{0 1} {3 4}");
        same(&fail_at(&Dataset::range(7).unwrap(), 6).window(3, 3, 1, false).unwrap(), "{0 1 2} {3 4 5} !");
    }

    #[test]
    fn structures_become_structures_of_datasets() {
        let pair = Spec::tuple(vec![Spec::scalar(DType::Int64), Spec::scalar(DType::Int64)]);
        let square = |e: Element| {
            let x: i64 = e[0].tensor().item();
            Ok(smallvec::smallvec![e[0].clone(), Value::Tensor(Tensor::scalar(x * x))])
        };
        let ds = Dataset::range(4).unwrap().map_fn(pair, square).unwrap().window(2, 2, 1, false).unwrap();
        assert_eq!(ds.spec().to_string(), "(dataset of int64, dataset of int64)");
        same(&ds, "{0 1},{0 1} {2 3},{4 9}");
    }

    #[test]
    fn windows_flow_through_functions() {
        let ds = Dataset::range(7).unwrap().window(3, 1, 1, true).unwrap();
        let flat = ds.flat_map(|b, x| {
            let spec = Spec::scalar(DType::Int64);
            let symbol = b.export(x[0]);
            let window = op("nested", serde_json::json!({"symbol": symbol, "spec": spec}), &[])?;
            let batch = window.batch(3, false)?;
            Ok(b.dataset(crate::plan::Bound::nested(batch.plan().clone()), batch.spec().clone()))
        });
        same(&flat.unwrap(), "[0 1 2] [1 2 3] [2 3 4] [3 4 5] [4 5 6]");
    }

    #[test]
    fn numbers_below_one_are_refused() {
        let ds = Dataset::range(7).unwrap();
        for (size, shift, stride) in [(0, 1, 1), (-1, 1, 1), (2, 0, 1), (2, 1, 0)] {
            assert!(ds.window(size, shift, stride, false).is_err());
        }
    }
}
