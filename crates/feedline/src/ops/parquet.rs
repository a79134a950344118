//! `parquet(files)`: the rows of Parquet files, one after the other; each is a dict of its columns.

use super::arrow_arrays::Fill;
use super::table::{self, Allowed, Decoded, Pieces, Table, TableIndex, Takes};
use super::wanted_columns::Wanted;
use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::{Error, Result};
use crate::op::{Narrowed, Op, OpInfo, Param};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use feedline_formats::parquet::{Group, ParquetFile, Projection};
use feedline_io::{Buf, Source};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "parquet",
    doc: "The rows of Parquet files, each a dict of its columns.",
    params: &[
        Param::new("files", "", "paths, in the order in which they are read"),
        Param::new("columns", "None", "the columns to read, in this order; None: all"),
        Param::new("fill", "None", "what stands in the place of nulls, by column"),
    ],
    read: crate::op::read::<Parquet>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parquet {
    files: Vec<String>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Fill::is_empty")]
    fill: Fill,
    /// Nothing but the number of rows is wanted: nulls in the one column that is read are nobody's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rows_only: bool,
    /// The files with their footers, read once.
    #[serde(skip)]
    opened: OnceLock<Opened>,
    #[serde(skip)]
    pieces: Arc<Pieces>,
}

impl Dataset {
    /// The rows of Parquet files. `columns` names those that are wanted, `fill` says what stands for nulls.
    pub fn parquet(files: &[&str], columns: Option<&[&str]>, fill: Fill) -> Result<Dataset> {
        Dataset::source(Parquet {
            files: files.iter().map(|f| f.to_string()).collect(),
            columns: columns.map(|c| c.iter().map(|c| c.to_string()).collect()),
            fill,
            rows_only: false,
            opened: OnceLock::new(),
            pieces: Default::default(),
        })
    }
}

/// All files, and what of them is read.
#[derive(Clone)]
struct Opened {
    files: Arc<[Arc<ParquetFile>]>,
    table: Arc<ParquetTable>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} files", self.files.len())
    }
}

struct ParquetTable {
    wanted: Wanted,
    files: Vec<(Arc<ParquetFile>, Projection)>,
    /// File and row group of each block.
    blocks: Vec<(usize, usize)>,
    starts: Vec<u64>,
    /// Bytes of a row's items, if the size of all is known.
    fixed_bytes: Option<u64>,
}

impl Opened {
    fn new(files: Arc<[Arc<ParquetFile>]>, columns: Option<&[String]>, fill: &Fill, rows_only: bool) -> Result<Opened> {
        let first = files.first().ok_or_else(|| Error::usage("no files were given"))?;
        let wanted = Wanted::new(first.schema(), first.source().name(), columns, fill)?.rows_only(rows_only);
        let fixed_bytes = wanted.columns.iter().flat_map(|(_, s)| s.leaves().into_iter().map(table::fixed_bytes)).sum();
        let mut table = ParquetTable { fixed_bytes, wanted, files: vec![], blocks: vec![], starts: vec![0] };
        let mut rows = 0u64;
        for (i, file) in files.iter().enumerate() {
            let places = table.wanted.places(file.schema(), file.source().name())?;
            table.files.push((file.clone(), file.projection(&places)));
            for group in 0..file.groups() {
                rows = rows.checked_add(file.group_rows(group)).ok_or_else(|| Error::data("too many rows"))?;
                table.blocks.push((i, group));
                table.starts.push(rows);
            }
        }
        Ok(Opened { files, table: Arc::new(table) })
    }
}

impl Table for ParquetTable {
    type Block = Group;
    fn starts(&self) -> &[u64] {
        &self.starts
    }
    fn row_bytes(&self, block: usize) -> u64 {
        if let Some(bytes) = self.fixed_bytes {
            return bytes;
        }
        // On the average. Where strings of a dictionary are longer than that, they are still there once.
        let (file, group) = self.blocks[block];
        let (file, projection) = &self.files[file];
        file.group_bytes(group, projection) / file.group_rows(group).max(1)
    }
    fn shared_bytes(&self, block: usize) -> u64 {
        let (file, group) = self.blocks[block];
        let (file, projection) = &self.files[file];
        file.dictionary_bytes(group, projection)
    }
    fn source(&self, block: usize) -> &Arc<dyn Source> {
        self.files[self.blocks[block].0].0.source()
    }
    fn ranges(&self, block: usize) -> Vec<Range<u64>> {
        let (file, group) = self.blocks[block];
        let (file, projection) = &self.files[file];
        file.ranges(group, projection)
    }
    fn reads(&self) -> bool {
        true
    }
    fn check(&self, block: usize) -> Result<()> {
        self.files[self.blocks[block].0].0.check_unchanged()
    }
    fn block(&self, block: usize, read: Vec<Buf>, allowed: Allowed) -> Group {
        let (file, group) = self.blocks[block];
        let (file, projection) = &self.files[file];
        let read = self.ranges(block).into_iter().zip(read).map(|(r, buf)| (r.start, buf)).collect();
        Group::new(file, group, projection, read, allowed.keep_bytes, allowed.piece_bytes)
    }
    fn takes(&self, _: usize, rows: &Range<usize>, group: &Group) -> Result<Takes> {
        let (bytes, column) = group.list_bytes(rows)?;
        Ok(Takes { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), column, is_foreign: true })
    }
    fn decode(&self, _: usize, rows: Range<usize>, group: &Group) -> Result<Decoded> {
        self.wanted.decoded(group.decode(rows)?)
    }
}

impl Parquet {
    fn opened(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let open = |name: &String| Ok(Arc::new(ParquetFile::open(feedline_io::open(name)?)?));
        let files: Vec<_> = table::in_parallel(&self.files, open)?;
        let opened = Opened::new(files.into(), self.columns.as_deref(), &self.fill, self.rows_only)?;
        Ok(self.opened.get_or_init(|| opened))
    }
}

impl Op for Parquet {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.opened()?.table.wanted.spec())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        self.opened().map_or(Card::Unknown, |o| Card::Known(*o.table.starts.last().expect("starts with 0")))
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(table::build(self.opened()?.table.clone(), cx, node, 0))
    }
    fn build_behind(&self, cx: &BuildCx, node: &Plan, rows: u64) -> Result<Option<Built>> {
        Ok(Some(table::build(self.opened()?.table.clone(), cx, node, rows)))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(TableIndex::new(self.opened()?.table.clone(), self.pieces.clone(), cx))))
    }
    fn narrowed(&self, reads: &[bool]) -> Result<Option<Narrowed>> {
        let opened = self.opened()?;
        let specs = opened.table.wanted.columns.iter().map(|(_, spec)| spec);
        let rows_only = !reads.contains(&true);
        let Some((columns, leaves)) = table::read_columns(specs, reads, self.rows_only) else { return Ok(None) };
        let names: Vec<String> = columns.iter().map(|&c| opened.table.wanted.columns[c].0.clone()).collect();
        let narrow = Opened::new(opened.files.clone(), Some(&names), &self.fill, rows_only)?;
        let source = Parquet {
            files: self.files.clone(),
            columns: Some(names),
            fill: self.fill.clone(),
            rows_only,
            opened: OnceLock::from(narrow),
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
