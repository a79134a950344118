//! Parquet files: the footer, the byte ranges of a row group's columns, and rows decoded out of them.
//!
//! 1. `ParquetFile::open` reads the end of the file once. Everything else is arithmetic on it, once it is known that what it
//!    claims can be (`claims.rs`).
//! 2. `ranges` says which bytes the wanted columns of a row group take up. Whoever reads them decides when.
//! 3. A `Group` makes rows from these bytes, in pieces: pages in front of them are passed over by their headers, not
//!    decompressed, as far as the file allows it.
//! 4. Columns of numbers are read from their pages (`pages.rs`) straight into their memory (`numbers.rs`), the others by
//!    the Arrow reader, once it is known that what their pages claim can be (`lengths.rs`).

mod claims;
mod dictionaries;
mod for_arrow;
mod group;
mod items;
mod lengths;
pub(crate) mod numbers;
pub(crate) mod pages;
mod thrift;
mod write;

#[cfg(test)]
mod tests;

pub use group::Group;
pub use write::{ParquetWriter, WriteOptions};

use crate::columnar::{decoded, guarded, to_bytes, viewed};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use feedline_io::{Buf, Error, Kind, Result, Source, Stat};
use parquet::DecodeResult;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::{Compression, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder, ParquetMetaDataReader,
};
use std::ops::Range;
use std::sync::Arc;

/// Most footers fit into this, so that one read is enough.
const FOOTER_BYTES: u64 = 64 << 10;
/// A footer larger than this is taken for damage: it would describe some ten million column chunks.
const MAX_FOOTER_BYTES: u64 = 256 << 20;
/// Ranges that are closer than this are read as one.
const GAP_BYTES: u64 = 64 << 10;
/// A read is not joined with the next beyond this, so that several can be under way.
const READ_BYTES: u64 = 4 << 20;

/// An open file: its source, and what its footer says.
pub struct ParquetFile {
    source: Arc<dyn Source>,
    stat: Stat,
    /// With strings as they are read, which are views.
    meta: ArrowReaderMetadata,
    schema: SchemaRef,
}

/// The columns to read, by their places among the top-level fields.
#[derive(Clone)]
pub struct Projection {
    mask: ProjectionMask,
    /// Each with how its numbers are stored, if that is what it has.
    fields: Vec<(usize, Option<Stored>)>,
}

/// A column of numbers: its leaf, whose items have so many bytes.
#[derive(Clone, Copy)]
struct Stored {
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
            let text = format!("{} bytes are too few for a Parquet file: it is cut off", stat.len);
            return Err(Error::loss(text).at_byte(stat.len));
        }
        let tail = stat.len - FOOTER_BYTES.min(stat.len);
        let end = exact(&source, tail..stat.len)?;
        match &end.as_slice()[end.len() - 4..] {
            b"PAR1" => {}
            b"PARE" => {
                let text = "the footer is encrypted; write the file without encryption to read it here";
                return Err(Error::data(text).at_byte(stat.len - 4));
            }
            other => {
                let start = exact(&source, 0..4)?;
                return Err(match start.as_slice() == b"PAR1" {
                    true => Error::loss("begins as a Parquet file does but has no footer: it is cut off"),
                    false => Error::data(format!("is not a Parquet file: it ends with {}", other.escape_ascii())),
                }
                .at_byte(stat.len - 4));
            }
        }
        let footer = end.as_slice()[end.len() - 8..][..4].try_into().map(u32::from_le_bytes).expect("four bytes");
        if u64::from(footer) + 8 > stat.len.min(MAX_FOOTER_BYTES) {
            return Err(Error::data(format!("the footer claims to have {footer} bytes; the file has {}", stat.len))
                .in_file(source.name(), Some(stat.len - 8)));
        }
        let end = End { source: &source, bytes: to_bytes(end), at: tail };
        let footer_at = stat.len - 8 - u64::from(footer);
        let (footer, here) = (end.get(footer_at..stat.len - 8)?, |e: Error| e.near_byte(footer_at));
        claims::check_footer(&footer, footer_at)?;
        let meta = guarded("the footer cannot be read", || {
            ParquetMetaDataReader::decode_metadata(&footer).map_err(|e| words(&e))
        });
        let meta = meta.map_err(here)?;
        check(&meta, stat.len).map_err(here)?;
        let meta = with_places(meta, &end, stat.len).map_err(here)?;
        let read = guarded("the schema cannot be read", || schema_of(meta).map_err(|e| words(&e)));
        let (meta, schema) = read.map_err(here)?;
        Ok(ParquetFile { source, stat, meta, schema })
    }

    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// The fields, dictionaries decoded.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
    pub fn groups(&self) -> usize {
        self.meta.metadata().num_row_groups()
    }
    pub fn group_rows(&self, group: usize) -> u64 {
        self.meta.metadata().row_group(group).num_rows() as u64
    }
    /// Bytes that the wanted columns of a row group have when they are decoded, as far as the file says: of strings in
    /// dictionaries only newer files do.
    pub fn group_bytes(&self, group: usize, projection: &Projection) -> u64 {
        let group = self.meta.metadata().row_group(group);
        let wanted = group.columns().iter().enumerate().filter(|(i, _)| projection.mask.leaf_included(*i));
        let rows = group.num_rows().max(0) as u64;
        wanted.map(|(_, c)| decoded_bytes(c, rows)).fold(0, u64::saturating_add)
    }
    /// Bytes that are taken for the dictionaries of the wanted columns, packed and unpacked, as far as the footer says what
    /// they are: whoever wants any piece has to unpack them. Those of numbers are not kept as a whole.
    pub fn dictionary_bytes(&self, group: usize, projection: &Projection) -> u64 {
        let group = self.meta.metadata().row_group(group);
        let numbers = |leaf| projection.fields.iter().any(|(_, stored)| stored.is_some_and(|s| s.leaf == leaf));
        let wanted = group.columns().iter().enumerate();
        let wanted = wanted.filter(|(i, _)| projection.mask.leaf_included(*i) && !numbers(*i));
        let bytes = |c: &ColumnChunkMetaData| {
            let before = c.dictionary_page_offset().map_or(0, |at| c.data_page_offset().saturating_sub(at));
            let packed = before.clamp(0, c.compressed_size().max(0)) as u64;
            let behind = (c.compressed_size().max(0) as u64) - packed;
            match (packed, c.compression()) {
                (packed, Compression::UNCOMPRESSED) | (packed @ 0, _) => packed,
                _ => packed + (c.uncompressed_size().max(0) as u64).saturating_sub(behind),
            }
        };
        wanted.map(|(_, c)| bytes(c)).fold(0, u64::saturating_add)
    }
    /// These of the top-level fields.
    pub fn projection(&self, fields: &[usize]) -> Projection {
        let mask = ProjectionMask::roots(self.meta.parquet_schema(), fields.iter().copied());
        // As they are stored, whatever the writer's own types were.
        let stored = parquet_to_arrow_schema(self.meta.parquet_schema(), None).ok();
        let fields = fields.iter().map(|&root| (root, self.stored(root, stored.as_ref()))).collect();
        Projection { mask, fields }
    }
    /// How to read a field as numbers, if its values are stored just as they will be used.
    fn stored(&self, root: usize, stored: Option<&Schema>) -> Option<Stored> {
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
        (is_same && is_flat && is_little).then(|| Stored { leaf, size, is_optional: column.max_def_level() == 1 })
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
}

/// The end of a file, which was read already, and the rest of it.
struct End<'a> {
    source: &'a Arc<dyn Source>,
    bytes: Bytes,
    /// Where they begin.
    at: u64,
}

impl End<'_> {
    /// Bytes of the file.
    fn get(&self, range: Range<u64>) -> Result<Bytes> {
        match range.start.checked_sub(self.at) {
            Some(start) => Ok(self.bytes.slice(start as usize..(range.end - self.at) as usize)),
            None => exact(self.source, range).map(to_bytes),
        }
    }
}

/// Adds the places of pages, where the file has them. One column's lie behind the other's: all of them have no more bytes
/// than the file. The library wants all that lies between the first and the last: if that is much more, or is very much, pages
/// are found by their headers, as in files without such places.
fn with_places(meta: ParquetMetaData, end: &End, len: u64) -> Result<ParquetMetaData> {
    let columns = meta.row_groups().iter().flat_map(|group| group.columns());
    let places = columns.filter_map(|column| column.offset_index_range());
    let (mut sum, mut first, mut last) = (0u64, u64::MAX, 0);
    for place in places.clone() {
        sum = sum.saturating_add(place.end - place.start);
        (first, last) = (first.min(place.start), last.max(place.end));
        if place.end > len || sum > len {
            let text = format!(
                "an index of pages ends at byte {}, all so far have {sum} bytes; the file has {len}",
                place.end
            );
            return Err(Error::data(text));
        }
    }
    let span = last.saturating_sub(first);
    if span == 0 || span > sum.saturating_mul(2).saturating_add(GAP_BYTES).min(MAX_FOOTER_BYTES) {
        return Ok(meta);
    }
    let bytes = end.get(first..last)?;
    for place in places {
        let range = (place.start - first) as usize..(place.end - first) as usize;
        claims::check_offset_index(&bytes[range], place.start)?;
    }
    guarded("the index of pages cannot be read", || {
        let decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(len, meta).map_err(|e| words(&e))?;
        let mut decoder =
            decoder.with_column_index_policy(PageIndexPolicy::Skip).with_offset_index_policy(PageIndexPolicy::Optional);
        decoder.push_range(first..last, bytes).map_err(|e| words(&e))?;
        match decoder.try_decode().map_err(|e| words(&e))? {
            DecodeResult::Data(meta) => Ok(meta),
            _ => Err("a part of it is missing".into()),
        }
    })
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

/// What the values of a column chunk take up.
fn decoded_bytes(column: &ColumnChunkMetaData, rows: u64) -> u64 {
    // A view of ours.
    const VIEW: u64 = 24;
    // Each row has a value or a null, whatever the column says; of lists it may have none.
    let rows = if column.column_descr().max_rep_level() == 0 { rows } else { 0 };
    let (values, stored) = ((column.num_values().max(0) as u64).max(rows), column.uncompressed_size().max(0) as u64);
    let item = match column.column_type() {
        Type::BYTE_ARRAY => {
            let strings = column.unencoded_byte_array_data_bytes().map_or(0, |bytes| bytes.max(0) as u64);
            return stored.max(strings).saturating_add(values.saturating_mul(VIEW));
        }
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::INT96 | Type::DOUBLE => 8,
        Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().max(0) as u64 + VIEW,
    };
    values.saturating_mul(item).max(stored)
}

/// Asks for plain values where the writer had dictionaries, and for views where it had strings. Also says which types
/// these are: views are a matter of how they are read.
fn schema_of(meta: ParquetMetaData) -> std::result::Result<(ArrowReaderMetadata, SchemaRef), ParquetError> {
    let meta = Arc::new(meta);
    let as_written = ArrowReaderMetadata::try_new(meta.clone(), ArrowReaderOptions::new())?;
    let with = |change: &dyn Fn(&Field) -> Field| {
        let fields: Vec<_> = as_written.schema().fields().iter().map(|f| Arc::new(change(f))).collect();
        Arc::new(Schema::new_with_metadata(fields, as_written.schema().metadata().clone()))
    };
    let (plain, views) = (with(&decoded), with(&|f| viewed(&decoded(f))));
    if views.fields() == as_written.schema().fields() {
        return Ok((as_written, plain));
    }
    let read_as = |schema: &SchemaRef| {
        ArrowReaderMetadata::try_new(meta.clone(), ArrowReaderOptions::new().with_schema(schema.clone()))
    };
    // A schema that cannot be had with views may be had without.
    let meta = read_as(&views).or_else(|_| read_as(&plain))?;
    Ok((meta, plain))
}

/// The words of an error, without the name of its kind.
fn words(error: &ParquetError) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, rest)| rest.to_string())
}
