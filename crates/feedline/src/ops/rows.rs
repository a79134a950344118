//! `rows`: elements that are in memory already, as a dataset: what a window is.

use crate::element::{Chunk, Element, Pos, Spec, Value};
use crate::error::Result;
use crate::op::{Op, OpInfo, Param};
use crate::plan::{Bound, Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "rows",
    doc: "Elements that are in memory, such as those of a window.",
    params: &[Param::new("spec", "", "what the elements are"), Param::new("rows", "", "the elements")],
    read: |json| {
        let Written { spec, rows } = serde_json::from_value(json)?;
        let elements: Vec<Element> = rows.into_iter().map(|row| row.into()).collect();
        let chunks = if elements.is_empty() { vec![] } else { vec![Chunk::from_elements(Pos::Run(0), elements)] };
        Ok(Arc::new(Rows::new(chunks, spec)))
    },
};

pub struct Rows {
    chunks: Arc<[Chunk]>,
    rows: u64,
    /// What it adds to the memory that is held: less than its size where windows overlap.
    bytes: usize,
    spec: Spec,
}

#[derive(Serialize, Deserialize)]
struct Written {
    spec: Spec,
    rows: Vec<Vec<Value>>,
}

impl Rows {
    /// The rows of these chunks, numbered anew.
    pub fn new(mut chunks: Vec<Chunk>, spec: Spec) -> Rows {
        let (mut rows, mut bytes) = (0, 0);
        for chunk in &mut chunks {
            chunk.freeze();
            chunk.pos = chunk.pos.renumbered(Pos::Run(rows));
            rows += chunk.rows() as u64;
            bytes += chunk.nbytes();
        }
        Rows { chunks: chunks.into(), rows, bytes, spec }
    }
    /// Says that only this part of the memory is its own.
    pub fn sharing(mut self, own: u64, of: u64) -> Rows {
        self.bytes = (self.bytes as u128 * u128::from(own.min(of)) / u128::from(of.max(1))) as usize;
        self
    }
    /// As a component of an element.
    pub fn into_value(self) -> Result<Value> {
        Ok(Value::Dataset(Bound::nested(Plan::new(Arc::new(self), vec![])?)))
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows", self.rows)
    }
}

impl Op for Rows {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.spec.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Known(self.rows)
    }
    fn build(&self, _: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(RowsStage { chunks: self.chunks.clone(), chunk: 0, row: 0 })))
    }
    fn index(&self, _: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        Ok(Some(Arc::new(RowsIndex { chunks: self.chunks.clone(), rows: self.rows })))
    }
    fn held_bytes(&self) -> usize {
        self.bytes
    }
    fn write(&self) -> Result<serde_json::Value> {
        let rows = self.chunks.iter().flat_map(|c| (0..c.rows()).map(|row| c.element(row).into_vec()));
        Ok(serde_json::to_value(Written { spec: self.spec.clone(), rows: rows.collect() })?)
    }
    fn show(&self) -> String {
        self.rows.to_string()
    }
}

struct RowsStage {
    chunks: Arc<[Chunk]>,
    chunk: usize,
    row: usize,
}

impl Stage for RowsStage {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        while let Some(chunk) = self.chunks.get(self.chunk) {
            let (from, to) = (self.row, self.row.saturating_add(want).min(chunk.rows()));
            if to == chunk.rows() {
                (self.chunk, self.row) = (self.chunk + 1, 0);
            } else {
                self.row = to;
            }
            if to > from {
                return Pull::Rows(if to - from == chunk.rows() { chunk.clone() } else { chunk.slice(from..to) });
            }
        }
        Pull::End
    }
    fn mark(&mut self, out: &mut Mark) {
        let first = match self.chunks.get(self.chunk) {
            Some(chunk) => chunk.pos.at(0),
            None => self.chunks.iter().map(|c| c.rows() as u64).sum(),
        };
        out.number(first + self.row as u64);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let row = at.number()?;
        self.chunk = self.chunks.partition_point(|c| c.pos.at(0) + c.rows() as u64 <= row);
        self.row = self.chunks.get(self.chunk).map_or(0, |c| (row - c.pos.at(0)) as usize);
        Ok(())
    }
}

struct RowsIndex {
    chunks: Arc<[Chunk]>,
    rows: u64,
}

impl Index for RowsIndex {
    fn len(&self) -> u64 {
        self.rows
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let element = |&n: &u64| {
            let at = self.chunks.partition_point(|c| c.pos.at(0) <= n) - 1;
            self.chunks[at].element((n - self.chunks[at].pos.at(0)) as usize)
        };
        Ok(Chunk::from_elements(Pos::List(rows.into()), rows.iter().map(element).collect()))
    }
}
