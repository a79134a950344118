//! `cache(filename)`: the elements of a complete pass in files. Not an operator: the part of `cache` that is on disk.
//!
//! 1. The folder `filename` has a folder for each pipeline that was cached there, whose name is a hash of what it gives: the
//!    operators, their parameters, functions and arrays, the files that they read with size and time, and the values around
//!    a dataset inside a function. No pipeline sees the elements of another.
//! 2. In it lies a saved set (`save/set.rs`): checksummed blocks, and a manifest that is written when a pass is complete.
//!    Until then there is nothing to read; a process that is killed leaves nothing that anybody would take for whole.
//! 3. One iterator of one process writes, under a lock. Others read the input meanwhile and keep nothing.

use super::from_generator::GeneratorAttachment;
use super::stored_set::StoredSet;
use super::table;
use crate::element::{DType, Spec, Tensor, Value};
use crate::error::Result;
use crate::expr::HostAttachment;
use crate::expr::funcs::fingerprint64;
use crate::plan::{Outline, Plan, write_plan};
use crate::save::{Manifest, SetWriter, within};
use std::sync::Arc;

pub struct OnDisk {
    folder: String,
    spec: Spec,
}

impl OnDisk {
    pub fn new(filename: &str, identity: &[u8], input: &Plan, env: &[Value]) -> Result<OnDisk> {
        Ok(OnDisk { folder: within(filename, &key(identity, input, env)?), spec: input.spec.clone() })
    }
    /// The elements of a complete pass, with what was said of its origin.
    pub fn get(&self) -> Result<Option<(Arc<StoredSet>, serde_json::Value)>> {
        let Some(manifest) = Manifest::read(&self.folder)? else { return Ok(None) };
        let set = StoredSet::open(&self.folder, &manifest, None)?;
        Ok(Some((Arc::new(set), manifest.origin.unwrap_or_default())))
    }
    /// Begins to write, unless somebody does already or has done so.
    pub fn begin(&self) -> Result<Option<SetWriter>> {
        let Some(writer) = SetWriter::new(&self.folder, &self.spec, "none")? else {
            log::warn!("cache: {} is being filled by another iterator; this pass is not kept", self.folder);
            return Ok(None);
        };
        // It may have become whole while this one waited.
        Ok(if Manifest::read(&self.folder)?.is_some() { None } else { Some(writer) })
    }
}

/// What decides, in every process, what comes out of a plan, as far as the plan itself says it.
pub fn identity(plan: &Plan) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(&Outline::of(plan)?)?;
    let (_, attachments) = write_plan(plan)?;
    for object in attachments {
        if let Some(HostAttachment(function)) = object.downcast_ref() {
            text.extend(function.identity());
        } else if let Some(GeneratorAttachment(generator)) = object.downcast_ref() {
            text.extend(generator.identity());
        } else if let Some(tensor) = object.downcast_ref::<Tensor>() {
            // The outline looks at samples of large ones; here a single other byte matters.
            match tensor.dtype() {
                DType::String => tensor.strs().for_each(|s| text.extend(fingerprint64(s).to_le_bytes())),
                _ => text.extend(fingerprint64(tensor.bytes()).to_le_bytes()),
            }
        }
    }
    Ok(text)
}

/// The name of the place of a pipeline: the same with the files as they are now, and the values around the dataset.
fn key(identity: &[u8], plan: &Plan, env: &[Value]) -> Result<String> {
    let mut files = Vec::new();
    plan.walk_all(&mut |node| files.extend(node.op.files()));
    // A file that cannot be asked about is one that cannot be read: the pass will say so.
    let stat = |name: &String| {
        Ok(feedline_io::open(name).and_then(|source| source.stat().wait()).map(|s| (s.len, s.version)).ok())
    };
    let stats = table::in_parallel(&files, stat)?;
    let around = serde_json::to_vec(&(files, stats, env))?;
    Ok(format!("{:016x}", fingerprint64(&[identity, &around].concat())))
}
