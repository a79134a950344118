//! `zip(datasets)`: elements of several datasets side by side.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Pos, Spec, Tree};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, Props, read};
use crate::ops::Open;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Item, Mark, Partial, Pull, Stage, Tap};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "zip",
    doc: "Elements of several datasets side by side; ends with the shortest.",
    params: &[Param::new("datasets", "", "a structure of tuples and dicts of datasets")],
    read: read::<Zip>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zip {
    /// Leaves are the numbers of inputs.
    structure: Tree<usize>,
}

impl Dataset {
    /// Elements side by side in the given structure.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Tree};
    /// let pair = Tree::tuple(vec![Tree::Leaf(Dataset::range(3)?), Tree::Leaf(Dataset::range_from(10, 15, 1)?)]);
    /// let last = Dataset::zip(&pair)?.iter()?.last().unwrap()?;
    /// assert_eq!((last[0].tensor().item::<i64>(), last[1].tensor().item::<i64>()), (2, 12));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn zip(datasets: &Tree<Dataset>) -> Result<Dataset> {
        let mut inputs = Vec::new();
        let structure = datasets.map(|d| {
            inputs.push(d.plan().clone());
            inputs.len() - 1
        });
        Ok(Dataset::from_plan(Plan::new(Arc::new(Zip { structure }), inputs)?))
    }
}

fn graft(structure: &Tree<usize>, inputs: &[Plan]) -> Result<Spec> {
    Ok(match structure {
        Tree::Leaf(i) => inputs.get(*i).ok_or_else(|| Error::usage(format!("there is no input {i}")))?.spec.clone(),
        Tree::Tuple { tag, items } => {
            Tree::Tuple { tag: tag.clone(), items: items.iter().map(|t| graft(t, inputs)).collect::<Result<_>>()? }
        }
        Tree::Map { tag, items } => Tree::Map {
            tag: tag.clone(),
            items: items.iter().map(|(k, t)| Ok((k.clone(), graft(t, inputs)?))).collect::<Result<_>>()?,
        },
    })
}

impl Op for Zip {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if inputs.is_empty() {
            return Err(Error::usage("there are no datasets to zip"));
        }
        graft(&self.structure, inputs)
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs.iter().map(|i| i.card).fold(Card::Infinite, |least, card| match (least, card) {
            (Card::Unknown, _) | (_, Card::Unknown) => Card::Unknown,
            (Card::Known(a), Card::Known(b)) => Card::Known(a.min(b)),
            (Card::Known(a), _) | (_, Card::Known(a)) => Card::Known(a),
            _ => Card::Infinite,
        })
    }
    fn props(&self) -> Props {
        Props { noop: matches!(self.structure, Tree::Leaf(0)), ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let inputs = node
            .inputs
            .iter()
            .map(|i| Ok(Input { tap: Tap::new(cx.cut_stage(i, false)?), front: None, ended: false }))
            .collect::<Result<Vec<_>>>()?;
        let mut lockstep = false;
        node.walk(&mut |p| lockstep |= p.op.props().host);
        Ok(Built::Stage(Box::new(ZipStage {
            inputs: Open::new(cx, &node.inputs, inputs),
            order: self.order(),
            partial: cx.run.budget.partial(),
            lockstep,
        })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let inputs: Option<Vec<_>> = node.inputs.iter().map(|i| cx.index(i)).collect::<Result<_>>()?;
        let Some(inputs) = inputs else { return Ok(None) };
        let len = inputs.iter().map(|i| i.len()).min().unwrap_or(0);
        Ok(Some(Arc::new(ZipIndex { inputs, order: self.order(), len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

impl Zip {
    fn order(&self) -> Vec<usize> {
        self.structure.leaves().into_iter().copied().collect()
    }
}

/// Chunks of equal length side by side; `order` says which comes where.
fn beside(chunks: &[Chunk], order: &[usize]) -> Chunk {
    let columns: Vec<Column> = order.iter().flat_map(|&i| chunks[i].columns().iter().cloned()).collect();
    let pos: Vec<&Pos> = chunks.iter().map(|c| &c.pos).collect();
    Chunk::new(chunks[0].rows(), Pos::beside(&pos, chunks[0].rows()), columns)
}

struct Input {
    tap: Tap,
    /// What was pulled and not yet given.
    front: Option<Item>,
    ended: bool,
}

/// Row `n` of one input always meets row `n` of the others; an error stands for a row.
struct ZipStage {
    inputs: Open<Vec<Input>>,
    order: Vec<usize>,
    /// What some have while others are waited for.
    partial: Partial,
    /// Python functions below: inputs go on together, one element at a time, so that none is called too often.
    lockstep: bool,
}

impl Stage for ZipStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let Some(inputs) = self.inputs.get() else { return Pull::End };
        let mut rows = fronts(inputs, if self.lockstep { 1 } else { want });
        let (mut pending, looks) = (false, cx.looks);
        for input in &mut *inputs {
            if input.front.is_some() || input.ended {
                continue;
            }
            // While one is waited for the others are looked at: they work beside it where there is room. None is asked for more
            // than the others have.
            cx.looks = looks || pending;
            match input.tap.next(cx, rows) {
                Pull::Rows(chunk) => {
                    rows = rows.min(chunk.rows());
                    input.front = Some(Item::Rows(chunk));
                }
                Pull::Fail(error) => {
                    rows = 1;
                    input.front = Some(Item::Fail(error));
                }
                Pull::Pending => pending = true,
                // The others are advanced all the same, so that all have gone equally far: one that is just as long has come
                // to its end, too, which a cache there must not learn or miss by chance.
                Pull::End => {
                    input.ended = true;
                    rows = 1;
                }
            }
        }
        cx.looks = looks;
        let there = inputs.iter().filter(|_| pending).filter_map(|i| i.front.as_ref()?.rows());
        self.partial.set(there.map(Chunk::held_bytes).sum());
        if pending {
            return Pull::Pending;
        }
        if inputs.iter().any(|input| input.ended) {
            self.inputs.end();
            return Pull::End;
        }
        step(inputs, &self.order, rows)
    }
    fn mark(&mut self, out: &mut Mark) {
        out.flag(!self.inputs.is_open());
        match self.inputs.if_open() {
            Some(inputs) => inputs.iter_mut().for_each(|input| input.tap.mark(input.front.is_some(), out)),
            None => self.inputs.below.mark(out),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let Some(inputs) = self.inputs.set_open(!at.flag()?)? else { return self.inputs.below.seek(at) };
        inputs.iter_mut().try_for_each(|input| {
            (input.front, input.ended) = (None, false);
            input.tap.seek(at)
        })
    }
}

/// How many rows can be given at most, from what is there.
fn fronts(inputs: &[Input], want: usize) -> usize {
    let rows = inputs.iter().filter_map(|i| match i.front.as_ref()? {
        Item::Rows(chunk) => Some(chunk.rows()),
        Item::Fail(_) => Some(1),
    });
    rows.min().unwrap_or(want).min(want)
}

/// Takes `rows` rows from every input; if one of them failed, this is one row and one error.
fn step(inputs: &mut [Input], order: &[usize], rows: usize) -> Pull {
    let mut failed = None;
    let mut chunks = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input.front.take() {
            Some(Item::Rows(mut chunk)) => {
                chunks.push(chunk.split_front(rows));
                input.tap.used(rows);
                if chunk.rows() > 0 {
                    input.front = Some(Item::Rows(chunk));
                }
            }
            Some(Item::Fail(error)) => failed = failed.or(Some(error)),
            None => unreachable!("every input has something by now"),
        }
    }
    match failed {
        Some(error) => Pull::Fail(error),
        None => Pull::Rows(beside(&chunks, order)),
    }
}

struct ZipIndex {
    inputs: Vec<Arc<dyn Index>>,
    order: Vec<usize>,
    len: u64,
}

impl Index for ZipIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let chunks = self.inputs.iter().map(|i| i.get(rows)).collect::<Result<Vec<_>>>()?;
        Ok(beside(&chunks, &self.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, in_chunks};

    fn pair(a: Dataset, b: Dataset) -> Dataset {
        Dataset::zip(&Tree::tuple(vec![Tree::Leaf(a), Tree::Leaf(b)])).unwrap()
    }

    #[test]
    fn rows_stay_aligned_after_errors() {
        let ten = || Dataset::range_from(10, 14, 1).unwrap();
        for rows in [1, 3, 100] {
            assert_eq!(events(&in_chunks(&pair(failing(4, &[1]), ten()), rows)), "0,10 ! 2,12 3,13");
            assert_eq!(events(&in_chunks(&pair(ten(), failing(4, &[1, 2])), rows)), "10,0 ! ! 13,3");
            // Two errors in one step are one error.
            assert_eq!(events(&in_chunks(&pair(failing(3, &[1]), failing(9, &[1])), rows)), "0,0 ! 2,2");
        }
    }

    #[test]
    fn structures_and_cardinalities() {
        let (three, five) = (Dataset::range(3).unwrap(), Dataset::range(5).unwrap());
        let ever = Dataset::counter(0, 1).unwrap();
        assert_eq!(pair(three.clone(), five.clone()).cardinality(), Card::Known(3));
        assert_eq!(pair(ever.clone(), five.clone()).cardinality(), Card::Known(5));
        assert_eq!(pair(ever.clone(), ever).cardinality(), Card::Infinite);
        let inner = Tree::Map { tag: None, items: vec![("x".into(), Tree::Leaf(five))] };
        let ds = Dataset::zip(&Tree::tuple(vec![inner, Tree::Leaf(three)])).unwrap();
        assert_eq!(ds.spec().to_string(), "({x: int64}, int64)");
        assert_eq!(events(&ds), "0,0 1,1 2,2");
        assert_eq!(ds.index().unwrap().get(&[2]).unwrap().columns().len(), 2);
        assert!(Dataset::zip(&Tree::tuple(vec![])).is_err());
    }

    #[test]
    fn long_inputs_of_different_pace() {
        let slow = Dataset::range(20_000).unwrap().map_fn(Spec::scalar(crate::element::DType::Int64), Ok).unwrap();
        let ds = pair(slow, Dataset::range(30_000).unwrap());
        let all: Vec<_> = ds.iter().unwrap().map(|e| e.unwrap()).collect();
        assert_eq!(all.len(), 20_000);
        assert!(all.iter().all(|e| e[0] == e[1]));
    }
}
