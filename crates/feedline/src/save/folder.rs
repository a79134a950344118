//! A folder that one process at a time writes into. The lock ends with the process, however that ends.

use super::lease::claim;
use super::set::{MANIFEST, PARTIAL};
use crate::error::{Error, Kind, Result};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder and locks it; `None` while somebody else writes into it.
    pub fn lock(path: &str) -> Result<Option<Folder>> {
        let failed = |e: io::Error| Error::new(Kind::Io, e.to_string()).in_file(path, None).with_source(Arc::new(e));
        let path = PathBuf::from(path);
        fs::create_dir_all(&path).map_err(failed)?;
        let options = || File::options().write(true).create(true).truncate(false).open(path.join(LOCK));
        let lock = options().map_err(failed)?;
        // SAFETY: an open descriptor; the lock ends with it.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Some(Folder { path, _lock: lock }));
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            e => Err(failed(e)),
        }
    }
    /// Removes what runs that were killed have left: files that are not among those to `keep` (`run/file`), runs without
    /// any unless somebody reads them, and what they were about to name. Nobody else writes here. It need not work.
    pub fn sweep(&self, keep: &HashSet<&str>) {
        let of_runs: HashSet<&str> = keep.iter().filter_map(|file| Some(file.split_once('/')?.0)).collect();
        for name in names(&self.path) {
            let path = self.path.join(&name);
            if is_run(&name) && of_runs.contains(name.as_str()) {
                let is_left = |file: &String| file != LOCK && !keep.contains(format!("{name}/{file}").as_str());
                names(&path).filter(is_left).for_each(|file| drop(fs::remove_file(path.join(file))));
            } else if is_run(&name) {
                remove_run(&path);
            } else if name.strip_prefix(GONE).is_some_and(is_run) {
                drop(fs::remove_dir_all(path));
            } else if is_unnamed(&name) {
                drop(fs::remove_file(self.path.join(name)));
            }
        }
    }
}

/// Removes a run that no manifest names, unless somebody reads it. It need not work.
pub fn remove_run(run: &Path) {
    let (Some(_claim), Some(name)) = (claim(run), run.file_name().and_then(|name| name.to_str())) else { return };
    // In one step: readers find all of it or nothing.
    let gone = run.with_file_name(format!("{GONE}{name}"));
    if fs::rename(run, &gone).is_ok() {
        drop(fs::remove_dir_all(gone));
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

pub const LOCK: &str = ".lock";
/// In front of the name of a run that is being removed.
const GONE: &str = "gone-";

fn is_run(name: &str) -> bool {
    name.strip_prefix("run-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
}

/// Whether it was to become a manifest.
fn is_unnamed(name: &str) -> bool {
    let of = |manifest| name.strip_prefix('.').and_then(|name| name.strip_prefix(manifest)).is_some();
    name.ends_with(".tmp") && (of(MANIFEST) || of(PARTIAL))
}

/// A name for a run that no other has.
pub fn new_run() -> String {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_micros());
    format!("run-{now:x}-{:x}-{count:x}", std::process::id())
}

/// The folder of a name that is no URL.
pub fn local(name: &str) -> Option<&Path> {
    (!name.contains("://")).then(|| Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_refers_to_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for run in ["run-1-2-3", "run-4-5-6", "mine"] {
            fs::create_dir(path(run)).unwrap();
        }
        fs::create_dir(path("gone-run-7-8-9")).unwrap();
        let kept = ["run-1-2-3/0.arrow", "run-1-2-3/.lock", "mine/0.arrow", "dataset.json", ".mine.tmp"];
        let gone = [
            "run-1-2-3/1.arrow",
            "run-1-2-3/.2.arrow.7-0.tmp",
            "run-4-5-6/0.arrow",
            "gone-run-7-8-9/0.arrow",
            ".partial.json.7-1.tmp",
            ".dataset.json.7-2.tmp",
        ];
        kept.iter().chain(&gone).for_each(|name| fs::write(path(name), "x").unwrap());
        let folder = Folder::lock(dir.path().to_str().unwrap()).unwrap().unwrap();
        folder.sweep(&HashSet::from([kept[0]]));
        assert!(kept.iter().all(|name| path(name).exists()));
        assert!(!gone.iter().any(|name| path(name).exists()) && !path("run-4-5-6").exists());
        assert!(!path("gone-run-7-8-9").exists());
    }
}
