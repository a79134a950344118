//! The dictionaries of a row group, unpacked once for all of its pieces.
//!
//! The Arrow reader unpacks a dictionary for each piece, and the strings of a piece point into it: 50 MB, which a writer
//! makes of a thousand strings of 50 KB before it gives up, would be there once for each piece that is decoded or waits.

use super::group::Fetched;
use feedline_io::{Scratch, scratch};
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::Result;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By leaf, each as soon as somebody wanted it.
#[derive(Default)]
pub struct Dictionaries(Mutex<HashMap<usize, Arc<Slot>>>);

/// A dictionary, unpacked by the first who wants it while the others wait.
type Slot = Mutex<Option<(Page, Scratch)>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole: it is put there in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dictionaries {
    /// Bytes of those that are there.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let of = |slot: &Arc<Slot>| lock(slot).as_ref().map_or(0, |(page, _)| page.buffer().len());
        lock(&self.0).values().map(of).sum()
    }
    fn of(&self, leaf: usize) -> Arc<Slot> {
        lock(&self.0).entry(leaf).or_default().clone()
    }
}

/// One row group, as the Arrow reader wants it.
pub struct Alone<'a> {
    pub meta: &'a ParquetMetaData,
    pub number: usize,
    pub fetched: Arc<Fetched>,
    pub dictionaries: &'a Dictionaries,
}

impl RowGroups for Alone<'_> {
    fn num_rows(&self) -> usize {
        self.meta.row_group(self.number).num_rows() as usize
    }
    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let column = self.meta.row_group(self.number).column(leaf);
        let places = self.meta.page_index().and_then(|index| index.page_locations(self.number, leaf).cloned());
        let pages = SerializedPageReader::new(self.fetched.clone(), column, self.num_rows(), places)?;
        let is_packed = column.compression() != Compression::UNCOMPRESSED;
        let chunk = Chunk { pages, slot: self.dictionaries.of(leaf), is_packed, has_begun: false, is_passed: false };
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
    pages: SerializedPageReader<Fetched>,
    slot: Arc<Slot>,
    is_packed: bool,
    has_begun: bool,
    /// The dictionary was passed over, and nobody has asked for it since.
    is_passed: bool,
}

impl Chunk {
    /// Whether the next page is the dictionary. It is the next one only once.
    fn meets_dictionary(&mut self) -> Result<bool> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        Ok(is_first && self.pages.peek_next_page()?.is_some_and(|page| page.is_dict))
    }
    /// What another piece has unpacked, or what `read` does now.
    fn dictionary(
        &mut self,
        read: impl FnOnce(&mut SerializedPageReader<Fetched>) -> Result<Option<Page>>,
    ) -> Result<Option<Page>> {
        let slot = self.slot.clone();
        let mut known = lock(&slot);
        if let Some((page, _)) = &*known {
            return Ok(Some(page.clone()));
        }
        let page = read(&mut self.pages)?;
        // What is not packed lies in a block that was read, and counts there.
        let counted = |page: &Page| if self.is_packed { page.buffer().len() } else { 0 };
        *known = page.as_ref().map(|page| (page.clone(), scratch(counted(page))));
        Ok(page)
    }
}

impl PageReader for Chunk {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        if !self.meets_dictionary()? {
            return self.pages.get_next_page();
        }
        self.pages.skip_next_page()?;
        self.dictionary(|pages| pages.take_deferred_dictionary())
    }
    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }
    fn skip_next_page(&mut self) -> Result<()> {
        self.is_passed |= self.meets_dictionary()?;
        self.pages.skip_next_page()
    }
    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }
    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        match std::mem::take(&mut self.is_passed) {
            true => self.dictionary(|pages| pages.take_deferred_dictionary()),
            false => Ok(None),
        }
    }
    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for Chunk {
    type Item = Result<Page>;
    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
