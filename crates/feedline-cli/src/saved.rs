//! Folders that `datasets` of Hugging Face saved: beside the data lie notes in JSON, which say what the data is and are none
//! themselves.

use feedline::{Error, Result};
use serde_json::{Map, Value as Json};

/// A longer note is none.
const MOST_BYTES: u64 = 64 << 20;

/// The files of a folder that are its data, in their order, if it was saved so; `found` is what lies in it.
pub fn data_files(folder: &str, found: &[String]) -> Result<Option<Vec<String>>> {
    let folder = folder.trim_end_matches('/');
    let inside = |name: &str| format!("{folder}/{name}");
    let has = |name: &str| found.contains(&inside(name));
    if has("dataset_dict.json") {
        return Err(splits(folder, &inside("dataset_dict.json")));
    }
    if !has("state.json") {
        return Ok(None);
    }
    let (name, has_info) = (inside("state.json"), has("dataset_info.json"));
    let state = match described(&name) {
        Ok(state) if has_info || state.contains_key("_data_files") => state,
        // Somebody else's.
        _ if !has_info => return Ok(None),
        state => state?,
    };
    let is_there = |key: &str| state.get(key).and_then(Json::as_array).is_some_and(|list| !list.is_empty());
    if is_there("_indices_files") || is_there("_indices_data_files") {
        feedline::bail!(
            Usage,
            "{folder} has rows that are chosen by a list of indices; save dataset.flatten_indices() instead, or name its \
             .arrow files themselves"
        );
    }
    let Some(entries) = state.get("_data_files").and_then(Json::as_array) else {
        return Err(damaged(&name, "has no list \"_data_files\", which says what to read"));
    };
    let mut files = Vec::new();
    for entry in entries {
        match entry.get("filename").and_then(Json::as_str) {
            None => return Err(damaged(&name, "has an entry without \"filename\" in \"_data_files\"")),
            Some(file) if file.contains('/') || file == ".." => {
                return Err(Error::usage("names files outside of its folder").in_file(&name, None));
            }
            Some(file) => files.push(inside(file)),
        }
    }
    if files.is_empty() {
        let notes = [inside("state.json"), inside("dataset_info.json")];
        files = found.iter().filter(|file| !notes.contains(file)).cloned().collect();
    }
    Ok(Some(files))
}

/// A folder of several splits is no data, each of these is.
fn splits(folder: &str, name: &str) -> Error {
    let splits = match described(name) {
        Ok(said) => said.get("splits").and_then(Json::as_array).cloned(),
        Err(error) => return error,
    };
    let Some(splits) = splits else { return damaged(name, "has no list \"splits\"") };
    let folders: Vec<String> =
        splits.iter().filter_map(Json::as_str).map(|split| format!("{folder}/{split}")).collect();
    Error::usage(format!("{folder} has several splits; name one of them: {}", folders.join(", ")))
}

/// What a note says.
fn described(name: &str) -> Result<Map<String, Json>> {
    let source = feedline_io::open(name)?;
    let len = source.clone().stat().wait()?.len.min(MOST_BYTES);
    let bytes = source.read(0, len as usize).wait()?;
    match serde_json::from_slice(bytes.as_slice()) {
        Ok(Json::Object(said)) => Ok(said),
        Ok(_) => Err(damaged(name, "holds no object with names")),
        Err(error) => Err(damaged(name, &format!("is no JSON ({error})"))),
    }
}

fn damaged(name: &str, why: &str) -> Error {
    let help = "was the folder copied as a whole? Its .arrow files can also be named themselves";
    Error::data(format!("{why}; {help}")).in_file(name, None)
}
