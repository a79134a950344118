//! The files that elements on disk were made of. Not an operator: a part of `kept_set.rs`, for caches and snapshots.
//!
//! 1. While a set is filled, a witness (`feedline-io/src/witness.rs`) records every file that is opened for it, whoever
//!    opens it: a reader with a list of names, one inside a function, `read_file`. Files that Python code opens by itself
//!    are not among them.
//! 2. What it has recorded goes into the manifest, with each part that is committed. Files of a literal list are left out:
//!    they are in the name of the folder already.
//! 3. A set is used only if those files are as they were. Otherwise it is made anew, in its place; who reads the old one by
//!    then reads it to the end (`save/lease.rs`).

use crate::runtime::BuildCx;
use crate::save::Manifest;
use feedline_io::{Record, Witness};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What is recorded in a pass, and where it stands in manifests.
#[derive(Clone)]
pub struct KeptFiles {
    pub witness: Arc<Witness>,
    /// Those that the folder is named after.
    listed: Arc<HashSet<String>>,
    /// `cache` or `snapshot`.
    what: &'static str,
    told: Arc<AtomicBool>,
}

const FILES: &str = "files";
const PATTERNS: &str = "patterns";

impl KeptFiles {
    pub fn new(what: &'static str, listed: Vec<String>, cx: &BuildCx) -> KeptFiles {
        let (listed, told) = (Arc::new(listed.into_iter().collect()), Arc::default());
        KeptFiles { witness: Witness::new(cx.witness.clone()), listed, what, told }
    }
    /// The origin of a set, with the files that were read for it by now.
    pub fn tell(&self, mut origin: Value) -> Value {
        let Record { mut files, patterns } = self.witness.record();
        files.retain(|name, _| !self.listed.contains(name));
        for (name, found) in [(FILES, files), (PATTERNS, patterns)] {
            if !found.is_empty() {
                origin[name] = found.into_iter().map(|(name, was)| (name, Value::String(was))).collect();
            }
        }
        origin
    }
    /// Whether the files of a set are as they were when it was made. Then they count as read by this pass, too.
    pub fn are_as_in(&self, set: &Manifest) -> bool {
        let origin = set.origin.as_ref().unwrap_or_default();
        let read = |name: &str| -> BTreeMap<String, String> {
            let found = origin.get(name).and_then(Value::as_object).into_iter().flatten();
            found.filter_map(|(name, was)| Some((name.clone(), was.as_str()?.to_string()))).collect()
        };
        let record = Record { files: read(FILES), patterns: read(PATTERNS) };
        let Some(why) = record.change() else {
            self.witness.extend(&record);
            return true;
        };
        if !self.told.swap(true, Relaxed) {
            log::warn!("{}: {why}, so what was kept of it is made anew", self.what);
        }
        false
    }
}
