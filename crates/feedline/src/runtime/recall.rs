//! Rows that were given before, made again: what an operator held when a state was taken.
//!
//! 1. Each run of rows is known by the mark from before it came. A serial copy of the input is sent there, gives the rows,
//!    and is sent to the next. Rows of a run that are not wanted are passed over, unmade where the input can do that.
//! 2. Workers do that side by side, each with a copy of its own: runs are handed out by number, as rows without columns,
//!    and a function makes rows of them.

use super::build::{BuildCx, Built};
use super::iter::Waiter;
use super::mark::{At, Mark, Saved};
use super::stage::{ChunkFn, Cx, Item, Pull, Stage, Wake};
use super::sync::atomic::{AtomicBool, Ordering::Relaxed};
use super::sync::{Mutex, lock};
use crate::element::{Chunk, Pos};
use crate::error::{Error, Result};
use crate::plan::Plan;
use std::sync::{Arc, Weak};

/// A run of rows: from where they come, and which of those that come there are meant, in rising order.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub from: Vec<Saved>,
    pub rows: Vec<u32>,
}

/// Numbers up to `len`: rows without columns, whose positions they are.
pub struct Numbers {
    pub len: u64,
    pub at: u64,
    /// Not fewer at a time.
    pub together: usize,
}

impl Stage for Numbers {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        let (first, rows) = (self.at, (self.len - self.at).min(want.max(self.together) as u64).min(1 << 16));
        if rows == 0 {
            return Pull::End;
        }
        self.at += rows;
        Pull::Rows(Chunk::new(rows as usize, Pos::Run(first), []))
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.at);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.at = at.up_to(self.len)?;
        Ok(())
    }
}

struct Recall {
    cx: BuildCx,
    plan: Plan,
    runs: Vec<Run>,
    /// Copies of the input that nobody uses now.
    idle: Mutex<Vec<Copy>>,
}

/// A copy of the input, which counts the seeds that it takes by itself.
struct Copy {
    cx: BuildCx,
    stage: Box<dyn Stage>,
}

impl Copy {
    fn seek(&mut self, run: &Run) -> Result<()> {
        let _sent = self.cx.sent();
        self.stage.seek(&mut At::new(&run.from))
    }
}

impl BuildCx {
    /// The rows of these runs of an input of `node`, one after the other.
    pub fn recall(&self, node: &Plan, input: &Plan, runs: Vec<Run>) -> Result<Box<dyn Stage>> {
        let cx = BuildCx { nested: true, sparse: true, ..self.clone() };
        let head = Numbers { len: runs.len() as u64, at: 0, together: 1 };
        let function = Recall { cx, plan: input.clone(), runs, idle: Mutex::new(vec![]) };
        Ok(self.closed(self.open(node, Box::new(head), Arc::new(function)), node))
    }
    /// These elements of an input by number.
    pub fn recall_numbers(
        &self,
        node: &Plan,
        input: Arc<dyn super::Index>,
        numbers: Vec<u64>,
    ) -> Result<Box<dyn Stage>> {
        if numbers.last().is_some_and(|last| *last >= input.len()) {
            return Err(super::mark::unfit());
        }
        let head = Numbers { len: numbers.len() as u64, at: 0, together: 1 };
        let function = Gather { input, numbers };
        Ok(self.closed(self.open(node, Box::new(head), Arc::new(function)), node))
    }
    fn closed(&self, built: Built, node: &Plan) -> Box<dyn Stage> {
        BuildCx { depth: self.depth + 1, ..self.clone() }.close(built, node)
    }
}

impl Recall {
    fn copy(&self) -> Result<Copy> {
        let cx = self.cx.again();
        Ok(Copy { stage: cx.stage(&self.plan)?, cx })
    }
    fn read(&self, copy: &mut Copy, run: &Run, out: &mut Vec<Item>) -> Result<()> {
        copy.seek(run)?;
        let stage = &mut copy.stage;
        let (mut passed, mut wanted, mut refused) = (0, run.rows.as_slice(), 0);
        while let (Some(&first), Some(last)) = (wanted.first(), wanted.last()) {
            if first > passed && refused < 2 {
                match stage.pass(u64::from(first - passed)) {
                    true => passed = first,
                    false => refused += 1,
                }
            }
            let ask = match first - passed {
                0 => wanted.iter().zip(first..).take_while(|(row, follows)| **row == *follows).count(),
                // It may have something to drop first, which it does when it is asked for a row.
                _ if refused < 2 => 1,
                _ => (last + 1 - passed) as usize,
            };
            let chunk = match pull_now(&mut **stage, &self.cx.run.cancelled, ask)? {
                Pull::Rows(chunk) => chunk,
                Pull::Fail(error) => return Err(error),
                Pull::Pending | Pull::End => return Err(gone()),
            };
            let here = wanted.partition_point(|row| ((row - passed) as usize) < chunk.rows());
            let rows: Vec<usize> = wanted[..here].iter().map(|row| (row - passed) as usize).collect();
            wanted = &wanted[here..];
            passed += chunk.rows() as u32;
            match rows.len() {
                0 => {}
                n if n == chunk.rows() => out.push(Item::Rows(chunk)),
                _ => out.push(Item::Rows(chunk.take(&rows))),
            }
        }
        Ok(())
    }
}

#[cold]
fn gone() -> Error {
    Error::loss("elements that were held when the state was taken are not there any more: the data have changed")
}

impl ChunkFn for Recall {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let idle = lock(&self.idle).pop();
        let mut copy = match idle.map_or_else(|| self.copy(), Ok) {
            Ok(copy) => copy,
            Err(error) => return out.push(Item::Fail(error)),
        };
        for row in 0..chunk.rows() {
            if let Err(error) = self.read(&mut copy, &self.runs[chunk.pos.at(row) as usize], out) {
                return out.push(Item::Fail(error));
            }
        }
        lock(&self.idle).push(copy);
    }
    /// It waits for reads.
    fn is_host(&self) -> bool {
        true
    }
}

/// Elements by number.
struct Gather {
    input: Arc<dyn super::Index>,
    numbers: Vec<u64>,
}

impl ChunkFn for Gather {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let first = chunk.pos.at(0) as usize;
        out.push(match self.input.get(&self.numbers[first..first + chunk.rows()]) {
            Ok(chunk) => Item::Rows(chunk),
            Err(error) => Item::Fail(error),
        });
    }
    /// It waits for reads.
    fn is_host(&self) -> bool {
        true
    }
}

/// Pulls a stage that nobody else works for, and waits until it has something.
fn pull_now(stage: &mut dyn Stage, cancelled: &AtomicBool, want: usize) -> Result<Pull> {
    wait_for(cancelled, |cx| match stage.next(cx, want) {
        Pull::Pending => None,
        pull => Some(pull),
    })
}

/// Tries again whenever it is worth while, until there is a result.
pub fn wait_for<R>(cancelled: &AtomicBool, mut step: impl FnMut(&mut Cx<'_>) -> Option<R>) -> Result<R> {
    let waiter = Arc::new(Waiter::default());
    let waker: Arc<dyn Wake> = waiter.clone();
    let waker: Weak<dyn Wake> = Arc::downgrade(&waker);
    loop {
        waiter.reset();
        if cancelled.load(Relaxed) {
            return Err(Error::cancelled());
        }
        feedline_io::still_wanted()?;
        if let Some(result) = step(&mut Cx::new(&waker, cancelled)) {
            return Ok(result);
        }
        waiter.wait();
    }
}
