//! Plans across the border: operators are made from their names and parameters as JSON, with everything that JSON
//! cannot hold put aside.

use crate::apart::{apart, look_for_signals, watched};
use crate::error::{IntoPy, type_error, value_error};
use crate::generator::PyGenerator;
use crate::host::PyFunc;
use crate::iterator::Iterator;
use crate::structure::{self, spec_from_py, spec_to_py};
use crate::trace::Function;
use crate::values::{Packed, element_to_py, value_from_py, value_to_py};
use feedline::Options;
use feedline::doctor::Diagnosis;
use feedline::element::{Attachments, Reader, Tensor, Tree, Value, with_attachments};
use feedline::expr::HostAttachment;
use feedline::ops::from_generator::GeneratorAttachment;
use feedline::plan::{Bound as BoundPlan, Format, Plan, ceiling_json};
use feedline::runtime::{State, process_pool};
use feedline::tune::{Change, Model};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Value as Json, json};
use std::any::Any;
use std::sync::Arc;

/// A plan and, for a dataset out of an element, the values that it refers to.
#[pyclass(frozen, name = "Plan", module = "feedline._native")]
pub struct PyPlan(pub BoundPlan);

impl PyPlan {
    fn new(plan: Plan) -> PyPlan {
        PyPlan(BoundPlan { plan, env: Arc::new([]) })
    }
}

#[pymethods]
impl PyPlan {
    #[getter]
    fn op(&self) -> &'static str {
        self.0.plan.name()
    }
    #[getter]
    fn params(&self) -> String {
        self.0.plan.op.show()
    }
    #[getter]
    fn inputs(&self) -> Vec<PyPlan> {
        let env = &self.0.env;
        self.0.plan.inputs.iter().map(|p| PyPlan(BoundPlan { plan: p.clone(), env: env.clone() })).collect()
    }
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        spec_to_py(py, &self.0.plan.spec)
    }
    #[getter]
    fn cardinality(&self) -> i64 {
        self.0.plan.card.as_i64()
    }
    #[getter]
    fn indexed(&self, py: Python<'_>) -> PyResult<bool> {
        // What only does not fit into memory is told to whoever asks for an element.
        watched(py, || match feedline::runtime::index_of(&self.0, 0, process_pool()) {
            Ok(_) => Ok(true),
            Err(error) => Ok(error.kind() == feedline::Kind::Budget),
        })
    }
    #[getter]
    fn symbolic(&self) -> bool {
        self.0.env.is_empty() && self.0.plan.is_symbolic()
    }
    #[pyo3(signature = (options=None, state=None, epoch=None))]
    fn iter(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
        state: Option<&Bound<'_, PyAny>>,
        epoch: Option<u64>,
    ) -> PyResult<Iterator> {
        let options: Option<Options> = match options {
            Some(options) if !options.is_empty() => {
                let json = json_from_py(options, &mut |_| Ok(None))?;
                Some(serde_json::from_value(json).map_err(|e| value_error(format!("iter: {e}")))?)
            }
            _ => None,
        };
        let state = state.map(state_from_py).transpose()?;
        let (bound, given) = (self.0.clone(), options.clone());
        let may_take_long = state.is_some() || reads(&self.0.plan);
        let start = move || match (&state, epoch) {
            (None, None) => feedline::iterate_with(&bound, given),
            (None, Some(epoch)) => feedline::iterate_epoch(&bound, given, epoch),
            (Some(state), _) => feedline::iterate_from(&bound, given, state),
        };
        let iter = if may_take_long { apart(py, start)? } else { watched(py, start)? };
        Ok(Iterator::new(iter, self.0.clone(), options))
    }
    fn at<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
        let chunk = watched(py, || {
            let all = feedline::runtime::index_of(&self.0, 0, process_pool())?;
            let row = u64::try_from(index).ok().filter(|i| *i < all.len()).ok_or_else(|| {
                feedline::Error::range(format!("element {index} was asked for; the dataset has {}", all.len()))
            })?;
            all.get(&[row])
        })?;
        element_to_py(py, &self.0.plan.spec, chunk.element(0))
    }
    #[pyo3(signature = (format="text"))]
    fn explain(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let format = Format::parse(format).py()?;
        // A plan is rewritten for it, and readers of fewer columns open their files.
        watched(py, || Ok(feedline::plan::explain(&self.0.plan, format)))
    }
    /// What is wrong with it: code, operator, sentence, fix.
    #[pyo3(signature = (fixed_shapes=false))]
    fn lint(&self, py: Python<'_>, fixed_shapes: bool) -> PyResult<Vec<(&'static str, String, String, String)>> {
        // Some look for an index, which is made for it.
        let found = watched(py, || Ok(feedline::lint::lint(&self.0.plan, fixed_shapes)))?;
        Ok(found.into_iter().map(|f| (f.code, f.at, f.text, f.fix)).collect())
    }
    /// The same when it is asked for the first time, and nothing after that.
    fn lint_once(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, String, String, String)>> {
        if self.0.plan.tell() { self.lint(py, false) } else { Ok(vec![]) }
    }
    /// What the last pass was like, as JSON; `None` if there was none.
    fn diagnosis(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| Diagnosis::of(&self.0.plan).map(|d| d.to_json().to_string()))
    }
    /// The same with the first element of an operator in place of all that it gives.
    fn replayed(&self, id: u64, times: i64, ends: bool) -> PyResult<PyPlan> {
        let dataset = feedline::Dataset::from_plan(self.0.plan.clone()).replayed(id, times, ends).py()?;
        Ok(PyPlan(BoundPlan { plan: dataset.plan().clone(), env: self.0.env.clone() }))
    }
    /// The same without an operator, if what goes in may come out in its place.
    fn without(&self, id: u64) -> PyResult<PyPlan> {
        let dataset = feedline::Dataset::from_plan(self.0.plan.clone()).without(id).py()?;
        Ok(PyPlan(BoundPlan { plan: dataset.plan().clone(), env: self.0.env.clone() }))
    }
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json_to_py(py, &serde_json::to_value(&self.0.plan.options).map_err(|e| value_error(e.to_string()))?)
    }
    fn written(&self) -> PyResult<String> {
        let (json, attachments) = feedline::plan::write_plan(&self.0.plan).py()?;
        if !attachments.is_empty() {
            return Err(value_error(
                "a plan with large arrays or Python functions cannot be written as text; pickle it",
            ));
        }
        Ok(json.to_string())
    }
    fn fingerprint(&self) -> PyResult<String> {
        self.0.plan.fingerprint().py()
    }
    fn pickled<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyList>)> {
        if !self.0.env.is_empty() {
            return Err(value_error("a dataset out of an element cannot be pickled"));
        }
        let (json, attachments) = feedline::plan::write_plan(&self.0.plan).py()?;
        let objects = attachments.into_iter().map(|a| attachment_to_py(py, a)).collect::<PyResult<Vec<_>>>()?;
        Ok((json.to_string(), PyList::new(py, objects)?))
    }
    fn __repr__(&self) -> String {
        format!("{:?}", self.0.plan)
    }
}

/// The ceiling of a model, as `diagnosis` gives it, with a change: both as JSON.
#[pyfunction]
pub fn what_if(model: &str, change: &str) -> PyResult<String> {
    let bad = |e: serde_json::Error| value_error(format!("what_if: {e}"));
    let model: Model = serde_json::from_str(model).map_err(bad)?;
    let change: Change = serde_json::from_str(change).map_err(bad)?;
    let mut json = ceiling_json(&model.changed(&change));
    json["gain"] = model.gain(&change).into();
    Ok(json.to_string())
}

#[pyfunction]
pub fn unpickled(py: Python<'_>, written: &str, attachments: Vec<Bound<'_, PyAny>>) -> PyResult<PyPlan> {
    let json: Json = serde_json::from_str(written).map_err(|e| value_error(e.to_string()))?;
    let attachments = attachments.iter().map(attachment_from_py).collect::<PyResult<Attachments>>()?;
    Ok(PyPlan::new(apart(py, move || feedline::plan::read_plan(&json, attachments))?))
}

#[pyfunction]
pub fn read_plan(py: Python<'_>, written: &str) -> PyResult<PyPlan> {
    unpickled(py, written, vec![])
}

/// `("array", ndarray)`, `("function", …)` or `("generator", …)`.
fn attachment_to_py(py: Python<'_>, object: Arc<dyn Any + Send + Sync>) -> PyResult<Bound<'_, PyAny>> {
    if let Some(tensor) = object.downcast_ref::<Tensor>() {
        return ("array", value_to_py(py, Value::Tensor(tensor.clone()))?).into_pyobject(py).map(|t| t.into_any());
    }
    if let Some(host) = object.downcast_ref::<HostAttachment>()
        && let Some(f) = (&*host.0 as &dyn Any).downcast_ref::<PyFunc>()
    {
        let specs = (spec_to_py(py, &f.input)?, spec_to_py(py, &f.output)?);
        return ("function", f.func.clone_ref(py), specs.0, specs.1, f.unpack).into_pyobject(py).map(|t| t.into_any());
    }
    if let Some(generator) = object.downcast_ref::<GeneratorAttachment>()
        && let Some(g) = (&*generator.0 as &dyn Any).downcast_ref::<PyGenerator>()
    {
        let resume = g.resume.as_ref().map(|f| f.clone_ref(py));
        return ("generator", g.callable.clone_ref(py), spec_to_py(py, &g.spec)?, resume)
            .into_pyobject(py)
            .map(|t| t.into_any());
    }
    Err(type_error("this dataset holds an object that cannot be pickled"))
}

fn attachment_from_py(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Any + Send + Sync>> {
    let kind: String = object.get_item(0)?.extract()?;
    Ok(match kind.as_str() {
        "array" => match value_from_py(&object.get_item(1)?)? {
            Value::Tensor(t) => Arc::new(t),
            _ => return Err(type_error("not an array")),
        },
        "function" => Arc::new(HostAttachment(Arc::new(PyFunc::new(
            object.get_item(1)?.unbind(),
            spec_from_py(&object.get_item(2)?)?,
            object.get_item(4)?.extract()?,
            spec_from_py(&object.get_item(3)?)?,
        )))),
        "generator" => Arc::new(GeneratorAttachment(Arc::new(PyGenerator {
            callable: object.get_item(1)?.unbind(),
            spec: spec_from_py(&object.get_item(2)?)?,
            resume: object.get_item(3)?.extract()?,
        }))),
        other => return Err(type_error(format!("an attachment of unknown kind {other:?}"))),
    })
}

/// Values inside of each other are a mistake if they are more: one of itself, for instance.
const MOST_NESTED: usize = 256;

/// A Python value as JSON; `other` is asked about what JSON does not have.
pub fn json_from_py(
    obj: &Bound<'_, PyAny>,
    other: &mut dyn FnMut(&Bound<'_, PyAny>) -> PyResult<Option<Json>>,
) -> PyResult<Json> {
    nested_json(obj, MOST_NESTED, other)
}

fn nested_json(
    obj: &Bound<'_, PyAny>,
    left: usize,
    other: &mut dyn FnMut(&Bound<'_, PyAny>) -> PyResult<Option<Json>>,
) -> PyResult<Json> {
    let inner = |obj: &Bound<'_, PyAny>, other: &mut dyn FnMut(&Bound<'_, PyAny>) -> PyResult<Option<Json>>| {
        let too_deep = || value_error(format!("lists and dicts inside of each other, more than {MOST_NESTED} of them"));
        nested_json(obj, left.checked_sub(1).ok_or_else(too_deep)?, other)
    };
    if obj.is_none() {
        return Ok(Json::Null);
    }
    if let Some(json) = other(obj)? {
        return Ok(json);
    }
    if obj.is_instance_of::<PyBool>() {
        return Ok(Json::Bool(obj.extract()?));
    }
    if obj.is_instance_of::<PyInt>() {
        return match obj.extract::<i64>() {
            Ok(n) => Ok(n.into()),
            Err(_) => Err(value_error(format!("{obj} does not fit into 64 bits"))),
        };
    }
    if obj.is_instance_of::<PyFloat>() {
        return number_from_py(obj.extract()?);
    }
    if let Ok(s) = obj.cast::<PyString>() {
        return Ok(s.to_cow()?.into());
    }
    if let Ok(b) = obj.cast::<PyBytes>() {
        let text = std::str::from_utf8(b.as_bytes());
        return Ok(text.map_err(|_| value_error(format!("{obj:?}: bytes must be text (UTF-8) here")))?.into());
    }
    if let Ok(dict) = obj.cast::<PyDict>() {
        let map = dict.iter().map(|(k, v)| Ok((k.extract::<String>()?, inner(&v, other)?)));
        return Ok(Json::Object(map.collect::<PyResult<_>>()?));
    }
    if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        let list = obj.try_iter()?.map(|v| inner(&v?, other)).collect::<PyResult<Vec<_>>>()?;
        return Ok(list.into());
    }
    // NumPy's whole numbers, and whatever else says that it is one.
    if let Ok(n) = obj.call_method0("__index__") {
        return Ok(n.extract::<i64>()?.into());
    }
    if let Ok(x) = obj.extract::<f64>() {
        return number_from_py(x);
    }
    Err(type_error(format!("{} of type {} is not a possible parameter", obj.repr()?, obj.get_type().name()?)))
}

/// JSON would write them as nothing.
fn number_from_py(x: f64) -> PyResult<Json> {
    if x.is_finite() { Ok(json!(x)) } else { Err(value_error(format!("{x} must be a finite number here"))) }
}

/// A state as `state_dict` gave it.
pub fn state_from_py(state: &Bound<'_, PyAny>) -> PyResult<State> {
    if state.cast::<PyDict>().is_err() {
        return Err(type_error(format!(
            "a state is the dict that state_dict() gave, not {}",
            state.get_type().name()?
        )));
    }
    // Numbers use all 64 bits.
    let number = |obj: &Bound<'_, PyAny>| match obj.is_exact_instance_of::<PyInt>() {
        true => Ok(obj.extract::<u64>().ok().map(Json::from)),
        false => Ok(None),
    };
    State::from_json(&json_from_py(state, &mut { number })?).py()
}

/// The state of all ranks of one, made of the states of each.
#[pyfunction]
pub fn merge_states<'py>(py: Python<'py>, states: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let states = states.iter().map(state_from_py).collect::<PyResult<Vec<_>>>()?;
    let json = py.detach(|| State::merge(states).and_then(|state| state.to_json()));
    json_to_py(py, &json.py()?)
}

pub fn json_to_py<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match json {
        Json::Null => py.None().into_bound(py),
        Json::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Json::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
            (Some(i), ..) => i.into_pyobject(py)?.into_any(),
            (_, Some(i), _) => i.into_pyobject(py)?.into_any(),
            (.., x) => x.unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
        },
        Json::String(s) => PyString::new(py, s).into_any(),
        Json::Array(list) => {
            PyList::new(py, list.iter().map(|v| json_to_py(py, v)).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Json::Object(map) => {
            let dict = PyDict::new(py);
            for (k, v) in map {
                dict.set_item(k, json_to_py(py, v)?)?;
            }
            dict.into_any()
        }
    })
}

/// Whether this is values, or the numbers of symbolic ones.
fn is_given(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match value.cast::<PyDict>() {
        Ok(dict) => Ok(dict.contains("values")? || dict.contains("symbols")?),
        Err(_) => Ok(false),
    }
}

/// A parameter as JSON: by its name, for those that are structures of something.
fn param_json(name: &str, value: &Bound<'_, PyAny>, attachments: &mut Attachments) -> PyResult<Json> {
    let written = |e: serde_json::Error| value_error(e.to_string());
    let numbers = |v: &Bound<'_, PyAny>| -> PyResult<Tree<usize>> { structure::tree(v, true, &mut |n| n.extract()) };
    Ok(match name {
        "spec" => serde_json::to_value(spec_from_py(value)?).map_err(written)?,
        "structure" => serde_json::to_value(numbers(value)?).map_err(written)?,
        "symbols" => json!(numbers(value)?.leaves()),
        // Values that may be symbolic, as a parameter beside others.
        "files" if is_given(value)? => {
            let parts = value.cast::<PyDict>()?.iter().map(|(k, v)| {
                let k: String = k.extract()?;
                let json = param_json(&k, &v, attachments)?;
                Ok((k, json))
            });
            Json::Object(parts.collect::<PyResult<_>>()?)
        }
        _ => json_from_py(value, &mut |obj| {
            let object: Arc<dyn Any + Send + Sync> = if let Ok(f) = obj.cast::<Function>() {
                f.get().0.clone()
            } else if let Ok(p) = obj.cast::<Packed>() {
                p.get().0.clone()
            } else {
                return Ok(None);
            };
            attachments.push(object);
            Ok(Some(json!({ "live": attachments.len() - 1 })))
        })?,
    })
}

fn make_plan(op: &str, params: &Bound<'_, PyAny>, inputs: Vec<Plan>) -> PyResult<Plan> {
    let info = feedline::ops::find(op).py()?;
    let mut attachments: Attachments = vec![];
    let params = params.cast::<PyDict>()?;
    let mut map = serde_json::Map::new();
    if op == "from_generator" {
        let need =
            |name: &str| params.get_item(name)?.ok_or_else(|| type_error(format!("from_generator: {name} is missing")));
        let generator = PyGenerator {
            callable: need("generator")?.unbind(),
            spec: spec_from_py(&need("spec")?)?,
            resume: params.get_item("resume")?.filter(|f| !f.is_none()).map(|f| f.unbind()),
        };
        attachments.push(Arc::new(GeneratorAttachment(Arc::new(generator))));
        map.insert("generator".into(), 0.into());
    } else {
        for (k, v) in params.iter() {
            let k: String = k.extract()?;
            let json = param_json(&k, &v, &mut attachments);
            // The operator and its parameter, in front of what is wrong with the value.
            let named = |e: PyErr| {
                let text = format!("{op}: {k}: {}", e.value(params.py()));
                if e.is_instance_of::<PyTypeError>(params.py()) { type_error(text) } else { value_error(text) }
            };
            let json = json.map_err(named)?;
            map.insert(k, json);
        }
    }
    let (made, _) = with_attachments(Reader::Here, attachments, || (info.read)(Json::Object(map)));
    let made = made.map_err(|e| e.in_op(op)).py()?;
    // Readers read when they are built. Others seldom do, and a thread for every `map` would cost more than the plan.
    match made.files().is_empty() {
        true => watched(params.py(), move || Plan::new(made, inputs)),
        false => apart(params.py(), move || Plan::new(made, inputs)),
    }
}

/// Whether a pass opens files before it gives anything: indexes are made, manifests read, what was kept is looked for.
fn reads(plan: &Plan) -> bool {
    let mut reads = false;
    plan.walk_all(&mut |node| reads |= !node.op.files().is_empty() || matches!(node.name(), "cache" | "snapshot"));
    reads
}

#[pyfunction]
pub fn make(op: &str, params: &Bound<'_, PyAny>, inputs: Vec<Bound<'_, PyPlan>>) -> PyResult<PyPlan> {
    // Operators on a dataset out of an element see the values that it refers to.
    let env = inputs.iter().map(|p| p.get().0.env.clone()).find(|e| !e.is_empty()).unwrap_or_else(|| Arc::new([]));
    let inputs = inputs.iter().map(|p| p.get().0.plan.clone()).collect();
    Ok(PyPlan(BoundPlan { plan: make_plan(op, params, inputs)?, env }))
}

#[pyfunction]
#[pyo3(signature = (plan, initial, function, options=None))]
pub fn reduce<'py>(
    py: Python<'py>,
    plan: &Bound<'py, PyPlan>,
    initial: &Bound<'py, Packed>,
    function: &Bound<'py, Function>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = options;
    let (plan, initial) = (plan.get().0.clone(), initial.get().0.clone());
    let function = feedline::op::Function(function.get().0.clone());
    let state =
        py.detach(|| feedline::reduce_watched(&plan, initial.values.clone(), &function, &mut look_for_signals)).py()?;
    element_to_py(py, function.spec(), state)
}
