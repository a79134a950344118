//! A file under a temporary name beside its place, which it takes when it is complete. Dropped before that, it is removed:
//! a run that breaks off leaves no half file.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers for temporary names.
static NEXT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub struct Unfinished {
    file: Option<BufWriter<File>>,
    temporary: PathBuf,
    place: PathBuf,
}

impl Unfinished {
    pub fn create(place: &Path) -> Result<Unfinished> {
        let name = place.file_name().ok_or_else(|| Error::usage(format!("{} is no file name", place.display())))?;
        if place.is_dir() {
            return Err(Error::usage(format!("{} is a folder; name a file in it, or give shards", place.display())));
        }
        let own = format!(".{}.{}-{}.tmp", name.to_string_lossy(), std::process::id(), NEXT.fetch_add(1, Relaxed));
        let temporary = place.with_file_name(own);
        let file = File::options().read(true).write(true).create_new(true).open(&temporary);
        let file = file.map_err(|e| Error::io(&e).in_file(&temporary.to_string_lossy(), None))?;
        Ok(Unfinished { file: Some(BufWriter::with_capacity(1 << 20, file)), temporary, place: place.to_path_buf() })
    }
    pub fn writer(&mut self) -> &mut BufWriter<File> {
        self.file.as_mut().expect("taken only when it is dropped")
    }
    pub fn failed(&self, e: &std::io::Error) -> Error {
        Error::io(e).in_file(&self.place.to_string_lossy(), None)
    }
    /// Gives it its name; what was there is replaced.
    pub fn publish(mut self) -> Result<()> {
        let done = (|| {
            let file = self.writer();
            file.flush()?;
            file.get_ref().sync_all()?;
            std::fs::rename(&self.temporary, &self.place)
        })();
        done.map_err(|e| self.failed(&e))?;
        // Nothing is left to remove.
        self.file = None;
        Ok(())
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.writer().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.writer().flush()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // The error that led here says more than a second one could.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_or_not_there() {
        let dir = std::env::temp_dir().join(format!("feedline-save-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let place = dir.join("a");
        let mut broken = Unfinished::create(&place).unwrap();
        broken.write_all(b"half").unwrap();
        drop(broken);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        let mut whole = Unfinished::create(&place).unwrap();
        whole.write_all(b"whole").unwrap();
        whole.publish().unwrap();
        assert_eq!(std::fs::read(&place).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        assert!(Unfinished::create(&dir).unwrap_err().to_string().contains("folder"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
