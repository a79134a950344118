//! Where the elements of a pipeline are kept on disk. Not an operator: what a cache in a folder and a snapshot share.
//!
//! 1. The folder that the user names has a folder for each pipeline that is kept there, whose name is a hash of what it
//!    gives: the operators, their parameters, functions and arrays, the files that they list with size and time, and the
//!    values around a dataset inside a function. Files whose names are known only while it runs stand in the manifest
//!    (`kept_files.rs`).
//! 2. One iterator of one process writes there, under a lock (`save/set.rs`). The writers of this process are in a list, so
//!    that whoever comes next can wait for one that was stopped.

use super::from_generator::GeneratorAttachment;
use super::table;
use crate::element::{DType, Tensor, Value};
use crate::error::{Error, Kind, Result};
use crate::expr::HostAttachment;
use crate::expr::funcs::fingerprint64;
use crate::plan::{Outline, Plan, write_plan};
use crate::runtime::sync::atomic::AtomicBool;
use crate::save::within;
use feedline_io::{Witness, brief};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The folder of a pipeline below `path`, once nobody of this process who was stopped writes there, and the files that it
/// is named after.
pub fn place(path: &str, identity: &[u8], plan: &Plan, env: &[Value]) -> Result<(String, Vec<String>)> {
    let (key, files) = key(identity, plan, env)?;
    let folder = within(path, &key);
    await_stopped(&folder);
    Ok((folder, files))
}

/// The writers of this process.
static WRITERS: Mutex<Vec<Writer>> = Mutex::new(Vec::new());

struct Writer {
    folder: String,
    /// Whether its pass was stopped: each has its own.
    stopped: Arc<AtomicBool>,
    let_go: Arc<dyn Fn() + Send + Sync>,
}

/// How long to wait for a pass that was stopped: a worker may be in the middle of something.
const STOPS_WITHIN: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In the list as long as it lives.
pub struct Writing(String);

impl Writing {
    /// `let_go` ends it, for somebody else in the same pass.
    pub fn new(folder: &str, stopped: &Arc<AtomicBool>, let_go: impl Fn() + Send + Sync + 'static) -> Writing {
        let _brief = brief();
        let (folder, stopped) = (folder.to_string(), stopped.clone());
        lock(&WRITERS).push(Writer { folder: folder.clone(), stopped, let_go: Arc::new(let_go) });
        Writing(folder)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _brief = brief();
        let mut writers = lock(&WRITERS);
        // The folder is free already: the next one may be there.
        if let Some(first) = writers.iter().position(|writer| writer.folder == self.0) {
            writers.remove(first);
        }
    }
}

/// A loop that was left early leaves its pass to workers, who let go of it a moment later. Whoever begins the next pass
/// waits for them: it is to find what they keep, and the folder free.
fn await_stopped(folder: &str) {
    let stopping = || {
        let _brief = brief();
        lock(&WRITERS).iter().any(|writer| writer.folder == folder && writer.stopped.load(Relaxed))
    };
    let until = Instant::now() + STOPS_WITHIN;
    while stopping() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A part of a pass that was left early, by `take` for instance, is let go of by workers, too. Whoever begins to write in the
/// same pass does not wait for them.
pub fn take_over(folder: &str, pass: &Arc<AtomicBool>) {
    let is_of_pass = |writer: &&Writer| writer.folder == folder && Arc::ptr_eq(&writer.stopped, pass);
    let _brief = brief();
    let others: Vec<_> = lock(&WRITERS).iter().filter(is_of_pass).map(|writer| writer.let_go.clone()).collect();
    others.iter().for_each(|let_go| let_go());
}

/// An error of elements that were kept, and what would help. Nothing but a person throws away what is whole: the damage may
/// be one of the way there.
pub fn advised(error: Error, folder: &str, what: &str) -> Error {
    if !is_damage(&error) {
        return error;
    }
    error.reworded(|said| format!("{said}; remove the folder {folder} to have the {what} made anew"))
}

/// Whether elements are lost or spoilt.
pub fn is_damage(error: &Error) -> bool {
    use std::io::ErrorKind::{NotFound, UnexpectedEof};
    let lost = |cause: &Arc<dyn std::error::Error + Send + Sync>| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| matches!(e.kind(), NotFound | UnexpectedEof))
    };
    matches!(error.kind(), Kind::Loss | Kind::Data) || error.cause().is_some_and(lost)
}

/// Whether they may be there still: no right to read them, no free handle, a mount or a store that does not answer.
pub fn is_out_of_reach(error: &Error) -> bool {
    error.kind() == Kind::Io && !is_damage(error)
}

/// The identity of a plan, made once.
pub fn known<'a>(made: &'a OnceLock<Vec<u8>>, plan: &Plan) -> Result<&'a [u8]> {
    if let Some(identity) = made.get() {
        return Ok(identity);
    }
    let identity = identity(plan)?;
    let _brief = brief();
    Ok(made.get_or_init(|| identity))
}

/// What decides, in every process, what comes out of a plan, as far as the plan itself says it.
fn identity(plan: &Plan) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Outline::of(plan, &plan.options)?)?;
    let (_, attachments) = write_plan(plan)?;
    for object in attachments {
        if let Some(HostAttachment(function)) = object.downcast_ref() {
            text.extend(function.identity().unwrap_or_else(of_its_own));
        } else if let Some(GeneratorAttachment(generator)) = object.downcast_ref() {
            text.extend(generator.identity().unwrap_or_else(of_its_own));
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

/// Of what cannot be told from others: no other pipeline has it, in this process or another.
fn of_its_own() -> Vec<u8> {
    crate::save::new_run().into_bytes()
}

/// The name of the place of a pipeline: the same with the files as they are now, and the values around the dataset.
fn key(identity: &[u8], plan: &Plan, env: &[Value]) -> Result<(String, Vec<String>)> {
    // Whoever looks for a place reads nothing.
    let _unwatched = Witness::enter(None);
    let mut files = Vec::new();
    plan.walk_all(&mut |node| files.extend(node.op.files()));
    // A file that cannot be asked about is one that cannot be read: the pass will say so.
    let stat = |name: &String| Ok(feedline_io::stat(name).map(|s| (s.len, s.version)).ok());
    let stats = table::in_parallel(&files, stat)?;
    let around = serde_json::to_vec(&(&files, stats, env))?;
    Ok((format!("{:016x}", fingerprint64(&[identity, &around].concat())), files))
}
