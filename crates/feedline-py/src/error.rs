//! Errors across the border: ours become Python exceptions by kind; the user's own come back as they were raised.

use feedline::{At, Error, Kind};
use feedline_workers::Told;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use std::fmt;
use std::sync::Arc;

/// The user's own exception, travelling as the cause of an error of ours.
pub struct Raised(pub PyErr);

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for Raised {}

/// An exception of the user's function as an error in the place of its element.
pub fn raised(err: PyErr) -> Error {
    Error::func(err.to_string()).with_source(Arc::new(Raised(err)))
}

/// What a signal handler raised (KeyboardInterrupt) while we waited.
pub fn interrupted(err: PyErr) -> Error {
    Error::cancelled().with_source(Arc::new(Raised(err)))
}

static BY_KIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An error as a Python exception.
pub fn to_py(error: &Error) -> PyErr {
    Python::attach(|py| {
        if let Some(own) = users_own(py, error) {
            // An exception of that type would end a `for` loop as if the data were over.
            if own.is_instance_of::<PyStopIteration>(py) {
                let new = PyRuntimeError::new_err(format!("the function raised StopIteration ({})", place(error)));
                new.set_cause(py, Some(own));
                return new;
            }
            if error.kind() == Kind::Cancelled {
                return own;
            }
            // Python 3.11 and later show notes under the traceback.
            let _ = own.value(py).call_method1("add_note", (format!("feedline: raised in {}", place(error)),));
            return own;
        }
        let text = error.to_string();
        match error.kind() {
            Kind::Usage => PyValueError::new_err(text),
            Kind::Io => by_kind(py, io_kind(error), text, error.at()).unwrap_or_else(|e| e),
            kind => by_kind(py, kind.name(), text, error.at()).unwrap_or_else(|e| e),
        }
    })
}

/// The exception that the user's function raised, here or in another process.
fn users_own(py: Python<'_>, error: &Error) -> Option<PyErr> {
    let cause = error.cause()?;
    if let Some(Raised(err)) = cause.downcast_ref::<Raised>() {
        return Some(err.clone_ref(py));
    }
    let told = cause.downcast_ref::<Told>()?;
    let (message, exception, trace) = (&told.message, PyBytes::new(py, &told.exception), &told.trace);
    let made = py.import("feedline.workers").and_then(|m| m.call_method1("raised", (message, exception, trace)));
    Some(made.map_or_else(|failed| failed, PyErr::from_value))
}

/// What went wrong with a file, as far as Python has a class for it.
fn io_kind(error: &Error) -> &'static str {
    use std::io::ErrorKind::*;
    match error.cause().and_then(|c| c.downcast_ref::<std::io::Error>()).map(|e| e.kind()) {
        Some(NotFound | NotADirectory) => "not_found",
        Some(PermissionDenied) => "permission",
        Some(AlreadyExists) => "exists",
        Some(TimedOut | ConnectionReset | ConnectionRefused | ConnectionAborted | BrokenPipe) => "unavailable",
        _ => Kind::Io.name(),
    }
}

fn place(error: &Error) -> String {
    let at = error.at();
    let op = at.op.as_deref().unwrap_or("a function");
    at.element.map_or_else(|| op.to_string(), |n| format!("{op}, element {n}"))
}

/// An exception of feedline's own, which also says where as attributes.
fn by_kind(py: Python<'_>, kind: &str, text: String, at: &At) -> PyResult<PyErr> {
    let find = BY_KIND
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("feedline.errors")?.getattr("by_kind")?.unbind()))?
        .bind(py);
    let made = find.call1((kind,))?.call1((text,))?;
    // What is not known is None in the class already.
    for (name, text) in [("operator", &at.op), ("file", &at.file)] {
        if let Some(text) = text {
            made.setattr(name, &**text)?;
        }
    }
    for (name, number) in [("byte", at.byte), ("record", at.record), ("element", at.element)] {
        if let Some(number) = number {
            made.setattr(name, number)?;
        }
    }
    Ok(PyErr::from_value(made))
}

pub trait IntoPy<T> {
    /// Our error as a Python exception.
    fn py(self) -> PyResult<T>;
}

impl<T> IntoPy<T> for feedline::Result<T> {
    fn py(self) -> PyResult<T> {
        self.map_err(|e| to_py(&e))
    }
}

pub fn type_error(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}
pub fn value_error(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
