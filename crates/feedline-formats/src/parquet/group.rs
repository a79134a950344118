//! A row group that was read: rows decoded out of its bytes, in pieces, by any thread and in any order.
//!
//! What one piece finds out serves the others: where the pages are, that their sizes can be, and what those were unpacked
//! to that reach into the next piece. That holds for row groups of any size: of one that was not read ahead the headers of
//! pages are read once, and each page of numbers when its first row is wanted.

use super::dictionaries::Dictionaries;
use super::for_arrow::{Alone, Place, unpacked};
use super::items::Items;
use super::lengths::{Grown, Lengths, Sizes, check_count};
use super::numbers::{Numbers, Room, cut_levels, most_pages, zeros};
use super::pages::{self, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, Page, Pages};
use super::{ParquetFile, Projection, Stored, exact, words};
use crate::columnar::{Values, counted, guarded, to_bytes};
use arrow_array::ArrayRef;
use bytes::Bytes;
use feedline_io::{Buf, Error, Kind, Result, Source};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::Page as Unpacked;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub struct Group {
    file: Arc<ParquetFile>,
    number: usize,
    fetched: Arc<Fetched>,
    /// The fields that are wanted.
    fields: Vec<Field>,
    /// For pages that were unpacked.
    room: Room,
    dictionaries: Dictionaries,
    /// What the strings of a piece may take up, for a column.
    piece_bytes: u64,
}

struct Field {
    root: usize,
    /// If it may be numbers; those, once that was looked at.
    numbers: Option<(Stored, OnceLock<Option<Numbers>>)>,
    /// Whether the sizes of its pages can be, and what they are, once that was looked at: for each leaf.
    checked: OnceLock<Result<Vec<Checked>>>,
}

/// What the pages of a column say of themselves.
struct Checked {
    leaf: usize,
    /// What its strings become.
    grown: Grown,
    /// The items of its lists, if all of them take more than a column of a piece may.
    items: Option<Items>,
    /// What its dictionary takes, and what its largest page does.
    dictionary: Taken,
    largest: Taken,
    /// Where they are, if they are not too many to be remembered.
    places: Option<Arc<[Place]>>,
}

/// Bytes that are taken to unpack a page: they are kept, except for those in which it was packed.
#[derive(Clone, Copy, Default)]
struct Taken {
    kept: usize,
    packed: usize,
    /// Where it lies.
    byte: u64,
}

impl Taken {
    fn of(page: &Page) -> Taken {
        let (kept, packed) = match (page.is_packed(), page.bytes_to_read()) {
            (true, packed) => (page.size, packed),
            (false, read) => (read, 0),
        };
        Taken { kept, packed, byte: page.range.start }
    }
    fn all(&self) -> usize {
        self.kept.saturating_add(self.packed)
    }
}

/// Dictionaries and pages may take this much, whatever the limit.
const LEAST_BYTES: u64 = 8 << 20;

/// Items of lists in a page, at most: a few bytes can stand for any number of equal ones, and all of them may be one row's.
const MOST_ITEMS: usize = 64 << 20;

/// Bytes that are taken for a list in a list: its offset as it is decoded, and as it is used.
const LIST_BYTES: u64 = 4 + 16;

/// Bytes that are taken for an item of a list: its levels, its value as it is stored and as it is used.
fn item_bytes(column: &ColumnChunkMetaData) -> u64 {
    const LEVELS: u64 = 4;
    // A view of the Arrow reader's, and one of ours.
    const VIEWS: u64 = 16 + 24;
    LEVELS
        + match column.column_type() {
            Type::BOOLEAN => 2,
            Type::INT32 | Type::FLOAT => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 20,
            Type::BYTE_ARRAY => VIEWS,
            Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().max(0) as u64 + VIEWS,
        }
}

impl Group {
    /// `read` are ranges with their bytes; what they do not cover is read when it is needed. Pages that were unpacked may
    /// take up `keep_bytes` between the pieces, and the strings of a column that are stored by what they share `piece_bytes` in
    /// a piece: nobody knows what these become before they are looked at.
    pub fn new(
        file: &Arc<ParquetFile>,
        number: usize,
        projection: &Projection,
        read: Vec<(u64, Buf)>,
        keep_bytes: usize,
        piece_bytes: usize,
    ) -> Group {
        let fetched = Arc::new(Fetched {
            read: read.into_iter().map(|(at, buf)| (at, to_bytes(buf))).collect(),
            source: file.source.clone(),
            len: file.stat.len,
        });
        let fields = projection.fields.iter().map(|&(root, stored)| {
            let numbers = stored.map(|stored| (stored, OnceLock::new()));
            Field { root, numbers, checked: OnceLock::new() }
        });
        let (fields, room) = (fields.collect(), Room::new(keep_bytes));
        // The offsets of the Arrow reader's views have 32 bits.
        let piece_bytes = (piece_bytes as u64).min(u32::MAX.into());
        Group { file: file.clone(), number, fetched, fields, room, dictionaries: Dictionaries::default(), piece_bytes }
    }
    /// Bytes of pages that are kept unpacked now.
    #[cfg(test)]
    pub fn kept_bytes(&self) -> usize {
        self.room.taken()
    }
    /// Bytes of dictionaries that the Arrow reader's pieces share now.
    #[cfg(test)]
    pub fn dictionary_bytes(&self) -> usize {
        self.dictionaries.bytes()
    }
    fn column(&self, leaf: usize) -> &ColumnChunkMetaData {
        self.file.meta.metadata().row_group(self.number).column(leaf)
    }
    /// The pages of a column, and whether it was read ahead.
    fn pages(&self, leaf: usize) -> (Pages, bool) {
        let column = self.column(leaf);
        let (start, len) = column.byte_range();
        self.fetched.pages(start..start + len, column.compression())
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
        let (pages, is_read) = self.pages(stored.leaf);
        // Where one piece is wanted of many, only its pages should be looked at.
        if !is_read && self.room.most() == 0 {
            return None;
        }
        Numbers::new(pages, stored.is_optional)
    }

    /// Bytes that the lists of some rows take while they are decoded, and the column that takes most of them. None where
    /// those of the whole row group are few.
    pub fn list_bytes(&self, rows: &Range<usize>) -> Result<(u64, String)> {
        self.bytes_of_lists(rows).map_err(|e| e.in_file(self.file.source.name(), None))
    }
    fn bytes_of_lists(&self, rows: &Range<usize>) -> Result<(u64, String)> {
        let (mut sum, mut most, mut name) = (0u64, 0, String::new());
        for field in self.fields.iter().filter(|field| self.has_lists(field)) {
            for Checked { leaf, items, .. } in self.checked(field)? {
                let Some(items) = items else { continue };
                let (most_items, column) = (items.most(rows), self.column(*leaf));
                let levels = u64::from(column.column_descr().max_rep_level().max(1) as u16 - 1);
                let of_lists = most_items.lists.saturating_mul(levels * LIST_BYTES);
                let bytes = most_items.items.saturating_mul(item_bytes(column)).saturating_add(of_lists);
                sum = sum.saturating_add(bytes);
                if bytes > most {
                    (most, name) = (bytes, self.column(*leaf).column_path().string());
                }
            }
        }
        Ok((sum, name))
    }
    fn has_lists(&self, field: &Field) -> bool {
        let schema = self.file.meta.parquet_schema();
        let mut leaves = (0..schema.num_columns()).filter(|&leaf| schema.get_column_root_idx(leaf) == field.root);
        leaves.any(|leaf| schema.column(leaf).max_rep_level() > 0)
    }
    /// What the pages of a field say of themselves.
    fn checked<'a>(&self, field: &'a Field) -> Result<&'a [Checked]> {
        let schema = self.file.meta.parquet_schema();
        let check = || {
            let leaves = (0..schema.num_columns()).filter(|&leaf| schema.get_column_root_idx(leaf) == field.root);
            leaves.map(|leaf| self.check_leaf(leaf).map_err(|e| self.of_column(e, leaf))).collect()
        };
        field.checked.get_or_init(check).as_deref().map_err(Clone::clone)
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
            if let Some((stored, numbers)) = &self.fields[i].numbers
                && let Some(numbers) = numbers.get_or_init(|| self.numbers(*stored))
            {
                let read = self.read_numbers(*stored, numbers, rows.clone());
                values[i] = read.map_err(|e| self.of_column(e, stored.leaf))?.map(Values::Numbers);
            }
        }
        let left: Vec<usize> = (0..values.len()).filter(|&i| values[i].is_none()).collect();
        if !left.is_empty() {
            left.iter().try_for_each(|&i| self.check_pages(&self.fields[i], &rows))?;
            self.check_room(left.iter().filter_map(|&i| self.fields[i].checked.get()?.as_ref().ok()).flatten())?;
            let roots: Vec<usize> = left.iter().map(|&i| self.fields[i].root).collect();
            let arrays = self.read_arrays(&roots, rows, self.fetched.clone())?;
            for (i, array) in left.into_iter().zip(arrays) {
                // Strings that lie in pages count with those; the others lie in memory of the Arrow reader's.
                let is_made = self.fields[i].checked.get().and_then(|c| c.as_ref().ok());
                let is_made = is_made.is_some_and(|leaves| leaves.iter().any(|checked| checked.grown.total() > 0));
                values[i] = Some(Values::Array(if is_made { counted(&array) } else { array }));
            }
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
    /// Refuses what the Arrow reader would believe: it takes the memory that a page claims to need, or that its strings
    /// become.
    fn check_pages(&self, field: &Field, rows: &Range<usize>) -> Result<()> {
        for Checked { leaf, grown, .. } in self.checked(field)? {
            let (bytes, page) = grown.most(rows);
            if bytes > self.piece_bytes {
                let text = format!(
                    "{} rows would be {bytes} bytes of strings, more than the {} that memory_limit leaves for them",
                    rows.len(),
                    self.piece_bytes
                );
                return Err(self.of_column(Error::new(Kind::Budget, text).at_byte(page), *leaf));
            }
        }
        Ok(())
    }
    /// Refuses dictionaries that all pieces need, and pages that any piece may need, if they cannot be unpacked within the
    /// limit: three quarters of it, of which `piece_bytes` is one.
    fn check_room<'a>(&self, columns: impl Iterator<Item = &'a Checked> + Clone) -> Result<()> {
        let most = self.piece_bytes.saturating_mul(3).max(LEAST_BYTES);
        let packed = columns.clone().map(|c| c.dictionary.packed).max().unwrap_or(0);
        let kept = columns.clone().map(|c| c.dictionary.kept as u64).fold(packed as u64, u64::saturating_add);
        let dictionary = columns.clone().max_by_key(|c| c.dictionary.all()).filter(|_| kept > most);
        let dictionary = dictionary.map(|c| (c.leaf, &c.dictionary, "dictionary", kept));
        let page = columns.max_by_key(|c| c.largest.all()).filter(|c| c.largest.all() as u64 > most);
        let page = page.map(|c| (c.leaf, &c.largest, "largest page", c.largest.all() as u64));
        let Some((leaf, taken, what, bytes)) = dictionary.or(page) else { return Ok(()) };
        let mega = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let others = match bytes > taken.all() as u64 {
            true => format!(", and with those of other columns {}", mega(bytes)),
            false => String::new(),
        };
        let text = format!(
            "its {what} of {} takes {} to unpack{others}; memory_limit leaves {} for that: raise it to {} or more, or write \
             the file with fewer rows in a row group, smaller pages, or no dictionary for this column",
            mega(taken.kept as u64),
            mega(taken.all() as u64),
            mega(most),
            mega((bytes as f64 * 4. / 3.) as u64 + 100_000),
        );
        Err(self.of_column(Error::new(Kind::Budget, text).at_byte(taken.byte), leaf))
    }
    fn check_leaf(&self, leaf: usize) -> Result<Checked> {
        let (column, (mut pages, is_read)) = (self.column(leaf), self.pages(leaf));
        let (descr, is_far) = (column.column_descr(), self.fetched.source.local_path().is_none());
        // Where one piece is wanted of many, looking at all pages of a far file would take longer than to read the piece:
        // then the footer is believed, which says how pages are encoded.
        let may_grow = |e: Encoding| matches!(e, Encoding::DELTA_BYTE_ARRAY | Encoding::DELTA_LENGTH_BYTE_ARRAY);
        let (dictionary, largest) = <(Taken, Taken)>::default();
        let mut checked = Checked { leaf, grown: Grown::default(), items: None, dictionary, largest, places: None };
        let takes_much = |items: u64| items.saturating_mul(item_bytes(column)) > self.piece_bytes;
        let is_long = descr.max_rep_level() > 0 && takes_much(column.num_values().max(0) as u64);
        if !is_read && is_far && self.room.most() == 0 && !column.encodings().any(may_grow) && !is_long {
            return Ok(checked);
        }
        let mut places = Some(Vec::new());
        let most_places = most_pages(pages.left());
        let (is_list, ty) = (descr.max_rep_level() > 0, column.column_type());
        let shortest = match ty {
            Type::BOOLEAN => 0,
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(descr.type_length()).unwrap_or(0),
        };
        let (grown, mut row, mut counts_rows, mut items) = (&mut checked.grown, 0usize, !is_list, 0u64);
        while let Some(page) = pages.next()? {
            if page.kind != pages::Kind::Other {
                let (taken, is_dictionary) = (Taken::of(&page), page.kind == pages::Kind::Dictionary);
                let largest = if is_dictionary { &mut checked.dictionary } else { &mut checked.largest };
                *largest = std::cmp::max_by_key(*largest, taken, Taken::all);
                places = places.filter(|places: &Vec<Place>| places.len() < most_places);
                places.iter_mut().for_each(|places| places.push(Place::of(&page)));
            }
            match page.kind {
                pages::Kind::Dictionary if page.values.saturating_mul(shortest) > page.size => {
                    let text = format!("a dictionary of {} bytes claims to have {} values", page.size, page.values);
                    return Err(page.damaged(&text));
                }
                pages::Kind::Dictionary | pages::Kind::Other => continue,
                pages::Kind::Data { .. } | pages::Kind::DataV2 { .. } => {}
            }
            items = items.saturating_add(page.values as u64);
            let has_lengths = match page.encoding {
                DELTA_BYTE_ARRAY => matches!(ty, Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY),
                encoding => encoding == DELTA_LENGTH_BYTE_ARRAY && ty == Type::BYTE_ARRAY,
            };
            if page.values > MOST_ITEMS && (is_list || has_lengths) {
                return Err(page.damaged(&format!("it claims to have {} items", page.values)));
            }
            if has_lengths && !counts_rows {
                // Only now it matters in which pages of lists rows begin.
                (row, counts_rows) = (self.rows_before(leaf, page.range.start)?, true);
            }
            if !(has_lengths || is_list && counts_rows) {
                row = row.saturating_add(page.values);
                continue;
            }
            let (rows, values) = self.unpacked(leaf, &page)?;
            let damaged = |why| page.damaged(why);
            match page.encoding {
                // All have one size, which the schema says.
                DELTA_BYTE_ARRAY if ty == Type::FIXED_LEN_BYTE_ARRAY => {
                    check_count(&values, page.values).map_err(damaged)?;
                }
                DELTA_BYTE_ARRAY if has_lengths => {
                    let sizes = Sizes::of(&values, page.values).map_err(damaged)?;
                    match is_list {
                        true => grown.listed(&sizes, row, page.range.start),
                        false => grown.flat(&sizes, row, page.values, page.range.start),
                    }
                }
                DELTA_LENGTH_BYTE_ARRAY if has_lengths => {
                    Lengths::new(&values, page.values).map_err(damaged)?;
                }
                _ => {}
            }
            row = row.saturating_add(rows);
        }
        let said = column.unencoded_byte_array_data_bytes().and_then(|bytes| u64::try_from(bytes).ok());
        match said {
            Some(said) if said < grown.total() => {
                let text = format!("its strings have {} bytes, and the footer says {said}", grown.total());
                Err(Error::data(text).at_byte(column.byte_range().0))
            }
            _ => {
                checked.places = places.map(Into::into);
                checked.items = (is_list && takes_much(items)).then(|| self.items(leaf, items)).transpose()?;
                Ok(checked)
            }
        }
    }
    /// Where the items of a column's rows are, of which there are so many.
    fn items(&self, leaf: usize, total: u64) -> Result<Items> {
        let deepest = self.column(leaf).column_descr().max_rep_level() as u16;
        let ((mut pages, _), mut items) = (self.pages(leaf), Items::new(total, deepest.into()));
        while let Some(page) = pages.next()? {
            if matches!(page.kind, pages::Kind::Data { .. } | pages::Kind::DataV2 { .. }) {
                let (levels, _) = self.levels(leaf, &page)?;
                items.page(&levels, page.values).ok_or_else(|| page.damaged("its levels end early"))?;
            }
        }
        Ok(items.finish())
    }
    /// The rows of lists that begin in pages before some byte.
    fn rows_before(&self, leaf: usize, byte: u64) -> Result<usize> {
        let ((mut pages, _), mut rows) = (self.pages(leaf), 0usize);
        while let Some(page) = pages.next()?.filter(|page| page.range.start < byte) {
            if matches!(page.kind, pages::Kind::Data { .. } | pages::Kind::DataV2 { .. }) {
                rows = rows.saturating_add(self.unpacked(leaf, &page)?.0);
            }
        }
        Ok(rows)
    }
    /// How many rows begin in a page, and its values as they are encoded.
    fn unpacked(&self, leaf: usize, page: &Page) -> Result<(usize, Bytes)> {
        let (repetition, values) = self.levels(leaf, page)?;
        let rows = match self.column(leaf).column_descr().max_rep_level() as u16 {
            0 => page.values,
            most => {
                let width = (u16::BITS - most.leading_zeros()) as usize;
                zeros(&repetition, width, page.values).ok_or_else(|| page.damaged("its levels end early"))?
            }
        };
        Ok((rows, values))
    }
    /// The levels of lists of a page, and its values as they are encoded.
    fn levels(&self, leaf: usize, page: &Page) -> Result<(Bytes, Bytes)> {
        let column = self.column(leaf);
        let descr = column.column_descr();
        let levels = (descr.max_rep_level() as u16, descr.max_def_level() as u16);
        let unpacked = guarded("it cannot be unpacked", || Ok(unpacked(page, column, &self.fetched)));
        let unpacked = unpacked.map_err(|e| page.damaged(e.message()))??;
        let short = || page.damaged("its levels are longer than it is");
        let (buf, repetition, behind) = match unpacked {
            Unpacked::DataPage { buf, rep_level_encoding, def_level_encoding, .. } => {
                let is_known = (levels.0 == 0 || rep_level_encoding == Encoding::RLE)
                    && (levels.1 == 0 || def_level_encoding == Encoding::RLE);
                if !is_known {
                    return Err(page.damaged("its levels are not stored as those of such strings are"));
                }
                let (mut rest, mut repetition) = (&buf[..], 0..0);
                if levels.0 > 0 {
                    let cut = cut_levels(&mut rest).ok_or_else(short)?.len();
                    repetition = 4..4 + cut;
                }
                if levels.1 > 0 {
                    cut_levels(&mut rest).ok_or_else(short)?;
                }
                let behind = buf.len() - rest.len();
                (buf, repetition, behind)
            }
            Unpacked::DataPageV2 { buf, rep_levels_byte_len, def_levels_byte_len, .. } => {
                let repetition = rep_levels_byte_len as usize;
                (buf, 0..repetition, repetition.saturating_add(def_levels_byte_len as usize))
            }
            Unpacked::DictionaryPage { .. } => return Err(page.damaged("it is a dictionary where values should be")),
        };
        if behind > buf.len() {
            return Err(short());
        }
        Ok((buf.slice(repetition), buf.slice(behind..)))
    }
    /// Fields as the Arrow reader decodes them, in the order of `roots`.
    pub(super) fn read_arrays(
        &self,
        roots: &[usize],
        rows: Range<usize>,
        fetched: Arc<Fetched>,
    ) -> Result<Vec<ArrayRef>> {
        let mask = ProjectionMask::roots(self.file.meta.parquet_schema(), roots.iter().copied());
        let (group, total) = (self.number, self.file.group_rows(self.number) as usize);
        let wrong = Arc::default();
        let batch = guarded(&format!("row group {group} cannot be decoded"), || {
            let meta = &self.file.meta;
            let hint = Some(meta.schema().fields());
            let levels = parquet_to_arrow_field_levels(meta.parquet_schema(), mask, hint).map_err(|e| words(&e))?;
            let selection = (rows != (0..total))
                .then(|| RowSelection::from(vec![RowSelector::skip(rows.start), RowSelector::select(rows.len())]));
            let checked = |leaf| {
                let fields = self.fields.iter().filter_map(|field| field.checked.get()?.as_ref().ok());
                fields.flatten().find(|checked| checked.leaf == leaf)?.places.clone()
            };
            let (meta, dictionaries) = (meta.metadata(), &self.dictionaries);
            let alone = Alone { meta, number: group, fetched, dictionaries, places: &checked, wrong: &wrong };
            let mut batches = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &alone, rows.len(), selection)
                .map_err(|e| words(&e))?;
            let batch = batches.next().ok_or("it has fewer rows than it says")?;
            batch.map_err(|e| crate::columnar::words(&e))
        });
        let starts = (0..self.file.meta.parquet_schema().num_columns())
            .filter(|&leaf| roots.contains(&self.file.meta.parquet_schema().get_column_root_idx(leaf)))
            .map(|leaf| self.column(leaf).byte_range().0);
        let here = |e: Error| starts.min().into_iter().fold(e, Error::near_byte);
        // What is wrong with a page the Arrow reader tells in words only.
        let batch = batch.map_err(|said| match wrong.get() {
            Some((leaf, error)) => self.of_column(Error::clone(error), *leaf),
            None => said,
        });
        let batch = match batch {
            Ok(batch) if batch.num_rows() == rows.len() => batch,
            Ok(_) => return Err(here(Error::data(format!("row group {group} has fewer rows than it says")))),
            Err(error) => return Err(here(error)),
        };
        // They come in the order of the file.
        let mut in_file = roots.to_vec();
        in_file.sort_unstable();
        let place = |root| in_file.binary_search(root).ok().and_then(|place| batch.columns().get(place)).cloned();
        roots.iter().map(|root| place(root).ok_or_else(|| Error::internal("a column was not decoded"))).collect()
    }
    /// The error of a page, with the names of where it is.
    fn of_column(&self, error: Error, leaf: usize) -> Error {
        let (group, column) = (self.number, self.column(leaf));
        let path = column.column_path();
        let named = error.reworded(|said| format!("row group {group} cannot be decoded: column {path}: {said}"));
        named.near_byte(column.byte_range().0)
    }
}

/// Bytes that were read ahead, and the file for all others.
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
    /// Bytes that were read ahead, or are now.
    pub fn bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if let Some(bytes) = self.ahead(start, length) {
            return Ok(bytes);
        }
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            let text = format!("{length} bytes are to be read; the file has {} bytes", self.len);
            return Err(Error::data(text).at_byte(start));
        }
        exact(&self.source, start..start + length as u64).map(to_bytes)
    }
    /// The pages in a range, and whether it was read ahead.
    pub fn pages(&self, range: Range<u64>, compression: Compression) -> (Pages, bool) {
        let len = usize::try_from(range.end - range.start).ok();
        match len.and_then(|len| self.ahead(range.start, len)) {
            Some(chunk) => (Pages::new(chunk, range.start, compression), true),
            None => (Pages::of_file(self.source.clone(), range, compression), false),
        }
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
        self.bytes(start, length).map_err(|e| ParquetError::General(e.message().into()))
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
