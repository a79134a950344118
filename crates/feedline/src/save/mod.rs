//! `save`: a whole pass written to files. Each format is a `Sink`; what they share is here: rows are handed out to shards,
//! and files appear under their names only when all of them are complete.

#[cfg(feature = "columnar")]
mod arrays;
#[cfg(feature = "columnar")]
mod columnar;
mod file;
mod npy;

use crate::element::{Chunk, Spec};
use crate::error::{Error, Result};
use crate::plan::{Bound, Card};
use file::Unfinished;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is written, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase", deny_unknown_fields)]
pub enum Format {
    /// Parquet files.
    Parquet {
        compression: String,
        row_group_rows: usize,
        /// Strings that are not text: all, or these columns.
        #[serde(default)]
        binary: Binary,
    },
    /// Arrow files.
    Arrow {
        compression: String,
        batch_rows: usize,
        #[serde(default)]
        binary: Binary,
    },
    /// One .npy file, or one .npz file for elements with several components.
    Npy {},
}

/// Which columns of strings are bytes rather than text.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Binary {
    All(bool),
    Some(Vec<String>),
}

impl Default for Binary {
    fn default() -> Binary {
        Binary::All(false)
    }
}

/// A file that rows are written to.
trait Sink {
    fn write(&mut self, chunk: &Chunk) -> Result<()>;
    /// Completes the file, still under its temporary name.
    fn finish(self: Box<Self>) -> Result<Unfinished>;
}

/// Without a known number of elements, shards get this many at a time in turn.
const TURN_ROWS: u64 = 4096;

/// Writes all elements to `path`, or to `shards` files in it. `interrupted` is asked now and then; its error ends the pass.
/// Returns the number of elements.
pub fn save(
    bound: &Bound,
    path: &Path,
    format: &Format,
    shards: Option<usize>,
    interrupted: &mut dyn FnMut() -> Result<()>,
) -> Result<u64> {
    if bound.plan.card == Card::Infinite {
        return Err(Error::usage("the dataset is endless; cut it with take(n)").in_op("save"));
    }
    if shards == Some(0) {
        return Err(Error::usage("shards must be at least 1, not 0").in_op("save"));
    }
    let names = names(path, format, shards)?;
    let spec = &bound.plan.spec;
    let mut sinks: Vec<Box<dyn Sink>> =
        names.iter().map(|name| format.open(name, spec).map_err(|e| e.in_op("save"))).collect::<Result<_>>()?;
    // With a known number of elements each shard has its part of the order, else they take turns.
    let run = match bound.plan.card {
        Card::Known(n) => n.div_ceil(sinks.len() as u64).max(1),
        _ => TURN_ROWS,
    };
    let mut iter = crate::iterate(bound)?;
    let (mut rows, mut looked) = (0u64, Instant::now());
    while iter.fetch(interrupted)? {
        if looked.elapsed() > Duration::from_millis(50) {
            looked = Instant::now();
            interrupted()?;
        }
        let mut chunk = iter.take_chunk();
        while chunk.rows() > 0 {
            let shard = (rows / run) as usize % sinks.len();
            let part = chunk.split_front((run - rows % run).min(usize::MAX as u64) as usize);
            sinks[shard].write(&part).map_err(|e| e.in_file(&names[shard].to_string_lossy(), None).in_op("save"))?;
            rows += part.rows() as u64;
        }
    }
    let done: Vec<Unfinished> = sinks.into_iter().map(|sink| sink.finish()).collect::<Result<_>>()?;
    done.into_iter().try_for_each(|file| file.publish())?;
    Ok(rows)
}

/// The files to write: the path itself, or numbered ones in it.
fn names(path: &Path, format: &Format, shards: Option<usize>) -> Result<Vec<PathBuf>> {
    let Some(shards) = shards else { return Ok(vec![path.to_path_buf()]) };
    std::fs::create_dir_all(path).map_err(|e| Error::io(&e).in_file(&path.to_string_lossy(), None))?;
    let suffix = match format {
        Format::Parquet { .. } => "parquet",
        Format::Arrow { .. } => "arrow",
        Format::Npy {} => "npy",
    };
    Ok((0..shards).map(|i| path.join(format!("part-{i:05}-of-{shards:05}.{suffix}"))).collect())
}

impl Format {
    fn open(&self, name: &Path, spec: &Spec) -> Result<Box<dyn Sink>> {
        match self {
            #[cfg(feature = "columnar")]
            Format::Parquet { compression, row_group_rows, binary } => {
                columnar::parquet(name, spec, compression, *row_group_rows, binary)
            }
            #[cfg(feature = "columnar")]
            Format::Arrow { compression, batch_rows, binary } => {
                columnar::arrow(name, spec, compression, *batch_rows, binary)
            }
            #[cfg(not(feature = "columnar"))]
            Format::Parquet { .. } | Format::Arrow { .. } => {
                Err(Error::usage("this build has no Parquet and Arrow files: it lacks the feature `columnar`"))
            }
            Format::Npy {} => npy::open(name, spec),
        }
    }
}
