//! A folder that one process at a time writes into. The lock ends with the process, however that ends.

use crate::error::{Error, Kind, Result};
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
    /// Removes what runs that were killed have left, and all others that nothing refers to. It need not work.
    pub fn sweep(&self, keep: impl Fn(&str) -> bool) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            match name.to_str() {
                Some(name) if is_run(name) && !keep(name) => drop(fs::remove_dir_all(self.path.join(name))),
                _ => {}
            }
        }
    }
}

const LOCK: &str = ".lock";

fn is_run(name: &str) -> bool {
    name.strip_prefix("run-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
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
