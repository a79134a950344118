//! `cache(filename)`: the elements of a pass in files. Not an operator: the part of `cache` that is on disk.
//!
//! 1. The folder `filename` has a folder for each pipeline that was cached there, whose name is a hash of what it gives: the
//!    operators, their parameters, functions and arrays, the files that they read with size and time, and the values around
//!    a dataset inside a function. No pipeline sees the elements of another.
//! 2. In it lies a saved set (`save/set.rs`): checksummed blocks, and a manifest that is written when a pass is complete.
//! 3. Before that, blocks are committed from time to time, and when a pass breaks off: with the mark of the input behind
//!    the last of them. The next pass, of whatever process, reads these blocks and sends its input to the mark; so the
//!    elements of a cache all come from one pass, however many it took. What was not committed was never there.
//! 4. One iterator of one process writes, under a lock. Others read what is committed and the input behind it, and keep
//!    nothing.

use super::from_generator::GeneratorAttachment;
use super::stored_set::{StoredSet, positioned, positioned_spec};
use super::table;
use crate::element::{Chunk, DType, Spec, Tensor, Value};
use crate::error::Result;
use crate::expr::HostAttachment;
use crate::expr::funcs::fingerprint64;
use crate::plan::{Outline, Plan, write_plan};
use crate::runtime::Run;
use crate::runtime::sync::atomic::AtomicBool;
use crate::save::{Manifest, SetWriter, within};
use feedline_io::brief;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub struct OnDisk {
    folder: String,
    spec: Spec,
    compression: &'static str,
}

/// The elements of a pass, all or the first ones, with what was said of its origin.
pub struct Kept {
    pub set: Arc<StoredSet>,
    pub origin: serde_json::Value,
}

/// The writers of this process: where each writes, and whether its pass was stopped.
static WRITERS: Mutex<Vec<(String, Arc<AtomicBool>)>> = Mutex::new(Vec::new());
/// How long to wait for a pass that was stopped: a worker may be in the middle of something.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In the list as long as it lives.
struct Writer(String);

impl Writer {
    fn new(folder: &str, stopped: &Arc<AtomicBool>) -> Writer {
        let _brief = brief();
        lock(&WRITERS).push((folder.into(), stopped.clone()));
        Writer(folder.into())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _brief = brief();
        let mut writers = lock(&WRITERS);
        // The folder is free already: the next one may be there.
        if let Some(first) = writers.iter().position(|(folder, _)| *folder == self.0) {
            writers.remove(first);
        }
    }
}

/// A loop that was left early leaves its pass to workers, who let go of it a moment later. Whoever begins the next pass
/// waits for them: it is to find what they keep, and the folder free.
fn await_stopped(folder: &str) {
    let stopping = || {
        let _brief = brief();
        lock(&WRITERS).iter().any(|(writer, stopped)| writer == folder && stopped.load(Relaxed))
    };
    let until = Instant::now() + STOPS_WITHIN;
    while stopping() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A pass that is being kept.
pub struct Keeping(SetWriter, #[expect(dead_code, reason = "it is there until the folder is free")] Writer);

impl Keeping {
    pub fn push(&mut self, chunk: &Chunk) -> Result<()> {
        self.0.push(0, &positioned(chunk))
    }
    pub fn has_news(&self) -> bool {
        self.0.has_news()
    }
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }
    pub fn commit(&mut self, origin: serde_json::Value) -> Result<()> {
        self.0.commit(origin)
    }
    pub fn finish(self, origin: serde_json::Value) -> Result<()> {
        self.0.finish(Some(origin)).map(|_| ())
    }
    pub fn working_bytes(&self) -> usize {
        self.0.working_bytes()
    }
}

impl OnDisk {
    pub fn new(
        filename: &str,
        compression: &'static str,
        identity: &[u8],
        input: &Plan,
        env: &[Value],
    ) -> Result<OnDisk> {
        let folder = within(filename, &key(identity, input, env)?);
        await_stopped(&folder);
        Ok(OnDisk { folder, spec: positioned_spec(&input.spec), compression })
    }
    /// The elements of a complete pass.
    pub fn get(&self) -> Result<Option<Kept>> {
        self.open(Manifest::read(&self.folder)?)
    }
    /// The first elements of a pass, as far as they were committed. What is damaged is as good as none.
    pub fn get_part(&self) -> Option<Kept> {
        Manifest::read_partial(&self.folder).and_then(|manifest| self.open(manifest)).unwrap_or_else(|error| {
            log::warn!("cache: what was kept of a pass that broke off cannot be used: {error}");
            None
        })
    }
    fn open(&self, manifest: Option<Manifest>) -> Result<Option<Kept>> {
        let Some(manifest) = manifest.filter(|m| m.spec == self.spec) else { return Ok(None) };
        let set = StoredSet::open(&self.folder, &manifest, None)?.with_positions();
        Ok(Some(Kept { set: Arc::new(set), origin: manifest.origin.unwrap_or_default() }))
    }
    /// Begins to write, behind what was kept if there is some, unless somebody does already or has done so.
    pub fn begin(&self, run: &Run, behind: Option<&Kept>) -> Result<Option<Keeping>> {
        let Some(writer) = SetWriter::new(&self.folder, &self.spec, self.compression)? else {
            log::warn!("cache: {} is being filled by another iterator; this pass is not kept", self.folder);
            return Ok(None);
        };
        let mut writer = writer.with_memory(run.budget.limit());
        if let Some(part) = behind {
            // Somebody may have gone on with it before this one had the lock.
            match Manifest::read_partial(&self.folder)? {
                Some(now) if now.elements == part.set.len() && now.origin.as_ref() == Some(&part.origin) => {
                    writer.go_on(&now);
                }
                _ => return Ok(None),
            }
        }
        // It may have become whole while this one waited.
        let free = self.get()?.is_none();
        Ok(free.then(|| Keeping(writer, Writer::new(&self.folder, &run.cancelled))))
    }
}

/// What decides, in every process, what comes out of a plan, as far as the plan itself says it.
pub fn identity(plan: &Plan) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Outline::of(plan)?)?;
    let (_, attachments) = write_plan(plan)?;
    for object in attachments {
        if let Some(HostAttachment(function)) = object.downcast_ref() {
            text.extend(function.identity());
        } else if let Some(GeneratorAttachment(generator)) = object.downcast_ref() {
            text.extend(generator.identity());
        } else if let Some(tensor) = object.downcast_ref::<Tensor>() {
            // The outline looks at samples of large ones; here a single other byte matters.
            match tensor.dtype() {
                DType::String => tensor.strs().for_each(|s| text.extend(fingerprint64(s).to_le_bytes())),
                _ => text.extend(fingerprint64(tensor.bytes()).to_le_bytes()),
            }
        }
    }
    Ok(text)
}

/// The name of the place of a pipeline: the same with the files as they are now, and the values around the dataset.
fn key(identity: &[u8], plan: &Plan, env: &[Value]) -> Result<String> {
    let mut files = Vec::new();
    plan.walk_all(&mut |node| files.extend(node.op.files()));
    // A file that cannot be asked about is one that cannot be read: the pass will say so.
    let stat = |name: &String| {
        Ok(feedline_io::open(name).and_then(|source| source.stat().wait()).map(|s| (s.len, s.version)).ok())
    };
    let stats = table::in_parallel(&files, stat)?;
    let around = serde_json::to_vec(&(files, stats, env))?;
    Ok(format!("{:016x}", fingerprint64(&[identity, &around].concat())))
}
