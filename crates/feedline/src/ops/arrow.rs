//! `arrow(files)`: the rows of Arrow files and streams, one after the other; each is a dict of its columns.

use super::arrow_arrays::Fill;
use super::table::{self, Allowed, Decoded, Pieces, Table, TableIndex, Takes};
use super::wanted_columns::Wanted;
use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::{Error, Result};
use crate::op::{Narrowed, Op, OpInfo, Param};
use crate::plan::{Card, Plan};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{BuildCx, Built, Index};
use feedline_formats::arrow_ipc::ArrowFile;
use feedline_formats::arrow_packed::Unpacked;
use feedline_formats::columnar::Values;
use feedline_formats::columnar::array::ArrayRef;
use feedline_io::{Buf, Source};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "arrow",
    doc: "The rows of Arrow files and streams, each a dict of its columns.",
    params: &[
        Param::new("files", "", "paths, in the order in which they are read"),
        Param::new("columns", "None", "the columns to read, in this order; None: all"),
        Param::new("fill", "None", "what stands in the place of nulls, by column"),
    ],
    read: crate::op::read::<Arrow>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrow {
    files: Vec<String>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Fill::is_empty")]
    fill: Fill,
    /// Nothing but the number of rows is wanted: nulls in the one column that is read are nobody's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rows_only: bool,
    /// The files with the places of their batches, found once.
    #[serde(skip)]
    table: OnceLock<ArrowTable>,
    #[serde(skip)]
    pieces: Arc<Pieces>,
}

impl Dataset {
    /// The rows of Arrow files and streams. `columns` names those that are wanted, `fill` says what stands for nulls.
    pub fn arrow(files: &[&str], columns: Option<&[&str]>, fill: Fill) -> Result<Dataset> {
        Dataset::source(Arrow {
            files: files.iter().map(|f| f.to_string()).collect(),
            columns: columns.map(|c| c.iter().map(|c| c.to_string()).collect()),
            fill,
            rows_only: false,
            table: OnceLock::new(),
            pieces: Default::default(),
        })
    }
}

#[derive(Clone)]
struct ArrowTable(Arc<Files>);

struct Files {
    files: Arc<[Arc<ArrowFile>]>,
    wanted: Wanted,
    /// Where the wanted columns are in each file.
    places: Vec<Vec<usize>>,
    /// File and batch of each block.
    blocks: Vec<(usize, usize)>,
    starts: Vec<u64>,
}

impl std::fmt::Debug for ArrowTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} files", self.0.files.len())
    }
}

impl Files {
    fn new(files: Arc<[Arc<ArrowFile>]>, columns: Option<&[String]>, fill: &Fill, rows_only: bool) -> Result<Files> {
        let first = files.first().ok_or_else(|| Error::usage("no files were given"))?;
        let wanted = Wanted::new(&first.schema(), first.source().name(), columns, fill)?.rows_only(rows_only);
        let (mut places, mut blocks, mut starts, mut rows) = (vec![], vec![], vec![0], 0u64);
        for (i, file) in files.iter().enumerate() {
            places.push(wanted.places(&file.schema(), file.source().name())?);
            for batch in 0..file.batches() {
                rows += file.batch_rows(batch) as u64;
                blocks.push((i, batch));
                starts.push(rows);
            }
        }
        Ok(Files { files, wanted, places, blocks, starts })
    }
}

impl Table for Files {
    type Block = Batch;
    fn starts(&self) -> &[u64] {
        &self.starts
    }
    fn row_bytes(&self, block: usize) -> u64 {
        let (file, batch) = self.blocks[block];
        let body = self.files[file].body(batch);
        let stored = (body.end - body.start).max(self.shared_bytes(block));
        let stored = stored / (self.files[file].batch_rows(batch) as u64).max(1);
        stored.saturating_add(self.files[file].dictionary_bytes(batch))
    }
    fn shared_bytes(&self, block: usize) -> u64 {
        let (file, batch) = self.blocks[block];
        self.files[file].unpacked_bytes(batch, &self.places[file])
    }
    fn source(&self, block: usize) -> &Arc<dyn Source> {
        self.files[self.blocks[block].0].source()
    }
    fn ranges(&self, block: usize) -> Vec<Range<u64>> {
        let (file, batch) = self.blocks[block];
        vec![self.files[file].body(batch)]
    }
    fn reads(&self) -> bool {
        true
    }
    fn lends(&self) -> bool {
        true
    }
    fn check(&self, block: usize) -> Result<()> {
        self.files[self.blocks[block].0].check_unchanged()
    }
    fn block(&self, _: usize, read: Vec<Buf>, allowed: Allowed) -> Batch {
        let unpacked = Unpacked::new(allowed.shared_bytes);
        Batch { body: read.into_iter().next(), unpacked, whole: Mutex::new(None) }
    }
    fn takes(&self, block: usize, rows: &Range<usize>, batch: &Batch) -> Result<Takes> {
        let (file, number) = self.blocks[block];
        let (file, places) = (&self.files[file], &self.places[file]);
        let (bytes, column) = file.row_bytes(number, places, rows, batch.body.clone(), &batch.unpacked)?;
        Ok(Takes { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), column, is_foreign: false })
    }
    fn decode(&self, block: usize, rows: Range<usize>, batch: &Batch) -> Result<Decoded> {
        let (file, number) = self.blocks[block];
        let (file, places) = (&self.files[file], &self.places[file]);
        let arrays = match file.can_be_cut(number) || rows.len() == file.batch_rows(number) {
            true => file.decode_sharing(number, places, rows, batch.body.clone(), &batch.unpacked)?,
            false => {
                let whole = batch.whole(|body, most| file.decode_whole(number, places, body, most))?;
                whole.iter().map(|array| array.slice(rows.start, rows.len())).collect()
            }
        };
        self.wanted.decoded(arrays.into_iter().map(Values::Array))
    }
}

/// A record batch that was read.
struct Batch {
    body: Option<Buf>,
    /// What its pieces share, if it is compressed.
    unpacked: Unpacked,
    /// All of it, for the pieces that follow, if it can only be decoded as a whole.
    whole: Mutex<Option<Vec<ArrayRef>>>,
}

impl Batch {
    fn whole(&self, decode: impl FnOnce(Option<Buf>, usize) -> Result<Vec<ArrayRef>>) -> Result<Vec<ArrayRef>> {
        let mut kept = lock(&self.whole);
        if let Some(arrays) = &*kept {
            return Ok(arrays.clone());
        }
        let arrays = decode(self.body.clone(), self.unpacked.most())?;
        *kept = Some(arrays.clone());
        Ok(arrays)
    }
}

impl Arrow {
    fn table(&self) -> Result<&ArrowTable> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let open = |name: &String| Ok(Arc::new(ArrowFile::open(feedline_io::open(name)?)?));
        let files: Vec<_> = table::in_parallel(&self.files, open)?;
        let files = Files::new(files.into(), self.columns.as_deref(), &self.fill, self.rows_only)?;
        let table = ArrowTable(Arc::new(files));
        Ok(self.table.get_or_init(|| table))
    }
}

impl Op for Arrow {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.table()?.0.wanted.spec())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        self.table().map_or(Card::Unknown, |t| Card::Known(*t.0.starts.last().expect("starts with 0")))
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(table::build(self.table()?.0.clone(), cx, node, 0))
    }
    fn build_behind(&self, cx: &BuildCx, node: &Plan, rows: u64) -> Result<Option<Built>> {
        Ok(Some(table::build(self.table()?.0.clone(), cx, node, rows)))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(TableIndex::new(self.table()?.0.clone(), self.pieces.clone(), cx))))
    }
    fn narrowed(&self, reads: &[bool]) -> Result<Option<Narrowed>> {
        let table = &self.table()?.0;
        let specs = table.wanted.columns.iter().map(|(_, spec)| spec);
        let rows_only = !reads.contains(&true);
        let Some((columns, leaves)) = table::read_columns(specs, reads, self.rows_only) else { return Ok(None) };
        let names: Vec<String> = columns.iter().map(|&c| table.wanted.columns[c].0.clone()).collect();
        let narrow = Files::new(table.files.clone(), Some(&names), &self.fill, rows_only)?;
        let source = Arrow {
            files: self.files.clone(),
            columns: Some(names),
            fill: self.fill.clone(),
            rows_only,
            table: OnceLock::from(ArrowTable(Arc::new(narrow))),
            pieces: Default::default(),
        };
        Ok(Some((Arc::new(source), leaves)))
    }
    fn files(&self) -> Vec<String> {
        self.files.clone()
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        super::show_files(&self.files, self.columns.as_deref())
    }
}
