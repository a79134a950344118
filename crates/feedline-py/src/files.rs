//! What file names and patterns mean.

use crate::error::IntoPy;
use pyo3::prelude::*;

/// The files that a reader means: a folder is its files, a pattern what matches it, and any other name itself, whether
/// there is such a file or not.
#[pyfunction]
pub fn expand_files(py: Python<'_>, names: Vec<String>) -> PyResult<Vec<String>> {
    py.detach(|| {
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            let folder = name.ends_with('/') || std::path::Path::new(&name).is_dir();
            match folder || name.contains(['*', '?', '[']) {
                true => all.extend(feedline_io::expand(&name)?),
                false => all.push(name),
            }
        }
        Ok(all)
    })
    .py()
}

/// What matches each of the patterns, sorted by full path; a file that two patterns match comes twice. The indexes that
/// feedline keeps beside record files are left out: `list_files` feeds readers, and a pipeline that was made for tf.data
/// must not fail because an index was made meanwhile. `matching_files` in a function shows what is there.
#[pyfunction]
pub fn glob_files(py: Python<'_>, patterns: Vec<String>) -> PyResult<Vec<String>> {
    py.detach(|| {
        let mut all = Vec::new();
        for pattern in &patterns {
            all.extend(feedline_io::glob_data(pattern)?);
        }
        all.sort_unstable();
        Ok(all)
    })
    .py()
}
