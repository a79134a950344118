//! Rows as Parquet and Arrow files.

use super::arrays::{batch_of, schema_of};
use super::file::Unfinished;
use super::{Binary, Sink};
use crate::element::{Chunk, Spec};
use crate::error::Result;
use feedline_formats::arrow_ipc::ArrowWriter;
use feedline_formats::columnar::array::RecordBatch;
use feedline_formats::columnar::schema::SchemaRef;
use feedline_formats::columnar::select::concat::concat_batches;
use feedline_formats::parquet::{ParquetWriter, WriteOptions};
use std::path::Path;

pub fn parquet(
    name: &Path,
    spec: &Spec,
    compression: &str,
    group_rows: usize,
    binary: &Binary,
) -> Result<Box<dyn Sink>> {
    let schema = schema_of(spec, binary)?;
    let options = WriteOptions { compression: compression.into(), group_rows };
    let writer = ParquetWriter::new(Unfinished::create(name)?, schema.clone(), &options)?;
    Ok(Box::new(Parquet { writer, schema }))
}

struct Parquet {
    writer: ParquetWriter<Unfinished>,
    schema: SchemaRef,
}

impl Sink for Parquet {
    fn write(&mut self, chunk: &Chunk) -> Result<()> {
        self.writer.write(&batch_of(chunk, &self.schema)?)
    }
    fn finish(self: Box<Self>) -> Result<Unfinished> {
        self.writer.finish()
    }
}

pub fn arrow(name: &Path, spec: &Spec, compression: &str, batch_rows: usize, binary: &Binary) -> Result<Box<dyn Sink>> {
    let schema = schema_of(spec, binary)?;
    let writer = ArrowWriter::new(Unfinished::create(name)?, &schema, compression)?;
    Ok(Box::new(Arrow { writer, schema, batch_rows: batch_rows.max(1), held: vec![], rows: 0 }))
}

/// Chunks are of any size, batches of one.
struct Arrow {
    writer: ArrowWriter<Unfinished>,
    schema: SchemaRef,
    batch_rows: usize,
    held: Vec<RecordBatch>,
    rows: usize,
}

impl Arrow {
    fn put(&mut self) -> Result<()> {
        let batch = concat_batches(&self.schema, &self.held)
            .map_err(|e| crate::Error::data(feedline_formats::columnar::words(&e)))?;
        self.held.clear();
        self.rows = 0;
        self.writer.write(&batch)
    }
}

impl Sink for Arrow {
    fn write(&mut self, chunk: &Chunk) -> Result<()> {
        let mut batch = batch_of(chunk, &self.schema)?;
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
    fn finish(mut self: Box<Self>) -> Result<Unfinished> {
        if self.rows > 0 {
            self.put()?;
        }
        self.writer.finish()
    }
}
