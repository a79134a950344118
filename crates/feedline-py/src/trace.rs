//! Functions being traced, and functions run at once on real values.

use crate::error::{IntoPy, value_error};
use crate::host::PyFunc;
use crate::plan::{PyPlan, json_from_py};
use crate::structure::{self, leaf_from_py, leaf_to_py, spec_from_py, spec_to_py};
use crate::values::{convert_tensor, value_from_py, value_to_py};
use feedline::element::{DType, Leaf, Spec, Tree, Value};
use feedline::expr::{Attrs, Builder, Graph, NodeId, RowAt};
use feedline::plan::Bound as BoundPlan;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

#[pyclass(frozen, module = "feedline._native")]
pub struct Function(pub Arc<Graph>);

#[pymethods]
impl Function {
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        spec_to_py(py, &self.0.spec)
    }
    #[getter]
    fn is_pure(&self) -> bool {
        self.0.is_pure()
    }
    #[getter]
    fn is_python(&self) -> bool {
        self.0.host_fn().is_some()
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

#[pyclass(frozen, module = "feedline._native")]
pub struct Trace(Mutex<Option<Builder>>);

impl Trace {
    fn with<R>(&self, f: impl FnOnce(&mut Builder) -> PyResult<R>) -> PyResult<R> {
        let mut builder = self.0.lock().unwrap_or_else(|e| e.into_inner());
        match builder.as_mut() {
            Some(b) => f(b),
            None => Err(value_error("a symbolic value was used after the function that it belongs to was traced")),
        }
    }
}

fn attrs_from_py(attrs: &Bound<'_, PyAny>) -> PyResult<Attrs> {
    match json_from_py(attrs, &mut |_| Ok(None))? {
        serde_json::Value::Object(map) => Ok(Attrs(map)),
        _ => Err(value_error("the attributes of a call are a dict")),
    }
}

#[pymethods]
impl Trace {
    #[new]
    fn new(spec: &Bound<'_, PyAny>) -> PyResult<Trace> {
        Ok(Trace(Mutex::new(Some(Builder::new(&spec_from_py(spec)?)))))
    }
    #[getter]
    fn leaf_count(&self) -> PyResult<usize> {
        self.with(|b| Ok(b.input_count()))
    }
    fn leaf<'py>(&self, py: Python<'py>, node: NodeId) -> PyResult<Bound<'py, PyAny>> {
        let leaf = self.with(|b| Ok(b.leaf(node).clone()))?;
        leaf_to_py(py, &leaf)
    }
    fn constant_value<'py>(&self, py: Python<'py>, node: NodeId) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.with(|b| Ok(b.constant_value(node).cloned()))?;
        value.map(|v| value_to_py(py, v)).transpose()
    }
    #[pyo3(signature = (value, dtype=None))]
    fn r#const(&self, value: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<NodeId> {
        let value = match dtype {
            Some(dtype) => Value::Tensor(convert_tensor(value, DType::parse(dtype).py()?)?),
            None => value_from_py(value)?,
        };
        self.with(|b| b.constant(value).py())
    }
    fn call(&self, name: &str, args: Vec<NodeId>, attrs: &Bound<'_, PyAny>) -> PyResult<NodeId> {
        let attrs = attrs_from_py(attrs)?;
        self.with(|b| b.call(name, &args, attrs).py())
    }
    fn call_parts(&self, name: &str, args: Vec<NodeId>, attrs: &Bound<'_, PyAny>) -> PyResult<Vec<NodeId>> {
        let attrs = attrs_from_py(attrs)?;
        self.with(|b| b.call_parts(name, &args, attrs).py())
    }
    #[pyo3(signature = (func, args, outputs, structure=None))]
    fn host(
        &self,
        func: Py<PyAny>,
        args: Vec<NodeId>,
        outputs: Vec<Bound<'_, PyAny>>,
        structure: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<NodeId>> {
        let leaves = outputs.iter().map(leaf_from_py).collect::<PyResult<Vec<_>>>()?;
        let output = match (structure, leaves.as_slice()) {
            (Some(spec), _) => spec_from_py(spec)?,
            (None, [one]) => Spec::leaf(one.clone()),
            (None, many) => Spec::tuple(many.iter().cloned().map(Spec::leaf).collect()),
        };
        self.with(|b| {
            let input = Spec::tuple(args.iter().map(|&a| Spec::leaf(b.leaf(a).clone())).collect());
            Ok(b.host(Arc::new(PyFunc::new(func, input, true, output)), args, leaves))
        })
    }
    fn export(&self, node: NodeId) -> PyResult<usize> {
        self.with(|b| Ok(b.export(node)))
    }
    fn capture(&self, export: usize, spec: &Bound<'_, PyAny>) -> PyResult<NodeId> {
        let leaf = leaf_from_py(spec)?;
        self.with(|b| Ok(b.capture(export, leaf)))
    }
    fn dataset(&self, plan: &Bound<'_, PyPlan>) -> PyResult<NodeId> {
        let plan = plan.get().0.plan.clone();
        let spec = plan.spec.clone();
        self.with(|b| Ok(b.dataset(BoundPlan::nested(plan), spec)))
    }
    fn cond(&self, pred: NodeId, then: &Function, otherwise: &Function) -> PyResult<Vec<NodeId>> {
        self.with(|b| b.cond(pred, (*then.0).clone(), (*otherwise.0).clone()).py())
    }
    fn finish(&self, outputs: &Bound<'_, PyAny>) -> PyResult<Function> {
        let tree: Tree<NodeId> = structure::tree(outputs, true, &mut |n| n.extract())?;
        let builder = self.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        let builder = builder.ok_or_else(|| value_error("this function is traced already"))?;
        Ok(Function(Arc::new(builder.finish(&tree))))
    }
}

#[pyfunction]
#[pyo3(signature = (spec, func, output_spec, unpack=true))]
pub fn host_function(
    spec: &Bound<'_, PyAny>,
    func: Py<PyAny>,
    output_spec: &Bound<'_, PyAny>,
    unpack: bool,
) -> PyResult<Function> {
    let input = spec_from_py(spec)?;
    let output = spec_from_py(output_spec)?;
    let host = PyFunc::new(func, input.clone(), unpack, output.clone());
    Ok(Function(Arc::new(Graph::host(&input, Arc::new(host), output))))
}

#[pyfunction]
pub fn call<'py>(
    py: Python<'py>,
    name: &str,
    args: Vec<Bound<'py, PyAny>>,
    attrs: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut results = call_parts(py, name, args, attrs)?;
    match results.pop() {
        Some(one) if results.is_empty() => Ok(one),
        _ => Err(value_error(format!("{name} has several results; take its parts"))),
    }
}

#[pyfunction]
pub fn call_parts<'py>(
    py: Python<'py>,
    name: &str,
    args: Vec<Bound<'py, PyAny>>,
    attrs: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let attrs = attrs_from_py(attrs)?;
    let func = feedline::expr::funcs::find(name).py()?;
    let values = args.iter().map(value_from_py).collect::<PyResult<Vec<_>>>()?;
    let leaves = values
        .iter()
        .map(|v| Leaf::of(v).ok_or_else(|| value_error("a dataset is no argument here")))
        .collect::<PyResult<Vec<_>>>()?;
    let made = (func.make)(&leaves, &attrs).map_err(|e| e.in_op(name)).py()?;
    let results = made.work.row(&values, RowAt { epoch: 0, pos: 0 }).map_err(|e| e.in_op(name)).py()?;
    results.into_iter().map(|value| value_to_py(py, value)).collect()
}
