//! A process that calls a Python function for others: what `feedline._worker` runs.

use crate::host::PyFunc;
use crate::structure::spec_from_py;
use feedline::runtime::be_nice;
use feedline_workers::{Told, Worker, follow_parent};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;

/// Gets a function through the socket, and calls it for all rows that come. Returns when nobody sends any more.
///
/// `load` makes the function of what was sent, with the specs of its argument and result, and with what is called before
/// each call with a seed. `describe` puts an exception into words and bytes.
#[pyfunction]
pub fn serve(
    py: Python<'_>,
    socket: i32,
    parent: u32,
    load: &Bound<'_, PyAny>,
    describe: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if !follow_parent(parent) {
        return Ok(());
    }
    be_nice(parent);
    // SAFETY: the descriptor was made for this, and nobody else uses it.
    let mut worker = Worker::new(unsafe { UnixStream::from_raw_fd(socket) })?;
    let Some((setup, number)) = py.detach(|| worker.setup())? else { return Ok(()) };
    let loaded = load.call1((PyBytes::new(py, &setup), number)).and_then(|made| {
        let (func, input, output, unpack, begin): (Py<PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>, bool, Py<PyAny>) =
            made.extract()?;
        Ok((PyFunc::new(func, spec_from_py(&input)?, unpack, spec_from_py(&output)?), begin))
    });
    drop(setup);
    let (function, begin) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Ok(worker.refuse(&told(describe, error)?)?),
    };
    let describe = describe.clone().unbind();
    let mut failed = None;
    let served = py.detach(|| {
        worker.serve(&mut |args, seed| {
            Python::attach(|py| {
                let called = begin.bind(py).call1((seed,)).and_then(|_| function.try_call(py, args));
                called.map_err(|error| {
                    told(describe.bind(py), error).unwrap_or_else(|error| {
                        let message = error.to_string();
                        failed = Some(error);
                        Told { message, exception: vec![], trace: String::new() }
                    })
                })
            })
        })
    });
    failed.map_or(Ok(()), Err)?;
    Ok(served?)
}

fn told(describe: &Bound<'_, PyAny>, error: PyErr) -> PyResult<Told> {
    // With the traceback, which the value alone may not have yet.
    let (message, exception, trace) = describe.call1((error.into_value(describe.py()),))?.extract()?;
    Ok(Told { message, exception, trace })
}
