//! A pass through a cache: it reads what is kept, or the input, which it keeps if it may. A part of `cache`.

use super::OnFull;
#[cfg(feature = "columnar")]
use super::disk::Part;
use super::memory::{By, Store, comes_first};
use super::origin::Origin;
#[cfg(feature = "columnar")]
use super::place::from_disk;
use super::place::{Filled, Filling, Place, Rows};
#[cfg(feature = "columnar")]
use super::spill::Spilling;
use crate::element::Chunk;
use crate::error::{Error, Result};
#[cfg(feature = "columnar")]
use crate::ops::kept_set::{is_damage, is_out_of_reach};
use crate::plan::Plan;
use crate::runtime::{At, BuildCx, Cx, Given, Hold, Mark, Over, Pull, Saved, Stage, Taken, bytes_text};
use feedline_io::Witness;
use std::sync::Arc;

pub struct CacheStage {
    cx: BuildCx,
    plan: Plan,
    place: Place,
    /// Where passes are remembered, wherever their elements are.
    store: Arc<Store>,
    on_full: OnFull,
    hold: Hold,
    source: Source,
    origin: Origin,
    /// Elements and errors so far.
    given: Given,
    /// To be left out, though they are kept.
    drop: Given,
    /// Where the input is behind what is kept, if a part of the pass may have to end there.
    mark: Mark,
    /// What is read, if it is a part that was committed.
    #[cfg(feature = "columnar")]
    part: Option<Part>,
}

enum Source {
    /// What is kept, and the input behind it if that is not all, and who goes on to keep it.
    Held(Box<dyn Stage>, Option<(Box<dyn Stage>, Option<Filling>)>),
    /// What was read so far; `None` once this pass can no longer fill the cache.
    Input(Box<dyn Stage>, Option<Filling>),
    /// After an error that nothing can follow.
    Ended,
}

impl CacheStage {
    /// Reads what is kept, goes on with what was begun, or begins.
    pub fn new(
        cx: BuildCx,
        plan: Plan,
        (place, store): (Place, Arc<Store>),
        on_full: OnFull,
        hold: Hold,
    ) -> Result<CacheStage> {
        #[cfg(feature = "columnar")]
        let cx = match &place {
            Place::Disk(disk) => BuildCx { witness: Some(disk.files.witness.clone()), ..cx },
            Place::Memory(_) => cx,
        };
        let (source, origin, mark) = (Source::Ended, Origin::default(), Mark::default());
        let (given, drop) = (Given::default(), Given::default());
        let mut stage = CacheStage {
            cx,
            plan,
            place,
            store,
            on_full,
            hold,
            source,
            origin,
            given,
            drop,
            mark,
            #[cfg(feature = "columnar")]
            part: None,
        };
        let missed = stage.store.missed(&stage.cx.env, &By::new(&stage.cx, false));
        let is_given = |filled: &Filled| match &stage.place {
            Place::Memory(_) => !missed.as_ref().is_some_and(|missed| comes_first(missed, &filled.origin)),
            #[cfg(feature = "columnar")]
            Place::Disk(_) => true,
        };
        if let Some(filled) = stage.place.get(&stage.cx)?.filter(is_given) {
            stage.read(filled, given, None)?;
        } else if let Some(origin) = missed {
            // Where it was kept, this pass would take no seeds.
            if !stage.go_on(given, |part| *part == origin)? {
                let cx = stage.cx.again();
                stage.begin_anew(&cx, origin, given)?;
            }
        } else if !stage.go_on(given, |_| true)? {
            let _watched = Witness::enter(stage.cx.witness.clone());
            let cx = stage.input_cx(&stage.cx);
            let mut input = cx.stage(&stage.plan)?;
            let origin = Origin::of(&cx, &stage.plan, &mut *input);
            stage.fill(input, origin)?;
        }
        Ok(stage)
    }

    /// Whether it is the first pass over the input that is kept, whichever this is: on disk, and where many read at once.
    fn keeps_first(&self) -> bool {
        match &self.place {
            Place::Memory(_) => self.cx.inner && self.cx.env.is_empty(),
            #[cfg(feature = "columnar")]
            Place::Disk(_) => true,
        }
    }
    /// What the input starts with.
    fn input_cx(&self, cx: &BuildCx) -> BuildCx {
        if self.keeps_first() { Taken::first_pass(cx, &self.plan) } else { cx.clone() }
    }
    /// Whether all passes give the same.
    fn is_same(&self) -> bool {
        self.keeps_first() || !self.plan.varies()
    }

    /// Reads what is kept, from element `given` on. If that is not all, `filling` keeps what the input has behind it.
    fn read(&mut self, filled: Filled, given: Given, filling: Option<Filling>) -> Result<()> {
        self.forget_part();
        // As in `begin_anew`.
        self.source = Source::Ended;
        self.hold.inherit(filled.kept);
        let mut held = filled.rows.stage();
        let mut first = given.results();
        let rest = match &filled.rest {
            None => None,
            Some(rest) => {
                // In memory, this pass or an earlier one has seen what comes behind.
                let cx = match filled.rows {
                    Rows::Memory(_) => self.cx.again(),
                    #[cfg(feature = "columnar")]
                    Rows::Disk(_) => self.cx.clone(),
                };
                let cx = BuildCx { epoch: filled.origin.epoch, ..self.input_cx(&cx) };
                let _watched = Witness::enter(cx.witness.clone());
                first = first.min(filled.rows.len());
                Some((cx.stage_at(&self.plan, rest)?, filling))
            }
        };
        held.seek(&mut At::new(&[Saved::Number(first)]))?;
        (self.given, self.drop) = (Given::rows(first), given.behind(first));
        let is_whole = rest.is_none();
        self.source = Source::Held(held, rest);
        self.origin = filled.origin;
        if is_whole {
            self.note();
        }
        Ok(())
    }

    /// Files have this pass.
    fn note(&self) {
        #[cfg(feature = "columnar")]
        if matches!(self.place, Place::Disk(_)) {
            self.store.note_on_disk(&self.cx.env, &self.origin);
        }
    }

    fn forget_part(&mut self) {
        #[cfg(feature = "columnar")]
        drop(self.part.take());
    }

    /// Reads the input, and keeps it unless somebody else does.
    fn fill(&mut self, input: Box<dyn Stage>, origin: Origin) -> Result<()> {
        // What was begun before is given up first: there is one writer.
        self.source = Source::Ended;
        let filling = self.place.begin(&self.cx.run)?;
        self.origin = origin;
        let _ = self.hold.reserve(filling.as_ref().map_or(0, Filling::working_bytes));
        self.source = Source::Input(input, filling);
        Ok(())
    }

    /// Begins the pass with that origin once more, and leaves out what comes before element `given`.
    fn begin_anew(&mut self, cx: &BuildCx, origin: Origin, given: Given) -> Result<()> {
        // Let go first: it may hold what the other one needs, as the writer of a snapshot does.
        self.source = Source::Ended;
        origin.check_seeds(&self.plan)?;
        let cx = BuildCx { epoch: origin.epoch, ..self.input_cx(cx) };
        let watched = Witness::enter(cx.witness.clone());
        let input = cx.stage_at(&self.plan, &origin.start)?;
        drop(watched);
        self.fill(input, origin)?;
        (self.given, self.drop) = (Given::default(), given);
        Ok(())
    }

    /// What is kept cannot be read. Of a pass that broke off it is made again: whoever has a part has the input at hand.
    #[cfg(feature = "columnar")]
    fn mend(&mut self, error: Error) -> Result<()> {
        let Place::Disk(disk) = &self.place else { return Err(error) };
        let Some(part) = self.part.take() else { return Err(disk.advised(error)) };
        // There is one writer; and whatever else is wrong, nothing can follow.
        self.source = Source::Ended;
        if !is_damage(&error) {
            return Err(error);
        }
        let (sound, given) = (disk.before(&part, self.given.results())?, self.given.and(self.drop));
        let from = sound.as_ref().map_or(0, |part| part.set.len());
        log::warn!("{}: a pass that broke off is made again from element {from}: {error}", self.place.called());
        match sound {
            Some(part) => self.take_up(part, given),
            None => self.begin_anew(&self.cx.clone(), self.origin.clone(), given),
        }
    }
    #[cfg(not(feature = "columnar"))]
    fn mend(&mut self, error: Error) -> Result<()> {
        Err(error)
    }

    /// Goes on with a pass that broke off, from element `given` on, if there is one that is wanted.
    #[cfg(feature = "columnar")]
    fn go_on(&mut self, given: Given, wanted: impl Fn(&Origin) -> bool) -> Result<bool> {
        if !matches!(self.place, Place::Disk(_)) {
            return Ok(false);
        }
        // What this stage has kept so far is a part too.
        self.break_off();
        self.source = Source::Ended;
        self.try_go_on(given, wanted).or_else(|error| {
            if is_out_of_reach(&error) {
                return Err(error);
            }
            log::warn!(
                "{}: what was kept of a pass that broke off cannot be gone on with: {error}",
                self.place.called()
            );
            Ok(false)
        })
    }
    #[cfg(feature = "columnar")]
    fn try_go_on(&mut self, given: Given, wanted: impl Fn(&Origin) -> bool) -> Result<bool> {
        let Place::Disk(disk) = &self.place else { return Ok(false) };
        let Some(part) = disk.get_part()? else { return Ok(false) };
        if !wanted(&Origin::from_json(&part.origin)?) {
            return Ok(false);
        }
        self.take_up(part, given).map(|()| true)
    }
    /// Reads a part of a pass, from element `given` on, and the input behind it.
    #[cfg(feature = "columnar")]
    fn take_up(&mut self, part: Part, given: Given) -> Result<()> {
        let Place::Disk(disk) = &self.place else { return Ok(()) };
        let rest = part.steps.last().map(|step| step.rest.clone());
        let filled = from_disk(part.set.clone(), &part.origin, rest)?;
        let filling = disk.begin(&self.cx.run, Some(&part))?.map(|keeping| Filling::Disk(Box::new(keeping)));
        let working = filling.as_ref().map_or(0, Filling::working_bytes);
        self.read(filled, given, filling)?;
        self.part = Some(part);
        let _ = self.hold.reserve(working);
        Ok(())
    }
    #[cfg(not(feature = "columnar"))]
    fn go_on(&mut self, _: Given, _: impl Fn(&Origin) -> bool) -> Result<bool> {
        Ok(false)
    }

    /// Keeps what this pass has so far for the next one.
    #[cfg(feature = "columnar")]
    fn commit(&mut self) -> Result<()> {
        let Source::Input(_, Some(Filling::Disk(keeping))) = &mut self.source else { return Ok(()) };
        if self.origin.never.is_some() || !keeping.has_news() {
            return Ok(());
        }
        let mut rest = Vec::new();
        self.mark.saved(&mut rest)?;
        keeping.commit(&self.origin, rest)
    }

    /// The pass ends early: what it has is kept if that can be done.
    fn break_off(&mut self) {
        #[cfg(feature = "columnar")]
        if let Err(error) = self.commit() {
            log::warn!("{}: a pass that broke off is not kept: {error}", self.place.called());
        }
        if let Source::Input(_, filling) = &mut self.source
            && filling.take().is_some()
        {
            let _ = self.hold.reserve(0);
        }
    }

    /// Keeps rows of this pass. `Some`: the pass cannot go on.
    fn keep(&mut self, chunk: &Chunk) -> Option<Error> {
        let Source::Input(_, slot) = &mut self.source else { return None };
        let filling = slot.as_mut()?;
        let trimmed;
        let mut chunk = chunk;
        if matches!(filling, Filling::Memory(_)) {
            // A few rows of what a function made would keep all of it, and short ones lie in a small block each.
            trimmed = chunk.clone().trimmed().together();
            chunk = &trimmed;
            // An array of the user's is there anyway.
            let bytes = if chunk.is_foreign() && chunk.is_kept() { 0 } else { chunk.nbytes() };
            if let Err(over) = self.hold.set(self.hold.bytes() + bytes) {
                let _ = self.hold.set(over.bytes - bytes);
                return self.full(over, chunk);
            }
        }
        if let Err(error) = filling.push(chunk) {
            return Some(error);
        }
        #[cfg(feature = "columnar")]
        if let Source::Input(input, Some(Filling::Disk(keeping))) = &mut self.source {
            self.mark.clear();
            input.mark(&mut self.mark);
            if keeping.is_due() {
                return self.commit().err();
            }
        }
        None
    }

    /// There is no room for these rows.
    fn full(&mut self, over: Over, chunk: &Chunk) -> Option<Error> {
        let Source::Input(_, slot) = &mut self.source else { return None };
        let Some(Filling::Memory(blocks)) = slot.take() else { return None };
        match (self.on_full, &self.place) {
            (OnFull::Keep, Place::Memory(store)) => {
                let mut rest = Vec::new();
                if let Err(why) = self.mark.saved(&mut rest) {
                    return Some(Error::usage(format!(
                        "{}; on_full=\"keep\" needs an input that can go on in the middle: {}",
                        what_is_kept(blocks.rows, over.bytes),
                        why.message()
                    )));
                }
                let (rows, rest) = (Rows::Memory(blocks.finish()), Some(rest.into()));
                let (origin, kept) = (self.origin.clone(), self.hold.leave());
                store.put(&self.cx.env, Filled { rows, rest, origin, kept }, By::new(&self.cx, self.is_same()));
                None
            }
            #[cfg(feature = "columnar")]
            (OnFull::Spill, _) => {
                let limit = self.cx.run.budget.limit();
                let spilled = Spilling::new(&self.plan.spec, limit).and_then(|mut spilling| {
                    // Each block is let go of once it is written.
                    let mut kept = blocks.blocks.into_iter().chain(blocks.open);
                    kept.try_for_each(|chunk| spilling.push(&chunk))?;
                    spilling.push(chunk)?;
                    Ok(spilling)
                });
                match spilled {
                    Ok(spilling) => {
                        let _ = self.hold.reserve(spilling.working_bytes());
                        *slot = Some(Filling::Spill(Box::new(spilling)));
                    }
                    Err(error) => return Some(error),
                }
                None
            }
            _ => {
                let _ = self.hold.set(0);
                let instead = "keep them on disk with cache(filename), keep the part that fits with \
                               cache(on_full=\"keep\"), or use cache(on_full=\"spill\")";
                let rows = blocks.rows + chunk.rows() as u64;
                Some(over.for_all(self.plan.card.known(), rows).error(&what_is_kept(rows, over.bytes), instead))
            }
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let pull = match &mut self.source {
            Source::Ended => return Pull::End,
            Source::Held(held, rest) => match held.next(cx, want) {
                Pull::End if !cx.is_cancelled() => {
                    let Some((input, filling)) = rest.take() else { return Pull::End };
                    self.source = Source::Input(input, filling);
                    self.forget_part();
                    return self.pull(cx, want);
                }
                pull => return pull,
            },
            Source::Input(input, filling) => {
                if self.on_full == OnFull::Keep && filling.is_some() {
                    self.mark.clear();
                    input.mark(&mut self.mark);
                }
                let _watched = Witness::enter(self.cx.witness.clone());
                input.next(cx, want)
            }
        };
        // What is stopped gives what it happens to have, a batch that is not full for instance: nothing to keep.
        if cx.is_cancelled() {
            self.break_off();
            return pull;
        }
        if let Pull::Rows(chunk) = &pull
            && let Some(error) = self.keep(chunk)
        {
            self.source = Source::Ended;
            return Pull::Fail(error.that_ends());
        }
        let Source::Input(_, filling) = &mut self.source else { return pull };
        match &pull {
            Pull::Rows(_) => {}
            Pull::Fail(error) => {
                if filling.is_some() {
                    let next =
                        if matches!(filling, Some(Filling::Memory(_))) { "starts anew" } else { "tries it again" };
                    log::warn!(
                        "{}: an element failed, so this pass is not complete and the next one {next}: {error}",
                        self.place.called()
                    );
                    self.break_off();
                }
            }
            Pull::End => {
                if let Some(filling) = filling.take() {
                    let same = self.is_same();
                    if let Err(error) = self.place.finish(&self.cx, filling, &self.origin, same, &mut self.hold) {
                        return Pull::Fail(error);
                    }
                    self.note();
                }
            }
            Pull::Pending => {}
        }
        pull
    }
}

impl Stage for CacheStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let pull = match self.pull(cx, self.drop.ask(want)) {
                Pull::Fail(error) if matches!(self.source, Source::Held(..)) => match self.mend(error) {
                    Ok(()) => continue,
                    Err(error) => Pull::Fail(error.that_ends()),
                },
                pull => pull,
            };
            self.given.count(&pull);
            if !self.drop.takes(&pull) {
                return pull;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        self.given.and(self.drop).mark(out);
        self.origin.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let given = Given::read(at)?;
        let origin = Origin::read(at)?;
        let pure = self.plan.is_pure();
        let kept = self.place.get(&self.cx)?;
        if let Some(filled) = kept.filter(|f| f.origin == origin || pure) {
            return self.read(filled, given, None);
        }
        // What lies ahead is read on to; what another pass kept is skipped; for anything else the pass begins anew.
        // Whoever has read nothing may be told later which seeds it begins with: that it looks the same says nothing.
        let same = pure || origin == self.origin && (self.is_same() || self.given.results() > 0);
        if same && matches!(self.source, Source::Input(..)) && self.given.results() <= given.results() {
            self.drop = given.behind(self.given.results());
        } else if !self.go_on(given, |part| *part == origin || pure)? {
            // Where another pass was kept, this one takes no seeds.
            let cx = if origin.epoch == self.cx.epoch { self.cx.clone() } else { self.cx.again() };
            self.begin_anew(&cx, origin, given)?;
        }
        Ok(())
    }
}

impl Drop for CacheStage {
    fn drop(&mut self) {
        self.break_off();
    }
}

/// For errors.
fn what_is_kept(rows: u64, bytes: usize) -> String {
    format!("{rows} elements to keep take {}", bytes_text(bytes))
}
