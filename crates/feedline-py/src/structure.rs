//! Structures and specs across the border: nested tuples, dicts, NamedTuples and dataclasses around leaves.

use crate::error::{IntoPy, type_error};
use feedline::element::{DType, Dims, Leaf, Spec, Tree};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyMapping, PyTuple, PyType};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What a Python object is to a structure.
pub enum Shape<'py> {
    Leaf,
    Tuple { tag: Option<Arc<str>>, items: Vec<Bound<'py, PyAny>> },
    Map { tag: Option<Arc<str>>, items: Vec<(Arc<str>, Bound<'py, PyAny>)> },
}

/// Looks at one level. A list is structure only where `lists` says so.
pub fn look<'py>(obj: &Bound<'py, PyAny>, lists: bool) -> PyResult<Shape<'py>> {
    if let Ok(tuple) = obj.cast::<PyTuple>() {
        let tag = if tuple.get_type().is(obj.py().get_type::<PyTuple>()) { None } else { Some(tag_of(obj)?) };
        return Ok(Shape::Tuple { tag, items: tuple.iter().collect() });
    }
    if lists && let Ok(list) = obj.cast::<PyList>() {
        return Ok(Shape::Tuple { tag: None, items: list.iter().collect() });
    }
    if let Ok(dict) = obj.cast::<PyDict>() {
        let items = dict.iter().map(|(k, v)| Ok((key(&k)?, v))).collect::<PyResult<_>>()?;
        return Ok(Shape::Map { tag: None, items });
    }
    if obj.cast::<PyMapping>().is_ok() {
        let keys = obj.call_method0("keys")?;
        let items = keys
            .try_iter()?
            .map(|k| {
                let k = k?;
                Ok((key(&k)?, obj.get_item(&k)?))
            })
            .collect::<PyResult<_>>()?;
        return Ok(Shape::Map { tag: None, items });
    }
    if obj.cast::<PyType>().is_err()
        && let Ok(fields) = obj.getattr("__dataclass_fields__")
    {
        let names = fields.cast::<PyDict>()?.keys();
        let items = names
            .iter()
            .map(|k| {
                let k = key(&k)?;
                let v = obj.getattr(&*k)?;
                Ok((k, v))
            })
            .collect::<PyResult<_>>()?;
        return Ok(Shape::Map { tag: Some(tag_of(obj)?), items });
    }
    Ok(Shape::Leaf)
}

fn key(k: &Bound<'_, PyAny>) -> PyResult<Arc<str>> {
    k.extract::<String>()
        .map(Into::into)
        .map_err(|_| type_error(format!("the keys of a mapping in an element must be strings, not {k}")))
}

/// Builds a tree with what `leaf` makes of each leaf.
pub fn tree<'py, L>(
    obj: &Bound<'py, PyAny>,
    lists: bool,
    leaf: &mut impl FnMut(&Bound<'py, PyAny>) -> PyResult<L>,
) -> PyResult<Tree<L>> {
    Ok(match look(obj, lists)? {
        Shape::Leaf => Tree::Leaf(leaf(obj)?),
        Shape::Tuple { tag, items } => {
            Tree::Tuple { tag, items: items.iter().map(|i| tree(i, lists, leaf)).collect::<PyResult<_>>()? }
        }
        Shape::Map { tag, items } => Tree::Map {
            tag,
            items: items.iter().map(|(k, i)| Ok((k.clone(), tree(i, lists, leaf)?))).collect::<PyResult<_>>()?,
        },
    })
}

/// The Python object for a tree, leaf by leaf from left to right.
pub fn build<'py, L>(
    py: Python<'py>,
    tree: &Tree<L>,
    leaf: &mut impl FnMut(&L) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match tree {
        Tree::Leaf(l) => leaf(l),
        Tree::Tuple { tag, items } => {
            let items = items.iter().map(|i| build(py, i, leaf)).collect::<PyResult<Vec<_>>>()?;
            let tuple = PyTuple::new(py, items)?;
            match tag {
                None => Ok(tuple.into_any()),
                Some(tag) => class_of(py, tag)?.call1(tuple),
            }
        }
        Tree::Map { tag, items } => {
            let dict = PyDict::new(py);
            for (k, i) in items {
                dict.set_item(&**k, build(py, i, leaf)?)?;
            }
            match tag {
                None => Ok(dict.into_any()),
                Some(tag) => class_of(py, tag)?.call((), Some(&dict)),
            }
        }
    }
}

static CLASSES: Mutex<Option<HashMap<Arc<str>, Py<PyAny>>>> = Mutex::new(None);

fn tag_of(obj: &Bound<'_, PyAny>) -> PyResult<Arc<str>> {
    let class = obj.get_type();
    let tag: Arc<str> =
        format!("{}:{}", class.getattr("__module__")?.extract::<String>()?, class.qualname()?.extract::<String>()?)
            .into();
    let mut classes = CLASSES.lock().unwrap_or_else(|e| e.into_inner());
    classes.get_or_insert_default().insert(tag.clone(), class.into_any().unbind());
    Ok(tag)
}

#[pyfunction]
pub fn register_class(tag: String, cls: Py<PyAny>) {
    let mut classes = CLASSES.lock().unwrap_or_else(|e| e.into_inner());
    classes.get_or_insert_default().insert(tag.into(), cls);
}

/// The class that a tag names: one seen here before, else imported.
fn class_of<'py>(py: Python<'py>, tag: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Some(class) = CLASSES.lock().unwrap_or_else(|e| e.into_inner()).as_ref().and_then(|c| c.get(tag)) {
        return Ok(class.bind(py).clone());
    }
    let (module, name) = tag.split_once(':').ok_or_else(|| type_error(format!("{tag:?} names no class")))?;
    let mut found = py.import(module)?.into_any();
    for part in name.split('.') {
        found = found.getattr(part)?;
    }
    Ok(found)
}

/// The classes of `feedline.spec`.
pub struct SpecClasses {
    pub tensor: Py<PyAny>,
    pub ragged: Py<PyAny>,
    pub sparse: Py<PyAny>,
    pub none: Py<PyAny>,
    pub dataset: Py<PyAny>,
}

static SPEC_CLASSES: PyOnceLock<SpecClasses> = PyOnceLock::new();

fn spec_classes(py: Python<'_>) -> PyResult<&SpecClasses> {
    SPEC_CLASSES.get_or_try_init(py, || {
        let m = py.import("feedline.spec")?;
        let class = |name: &str| Ok::<_, PyErr>(m.getattr(name)?.unbind());
        Ok(SpecClasses {
            tensor: class("TensorSpec")?,
            ragged: class("RaggedTensorSpec")?,
            sparse: class("SparseTensorSpec")?,
            none: class("NoneSpec")?,
            dataset: class("DatasetSpec")?,
        })
    })
}

fn dims_to_py<'py>(py: Python<'py>, dims: &Dims) -> PyResult<Bound<'py, PyAny>> {
    match dims.dims() {
        None => Ok(py.None().into_bound(py)),
        Some(d) => Ok(PyTuple::new(py, d)?.into_any()),
    }
}

pub fn dims_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Dims> {
    Ok(Dims(obj.extract::<Option<Vec<Option<usize>>>>()?))
}

pub fn leaf_to_py<'py>(py: Python<'py>, leaf: &Leaf) -> PyResult<Bound<'py, PyAny>> {
    let c = spec_classes(py)?;
    match leaf {
        Leaf::Tensor { dtype, shape } => c.tensor.bind(py).call1((dims_to_py(py, shape)?, dtype.name())),
        Leaf::Ragged { dtype, shape, ragged_rank, splits } => {
            c.ragged.bind(py).call1((dims_to_py(py, shape)?, dtype.name(), *ragged_rank, splits.name()))
        }
        Leaf::Sparse { dtype, shape } => c.sparse.bind(py).call1((dims_to_py(py, shape)?, dtype.name())),
        Leaf::Absent => c.none.bind(py).call0(),
        Leaf::Dataset(spec) => c.dataset.bind(py).call1((spec_to_py(py, spec)?,)),
    }
}

pub fn leaf_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Leaf> {
    let py = obj.py();
    let c = spec_classes(py)?;
    let dtype = |name: &str| -> PyResult<DType> {
        DType::parse(&obj.getattr(name)?.getattr("name")?.extract::<String>()?).py()
    };
    if obj.is_none() || obj.is_instance(c.none.bind(py))? {
        return Ok(Leaf::Absent);
    }
    if obj.is_instance(c.tensor.bind(py))? {
        return Ok(Leaf::Tensor { dtype: dtype("dtype")?, shape: dims_from_py(&obj.getattr("shape")?)? });
    }
    if obj.is_instance(c.ragged.bind(py))? {
        return Ok(Leaf::Ragged {
            dtype: dtype("dtype")?,
            shape: dims_from_py(&obj.getattr("shape")?)?,
            ragged_rank: obj.getattr("ragged_rank")?.extract()?,
            splits: dtype("row_splits_dtype")?,
        });
    }
    if obj.is_instance(c.sparse.bind(py))? {
        return Ok(Leaf::Sparse { dtype: dtype("dtype")?, shape: dims_from_py(&obj.getattr("shape")?)? });
    }
    if obj.is_instance(c.dataset.bind(py))? {
        return Ok(Leaf::Dataset(Arc::new(spec_from_py(&obj.getattr("element_spec")?)?)));
    }
    Err(type_error(format!(
        "a spec is a structure of TensorSpec, RaggedTensorSpec, SparseTensorSpec, NoneSpec or DatasetSpec; {} is none",
        obj.repr()?
    )))
}

pub fn spec_to_py<'py>(py: Python<'py>, spec: &Spec) -> PyResult<Bound<'py, PyAny>> {
    build(py, spec, &mut |leaf| leaf_to_py(py, leaf))
}

pub fn spec_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Spec> {
    tree(obj, true, &mut leaf_from_py)
}
