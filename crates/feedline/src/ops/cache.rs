//! `cache()`: the elements are kept after the first complete pass, in memory or on disk (`cache_disk.rs`).
//!
//! What is kept in memory counts as kept by the operator (`budget.rs`). If it does not fit, `on_full` says what then: an
//! error; the part that fits stays, and later passes go on behind it as the first one did (`Rows::Part`); or all of it
//! moves to a temporary folder (`cache_spill.rs`).
//!
//! On disk, a pass that breaks off is kept too: the next one reads what was committed and goes on behind it.
//!
//! A state does not hold them: a process that resumes reads them again, as the pass read them that filled the cache here,
//! and so fills its own.

#[cfg(feature = "columnar")]
use super::cache_disk::{Keeping, Kept as OnDiskKept, OnDisk};
#[cfg(feature = "columnar")]
use super::cache_spill::Spilling;
use super::held::Held;
#[cfg(feature = "columnar")]
use super::stored_set::{StoredSet, StoredStage};
use crate::dataset::Dataset;
use crate::element::{Chunk, Spec, Value};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, Budget, BuildCx, Built, Cx, Hold, Index, Mark, Over, Pull, Run, Saved, Stage, bytes_text};
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

pub static INFO: OpInfo = OpInfo {
    name: "cache",
    doc: "Keeps all elements after the first complete pass, in memory or on disk; later passes read them there.",
    params: &[
        Param::new("filename", "None", "the folder to keep them in; None: in memory"),
        Param::new("on_full", "error", "where memory_limit has no room: error, keep what fits, or spill to disk"),
        Param::new("compression", "None", "of the files in the folder: LZ4 or ZSTD"),
    ],
    read: read::<Cache>,
};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(default, skip_serializing_if = "OnFull::is_error")]
    on_full: OnFull,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
    #[serde(skip)]
    store: Arc<Store>,
    /// What stands before it, as it was asked for: what is kept on disk is known by it.
    #[serde(skip)]
    input: OnceLock<Plan>,
    #[cfg(feature = "columnar")]
    #[serde(skip)]
    identity: OnceLock<Vec<u8>>,
}

/// What to do with elements that memory has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// The pass ends with an error that says how much there is.
    #[default]
    Error,
    /// Those that fit stay; the others are made in each pass, the same as in the first.
    Keep,
    /// All of them move to a temporary folder.
    Spill,
}

impl OnFull {
    fn is_error(&self) -> bool {
        *self == OnFull::Error
    }
}

impl Dataset {
    /// Keeps the elements in memory. Only a pass that reads all of them without an error fills it.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(5)?.cache()?;
    /// assert_eq!((ds.iter()?.count(), ds.iter()?.count()), (5, 5));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn cache(&self) -> Result<Dataset> {
        self.apply(Cache::default())
    }
    /// The same, saying what to do where the memory limit has no room for them.
    pub fn cache_or(&self, on_full: OnFull) -> Result<Dataset> {
        self.apply(Cache { on_full, ..Cache::default() })
    }
    /// Keeps the elements in a folder, for later processes too. Each pipeline has its own place there.
    #[cfg(feature = "columnar")]
    pub fn cache_in(&self, folder: &str) -> Result<Dataset> {
        self.apply(Cache { filename: Some(folder.into()), ..Cache::default() })
    }
    /// The same in compressed files: what tf.data calls a snapshot.
    #[cfg(feature = "columnar")]
    pub fn snapshot(&self, folder: &str, compression: &str) -> Result<Dataset> {
        let (filename, compression) = (Some(folder.into()), Some(compression.into()));
        self.apply(Cache { filename, compression, ..Cache::default() })
    }
}

/// What all iterators of the dataset share. A dataset inside a function is another one for each value around it.
#[derive(Default)]
struct Store(Mutex<Vec<Kept>>);

type Kept = (Option<Weak<[Value]>>, Filled);

/// The elements, and the pass that they come from.
#[derive(Clone)]
struct Filled {
    rows: Rows,
    /// If these are only the first ones: from where the input goes on behind them.
    rest: Option<Arc<[Saved]>>,
    origin: Origin,
    /// What they take of memory, and for which pass it was made.
    bytes: usize,
    made_for: Weak<Budget>,
}

#[derive(Clone)]
enum Rows {
    Memory(Held),
    #[cfg(feature = "columnar")]
    Disk(Arc<StoredSet>),
}

impl Rows {
    fn stage(&self) -> Box<dyn Stage> {
        match self {
            Rows::Memory(held) => Box::new(held.stage()),
            #[cfg(feature = "columnar")]
            Rows::Disk(set) => Box::new(StoredStage::new(set.clone())),
        }
    }
    fn len(&self) -> u64 {
        match self {
            Rows::Memory(held) => held.len(),
            #[cfg(feature = "columnar")]
            Rows::Disk(set) => set.len(),
        }
    }
}

/// A pass over the input: what it gives depends on its epoch and on the seeds that it began with.
#[derive(Clone, Default, PartialEq)]
struct Origin {
    epoch: u64,
    start: Arc<[Saved]>,
    /// Why there is no telling where it began.
    never: Option<&'static str>,
}

impl Origin {
    fn of(cx: &BuildCx, input: &mut dyn Stage) -> Origin {
        let (mut mark, mut start) = (Mark::default(), Vec::new());
        input.mark(&mut mark);
        let never = mark.saved(&mut start).err().map(|_| NEVER);
        Origin { epoch: cx.epoch, start: start.into(), never }
    }
    fn mark(&self, out: &mut Mark) {
        out.number(self.epoch);
        out.counted(&Mark::from(&*self.start));
        if let Some(why) = self.never {
            out.never(why);
        }
    }
    fn read(at: &mut At<'_>) -> Result<Origin> {
        Ok(Origin { epoch: at.number()?, start: at.counted()?.into(), never: None })
    }
    #[cfg(feature = "columnar")]
    fn to_json(&self) -> Result<serde_json::Value> {
        let start = crate::runtime::parts_to_json(&self.start)?;
        Ok(serde_json::json!({ "epoch": self.epoch, "start": start, "resumable": self.never.is_none() }))
    }
    #[cfg(feature = "columnar")]
    fn from_json(json: &serde_json::Value) -> Result<Origin> {
        let start = crate::runtime::parts_from_json(&json["start"])?.into();
        let never = (json["resumable"].as_bool() != Some(true)).then_some(NEVER);
        Ok(Origin { epoch: json["epoch"].as_u64().unwrap_or(0), start, never })
    }
}

const NEVER: &str = "an operator before cache cannot be resumed";
/// A pass is gone on with only by the version that began it: marks have no other.
#[cfg(feature = "columnar")]
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// From where the input of a pass goes on that broke off.
#[cfg(feature = "columnar")]
fn part_rest(origin: &serde_json::Value) -> Result<Arc<[Saved]>> {
    match origin["version"].as_str() {
        Some(VERSION) => Ok(crate::runtime::parts_from_json(&origin["rest"])?.into()),
        other => Err(Error::data(format!("it was begun by version {other:?} of feedline, this is {VERSION}"))),
    }
}

impl Store {
    fn find(list: &[Kept], env: &Arc<[Value]>) -> Option<Filled> {
        let same = |key: &Option<Weak<[Value]>>| match key {
            None => env.is_empty(),
            Some(key) => key.ptr_eq(&Arc::downgrade(env)),
        };
        list.iter().find(|(key, _)| same(key)).map(|(_, filled)| filled.clone())
    }
    fn get(&self, env: &Arc<[Value]>) -> Option<Filled> {
        let _brief = brief();
        Store::find(&lock(&self.0), env)
    }
    /// The first complete pass wins.
    fn put(&self, env: &Arc<[Value]>, filled: Filled) {
        let _brief = brief();
        let mut list = lock(&self.0);
        list.retain(|(key, _)| key.as_ref().is_none_or(|k| k.strong_count() > 0));
        if Store::find(&list, env).is_none() {
            list.push(((!env.is_empty()).then(|| Arc::downgrade(env)), filled));
        }
    }
}

/// Where the elements of a pass are looked for, and kept.
enum Place {
    Memory(Arc<Store>),
    #[cfg(feature = "columnar")]
    Disk(OnDisk),
}

impl Cache {
    fn place(&self, _cx: &BuildCx, _node: &Plan) -> Result<Place> {
        #[cfg(feature = "columnar")]
        if let Some(filename) = &self.filename {
            let input = self.input.get().unwrap_or(&_node.inputs[0]);
            let identity = match self.identity.get() {
                Some(identity) => identity,
                None => {
                    let identity = super::cache_disk::identity(input)?;
                    let _brief = brief();
                    self.identity.get_or_init(|| identity)
                }
            };
            let compression = crate::save::compression(self.compression.as_deref().unwrap_or(""))?;
            return Ok(Place::Disk(OnDisk::new(filename, compression, identity, input, &_cx.env)?));
        }
        Ok(Place::Memory(self.store.clone()))
    }
}

impl Place {
    fn get(&self, env: &Arc<[Value]>) -> Result<Option<Filled>> {
        match self {
            Place::Memory(store) => Ok(store.get(env)),
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => disk.get()?.map(|kept| from_disk(&kept, None)).transpose(),
        }
    }
    /// Begins to keep a pass; `None` if somebody else does.
    fn begin(&self, _run: &Run) -> Result<Option<Filling>> {
        match self {
            Place::Memory(_) => Ok(Some(Filling::Memory(Blocks::default()))),
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => Ok(disk.begin(_run, None)?.map(|keeping| Filling::Disk(Box::new(keeping)))),
        }
    }
    fn finish(&self, env: &Arc<[Value]>, filling: Filling, origin: &Origin, hold: &Hold) -> Result<()> {
        let filled = |rows: Rows| {
            let (bytes, made_for) = (hold.bytes(), hold.budget());
            Filled { rows, rest: None, origin: origin.clone(), bytes, made_for }
        };
        match (self, filling) {
            (Place::Memory(store), Filling::Memory(blocks)) => {
                store.put(env, filled(Rows::Memory(blocks.finish())));
                Ok(())
            }
            #[cfg(feature = "columnar")]
            (Place::Memory(store), Filling::Spill(spilling)) => {
                let rows = Rows::Disk(spilling.finish()?);
                store.put(env, Filled { bytes: 0, ..filled(rows) });
                Ok(())
            }
            #[cfg(feature = "columnar")]
            (_, Filling::Disk(keeping)) => keeping.finish(origin.to_json()?),
            #[cfg(feature = "columnar")]
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "columnar")]
fn from_disk(kept: &OnDiskKept, rest: Option<Arc<[Saved]>>) -> Result<Filled> {
    let (rows, origin) = (Rows::Disk(kept.set.clone()), Origin::from_json(&kept.origin)?);
    Ok(Filled { rows, rest, origin, bytes: 0, made_for: Weak::new() })
}

/// What was read of a pass so far.
enum Filling {
    Memory(Blocks),
    #[cfg(feature = "columnar")]
    Disk(Box<Keeping>),
    #[cfg(feature = "columnar")]
    Spill(Box<Spilling>),
}

impl Filling {
    fn push(&mut self, chunk: &Chunk) -> Result<()> {
        match self {
            #[cfg(feature = "columnar")]
            Filling::Spill(spilling) => spilling.push(chunk),
            Filling::Memory(blocks) => {
                chunk.freeze();
                blocks.push(chunk.clone());
                Ok(())
            }
            #[cfg(feature = "columnar")]
            Filling::Disk(keeping) => keeping.push(chunk),
        }
    }
    /// What it needs besides what it keeps.
    fn working_bytes(&self) -> usize {
        match self {
            Filling::Memory(_) => 0,
            #[cfg(feature = "columnar")]
            Filling::Disk(keeping) => keeping.working_bytes(),
            #[cfg(feature = "columnar")]
            Filling::Spill(spilling) => spilling.working_bytes(),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _brief = brief();
        f.write_str(if lock(&self.0).is_empty() { "not filled" } else { "filled" })
    }
}

impl Op for Cache {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if self.filename.is_some() {
            #[cfg(feature = "columnar")]
            crate::save::check_storable(&inputs[0].spec)?;
            #[cfg(not(feature = "columnar"))]
            return Err(crate::Error::usage("cache(filename) needs the feature columnar"));
            #[cfg(feature = "columnar")]
            if self.on_full != OnFull::Error {
                crate::bail!(Usage, "on_full is for a cache in memory; this one has a folder");
            }
        }
        #[cfg(feature = "columnar")]
        if let Some(name) = &self.compression {
            crate::save::compression(name)?;
            if self.filename.is_none() {
                crate::bail!(Usage, "compression is for files; this cache is in memory");
            }
        }
        if self.on_full == OnFull::Spill {
            #[cfg(feature = "columnar")]
            crate::save::check_storable(&inputs[0].spec)?;
            #[cfg(not(feature = "columnar"))]
            return Err(crate::Error::usage("on_full=\"spill\" needs the feature columnar"));
        }
        let _brief = brief();
        self.input.get_or_init(|| inputs[0].clone());
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn props(&self) -> Props {
        Props { partial: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (plan, place, hold) = (node.inputs[0].clone(), self.place(cx, node)?, cx.hold(node));
        let (source, origin, given, drop, mark) = (Source::Ended, Origin::default(), 0, 0, Mark::default());
        let (cx, on_full) = (cx.clone(), self.on_full);
        let mut stage =
            CacheStage { cx, plan, place, on_full, hold: hold.leaving(2), source, origin, given, drop, mark };
        if let Some(filled) = stage.place.get(&stage.cx.env)? {
            stage.read(filled, 0, None)?;
        } else if !stage.go_on(0, |_| true) {
            let mut input = stage.cx.stage(&stage.plan)?;
            stage.origin = Origin::of(&stage.cx, &mut *input);
            stage.fill(input)?;
        }
        Ok(Built::Stage(Box::new(stage)))
    }
    fn keeps_rows(&self) -> bool {
        self.filename.is_none()
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.place(cx, node)?.get(&cx.env)? {
            Some(Filled { rows: Rows::Memory(held), rest: None, .. }) => Ok(Some(Arc::new(held))),
            #[cfg(feature = "columnar")]
            Some(Filled { rows: Rows::Disk(set), rest: None, .. }) => {
                Ok(Some(Arc::new(super::table::TableIndex::new(set, Arc::default(), cx))))
            }
            // By number they are had where they are made.
            _ => cx.index(&node.inputs[0]),
        }
    }
    /// Where they are kept does not change what they are.
    fn tunables(&self) -> &'static [&'static str] {
        &["filename", "on_full", "compression"]
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Chunks are put together into blocks of about this size, so that later passes are not bound to the small chunks with
/// which the first one started.
const BLOCK_BYTES: usize = 4 << 20;

/// For errors.
fn what_is_kept(rows: u64, bytes: usize) -> String {
    format!("{rows} elements to keep take {}", bytes_text(bytes))
}

#[derive(Default)]
struct Blocks {
    blocks: Vec<Chunk>,
    open: Vec<Chunk>,
    bytes: usize,
    rows: u64,
}

impl Blocks {
    fn push(&mut self, chunk: Chunk) {
        self.rows += chunk.rows() as u64;
        let last = if self.open.is_empty() { self.blocks.last_mut() } else { self.open.last_mut() };
        // Rows that lie together already, for instance in an array, stay where they are.
        if last.is_some_and(|l| l.extend(&chunk)) {
            return;
        }
        self.bytes += chunk.nbytes();
        self.open.push(chunk);
        if self.bytes >= BLOCK_BYTES {
            self.close();
        }
    }
    fn close(&mut self) {
        if !self.open.is_empty() {
            self.blocks.push(super::joined(&self.open));
        }
        self.open.clear();
        self.bytes = 0;
    }
    fn finish(mut self) -> Held {
        self.close();
        Held::blocks(self.blocks)
    }
}

struct CacheStage {
    cx: BuildCx,
    plan: Plan,
    place: Place,
    on_full: OnFull,
    hold: Hold,
    source: Source,
    origin: Origin,
    /// Elements and errors so far.
    given: u64,
    /// To be left out, though they are kept: they were given before the state was taken.
    drop: u64,
    /// Where the input is behind what is kept, if a part of the pass may have to end there.
    mark: Mark,
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
    /// Reads what is kept, from element `given` on. If that is not all, `filling` keeps what the input has behind it.
    fn read(&mut self, filled: Filled, given: u64, filling: Option<Filling>) -> Result<()> {
        self.hold.inherit(filled.bytes, &filled.made_for);
        let mut held = filled.rows.stage();
        let mut first = given;
        let rest = match &filled.rest {
            None => None,
            Some(rest) => {
                // In memory, this pass or an earlier one has seen what comes behind.
                let again = matches!(filled.rows, Rows::Memory(_));
                let cx = BuildCx { epoch: filled.origin.epoch, again, ..self.cx.clone() };
                let mut input = cx.stage(&self.plan)?;
                input.seek(&mut At::new(rest))?;
                first = given.min(filled.rows.len());
                Some((input, filling))
            }
        };
        held.seek(&mut At::new(&[Saved::Number(first)]))?;
        (self.given, self.drop) = (first, given - first);
        self.source = Source::Held(held, rest);
        self.origin = filled.origin;
        Ok(())
    }

    /// Reads the input, and keeps it unless somebody else does.
    fn fill(&mut self, input: Box<dyn Stage>) -> Result<()> {
        // What was begun before is given up first: there is one writer.
        self.source = Source::Ended;
        let filling = self.place.begin(&self.cx.run)?;
        let _ = self.hold.reserve(filling.as_ref().map_or(0, Filling::working_bytes));
        self.source = Source::Input(input, filling);
        Ok(())
    }

    /// Goes on with a pass that broke off, from element `given` on, if there is one that is wanted.
    #[cfg(feature = "columnar")]
    fn go_on(&mut self, given: u64, wanted: impl Fn(&Origin) -> bool) -> bool {
        if !matches!(self.place, Place::Disk(_)) {
            return false;
        }
        // What this stage has kept so far is a part too.
        self.break_off();
        self.source = Source::Ended;
        self.try_go_on(given, wanted).unwrap_or_else(|error| {
            log::warn!("cache: what was kept of a pass that broke off cannot be gone on with: {error}");
            false
        })
    }
    #[cfg(feature = "columnar")]
    fn try_go_on(&mut self, given: u64, wanted: impl Fn(&Origin) -> bool) -> Result<bool> {
        let Place::Disk(disk) = &self.place else { return Ok(false) };
        let Some(part) = disk.get_part() else { return Ok(false) };
        let filled = from_disk(&part, Some(part_rest(&part.origin)?))?;
        if !wanted(&filled.origin) {
            return Ok(false);
        }
        let keeping = disk.begin(&self.cx.run, Some(&part))?;
        let filling = keeping.map(|keeping| Filling::Disk(Box::new(keeping)));
        let working = filling.as_ref().map_or(0, Filling::working_bytes);
        self.read(filled, given, filling)?;
        let _ = self.hold.reserve(working);
        Ok(true)
    }
    #[cfg(not(feature = "columnar"))]
    fn go_on(&mut self, _: u64, _: impl Fn(&Origin) -> bool) -> bool {
        false
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
        let mut origin = self.origin.to_json()?;
        origin["rest"] = crate::runtime::parts_to_json(&rest)?;
        origin["version"] = VERSION.into();
        keeping.commit(origin)
    }

    /// The pass ends early: what it has is kept if that can be done.
    fn break_off(&mut self) {
        #[cfg(feature = "columnar")]
        if let Err(error) = self.commit() {
            log::warn!("cache: a pass that broke off is not kept: {error}");
        }
        if let Source::Input(_, filling) = &mut self.source {
            *filling = None;
        }
    }

    /// Keeps rows of this pass. `Some`: the pass cannot go on.
    fn keep(&mut self, chunk: &Chunk) -> Option<Error> {
        let Source::Input(_, slot) = &mut self.source else { return None };
        let filling = slot.as_mut()?;
        if matches!(filling, Filling::Memory(_)) {
            // An array is there anyway.
            let bytes = if chunk.is_foreign() { 0 } else { chunk.nbytes() };
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
                let (bytes, made_for) = (self.hold.bytes(), self.hold.budget());
                store.put(&self.cx.env, Filled { rows, rest, origin: self.origin.clone(), bytes, made_for });
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
                let instead = "keep them on disk with cache(filename), keep the part that fits with \
                               cache(on_full=\"keep\"), or use cache(on_full=\"spill\")";
                Some(over.error(&what_is_kept(blocks.rows + chunk.rows() as u64, over.bytes), instead))
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
                    return self.pull(cx, want);
                }
                pull => return pull,
            },
            Source::Input(input, filling) => {
                if self.on_full == OnFull::Keep && filling.is_some() {
                    self.mark.clear();
                    input.mark(&mut self.mark);
                }
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
            return Pull::Fail(error);
        }
        let Source::Input(_, filling) = &mut self.source else { return pull };
        match &pull {
            Pull::Rows(_) => {}
            Pull::Fail(error) => {
                if filling.is_some() {
                    let next =
                        if matches!(filling, Some(Filling::Memory(_))) { "starts anew" } else { "tries it again" };
                    log::warn!(
                        "cache: an element failed, so this pass is not complete and the next one {next}: {error}"
                    );
                    self.break_off();
                }
            }
            Pull::End => {
                if let Some(filling) = filling.take()
                    && let Err(error) = self.place.finish(&self.cx.env, filling, &self.origin, &self.hold)
                {
                    return Pull::Fail(error);
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
            let ask = if self.drop > 0 { self.drop.min(1 << 12) as usize } else { want };
            let pull = self.pull(cx, ask);
            let events = match &pull {
                Pull::Rows(chunk) => chunk.rows() as u64,
                Pull::Fail(_) => 1,
                Pull::Pending | Pull::End => return pull,
            };
            self.given += events;
            if self.drop == 0 {
                return pull;
            }
            self.drop -= events;
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.given + self.drop);
        self.origin.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let given = at.number()?;
        let origin = Origin::read(at)?;
        let pure = self.plan.is_pure();
        if let Some(filled) = self.place.get(&self.cx.env)?.filter(|f| f.origin == origin || pure) {
            return self.read(filled, given, None);
        }
        // What lies ahead is read on to; what another pass kept is skipped; for anything else the pass begins anew.
        let same = origin == self.origin || pure;
        if same && matches!(self.source, Source::Input(..)) && self.given <= given {
            self.drop = given - self.given;
        } else if !self.go_on(given, |part| *part == origin || pure) {
            let cx = BuildCx { epoch: origin.epoch, ..self.cx.clone() };
            let mut input = cx.stage(&self.plan)?;
            input.seek(&mut At::new(&origin.start))?;
            self.fill(input)?;
            (self.origin, self.given, self.drop) = (origin, 0, given);
        }
        Ok(())
    }
}

impl Drop for CacheStage {
    fn drop(&mut self) {
        self.break_off();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{DType, Tensor};
    use crate::ops::testing::{events, in_chunks, ints};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A dataset that counts how often its elements are computed; number `bad` fails the first time.
    fn counted(n: i64, bad: i64) -> (Dataset, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let (seen, failed) = (calls.clone(), AtomicUsize::new(0));
        let ds = Dataset::range(n).unwrap().map_fn(Spec::scalar(DType::Int64), move |e| {
            seen.fetch_add(1, Relaxed);
            if e[0].tensor().item::<i64>() == bad && failed.fetch_add(1, Relaxed) == 0 {
                return Err(crate::Error::data("once"));
            }
            Ok(e)
        });
        (ds.unwrap(), calls)
    }

    #[test]
    fn the_input_is_read_once() {
        let (ds, calls) = counted(5000, -1);
        let ds = ds.cache().unwrap();
        let all: Vec<i64> = (0..5000).collect();
        assert_eq!(ints(&ds), all);
        assert_eq!(ints(&in_chunks(&ds, 7)), all);
        assert_eq!(ints(&ds.repeat(Some(2)).unwrap()).len(), 10_000);
        assert_eq!(calls.load(Relaxed), 5000);
        let index = ds.index().unwrap();
        assert_eq!(index.get(&[4999, 0]).unwrap().element(0)[0].tensor().item::<i64>(), 4999);
        assert_eq!(calls.load(Relaxed), 5000);
    }

    #[test]
    fn a_pass_with_an_error_is_not_kept() {
        let (ds, calls) = counted(4, 1);
        let ds = ds.cache().unwrap();
        assert_eq!(events(&ds), "0 ! 2 3");
        assert_eq!(events(&ds), "0 1 2 3");
        assert_eq!((events(&ds).as_str(), calls.load(Relaxed)), ("0 1 2 3", 8));
    }

    #[test]
    fn a_pass_that_stops_early_is_not_kept() {
        let (ds, calls) = counted(100_000, -1);
        let ds = ds.cache().unwrap();
        assert_eq!(ds.iter().unwrap().take(2).count(), 2);
        assert_eq!(ints(&ds).len(), 100_000);
        assert!(calls.load(Relaxed) > 100_000);
    }

    #[test]
    fn neighbours_stay_where_they_are() {
        let t = Tensor::from_items([6], &[0i64, 1, 2, 3, 4, 5]);
        let all = Chunk::new(6, crate::element::Pos::Run(0), [crate::element::Column::Dense(t)]);
        let mut filling = Blocks::default();
        (0..6).for_each(|i| filling.push(all.slice(i..i + 1)));
        assert_eq!((filling.open.len(), filling.finish().len()), (1, 6));
    }

    #[test]
    fn values_around_a_dataset_have_their_own() {
        let store = Store::default();
        let held = |n| Filled {
            rows: Rows::Memory(Held::new(Chunk::new(n, crate::element::Pos::Run(0), []))),
            rest: None,
            origin: Origin { epoch: 0, start: Arc::new([]), never: None },
            bytes: 0,
            made_for: Weak::new(),
        };
        let env = |n: i64| -> Arc<[Value]> { [Value::Tensor(Tensor::scalar(n))].into() };
        let (a, b) = (env(1), env(2));
        store.put(&a, held(1));
        assert!(store.get(&b).is_none() && store.get(&Arc::from([])).is_none());
        store.put(&Arc::from([]), held(3));
        drop(a);
        store.put(&b, held(2));
        let rows = |env: &Arc<[Value]>| match store.get(env).unwrap().rows {
            Rows::Memory(held) => held.len(),
            _ => unreachable!("in memory"),
        };
        assert_eq!((rows(&b), rows(&Arc::from([]))), (2, 3));
        assert_eq!(lock(&store.0).len(), 2);
    }

    /// Elements of 8 KB, of which some hundred fit into a small limit.
    fn large(n: i64) -> Dataset {
        let spec = Spec::leaf(crate::element::Leaf::tensor(DType::Int64, crate::element::Dims::of([Some(1024)])));
        let ds = Dataset::range(n).unwrap().map_fn(spec, |e| {
            let x: i64 = e[0].tensor().item();
            Ok([Value::Tensor(Tensor::from_items([1024], &[x; 1024]))].into_iter().collect())
        });
        ds.unwrap()
    }
    fn firsts(ds: &Dataset) -> Vec<i64> {
        ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().items::<i64>()[7]).collect()
    }
    fn limited(ds: &Dataset, bytes: usize) -> Dataset {
        ds.with_options(crate::Options { memory_limit: Some(bytes), ..Default::default() }).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_an_error_with_numbers() {
        let ds = limited(&large(1000).cache().unwrap(), 4 << 20);
        let error = ds.iter().unwrap().find_map(|e| e.err()).unwrap();
        assert_eq!(error.kind(), crate::Kind::Budget);
        let text = error.to_string();
        for part in ["cache", "elements to keep take 2.8 MB", "may keep 2.8 MB", "4.2 MB", "on_full"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(ds.iter().unwrap().any(|e| e.is_err()), "nothing was kept");
        assert_eq!(firsts(&limited(&ds, 32 << 20)), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn the_part_that_fits_is_kept() {
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = calls.clone();
        let counted = large(1000).map_fn(large(1).spec().clone(), move |e| {
            seen.fetch_add(1, Relaxed);
            Ok(e)
        });
        let shuffled = counted.unwrap().shuffle(Some(50), Some(3), true).unwrap();
        let ds = limited(&shuffled.cache_or(OnFull::Keep).unwrap(), 4 << 20);
        let first = firsts(&ds);
        let before = calls.load(Relaxed);
        // In the order of the first pass, though another one would be shuffled anew.
        assert_eq!((firsts(&ds), firsts(&in_chunks(&ds, 7))), (first.clone(), first.clone()));
        let again = (calls.load(Relaxed) - before) / 2;
        assert!((500..800).contains(&again), "{again} were made again");
        assert_eq!(ds.iter().unwrap().take(10).count(), 10);
        let mut all = first;
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn what_does_not_fit_moves_to_disk() {
        let (ds, calls) = counted(1_000_000, -1);
        let spilled = |bytes| limited(&ds.cache_or(OnFull::Spill).unwrap(), bytes);
        let all: Vec<i64> = (0..1_000_000).collect();
        let kept = spilled(1 << 20);
        assert_eq!((ints(&kept) == all, ints(&kept) == all), (true, true));
        assert_eq!(calls.load(Relaxed), 1_000_000, "the second pass read the disk");
        assert!(ds.cache_or(OnFull::Spill).unwrap().shuffle(Some(2), None, true).is_ok());
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_for_later_processes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("c");
        let folder = folder.to_str().unwrap();
        let all: Vec<i64> = (0..5000).collect();
        let (ds, calls) = counted(5000, -1);
        let kept = ds.cache_in(folder).unwrap();
        assert_eq!(kept.iter().unwrap().take(2).count(), 2);
        assert_eq!((ints(&kept), ints(&in_chunks(&kept, 7))), (all.clone(), all.clone()));
        let after = calls.load(Relaxed);
        // Another dataset of the same plan, as a later process has it.
        let (again, calls) = counted(5000, -1);
        let again = again.cache_in(folder).unwrap();
        assert_eq!((ints(&again), calls.load(Relaxed)), (all, 0));
        assert_eq!(again.index().unwrap().get(&[4999]).unwrap().element(0)[0].tensor().item::<i64>(), 4999);
        assert!(after >= 5000);
        // Another pipeline in the same folder.
        let (other, calls) = counted(3, -1);
        let other = other.cache_in(folder).unwrap();
        assert_eq!((ints(&other), ints(&other), calls.load(Relaxed)), (vec![0, 1, 2], vec![0, 1, 2], 3));
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_an_error_or_another_writer_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let (ds, calls) = counted(4, 1);
        let ds = ds.cache_in(folder).unwrap();
        assert_eq!(events(&ds), "0 ! 2 3");
        let first = ds.iter().unwrap();
        // `first` holds the lock: this pass reads the input and keeps nothing.
        assert_eq!(events(&ds), "0 1 2 3");
        assert_eq!(first.count(), 4);
        let before = calls.load(Relaxed);
        assert_eq!((events(&ds).as_str(), calls.load(Relaxed)), ("0 1 2 3", before));
    }

    /// As a later process has it: another plan, and no epoch that was counted.
    #[cfg(feature = "columnar")]
    fn parts(folder: &str, bad: i64) -> (Dataset, Arc<AtomicUsize>) {
        let (ds, calls) = counted(20_000, bad);
        let ds = in_chunks(&ds.shuffle(Some(100), Some(7), true).unwrap().cache_in(folder).unwrap(), 10);
        (ds, calls)
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_a_pass_that_breaks_off_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let whole = ints(&parts(dir.path().join("whole").to_str().unwrap(), -1).0);
        let folder = dir.path().join("parts");
        let folder = folder.to_str().unwrap();
        let (mut called, mut passes) = (0, 0);
        loop {
            let (ds, calls) = parts(folder, -1);
            // In the second pass the order would be another one: each part must go on with the first.
            let first: Vec<i64> =
                ds.iter().unwrap().take(6000 * (passes + 1)).map(|e| e.unwrap()[0].tensor().item()).collect();
            assert!(whole.starts_with(&first), "pass {passes}");
            called += calls.load(Relaxed);
            passes += 1;
            if first.len() == 20_000 {
                break;
            }
        }
        // The elements of the buffer are read again by each.
        assert!(passes == 4 && called < 20_000 + passes * 1000, "{called} calls in {passes} passes");
        let (ds, calls) = parts(folder, -1);
        assert_eq!((ints(&ds) == whole, calls.load(Relaxed)), (true, 0));
        let place = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let names: Vec<_> = std::fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name == "partial.json"), "{names:?}");
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_others_read_the_part_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let numbers = |it: &mut dyn Iterator<Item = Result<crate::element::Element>>, n| -> Vec<i64> {
            it.take(n).map(|e| e.unwrap()[0].tensor().item()).collect()
        };
        assert_eq!(parts(folder, -1).0.iter().unwrap().take(2000).count(), 2000);
        let mut first = parts(folder, -1).0.iter().unwrap();
        let begun = numbers(&mut first, 10);
        // `first` writes; this one reads the same part, and the input behind it.
        let (other, calls) = parts(folder, -1);
        let all = ints(&other);
        assert!(all.starts_with(&begun) && calls.load(Relaxed) < 18_500, "{} calls", calls.load(Relaxed));
        assert_eq!(numbers(&mut first, 20_000), all[10..]);
        assert_eq!(ints(&parts(folder, -1).0), all);
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_a_state_goes_on_in_a_part() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let (ds, _) = parts(folder, -1);
        let mut it = ds.iter().unwrap();
        let all: Vec<i64> = it.by_ref().take(3000).map(|e| e.unwrap()[0].tensor().item()).collect();
        let state = it.state().unwrap();
        drop(it);
        let (again, calls) = parts(folder, -1);
        let rest: Vec<i64> = again.iter_from(&state).unwrap().map(|e| e.unwrap()[0].tensor().item()).collect();
        assert_eq!(rest.len(), 17_000);
        assert!(calls.load(Relaxed) < 17_500, "{} calls", calls.load(Relaxed));
        assert_eq!(ints(&parts(folder, -1).0), [all, rest].concat());
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_what_came_before_an_error_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let lines = |calls: &Arc<AtomicUsize>, fails: bool| {
            let seen = calls.clone();
            let ds = Dataset::range(3000).unwrap().map_fn(Spec::scalar(DType::Int64), move |e| {
                seen.fetch_add(1, Relaxed);
                match fails && e[0].tensor().item::<i64>() == 2000 {
                    true => Err(Error::data("not yet")),
                    false => Ok(e),
                }
            });
            in_chunks(&ds.unwrap().cache_in(folder).unwrap(), 10)
        };
        let calls = Arc::new(AtomicUsize::new(0));
        assert_eq!(lines(&calls, true).iter().unwrap().filter(|e| e.is_err()).count(), 1);
        assert_eq!(ints(&lines(&calls, false)), (0..3000).collect::<Vec<_>>());
        assert_eq!(calls.load(Relaxed), 3000 + 1000);
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_a_part_that_cannot_be_read_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let whole = ints(&parts(dir.path().join("whole").to_str().unwrap(), -1).0);
        for (was, is) in [("\"rest\"", "\"rust\""), ("\"version\": \"", "\"version\": \"9"), ("{", "")] {
            assert_eq!(parts(folder, -1).0.iter().unwrap().take(2000).count(), 2000);
            // Whoever looks for it waits for the pass that was stopped.
            drop(parts(folder, -1).0.index());
            let place = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path().join("partial.json"));
            let partial = place.into_iter().find(|path| path.exists()).unwrap();
            let text = std::fs::read_to_string(&partial).unwrap();
            std::fs::write(&partial, text.replacen(was, is, 1)).unwrap();
            assert_eq!(parts(folder, -1).0.iter().unwrap().take(2000).count(), 2000, "{is}");
        }
        assert_eq!(ints(&parts(folder, -1).0), whole);
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn snapshots_are_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        let bytes = |name: &str| -> u64 {
            let place = std::fs::read_dir(folder(name)).unwrap().next().unwrap().unwrap().path();
            let text = std::fs::read_to_string(place.join(crate::save::MANIFEST)).unwrap();
            let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
            manifest["shards"][0].as_array().unwrap().iter().map(|f| f["bytes"].as_u64().unwrap()).sum()
        };
        let ds = large(300);
        let all: Vec<i64> = (0..300).collect();
        for compression in ["NONE", "AUTO", "GZIP"] {
            let kept = ds.snapshot(&folder(compression), compression).unwrap();
            assert_eq!((firsts(&kept), firsts(&kept)), (all.clone(), all.clone()));
        }
        assert!(bytes("AUTO") < bytes("NONE") / 4 && bytes("GZIP") < bytes("NONE") / 4);
        assert!(ds.snapshot(&folder("x"), "LZ77").unwrap_err().to_string().contains("LZ77"));
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn on_disk_what_is_made_of_files_goes_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        let lines = |text: &str| {
            std::fs::write(path("lines"), text).unwrap();
            let ds = Dataset::text_line(&[path("lines")], "").unwrap().cache_in(&path("c")).unwrap();
            (ds.iter().unwrap().count(), ds.iter().unwrap().count())
        };
        assert_eq!((lines("a\nb\n"), lines("a\nb\nc\n")), ((2, 2), (3, 3)));
    }
}
