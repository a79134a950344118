//! The pages of a row group as the Arrow reader wants them, unpacked into blocks of ours.
//!
//! That crate's own way is a vector for each page. Nobody counts those, and the C library keeps what they took: once a
//! dictionary of 20 MB was freed, its allocator cuts blocks of that size out of each thread's arena, and gives nothing
//! back while twice as much lies free at the end of one.

use super::claims::check_page_header;
use super::dictionaries::{Dictionaries, Dictionary};
use super::group::Fetched;
use super::numbers::{are_there, cut_levels};
use super::pages::{Kind, Page, Pages, unpacks};
use super::words;
use bytes::Bytes;
use feedline_io::{Error, Scratch, scratch};
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page as Unpacked, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Where a page lies, and what is known of it without looking there.
#[derive(Clone, Debug)]
pub struct Place {
    pub range: Range<u64>,
    pub is_dictionary: bool,
    /// Rows that begin in it, where it begins with one.
    pub rows: Option<usize>,
    pub values: Option<usize>,
}

impl Place {
    pub fn of(page: &Page) -> Place {
        let rows = match page.kind {
            Kind::DataV2 { rows, .. } => Some(rows),
            _ => None,
        };
        let is_dictionary = page.kind == Kind::Dictionary;
        Place { range: page.range.clone(), is_dictionary, rows, values: Some(page.values) }
    }
    fn known(&self) -> PageMetadata {
        match self.is_dictionary {
            true => PageMetadata { num_rows: None, num_levels: None, is_dict: true },
            false => PageMetadata { num_rows: self.rows, num_levels: self.values, is_dict: false },
        }
    }
}

/// One row group.
pub struct Alone<'a> {
    pub meta: &'a ParquetMetaData,
    pub number: usize,
    pub fetched: Arc<Fetched>,
    pub dictionaries: &'a Dictionaries,
    /// The pages of a column, if somebody has looked for them.
    pub places: &'a dyn Fn(usize) -> Option<Arc<[Place]>>,
    /// The page that could not be unpacked, by the column that it is of.
    pub wrong: &'a Wrong,
}

/// An error of a page, and the leaf that has it.
pub type Wrong = Arc<OnceLock<(usize, Error)>>;

impl Alone<'_> {
    /// The places that the footer knows.
    fn indexed(&self, leaf: usize) -> Option<Arc<[Place]>> {
        let places = self.meta.page_index()?.page_locations(self.number, leaf)?;
        let (start, _) = self.meta.row_group(self.number).column(leaf).byte_range();
        let range = |at: i64, len: i32| Some(u64::try_from(at).ok()?..u64::try_from(at.checked_add(len.into())?).ok()?);
        let ends = places.iter().skip(1).map(|place| place.first_row_index).chain([self.num_rows() as i64]);
        // What lies in front of the first is a dictionary.
        let first = u64::try_from(places.first()?.offset).ok().filter(|first| *first > start);
        let dictionary = first.map(|end| Place { range: start..end, is_dictionary: true, rows: None, values: None });
        let data = places.iter().zip(ends).map(|(place, end)| {
            let rows = Some(usize::try_from(end.checked_sub(place.first_row_index)?).ok()?);
            let range = range(place.offset, place.compressed_page_size)?;
            Some(Place { range, is_dictionary: false, rows, values: None })
        });
        dictionary.map(Some).into_iter().chain(data).collect()
    }
}

impl RowGroups for Alone<'_> {
    fn num_rows(&self) -> usize {
        self.meta.row_group(self.number).num_rows() as usize
    }
    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let column = self.meta.row_group(self.number).column(leaf);
        let (fetched, dictionary) = (self.fetched.clone(), self.dictionaries.of(leaf));
        let indexed = self.indexed(leaf);
        let starts_rows = indexed.is_some();
        let pages = match indexed.or_else(|| (self.places)(leaf)) {
            Some(places) => Walk::Known { places, next: 0 },
            None => {
                let (start, len) = column.byte_range();
                Walk::Unknown { pages: fetched.pages(start..start + len, column.compression()).0, next: None }
            }
        };
        let wrong = (leaf, self.wrong.clone());
        let chunk = Chunk { pages, fetched, column: column.clone(), dictionary, passed: None, starts_rows, wrong };
        Ok(Box::new(One(Some(Box::new(chunk)))))
    }
    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.meta.row_group(self.number)))
    }
    fn metadata(&self) -> &ParquetMetaData {
        self.meta
    }
}

/// The only chunk of a column.
struct One(Option<Box<dyn PageReader>>);

impl Iterator for One {
    type Item = Result<Box<dyn PageReader>>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for One {}

/// The pages of a column chunk, of which the first may be a dictionary.
struct Chunk {
    pages: Walk,
    fetched: Arc<Fetched>,
    column: ColumnChunkMetaData,
    dictionary: Dictionary,
    /// The dictionary was passed over, and nobody has asked for it since.
    passed: Option<Next>,
    /// Every page begins with a row.
    starts_rows: bool,
    /// Its leaf, and where to say which page could not be unpacked.
    wrong: (usize, Wrong),
}

enum Walk {
    Known { places: Arc<[Place]>, next: usize },
    Unknown { pages: Pages, next: Option<Page> },
}

/// A page that comes next.
enum Next {
    Place(Place),
    Page(Page),
}

impl Next {
    fn is_dictionary(&self) -> bool {
        match self {
            Next::Place(place) => place.is_dictionary,
            Next::Page(page) => page.kind == Kind::Dictionary,
        }
    }
}

impl Walk {
    /// What is known of the next one.
    fn peek(&mut self) -> feedline_io::Result<Option<PageMetadata>> {
        match self {
            Walk::Known { places, next } => Ok(places.get(*next).map(Place::known)),
            Walk::Unknown { pages, next } => {
                while next.is_none() {
                    match pages.next()? {
                        Some(page) if page.kind == Kind::Other => {}
                        Some(page) => *next = Some(page),
                        None => return Ok(None),
                    }
                }
                Ok(next.as_ref().map(|page| Place::of(page).known()))
            }
        }
    }
    fn next(&mut self) -> feedline_io::Result<Option<Next>> {
        self.peek()?;
        Ok(match self {
            Walk::Known { places, next } => {
                *next += 1;
                places.get(*next - 1).cloned().map(Next::Place)
            }
            Walk::Unknown { next, .. } => next.take().map(Next::Page),
        })
    }
}

impl Chunk {
    /// The same error for the Arrow reader, which gives its words alone to whoever wants rows of it.
    fn told(&self, error: Error) -> ParquetError {
        let words = ParquetError::General(error.message().into());
        let _ = self.wrong.1.set((self.wrong.0, error));
        words
    }
    fn unpack(&self, next: Next) -> Result<Unpacked> {
        self.unpacked(next).map_err(|e| self.told(e))
    }
    fn unpacked(&self, next: Next) -> feedline_io::Result<Unpacked> {
        let page = match next {
            Next::Page(page) => page,
            Next::Place(place) => {
                let range = &place.range;
                let bytes = self.fetched.bytes(range.start, (range.end - range.start) as usize)?;
                let page = Pages::new(bytes, range.start, self.column.compression()).next()?;
                let page = page.filter(|page| (page.kind == Kind::Dictionary) == place.is_dictionary);
                page.ok_or_else(|| Error::data("there is no page where one should be").at_byte(range.start))?
            }
        };
        let unpacked = unpacked(&page, &self.column, &self.fetched)?;
        check_levels(&page, &unpacked, &self.column)?;
        Ok(unpacked)
    }
}

/// Refuses pages of lists that do not say of all of their items where these belong: the Arrow reader would wait for the others
/// forever.
fn check_levels(page: &Page, unpacked: &Unpacked, column: &ColumnChunkMetaData) -> feedline_io::Result<()> {
    let most = column.column_descr().max_rep_level() as u16;
    let levels = match unpacked {
        _ if most == 0 => return Ok(()),
        Unpacked::DataPage { buf, rep_level_encoding: Encoding::RLE, .. } => cut_levels(&mut &buf[..]),
        Unpacked::DataPageV2 { buf, rep_levels_byte_len, .. } => buf.get(..*rep_levels_byte_len as usize),
        // Packed levels have the length that their number gives.
        Unpacked::DataPage { .. } | Unpacked::DictionaryPage { .. } => return Ok(()),
    };
    let width = (u16::BITS - most.leading_zeros()) as usize;
    match levels.is_some_and(|levels| are_there(levels, width, page.values)) {
        true => Ok(()),
        false => Err(page.damaged("its levels end early")),
    }
}

impl PageReader for Chunk {
    fn get_next_page(&mut self) -> Result<Option<Unpacked>> {
        match self.pages.next().map_err(|e| self.told(e))? {
            Some(next) if next.is_dictionary() => self.dictionary.get(|| self.unpack(next)).map(Some),
            Some(next) => self.unpack(next).map(Some),
            None => Ok(None),
        }
    }
    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek().map_err(|e| self.told(e))
    }
    fn skip_next_page(&mut self) -> Result<()> {
        if let Some(next) = self.pages.next().map_err(|e| self.told(e))?.filter(Next::is_dictionary) {
            self.passed = Some(next);
        }
        Ok(())
    }
    fn supports_deferred_dictionary(&self) -> bool {
        true
    }
    fn take_deferred_dictionary(&mut self) -> Result<Option<Unpacked>> {
        let passed = self.passed.take();
        passed.map(|next| self.dictionary.get(|| self.unpack(next))).transpose()
    }
    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(self.starts_rows || self.peek_next_page()?.is_none_or(|page| page.num_rows.is_some()))
    }
}

impl Iterator for Chunk {
    type Item = Result<Unpacked>;
    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// A page, unpacked into a block that counts.
pub fn unpacked(page: &Page, column: &ColumnChunkMetaData, fetched: &Arc<Fetched>) -> feedline_io::Result<Unpacked> {
    if !unpacks(column.compression()) {
        let header = fetched.bytes(page.range.start, page.header_bytes())?;
        check_page_header(&header, page.range.start)?;
        return by_the_library(page, column, fetched).map_err(|e| page.damaged(&words(&e)));
    }
    let Some((buf, _)) = page.unpacked()? else {
        return Err(page.damaged("it is compressed in another way than its column"));
    };
    let encoding = |number| encoding(number).ok_or_else(|| page.damaged(&format!("there is no encoding {number}")));
    let (num_values, own) = (page.values as u32, encoding(page.encoding)?);
    Ok(match page.kind {
        Kind::Dictionary => Unpacked::DictionaryPage { buf, num_values, encoding: own, is_sorted: false },
        Kind::Data { levels, of_lists } => Unpacked::DataPage {
            buf,
            num_values,
            encoding: own,
            def_level_encoding: encoding(levels)?,
            rep_level_encoding: encoding(of_lists)?,
            statistics: None,
        },
        Kind::DataV2 { repetition, definition, rows, nulls, .. } => Unpacked::DataPageV2 {
            buf,
            num_values,
            encoding: own,
            num_nulls: nulls as u32,
            num_rows: rows as u32,
            def_levels_byte_len: definition as u32,
            rep_levels_byte_len: repetition as u32,
            is_compressed: column.compression() != Compression::UNCOMPRESSED,
            statistics: None,
        },
        Kind::Other => return Err(page.damaged("it has no values")),
    })
}

/// The same for what we do not unpack: a chunk of this page alone, read in the library's own way.
fn by_the_library(page: &Page, column: &ColumnChunkMetaData, fetched: &Arc<Fetched>) -> Result<Unpacked> {
    /// A library's memory, which counts as long as somebody has it.
    struct Counted(Bytes, #[allow(dead_code)] Scratch);
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let (charge, range) = (scratch(page.size), &page.range);
    let alone = column.clone().into_builder().set_dictionary_page_offset(None);
    let alone = alone.set_data_page_offset(range.start as i64);
    let alone = alone.set_total_compressed_size((range.end - range.start) as i64).build()?;
    let mut read = SerializedPageReader::new(fetched.clone(), &alone, 0, None)?;
    let none = || ParquetError::General("it is not there".into());
    let mut unpacked = read.get_next_page()?.ok_or_else(none)?;
    let (Unpacked::DataPage { buf, .. } | Unpacked::DataPageV2 { buf, .. } | Unpacked::DictionaryPage { buf, .. }) =
        &mut unpacked;
    *buf = Bytes::from_owner(Counted(std::mem::take(buf), charge));
    Ok(unpacked)
}

/// By the numbers of the format.
fn encoding(number: i32) -> Option<Encoding> {
    Some(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        #[allow(deprecated)]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return None,
    })
}
