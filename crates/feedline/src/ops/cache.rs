//! `cache()`: the elements are kept after the first complete pass, in memory or on disk (`cache_disk.rs`).
//!
//! A state does not hold them: a process that resumes reads them again, as the pass read them that filled the cache here,
//! and so fills its own.

#[cfg(feature = "columnar")]
use super::cache_disk::OnDisk;
use super::held::Held;
#[cfg(feature = "columnar")]
use super::stored_set::{StoredSet, StoredStage};
use crate::dataset::Dataset;
use crate::element::{Chunk, Spec, Value};
use crate::error::Result;
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Saved, Stage};
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

pub static INFO: OpInfo = OpInfo {
    name: "cache",
    doc: "Keeps all elements after the first complete pass, in memory or on disk; later passes read them there.",
    params: &[Param::new("filename", "None", "the folder to keep them in; None: in memory")],
    read: read::<Cache>,
};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(skip)]
    store: Arc<Store>,
    /// What stands before it, as it was asked for: what is kept on disk is known by it.
    #[serde(skip)]
    input: OnceLock<Plan>,
    #[cfg(feature = "columnar")]
    #[serde(skip)]
    identity: OnceLock<Vec<u8>>,
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
    /// Keeps the elements in a folder, for later processes too. Each pipeline has its own place there.
    #[cfg(feature = "columnar")]
    pub fn cache_in(&self, folder: &str) -> Result<Dataset> {
        self.apply(Cache { filename: Some(folder.into()), ..Cache::default() })
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
    origin: Origin,
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
}

/// A pass over the input: what it gives depends on its epoch and on the seeds that it began with.
#[derive(Clone, PartialEq)]
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
            return Ok(Place::Disk(OnDisk::new(filename, identity, input, &_cx.env)?));
        }
        Ok(Place::Memory(self.store.clone()))
    }
}

impl Place {
    fn get(&self, env: &Arc<[Value]>) -> Result<Option<Filled>> {
        match self {
            Place::Memory(store) => Ok(store.get(env)),
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => disk
                .get()?
                .map(|(set, origin)| Ok(Filled { rows: Rows::Disk(set), origin: Origin::from_json(&origin)? }))
                .transpose(),
        }
    }
    /// Begins to keep a pass; `None` if somebody else does.
    fn begin(&self) -> Result<Option<Filling>> {
        match self {
            Place::Memory(_) => Ok(Some(Filling::Memory(Blocks::default()))),
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => Ok(disk.begin()?.map(|writer| Filling::Disk(Box::new(writer)))),
        }
    }
    fn finish(&self, env: &Arc<[Value]>, filling: Filling, origin: &Origin) -> Result<()> {
        match (self, filling) {
            (Place::Memory(store), Filling::Memory(blocks)) => {
                store.put(env, Filled { rows: Rows::Memory(blocks.finish()), origin: origin.clone() });
                Ok(())
            }
            #[cfg(feature = "columnar")]
            (_, Filling::Disk(writer)) => writer.finish(Some(origin.to_json()?)).map(|_| ()),
            #[cfg(feature = "columnar")]
            _ => Ok(()),
        }
    }
}

/// What was read of a pass so far.
enum Filling {
    Memory(Blocks),
    #[cfg(feature = "columnar")]
    Disk(Box<crate::save::SetWriter>),
}

impl Filling {
    fn push(&mut self, chunk: &Chunk) -> Result<()> {
        match self {
            Filling::Memory(blocks) => {
                chunk.freeze();
                blocks.push(chunk.clone());
                Ok(())
            }
            #[cfg(feature = "columnar")]
            Filling::Disk(writer) => writer.push(0, chunk),
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
        }
        let _brief = brief();
        self.input.get_or_init(|| inputs[0].clone());
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (cx, plan, place) = (cx.clone(), node.inputs[0].clone(), self.place(cx, node)?);
        let (source, origin) = match place.get(&cx.env)? {
            Some(Filled { rows, origin }) => (Source::Held(rows.stage()), origin),
            None => {
                let mut input = cx.stage(&plan)?;
                let origin = Origin::of(&cx, &mut *input);
                (Source::Input(input, place.begin()?), origin)
            }
        };
        Ok(Built::Stage(Box::new(CacheStage { cx, plan, place, source, origin, given: 0, drop: 0 })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.place(cx, node)?.get(&cx.env)? {
            Some(Filled { rows: Rows::Memory(held), .. }) => Ok(Some(Arc::new(held))),
            #[cfg(feature = "columnar")]
            Some(Filled { rows: Rows::Disk(set), .. }) => {
                Ok(Some(Arc::new(super::table::TableIndex::new(set, Arc::default(), cx))))
            }
            None => cx.index(&node.inputs[0]),
        }
    }
    /// Where they are kept does not change what they are.
    fn tunables(&self) -> &'static [&'static str] {
        &["filename"]
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Chunks are put together into blocks of about this size, so that later passes are not bound to the small chunks with
/// which the first one started.
const BLOCK_BYTES: usize = 4 << 20;

#[derive(Default)]
struct Blocks {
    blocks: Vec<Chunk>,
    open: Vec<Chunk>,
    bytes: usize,
}

impl Blocks {
    fn push(&mut self, chunk: Chunk) {
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
    source: Source,
    origin: Origin,
    /// Elements and errors so far.
    given: u64,
    /// To be left out, though they are kept: they were given before the state was taken.
    drop: u64,
}

enum Source {
    Held(Box<dyn Stage>),
    /// What was read so far; `None` once this pass can no longer fill the cache.
    Input(Box<dyn Stage>, Option<Filling>),
}

impl CacheStage {
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let (input, filling) = match &mut self.source {
            Source::Held(held) => return held.next(cx, want),
            Source::Input(input, filling) => (input, filling),
        };
        let pull = input.next(cx, want);
        match &pull {
            Pull::Rows(chunk) => {
                if let Some(Err(error)) = filling.as_mut().map(|f| f.push(chunk)) {
                    *filling = None;
                    log::warn!("cache: the elements cannot be kept, so the next pass starts anew: {error}");
                }
            }
            Pull::Fail(error) => {
                if filling.take().is_some() {
                    log::warn!(
                        "cache: an element failed, so this pass is not kept and the next one starts anew: {error}"
                    );
                }
            }
            // Stages that are stopped also say that they are at the end.
            Pull::End if !cx.is_cancelled() => {
                if let Some(filling) = filling.take()
                    && let Err(error) = self.place.finish(&self.cx.env, filling, &self.origin)
                {
                    log::warn!("cache: the elements cannot be kept, so the next pass starts anew: {error}");
                }
            }
            Pull::Pending | Pull::End => {}
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
        let same = origin == self.origin || self.plan.is_pure();
        if let Some(filled) = self.place.get(&self.cx.env)?.filter(|f| f.origin == origin || self.plan.is_pure()) {
            let mut held = filled.rows.stage();
            held.seek(&mut At::new(&[Saved::Number(given)]))?;
            (self.source, self.origin, self.given, self.drop) = (Source::Held(held), filled.origin, given, 0);
            return Ok(());
        }
        // What lies ahead is read on to; for anything else the pass begins anew.
        if !(same && matches!(self.source, Source::Input(..)) && self.given <= given) {
            let cx = BuildCx { epoch: origin.epoch, ..self.cx.clone() };
            let mut input = cx.stage(&self.plan)?;
            input.seek(&mut At::new(&origin.start))?;
            // What this pass had begun to keep is given up first: there is one writer.
            self.source = Source::Input(input, None);
            let filling = self.place.begin()?;
            if let Source::Input(_, kept) = &mut self.source {
                *kept = filling;
            }
            (self.origin, self.given) = (origin, 0);
        }
        self.drop = given - self.given;
        Ok(())
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
            origin: Origin { epoch: 0, start: Arc::new([]), never: None },
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
            #[cfg(feature = "columnar")]
            Rows::Disk(_) => unreachable!("in memory"),
        };
        assert_eq!((rows(&b), rows(&Arc::from([]))), (2, 3));
        assert_eq!(lock(&store.0).len(), 2);
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
