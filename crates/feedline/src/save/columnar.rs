//! Rows as Parquet and Arrow files.

use super::arrays::{Binary, batch_of, schema_of};
use super::logical::{Types, called, typed};
use super::{Format, Open, Output, Writer};
use crate::element::{Chunk, Pos};
use crate::error::Result;
use feedline_formats::arrow_ipc::ArrowWriter;
use feedline_formats::columnar::schema::SchemaRef;
use feedline_formats::parquet::{ParquetWriter, WriteOptions};
use feedline_io::{Scratch, scratch};
use serde::Deserialize;

pub static PARQUET: Format = Format { name: "parquet", endings: &["parquet"], make: make_parquet };
pub static ARROW: Format = Format { name: "arrow", endings: &["arrow", "feather"], make: make_arrow };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParquetOptions {
    #[serde(default = "snappy")]
    compression: String,
    #[serde(default = "group_rows")]
    row_group_rows: usize,
    #[serde(default)]
    binary: Binary,
    #[serde(default)]
    types: Types,
}

fn snappy() -> String {
    "snappy".into()
}
fn group_rows() -> usize {
    65_536
}

fn make_parquet(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let ParquetOptions { compression, row_group_rows, binary, types } = ParquetOptions::deserialize(options)?;
    let options = WriteOptions { compression, group_rows: row_group_rows.max(1) };
    Ok(Box::new(move |output, spec| {
        let schema = schema_of(spec, &binary)?;
        let stored = typed(&schema, &types)?;
        let writer = ParquetWriter::new(output, stored.clone(), &options)?;
        Ok(Box::new(Parquet { writer, schema, stored, held: scratch(0) }))
    }))
}

struct Parquet {
    writer: ParquetWriter<Box<dyn Output>>,
    schema: SchemaRef,
    /// The same with the types that elements do not have.
    stored: SchemaRef,
    /// The row group that is being made: its bytes lie in the library's memory.
    held: Scratch,
}

impl Writer for Parquet {
    fn write(&mut self, rows: &Chunk) -> Result<()> {
        self.writer.write(&called(batch_of(rows, &self.schema)?, &self.stored)?)?;
        self.held = scratch(self.writer.held_bytes());
        Ok(())
    }
    /// Pages end where the batches do that they are made of.
    fn write_all(&mut self, pieces: &[Chunk]) -> Result<()> {
        self.write(&Chunk::concat(Pos::Run(0), pieces))
    }
    fn held_bytes(&self) -> usize {
        self.writer.held_bytes()
    }
    fn let_go(&mut self) -> Result<()> {
        self.writer.end_group()?;
        self.held = scratch(0);
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Box<dyn Output>> {
        self.writer.finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrowOptions {
    #[serde(default = "none")]
    compression: String,
    #[serde(default = "batch_rows")]
    batch_rows: usize,
    #[serde(default)]
    binary: Binary,
    #[serde(default)]
    types: Types,
}

fn none() -> String {
    "none".into()
}
fn batch_rows() -> usize {
    4096
}

fn make_arrow(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let ArrowOptions { compression, batch_rows, binary, types } = ArrowOptions::deserialize(options)?;
    Ok(Box::new(move |output, spec| {
        let schema = schema_of(spec, &binary)?;
        let stored = typed(&schema, &types)?;
        let writer = ArrowWriter::new(output, &stored, &compression)?;
        Ok(Box::new(Arrow {
            writer,
            schema,
            stored,
            batch_rows: batch_rows.max(1),
            waiting: vec![],
            rows: 0,
            bytes: 0,
            held: scratch(0),
        }))
    }))
}

/// Offsets in a batch have 31 bits.
const BATCH_BYTES: usize = if cfg!(test) { 8 << 20 } else { 1 << 30 };

/// Chunks are of any size, batches of one.
struct Arrow {
    writer: ArrowWriter<Box<dyn Output>>,
    schema: SchemaRef,
    /// The same with the types that elements do not have.
    stored: SchemaRef,
    batch_rows: usize,
    /// Rows of the next batch, as chunks; what they take is counted here, since they were handed out.
    waiting: Vec<Chunk>,
    rows: usize,
    bytes: usize,
    held: Scratch,
}

impl Arrow {
    fn put(&mut self) -> Result<()> {
        let rows = Chunk::concat(Pos::Run(0), &std::mem::take(&mut self.waiting));
        (self.rows, self.bytes) = (0, 0);
        // The arrays of it and the message that they become are the library's.
        self.held = scratch(2 * rows.nbytes());
        let written = self.writer.write(&called(batch_of(&rows, &self.schema)?, &self.stored)?);
        self.held = scratch(0);
        written
    }
}

impl Writer for Arrow {
    fn write(&mut self, rows: &Chunk) -> Result<()> {
        let mut from = 0;
        while from < rows.rows() {
            let to = rows.rows().min(from + self.batch_rows - self.rows);
            let piece = rows.slice(from..to);
            if self.rows > 0 && self.bytes + piece.nbytes() > BATCH_BYTES {
                self.put()?;
            }
            self.bytes += piece.nbytes();
            self.waiting.push(piece);
            self.rows += to - from;
            from = to;
            if self.rows == self.batch_rows {
                self.put()?;
            }
        }
        self.held = scratch(self.bytes);
        Ok(())
    }
    fn held_bytes(&self) -> usize {
        self.bytes
    }
    fn let_go(&mut self) -> Result<()> {
        if self.rows > 0 { self.put() } else { Ok(()) }
    }
    fn finish(mut self: Box<Self>) -> Result<Box<dyn Output>> {
        self.let_go()?;
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Staged, Target, format, save};
    use super::*;
    use crate::Dataset;
    use crate::element::{Column, DType, Dims, Leaf, Spec, Tensor, Value};
    use crate::plan::Bound;
    use feedline_formats::arrow_ipc::ArrowFile;
    use feedline_formats::parquet::ParquetFile;
    use feedline_io::Account;
    use std::sync::Arc;

    /// Numbers that no dictionary and no compression makes smaller.
    fn noise(first: i64, n: usize) -> Vec<i64> {
        (first..).take(n).map(|x| (x + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64).rotate_left(29)).collect()
    }
    fn path(dir: &tempfile::TempDir, name: &str) -> String {
        dir.path().join(name).to_str().unwrap().into()
    }

    #[test]
    fn what_waits_is_charged_until_it_is_written() {
        const SLACK: usize = 200 << 10;
        let dir = tempfile::tempdir().unwrap();
        for name in ["parquet", "arrow"] {
            let open = format(name, &serde_json::json!({ "compression": "none" })).unwrap();
            let output = Box::new(Staged::create(&path(&dir, name)).unwrap());
            let mut writer = open(output, &Spec::scalar(DType::Int64)).unwrap();
            let account = Account::open(1 << 30, usize::MAX);
            let entered = Account::enter(Some(account));
            // Fewer rows than a batch of an Arrow file has.
            for first in [0, 2000] {
                let row = Tensor::from_items([2000], &noise(first, 2000));
                let chunk = Chunk::new(2000, Pos::Run(0), [Column::Dense(row)]);
                chunk.hand_out();
                writer.write(&chunk).unwrap();
            }
            drop(entered);
            let (held, live) = (writer.held_bytes(), account.live());
            assert!(held >= 32_000 && (held..held + SLACK).contains(&live), "{name}: {held} held, {live} charged");
            let entered = Account::enter(Some(account));
            writer.let_go().unwrap();
            drop(entered);
            assert_eq!((writer.held_bytes(), account.live()), (0, 0), "{name}");
            writer.finish().unwrap();
            account.close();
        }
    }

    #[test]
    fn a_batch_ends_before_its_offsets_do() {
        let dir = tempfile::tempdir().unwrap();
        let open = format("arrow", &serde_json::json!({ "compression": "none" })).unwrap();
        let output = Box::new(Staged::create(&path(&dir, "arrow")).unwrap());
        let mut writer = open(output, &Spec::leaf(Leaf::tensor(DType::Int64, Dims::of([Some(1024)])))).unwrap();
        for first in [0, 500, 1000] {
            let rows = Tensor::from_items([500, 1024], &noise(first * 1024, 500 * 1024));
            writer.write(&Chunk::new(500, Pos::Run(0), [Column::Dense(rows)])).unwrap();
        }
        writer.finish().unwrap().commit().unwrap();
        let file = ArrowFile::open(feedline_io::open(&path(&dir, "arrow")).unwrap()).unwrap();
        assert_eq!(file.batches(), 2, "of 4 MB each, where 8 are allowed");
    }

    #[test]
    fn row_groups_and_batches_are_as_large_as_memory_allows() {
        const LIMIT: usize = 2 << 20;
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec::leaf(Leaf::tensor(DType::Int64, Dims::of([Some(1024)])));
        let rows = Dataset::range(600).unwrap().map_fn(spec, |e| {
            let row = noise(e[0].tensor().item::<i64>() * 1024, 1024);
            Ok([Value::Tensor(Tensor::from_items([1024], &row))].into_iter().collect())
        });
        let rows = rows.unwrap();
        let limit = |bytes| crate::Options { memory_limit: Some(bytes), ..Default::default() };
        // The bytes of each group of rows in all files.
        let groups = |name: &str, bytes: usize, shards: Option<usize>| -> Vec<u64> {
            let plan = rows.with_options(limit(bytes)).unwrap().plan().clone();
            let target = Target { path: path(&dir, &format!("{bytes}.{name}")), shards, overwrite: true };
            let open = format(name, &serde_json::json!({ "compression": "none" })).unwrap();
            let saved = save(&Bound { plan, env: Arc::new([]) }, &target, &*open, &mut |_| Ok(())).unwrap();
            let sizes = |file: &String| -> Vec<u64> {
                let source = feedline_io::open(file).unwrap();
                match name {
                    "parquet" => {
                        let file = ParquetFile::open(source).unwrap();
                        (0..file.groups()).map(|group| file.group_bytes(group, &file.projection(&[0]))).collect()
                    }
                    _ => {
                        let file = ArrowFile::open(source).unwrap();
                        (0..file.batches()).map(|batch| file.body(batch)).map(|body| body.end - body.start).collect()
                    }
                }
            };
            saved.files.iter().flat_map(sizes).collect()
        };
        for name in ["parquet", "arrow"] {
            assert_eq!(groups(name, 1 << 30, None).len(), 1, "{name}");
            for shards in [None, Some(4)] {
                let sizes = groups(name, LIMIT, shards);
                let (all, most) = (sizes.iter().sum::<u64>(), *sizes.iter().max().unwrap() as usize);
                assert!(
                    all >= 600 * 8192 && most <= LIMIT / 8 * 2 + (64 << 10),
                    "{name}: {all} in all, {most} at most"
                );
            }
        }
    }
}
