//! `cache(on_full="spill")`: the elements of a pass that did not fit into memory, in a temporary folder. Not an operator:
//! the part of `cache` that moves to disk. The folder goes with the last who reads there; one that a killed process left
//! behind has that process's number in its name.

use super::stored_set::{StoredSet, StoredStage};
use crate::element::{Chunk, Pos, Spec};
use crate::error::{Error, Kind, Result};
use crate::runtime::{At, Cx, Mark, Pull, Stage};
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

/// Where each row stood in its stream: files do not have that.
#[derive(Default)]
struct Positions {
    rows: u64,
    /// Each with the number of its first row.
    runs: Vec<(u64, Pos)>,
}

impl Positions {
    fn add(&mut self, chunk: &Chunk) {
        let follows = |(first, pos): &(u64, Pos)| match (pos, &chunk.pos) {
            (Pos::Run(a), Pos::Run(b)) => a + (self.rows - first) == *b,
            _ => false,
        };
        if !self.runs.last().is_some_and(follows) {
            self.runs.push((self.rows, chunk.pos.clone()));
        }
        self.rows += chunk.rows() as u64;
    }
    fn at(&self, row: u64) -> u64 {
        let (first, pos) = &self.runs[self.runs.partition_point(|(first, _)| *first <= row) - 1];
        pos.at((row - first) as usize)
    }
    fn of(&self, rows: std::ops::Range<u64>) -> Pos {
        let run = self.runs.partition_point(|(first, _)| *first <= rows.start) - 1;
        let end = self.runs.get(run + 1).map_or(self.rows, |(first, _)| *first);
        match &self.runs[run] {
            (first, Pos::Run(pos)) if rows.end <= end => Pos::Run(pos + rows.start - first),
            _ => Pos::List(rows.map(|row| self.at(row)).collect()),
        }
    }
}

/// A pass that goes on on disk.
pub struct Spilling {
    // Dropped before the folder is removed.
    writer: SetWriter,
    positions: Positions,
    folder: Temporary,
}

impl Spilling {
    pub fn new(spec: &Spec) -> Result<Spilling> {
        let folder = Temporary::new()?;
        let writer = SetWriter::new(folder.name()?, spec, "none")?;
        let writer = writer.ok_or_else(|| Error::internal("somebody else writes into a new folder"))?;
        Ok(Spilling { writer, positions: Positions::default(), folder })
    }
    pub fn push(&mut self, chunk: &Chunk) -> Result<()> {
        self.positions.add(chunk);
        self.writer.push(0, chunk)
    }
    pub fn finish(self) -> Result<Spilled> {
        let Spilling { writer, positions, folder } = self;
        let manifest = writer.finish(None)?;
        let set = Arc::new(StoredSet::open(folder.name()?, &manifest, None)?);
        Ok(Spilled(Arc::new(Shared { set, positions, _folder: folder })))
    }
}

/// A complete pass on disk. Cloning shares it.
#[derive(Clone)]
pub struct Spilled(Arc<Shared>);

struct Shared {
    set: Arc<StoredSet>,
    positions: Positions,
    _folder: Temporary,
}

impl Spilled {
    pub fn stage(&self) -> Box<dyn Stage> {
        Box::new(SpilledStage { stage: StoredStage::new(self.0.set.clone()), row: 0, shared: self.0.clone() })
    }
}

struct SpilledStage {
    stage: StoredStage,
    row: u64,
    shared: Arc<Shared>,
}

impl Stage for SpilledStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let chunk = crate::rows!(self.stage.next(cx, want));
        let rows = self.row..self.row + chunk.rows() as u64;
        self.row = rows.end;
        Pull::Rows(chunk.with_pos(self.shared.positions.of(rows)))
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.row);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.row = at.up_to(self.shared.positions.rows)?;
        self.stage.seek(&mut At::new(&[crate::runtime::Saved::Number(self.row)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_positions() {
        let mut positions = Positions::default();
        let chunk = |pos: Pos, rows| Chunk::new(rows, pos, []);
        positions.add(&chunk(Pos::Run(5), 3));
        positions.add(&chunk(Pos::Run(8), 2));
        positions.add(&chunk(Pos::List([3, 9, 10, 20].into()), 4));
        positions.add(&chunk(Pos::Run(0), 2));
        assert_eq!(positions.runs.len(), 3);
        assert_eq!(positions.of(0..5), Pos::Run(5));
        assert_eq!(positions.of(3..7), Pos::List([8, 9, 3, 9].into()));
        assert_eq!(positions.of(5..9), Pos::List([3, 9, 10, 20].into()));
        assert_eq!(positions.of(9..11), Pos::Run(0));
        assert_eq!((0..11).map(|row| positions.at(row)).collect::<Vec<_>>(), [5, 6, 7, 8, 9, 3, 9, 10, 20, 0, 1]);
    }
}
