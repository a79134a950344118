//! What the readers of record files share: a list of file names, read one after the other by any record format, plain or
//! compressed, ahead of whoever pulls.

use super::from_tensors::Given;
use crate::element::{Chunk, Column, DType, Origin, Packed, Pos, RowSource, Spec, StringsBuilder, Tensor, Traced};
use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use crate::runtime::{At, BuildCx, Cx, Mark, Pull, Stage, unfit};
use feedline_formats::compress::{Compression, Inflate, Step};
use feedline_formats::records::{Cut, Hop, Longest, Out, Records};
use feedline_io::{Account, Blocks, Buf, Source, Stat, Task};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

/// File names: a string, a vector of them, or a value of the function around the dataset.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files(Given);

impl Files {
    pub fn new<S: AsRef<[u8]>>(names: &[S]) -> Files {
        Files(Given::new(Packed::from(Tensor::strings([names.len()], names))))
    }
    /// Refuses what cannot be file names.
    pub fn check(&self) -> Result<()> {
        let spec = self.0.spec()?;
        let names = spec.as_leaf().and_then(|leaf| match leaf {
            crate::element::Leaf::Tensor { dtype: DType::String, shape } => Some(shape.rank().is_none_or(|r| r < 2)),
            _ => None,
        });
        if names == Some(true) {
            return Ok(());
        }
        Err(Error::usage(format!("filenames must be a string or a vector of strings, not {spec}")))
    }
    pub fn get(&self, cx: &BuildCx) -> Result<Vec<Arc<str>>> {
        names(&self.0.get(cx)?)
    }
    /// The names, if they are known before anything runs.
    pub fn known(&self) -> Option<Result<Vec<Arc<str>>>> {
        self.0.known().map(names)
    }
    /// The same for whoever only wants to look at them: none if they are not known.
    pub fn listed(&self) -> Vec<String> {
        self.known().and_then(Result::ok).into_iter().flatten().map(|name| name.to_string()).collect()
    }
    pub fn show(&self) -> String {
        match self.known() {
            Some(Ok(names)) => match &names[..] {
                [] => "no files".into(),
                [one] => one.to_string(),
                [first, .., last] => format!("{} files, {first} to {last}", names.len()),
            },
            Some(Err(e)) => e.to_string(),
            None => "files by a value".into(),
        }
    }
}

fn names(values: &[crate::element::Value]) -> Result<Vec<Arc<str>>> {
    let tensor =
        values.first().and_then(|v| v.as_tensor()).ok_or_else(|| Error::usage("file names must be strings"))?;
    let name = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Error::usage(format!("the file name {:?} is not UTF-8", String::from_utf8_lossy(bytes)))),
    };
    tensor.strs().map(name).collect()
}

/// How files are read.
pub struct Reading {
    pub compression: Compression,
    /// Bytes in one read; what suits the source if not given.
    pub buffer: Option<usize>,
    /// How many strings make a record.
    pub parts: usize,
    /// Whether a second column says where each record came from, for `Places`.
    pub places: bool,
    pub reader: Box<MakeReader>,
}

impl Reading {
    /// The bytes of a file from there on; `sparse` where few of them are wanted.
    fn blocks(&self, source: &Arc<dyn Source>, byte: u64, sparse: bool) -> Blocks {
        let blocks = Blocks::new(source.clone(), byte, self.buffer);
        if sparse { blocks.sparse() } else { blocks }
    }
}

/// Makes the reader of one file, from its length where that is known.
pub type MakeReader = dyn Fn(Option<u64>) -> Result<Box<dyn Records>> + Send + Sync;

/// Reads the records of files, one file after the other.
pub struct RecordFiles {
    files: Vec<Arc<str>>,
    reading: Arc<Reading>,
    /// The file that is opened next.
    next: usize,
    file: Option<Opened>,
    /// The one after it, whose first reads are on their way.
    later: Option<Result<Opened>>,
    /// The place in the stream of the next record.
    pos: u64,
    /// Where the next file that is opened goes on.
    start: Start,
    /// Records to be passed over.
    skip: u64,
    /// What was read before is read again, here and there.
    sparse: bool,
    /// What rows come from, and the same with the file that is read, if they are traced.
    trace: Option<RowSource>,
    /// The files as they were when their records were counted, if they were.
    known: Option<Arc<Known>>,
    /// The operator, for messages.
    name: &'static str,
}

/// A file by its number, as it was.
type Known = dyn Fn(usize) -> (Arc<dyn Source>, Stat) + Send + Sync;

/// Where a file is begun.
#[derive(Clone, Copy, Default, PartialEq)]
enum Start {
    #[default]
    Beginning,
    /// At a byte that is the first of a record.
    Byte(u64, u64),
    /// Behind so many records, which must be cut again: compressed files have no places to jump to, nor do damaged ones.
    Record(u64),
}

/// A file being read.
struct Opened {
    name: Arc<str>,
    /// Its place in the list.
    number: usize,
    /// The number of the next record in it.
    record: u64,
    start: Start,
    state: State,
}

enum State {
    /// `was`: what it must be still.
    Asking {
        stat: Task<Result<Stat>>,
        was: Option<Stat>,
        blocks: Option<Blocks>,
    },
    Reading {
        blocks: Blocks,
        inflate: Option<Box<Inflate>>,
        records: Box<dyn Records>,
        len: u64,
    },
}

impl RecordFiles {
    pub fn new(files: Vec<Arc<str>>, reading: Reading) -> RecordFiles {
        RecordFiles {
            files,
            reading: Arc::new(reading),
            next: 0,
            file: None,
            later: None,
            pos: 0,
            start: Start::default(),
            skip: 0,
            sparse: false,
            trace: None,
            known: None,
            name: "",
        }
    }
    /// Reads these files, and only as they were.
    pub fn unchanged(
        mut self,
        known: impl Fn(usize) -> (Arc<dyn Source>, Stat) + Send + Sync + 'static,
    ) -> RecordFiles {
        self.known = Some(Arc::new(known));
        self
    }
    /// Says of each record where it is from, in passes that want to know, and in errors whose they are.
    pub fn traced(mut self, cx: &BuildCx, node: &Plan) -> RecordFiles {
        (self.trace, self.sparse, self.name) = (cx.traced_source(node), cx.sparse, node.op.called());
        self
    }
    /// Begins at this record of a file, which has the place `pos` in the stream.
    pub fn begin(&mut self, pos: u64, file: usize, byte: u64, record: u64) {
        (self.pos, self.next) = (pos, file);
        self.start = if record == 0 { Start::Beginning } else { Start::Byte(byte, record) };
    }
    /// The next file of the list, if there is one.
    fn open(&mut self) -> Option<Result<Opened>> {
        let (name, number) = (self.files.get(self.next)?.clone(), self.next);
        self.next += 1;
        let start = std::mem::take(&mut self.start);
        let (byte, record) = match start {
            Start::Byte(byte, record) => (byte, record),
            _ => (0, 0),
        };
        let (source, was) = match &self.known {
            Some(known) => {
                let (source, stat) = known(number);
                (Ok(source), Some(stat))
            }
            None => (feedline_io::open(&name), None),
        };
        let opened = source.map(|source| {
            let blocks = Some(self.reading.blocks(&source, byte, self.sparse));
            let state = State::Asking { stat: source.stat(), was, blocks };
            Opened { name: name.clone(), number, record, start, state }
        });
        Some(opened.map_err(|e| e.in_file(&name, None)))
    }
    /// Sends off the first reads of the file after this one, once all of this one are on their way.
    fn look_ahead(&mut self) {
        let sent = match &self.file {
            Some(Opened { state: State::Reading { blocks, .. }, .. }) => blocks.is_sent(),
            _ => false,
        };
        if sent && self.later.is_none() && !self.sparse {
            self.later = self.open();
            if let Some(Ok(Opened { state: State::Asking { blocks: Some(blocks), .. }, .. })) = &mut self.later {
                blocks.start();
            }
        }
    }
    /// Gives up the file that is open.
    fn failed(&mut self, error: Error) -> Pull {
        let error = error.in_op(self.name);
        Pull::Fail(match self.file.take() {
            Some(file) => error.in_file(&file.name, None),
            None => error,
        })
    }
}

/// Where records came from: the second column of `RecordFiles` as rows of file, record in the file and byte.
#[derive(Clone, Debug)]
pub struct Places(pub Arc<[Arc<str>]>);

impl Places {
    fn at<'a>(&self, column: &'a Column, row: usize) -> Option<&'a [i64]> {
        match column {
            Column::Dense(places) => places.items::<i64>().chunks(3).nth(row),
            Column::Rows(..) => None,
        }
    }
    pub fn file(&self, column: &Column, row: usize) -> Option<&Arc<str>> {
        self.0.get(usize::try_from(self.at(column, row)?[0]).ok()?)
    }
    /// The error with the place of that record in it.
    #[cold]
    pub fn locate(&self, error: Error, column: &Column, row: usize) -> Error {
        let (Some(file), Some(&[_, record, byte])) = (self.file(column, row), self.at(column, row)) else {
            return error;
        };
        error.at_byte(byte as u64).at_record(record as u64).in_file(file, None)
    }
}

/// The positions of records from `at` on, the first of which is number `record` of its file.
fn traced<'a>(at: u64, source: RowSource, record: u64, bytes: impl Iterator<Item = &'a u64>) -> Pos {
    let source = Arc::new(source);
    let row = |(i, byte): (u64, &u64)| {
        let (source, position, record) = (source.clone(), at + i, Some(record + i));
        Traced { at: at + i, origin: Origin::Row { source, position, record, byte: Some(*byte) } }
    };
    Pos::Traced((0..).zip(bytes).map(row).collect())
}

/// Strings, and the bytes of the file at which they begin.
struct Placed {
    strings: StringsBuilder,
    base: u64,
    /// Of the strings so far; empty if nobody asks.
    bytes: Option<Vec<u64>>,
}

impl Out for Placed {
    fn view(&mut self, block: &Buf, range: Range<usize>) {
        if let Some(bytes) = &mut self.bytes {
            bytes.push(self.base + range.start as u64);
        }
        self.strings.push_view(block, range);
    }
    fn copy(&mut self, byte: u64, record: &[u8]) {
        if let Some(bytes) = &mut self.bytes {
            bytes.push(byte);
        }
        self.strings.push(record);
    }
}

impl Placed {
    fn columns(self, rows: usize, parts: usize, file: usize, first: u64) -> impl Iterator<Item = Column> {
        let shape: &[usize] = if parts == 1 { &[rows] } else { &[rows, parts] };
        let strings = Column::Dense(self.strings.tensor(shape));
        let places = self.bytes.map(|bytes| {
            let row = |i: usize| [file as i64, (first + i as u64) as i64, bytes[i * parts] as i64];
            let items: Vec<i64> = (0..rows).flat_map(row).collect();
            Column::Dense(Tensor::from_items([rows, 3], &items))
        });
        std::iter::once(strings).chain(places)
    }
}

/// A record that was looked at before anything runs.
pub struct First {
    file: Arc<str>,
    record: u64,
    byte: u64,
    pub bytes: Vec<u8>,
}

impl First {
    /// The error with its place in it.
    pub fn locate(&self, error: Error) -> Error {
        error.at_byte(self.byte).at_record(self.record).in_file(&self.file, None)
    }
}

/// The first records of a file.
struct Firsts<'a> {
    file: &'a Arc<str>,
    base: u64,
    found: Vec<First>,
}

impl Out for Firsts<'_> {
    fn view(&mut self, block: &Buf, range: Range<usize>) {
        self.copy(self.base + range.start as u64, &block.as_slice()[range]);
    }
    fn copy(&mut self, byte: u64, record: &[u8]) {
        let (file, number) = (self.file.clone(), self.found.len() as u64);
        self.found.push(First { file, record: number, byte, bytes: record.to_vec() });
    }
}

/// The first records of files, at most `count`: for what has to be known of the data before it is read.
pub fn first_records(names: &[Arc<str>], reading: &Reading, count: usize) -> Result<Vec<First>> {
    let mut found = Vec::new();
    for name in names {
        if found.len() >= count {
            break;
        }
        found.extend(first_of_file(name, reading, count - found.len()).map_err(|e| e.in_file(name, None))?);
    }
    Ok(found)
}

fn first_of_file(name: &Arc<str>, reading: &Reading, count: usize) -> Result<Vec<First>> {
    let mut blocks = Contents::open(name, reading.compression)?;
    let mut records = (reading.reader)(None)?;
    let mut out = Firsts { file: name, base: 0, found: vec![] };
    while out.found.len() < count {
        out.base = records.base();
        match records.cut(count - out.found.len(), &mut out) {
            Cut::Records(_) => {}
            Cut::Fail(error) => return Err(error.at_record(out.found.len() as u64)),
            Cut::End => break,
            Cut::More => match blocks.next().transpose()? {
                Some(block) => records.feed(block),
                None => records.finish(),
            },
        }
    }
    Ok(out.found)
}

/// The contents of a file in blocks, unpacked, waiting for each: for what is looked at before anything runs.
pub struct Contents {
    blocks: Blocks,
    inflate: Option<Inflate>,
}

impl Contents {
    pub fn open(name: &str, compression: Compression) -> Result<Contents> {
        let inflate = match compression {
            Compression::None => None,
            kind => Some(Inflate::new(kind, 256 << 10)?),
        };
        Ok(Contents { blocks: Blocks::new(feedline_io::open(name)?, 0, None), inflate })
    }
}

impl Iterator for Contents {
    type Item = Result<Buf>;
    fn next(&mut self) -> Option<Result<Buf>> {
        let Some(inflate) = &mut self.inflate else { return self.blocks.next_block() };
        loop {
            match inflate.next_block() {
                Step::Block(block) => return Some(Ok(block)),
                Step::End => return None,
                Step::Fail(error) => return Some(Err(error)),
                Step::More => match self.blocks.next_block() {
                    Some(Ok(block)) => inflate.feed(block),
                    Some(Err(error)) => return Some(Err(error)),
                    None => inflate.finish(),
                },
            }
        }
    }
}

/// Looks for the records of each file, in the background: the first error in their order is given.
pub fn find_in_each<T: Send + 'static>(
    names: &[Arc<str>],
    find: impl Fn(&str) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>> {
    let find = Arc::new(find);
    let tasks: Vec<Task<Result<T>>> = names
        .iter()
        .map(|name| {
            let (name, find) = (name.clone(), find.clone());
            let (promise, task) = Task::promised(|| Err(Error::internal("making an index was given up")));
            feedline_io::in_background(move || promise.fulfil(find(&name).map_err(|e| e.in_file(&name, None))));
            task
        })
        .collect();
    tasks.into_iter().map(Task::wait).collect()
}

/// Places are those of the file that was read. Far files are compared with their first answer as they are read.
pub fn check_unchanged(source: &Arc<dyn Source>, was: &Stat) -> Result<()> {
    if source.name().contains("://") || source.clone().stat().wait()? == *was {
        return Ok(());
    }
    Err(changed(source.name()))
}

/// How long a record may be whose end has to be searched for, at most so long: while it is collected, it is there up to three
/// times, and a small compressed file can hold any number of bytes without an end. Results do not depend on the limit but for
/// records that are really long.
pub fn longest(most: usize) -> usize {
    const ALWAYS: usize = 1 << 20;
    Account::current().map_or(most, |account| most.min((account.limit() / 4).max(ALWAYS)))
}

/// The same where the length is known before anything is read. A record is put together in one piece, beside the blocks that
/// are on their way; of a compressed file, those that are unpacked and those that are not.
pub fn longest_told(compression: Compression) -> Longest {
    const ALWAYS: u64 = 1 << 20;
    let Some(limit) = Account::current().map(|account| account.limit() as u64) else { return Longest::default() };
    let bytes = if compression == Compression::None { limit / 4 * 3 } else { limit / 2 };
    Longest { bytes: bytes.max(ALWAYS), limit }
}

/// What was found in a file is not there any more.
#[cold]
fn changed(file: &str) -> Error {
    let text = "the file has changed since the dataset was made; make it again";
    Error::new(Kind::Precondition, text).in_file(file, None)
}

#[cold]
fn shrunk(byte: u64) -> Error {
    Error::loss(format!("the state goes on at byte {byte}, where this file has no record: it is another one by now"))
}

impl Opened {
    /// Where it would have to begin to go on like this.
    fn place(&self) -> Start {
        let State::Reading { inflate, records, .. } = &self.state else { return self.start };
        match records.place().filter(|_| inflate.is_none()) {
            _ if self.passing() => self.start,
            _ if self.record == 0 => Start::Beginning,
            Some(byte) => Start::Byte(byte, self.record),
            None => Start::Record(self.record),
        }
    }
    /// Whether records are still cut that were given before.
    fn passing(&self) -> bool {
        matches!(self.start, Start::Record(n) if self.record < n)
    }
    /// Goes on elsewhere in the file, which need not be opened again for that. False if it must be.
    fn go_to(&mut self, start: Start, reading: &Reading, sparse: bool) -> bool {
        if self.place() == start {
            return true;
        }
        if let (Start::Record(record), State::Reading { .. }) = (start, &self.state)
            && record >= self.record
        {
            self.start = start;
            return true;
        }
        let (Start::Byte(byte, record), State::Reading { blocks, inflate: None, records, len }) =
            (start, &mut self.state)
        else {
            return false;
        };
        if !records.go_to(byte, record) {
            let Ok(mut new) = (reading.reader)(Some(*len)) else { return false };
            if byte > *len || !new.start_at(byte, record) {
                return false;
            }
            *records = new;
            *blocks = reading.blocks(&blocks.source().clone(), byte, sparse);
        }
        (self.start, self.record) = (start, record);
        true
    }
    /// Brings the reader its next block, or the end. Pending while a read is on its way.
    fn feed(&mut self, cx: &Cx<'_>, reading: &Reading, sparse: bool) -> Poll<Result<()>> {
        let waker = cx.std_waker();
        match &mut self.state {
            State::Asking { stat, was, blocks } => {
                let stat = std::task::ready!(stat.poll_with(&waker))?;
                if was.as_ref().is_some_and(|was| *was != stat) {
                    return Poll::Ready(Err(changed(&self.name)));
                }
                let inflate = match reading.compression {
                    Compression::None => None,
                    kind => Some(Box::new(Inflate::new(kind, reading.buffer.unwrap_or(256 << 10))?)),
                };
                let len = inflate.is_none().then_some(stat.len);
                let blocks = blocks.take().ok_or_else(|| Error::internal("a file is opened twice"))?;
                let mut records = (reading.reader)(len)?;
                if let Start::Byte(byte, record) = self.start
                    && (inflate.is_some() || byte > stat.len || !records.start_at(byte, record))
                {
                    return Poll::Ready(Err(shrunk(byte)));
                }
                self.state = State::Reading { blocks, inflate, records, len: stat.len };
            }
            State::Reading { blocks, inflate: None, records, .. } => {
                if sparse {
                    blocks.expect(records.missing());
                }
                match std::task::ready!(blocks.poll_next(&waker)) {
                    Some(block) => records.feed(block?),
                    None => records.finish(),
                }
            }
            State::Reading { blocks, inflate: Some(inflate), records, .. } => loop {
                match inflate.next_block() {
                    Step::Block(block) => break records.feed(block),
                    Step::End => break records.finish(),
                    Step::Fail(error) => return Poll::Ready(Err(error)),
                    Step::More => match std::task::ready!(blocks.poll_next(&waker)) {
                        Some(block) => inflate.feed(block?),
                        None => inflate.finish(),
                    },
                }
            },
        }
        Poll::Ready(Ok(()))
    }
}

impl Stage for RecordFiles {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let reading = self.reading.clone();
            let Some(file) = &mut self.file else {
                match self.later.take().or_else(|| self.open()) {
                    Some(Ok(file)) => self.file = Some(file),
                    Some(Err(error)) => return Pull::Fail(error.in_op(self.name)),
                    None => return Pull::End,
                }
                continue;
            };
            let passing = file.passing();
            let want = match file.start {
                Start::Record(n) if passing => usize::try_from(n - file.record).unwrap_or(usize::MAX).min(1024),
                _ if self.skip > 0 => self.skip.min(1024) as usize,
                _ => want,
            };
            if let State::Reading { records, blocks, inflate, .. } = &mut file.state {
                if self.skip > 0
                    && !passing
                    && inflate.is_none()
                    && let Some(Hop { records, to }) = records.hop(self.skip, blocks.source().gap() as u64)
                {
                    self.skip -= records;
                    self.pos += records;
                    file.record += records;
                    if let Some(byte) = to {
                        *blocks = reading.blocks(&blocks.source().clone(), byte, self.sparse);
                    }
                    continue;
                }
                let mut out = Placed {
                    strings: StringsBuilder::with_capacity(want.min(1024) * reading.parts),
                    base: records.base(),
                    bytes: (reading.places || self.trace.is_some()).then(Vec::new),
                };
                let start = Instant::now();
                let cut = records.cut(want, &mut out);
                cx.files.cut_ns += start.elapsed().as_nanos() as u64;
                match cut {
                    Cut::Records(rows) if passing => {
                        file.record += rows as u64;
                        continue;
                    }
                    Cut::Records(rows) if self.skip > 0 => {
                        self.skip -= rows as u64;
                        self.pos += rows as u64;
                        file.record += rows as u64;
                        continue;
                    }
                    Cut::Records(rows) => {
                        let (pos, first) = (Pos::Run(self.pos), file.record);
                        self.pos += rows as u64;
                        file.record += rows as u64;
                        let pos = match (&self.trace, &out.bytes) {
                            (Some(of), Some(bytes)) => {
                                let source = RowSource { file: Some(file.name.clone()), ..of.clone() };
                                traced(self.pos - rows as u64, source, first, bytes.iter().step_by(reading.parts))
                            }
                            _ => pos,
                        };
                        out.bytes = out.bytes.filter(|_| reading.places);
                        let columns = out.columns(rows, reading.parts, file.number, first);
                        return Pull::Rows(Chunk::new(rows, pos, columns));
                    }
                    Cut::Fail(_) if passing => {
                        file.record += 1;
                        continue;
                    }
                    // Also of those that are to be passed over: they did not fail when they were given.
                    Cut::Fail(error) => {
                        file.record += 1;
                        if error.ends() {
                            (self.later, self.next) = (None, self.files.len());
                        }
                        let error = error.at_record(file.record - 1).in_file(&file.name, None);
                        return Pull::Fail(error.in_op(self.name));
                    }
                    Cut::End => {
                        self.file = None;
                        continue;
                    }
                    Cut::More => {}
                }
                if cx.is_cancelled() {
                    return Pull::End;
                }
            }
            let start = Instant::now();
            let fed = file.feed(cx, &reading, self.sparse);
            if reading.compression != Compression::None {
                cx.files.unpack_ns += start.elapsed().as_nanos() as u64;
            }
            match fed {
                Poll::Ready(Ok(())) => self.look_ahead(),
                // The record that would have come is the first that is lost.
                Poll::Ready(Err(error)) if matches!(error.kind(), Kind::Data | Kind::Loss) => {
                    let record = file.record;
                    return self.failed(error.at_record(record));
                }
                Poll::Ready(Err(error)) => return self.failed(error),
                Poll::Pending => return Pull::Pending,
            }
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        let (file, start) = match (&self.file, &self.later) {
            (Some(file), _) => (file.number, file.place()),
            (None, Some(_)) => (self.next - 1, Start::Beginning),
            (None, None) => (self.next, self.start),
        };
        let (kind, byte, record) = match start {
            Start::Beginning => (0, 0, 0),
            Start::Byte(byte, record) => (1, byte, record),
            Start::Record(record) => (2, 0, record),
        };
        [self.pos, file as u64, kind, byte, record, self.skip].into_iter().for_each(|n| out.number(n));
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.pos = at.number()?;
        let file = at.up_to(self.files.len() as u64)? as usize;
        let start = match (at.number()?, at.number()?, at.number()?) {
            (0, 0, 0) => Start::Beginning,
            (1, byte, record) => Start::Byte(byte, record),
            (2, 0, record) => Start::Record(record),
            _ => return Err(unfit()),
        };
        self.skip = at.number()?;
        // It may be there already, or near: whoever reads one place after the other comes by here for each.
        let is_open = |open: &mut Opened| open.number == file && open.go_to(start, &self.reading, self.sparse);
        if !self.file.as_mut().is_some_and(is_open) {
            (self.next, self.start, self.file, self.later) = (file, start, None, None);
        }
        Ok(())
    }
    fn pass(&mut self, results: u64) -> bool {
        self.skip.checked_add(results).map(|skip| self.skip = skip).is_some()
    }
}

/// The spec of a record: a byte string.
pub fn record_spec() -> Spec {
    Spec::scalar(DType::String)
}

/// `buffer_size` as a block size: tiny ones would only be slow.
pub fn block_bytes(buffer_size: Option<i64>) -> Result<Option<usize>> {
    match buffer_size {
        None => Ok(None),
        Some(n) if n < 0 => Err(Error::usage(format!("buffer_size must not be negative, but is {n}"))),
        Some(n) => Ok(Some(usize::try_from(n).unwrap_or(usize::MAX).clamp(4 << 10, 64 << 20))),
    }
}
