//! `load(path)`: the elements of a saved set, as they were saved.

use super::stored_set::{StoredSet, manifest};
use super::table::{self, Pieces, TableIndex};
use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::Result;
use crate::op::{Int, Op, OpInfo, Param};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index};
use crate::save::{Leased, Manifest};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "load",
    doc: "The elements of a saved set, shard after shard.",
    params: &[
        Param::new("path", "", "the folder of the set"),
        Param::new("shard", "None", "the number of a shard; None: all of them"),
    ],
    read: crate::op::read::<Load>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shard: Option<Int>,
    /// Stands for a stream: what cannot be read ends the pass.
    #[serde(skip)]
    stream: bool,
    /// The set as it was when this was made. It is read also where it was saved anew since.
    #[serde(skip)]
    leased: OnceLock<Arc<Leased>>,
    /// The open files, where the shard is known.
    #[serde(skip)]
    set: OnceLock<Opened>,
    #[serde(skip)]
    pieces: Arc<Pieces>,
}

#[derive(Clone)]
struct Opened(Arc<StoredSet>);

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows", self.0.len())
    }
}

impl Dataset {
    /// The elements that `save` wrote into a folder.
    pub fn load(path: &str) -> Result<Dataset> {
        Dataset::source(Load::new(path, None, false))
    }
}

impl Load {
    /// A set, or one of its shards. As a `stream` it may not lose elements.
    pub fn new(path: &str, shard: Option<Int>, stream: bool) -> Load {
        let (leased, set, pieces) = Default::default();
        Load { path: path.into(), shard, stream, leased, set, pieces }
    }
    /// The same of a set that was found already.
    pub fn of(path: &str, shard: Option<Int>, stream: bool, found: &Arc<Leased>) -> Load {
        Load { leased: found.clone().into(), ..Load::new(path, shard, stream) }
    }
    fn leased(&self) -> Result<&Arc<Leased>> {
        match self.leased.get() {
            Some(leased) => Ok(leased),
            None => {
                let leased = manifest(&self.path)?;
                Ok(self.leased.get_or_init(|| leased))
            }
        }
    }
    fn manifest(&self) -> Result<&Manifest> {
        Ok(&self.leased()?.manifest)
    }
    fn set(&self, cx: &BuildCx) -> Result<Arc<StoredSet>> {
        if let Some(set) = self.set.get() {
            return Ok(set.0.clone());
        }
        let number = self.shard.map(|shard| shard.get(cx)).transpose()?;
        let number = number.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let opened = StoredSet::open(&self.path, self.manifest()?, number);
        let opened = opened.map_err(|error| if self.stream { error.that_ends() } else { error })?;
        let set = Arc::new(opened.for_stream(self.stream).guarded_by(self.leased()?.clone()));
        match self.shard {
            Some(Int::Symbol { .. }) => Ok(set),
            _ => Ok(self.set.get_or_init(|| Opened(set)).0.clone()),
        }
    }
}

impl Op for Load {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.manifest()?.spec.clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        match (self.manifest(), self.shard) {
            (Ok(manifest), None) => Card::Known(manifest.elements),
            (Ok(manifest), Some(Int::Known(shard))) => {
                let files = usize::try_from(shard).ok().and_then(|shard| manifest.shards.get(shard));
                files.map_or(Card::Unknown, |files| Card::Known(files.iter().map(|f| f.elements).sum()))
            }
            _ => Card::Unknown,
        }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        Ok(table::build(self.set(cx)?, cx, node, 0))
    }
    fn build_behind(&self, cx: &BuildCx, node: &Plan, rows: u64) -> Result<Option<Built>> {
        Ok(Some(table::build(self.set(cx)?, cx, node, rows)))
    }
    fn index(&self, cx: &BuildCx, _: &Plan) -> Result<Option<Arc<dyn Index>>> {
        if matches!(self.shard, Some(Int::Symbol { .. })) {
            return Ok(None);
        }
        Ok(Some(Arc::new(TableIndex::new(self.set(cx)?, self.pieces.clone(), cx))))
    }
    /// The manifest stands for all of them: it is written anew whenever they are. From then on a file of the old ones does.
    fn files(&self) -> Vec<String> {
        let old = self.leased.get().filter(|leased| !leased.is_current());
        let first = old.and_then(|old| old.manifest.shards.iter().flatten().next());
        vec![crate::save::within(&self.path, first.map_or(crate::save::MANIFEST, |file| &file.name))]
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}
