//! The elements of a snapshot as they came, whatever shards they were dealt to. A part of `snapshot`.

use crate::element::Chunk;
use crate::error::{Error, Result};
use crate::op::scalar_i64;
use crate::ops::stored_set::{StoredSet, StoredStage};
use crate::ops::weave::{Picked, Source};
use crate::runtime::{Cx, Pull, Stage};
use crate::save::Leased;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct InOrder {
    /// The number of each element's shard, at its position.
    order: StoredStage,
    /// What was read of it, and how much of that was given.
    ready: Option<(Chunk, usize)>,
    shards: BTreeMap<i64, Source>,
    picked: Picked,
    made: u64,
    folder: String,
}

impl InOrder {
    pub fn new(folder: &str, whole: &Arc<Leased>) -> Result<InOrder> {
        let open = |manifest, shard| -> Result<StoredSet> {
            Ok(StoredSet::open(folder, manifest, shard)?.for_stream(true).guarded_by(whole.clone()))
        };
        let told = whole.manifest.order().map_err(|error| error.in_file(folder, None))?;
        let (order, numbers) = told.ok_or_else(|| lost(folder))?;
        let shard = |(i, number)| {
            let stage = StoredStage::new(Arc::new(open(&whole.manifest, Some(i))?));
            Ok((number, Source::new(Box::new(stage), vec![])))
        };
        let shards = numbers.into_iter().enumerate().map(shard).collect::<Result<_>>()?;
        let order = StoredStage::new(Arc::new(open(&order, None)?.with_positions()));
        Ok(InOrder { order, ready: None, shards, picked: Picked::new(), made: 0, folder: folder.into() })
    }
    pub fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let (numbers, from) = match self.ready.take() {
            Some(ready) => ready,
            None => (crate::rows!(self.order.next(cx, want)), 0),
        };
        let end = numbers.rows().min(from.saturating_add(want));
        let mut stop = None;
        for row in from..end {
            let number = scalar_i64(&numbers.columns()[0].get(row)).unwrap_or(-1);
            let Some(shard) = self.shards.get_mut(&number) else { return Pull::Fail(lost(&self.folder)) };
            if shard.left() == 0 {
                match shard.pull(cx, end - row) {
                    None => {}
                    Some(Pull::End) => return Pull::Fail(lost(&self.folder)),
                    Some(other) => {
                        stop = Some(other);
                        break;
                    }
                }
            }
            self.picked.pick(shard, 1);
        }
        let rows = self.picked.rows();
        if from + rows < numbers.rows() {
            self.ready = Some((numbers.clone(), from + rows));
        }
        match (self.picked.take(&mut self.made), stop) {
            (Some(chunk), None | Some(Pull::Pending)) => {
                Pull::Rows(chunk.with_pos(numbers.slice(from..from + rows).pos.clone()))
            }
            // What cannot be read ends the pass: nobody misses what came before.
            (_, Some(stop)) => stop,
            (None, None) => Pull::Pending,
        }
    }
}

fn lost(folder: &str) -> Error {
    Error::loss("the order of its elements is lost").in_file(folder, None).that_ends()
}
