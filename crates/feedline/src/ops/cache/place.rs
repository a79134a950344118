//! Where the elements of a pass are looked for and kept: memory, a folder, or first the one and then the other. A part of
//! `cache`.

#[cfg(feature = "columnar")]
use super::disk::{Keeping, OnDisk};
use super::memory::{Blocks, By, Store};
use super::origin::Origin;
#[cfg(feature = "columnar")]
use super::spill::Spilling;
use crate::element::Chunk;
use crate::error::Result;
use crate::ops::held::Held;
#[cfg(feature = "columnar")]
use crate::ops::stored_set::{StoredSet, StoredStage};
use crate::runtime::{BuildCx, Hold, Index, Kept, Run, Saved, Stage};
use std::sync::Arc;

/// The elements, and the pass that they come from.
#[derive(Clone)]
pub struct Filled {
    pub rows: Rows,
    /// If these are only the first ones: from where the input goes on behind them.
    pub rest: Option<Arc<[Saved]>>,
    pub origin: Origin,
    /// What they take of memory.
    pub kept: Arc<Kept>,
}

#[derive(Clone)]
pub enum Rows {
    Memory(Held),
    #[cfg(feature = "columnar")]
    Disk(Arc<StoredSet>),
}

impl Rows {
    pub fn stage(&self) -> Box<dyn Stage> {
        match self {
            Rows::Memory(held) => Box::new(held.stage()),
            #[cfg(feature = "columnar")]
            Rows::Disk(set) => Box::new(StoredStage::new(set.clone())),
        }
    }
    pub fn len(&self) -> u64 {
        match self {
            Rows::Memory(held) => held.len(),
            #[cfg(feature = "columnar")]
            Rows::Disk(set) => set.len(),
        }
    }
}

/// Where the elements of a pass are looked for, and kept.
pub enum Place {
    Memory(Arc<Store>),
    #[cfg(feature = "columnar")]
    Disk(OnDisk),
}

impl Place {
    /// What people call whoever keeps elements there.
    pub fn called(&self) -> &'static str {
        match self {
            Place::Memory(_) => super::INFO.name,
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => disk.called,
        }
    }
    /// What is kept for a pass.
    pub fn get(&self, cx: &BuildCx) -> Result<Option<Filled>> {
        match self {
            Place::Memory(store) => Ok(store.get(&cx.env, &By::new(cx, false))),
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => disk.get()?.map(|kept| from_disk(kept.set, &kept.origin, None)).transpose(),
        }
    }
    /// Begins to keep a pass; `None` if somebody else does.
    pub fn begin(&self, run: &Run) -> Result<Option<Filling>> {
        match self {
            Place::Memory(_) => Ok(Some(Filling::Memory(Blocks::new(run.budget.limit())))),
            #[cfg(feature = "columnar")]
            Place::Disk(disk) => Ok(disk.begin(run, None)?.map(|keeping| Filling::Disk(Box::new(keeping)))),
        }
    }
    pub fn finish(&self, cx: &BuildCx, filling: Filling, origin: &Origin, pure: bool, hold: &mut Hold) -> Result<()> {
        let filled = |rows: Rows, kept: Arc<Kept>| Filled { rows, rest: None, origin: origin.clone(), kept };
        match (self, filling) {
            (Place::Memory(store), Filling::Memory(blocks)) => {
                store.put(&cx.env, filled(Rows::Memory(blocks.finish()), hold.leave()), By::new(cx, pure));
                Ok(())
            }
            #[cfg(feature = "columnar")]
            (Place::Memory(store), Filling::Spill(spilling)) => {
                let rows = Rows::Disk(spilling.finish()?);
                store.put(&cx.env, filled(rows, Arc::default()), By::new(cx, pure));
                Ok(())
            }
            #[cfg(feature = "columnar")]
            (_, Filling::Disk(keeping)) => keeping.finish(origin.to_json()?),
            #[cfg(feature = "columnar")]
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "columnar")]
pub fn from_disk(set: Arc<StoredSet>, origin: &serde_json::Value, rest: Option<Arc<[Saved]>>) -> Result<Filled> {
    let (rows, origin) = (Rows::Disk(set), Origin::from_json(origin)?);
    Ok(Filled { rows, rest, origin, kept: Arc::default() })
}

/// What was read of a pass so far.
pub enum Filling {
    Memory(Blocks),
    #[cfg(feature = "columnar")]
    Disk(Box<Keeping>),
    #[cfg(feature = "columnar")]
    Spill(Box<Spilling>),
}

impl Filling {
    pub fn push(&mut self, chunk: &Chunk) -> Result<()> {
        match self {
            #[cfg(feature = "columnar")]
            Filling::Spill(spilling) => spilling.push(chunk),
            Filling::Memory(blocks) => {
                chunk.keep();
                blocks.push(chunk.clone());
                Ok(())
            }
            #[cfg(feature = "columnar")]
            Filling::Disk(keeping) => keeping.push(chunk),
        }
    }
    /// What it needs besides what it keeps, and does not charge to the pass itself.
    pub fn working_bytes(&self) -> usize {
        match self {
            Filling::Memory(_) => 0,
            #[cfg(feature = "columnar")]
            Filling::Disk(_) => 0,
            #[cfg(feature = "columnar")]
            Filling::Spill(spilling) => spilling.working_bytes(),
        }
    }
}
