//! A file that grows record by record. Each record is one write to its end: whoever reads it while it grows, or after the
//! process was killed, finds whole records and at most one that is cut off.

#[cfg(feature = "remote")]
use crate::bail;
use crate::local::in_words;
use crate::location::{Location, locate};
use crate::{Error, Kind, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub struct Append {
    name: String,
    file: File,
    /// The bytes of whole records.
    len: u64,
}

impl Append {
    /// A new file in a folder, which is made if it is not there. No two have the same name, also of several processes: a
    /// file that a killed process left is never gone on with.
    pub fn new(folder: &str, stem: &str, ending: &str) -> Result<Append> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Append::folder(folder)?;
        let path = local(folder)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        loop {
            let count = COUNT.fetch_add(1, Relaxed);
            let path = path.join(format!("{stem}-{seconds}-{}-{count}{ending}", std::process::id()));
            let name = path.display().to_string();
            match File::options().append(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Append { name, file, len: 0 }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(failed(&e, &name, &path)),
            }
        }
    }
    /// Makes a folder for such files.
    pub fn folder(folder: &str) -> Result<()> {
        let path = local(folder)?;
        fs::create_dir_all(path).map_err(|e| failed(&e, folder, path))
    }
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Appends a whole record. If that fails, what was there before stays, and can be appended to.
    pub fn put(&mut self, record: &[u8]) -> Result<()> {
        if let Err(e) = self.file.write_all(record) {
            // What was written of it would make everything behind it unreadable.
            let _ = self.file.set_len(self.len);
            return Err(failed(&e, &self.name, Path::new(&self.name)));
        }
        self.len += record.len() as u64;
        Ok(())
    }
}

fn local(folder: &str) -> Result<&Path> {
    match locate(folder)? {
        Location::Local(path) => Ok(Path::new(path)),
        #[cfg(feature = "remote")]
        _ => bail!(Usage, "{folder} is not a local folder: stores cannot append to their objects"),
    }
}

fn failed(e: &io::Error, name: &str, path: &Path) -> Error {
    let copy = io::Error::from(e.kind());
    Error::new(Kind::Io, in_words(e, path)).in_file(name, None).with_source(Arc::new(copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_there_as_they_are_put() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b").display().to_string();
        let mut one = Append::new(&folder, "bad", ".x").unwrap();
        let mut two = Append::new(&folder, "bad", ".x").unwrap();
        assert_ne!(one.name(), two.name());
        one.put(b"12").unwrap();
        two.put(b"x").unwrap();
        one.put(b"3").unwrap();
        assert_eq!(fs::read(one.name()).unwrap(), b"123");
        assert_eq!(fs::read(two.name()).unwrap(), b"x");
    }

    #[test]
    fn only_local_folders_will_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        assert_eq!(Append::new(file.to_str().unwrap(), "bad", "").unwrap_err().kind(), Kind::Io);
        assert!(Append::new("https://example.com/x", "bad", "").is_err());
    }
}
