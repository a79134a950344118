//! Parquet files: the footer, the byte ranges of a row group's columns, and rows decoded out of them.
//!
//! 1. `ParquetFile::open` reads the end of the file once. Everything else is arithmetic on it.
//! 2. `ranges` says which bytes the wanted columns of a row group take up. Whoever reads them decides when.
//! 3. `decode` makes some rows of a row group from these bytes. It can be called from any thread, for rows in any order:
//!    pages in front of the rows are passed over by their headers, not decompressed, as far as the file allows it.

use crate::columnar::{decoded, guarded, to_bytes};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use feedline_io::{Buf, Error, Kind, Result, Source, Stat};
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};
use parquet::file::reader::{ChunkReader, Length};
use std::ops::Range;
use std::sync::Arc;

/// Most footers fit into this, so that one read is enough.
const FOOTER_BYTES: u64 = 64 << 10;
/// A footer larger than this is taken for damage: it would describe some ten million column chunks.
const MAX_FOOTER_BYTES: u64 = 1 << 30;
/// Ranges that are closer than this are read as one.
const GAP_BYTES: u64 = 64 << 10;
/// A read is not joined with the next beyond this, so that several can be under way.
const READ_BYTES: u64 = 4 << 20;

/// An open file: its source, and what its footer says.
pub struct ParquetFile {
    source: Arc<dyn Source>,
    stat: Stat,
    meta: ArrowReaderMetadata,
}

/// The columns to read, by their places among the top-level fields.
#[derive(Clone)]
pub struct Projection {
    mask: ProjectionMask,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.source.name())
    }
}

impl ParquetFile {
    /// Reads and checks the footer. Waits for the reads.
    pub fn open(source: Arc<dyn Source>) -> Result<ParquetFile> {
        let name = source.name().to_string();
        ParquetFile::open_named(source).map_err(|e| e.in_file(&name, None))
    }

    fn open_named(source: Arc<dyn Source>) -> Result<ParquetFile> {
        let stat = source.clone().stat().wait()?;
        if stat.len < 12 {
            return Err(Error::loss(format!("{} bytes are too few for a Parquet file: it is cut off", stat.len)));
        }
        let tail = stat.len - FOOTER_BYTES.min(stat.len);
        let end = exact(&source, tail..stat.len)?;
        match &end.as_slice()[end.len() - 4..] {
            b"PAR1" => {}
            b"PARE" => {
                return Err(Error::data("the footer is encrypted; write the file without encryption to read it here"));
            }
            other => {
                let start = exact(&source, 0..4)?;
                return Err(match start.as_slice() == b"PAR1" {
                    true => Error::loss("begins as a Parquet file does but has no footer: it is cut off"),
                    false => Error::data(format!("is not a Parquet file: it ends with {}", other.escape_ascii())),
                });
            }
        }
        let footer = end.as_slice()[end.len() - 8..][..4].try_into().map(u32::from_le_bytes).expect("four bytes");
        if u64::from(footer) + 8 > stat.len.min(MAX_FOOTER_BYTES) {
            return Err(Error::data(format!("the footer claims to have {footer} bytes; the file has {}", stat.len))
                .in_file(source.name(), Some(stat.len - 8)));
        }
        let mut decoder = guarded("the footer cannot be read", || {
            let decoder = ParquetMetaDataPushDecoder::try_new(stat.len).map_err(|e| words(&e))?;
            let mut decoder = decoder
                .with_column_index_policy(PageIndexPolicy::Skip)
                .with_offset_index_policy(PageIndexPolicy::Optional);
            decoder.push_range(tail..stat.len, to_bytes(end)).map_err(|e| words(&e))?;
            Ok(decoder)
        })?;
        let meta = loop {
            match guarded("the footer cannot be read", || decoder.try_decode().map_err(|e| words(&e)))? {
                DecodeResult::Data(meta) => break meta,
                DecodeResult::NeedsData(ranges) => {
                    for range in ranges {
                        let bytes = to_bytes(exact(&source, range.clone())?);
                        decoder.push_range(range, bytes).map_err(|e| Error::data(words(&e)))?;
                    }
                }
                DecodeResult::Finished => return Err(Error::data("the footer says nothing")),
            }
        };
        check(&meta, stat.len)?;
        let meta = guarded("the schema cannot be read", || schema_of(meta).map_err(|e| words(&e)))?;
        Ok(ParquetFile { source, stat, meta })
    }

    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// The fields, dictionaries decoded.
    pub fn schema(&self) -> &SchemaRef {
        self.meta.schema()
    }
    pub fn groups(&self) -> usize {
        self.meta.metadata().num_row_groups()
    }
    pub fn group_rows(&self, group: usize) -> u64 {
        self.meta.metadata().row_group(group).num_rows() as u64
    }
    /// Bytes that the wanted columns of a row group take up when they are decompressed, as the file says.
    pub fn group_bytes(&self, group: usize, projection: &Projection) -> u64 {
        let group = self.meta.metadata().row_group(group);
        let wanted = group.columns().iter().enumerate().filter(|(i, _)| projection.mask.leaf_included(*i));
        wanted.map(|(_, c)| c.uncompressed_size().max(0) as u64).fold(0, u64::saturating_add)
    }
    /// These of the top-level fields.
    pub fn projection(&self, fields: &[usize]) -> Projection {
        Projection { mask: ProjectionMask::roots(self.meta.parquet_schema(), fields.iter().copied()) }
    }
    /// The bytes of the wanted columns, in rising order; neighbours are joined.
    pub fn ranges(&self, group: usize, projection: &Projection) -> Vec<Range<u64>> {
        let group = self.meta.metadata().row_group(group);
        let wanted = group.columns().iter().enumerate().filter(|(i, _)| projection.mask.leaf_included(*i));
        let mut ranges: Vec<Range<u64>> = wanted
            .map(|(_, c)| {
                let (start, len) = c.byte_range();
                start..start + len
            })
            .collect();
        ranges.sort_by_key(|r| r.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end + GAP_BYTES && range.end <= last.start + READ_BYTES => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        joined
    }
    /// Whether the file is still the one whose footer was read.
    pub fn check_unchanged(&self) -> Result<()> {
        if self.source.clone().stat().wait()? == self.stat {
            return Ok(());
        }
        let text = "the file has changed since the dataset was made; make it again";
        Err(Error::new(Kind::Precondition, text).in_file(self.source.name(), None))
    }

    /// Rows of a row group. `read` are ranges with their bytes; what they do not cover is read now.
    pub fn decode(
        &self,
        group: usize,
        projection: &Projection,
        rows: Range<usize>,
        read: Vec<(u64, Buf)>,
    ) -> Result<RecordBatch> {
        let reader = Fetched {
            read: read.into_iter().map(|(at, buf)| (at, to_bytes(buf))).collect(),
            source: self.source.clone(),
            len: self.stat.len,
        };
        let total = self.group_rows(group) as usize;
        let what = format!("row group {group} cannot be decoded");
        let batch = guarded(&what, || {
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, self.meta.clone())
                .with_projection(projection.mask.clone())
                .with_row_groups(vec![group])
                .with_batch_size(rows.len());
            if rows != (0..total) {
                let selection = vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())];
                builder = builder.with_row_selection(RowSelection::from(selection));
            }
            let mut batches = builder.build().map_err(|e| words(&e))?;
            let batch = batches.next().ok_or("it has fewer rows than it says")?;
            batch.map_err(|e| crate::columnar::words(&e))
        });
        let batch = batch.map_err(|e| e.in_file(self.source.name(), None))?;
        if batch.num_rows() != rows.len() {
            let text = format!("row group {group} has fewer rows than it says");
            return Err(Error::data(text).in_file(self.source.name(), None));
        }
        Ok(batch)
    }
}

/// The whole range, or an error: a file that ends early is cut off.
fn exact(source: &Arc<dyn Source>, range: Range<u64>) -> Result<Buf> {
    let len = usize::try_from(range.end - range.start).map_err(|_| Error::data("too large for this machine"))?;
    let buf = source.clone().read(range.start, len).wait()?;
    if buf.len() < len {
        return Err(Error::loss(format!("ends {} bytes early", len - buf.len()))
            .in_file(source.name(), Some(range.start + buf.len() as u64)));
    }
    Ok(buf)
}

/// Refuses numbers that cannot be true before anybody computes with them.
fn check(meta: &ParquetMetaData, len: u64) -> Result<()> {
    for (g, group) in meta.row_groups().iter().enumerate() {
        if group.num_rows() < 0 || group.num_rows() >= i64::from(u32::MAX) {
            return Err(Error::data(format!("row group {g} claims to have {} rows", group.num_rows())));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let inside = start >= 0 && column.compressed_size() >= 0 && end.is_some_and(|end| end as u64 <= len);
            if !inside {
                return Err(Error::data(format!(
                    "column {:?} of row group {g} lies at byte {start} and has {} bytes; the file has {len}",
                    column.column_path().string(),
                    column.compressed_size()
                )));
            }
        }
    }
    Ok(())
}

/// Asks for plain values where the writer had dictionaries.
fn schema_of(meta: ParquetMetaData) -> std::result::Result<ArrowReaderMetadata, ParquetError> {
    let meta = Arc::new(meta);
    let as_written = ArrowReaderMetadata::try_new(meta.clone(), ArrowReaderOptions::new())?;
    let fields: Vec<_> = as_written.schema().fields().iter().map(|f| Arc::new(decoded(f))).collect();
    if fields.iter().eq(as_written.schema().fields().iter()) {
        return Ok(as_written);
    }
    let schema = Schema::new_with_metadata(fields, as_written.schema().metadata().clone());
    ArrowReaderMetadata::try_new(meta, ArrowReaderOptions::new().with_schema(Arc::new(schema)))
}

/// The words of an error, without the name of its kind.
fn words(error: &ParquetError) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, rest)| rest.to_string())
}

/// Bytes that were read ahead, and the file for all others.
struct Fetched {
    read: Vec<(u64, Bytes)>,
    source: Arc<dyn Source>,
    len: u64,
}

impl Fetched {
    fn ahead(&self, at: u64, len: usize) -> Option<Bytes> {
        let i = self.read.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let (start, bytes) = &self.read[i];
        let from = usize::try_from(at - start).ok()?;
        let to = from.checked_add(len)?;
        (to <= bytes.len()).then(|| bytes.slice(from..to))
    }
}

impl Length for Fetched {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Fetched {
    type T = From;
    fn get_read(&self, start: u64) -> parquet::errors::Result<From> {
        // As far as it was read ahead; a page's header is small, so that a little is enough otherwise.
        let i = self.read.partition_point(|(at, _)| *at <= start).checked_sub(1);
        let ahead = i.map(|i| &self.read[i]).filter(|(at, bytes)| start < at + bytes.len() as u64);
        let bytes = match ahead {
            Some((at, bytes)) => bytes.slice((start - at) as usize..),
            None => Bytes::new(),
        };
        Ok(From { bytes, at: start, source: self.source.clone() })
    }
    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        if let Some(bytes) = self.ahead(start, length) {
            return Ok(bytes);
        }
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!("{length} bytes at byte {start} of a file of {} bytes", self.len)));
        }
        let read =
            exact(&self.source, start..start + length as u64).map_err(|e| ParquetError::General(e.to_string()))?;
        Ok(to_bytes(read))
    }
}

/// Reads on from a place in the file.
struct From {
    bytes: Bytes,
    /// Where in the file the end of `bytes` is, less their length.
    at: u64,
    source: Arc<dyn Source>,
}

/// What is read at once for the header of a page.
const HEADER_BYTES: usize = 4 << 10;

impl std::io::Read for From {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes.is_empty() {
            let read = self.source.clone().read(self.at, HEADER_BYTES.max(out.len())).wait();
            self.bytes = to_bytes(read.map_err(std::io::Error::other)?);
        }
        let n = out.len().min(self.bytes.len());
        out[..n].copy_from_slice(&self.bytes.split_to(n));
        self.at += n as u64;
        Ok(n)
    }
}

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
