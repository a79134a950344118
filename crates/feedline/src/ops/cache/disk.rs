//! `cache(filename)`: the elements of a pass in files. Not an operator: the part of `cache` that is on disk.
//!
//! 1. The folder `filename` has a folder for each pipeline that was cached there (`kept_set.rs`). No pipeline sees the
//!    elements of another.
//! 2. In it lies a saved set (`save/set.rs`): checksummed blocks, and a manifest that is written when a pass is complete.
//! 3. Before that, blocks are committed from time to time, and when a pass breaks off: with the mark of the input behind
//!    the last of them. The next pass, of whatever process, reads these blocks and sends its input to the mark; so the
//!    elements of a cache all come from one pass, however many it took. What was not committed was never there. It is the
//!    first pass over the input, whichever began to keep it: how much workers had kept when a pass was left does not matter.
//!    Where seeds were drawn by chance, another process cannot go on with it, and begins anew.
//! 4. Files end where something was committed, and the marks of earlier commits are kept too, as far as they are small. So
//!    what is damaged of a part, or not there, is made again from the commit before it on, with a warning. Of a whole cache
//!    it is an error that says what to remove.
//! 5. One iterator of one process writes, under a lock. Others read what is committed and the input behind it, and keep
//!    nothing.

use super::origin::{Origin, Step, part_steps, part_to_json};
use crate::element::{Chunk, Spec};
use crate::error::{Error, Result};
use crate::ops::kept_files::KeptFiles;
use crate::ops::kept_set::{Writing, advised, is_out_of_reach, place};
use crate::ops::stored_set::{StoredSet, positioned, positioned_spec};
use crate::plan::Plan;
use crate::runtime::{BuildCx, Run, Saved, seeds_hash};
use crate::save::{Leased, Manifest, SetWriter};
use feedline_io::{Scratch, Witness, scratch};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of the time of a pass at most this part goes into saying what was kept.
const COMMIT_PART: u32 = 16;

pub struct OnDisk {
    folder: String,
    pub files: KeptFiles,
    spec: Spec,
    /// What people call the operator.
    pub called: &'static str,
    compression: &'static str,
    /// What a part is gone on with by: another process draws other seeds where none are given.
    seeds: u64,
}

/// The elements of a complete pass, with what was said of its origin.
pub struct Kept {
    pub set: Arc<StoredSet>,
    pub origin: serde_json::Value,
}

/// The first elements of a pass, up to the last of the steps that can be read.
pub struct Part {
    pub set: Arc<StoredSet>,
    pub origin: serde_json::Value,
    pub steps: Vec<Step>,
    /// All that was committed.
    found: Arc<Leased>,
}

/// A pass that is being kept.
pub struct Keeping {
    set: SetWriter,
    steps: Vec<Step>,
    files: KeptFiles,
    /// When it committed, and how long that took: the files of a pass may be many.
    committed: (Instant, Duration),
    /// Charged to the pass, yet nothing that it keeps: other operators may keep what they may.
    #[expect(dead_code, reason = "it is there until nothing is written any more")]
    working: Scratch,
    #[expect(dead_code, reason = "it is there until the folder is free")]
    writing: Writing,
}

impl Keeping {
    pub fn push(&mut self, chunk: &Chunk) -> Result<()> {
        // It waits to be written while the consumer has it already.
        chunk.freeze();
        self.set.push(0, &positioned(chunk))
    }
    pub fn has_news(&self) -> bool {
        self.set.has_news()
    }
    pub fn is_due(&self) -> bool {
        let (last, cost) = self.committed;
        self.set.is_due() && last.elapsed() >= cost * COMMIT_PART
    }
    /// Keeps what there is so far, behind which the input goes on with `rest`.
    pub fn commit(&mut self, origin: &Origin, rest: Vec<Saved>) -> Result<()> {
        let began = Instant::now();
        self.steps.push(Step { elements: self.set.elements(), rest: rest.into() });
        let told = part_to_json(origin, &mut self.steps)?;
        self.set.commit(self.files.tell(told))?;
        self.committed = (Instant::now(), began.elapsed());
        Ok(())
    }
    pub fn finish(self, origin: serde_json::Value) -> Result<()> {
        self.set.finish(Some(self.files.tell(origin))).map(|_| ())
    }
}

impl OnDisk {
    pub fn new(
        filename: &str,
        called: &'static str,
        compression: &'static str,
        identity: &[u8],
        input: &Plan,
        cx: &BuildCx,
    ) -> Result<OnDisk> {
        let (folder, listed) = place(filename, identity, input, &cx.env)?;
        let files = KeptFiles::new(called, listed, cx);
        let (spec, seeds) = (positioned_spec(&input.spec), seeds_hash(input));
        Ok(OnDisk { folder, files, spec, called, compression, seeds })
    }
    /// The elements of a complete pass.
    pub fn get(&self) -> Result<Option<Kept>> {
        let _unwatched = Witness::enter(None);
        Leased::read(&self.folder).and_then(|found| self.open(found)).map_err(|error| self.advised(error))
    }
    /// An error of the elements of a complete pass, and what would help. Nothing but a person throws away a whole cache:
    /// the damage may be one of the way there.
    pub fn advised(&self, error: Error) -> Error {
        advised(error, &self.folder, self.called)
    }
    /// The first elements of a pass, as far as they were committed and are there.
    pub fn get_part(&self) -> Result<Option<Part>> {
        let _unwatched = Witness::enter(None);
        let read = || {
            let Some(found) = Leased::read_partial(&self.folder)?.filter(|found| self.fits(&found.manifest)) else {
                return Ok(None);
            };
            let origin = found.manifest.origin.clone().unwrap_or_default();
            if Origin::from_json(&origin)?.seeds != self.seeds {
                return Err(Error::data(
                    "it drew other seeds than this process; give shuffles and random functions seeds",
                ));
            }
            let steps = part_steps(&origin)?;
            self.part(found, origin, steps)
        };
        read().or_else(|error: Error| {
            if is_out_of_reach(&error) {
                return Err(error);
            }
            log::warn!("{}: what was kept of a pass that broke off cannot be used: {error}", self.called);
            Ok(None)
        })
    }
    /// Whether it is of such elements, and of the files as they are.
    fn fits(&self, manifest: &Manifest) -> bool {
        manifest.spec == self.spec && self.files.are_as_in(manifest)
    }
    /// As many of the steps as there are whole files for. Only the first that is missing is spoken of. What cannot be
    /// reached just now is an error: nobody should throw it away.
    fn part(&self, found: Arc<Leased>, origin: serde_json::Value, mut steps: Vec<Step>) -> Result<Option<Part>> {
        let mut missing = None;
        while let Some(step) = steps.last() {
            let opened = match found.manifest.up_to(step.elements) {
                Some(part) => StoredSet::open(&self.folder, &part, None),
                None => Err(Error::data(format!("no file ends with element {}", step.elements))),
            };
            match opened {
                Ok(set) => {
                    if let Some(error) = missing {
                        log::warn!(
                            "{}: a pass that broke off is made again from element {}: {error}",
                            self.called,
                            set.len()
                        );
                    }
                    let set = Arc::new(set.with_positions().guarded_by(found.clone()));
                    return Ok(Some(Part { set, origin, steps, found }));
                }
                Err(error) if is_out_of_reach(&error) => return Err(error),
                Err(error) => missing = missing.or(Some(error)),
            }
            steps.pop();
        }
        missing.map_or(Ok(None), Err)
    }
    /// The part of a part before the first element that cannot be read.
    pub fn before(&self, part: &Part, element: u64) -> Result<Option<Part>> {
        let _unwatched = Witness::enter(None);
        let steps = part.steps.iter().filter(|step| step.elements <= element).cloned().collect();
        match self.part(part.found.clone(), part.origin.clone(), steps) {
            Err(error) if !is_out_of_reach(&error) => Ok(None),
            found => found,
        }
    }
    fn open(&self, found: Option<Arc<Leased>>) -> Result<Option<Kept>> {
        let Some(found) = found.filter(|found| self.fits(&found.manifest)) else { return Ok(None) };
        let set = StoredSet::open(&self.folder, &found.manifest, None)?.with_positions();
        let origin = found.manifest.origin.clone().unwrap_or_default();
        Ok(Some(Kept { set: Arc::new(set.guarded_by(found)), origin }))
    }
    /// Begins to write, behind what was kept if there is some, unless somebody does already or has done so.
    pub fn begin(&self, run: &Run, behind: Option<&Part>) -> Result<Option<Keeping>> {
        let _unwatched = Witness::enter(None);
        let Some(set) = SetWriter::new(&self.folder, &self.spec, self.compression)? else {
            log::warn!("{}: {} is being filled by another iterator; this pass is not kept", self.called, self.folder);
            return Ok(None);
        };
        // It may have become whole while this one waited.
        if self.get()?.is_some() {
            return Ok(None);
        }
        let (mut set, mut steps) = (set.with_memory(run.budget.limit()), Vec::new());
        if let Some(part) = behind {
            // Somebody may have gone on with it before this one had the lock.
            if Manifest::read_partial(&self.folder)?.as_ref() != Some(&part.found.manifest) {
                return Ok(None);
            }
            steps.clone_from(&part.steps);
            if let Some(manifest) = part.found.manifest.up_to(part.set.len()) {
                set.go_on(&manifest);
            }
        }
        let _entered = run.budget.enter();
        let working = scratch(set.working_bytes());
        let (files, writing) = (self.files.clone(), Writing::new(&self.folder, &run.cancelled, || {}));
        let committed = (Instant::now(), Duration::ZERO);
        Ok(Some(Keeping { set, steps, files, committed, working, writing }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counted, firsts, large};
    use super::Manifest;
    use crate::dataset::Dataset;
    use crate::element::{DType, Spec, Tensor};
    use crate::error::{Error, Kind, Result};
    use crate::ops::kept_set::{is_damage, is_out_of_reach};
    use crate::ops::testing::{events, in_chunks, ints};
    use crate::save::within;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
    fn parts(folder: &str, bad: i64) -> (Dataset, Arc<AtomicUsize>) {
        let (ds, calls) = counted(20_000, bad);
        let ds = in_chunks(&ds.shuffle(Some(100), Some(7), true).unwrap().cache_in(folder).unwrap(), 10);
        (ds, calls)
    }

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

    /// Another process draws another one: what was held of the rows of before would be lost, or come twice.
    #[test]
    fn on_disk_a_pass_by_a_seed_that_was_drawn_is_gone_on_with_by_that_seed_only() {
        let dir = tempfile::tempdir().unwrap();
        let ds = || {
            let ds = Dataset::range(20_000).unwrap().shuffle(Some(100), None, true).unwrap();
            in_chunks(&ds.cache_in(dir.path().to_str().unwrap()).unwrap(), 10)
        };
        let here = ds();
        let first: Vec<i64> = here.iter().unwrap().take(6000).map(|e| e.unwrap()[0].tensor().item()).collect();
        // In the same process it is gone on with.
        assert!(here.iter().unwrap().take(6000).map(|e| e.unwrap()[0].tensor().item::<i64>()).eq(first));
        let mut all = ints(&ds());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..20_000));
    }

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

    /// Two parts of a pass, each a file, of which the second is harmed.
    fn harmed(folder: &str, harm: impl Fn(&str)) {
        for taken in [2000, 6000] {
            assert_eq!(parts(folder, -1).0.iter().unwrap().take(taken).count(), taken);
        }
        // Whoever looks for it waits for the pass that was stopped.
        drop(parts(folder, -1).0.index());
        let place = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let manifest = Manifest::read_partial(place.to_str().unwrap()).unwrap().unwrap();
        assert!(manifest.shards[0].len() > 1 && manifest.elements >= 6000, "{manifest:?}");
        harm(&within(place.to_str().unwrap(), &manifest.shards[0].last().unwrap().name));
    }
    fn flip(file: &str) {
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(file, bytes).unwrap();
    }
    fn cut(file: &str) {
        let bytes = std::fs::read(file).unwrap();
        std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    }
    fn remove(file: &str) {
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn what_is_out_of_reach_is_not_thrown_away() {
        let io = |kind: std::io::ErrorKind| {
            Error::io(&std::io::Error::from(kind)).with_source(Arc::new(std::io::Error::from(kind)))
        };
        use std::io::ErrorKind::{NotFound, PermissionDenied, TimedOut, UnexpectedEof};
        for (error, lost) in [
            (io(NotFound), true),
            (io(UnexpectedEof), true),
            (io(PermissionDenied), false),
            (io(TimedOut), false),
            (Error::data("a checksum"), true),
        ] {
            assert_eq!((is_damage(&error), is_out_of_reach(&error)), (lost, !lost), "{error}");
        }
        // A folder in place of a file can be opened by nobody, and is not nothing.
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        harmed(folder, |file| {
            std::fs::rename(file, format!("{file}.away")).unwrap();
            std::fs::create_dir(file).unwrap();
        });
        let place = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let before = std::fs::read(place.join("partial.json")).unwrap();
        assert_eq!(parts(folder, -1).0.iter().err().map(|e| e.kind()), Some(Kind::Io));
        assert_eq!(std::fs::read(place.join("partial.json")).unwrap(), before);
    }

    #[test]
    fn a_part_that_is_damaged_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let whole = ints(&parts(dir.path().join("whole").to_str().unwrap(), -1).0);
        for (name, harm) in [("flip", flip as fn(&str)), ("cut", cut), ("remove", remove)] {
            let folder = dir.path().join(name);
            let folder = folder.to_str().unwrap();
            harmed(folder, harm);
            let (ds, calls) = parts(folder, -1);
            assert!(ints(&ds) == whole, "{name}");
            // Those of the first part were not made again, but for what the shuffle holds.
            let calls = calls.load(Relaxed);
            assert!((14_000..18_500).contains(&calls), "{name}: {calls} calls");
            let (ds, calls) = parts(folder, -1);
            assert_eq!((ints(&ds) == whole, calls.load(Relaxed)), (true, 0), "{name}: it is whole now");
        }
    }

    #[test]
    fn a_state_goes_on_where_a_part_was_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        harmed(folder, flip);
        let (ds, _) = parts(folder, -1);
        let mut it = ds.iter().unwrap();
        let first: Vec<i64> = it.by_ref().take(3000).map(|e| e.unwrap()[0].tensor().item()).collect();
        let state = it.state().unwrap();
        let rest: Vec<i64> = it.map(|e| e.unwrap()[0].tensor().item()).collect();
        let again: Vec<i64> =
            parts(folder, -1).0.iter_from(&state).unwrap().map(|e| e.unwrap()[0].tensor().item()).collect();
        assert_eq!((again == rest, first.len() + rest.len()), (true, 20_000));
    }

    #[test]
    fn the_damage_of_a_whole_cache_says_what_to_remove() {
        let dir = tempfile::tempdir().unwrap();
        let numbers = |folder: &str| counted(1000, -1).0.cache_in(folder).unwrap();
        for (name, harm) in [("flip", flip as fn(&str)), ("cut", cut), ("remove", remove)] {
            let folder = dir.path().join(name);
            let folder = folder.to_str().unwrap();
            assert_eq!(ints(&numbers(folder)).len(), 1000);
            let place = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
            let place = place.to_str().unwrap();
            harm(&within(place, &Manifest::read(place).unwrap().unwrap().shards[0][0].name));
            let read = || numbers(folder).iter()?.try_for_each(|element| element.map(|_| ()));
            let text = read().unwrap_err().to_string();
            assert!(text.contains(&format!("remove the folder {place}")) && text.contains(".arrow"), "{text}");
            std::fs::remove_dir_all(place).unwrap();
            read().unwrap();
        }
    }

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

    #[test]
    fn on_disk_a_pass_has_its_files_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        let texts = || {
            let read = |b: &mut crate::expr::Builder, x: &[usize]| b.call("io.read_file", x, Default::default());
            let names = Tensor::strings([2], &[path("a"), path("a")]);
            let ds = Dataset::from_tensor_slices(names).unwrap().map(read).unwrap().cache_in(&path("c")).unwrap();
            in_chunks(&ds, 1)
        };
        let text = |e: Result<crate::element::Element>| e.unwrap()[0].tensor().str_at(0).to_vec();
        let runs = || -> usize {
            let place = std::fs::read_dir(path("c")).unwrap().next().unwrap().unwrap().path();
            std::fs::read_dir(place).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count()
        };
        std::fs::write(path("a"), "1").unwrap();
        assert_eq!(texts().iter().unwrap().count(), 2);
        let mut reading = texts().iter().unwrap();
        assert_eq!(text(reading.next().unwrap()), b"1");
        std::fs::write(path("a"), "other").unwrap();
        // On a file system of another machine it would not be enough that they are open.
        assert_eq!((texts().iter().unwrap().map(text).collect::<Vec<_>>(), runs()), (vec![b"other".to_vec(); 2], 2));
        assert_eq!(text(reading.next().unwrap()), b"1");
        drop(reading);
        crate::ops::testing::until(|| runs() == 1);
    }

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

    #[test]
    fn on_disk_files_that_are_read_by_name_are_known_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        let calls = Arc::new(AtomicUsize::new(0));
        let texts = |taken: usize| -> Vec<String> {
            let names = Tensor::strings([2], &[path("a"), path("b")]);
            let read = |b: &mut crate::expr::Builder, x: &[usize]| b.call("io.read_file", x, Default::default());
            let seen = calls.clone();
            let ds = Dataset::from_tensor_slices(names).unwrap().map(read).unwrap();
            let ds = ds.map_fn(Spec::scalar(DType::String), move |e| {
                seen.fetch_add(1, Relaxed);
                Ok(e)
            });
            let ds = in_chunks(&ds.unwrap().cache_in(&path("c")).unwrap(), 1);
            let text = |e: crate::element::Element| String::from_utf8(e[0].tensor().str_at(0).to_vec()).unwrap();
            ds.iter().unwrap().take(taken).map(|e| text(e.unwrap())).collect()
        };
        std::fs::write(path("a"), "1").unwrap();
        std::fs::write(path("b"), "2").unwrap();
        assert_eq!(
            (texts(9), texts(9), calls.load(Relaxed)),
            (vec!["1".into(), "2".into()], vec!["1".into(), "2".into()], 2)
        );
        std::fs::write(path("b"), "other").unwrap();
        assert_eq!(texts(9), ["1", "other"]);
        assert_eq!(texts(9), ["1", "other"]);
        assert_eq!(calls.load(Relaxed), 4);
    }
}
