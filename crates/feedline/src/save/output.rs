//! A file that is being written: under a temporary name until it is whole.

use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes on their way to a name. Dropped without `commit`, nothing is left of them.
pub trait Output: Write + Send {
    /// Gives the file its name. Returns its size.
    fn commit(self: Box<Self>) -> Result<u64>;
}

/// A local file beside its later name.
pub struct Staged {
    file: Option<BufWriter<File>>,
    temporary: PathBuf,
    path: PathBuf,
    bytes: u64,
}

fn failed(e: std::io::Error, name: &str) -> Error {
    Error::io(&e).in_file(name, None).with_source(Arc::new(e))
}

pub fn refuse_existing(name: &str) -> Result<()> {
    match std::path::Path::new(name).exists() {
        true => Err(Error::new(Kind::Io, "exists already; remove it, or say overwrite=True").in_file(name, None)),
        false => Ok(()),
    }
}

impl Staged {
    pub fn create(name: &str) -> Result<Staged> {
        let path = PathBuf::from(name.strip_prefix("file://").unwrap_or(name));
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|e| failed(e, name))?;
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = File::create(&temporary).map_err(|e| failed(e, name))?;
        Ok(Staged { file: Some(BufWriter::with_capacity(1 << 18, file)), temporary, path, bytes: 0 })
    }
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let file = self.file.as_mut().ok_or_else(|| std::io::Error::other("the file is closed"))?;
        let n = file.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |f| f.flush())
    }
}

impl Output for Staged {
    fn commit(mut self: Box<Self>) -> Result<u64> {
        let name = self.path.display().to_string();
        let file = self.file.take().ok_or_else(|| Error::internal("committed twice"))?;
        let file = file.into_inner().map_err(|e| failed(e.into_error(), &name))?;
        // Contents reach the disk before the name does: after a crash the file is whole or not there.
        file.sync_all().map_err(|e| failed(e, &name))?;
        std::fs::rename(&self.temporary, &self.path).map_err(|e| failed(e, &name))?;
        Ok(self.bytes)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a commit there is no such file any more.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
