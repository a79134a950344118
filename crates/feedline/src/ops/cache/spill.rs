//! `cache(on_full="spill")`: the elements of a pass that did not fit into memory, in a temporary folder. Not an operator:
//! the part of `cache` that moves to disk. The folder goes with the last who reads there; one that a killed process left
//! behind has that process's number in its name.

use crate::element::{Chunk, Spec};
use crate::error::{Error, Kind, Result};
use crate::ops::stored_set::{StoredSet, positioned, positioned_spec};
use crate::save::SetWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A folder that is removed with its contents.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Temporary> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let temp = std::env::temp_dir();
        loop {
            let count = COUNT.fetch_add(1, Relaxed);
            let path = temp.join(format!("feedline-cache-{}-{count}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Temporary(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    let text = format!("no temporary folder for what does not fit into memory: {e}; see TMPDIR");
                    return Err(Error::new(Kind::Io, text)
                        .in_file(&path.to_string_lossy(), None)
                        .with_source(Arc::new(e)));
                }
            }
        }
    }
    fn name(&self) -> Result<&str> {
        self.0.to_str().ok_or_else(|| Error::usage("the name of the temporary folder is no text; see TMPDIR"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A pass that goes on on disk.
pub struct Spilling {
    // Dropped before the folder is removed.
    writer: SetWriter,
    folder: Temporary,
}

impl Spilling {
    /// With blocks for a pass that may have so many bytes.
    pub fn new(spec: &Spec, limit: usize) -> Result<Spilling> {
        let folder = Temporary::new()?;
        let writer = SetWriter::new(folder.name()?, &positioned_spec(spec), "none")?;
        let writer = writer.ok_or_else(|| Error::internal("somebody else writes into a new folder"))?;
        Ok(Spilling { writer: writer.with_memory(limit), folder })
    }
    pub fn working_bytes(&self) -> usize {
        self.writer.working_bytes()
    }
    pub fn push(&mut self, chunk: &Chunk) -> Result<()> {
        self.writer.push(0, &positioned(chunk))
    }
    /// A complete pass on disk. The folder goes with the last who reads there.
    pub fn finish(self) -> Result<Arc<StoredSet>> {
        let Spilling { writer, folder } = self;
        let manifest = writer.finish(None)?;
        let set = StoredSet::open(folder.name()?, &manifest, None)?;
        Ok(Arc::new(set.with_positions().guarded_by(folder)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::OnFull;
    use super::super::tests::{counted, limited};
    use crate::ops::testing::ints;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_does_not_fit_moves_to_disk() {
        let (ds, calls) = counted(1_000_000, -1);
        let spilled = |bytes| limited(&ds.cache_or(OnFull::Spill).unwrap(), bytes);
        let all: Vec<i64> = (0..1_000_000).collect();
        let kept = spilled(1 << 20);
        assert_eq!((ints(&kept) == all, ints(&kept) == all), (true, true));
        assert_eq!(calls.load(Relaxed), 1_000_000, "the second pass read the disk");
        assert!(ds.cache_or(OnFull::Spill).unwrap().shuffle(Some(2), None, true).is_ok());
    }
}
