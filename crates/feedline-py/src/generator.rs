//! Python generators as sources.

use crate::error::{raised, type_error};
use crate::host::{attach, attach_counted};
use crate::lent;
use crate::plan::{json_from_py, json_to_py};
use crate::values::convert;
use feedline::element::{Element, Spec};
use feedline::ops::from_generator::{Cursor, Generator};
use feedline::{Error, Result};
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

/// A callable that gives a new iterator for every pass.
pub struct PyGenerator {
    pub callable: Py<PyAny>,
    pub spec: Spec,
    /// From the number of values that were given to an iterator over the others.
    pub resume: Option<Py<PyAny>>,
}

impl PyGenerator {
    fn cursor(&self, of: &Bound<'_, PyAny>, given: u64) -> PyResult<PyCursor> {
        let iterator = of.try_iter()?.into_any();
        let tells = [&iterator, of].into_iter().find(|o| has_state(o)).map(|o| o.clone().unbind());
        let resumes = self.resume.is_some();
        Ok(PyCursor { iterator: Some(iterator.unbind()), spec: self.spec.clone(), tells, resumes, given })
    }
    fn over(&self) -> PyCursor {
        PyCursor { iterator: None, spec: self.spec.clone(), tells: None, resumes: false, given: 0 }
    }
}

/// Whether it can tell where it is, and be sent there.
fn has_state(object: &Bound<'_, PyAny>) -> bool {
    ["state_dict", "load_state_dict"].iter().all(|name| object.hasattr(*name).unwrap_or(false))
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
    fn identity(&self) -> Option<Vec<u8>> {
        crate::host::identity_of(&self.callable)
    }
    fn code(&self) -> Option<String> {
        crate::host::code_of(&self.callable)
    }
    fn name(&self) -> Option<String> {
        // `args=` makes a partial of it, which has no name of its own.
        let inner = attach(|py| {
            let callable = self.callable.bind(py);
            let is_partial = callable.is_instance(&py.import("functools")?.getattr("partial")?)?;
            if is_partial { callable.getattr("func").map(Bound::unbind) } else { Ok(self.callable.clone_ref(py)) }
        });
        inner.and_then(|inner: PyResult<_>| inner.ok()).map(|inner| crate::host::name_of(&inner))
    }
    fn open(&self) -> Result<Box<dyn Cursor>> {
        attach(|py| {
            let of = self.callable.bind(py).call0()?;
            Ok(Box::new(self.cursor(&of, 0)?) as _)
        })
        .unwrap_or_else(|| Ok(Box::new(self.over()) as _))
        .map_err(raised)
    }
    fn open_at(&self, given: u64, state: &Json) -> Result<Box<dyn Cursor>> {
        if state.get("over").is_some() {
            return Ok(Box::new(self.over()));
        }
        attach(|py| {
            let of = match (state.get("state"), &self.resume) {
                (Some(state), _) => {
                    let of = self.callable.bind(py).call0()?;
                    // The object that was returned, or the iterator over it.
                    let told = if has_state(&of) { of } else { of.try_iter()?.into_any() };
                    told.call_method1("load_state_dict", (json_to_py(py, state)?,))?;
                    told
                }
                (None, Some(resume)) => resume.bind(py).call1((given,))?,
                (None, None) => return Err(type_error("from_generator: the state was taken with resume=")),
            };
            Ok(Box::new(self.cursor(&of, given)?) as _)
        })
        .unwrap_or_else(|| Ok(Box::new(self.over()) as _))
        .map_err(raised)
    }
}

struct PyCursor {
    /// `None` after the end or an exception.
    iterator: Option<Py<PyAny>>,
    spec: Spec,
    /// What tells where it is, if anything does.
    tells: Option<Py<PyAny>>,
    /// Or the number of values that were given says it.
    resumes: bool,
    given: u64,
}

impl Cursor for PyCursor {
    fn scoped(&mut self, body: &mut dyn FnMut(&mut dyn Cursor)) {
        if attach_counted(|_| body(self)).is_none() {
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
            self.given += 1;
            // A value that does not fit costs its element; the generator goes on.
            let mut out = Element::new();
            convert(&value, &self.spec, &mut out)
                .map_err(|e| Error::data(format!("the generator gave a value that cannot be used: {}", e.value(py))))?;
            drop(value);
            lent::taken_over(py, out).map(Some).map_err(raised)
        })
        .unwrap_or(Ok(None))
    }
    fn save(&mut self) -> Result<Option<Json>> {
        if self.iterator.is_none() {
            return Ok(Some(json!({ "over": true })));
        }
        let Some(tells) = &self.tells else {
            return Ok(self.resumes.then(|| json!({ "given": self.given })));
        };
        attach(|py| {
            let state = tells.bind(py).call_method0("state_dict")?;
            Ok(Some(json!({ "state": json_from_py(&state, &mut |_| Ok(None))? })))
        })
        .unwrap_or(Ok(None))
        .map_err(raised)
    }
}
