//! Files of this machine. Bytes that the page cache has are copied by whoever asks (`RWF_NOWAIT`); only a read that would
//! have to wait for the disk goes to an I/O thread.

use crate::fork::brief;
use crate::source::{Source, Stat};
use crate::threads::in_background;
use crate::{Buf, Error, Kind, Result, Task};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub struct Local {
    name: String,
    path: PathBuf,
    file: OnceLock<File>,
}

impl Local {
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Local {
        Local { name: name.into(), path: path.into(), file: OnceLock::new() }
    }

    fn file(&self) -> Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = File::open(&self.path).map_err(|e| self.failed(e))?;
        if file.metadata().map_err(|e| self.failed(e))?.is_dir() {
            return Err(Error::new(Kind::Io, "is a directory; name the files in it").in_file(&self.name, None));
        }
        let _brief = brief();
        Ok(self.file.get_or_init(|| file))
    }

    fn failed(&self, e: std::io::Error) -> Error {
        Error::io(&e).in_file(&self.name, None).with_source(Arc::new(e))
    }

    /// What the page cache has of it: everything wanted, or `None`.
    #[cfg(target_os = "linux")]
    fn cached(&self, at: u64, len: usize) -> Option<Buf> {
        let file = self.file().ok()?;
        let mut buf = Buf::new(len);
        let out = buf.get_mut()?;
        let part = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: len };
        // SAFETY: one buffer of `len` bytes that we own; the descriptor is open as long as `file` lives.
        let got = unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, at as libc::off_t, libc::RWF_NOWAIT) };
        match usize::try_from(got) {
            Ok(n) if n == len => Some(buf),
            // A short read means the end of the file, or that the rest would have to be waited for.
            Ok(n) if n > 0 && file.metadata().is_ok_and(|m| m.len() == at + n as u64) => Some(buf.truncated(n)),
            _ => None,
        }
    }
    #[cfg(not(target_os = "linux"))]
    fn cached(&self, _at: u64, _len: usize) -> Option<Buf> {
        None
    }

    fn read_now(&self, at: u64, len: usize) -> Result<Buf> {
        let file = self.file()?;
        // A length from a damaged file must not decide how much memory is taken.
        let rest = file.metadata().map_err(|e| self.failed(e))?.len().saturating_sub(at);
        let len = len.min(usize::try_from(rest).unwrap_or(usize::MAX));
        let mut buf = Buf::new(len);
        let out = buf.get_mut().expect("a new block has one holder");
        let mut done = 0;
        while done < len {
            match file.read_at(&mut out[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        Ok(buf.truncated(done))
    }

    fn stat_now(&self) -> Result<Stat> {
        let meta = self.file()?.metadata().map_err(|e| self.failed(e))?;
        let version = format!("{}.{:09}-{}", meta.mtime(), meta.mtime_nsec(), meta.ino());
        Ok(Stat { len: meta.len(), version })
    }
}

impl Source for Local {
    fn name(&self) -> &str {
        &self.name
    }
    fn local_path(&self) -> Option<&Path> {
        Some(&self.path)
    }
    fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
        Task::ready(self.stat_now())
    }
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
        // Memory for a read that the file cannot give is taken only up to here before its size is asked for.
        if len <= 4 << 20
            && let Some(buf) = self.cached(at, len)
        {
            return Task::ready(Ok(buf));
        }
        let (promise, task) = Task::promised(|| Err(Error::internal("an I/O thread ended early")));
        in_background(move || {
            if !promise.is_unwanted() {
                promise.fulfil(self.read_now(at, len));
            }
        });
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, (0..10_000u32).flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        let source = Arc::new(Local::new("a", &path));
        let read = |at, len| source.clone().read(at, len).wait().unwrap();
        assert_eq!(read(4, 8).as_slice(), [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(read(39_996, 100).as_slice(), 9_999u32.to_le_bytes());
        assert_eq!(read(50_000, 100).len(), 0);
        // A length out of a damaged file costs no memory.
        assert_eq!(read(0, 1 << 60).len(), 40_000);
        assert_eq!(source.stat().wait().unwrap().len, 40_000);
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = Arc::new(Local::new("not/there", "not/there"));
        let error = missing.read(0, 1).wait().unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert!(error.to_string().contains("not/there"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let error = Arc::new(Local::new("dir", dir.path())).read(0, 1).wait().unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
    }
}
