//! Rows as Parquet and Arrow files.

use super::arrays::{Binary, batch_of, schema_of};
use super::{Format, Open, Output, Writer};
use crate::element::Chunk;
use crate::error::{Error, Result};
use feedline_formats::arrow_ipc::ArrowWriter;
use feedline_formats::columnar::array::RecordBatch;
use feedline_formats::columnar::schema::SchemaRef;
use feedline_formats::columnar::select::concat::concat_batches;
use feedline_formats::parquet::{ParquetWriter, WriteOptions};
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
}

fn snappy() -> String {
    "snappy".into()
}
fn group_rows() -> usize {
    65_536
}

fn make_parquet(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let ParquetOptions { compression, row_group_rows, binary } = ParquetOptions::deserialize(options)?;
    let options = WriteOptions { compression, group_rows: row_group_rows.max(1) };
    Ok(Box::new(move |output, spec| {
        let schema = schema_of(spec, &binary)?;
        let writer = ParquetWriter::new(output, schema.clone(), &options)?;
        Ok(Box::new(Parquet { writer, schema }))
    }))
}

struct Parquet {
    writer: ParquetWriter<Box<dyn Output>>,
    schema: SchemaRef,
}

impl Writer for Parquet {
    fn write(&mut self, rows: &Chunk) -> Result<()> {
        self.writer.write(&batch_of(rows, &self.schema)?)
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
}

fn none() -> String {
    "none".into()
}
fn batch_rows() -> usize {
    4096
}

fn make_arrow(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let ArrowOptions { compression, batch_rows, binary } = ArrowOptions::deserialize(options)?;
    Ok(Box::new(move |output, spec| {
        let schema = schema_of(spec, &binary)?;
        let writer = ArrowWriter::new(output, &schema, &compression)?;
        Ok(Box::new(Arrow { writer, schema, batch_rows: batch_rows.max(1), held: vec![], rows: 0 }))
    }))
}

/// Chunks are of any size, batches of one.
struct Arrow {
    writer: ArrowWriter<Box<dyn Output>>,
    schema: SchemaRef,
    batch_rows: usize,
    held: Vec<RecordBatch>,
    rows: usize,
}

impl Arrow {
    fn put(&mut self) -> Result<()> {
        let batch =
            concat_batches(&self.schema, &self.held).map_err(|e| Error::data(feedline_formats::columnar::words(&e)))?;
        self.held.clear();
        self.rows = 0;
        self.writer.write(&batch)
    }
}

impl Writer for Arrow {
    fn write(&mut self, rows: &Chunk) -> Result<()> {
        let mut batch = batch_of(rows, &self.schema)?;
        while batch.num_rows() > 0 {
            let n = batch.num_rows().min(self.batch_rows - self.rows);
            self.held.push(batch.slice(0, n));
            self.rows += n;
            batch = batch.slice(n, batch.num_rows() - n);
            if self.rows == self.batch_rows {
                self.put()?;
            }
        }
        Ok(())
    }
    fn finish(mut self: Box<Self>) -> Result<Box<dyn Output>> {
        if self.rows > 0 {
            self.put()?;
        }
        self.writer.finish()
    }
}
