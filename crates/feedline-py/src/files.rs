//! What file names and patterns mean.

use crate::apart::apart;
use pyo3::prelude::*;

/// The files that a reader means: a folder is its files (those that end so, if there are endings), a pattern what matches
/// it, and any other name itself, whether there is such a file or not.
#[pyfunction]
#[pyo3(signature = (names, endings=vec![]))]
pub fn expand_files(py: Python<'_>, names: Vec<String>, endings: Vec<String>) -> PyResult<Vec<String>> {
    let stands_for_others = |name: &String| {
        let local = name.strip_prefix("file://").unwrap_or(name);
        // A bucket has no bytes of its own.
        let is_bucket = ["s3://", "gs://", "az://"]
            .iter()
            .any(|scheme| name.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.contains('/')));
        is_bucket || name.ends_with('/') || name.contains(['*', '?', '[']) || std::path::Path::new(local).is_dir()
    };
    let looked_for: Vec<bool> = py.detach(|| names.iter().map(stands_for_others).collect());
    // The commonest case needs no look at anything, nor a thread for it.
    if !looked_for.contains(&true) {
        return Ok(names);
    }
    apart(py, move || {
        let mut all = Vec::with_capacity(names.len());
        for (name, looked_for) in names.into_iter().zip(looked_for) {
            match looked_for {
                true => all.extend(feedline_io::expand_ending(&name, &endings)?),
                false => all.push(name),
            }
        }
        Ok(all)
    })
}

/// What matches each of the patterns, sorted by full path; a file that two patterns match comes twice. The indexes that
/// feedline keeps beside record files are left out: `list_files` feeds readers, and a pipeline that was made for tf.data
/// must not fail because an index was made meanwhile. `matching_files` in a function shows what is there.
#[pyfunction]
pub fn glob_files(py: Python<'_>, patterns: Vec<String>) -> PyResult<Vec<String>> {
    apart(py, move || {
        let mut all = Vec::new();
        for pattern in &patterns {
            all.extend(feedline_io::glob_data(pattern)?);
        }
        all.sort_unstable();
        Ok(all)
    })
}
