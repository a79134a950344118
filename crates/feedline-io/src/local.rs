//! Files of this machine. Bytes that the page cache has are copied by whoever asks (`RWF_NOWAIT`); only a read that would
//! have to wait for the disk goes to an I/O thread.

use crate::flights::Flight;
use crate::fork::brief;
use crate::source::{Source, Stat};
use crate::threads::read_in_background;
use crate::witness::version;
use crate::{Buf, Error, Kind, Result, Task};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub struct Local {
    name: String,
    path: PathBuf,
    /// The file and the length that it had when it was opened.
    file: OnceLock<(File, u64)>,
}

impl Local {
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Local {
        Local { name: name.into(), path: path.into(), file: OnceLock::new() }
    }

    fn file(&self) -> Result<&File> {
        if let Some((file, _)) = self.file.get() {
            return Ok(file);
        }
        let file = open(&self.path).map_err(|e| self.failed(e))?;
        let meta = file.metadata().map_err(|e| self.failed(e))?;
        let kind = meta.file_type();
        let instead = match () {
            () if kind.is_file() => {
                let _brief = brief();
                return Ok(&self.file.get_or_init(|| (file, meta.len())).0);
            }
            () if kind.is_dir() => "is a directory; name the files in it",
            () if kind.is_fifo() => "is not a regular file but a pipe; write it to a file first",
            () => "is not a regular file but a device; write it to a file first",
        };
        Err(Error::new(Kind::Io, instead).in_file(&self.name, None))
    }

    fn failed(&self, e: std::io::Error) -> Error {
        Error::new(Kind::Io, in_words(&e, &self.path)).in_file(&self.name, None).with_source(Arc::new(e))
    }

    /// What the page cache has of it: everything wanted, or `None`.
    #[cfg(target_os = "linux")]
    fn cached(&self, at: u64, len: usize) -> Option<Buf> {
        let file = self.file().ok()?;
        // Beyond what a file can have; and -1 would mean wherever the last read ended.
        let offset = libc::off_t::try_from(at).ok()?;
        let mut buf = Buf::new(len);
        let out = buf.get_mut()?;
        let part = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: len };
        // SAFETY: one buffer of `len` bytes that we own; the descriptor is open as long as `file` lives.
        let got = unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, offset, libc::RWF_NOWAIT) };
        match usize::try_from(got) {
            Ok(n) if n == len => Some(buf),
            // A short read means the end of the file, or that the rest would have to be waited for.
            Ok(n) if file.metadata().is_ok_and(|m| m.len() == at + n as u64 && !self.shrank(m.len())) => {
                Some(buf.truncated(n))
            }
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
        let now = file.metadata().map_err(|e| self.failed(e))?.len();
        let wanted = len;
        let len = len.min(usize::try_from(now.saturating_sub(at)).unwrap_or(usize::MAX));
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
        if done < wanted && self.shrank(at.saturating_add(done as u64).min(now)) {
            return Err(self.shorter(now));
        }
        Ok(buf.truncated(done))
    }

    /// Whether `end`, where it ends now, was not its end when it was opened.
    fn shrank(&self, end: u64) -> bool {
        self.file.get().is_some_and(|(_, opened)| end < *opened)
    }
    fn shorter(&self, now: u64) -> Error {
        let opened = self.file.get().map_or(0, |(_, len)| *len);
        let message = format!(
            "became shorter while it was read: it had {opened} bytes and has {now}; \
             write to another name and rename, and readers keep the old file"
        );
        Error::loss(message).in_file(&self.name, Some(now))
    }

    fn stat_now(&self) -> Result<Stat> {
        let meta = self.file()?.metadata().map_err(|e| self.failed(e))?;
        Ok(Stat { len: meta.len(), version: version(&meta) })
    }
}

impl Source for Local {
    fn name(&self) -> &str {
        &self.name
    }
    fn local_path(&self) -> Option<&Path> {
        Some(&self.path)
    }
    fn longest(&self) -> usize {
        usize::MAX
    }
    fn known_len(&self) -> Option<u64> {
        // Asked anew: a file that grows is read to the end that it has by then. One that shrank has to be noticed.
        let (file, opened) = self.file.get()?;
        Some(file.metadata().ok()?.len().max(*opened))
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
        let flight = Flight::begin(&self.name, at, len);
        read_in_background(move || {
            let _flight = flight;
            if !promise.is_unwanted() {
                promise.fulfil(self.read_now(at, len));
            }
        });
        task
    }
}

/// Opens a file. Processes often begin with 1,024 open files at most and may have far more if they ask: a data set of many
/// files asks.
fn open(path: &Path) -> std::io::Result<File> {
    // Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
    let open = || File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    static ASKED: OnceLock<bool> = OnceLock::new();
    match open() {
        Err(e) if e.raw_os_error() == Some(libc::EMFILE) && *ASKED.get_or_init(ask_for_files) => open(),
        opened => opened,
    }
}

/// Raises the limit of open files to what this process may have. False if it has that already.
fn ask_for_files() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a struct of ours to write to, and to read from.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max && {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0
        }
    }
}

/// What a system call said, and what to do about it.
pub(crate) fn in_words(e: &std::io::Error, path: &Path) -> String {
    use std::io::ErrorKind;
    match (e.kind(), e.raw_os_error()) {
        (ErrorKind::NotFound, _) if path.is_relative() => match std::env::current_dir() {
            Ok(dir) => format!("there is no such file, seen from {}", dir.display()),
            Err(_) => "there is no such file".into(),
        },
        (ErrorKind::NotFound, _) => "there is no such file".into(),
        (ErrorKind::PermissionDenied, _) => format!("{e}; this process may not open it: see `ls -l` and its owner"),
        (_, Some(libc::EMFILE)) => format!("{e}; raise the limit (`ulimit -n`) or read fewer files at once"),
        (_, Some(libc::ESTALE)) => format!("{e}; the file was replaced on its server: open it anew"),
        (_, Some(libc::ELOOP)) => format!("{e}; its symbolic links go round in a circle"),
        _ => e.to_string(),
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

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, vec![7; 10_000]).unwrap();
        let source = Arc::new(Local::new("a", &path));
        assert_eq!(source.clone().read(0, 100).wait().unwrap().len(), 100);
        File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
        assert_eq!(source.clone().read(0, 5000).wait().unwrap().len(), 5000);
        for (at, len) in [(4000, 2000), (5000, 1), (6000, 10), (9999, 1), (0, 1 << 40)] {
            let error = source.clone().read(at, len).wait().unwrap_err();
            assert_eq!(error.kind(), Kind::Loss, "{error}");
            assert!(error.to_string().contains("shorter"), "{error}");
        }
        let error = crate::Blocks::new(source.clone(), 5000, None).next_block().unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Loss, "{error}");
        // Growing is no harm.
        File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
        assert_eq!(source.clone().read(19_000, 5000).wait().unwrap().len(), 1000);
        // A file that is gone is read on: the system keeps it while it is open.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(source.read(0, 100).wait().unwrap().len(), 100);
    }

    #[test]
    fn errors_say_what_to_do() {
        let said = |code| in_words(&std::io::Error::from_raw_os_error(code), Path::new("/a"));
        assert!(said(libc::EACCES).contains("may not open"));
        assert!(said(libc::EMFILE).contains("ulimit"));
        assert!(said(libc::ESTALE).contains("anew"));
        assert!(said(libc::ENOENT).contains("no such file"));
        assert!(said(libc::EIO).contains("os error"));
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a path that ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for (path, word) in [(path.to_str().unwrap(), "pipe"), ("/dev/null", "device"), ("/dev/zero", "device")] {
            let error = Arc::new(Local::new(path, path)).read(0, 10).wait().unwrap_err();
            assert!(error.to_string().contains(word) && error.to_string().contains("regular"), "{error}");
            assert_eq!(error.kind(), Kind::Io);
        }
        let link = dir.path().join("round");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        let error = Arc::new(Local::new("round", &link)).stat().wait().unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
        let error = Arc::new(Local::new("a\0b", "a\0b")).read(0, 1).wait().unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
    }
}
