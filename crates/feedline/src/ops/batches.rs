//! What the ways to make a batch other than stacking share. Not an operator.

use super::Open;
use super::batch::Gather;
use crate::element::{Chunk, Element, Pos};
use crate::error::Result;
use crate::op::{Int, at_least};
use crate::plan::Plan;
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Index, Item, Mark, Pull, Stage};
use std::collections::VecDeque;
use std::sync::Arc;

/// Consecutive rows go to a function, which makes one element of them, or fails and costs this batch. What it takes beyond
/// what the rows do it says to the hold, before it takes it.
pub struct Batches {
    pub size: Int,
    pub drop_remainder: bool,
    pub beside: Beside,
}

/// What is made of the rows takes while these are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    #[default]
    Nothing,
    /// As much as they do.
    Same,
    /// For each of them what the largest does.
    Largest,
}

impl Batches {
    fn size(&self, cx: &BuildCx) -> Result<usize> {
        let n = self.size.get(cx)?;
        at_least("batch_size", n, 1)?;
        Ok(n as usize)
    }
    pub fn build<F>(self, cx: &BuildCx, node: &Plan, make: F) -> Result<Built>
    where
        F: Fn(&Chunk, &mut Hold) -> Result<Element> + Send + 'static,
    {
        let size = self.size(cx)?;
        let input = Open::new(cx, &node.inputs, cx.stage_in(&node.inputs[0], size)?);
        let (gather, drop_remainder) = (Gather::new(size, cx.hold(node)).making(self.beside), self.drop_remainder);
        let ready = VecDeque::new();
        Ok(Built::Stage(Box::new(BatchesStage { input, gather, drop_remainder, make, ready, made: 0 })))
    }
    pub fn index<F>(self, cx: &BuildCx, node: &Plan, make: F) -> Result<Option<Arc<dyn Index>>>
    where
        F: Fn(&Chunk, &mut Hold) -> Result<Element> + Send + Sync + 'static,
    {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let size = self.size(cx)? as u64;
        let len = if self.drop_remainder { input.len() / size } else { input.len().div_ceil(size) };
        let (cx, node) = (cx.clone(), node.clone());
        let hold = Box::new(move || cx.hold(&node));
        Ok(Some(Arc::new(MadeIndex { input, size, len, make, hold })))
    }
}

struct BatchesStage<F> {
    input: Open<Box<dyn Stage>>,
    gather: Gather,
    drop_remainder: bool,
    make: F,
    ready: VecDeque<Item>,
    made: u64,
}

impl<F: Fn(&Chunk, &mut Hold) -> Result<Element> + Send> BatchesStage<F> {
    fn finish(&mut self) {
        let (rows, made) = self.gather.make(&self.make);
        self.ready.push_back(match made {
            Ok(element) => {
                self.made += 1;
                Item::Rows(rows.made_of(self.made - 1, element))
            }
            Err(error) => Item::Fail(error.at_element(self.made)),
        });
    }
}

/// Batches of fewer bytes travel together: what stands around a chunk takes more than they do.
const SHORT_BYTES: usize = 4 << 10;

impl<F> BatchesStage<F> {
    /// The next batch that was made, or some short ones.
    fn next_ready(&mut self, want: usize) -> Option<Item> {
        let is_short = |item: &Item| matches!(item, Item::Rows(chunk) if chunk.nbytes() <= SHORT_BYTES);
        let short = self.ready.iter().take(want).take_while(|item| is_short(item)).count();
        if short < 2 {
            return self.ready.pop_front();
        }
        let rows =
            self.ready.drain(..short).filter_map(|item| if let Item::Rows(rows) = item { Some(rows) } else { None });
        Some(Item::Rows(super::joined(&rows.collect::<Vec<Chunk>>()).together()))
    }
}

impl<F: Fn(&Chunk, &mut Hold) -> Result<Element> + Send> Stage for BatchesStage<F> {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if let Some(item) = self.next_ready(want) {
                return item.into();
            }
            let Some(input) = self.input.get().filter(|_| !cx.is_cancelled()) else { return Pull::End };
            let ask = self.gather.missing().saturating_add(self.gather.rows.saturating_mul(want - 1));
            match input.next(cx, ask) {
                Pull::Rows(mut chunk) => {
                    while chunk.rows() > 0 {
                        if let Err(error) = self.gather.push(chunk.split_front(self.gather.missing())) {
                            self.ready.push_back(Item::Fail(error));
                            break;
                        }
                        if self.gather.missing() == 0 {
                            self.finish();
                        }
                    }
                }
                // The elements that were collected for this batch are lost with the one that failed.
                Pull::Fail(error) => {
                    self.gather.clear();
                    return Pull::Fail(error);
                }
                Pull::Pending => return Pull::Pending,
                Pull::End => {
                    self.input.end();
                    if !self.gather.is_empty() && !self.drop_remainder {
                        self.finish();
                    }
                }
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        self.gather.clear();
        self.ready.clear();
        self.input.seek(at)
    }
    /// As `batch` does: so many batches, whatever becomes of them, are that many times their rows.
    fn pass(&mut self, results: u64) -> bool {
        let rows = results.checked_mul(self.gather.rows as u64).filter(|_| self.is_settled());
        let passed = rows.is_some_and(|rows| self.input.if_open().is_some_and(|input| input.pass(rows)));
        self.made += if passed { results } else { 0 };
        passed
    }
    fn is_settled(&self) -> bool {
        self.gather.is_empty() && self.ready.is_empty()
    }
    fn replays(&self) -> bool {
        true
    }
}

struct MadeIndex<F> {
    input: Arc<dyn Index>,
    size: u64,
    len: u64,
    make: F,
    hold: Box<dyn Fn() -> Hold + Send + Sync>,
}

impl<F: Fn(&Chunk, &mut Hold) -> Result<Element> + Send + Sync> Index for MadeIndex<F> {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let batch = |&b: &u64| {
            let of: Vec<u64> = (b * self.size..((b + 1) * self.size).min(self.input.len())).collect();
            let chunk = self.input.get(&of)?;
            Ok(((self.make)(&chunk, &mut (self.hold)())?, chunk.pos.grouped(of.len(), of.len(), b)))
        };
        let (elements, of): (Vec<Element>, Vec<Pos>) =
            rows.iter().map(batch).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Chunk::from_elements(Pos::picked(of.iter().map(|pos| (pos, 0))), elements))
    }
}
