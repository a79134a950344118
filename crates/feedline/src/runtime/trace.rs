//! Passes that tell where rows came from: each source says it of its rows (`element/pos.rs`), and operators carry that
//! along as they carry positions. For quarantines, for `locate`, and for `replay`, which also keeps what each operator made
//! of the rows that are watched.
//!
//! As sieves do, tracers stand behind every operator, and operators do not share segments. Marks are the same as those of
//! a pass that does not trace: a state of one can be resumed by the other.

use super::mark::{At, Mark};
use super::stage::{Cx, Pull, Stage};
use super::{BuildCx, Index};
use crate::element::{Chunk, Element, Origin, Pos, RowSource, Spec, Traced};
use crate::error::Result;
use crate::plan::Plan;
use std::sync::{Arc, Mutex, PoisonError};

/// What a pass that traces shares.
#[derive(Default)]
pub struct Trace {
    watched: Option<Watched>,
}

/// Rows of which the values after every operator are kept.
struct Watched {
    origin: Origin,
    seen: Mutex<Vec<Seen>>,
}

/// What an operator made of a row that is watched.
#[derive(Clone, Debug)]
pub struct Seen {
    pub op: &'static str,
    /// The operator's place in the plan as it runs; `None` inside a function.
    pub number: Option<u64>,
    /// Its node.
    pub node: u64,
    pub params: String,
    /// The pass that its random numbers belong to, and the row's position there.
    pub epoch: u64,
    pub position: u64,
    pub spec: Spec,
    pub value: Element,
}

impl Trace {
    /// One that keeps what becomes of the rows of that origin.
    pub fn watching(origin: Origin) -> Trace {
        Trace { watched: Some(Watched { origin, seen: Mutex::default() }) }
    }
    /// What was seen of them, in the order of the operators.
    pub fn seen(&self) -> Vec<Seen> {
        let Some(watched) = &self.watched else { return vec![] };
        let mut seen = watched.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Those inside functions come before the operator that calls them; sorting keeps the order among them.
        seen.sort_by_key(|s| s.number.unwrap_or(0));
        seen
    }
}

/// Behind an operator: says of its rows where they are from, unless they know.
pub struct Tracer {
    stage: Box<dyn Stage>,
    trace: Arc<Trace>,
    source: Arc<RowSource>,
    /// Whether it is a source.
    is_source: bool,
    node: u64,
    params: String,
    spec: Spec,
    /// Reads again what was seen before, or does nothing with rows.
    silent: bool,
}

impl Tracer {
    pub fn new(cx: &BuildCx, trace: &Arc<Trace>, plan: &Plan, stage: Box<dyn Stage>) -> Tracer {
        Tracer {
            stage,
            trace: trace.clone(),
            source: Arc::new(source(cx, plan)),
            is_source: plan.inputs.is_empty(),
            node: plan.id,
            params: if trace.watched.is_some() { plan.op.show() } else { String::new() },
            spec: plan.spec.clone(),
            silent: cx.again || plan.op.options().is_some(),
        }
    }
    fn keep(&self, position: u64, value: Element) {
        let Some(watched) = &self.trace.watched else { return };
        let RowSource { op, number, epoch, .. } = *self.source;
        let (params, spec, node) = (self.params.clone(), self.spec.clone(), self.node);
        let seen = Seen { op, number, node, params, epoch, position, spec, value };
        watched.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }
    fn watch(&self, chunk: &Chunk) {
        let Some(watched) = self.trace.watched.as_ref().filter(|_| !self.silent) else { return };
        for row in 0..chunk.rows() {
            if chunk.pos.origin(row).is_some_and(|o| o.has(&watched.origin)) {
                self.keep(chunk.pos.at(row), chunk.element(row));
            }
        }
    }
}

/// An operator as the source of rows.
pub fn source(cx: &BuildCx, plan: &Plan) -> RowSource {
    let number = cx.run.numbers.get(&plan.id).copied();
    RowSource { op: plan.name(), number, epoch: cx.epoch, file: None }
}

/// The rows as those of a source; `index` tells more of them, if there is one.
fn tagged(mut chunk: Chunk, source: &Arc<RowSource>, index: Option<&dyn Index>) -> Chunk {
    if chunk.pos.is_traced() {
        return chunk;
    }
    let row = |row: usize| {
        let at = chunk.pos.at(row);
        let origin = match index.and_then(|index| index.place(at)) {
            Some((file, record, byte)) => {
                let source = Arc::new(RowSource { file: Some(file), ..(**source).clone() });
                Origin::Row { source, position: at, record: Some(record), byte: Some(byte) }
            }
            None => Origin::Row { source: source.clone(), position: at, record: None, byte: None },
        };
        Traced { at, origin }
    };
    chunk.pos = Pos::Traced((0..chunk.rows()).map(row).collect());
    chunk
}

impl Stage for Tracer {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        match self.stage.next(cx, want) {
            Pull::Rows(mut chunk) => {
                if self.is_source {
                    chunk = tagged(chunk, &self.source, None);
                } else if !chunk.pos.is_traced() {
                    let lost = |at| Traced { at, origin: Origin::Lost(self.source.op) };
                    chunk.pos = Pos::Traced((0..chunk.rows()).map(|row| lost(chunk.pos.at(row))).collect());
                }
                self.watch(&chunk);
                Pull::Rows(chunk)
            }
            other => other,
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.stage.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.stage.seek(at)
    }
    fn pass(&mut self, results: u64) -> bool {
        self.stage.pass(results)
    }
}

/// Access by number to a source, whose rows say where they are from.
pub struct TracedIndex {
    index: Arc<dyn Index>,
    source: Arc<RowSource>,
}

impl TracedIndex {
    pub fn new(cx: &BuildCx, plan: &Plan, index: Arc<dyn Index>) -> TracedIndex {
        TracedIndex { index, source: Arc::new(source(cx, plan)) }
    }
}

impl Index for TracedIndex {
    fn len(&self) -> u64 {
        self.index.len()
    }
    fn place(&self, row: u64) -> Option<(Arc<str>, u64, u64)> {
        self.index.place(row)
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        Ok(tagged(self.index.get(rows)?, &self.source, Some(&*self.index)))
    }
}
