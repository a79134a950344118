//! `group_by_window(key, reduce, window_size)`: elements collect by key; each full window goes through a function.

mod journal;

use super::Open;
use super::flat_map::{to_dataset, traced};
use super::map::MapFn;
use super::rows::Rows;
use super::runs::MOST_ROWS;
use super::weave::{Parts, Stepping, Steps};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Leaf, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::expr::{Builder, NodeId};
use crate::op::{Bound, Function, Int, Op, OpInfo, Param, Props, at_least, read, scalar_i64};
use crate::plan::{Bound as Nested, Card, Plan};
use crate::runtime::{At, BuildCx, Built, ChunkFn, Cx, Hold, Item, Mark, Pull, Stage, Taken, bytes_text, unfit};
use journal::{Journal, Sizes, Source, Window};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "group_by_window",
    doc: "Collects elements by key; each full window goes through a function that returns a dataset.",
    params: &[
        Param::new("key", "", "from an element to its key, an int64 scalar"),
        Param::new("reduce", "", "from a key and a dataset of its elements to a dataset"),
        Param::new("window_size", "None", "elements in a full window"),
        Param::new("window_size_func", "None", "the same as a function of the key"),
    ],
    read: read::<GroupByWindow>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupByWindow {
    key: Function,
    reduce: Function,
    #[serde(default)]
    window_size: Option<Int>,
    #[serde(default)]
    window_size_func: Option<Function>,
}

impl Dataset {
    /// Collects elements by the key that the traced `key` gives; each full window goes through `reduce`, which returns a
    /// dataset of elements of the spec `output`.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let pairs = Dataset::range(1)?.batch(2, false)?;
    /// let ds = Dataset::range_from(7, 3, -1)?
    ///     .group_by_window(2, |_, x| Ok(x[0]), pairs.spec().clone(), |_key, window| window.batch(2, false))?;
    /// let first: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().items::<i64>()[0]).collect();
    /// assert_eq!(first, [4, 5, 6, 7]); // no window is full: by key at the end
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn group_by_window(
        &self,
        window_size: i64,
        key: impl FnOnce(&mut Builder, &[NodeId]) -> Result<NodeId>,
        output: Spec,
        reduce: impl Fn(i64, Dataset) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        let window = Spec::leaf(Leaf::Dataset(Arc::new(self.spec().clone())));
        let reduce = to_dataset(&Spec::tuple(vec![key_spec(), window]), output, move |e| {
            let window = Dataset::from_plan(Nested::of(&e[1])?.plan.clone());
            reduce(e[0].tensor().item(), window)
        });
        let (key, window_size) = (traced(self.spec(), key)?, Some(window_size.into()));
        self.apply(GroupByWindow { key, reduce, window_size, window_size_func: None })
    }
}

/// Keys are int64 scalars.
pub fn key_spec() -> Spec {
    Spec::scalar(DType::Int64)
}

pub fn check_key(function: &Function, what: &str) -> Result<()> {
    if function.spec().may_be_scalar(DType::Int64) {
        return Ok(());
    }
    Err(Error::usage(format!("{what} must return an int64 scalar, but returns {}", function.spec())))
}

/// The keys of all rows of a chunk; a row whose function fails has an error.
pub fn keys(function: &MapFn, chunk: &Chunk) -> Vec<Result<i64>> {
    let mut items = Vec::new();
    function.run(chunk.clone(), &mut items);
    let mut keys = Vec::with_capacity(chunk.rows());
    for item in items {
        match item {
            Item::Fail(error) => keys.push(Err(error)),
            Item::Rows(chunk) => match &chunk.columns()[0] {
                Column::Dense(t) if t.rank() == 1 => keys.extend(t.items::<i64>().iter().map(|k| Ok(*k))),
                column => keys.extend((0..column.rows()).map(|row| key_of(&column.get(row), chunk.pos.at(row)))),
            },
        }
    }
    keys
}

fn key_of(value: &Value, pos: u64) -> Result<i64> {
    match value.as_tensor() {
        Some(t) if t.rank() == 0 => Ok(t.item()),
        _ => Err(Error::data(format!("the key must be a scalar, not {value:?}")).at_element(pos)),
    }
}

impl Op for GroupByWindow {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        self.key.takes(&[&inputs[0].spec])?;
        check_key(&self.key, "the key function")?;
        match (&self.window_size, &self.window_size_func) {
            (Some(size), None) => size.known().map_or(Ok(()), |n| at_least("window_size", n, 1))?,
            (None, Some(function)) => {
                function.takes(&[&key_spec()])?;
                check_key(function, "window_size_func")?;
            }
            _ => crate::bail!(Usage, "give either window_size or window_size_func"),
        }
        let window = Spec::leaf(Leaf::Dataset(Arc::new(inputs[0].spec.clone())));
        self.reduce.takes(&[&key_spec(), &window])?;
        Ok(self.reduce.gives_dataset()?.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        if inputs[0].card == Card::Infinite { Card::Infinite } else { Card::Unknown }
    }
    fn props(&self) -> Props {
        super::function_props(&self.functions())
    }
    fn functions(&self) -> Vec<&Function> {
        [&self.key, &self.reduce].into_iter().chain(&self.window_size_func).collect()
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let size = match (&self.window_size, &self.window_size_func) {
            (Some(size), _) => {
                let n = size.get(cx)?;
                at_least("window_size", n, 1)?;
                Size::Fixed(n as usize)
            }
            (None, Some(function)) => Size::ByKey(function.bound(cx)),
            (None, None) => crate::bail!(Usage, "give either window_size or window_size_func"),
        };
        let journal = Journal::new(size.sizes());
        let (taken, inner) = super::seeds_taken(cx, &[&self.reduce]);
        Ok(Built::Stage(Box::new(Stepping::new(GroupSteps {
            input: Open::new(cx, &node.inputs, cx.stage(&node.inputs[0])?),
            key: MapFn(self.key.bound(cx)),
            size,
            reduce: self.reduce.bound(cx),
            spec: node.inputs[0].spec.clone(),
            cx: inner,
            serial: self.props().host,
            groups: BTreeMap::new(),
            hold: cx.hold(node),
            noted: 0,
            current: None,
            output: None,
            ahead: None,
            windows: 0,
            taken,
            node: node.clone(),
            journal,
            from: Mark::default(),
            dealt: 0,
            failed: 0,
            closed: None,
            drop: 0,
            back: None,
        }))))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

enum Size {
    Fixed(usize),
    ByKey(Bound),
}

impl Size {
    /// For the journal, before any is known.
    fn sizes(&self) -> Sizes {
        if let Size::Fixed(size) = self { Sizes::Fixed(*size) } else { Sizes::ByKey(HashMap::new()) }
    }
    fn of(&self, key: i64, pos: u64) -> Result<usize> {
        match self {
            Size::Fixed(n) => Ok(*n),
            Size::ByKey(function) => {
                let size = function.call(&smallvec::smallvec![Tensor::scalar(key).into()], pos)?;
                let n = scalar_i64(&size[0])?;
                if n < 1 {
                    return Err(Error::func(format!(
                        "window_size_func must return at least 1, but returned {n} for key {key}"
                    )));
                }
                Ok(n as usize)
            }
        }
    }
}

/// The open window of a key.
struct Group {
    size: usize,
    parts: Vec<Chunk>,
    held: usize,
    /// What the parts take, and what stands around them.
    bytes: usize,
    /// Rows of the current chunk that belong to it and are not cut out yet.
    rows: Vec<usize>,
}

impl Group {
    /// What an open window takes besides its rows: its places here and in the journal, a third of which is empty.
    const BESIDE: usize = (size_of::<(i64, Group)>() + size_of::<(i64, Vec<u64>)>()) * 3 / 2;
    /// What a row takes besides: its number in the journal, in a list that is half empty.
    const ROW: usize = 2 * size_of::<u64>();

    fn cut(&mut self, chunk: &Chunk) {
        let (Some(&first), Some(&last)) = (self.rows.first(), self.rows.last()) else { return };
        // A few rows are copied, lest a window that stays open keeps the whole chunk in memory.
        let slice = last - first + 1 == self.rows.len() && self.rows.len() * 2 >= chunk.rows();
        let part = if slice { chunk.slice(first..last + 1) } else { chunk.take(&self.rows) };
        let part = part.trimmed().together();
        // Windows of few elements are mostly what stands around these.
        if self.parts.is_empty() {
            self.bytes += Group::BESIDE + self.rows.capacity() * size_of::<usize>();
        }
        self.bytes += self.rows.len() * Group::ROW;
        self.bytes += part.columns().len() * Value::BESIDE + if part.is_kept() { 0 } else { part.nbytes() };
        let room = self.parts.capacity();
        self.parts.push(part);
        self.bytes += (self.parts.capacity() - room) * size_of::<Chunk>();
        self.rows.clear();
    }
}

struct GroupSteps {
    input: Open<Box<dyn Stage>>,
    key: MapFn,
    size: Size,
    reduce: Bound,
    spec: Spec,
    cx: BuildCx,
    /// Python runs inside: one element at a time, in order.
    serial: bool,
    groups: BTreeMap<i64, Group>,
    /// What all open windows take.
    hold: Hold,
    /// So much of it is the journal's.
    noted: usize,
    current: Option<Current>,
    /// What the function made of the last full window: read out before more input is.
    output: Option<Box<dyn Stage>>,
    /// What was found there in place of its end.
    ahead: Option<Pull>,
    windows: u64,
    /// The seeds of operators inside the function.
    taken: Taken,
    node: Plan,
    journal: Arc<Journal>,
    /// Where the input was before the current chunk.
    from: Mark,
    /// Rows that were dealt out.
    dealt: u64,
    /// Errors of the input since the last row.
    failed: u64,
    /// The key of the last window that was closed at the end.
    closed: Option<i64>,
    /// Rows of the input that were dealt out before the state was taken.
    drop: u64,
    /// What was in open windows when the state was taken, on its way.
    back: Option<Back>,
}

/// Rows that are read again, and the windows of those that were held.
struct Back {
    /// Only these; `None`: they are among those that the input gives now.
    stage: Option<Box<dyn Stage>>,
    keys: HashMap<u64, i64>,
    come: u64,
    all: u64,
    /// Errors that the input gave behind the last of them.
    failed: u64,
}

/// The chunk that is being dealt out.
struct Current {
    chunk: Chunk,
    keys: std::vec::IntoIter<Result<i64>>,
    row: usize,
    /// Keys with rows that are not cut out yet.
    touched: Vec<i64>,
}

impl GroupSteps {
    /// Hands a full (or last) window to the function.
    fn flush(&mut self, key: i64, parts: Vec<Chunk>) -> Result<()> {
        let number = self.windows;
        self.windows += 1;
        let window = Rows::new(parts, self.spec.clone()).into_value()?;
        let result = self.reduce.call(&smallvec::smallvec![Tensor::scalar(key).into(), window], number)?;
        self.output = Some(self.cx.nested_stage(&result[0], number + 1)?);
        Ok(())
    }
    /// Deals out rows until a window is full or the chunk is used up.
    fn deal(&mut self, mut current: Current) -> Result<()> {
        while let Some(key) = current.keys.next() {
            let row = current.row;
            current.row += 1;
            self.dealt += 1;
            let full = key.and_then(|key| self.put(key, row, &mut current));
            match full {
                Ok(None) => {}
                Ok(Some((key, parts))) => {
                    self.current = Some(current);
                    return self.flush(key, parts);
                }
                Err(error) => {
                    let error = error.at_element(current.chunk.pos.at(row));
                    self.current = Some(current);
                    return Err(error);
                }
            }
        }
        let mut more = 0;
        for key in current.touched {
            if let Some(group) = self.groups.get_mut(&key) {
                let before = group.bytes;
                group.cut(&current.chunk);
                more += group.bytes - before;
            }
        }
        self.expect(&current.chunk);
        let noted = self.journal.bytes();
        let more = more + noted;
        let before = std::mem::replace(&mut self.noted, noted);
        // It lies in no block.
        self.hold.set_beside(self.hold.bytes() + more - before, noted).map_err(|over| {
            let windows = self.groups.len();
            let sum =
                |n: fn(&Group) -> usize| self.groups.values().fold(0u64, |sum, g| sum.saturating_add(n(g) as u64));
            let (held, all) = (sum(|g| g.held), sum(|g| g.size));
            self.groups.clear();
            let _ = self.hold.set_beside(0, 0);
            self.noted = 0;
            self.input.end();
            let what =
                format!("{held} of the {all} elements of {windows} open windows take {}", bytes_text(over.bytes));
            let all = all.min(self.node.inputs[0].card.known().unwrap_or(u64::MAX));
            over.if_there_were(all, held).error(&what, "make smaller windows or use fewer keys").that_ends()
        })
    }
    /// Those who can do with less leave it what its windows take when all of them are full.
    fn expect(&mut self, like: &Chunk) {
        // To add them up costs a little for each window.
        if self.groups.len() <= 64 {
            let all = self.groups.values().fold(0u64, |sum, group| sum.saturating_add(group.size as u64));
            let there = self.node.inputs[0].card.known().unwrap_or(u64::MAX);
            self.hold.expect_rows(all.min(there), like.rows(), like.nbytes());
        }
    }
    /// Puts a row into its window; gives the window if it is full now.
    fn put(&mut self, key: i64, row: usize, current: &mut Current) -> Result<Option<(i64, Vec<Chunk>)>> {
        if !self.groups.contains_key(&key) {
            let size = match self.size.of(key, current.chunk.pos.at(row)) {
                Ok(size) => size,
                Err(error) => {
                    self.journal.lose(row, current.chunk.rows());
                    return Err(error);
                }
            };
            self.journal.size(key, size);
            self.groups.insert(key, Group { size, parts: vec![], held: 0, bytes: 0, rows: vec![] });
        }
        let group = self.groups.get_mut(&key).expect("just made sure");
        if group.rows.is_empty() {
            current.touched.push(key);
        }
        group.rows.push(row);
        group.held += 1;
        if group.held < group.size {
            return Ok(None);
        }
        // What was cut before leaves with the window; the rest of it was never counted.
        let _ = self.hold.set(self.hold.bytes().saturating_sub(std::mem::take(&mut group.bytes)));
        group.cut(&current.chunk);
        (group.held, group.bytes) = (0, 0);
        let parts = std::mem::take(&mut group.parts);
        // Only a size that had to be computed is worth remembering.
        if matches!(self.size, Size::Fixed(_)) {
            self.groups.remove(&key);
        }
        Ok(Some((key, parts)))
    }
}

impl GroupSteps {
    /// More rows, behind those that were dealt out before.
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let Some(input) = self.input.get() else { return Pull::End };
        while self.drop > 0 {
            let chunk = crate::rows!(input.next(cx, self.drop.min(1 << 12) as usize));
            self.drop -= chunk.rows() as u64;
        }
        self.from.clear();
        input.mark(&mut self.from);
        let pull = input.next(cx, want.min(MOST_ROWS));
        if let Pull::Fail(_) = pull {
            self.journal.part();
        }
        pull
    }
    /// Puts rows back into the windows that were open.
    fn bring_back(&mut self, cx: &mut Cx<'_>) -> Option<Pull> {
        let Back { stage, come, all, .. } = self.back.as_mut()?;
        let (left, apart) = (*all - *come, stage.is_some());
        let want = left.clamp(1, 1 << 12) as usize;
        let pull = match stage {
            Some(stage) => stage.next(cx, want),
            None => self.pull(cx, want),
        };
        match pull {
            Pull::Rows(chunk) if chunk.rows() as u64 <= left => self.put_back(&chunk, apart),
            // It was given before the state was taken.
            Pull::Fail(_) if !apart => self.pass_over(left == 0),
            Pull::Pending => return Some(Pull::Pending),
            Pull::End if left == 0 => self.back = None,
            // Without these rows windows would be others: better none at all.
            other => {
                self.groups.clear();
                self.back = None;
                self.input.end();
                let fail = Error::data("the windows cannot be filled as they were when the state was taken");
                return Some(Pull::Fail(if let Pull::Fail(error) = other { error } else { fail }.that_ends()));
            }
        }
        None
    }
    /// Passes over an error that was given before; `last`: behind all rows.
    fn pass_over(&mut self, last: bool) {
        let Some(back) = self.back.as_mut().filter(|_| last) else { return };
        back.failed -= 1;
        self.failed += 1;
        if back.failed == 0 {
            self.back = None;
        }
    }
    fn put_back(&mut self, chunk: &Chunk, apart: bool) {
        let Some(back) = &mut self.back else { return };
        let keys: Vec<Option<i64>> = (back.come..).take(chunk.rows()).map(|row| back.keys.get(&row).copied()).collect();
        back.come += chunk.rows() as u64;
        let mut touched = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            let Some((key, group)) = key.and_then(|key| Some((key, self.groups.get_mut(&key)?))) else { continue };
            if group.rows.is_empty() {
                touched.push(key);
            }
            group.rows.push(row);
            group.held += 1;
        }
        let mut bytes = self.hold.bytes();
        for key in touched {
            if let Some(group) = self.groups.get_mut(&key) {
                bytes -= group.bytes;
                group.cut(chunk);
                bytes += group.bytes;
            }
        }
        let _ = self.hold.set(bytes);
        // Those of the input are noted as they come; the others are known already.
        if !apart {
            self.dealt += chunk.rows() as u64;
            self.journal.add(&self.from, keys);
            if back.come == back.all && back.failed == 0 {
                self.back = None;
            }
        }
    }
}

impl Steps for GroupSteps {
    fn step(&mut self, cx: &mut Cx<'_>, want: usize, parts: &mut Parts) -> Option<Pull> {
        if self.back.is_some() {
            return self.bring_back(cx);
        }
        if let Some(output) = &mut self.output {
            match self.ahead.take().unwrap_or_else(|| output.next(cx, want)) {
                Pull::Rows(chunk) => parts.push(chunk),
                Pull::End => self.output = None,
                other => return Some(other),
            }
            return None;
        }
        let dealt = match self.current.take() {
            Some(current) => self.deal(current),
            None if self.input.get().is_none() => {
                // What is left, in rising order of the keys.
                let Some((key, group)) = self.groups.pop_first() else { return Some(Pull::End) };
                let _ = self.hold.set(self.hold.bytes().saturating_sub(group.bytes));
                self.closed = Some(key);
                if group.parts.is_empty() { Ok(()) } else { self.flush(key, group.parts) }
            }
            None => match self.pull(cx, if self.serial { 1 } else { want }) {
                Pull::Rows(chunk) => {
                    self.failed = 0;
                    let keys = keys(&self.key, &chunk);
                    self.journal.add(&self.from, keys.iter().map(|key| key.as_ref().ok().copied()));
                    self.deal(Current { chunk, keys: keys.into_iter(), row: 0, touched: vec![] })
                }
                Pull::End => {
                    self.input.end();
                    Ok(())
                }
                other => {
                    self.failed += u64::from(matches!(other, Pull::Fail(_)));
                    return Some(other);
                }
            },
        };
        dealt.err().map(Pull::Fail)
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.windows);
        out.flag(self.closed.is_some());
        out.number(self.closed.unwrap_or(0) as u64);
        out.number(self.dealt);
        out.number(self.failed);
        self.taken.mark(out);
        match &self.current {
            Some(current) => {
                out.number(current.row as u64);
                out.flag(true);
                out.extend_again(&self.from);
            }
            None => {
                out.number(self.drop);
                self.input.mark(out);
            }
        }
        self.journal.mark(self.dealt, self.closed, out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.windows = at.number()?;
        let (closed, key) = (at.flag()?, at.number()? as i64);
        self.closed = closed.then_some(key);
        (self.dealt, self.failed) = (at.number()?, at.number()?);
        self.taken.seek(at)?;
        self.drop = at.number()?;
        self.input.seek(at)?;
        (self.current, self.output, self.ahead) = (None, None, None);
        let _ = self.hold.set_beside(0, 0);
        self.noted = 0;
        let (source, windows) = journal::read(at)?;
        let (mut keys, mut all, mut failed) = (HashMap::new(), 0, 0);
        self.groups.clear();
        for Window { key, size, rows } in &windows {
            keys.extend(rows.iter().map(|row| (*row, *key)));
            self.groups.insert(*key, Group { size: *size, parts: vec![], held: 0, bytes: 0, rows: vec![] });
        }
        let stage = match source {
            Source::Runs(runs) => {
                all += super::runs::rows(&runs) as u64;
                self.journal = Journal::restored(self.size.sizes(), &runs, &windows, self.dealt);
                Some(self.cx.recall(&self.node, &self.node.inputs[0], runs)?)
            }
            Source::Since(from, rows) if rows > 0 => {
                self.dealt = self.dealt.checked_sub(rows).ok_or_else(unfit)?;
                self.journal = Journal::before(self.size.sizes(), &windows, self.dealt);
                // Where it had come to its end it comes there once more.
                self.input.set_open(true)?.map_or(Ok(()), |input| input.seek(&mut At::new(&from)))?;
                (self.drop, all, failed) = (0, rows, std::mem::take(&mut self.failed));
                None
            }
            Source::Since(..) => {
                self.journal = Journal::before(self.size.sizes(), &windows, self.dealt);
                None
            }
        };
        self.back = (all > 0).then_some(Back { stage, keys, come: 0, all, failed });
        Ok(())
    }
    fn is_settled(&self) -> bool {
        self.output.is_none() && self.back.as_ref().is_none_or(|back| back.stage.is_some())
    }
    fn settle(&mut self, cx: &mut Cx<'_>, want: usize) {
        // Nobody knows that the last element of a window was its last one before the next is asked for.
        let (Some(output), None, None) = (&mut self.output, &self.ahead, &self.back) else { return };
        match output.next(cx, want) {
            Pull::End if cx.is_cancelled() => {}
            Pull::End => self.output = None,
            Pull::Pending => {}
            other => self.ahead = Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;
    use crate::element::Element;

    /// Windows as batches of at most `batch`.
    fn grouped(
        ds: &Dataset,
        key: Function,
        size: Option<i64>,
        by_key: Option<Function>,
        batch: i64,
    ) -> Result<Dataset> {
        let window = Spec::leaf(Leaf::Dataset(Arc::new(ds.spec().clone())));
        let args = Spec::tuple(vec![key_spec(), window]);
        let inner = ds.batch(batch, false)?.spec().clone();
        let reduce =
            to_dataset(&args, inner, move |e| Dataset::from_plan(Nested::of(&e[1])?.plan.clone()).batch(batch, false));
        ds.apply(GroupByWindow { key, reduce, window_size: size.map(Int::from), window_size_func: by_key })
    }
    fn key(f: impl Fn(i64) -> Result<i64> + Send + Sync + 'static) -> Function {
        let call = move |e: Element| Ok(smallvec::smallvec![Tensor::scalar(f(e[0].tensor().item())?).into()]);
        let host = super::super::map::RustFn(Box::new(call));
        Function::new(crate::expr::Graph::host(&key_spec(), Arc::new(host), key_spec()))
    }
    fn parity(size: i64, batch: i64) -> Dataset {
        let ds = Dataset::range(10).unwrap();
        grouped(&ds, key(|x| Ok(x % 2)), Some(size), None, batch).unwrap()
    }

    #[test]
    fn full_windows_come_at_once_and_the_rest_by_key() {
        same(&parity(2, 10), "[0 2] [1 3] [4 6] [5 7] [8] [9]");
        same(&parity(4, 2), "[0 2] [4 6] [1 3] [5 7] [8] [9]");
        let ds = ints(&[5, 3, 4, 3, 5, -1]);
        same(&grouped(&ds, key(Ok), Some(10), None, 10).unwrap(), "[-1] [3 3] [4] [5 5]");
        same(&grouped(&ds, key(|_| Ok(7)), Some(3), None, 10).unwrap(), "[5 3 4] [3 5 -1]");
        same(&grouped(&Dataset::range(0).unwrap(), key(Ok), Some(3), None, 10).unwrap(), "");
    }

    #[test]
    fn sizes_can_depend_on_the_key() {
        let ds = Dataset::range(10).unwrap();
        let by_key = |add: i64| Some(key(move |k| Ok(k + add)));
        same(&grouped(&ds, key(|x| Ok(x % 2)), None, by_key(1), 10).unwrap(), "[0] [2] [1 3] [4] [6] [5 7] [8] [9]");
        // Key 0 has no valid size: each of its elements is an error, and that is all.
        let ds = Dataset::range(5).unwrap();
        same(&grouped(&ds, key(|x| Ok(x % 2)), None, by_key(0), 10).unwrap(), "! [1] ! [3] !");
    }

    #[test]
    fn a_failing_key_costs_its_element() {
        let ds = Dataset::range(6).unwrap();
        let bad = |at: i64| key(move |x| if x == at { Err(Error::func("no")) } else { Ok(x % 2) });
        same(&grouped(&ds, bad(2), Some(2), None, 10).unwrap(), "! [1 3] [0 4] [5]");
        same(&grouped(&fail_at(&ds, 2), bad(9), Some(2), None, 10).unwrap(), "! [1 3] [0 4] [5]");
    }

    #[test]
    fn parameters_are_checked() {
        let ds = Dataset::range(6).unwrap();
        assert!(grouped(&ds, key(Ok), Some(0), None, 10).is_err());
        assert!(grouped(&ds, key(Ok), None, None, 10).is_err());
        assert!(grouped(&ds, key(Ok), Some(1), Some(key(Ok)), 10).is_err());
        let no_key = crate::expr::Graph::identity(ds.batch(2, false).unwrap().spec());
        assert!(grouped(&ds.batch(2, false).unwrap(), Function::new(no_key), Some(1), None, 10).is_err());
    }
}
