//! What the readers of record files share: a list of file names, read one after the other by any record format, plain or
//! compressed, ahead of whoever pulls.

use super::from_tensors::Given;
use crate::element::{Chunk, Column, DType, Packed, Pos, Spec, StringsBuilder, Tensor};
use crate::error::{Error, Kind, Result};
use crate::runtime::{BuildCx, Cx, Pull, Stage};
use feedline_formats::compress::{Compression, Inflate, Step};
use feedline_formats::records::{Cut, Out, Records};
use feedline_io::{Blocks, Buf, Source, Stat, Task};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

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

/// What to do with a record that is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBad {
    /// An error in its place.
    #[default]
    Raise,
    /// A line in the log.
    Skip,
}

/// How files are read.
pub struct Reading {
    pub compression: Compression,
    /// Bytes in one read; what suits the source if not given.
    pub buffer: Option<usize>,
    pub on_bad: OnBad,
    /// Makes the reader of one file, from its length where that is known.
    pub reader: Box<dyn Fn(Option<u64>) -> Result<Box<dyn Records>> + Send + Sync>,
}

/// Reads the records of files, one file after the other.
pub struct RecordFiles {
    files: Vec<Arc<str>>,
    reading: Arc<Reading>,
    /// The file that is opened next.
    next: usize,
    file: Option<Opened>,
    /// The place in the stream of the next record.
    pos: u64,
}

/// A file being read.
struct Opened {
    name: Arc<str>,
    source: Arc<dyn Source>,
    state: State,
}

enum State {
    Asking(Task<Result<Stat>>),
    Reading { blocks: Blocks, inflate: Option<Inflate>, records: Box<dyn Records> },
}

impl RecordFiles {
    pub fn new(files: Vec<Arc<str>>, reading: Reading) -> RecordFiles {
        RecordFiles { files, reading: Arc::new(reading), next: 0, file: None, pos: 0 }
    }
    fn open(&self, name: Arc<str>) -> Result<Opened> {
        let source = feedline_io::open(&name)?;
        let state = State::Asking(source.clone().stat());
        Ok(Opened { name, source, state })
    }
    /// Gives up the file that is open.
    fn failed(&mut self, error: Error) -> Pull {
        let name = self.file.take().map(|f| f.name);
        Pull::Fail(match name {
            Some(name) => error.in_file(&name, None),
            None => error,
        })
    }
}

/// Strings that point into the blocks they were read to.
impl Out for StringsBuilder {
    fn view(&mut self, block: &Buf, range: Range<usize>) {
        self.push_view(block, range);
    }
    fn copy(&mut self, record: &[u8]) {
        self.push(record);
    }
}

impl Opened {
    /// Brings the reader its next block, or the end. Pending while a read is on its way.
    fn feed(&mut self, cx: &Cx<'_>, reading: &Reading) -> Poll<Result<()>> {
        let waker = cx.std_waker();
        match &mut self.state {
            State::Asking(task) => {
                let stat = std::task::ready!(task.poll_with(&waker))?;
                let inflate = match reading.compression {
                    Compression::None => None,
                    kind => Some(Inflate::new(kind, reading.buffer.unwrap_or(256 << 10))?),
                };
                let len = inflate.is_none().then_some(stat.len);
                let blocks = Blocks::new(self.source.clone(), 0, reading.buffer);
                self.state = State::Reading { blocks, inflate, records: (reading.reader)(len)? };
            }
            State::Reading { blocks, inflate: None, records } => match std::task::ready!(blocks.poll_next(&waker)) {
                Some(block) => records.feed(block?),
                None => records.finish(),
            },
            State::Reading { blocks, inflate: Some(inflate), records } => loop {
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
                let Some(name) = self.files.get(self.next).cloned() else { return Pull::End };
                self.next += 1;
                match self.open(name.clone()) {
                    Ok(file) => self.file = Some(file),
                    Err(error) => return Pull::Fail(error.in_file(&name, None)),
                }
                continue;
            };
            if let State::Reading { records, .. } = &mut file.state {
                let mut strings = StringsBuilder::with_capacity(want.min(1024));
                match records.cut(want, &mut strings) {
                    Cut::Records(rows) => {
                        let pos = Pos::Run(self.pos);
                        self.pos += rows as u64;
                        return Pull::Rows(Chunk::new(rows, pos, [Column::Dense(strings.tensor([rows]))]));
                    }
                    Cut::Fail(error) => {
                        let error = error.in_file(&file.name, None);
                        if reading.on_bad == OnBad::Skip && matches!(error.kind(), Kind::Loss | Kind::Data) {
                            log::warn!("passed over: {error}");
                            continue;
                        }
                        return Pull::Fail(error);
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
            match file.feed(cx, &reading) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return self.failed(error),
                Poll::Pending => return Pull::Pending,
            }
        }
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
