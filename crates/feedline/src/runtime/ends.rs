//! Whose end was seen: what tells a pass that was read from one that workers merely read.
//!
//! 1. Workers read ahead, and in chunks. So that an input was read to its end says nothing of whoever reads what is made of
//!    it: the consumer may leave before, and so may an operator in between (`take`, `zip`). What a cache or a snapshot kept by
//!    then counts once all of those have seen the end.
//! 2. Each of these operators has an `Ends` for each of its inputs, and so those below know who stands above them.
//! 3. Inside of one pass, somebody who begins later relies on less: on the ends below the operator that stands above both. A
//!    `repeat` has read its input to the end when it begins anew, whoever reads the `repeat`.
//! 4. A mark tells what waits for an end, in its place (`Waiting`); and what only waits for the consumer stands in the state.
//!    Whoever resumes need not read it once more: it counts as soon as those ends were seen.
//! 5. That is for those beyond the end, and told as far as workers were. For those below it, what was read to its end is told
//!    by the marks of whoever goes on behind it (`EndsBelow`), once it has seen it: a `repeat` that begins anew, a `shuffle`
//!    that gives the rest of its buffer. What is read again, and a pass that goes on from a state, know of the ends of
//!    snapshots what marks tell, whatever has come to its end since.
//!    Inside of functions marks tell nothing of it: there the pass that saw an end first is known by its name.
//! 6. Datasets that are read in turns, and an input beside the datasets that are made of it, do not know how far each other
//!    are before all of them are read.

use super::build::{BuildCx, Run};
use super::mark::{At, Mark};
use super::seed::random_u64;
use super::stage::{Cx, Pull, Stage};
use super::sync::atomic::AtomicBool;
use super::sync::lock;
use crate::error::Result;
use crate::plan::Plan;
use feedline_io::brief;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Whether the end of a part of a plan was seen by whoever may leave some of it unread, and so on upwards.
#[derive(Default)]
pub struct Ends {
    seen: Arc<AtomicBool>,
    /// Nobody reads it any more, be it seen or not.
    left: AtomicBool,
    above: Option<Arc<Ends>>,
}

impl Ends {
    /// Below those of `cx`. Others may share what says whether it was seen.
    pub fn below(cx: &BuildCx, seen: &Arc<AtomicBool>) -> Arc<Ends> {
        Arc::new(Ends { seen: seen.clone(), left: AtomicBool::new(false), above: cx.ends.clone() })
    }
    /// Whether all were seen, up to the consumer's: that one is not among them.
    pub fn were_seen(ends: Option<&Arc<Ends>>) -> bool {
        Ends::were_seen_by(ends, None)
    }
    /// Whether somebody above has left it.
    pub fn were_left(ends: Option<&Arc<Ends>>) -> bool {
        upwards(ends).any(|own| own.left.load(Relaxed))
    }
    /// Whether those were seen that stand between a part of a plan and what it has in common with another one.
    pub fn were_seen_by(ends: Option<&Arc<Ends>>, other: Option<&Arc<Ends>>) -> bool {
        let is_common = |own: &Arc<Ends>| upwards(other).any(|one| Arc::ptr_eq(one, own));
        upwards(ends).take_while(|own| !is_common(own)).all(|own| own.seen.load(Relaxed))
    }
    /// Whether it is below that end; all are below the consumer's.
    pub fn is_below(ends: Option<&Arc<Ends>>, end: Option<&Arc<Ends>>) -> bool {
        end.is_none_or(|end| upwards(ends).any(|own| Arc::ptr_eq(end, own)))
    }
    /// Whether that end, or the consumer's if there is none, is the next that has to be seen.
    pub fn wait_for(ends: Option<&Arc<Ends>>, end: Option<&Arc<Ends>>) -> bool {
        let is_it = |own: &&Arc<Ends>| end.is_some_and(|end| Arc::ptr_eq(end, own));
        let mut below = upwards(ends).take_while(|own| !is_it(own));
        below.all(|own| own.seen.load(Relaxed)) && Ends::is_below(ends, end)
    }
}

fn upwards(ends: Option<&Arc<Ends>>) -> impl Iterator<Item = &Arc<Ends>> {
    std::iter::successors(ends, |ends| ends.above.as_ref())
}

/// What was read to its end and is kept in a folder.
pub struct Ended {
    /// The operator that keeps it.
    node: u64,
    /// Whoever reads again, if it did: it knows of no other ends than those before what it reads.
    again: Option<Arc<AtomicBool>>,
    folder: String,
    ends: Option<Arc<Ends>>,
    /// Says so there.
    tell: Box<dyn Fn() + Send>,
}

impl Ended {
    /// Whether it is for somebody to know. Inside of functions marks tell nothing of it, so that all of them know it.
    fn is_for(&self, cx: &BuildCx) -> bool {
        cx.inner || self.is_by(cx)
    }
    fn is_by(&self, cx: &BuildCx) -> bool {
        self.again.as_ref().map(Arc::as_ptr) == cx.again.then_some(Arc::as_ptr(&cx.moving))
    }
    fn is_seen_by(&self, cx: &BuildCx) -> bool {
        Ends::were_seen_by(self.ends.as_ref(), cx.ends.as_ref())
    }
}

/// Whether a snapshot is read inside of a function.
pub(super) fn has_inner_snapshots(plan: &Plan) -> bool {
    let (mut all, mut outside) = (0, 0);
    plan.walk_all(&mut |p| all += usize::from(p.op.is_read_by_ends()));
    plan.walk(&mut |p| outside += usize::from(p.op.is_read_by_ends()));
    all > outside
}

impl Run {
    /// What tells the pass from others. A snapshot inside of a function has it from whoever saw its end first: that pass began
    /// before, and whoever resumes it reads on as it did.
    pub fn name(&self) -> u64 {
        // Below 2^52: all programs that read JSON have such numbers.
        let drawn = random_u64() >> 12 | 1;
        self.name.compare_exchange(0, drawn, Relaxed, Relaxed).map_or_else(|name| name, |_| drawn)
    }
    /// A part of the pass that an operator keeps in a folder was read to its end, now or before a state was taken. `tell` is
    /// called when its consumer has seen it.
    pub fn note_end(&self, cx: &BuildCx, node: u64, folder: &str, tell: impl Fn() + Send + 'static) {
        let _brief = brief();
        let mut ended = lock(&self.ended);
        let is_known = |one: &Ended| {
            let is_same = one.node == node && one.is_by(cx) && one.folder == folder;
            is_same && one.ends.as_ref().map(Arc::as_ptr) == cx.ends.as_ref().map(Arc::as_ptr)
        };
        // Whoever read again may be gone.
        ended.retain(|one| one.again.as_ref().is_none_or(|again| Arc::strong_count(again) > 1));
        if !ended.iter().any(is_known) {
            let (folder, ends, again) = (folder.into(), cx.ends.clone(), cx.again.then(|| cx.moving.clone()));
            ended.push(Ended { node, again, folder, ends, tell: Box::new(tell) });
        }
    }
    /// Whoever reads again was sent to before that end.
    fn forget_end(&self, cx: &BuildCx, node: u64) {
        let _brief = brief();
        lock(&self.ended).retain(|one| one.again.is_none() || one.node != node || !one.is_by(cx));
    }
    /// Whether somebody who begins now knows that what is kept there was read to its end.
    pub fn has_ended(&self, cx: &BuildCx, folder: &str) -> bool {
        let _brief = brief();
        let ended = lock(&self.ended);
        ended.iter().any(|one| one.folder == folder && one.is_for(cx) && one.is_seen_by(cx))
    }
    /// The same of what that operator keeps.
    fn has_ended_in(&self, cx: &BuildCx, node: u64) -> bool {
        let _brief = brief();
        let ended = lock(&self.ended);
        ended.iter().any(|one| one.node == node && one.is_for(cx) && one.is_seen_by(cx))
    }
    /// The consumer has seen the end.
    pub(super) fn finish(&self) {
        self.finished.store(true, Relaxed);
        let ended = std::mem::take(&mut *lock(&self.ended));
        let seen = ended.iter().filter(|one| one.again.is_none() && Ends::were_seen(one.ends.as_ref()));
        seen.for_each(|one| (one.tell)());
    }
}

impl BuildCx {
    /// Whether what earlier passes left is for whoever begins now. Where something is read again, or goes on from a state, it
    /// is what marks tell; inside of functions they do not.
    pub fn finds_earlier_ends(&self) -> bool {
        self.inner || !self.again && !self.run.resumed.load(Relaxed)
    }
    /// An input of somebody who may end before it does, as a stage which notes whether its end was seen. See `cutting`.
    pub fn cut_stage(&self, plan: &Plan, exact: bool) -> Result<Box<dyn Stage>> {
        let ends = Ends::below(self, &Arc::default());
        let stage = BuildCx { ends: Some(ends.clone()), ..self.cutting(exact) }.stage(plan)?;
        let waiting = Waiting::new(self, &ends, plan);
        Ok(Box::new(Ending { stage, ends, waiting }))
    }
}

/// What operators keep of a part of a pass, and counts once its end was seen.
pub struct Waiting {
    /// With the end that is waited for.
    cx: BuildCx,
    keepers: Vec<Plan>,
}

impl Waiting {
    pub fn new(cx: &BuildCx, ends: &Arc<Ends>, plan: &Plan) -> Waiting {
        let mut keepers = Vec::new();
        // Inside of functions it does not matter which pass is kept.
        if !cx.inner {
            plan.walk(&mut |p| keepers.extend(p.op.keeps_passes().then(|| p.clone())));
        }
        Waiting { cx: BuildCx { ends: Some(ends.clone()), ..cx.clone() }, keepers }
    }
    /// To be asked behind the mark of what is read there: what was kept by then is told, also if that says no more of it.
    pub fn mark(&self, out: &mut Mark) {
        for keeper in &self.keepers {
            let mut told = Mark::default();
            let keeps = keeper.op.kept_pass(&self.cx.run, self.cx.ends.as_ref(), &mut told);
            out.flag(keeps);
            if keeps {
                out.counted(&told);
            }
        }
    }
    pub fn seek(&self, at: &mut At<'_>) -> Result<()> {
        for keeper in &self.keepers {
            if at.flag()? {
                let mut told = At::new(at.counted()?);
                // Whoever reads again counts for nobody.
                if !self.cx.again {
                    keeper.op.miss_pass(&self.cx, &mut told)?;
                    told.finish()?;
                }
            }
        }
        Ok(())
    }
}

/// What below somebody was read to its end and is kept, as far as it has seen the end of what it reads: workers may have come
/// further. Its marks tell it, since what has ended is read no more by whoever resumes.
pub struct EndsBelow {
    /// With the ends of what is read, if anything is kept there.
    cx: Option<Box<BuildCx>>,
    snapshots: Vec<(Plan, bool)>,
    /// With what they keep, as they tell it.
    caches: Vec<(Plan, Option<Mark>)>,
}

impl EndsBelow {
    /// For whoever starts these one after the other: what earlier passes have read to its end is known from the start. (What
    /// caches kept of those stands in the state.)
    pub fn of_starter(cx: &BuildCx, plans: &[Plan]) -> Result<EndsBelow> {
        let mut below = EndsBelow::new(cx, plans);
        for (snapshot, ended) in &mut below.snapshots {
            *ended = snapshot.op.has_ended(cx, snapshot)?;
        }
        Ok(below)
    }
    pub fn new(cx: &BuildCx, plans: &[Plan]) -> EndsBelow {
        let (mut snapshots, mut caches) = (Vec::<(Plan, bool)>::new(), Vec::<(Plan, Option<Mark>)>::new());
        let mut add = |p: &Plan| {
            if p.op.is_read_by_ends() && !snapshots.iter().any(|(known, _)| known.id == p.id) {
                snapshots.push((p.clone(), false));
            }
            if p.op.keeps_passes() && !caches.iter().any(|(known, _)| known.id == p.id) {
                caches.push((p.clone(), None));
            }
        };
        // Inside of functions all know of all ends.
        if !cx.inner {
            plans.iter().for_each(|plan| plan.walk(&mut add));
        }
        let any = !snapshots.is_empty() || !caches.is_empty();
        EndsBelow { cx: any.then(|| Box::new(cx.clone())), snapshots, caches }
    }
    /// The end of what is read was seen, or of one of several.
    pub fn note(&mut self) {
        let Some(cx) = &self.cx else { return };
        for (snapshot, ended) in &mut self.snapshots {
            *ended |= cx.run.has_ended_in(cx, snapshot.id);
        }
        for (cache, told) in &mut self.caches {
            let mut mark = Mark::default();
            *told = cache.op.kept_for(cx, &mut mark).then_some(mark);
        }
    }
    pub fn mark(&self, out: &mut Mark) {
        self.snapshots.iter().for_each(|(_, ended)| out.flag(*ended));
        for (_, told) in &self.caches {
            out.flag(told.is_some());
            told.iter().for_each(|told| out.counted(told));
        }
    }
    pub fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let Some(cx) = &self.cx else { return Ok(()) };
        for (snapshot, ended) in &mut self.snapshots {
            *ended = at.flag()?;
            match *ended {
                true => snapshot.op.recall_end(cx, snapshot)?,
                false => cx.run.forget_end(cx, snapshot.id),
            }
        }
        for (cache, told) in &mut self.caches {
            *told = None;
            if at.flag()? {
                let parts = at.counted()?;
                *told = Some(Mark::from(parts));
                // Whoever reads again counts for nobody.
                if !cx.again {
                    let mut at = At::new(parts);
                    cache.op.miss_kept(cx, &mut at)?;
                    at.finish()?;
                }
            }
        }
        Ok(())
    }
}

struct Ending {
    stage: Box<dyn Stage>,
    ends: Arc<Ends>,
    waiting: Waiting,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.ends.left.store(true, Relaxed);
    }
}

impl Stage for Ending {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let pull = self.stage.next(cx, want);
        if matches!(pull, Pull::End) && !cx.is_cancelled() {
            self.ends.seen.store(true, Relaxed);
        }
        pull
    }
    fn mark(&mut self, out: &mut Mark) {
        self.stage.mark(out);
        self.waiting.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.ends.seen.store(false, Relaxed);
        self.stage.seek(at)?;
        self.waiting.seek(at)
    }
    fn pass(&mut self, results: u64) -> bool {
        self.stage.pass(results)
    }
    fn start(&self) {
        self.stage.start();
    }
    fn is_settled(&self) -> bool {
        self.stage.is_settled()
    }
    fn settle(&mut self, cx: &mut Cx<'_>, want: usize) {
        self.stage.settle(cx, want);
    }
    fn replays(&self) -> bool {
        self.stage.replays()
    }
}
