//! The command line, as Python installs it.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs a command line without the interpreter. Signals are looked at ten times a second: Ctrl-C ends the command in
/// order, so that no half file is left, with exit code 130; what another handler raises comes out.
#[pyfunction]
pub fn cli(py: Python<'_>, argv: Vec<OsString>) -> PyResult<u8> {
    let mut raised = None;
    let code = py.detach(|| {
        feedline_cli::run(argv, &mut || match Python::try_attach(|py| py.check_signals()) {
            Some(Err(error)) => {
                raised = Some(error);
                true
            }
            _ => false,
        })
    });
    match raised {
        Some(error) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        _ => Ok(code),
    }
}
