//! Arrow's own files: the IPC file format, the stream format (what Hugging Face `datasets` saves), Feather 2.
//!
//! 1. `ArrowFile::open` finds the messages (by the footer of a file, one behind the other in a stream) and reads their
//!    descriptions, but not their bodies.
//! 2. Rows of a record batch are cut out of its body: of each column only the bytes of these rows are touched, so that a
//!    batch of any size can be read in pieces. Of compressed batches, buffers are unpacked as a whole (`arrow_packed.rs`).
//! 3. Dictionaries and rare types are decoded as whole batches by the Arrow crate, then cut.

use crate::arrow_packed::{Size, Unpacked, check_room, size_of, too_large_to_read};
use crate::columnar::{counted as charged, decoded, guarded, to_buffer, words};
use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::ArrayData;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{CompressionType, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use feedline_io::{Buf, Error, Kind, Result, Source, Stat, scratch};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

const MAGIC: &[u8; 8] = b"ARROW1\0\0";
/// A description is some kilobytes; one of ten thousand columns is about a megabyte.
const MAX_META: u64 = 64 << 20;
/// Read at once for the description of a message: most fit.
const META_BYTES: usize = 4 << 10;

/// An open file and the places of its batches.
pub struct ArrowFile {
    source: Arc<dyn Source>,
    stat: Stat,
    schema: SchemaRef,
    batches: Vec<Batch>,
}

struct Batch {
    /// The description, as it stands in the file.
    meta: Buf,
    rows: usize,
    body: Range<u64>,
    version: MetadataVersion,
    /// The dictionaries that are in force here.
    dictionaries: Arc<HashMap<i64, ArrayRef>>,
    /// Rows can be cut out of the body.
    sliced: bool,
    compression: Option<CompressionType>,
    /// Bytes of its buffers once they are unpacked, when somebody has looked.
    sizes: OnceLock<Vec<u64>>,
}

impl std::fmt::Debug for ArrowFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.source.name())
    }
}

/// A message: its description, and where its body lies.
struct Message {
    meta: Buf,
    body: Range<u64>,
}

impl ArrowFile {
    /// Reads the schema and the places of all batches. Waits for the reads.
    pub fn open(source: Arc<dyn Source>) -> Result<ArrowFile> {
        let name = source.name().to_string();
        ArrowFile::open_named(source).map_err(|e| e.in_file(&name, None))
    }

    fn open_named(source: Arc<dyn Source>) -> Result<ArrowFile> {
        let stat = source.clone().stat().wait()?;
        let head = source.clone().read(0, 8).wait()?;
        let mut found = Found { source: source.clone(), schema: None, batches: vec![], dictionaries: Arc::default() };
        if head.as_slice() == MAGIC {
            // A file: its footer knows the places. (Not all writers put the messages one behind the other.)
            let (footer, footer_at) = footer(&source, stat.len)?;
            let here = |e: Error| e.at_byte(footer_at);
            let footer = root_as_footer(footer.as_slice()).map_err(|_| here(Error::data("the footer is damaged")))?;
            found.schema = Some(schema_of(footer.schema()).map_err(here)?);
            let places =
                footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten());
            for place in places {
                let at = u64::try_from(place.offset());
                let at = at.map_err(|_| here(Error::data("the footer claims a negative place for a batch")))?;
                let Some(message) = message(&source, at, stat.len)? else {
                    return Err(Error::data("there is no batch where the footer says").in_file(source.name(), Some(at)));
                };
                found.add(message)?;
            }
        } else {
            let mut at = 0;
            while let Some(message) = message(&source, at, stat.len)? {
                at = message.body.end;
                found.add(message)?;
            }
        }
        let schema = found.schema.ok_or_else(|| {
            Error::data(format!("is not an Arrow file: it begins with {}", head.as_slice().escape_ascii())).at_byte(0)
        })?;
        Ok(ArrowFile { source, stat, schema, batches: found.batches })
    }

    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// The fields, with dictionaries as they will come out of `decode`.
    pub fn schema(&self) -> Schema {
        Schema::new(self.schema.fields().iter().map(|f| decoded(f)).collect::<Vec<Field>>())
    }
    pub fn batches(&self) -> usize {
        self.batches.len()
    }
    pub fn batch_rows(&self, batch: usize) -> usize {
        self.batches[batch].rows
    }
    /// Where a batch's bytes lie.
    pub fn body(&self, batch: usize) -> Range<u64> {
        self.batches[batch].body.clone()
    }
    /// Bytes that a row may take up for its values in dictionaries, on the average, where they are strings.
    pub fn dictionary_bytes(&self, batch: usize) -> u64 {
        let dictionaries = self.batches[batch].dictionaries.values();
        let strings = dictionaries.filter(|d| d.data_type().primitive_width().is_none());
        strings.map(|d| (d.get_buffer_memory_size() / d.len().max(1)) as u64).fold(0, u64::saturating_add)
    }
    /// Whether the file is still the one that was opened.
    pub fn check_unchanged(&self) -> Result<()> {
        if self.source.clone().stat().wait()? == self.stat {
            return Ok(());
        }
        let text = "the file has changed since the dataset was made; make it again";
        Err(Error::new(Kind::Precondition, text).in_file(self.source.name(), None))
    }

    /// Bytes that are taken to unpack these columns of a batch, if it is compressed: any piece wants all of them. Of far files
    /// only the packed size is known.
    pub fn unpacked_bytes(&self, batch: usize, columns: &[usize]) -> u64 {
        const FAR_TIMES: u64 = 4;
        let b = &self.batches[batch];
        let Some(kind) = b.compression else { return 0 };
        let stored = b.body.end - b.body.start;
        if self.source.local_path().is_none() {
            return stored.saturating_mul(FAR_TIMES);
        }
        let sizes = b.sizes.get_or_init(|| {
            let message = root_as_message(b.meta.as_slice()).ok();
            let buffers = message.and_then(|m| m.header_as_record_batch()?.buffers());
            buffers.into_iter().flatten().map(|buffer| self.unpacked_size(b, buffer, kind).unwrap_or(0)).collect()
        });
        if !b.sliced {
            return sizes.iter().copied().fold(0, u64::saturating_add);
        }
        let mut at = 0;
        let of = |(i, field): (usize, &Arc<Field>)| {
            let from = at;
            at += buffers_of(field.data_type());
            let own = sizes.get(from..at).unwrap_or_default();
            if columns.contains(&i) { own.iter().copied().fold(0, u64::saturating_add) } else { 0 }
        };
        self.schema.fields().iter().enumerate().map(of).fold(0, u64::saturating_add)
    }
    /// What a buffer takes when it is unpacked, with what it has packed.
    fn unpacked_size(&self, b: &Batch, buffer: &arrow_ipc::Buffer, kind: CompressionType) -> Option<u64> {
        let (at, len) = (u64::try_from(buffer.offset()).ok()?, u64::try_from(buffer.length()).ok()?);
        let at = b.body.start.checked_add(at)?;
        let head = self.source.clone().read(at, 8.min(usize::try_from(len).ok()?)).wait().ok()?;
        Some(match size_of(head.as_slice(), len, kind).ok()? {
            Size::Empty => 0,
            Size::Plain => len,
            Size::Becomes(size) => size as u64,
        })
    }

    /// Rows of these columns of a batch. `body` has its bytes; without it they are read as they are needed.
    pub fn decode(
        &self,
        batch: usize,
        columns: &[usize],
        rows: Range<usize>,
        body: Option<Buf>,
    ) -> Result<Vec<ArrayRef>> {
        self.decode_sharing(batch, columns, rows, body, &Unpacked::new(usize::MAX))
    }
    /// The same, for which others have unpacked something, and for others who need it, too.
    pub fn decode_sharing(
        &self,
        batch: usize,
        columns: &[usize],
        rows: Range<usize>,
        body: Option<Buf>,
        unpacked: &Unpacked,
    ) -> Result<Vec<ArrayRef>> {
        if !self.can_be_cut(batch) {
            let whole = self.decode_whole(batch, columns, body, unpacked.most())?;
            return Ok(whole.iter().map(|array| array.slice(rows.start, rows.len())).collect());
        }
        let cut = self.cut(batch, columns, rows, body, unpacked, &cannot(batch));
        cut.map_err(|e| e.in_file(self.source.name(), Some(self.batches[batch].body.start)))
    }
    /// Whether some rows of a batch can be had without decoding all of it.
    pub fn can_be_cut(&self, batch: usize) -> bool {
        self.batches[batch].sliced
    }
    /// All rows of a batch. If it is compressed, it may take `most` bytes to unpack it.
    pub fn decode_whole(
        &self,
        batch: usize,
        columns: &[usize],
        body: Option<Buf>,
        most: usize,
    ) -> Result<Vec<ArrayRef>> {
        let whole = self.whole(batch, columns, body, most, &cannot(batch));
        whole.map_err(|e| e.in_file(self.source.name(), Some(self.batches[batch].body.start)))
    }

    /// Bytes that are taken for rows of these columns of a batch, and the name of the column that takes most of them.
    pub fn row_bytes(
        &self,
        batch: usize,
        columns: &[usize],
        rows: &Range<usize>,
        body: Option<Buf>,
        unpacked: &Unpacked,
    ) -> Result<(u64, String)> {
        let (mut sum, mut most, mut name) = (0u64, 0, String::new());
        if !self.can_be_cut(batch) {
            return Ok((sum, name));
        }
        let mut look = |cut: &mut Cut, i: usize, field: &Field| {
            if !columns.contains(&i) {
                cut.pass(field.data_type());
                return Ok(());
            }
            let bytes = cut.row_bytes(&bytes_for_text(field.data_type()), rows.clone())?;
            sum = sum.saturating_add(bytes);
            if bytes > most {
                (most, name) = (bytes, field.name().clone());
            }
            Ok(())
        };
        self.each_column(batch, body, unpacked, &cannot(batch), &mut look)
            .map_err(|e| e.in_file(self.source.name(), Some(self.batches[batch].body.start)))?;
        Ok((sum, name))
    }

    fn whole(
        &self,
        batch: usize,
        columns: &[usize],
        body: Option<Buf>,
        most: usize,
        what: &str,
    ) -> Result<Vec<ArrayRef>> {
        let b = &self.batches[batch];
        let stored = usize::try_from(b.body.end - b.body.start).unwrap_or(usize::MAX);
        if body.is_none() && stored > most {
            return Err(too_large_to_read(stored, most).reworded(|said| format!("{what}: {said}")));
        }
        let bytes = to_buffer(body.map_or_else(|| exact(&self.source, &b.body), Ok)?);
        let mut rising = columns.to_vec();
        rising.sort_unstable();
        let message = root_as_message(b.meta.as_slice()).map_err(|e| Error::data(format!("{what}: {e}")))?;
        let fb = message.header_as_record_batch().ok_or_else(|| Error::data(format!("{what}: it is not there")))?;
        let unpacked = check_lengths(&fb)
            .and_then(|()| claimed(&fb, &bytes))
            .map_err(|why| Error::data(format!("{what}: {why}")))?;
        check_room(unpacked, most).map_err(|e| e.reworded(|said| format!("{what}: {said}")))?;
        let taken = scratch(unpacked);
        let read: RecordBatch = guarded(what, || {
            RecordBatchDecoder::try_new(&bytes, fb, self.schema.clone(), &b.dictionaries, &b.version)
                .and_then(|d| d.with_projection(Some(&rising)).read_record_batch())
                .map_err(|e| words(&e))
        })?;
        if read.num_rows() != b.rows {
            return Err(Error::data(format!("{what}: it has {} rows, {} were announced", read.num_rows(), b.rows)));
        }
        drop(taken);
        // What was unpacked is the Arrow crate's memory; everything else lies in the body.
        let place = |c: &usize| {
            let array = read.column(rising.binary_search(c).expect("it is one of them"));
            if b.compression.is_some() { charged(array) } else { array.clone() }
        };
        Ok(columns.iter().map(place).collect())
    }

    fn cut(
        &self,
        batch: usize,
        columns: &[usize],
        rows: Range<usize>,
        body: Option<Buf>,
        unpacked: &Unpacked,
        what: &str,
    ) -> Result<Vec<ArrayRef>> {
        let mut made: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        let mut make = |cut: &mut Cut, i: usize, field: &Field| {
            if !columns.contains(&i) {
                cut.pass(field.data_type());
                return Ok(());
            }
            let data = cut.array(&bytes_for_text(field.data_type()), rows.clone())?;
            for at in columns.iter().enumerate().filter(|(_, c)| **c == i).map(|(at, _)| at) {
                made[at] = Some(make_array(data.clone()));
            }
            Ok(())
        };
        self.each_column(batch, body, unpacked, what, &mut make)?;
        made.into_iter().map(|a| a.ok_or_else(|| Error::usage("there is no such column"))).collect()
    }

    /// Calls with each column of a batch, which takes its nodes and buffers or passes over them.
    fn each_column(
        &self,
        batch: usize,
        body: Option<Buf>,
        unpacked: &Unpacked,
        what: &str,
        each: &mut dyn FnMut(&mut Cut, usize, &Field) -> Result<()>,
    ) -> Result<()> {
        let b = &self.batches[batch];
        let message = root_as_message(b.meta.as_slice()).map_err(|e| Error::data(format!("{what}: {e}")))?;
        let fb = message.header_as_record_batch().ok_or_else(|| Error::data(format!("{what}: it is not there")))?;
        let (Some(nodes), Some(buffers)) = (fb.nodes(), fb.buffers()) else {
            return Err(Error::data(format!("{what}: it has no columns")));
        };
        check_lengths(&fb).map_err(|why| Error::data(format!("{what}: {why}")))?;
        let mut cut = Cut {
            nodes: nodes.iter().map(|n| (n.length() as usize, n.null_count() as usize)).collect(),
            buffers: buffers.iter().map(|b| (b.offset(), b.length())).collect(),
            node: 0,
            buffer: 0,
            body: body.map(to_buffer),
            packed: b.compression.map(|kind| (kind, unpacked)),
            file: self,
            start: b.body.start,
            len: b.body.end - b.body.start,
        };
        for (i, field) in self.schema.fields().iter().enumerate() {
            let done = each(&mut cut, i, field);
            done.map_err(|e| e.reworded(|said| format!("{what}: column {:?}: {said}", field.name())))?;
        }
        Ok(())
    }
}

fn cannot(batch: usize) -> String {
    format!("record batch {batch} cannot be decoded")
}

fn exact(source: &Arc<dyn Source>, range: &Range<u64>) -> Result<Buf> {
    let len = usize::try_from(range.end - range.start).map_err(|_| Error::data("too large for this machine"))?;
    let buf = source.clone().read(range.start, len).wait()?;
    if buf.len() < len {
        let text = format!("ends {} bytes early: it is cut off", len - buf.len());
        return Err(Error::loss(text).in_file(source.name(), Some(range.start + buf.len() as u64)));
    }
    Ok(buf)
}

/// The footer of a file, and where it begins.
fn footer(source: &Arc<dyn Source>, len: u64) -> Result<(Buf, u64)> {
    let cut = || Error::loss("begins as an Arrow file does but has no footer: it is cut off").at_byte(len);
    let at = len.checked_sub(10).filter(|at| *at >= 8).ok_or_else(cut)?;
    let end = exact(source, &(at..len))?;
    let end = end.as_slice();
    if &end[4..] != b"ARROW1" {
        return Err(cut());
    }
    let size = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    match at.checked_sub(size).filter(|start| *start >= 8 && size <= MAX_META) {
        Some(start) => Ok((aligned(exact(source, &(start..at))?.as_slice()), start)),
        None => Err(Error::data(format!("the footer claims to have {size} bytes; the file has {len}")).at_byte(at)),
    }
}

/// A copy whose numbers can be read in place.
fn aligned(bytes: &[u8]) -> Buf {
    let mut out = Buf::new(bytes.len());
    out.get_mut().expect("a new block has one holder").copy_from_slice(bytes);
    out
}

fn schema_of(schema: Option<arrow_ipc::Schema>) -> Result<SchemaRef> {
    guarded("the schema cannot be read", || {
        let schema = schema.ok_or("it is not there")?;
        arrow_ipc::convert::try_fb_to_schema(schema).map(Arc::new).map_err(|e| words(&e))
    })
}

/// What was met so far.
struct Found {
    source: Arc<dyn Source>,
    schema: Option<SchemaRef>,
    batches: Vec<Batch>,
    dictionaries: Arc<HashMap<i64, ArrayRef>>,
}

impl Found {
    fn add(&mut self, Message { meta, body }: Message) -> Result<()> {
        let name = self.source.name().to_string();
        let here = |e: Error| e.in_file(&name, Some(body.start));
        let parsed = root_as_message(meta.as_slice());
        let parsed = parsed.map_err(|_| here(Error::data("the description of a message is damaged")))?;
        let version = parsed.version();
        match (parsed.header_type(), &self.schema) {
            (MessageHeader::Schema, None) => self.schema = Some(schema_of(parsed.header_as_schema()).map_err(here)?),
            (MessageHeader::DictionaryBatch, Some(schema)) => {
                let bytes = to_buffer(exact(&self.source, &body)?);
                let mut known = (*self.dictionaries).clone();
                let read = guarded("a dictionary cannot be read", || {
                    let batch = parsed.header_as_dictionary_batch().ok_or("it is not there")?;
                    if let Some(data) = batch.data() {
                        check_lengths(&data)?;
                        claimed(&data, &bytes)?;
                    }
                    read_dictionary(&bytes, batch, schema, &mut known, &version).map_err(|e| words(&e))
                });
                read.map_err(here)?;
                self.dictionaries = Arc::new(known);
            }
            (MessageHeader::RecordBatch, Some(schema)) => {
                let batch = parsed.header_as_record_batch();
                let batch = batch.ok_or_else(|| here(Error::data("a record batch has no description")))?;
                let rows = usize::try_from(batch.length()).ok().filter(|n| *n < u32::MAX as usize);
                let rows =
                    rows.ok_or_else(|| here(Error::data(format!("a batch claims to have {} rows", batch.length()))))?;
                let compression = batch.compression().map(|c| c.codec());
                let sliced = schema.fields().iter().all(|f| counted(f.data_type()));
                let (dictionaries, sizes) = (self.dictionaries.clone(), OnceLock::new());
                self.batches.push(Batch { meta, rows, body, version, dictionaries, sliced, compression, sizes });
            }
            (MessageHeader::RecordBatch | MessageHeader::DictionaryBatch, None) => {
                return Err(here(Error::data("has data before its schema")));
            }
            // Tensors and what may come later.
            _ => {}
        }
        Ok(())
    }
}

/// Refuses columns that claim to have fewer rows or nulls than none, read or not, in whichever way the batch is decoded: the
/// Arrow crate takes such numbers for very large ones, or for none.
fn check_lengths(batch: &arrow_ipc::RecordBatch) -> std::result::Result<(), String> {
    match batch.nodes().into_iter().flatten().find(|node| node.length() < 0 || node.null_count() < 0) {
        Some(node) => Err(format!("a column claims to have {} rows and {} nulls", node.length(), node.null_count())),
        None => Ok(()),
    }
}

/// What the buffers of a batch claim to become, if it is compressed. Refuses claims that cannot be.
fn claimed(batch: &arrow_ipc::RecordBatch, body: &[u8]) -> std::result::Result<usize, String> {
    let Some(kind) = batch.compression().map(|c| c.codec()) else { return Ok(0) };
    let mut claimed = 0usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let (at, len) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(at), Ok(len)) = (at, len) else { return Err("a buffer has a negative place".into()) };
        let stored =
            at.checked_add(len).and_then(|end| body.get(at..end)).ok_or("a buffer lies outside of the body")?;
        if let Size::Becomes(size) = size_of(stored, len as u64, kind)? {
            claimed = claimed.saturating_add(size);
        }
    }
    Ok(claimed)
}

/// The message at a place in the file; `None` at the end of messages.
fn message(source: &Arc<dyn Source>, at: u64, len: u64) -> Result<Option<Message>> {
    if at >= len {
        return Ok(None);
    }
    let head = source.clone().read(at, META_BYTES).wait()?;
    let word = |i: usize| head.as_slice().get(i..i + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let cut = |byte: u64| Error::loss("a message is cut off").in_file(source.name(), Some(byte));
    // Before version 0.15 there was no mark in front of the length.
    let (size, skip) = match word(0).ok_or_else(|| cut(at))? {
        u32::MAX => (word(4).ok_or_else(|| cut(at))?, 8),
        size => (size, 4),
    };
    if size == 0 {
        return Ok(None);
    }
    let (size, start) = (u64::from(size), at + skip as u64);
    if size > MAX_META || start + size > len {
        let text = format!("is not an Arrow file, or damaged: a message claims a description of {size} bytes");
        return Err(Error::data(text).in_file(source.name(), Some(at)));
    }
    let meta = match head.as_slice().get(skip..skip + size as usize) {
        Some(bytes) => aligned(bytes),
        None => aligned(exact(source, &(start..start + size))?.as_slice()),
    };
    let body = root_as_message(meta.as_slice()).map(|m| m.bodyLength());
    let body = body.map_err(|_| {
        Error::data("is not an Arrow file, or a message in it is damaged").in_file(source.name(), Some(at))
    })?;
    let from = start + size;
    let end = u64::try_from(body).ok().and_then(|n| from.checked_add(n));
    match end {
        Some(end) if end <= len => Ok(Some(Message { meta, body: from..end })),
        Some(_) => Err(cut(len)),
        None => Err(Error::data(format!("a message claims a body of {body} bytes")).in_file(source.name(), Some(at))),
    }
}

/// How many buffers a type has, of those that are `counted`.
fn buffers_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => 1 + fields.iter().map(|f| buffers_of(f.data_type())).sum::<usize>(),
        DataType::FixedSizeList(f, _) => 1 + buffers_of(f.data_type()),
        DataType::List(f) | DataType::LargeList(f) => 2 + buffers_of(f.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        _ => 2,
    }
}

/// Whether it is known how many buffers a type has, and how rows are cut out of them.
fn counted(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => counted(f.data_type()),
        DataType::Struct(fields) => fields.iter().all(|f| counted(f.data_type())),
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_) => true,
        other => other.primitive_width().is_some(),
    }
}

/// The same type with bytes in the place of text, which lie in the same way: whether they are UTF-8 matters to nobody here.
fn bytes_for_text(data_type: &DataType) -> DataType {
    let inner = |f: &Arc<Field>| Arc::new(f.as_ref().clone().with_data_type(bytes_for_text(f.data_type())));
    match data_type {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::List(f) => DataType::List(inner(f)),
        DataType::LargeList(f) => DataType::LargeList(inner(f)),
        DataType::FixedSizeList(f, n) => DataType::FixedSizeList(inner(f), *n),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    }
}

/// Cuts rows out of a body. Nodes and buffers stand in the order of the fields, from the outside in.
struct Cut<'a> {
    /// How many rows and nulls they have.
    nodes: Vec<(usize, usize)>,
    buffers: Vec<(i64, i64)>,
    node: usize,
    buffer: usize,
    body: Option<Buffer>,
    /// How buffers are compressed, and what was unpacked of them.
    packed: Option<(CompressionType, &'a Unpacked)>,
    file: &'a ArrowFile,
    start: u64,
    len: u64,
}

impl Cut<'_> {
    /// Passes over a field that is not wanted.
    fn pass(&mut self, data_type: &DataType) {
        fn nodes_of(data_type: &DataType) -> usize {
            match data_type {
                DataType::Struct(fields) => 1 + fields.iter().map(|f| nodes_of(f.data_type())).sum::<usize>(),
                DataType::FixedSizeList(f, _) | DataType::List(f) | DataType::LargeList(f) => {
                    1 + nodes_of(f.data_type())
                }
                _ => 1,
            }
        }
        self.node += nodes_of(data_type);
        self.buffer += buffers_of(data_type);
    }
    fn next_node(&mut self) -> Result<(usize, usize)> {
        let node = *self.nodes.get(self.node).ok_or_else(|| Error::data("too few columns"))?;
        self.node += 1;
        Ok(node)
    }
    /// Bytes `from..to` of the next buffer.
    fn bytes(&mut self, range: Range<usize>) -> Result<Buffer> {
        let (offset, length) = *self.buffers.get(self.buffer).ok_or_else(|| Error::data("too few buffers"))?;
        self.buffer += 1;
        let short = || Error::data("a buffer is smaller than its rows need, or lies outside of the body");
        let (offset, length) =
            (u64::try_from(offset).map_err(|_| short())?, u64::try_from(length).map_err(|_| short())?);
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.len);
        if !inside || range.start > range.end {
            return Err(short());
        }
        let stored = |from: u64, to: u64| match &self.body {
            Some(body) => Ok((body.slice_with_length(from as usize, (to - from) as usize), 0)),
            None => {
                let read = exact(&self.file.source, &(self.start + from..self.start + to))?;
                Ok((to_buffer(read), (to - from) as usize))
            }
        };
        if let Some((kind, unpacked)) = self.packed {
            let whole = unpacked.get(self.buffer - 1, kind, || stored(offset, offset + length))?;
            return match range.end <= whole.len() {
                true => Ok(whole.slice_with_length(range.start, range.len())),
                false => Err(short()),
            };
        }
        if range.end as u64 > length {
            return Err(short());
        }
        Ok(stored(offset + range.start as u64, offset + range.end as u64)?.0)
    }
    fn bits(&mut self, rows: &Range<usize>) -> Result<Buffer> {
        let bytes = self.bytes(rows.start / 8..rows.end.div_ceil(8))?;
        Ok(bytes.bit_slice(rows.start % 8, rows.len()))
    }
    /// Offsets of some rows, counted from the first of them, and what they span.
    fn offsets(&mut self, rows: &Range<usize>, wide: bool) -> Result<(Buffer, Range<usize>)> {
        let width = if wide { 8 } else { 4 };
        if rows.is_empty() {
            // An empty array may have no offsets at all.
            self.buffer += 1;
            return Ok((MutableBuffer::from_len_zeroed(width).into(), 0..0));
        }
        let bytes = self.bytes(product(rows.start, width)?..product(rows.end.saturating_add(1), width)?)?;
        let all: Vec<i64> = match wide {
            true => bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
            false => bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect(),
        };
        let (first, last) = (all[0], all[all.len() - 1]);
        if first < 0 || all.windows(2).any(|w| w[0] > w[1]) {
            return Err(Error::data("offsets fall"));
        }
        let moved: Buffer = match (first, wide) {
            (0, _) => bytes,
            (_, true) => Buffer::from_vec(all.iter().map(|o| o - first).collect::<Vec<i64>>()),
            (_, false) => Buffer::from_vec(all.iter().map(|o| (o - first) as i32).collect::<Vec<i32>>()),
        };
        Ok((moved, first as usize..last as usize))
    }
    /// What the offsets of some rows span, by the first and the last of them.
    fn span(&mut self, rows: &Range<usize>, wide: bool) -> Result<Range<usize>> {
        let width = if wide { 8 } else { 4 };
        let place = self.buffer;
        if rows.is_empty() {
            self.buffer += 1;
            return Ok(0..0);
        }
        let mut offset = |row: usize| {
            self.buffer = place;
            let bytes = self.bytes(product(row, width)?..product(row.saturating_add(1), width)?)?;
            let offset = match (wide, &bytes[..]) {
                (true, bytes) => bytes.first_chunk().map(|b| i64::from_le_bytes(*b)),
                (false, bytes) => bytes.first_chunk().map(|b| i32::from_le_bytes(*b).into()),
            };
            offset.and_then(|offset| usize::try_from(offset).ok()).ok_or_else(|| Error::data("offsets fall"))
        };
        let (first, last) = (offset(rows.start)?, offset(rows.end)?);
        if first > last { Err(Error::data("offsets fall")) } else { Ok(first..last) }
    }
    /// Bytes that are taken for some rows: what is read of them, and what stands around it when it is used.
    fn row_bytes(&mut self, data_type: &DataType, rows: Range<usize>) -> Result<u64> {
        // A string of ours, the offsets of a list's items.
        const VIEW: u64 = 24;
        const SPLITS: u64 = 16;
        let (_, nulls) = self.next_node()?;
        self.buffer += 1;
        let is_read = self.body.is_none() && self.packed.is_none();
        let read = |bytes: usize| if is_read { bytes as u64 } else { 0 };
        let n = rows.len() as u64;
        let around = if nulls > 0 { read(rows.len() / 8) } else { 0 };
        let inside = match data_type {
            DataType::Boolean => {
                self.buffer += 1;
                n.saturating_add(read(rows.len() / 8))
            }
            DataType::Binary | DataType::LargeBinary => {
                let span = self.span(&rows, *data_type == DataType::LargeBinary)?;
                self.buffer += 1;
                n.saturating_mul(VIEW + 8).saturating_add(read(span.len()))
            }
            DataType::FixedSizeBinary(size) => {
                self.buffer += 1;
                let size = usize::try_from(*size).map_err(|_| Error::data("a size is negative"))?;
                n.saturating_mul(VIEW).saturating_add(read(product(rows.len(), size)?))
            }
            DataType::List(f) | DataType::LargeList(f) => {
                let span = self.span(&rows, matches!(data_type, DataType::LargeList(_)))?;
                self.row_bytes(f.data_type(), span)?.saturating_add(n.saturating_mul(SPLITS + 8))
            }
            DataType::FixedSizeList(f, size) => {
                let size = usize::try_from(*size).map_err(|_| Error::data("a size is negative"))?;
                self.row_bytes(f.data_type(), product(rows.start, size)?..product(rows.end, size)?)?
            }
            DataType::Struct(fields) => {
                let own = |f: &Arc<Field>| self.row_bytes(f.data_type(), rows.clone());
                fields.iter().map(own).try_fold(0u64, |sum, own| Ok::<_, Error>(sum.saturating_add(own?)))?
            }
            other => {
                self.buffer += 1;
                let width = other.primitive_width().ok_or_else(|| Error::internal("a type of no known width"))?;
                read(product(rows.len(), width)?)
            }
        };
        Ok(inside.saturating_add(around))
    }
    fn array(&mut self, data_type: &DataType, rows: Range<usize>) -> Result<ArrayData> {
        let (length, nulls) = self.next_node()?;
        if rows.end > length {
            return Err(Error::data(format!("{length} rows are there, {} are needed", rows.end)));
        }
        let mut builder = ArrayData::builder(data_type.clone()).len(rows.len());
        if nulls > 0 {
            builder = builder.null_bit_buffer(Some(self.bits(&rows)?));
        } else {
            self.buffer += 1;
        }
        let child = |cut: &mut Self, field: &Field, span: Range<usize>| cut.array(field.data_type(), span);
        builder = match data_type {
            DataType::Boolean => builder.add_buffer(self.bits(&rows)?),
            DataType::Binary | DataType::LargeBinary => {
                let (offsets, span) = self.offsets(&rows, *data_type == DataType::LargeBinary)?;
                builder.add_buffer(offsets).add_buffer(self.bytes(span)?)
            }
            DataType::FixedSizeBinary(n) => {
                let n = usize::try_from(*n).map_err(|_| Error::data("a size is negative"))?;
                builder.add_buffer(self.bytes(product(rows.start, n)?..product(rows.end, n)?)?)
            }
            DataType::List(f) | DataType::LargeList(f) => {
                let (offsets, span) = self.offsets(&rows, matches!(data_type, DataType::LargeList(_)))?;
                let items = child(self, f, span)?;
                builder.add_buffer(offsets).add_child_data(items)
            }
            DataType::FixedSizeList(f, n) => {
                let n = usize::try_from(*n).map_err(|_| Error::data("a size is negative"))?;
                let items = child(self, f, product(rows.start, n)?..product(rows.end, n)?)?;
                builder.add_child_data(items)
            }
            DataType::Struct(fields) => {
                for f in fields {
                    let items = child(self, f, rows.clone())?;
                    builder = builder.add_child_data(items);
                }
                builder
            }
            other => {
                let width = other.primitive_width().ok_or_else(|| Error::internal("a type of no known width"))?;
                builder.add_buffer(self.bytes(product(rows.start, width)?..product(rows.end, width)?)?)
            }
        };
        builder.align_buffers(true).build().map_err(|e| Error::data(words(&e)))
    }
}

fn product(a: usize, b: usize) -> Result<usize> {
    a.checked_mul(b).ok_or_else(|| Error::data("a buffer is larger than memory"))
}

/// Writes an Arrow file, batch after batch.
pub struct ArrowWriter<W: std::io::Write>(arrow_ipc::writer::FileWriter<W>);

impl<W: std::io::Write> ArrowWriter<W> {
    /// `compression` is "lz4", "zstd" or "none".
    pub fn new(out: W, schema: &Schema, compression: &str) -> Result<ArrowWriter<W>> {
        let kind = match compression {
            "none" => None,
            "lz4" => Some(arrow_ipc::CompressionType::LZ4_FRAME),
            "zstd" => Some(arrow_ipc::CompressionType::ZSTD),
            other => {
                let text = format!("there is no compression {other:?}: none, lz4 and zstd are known");
                return Err(Error::usage(text));
            }
        };
        let options = arrow_ipc::writer::IpcWriteOptions::try_new(64, false, MetadataVersion::V5)
            .and_then(|options| options.try_with_compression(kind))
            .map_err(|e| failed(&e))?;
        let writer = arrow_ipc::writer::FileWriter::try_new_with_options(out, schema, options);
        writer.map(ArrowWriter).map_err(|e| failed(&e))
    }
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.write(batch).map_err(|e| failed(&e))
    }
    /// What it writes to.
    pub fn out(&mut self) -> &mut W {
        self.0.get_mut()
    }
    /// Writes the footer; what was written to is given back.
    pub fn finish(mut self) -> Result<W> {
        self.0.finish().map_err(|e| failed(&e))?;
        self.0.into_inner().map_err(|e| failed(&e))
    }
}

fn failed(error: &arrow_schema::ArrowError) -> Error {
    match error {
        arrow_schema::ArrowError::IoError(text, e) => {
            let same = e.raw_os_error().map_or_else(|| e.kind().into(), std::io::Error::from_raw_os_error);
            Error::new(Kind::Io, text.clone()).with_source(Arc::new(same))
        }
        other => Error::data(words(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::File;
    use arrow_array::{Int64Array, LargeListArray};
    use arrow_buffer::OffsetBuffer;

    /// Lists in a list, of which there are 77, and whose number can be found and changed.
    fn lists() -> Vec<u8> {
        let list = |values: ArrayRef, lengths: Vec<usize>| -> ArrayRef {
            let field = Arc::new(Field::new("item", values.data_type().clone(), false));
            Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lengths), values, None))
        };
        let inner = list(Arc::new(Int64Array::from(vec![5; 77])), vec![1; 77]);
        let batch = RecordBatch::try_from_iter([("l", list(inner, vec![77]))]).unwrap();
        let mut out = ArrowWriter::new(Vec::new(), &batch.schema(), "none").unwrap();
        out.write(&batch).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn lists_that_claim_to_be_longer_than_memory_are_refused() {
        let mut bytes = lists();
        let read = |bytes: &[u8]| ArrowFile::open(File::of(bytes)).unwrap().decode(0, &[0], 0..1, None);
        assert_eq!(read(&bytes).unwrap()[0].len(), 1);
        // In the description of the inner lists, and in the offsets of the outer one.
        for at in 0..bytes.len() - 8 {
            if bytes[at..at + 8] == 77u64.to_le_bytes() {
                bytes[at..at + 8].copy_from_slice(&(1u64 << 61).to_le_bytes());
            }
        }
        let error = read(&bytes).unwrap_err();
        assert!(error.message().contains("larger than memory"), "{error}");
    }

    #[test]
    fn columns_with_fewer_nulls_than_none_are_refused_in_whichever_way_they_are_read() {
        let column = |at: usize| (format!("{at}"), Arc::new(Int64Array::from(vec![5; 77])) as ArrayRef);
        let batch = RecordBatch::try_from_iter([column(0), column(1)]).unwrap();
        for compression in ["none", "zstd"] {
            let mut out = ArrowWriter::new(Vec::new(), &batch.schema(), compression).unwrap();
            out.write(&batch).unwrap();
            let mut bytes = out.finish().unwrap();
            // The nodes of both columns, which have rows and nulls: 77 and none.
            let nodes: Vec<u8> = [77u64, 0, 77, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
            let at = bytes.windows(nodes.len()).position(|b| b == nodes).unwrap();
            for (at, rows, nulls) in [(at + 24, 77, -1), (at + 16, -2, 0)] {
                let before: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
                bytes[at..at + 8].copy_from_slice(&i64::min(rows, nulls).to_le_bytes());
                let file = ArrowFile::open(File::of(&bytes)).unwrap();
                let why = format!("a column claims to have {rows} rows and {nulls} nulls");
                for columns in [&[0, 1][..], &[0]] {
                    let cut = file.decode(0, columns, 3..5, None).unwrap_err();
                    let whole = file.decode_whole(0, columns, None, usize::MAX).unwrap_err();
                    assert!(cut.message().contains(&why), "{cut}");
                    assert_eq!(cut.to_string(), whole.to_string());
                }
                bytes[at..at + 8].copy_from_slice(&before);
            }
        }
    }
}
