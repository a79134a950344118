//! A file or an object that can be read at any place, wherever it lies.

#[cfg(feature = "remote")]
use crate::bail;
use crate::location::{Location, locate};
use crate::{Buf, Local, Result, Task, witness};
use std::fmt;
use std::sync::Arc;

/// What can be known of a source without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stat {
    pub len: u64,
    /// Changes when the contents do: the time of the last change, an ETag. Indexes and caches are kept under it. Empty
    /// where nobody says: then nothing should be kept.
    pub version: String,
}

/// A file or an object. Cheap to make: nothing is opened before it is read.
pub trait Source: Send + Sync + fmt::Debug {
    /// As the user wrote it, without what is secret in a URL: what errors call it.
    fn name(&self) -> &str;
    fn stat(self: Arc<Self>) -> Task<Result<Stat>>;
    /// `len` bytes from byte `at`; fewer only where the file ends. There at once if no waiting is needed.
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>>;
    /// Where the whole is a file of this machine, its path.
    fn local_path(&self) -> Option<&std::path::Path> {
        None
    }
    /// Its length, where that is known by now without asking anybody. Readers do not look beyond it.
    fn known_len(&self) -> Option<u64> {
        None
    }
    /// What the first answer said of it, where nobody has to be asked for that.
    fn known(&self) -> Option<Stat> {
        None
    }
    /// How much should be asked for in one read, and how much may be on its way for one reader.
    fn hints(&self) -> Hints {
        Hints { block: 256 << 10, ahead: 512 << 10 }
    }
    /// A wanted range that is longer comes faster in pieces, side by side, than in one read.
    fn longest(&self) -> usize {
        self.hints().block.saturating_mul(2)
    }
    /// Wanted ranges that are no further apart are cheaper to read in one.
    fn gap(&self) -> usize {
        16 << 10
    }
}

/// What suits a source: far ones want more on its way.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    pub block: usize,
    pub ahead: usize,
}

/// What a file is like now, which takes one system call where it is one of this machine: it is not opened.
pub fn stat(name: &str) -> Result<Stat> {
    if let Location::Local(path) = locate(name)?
        && let Ok(meta) = std::fs::metadata(path)
        && meta.is_file()
    {
        return Ok(Stat { len: meta.len(), version: witness::version(&meta) });
    }
    open(name)?.stat().wait()
}

/// The source that a path or URL names: a path, `file://`, and with the feature `remote` `http(s)://`, `s3://`, `gs://`
/// and `az://`. A file of a set that was not saved to its end is refused. Far ones are kept in the local cache if there is one (`Settings::cache_dir`).
pub fn open(name: &str) -> Result<Arc<dyn Source>> {
    crate::wanted()?;
    match locate(name)? {
        Location::Local(path) => {
            crate::shards::refuse_unfinished([name])?;
            witness::note_local(name, path);
            Ok(Arc::new(Local::new(name, path)))
        }
        #[cfg(feature = "remote")]
        Location::Object { key, .. } if key.is_empty() || key.ends_with('/') => {
            bail!(
                Usage,
                "{name} is a {} and not an object; name one in it",
                if key.is_empty() { "bucket" } else { "folder" }
            )
        }
        #[cfg(feature = "remote")]
        far => {
            let source = Arc::new(crate::Remote::new(name, &far)?);
            let settings = crate::settings();
            let source: Arc<dyn Source> = match &settings.cache_dir {
                Some(dir) => Arc::new(crate::Cached::new(source, crate::Cache::open(dir, settings.cache_bytes), name)),
                None => source,
            };
            witness::note_far(name, &source);
            Ok(source)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_says_what_an_open_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let name = |n: &str| dir.path().join(n).to_str().unwrap().to_string();
        std::fs::write(name("a"), "text").unwrap();
        let opened = || open(&name("a")).unwrap().stat().wait().unwrap();
        let first = stat(&name("a")).unwrap();
        assert_eq!((&first, first.len), (&opened(), 4));
        std::fs::write(name("a"), "longer text").unwrap();
        assert_eq!(stat(&name("a")).unwrap(), opened());
        assert_ne!(stat(&name("a")).unwrap(), first);
        for (not_there, why) in [(name("b"), "no such file"), (name(""), "directory")] {
            assert!(stat(&not_there).unwrap_err().to_string().contains(why), "{not_there}");
        }
    }
}
