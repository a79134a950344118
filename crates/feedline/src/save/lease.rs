//! The right to read the files of a set to the end, however often the set is written anew meanwhile.
//!
//! 1. A run has a file `.lock` in its folder. Whoever reads holds a shared lock on it, which ends with the process,
//!    however that ends.
//! 2. Whoever writes removes the runs that no manifest names (`folder.rs`), but for those that somebody reads: a run goes
//!    under an exclusive lock, and in one step, by another name for its folder.
//! 3. Then the last who reads it removes it. If that one was killed, or may not, the next writer does.
//! 4. A run may go between a look at the manifest and the lock. Then another manifest is there by now, which is read.
//!
//! Runs of before have no such file, and object stores no locks: nothing is held there. Files that are open by then can be
//! read on in any case.

use super::folder::{LOCK, local, remove_run};
use super::set::{MANIFEST, Manifest, PARTIAL};
use crate::error::{Error, Kind, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sets are not written anew faster than somebody can look at them, so often in a row.
const LOOKS: usize = 20;

/// A manifest whose files stay as long as this is there.
#[derive(Debug)]
pub struct Leased {
    pub manifest: Manifest,
    lease: Lease,
}

impl Leased {
    /// The manifest of a folder; `None` if there is none.
    pub fn read(folder: &str) -> Result<Option<Arc<Leased>>> {
        Leased::read_named(folder, MANIFEST)
    }
    /// What was committed of a run that has not ended.
    pub fn read_partial(folder: &str) -> Result<Option<Arc<Leased>>> {
        Leased::read_named(folder, PARTIAL)
    }
    fn read_named(folder: &str, name: &'static str) -> Result<Option<Arc<Leased>>> {
        let mut before = None;
        for _ in 0..LOOKS {
            // Before it is read: one that is replaced meanwhile is not the one that this was.
            let version = local(folder).and_then(|path| version(&path.join(name)));
            let Some(manifest) = Manifest::read_named(folder, name)? else { return Ok(None) };
            let mut lease = Lease { folder: folder.into(), name, version, runs: vec![] };
            // Where the same manifest names what is not there, files are lost: opening them says so.
            if lease.take(&manifest)? || before.as_ref() == Some(&manifest) {
                return Ok(Some(Arc::new(Leased { manifest, lease })));
            }
            before = Some(manifest);
        }
        Err(Error::new(Kind::Io, "it is written anew all the time").in_file(folder, None))
    }
    /// Whether it is still what the folder says.
    pub fn is_current(&self) -> bool {
        self.lease.is_current()
    }
}

#[derive(Debug)]
struct Lease {
    folder: String,
    /// The manifest that it was read of, and which one that was.
    name: &'static str,
    version: Option<(u64, i64, i64)>,
    /// Their folders, with the open file that is locked.
    runs: Vec<(PathBuf, File)>,
}

fn version(path: &Path) -> Option<(u64, i64, i64)> {
    fs::metadata(path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

/// The folders of its files.
fn runs(manifest: &Manifest) -> BTreeSet<&str> {
    manifest.shards.iter().flatten().filter_map(|file| file.name.split_once('/')).map(|(run, _)| run).collect()
}

impl Lease {
    /// Locks all runs; false if one is gone.
    fn take(&mut self, manifest: &Manifest) -> Result<bool> {
        let Some(folder) = local(&self.folder) else { return Ok(true) };
        for run in runs(manifest) {
            let run = folder.join(run);
            match share(&run) {
                Ok(Some(lock)) => self.runs.push((run, lock)),
                Ok(None) if run.exists() => {}
                Ok(None) => return Ok(false),
                Err(e) => {
                    let name = run.join(LOCK).to_string_lossy().into_owned();
                    return Err(Error::new(Kind::Io, e.to_string()).in_file(&name, None).with_source(Arc::new(e)));
                }
            }
        }
        Ok(true)
    }
    fn is_current(&self) -> bool {
        match local(&self.folder) {
            Some(path) => version(&path.join(self.name)) == self.version,
            None => true,
        }
    }
    /// Whether others have taken the place of a run: a manifest is there, and none names its files. The part is looked at
    /// first: it goes when the whole is there. Where there is none at all, somebody removes the folder just now, and a run
    /// that gets another name meanwhile would be in the way.
    fn is_replaced(&self, run: &Path) -> bool {
        let (Some(folder), Some(run)) = (local(&self.folder), run.file_name().and_then(|name| name.to_str())) else {
            return false;
        };
        let mut others = false;
        for name in [PARTIAL, MANIFEST] {
            match fs::read_to_string(folder.join(name)) {
                Ok(text) if text.contains(&format!("\"{run}/")) => return false,
                Ok(_) => others = true,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return false,
            }
        }
        others
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_current = self.runs.is_empty() || self.is_current();
        for (run, lock) in std::mem::take(&mut self.runs) {
            // The child of a fork has the same lock: it must not be changed, only closed.
            drop(lock);
            if !is_current && self.is_replaced(&run) {
                remove_run(&run);
            }
        }
    }
}

/// The file to lock, in the folder of a run that begins.
pub fn offer(run: &Path) -> io::Result<()> {
    fs::create_dir_all(run)?;
    File::options().write(true).create(true).truncate(false).open(run.join(LOCK)).map(|_| ())
}

/// The locked file of a run; `None` if it has none, or is about to go.
fn share(run: &Path) -> io::Result<Option<File>> {
    let file = match File::open(run.join(LOCK)) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => return Ok(None),
        Err(e) => return Err(e),
    };
    if !lock(&file, libc::LOCK_SH)? {
        return Ok(None);
    }
    // It may have gone under the lock of another.
    let same = version(&run.join(LOCK)).map(|(ino, ..)| ino) == Some(file.metadata()?.ino());
    Ok(same.then_some(file))
}

/// Whether nobody reads a run. Nobody begins to as long as the result is there.
pub fn claim(run: &Path) -> Option<Option<File>> {
    match File::options().read(true).write(true).open(run.join(LOCK)) {
        Ok(file) => lock(&file, libc::LOCK_EX).ok()?.then_some(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}

/// Whether it could be locked at once. Where there are no locks, it is as if it was.
fn lock(file: &File, how: libc::c_int) -> io::Result<bool> {
    // SAFETY: an open descriptor; the lock ends with it.
    if unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Some(libc::ENOLCK | libc::ENOTSUP | libc::ENOSYS) => Ok(true),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use crate::ops::testing::{ints, until};
    use crate::plan::Bound;

    fn save(n: i64, folder: &Path) {
        let ds = Dataset::range(n).unwrap();
        let bound = Bound { plan: ds.plan().clone(), env: Arc::new([]) };
        crate::save::save_set(&bound, folder.to_str().unwrap(), "none", false, &mut |_| Ok(())).unwrap();
    }
    fn runs_in(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count()
    }

    #[test]
    fn what_somebody_reads_stays_until_the_last_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let read = || Leased::read(dir.path().to_str().unwrap()).unwrap().unwrap();
        save(3, dir.path());
        let (one, two) = (read(), read());
        save(4, dir.path());
        assert_eq!((runs_in(dir.path()), one.is_current(), read().manifest.elements), (2, false, 4));
        drop(one);
        assert_eq!(runs_in(dir.path()), 2, "somebody reads it still");
        drop(two);
        assert_eq!(runs_in(dir.path()), 1, "the last one removes it");
        // One that was killed: its lock is gone, and nobody removed what it read.
        let killed = Arc::into_inner(read()).unwrap();
        save(5, dir.path());
        let mut lease = killed.lease;
        lease.runs.clear();
        assert_eq!(runs_in(dir.path()), 2);
        save(6, dir.path());
        assert_eq!(runs_in(dir.path()), 1, "the next writer removes it");
        assert_eq!(ints(&Dataset::load(dir.path().to_str().unwrap()).unwrap()).len(), 6);
    }

    #[test]
    fn a_dataset_stays_as_it_was_made() {
        let dir = tempfile::tempdir().unwrap();
        save(3, dir.path());
        let old = Dataset::load(dir.path().to_str().unwrap()).unwrap();
        save(5, dir.path());
        // Nothing of it was open by then.
        assert_eq!((ints(&old).len(), ints(&old).len()), (3, 3));
        assert_eq!(ints(&Dataset::load(dir.path().to_str().unwrap()).unwrap()).len(), 5);
        // What is kept of the old one is not taken for the new one.
        let kept = dir.path().join("kept");
        let cached = |ds: &Dataset| ints(&ds.cache_in(kept.to_str().unwrap()).unwrap()).len();
        assert_eq!(cached(&old), 3);
        assert_eq!(cached(&Dataset::load(dir.path().to_str().unwrap()).unwrap()), 5);
        drop(old);
        // The new run, and what was kept.
        until(|| runs_in(dir.path()) == 2);
    }

    #[test]
    fn files_that_are_lost_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        save(3, dir.path());
        let run = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).find(|path| path.is_dir()).unwrap();
        fs::remove_dir_all(run).unwrap();
        let ds = Dataset::load(dir.path().to_str().unwrap()).unwrap();
        let error = ds.iter().err().unwrap();
        assert!(error.to_string().contains("no such file"), "{error}");
    }

    #[test]
    fn what_somebody_else_removes_is_left_to_them() {
        let dir = tempfile::tempdir().unwrap();
        save(3, dir.path());
        let reader = Leased::read(dir.path().to_str().unwrap()).unwrap().unwrap();
        fs::remove_file(dir.path().join(MANIFEST)).unwrap();
        drop(reader);
        assert_eq!(runs_in(dir.path()), 1);
        save(4, dir.path());
        assert_eq!(runs_in(dir.path()), 1, "the next writer removes it");
    }

    #[test]
    fn sets_of_before_have_no_locks() {
        let dir = tempfile::tempdir().unwrap();
        save(3, dir.path());
        let run = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).find(|path| path.is_dir()).unwrap();
        fs::remove_file(run.join(LOCK)).unwrap();
        let ds = Dataset::load(dir.path().to_str().unwrap()).unwrap();
        assert_eq!(ints(&ds).len(), 3);
        save(4, dir.path());
        assert_eq!((runs_in(dir.path()), ints(&ds).len()), (1, 3), "its files were open");
    }
}
