//! The pass that the elements of a cache come from, and from where its input goes on. A part of `cache`.

use crate::error::Result;
use crate::runtime::{At, BuildCx, Mark, Saved, Stage};
use std::sync::Arc;

/// A pass over the input: what it gives depends on its epoch and on the seeds that it began with.
#[derive(Clone, Default, PartialEq)]
pub struct Origin {
    pub epoch: u64,
    pub start: Arc<[Saved]>,
    /// Why there is no telling where it began.
    pub never: Option<&'static str>,
}

impl Origin {
    pub fn of(cx: &BuildCx, input: &mut dyn Stage) -> Origin {
        let (mut mark, mut start) = (Mark::default(), Vec::new());
        input.mark(&mut mark);
        let never = mark.saved(&mut start).err().map(|_| NEVER);
        Origin { epoch: cx.epoch, start: start.into(), never }
    }
    pub fn mark(&self, out: &mut Mark) {
        out.number(self.epoch);
        out.counted(&Mark::from(&*self.start));
        if let Some(why) = self.never {
            out.never(why);
        }
    }
    pub fn read(at: &mut At<'_>) -> Result<Origin> {
        Ok(Origin { epoch: at.number()?, start: at.counted()?.into(), never: None })
    }
    #[cfg(feature = "columnar")]
    pub fn to_json(&self) -> Result<serde_json::Value> {
        let start = crate::runtime::parts_to_json(&self.start)?;
        Ok(serde_json::json!({ "epoch": self.epoch, "start": start, "resumable": self.never.is_none() }))
    }
    #[cfg(feature = "columnar")]
    pub fn from_json(json: &serde_json::Value) -> Result<Origin> {
        let start = crate::runtime::parts_from_json(&json["start"])?.into();
        let never = (json["resumable"].as_bool() != Some(true)).then_some(NEVER);
        Ok(Origin { epoch: json["epoch"].as_u64().unwrap_or(0), start, never })
    }
}

const NEVER: &str = "an operator before cache cannot be resumed";
/// A pass is gone on with only by the version that began it: marks have no other.
#[cfg(feature = "columnar")]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// From where the input of a pass goes on that broke off.
#[cfg(feature = "columnar")]
pub fn part_rest(origin: &serde_json::Value) -> Result<Arc<[Saved]>> {
    match origin["version"].as_str() {
        Some(VERSION) => Ok(crate::runtime::parts_from_json(&origin["rest"])?.into()),
        other => Err(crate::Error::data(format!("it was begun by version {other:?} of feedline, this is {VERSION}"))),
    }
}
