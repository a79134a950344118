//! Parquet files: the footer, the byte ranges of a row group's columns, and rows decoded out of them.
//!
//! 1. `ParquetFile::open` reads the end of the file once. Everything else is arithmetic on it.
//! 2. `ranges` says which bytes the wanted columns of a row group take up. Whoever reads them decides when.
//! 3. `decode` makes some rows of a row group from these bytes. It can be called from any thread, for rows in any order:
//!    pages in front of the rows are passed over by their headers, not decompressed, as far as the file allows it.
//! 4. Columns of numbers are read from their pages (`pages.rs`) straight into their memory (`numbers.rs`), the others by
//!    the Arrow reader.

pub(crate) mod numbers;
pub(crate) mod pages;
mod write;

#[cfg(test)]
mod tests;

pub use write::{ParquetWriter, WriteOptions};

use self::pages::Pages;
use crate::columnar::{Values, decoded, guarded, to_bytes};
use arrow_array::ArrayRef;
use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use feedline_io::{Buf, Error, Kind, Result, Source, Stat};
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::{Encoding, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};
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
    fields: Vec<Field>,
}

#[derive(Clone)]
struct Field {
    root: usize,
    numbers: Option<Numbers>,
}

/// A column of numbers: its leaf, whose items have so many bytes.
#[derive(Clone, Copy)]
struct Numbers {
    leaf: usize,
    size: usize,
    is_optional: bool,
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
        let mask = ProjectionMask::roots(self.meta.parquet_schema(), fields.iter().copied());
        // As they are stored, whatever the writer's own types were.
        let stored = parquet_to_arrow_schema(self.meta.parquet_schema(), None).ok();
        let fields = fields.iter().map(|&root| Field { root, numbers: self.numbers(root, stored.as_ref()) }).collect();
        Projection { mask, fields }
    }
    /// How to read a field as numbers, if its values are stored just as they will be used.
    fn numbers(&self, root: usize, stored: Option<&Schema>) -> Option<Numbers> {
        let schema = self.meta.parquet_schema();
        let leaf = (0..schema.num_columns()).find(|&leaf| schema.get_column_root_idx(leaf) == root)?;
        let (column, wanted) = (schema.column(leaf), self.schema().field(root).data_type());
        let size = match (column.physical_type(), wanted) {
            (Type::INT32, DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Time32(_)) => 4,
            (Type::FLOAT, DataType::Float32) => 4,
            (Type::INT64, DataType::Int64 | DataType::UInt64 | DataType::Time64(_) | DataType::Timestamp(..)) => 8,
            (Type::DOUBLE, DataType::Float64) => 8,
            _ => return None,
        };
        let is_same = match (stored?.field(root).data_type(), wanted) {
            (DataType::Timestamp(stored, _), DataType::Timestamp(wanted, _)) => stored == wanted,
            (stored, wanted) => stored == wanted,
        };
        let is_flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
        let is_little = cfg!(target_endian = "little");
        (is_same && is_flat && is_little).then(|| Numbers { leaf, size, is_optional: column.max_def_level() == 1 })
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

    /// Rows of a row group, column by column as the projection has them. `read` are ranges with their bytes; what they do
    /// not cover is read now.
    pub fn decode(
        &self,
        group: usize,
        projection: &Projection,
        rows: Range<usize>,
        read: Vec<(u64, Buf)>,
    ) -> Result<Vec<Values>> {
        let fetched = Fetched {
            read: read.into_iter().map(|(at, buf)| (at, to_bytes(buf))).collect(),
            source: self.source.clone(),
            len: self.stat.len,
        };
        self.decode_fetched(group, projection, rows, fetched).map_err(|e| e.in_file(self.source.name(), None))
    }
    fn decode_fetched(
        &self,
        group: usize,
        projection: &Projection,
        rows: Range<usize>,
        fetched: Fetched,
    ) -> Result<Vec<Values>> {
        let mut values = Vec::with_capacity(projection.fields.len());
        for field in &projection.fields {
            values.push(match field.numbers {
                Some(numbers) => self.read_numbers(group, numbers, rows.clone(), &fetched)?.map(Values::Numbers),
                None => None,
            });
        }
        let left: Vec<usize> =
            projection.fields.iter().zip(&values).filter(|(_, v)| v.is_none()).map(|(f, _)| f.root).collect();
        if !left.is_empty() {
            self.check_pages(group, &left, &fetched)?;
            let mut arrays = self.read_arrays(group, &left, rows, fetched)?;
            for (field, values) in projection.fields.iter().zip(&mut values).filter(|(_, v)| v.is_none()) {
                let array = arrays.iter_mut().find(|(root, _)| *root == field.root).and_then(|(_, a)| a.take());
                *values = array.map(Values::Array);
            }
        }
        let all: Option<Vec<Values>> = values.into_iter().collect();
        all.ok_or_else(|| Error::internal("a column was not decoded"))
    }
    /// Rows of a column of numbers; none if they have to be read as an array.
    fn read_numbers(
        &self,
        group: usize,
        numbers: Numbers,
        rows: Range<usize>,
        fetched: &Fetched,
    ) -> Result<Option<Buf>> {
        let column = self.meta.metadata().row_group(group).column(numbers.leaf);
        let has_nulls = column.statistics().and_then(|s| s.null_count_opt()).is_some_and(|n| n > 0);
        let is_known = |e: Encoding| {
            use Encoding::{PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY};
            matches!(e, PLAIN | PLAIN_DICTIONARY | RLE | RLE_DICTIONARY)
        };
        if has_nulls || !pages::unpacks(column.compression()) || !column.encodings().all(is_known) {
            return Ok(None);
        }
        let (start, len) = column.byte_range();
        let Some(chunk) = usize::try_from(len).ok().and_then(|len| fetched.ahead(start, len)) else { return Ok(None) };
        let pages = Pages::new(&chunk, start, column.compression());
        let mut buf = Buf::new(rows.len() * numbers.size);
        let out = buf.get_mut().expect("a new block has one holder");
        let is_read = match numbers.size {
            4 => numbers::read::<4>(pages, numbers.is_optional, rows, out.as_chunks_mut().0),
            _ => numbers::read::<8>(pages, numbers.is_optional, rows, out.as_chunks_mut().0),
        };
        Ok(is_read.map_err(|e| of_column(e, group, column))?.then_some(buf))
    }
    /// Refuses what the Arrow reader would believe: it takes the memory that a page claims to need. Only of columns that
    /// were read ahead: others are large themselves.
    fn check_pages(&self, group: usize, roots: &[usize], fetched: &Fetched) -> Result<()> {
        let schema = self.meta.parquet_schema();
        for (leaf, column) in self.meta.metadata().row_group(group).columns().iter().enumerate() {
            let (start, len) = column.byte_range();
            if let Some(chunk) = usize::try_from(len).ok().and_then(|len| fetched.ahead(start, len))
                && roots.contains(&schema.get_column_root_idx(leaf))
            {
                let mut pages = Pages::new(&chunk, start, column.compression());
                while pages.next().map_err(|e| of_column(e, group, column))?.is_some() {}
            }
        }
        Ok(())
    }
    /// The others, by the places of their fields.
    fn read_arrays(
        &self,
        group: usize,
        roots: &[usize],
        rows: Range<usize>,
        fetched: Fetched,
    ) -> Result<Vec<(usize, Option<ArrayRef>)>> {
        let mask = ProjectionMask::roots(self.meta.parquet_schema(), roots.iter().copied());
        let total = self.group_rows(group) as usize;
        let batch = guarded(&format!("row group {group} cannot be decoded"), || {
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(fetched, self.meta.clone())
                .with_projection(mask)
                .with_row_groups(vec![group])
                .with_batch_size(rows.len());
            if rows != (0..total) {
                let selection = vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())];
                builder = builder.with_row_selection(RowSelection::from(selection));
            }
            let mut batches = builder.build().map_err(|e| words(&e))?;
            let batch = batches.next().ok_or("it has fewer rows than it says")?;
            batch.map_err(|e| crate::columnar::words(&e))
        })?;
        if batch.num_rows() != rows.len() {
            return Err(Error::data(format!("row group {group} has fewer rows than it says")));
        }
        // They come in the order of the file.
        let mut roots = roots.to_vec();
        roots.sort_unstable();
        let (_, arrays, _) = batch.into_parts();
        Ok(roots.into_iter().zip(arrays.into_iter().map(Some)).collect())
    }
}

/// The error of a page, with the names of where it is.
fn of_column(error: Error, group: usize, column: &ColumnChunkMetaData) -> Error {
    let text = format!("row group {group} cannot be decoded: column {}: {}", column.column_path(), error.message());
    error.at().byte.map_or(Error::data(text.clone()), |byte| Error::data(text).at_byte(byte))
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
