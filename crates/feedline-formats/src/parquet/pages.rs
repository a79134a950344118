//! The pages of a column chunk: their headers and their contents. The chunk lies in memory, or in its file, of which only
//! headers are read then, and the contents of pages that are wanted.
//!
//! A header is a struct in Thrift's compact protocol (`thrift.rs`). Sizes are checked before anything is taken for them: a
//! page cannot be longer than its chunk, nor become larger than its compression can make it.

use super::thrift::{Compact, FALSE, I32, Read, STRUCT, TRUE};
use crate::columnar::to_bytes;
use bytes::Bytes;
use feedline_io::{Buf, Error, Result, Source};
use parquet::basic::Compression;
use std::ops::Range;
use std::sync::Arc;

/// Pages that claim to be no larger than this are believed.
const BELIEVED_BYTES: usize = 64 << 20;

/// What is read at once where a header is expected in a file, and what is read if that was too short for it.
const HEADER_BYTES: usize = 4 << 10;
const LONG_HEADER_BYTES: usize = 1 << 20;

/// The pages of a chunk, one after the other.
pub struct Pages {
    /// What is in memory of the chunk, from the next header on.
    rest: Bytes,
    /// The file, where that is not all that is left.
    file: Option<Arc<dyn Source>>,
    /// Where in the file the next header begins, and where the chunk ends.
    at: u64,
    end: u64,
    compression: Compression,
}

/// A page whose contents are still packed.
#[derive(Clone, Debug)]
pub struct Page {
    pub kind: Kind,
    /// Nulls included.
    pub values: usize,
    /// As the format numbers them.
    pub encoding: i32,
    body: Body,
    /// Bytes of the contents.
    pub size: usize,
    crc: Option<u32>,
    /// Where in the file it lies, with its header.
    pub range: Range<u64>,
    compression: Compression,
}

/// The packed contents of a page.
#[derive(Clone, Debug)]
enum Body {
    Here(Bytes),
    /// So many bytes before the end of the page in this file.
    There(Arc<dyn Source>, usize),
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Body::Here(bytes) => bytes.len(),
            Body::There(_, len) => *len,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Dictionary,
    /// Levels stand in front of the values and are compressed with them. How definition levels are stored, and those of
    /// lists.
    Data {
        levels: i32,
        of_lists: i32,
    },
    /// So many bytes of levels, which are not compressed, stand in front. Only such pages say how many rows and nulls they
    /// have.
    DataV2 {
        repetition: usize,
        definition: usize,
        is_packed: bool,
        rows: usize,
        nulls: usize,
    },
    /// Of no interest.
    Other,
}

/// Encodings and page types, as the format numbers them.
pub const PLAIN: i32 = 0;
pub const PLAIN_DICTIONARY: i32 = 2;
pub const RLE: i32 = 3;
pub const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
pub const DELTA_BYTE_ARRAY: i32 = 7;
pub const RLE_DICTIONARY: i32 = 8;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const DATA_PAGE_V2: i32 = 3;

impl Pages {
    /// Of the chunk that begins at byte `at` of its file.
    pub fn new(chunk: Bytes, at: u64, compression: Compression) -> Pages {
        let end = at + chunk.len() as u64;
        Pages { rest: chunk, file: None, at, end, compression }
    }
    /// Of the chunk that has these bytes of a file.
    pub fn of_file(file: Arc<dyn Source>, chunk: Range<u64>, compression: Compression) -> Pages {
        Pages { rest: Bytes::new(), file: Some(file), at: chunk.start, end: chunk.end, compression }
    }
    /// Bytes that were not looked at so far.
    pub fn left(&self) -> u64 {
        self.end - self.at
    }
    /// The next header, and how long it is. Of a file, more is read until there is all of it.
    fn header(&mut self) -> Result<(Header, usize)> {
        loop {
            let mut reader = Compact::new(&self.rest);
            if let Ok(header) = Header::read(&mut reader) {
                return Ok((header, self.rest.len() - reader.left()));
            }
            let most = usize::try_from(self.left()).unwrap_or(usize::MAX).min(LONG_HEADER_BYTES);
            let Some(file) = self.file.as_ref().filter(|_| self.rest.len() < most) else {
                return Err(damaged(self.at, "its header cannot be read"));
            };
            let len = if self.rest.len() < HEADER_BYTES { HEADER_BYTES.min(most) } else { most };
            self.rest = to_bytes(super::exact(file, self.at..self.at + len as u64)?);
        }
    }
    pub fn next(&mut self) -> Result<Option<Page>> {
        if self.left() == 0 {
            return Ok(None);
        }
        let at = self.at;
        let here = |why: &str| damaged(at, why);
        let (header, length) = self.header()?;
        let size = usize::try_from(header.size).map_err(|_| here("its size is negative"))?;
        let packed = usize::try_from(header.packed_size).map_err(|_| here("its size is negative"))?;
        let left = self.left() - length as u64;
        if packed as u64 > left {
            return Err(here(&format!("it claims to have {packed} bytes, and its column has {left} more")));
        }
        let body = match &self.file {
            Some(file) if packed > self.rest.len() - length => Body::There(file.clone(), packed),
            _ => Body::Here(self.rest.slice(length..length + packed)),
        };
        self.at += (length + packed) as u64;
        self.rest = self.rest.slice((length + packed).min(self.rest.len())..);
        let bytes = |n: i32| usize::try_from(n).map_err(|_| here("a length is negative"));
        let kind = match header.kind {
            DICTIONARY_PAGE => Kind::Dictionary,
            DATA_PAGE => Kind::Data { levels: header.levels, of_lists: header.levels_of_lists },
            DATA_PAGE_V2 => {
                let (repetition, definition) = (bytes(header.repetition)?, bytes(header.definition)?);
                let (rows, nulls) = (bytes(header.rows)?, bytes(header.nulls)?);
                if repetition.checked_add(definition).is_none_or(|n| n > body.len() || n > size) {
                    return Err(here("its levels are longer than it is"));
                }
                Kind::DataV2 { repetition, definition, is_packed: header.is_packed, rows, nulls }
            }
            _ => Kind::Other,
        };
        if size > BELIEVED_BYTES && size / most_times(self.compression) > body.len() {
            return Err(here(&format!("{} bytes cannot be {size} bytes when they are decompressed", body.len())));
        }
        Ok(Some(Page {
            kind,
            values: bytes(header.values)?,
            encoding: header.encoding,
            body,
            size,
            crc: header.crc,
            range: at..self.at,
            compression: self.compression,
        }))
    }
}

/// How many times its size compressed data can become, or is believed to become.
fn most_times(compression: Compression) -> usize {
    match compression {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 32,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        _ => 1100,
    }
}

/// What a page has: levels, if there are some, and values behind them.
#[derive(Clone, Debug)]
pub struct Contents {
    pub bytes: Bytes,
    /// Definition levels, if they lie apart.
    pub levels: Option<Bytes>,
    /// Bytes that were taken for it: none if it was in memory and not compressed.
    pub taken: usize,
}

impl Page {
    /// Unpacks it. `None` if it is compressed in a way that is left to others.
    pub fn contents(&self) -> Result<Option<Contents>> {
        let Some((whole, taken)) = self.unpacked()? else { return Ok(None) };
        Ok(Some(match self.kind {
            Kind::DataV2 { repetition, definition, .. } => {
                let behind = repetition + definition;
                Contents { levels: Some(whole.slice(repetition..behind)), bytes: whole.slice(behind..), taken }
            }
            _ => Contents { levels: None, bytes: whole, taken },
        }))
    }
    /// Whether its contents are compressed.
    pub fn is_packed(&self) -> bool {
        let is_packed = !matches!(self.kind, Kind::DataV2 { is_packed: false, .. });
        is_packed && self.compression != Compression::UNCOMPRESSED
    }
    /// Bytes in front of its contents.
    pub fn header_bytes(&self) -> usize {
        (self.range.end - self.range.start) as usize - self.body.len()
    }
    /// Bytes that have to be read for its contents.
    pub fn bytes_to_read(&self) -> usize {
        match &self.body {
            Body::Here(_) => 0,
            Body::There(_, len) => *len,
        }
    }
    /// Levels that lie apart, and behind them the values as they are encoded; also the bytes that were taken for it.
    pub fn unpacked(&self) -> Result<Option<(Bytes, usize)>> {
        let (packed, read) = match &self.body {
            Body::Here(bytes) => (bytes.clone(), 0),
            Body::There(file, len) => {
                (to_bytes(super::exact(file, self.range.end - *len as u64..self.range.end)?), *len)
            }
        };
        if self.crc.is_some_and(|crc| crc != crc32fast::hash(&packed)) {
            return Err(self.damaged("its checksum does not fit"));
        }
        let skip = match self.kind {
            Kind::DataV2 { repetition, definition, .. } => repetition + definition,
            _ => 0,
        };
        let (body, size) = (packed.slice(skip..), self.size - skip);
        let compression = if self.is_packed() { self.compression } else { Compression::UNCOMPRESSED };
        // Nothing but nulls may be no bytes at all.
        if size == 0 || compression == Compression::UNCOMPRESSED {
            return match body.len() == size {
                true => Ok(Some((packed, read))),
                false if size == 0 => Ok(Some((packed.slice(..skip), read))),
                false => Err(self.damaged(&format!("it has {} bytes and claims to have {size}", body.len()))),
            };
        }
        if !unpacks(compression) {
            return Ok(None);
        }
        let mut buf = Buf::new(self.size);
        let out = buf.get_mut().expect("a new block has one holder");
        out[..skip].copy_from_slice(&packed[..skip]);
        let out = &mut out[skip..];
        let unpacked = match compression {
            Compression::SNAPPY => snap::raw::Decoder::new().decompress(&body, out).map_err(|e| e.to_string()),
            _ => zstd::bulk::decompress_to_buffer(&body, out).map_err(|e| e.to_string()),
        };
        match unpacked {
            Ok(n) if n == size => Ok(Some((to_bytes(buf), self.size))),
            Ok(n) => Err(self.damaged(&format!("it unpacks to {n} bytes and claims {size}"))),
            Err(why) => Err(self.damaged(&format!("it cannot be decompressed: {why}"))),
        }
    }
    pub fn damaged(&self, why: &str) -> Error {
        damaged(self.range.start, why)
    }
}

/// Whether pages compressed like this are unpacked here.
pub fn unpacks(compression: Compression) -> bool {
    matches!(compression, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_))
}

fn damaged(at: u64, why: &str) -> Error {
    Error::data(format!("a page is damaged: {why}")).at_byte(at)
}

/// What is wanted of a header.
#[derive(Default)]
struct Header {
    kind: i32,
    size: i32,
    packed_size: i32,
    crc: Option<u32>,
    values: i32,
    encoding: i32,
    /// The encodings of definition and repetition levels.
    levels: i32,
    levels_of_lists: i32,
    rows: i32,
    nulls: i32,
    definition: i32,
    repetition: i32,
    is_packed: bool,
}

impl Header {
    fn read(reader: &mut Compact) -> Read<Header> {
        let mut header = Header { kind: -1, is_packed: true, ..Header::default() };
        let mut described = -1;
        reader.fields(|reader, field, ty| {
            match (field, ty) {
                (1, I32) => header.kind = reader.i32()?,
                (2, I32) => header.size = reader.i32()?,
                (3, I32) => header.packed_size = reader.i32()?,
                (4, I32) => header.crc = Some(reader.i32()? as u32),
                (5, STRUCT) => {
                    described = DATA_PAGE;
                    reader.fields(|reader, field, ty| {
                        match (field, ty) {
                            (1, I32) => header.values = reader.i32()?,
                            (2, I32) => header.encoding = reader.i32()?,
                            (3, I32) => header.levels = reader.i32()?,
                            (4, I32) => header.levels_of_lists = reader.i32()?,
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                }
                (7, STRUCT) => {
                    described = DICTIONARY_PAGE;
                    reader.fields(|reader, field, ty| {
                        match (field, ty) {
                            (1, I32) => header.values = reader.i32()?,
                            (2, I32) => header.encoding = reader.i32()?,
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                }
                (8, STRUCT) => {
                    described = DATA_PAGE_V2;
                    reader.fields(|reader, field, ty| {
                        match (field, ty) {
                            (1, I32) => header.values = reader.i32()?,
                            (2, I32) => header.nulls = reader.i32()?,
                            (3, I32) => header.rows = reader.i32()?,
                            (4, I32) => header.encoding = reader.i32()?,
                            (5, I32) => header.definition = reader.i32()?,
                            (6, I32) => header.repetition = reader.i32()?,
                            (7, TRUE | FALSE) => header.is_packed = ty == TRUE,
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        // What it says to be it must have described.
        let is_known = matches!(header.kind, DATA_PAGE | DICTIONARY_PAGE | DATA_PAGE_V2);
        match !is_known || header.kind == described {
            true => Ok(header),
            false => Err("it does not describe what it says to be"),
        }
    }
}
