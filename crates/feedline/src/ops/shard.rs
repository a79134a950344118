//! `shard(num_shards, index)`: every num_shards-th element.

use crate::dataset::Dataset;
use crate::element::{Chunk, Spec};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, Props, read};
use crate::ops::Open;
use crate::ops::parts::Parts;
use crate::plan::{Card, Plan};
use crate::runtime::{At, Begin, BuildCx, Built, Cx, Index, Mark, Pull, Stage, wait_for};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "shard",
    doc: "One of num_shards disjoint parts: the elements whose number leaves the remainder index.",
    params: &[
        Param::new("num_shards", "", "how many parts there are"),
        Param::new("index", "", "which part, from 0 on"),
        Param::new(
            "equal",
            "None",
            "\"drop\" leaves out last elements, \"wrap\" adds first ones again, so that all parts have as many",
        ),
    ],
    read: read::<Shard>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    pub num_shards: Int,
    pub index: Int,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal: Option<Equal>,
}

/// How parts get equally many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Equal {
    /// The last elements, too few for all parts, are left out.
    Drop,
    /// Parts that would have one less get one of the first elements again.
    Wrap,
}

impl Dataset {
    /// Part `index` of `num_shards`.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let n: Vec<i64> = Dataset::range(7)?.shard(3, 1)?.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [1, 4]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn shard(&self, num_shards: i64, index: i64) -> Result<Dataset> {
        self.apply(Shard { num_shards: num_shards.into(), index: index.into(), equal: None })
    }
    /// The same so that all parts have equally many elements: as many steps for all who train together.
    ///
    /// ```
    /// # use feedline::{Dataset, ops::shard::Equal};
    /// let part = |i| Dataset::range(7)?.shard_equally(3, i, Equal::Wrap);
    /// let n: Vec<i64> = part(2)?.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [2, 5, 1]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn shard_equally(&self, num_shards: i64, index: i64, equal: Equal) -> Result<Dataset> {
        self.apply(Shard { num_shards: num_shards.into(), index: index.into(), equal: Some(equal) })
    }
}

fn check(shards: i64, index: Option<i64>) -> Result<()> {
    if shards < 1 {
        return Err(Error::usage(format!("num_shards must be at least 1, not {shards}")));
    }
    match index {
        Some(i) if i < 0 || i >= shards => {
            Err(Error::usage(format!("index must be from 0 to {} for {shards} shards, not {i}", shards - 1)))
        }
        _ => Ok(()),
    }
}

impl Shard {
    fn numbers(&self, cx: &BuildCx) -> Result<(u64, u64)> {
        let (shards, index) = (self.num_shards.get(cx)?, self.index.get(cx)?);
        check(shards, Some(index))?;
        Ok((shards as u64, index as u64))
    }
}

impl Shard {
    /// How many of `n` elements are in the part.
    fn len(&self, n: u64, shards: u64, index: u64) -> u64 {
        match self.equal {
            None => n.saturating_sub(index).div_ceil(shards),
            Some(Equal::Drop) => n / shards,
            Some(Equal::Wrap) => n.div_ceil(shards),
        }
    }
}

impl Op for Shard {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.num_shards.known() {
            check(n, self.index.known())?;
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        match (inputs[0].card, self.num_shards.known(), self.index.known()) {
            (Card::Known(n), Some(k), Some(i)) => Card::Known(self.len(n, k as u64, i as u64)),
            (Card::Known(_), ..) => Card::Unknown,
            (other, ..) => other,
        }
    }
    fn props(&self) -> Props {
        // One part is not left out, though it does nothing: a state of many may be resumed by one.
        Props { carries: true, ..Props::default() }
    }
    fn part(&self) -> Option<(u64, u64)> {
        Some((self.index.known()? as u64, self.num_shards.known()? as u64))
    }
    fn with_part(&self, index: u64, of: u64) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Shard { num_shards: (of as i64).into(), index: (index as i64).into(), equal: self.equal }))
    }
    fn makes_equal_parts(&self) -> bool {
        self.equal.is_some()
    }
    fn rests(&self, begin: Vec<Begin>) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Parts { begin }))
    }
    fn tunables(&self) -> &'static [&'static str] {
        &["num_shards", "index"]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (every, index) = self.numbers(cx)?;
        let mut input = cx.stage(&node.inputs[0])?;
        let Some(equal) = self.equal else {
            return Ok(Built::Stage(Box::new(ShardStage { input, every, index, until: index, was: every })));
        };
        let start = Mark::start(&mut *input);
        let (cx, plan) = (cx.clone(), node.inputs[0].clone());
        let input = Open::new(&cx, &node.inputs, input);
        let (seen, total, drop, was, held) = (0, 0, 0, every, None);
        let stage = EqualStage { input, cx, plan, start, equal, every, index, seen, total, held, drop, was };
        Ok(Built::Stage(Box::new(stage)))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let (every, index) = self.numbers(cx)?;
        let len = self.len(input.len(), every, index);
        Ok(Some(Arc::new(ShardIndex { input, every, index, len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Elements come in groups: one for each part. A state tells how far it is to the next group, which is the same for all
/// parts that have gone equally far; so it can be resumed by parts of another number.
struct ShardStage {
    input: Box<dyn Stage>,
    every: u64,
    index: u64,
    /// Elements until the next one of ours. Failed ones are not counted.
    until: u64,
    /// How many parts there were when the state was taken.
    was: u64,
}

impl Stage for ShardStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if cx.is_cancelled() {
                return Pull::End;
            }
            // Up to the last one that is wanted, and no further.
            let ask = (want as u64 - 1).saturating_mul(self.every).saturating_add(self.until + 1);
            let chunk = crate::rows!(self.input.next(cx, ask.min(1 << 20) as usize));
            let rows = chunk.rows() as u64;
            if self.every == 1 && self.until == 0 {
                return Pull::Rows(chunk);
            }
            if self.until >= rows {
                self.until -= rows;
                continue;
            }
            let ours: Vec<usize> = (self.until..rows).step_by(self.every as usize).map(|r| r as usize).collect();
            self.until = self.until + ours.len() as u64 * self.every - rows;
            return Pull::Rows(match ours.as_slice() {
                [one] => chunk.slice(*one..one + 1),
                many => chunk.take(many),
            });
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.every);
        out.number(self.until - self.index);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.was = at.up_to(1 << 40)?;
        self.until = at.up_to(u64::MAX / 4)?.saturating_add(self.index);
        at.not_resharded();
        self.input.seek(at)
    }
    fn pass(&mut self, results: u64) -> bool {
        let passed = results.checked_mul(self.was).and_then(|n| self.until.checked_add(n));
        passed.map(|until| self.until = until).is_some()
    }
    // In the middle of a group, before our own: after an error, for instance.
    fn is_settled(&self) -> bool {
        self.until >= self.index
    }
    fn replays(&self) -> bool {
        true
    }
}

/// The same with equally many elements in all parts: ours is given when its group is known to be whole, or the end.
struct EqualStage {
    input: Open<Box<dyn Stage>>,
    cx: BuildCx,
    plan: Plan,
    /// Where the input began, to begin again.
    start: Mark,
    equal: Equal,
    every: u64,
    index: u64,
    /// Elements of the group that was begun, and of all.
    seen: u64,
    total: u64,
    /// Ours of that group.
    held: Option<Chunk>,
    /// Elements in front of the next group that belong to groups that were passed.
    drop: u64,
    was: u64,
}

impl EqualStage {
    /// Our rows of the groups that these complete.
    fn ours(&mut self, chunk: &Chunk) -> Option<Chunk> {
        let (rows, every) = (chunk.rows() as u64, self.every);
        let (first, begun) = (self.seen, self.seen + rows);
        // Counted from the beginning of the first group.
        let mine = (self.index..begun).step_by(every as usize).filter(|at| *at >= first);
        let whole = begun / every * every;
        let (given, open): (Vec<u64>, Vec<u64>) = mine.partition(|at| *at < whole);
        self.total += rows;
        self.seen = begun % every;
        let given: Vec<usize> = given.into_iter().map(|at| (at - first) as usize).collect();
        let mut parts: Vec<Chunk> = if whole > 0 { self.held.take().into_iter().collect() } else { vec![] };
        if !given.is_empty() {
            parts.push(chunk.take(&given));
        }
        if let Some(at) = open.first() {
            let row = (at - first) as usize;
            self.held = Some(chunk.slice(row..row + 1));
        }
        (!parts.is_empty()).then(|| super::joined(&parts))
    }
    /// What is given in the end, when the last group is not whole.
    fn last(&mut self) -> Result<Option<Chunk>> {
        if self.equal == Equal::Drop || self.seen == 0 {
            return Ok(None);
        }
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        let (mut start, again) = (Vec::new(), BuildCx { nested: true, ..self.cx.again() });
        self.start.saved(&mut start)?;
        let mut input = again.stage_at(&self.plan, &start)?;
        let mut skip = (self.index - self.seen) % self.total;
        loop {
            let ask = skip.clamp(1, 1 << 12) as usize;
            let pull = wait_for(&self.cx.run.cancelled, |cx| match input.next(cx, ask) {
                Pull::Pending => None,
                pull => Some(pull),
            });
            match pull? {
                Pull::Rows(chunk) if skip == 0 => return Ok(Some(chunk)),
                Pull::Rows(chunk) => skip -= chunk.rows() as u64,
                Pull::End => return Ok(None),
                // It was given in its place.
                Pull::Fail(_) | Pull::Pending => {}
            }
        }
    }
}

impl Stage for EqualStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        while let Some(input) = self.input.get().filter(|_| !cx.is_cancelled()) {
            let ask = (want as u64).saturating_mul(self.every).saturating_sub(self.seen).clamp(1, 1 << 20);
            let ask = if self.drop > 0 { self.drop.min(ask) } else { ask };
            match input.next(cx, ask as usize) {
                Pull::Rows(chunk) if self.drop > 0 => {
                    self.drop -= chunk.rows() as u64;
                    self.total += chunk.rows() as u64;
                }
                Pull::Rows(chunk) => {
                    if let Some(chunk) = self.ours(&chunk) {
                        return Pull::Rows(chunk);
                    }
                }
                Pull::End => {
                    self.input.end();
                    match self.last() {
                        Ok(Some(chunk)) => return Pull::Rows(chunk),
                        Ok(None) => {}
                        Err(error) => return Pull::Fail(error),
                    }
                }
                other => return other,
            }
        }
        Pull::End
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.every);
        out.number(self.drop);
        out.number(self.total);
        out.counted(&self.start);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.was = at.up_to(1 << 40)?;
        self.drop = at.up_to(u64::MAX / 4)?;
        self.total = at.up_to(u64::MAX / 4)?;
        self.start = at.counted()?.into();
        (self.seen, self.held) = (0, None);
        at.not_resharded();
        self.input.seek(at)
    }
    fn pass(&mut self, results: u64) -> bool {
        let passed = results.checked_mul(self.was).and_then(|n| self.drop.checked_add(n));
        self.is_settled() && passed.map(|drop| self.drop = drop).is_some()
    }
    fn is_settled(&self) -> bool {
        self.seen == 0 || !self.input.is_open()
    }
    fn replays(&self) -> bool {
        true
    }
}

struct ShardIndex {
    input: Arc<dyn Index>,
    every: u64,
    index: u64,
    len: u64,
}

impl Index for ShardIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        // Behind the last element comes the first one again.
        let all = self.input.len().max(1);
        let rows: Vec<u64> = rows.iter().map(|r| (r * self.every + self.index) % all).collect();
        self.input.get(&rows)
    }
    fn together(&self) -> usize {
        self.input.together()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, in_chunks, ints};

    #[test]
    fn parts_are_disjoint_and_complete() {
        let ds = Dataset::range(1000).unwrap();
        let mut all: Vec<i64> = (0..7).flat_map(|i| ints(&ds.shard(7, i).unwrap())).collect();
        assert_eq!(ints(&ds.shard(7, 3).unwrap())[..3], [3, 10, 17]);
        all.sort();
        assert_eq!(all, ints(&ds));
        let part = ds.shard(20, 15).unwrap();
        assert_eq!((ints(&part).len() as u64, part.cardinality()), (50, Card::Known(50)));
        assert_eq!(Dataset::range(10).unwrap().shard(20, 15).unwrap().cardinality(), Card::Known(0));
        assert_eq!(part.index().unwrap().get(&[2]).unwrap().element(0)[0].tensor().item::<i64>(), 55);
        for rows in [1, 2, 5] {
            assert_eq!(ints(&in_chunks(&part, rows)), ints(&part));
        }
    }

    #[test]
    fn equal_parts() {
        let ds = Dataset::range(8).unwrap();
        let part = |i, equal, rows| in_chunks(&ds.shard_equally(3, i, equal).unwrap(), rows);
        for rows in [1, 2, 3, 100] {
            let all = |equal| (0..3).map(|i| ints(&part(i, equal, rows))).collect::<Vec<_>>();
            assert_eq!(all(Equal::Drop), [[0, 3], [1, 4], [2, 5]]);
            assert_eq!(all(Equal::Wrap), [[0, 3, 6], [1, 4, 7], [2, 5, 0]]);
        }
        let few = |i| ints(&Dataset::range(2).unwrap().shard_equally(5, i, Equal::Wrap).unwrap());
        assert_eq!((0..5).map(few).collect::<Vec<_>>(), [[0], [1], [0], [1], [0]]);
        for (equal, len) in [(Equal::Drop, 2), (Equal::Wrap, 3)] {
            let part = ds.shard_equally(3, 2, equal).unwrap();
            assert_eq!((part.cardinality(), part.index().unwrap().len()), (Card::Known(len), len));
            let all = part.index().unwrap().get(&(0..len).collect::<Vec<_>>()).unwrap();
            let got: Vec<i64> = (0..all.rows()).map(|r| all.element(r)[0].tensor().item()).collect();
            assert_eq!(got, ints(&part));
        }
    }

    #[test]
    fn parameters_are_checked() {
        let ds = Dataset::range(10).unwrap();
        for (shards, index) in [(3, 3), (3, -1), (0, 0), (-1, 0)] {
            assert!(ds.shard(shards, index).is_err(), "{shards} {index}");
        }
    }

    #[test]
    fn errors_surface_and_do_not_count() {
        assert_eq!(events(&failing(6, &[1]).shard(3, 0).unwrap()), "0 ! 4");
    }
}
