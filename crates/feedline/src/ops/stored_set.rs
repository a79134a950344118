//! The rows of a saved set (`save/set.rs`). Not an operator: what `load` and a cache on disk read.
//!
//! A set that stands for a stream, as a cache does, has the position of each row as its first column (`positioned`):
//! random functions behind it ask for it, and must find what they would have found in the first pass.

use super::arrow_arrays::{Fill, Nulls, columns_of};
use super::table::{self, Allowed, Decoded, Table};
use crate::element::{Chunk, Column, DType, Pos, Spec, Tensor};
use crate::error::{Error, Kind, Result};
use crate::runtime::{At, Cx, Mark, Pull, Stage};
use crate::save::{Leased, MANIFEST, Manifest, from_stored, within};
use feedline_formats::arrow_ipc::ArrowFile;
use feedline_formats::tfrecord::masked_crc;
use feedline_io::{Buf, Source, Task};
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// The open files of a set, or of one of its shards.
pub struct StoredSet {
    files: Vec<ArrowFile>,
    spec: Spec,
    columns: Vec<String>,
    /// The places of all columns, as `ArrowFile::decode` wants them.
    places: Vec<usize>,
    blocks: Vec<Block>,
    starts: Vec<u64>,
    /// The first column has the rows' positions.
    positioned: bool,
    /// What cannot be read ends the pass.
    stream: bool,
    /// Goes when nobody reads any more: a folder that is removed, for instance.
    _guard: Option<Box<dyn Send + Sync>>,
}

/// What is written of rows whose positions are to come back.
pub fn positioned(rows: &Chunk) -> Chunk {
    let positions: Vec<i64> = (0..rows.rows()).map(|row| rows.pos.at(row) as i64).collect();
    let positions = Column::Dense(Tensor::from_items([rows.rows()], &positions));
    let columns = std::iter::once(positions).chain(rows.columns().iter().cloned());
    Chunk::new(rows.rows(), rows.pos.clone(), columns)
}

/// The spec of that.
pub fn positioned_spec(spec: &Spec) -> Spec {
    Spec::tuple(vec![Spec::scalar(DType::Int64), spec.clone()])
}

fn positions(column: &Column) -> Pos {
    let at: Vec<u64> = (0..column.rows()).map(|row| column.get(row).tensor().item::<i64>() as u64).collect();
    match at.windows(2).all(|w| w[1] == w[0] + 1) {
        true => Pos::Run(at.first().copied().unwrap_or(0)),
        false => Pos::List(at.into()),
    }
}

struct Block {
    file: usize,
    batch: usize,
    sum: u32,
}

/// What is read of a folder.
pub fn manifest(folder: &str) -> Result<Arc<Leased>> {
    Leased::read(folder)?.ok_or_else(|| {
        Error::new(Kind::Io, format!("there is no saved dataset here (no file {MANIFEST})"))
            .in_file(folder, None)
            .with_source(Arc::new(std::io::Error::from(std::io::ErrorKind::NotFound)))
    })
}

impl StoredSet {
    /// Opens the files of a shard, or of all. They must be as long as the manifest says.
    pub fn open(folder: &str, manifest: &Manifest, shard: Option<usize>) -> Result<StoredSet> {
        let shards = match shard {
            None => &manifest.shards[..],
            Some(shard) => manifest.shards.get(shard..=shard).ok_or_else(|| {
                Error::range(format!("shard {shard} was asked for; there are {}", manifest.shards.len()))
            })?,
        };
        let files: Vec<_> = shards.iter().flatten().collect();
        let names: Vec<String> = files.iter().map(|file| within(folder, &file.name)).collect();
        let opened = table::in_parallel(&names, |name| ArrowFile::open(feedline_io::open(name)?))?;
        let (mut blocks, mut starts, mut rows) = (Vec::new(), vec![0], 0u64);
        for (i, (file, arrow)) in files.iter().zip(&opened).enumerate() {
            let held: u64 = (0..arrow.batches()).map(|batch| arrow.batch_rows(batch) as u64).sum();
            if arrow.batches() != file.blocks.len() || held != file.elements {
                let text = format!("has {held} rows, but the manifest says {}", file.elements);
                return Err(Error::loss(text).in_file(arrow.source().name(), None));
            }
            for (batch, sum) in file.blocks.iter().enumerate() {
                rows += arrow.batch_rows(batch) as u64;
                blocks.push(Block { file: i, batch, sum: *sum });
                starts.push(rows);
            }
        }
        let columns: Vec<String> = match opened.first() {
            Some(first) => first.schema().fields().iter().map(|f| f.name().clone()).collect(),
            None => vec![],
        };
        let (places, spec) = ((0..columns.len()).collect(), manifest.spec.clone());
        let (positioned, stream, _guard) = (false, false, None);
        Ok(StoredSet { files: opened, spec, columns, places, blocks, starts, positioned, stream, _guard })
    }
    /// A set of what `positioned` made.
    pub fn with_positions(mut self) -> StoredSet {
        self.positioned = true;
        self
    }
    /// A set that stands for a stream: its elements are all there or none.
    pub fn for_stream(mut self, stream: bool) -> StoredSet {
        self.stream = stream;
        self
    }
    pub fn guarded_by(mut self, guard: impl Send + Sync + 'static) -> StoredSet {
        self._guard = Some(Box::new(guard));
        self
    }
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }
    fn columns(&self, block: usize, rows: Range<usize>, body: &Buf) -> Result<(Pos, Decoded)> {
        let first = self.starts[block] + rows.start as u64;
        let Block { file, batch, sum } = self.blocks[block];
        let file = &self.files[file];
        if masked_crc(body.as_slice()) != sum {
            let text = format!("block {batch} has another checksum than when it was written: the file is damaged");
            return Err(Error::loss(text).in_file(file.source().name(), Some(file.body(batch).start)));
        }
        let arrays = file.decode(batch, &self.places, rows, Some(body.clone()))?;
        let (mut columns, mut nulls) = (Vec::new(), Nulls::default());
        for (array, name) in arrays.into_iter().zip(&self.columns) {
            columns_of(array, None, name, &Fill::default(), &mut columns, &mut nulls)?;
        }
        let mut columns = from_stored(columns, &self.spec).map_err(|e| e.in_file(file.source().name(), None))?;
        let pos = if self.positioned { positions(&columns.remove(0)) } else { Pos::Run(first) };
        Ok((pos, Decoded { columns, bad: nulls.errors() }))
    }
}

impl Table for StoredSet {
    type Block = Vec<Buf>;
    fn starts(&self) -> &[u64] {
        &self.starts
    }
    fn row_bytes(&self, block: usize) -> u64 {
        let Block { file, batch, .. } = self.blocks[block];
        let body = self.files[file].body(batch);
        (body.end - body.start) / (self.files[file].batch_rows(batch) as u64).max(1)
    }
    fn source(&self, block: usize) -> &Arc<dyn Source> {
        self.files[self.blocks[block].file].source()
    }
    fn ranges(&self, block: usize) -> Vec<Range<u64>> {
        let Block { file, batch, .. } = self.blocks[block];
        vec![self.files[file].body(batch)]
    }
    fn lends(&self) -> bool {
        true
    }
    fn check(&self, block: usize) -> Result<()> {
        self.files[self.blocks[block].file].check_unchanged()
    }
    fn block(&self, _: usize, read: Vec<Buf>, _: Allowed) -> Vec<Buf> {
        read
    }
    fn decode(&self, block: usize, rows: Range<usize>, read: &Vec<Buf>) -> Result<Decoded> {
        let body = read.first().ok_or_else(|| Error::internal("a block without bytes"))?;
        Ok(self.columns(block, rows, body)?.1)
    }
    fn is_stream(&self) -> bool {
        self.stream
    }
}

/// The rows in order, a block ahead; known by their number, so that it can be sent anywhere.
pub struct StoredStage {
    set: Arc<StoredSet>,
    row: u64,
    /// The block that is handed out, with its number.
    block: Option<(usize, Chunk)>,
    coming: Option<(usize, Task<Result<Buf>>)>,
    failed: bool,
}

impl StoredStage {
    pub fn new(set: Arc<StoredSet>) -> StoredStage {
        StoredStage { set, row: 0, block: None, coming: None, failed: false }
    }
    fn read(&mut self, block: usize) {
        if self.coming.as_ref().is_none_or(|(b, _)| *b != block) {
            let range = self.set.ranges(block).remove(0);
            let task = self.set.source(block).clone().read(range.start, (range.end - range.start) as usize);
            self.coming = Some((block, task));
        }
    }
    fn arrive(&mut self, block: usize, cx: &Cx<'_>) -> Poll<Result<()>> {
        self.read(block);
        let Some((_, task)) = &mut self.coming else { return Poll::Pending };
        let Poll::Ready(read) = task.poll_with(&cx.std_waker()) else { return Poll::Pending };
        self.coming = None;
        Poll::Ready(read.and_then(|body| {
            let rows = (self.set.starts[block + 1] - self.set.starts[block]) as usize;
            let (pos, mut decoded) = self.set.columns(block, 0..rows, &body)?;
            if let Some((_, error)) = decoded.bad.pop() {
                return Err(error.in_file(self.set.source(block).name(), None));
            }
            self.block = Some((block, Chunk::new(rows, pos, decoded.columns)));
            if block + 1 < self.set.blocks.len() {
                self.read(block + 1);
            }
            Ok(())
        }))
    }
}

impl Stage for StoredStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if self.failed || self.row >= self.set.len() {
            return Pull::End;
        }
        let block = self.set.starts.partition_point(|start| *start <= self.row) - 1;
        if self.block.as_ref().is_none_or(|(b, _)| *b != block) {
            match self.arrive(block, cx) {
                Poll::Pending => return Pull::Pending,
                Poll::Ready(Err(error)) => {
                    self.failed = true;
                    return Pull::Fail(error.that_ends());
                }
                Poll::Ready(Ok(())) => {}
            }
        }
        let Some((_, chunk)) = &self.block else { return Pull::End };
        let from = (self.row - self.set.starts[block]) as usize;
        let to = from.saturating_add(want).min(chunk.rows());
        self.row += (to - from) as u64;
        Pull::Rows(chunk.slice(from..to))
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.row);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.row = at.up_to(self.set.len())?;
        Ok(())
    }
}
