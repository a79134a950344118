//! The parallel form: workers read datasets ahead, those in slots and those that come next, in order and within bounds.

use super::super::flat_map::{Inner, Inners};
use crate::element::Value;
use crate::error::Result;
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, Bounds, Budget, BuildCx, Cx, Mark, Promise, Pull, Stage, Wake};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Datasets that are opened before a slot is free for them, at most.
const KEEP: usize = 32;

/// Parts of the limit: what those that wait are made of takes no more.
const WAITING: usize = 8;

/// Chunks of a dataset that lie ready, at most. What comes from afar begins with small chunks, and more is sent for when
/// these are handed out: with 4 of them a cable lay idle wherever files of one length ended together.
const CHUNKS: usize = 16;

/// A dataset, or why there is none, from where it came, and what it was made of.
pub struct Opened {
    pub stage: Result<Box<dyn Stage>>,
    pub from: Mark,
    pub bytes: usize,
}

/// The most of what was seen lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lately(pub usize);

impl Lately {
    pub fn saw(&mut self, bytes: usize) {
        self.0 = bytes.max(self.0 - self.0 / 8);
    }
}

/// Datasets that workers read before their turn comes.
pub struct Ahead {
    /// Those that have no slot yet, in order.
    next: VecDeque<Opened>,
    ended: bool,
    opened: u64,
    /// How many to keep in `next`.
    keep: usize,
    bounds: Bounds,
    gate: Option<Arc<Gate>>,
    /// How many the gate lets be read at once; 0: all.
    places: usize,
    budget: Arc<Budget>,
    depth: usize,
    /// What a dataset was made of, and room that is kept for the next one: it may be needed when all is full.
    made_of: Lately,
    promise: Option<Promise>,
    /// What was taken from one at once: a new one is likely to make as much.
    chunk: Lately,
}

impl Ahead {
    pub fn new(cx: &BuildCx, cycle: usize, calls: usize) -> Ahead {
        let keep = cycle.min(calls).min(KEEP);
        let all = cx.run.bounds();
        // Together they hold no more than one segment may.
        let bytes = (all.bytes / (cycle.saturating_add(keep))).max(1);
        let bounds = Bounds { chunks: CHUNKS, parallel: 1, bytes, ..all };
        let places = if calls < cycle + keep { calls } else { 0 };
        let gate = (places > 0).then(|| Arc::new(Gate(Mutex::new(Places { free: calls, waiting: VecDeque::new() }))));
        let (budget, depth, made_of, promise) = (cx.run.budget.clone(), cx.depth, Lately::default(), None);
        let (next, chunk) = (VecDeque::new(), Lately::default());
        Ahead { next, ended: false, opened: 0, keep, bounds, gate, places, budget, depth, made_of, promise, chunk }
    }
    /// Opens datasets up to the number that is kept, or as many as there is room for; `needed`: at least one.
    pub fn fill(&mut self, outer: &mut Inners, cx: &mut Cx<'_>, needed: bool) {
        while !self.ended && self.next.len() < self.keep {
            let is_needed = needed && self.next.is_empty();
            if !is_needed && !self.has_room() {
                return;
            }
            let mut from = Mark::default();
            outer.mark(&mut from);
            let (stage, bytes) = match outer.next(cx) {
                Inner::Dataset(value, pos) => (self.open(outer, &value, pos), value.own_bytes()),
                Inner::Fail(error) => (Err(error), 0),
                Inner::Pending => return,
                Inner::End => {
                    (self.ended, self.promise) = (true, None);
                    return;
                }
            };
            if let Ok(stage) = &stage {
                stage.start();
            }
            self.next.push_back(Opened { stage, from, bytes });
        }
    }
    /// Whether there is room for a dataset before its turn: beside those that wait, and the one that is needed next.
    fn has_room(&self) -> bool {
        let (each, waiting) = (self.made_of.0, self.next.iter().map(|opened| opened.bytes).sum::<usize>());
        each == 0 || (waiting + each <= self.budget.limit() / WAITING && self.budget.has_room(self.depth, each))
    }
    /// So many bytes came from a dataset at once.
    pub fn saw(&mut self, bytes: usize) {
        self.chunk.saw(bytes);
    }
    /// Opens a dataset. Nobody reads it yet.
    pub fn open(&mut self, outer: &Inners, value: &Value, pos: u64) -> Result<Box<dyn Stage>> {
        // Positions may come twice; this number does not.
        self.opened += 1;
        let number = self.opened;
        let before = self.made_of.0;
        self.made_of.saw(value.own_bytes());
        if self.made_of.0 != before {
            self.promise = Some(self.budget.promise(self.made_of.0));
        }
        let gated = |stage| match &self.gate {
            Some(gate) => Box::new(Gated { stage, gate: gate.clone(), number, queued: false }) as Box<dyn Stage>,
            None => stage,
        };
        let segment =
            outer.inner_cx().nested_ahead(value, pos + 1, gated, self.bounds.clone()).map_err(|e| e.at_element(pos))?;
        segment.note_places(self.places);
        segment.expect(self.chunk.0);
        Ok(Box::new(segment))
    }
    /// The next one, `Some(None)` at the end, `None` if it is not there yet.
    pub fn next(&mut self, outer: &mut Inners, cx: &mut Cx<'_>) -> Option<Option<Opened>> {
        self.fill(outer, cx, true);
        match self.next.pop_front() {
            Some(opened) => Some(Some(opened)),
            None if self.ended => Some(None),
            None => None,
        }
    }
    /// From where the next one comes that has no slot.
    pub fn mark(&self, outer: &mut Inners, out: &mut Mark) {
        match self.next.front() {
            Some(first) => out.extend_again(&first.from),
            None => outer.mark(out),
        }
    }
    /// Nothing is open, and there is more unless the input has `ended`.
    pub fn reset(&mut self, ended: bool) {
        self.next.clear();
        (self.ended, self.promise) = (ended, None);
    }
}

/// Lets a number of datasets be read at once: `num_parallel_calls`.
struct Gate(Mutex<Places>);

struct Places {
    free: usize,
    /// Who waits for one, in order.
    waiting: VecDeque<(u64, Weak<dyn Wake>)>,
}

struct Gated {
    stage: Box<dyn Stage>,
    gate: Arc<Gate>,
    number: u64,
    queued: bool,
}

impl Stage for Gated {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        {
            let mut gate = lock(&self.gate.0);
            // Something else woke it: a place that comes free must not be offered to it in vain.
            if std::mem::take(&mut self.queued) {
                gate.waiting.retain(|(number, _)| *number != self.number);
            }
            if gate.free == 0 {
                gate.waiting.push_back((self.number, cx.waker.clone()));
                self.queued = true;
                return Pull::Pending;
            }
            gate.free -= 1;
        }
        // Given back also when the stage panics: the others go on.
        let _place = Place(&self.gate);
        self.stage.next(cx, want)
    }
    fn mark(&mut self, out: &mut Mark) {
        self.stage.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.stage.seek(at)
    }
}

struct Place<'a>(&'a Gate);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut gate = lock(&self.0.0);
            gate.free += 1;
            // Those whose dataset is gone are passed over.
            std::iter::from_fn(|| gate.waiting.pop_front()).find_map(|(_, w)| w.upgrade())
        };
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}
