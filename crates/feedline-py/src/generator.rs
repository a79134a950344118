//! Python generators as sources.

use crate::error::raised;
use crate::host::attach;
use crate::values::convert;
use feedline::element::{Element, Spec};
use feedline::ops::from_generator::{Cursor, Generator};
use feedline::{Error, Result};
use pyo3::prelude::*;

/// A callable that gives a new iterator for every pass.
pub struct PyGenerator {
    pub callable: Py<PyAny>,
    pub spec: Spec,
}

impl std::fmt::Debug for PyGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::host::name_of(&self.callable))
    }
}

impl Generator for PyGenerator {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn open(&self) -> Result<Box<dyn Cursor>> {
        attach(|py| {
            let iterator = self.callable.bind(py).call0()?.try_iter()?;
            Ok(Box::new(PyCursor { iterator: Some(iterator.into_any().unbind()), spec: self.spec.clone() }) as _)
        })
        .unwrap_or_else(|| Ok(Box::new(PyCursor { iterator: None, spec: self.spec.clone() }) as _))
        .map_err(raised)
    }
}

struct PyCursor {
    /// `None` after the end or an exception.
    iterator: Option<Py<PyAny>>,
    spec: Spec,
}

impl Cursor for PyCursor {
    fn scoped(&mut self, body: &mut dyn FnMut(&mut dyn Cursor)) {
        if attach(|_| body(self)).is_none() {
            body(self);
        }
    }
    fn next(&mut self) -> Result<Option<Element>> {
        attach(|py| {
            let Some(iterator) = &self.iterator else { return Ok(None) };
            let value = match iterator.bind(py).call_method0("__next__") {
                Ok(value) => value,
                Err(e) => {
                    self.iterator = None;
                    return if e.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) {
                        Ok(None)
                    } else {
                        Err(raised(e))
                    };
                }
            };
            // A value that does not fit costs its element; the generator goes on.
            let mut out = Element::new();
            convert(&value, &self.spec, &mut out)
                .map_err(|e| Error::data(format!("the generator gave a value that cannot be used: {}", e.value(py))))?;
            Ok(Some(out))
        })
        .unwrap_or(Ok(None))
    }
}
