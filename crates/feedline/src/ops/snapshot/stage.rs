//! A pass through a snapshot: it reads the shards, or the input, which it writes if it may. A part of `snapshot`.

use crate::dataset::Dataset;
use crate::element::{Chunk, Element, Spec, Value};
use crate::error::{Error, Kind, Result};
use crate::op::{Function, Int};
use crate::ops::cache::origin::Origin;
use crate::ops::kept_files::KeptFiles;
use crate::ops::kept_set::{self, Writing};
use crate::ops::load::Load;
use crate::plan::{Bound, Plan};
use crate::runtime::{At, BuildCx, Cx, Given, Later, Mark, Pull, Saved, Stage};
use crate::save::{self, Leased, SetWriter};
use feedline_io::{Scratch, Witness, scratch};
use std::sync::Arc;

/// The folder of a pipeline's snapshot.
pub struct Place {
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
    /// What is wrong with the files is mended by a person. Readers may read others too.
    fn advised(&self, error: Error) -> Error {
        match error.at().file.as_ref().is_some_and(|file| file.starts_with(&self.folder)) {
            true => kept_set::advised(error, &self.folder, "snapshot"),
            false => error,
        }
    }
    /// Begins to write, unless somebody does already or has done so.
    fn begin(&self, cx: &BuildCx) -> Result<Option<Box<Keeping>>> {
        // Whoever reads again what was read before has been written down by then.
        if cx.again {
            return Ok(None);
        }
        let _unwatched = Witness::enter(None);
        let Some(set) = SetWriter::new(&self.folder, &self.spec, self.compression)? else {
            log::warn!("snapshot: {} is being written by another iterator; this pass is not kept", self.folder);
            return Ok(None);
        };
        if self.whole()?.is_some() {
            return Ok(None);
        }
        let set = set.with_memory(cx.run.budget.limit());
        let _entered = cx.run.budget.enter();
        let working = scratch(set.working_bytes());
        Ok(Some(Box::new(Keeping { set, working, writing: Writing::new(&self.folder, &cx.run.cancelled) })))
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

/// A pass that is being written.
struct Keeping {
    set: SetWriter,
    #[expect(dead_code, reason = "it is charged to the pass until then")]
    working: Scratch,
    #[expect(dead_code, reason = "it is there until the folder is free")]
    writing: Writing,
}

enum Source {
    /// What the reader gives.
    Shards(Box<dyn Stage>),
    /// What was read so far is written; `None` if somebody else does that, or once it cannot become whole.
    Input(Box<dyn Stage>, Option<Box<Keeping>>),
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
}

/// Whether two passes give the same elements.
fn is_same(one: &Origin, other: &Origin) -> bool {
    (one.epoch, &one.start) == (other.epoch, &other.start)
}

impl SnapshotStage {
    pub fn new(mut cx: BuildCx, input: Plan, place: Place, reader: Option<Function>) -> Result<SnapshotStage> {
        cx.witness = Some(place.files.witness.clone());
        let (source, origin, sent, begun) = (Source::Ended, Origin::default(), Mark::default(), false);
        let (given, drop) = (Given::default(), Given::default());
        let mut stage = SnapshotStage { cx, input, place, reader, source, origin, given, drop, sent, begun };
        match stage.place.whole()? {
            Some(whole) => stage.read(&whole)?,
            None => {
                let _watched = Witness::enter(stage.cx.witness.clone());
                let mut input = stage.cx.stage(&stage.input)?;
                stage.origin = Origin::of(&stage.cx, &mut *input);
                let keeping = stage.place.begin(&stage.cx)?;
                stage.source = Source::Input(input, keeping);
            }
        }
        Ok(stage)
    }
    /// Gives up what is written.
    fn let_go(&mut self) {
        if let Source::Input(_, keeping) = &mut self.source {
            *keeping = None;
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
            _ => BuildCx { epoch: origin.epoch, ..self.cx.clone() }.stage(&self.input),
        }
    }
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        self.begun = true;
        let (input, keeping) = match &mut self.source {
            Source::Ended => return Pull::End,
            Source::Shards(reader) => {
                let _unwatched = Witness::enter(None);
                let pull = reader.next(cx, want);
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
                if keeping.is_some() {
                    log::warn!("snapshot: an element failed, so this pass is not complete and not kept: {error}");
                    self.let_go();
                }
                Pull::Fail(error)
            }
            Pull::End => {
                let finished = keeping
                    .take()
                    .map(|keeping| keeping.set.finish(Some(self.place.files.tell(self.origin.to_json()?))));
                match finished {
                    Some(Err(error)) => Pull::Fail(error),
                    _ => Pull::End,
                }
            }
            Pull::Pending => Pull::Pending,
        }
    }
}

/// Rows of pairs as elements, which are written if somebody does that.
fn written(keeping: &mut Option<Box<Keeping>>, pairs: &Chunk) -> Result<Chunk> {
    let Some(keeping) = keeping else { return save::without_numbers(pairs) };
    // They wait to be written while the consumer has them already.
    pairs.freeze();
    keeping.set.deal(pairs)
}

/// A mark with the number of its parts, which is known only when they are told.
struct Counted(Mark);

impl Later for Counted {
    fn tell(&self, _: u64, out: &mut Vec<Saved>) -> Result<()> {
        let mut parts = Vec::new();
        self.0.saved(&mut parts)?;
        out.push(Saved::Number(parts.len() as u64));
        out.extend(parts);
        Ok(())
    }
}

fn counted(mark: Mark, out: &mut Mark) {
    match mark.is_whole() {
        true => out.counted(&mark),
        false => out.later(Arc::new(Counted(mark)), 0),
    }
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
        let is_read = matches!(self.source, Source::Shards(_));
        out.flag(is_read);
        match &mut self.source {
            Source::Shards(reader) => {
                // The state needs the snapshot, not the pass that it was made of.
                Origin { never: None, ..self.origin.clone() }.mark(out);
                reader.mark(out);
            }
            Source::Input(input, _) => {
                self.given.and(self.drop).mark(out);
                self.origin.mark(out);
                let mut here = Mark::default();
                match self.drop.is_none() {
                    true => input.mark(&mut here),
                    false => here.extend(&self.sent),
                }
                counted(here, out);
            }
            Source::Ended => out.never("the snapshot could not be written: the pass ended with an error"),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        if at.flag()? {
            let origin = Origin::read(at)?;
            let Some(whole) = self.place.whole()? else {
                let text = "the state was taken while a snapshot was read, and here is none";
                return Err(Error::new(Kind::Precondition, text).in_file(&self.place.folder, None));
            };
            if !matches!(self.source, Source::Shards(_)) || (self.begun && !self.cx.nested) {
                self.read(&whole)?;
            }
            if !is_same(&origin, &self.origin) && !self.input.is_pure() {
                let text = "the state was taken while a snapshot was read that was made of another pass than this one";
                return Err(Error::new(Kind::Precondition, text).in_file(&self.place.folder, None));
            }
            let Source::Shards(reader) = &mut self.source else { return Ok(()) };
            let _unwatched = Witness::enter(None);
            return reader.seek(at).map_err(|error| self.place.advised(error));
        }
        let _watched = Witness::enter(self.cx.witness.clone());
        let given = Given::read(at)?;
        let (origin, here) = (Origin::read(at)?, at.counted()?);
        let mut input = self.input(&origin)?;
        let keeping = self.place.begin(&self.cx)?;
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
