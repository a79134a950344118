//! A row group that was read: rows decoded out of its bytes, in pieces, by any thread and in any order.
//!
//! What one piece finds out serves the others: where the pages are, that their sizes can be, and what those were unpacked
//! to that reach into the next piece.

use super::numbers::{Numbers, Room};
use super::pages::{self, Pages};
use super::{ParquetFile, Projection, Stored, exact, words};
use crate::columnar::{Values, guarded, to_bytes};
use arrow_array::ArrayRef;
use bytes::Bytes;
use feedline_io::{Buf, Error, Result, Source};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub struct Group {
    file: Arc<ParquetFile>,
    number: usize,
    fetched: Fetched,
    /// The fields that are wanted.
    fields: Vec<Field>,
    /// For pages that were unpacked.
    room: Room,
}

struct Field {
    root: usize,
    numbers: Option<(Stored, Numbers)>,
    /// Whether the sizes of its pages can be, once that was looked at.
    checked: OnceLock<Result<()>>,
}

/// Items of lists in a page, at most: a few bytes can stand for any number of equal ones, and all of them may be one row's.
const MOST_ITEMS: usize = 64 << 20;

impl Group {
    /// `read` are ranges with their bytes; what they do not cover is read when it is needed. Pages that were unpacked may
    /// take up `keep_bytes` between the pieces.
    pub fn new(
        file: &Arc<ParquetFile>,
        number: usize,
        projection: &Projection,
        read: Vec<(u64, Buf)>,
        keep_bytes: usize,
    ) -> Group {
        let fetched = Fetched {
            read: read.into_iter().map(|(at, buf)| (at, to_bytes(buf))).collect(),
            source: file.source.clone(),
            len: file.stat.len,
        };
        let mut group = Group { file: file.clone(), number, fetched, fields: vec![], room: Room::new(keep_bytes) };
        for &(root, stored) in &projection.fields {
            let numbers = stored.and_then(|stored| Some((stored, group.numbers(stored)?)));
            group.fields.push(Field { root, numbers, checked: OnceLock::new() });
        }
        group
    }
    /// Bytes of pages that are kept unpacked now.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.room.taken()
    }
    fn column(&self, leaf: usize) -> &ColumnChunkMetaData {
        self.file.meta.metadata().row_group(self.number).column(leaf)
    }
    /// The pages of a column, if it was read ahead.
    fn pages(&self, leaf: usize) -> Option<Pages> {
        let column = self.column(leaf);
        let (start, len) = column.byte_range();
        let chunk = self.fetched.ahead(start, usize::try_from(len).ok()?)?;
        Some(Pages::new(chunk, start, column.compression()))
    }
    /// A column to be read as numbers, if nothing that is known of it speaks against that.
    fn numbers(&self, stored: Stored) -> Option<Numbers> {
        let column = self.column(stored.leaf);
        let has_nulls = column.statistics().and_then(|s| s.null_count_opt()).is_some_and(|n| n > 0);
        let is_known = |e: Encoding| {
            use Encoding::{PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY};
            matches!(e, PLAIN | PLAIN_DICTIONARY | RLE | RLE_DICTIONARY)
        };
        if has_nulls || !pages::unpacks(column.compression()) || !column.encodings().all(is_known) {
            return None;
        }
        Numbers::new(self.pages(stored.leaf)?, stored.is_optional)
    }

    /// Some rows, column by column as the projection has them.
    pub fn decode(&self, rows: Range<usize>) -> Result<Vec<Values>> {
        self.decode_rows(rows).map_err(|e| e.in_file(self.file.source.name(), None))
    }
    fn decode_rows(&self, rows: Range<usize>) -> Result<Vec<Values>> {
        let mut values: Vec<Option<Values>> = self.fields.iter().map(|_| None).collect();
        // Whoever decodes another piece at the same time begins with another column, so that nobody waits for a page.
        let piece = (rows.start / rows.len().max(1)) as u32;
        let first = (u64::from(piece.wrapping_mul(0x9e37_79b9)) * self.fields.len() as u64) >> 32;
        for i in (first as usize..self.fields.len()).chain(0..first as usize) {
            if let Some((stored, numbers)) = &self.fields[i].numbers {
                let read = self.read_numbers(*stored, numbers, rows.clone());
                values[i] = read.map_err(|e| self.of_column(e, stored.leaf))?.map(Values::Numbers);
            }
        }
        let left: Vec<usize> = (0..values.len()).filter(|&i| values[i].is_none()).collect();
        if !left.is_empty() {
            left.iter().try_for_each(|&i| self.check_pages(&self.fields[i]))?;
            let roots: Vec<usize> = left.iter().map(|&i| self.fields[i].root).collect();
            let arrays = self.read_arrays(&roots, rows, self.fetched.clone())?;
            left.into_iter().zip(arrays).for_each(|(i, array)| values[i] = Some(Values::Array(array)));
        }
        let all: Option<Vec<Values>> = values.into_iter().collect();
        all.ok_or_else(|| Error::internal("a column was not decoded"))
    }
    /// Rows of a column of numbers; none if they have to be read as an array.
    fn read_numbers(&self, stored: Stored, numbers: &Numbers, rows: Range<usize>) -> Result<Option<Buf>> {
        let mut buf = Buf::new(rows.len() * stored.size);
        let out = buf.get_mut().expect("a new block has one holder");
        let is_read = match stored.size {
            4 => numbers.read::<4>(rows, out.as_chunks_mut().0, &self.room)?,
            _ => numbers.read::<8>(rows, out.as_chunks_mut().0, &self.room)?,
        };
        Ok(is_read.then_some(buf))
    }
    /// Refuses what the Arrow reader would believe: it takes the memory that a page claims to need. Only of columns that
    /// were read ahead: others are large themselves.
    fn check_pages(&self, field: &Field) -> Result<()> {
        let schema = self.file.meta.parquet_schema();
        let check = || {
            for leaf in (0..schema.num_columns()).filter(|&leaf| schema.get_column_root_idx(leaf) == field.root) {
                let Some(mut pages) = self.pages(leaf) else { continue };
                let is_list = schema.column(leaf).max_rep_level() > 0;
                while let Some(page) = pages.next().map_err(|e| self.of_column(e, leaf))? {
                    if is_list && page.values > MOST_ITEMS {
                        let why = page.damaged(&format!("it claims to have {} items", page.values));
                        return Err(self.of_column(why, leaf));
                    }
                }
            }
            Ok(())
        };
        field.checked.get_or_init(check).clone()
    }
    /// Fields as the Arrow reader decodes them, in the order of `roots`.
    pub(super) fn read_arrays(&self, roots: &[usize], rows: Range<usize>, fetched: Fetched) -> Result<Vec<ArrayRef>> {
        let mask = ProjectionMask::roots(self.file.meta.parquet_schema(), roots.iter().copied());
        let (group, total) = (self.number, self.file.group_rows(self.number) as usize);
        let batch = guarded(&format!("row group {group} cannot be decoded"), || {
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(fetched, self.file.meta.clone())
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
        let mut in_file = roots.to_vec();
        in_file.sort_unstable();
        let place = |root| in_file.binary_search(root).ok().and_then(|place| batch.columns().get(place)).cloned();
        roots.iter().map(|root| place(root).ok_or_else(|| Error::internal("a column was not decoded"))).collect()
    }
    /// The error of a page, with the names of where it is.
    fn of_column(&self, error: Error, leaf: usize) -> Error {
        let (group, path) = (self.number, self.column(leaf).column_path());
        let text = format!("row group {group} cannot be decoded: column {path}: {}", error.message());
        error.at().byte.map_or(Error::data(text.clone()), |byte| Error::data(text).at_byte(byte))
    }
}

/// Bytes that were read ahead, and the file for all others.
#[derive(Clone)]
pub(super) struct Fetched {
    pub read: Vec<(u64, Bytes)>,
    pub source: Arc<dyn Source>,
    pub len: u64,
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
pub(super) struct From {
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
