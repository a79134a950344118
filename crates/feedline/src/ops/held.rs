//! Rows that are in memory already: a stage that cuts them into pieces, and access by number.

use crate::element::{Chunk, RowRef, gather};
use crate::error::Result;
use crate::runtime::{At, Built, Cx, Index, Mark, Pull, Stage};
use std::sync::{Arc, OnceLock};

/// Blocks of rows, one after the other. Cloning shares them.
#[derive(Clone)]
pub struct Held {
    blocks: Arc<[Chunk]>,
    /// The number of each block's first row.
    starts: Arc<[u64]>,
    rows: u64,
}

impl Held {
    pub fn new(chunk: Chunk) -> Held {
        Held::blocks(vec![chunk])
    }
    pub fn blocks(blocks: Vec<Chunk>) -> Held {
        let mut rows = 0;
        let mut starts = Vec::with_capacity(blocks.len());
        for block in &blocks {
            block.freeze();
            starts.push(rows);
            rows += block.rows() as u64;
        }
        Held { blocks: blocks.into(), starts: starts.into(), rows }
    }
    /// Says that they are kept for later passes, and counted there if they are ours: whoever else has some need not.
    pub fn kept(self) -> Held {
        self.blocks.iter().for_each(Chunk::keep);
        self
    }
    pub fn stage(&self) -> HeldStage {
        HeldStage { held: self.clone(), block: 0, at: 0 }
    }
    /// From the row with this number on.
    pub fn into_stage(self, first: u64) -> Built {
        let mut stage = self.stage();
        stage.go_to(first.min(self.rows));
        Built::Stage(Box::new(stage))
    }
}

/// Rows that an operator makes once and keeps for all passes. `Debug` does not show all the data.
#[derive(Default)]
pub struct Kept(OnceLock<Held>);

impl Kept {
    pub fn get(&self, make: impl FnOnce() -> Result<Held>) -> Result<Held> {
        if let Some(held) = self.0.get() {
            return Ok(held.clone());
        }
        let held = make()?.kept();
        let _brief = feedline_io::brief();
        Ok(self.0.get_or_init(|| held).clone())
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("rows")
    }
}

pub struct HeldStage {
    held: Held,
    block: usize,
    at: usize,
}

impl HeldStage {
    fn go_to(&mut self, row: u64) {
        self.block = self.held.starts.partition_point(|s| *s <= row).saturating_sub(1);
        self.at = (row - self.held.starts.get(self.block).copied().unwrap_or(0)) as usize;
    }
}

impl Stage for HeldStage {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        while let Some(block) = self.held.blocks.get(self.block) {
            if self.at < block.rows() {
                let from = self.at;
                self.at = from.saturating_add(want).min(block.rows());
                return Pull::Rows(block.slice(from..self.at));
            }
            (self.block, self.at) = (self.block + 1, 0);
        }
        Pull::End
    }
    fn mark(&mut self, out: &mut Mark) {
        let first = self.held.starts.get(self.block).copied().unwrap_or(self.held.rows);
        out.number(first + self.at as u64);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.go_to(at.up_to(self.held.rows)?);
        Ok(())
    }
}

impl Index for Held {
    fn len(&self) -> u64 {
        self.rows
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        if let [block] = &*self.blocks {
            let rows: Vec<usize> = rows.iter().map(|&r| r as usize).collect();
            return Ok(block.take(&rows));
        }
        let find = |&row: &u64| {
            let part = self.starts.partition_point(|s| *s <= row) - 1;
            RowRef { part: part as u32, row: (row - self.starts[part]) as u32 }
        };
        let rows: Vec<RowRef> = rows.iter().map(find).collect();
        match (rows.is_empty(), self.blocks.first()) {
            (true, Some(block)) => Ok(block.slice(0..0)),
            (true, None) => Ok(Chunk::new(0, crate::element::Pos::Run(0), [])),
            _ => Ok(gather(&rows, |p| &self.blocks[p as usize])),
        }
    }
}
