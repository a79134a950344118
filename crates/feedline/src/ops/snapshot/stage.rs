//! A pass through a snapshot: it reads the shards, or the input, which it writes if it may. A part of `snapshot`.

use super::in_order::InOrder;
use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Spec, Value};
use crate::error::{Error, Kind, Result};
use crate::op::{Function, Int};
use crate::ops::cache::origin::Origin;
use crate::ops::kept_files::KeptFiles;
use crate::ops::kept_set::{self, Writing};
use crate::ops::load::Load;
use crate::plan::{Bound, Plan};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, BuildCx, Cx, Ends, Given, Mark, Pull, Stage, Taken};
use crate::save::{self, Leased, SEEN, SetWriter, tell_seen};
use feedline_io::{Scratch, Witness, scratch};
use std::sync::Arc;

/// The folder of a pipeline's snapshot.
pub struct Place {
    /// The operator that keeps it there.
    pub node: u64,
    pub folder: String,
    pub files: KeptFiles,
    pub spec: Spec,
    pub compression: &'static str,
}

impl Place {
    /// The snapshot, if it is whole.
    fn whole(&self) -> Result<Option<Arc<Leased>>> {
        let _unwatched = Witness::enter(None);
        let found = Leased::read(&self.folder).map_err(|error| self.advised(error))?;
        Ok(found.filter(|found| found.manifest.spec == self.spec && self.files.are_as_in(&found.manifest)))
    }
    /// Whether whoever begins now reads what the reader gives.
    pub fn has_ended(&self, cx: &BuildCx) -> Result<bool> {
        Ok(self.whole()?.is_some_and(|whole| self.is_read(cx, &whole)))
    }
    fn is_read(&self, cx: &BuildCx, whole: &Leased) -> bool {
        let is_earlier = || cx.finds_earlier_ends() && !(cx.inner && whole.manifest.is_seen_by(cx.run.name()));
        whole.manifest.is_seen() && is_earlier() || cx.run.has_ended(cx, &self.folder)
    }
    /// Where a state was taken, its end had been seen. Whether it is here matters to those who read it.
    pub fn recall_end(&self, cx: &BuildCx) -> Result<()> {
        match self.whole()? {
            Some(whole) => self.note_end(cx, &whole),
            None => cx.run.note_end(cx, self.node, &self.folder, || {}),
        }
        Ok(())
    }
    /// What a state needs is not here.
    fn missing(&self, text: &str) -> Error {
        Error::new(Kind::Precondition, text).in_file(&self.folder, None)
    }
    /// The end of a pass over it: who saw it is noted.
    fn note_end(&self, cx: &BuildCx, whole: &Leased) {
        let (folder, manifest) = (self.folder.clone(), whole.manifest.clone());
        let pass = cx.inner.then(|| cx.run.name());
        cx.run.note_end(cx, self.node, &self.folder, move || {
            if !manifest.is_seen() {
                tell_seen(&folder, &manifest, pass);
            }
        });
    }
    /// What is wrong with the files is mended by a person. Readers may read others too.
    fn advised(&self, error: Error) -> Error {
        match error.at().file.as_ref().is_some_and(|file| file.starts_with(&self.folder)) {
            true => kept_set::advised(error, &self.folder, "snapshot"),
            false => error,
        }
    }
    /// Begins to write, unless somebody does already or has done so. Whoever did so in a part of the same pass that was left
    /// lets go of it.
    fn begin(&self, cx: &BuildCx) -> Result<Option<Keeping>> {
        // Whoever reads again what was read before has been written down by then.
        if cx.again {
            return Ok(None);
        }
        let _unwatched = Witness::enter(None);
        kept_set::take_over(&self.folder, &cx.run.cancelled);
        let Some(set) = SetWriter::new(&self.folder, &self.spec, self.compression)? else {
            log::warn!("snapshot: {} is being written by another iterator; this pass is not kept", self.folder);
            return Ok(None);
        };
        if self.whole()?.is_some() {
            return Ok(None);
        }
        let set = set.with_memory(cx.run.budget.limit()).with_order()?;
        let _entered = cx.run.budget.enter();
        let working = scratch(set.working_bytes());
        let keeping: Keeping = Arc::default();
        let (held, ends) = (Arc::downgrade(&keeping), cx.ends.clone());
        let let_go = move || {
            if let Some(held) = held.upgrade().filter(|_| Ends::were_left(ends.as_ref())) {
                lock(&held).take();
            }
        };
        let writing = Writing::new(&self.folder, &cx.run.cancelled, let_go);
        *lock(&keeping) = Some(Kept { set, working, writing });
        Ok(Some(keeping))
    }
    /// The shards, each a dataset.
    fn shards(&self, whole: &Arc<Leased>) -> Result<Dataset> {
        let count =
            i64::try_from(whole.manifest.shards.len()).map_err(|_| Error::internal("more shards than numbers"))?;
        Dataset::range(count)?.map(|b, number| {
            let shard = Load::of(&self.folder, Some(Int::Symbol { symbol: b.export(number[0]) }), true, whole);
            Ok(b.dataset(Bound::nested(Dataset::source(shard)?.plan().clone()), self.spec.clone()))
        })
    }
    /// Starts to read.
    fn read(&self, cx: &BuildCx, whole: &Arc<Leased>, reader: Option<&Function>) -> Result<Box<dyn Stage>> {
        // Its own files are nothing that it was made of.
        let (cx, _unwatched) = (&BuildCx { witness: None, ..cx.clone() }, Witness::enter(None));
        let Some(reader) = reader else {
            return cx.stage(Dataset::source(Load::of(&self.folder, None, true, whole))?.plan());
        };
        let shards = Value::Dataset(Bound::nested(self.shards(whole)?.plan().clone()));
        let made = reader.bound(cx).call(&Element::from_iter([shards]), 0)?;
        let made = made.first().ok_or_else(|| Error::func("reader_func returned nothing"))?;
        cx.inner_stage(made)
    }
}

/// A pass that is being written, until somebody else does that.
type Keeping = Arc<Mutex<Option<Kept>>>;

struct Kept {
    set: SetWriter,
    #[expect(dead_code, reason = "it is charged to the pass until then")]
    working: Scratch,
    #[expect(dead_code, reason = "it is there until the folder is free")]
    writing: Writing,
}

enum Source {
    /// What the reader gives.
    Shards(Box<dyn Stage>),
    /// What is written, as it came.
    Ordered(Box<InOrder>),
    /// What was read so far is written; `None` if somebody else does that, or once it cannot become whole.
    Input(Box<dyn Stage>, Option<Keeping>),
    /// After an error that nothing can follow.
    Ended,
}

pub struct SnapshotStage {
    cx: BuildCx,
    input: Plan,
    place: Place,
    reader: Option<Function>,
    source: Source,
    /// The pass over the input that is written or was.
    origin: Origin,
    /// Elements and errors of the input so far.
    given: Given,
    /// To be left out, though they are written.
    drop: Given,
    /// Where the input was by then.
    sent: Mark,
    /// Whether anything was pulled: what works ahead cannot be sent elsewhere any more.
    begun: bool,
    /// Somebody else in the same pass writes what this one reads: it does not know when that is whole.
    beside: bool,
}

/// What a state says: which of them its pass read.
const OF_INPUT: u64 = 0;
const BY_READER: u64 = 1;
const IN_ORDER: u64 = 2;
/// Of the input, while somebody else in the same pass wrote.
const BESIDE: u64 = 3;

impl SnapshotStage {
    pub fn new(mut cx: BuildCx, input: Plan, place: Place, reader: Option<Function>) -> Result<SnapshotStage> {
        cx.witness = Some(place.files.witness.clone());
        let (source, origin, sent, begun) = (Source::Ended, Origin::default(), Mark::default(), false);
        let (given, drop) = (Given::default(), Given::default());
        let beside = false;
        let mut stage = SnapshotStage { cx, input, place, reader, source, origin, given, drop, sent, begun, beside };
        match stage.place.whole()? {
            Some(whole) if stage.place.is_read(&stage.cx, &whole) => stage.read(&whole)?,
            Some(whole) => stage.read_in_order(&whole, Given::default())?,
            None if !stage.cx.finds_earlier_ends() && stage.cx.run.has_ended(&stage.cx, &stage.place.folder) => {
                return Err(stage.place.missing("the state was taken when a snapshot had been read, and here is none"));
            }
            None => {
                let _watched = Witness::enter(stage.cx.witness.clone());
                let cx = Taken::first_pass(&stage.cx, &stage.input);
                let mut input = cx.stage(&stage.input)?;
                stage.origin = Origin::of(&cx, &stage.input, &mut *input);
                let keeping = stage.place.begin(&stage.cx)?;
                stage.beside = keeping.is_none();
                stage.source = Source::Input(input, keeping);
            }
        }
        Ok(stage)
    }
    /// Begins the input as in the pass with that origin, leaves out what was given of it, and writes if nobody else does.
    fn begin_at(&mut self, origin: Origin, given: Given) -> Result<()> {
        self.let_go();
        // It may hold what the other one needs.
        self.source = Source::Ended;
        let keeping = self.place.begin(&self.cx)?;
        self.beside = keeping.is_none() && self.place.whole()?.is_none();
        origin.check_seeds(&self.input)?;
        let watched = Witness::enter(self.cx.witness.clone());
        let input = self.input_cx(&origin).stage_at(&self.input, &origin.start)?;
        drop(watched);
        (self.source, self.origin) = (Source::Input(input, keeping), origin);
        (self.given, self.drop, self.begun) = (Given::default(), given, false);
        Ok(())
    }
    /// Reads what is written as it came, behind what was given.
    fn read_in_order(&mut self, whole: &Arc<Leased>, given: Given) -> Result<()> {
        self.let_go();
        self.origin = Origin::from_json(whole.manifest.origin.as_ref().unwrap_or_default())?;
        let _unwatched = Witness::enter(None);
        let stage = InOrder::new(&self.place.folder, whole).map_err(|error| self.place.advised(error))?;
        self.source = Source::Ordered(Box::new(stage));
        (self.given, self.drop, self.begun) = (Given::default(), given, false);
        Ok(())
    }
    /// The end of the pass.
    fn end(&self) {
        if self.beside {
            return;
        }
        if let Ok(Some(whole)) = self.place.whole() {
            self.place.note_end(&self.cx, &whole);
        }
    }
    /// Gives up what is written.
    fn let_go(&mut self) {
        if let Source::Input(_, keeping) = &mut self.source
            && let Some(keeping) = keeping.take()
        {
            lock(&keeping).take();
        }
    }
    fn read(&mut self, whole: &Arc<Leased>) -> Result<()> {
        self.let_go();
        self.origin = Origin::from_json(whole.manifest.origin.as_ref().unwrap_or_default())?;
        let reader = self.place.read(&self.cx, whole, self.reader.as_ref());
        self.source = Source::Shards(reader.map_err(|error| self.place.advised(error))?);
        (self.given, self.drop, self.begun) = (Given::default(), Given::default(), false);
        Ok(())
    }
    /// An input of the pass with that origin that can be sent anywhere.
    fn input(&mut self, origin: &Origin) -> Result<Box<dyn Stage>> {
        self.let_go();
        let may_move = !self.begun || self.cx.nested;
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Input(input, _) if may_move && self.origin.epoch == origin.epoch => Ok(input),
            other => {
                // It may hold what the other one needs.
                drop(other);
                self.input_cx(origin).stage(&self.input)
            }
        }
    }
    /// What the pass over the input with that origin starts with.
    fn input_cx(&self, origin: &Origin) -> BuildCx {
        BuildCx { epoch: origin.epoch, ..Taken::first_pass(&self.cx, &self.input) }
    }
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        self.begun = true;
        let (input, keeping) = match &mut self.source {
            Source::Ended => return Pull::End,
            Source::Shards(_) | Source::Ordered(_) => {
                let unwatched = Witness::enter(None);
                let pull = match &mut self.source {
                    Source::Shards(reader) => reader.next(cx, want),
                    Source::Ordered(files) => files.next(cx, want),
                    _ => return Pull::End,
                };
                drop(unwatched);
                if matches!(pull, Pull::End) && !cx.is_cancelled() {
                    self.end();
                }
                let Pull::Fail(error) = pull else { return pull };
                // Elements are lost: whatever the reader would give behind that is not all of them.
                if error.ends() {
                    self.source = Source::Ended;
                }
                return Pull::Fail(self.place.advised(error));
            }
            Source::Input(input, keeping) => (input, keeping),
        };
        let watched = Witness::enter(self.cx.witness.clone());
        let pull = input.next(cx, want);
        drop(watched);
        // What is stopped gives what it happens to have, a batch that is not full for instance: nothing to write.
        if cx.is_cancelled() {
            self.let_go();
            return Pull::End;
        }
        match pull {
            Pull::Rows(chunk) => match written(keeping, &chunk) {
                Ok(elements) => Pull::Rows(elements),
                Err(error) => {
                    self.let_go();
                    self.source = Source::Ended;
                    Pull::Fail(error.that_ends())
                }
            },
            Pull::Fail(error) => {
                self.beside = true;
                if keeping.is_some() {
                    log::warn!("snapshot: an element failed, so this pass is not complete and not kept: {error}");
                    self.let_go();
                }
                Pull::Fail(error)
            }
            Pull::End => {
                let finished = keeping.take().and_then(|keeping| lock(&keeping).take()).map(|kept| {
                    let mut origin = self.origin.to_json()?;
                    origin[SEEN] = false.into();
                    kept.set.finish(Some(self.place.files.tell(origin)))
                });
                if let Some(Err(error)) = finished {
                    return Pull::Fail(error);
                }
                self.end();
                Pull::End
            }
            Pull::Pending => Pull::Pending,
        }
    }
}

/// Rows of pairs as elements, which are written if somebody does that.
fn written(keeping: &Option<Keeping>, pairs: &Chunk) -> Result<Chunk> {
    let mut keeping = keeping.as_ref().map(|keeping| lock(keeping));
    let Some(keeping) = keeping.as_mut().and_then(|keeping| keeping.as_mut()) else {
        return save::without_numbers(pairs);
    };
    // They wait to be written while the consumer has them already.
    pairs.freeze();
    keeping.set.deal(pairs)
}

impl Stage for SnapshotStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let pull = self.pull(cx, self.drop.ask(want));
            self.given.count(&pull);
            if !self.drop.takes(&pull) {
                return pull;
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        match &mut self.source {
            Source::Shards(reader) => {
                out.number(BY_READER);
                // The state needs the snapshot, not the pass that it was made of.
                Origin { never: None, ..self.origin.clone() }.mark(out);
                reader.mark(out);
            }
            // It may be where the files are not.
            Source::Ordered(_) => {
                out.number(IN_ORDER);
                self.given.and(self.drop).mark(out);
                self.origin.mark(out);
            }
            Source::Input(input, _) => {
                out.number(if self.beside { BESIDE } else { OF_INPUT });
                self.given.and(self.drop).mark(out);
                self.origin.mark(out);
                let mut here = Mark::default();
                match self.drop.is_none() {
                    true => input.mark(&mut here),
                    false => here.extend(&self.sent),
                }
                out.counted(&here);
            }
            Source::Ended => out.never("the snapshot could not be written: the pass ended with an error"),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let kind = at.up_to(BESIDE)?;
        self.beside = kind == BESIDE;
        if kind == BY_READER {
            let origin = Origin::read(at)?;
            let Some(whole) = self.place.whole()? else {
                return Err(self.place.missing("the state was taken while a snapshot was read, and here is none"));
            };
            if !matches!(self.source, Source::Shards(_)) || (self.begun && !self.cx.nested) {
                self.read(&whole)?;
            }
            if !origin.is_same(&self.origin) && !self.input.is_pure() {
                let text = "the state was taken while a snapshot was read that was made of another pass than this one";
                return Err(self.place.missing(text));
            }
            // Others may know more of it, and tell that.
            self.place.note_end(&self.cx, &whole);
            let Source::Shards(reader) = &mut self.source else { return Ok(()) };
            let _unwatched = Witness::enter(None);
            return reader.seek(at).map_err(|error| self.place.advised(error));
        }
        let _watched = Witness::enter(self.cx.witness.clone());
        let (given, origin) = (Given::read(at)?, Origin::read(at)?);
        if kind == IN_ORDER {
            let whole = self.place.whole()?;
            let of_pass = |whole: &Arc<Leased>| {
                let told = Origin::from_json(whole.manifest.origin.as_ref().unwrap_or_default());
                self.input.is_pure() || told.is_ok_and(|told| told.is_same(&origin))
            };
            return match whole.filter(of_pass) {
                Some(whole) => self.read_in_order(&whole, given),
                None => self.begin_at(origin, given),
            };
        }
        let here = at.counted()?;
        origin.check_seeds(&self.input)?;
        let mut input = self.input(&origin)?;
        let keeping = if self.beside { None } else { self.place.begin(&self.cx)? };
        if keeping.is_some() {
            input.seek(&mut At::new(&origin.start))?;
            (self.given, self.drop, self.sent) = (Given::default(), given, Mark::from(here));
        } else {
            let mut at = At::new(here);
            input.seek(&mut at)?;
            at.finish()?;
            (self.given, self.drop) = (given, Given::default());
        }
        (self.source, self.origin, self.begun) = (Source::Input(input, keeping), origin, false);
        Ok(())
    }
}
