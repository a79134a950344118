//! `cache()`: the elements are kept after the first complete pass, in memory (`memory.rs`) or on disk (`disk.rs`).
//!
//! What is kept in memory counts as kept by the operator (`budget.rs`). If it does not fit, `on_full` says what then: an
//! error; the part that fits stays, and later passes go on behind it as the first one did (`Filled::rest`); or all of it
//! moves to a temporary folder (`spill.rs`).
//!
//! On disk, a pass that breaks off is kept too: the next one reads what was committed and goes on behind it.
//!
//! A state does not hold them: a process that resumes reads them again, as the pass read them that filled the cache here,
//! and so fills its own (`stage.rs`).

#[cfg(feature = "columnar")]
mod disk;
mod memory;
pub(super) mod origin;
mod place;
#[cfg(feature = "columnar")]
mod spill;
mod stage;

use self::origin::Origin;
use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::Result;
use crate::op::{Op, OpInfo, Param, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Ends, Index, Mark, Run, seeds_hash};
#[cfg(feature = "columnar")]
use disk::OnDisk;
use feedline_io::brief;
use memory::{By, Store};
use place::{Filled, Place, Rows};
use serde::{Deserialize, Serialize};
use stage::CacheStage;
use std::sync::{Arc, OnceLock};

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
    /// What passes keep in which elements that fail are left out: others must not find fewer than they would make.
    #[serde(skip)]
    lenient: Arc<Store>,
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

impl Cache {
    /// Whether passes over the input differ.
    fn varies(&self) -> bool {
        self.input.get().is_some_and(|input| !input.is_pure())
    }
    fn place(&self, cx: &BuildCx, _node: &Plan) -> Result<Place> {
        #[cfg(feature = "columnar")]
        if let Some(filename) = &self.filename {
            let input = self.input.get().unwrap_or(&_node.inputs[0]);
            let mut identity = super::kept_set::known(&self.identity, input)?.to_vec();
            if cx.run.errors.is_some() {
                identity.extend(b"leaves out errors");
            }
            let compression = crate::save::compression(self.compression.as_deref().unwrap_or(""))?;
            return Ok(Place::Disk(OnDisk::new(filename, self.called(), compression, &identity, input, cx)?));
        }
        Ok(Place::Memory(self.memory(cx.run.errors.is_some()).clone()))
    }
    /// Passes that leave out errors keep what they give apart from the others.
    fn memory(&self, lenient: bool) -> &Arc<Store> {
        if lenient { &self.lenient } else { &self.store }
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
        let (plan, place, hold) = (node.inputs[0].clone(), self.place(cx, node)?, cx.hold(node).leaving(2));
        let hold = if self.on_full == OnFull::Error { hold } else { hold.giving_way() };
        let store = self.memory(cx.run.errors.is_some()).clone();
        Ok(Built::Stage(Box::new(CacheStage::new(cx.clone(), plan, (place, store), self.on_full, hold)?)))
    }
    /// Only snapshots say how they are compressed, if it be not at all.
    fn called(&self) -> &'static str {
        if self.compression.is_some() { "snapshot" } else { INFO.name }
    }
    fn hands_out_kept_rows(&self) -> bool {
        self.filename.is_none()
    }
    fn keeps_passes(&self) -> bool {
        true
    }
    fn kept_pass(&self, run: &Arc<Run>, ends: Option<&Arc<Ends>>, out: &mut Mark) -> bool {
        let told = if self.varies() { self.memory(run.errors.is_some()).passes_give(run, ends) } else { None };
        let Some((origin, is_over)) = told.filter(|(origin, _)| origin.never.is_none()) else { return false };
        out.flag(is_over);
        origin.mark(out);
        true
    }
    fn miss_pass(&self, cx: &BuildCx, at: &mut At<'_>) -> Result<()> {
        let by = if at.flag()? { By::over() } else { By::new(cx, false).beyond() };
        self.memory(cx.run.errors.is_some()).miss(Origin::read(at)?, by);
        Ok(())
    }
    fn kept_for(&self, cx: &BuildCx, out: &mut Mark) -> bool {
        let kept = || self.memory(cx.run.errors.is_some()).origin_for(&By::new(cx, false));
        let origin = if self.varies() { kept() } else { None };
        origin.filter(|origin| origin.never.is_none()).inspect(|origin| origin.mark(out)).is_some()
    }
    fn miss_kept(&self, cx: &BuildCx, at: &mut At<'_>) -> Result<()> {
        self.memory(cx.run.errors.is_some()).miss(Origin::read(at)?, By::new(cx, false));
        Ok(())
    }
    fn miss_none(&self, run: &Run, node: &Plan) {
        self.memory(run.errors.is_some()).miss_none(seeds_hash(&node.inputs[0]));
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.place(cx, node)?.get(cx)? {
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

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::element::{DType, Tensor, Value};
    use crate::error::Error;
    use crate::ops::testing::{events, in_chunks, ints};
    use crate::options::OnError;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A dataset that counts how often its elements are computed; number `bad` fails the first time.
    pub fn counted(n: i64, bad: i64) -> (Dataset, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let (seen, failed) = (calls.clone(), AtomicUsize::new(0));
        let ds = Dataset::range(n).unwrap().map_fn(Spec::scalar(DType::Int64), move |e| {
            seen.fetch_add(1, Relaxed);
            if e[0].tensor().item::<i64>() == bad && failed.fetch_add(1, Relaxed) == 0 {
                return Err(Error::data("once"));
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
    fn a_pass_that_leaves_out_errors_keeps_for_its_kind() {
        let (ds, _) = counted(4, 1);
        let cached = ds.cache().unwrap();
        let lenient =
            cached.with_options(crate::Options { on_error: Some(OnError::Skip), ..Default::default() }).unwrap();
        assert_eq!(events(&lenient), "0 2 3");
        // By now it would not fail, but what was kept stays as it is.
        assert_eq!((events(&lenient).as_str(), events(&cached).as_str()), ("0 2 3", "0 1 2 3"));
    }

    #[test]
    fn a_pass_that_stops_early_is_not_kept() {
        let (ds, calls) = counted(100_000, -1);
        let ds = ds.cache().unwrap();
        assert_eq!(ds.iter().unwrap().take(2).count(), 2);
        assert_eq!(ints(&ds).len(), 100_000);
        assert!(calls.load(Relaxed) > 100_000);
    }

    /// Elements of 8 KB, of which some hundred fit into a small limit.
    pub fn large(n: i64) -> Dataset {
        let spec = Spec::leaf(crate::element::Leaf::tensor(DType::Int64, crate::element::Dims::of([Some(1024)])));
        let ds = Dataset::range(n).unwrap().map_fn(spec, |e| {
            let x: i64 = e[0].tensor().item();
            Ok([Value::Tensor(Tensor::from_items([1024], &[x; 1024]))].into_iter().collect())
        });
        ds.unwrap()
    }
    pub fn firsts(ds: &Dataset) -> Vec<i64> {
        ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().items::<i64>()[7]).collect()
    }
    pub fn limited(ds: &Dataset, bytes: usize) -> Dataset {
        ds.with_options(crate::Options { memory_limit: Some(bytes), ..Default::default() }).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_an_error_with_numbers() {
        let ds = limited(&large(1000).cache().unwrap(), 4 << 20);
        let error = ds.iter().unwrap().find_map(|e| e.err()).unwrap();
        assert_eq!(error.kind(), crate::Kind::Budget);
        let text = error.to_string();
        // How much there is then depends on the size of chunks.
        for part in ["cache", "elements to keep take 2.", "may keep 2.8 MB", "4.2 MB", "on_full"] {
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
}
