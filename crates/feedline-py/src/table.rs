//! The tables of functions and operators, and the settings of the process.

use feedline::runtime::{Settings, settings};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

#[pyfunction]
pub fn functions() -> Vec<(&'static str, &'static str)> {
    feedline::expr::funcs::all().map(|f| (f.name, f.doc)).collect()
}

#[pyfunction]
pub fn operators(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let rows = feedline::ops::OPS.iter().map(|info| {
        let row = PyDict::new(py);
        row.set_item("name", info.name)?;
        row.set_item("doc", info.doc)?;
        let params = info.params.iter().map(|p| (p.name, p.default, p.doc)).collect::<Vec<_>>();
        row.set_item("params", params)?;
        Ok(row)
    });
    PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
}

#[pyfunction]
#[pyo3(signature = (cpu_budget=None, memory_limit=None, seed=None, leave_cores=None))]
pub fn configure(
    cpu_budget: Option<usize>,
    memory_limit: Option<usize>,
    seed: Option<u64>,
    leave_cores: Option<usize>,
) -> PyResult<()> {
    if cpu_budget == Some(0) {
        return Err(crate::error::value_error("cpu_budget must be at least 1"));
    }
    if memory_limit == Some(0) {
        return Err(crate::error::value_error("memory_limit must be at least 1 byte"));
    }
    feedline::runtime::configure(Settings { cpu_budget, leave_cores, memory_limit, seed, stall_seconds: None });
    Ok(())
}

#[pyfunction]
pub fn configuration(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let Settings { leave_cores, seed, .. } = settings();
    let dict = PyDict::new(py);
    dict.set_item("cpu_budget", feedline::runtime::cpu_budget())?;
    dict.set_item("leave_cores", leave_cores.unwrap_or(0))?;
    dict.set_item("memory_limit", feedline::runtime::memory_limit())?;
    dict.set_item("seed", seed)?;
    Ok(dict)
}
