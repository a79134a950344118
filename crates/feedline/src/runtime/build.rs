//! From a plan to running stages: what operators ask for while they start.

use super::batches::{Batches, Lay};
use super::ends::{Ended, Ends};
use super::errors::{Errors, NamedIndex, Sieve};
use super::mark::{At, Mark, Saved};
use super::meter::take_lock_wait;
use super::pool::Pool;
use super::replay::Replay;
use super::segment::{AWAY, Bounds, Segment, blamed};
use super::spans::span;
use super::stage::{ChunkFn, Cx, FileTime, Inline, Pull, Stage, Wait};
use super::sync::atomic::AtomicBool;
use super::sync::{Mutex, lock};
use super::trace::{Trace, TracedIndex, Tracer};
use super::{Budget, Hold, Index, Meter, Meters, Tally};
use crate::element::{RowSource, Value};
use crate::error::{Error, Result};
use crate::expr::Arg;
use crate::options::{OnError, Options};
use crate::plan::{Bound, Plan};
use feedline_io::Witness;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// One pass over a whole pipeline: what its stages share.
pub struct Run {
    pub pool: Arc<Pool>,
    pub cancelled: Arc<AtomicBool>,
    /// The consumer saw the end.
    pub finished: Arc<AtomicBool>,
    /// What was read to its end by then and is kept in folders.
    pub(super) ended: Mutex<Vec<Ended>>,
    pub options: Options,
    pub meters: Arc<Meters>,
    /// What becomes of errors; `None`: all of them are raised.
    pub errors: Option<Arc<Errors>>,
    /// The segments of the pass, what operators are called (and the first of their inputs), how long its consumer waits
    /// before it says so, and whether it waits: for whoever looks at it.
    pub segments: Mutex<Vec<Weak<super::segment::Shared>>>,
    pub names: HashMap<u64, (&'static str, Option<&'static str>)>,
    pub stall: std::time::Duration,
    pub consumer: Mutex<super::stall::Consumer>,
    /// Where rows come from is told along with them.
    pub trace: Option<Arc<Trace>>,
    /// The place of each operator in the plan, from the sources on.
    pub numbers: HashMap<u64, u64>,
    /// Of which seeds each operator takes its own (`seed.rs`).
    pub shared_seeds: HashSet<usize>,
    pub budget: Arc<Budget>,
    /// Its threads, if it asks for fewer than there are.
    pub share: Option<Arc<super::pool::Share>>,
    /// Python functions are called somewhere in a serial stage.
    pub has_host: bool,
    /// While stages are sent to where a state says: nobody works ahead yet.
    pub resuming: AtomicBool,
    /// It goes on from a state.
    pub resumed: AtomicBool,
    /// What tells the pass from others, also where it goes on from a state; 0 if nobody has asked. See `Run::name`.
    pub(super) name: std::sync::atomic::AtomicU64,
}

/// Results that a queue holds at most for each worker, those that are not there yet included: the window in which a slow
/// element does not stop the others. While one takes 50 times as long, every other worker makes 50 of them.
const CHUNKS: usize = 64;
/// Results that are ready to be taken. More would make nothing faster, and the fewer bytes circulate, the more of them the
/// processor's caches hold.
const READY: usize = 16;

impl Run {
    /// Remembers a segment for whoever looks; those that are gone make room.
    pub(super) fn note_segment(&self, segment: &Arc<super::segment::Shared>) {
        let mut all = lock(&self.segments);
        if all.len() == all.capacity() {
            all.retain(|s| s.strong_count() > 0);
        }
        all.push(Arc::downgrade(segment));
    }
    pub fn bounds(&self) -> Bounds {
        let bytes = crate::tune::segment_bytes(self.budget.limit());
        Bounds {
            // What it leaves to others may change: the pool sees to that.
            parallel: self.options.cpu_budget.unwrap_or(usize::MAX).max(1),
            calls: usize::MAX,
            chunks: CHUNKS * self.pool.budget().max(2),
            ready: READY,
            rows: usize::MAX,
            bytes,
            ordered: true,
            chunk_rows: self.options.chunk_rows,
            grain: 1,
            tuned: false,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.budget.close();
    }
}

/// What an operator starts with.
#[derive(Clone)]
pub struct BuildCx {
    pub run: Arc<Run>,
    /// Values of the symbols that the plan refers to.
    pub env: Arc<[Value]>,
    /// The pass that random numbers belong to.
    pub epoch: u64,
    /// Segments between here and the consumer.
    pub depth: usize,
    /// Reads again what was read before, by seeds that were taken then.
    pub again: bool,
    /// Of that, only rows here and there are wanted.
    pub sparse: bool,
    /// Whose seeds operators take: those of the whole pass, of whoever reads a part of it again, or of a branch (`seed.rs`).
    pub pass: Arc<AtomicBool>,
    pub branch: bool,
    /// Whoever reads again is about to be sent somewhere: stages that start meanwhile are told which seeds are theirs.
    pub moving: Arc<AtomicBool>,
    /// One of several datasets that are read in turns.
    pub in_turns: bool,
    /// Somebody above may end before this does. In so many operators below, nothing is read then that is not given on.
    pub cut: Option<u8>,
    /// What they may leave unread: whether it was read to its end (`ends.rs`).
    pub ends: Option<Arc<Ends>>,
    /// Whoever starts it sends it somewhere first: nobody works ahead yet.
    pub waits: bool,
    /// Inside another operator's function, or a copy: stay serial, there may be thousands of these.
    pub nested: bool,
    /// Inside another operator's function, which may make many datasets of what stands there.
    pub inner: bool,
    /// The rows that the operator above would like a chunk to be a multiple of.
    pub grain: usize,
    /// What was found by the call of `index` that is under way; gone when it returns.
    pub known: Weak<Known>,
    /// Who wants to know which files are read here: what stands above keeps the results in files.
    pub witness: Option<Arc<Witness>>,
}

/// Indexes by the plan, the epoch and the address of the values of its symbols, which are kept so that it stays theirs.
#[derive(Default)]
pub struct Known(Mutex<HashMap<(u64, u64, usize), KnownIndex>>);

type KnownIndex = (Arc<[Value]>, Option<Arc<dyn Index>>);

/// A started operator: a stage, or a segment that can still take functions.
#[expect(clippy::large_enum_variant, reason = "there is one for each operator, while a pass starts")]
pub enum Built {
    Stage(Box<dyn Stage>),
    Open(Open),
}

/// A segment that has not begun: functions of one kind can be added to it.
pub struct Open {
    pub(super) head: Box<dyn Stage>,
    pub(super) functions: Vec<(Arc<dyn ChunkFn>, Arc<Meter>)>,
    pub(super) bounds: Bounds,
    pub(super) batches: Option<Batches>,
    /// The operators that have a number of their own in its marks, from the source on: whether each keeps rows.
    pub(super) layers: Vec<bool>,
    /// Its chunks are as large as they come, whatever is wanted: other functions want smaller ones.
    pub(super) coarse: bool,
}

impl Open {
    fn new(head: Box<dyn Stage>, bounds: Bounds) -> Open {
        Open { head, functions: vec![], bounds, batches: None, layers: vec![], coarse: false }
    }
    /// With a function that stands for so many operators.
    fn with(mut self, function: Arc<dyn ChunkFn>, meter: Arc<Meter>, layers: usize) -> Open {
        self.layers.extend(std::iter::repeat_n(function.keeps_rows(), layers));
        self.functions.push((function, meter));
        self
    }
    /// Results are made in the memory of batches of that size, where they can be.
    fn make_batches(&mut self, plan: &Plan, size: usize) {
        let fit = self.bounds.ordered && self.functions.iter().all(|(f, _)| f.keeps_rows());
        let filled = self.functions.last().is_some_and(|(f, _)| f.fills_slots());
        self.batches = Batches::new(&plan.spec, size).filter(|_| fit && filled);
    }
}

impl BuildCx {
    /// Starts an input. Errors name its operator.
    pub fn build(&self, plan: &Plan) -> Result<Built> {
        self.build_for(plan, None)
    }
    /// The same for whoever stacks so many rows at a time.
    fn build_for(&self, plan: &Plan, batch: Option<usize>) -> Result<Built> {
        let cut = self.cut.map(|exact| exact.saturating_sub(1));
        let mut built = plan.op.build(&BuildCx { cut, ..self.clone() }, plan).map_err(|e| e.in_op(plan.op.called()))?;
        if let Some(size) = batch {
            built = self.laid(plan, built, size);
        }
        if let (Built::Open(open), Some(size)) = (&mut built, batch) {
            open.make_batches(plan, size);
        }
        self.finished(plan, built)
    }
    /// Rows that an operator keeps are copied into batches by workers, where they are large.
    fn laid(&self, plan: &Plan, built: Built, size: usize) -> Built {
        match built {
            Built::Stage(stage) if plan.op.hands_out_kept_rows() && Batches::new(&plan.spec, size).is_some() => {
                self.open(plan, replayed(stage), Arc::new(Lay))
            }
            built => built,
        }
    }
    /// The same behind its first `rows` elements, if it can begin there at once.
    pub fn build_behind(&self, plan: &Plan, rows: u64) -> Result<Option<Built>> {
        // Those that fail do not count, and are found only by making them.
        if self.run.errors.is_some() {
            return Ok(None);
        }
        let built = plan.op.build_behind(self, plan, rows).map_err(|e| e.in_op(plan.op.called()))?;
        built.map(|built| self.finished(plan, built)).transpose()
    }
    fn metered(&self, plan: &Plan, built: Built) -> Built {
        match built {
            Built::Stage(stage) => {
                let (meter, is_source) = (self.run.meters.of(plan.id), plan.inputs.is_empty());
                Built::Stage(Box::new(Metered { stage: replayed(stage), name: plan.op.called(), meter, is_source }))
            }
            open => open,
        }
    }
    /// With what stands behind operators in this pass. Functions share a segment with no others then.
    fn finished(&self, plan: &Plan, built: Built) -> Result<Built> {
        let mut built = self.metered(plan, built);
        // Options have none: they may differ from those that a state was taken with.
        if let Some(errors) = self.run.errors.as_ref().filter(|_| plan.op.options().is_none()) {
            built = Built::Stage(Box::new(Sieve::new(self, errors, plan, self.close(built, plan))?));
        }
        if let Some(trace) = &self.run.trace {
            built = Built::Stage(Box::new(Tracer::new(self, trace, plan, self.close(built, plan))));
        }
        Ok(built)
    }
    /// A source as rows tell of it, in passes that trace them.
    pub fn traced_source(&self, plan: &Plan) -> Option<RowSource> {
        self.run.trace.as_ref().map(|_| super::trace::source(self, plan))
    }
    /// Starts the whole plan: what a consumer pulls. Nothing works yet.
    pub fn root(&self, plan: &Plan) -> Result<Box<dyn Stage>> {
        match self.run.options.prefetch {
            Some(false) => Ok(Box::new(Replay::new(self.stage(plan)?))),
            None if plan.has_last_queue() => Ok(Box::new(Replay::new(self.stage(plan)?))),
            _ => Ok(Box::new(self.ahead(plan, |bounds| bounds.tuned = true)?)),
        }
    }
    /// Starts an input as a stage to pull.
    pub fn stage(&self, plan: &Plan) -> Result<Box<dyn Stage>> {
        let mut below = self.clone();
        below.depth += 1;
        let built = below.build(plan)?;
        Ok(below.close(built, plan))
    }
    /// Starts an input where a mark of it says.
    pub fn stage_at(&self, plan: &Plan, at: &[Saved]) -> Result<Box<dyn Stage>> {
        let mut cx = BuildCx { waits: true, ..self.clone() };
        // From the first on: what it starts takes the seeds that the mark says, and no others.
        let own = (!cx.again).then(|| {
            cx.moving = Arc::new(AtomicBool::new(true));
            Sent(Some(cx.moving.clone()))
        });
        let mut stage = cx.stage(plan)?;
        let _sent = own.unwrap_or_else(|| cx.sent());
        stage.seek(&mut At::new(at))?;
        Ok(stage)
    }
    /// The same as `stage`; workers, if there are some, run a function that changes how rows lie, not what they are.
    pub fn stage_with(&self, plan: &Plan, function: Arc<dyn ChunkFn>) -> Result<Box<dyn Stage>> {
        let below = BuildCx { depth: self.depth + 1, ..self.clone() };
        let mut built = below.build(plan)?;
        // It has no number in marks: they are the same without it.
        if let Built::Open(open) = &mut built
            && open.bounds.calls != AWAY
        {
            open.functions.push((function, self.run.meters.of(plan.id)));
        }
        Ok(below.close(built, plan))
    }
    /// The same, saying that chunks of a multiple of `grain` rows are easiest to use.
    pub fn stage_in(&self, plan: &Plan, grain: usize) -> Result<Box<dyn Stage>> {
        BuildCx { grain: grain.max(1), ..self.clone() }.stage(plan)
    }
    /// The same for whoever stacks `size` rows at a time: they are made side by side where they can be.
    pub fn stage_of_batches(&self, plan: &Plan, size: usize) -> Result<Box<dyn Stage>> {
        let below = BuildCx { grain: size.max(1), depth: self.depth + 1, ..self.clone() };
        let built = below.build_for(plan, Some(size))?;
        Ok(below.close(built, plan))
    }
    /// A dataset value, for instance what a function returned, as a stage of its own.
    pub fn nested_stage(&self, value: &Value, epoch: u64) -> Result<Box<dyn Stage>> {
        let bound = Bound::of(value)?;
        let mut cx = self.with_env(bound.env.clone()).in_epoch(epoch);
        (cx.nested, cx.inner) = (true, true);
        cx.stage(&self.as_it_runs(bound)?)
    }
    /// The same for whoever has one such dataset, not one for each element: it may work ahead where this operator may.
    pub fn inner_stage(&self, value: &Value) -> Result<Box<dyn Stage>> {
        let bound = Bound::of(value)?;
        self.with_env(bound.env.clone()).stage(&self.as_it_runs(bound)?)
    }
    /// A dataset inside of a function, rewritten unless that is not wanted.
    fn as_it_runs(&self, bound: &Bound) -> Result<Plan> {
        match self.run.options.rewrite {
            Some(false) => Ok(bound.plan.clone()),
            _ => bound.plan.runs(),
        }
    }
    /// The same, read ahead of whoever pulls by a worker, up to these bounds. `around` may put a stage on top of it.
    pub fn nested_ahead(
        &self,
        value: &Value,
        epoch: u64,
        around: impl FnOnce(Box<dyn Stage>) -> Box<dyn Stage>,
        bounds: Bounds,
    ) -> Result<Segment> {
        let below = BuildCx { depth: self.depth + 1, ..self.clone() };
        let head = around(below.nested_stage(value, epoch)?);
        let meter = self.run.meters.of(self.as_it_runs(Bound::of(value)?)?.id);
        Ok(Segment::new(self, self.depth + 1, Open { layers: vec![true], ..Open::new(head, bounds) }, meter))
    }
    /// The count of what an operator leaves out.
    pub fn tally(&self, node: &Plan, policy: OnError) -> Arc<Tally> {
        self.run.meters.tally(node.op.called(), self.run.numbers.get(&node.id).copied(), policy)
    }
    /// What becomes of elements that fail in an operator.
    pub fn on_error(&self, own: Option<OnError>) -> OnError {
        own.or(self.run.options.on_error).unwrap_or_default()
    }
    /// For an operator that keeps rows: says how much that is.
    pub fn hold(&self, node: &Plan) -> Hold {
        Hold::new(&self.run.budget, self.run.meters.of(node.id))
    }
    /// Access by number to an input, if it has it. A plan that is used twice is asked once.
    pub fn index(&self, plan: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(known) = self.known.upgrade() else {
            let known = Arc::new(Known::default());
            return BuildCx { known: Arc::downgrade(&known), ..self.clone() }.index(plan);
        };
        let key = (plan.id, self.epoch, Arc::as_ptr(&self.env).addr());
        if let Some((_, index)) = lock(&known.0).get(&key) {
            return Ok(index.clone());
        }
        let mut index = plan.op.index(self, plan)?;
        if self.run.errors.is_some() && plan.inputs.is_empty() && plan.op.on_error().is_some() {
            let op = plan.name();
            index = index.map(|index| Arc::new(NamedIndex { index, op }) as Arc<dyn Index>);
        }
        if self.run.trace.is_some() && plan.inputs.is_empty() {
            index = index.map(|index| Arc::new(TracedIndex::new(self, plan, index)) as Arc<dyn Index>);
        }
        lock(&known.0).insert(key, (self.env.clone(), index.clone()));
        Ok(index)
    }
    /// For whoever reads again what was read before: seeds that it takes are not taken from the pass.
    pub fn again(&self) -> BuildCx {
        BuildCx { again: true, pass: Arc::default(), moving: Arc::default(), ..self.clone() }
    }
    /// Whether a stage that works ahead begins as soon as it is there.
    pub fn begins(&self) -> bool {
        !self.waits && !self.run.resuming.load(Relaxed)
    }
    /// Around a call of `seek`, by whoever reads again: stages that start meanwhile are told which seeds are theirs.
    pub fn sent(&self) -> Sent {
        // Somebody who is being sent may start, and send, others: it is still on its way when they have arrived.
        let begins = self.again && !self.moving.swap(true, Relaxed);
        Sent(begins.then(|| self.moving.clone()))
    }
    /// For the inputs of an operator that may end before they do. One that is `exact` asks for no more than it gives on:
    /// that much is true of what stands right below. Others may read ahead, or by chunks.
    pub fn cutting(&self, exact: bool) -> BuildCx {
        BuildCx { cut: Some(if exact && self.cut != Some(0) { 2 } else { 0 }), ..self.clone() }
    }
    /// Whether stages may be sent elsewhere after they have begun, and even ended: those of copies that read here and there.
    pub fn is_sent_about(&self) -> bool {
        self.again && self.nested
    }
    pub fn with_env(&self, env: Arc<[Value]>) -> BuildCx {
        BuildCx { env, ..self.clone() }
    }
    /// Another pass of what is below: random numbers differ. Pass 0 is the one around it.
    pub fn in_epoch(&self, pass: u64) -> BuildCx {
        BuildCx { epoch: mix(self.epoch, pass), ..self.clone() }
    }
    pub fn symbol(&self, k: usize) -> Result<&Value> {
        self.env
            .get(k)
            .ok_or_else(|| Error::usage("this dataset depends on a value inside a function and can only be used there"))
    }
    pub fn captures(&self) -> Arc<[Arg]> {
        self.env.iter().map(|v| Arg::Same(v.clone())).collect()
    }

    /// A function on the chunks of a node's input, run by any number of workers, or by `parallel` of them.
    pub fn then(
        &self,
        node: &Plan,
        function: Arc<dyn ChunkFn>,
        parallel: Option<usize>,
        ordered: bool,
    ) -> Result<Built> {
        let (input, layers) = (&node.inputs[0], node.op.layers());
        if self.nested || (function.is_host() && parallel.is_none()) {
            let input = self.stage(input)?;
            return Ok(Built::Stage(Box::new(Inline::new(input, function, layers))));
        }
        let (bounds, meter) = (self.run.bounds(), self.run.meters.of(node.id));
        // Which functions run together depends on what was asked, and marks fit whichever do (`Segment::seek`).
        let calls = parallel.unwrap_or(usize::MAX);
        let parallel = calls.min(bounds.parallel);
        Ok(Built::Open(match self.build(input)? {
            Built::Open(open) if open.bounds.ordered == ordered && open.bounds.calls == calls && !open.coarse => {
                open.with(function, meter, layers)
            }
            built => {
                let below = BuildCx { depth: self.depth + 1, ..self.clone() };
                let bounds = Bounds { parallel, calls, ordered, grain: self.grain, ..bounds };
                Open::new(below.close(built, input), bounds).with(function, meter, layers)
            }
        }))
    }
    /// A function whose rows are worked on elsewhere, by so many at once.
    pub fn then_away(&self, node: &Plan, function: Arc<dyn ChunkFn>, workers: usize, ordered: bool) -> Result<Built> {
        let input = self.stage(&node.inputs[0])?;
        if self.nested {
            return Ok(Built::Stage(Box::new(Inline::new(input, function, 1))));
        }
        let (bounds, meter) = (self.run.bounds(), self.run.meters.of(node.id));
        // Each has something to do while the answer to the last message is on its way.
        let parallel = workers.saturating_mul(2);
        let many = parallel.saturating_mul(2);
        let (chunks, ready, grain) = (bounds.chunks.max(many), bounds.ready.max(many), self.grain);
        let bounds = Bounds { parallel, calls: AWAY, chunks, ready, ordered, grain, ..bounds };
        Ok(Built::Open(Open::new(input, bounds).with(function, meter, 1)))
    }
    /// A function on a stage that the operator made itself.
    pub fn open(&self, node: &Plan, head: Box<dyn Stage>, function: Arc<dyn ChunkFn>) -> Built {
        if self.nested {
            return Built::Stage(Box::new(Inline::new(head, function, 1)));
        }
        let bounds = Bounds { grain: self.grain, ..self.run.bounds() };
        Built::Open(Open::new(head, bounds).with(function, self.run.meters.of(node.id), 1))
    }
    /// The same for a stage that gives as many rows as lie together: what follows gets as many as it asks for.
    pub fn open_coarse(&self, node: &Plan, head: Box<dyn Stage>, function: Arc<dyn ChunkFn>) -> Built {
        match self.open(node, head, function) {
            Built::Open(open) => Built::Open(Open { coarse: true, ..open }),
            built => built,
        }
    }

    /// Ends a segment that is open.
    pub(super) fn close(&self, built: Built, plan: &Plan) -> Box<dyn Stage> {
        match built {
            Built::Stage(stage) => stage,
            Built::Open(open) => {
                let meter = self.run.meters.of(plan.id);
                Box::new(Segment::new(self, self.depth, open, meter))
            }
        }
    }
    /// An input as `ahead` gives it, but without anybody who works ahead: its marks are the same.
    pub fn not_ahead(&self, input: &Plan) -> Result<Box<dyn Stage>> {
        Ok(Box::new(Replay::new(self.stage(input)?)))
    }
    /// Lets workers run ahead of whoever pulls, up to these bounds.
    pub fn ahead(&self, input: &Plan, bounds: impl Fn(&mut Bounds)) -> Result<Segment> {
        let below = BuildCx { depth: self.depth + 1, ..self.clone() };
        let mut open = match below.build(input)? {
            Built::Open(open) => open,
            Built::Stage(head) => Open::new(head, Bounds { grain: self.grain, ..self.run.bounds() }),
        };
        bounds(&mut open.bounds);
        open.layers.push(true);
        let meter = self.run.meters.of(input.id);
        Ok(Segment::new(self, self.depth, open, meter))
    }
}

/// See `BuildCx::sent`.
#[must_use]
pub struct Sent(Option<Arc<AtomicBool>>);

impl Drop for Sent {
    fn drop(&mut self) {
        self.0.iter().for_each(|moving| moving.store(false, Relaxed));
    }
}

/// Mixes a pass number into an epoch key (splitmix64's finaliser).
pub fn mix(epoch: u64, pass: u64) -> u64 {
    if pass == 0 {
        return epoch;
    }
    let mut z = epoch ^ pass.wrapping_mul(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

/// A stage that can be asked for its mark at any time.
fn replayed(stage: Box<dyn Stage>) -> Box<dyn Stage> {
    if stage.replays() { Box::new(Replay::new(stage)) } else { stage }
}

/// Counts what a stage does, and names it in its errors.
struct Metered {
    stage: Box<dyn Stage>,
    name: &'static str,
    meter: Arc<Meter>,
    is_source: bool,
}

impl Stage for Metered {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let start = Instant::now();
        // Every loop of every operator comes by here.
        if cx.is_cancelled() {
            return Pull::End;
        }
        if cx.is_late(start) {
            return Pull::Pending;
        }
        let outer = std::mem::replace(&mut cx.inner_ns, 0);
        let before = cx.at.map(|at| at.swap(self.meter.id, Relaxed));
        let pull = blamed(self.name, || self.stage.next(cx, want));
        let (ns, lock_ns) = (start.elapsed().as_nanos() as u64, take_lock_wait());
        let FileTime { cut_ns, unpack_ns } = std::mem::take(&mut cx.files);
        if cut_ns + unpack_ns > 0 {
            self.meter.cut_ns.fetch_add(cut_ns, Relaxed);
            self.meter.unpack_ns.fetch_add(unpack_ns, Relaxed);
        }
        let own = ns.saturating_sub(cx.inner_ns);
        if let (Some(at), Some(before)) = (cx.at, before) {
            at.store(before, Relaxed);
        }
        cx.inner_ns = outer + ns;
        cx.lock_ns += lock_ns;
        let meter = &self.meter;
        match &pull {
            Pull::Rows(chunk) => {
                span(meter.id, start, ns, chunk.rows());
                meter.place.store(cx.place, Relaxed);
                meter.count(chunk.rows(), own, lock_ns, || chunk.nbytes());
            }
            _ => drop(meter.busy_ns.fetch_add(own.saturating_sub(lock_ns), Relaxed)),
        }
        match pull {
            Pull::Fail(error) => {
                meter.fails.fetch_add(1, Relaxed);
                Pull::Fail(error.in_op(self.name))
            }
            Pull::Pending => {
                meter.starved.fetch_add(1, Relaxed);
                if self.is_source {
                    cx.waits = Some(Wait::Io);
                }
                Pull::Pending
            }
            rows_or_end => rows_or_end,
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.stage.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.stage.seek(at).map_err(|e| e.in_op(self.name))
    }
    fn pass(&mut self, results: u64) -> bool {
        self.stage.pass(results)
    }
}
