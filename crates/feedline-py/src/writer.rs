//! Writing from Python: record by record, or a whole dataset.

use crate::apart::apart;
use crate::error::{IntoPy, interrupted, value_error};
use crate::plan::PyPlan;
use feedline::element::{DType, Spec};
use feedline::save::{self, Output, Staged, Target, TfRecordWriter};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;

/// A TFRecord file being written.
#[pyclass(frozen, module = "feedline._native")]
pub struct RecordWriter(Mutex<Option<TfRecordWriter>>);

impl RecordWriter {
    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut TfRecordWriter) -> feedline::Result<R> + Send) -> PyResult<R>
    where
        R: Send,
    {
        py.detach(|| {
            let mut writer = self.0.lock().unwrap_or_else(|e| e.into_inner());
            writer.as_mut().map(f)
        })
        .ok_or_else(|| value_error("the writer is closed"))?
        .py()
    }
}

#[pymethods]
impl RecordWriter {
    #[new]
    fn new(py: Python<'_>, path: &str, compression_type: &str, level: Option<i32>) -> PyResult<RecordWriter> {
        let create = || {
            feedline_io::sweep(&[path.to_string()]);
            Staged::create(path)
        };
        let output = Box::new(py.detach(create).py()?);
        let writer = TfRecordWriter::new(output, &Spec::scalar(DType::String), compression_type, level).py()?;
        Ok(RecordWriter(Mutex::new(Some(writer))))
    }
    fn write(&self, py: Python<'_>, record: &[u8]) -> PyResult<()> {
        self.with(py, |w| w.record(record))
    }
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |w| w.flush())
    }
    /// Gives the file its name; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(writer) = self.0.lock().unwrap_or_else(|e| e.into_inner()).take() else { return Ok(()) };
        py.detach(|| writer.end().and_then(Output::commit)).py()?;
        Ok(())
    }
    /// Leaves nothing of the file.
    fn discard(&self) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
    #[getter]
    fn closed(&self) -> bool {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).is_none()
    }
}

/// Writes all elements of a dataset in a format. `watch(elements)` is called now and then.
#[pyfunction]
#[pyo3(signature = (plan, format, path, shards, overwrite, options, watch=None))]
#[allow(clippy::too_many_arguments)]
pub fn save_dataset<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyPlan>,
    format: &str,
    path: String,
    shards: Option<usize>,
    overwrite: bool,
    options: &Bound<'py, PyAny>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let bound = plan.get().0.clone();
    let options = crate::plan::json_from_py(options, &mut |_| Ok(None))?;
    let open = save::format(format, &options).py()?;
    let target = Target { path, shards, overwrite };
    let watched = &mut |progress| watched(progress, watch.as_ref());
    let saved = py.detach(|| save::save(&bound, &target, &*open, watched)).py()?;
    said(py, saved)
}

/// Saves all elements of a dataset as a set that `load` reads. If they are `sharded`, each is a tuple of the number of
/// its shard and what is saved.
#[pyfunction]
#[pyo3(signature = (plan, path, compression, sharded, watch=None))]
pub fn save_set<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyPlan>,
    path: String,
    compression: &str,
    sharded: bool,
    watch: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let bound = plan.get().0.clone();
    let compression = save::compression(compression).map_err(|e| e.in_op("save")).py()?;
    let watched = &mut |progress| watched(progress, watch.as_ref());
    let saved = py.detach(|| save::save_set(&bound, &path, compression, sharded, watched)).py()?;
    said(py, saved)
}

/// How many shards a saved set has.
#[pyfunction]
pub fn shards_of_set(py: Python<'_>, path: String) -> PyResult<usize> {
    apart(py, move || Ok(save::Manifest::read(&path)?.map_or(0, |manifest| manifest.shards.len())))
}

/// Signals are looked at, and whoever watches hears of the progress.
fn watched(progress: save::Progress, watch: Option<&Py<PyAny>>) -> feedline::Result<()> {
    let told = Python::try_attach(|py| {
        py.check_signals()?;
        match watch {
            Some(watch) => watch.call1(py, (progress.elements,)).map(|_| ()),
            None => Ok(()),
        }
    });
    match told {
        Some(Err(e)) => Err(interrupted(e)),
        _ => Ok(()),
    }
}

fn said(py: Python<'_>, saved: save::Saved) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("files", saved.files)?;
    result.set_item("elements", saved.elements)?;
    result.set_item("bytes", saved.bytes)?;
    Ok(result)
}
