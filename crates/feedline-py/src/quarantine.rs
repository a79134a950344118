//! What was quarantined, and what a dataset makes of it now.

use crate::error::{IntoPy, to_py};
use crate::plan::PyPlan;
use crate::values::{element_to_py, value_to_py};
use feedline::runtime::Quarantined;
use feedline::{Kind, Retried};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// All that is in a folder, each as a dict.
#[pyfunction]
pub fn quarantined<'py>(py: Python<'py>, folder: &str) -> PyResult<Bound<'py, PyList>> {
    let all = py.detach(|| feedline::runtime::quarantined(folder)).py()?;
    PyList::new(py, all.iter().map(|entry| entry_to_py(py, entry)).collect::<PyResult<Vec<_>>>()?)
}

/// The same, each with what became of it: `("made", value)`, `("filtered", None)`, `("failed", exception)` or
/// `("unknown", text)`.
#[pyfunction]
pub fn retry<'py>(py: Python<'py>, folder: &str, plan: &Bound<'py, PyPlan>) -> PyResult<Bound<'py, PyList>> {
    let bound = plan.get().0.clone();
    let all = py.detach(|| feedline::runtime::quarantined(folder)).py()?;
    let mut tried = Vec::with_capacity(all.len());
    for entry in &all {
        py.check_signals()?;
        let (how, value) = match py.detach(|| feedline::retry(&bound, entry)) {
            Ok(Retried::Made(element, spec)) => ("made", element_to_py(py, &spec, element)?),
            Ok(Retried::Filtered) => ("filtered", py.None().into_bound(py)),
            Err(error) if error.kind() == Kind::Usage => ("unknown", error.message().into_pyobject(py)?.into_any()),
            Err(error) => ("failed", to_py(&error).into_value(py).into_bound(py).into_any()),
        };
        tried.push((entry_to_py(py, entry)?, how, value));
    }
    PyList::new(py, tried)
}

fn entry_to_py<'py>(py: Python<'py>, entry: &Quarantined) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("reason", &entry.reason)?;
    dict.set_item("kind", &entry.kind)?;
    dict.set_item("operator", &entry.operator)?;
    dict.set_item("number", entry.number)?;
    dict.set_item("epoch", entry.epoch)?;
    dict.set_item("position", entry.position)?;
    dict.set_item("file", &entry.file)?;
    dict.set_item("record", entry.record)?;
    dict.set_item("byte", entry.byte)?;
    dict.set_item("raw", entry.raw.as_ref().map(|raw| PyBytes::new(py, raw)))?;
    let leaves = entry.input.as_ref().map(|input| {
        let leaves = input.iter().map(|value| value_to_py(py, value.clone())).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, leaves)
    });
    dict.set_item("input", leaves.transpose()?)?;
    Ok(dict)
}
