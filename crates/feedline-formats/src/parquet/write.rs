//! Writing Parquet files.

use super::words;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use feedline_io::{Error, Kind, Result};
use parquet::errors::ParquetError;

/// How a file is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// "snappy", "zstd", "gzip", "lz4", "brotli" or "none".
    pub compression: String,
    /// Rows of a row group, at most.
    pub group_rows: usize,
}

/// Writes a file, row group after row group.
pub struct ParquetWriter<W: std::io::Write + Send>(parquet::arrow::ArrowWriter<W>);

impl<W: std::io::Write + Send> ParquetWriter<W> {
    pub fn new(out: W, schema: SchemaRef, options: &WriteOptions) -> Result<ParquetWriter<W>> {
        use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
        let compression = match options.compression.as_str() {
            "none" => Compression::UNCOMPRESSED,
            "snappy" => Compression::SNAPPY,
            "zstd" => Compression::ZSTD(ZstdLevel::default()),
            "gzip" => Compression::GZIP(GzipLevel::default()),
            "lz4" => Compression::LZ4_RAW,
            "brotli" => Compression::BROTLI(BrotliLevel::default()),
            other => {
                let text =
                    format!("there is no compression {other:?}: none, snappy, zstd, gzip, lz4 and brotli are known");
                return Err(Error::usage(text));
            }
        };
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(options.group_rows.max(1)))
            .build();
        let writer = parquet::arrow::ArrowWriter::try_new(out, schema, Some(properties)).map_err(|e| failed(&e))?;
        Ok(ParquetWriter(writer))
    }
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.write(batch).map_err(|e| failed(&e))
    }
    /// Bytes of the row group that is being made.
    pub fn held_bytes(&self) -> usize {
        self.0.memory_size()
    }
    /// Ends that row group, though it has fewer rows than it may.
    pub fn end_group(&mut self) -> Result<()> {
        self.0.flush().map_err(|e| failed(&e))
    }
    /// Writes the footer; what was written to is given back.
    pub fn finish(self) -> Result<W> {
        self.0.into_inner().map_err(|e| failed(&e))
    }
}

fn failed(error: &ParquetError) -> Error {
    match error {
        ParquetError::External(e) => Error::new(Kind::Io, e.to_string()),
        other => Error::data(words(other)),
    }
}
