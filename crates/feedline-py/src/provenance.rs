//! Where rows came from, and what operators made of them.

use crate::apart::look_for_signals;
use crate::error::IntoPy;
use crate::plan::{PyPlan, state_from_py};
use crate::values::element_to_py;
use feedline::element::Origin;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Finds a row of the last pass, or of the one that a state is of, as a dict.
#[pyfunction]
#[pyo3(signature = (plan, step, row=None, state=None))]
pub fn locate<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyPlan>,
    step: u64,
    row: Option<u64>,
    state: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let bound = plan.get().0.clone();
    let state = state.map(state_from_py).transpose()?;
    let found = py.detach(|| {
        let start = feedline::start_of(&bound, state)?;
        feedline::locate(&bound, None, &start, step, row, &mut look_for_signals)
    });
    let found = found.py()?;
    let dict = PyDict::new(py);
    dict.set_item("step", found.step)?;
    dict.set_item("row", found.row)?;
    dict.set_item("epoch", found.epoch)?;
    dict.set_item("origins", found.origins.iter().map(|o| origin(py, o)).collect::<PyResult<Vec<_>>>()?)?;
    let draws = PyList::empty(py);
    for draw in &found.draws {
        let one = PyDict::new(py);
        one.set_item("operator", draw.op)?;
        one.set_item("function", draw.function)?;
        one.set_item("seed", draw.seed)?;
        one.set_item("use", draw.call)?;
        one.set_item("epoch", draw.epoch)?;
        one.set_item("position", draw.position)?;
        draws.append(one)?;
    }
    dict.set_item("draws", draws)?;
    let stages = PyList::empty(py);
    for seen in found.stages {
        let value = element_to_py(py, &seen.spec, seen.value)?;
        stages.append((seen.op, seen.params, seen.position, value))?;
    }
    dict.set_item("stages", stages)?;
    Ok(dict)
}

fn origin<'py>(py: Python<'py>, origin: &Origin) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match origin {
        Origin::Row { source, position, record, byte } => {
            dict.set_item("operator", source.op)?;
            dict.set_item("position", position)?;
            dict.set_item("epoch", source.epoch)?;
            dict.set_item("file", source.file.as_deref())?;
            dict.set_item("record", record)?;
            dict.set_item("byte", byte)?;
        }
        Origin::Lost(op) => {
            dict.set_item("operator", op)?;
            dict.set_item("position", py.None())?;
            dict.set_item("epoch", 0)?;
        }
        // `Origin::rows` takes these apart.
        Origin::Rows(_) => {}
    }
    Ok(dict)
}
