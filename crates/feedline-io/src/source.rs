//! A file or an object that can be read at any place, wherever it lies.

use crate::{Buf, Local, Result, Task};
use std::fmt;
use std::sync::Arc;

/// What can be known of a source without reading it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stat {
    pub len: u64,
    /// Changes when the contents do: the time of the last change, an ETag. Indexes and caches are kept under it.
    pub version: String,
}

/// A file or an object. Cheap to make: nothing is opened before it is read.
pub trait Source: Send + Sync + fmt::Debug {
    /// As the user wrote it: what errors call it.
    fn name(&self) -> &str;
    fn stat(self: Arc<Self>) -> Task<Result<Stat>>;
    /// `len` bytes from byte `at`; fewer only where the file ends. There at once if no waiting is needed.
    fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>>;
    /// Where the whole is a file of this machine, its path.
    fn local_path(&self) -> Option<&std::path::Path> {
        None
    }
    /// How much should be asked for in one read, and how much may be on its way for one reader.
    fn hints(&self) -> Hints {
        Hints { block: 256 << 10, ahead: 512 << 10 }
    }
}

/// What suits a source: far ones want more on its way.
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    pub block: usize,
    pub ahead: usize,
}

/// The source that a path or URL names.
pub fn open(name: &str) -> Result<Arc<dyn Source>> {
    let path = name.strip_prefix("file://").unwrap_or(name);
    Ok(Arc::new(Local::new(name, path)))
}
