//! Examples between Python's lists and their bytes. A feature is a pair: the number of its field (0 if none is set) and the
//! list of its values.

use crate::error::{to_py, value_error};
use feedline_formats::example::{Entries, Feature, Stored};
use feedline_formats::example_writer::{Values, put_example, put_sequence_example};
use feedline_formats::sequence_example::Lists;
use feedline_formats::wire::Malformed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// A feature that Python gave, with its values where Rust can see them.
enum Given<'py> {
    Unset,
    Bytes(Vec<Bound<'py, PyBytes>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

impl<'py> Given<'py> {
    fn new(feature: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        let (kind, values): (u8, Bound<'py, PyAny>) = feature.extract()?;
        Ok(match kind {
            0 => Given::Unset,
            1 => Given::Bytes(values.extract()?),
            2 => Given::Floats(values.extract()?),
            3 => Given::Ints(values.extract()?),
            _ => return Err(PyTypeError::new_err("a feature holds bytes, floats or integers")),
        })
    }
    fn strings(&self) -> Vec<&[u8]> {
        match self {
            Given::Bytes(list) => list.iter().map(|b| b.as_bytes()).collect(),
            _ => vec![],
        }
    }
    fn values<'a>(&'a self, strings: &'a [&'a [u8]]) -> Values<'a> {
        match self {
            Given::Unset => Values::Unset,
            Given::Bytes(_) => Values::Bytes(strings),
            Given::Floats(floats) => Values::Floats(floats),
            Given::Ints(ints) => Values::Ints(ints),
        }
    }
}

/// A map of features that Python gave.
struct GivenMap<'py> {
    names: Vec<String>,
    features: Vec<Given<'py>>,
}

impl<'py> GivenMap<'py> {
    fn new(map: &Bound<'py, PyDict>) -> PyResult<GivenMap<'py>> {
        let names = map.keys().iter().map(|name| name.extract()).collect::<PyResult<_>>()?;
        let features = map.values().iter().map(|feature| Given::new(&feature)).collect::<PyResult<_>>()?;
        Ok(GivenMap { names, features })
    }
    fn with<R>(&self, f: impl FnOnce(&[(&[u8], Values<'_>)]) -> R) -> R {
        let strings: Vec<Vec<&[u8]>> = self.features.iter().map(|given| given.strings()).collect();
        let values = self.features.iter().zip(&strings).map(|(given, strings)| given.values(strings));
        let features: Vec<(&[u8], Values<'_>)> = self.names.iter().map(|n| n.as_bytes()).zip(values).collect();
        f(&features)
    }
}

#[pyfunction]
#[pyo3(signature = (features=None))]
pub fn write_example<'py>(py: Python<'py>, features: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    if let Some(map) = features {
        GivenMap::new(map)?.with(|features| put_example(&mut out, Some(features)));
    }
    Ok(PyBytes::new(py, &out))
}

#[pyfunction]
#[pyo3(signature = (context=None, lists=None))]
pub fn write_sequence_example<'py>(
    py: Python<'py>,
    context: Option<&Bound<'py, PyDict>>,
    lists: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    if let Some(map) = context {
        GivenMap::new(map)?.with(|features| put_sequence_example(&mut out, Some(features), None));
    }
    if let Some(map) = lists {
        let names = map.keys().iter().map(|name| name.extract()).collect::<PyResult<Vec<String>>>()?;
        let steps = map.values().iter().map(|steps| {
            let steps: Vec<Bound<'py, PyAny>> = steps.extract()?;
            steps.iter().map(Given::new).collect()
        });
        let steps = steps.collect::<PyResult<Vec<Vec<Given<'py>>>>>()?;
        let strings: Vec<Vec<Vec<&[u8]>>> =
            steps.iter().map(|steps| steps.iter().map(|given| given.strings()).collect()).collect();
        let values: Vec<Vec<Values<'_>>> = steps
            .iter()
            .zip(&strings)
            .map(|(steps, strings)| steps.iter().zip(strings).map(|(given, strings)| given.values(strings)).collect())
            .collect();
        let lists: Vec<(&[u8], &[Values<'_>])> =
            names.iter().zip(&values).map(|(name, values)| (name.as_bytes(), &values[..])).collect();
        put_sequence_example(&mut out, None, Some(&lists));
    }
    Ok(PyBytes::new(py, &out))
}

/// A feature of a record, as a pair.
fn shown<'py>(
    py: Python<'py>,
    feature: Feature<'_>,
    broken: &dyn Fn(Malformed) -> PyErr,
) -> PyResult<(u8, Bound<'py, PyList>)> {
    Ok(match feature.stored {
        None => (0, PyList::empty(py)),
        Some(Stored::Bytes) => {
            let mut strings = Vec::new();
            feature.each_bytes(|bytes| strings.push(PyBytes::new(py, bytes))).map_err(broken)?;
            (1, PyList::new(py, strings)?)
        }
        Some(Stored::Floats) => {
            let mut floats = Vec::new();
            feature.floats_onto(&mut floats).map_err(broken)?;
            (2, PyList::new(py, floats)?)
        }
        Some(Stored::Ints) => {
            let mut ints = Vec::new();
            feature.ints_onto(&mut ints).map_err(broken)?;
            (3, PyList::new(py, ints)?)
        }
    })
}

fn name(key: &[u8]) -> PyResult<&str> {
    std::str::from_utf8(key).map_err(|_| value_error(format!("the name of a feature is no UTF-8: {key:?}")))
}

fn features<'py>(py: Python<'py>, record: &[u8], broken: &dyn Fn(Malformed) -> PyErr) -> PyResult<Bound<'py, PyDict>> {
    let map = PyDict::new(py);
    for entry in Entries::new(record) {
        let (key, feature) = entry.map_err(broken)?;
        map.set_item(name(key)?, shown(py, feature, broken)?)?;
    }
    Ok(map)
}

#[pyfunction]
pub fn read_example<'py>(py: Python<'py>, record: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    features(py, record, &|e| to_py(&e.within(record, "Example")))
}

#[pyfunction]
pub fn read_sequence_example<'py>(
    py: Python<'py>,
    record: &[u8],
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let broken = |e: Malformed| to_py(&e.within(record, "SequenceExample"));
    let context = features(py, record, &broken)?;
    let lists = PyDict::new(py);
    for entry in Lists::new(record) {
        let (key, list) = entry.map_err(broken)?;
        let steps = list.steps().map(|step| shown(py, step.map_err(broken)?, &broken));
        lists.set_item(name(key)?, steps.collect::<PyResult<Vec<_>>>()?)?;
    }
    Ok((context, lists))
}
